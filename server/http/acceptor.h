/* acceptor.h - a thread that accepts connections, decides what each may request, and hands each to
 * an I/O thread.
 *
 * A connection that exceeds a limit is still accepted, but can only ask for the server's health.
 * There are TD_RESTRICTED_CONNECTIONS places for restricted connections. If all are in use, the
 * acceptor finds the client with the most restricted connections and ends the oldest of these.
 * Health probes are therefore answered whatever other clients do, and a refused client is told why.
 *
 * The first I/O thread serves the first few connections of each client. A client with hundreds of
 * connections uses the other threads, so the requests of a client with few connections do not wait
 * for a round through all of its connections. Its first connections leave the first I/O thread when
 * a client with few connections needs it (td_connections_should_move).
 *
 * One thread accepts connections for all addresses. The sockets take turns, so a storm of
 * connections on one socket does not block the others.
 *
 * Ownership  Borrows the services, the proxies, the listening sockets and the I/O threads.
 * Threads    The module has one thread. The main thread calls start and stop.
 * Errors     While file descriptors or memory are scarce, connections wait in the kernel's backlog.
 *            This is logged at most once per second. */
#ifndef TD_SERVER_HTTP_ACCEPTOR_H
#define TD_SERVER_HTTP_ACCEPTOR_H

#include "server/calls/services.h"
#include "server/http/io_thread.h"

struct td_listeners;
struct td_proxies;
struct td_acceptor;

enum {
    TD_RESTRICTED_CONNECTIONS = 64,
    TD_ENDING = 192, /* maximum number of ended connections that are not closed yet */
    /* Number of additional I/O threads, which serve clients with few connections. */
    TD_FIRST_IO_THREADS = 1
};

struct td_acceptor_options {
    struct td_services *services;
    const struct td_proxies *proxies;
    const struct td_listeners *listeners; /* non-blocking */
    bool leave_waiting; /* at the stop, leave waiting connections to another process */
    struct td_io_thread *io_threads;
    int n_io_threads;
    /* Number of I/O threads without TLS, the last ones, which serve only Unix sockets. If 0, all
     * threads serve all sockets. */
    int n_plain_threads;
};

/* Returns NULL if no memory, file or thread is available. */
struct td_acceptor *td_acceptor_start(const struct td_acceptor_options *options);

/* Stops accepting connections. First accepts the waiting connections, unless they are left to
 * another process. */
void td_acceptor_stop(struct td_acceptor *acceptor);

/* Stops the acceptor if it is running, and frees it. NULL is allowed. */
void td_acceptor_free(struct td_acceptor *acceptor);

#endif
