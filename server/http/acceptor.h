/* acceptor.h - a thread that accepts connections, decides what each may request, and hands it to an
 * I/O thread.
 *
 * Beyond a limit a connection is still accepted, restricted to the server's health, as long as
 * there is one of TD_RESTRICTED_CONNECTIONS places; the oldest of the client with most of them
 * makes room. So probes are answered whatever other clients do, and a client that is refused is
 * told why.
 *
 * The first I/O thread is for the first few connections of each client: a client that opens
 * hundreds shares the other threads, and the requests of a client with few connections do not wait
 * for a round through all of those.
 *
 * A thread for all addresses: sockets on which connections wait take turns, so that a storm on one
 * of them keeps none from another.
 *
 * Ownership  Borrows the services, the proxies, the listening sockets and the I/O threads.
 * Threads    One of its own. Start and stop on the main thread.
 * Errors     Connections that cannot be accepted for lack of files or memory wait in the kernel's
 *            backlog; the log says so, at most once per second. */
#ifndef TD_SERVER_HTTP_ACCEPTOR_H
#define TD_SERVER_HTTP_ACCEPTOR_H

#include "server/calls/services.h"
#include "server/http/io_thread.h"

struct td_listeners;
struct td_proxies;
struct td_acceptor;

enum {
    TD_RESTRICTED_CONNECTIONS = 64,
    TD_ENDING = 192,        /* connections that were ended and are not yet closed, at most */
    TD_FIRST_IO_THREADS = 1 /* beside --io-threads, for clients with few connections */
};

struct td_acceptor_options {
    struct td_services *services;
    const struct td_proxies *proxies;
    const struct td_listeners *listeners; /* non-blocking */
    bool leave_waiting; /* another process will accept the connections that wait at the stop */
    struct td_io_thread *io_threads;
    int n_io_threads;
};

/* NULL without memory or a thread. */
struct td_acceptor *td_acceptor_start(const struct td_acceptor_options *options);

/* Accepts the connections that wait, unless they are left to another process, then no more. */
void td_acceptor_stop(struct td_acceptor *acceptor);

/* Stops it if it was not. NULL is fine. */
void td_acceptor_free(struct td_acceptor *acceptor);

#endif
