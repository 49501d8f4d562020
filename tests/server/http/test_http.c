#include "server/calls/services_open.h"
#include "server/config/load.h"
#include "server/http/acceptor.h"
#include "server/http/http.h"
#include "server/http/listener.h"
#include "tests/support/eventually.h"
#include "tests/support/suite.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- what the server asks of the system and of the library ----------------------------------- */

static atomic_int yields;

/* In the place of the C library's. Counts only the yields of I/O threads. */
int sched_yield(void)
{
    char name[16] = "";
    (void)pthread_getname_np(pthread_self(), name, sizeof name);
    if (strcmp(name, "io") == 0)
        atomic_fetch_add(&yields, 1);
    return 0;
}

/* The library's functions are seen by the test (CMakeLists.txt). */
static atomic_int responses;    /* references to responses */
static atomic_int headers_left; /* the header after so many has no memory; negative: each has */

struct MHD_Response *__real_MHD_create_response_empty(enum MHD_ResponseFlags flags);
struct MHD_Response *__wrap_MHD_create_response_empty(enum MHD_ResponseFlags flags);
struct MHD_Response *__wrap_MHD_create_response_empty(enum MHD_ResponseFlags flags)
{
    atomic_fetch_add(&responses, 1);
    return __real_MHD_create_response_empty(flags);
}

struct MHD_Response *__real_MHD_create_response_from_buffer(size_t size, void *buffer,
                                                            enum MHD_ResponseMemoryMode mode);
struct MHD_Response *__wrap_MHD_create_response_from_buffer(size_t size, void *buffer,
                                                            enum MHD_ResponseMemoryMode mode);
struct MHD_Response *__wrap_MHD_create_response_from_buffer(size_t size, void *buffer,
                                                            enum MHD_ResponseMemoryMode mode)
{
    atomic_fetch_add(&responses, 1);
    return __real_MHD_create_response_from_buffer(size, buffer, mode);
}

/* The queue holds a reference of its own, which the library gives back after the reply. */
enum MHD_Result __real_MHD_queue_response(struct MHD_Connection *connection, unsigned status,
                                          struct MHD_Response *response);
enum MHD_Result __wrap_MHD_queue_response(struct MHD_Connection *connection, unsigned status,
                                          struct MHD_Response *response);
enum MHD_Result __wrap_MHD_queue_response(struct MHD_Connection *connection, unsigned status,
                                          struct MHD_Response *response)
{
    const enum MHD_Result queued = __real_MHD_queue_response(connection, status, response);
    atomic_fetch_add(&responses, queued == MHD_YES);
    return queued;
}

void __real_MHD_destroy_response(struct MHD_Response *response);
void __wrap_MHD_destroy_response(struct MHD_Response *response);
void __wrap_MHD_destroy_response(struct MHD_Response *response)
{
    atomic_fetch_sub(&responses, 1);
    __real_MHD_destroy_response(response);
}

enum MHD_Result __real_MHD_add_response_header(struct MHD_Response *response, const char *name,
                                               const char *value);
enum MHD_Result __wrap_MHD_add_response_header(struct MHD_Response *response, const char *name,
                                               const char *value);
enum MHD_Result __wrap_MHD_add_response_header(struct MHD_Response *response, const char *name,
                                               const char *value)
{
    return atomic_fetch_sub(&headers_left, 1) == 0
               ? MHD_NO
               : __real_MHD_add_response_header(response, name, value);
}

/* ---- the server and its clients -------------------------------------------------------------- */

static struct td_services services;
static struct td_http *http;
static struct sockaddr_in server;

static void server_open(void)
{
    static char *nothing[] = { NULL };
    static char *arguments[] = { (char *)(uintptr_t) "tensord",
                                 (char *)(uintptr_t) "--workers=1",
                                 (char *)(uintptr_t) "--io-threads=1",
                                 (char *)(uintptr_t) "--inline-limit-us=0",
                                 (char *)(uintptr_t) "--connection-limit=64",
                                 NULL };
    char message[TD_CONFIG_MESSAGE];
    socklen_t length = sizeof server;
    memset(&services, 0, sizeof services);
    services.log.fd = -1;
    ck_assert_int_eq(td_config_load(&services.config, 5, arguments, nothing, message),
                     TD_CONFIG_RUN);
    ck_assert(td_services_open(&services));
    const int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    server =
        (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    ck_assert_int_eq(bind(listener, (struct sockaddr *)&server, sizeof server), 0);
    ck_assert_int_eq(listen(listener, 64), 0);
    ck_assert_int_eq(getsockname(listener, (struct sockaddr *)&server, &length), 0);
    atomic_store(&headers_left, -1);
    struct td_listeners inherited = { .n = 0 };
    const char *why;
    ck_assert(td_listeners_take(&inherited, listener, &why));
    http = td_http_start(&services, &inherited);
    ck_assert_ptr_nonnull(http);
}

static void server_close(void)
{
    td_http_stop_accepting(http);
    td_services_stop_workers(&services);
    td_http_stop(http);
    td_services_close(&services);
    td_config_free(&services.config);
}

/* A connection of client 127.0.0.`client`. */
static int connect_as(int client)
{
    const struct sockaddr_in own = { .sin_family = AF_INET,
                                     .sin_addr.s_addr =
                                         htonl(INADDR_LOOPBACK - 1 + (uint32_t)client) };
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert_int_eq(bind(fd, (const struct sockaddr *)&own, sizeof own), 0);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&server, sizeof server), 0);
    return fd;
}

