/* load_client - generates load from one address.
 *
 *     load_client PORT SOURCE CONNECTIONS PACE SECONDS METHOD TARGET FILES ["NAME: VALUE"]...
 *
 * Each connection, from the address SOURCE (127.0.0.2), sends a file to 127.0.0.1 and waits for the
 * reply. FILES is one file, or several with commas between them, which the requests send in turn. A
 * PORT of unix:PATH is a Unix socket, to which SOURCE does not apply. PACE determines when a
 * connection sends a file again:
 *
 *     0         at once, even after a refusal, like a client that ignores Retry-After
 *     1000us    after a pause
 *     20000/s   when the plan says so: all connections together send at a fixed rate
 *
 * With a plan, the latency of a request starts at its planned time, even if no connection was free
 * then, so requests that wait for a slow server count. Prints one line:
 *
 *     figures ACCEPTED REFUSED FAILED SECONDS P50_US P99_US REFUSED_P50_US
 *
 * 2xx replies count as accepted, 429 and 503 as refused, and all other replies and unexpectedly
 * closed connections as failed. The latencies are of accepted requests, except the last one, which
 * is of refused requests. After a reply with `Connection: close`, the client connects again. */
#include "tests/bench/measure.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/un.h>

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROOM = 16384 };

struct request {
    char *text;
    size_t bytes;
};

struct connection {
    int fd;
    const struct request *request;
    size_t sent;         /* of the request */
    double begun;        /* when it was sent, or planned to be sent */
    size_t head;         /* bytes in room */
    long long body_left; /* -1: the head is incomplete */
    int status;
    bool closes;             /* the reply has `Connection: close` */
    char room[ROOM];         /* the reply's head and any bytes that arrived with it */
    double due;              /* in a pause: the end of the pause */
    struct connection *next; /* in the queue of connections that do not wait for a reply */
};

struct latencies {
    double *us;
    size_t n, capacity;
};

struct load {
    union {
        struct sockaddr any;
        struct sockaddr_in tcp;
        struct sockaddr_un local;
    } server;
    socklen_t server_length;
    struct sockaddr_in source;
    int epoll;
    struct request *requests;
    size_t n_requests, next_request; /* `next_request` counts up */
    long accepted, refused, failed;
    struct latencies of_accepted, of_refused;
    double pause_ns;
    double interval_ns; /* between two planned requests, or 0 without a plan */
    double planned;     /* time of the next planned request */
    /* Connections in a pause, or waiting for the next planned request; the first one is the next
     * to send. */
    struct connection *first, *last;
};

