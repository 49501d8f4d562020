#include "server/clients/connections.h"
#include "tests/support/eventually.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N_SOCKETS = 4096, CONNECTION_BYTES = 1000, MEMORY = 2 << 20 };
#define SECOND INT64_C(1000000000)

static struct td_buffer_pool *budget;
static struct td_clients *clients;
static struct td_connections *connections;

static void set_up(void)
{
    budget = td_buffer_pool_new(MEMORY, 0);
    clients = td_clients_new(1);
    connections = td_connections_new(N_SOCKETS, budget, CONNECTION_BYTES);
    ck_assert(budget && clients && connections);
}

static void tear_down(void)
{
    td_connections_free(connections);
    ck_assert_uint_eq(td_buffer_pool_usage(budget).in_use, 0);
    td_clients_free(clients);
    td_buffer_pool_free(budget);
}

/* A client with a new reference. */
static struct td_client *client_named(uint8_t name)
{
    const struct td_client_key key = { .bytes = { name } };
    return td_clients_find(clients, &key);
}

static bool open_connection(int socket, struct td_client *client, enum td_restriction restriction,
                            int io_thread)
{
    if (restriction == TD_UNRESTRICTED)
        ck_assert(td_connections_charge(connections));
    if (td_connections_open(connections, socket, client, restriction, io_thread))
        return true;
    if (restriction == TD_UNRESTRICTED)
        td_connections_discharge(connections);
    return false;
}

static struct td_connection_counts counts_now(void)
{
    static int64_t later_ns = 0;
    return td_connections_counts(connections, later_ns += SECOND);
}

/* Both ends of a TCP connection, ours in an edge-triggered epoll set as in libmicrohttpd. */
struct pair {
    int ours, theirs, epoll;
};

static struct pair pair_open(void)
{
    struct pair pair;
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t length = sizeof address;
    const int listener = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert_int_eq(bind(listener, (struct sockaddr *)&address, length), 0);
    ck_assert_int_eq(listen(listener, 1), 0);
    ck_assert_int_eq(getsockname(listener, (struct sockaddr *)&address, &length), 0);
    pair.theirs = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert_int_eq(connect(pair.theirs, (struct sockaddr *)&address, length), 0);
    pair.ours = accept(listener, NULL, NULL);
    ck_assert_int_ge(pair.ours, 0);
    close(listener);
    pair.epoll = epoll_create1(0);
    struct epoll_event event = { .events = EPOLLIN | EPOLLET };
    ck_assert_int_eq(epoll_ctl(pair.epoll, EPOLL_CTL_ADD, pair.ours, &event), 0);
    return pair;
}

