#include "server/http/acceptor.h"

#include "server/clients/connections.h"
#include "server/http/listener.h"
#include "server/http/proxies.h"
#include "server/observe/clock.h"

#include <sys/eventfd.h>
#include <sys/socket.h>

#include <errno.h>
#include <microhttpd.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    LONGEST_WAIT_MS = 100, /* maximum wait for a place for a restricted connection */
    PAUSE_MS = 10, /* interval between attempts to accept while files or memory are scarce */
    /* Maximum number of connections accepted on one socket before the next socket's turn. */
    TURN = 16
};
#define LOG_EACH_NS INT64_C(1000000000)

struct td_acceptor {
    struct td_acceptor_options options;
    pthread_t thread;
    int wake;             /* eventfd that stops the thread */
    atomic_bool stopping; /* no more connections are accepted, not even waiting connections */
    bool running;         /* the thread has not been joined */
    int64_t logged_ns;    /* time at which a failure was last logged */
};

/* Logs a failure, at most once per second. */
static void log_failure(struct td_acceptor *acceptor, const char *event, const char *reason)
{
    const struct td_services *services = acceptor->options.services;
    const int64_t now = td_now_ns();
    if (now - acceptor->logged_ns < LOG_EACH_NS)
        return;
    acceptor->logged_ns = now;
    td_log(&services->log, TD_LOG_WARN, event, TD_TEXT("reason", reason),
           TD_INT("connections", td_connections_count(services->connections)));
}

/* ---- placing a connection ------------------------------------------------------------------ */

/* True if the first I/O thread should serve the client's next connection. Without left_first, a
 * client with a pool of nine connections would close and reopen eight of them again and again. */
static bool belongs_on_first(const struct td_client *client)
{
    return client && td_client_connections(client) < TD_FEW_CONNECTIONS &&
           !atomic_load_explicit(&client->left_first, memory_order_relaxed);
}

/* Returns the I/O thread with the fewest connections from `begin` to before `end`. */
static int least_busy(const struct td_connections *connections, int begin, int end)
{
    int least = end - 1;
    for (int i = least - 1; i >= begin; i--)
        if (td_connections_count_on(connections, i) < td_connections_count_on(connections, least))
            least = i;
    return least;
}

/* Returns the I/O thread with the fewest connections. For a client that belongs on the first I/O
 * thread, returns that thread instead, unless it has more than its share. If I/O threads without
 * TLS exist, connections on Unix sockets go to them. */
static int choose_io_thread(const struct td_acceptor *acceptor, const struct td_client *client,
                            bool is_unix)
{
    const struct td_acceptor_options *options = &acceptor->options;
    const struct td_connections *connections = options->services->connections;
    const int end = options->n_io_threads - options->n_plain_threads;
    if (is_unix && options->n_plain_threads > 0)
        return least_busy(connections, end, options->n_io_threads);
    const int least = least_busy(connections, TD_FIRST_IO_THREADS, end);
    const int more =
        td_connections_count_on(connections, 0) - td_connections_count_on(connections, least);
    return belongs_on_first(client) && more <= TD_FEW_CONNECTIONS ? 0 : least;
}

/* True if there is a place for an unrestricted connection. At --connection-limit, another
 * connection can be ended to make room. Ended connections count until their I/O threads have closed
 * them. */
static bool has_place(const struct td_services *services, const struct td_client *client)
{
    const int open = services->connection_limits.open;
    const int count = td_connections_count(services->connections);
    return count < open || (count < open + TD_ENDING / 2 &&
                            td_connections_make_room(services->connections, client, td_now_ns()));
}

/* Returns the limit that a new connection of the client exceeds. If the connection exceeds no
 * limit, charges its memory. */
static enum td_restriction restriction_of(const struct td_services *services,
                                          const struct td_client *client)
{
    const struct td_connection_limits *limits = &services->connection_limits;
    if (td_client_connections(client) >= limits->per_client)
        return td_connections_count(services->connections) < limits->open ? TD_CLIENT_REACHED
                                                                          : TD_CONNECTIONS_REACHED;
    if (!has_place(services, client))
        return TD_CONNECTIONS_REACHED;
    return td_connections_charge(services->connections) ? TD_UNRESTRICTED : TD_MEMORY_REACHED;
}

/* Makes a place for a restricted connection. If all places are in use, ends another restricted
 * connection. Returns false if no restricted connection can be ended now, because all of them are
 * about to be handed over, answered or closed. */
static bool make_restricted_place(const struct td_services *services, bool also_requested)
{
    struct td_connections *connections = services->connections;
    const int most = services->connection_limits.open + TD_RESTRICTED_CONNECTIONS + TD_ENDING;
    return td_connections_count(connections) < most &&
           (td_connections_count_restricted(connections) < TD_RESTRICTED_CONNECTIONS ||
            td_connections_end_restricted(connections, also_requested));
}

/* Waits for a place for a restricted connection. A storm of restricted connections is therefore
 * accepted no faster than the I/O threads take connections over, answer requests that have arrived,
 * and close ended connections. */
static bool wait_for_restricted_place(const struct td_services *services)
{
    for (int ms = 0; ms < LONGEST_WAIT_MS; ms++) {
        if (make_restricted_place(services, false))
            return true;
        (void)poll(NULL, 0, 1);
    }
    return make_restricted_place(services, true);
}

/* Hands the connection to an I/O thread, which owns the socket from then on. Closes the socket if
 * there is no place for the connection. */