_Noreturn static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static void record(struct latencies *latencies, double us)
{
    if (latencies->n == latencies->capacity) {
        latencies->capacity = latencies->capacity ? 2 * latencies->capacity : 65536;
        latencies->us = realloc(latencies->us, latencies->capacity * sizeof *latencies->us);
        if (!latencies->us)
            fail("latencies");
    }
    latencies->us[latencies->n++] = us;
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Returns 0 if there are no latencies. */
static double percentile(const struct latencies *latencies, double part)
{
    return latencies->n ? latencies->us[(size_t)((double)(latencies->n - 1) * part)] : 0;
}

/* ---- the requests ---------------------------------------------------------------------------- */

/* Makes a request of a file. The arguments are METHOD TARGET FILES and the headers. */
static void make_request(struct request *request, const char *path, char **arguments)
{
    FILE *out = open_memstream(&request->text, &request->bytes), *file = fopen(path, "rb");
    char chunk[65536];
    if (!out || !file || fseek(file, 0, SEEK_END) != 0)
        fail(path);
    fprintf(out, "%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %ld\r\n", arguments[0],
            arguments[1], ftell(file));
    for (char **header = arguments + 3; *header; header++)
        fprintf(out, "%s\r\n", *header);
    fputs("\r\n", out);
    rewind(file);
    for (size_t got; (got = fread(chunk, 1, sizeof chunk, file)) > 0;)
        fwrite(chunk, 1, got, out);
    fclose(file);
    if (fclose(out) != 0)
        fail("request");
}

static void make_requests(struct load *load, char **arguments)
{
    char *paths = strdup(arguments[2]), *rest = paths;
    if (!paths)
        fail("requests");
    for (const char *path; (path = strsep(&rest, ","));) {
        load->requests = reallocarray(load->requests, load->n_requests + 1, sizeof *load->requests);
        if (!load->requests)
            fail("requests");
        make_request(&load->requests[load->n_requests++], path, arguments);
    }
    free(paths);
}

/* ---- a connection ---------------------------------------------------------------------------- */

static void wait_for(struct load *load, struct connection *connection, int operation,
                     uint32_t events)
{
    struct epoll_event event = { .events = events, .data.ptr = connection };
    if (epoll_ctl(load->epoll, operation, connection->fd, &event) != 0)
        fail("epoll_ctl");
}

/* Sends as much of the request as the socket takes. */
static void send_more(struct load *load, struct connection *connection)
{
    const struct request *request = connection->request;
    const ssize_t put = send(connection->fd, request->text + connection->sent,
                             request->bytes - connection->sent, MSG_NOSIGNAL);
    const bool was_partial = connection->sent > 0;
    if (put > 0)
        connection->sent += (size_t)put;
    const bool partial = connection->sent < request->bytes;
    if (partial || was_partial)
        wait_for(load, connection, EPOLL_CTL_MOD, partial ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

static void begin_request(struct load *load, struct connection *connection, double begun)
{
    connection->request = &load->requests[load->next_request++ % load->n_requests];
    connection->sent = connection->head = 0;
    connection->body_left = -1;
    connection->begun = begun;
    send_more(load, connection);
}

static void queue_connection(struct load *load, struct connection *connection)
{
    connection->due = now_ns() + load->pause_ns;
    connection->next = NULL;
    if (load->first)
        load->last->next = connection;
    else
        load->first = connection;
    load->last = connection;
}

/* Binds a TCP socket to the source. Returns false on failure. */
static bool bind_source(const struct load *load, int fd)
{
    const int on = 1;
    return setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0 &&
           setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on) == 0 &&
           bind(fd, (const struct sockaddr *)&load->source, sizeof load->source) == 0;
}

static void open_connection(struct load *load, struct connection *connection)
{
    const sa_family_t family = load->server.any.sa_family;
    connection->fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connection->fd < 0 || (family == AF_INET && !bind_source(load, connection->fd)) ||
        connect(connection->fd, &load->server.any, load->server_length) != 0 ||
        fcntl(connection->fd, F_SETFL, O_NONBLOCK) != 0)
        fail("connect");
    wait_for(load, connection, EPOLL_CTL_ADD, EPOLLIN);
}

static void reopen(struct load *load, struct connection *connection)
{
    close(connection->fd);
    open_connection(load, connection);
}

/* Starts the requests that are due. Returns the time until the next request is due, at most
 * 0.1 s. */
static struct timespec start_due(struct load *load)
{
    double left = 1e8;
    while (load->first) {
        const double due = load->interval_ns > 0 ? load->planned : load->first->due;
        left = due - now_ns();
        if (left > 0)
            break;
        struct connection *connection = load->first;
        load->first = connection->next;
        load->planned += load->interval_ns;
        begin_request(load, connection, load->interval_ns > 0 ? due : now_ns());
        left = 1e8;
    }
    return (struct timespec){ .tv_nsec = (long)(left < 1e8 ? left : 1e8) };
}

/* Sends the next request, at once or when it is due. */
static void go_on(struct load *load, struct connection *connection)
{
    if (load->pause_ns > 0 || load->interval_ns > 0)
        queue_connection(load, connection);
    else
        begin_request(load, connection, now_ns());
}

static void recover(struct load *load, struct connection *connection)
{
    load->failed++;
    reopen(load, connection);
    begin_request(load, connection, now_ns());
}

static void end_request(struct load *load, struct connection *connection)
{
    const double us = (now_ns() - connection->begun) / 1e3;
    if (connection->status / 100 == 2) {
        load->accepted++;
        record(&load->of_accepted, us);
    } else if (connection->status == 429 || connection->status == 503) {
        load->refused++;
        record(&load->of_refused, us);
    } else {
        load->failed++;
    }
    if (connection->closes)
        reopen(load, connection);
    go_on(load, connection);
}

/* Returns the value of a header of a complete head, or NULL. */
static const char *header(const struct connection *connection, const char *end, const char *name)
{
    const char *found = strcasestr(connection->room, name);
    return found && found < end ? found + strlen(name) : NULL;
}

/* Reads the status and the body length from a complete head. */
static void read_head(struct connection *connection)
{
    char *end;
    connection->room[connection->head] = '\0';
    if (!(end = strstr(connection->room, "\r\n\r\n")))
        return;
    const char *length = header(connection, end, "\r\nContent-Length:");
    connection->status = atoi(connection->room + sizeof "HTTP/1.1");
    connection->closes = header(connection, end, "\r\nConnection: close") != NULL;
    connection->body_left = length ? atoll(length) : 0;
    connection->body_left -= (long long)(connection->head - (size_t)(end + 4 - connection->room));
}

/* Returns false if the connection was closed before the end of a reply. */
static bool receive(struct load *load, struct connection *connection)
{
    const bool in_head = connection->body_left < 0;
    const size_t at = in_head ? connection->head : 0;
    const ssize_t got = recv(connection->fd, connection->room + at, ROOM - 1 - at, 0);
    if (got <= 0)
        return got < 0 && errno == EAGAIN;
    if (in_head) {
        connection->head += (size_t)got;
        read_head(connection);
    } else {
        connection->body_left -= got;
    }
    if (connection->body_left == 0)
        end_request(load, connection);
    return true;
}

static void run(struct load *load, struct connection *connections, int n, double seconds)
{
    enum { EVENTS = 64 };
    struct epoll_event events[EVENTS];
    const double until = now_ns() + seconds * 1e9;
    load->planned = now_ns();
    for (int i = 0; i < n; i++) {
        open_connection(load, &connections[i]);
        go_on(load, &connections[i]);
    }
    while (now_ns() < until) {
        const struct timespec patience = start_due(load);
        const int ready = epoll_pwait2(load->epoll, events, EVENTS, &patience, NULL);
        for (int i = 0; i < ready; i++) {
            struct connection *connection = events[i].data.ptr;
            if (events[i].events & EPOLLOUT)
                send_more(load, connection);
            if (events[i].events & ~(uint32_t)EPOLLOUT && !receive(load, connection))
                recover(load, connection);
        }
    }
}

static void allow_many_files(void)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0)
        return;
    files.rlim_cur = files.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &files);
}