static struct pair pair_open_unix(void)
{
    struct pair pair;
    int ends[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    pair.ours = ends[0];
    pair.theirs = ends[1];
    pair.epoll = epoll_create1(0);
    struct epoll_event event = { .events = EPOLLIN | EPOLLET };
    ck_assert_int_eq(epoll_ctl(pair.epoll, EPOLL_CTL_ADD, pair.ours, &event), 0);
    return pair;
}

/* A connection on a Unix socket that waits for its first request since the time 1 s. */
static struct pair unix_pair_waiting(void)
{
    struct pair pair = pair_open_unix();
    ck_assert(open_connection(pair.ours, NULL, TD_UNRESTRICTED, 0));
    struct td_connection *record = td_connections_find(connections, pair.ours);
    record->is_unix = true;
    ck_assert(td_connection_enter(record, TD_CONNECTION_WAITING, SECOND));
    return pair;
}

/* A connection that waits for its first request since the time 1 s. */
static struct pair pair_waiting(struct td_client *client, enum td_restriction restriction)
{
    struct pair pair = pair_open();
    ck_assert(open_connection(pair.ours, client, restriction, 0));
    ck_assert(td_connection_enter(td_connections_find(connections, pair.ours),
                                  TD_CONNECTION_WAITING, SECOND));
    return pair;
}

static void pair_close(struct pair *pair)
{
    td_connections_close(connections, pair->ours);
    close(pair->ours);
    close(pair->theirs);
    close(pair->epoll);
}

/* Has there been an edge since the last call? Waits for one that is expected. */
static bool has_edge(const struct pair *pair, bool expected)
{
    struct epoll_event event;
    return epoll_wait(pair->epoll, &event, 1, expected ? -1 : 0) == 1;
}

static size_t bytes_unread(const struct pair *pair)
{
    int bytes;
    ck_assert_int_eq(ioctl(pair->ours, FIONREAD, &bytes), 0);
    return (size_t)bytes;
}

/* Returns when they have arrived. */
static void client_sends(const struct pair *pair, size_t bytes)
{
    static char data[1 << 16];
    const size_t before = bytes_unread(pair);
    ck_assert_int_eq(send(pair->theirs, data, bytes, MSG_NOSIGNAL), (ssize_t)bytes);
    EVENTUALLY(bytes_unread(pair) == before + bytes);
}

static void server_reads(const struct pair *pair, size_t bytes)
{
    static char data[1 << 16];
    ck_assert_int_eq(recv(pair->ours, data, bytes, MSG_WAITALL), (ssize_t)bytes);
}

static void wait_for_acknowledgement(const struct pair *pair, uint64_t bytes)
{
    struct tcp_info info = { 0 };
    socklen_t size = sizeof info;
    do {
        sched_yield();
        ck_assert_int_eq(getsockopt(pair->ours, IPPROTO_TCP, TCP_INFO, &info, &size), 0);
    } while (info.tcpi_bytes_acked < bytes);
}

static bool has_ended(const struct pair *pair)
{
    struct td_connection *record = td_connections_find(connections, pair->ours);
    return atomic_load(&record->phase) == TD_CONNECTION_ENDED;
}

/* What the client has received, up to the end if the connection was ended. */
static const char *client_receives(const struct pair *pair)
{
    const int wait_ms = has_ended(pair) ? -1 : 0;
    static char text[1024];
    size_t length = 0;
    ssize_t got;
    struct pollfd readable = { .fd = pair->theirs, .events = POLLIN };
    while (length < sizeof text - 1 && poll(&readable, 1, wait_ms) == 1 &&
           (got = recv(pair->theirs, text + length, sizeof text - 1 - length, 0)) > 0)
        length += (size_t)got;
    text[length] = '\0';
    return text;
}

static void refuse(void *context, int socket, const char *sentence)
{
    char text[256];
    const int length = snprintf(text, sizeof text, "%s: %s", (const char *)context, sentence);
    ck_assert_int_eq(send(socket, text, (size_t)length, MSG_NOSIGNAL), length);
}

/* Looks at all connections: headers within 10 s, 1000 bytes a second after that. */
static void sweep_at(int64_t now_ns)
{
    const struct td_progress_limits limits = {
        .header_timeout_ns = 10 * SECOND, .min_rate = 1000, .refuse = refuse, .context = "refused"
    };
    td_connections_sweep(connections, &limits, now_ns, 1);
}

static void sweep_without_limits(int64_t now_ns)
{
    td_connections_sweep(connections, &(struct td_progress_limits){ 0 }, now_ns, 1);
}

/* ---- counts ---------------------------------------------------------------------------------- */

TD_TEST(connections_are_counted_until_they_are_closed)
{
    struct td_client *client = client_named(1);
    ck_assert(open_connection(10, td_client_ref(client), TD_UNRESTRICTED, 0));
    ck_assert(open_connection(11, td_client_ref(client), TD_CLIENT_REACHED, 1));
    ck_assert(open_connection(12, NULL, TD_UNRESTRICTED, 1));
    ck_assert_int_eq(td_connections_count(connections), 3);
    ck_assert_int_eq(td_connections_count_on(connections, 1), 2);
    ck_assert_int_eq(td_connections_count_restricted(connections), 1);
    ck_assert_int_eq(atomic_load(&client->connections), 2);
    ck_assert_uint_eq(counts_now().memory_bytes, 2 * CONNECTION_BYTES);
    ck_assert_uint_eq(td_buffer_pool_usage(budget).in_use, 2 * CONNECTION_BYTES);
    td_connections_close(connections, 11);
    td_connections_close(connections, 11);        /* closing twice has no effect, */
    td_connections_close(connections, N_SOCKETS); /* nor has closing an unknown socket */
    td_connections_close(connections, -1);
    ck_assert_int_eq(td_connections_count(connections), 2);
    ck_assert_int_eq(td_connections_count_on(connections, 1), 1);
    ck_assert_int_eq(td_connections_count_restricted(connections), 0);
    ck_assert_int_eq(atomic_load(&client->connections), 1);
    ck_assert_int_eq(atomic_load(&client->references), 2);
    ck_assert_uint_eq(td_buffer_pool_usage(budget).in_use, 2 * CONNECTION_BYTES);
    td_client_unref(client);
}

/* Opens `n` connections of the client on the I/O thread, on the sockets from `socket` on. */
static void open_many(int socket, int n, struct td_client *client, int io_thread)
{
    for (int i = 0; i < n; i++)
        ck_assert(open_connection(socket + i, td_client_ref(client), TD_UNRESTRICTED, io_thread));
}

static void request_at(int socket, int64_t now_ns)
{
    td_connections_note_request(connections, td_connections_find(connections, socket), now_ns);
}

static bool should_move(int socket)
{
    return td_connections_should_move(connections, td_connections_find(connections, socket));
}

TD_TEST(a_client_with_many_connections_leaves_the_first_io_thread_to_one_with_few)
{
    struct td_client *many = client_named(1), *few = client_named(2);
    open_many(0, TD_FEW_CONNECTIONS, many, 0);
    open_many(100, 1, few, 0);
    request_at(100, SECOND);
    ck_assert(!td_connections_first_is_wanted(connections)); /* nobody has many */
    ck_assert(!should_move(0));
    open_many(50, 2, many, 1);
    request_at(100, SECOND);
    ck_assert(td_connections_first_is_wanted(connections));
    ck_assert(should_move(0));
    ck_assert(!should_move(50));  /* is on another thread */
    ck_assert(!should_move(100)); /* its client has few */
    td_connections_close(connections, 0);
    ck_assert(should_move(1));
    td_connections_close(connections, 1);
    ck_assert(!should_move(2)); /* its client has few now */
    ck_assert(!td_connections_first_is_wanted(connections));
    td_client_unref(many);
    td_client_unref(few);
}

TD_TEST(clients_with_many_connections_share_the_first_io_thread_while_nobody_else_uses_it)
{
    struct td_client *one = client_named(1), *other = client_named(2), *few = client_named(3);
    open_many(0, TD_FEW_CONNECTIONS + 1, one, 0);
    open_many(50, TD_FEW_CONNECTIONS + 1, other, 0);
    open_many(100, 1, few, 1);
    request_at(100, SECOND);
    ck_assert(!td_connections_first_is_wanted(connections));
    ck_assert(!should_move(0) && !should_move(50));
    open_many(101, 1, few, 0);
    request_at(101, SECOND);
    ck_assert(td_connections_first_is_wanted(connections));
    ck_assert(should_move(0) && should_move(50));
    td_connections_close(connections, 101);
    ck_assert(!td_connections_first_is_wanted(connections));
    td_client_unref(one);
    td_client_unref(other);
    td_client_unref(few);
}

TD_TEST(a_connection_with_an_unread_request_does_not_move)
{
    struct td_client *many = client_named(1), *few = client_named(2);
    struct pair pair = pair_waiting(td_client_ref(many), TD_UNRESTRICTED);
    open_many(1000, TD_FEW_CONNECTIONS, many, 1);
    open_many(1100, 1, few, 0);
    request_at(1100, SECOND);
    ck_assert(should_move(pair.ours));
    client_sends(&pair, 10);
    ck_assert(!should_move(pair.ours));
    server_reads(&pair, 10);
    ck_assert(should_move(pair.ours));
    pair_close(&pair);
    td_client_unref(many);
    td_client_unref(few);
}

TD_TEST(the_first_io_thread_is_wanted_for_a_second_after_a_request_of_a_client_with_few_connections)
{
    struct td_client *many = client_named(1), *few = client_named(2);
    open_many(1000, TD_FEW_CONNECTIONS, many, 0);
    open_many(1050, 1, many, 1);
    open_many(1100, 1, few, 0);
    sweep_at(10 * SECOND);
    request_at(1000, 10 * SECOND); /* its client has many */
    ck_assert(!td_connections_first_is_wanted(connections));
    request_at(1100, 10 * SECOND);
    ck_assert(td_connections_first_is_wanted(connections) && should_move(1000));
    sweep_at(11 * SECOND - 1);
    ck_assert(td_connections_first_is_wanted(connections) && should_move(1000));
    sweep_at(11 * SECOND);
    ck_assert(!td_connections_first_is_wanted(connections) && !should_move(1000));
    request_at(1100, 11 * SECOND);
    ck_assert(td_connections_first_is_wanted(connections) && should_move(1000));
    td_client_unref(many);
    td_client_unref(few);
}

TD_TEST(a_client_that_gets_many_connections_does_not_leave_because_of_its_own_requests)
{
    struct td_client *many = client_named(1), *few = client_named(2);
    open_many(0, TD_FEW_CONNECTIONS, many, 0);
    open_many(100, 1, few, 0);
    request_at(0, SECOND);
    open_many(50, 1, many, 1);
    ck_assert(!td_connections_first_is_wanted(connections));
    request_at(100, SECOND);
    ck_assert(td_connections_first_is_wanted(connections));
    td_client_unref(many);
    td_client_unref(few);
}

TD_TEST(a_connection_without_a_client_does_not_move)
{
    struct td_client *many = client_named(1), *few = client_named(2);
    open_many(0, TD_FEW_CONNECTIONS + 1, many, 1);
    open_many(50, 1, few, 0);
    request_at(50, SECOND);
    ck_assert(open_connection(100, NULL, TD_UNRESTRICTED, 0));
    ck_assert(td_connections_first_is_wanted(connections));
    ck_assert(!should_move(100));
    td_client_unref(many);
    td_client_unref(few);
}

TD_TEST(phases_are_counted)
{
    static const enum td_phase phases[] = { TD_CONNECTION_WAITING, TD_CONNECTION_RECEIVING,
                                            TD_CONNECTION_RECEIVING, TD_CONNECTION_WORKING,
                                            TD_CONNECTION_SENDING };
    for (int i = 0; i < (int)COUNT_OF(phases); i++) {
        ck_assert(open_connection(i, NULL, TD_UNRESTRICTED, 0));
        ck_assert(td_connection_enter(td_connections_find(connections, i), phases[i], SECOND));
    }
    const struct td_connection_counts counts = counts_now();
    ck_assert_int_eq(counts.open, 5);
    ck_assert_int_eq(counts.waiting, 1);
    ck_assert_int_eq(counts.receiving, 2);
    ck_assert_int_eq(counts.working, 1);
    ck_assert_int_eq(counts.sending, 1);
}

TD_TEST(a_socket_above_the_table_is_refused)
{
    struct td_client *client = client_named(1);
    ck_assert(!open_connection(N_SOCKETS, client, TD_UNRESTRICTED, 0));
    ck_assert(open_connection(N_SOCKETS - 1, client, TD_UNRESTRICTED, 0));
}

TD_TEST(a_socket_that_was_closed_without_a_report_may_be_opened_again)
{
    struct td_client *first = client_named(1), *second = client_named(2);
    ck_assert(open_connection(10, first, TD_CONNECTIONS_REACHED, 0));
    ck_assert(open_connection(10, second, TD_UNRESTRICTED, 0));
    ck_assert_int_eq(td_connections_count(connections), 1);
    ck_assert_int_eq(td_connections_count_restricted(connections), 0);
    ck_assert_int_eq(atomic_load(&first->references), 0);
    ck_assert_int_eq(atomic_load(&first->connections), 0);
    ck_assert_int_eq(atomic_load(&second->connections), 1);
}

/* The library closes a socket without a report when it has no memory to take it over. */
TD_TEST(a_sweep_releases_a_connection_that_was_never_taken_over)
{
    const struct td_progress_limits limits = { 0 };
    struct pair lost = pair_open(), other = pair_open();
    ck_assert(open_connection(lost.ours, NULL, TD_UNRESTRICTED, 0));
    ck_assert(open_connection(other.ours, NULL, TD_UNRESTRICTED, 0));
    td_connections_sweep(connections, &limits, SECOND, 1);
    ck_assert_int_eq(td_connections_count(connections), 2);
    ck_assert_int_eq(dup2(lost.theirs, lost.ours),
                     lost.ours); /* its number is of another socket now */
    td_connections_sweep(connections, &limits, SECOND, 1);
    ck_assert_int_eq(td_connections_count(connections), 1);
    close(other.ours);
    td_connections_sweep(connections, &limits, SECOND, 1);
    ck_assert_int_eq(td_connections_count(connections), 0);
    other.ours = -1;
    pair_close(&lost);
    pair_close(&other);
}

TD_TEST(memory_of_connections_is_bounded_by_the_budget)
{
    struct td_error err;
    ck_assert_int_eq(td_buffer_pool_charge(budget, MEMORY - CONNECTION_BYTES, &err), TD_OK);
    ck_assert(open_connection(10, NULL, TD_UNRESTRICTED, 0));
    ck_assert(!td_connections_charge(connections));
    ck_assert(open_connection(11, NULL, TD_MEMORY_REACHED, 0)); /* a restricted one takes none */
    ck_assert_uint_eq(counts_now().memory_bytes, CONNECTION_BYTES);
    td_connections_close(connections, 11);
    td_connections_close(connections, 10);
    ck_assert(td_connections_charge(connections));
    td_connections_discharge(connections);
    ck_assert_uint_eq(td_buffer_pool_usage(budget).in_use, MEMORY - CONNECTION_BYTES);
    td_buffer_pool_discharge(budget, MEMORY - CONNECTION_BYTES);
}

static bool count_call(void *context, uint64_t bytes)
{
    (void)bytes;
    ++*(int *)context;
    return false;
}

TD_TEST(spare_buffers_are_not_released_for_connections)
{
    struct td_error err;
    int calls = 0;
    td_buffer_pool_spares(budget, count_call, &calls);
    ck_assert_int_eq(td_buffer_pool_charge(budget, MEMORY, &err), TD_OK);
    ck_assert(!td_connections_charge(connections));
    ck_assert_int_eq(calls, 0);
    td_buffer_pool_discharge(budget, MEMORY);
}

TD_TEST(phases_are_not_counted_again_at_once)
{
    ck_assert_int_eq(td_connections_counts(connections, SECOND).waiting, 0);
    ck_assert(open_connection(10, NULL, TD_UNRESTRICTED, 0));
    const struct td_connection_counts counts = td_connections_counts(connections, SECOND + 1);
    ck_assert_int_eq(counts.waiting, 0);
    ck_assert_int_eq(counts.open, 1);
    ck_assert_int_eq(td_connections_counts(connections, 2 * SECOND).waiting, 1);
}

/* ---- slow clients ---------------------------------------------------------------------------- */

TD_TEST(headers_that_do_not_arrive_in_time_end_the_connection_with_an_error)
{
    struct pair pair = pair_waiting(NULL, TD_UNRESTRICTED);
    client_sends(&pair, 3);
    server_reads(&pair, 3);
    sweep_at(2 * SECOND); /* the first sweep that sees a byte begins the time */
    sweep_at(12 * SECOND);
    ck_assert(!has_ended(&pair));
    sweep_at(12 * SECOND + 1);
    ck_assert(has_ended(&pair));
    const char *reply = client_receives(&pair);
    ck_assert_str_eq(reply, "refused: the headers did not arrive within --header-timeout-ms");
    pair_close(&pair);
}

TD_TEST(a_connection_that_waits_for_a_request_is_not_slow)
{
    struct pair fresh = pair_waiting(NULL, TD_UNRESTRICTED),
                used = pair_waiting(NULL, TD_UNRESTRICTED);
    struct td_connection *record = td_connections_find(connections, used.ours);
    client_sends(&used, 100);
    server_reads(&used, 100);
    ck_assert(td_connection_enter(record, TD_CONNECTION_RECEIVING, 2 * SECOND));
    ck_assert(td_connection_enter(record, TD_CONNECTION_SENDING, 2 * SECOND));
    td_connection_wait(record);
    for (int second = 2; second < 100; second++)
        sweep_at(second * SECOND);
    ck_assert(!has_ended(&fresh) && !has_ended(&used));
    pair_close(&fresh);
    pair_close(&used);
}

TD_TEST(headers_of_a_later_request_have_the_same_time)
{
    struct pair pair = pair_waiting(NULL, TD_UNRESTRICTED);
    struct td_connection *record = td_connections_find(connections, pair.ours);
    client_sends(&pair, 100);
    ck_assert(td_connection_enter(record, TD_CONNECTION_RECEIVING, 2 * SECOND));
    ck_assert(td_connection_enter(record, TD_CONNECTION_SENDING, 2 * SECOND));
    td_connection_wait(record);
    sweep_at(3 * SECOND);
    client_sends(&pair, 1);
    sweep_at(50 * SECOND);
    sweep_at(60 * SECOND);
    ck_assert(!has_ended(&pair));
    sweep_at(60 * SECOND + 1);
    ck_assert(has_ended(&pair));
    pair_close(&pair);
}

TD_TEST(a_body_below_the_minimum_rate_ends_the_connection_with_an_error)
{
    struct pair slow = pair_waiting(NULL, TD_UNRESTRICTED),
                just = pair_waiting(NULL, TD_UNRESTRICTED);
    struct td_connection *of_slow = td_connections_find(connections, slow.ours);
    struct td_connection *of_just = td_connections_find(connections, just.ours);
    ck_assert(td_connection_enter(of_slow, TD_CONNECTION_RECEIVING, 100 * SECOND));
    ck_assert(td_connection_enter(of_just, TD_CONNECTION_RECEIVING, 100 * SECOND));
    sweep_at(110 * SECOND); /* any rate is allowed for ten seconds */
    ck_assert(!has_ended(&slow) && !has_ended(&just));
    td_connection_received(of_slow, 4999);
    td_connection_received(of_just, 5000);
    sweep_at(115 * SECOND);
    ck_assert(has_ended(&slow));
    ck_assert(!has_ended(&just));
    ck_assert_ptr_nonnull(strstr(client_receives(&slow), "--min-rate"));
    ck_assert_str_eq(client_receives(&just), "");
    td_connection_received(of_just, 1000);
    sweep_at(116 * SECOND);
    ck_assert(!has_ended(&just));
    sweep_at(116 * SECOND + 1000000);
    ck_assert(has_ended(&just));
    pair_close(&slow);
    pair_close(&just);
}

static void client_reads(const struct pair *pair, size_t bytes, uint64_t in_all)
{
    static char data[1 << 16];
    ck_assert_int_eq(send(pair->ours, data, bytes, 0), (ssize_t)bytes);
    ck_assert_int_eq(recv(pair->theirs, data, bytes, MSG_WAITALL), (ssize_t)bytes);
    wait_for_acknowledgement(pair, in_all);
}

TD_TEST(a_reply_read_below_the_minimum_rate_ends_the_connection)
{
    struct pair pair = pair_waiting(NULL, TD_UNRESTRICTED);
    struct td_connection *record = td_connections_find(connections, pair.ours);
    ck_assert(td_connection_enter(record, TD_CONNECTION_SENDING, 100 * SECOND));
    sweep_at(101 * SECOND);
    client_reads(&pair, 20000, 20000);
    sweep_at(131 * SECOND); /* 20 s after the free ones, 1000 bytes a second */
    ck_assert(!has_ended(&pair));
    sweep_at(131 * SECOND + 1000000);
    ck_assert(has_ended(&pair));
    ck_assert_str_eq(client_receives(&pair), ""); /* nothing is put into the reply */
    pair_close(&pair);
}

TD_TEST(bytes_read_before_the_first_look_at_a_reply_pay_as_well)
{
    struct pair pair = pair_waiting(NULL, TD_UNRESTRICTED);
    struct td_connection *record = td_connections_find(connections, pair.ours);
    client_reads(&pair, 30000, 30000); /* an earlier reply, which pays for nothing */
    sweep_at(99 * SECOND);
    ck_assert(td_connection_enter(record, TD_CONNECTION_SENDING, 100 * SECOND));
    client_reads(&pair, 20000, 50000);
    sweep_at(101 * SECOND);
    sweep_at(131 * SECOND);
    ck_assert(!has_ended(&pair));
    sweep_at(131 * SECOND + 1000000);
    ck_assert(has_ended(&pair));
    pair_close(&pair);
}

static void sweep_for_idle_at(int64_t now_ns)
{
    const struct td_progress_limits limits = { .idle_timeout_ns = 5 * SECOND };
    td_connections_sweep(connections, &limits, now_ns, 1);
}

TD_TEST(a_client_that_sends_nothing_is_idle)
{
    static const enum td_phase phases[] = { TD_CONNECTION_WAITING, TD_CONNECTION_RECEIVING };
    for (int i = 0; i < (int)COUNT_OF(phases); i++) {
        struct pair pair = pair_waiting(NULL, TD_UNRESTRICTED);
        struct td_connection *record = td_connections_find(connections, pair.ours);
        ck_assert(td_connection_enter(record, phases[i], 50 * SECOND));
        sweep_for_idle_at(100 * SECOND);
        client_sends(&pair, 1);
        td_connection_received(record, 1);
        sweep_for_idle_at(103 * SECOND);
        sweep_for_idle_at(108 * SECOND);
        ck_assert(!has_ended(&pair));
        sweep_for_idle_at(108 * SECOND + 1);
        ck_assert(has_ended(&pair));
        ck_assert_str_eq(client_receives(&pair), "");
        pair_close(&pair);
    }
}

TD_TEST(a_client_that_acknowledges_bytes_of_a_reply_is_not_idle)
{
    static char data[100];
    struct pair pair = pair_waiting(NULL, TD_UNRESTRICTED);
    struct td_connection *record = td_connections_find(connections, pair.ours);
    ck_assert(td_connection_enter(record, TD_CONNECTION_SENDING, 100 * SECOND));
    for (int i = 0; i < 10; i++) {
        sweep_for_idle_at((101 + 4 * i) * SECOND);
        ck_assert(!has_ended(&pair));
        ck_assert_int_eq(send(pair.ours, data, sizeof data, 0), (ssize_t)sizeof data);
        wait_for_acknowledgement(&pair, sizeof data * (uint64_t)(i + 1));
    }
    sweep_for_idle_at(141 * SECOND);
    sweep_for_idle_at(146 * SECOND);
    ck_assert(!has_ended(&pair));
    sweep_for_idle_at(146 * SECOND + 1);
    ck_assert(has_ended(&pair));
    pair_close(&pair);
}

TD_TEST(a_client_of_a_unix_socket_is_idle_until_its_headers_are_complete)
{
    struct pair pair = unix_pair_waiting();
    sweep_for_idle_at(100 * SECOND);
    for (int i = 1; i <= 5; i++) { /* part of the headers each second */
        client_sends(&pair, 1);
        server_reads(&pair, 1);
        sweep_for_idle_at((100 + i) * SECOND);
        ck_assert(!has_ended(&pair));
    }
    sweep_for_idle_at(105 * SECOND + 1);
    ck_assert(has_ended(&pair));
    pair_close(&pair);
}

TD_TEST(a_client_of_a_unix_socket_that_reads_a_reply_is_not_idle)
{
    static char data[100];
    struct pair pair = unix_pair_waiting();
    struct td_connection *record = td_connections_find(connections, pair.ours);
    for (int i = 0; i < 10; i++)
        ck_assert_int_eq(send(pair.ours, data, sizeof data, 0), (ssize_t)sizeof data);
    ck_assert(td_connection_enter(record, TD_CONNECTION_SENDING, 100 * SECOND));
    for (int i = 0; i < 10; i++) {
        sweep_for_idle_at((101 + 4 * i) * SECOND);
        ck_assert(!has_ended(&pair));
        ck_assert_int_eq(recv(pair.theirs, data, sizeof data, 0), (ssize_t)sizeof data);
    }
    sweep_for_idle_at(141 * SECOND);
    sweep_for_idle_at(146 * SECOND);
    ck_assert(!has_ended(&pair));
    sweep_for_idle_at(146 * SECOND + 1);
    ck_assert(has_ended(&pair));
    pair_close(&pair);
}

TD_TEST(on_a_unix_socket_the_minimum_rate_applies_to_bodies_but_not_to_replies)
{
    struct pair body = unix_pair_waiting(), reply = unix_pair_waiting();
    struct td_connection *of_body = td_connections_find(connections, body.ours);
    struct td_connection *of_reply = td_connections_find(connections, reply.ours);
    ck_assert(td_connection_enter(of_body, TD_CONNECTION_RECEIVING, 100 * SECOND));
    ck_assert(td_connection_enter(of_reply, TD_CONNECTION_SENDING, 100 * SECOND));
    for (int second = 101; second < 200; second++)
        sweep_at(second * SECOND);
    ck_assert(has_ended(&body));
    ck_assert_ptr_nonnull(strstr(client_receives(&body), "--min-rate"));
    ck_assert(!has_ended(&reply));
    pair_close(&body);
    pair_close(&reply);
}

TD_TEST(bytes_that_came_fast_pay_for_a_minute_at_most)
{
    struct pair pair = pair_waiting(NULL, TD_UNRESTRICTED);
    struct td_connection *record = td_connections_find(connections, pair.ours);
    ck_assert(td_connection_enter(record, TD_CONNECTION_RECEIVING, 100 * SECOND));
    td_connection_received(record, 100 << 20);
    sweep_at(101 * SECOND);
    sweep_at(161 * SECOND);
    ck_assert(!has_ended(&pair));
    sweep_at(161 * SECOND + 1000000);
    ck_assert(has_ended(&pair));
    pair_close(&pair);
}

TD_TEST(a_request_that_is_worked_on_is_not_slow)
{
    struct pair pair = pair_waiting(NULL, TD_UNRESTRICTED);
    client_sends(&pair, 100);
    ck_assert(td_connection_enter(td_connections_find(connections, pair.ours),
                                  TD_CONNECTION_WORKING, 2 * SECOND));
    for (int second = 2; second < 1000; second += 9)
        sweep_at(second * SECOND);
    ck_assert(!has_ended(&pair));
    pair_close(&pair);
}

TD_TEST(without_limits_no_connection_is_slow)
{
    struct pair pair = pair_waiting(NULL, TD_UNRESTRICTED);
    client_sends(&pair, 3);
    sweep_without_limits(3 * SECOND);
    sweep_without_limits(INT64_MAX / 4);
    ck_assert(td_connection_enter(td_connections_find(connections, pair.ours),
                                  TD_CONNECTION_RECEIVING, 2 * SECOND));
    sweep_without_limits(INT64_MAX / 2);
    ck_assert(!has_ended(&pair));
    pair_close(&pair);
}

TD_TEST(an_ended_connection_stays_ended)
{
    struct pair pair = pair_waiting(NULL, TD_UNRESTRICTED);
    struct td_connection *record = td_connections_find(connections, pair.ours);
    ck_assert(td_connection_enter(record, TD_CONNECTION_RECEIVING, 2 * SECOND));
    sweep_at(100 * SECOND);
    ck_assert(!td_connection_enter(record, TD_CONNECTION_WORKING, 100 * SECOND));
    ck_assert(!td_connection_enter(record, TD_CONNECTION_SENDING, 100 * SECOND));
    ck_assert(has_ended(&pair));
    pair_close(&pair);
}

TD_TEST(parts_of_a_sweep_cover_all_connections)
{
    enum { SOCKETS = 25, PARTS = 10 };
    struct pair pairs[SOCKETS];
    const struct td_progress_limits limits = {
        .header_timeout_ns = SECOND, .min_rate = 1000, .refuse = refuse, .context = "refused"
    };
    for (int i = 0; i < SOCKETS; i++) {
        pairs[i] = pair_waiting(NULL, TD_UNRESTRICTED);
        ck_assert(td_connection_enter(td_connections_find(connections, pairs[i].ours),
                                      TD_CONNECTION_RECEIVING, 2 * SECOND));
    }
    for (int part = 0; part < PARTS; part++)
        td_connections_sweep(connections, &limits, 100 * SECOND, PARTS);
    for (int i = 0; i < SOCKETS; i++) {
        ck_assert(has_ended(&pairs[i]));
        pair_close(&pairs[i]);
    }
}

/* ---- clients that have closed ---------------------------------------------------------------- */

static struct pair pair_waiting_tcp(void)
{
    return pair_waiting(NULL, TD_UNRESTRICTED);
}

static struct pair (*const kinds[])(void) = { pair_waiting_tcp, unix_pair_waiting };

TD_TEST_EACH(a_sweep_makes_an_edge_for_a_client_that_has_closed, kinds)
{
    struct pair pair = kinds[_i]();
    client_sends(&pair, 3);
    shutdown(pair.theirs, SHUT_WR);
    struct pollfd closed = { .fd = pair.ours, .events = POLLRDHUP };
    ck_assert_int_eq(poll(&closed, 1, -1), 1);
    while (has_edge(&pair, false))
        ; /* those of the bytes and of the end */
    sweep_without_limits(INT64_MAX / 2);
    ck_assert(has_edge(&pair, true));
    char bytes[8]; /* the bytes that it sent can still be read, then the end */
    ck_assert_int_eq(read(pair.ours, bytes, sizeof bytes), 3);
    ck_assert_int_eq(read(pair.ours, bytes, sizeof bytes), 0);
    ck_assert_int_eq(write(pair.ours, "HTTP", 4), 4); /* and the reply can be sent */
    ck_assert_int_eq(recv(pair.theirs, bytes, 4, MSG_WAITALL), 4);
    pair_close(&pair);
}

/* More than are polled with one call; numbers without a socket stand for most of them. */
TD_TEST(a_sweep_may_look_at_any_number_of_connections)
{
    enum { FIRST = 2000, N = 1100 };
    struct pair pair = pair_waiting(NULL, TD_UNRESTRICTED);
    for (int i = FIRST; i < FIRST + N; i++) {
        ck_assert(open_connection(i, NULL, TD_UNRESTRICTED, 0));
        ck_assert(td_connection_enter(td_connections_find(connections, i), TD_CONNECTION_WAITING,
                                      SECOND));
    }
    sweep_at(2 * SECOND);
    ck_assert_int_eq(td_connections_count(connections), N + 1);
    for (int i = FIRST; i < FIRST + N; i++)
        td_connections_close(connections, i);
    pair_close(&pair);
}

TD_TEST(a_sweep_leaves_a_client_that_has_not_closed)
{
    struct pair pair = pair_waiting(NULL, TD_UNRESTRICTED);
    client_sends(&pair, 3);
    ck_assert(has_edge(&pair, true));
    sweep_without_limits(INT64_MAX / 2);
    ck_assert(!has_edge(&pair, false));
    server_reads(&pair, 3);
    client_sends(&pair, 4); /* it can continue sending */
    server_reads(&pair, 4);
    pair_close(&pair);
}

static void *open_and_close(void *argument)
{
    for (int i = 0; i < 300; i++) {
        struct pair pair = pair_waiting(client_named((uint8_t)i), TD_UNRESTRICTED);
        struct td_connection *record = td_connections_find(connections, pair.ours);
        if (i % 2)
            shutdown(pair.theirs, SHUT_WR);
        (void)td_connection_enter(record, TD_CONNECTION_RECEIVING, i);
        (void)td_connection_enter(record, TD_CONNECTION_SENDING, i);
        td_connection_wait(record);
        pair_close(&pair);
    }
    return argument;
}

TD_TEST(threads_open_and_close_connections_while_others_sweep)
{
    pthread_t threads[4];
    for (size_t i = 0; i < COUNT_OF(threads); i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, open_and_close, NULL), 0);
    for (int i = 0; i < 300; i++) {
        sweep_at(i);
        struct td_client *client = client_named(200);
        (void)td_connections_make_room(connections, client, i);
        (void)td_connections_end_restricted(connections, false);
        (void)counts_now();
        td_client_unref(client);
    }
    for (size_t i = 0; i < COUNT_OF(threads); i++)
        pthread_join(threads[i], NULL);
    ck_assert_int_eq(td_connections_count(connections), 0);
}

