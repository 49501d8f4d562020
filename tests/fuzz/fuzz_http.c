/* fuzz_http.c - bytes sent to the whole daemon, which runs in this process on a loopback socket.
 *
 * Input    A byte: 0 to send all at once, else the size of the pieces; the bytes.
 *
 * Every reply is well-formed HTTP, a plain GET gets one, the connection is closed after the client
 * has closed its side, and then no call is in flight and the memory in use is that of before.
 * Requests are computed by the I/O thread and by a worker, so what happens at the same time may
 * differ from run to run. */
#include "server/calls/services_open.h"
#include "server/config/load.h"
#include "server/http/http.h"
#include "server/http/listener.h"
#include "server/observe/clock.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/eventually.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum {
    FIRST_REPLY_US = 20000, /* waited for the reply to a request that is complete */
    MORE_REPLIES_US = 300,  /* and after each part of a reply */
    EOF_TICK_US = 1000,
    MOST_TICKS = 300000, /* minutes, which only end a hang */
    MOST_PIECES = 64
};

static struct td_services services;
static struct td_http *http;
static struct sockaddr_in address;
static uint64_t memory_before;

/* ---- the daemon ----------------------------------------------------------------------------- */

/* The port of the socket that td_http_start has bound: the only listening one of the process. */
static void find_address(void)
{
    for (int fd = 3; fd < 256; fd++) {
        socklen_t size = sizeof address, length = sizeof(int);
        int listening = 0;
        if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &length) == 0 && listening &&
            getsockname(fd, (struct sockaddr *)&address, &size) == 0)
            return;
    }
    REQUIRE(false, "no listening socket");
}

static void put(const char *name)
{
    struct td_resolver *resolver = fuzz_resolver();
    struct td_arena *arena = fuzz_arena_open();
    struct td_store_write write = { .name = name };
    struct td_tensor_listing listing;
    struct td_tensor tensor;
    struct td_error err = { 0 };
    bool created;
    struct td_exec serial;
    td_exec_serial(&serial, arena);
    td_status status = resolver->resolve(resolver, name, strlen(name), arena, &tensor, &err);
    if (status == TD_OK)
        status = td_store_put_table(services.store, &write, &tensor, tensor.keys, &serial, arena,
                                    &listing, &created, &err);
    REQUIRE(status == TD_OK, "%s: %s", name, err.message);
    fuzz_arena_close(arena);
}

/* The store has "t" and "s" as at the start, and nothing else. */
static void restore_store(void)
{
    static uint64_t versions[2];
    struct td_arena *arena = fuzz_arena_open();
    struct td_tensor_listing *list;
    struct td_error err = { 0 };
    int count;
    REQUIRE(td_store_list(services.store, arena, &list, &count, &err) == TD_OK, "%s", err.message);
    const bool changed =
        count != 2 || list[0].version != versions[0] || list[1].version != versions[1];
    for (int i = 0; changed && i < count; i++) {
        const struct td_store_write write = { .name = list[i].name };
        REQUIRE(td_store_delete(services.store, &write, &(bool){ false }, &err) == TD_OK, "%s",
                err.message);
    }
    fuzz_arena_close(arena);
    if (!changed)
        return;
    put("s");
    put("t");
    td_store_trim(services.store, INT64_MAX);
    arena = fuzz_arena_open();
    REQUIRE(td_store_list(services.store, arena, &list, &count, &err) == TD_OK, "%s", err.message);
    for (int i = 0; i < 2; i++)
        versions[i] = list[i].version;
    fuzz_arena_close(arena);
}

static void stop_daemon(void)
{
    td_services_stop_workers(&services);
    td_http_stop(http);
    td_services_close(&services);
    td_config_free(&services.config);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    static char *options[] = { "tensord",
                               "--listen=127.0.0.1:0",
                               "--io-threads=1",
                               "--workers=1",
                               "--gpu=off",
                               "--compress",
                               "--allow-origin=https://app.example.com",
                               "--memory-limit=64M",
                               "--max-body=1M",
                               "--max-output=256K",
                               "--max-flops=1000000",
                               "--default-timeout-ms=2000" };
    static char *no_environment[] = { NULL };
    char message[TD_CONFIG_MESSAGE];
    (void)argc;
    (void)argv;
    signal(SIGPIPE, SIG_IGN);
    REQUIRE(td_config_load(&services.config, (int)(sizeof options / sizeof options[0]), options,
                           no_environment, message) == TD_CONFIG_RUN,
            "%s", message);
    services.log = (struct td_log){ .level = TD_LOG_DEBUG,
                                    .format = TD_LOG_JSON,
                                    .fd = open("/dev/null", O_WRONLY | O_CLOEXEC) };
    REQUIRE(td_services_open(&services), "the services do not start");
    http = td_http_start(&services, &(struct td_listeners){ .n = 0 });
    REQUIRE(http, "HTTP does not start");
    find_address();
    restore_store();
    memory_before = td_services_holdings(&services).buffers.in_use;
    atexit(stop_daemon);
    return 0;
}

