#include "server/clients/clients.h"
#include "server/http/acceptor.h"
#include "server/http/listener.h"
#include "server/http/proxies.h"
#include "tests/support/eventually.h"
#include "tests/support/suite.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <errno.h>
#include <fcntl.h>
#include <microhttpd.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- I/O threads that only take connections over --------------------------------------------- */

enum { IO_THREADS = 3, N_SOCKETS = 2048, CONNECTION_BYTES = 1000, MOST = 600 };

static struct td_services services;
static struct td_proxies *proxies;
static struct td_acceptor *acceptor;
static struct td_listeners listeners;
static char socket_folder[32]; /* of a Unix socket, or "" */
static int n_plain_threads;    /* of the I/O threads, the last ones */

/* The connections in the order in which they were handed over. */
static struct {
    int socket, io_thread;
} handed[MOST];
static atomic_int n_handed;
static enum td_phase phase_of_new; /* that a connection is in once it was handed over */
static enum MHD_Result library_takes;

/* In the place of the library's (CMakeLists.txt); `library` is the number of the I/O thread. */
enum MHD_Result __wrap_MHD_add_connection(struct MHD_Daemon *library, MHD_socket socket,
                                          const struct sockaddr *address, socklen_t length);
enum MHD_Result __wrap_MHD_add_connection(struct MHD_Daemon *library, MHD_socket socket,
                                          const struct sockaddr *address, socklen_t length)
{
    const int n = atomic_load(&n_handed);
    (void)address, (void)length;
    if (library_takes != MHD_YES) {
        close(socket);
    } else {
        (void)td_connection_enter(td_connections_find(services.connections, socket), phase_of_new,
                                  n + 1);
        handed[n].socket = socket;
        handed[n].io_thread = (int)(uintptr_t)library - 1;
    }
    atomic_store(&n_handed, n + 1);
    return library_takes;
}

/* ---- accept4 that fails, and poll that is counted ------------------------------------------- */

static atomic_int failing; /* so many calls of accept4 fail */
static int failure;
static atomic_int waits; /* calls of poll that do not wait for connections */
static bool only_stop;   /* the acceptor waits for its stop alone, and then sees all that waits */

int __real_accept4(int fd, struct sockaddr *address, socklen_t *length, int flags);
int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *length, int flags);
int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *length, int flags)
{
    if (atomic_load(&failing) > 0) {
        atomic_fetch_sub(&failing, 1);
        errno = failure;
        return -1;
    }
    return __real_accept4(fd, address, length, flags);
}

int __real_poll(struct pollfd *pollers, nfds_t count, int timeout_ms);
int __wrap_poll(struct pollfd *pollers, nfds_t count, int timeout_ms);
int __wrap_poll(struct pollfd *pollers, nfds_t count, int timeout_ms)
{
    if (count >= 2 && only_stop)
        (void)__real_poll(pollers, 1, -1);
    if (count >= 2 && pollers[1].events == 0 && timeout_ms > 0)
        atomic_fetch_add(&waits, 1);
    return __real_poll(pollers, count, timeout_ms);
}

/* ---- a server without HTTP, and its clients -------------------------------------------------- */

static void listen_on(const char *address)
{
    const char *why = NULL;
    ck_assert_msg(td_listeners_add(&listeners, address, td_listener_open, &why), "%s", why);
}

static void set_up(void)
{
    struct rlimit files;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &files), 0);
    files.rlim_cur = files.rlim_max < N_SOCKETS ? files.rlim_max : N_SOCKETS;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &files), 0);
    memset(&services, 0, sizeof services);
    services.log.fd = -1;
    services.buffers = td_buffer_pool_new(1 << 20, 0);
    services.clients = td_clients_new(1);
    services.connections = td_connections_new(N_SOCKETS, services.buffers, CONNECTION_BYTES);
    services.connection_limits = (struct td_connection_limits){ .open = 500, .per_client = 250 };
    phase_of_new = TD_CONNECTION_WAITING;
    library_takes = MHD_YES;
    listen_on("127.0.0.1:0");
}