/* ---- room for other connections -------------------------------------------------------------- */

TD_TEST(the_client_with_most_connections_makes_room)
{
    struct td_client *greedy = client_named(1), *modest = client_named(2), *other = client_named(3);
    struct pair pairs[5];
    for (int i = 0; i < 5; i++)
        pairs[i] = pair_waiting(td_client_ref(i == 2 ? modest : greedy), TD_UNRESTRICTED);
    ck_assert(td_connections_make_room(connections, other, 2 * SECOND));
    ck_assert(!has_ended(&pairs[2]));
    int ended = 0;
    for (int i = 0; i < 5; i++)
        ended += has_ended(&pairs[i]);
    ck_assert_int_eq(ended, 1);
    /* Not for itself, and not as long as its connections are being answered. */
    ck_assert(!td_connections_make_room(connections, greedy, 2 * SECOND));
    for (int i = 0; i < 5; i++) {
        (void)td_connection_enter(td_connections_find(connections, pairs[i].ours),
                                  TD_CONNECTION_WORKING, SECOND);
    }
    ck_assert(!td_connections_make_room(connections, other, 2 * SECOND));
    for (int i = 0; i < 5; i++)
        pair_close(&pairs[i]);
    td_client_unref(greedy);
    td_client_unref(modest);
    td_client_unref(other);
}