/* ---- a connection --------------------------------------------------------------------------- */

/* From one of many addresses, so that the ports of closed connections do not run out. */
static int connect_client(void)
{
    static uint32_t number;
    const int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const struct sockaddr_in from = { .sin_family = AF_INET,
                                      .sin_addr.s_addr =
                                          htonl(0x7f010000u | (++number & 0xffffu)) };
    REQUIRE(fd >= 0, "%s", strerror(errno));
    setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    REQUIRE(bind(fd, (const struct sockaddr *)&from, sizeof from) == 0, "%s", strerror(errno));
    REQUIRE(connect(fd, (const struct sockaddr *)&address, sizeof address) == 0, "%s",
            strerror(errno));
    return fd;
}

static bool readable(int fd, int us)
{
    struct pollfd one = { .fd = fd, .events = POLLIN };
    const struct timespec limit = { .tv_nsec = us * 1000L };
    return ppoll(&one, 1, &limit, NULL) > 0;
}

struct replies {
    char *data;
    size_t size, capacity;
    bool reset;
};

/* False at the end of the stream. */
static bool receive(int fd, struct replies *replies)
{
    if (replies->capacity - replies->size < 65536) {
        replies->capacity = 2 * replies->capacity + 65536;
        replies->data = realloc(replies->data, replies->capacity);
        REQUIRE(replies->data, "no memory");
    }
    const ssize_t got =
        recv(fd, replies->data + replies->size, replies->capacity - replies->size, 0);
    replies->reset = got < 0;
    replies->size += got > 0 ? (size_t)got : 0;
    return got > 0;
}

/* Sends what the daemon accepts: it may close early. */
static void send_pieces(int fd, size_t piece, const uint8_t *data, size_t size)
{
    for (int i = 0; size > 0; i++) {
        const size_t part = piece == 0 || piece > size || i == MOST_PIECES ? size : piece;
        const ssize_t sent = send(fd, data, part, MSG_NOSIGNAL);
        if (sent <= 0)
            return;
        data += sent;
        size -= (size_t)sent;
    }
}

static bool holds_end_of_headers(const uint8_t *data, size_t size)
{
    return memmem(data, size, "\n\r\n", 3) || memmem(data, size, "\n\n", 2);
}

/* Whether the input is nothing but a GET without further headers, which is always answered. */
static bool is_plain_get(const uint8_t *data, size_t size)
{
    static const char begin[] = "GET /", end[] = " HTTP/1.1\r\nHost: localhost\r\n\r\n";
    const size_t before = sizeof begin - 1, after = sizeof end - 1;
    if (size < before + after || memcmp(data, begin, before) != 0 ||
        memcmp(data + size - after, end, after) != 0)
        return false;
    for (size_t i = before; i < size - after; i++)
        if (!isalnum(data[i]) && data[i] != '/')
            return false;
    return true;
}

static void converse(size_t piece, const uint8_t *data, size_t size, struct replies *replies)
{
    const int fd = connect_client();
    bool open = true;
    send_pieces(fd, piece, data, size);
    if (is_plain_get(data, size))
        for (int ticks = 0; replies->size == 0; ticks++) {
            REQUIRE(ticks < MOST_TICKS, "no reply");
            if (readable(fd, EOF_TICK_US))
                REQUIRE(receive(fd, replies), "the connection is closed without a reply");
        }
    if (holds_end_of_headers(data, size))
        for (int wait_us = FIRST_REPLY_US; open && readable(fd, wait_us); wait_us = MORE_REPLIES_US)
            open = receive(fd, replies);
    shutdown(fd, SHUT_WR);
    for (int ticks = 0; open; ticks++) {
        REQUIRE(ticks < MOST_TICKS, "the connection stays open");
        td_http_tidy(http, td_now_ns(), 1);
        if (readable(fd, EOF_TICK_US))
            open = receive(fd, replies);
    }
    close(fd);
}

/* ---- replies -------------------------------------------------------------------------------- */

struct head {
    int status;
    size_t length, json_length; /* SIZE_MAX: not given */
    bool has_type, is_json, is_encoded;
};

