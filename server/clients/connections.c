#include "server/clients/connections.h"

#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <poll.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum {
    IO_THREADS = 513, /* maximum number of I/O threads */
    FIRST = 0,        /* number of the first I/O thread */
    SAMPLE = 256,     /* records examined to make room for a connection */
    SLICE = 512       /* sockets per call of poll */
};
#define LONG_WAIT_NS INT64_C(5000000000) /* a connection that waits longer than this can be ended */
#define FRESH_NS     INT64_C(1000000000) /* time within which the first request should arrive */
#define MOST_CREDIT_NS                                                                             \
    INT64_C(60000000000) /* maximum time that a transfer can stall, regardless of its rate */
#define COUNT_EACH_NS INT64_C(20000000)
#define RECENT_NS     INT64_C(1000000000) /* a client is active for this time after a request */
#define NOTE_EACH_NS  INT64_C(50000000)

struct td_connections {
    int n_sockets;
    struct td_buffer_pool *budget;
    size_t connection_bytes;
    atomic_int count, count_restricted;
    atomic_int count_on[IO_THREADS];
    atomic_int n_with_many; /* number of clients with more than TD_FEW_CONNECTIONS */
    /* Number of connections on the first I/O thread whose clients have few connections. */
    atomic_int few_on_first;
    /* Time of a request on these connections, up to NOTE_EACH_NS before the last one. */
    atomic_int_fast64_t few_request_ns;
    atomic_int_fast64_t swept_ns; /* time of the last sweep */

    pthread_mutex_t mutex; /* guards the following members */
    int end;               /* all open sockets have smaller numbers */
    /* Unrestricted connections, including ended ones. */
    int n_charged;
    int first_restricted; /* first socket of the list, or -1 */
    struct td_connection_counts counts;
    int64_t counted_ns; /* time at which phases were last counted */
    /* Indices of the next sockets that the sweep and the sample will check. */
    int swept, sampled;
    struct td_connection records[];
};

struct td_connections *td_connections_new(int n_sockets, struct td_buffer_pool *budget,
                                          size_t connection_bytes)
{
    /* calloc maps the table, so unused records take no memory. */
    struct td_connections *connections =
        calloc(1, sizeof *connections + (size_t)n_sockets * sizeof(struct td_connection));
    if (!connections)
        return NULL;
    connections->n_sockets = n_sockets;
    connections->budget = budget;
    connections->connection_bytes = connection_bytes;
    connections->first_restricted = -1;
    atomic_init(&connections->few_request_ns, -RECENT_NS);
    pthread_mutex_init(&connections->mutex, NULL);
    return connections;
}

void td_connections_free(struct td_connections *connections)
{
    if (!connections)
        return;
    for (int i = 0; i < connections->end; i++)
        td_connections_close(connections, i);
    pthread_mutex_destroy(&connections->mutex);
    free(connections);
}

bool td_connections_charge(struct td_connections *connections)
{
    return td_buffer_pool_charge_if_room(connections->budget, connections->connection_bytes);
}

void td_connections_discharge(struct td_connections *connections)
{
    td_buffer_pool_discharge(connections->budget, connections->connection_bytes);
}

/* ---- one connection ------------------------------------------------------------------------- */

static int phase_of(struct td_connection *connection)
{
    return atomic_load_explicit(&connection->phase, memory_order_acquire);
}

static void change_count(atomic_int *counter, int change)
{
    atomic_fetch_add_explicit(counter, change, memory_order_relaxed);
}

static void count_restricted(struct td_connections *connections, struct td_connection *record,
                             int change)
{
    change_count(&connections->count_restricted, change);
    if (record->client)
        change_count(&record->client->restricted, change);
}

/* Adds a socket to the list of restricted connections. The list has at most
 * TD_RESTRICTED_CONNECTIONS connections, plus connections that are ending. The caller holds the
 * mutex. */