TD_TEST(among_equals_the_one_that_has_waited_for_seconds_makes_room)
{
    struct td_client *first = client_named(1), *second = client_named(2), *third = client_named(3);
    struct pair of_first = pair_waiting(first, TD_UNRESTRICTED);
    struct pair of_second = pair_waiting(second, TD_UNRESTRICTED);
    struct pair of_third = pair_waiting(td_client_ref(third), TD_UNRESTRICTED);
    ck_assert(td_connection_enter(td_connections_find(connections, of_first.ours),
                                  TD_CONNECTION_WAITING, 3 * SECOND));
    ck_assert(td_connection_enter(td_connections_find(connections, of_second.ours),
                                  TD_CONNECTION_WAITING, 2 * SECOND));
    ck_assert(td_connection_enter(td_connections_find(connections, of_third.ours),
                                  TD_CONNECTION_WAITING, 3 * SECOND));
    ck_assert(!td_connections_make_room(connections, third, 7 * SECOND)); /* 5 s are not over */
    ck_assert(td_connections_make_room(connections, third, 10 * SECOND));
    ck_assert(has_ended(&of_second));
    ck_assert(!has_ended(&of_first));
    pair_close(&of_first);
    pair_close(&of_second);
    pair_close(&of_third);
    td_client_unref(third);
}

