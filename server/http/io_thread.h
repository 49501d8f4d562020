/* io_thread.h - a thread that runs an instance of libmicrohttpd.
 *
 * The library could run its own thread. This thread also suspends new connections for their
 * handshakes, between two rounds of the library, because the library's callback for a new
 * connection cannot suspend it (handshakes.h).
 *
 * Ownership  Borrows the library and the handshakes. After td_io_thread_stop, the caller stops the
 *            library.
 * Threads    The main thread calls start and stop. */
#ifndef TD_SERVER_HTTP_IO_THREAD_H
#define TD_SERVER_HTTP_IO_THREAD_H

#include "kernels/status.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

struct MHD_Daemon;
struct td_handshake;
struct td_handshakes;

struct td_io_thread {
    struct MHD_Daemon *library;
    struct td_handshakes *handshakes; /* NULL without TLS */
    pthread_t thread;
    bool running;
    atomic_bool stopping;
    int waker; /* socket that wakes the thread for its stop */

    /* New connections of this round. Used by the thread. */
    struct td_handshake *prepared;
    /* Only the thread uses the following members, which share no cache line with other threads'
     * data. */
    /* Number of answered requests, and of requests that were queued. */
    _Alignas(64) unsigned requests;
    /* True if the thread has the time slices of TD_FIRST_SLICE_NS. */
    bool has_short_slices;
};

/* Returns false if no thread or socket is available. The memory of the thread must be zero. */
TD_MUST_CHECK bool td_io_thread_start(struct td_io_thread *thread, struct MHD_Daemon *library,
                                      struct td_handshakes *handshakes);

/* Ends the thread after its current round. Connections stay open. */
void td_io_thread_stop(struct td_io_thread *thread);

bool td_io_thread_is_stopping(const struct td_io_thread *thread);

#endif