static void list_restricted(struct td_connections *connections, int socket)
{
    connections->records[socket].next_restricted = connections->first_restricted;
    connections->first_restricted = socket;
}

static void unlist_restricted(struct td_connections *connections, int socket)
{
    int *link = &connections->first_restricted;
    while (*link != socket)
        link = &connections->records[*link].next_restricted;
    *link = connections->records[socket].next_restricted;
}

static bool has_many(const struct td_client *client)
{
    return td_client_connections(client) > TD_FEW_CONNECTIONS;
}

/* Adds the client to the sums over all clients if `sign` is 1, or removes it if `sign` is -1. */
static void sum_client(struct td_connections *connections, const struct td_client *client, int sign)
{
    if (has_many(client))
        change_count(&connections->n_with_many, sign);
    else
        change_count(&connections->few_on_first, sign * client->on_first);
}

static void count_of_client(struct td_connections *connections, const struct td_connection *record,
                            int change)
{
    struct td_client *client = record->client;
    const bool had_many = has_many(client);
    sum_client(connections, client, -1);
    change_count(&client->connections, change);
    if (record->io_thread == FIRST)
        client->on_first += change;
    sum_client(connections, client, 1);
    /* The noted request might be the client's own. Another client's next request is noted again. */
    if (has_many(client) && !had_many)
        atomic_store_explicit(&connections->few_request_ns, -RECENT_NS, memory_order_relaxed);
    if (td_client_connections(client) == 0)
        atomic_store_explicit(&client->left_first, false, memory_order_relaxed);
}

/* Adds the record to the counts if `change` is 1, or removes it if `change` is -1. The caller holds
 * the mutex. */
static void count_record(struct td_connections *connections, struct td_connection *record,
                         int change)
{
    change_count(&connections->count, change);
    change_count(&connections->count_on[record->io_thread], change);
    if (record->restriction == TD_UNRESTRICTED)
        connections->n_charged += change;
    else if (phase_of(record) != TD_CONNECTION_ENDED)
        count_restricted(connections, record, change);
    if (record->client)
        count_of_client(connections, record, change);
}

static void end_pass(struct td_connection *record)
{
    td_pass_end(&record->pass);
    td_client_unref(record->holder);
    record->holder = NULL;
}

/* Releases a record. The caller holds the mutex. */
static void release(struct td_connections *connections, struct td_connection *record)
{
    if (phase_of(record) == TD_CONNECTION_CLOSED)
        return;
    count_record(connections, record, -1);
    if (record->restriction == TD_UNRESTRICTED)
        td_connections_discharge(connections);
    else
        unlist_restricted(connections, (int)(record - connections->records));
    atomic_store_explicit(&record->phase, TD_CONNECTION_CLOSED, memory_order_release);
    td_client_unref(record->client);
    record->client = NULL;
    end_pass(record);
}

/* Returns a number that no other socket has had since the system started, or 0 if the kernel does
 * not provide it. */
static uint64_t cookie_of(int socket)
{
    uint64_t cookie = 0;
    socklen_t size = sizeof cookie;
    return getsockopt(socket, SOL_SOCKET, SO_COOKIE, &cookie, &size) == 0 ? cookie : 0;
}

bool td_connections_open(struct td_connections *connections, int socket, struct td_client *client,
                         enum td_restriction restriction, int io_thread)
{
    if (socket >= connections->n_sockets)
        return false;
    pthread_mutex_lock(&connections->mutex);
    struct td_connection *record = &connections->records[socket];
    /* The record is still in use if the library closed its socket without a report. */
    release(connections, record);
    record->client = client;
    record->restriction = restriction;
    record->io_thread = io_thread;
    record->seen_phase = TD_CONNECTION_CLOSED;
    record->acknowledged = 0;
    record->cookie = cookie_of(socket);
    record->tls_checked = 0;
    record->tls_output = NULL;
    atomic_store_explicit(&record->skipped, 0, memory_order_relaxed);
    atomic_store_explicit(&record->requested, false, memory_order_relaxed);
    atomic_store_explicit(&record->received, 0, memory_order_relaxed);
    atomic_store_explicit(&record->phase, TD_CONNECTION_ACCEPTED, memory_order_release);
    count_record(connections, record, 1);
    if (restriction != TD_UNRESTRICTED)
        list_restricted(connections, socket);
    if (socket >= connections->end)
        connections->end = socket + 1;
    pthread_mutex_unlock(&connections->mutex);
    return true;
}