TD_TEST(one_that_has_waited_for_seconds_makes_room_whatever_its_client_has)
{
    struct td_client *idle = client_named(1), *active = client_named(2);
    struct pair of_idle = pair_waiting(idle, TD_UNRESTRICTED);
    struct pair pairs[2];
    for (int i = 0; i < 2; i++) {
        pairs[i] = pair_waiting(td_client_ref(active), TD_UNRESTRICTED);
        ck_assert(td_connection_enter(td_connections_find(connections, pairs[i].ours),
                                      TD_CONNECTION_WAITING, 6 * SECOND));
    }
    ck_assert(!td_connections_make_room(connections, active, 6 * SECOND));
    ck_assert(td_connections_make_room(connections, active, 6 * SECOND + 1));
    ck_assert(has_ended(&of_idle));
    pair_close(&of_idle);
    pair_close(&pairs[0]);
    pair_close(&pairs[1]);
    td_client_unref(active);
}

TD_TEST(a_connection_with_a_request_that_has_arrived_is_not_waiting)
{
    struct td_client *greedy = client_named(1), *other = client_named(2);
    struct pair pair = pair_waiting(greedy, TD_UNRESTRICTED);
    client_sends(&pair, 1);
    ck_assert(!td_connections_make_room(connections, other, 100 * SECOND));
    server_reads(&pair, 1);
    ck_assert(td_connections_make_room(connections, other, 100 * SECOND));
    pair_close(&pair);
    td_client_unref(other);
}