static void start(const char *trusted, bool leave_waiting)
{
    static struct td_io_thread io_threads[IO_THREADS];
    char message[256];
    for (int i = 0; i < IO_THREADS; i++)
        io_threads[i].library = (struct MHD_Daemon *)(uintptr_t)(i + 1);
    proxies = td_proxies_new(trusted, message, sizeof message);
    ck_assert_ptr_nonnull(proxies);
    acceptor =
        td_acceptor_start(&(struct td_acceptor_options){ .services = &services,
                                                         .proxies = proxies,
                                                         .listeners = &listeners,
                                                         .leave_waiting = leave_waiting,
                                                         .io_threads = io_threads,
                                                         .n_io_threads = IO_THREADS,
                                                         .n_plain_threads = n_plain_threads });
    ck_assert_ptr_nonnull(acceptor);
}

static void tear_down(void)
{
    td_acceptor_free(acceptor);
    for (int i = 0; i < N_SOCKETS; i++)
        td_connections_close(services.connections, i);
    ck_assert_int_eq(td_connections_count(services.connections), 0);
    td_connections_free(services.connections);
    ck_assert_uint_eq(td_buffer_pool_usage(services.buffers).in_use, 0);
    td_clients_free(services.clients);
    td_buffer_pool_free(services.buffers);
    td_proxies_free(proxies);
    td_listeners_close(&listeners);
    if (socket_folder[0])
        ck_assert_int_eq(rmdir(socket_folder), 0);
}

/* A connection of client 127.0.0.`client` to the listening socket of this number, which may not
 * have been accepted yet. */
static int connect_to(int listener, int client)
{
    const struct sockaddr_in own = { .sin_family = AF_INET,
                                     .sin_addr.s_addr =
                                         htonl(INADDR_LOOPBACK - 1 + (uint32_t)client) };
    const struct td_listener_address *server = &listeners.all[listener].bound;
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(bind(fd, (const struct sockaddr *)&own, sizeof own), 0);
    ck_assert_int_eq(connect(fd, (const struct sockaddr *)&server->address, server->length), 0);
    return fd;
}