void td_connections_close(struct td_connections *connections, int socket)
{
    if (socket < 0 || socket >= connections->n_sockets)
        return;
    pthread_mutex_lock(&connections->mutex);
    release(connections, &connections->records[socket]);
    pthread_mutex_unlock(&connections->mutex);
}

struct td_connection *td_connections_find(struct td_connections *connections, int socket)
{
    return &connections->records[socket];
}

bool td_connection_enter(struct td_connection *connection, enum td_phase phase, int64_t now_ns)
{
    int before = phase_of(connection);
    atomic_store_explicit(&connection->since_ns, now_ns, memory_order_relaxed);
    if (phase == TD_CONNECTION_RECEIVING) {
        atomic_store_explicit(&connection->received, 0, memory_order_relaxed);
        atomic_store_explicit(&connection->requested, true, memory_order_relaxed);
    }
    do
        if (before == TD_CONNECTION_ENDED)
            return false;
    while (!atomic_compare_exchange_weak_explicit(&connection->phase, &before, phase,
                                                  memory_order_acq_rel, memory_order_acquire));
    return true;
}

void td_connection_received(struct td_connection *connection, size_t bytes)
{
    const uint64_t before = atomic_load_explicit(&connection->received, memory_order_relaxed);
    atomic_store_explicit(&connection->received, before + bytes, memory_order_relaxed);
}

void td_connection_wait(struct td_connection *connection)
{
    /* The value must be distinct but need not be exact, because a sweep uses it to tell phases
     * apart. */
    const int64_t before = atomic_load_explicit(&connection->since_ns, memory_order_relaxed);
    (void)td_connection_enter(connection, TD_CONNECTION_WAITING, before + 1);
}

int td_connections_count(const struct td_connections *connections)
{
    return atomic_load_explicit(&connections->count, memory_order_relaxed);
}

int td_connections_count_restricted(const struct td_connections *connections)
{
    return atomic_load_explicit(&connections->count_restricted, memory_order_relaxed);
}

void td_connections_note_request(struct td_connections *connections,
                                 const struct td_connection *connection, int64_t now_ns)
{
    if (connection->io_thread != FIRST || !connection->client || has_many(connection->client))
        return;
    /* Other threads read the time for each request, so it changes rarely. */
    if (now_ns - atomic_load_explicit(&connections->few_request_ns, memory_order_relaxed) >
        NOTE_EACH_NS)
        atomic_store_explicit(&connections->few_request_ns, now_ns, memory_order_relaxed);
}

bool td_connections_first_is_wanted(const struct td_connections *connections)
{
    return atomic_load_explicit(&connections->n_with_many, memory_order_relaxed) > 0 &&
           atomic_load_explicit(&connections->few_on_first, memory_order_relaxed) > 0 &&
           atomic_load_explicit(&connections->swept_ns, memory_order_relaxed) -
                   atomic_load_explicit(&connections->few_request_ns, memory_order_relaxed) <
               RECENT_NS;
}

/* True if a request has arrived that the I/O thread has not read yet. Returns false at the end of
 * the stream. */
static bool has_unread(int socket)
{
    char first;
    return recv(socket, &first, 1, MSG_PEEK | MSG_DONTWAIT) == 1;
}

bool td_connections_should_move(const struct td_connections *connections,
                                const struct td_connection *connection)
{
    return connection->io_thread == FIRST && connection->client && has_many(connection->client) &&
           td_connections_first_is_wanted(connections) &&
           !has_unread((int)(connection - connections->records));
}