TD_TEST(a_restricted_connection_makes_no_room_for_an_unrestricted_one)
{
    struct td_client *busy = client_named(1), *other = client_named(2);
    struct pair working = pair_waiting(td_client_ref(busy), TD_UNRESTRICTED);
    struct pair probe = pair_waiting(td_client_ref(busy), TD_CONNECTIONS_REACHED);
    ck_assert(td_connection_enter(td_connections_find(connections, working.ours),
                                  TD_CONNECTION_WORKING, SECOND));
    ck_assert(!td_connections_make_room(connections, other, 100 * SECOND));
    ck_assert(!has_ended(&probe));
    pair_close(&working);
    pair_close(&probe);
    td_client_unref(busy);
    td_client_unref(other);
}

TD_TEST(the_oldest_restricted_connection_makes_room)
{
    struct pair unrestricted = pair_waiting(NULL, TD_UNRESTRICTED);
    struct pair answered = pair_waiting(NULL, TD_CONNECTIONS_REACHED);
    struct pair older = pair_waiting(NULL, TD_CLIENT_REACHED);
    struct pair newer = pair_waiting(NULL, TD_CONNECTIONS_REACHED);
    ck_assert(td_connection_enter(td_connections_find(connections, newer.ours),
                                  TD_CONNECTION_WAITING, 2 * SECOND));
    ck_assert(td_connection_enter(td_connections_find(connections, answered.ours),
                                  TD_CONNECTION_SENDING, SECOND));
    ck_assert(td_connection_enter(td_connections_find(connections, older.ours),
                                  TD_CONNECTION_RECEIVING, SECOND));
    ck_assert_int_eq(td_connections_count_restricted(connections), 3);
    ck_assert(td_connections_end_restricted(connections, false));
    ck_assert_int_eq(td_connections_count_restricted(connections), 2); /* its place is free */
    ck_assert(has_ended(&older) && !has_ended(&newer));
    ck_assert(td_connections_end_restricted(connections, false));
    ck_assert(has_ended(&newer) && !has_ended(&answered) && !has_ended(&unrestricted));
    ck_assert(!td_connections_end_restricted(connections, false));
    pair_close(&unrestricted);
    pair_close(&answered);
    pair_close(&older);
    pair_close(&newer);
    ck_assert_int_eq(td_connections_count_restricted(connections), 0);
}