static void listen_on_unix(void)
{
    strcpy(socket_folder, "/tmp/td-acceptor-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(socket_folder));
    char address[sizeof socket_folder + 7];
    snprintf(address, sizeof address, "unix:%s/s", socket_folder);
    listen_on(address);
}

/* A connection to the Unix socket, which is the last listening socket. */
static int connect_to_unix(void)
{
    const struct td_listener_address *server = &listeners.all[listeners.n - 1].bound;
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    ck_assert_int_eq(connect(fd, (const struct sockaddr *)&server->address, server->length), 0);
    return fd;
}

static int connect_as(int client)
{
    return connect_to(0, client);
}

/* The record of a new connection of the client, which was handed over. */
static struct td_connection *open_as(int client)
{
    const int n = atomic_load(&n_handed);
    (void)connect_as(client);
    EVENTUALLY(atomic_load(&n_handed) > n);
    ck_assert_int_ne(fcntl(handed[n].socket, F_GETFL) & O_NONBLOCK, 0);
    ck_assert_int_eq(fcntl(handed[n].socket, F_GETFD), FD_CLOEXEC);
    return td_connections_find(services.connections, handed[n].socket);
}

static bool is_closed(int fd)
{
    struct pollfd poller = { .fd = fd, .events = POLLIN };
    char byte;
    return __real_poll(&poller, 1, -1) == 1 && recv(fd, &byte, 1, 0) <= 0;
}

/* ---- several addresses ----------------------------------------------------------------------- */

TD_TEST(a_connection_knows_whether_its_address_is_loopback)
{
    static const bool loopback[] = { true, false, true, false, false, true };
    listen_on("0.0.0.0:0"); /* at which 127.0.0.1 is reached as well */
    start("", false);
    for (int i = 0; i < (int)COUNT_OF(loopback); i++) {
        (void)connect_to(loopback[i] ? 0 : 1, 1);
        EVENTUALLY(atomic_load(&n_handed) == i + 1);
        ck_assert_int_eq(td_connections_find(services.connections, handed[i].socket)->loopback,
                         loopback[i]);
    }
}

TD_TEST(all_addresses_share_the_limits)
{
    services.connection_limits.per_client = 1;
    listen_on("127.0.0.2:0");
    start("", false);
    ck_assert_int_eq(open_as(1)->restriction, TD_UNRESTRICTED);
    (void)connect_to(1, 1);
    EVENTUALLY(atomic_load(&n_handed) == 2);
    ck_assert_int_eq(td_connections_find(services.connections, handed[1].socket)->restriction,
                     TD_CLIENT_REACHED);
}

/* Connections that accept4 would return. To its client a connection may be open before. */
static unsigned count_waiting(int listener)
{
    struct tcp_info info;
    socklen_t size = sizeof info;
    ck_assert_int_eq(getsockopt(listeners.all[listener].fd, IPPROTO_TCP, TCP_INFO, &info, &size),
                     0);
    return info.tcpi_unacked; /* of a listening socket */
}

/* Was it accepted at the first address? */
static bool is_of_first(int socket)
{
    struct sockaddr_in own;
    socklen_t length = sizeof own;
    ck_assert_int_eq(getsockname(socket, (struct sockaddr *)&own, &length), 0);
    return own.sin_addr.s_addr == htonl(INADDR_LOOPBACK);
}

TD_TEST(an_address_with_many_waiting_connections_keeps_none_from_another)
{
    enum { WAITING = 100 };
    only_stop = true;
    listen_on("127.0.0.2:0");
    start("", false);
    for (int i = 0; i < WAITING; i++)
        (void)connect_to(0, 1);
    (void)connect_to(1, 2);
    EVENTUALLY(count_waiting(0) == WAITING && count_waiting(1) == 1);
    td_acceptor_stop(acceptor);
    ck_assert_int_eq(atomic_load(&n_handed), WAITING + 1);
    int at = 0;
    while (at <= WAITING && is_of_first(handed[at].socket))
        at++;
    ck_assert_int_lt(at, WAITING / 2);
}

/* ---- which I/O thread ------------------------------------------------------------------------ */

/* The I/O threads of connections that the clients, one letter each, open one after the other. */
static const struct {
    const char *description, *clients, *io_threads;
} assignments[] = {
    { "the first eight connections of a client go to the first thread, the others to those with "
      "fewest",
      "aaaaaaaaaaaaa", "0000000021212" },
    { "a second client's go to the first thread too, while it has no more than its share",
      "aaaaaaaaaabbb", "0000000021002" },
    { "the first thread has at most nine connections more than another one", "abcdefghijklm",
      "0000000002102" },
    { "a user is a client as well", "UUUUUUUUUUa", "00000000210" },
};

/* With TLS, the last thread is for Unix sockets only. */
static const struct {
    const char *description, *clients, *io_threads;
} assignments_with_tls[] = {
    { "connections on Unix sockets go to the threads without TLS", "aUaUUbU", "0202202" },
    { "those threads serve no others", "aaaaaaaaaaa", "00000000111" },
};

/* The record of a new connection of the client: a letter, or U for this user's on a Unix socket. */
static struct td_connection *open_by(char client)
{
    const int n = atomic_load(&n_handed);
    if (client != 'U')
        return open_as(client - 'a' + 1);
    (void)connect_to_unix();
    EVENTUALLY(atomic_load(&n_handed) > n);
    return td_connections_find(services.connections, handed[n].socket);
}

static void check_placement(const char *description, const char *clients, const char *io_threads)
{
    char got[32] = { 0 };
    listen_on_unix();
    start("", false);
    for (int i = 0; clients[i]; i++)
        got[i] = (char)('0' + open_by(clients[i])->io_thread);
    ck_assert_msg(strcmp(got, io_threads) == 0, "%s: %s", description, got);
    for (int i = 0; clients[i]; i++)
        ck_assert_int_eq(handed[i].io_thread, got[i] - '0');
}

TD_TEST_EACH(connections_are_placed_on_io_threads, assignments)
{
    check_placement(assignments[_i].description, assignments[_i].clients,
                    assignments[_i].io_threads);
}

TD_TEST_EACH(with_tls_connections_on_unix_sockets_have_their_own_io_threads, assignments_with_tls)
{
    n_plain_threads = 1;
    check_placement(assignments_with_tls[_i].description, assignments_with_tls[_i].clients,
                    assignments_with_tls[_i].io_threads);
}

TD_TEST(a_client_that_has_left_the_first_thread_does_not_return_while_it_has_a_connection)
{
    start("", false);
    const struct td_connection *first = open_as(1);
    struct td_client *client = td_client_ref(first->client);
    ck_assert_int_eq(first->io_thread, 0);
    atomic_store(&client->left_first, true);
    ck_assert_int_ne(open_as(1)->io_thread, 0);
    for (int i = 0; i < 2; i++)
        td_connections_close(services.connections, handed[i].socket);
    ck_assert_int_eq(open_as(1)->io_thread, 0);
    td_client_unref(client);
}

TD_TEST(a_connection_on_a_unix_socket_belongs_to_its_user)
{
    services.connection_limits.per_client = 2;
    listen_on_unix();
    start("", false);
    const struct td_connection *first = open_by('U'), *second = open_by('U');
    const struct td_client_key key = td_client_key_of_user(geteuid());
    ck_assert_mem_eq(&first->client->key, &key, sizeof key);
    ck_assert_ptr_eq(first->client, second->client);
    ck_assert_int_eq(first->peer.kind, TD_PEER_USER);
    ck_assert_uint_eq(first->peer.user, geteuid());
    ck_assert(first->is_unix && !first->loopback && !first->forwards);
    ck_assert_int_eq(open_by('U')->restriction, TD_CLIENT_REACHED);
    const struct td_connection *other = open_by('a');
    ck_assert_int_eq(other->restriction, TD_UNRESTRICTED);
    ck_assert(!other->is_unix && other->loopback);
}

TD_TEST(a_user_can_be_a_trusted_proxy)
{
    char trusted[32];
    snprintf(trusted, sizeof trusted, "uid:%u", geteuid());
    listen_on_unix();
    start(trusted, false);
    const struct td_connection *record = open_by('U');
    ck_assert(record->forwards);
    ck_assert_ptr_null(record->client);
    ck_assert(!open_by('a')->forwards);
}

TD_TEST(connections_of_a_trusted_proxy_have_no_client_and_use_the_other_threads)
{
    services.connection_limits.per_client = 1;
    start("127.0.0.2", false);
    for (int i = 0; i < 4; i++) {
        const struct td_connection *record = open_as(2);
        ck_assert(record->forwards);
        ck_assert_ptr_null(record->client);
        ck_assert_int_eq(record->restriction, TD_UNRESTRICTED);
        ck_assert_int_eq(record->io_thread, i % 2 == 0 ? 2 : 1);
    }
    const struct td_connection *record = open_as(1);
    ck_assert(!record->forwards);
    ck_assert_int_eq(td_client_connections(record->client), 1);
    ck_assert_int_eq(open_as(1)->restriction, TD_CLIENT_REACHED);
}

/* ---- limits ---------------------------------------------------------------------------------- */

TD_TEST(a_connection_is_restricted_by_the_limit_that_it_exceeds)
{
    services.connection_limits = (struct td_connection_limits){ .open = 5, .per_client = 2 };
    phase_of_new = TD_CONNECTION_WORKING; /* so that none can make room */
    start("", false);
    static const struct {
        int client;
        enum td_restriction restriction;
    } opened[] = {
        { 1, TD_UNRESTRICTED },        { 1, TD_UNRESTRICTED },
        { 1, TD_CLIENT_REACHED }, /* it takes a place as well */
        { 2, TD_UNRESTRICTED },        { 2, TD_UNRESTRICTED },
        { 1, TD_CONNECTIONS_REACHED }, { 3, TD_CONNECTIONS_REACHED },
    };
    for (size_t i = 0; i < sizeof opened / sizeof *opened; i++)
        ck_assert_msg(open_as(opened[i].client)->restriction == opened[i].restriction,
                      "connection %zu", i);
}

TD_TEST(without_memory_for_it_a_connection_is_restricted)
{
    td_buffer_pool_free(services.buffers);
    td_connections_free(services.connections);
    services.buffers = td_buffer_pool_new(2 * CONNECTION_BYTES, 0);
    services.connections = td_connections_new(N_SOCKETS, services.buffers, CONNECTION_BYTES);
    start("", false);
    ck_assert_int_eq(open_as(1)->restriction, TD_UNRESTRICTED);
    ck_assert_int_eq(open_as(1)->restriction, TD_UNRESTRICTED);
    ck_assert_int_eq(open_as(1)->restriction, TD_MEMORY_REACHED);
}

TD_TEST(connections_that_are_ending_count_against_the_limit_up_to_a_number)
{
    enum { OPEN = 200, ENDING = TD_ENDING / 2 };
    services.connection_limits = (struct td_connection_limits){ .open = OPEN, .per_client = OPEN };
    start("", false);
    for (int i = 0; i < OPEN; i++)
        (void)open_as(1);
    for (int i = 0; i < ENDING;
         i++) /* each ends one of the first client, which is not closed yet */
        ck_assert_int_eq(open_as(2 + i)->restriction, TD_UNRESTRICTED);
    ck_assert_int_eq(open_as(200)->restriction, TD_CONNECTIONS_REACHED);
    for (int i = 0; i < OPEN + 2; i++) /* with two of those that are there */
        if (i < 2 ||
            atomic_load(&td_connections_find(services.connections, handed[i].socket)->phase) ==
                TD_CONNECTION_ENDED)
            td_connections_close(services.connections, handed[i].socket);
    ck_assert_int_eq(open_as(201)->restriction, TD_UNRESTRICTED);
}

TD_TEST(the_oldest_restricted_connection_makes_room_for_another)
{
    services.connection_limits = (struct td_connection_limits){ .open = 1, .per_client = 1 };
    start("", false);
    (void)open_as(1);
    const struct td_connection *oldest = open_as(1), *second = open_as(1);
    for (int i = 2; i < TD_RESTRICTED_CONNECTIONS; i++)
        ck_assert_int_eq(open_as(1)->restriction, TD_CONNECTIONS_REACHED);
    ck_assert_int_eq(oldest->phase, TD_CONNECTION_WAITING);
    (void)open_as(1);
    ck_assert_int_eq(oldest->phase, TD_CONNECTION_ENDED);
    ck_assert_int_eq(second->phase, TD_CONNECTION_WAITING);
    ck_assert_int_eq(td_connections_count_restricted(services.connections),
                     TD_RESTRICTED_CONNECTIONS);
}

TD_TEST(restricted_connections_that_are_answered_are_not_ended)
{
    services.connection_limits = (struct td_connection_limits){ .open = 1, .per_client = 1 };
    phase_of_new = TD_CONNECTION_SENDING;
    start("", false);
    for (int i = 0; i <= TD_RESTRICTED_CONNECTIONS; i++)
        (void)open_as(1);
    ck_assert(is_closed(connect_as(1)));
    ck_assert_int_eq(atomic_load(&n_handed), 1 + TD_RESTRICTED_CONNECTIONS);
    td_connections_close(services.connections, handed[1].socket);
    (void)open_as(1);
}

TD_TEST(no_more_connections_are_accepted_than_there_are_files_for)
{
    enum { MOST_OPEN = 1 + TD_RESTRICTED_CONNECTIONS + TD_ENDING };
    services.connection_limits = (struct td_connection_limits){ .open = 1, .per_client = 1 };
    start("", false);
    for (int i = 0; i < MOST_OPEN; i++)
        (void)open_as(1);
    ck_assert(is_closed(connect_as(1)));
    ck_assert_int_eq(td_connections_count(services.connections), MOST_OPEN);
}

/* ---- failures -------------------------------------------------------------------------------- */

TD_TEST(a_connection_that_the_library_does_not_take_is_forgotten)
{
    library_takes = MHD_NO;
    start("", false);
    ck_assert(is_closed(connect_as(1)));
    EVENTUALLY(atomic_load(&n_handed) == 1);
    td_acceptor_stop(acceptor);
    ck_assert_int_eq(td_connections_count(services.connections), 0);
    ck_assert_uint_eq(td_buffer_pool_usage(services.buffers).in_use, 0);
}

TD_TEST(a_socket_above_the_table_is_closed_and_leaves_nothing)
{
    td_connections_free(services.connections);
    services.connections = td_connections_new(1, services.buffers, CONNECTION_BYTES);
    start("", false);
    ck_assert(is_closed(connect_as(1)));
    td_acceptor_stop(acceptor);
    ck_assert_int_eq(atomic_load(&n_handed), 0);
    ck_assert_uint_eq(td_buffer_pool_usage(services.buffers).in_use, 0);
    td_clients_trim(services.clients, 1, 1);
    td_clients_trim(services.clients, 3, 2);
    ck_assert_int_eq(td_clients_count(services.clients), 0); /* no reference was left */
}

/* The log so far. */
static const char *logged(int from)
{
    static char text[4096];
    const ssize_t n = read(from, text, sizeof text - 1);
    text[n > 0 ? n : 0] = '\0';
    return text;
}

static const struct {
    int error;
    bool pauses;
} errors[] = {
    { ECONNABORTED, false }, { EINTR, false },     { EPROTO, false },       { ENETDOWN, false },
    { ENOPROTOOPT, false },  { EHOSTDOWN, false }, { EHOSTUNREACH, false }, { EOPNOTSUPP, false },
    { ENETUNREACH, false },  { EPERM, false },     { EMFILE, true },        { ENFILE, true },
    { ENOBUFS, true },       { ENOMEM, true },
};

TD_TEST_EACH(without_files_or_memory_the_acceptor_pauses_and_logs_once, errors)
{
    enum { FAILURES = 3 };
    int pipes[2];
    ck_assert_int_eq(pipe2(pipes, O_NONBLOCK), 0);
    services.log.fd = pipes[1];
    services.log.level = TD_LOG_WARN;
    failure = errors[_i].error;
    atomic_store(&failing, FAILURES);
    start("", false);
    (void)open_as(1);
    const char *text = logged(pipes[0]), *event = strstr(text, "accept_failed");
    ck_assert_msg((event != NULL) == errors[_i].pauses, "%s: %s", strerror(failure), text);
    ck_assert(!event || (strstr(event, strerror(failure)) && !strstr(event + 1, "accept_failed")));
    ck_assert_int_eq(atomic_load(&waits), errors[_i].pauses ? FAILURES : 0);
    (void)open_as(1); /* it waits for connections again */
    ck_assert_int_eq(atomic_load(&waits), errors[_i].pauses ? FAILURES : 0);
}

/* ---- stop ------------------------------------------------------------------------------------ */

TD_TEST_LOOP(at_the_stop_waiting_connections_are_accepted_or_left_to_another_process, 0, 2)
{
    const bool leave_waiting = _i == 1;
    enum { WAITING = 5 };
    only_stop = true;
    listen_on("127.0.0.2:0");
    start("", leave_waiting);
    for (int i = 0; i < WAITING; i++)
        (void)connect_to(i % 2, 1);
    EVENTUALLY(count_waiting(0) + count_waiting(1) == WAITING);
    td_acceptor_stop(acceptor);
    ck_assert_int_eq(atomic_load(&n_handed), leave_waiting ? 0 : WAITING);
    td_acceptor_stop(acceptor); /* again */
    int left = 0;
    for (int i = 0; i < 2; i++)
        while (__real_accept4(listeners.all[i].fd, NULL, NULL, 0) >= 0)
            left++;
    ck_assert_int_eq(left, leave_waiting ? WAITING : 0);
}

TD_FIXTURE(set_up, tear_down);