int td_connections_count_on(const struct td_connections *connections, int io_thread)
{
    return atomic_load_explicit(&connections->count_on[io_thread], memory_order_relaxed);
}

/* ---- ending connections, under the mutex ---------------------------------------------------- */

/* Claims a connection that is still in this phase, so its I/O thread sends nothing more. */
static bool claim(struct td_connections *connections, int socket, int phase)
{
    struct td_connection *record = &connections->records[socket];
    if (!atomic_compare_exchange_strong_explicit(&record->phase, &phase, TD_CONNECTION_ENDED,
                                                 memory_order_acq_rel, memory_order_acquire))
        return false;
    if (record->restriction != TD_UNRESTRICTED)
        count_restricted(connections, record, -1);
    return true;
}

/* Ends a connection that is still in this phase. The socket then reports its end to the I/O
 * thread. */
static bool end_connection(struct td_connections *connections, int socket, int phase)
{
    const bool ends = claim(connections, socket, phase);
    if (ends)
        (void)shutdown(socket, SHUT_RDWR);
    return ends;
}

/* True if a waiting connection can be ended to make room for a connection of `client`, which has
 * `own` connections. Returns false for restricted connections, because they do not occupy the
 * places that are needed. */
static bool may_make_room(struct td_connection *record, const struct td_client *client, int own,
                          int64_t waited_ns)
{
    if (record->restriction != TD_UNRESTRICTED)
        return false;
    const int more = td_client_connections(record->client) - own;
    const bool is_fresh =
        waited_ns < FRESH_NS && !atomic_load_explicit(&record->requested, memory_order_relaxed);
    return waited_ns > LONG_WAIT_NS ||
           (record->client != client && more > 0 && (more > 1 || !is_fresh));
}

bool td_connections_make_room(struct td_connections *connections, const struct td_client *client,
                              int64_t now_ns)
{
    const int own = td_client_connections(client);
    int best = -1, most = 0;
    int64_t oldest = 0;
    pthread_mutex_lock(&connections->mutex);
    for (int i = 0; i < SAMPLE && i < connections->end; i++) {
        const int socket = connections->sampled = (connections->sampled + 1) % connections->end;
        struct td_connection *record = &connections->records[socket];
        const int64_t since = atomic_load_explicit(&record->since_ns, memory_order_relaxed);
        const int count = td_client_connections(record->client);
        const bool may_end = phase_of(record) == TD_CONNECTION_WAITING &&
                             may_make_room(record, client, own, now_ns - since);
        const bool is_better = best < 0 || count > most || (count == most && since < oldest);
        if (!may_end || !is_better || has_unread(socket))
            continue;
        best = socket;
        most = count;
        oldest = since;
    }
    const bool ended = best >= 0 && end_connection(connections, best, TD_CONNECTION_WAITING);
    pthread_mutex_unlock(&connections->mutex);
    return ended;
}

static int restricted_of(const struct td_connection *record)
{
    return record->client ? atomic_load_explicit(&record->client->restricted, memory_order_relaxed)
                          : 0;
}

/* Returns the largest number of restricted connections that a single client has. */
static int most_restricted(const struct td_connections *connections)
{
    int most = 0;
    for (int socket = connections->first_restricted; socket >= 0;
         socket = connections->records[socket].next_restricted) {
        const int count = restricted_of(&connections->records[socket]);
        most = count > most ? count : most;
    }
    return most;
}