TD_TEST(a_client_makes_room_for_its_own_restricted_connections)
{
    struct td_client *storm = client_named(1), *probe = client_named(2);
    struct pair of_probe = pair_waiting(probe, TD_CONNECTIONS_REACHED), of_storm[3];
    for (int i = 0; i < 3; i++) {
        of_storm[i] = pair_waiting(td_client_ref(storm), TD_CONNECTIONS_REACHED);
        ck_assert(td_connection_enter(td_connections_find(connections, of_storm[i].ours),
                                      TD_CONNECTION_WAITING, (i + 2) * SECOND));
    }
    client_sends(&of_storm[0], 1);
    client_sends(&of_storm[2], 1);
    ck_assert(td_connections_end_restricted(connections, false));
    ck_assert(has_ended(&of_storm[1])); /* neither the probe's nor one with a request */
    ck_assert(!td_connections_end_restricted(connections, false));
    ck_assert(td_connections_end_restricted(connections, true));
    ck_assert(has_ended(&of_storm[0]));
    ck_assert(td_connections_end_restricted(connections, false)); /* each client has one now */
    ck_assert(has_ended(&of_probe));
    shutdown(of_storm[2].theirs, SHUT_WR);
    server_reads(&of_storm[2], 1);
    ck_assert(td_connections_end_restricted(connections, false)); /* its end is no request */
    ck_assert(has_ended(&of_storm[2]));
    ck_assert_int_eq(atomic_load(&storm->restricted), 0);
    for (int i = 0; i < 3; i++)
        pair_close(&of_storm[i]);
    pair_close(&of_probe);
    ck_assert_int_eq(atomic_load(&storm->restricted), 0);
    td_client_unref(storm);
}