static void admit(struct td_acceptor *acceptor, const struct td_listener *listener, int socket,
                  const struct sockaddr_storage *address, socklen_t length)
{
    struct td_services *services = acceptor->options.services;
    const bool is_unix = td_listener_is_unix(&listener->bound);
    const struct td_peer peer = td_peer_of(socket, (const struct sockaddr *)address);
    struct td_client_key key;
    const bool forwards = td_proxies_trust(acceptor->options.proxies, &peer);
    struct td_client *client =
        !forwards && td_peer_key(&peer, &key) ? td_clients_find(services->clients, &key) : NULL;
    const enum td_restriction restriction = restriction_of(services, client);
    const int io_thread = choose_io_thread(acceptor, client, is_unix);
    if ((restriction != TD_UNRESTRICTED && !wait_for_restricted_place(services)) ||
        !td_connections_open(services->connections, socket, client, restriction, io_thread)) {
        if (restriction == TD_UNRESTRICTED)
            td_connections_discharge(services->connections);
        td_client_unref(client);
        close(socket);
        log_failure(acceptor, "connection_refused", "no place for it");
        return;
    }
    struct td_connection *record = td_connections_find(services->connections, socket);
    record->peer = peer;
    record->forwards = forwards;
    record->loopback = td_listener_is_loopback(&listener->bound);
    record->is_unix = is_unix;
    if (MHD_add_connection(acceptor->options.io_threads[io_thread].library, socket,
                           (const struct sockaddr *)address, length) != MHD_YES)
        td_connections_close(services->connections, socket); /* the library has closed the socket */
}

/* ---- accepting ------------------------------------------------------------------------------ */

/* True if the error concerns only the connection that was to be accepted, not the server: see
 * accept(2). */
static bool concerns_one_connection(int error)
{
    return error == ECONNABORTED || error == EINTR || error == EPROTO || error == ENETDOWN ||
           error == ENOPROTOOPT || error == EHOSTDOWN || error == EHOSTUNREACH ||
           error == EOPNOTSUPP || error == ENETUNREACH || error == EPERM;
}

/* Accepts at most TURN of the connections that wait on the socket. Sets *more if more connections
 * might be waiting. Returns false if a connection cannot be accepted now. */
static bool accept_some(struct td_acceptor *acceptor, const struct td_listener *listener,
                        bool *more)
{
    for (int i = 0; i < TURN; i++) {
        struct sockaddr_storage address;
        socklen_t length = sizeof address;
        if (atomic_load_explicit(&acceptor->stopping, memory_order_relaxed))
            return true;
        const int socket = accept4(listener->fd, (struct sockaddr *)&address, &length,
                                   SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (socket >= 0) {
            admit(acceptor, listener, socket, &address, length);
        } else if (errno == EAGAIN) {
            return true;
        } else if (!concerns_one_connection(errno)) {
            log_failure(acceptor, "accept_failed", strerror(errno));
            return false;
        }
    }
    *more = true;
    return true;
}

/* Accepts all waiting connections. Returns false if a connection cannot be accepted now. */
static bool accept_all(struct td_acceptor *acceptor)
{
    const struct td_listeners *listeners = acceptor->options.listeners;
    bool more = true;
    while (more) {
        more = false;
        for (int i = 0; i < listeners->n; i++)
            if (!accept_some(acceptor, &listeners->all[i], &more))
                return false;
    }
    return true;
}

static void *run(void *context)
{
    struct td_acceptor *acceptor = context;
    const struct td_listeners *listeners = acceptor->options.listeners;
    struct pollfd pollers[1 + TD_MOST_ADDRESSES] = { { .fd = acceptor->wake, .events = POLLIN } };
    const nfds_t n = 1 + (nfds_t)listeners->n;
    bool paused = false;
    (void)pthread_setname_np(pthread_self(), "acceptor");
    while (!(pollers[0].revents & POLLIN)) {
        for (int i = 0; i < listeners->n; i++)
            pollers[1 + i] =
                (struct pollfd){ .fd = listeners->all[i].fd, .events = paused ? 0 : POLLIN };
        if (poll(pollers, n, paused ? PAUSE_MS : -1) < 0)
            pollers[0].revents = 0; /* interrupted */
        paused = !accept_all(acceptor);
    }
    return NULL;
}

struct td_acceptor *td_acceptor_start(const struct td_acceptor_options *options)
{
    struct td_acceptor *acceptor = calloc(1, sizeof *acceptor);
    if (!acceptor)
        return NULL;
    acceptor->options = *options;
    acceptor->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    acceptor->running =
        acceptor->wake >= 0 && pthread_create(&acceptor->thread, NULL, run, acceptor) == 0;
    if (acceptor->running)
        return acceptor;
    td_acceptor_free(acceptor);
    return NULL;
}

void td_acceptor_stop(struct td_acceptor *acceptor)
{
    const uint64_t one = 1;
    if (!acceptor->running)
        return;
    if (acceptor->options.leave_waiting)
        atomic_store_explicit(&acceptor->stopping, true, memory_order_relaxed);
    const bool woken = write(acceptor->wake, &one, sizeof one) == sizeof one;
    (void)woken; /* fails only if the counter is full, and then the thread wakes anyway */
    pthread_join(acceptor->thread, NULL);
    acceptor->running = false;
}

void td_acceptor_free(struct td_acceptor *acceptor)
{
    if (!acceptor)
        return;
    td_acceptor_stop(acceptor);
    if (acceptor->wake >= 0)
        close(acceptor->wake);
    free(acceptor);
}