bool td_connections_end_restricted(struct td_connections *connections, bool also_requested)
{
    int best = -1, phase = 0;
    int64_t oldest = INT64_MAX;
    pthread_mutex_lock(&connections->mutex);
    const int most = most_restricted(connections);
    for (int socket = connections->first_restricted; socket >= 0;
         socket = connections->records[socket].next_restricted) {
        struct td_connection *record = &connections->records[socket];
        const int64_t since = atomic_load_explicit(&record->since_ns, memory_order_relaxed);
        const int now = phase_of(record);
        const bool may_end = now == TD_CONNECTION_WAITING || now == TD_CONNECTION_RECEIVING;
        if (!may_end || restricted_of(record) < most || since >= oldest ||
            (!also_requested && has_unread(socket)))
            continue;
        best = socket;
        phase = now;
        oldest = since;
    }
    const bool ended = best >= 0 && end_connection(connections, best, phase);
    pthread_mutex_unlock(&connections->mutex);
    return ended;
}

/* ---- sweeps, under the mutex ---------------------------------------------------------------- */

/* Stores the kernel's byte counts of a connection. Returns false if the socket is not a TCP
 * socket. */
static bool transferred(int socket, uint64_t *received, uint64_t *acknowledged)
{
    struct tcp_info info;
    socklen_t size = sizeof info;
    if (getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) != 0 ||
        size < offsetof(struct tcp_info, tcpi_bytes_received) + sizeof info.tcpi_bytes_received)
        return false;
    *received = info.tcpi_bytes_received;
    *acknowledged = info.tcpi_bytes_acked;
    return true;
}

void td_connection_skip_read(struct td_connection *connection, int socket)
{
    uint64_t received, acknowledged;
    /* Query this last, so bytes that arrive in between are counted toward the request. */
    int unread;
    if (transferred(socket, &received, &acknowledged) && ioctl(socket, FIONREAD, &unread) == 0)
        atomic_store_explicit(&connection->skipped,
                              (uint64_t)unread < received ? received - (uint64_t)unread : 0,
                              memory_order_relaxed);
}

/* State of one look of a sweep at a connection that is waiting, receiving or sending. */
struct look {
    int phase;
    int64_t since_ns; /* start of the phase */
    uint64_t bytes;   /* bytes received, or acknowledged bytes of replies */
    uint64_t before;  /* acknowledged bytes of replies at the previous look */
    bool is_first;    /* true for the first look at this phase */
    int64_t now_ns;
    const struct td_progress_limits *limits;
};

/* Updates the credit. Each byte adds the time that it takes at the minimum rate. Returns true if
 * the credit is used up. */
static bool is_out_of_credit(struct td_connection *record, const struct look *look)
{
    const uint64_t min_rate = look->limits->min_rate;
    if (min_rate == 0)
        return false;
    const double earned_ns = (double)(look->bytes - record->seen_bytes) * 1e9 / (double)min_rate;
    const double credit_ns =
        (double)record->credit_ns + earned_ns - (double)(look->now_ns - record->seen_ns);
    record->credit_ns = credit_ns > MOST_CREDIT_NS ? MOST_CREDIT_NS : (int64_t)credit_ns;
    record->seen_ns = look->now_ns;
    record->seen_bytes = look->bytes;
    return credit_ns < 0;
}

static bool body_is_slow(struct td_connection *record, const struct look *look)
{
    if (look->is_first) {
        record->seen_ns = look->since_ns;
        record->seen_bytes = 0;
        record->credit_ns = look->limits->header_timeout_ns;
    }
    return is_out_of_credit(record, look);
}

/* True if the client reads the reply too slowly. The start of the reply is not known, but a sweep
 * has seen the reply within a second of its start. Bytes acknowledged before that sweep also count,
 * because they might be all that fits into the client's memory. */
static bool reply_is_slow(struct td_connection *record, const struct look *look)
{
    if (record->is_unix)
        return false; /* the rate is not known */
    if (look->is_first) {
        record->seen_ns = look->now_ns;
        record->seen_bytes = look->before;
        record->credit_ns = look->limits->header_timeout_ns;
    }
    return is_out_of_credit(record, look);
}

/* True if the headers of a request are late. Their time limit starts with the first bytes of the
 * request. For a used connection, the byte count of earlier requests is not known until a sweep
 * sees the connection waiting again. On a new connection, earlier bytes belong to the handshake,
 * which has the same time limit. */