/* Reads PACE. Returns false if it has another form. */
static bool read_pace(struct load *load, const char *pace)
{
    char *unit;
    const double value = strtod(pace, &unit);
    if (strcmp(unit, "us") == 0)
        load->pause_ns = value * 1e3;
    else if (strcmp(unit, "/s") == 0 && value > 0)
        load->interval_ns = 1e9 / value;
    else
        return strcmp(pace, "0") == 0;
    return true;
}

/* Reads PORT. */
static void read_server(struct load *load, const char *port)
{
    static const char prefix[] = "unix:";
    if (strncmp(port, prefix, sizeof prefix - 1) == 0) {
        load->server.local = (struct sockaddr_un){ .sun_family = AF_UNIX };
        load->server_length = sizeof load->server.local;
        snprintf(load->server.local.sun_path, sizeof load->server.local.sun_path, "%s",
                 port + sizeof prefix - 1);
        return;
    }
    load->server.tcp = (struct sockaddr_in){ .sin_family = AF_INET,
                                             .sin_port = htons((uint16_t)atoi(port)),
                                             .sin_addr = { .s_addr = htonl(INADDR_LOOPBACK) } };
    load->server_length = sizeof load->server.tcp;
}

int main(int argc, char **argv)
{
    struct load load = { .epoll = epoll_create1(EPOLL_CLOEXEC) };
    if (argc < 9 || !read_pace(&load, argv[4])) {
        fprintf(stderr, "usage: load_client PORT SOURCE CONNECTIONS PACE SECONDS METHOD TARGET "
                        "FILES [HEADER]...\n");
        return 2;
    }
    const int n = atoi(argv[3]);
    const double seconds = atof(argv[5]);
    struct connection *connections = calloc((size_t)n, sizeof *connections);
    read_server(&load, argv[1]);
    load.source = (struct sockaddr_in){ .sin_family = AF_INET };
    if (load.epoll < 0 || !connections || inet_aton(argv[2], &load.source.sin_addr) == 0)
        fail("load_client");
    allow_many_files();
    /* By default, the kernel ends waits up to 50 us late. */
    (void)prctl(PR_SET_TIMERSLACK, 1);
    make_requests(&load, argv + 6);
    run(&load, connections, n, seconds);
    qsort(load.of_accepted.us, load.of_accepted.n, sizeof(double), ascending);
    qsort(load.of_refused.us, load.of_refused.n, sizeof(double), ascending);
    printf("figures %ld %ld %ld %.3f %.1f %.1f %.1f\n", load.accepted, load.refused, load.failed,
           seconds, percentile(&load.of_accepted, 0.5), percentile(&load.of_accepted, 0.99),
           percentile(&load.of_refused, 0.5));
    return 0;
}