TD_TEST(a_fresh_connection_is_not_ended_for_a_client_with_one_fewer)
{
    struct td_client *one = client_named(1), *none = client_named(2);
    struct pair pair = pair_waiting(td_client_ref(one), TD_UNRESTRICTED);
    ck_assert(!td_connections_make_room(connections, none, 2 * SECOND - 1));
    struct pair other = pair_waiting(td_client_ref(one), TD_UNRESTRICTED);
    ck_assert(td_connections_make_room(connections, none, 2 * SECOND - 1)); /* two fewer */
    struct pair *left = has_ended(&pair) ? &other : &pair;
    pair_close(left == &pair ? &other : &pair);
    ck_assert(!td_connections_make_room(connections, none, 2 * SECOND - 1));
    ck_assert(td_connections_make_room(connections, none, 2 * SECOND)); /* no longer fresh */
    ck_assert(has_ended(left));
    pair_close(left);
    td_client_unref(one);
    td_client_unref(none);
}

TD_TEST(a_used_connection_is_ended_for_a_client_with_one_fewer)
{
    struct td_client *one = client_named(1), *none = client_named(2);
    struct pair pair = pair_waiting(one, TD_UNRESTRICTED);
    struct td_connection *record = td_connections_find(connections, pair.ours);
    ck_assert(td_connection_enter(record, TD_CONNECTION_RECEIVING, SECOND));
    td_connection_wait(record);
    ck_assert(td_connections_make_room(connections, none, SECOND + 2));
    pair_close(&pair);
    td_client_unref(none);
}

TD_FIXTURE(set_up, tear_down);