static bool headers_are_late(struct td_connection *record, const struct look *look)
{
    const int64_t timeout_ns = look->limits->header_timeout_ns;
    const uint64_t skipped = atomic_load_explicit(&record->skipped, memory_order_relaxed);
    const bool is_used = atomic_load_explicit(&record->requested, memory_order_relaxed);
    if (look->is_first) {
        record->seen_ns = 0;
        record->seen_bytes = is_used ? look->bytes : skipped;
    }
    if (!is_used && skipped > record->seen_bytes) { /* an earlier look saw the handshake */
        record->seen_ns = 0;
        record->seen_bytes = skipped;
    }
    if (record->seen_ns == 0 && look->bytes > record->seen_bytes)
        record->seen_ns = look->now_ns;
    return timeout_ns > 0 && record->seen_ns > 0 && look->now_ns - record->seen_ns > timeout_ns;
}

static bool is_idle(struct td_connection *record, const struct look *look)
{
    const int64_t timeout_ns = look->limits->idle_timeout_ns;
    if (look->is_first || look->bytes != record->moved_bytes) {
        record->moved_bytes = look->bytes;
        record->moved_ns = look->now_ns;
    }
    return timeout_ns > 0 && look->now_ns - record->moved_ns > timeout_ns;
}

/* True if the connection must end. Sets *sentence to the reason that the client is told, or to NULL
 * if the client gets no reply. */
static bool has_no_progress(struct td_connection *record, const struct look *look,
                            const char **sentence)
{
    *sentence = NULL;
    if (look->phase == TD_CONNECTION_RECEIVING && body_is_slow(record, look))
        *sentence = "the body arrives more slowly than --min-rate allows";
    else if (look->phase == TD_CONNECTION_WAITING && headers_are_late(record, look))
        *sentence = "the headers did not arrive within --header-timeout-ms";
    return *sentence || (look->phase == TD_CONNECTION_SENDING && reply_is_slow(record, look)) ||
           is_idle(record, look);
}

/* Stores the number of bytes that the client of a Unix socket has not read yet, which changes while
 * the client reads. Stores 0 for a waiting connection. */
static bool progress_of_unix(int socket, int phase, uint64_t *bytes)
{
    int unread = 0;
    if (phase == TD_CONNECTION_SENDING && ioctl(socket, SIOCOUTQ, &unread) != 0)
        return false;
    *bytes = (uint64_t)unread;
    return true;
}

/* Stores the number of bytes that the client has sent, or has acknowledged of a reply. Returns
 * false if the connection is not waiting for its client. */
static bool progress_of(struct td_connection *record, int socket, int phase, uint64_t *bytes)
{
    uint64_t received, acknowledged;
    if (phase == TD_CONNECTION_RECEIVING) {
        *bytes = atomic_load_explicit(&record->received, memory_order_relaxed);
        return true;
    }
    if (phase != TD_CONNECTION_WAITING && phase != TD_CONNECTION_SENDING)
        return false;
    if (record->is_unix)
        return progress_of_unix(socket, phase, bytes);
    if (!transferred(socket, &received, &acknowledged))
        return false;
    *bytes = phase == TD_CONNECTION_SENDING ? acknowledged : received;
    record->acknowledged = acknowledged;
    return true;
}

/* Looks at a connection, and ends it if it makes no progress. The phase can change between the two
 * loads, so one look might mistake one phase for another. The next look therefore compares both
 * values. */
static void look_at(struct td_connections *connections, int socket,
                    const struct td_progress_limits *limits, int64_t now_ns)
{
    struct td_connection *record = &connections->records[socket];
    struct look look = { .phase = phase_of(record), .now_ns = now_ns, .limits = limits };
    const char *sentence;
    look.before = record->acknowledged;
    look.since_ns = atomic_load_explicit(&record->since_ns, memory_order_relaxed);
    look.is_first = record->seen_phase != look.phase || record->seen_since_ns != look.since_ns;
    record->seen_phase = look.phase;
    record->seen_since_ns = look.since_ns;
    if (!progress_of(record, socket, look.phase, &look.bytes) ||
        !has_no_progress(record, &look, &sentence) || !claim(connections, socket, look.phase))
        return;
    if (sentence)
        limits->refuse(limits->context, socket, sentence);
    (void)shutdown(socket, SHUT_RDWR);
}