/* Sends a request and returns the beginning of its reply, or "" if the connection was closed. */
static const char *ask(int fd, const char *request)
{
    static char reply[4096];
    size_t used = 0;
    ck_assert_int_eq(send(fd, request, strlen(request), MSG_NOSIGNAL), (ssize_t)strlen(request));
    reply[0] = '\0';
    while (!strstr(reply, "\r\n\r\n")) {
        const ssize_t n = recv(fd, reply + used, sizeof reply - 1 - used, 0);
        if (n <= 0)
            break;
        used += (size_t)n;
        reply[used] = '\0';
    }
    return reply;
}

#define HEALTH "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
#define GATHER                                                                                     \
    "POST /v1/gather HTTP/1.1\r\nHost: localhost\r\nContent-Length: 30\r\n\r\n"                    \
    "{\"params\":[1,2],\"indices\":[1]}"

static bool is_status(const char *reply, int status)
{
    char line[32];
    snprintf(line, sizeof line, "HTTP/1.1 %d ", status);
    return strncmp(reply, line, strlen(line)) == 0;
}

/* A connection that has had a reply. */
static int open_as(int client)
{
    const int fd = connect_as(client);
    ck_assert(is_status(ask(fd, HEALTH), 200));
    return fd;
}

/* ---- yields ---------------------------------------------------------------------------------- */

/* A request is counted when the library has noticed that its reply was sent, which may be after the
 * client has it. */
static void wait_for_yields(int count)
{
    EVENTUALLY(atomic_load(&yields) >= count);
    ck_assert_int_eq(atomic_load(&yields), count);
}

TD_TEST(an_io_thread_yields_after_eight_requests_while_the_first_one_serves_another_client)
{
    enum { MANY = TD_FEW_CONNECTIONS + 12 }; /* the last twelve on the second thread */
    int greedy = 0;
    for (int i = 0; i < MANY; i++)
        greedy = open_as(1);
    ck_assert_int_eq(td_connections_count_on(services.connections, 0), TD_FEW_CONNECTIONS);
    ck_assert_int_eq(td_connections_count_on(services.connections, 1), 12);
    ck_assert_int_eq(atomic_load(&yields), 0); /* no other client would profit */
    const int other = open_as(2);
    ck_assert_int_eq(td_connections_count_on(services.connections, 0), TD_FEW_CONNECTIONS + 1);
    for (int i = 0; i < 22; i++) /* with those before 34 */
        ck_assert(is_status(ask(greedy, HEALTH), 200));
    wait_for_yields(3); /* after 16, 24 and 32 */
    for (int i = 0; i < 20; i++)
        ck_assert(is_status(ask(other, HEALTH), 200));
    ck_assert_int_eq(atomic_load(&yields), 3); /* the first thread never does */
}

TD_TEST(a_queued_request_counts_when_it_is_queued_and_when_it_is_answered)
{
    enum { MANY = TD_FEW_CONNECTIONS + 12 };
    int greedy = 0;
    for (int i = 0; i < MANY; i++)
        greedy = open_as(1);
    (void)open_as(2);
    for (int i = 0; i < 12; i++) /* with those before 12 + 2 * 12 */
        ck_assert(is_status(ask(greedy, GATHER), 200));
    wait_for_yields(3); /* after 16, 24 and 32 */
}

TD_TEST(no_thread_yields_while_every_client_has_few_connections)
{
    enum { CLIENTS = 40 };
    int sockets[CLIENTS];
    for (int i = 0; i < CLIENTS; i++)
        sockets[i] = open_as(i + 1);
    ck_assert_int_gt(td_connections_count_on(services.connections, 0), TD_FEW_CONNECTIONS);
    ck_assert_int_gt(td_connections_count_on(services.connections, 1), 0);
    for (int round = 0; round < 3; round++)
        for (int i = 0; i < CLIENTS; i++)
            ck_assert(is_status(ask(sockets[i], HEALTH), 200));
    ck_assert_int_eq(atomic_load(&yields), 0);
}

/* ---- replies --------------------------------------------------------------------------------- */

TD_TEST_LOOP(a_reply_without_memory_for_a_header_closes_the_connection_and_leaves_nothing, 0, 4)
{
    static const char *const requests[] = {
        HEALTH,
        "GET /v1/unknown HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "DELETE /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "OPTIONS /v1/ops HTTP/1.1\r\nHost: localhost\r\n\r\n",
    };
    bool answered = false;
    int failed = 0;
    for (int header = 0; !answered; header++) {
        const int fd = connect_as(1);
        atomic_store(&headers_left, header);
        answered = ask(fd, requests[_i])[0] != '\0';
        failed += !answered;
        atomic_store(&headers_left, -1);
        close(fd);
    }
    ck_assert_int_gt(failed, 0);
    td_http_stop_accepting(http);
    EVENTUALLY(td_http_connections(http) == 0);
    ck_assert_int_eq(atomic_load(&responses), 0);
}

/* ---- the end of a drain ---------------------------------------------------------------------- */

TD_TEST(a_call_that_arrives_after_the_drain_is_refused_and_its_connection_closed)
{
    const int early = open_as(1), late = open_as(1);
    char byte;
    ck_assert(is_status(ask(early, GATHER), 200));
    atomic_store(&services.refusing, true);
    const char *reply = ask(late, GATHER);
    ck_assert_msg(is_status(reply, 503), "%s", reply);
    ck_assert_ptr_nonnull(strstr(reply, "\r\nConnection: close\r\n"));
    while (recv(late, &byte, 1, 0) > 0)
        ;
    ck_assert(is_status(ask(open_as(1), HEALTH), 200)); /* this one is no call */
    EVENTUALLY(atomic_load(&services.in_flight) == 0);  /* a refused call is not counted */
}

TD_FIXTURE(server_open, server_close);