static size_t number_of(const char *text)
{
    char *end;
    const unsigned long long number = strtoull(text, &end, 10);
    REQUIRE(*text >= '0' && *text <= '9' && (*end == '\r' || *end == ' '), "not a number");
    return (size_t)number;
}

static void read_header(const char *line, size_t size, struct head *head)
{
    const char *colon = memchr(line, ':', size);
    REQUIRE(colon && colon > line && !memchr(line, '\0', size) && !memchr(line, '\n', size),
            "a header: %.*s", (int)size, line);
    const size_t name = (size_t)(colon - line);
    const char *value = colon + 1 + strspn(colon + 1, " ");
#define IS(text) (name == sizeof(text) - 1 && strncasecmp(line, text, name) == 0)
    if (IS("Content-Length"))
        head->length = number_of(value);
    else if (IS("Inference-Header-Content-Length"))
        head->json_length = number_of(value);
    else if (IS("Content-Encoding"))
        head->is_encoded = true;
    else if (IS("Content-Type")) {
        head->has_type = true;
        head->is_json = strncmp(value, "application/json", 16) == 0 ||
                        strncmp(value, "application/problem+json", 24) == 0;
    }
#undef IS
}

/* Returns the size of status line and headers. */
static size_t read_head(const char *data, size_t size, struct head *head)
{
    const char *end = memmem(data, size, "\r\n\r\n", 4);
    REQUIRE(end, "a reply without an end of headers: %.*s", (int)size, data);
    REQUIRE(end - data > 12 && memcmp(data, "HTTP/1.", 7) == 0 &&
                (data[7] == '0' || data[7] == '1') && data[8] == ' ',
            "a status line: %.*s", (int)(end - data), data);
    *head = (struct head){ .status = atoi(data + 9), .length = SIZE_MAX, .json_length = SIZE_MAX };
    REQUIRE(head->status >= 100 && head->status < 600, "status %d", head->status);
    for (const char *line = strstr(data, "\r\n") + 2; line < end + 2;) {
        const char *next = strstr(line, "\r\n");
        read_header(line, (size_t)(next - line), head);
        line = next + 2;
    }
    return (size_t)(end - data) + 4;
}

static void expect_body(const struct head *head, const char *body)
{
    REQUIRE(head->length == 0 || head->has_type, "a body without a type");
    if (!head->is_json || head->is_encoded || head->status == 206 || head->length == 0)
        return;
    const bool all = head->json_length == SIZE_MAX;
    REQUIRE(all || head->json_length <= head->length, "a long JSON header");
    fuzz_expect_oip_json(body, all ? head->length : head->json_length);
}

/* The reply to a HEAD request has no body, and is not recognised here: if there may be one, only
 * the first reply's headers are read. */
static void expect_replies(struct replies *replies, bool may_be_head)
{
    if (replies->size == 0)
        return;
    replies->data[replies->size] = '\0'; /* receive has left room */
    for (size_t at = 0; at < replies->size;) {
        struct head head;
        if (replies->reset && !memmem(replies->data + at, replies->size - at, "\r\n\r\n", 4))
            return;
        at += read_head(replies->data + at, replies->size - at, &head);
        if (may_be_head)
            return;
        if (head.status < 200 || head.status == 204 || head.status == 304)
            continue;
        REQUIRE(head.length != SIZE_MAX, "a reply without a length");
        if (head.length > replies->size - at) {
            REQUIRE(replies->reset, "%zu of %zu bytes of a body", replies->size - at, head.length);
            return;
        }
        expect_body(&head, replies->data + at);
        at += head.length;
    }
}

/* ---- the target ----------------------------------------------------------------------------- */

static void expect_idle(void)
{
    for (int moments = 0; atomic_load(&services.in_flight) > 0 ||
                          atomic_load(&services.suspended) > 0 || atomic_load(&services.unsent) > 0;
         moments++, moment())
        REQUIRE(moments < MOMENTS, "%lld calls stay in flight",
                (long long)atomic_load(&services.in_flight));
    restore_store();
    for (int moments = 0; td_services_holdings(&services).buffers.in_use != memory_before;
         moments++, moment())
        REQUIRE(moments < MOMENTS, "%llu bytes in use, %llu before",
                (unsigned long long)td_services_holdings(&services).buffers.in_use,
                (unsigned long long)memory_before);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct replies replies = { 0 };
    const size_t piece = fuzz_byte(&data, &size);
    converse(piece, data, size, &replies);
    expect_replies(&replies, memmem(data, size, "HEAD", 4) != NULL);
    free(replies.data);
    expect_idle();
    return 0;
}