/* Shuts down the reading side of sockets whose client has closed its side, so the library notices
 * the end of the stream. */
static void wake_closed(const struct pollfd *pollers, int count)
{
    for (int i = 0; i < count; i++)
        if (pollers[i].revents & POLLRDHUP)
            (void)shutdown(pollers[i].fd, SHUT_RD);
}

/* True if the library has closed the socket of a connection that no I/O thread has taken over. */
static bool is_lost(struct td_connection *record, int socket)
{
    return phase_of(record) == TD_CONNECTION_ACCEPTED && record->cookie != 0 &&
           cookie_of(socket) != record->cookie;
}

/* Looks at the sockets from `begin` to `end`. */
static void sweep(struct td_connections *connections, const struct td_progress_limits *limits,
                  int64_t now_ns, int begin, int end)
{
    struct pollfd pollers[SLICE];
    int count = 0;
    for (int socket = begin; socket < end; socket++) {
        struct td_connection *record = &connections->records[socket];
        if (is_lost(record, socket))
            release(connections, record);
        const int phase = phase_of(record);
        if (phase != TD_CONNECTION_CLOSED && phase != TD_CONNECTION_ACCEPTED) {
            look_at(connections, socket, limits, now_ns);
            pollers[count++] = (struct pollfd){ .fd = socket, .events = POLLRDHUP };
        }
        if (count == SLICE || (socket == end - 1 && count > 0)) {
            if (poll(pollers, (nfds_t)count, 0) > 0)
                wake_closed(pollers, count);
            count = 0;
        }
    }
}

void td_connections_sweep(struct td_connections *connections,
                          const struct td_progress_limits *limits, int64_t now_ns, int parts)
{
    atomic_store_explicit(&connections->swept_ns, now_ns, memory_order_relaxed);
    pthread_mutex_lock(&connections->mutex);
    const int part = connections->end / parts + 1;
    if (connections->swept >= connections->end)
        connections->swept = 0;
    const int begin = connections->swept;
    const int end = begin + part < connections->end ? begin + part : connections->end;
    sweep(connections, limits, now_ns, begin, end);
    connections->swept = end;
    pthread_mutex_unlock(&connections->mutex);
}

/* Counts the connections in each phase. The caller holds the mutex. */
static void count_phases(struct td_connections *connections)
{
    struct td_connection_counts counts = { 0 };
    for (int i = 0; i < connections->end; i++) {
        const int phase = phase_of(&connections->records[i]);
        counts.waiting += phase == TD_CONNECTION_WAITING || phase == TD_CONNECTION_ACCEPTED;
        counts.receiving += phase == TD_CONNECTION_RECEIVING;
        counts.working += phase == TD_CONNECTION_WORKING;
        counts.sending += phase == TD_CONNECTION_SENDING;
    }
    connections->counts = counts;
}

struct td_connection_counts td_connections_counts(struct td_connections *connections,
                                                  int64_t now_ns)
{
    pthread_mutex_lock(&connections->mutex);
    if (connections->counted_ns == 0 || now_ns - connections->counted_ns > COUNT_EACH_NS) {
        count_phases(connections);
        connections->counted_ns = now_ns;
    }
    struct td_connection_counts counts = connections->counts;
    counts.open = td_connections_count(connections);
    counts.restricted = td_connections_count_restricted(connections);
    counts.memory_bytes = connections->connection_bytes * (uint64_t)connections->n_charged;
    pthread_mutex_unlock(&connections->mutex);
    return counts;
}
