#include "server/http/http.h"

#include "api/oip/oip.h"
#include "server/calls/scheduler.h"
#include "server/compression/inflate.h"
#include "server/http/body.h"
#include "server/http/connections.h"
#include "server/http/linger.h"
#include "server/http/origin.h"
#include "server/http/routes.h"
#include "server/http/target.h"
#include "server/http/transport_errors.h"
#include "server/memory/populate.h"
#include "server/observe/clock.h"

#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <errno.h>
#include <fcntl.h>
#include <microhttpd.h>
#include <netdb.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum {
    DISCARDED_BODY =
        64 << 10, /* a refused body is read up to this, so that the connection stays usable */
    BACKLOG = 4096,
    SPARE_FILES = 64 + TD_LINGER_SOCKETS /* descriptors beside connections and shared memory */
};

struct td_http {
    struct td_server *server;
    struct MHD_Daemon *daemon;
    struct td_linger *linger;
    struct td_connections *connections;
    struct td_pages *pages;
    struct td_origins *origins;
};

static int socket_of(struct MHD_Connection *connection)
{
    return MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
}

/* ---- headers -------------------------------------------------------------------------------- */

/* One iteration over a request's headers. */
struct header_walk {
    struct td_call *call;
    const char *repeated; /* a header that may be given once only and was given twice */
    struct td_field host, content_length, transfer_encoding, authorization;
    struct td_field request_id, inference_header;
    struct td_field origin, sec_fetch_site, sec_fetch_mode, preflight_method;
};

/* Where the value of a header goes. Of one that may be repeated the last counts. */
struct header_place {
    const char *name;
    size_t length;
    size_t offset; /* of the value: a text in struct td_headers, a field in struct header_walk */
    bool in_walk;
    bool repeatable;
};

/* In a table that is made once, with lengths that are known: this runs for every header. */
#define PLACE(text, type, member, in_walk, repeatable)                                             \
    {                                                                                              \
        text, sizeof(text) - 1, offsetof(type, member), in_walk, repeatable                        \
    }
#define TO_CALL(text, member, repeatable) PLACE(text, struct td_headers, member, false, repeatable)
#define TO_WALK(text, member, repeatable) PLACE(text, struct header_walk, member, true, repeatable)

static const struct header_place places[] = {
    TO_WALK("Host", host, false),
    TO_CALL("Content-Type", content_type, false),
    TO_WALK("Content-Length", content_length, false),
    TO_CALL("Accept", accept, true),
    TO_CALL("Accept-Encoding", accept_encoding, true),
    TO_WALK("Transfer-Encoding", transfer_encoding, false),
    TO_WALK("Authorization", authorization, false),
    TO_CALL("Content-Encoding", content_encoding, false),
    TO_WALK("X-Request-Id", request_id, true),
    TO_CALL("X-Request-Timeout-Ms", timeout_ms, false),
    TO_CALL("traceparent", traceparent, true),
    TO_CALL("If-Match", if_match, false),
    TO_CALL("If-None-Match", if_none_match, false),
    TO_CALL("Range", range, false),
    TO_CALL("If-Range", if_range, false),
    TO_CALL("Expect", expect, true),
    TO_WALK("Inference-Header-Content-Length", inference_header, false),
    TO_WALK("Origin", origin, false),
    TO_WALK("Sec-Fetch-Site", sec_fetch_site, false),
    TO_WALK("Sec-Fetch-Mode", sec_fetch_mode, false),
    TO_WALK("Access-Control-Request-Method", preflight_method, false),
};

#undef TO_WALK
#undef TO_CALL
#undef PLACE

/* Sets a header's value. Was it set before? */
static bool place_header(const struct header_place *place, struct header_walk *walk,
                         const char *value, size_t length)
{
    if (place->in_walk) {
        struct td_field *field = (struct td_field *)(void *)((char *)walk + place->offset);
        const bool before = field->text != NULL;
        *field = (struct td_field){ value, length };
        return before;
    }
    const char **text = (const char **)(void *)((char *)&walk->call->headers + place->offset);
    const bool before = *text != NULL;
    *text = value;
    return before;
}

static enum MHD_Result visit_header(void *context, enum MHD_ValueKind kind, const char *name,
                                    size_t length, const char *value, size_t value_length)
{
    struct header_walk *walk = context;
    (void)kind;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const struct header_place *place = &places[i];
        if (place->length != length || strncasecmp(name, place->name, length) != 0)
            continue;
        if (place_header(place, walk, value ? value : "", value ? value_length : 0) &&
            !place->repeatable)
            walk->repeated = place->name;
    }
    return MHD_YES;
}

/* A caller's id is echoed when it is short and plain; else we make one. */
static void choose_request_id(struct td_call *call, struct td_field given)
{
    bool plain = given.length > 0 && given.length < TD_REQUEST_ID_SIZE;
    for (size_t i = 0; plain && i < given.length; i++)
        plain = given.text[i] > ' ' && given.text[i] < 0x7f && given.text[i] != '"' &&
                given.text[i] != '\\';
    if (plain) {
        memcpy(call->request_id, given.text, given.length);
        call->request_id[given.length] = '\0';
        return;
    }
    const uint64_t number =
        atomic_fetch_add_explicit(&call->server->next_request, 1, memory_order_relaxed);
    /* An odd factor makes it a bijection, so ids repeat only when the counter does. */
    uint64_t id = (number + call->server->request_seed) * UINT64_C(0x9e3779b97f4a7c15);
    for (int i = 0; i < 16; i++, id >>= 4)
        call->request_id[i] = "0123456789abcdef"[id & 15];
    call->request_id[16] = '\0';
}

static td_status refuse_header(struct td_error *err, td_status status, const char *name,
                               const char *sentence)
{
    td_error_set(err, status, "%s", sentence);
    snprintf(err->attribute, sizeof err->attribute, "%s", name);
    return status;
}

static td_status read_deadline(struct td_call *call)
{
    const char *text = call->headers.timeout_ms;
    int64_t ms = call->server->config.default_timeout_ms;
    if (text) {
        char *end;
        errno = 0;
        ms = strtoll(text, &end, 10);
        if (errno || end == text || *end || text[0] < '0' || text[0] > '9' || ms < 1 ||
            ms > 86400000)
            return refuse_header(&call->error, TD_MALFORMED_REQUEST, "X-Request-Timeout-Ms",
                                 "X-Request-Timeout-Ms is not a whole number from 1 to 86400000");
    }
    call->deadline_ns = ms > 0 ? call->times.begun + ms * 1000000 : TD_NEVER;
    return TD_OK;
}

/* libmicrohttpd refuses ambiguous framing itself in its strict mode; this holds even where it does
 * not. */
static td_status check_framing(struct header_walk *walk)
{
    struct td_call *call = walk->call;
    char sentence[128];
    const char *at_fault = walk->repeated;
    if (!at_fault && walk->content_length.text && walk->transfer_encoding.text)
        at_fault = "Content-Length";
    if (!at_fault)
        return TD_OK;
    /* Who may disagree with us about what the request is may not send another. */
    call->close_connection = true;
    if (walk->repeated)
        snprintf(sentence, sizeof sentence, "%s stands more than once in the request",
                 walk->repeated);
    else
        snprintf(sentence, sizeof sentence,
                 "Content-Length and Transfer-Encoding stand in one request; one is expected");
    return refuse_header(&call->error, TD_MALFORMED_REQUEST, at_fault, sentence);
}

/* Only /v2 knows this header; anywhere else it means nothing. */
static td_status read_inference_header(struct td_call *call, const char *text)
{
    return call->style == TD_STYLE_OIP
               ? td_oip_header(text, &call->headers.inference_header, &call->error)
               : TD_OK;
}

/* What a page may not send is refused before its body; the connection closes, since a client that
 * has not asked for leave to send the body sends it already. */
static td_status check_origin(const struct td_http *http, const struct header_walk *walk)
{
    struct td_call *call = walk->call;
    const struct td_origin_request request = { .method = call->method,
                                               .path = call->path,
                                               .host = walk->host,
                                               .origin = walk->origin,
                                               .sec_fetch_site = walk->sec_fetch_site,
                                               .sec_fetch_mode = walk->sec_fetch_mode };
    bool listed;
    const td_status status = td_origin_check(http->origins, &request, &listed, &call->error);
    if (listed)
        call->origin = walk->origin.text;
    if (status != TD_OK && (call->headers.chunked || call->headers.content_length > 0))
        call->close_connection = true;
    if (status == TD_OK && listed && walk->preflight_method.text)
        call->preflight = strcmp(call->method, "OPTIONS") == 0;
    return status;
}

/* authority: that of the request's target, which takes the place of Host where it is there. */
static td_status read_headers(const struct td_http *http, struct td_call *call,
                              struct td_field authority)
{
    struct header_walk walk = { .call = call };
    MHD_get_connection_values_n(call->connection, MHD_HEADER_KIND, visit_header, &walk);
    if (authority.text)
        walk.host = authority;
    choose_request_id(call, walk.request_id);
    call->headers.chunked = walk.transfer_encoding.text != NULL;
    call->headers.content_length =
        walk.content_length.text ? strtoll(walk.content_length.text, NULL, 10) : -1;
    td_status status = check_framing(&walk);
    if (status == TD_OK)
        status = check_origin(http, &walk);
    if (status == TD_OK)
        status = read_deadline(call);
    if (status == TD_OK)
        status = read_inference_header(call, walk.inference_header.text);
    return status;
}

/* ---- query ---------------------------------------------------------------------------------- */

/* For the HTTP library, which would decode paths as well: see target.h. */
static size_t leave_encoded(void *context, struct MHD_Connection *connection, char *text)
{
    (void)context;
    (void)connection;
    return strlen(text);
}

static enum MHD_Result visit_argument(void *context, enum MHD_ValueKind kind, const char *name,
                                      size_t length, const char *value, size_t value_length)
{
    struct td_call *call = context;
    (void)kind;
    if (!value) {
        value = "";
        value_length = 0;
    }
    td_status status = td_target_decode(&name, &length, "the query", &call->arena, &call->error);
    if (status == TD_OK)
        status = td_target_decode(&value, &value_length, "the query", &call->arena, &call->error);
    if (status == TD_OK)
        status = call->task->argument(call, name, length, value, value_length);
    return status == TD_OK ? MHD_YES : MHD_NO;
}

/* ---- replies -------------------------------------------------------------------------------- */

static void add_header(struct MHD_Response *response, const char *name, const char *value)
{
    (void)MHD_add_response_header(response, name,
                                  value); /* without memory: the reply lacks a header */
}

static void add_error_headers(const struct td_call *call, struct MHD_Response *response)
{
    char text[16];
    if (call->error.allow[0])
        add_header(response, "Allow", call->error.allow);
    if (call->error.etag[0])
        add_header(response, "ETag", call->error.etag);
    if (call->error.status == TD_UNSUPPORTED_MEDIA_TYPE &&
        strcmp(call->error.attribute, "Content-Encoding") == 0)
        add_header(response, "Accept-Encoding", "gzip, deflate");
    if (call->error.retry_after_s) {
        snprintf(text, sizeof text, "%u", call->error.retry_after_s);
        add_header(response, "Retry-After", text);
    }
}

static void add_timing(const struct td_call *call, struct MHD_Response *response)
{
    char text[160];
    snprintf(text, sizeof text,
             "decode;dur=%.3f, queue;dur=%.3f, compute;dur=%.3f, encode;dur=%.3f",
             (double)call->times.decode / 1e6, (double)call->times.queue / 1e6,
             (double)call->times.compute / 1e6, (double)call->times.encode / 1e6);
    add_header(response, "Server-Timing", text);
}

/* For browsers: may the page that sent the request read the answer, and which of its headers? */
static void add_origin_headers(const struct td_call *call, struct MHD_Response *response)
{
    if (call->server->config.allow_origin[0])
        add_header(response, "Vary", "Origin");
    if (!call->origin)
        return;
    add_header(response, "Access-Control-Allow-Origin", call->origin);
    if (!call->preflight)
        add_header(response, "Access-Control-Expose-Headers", TD_ORIGIN_EXPOSED);
}

static void add_reply_headers(const struct td_call *call, struct MHD_Response *response)
{
    const struct td_reply *reply = &call->reply;
    if (reply->content_type)
        add_header(response, "Content-Type", reply->content_type);
    add_header(response, "X-Request-Id", call->request_id);
    for (int i = 0; i < reply->n_headers; i++)
        add_header(response, reply->headers[i].name, reply->headers[i].value);
    add_origin_headers(call, response);
    if (call->error.status != TD_OK)
        add_error_headers(call, response);
    if (call->request.options.timing)
        add_timing(call, response);
    if (call->close_connection)
        add_header(response, "Connection", "close");
}

/* The reply's bytes stay in the call, which outlives the response: see completed(). */
static struct MHD_Response *make_response(struct td_call *call)
{
    const struct td_reply *reply = &call->reply;
    if (reply->n_pieces == 0)
        return MHD_create_response_empty(MHD_RF_NONE);
    if (reply->n_pieces == 1)
        return MHD_create_response_from_buffer(reply->pieces[0].size,
                                               (void *)(uintptr_t)reply->pieces[0].data,
                                               MHD_RESPMEM_PERSISTENT);
    struct MHD_IoVec *pieces =
        td_arena_alloc(&call->arena, (size_t)reply->n_pieces, sizeof *pieces, NULL);
    if (!pieces)
        return NULL;
    for (int i = 0; i < reply->n_pieces; i++)
        pieces[i] = (struct MHD_IoVec){ reply->pieces[i].data, reply->pieces[i].size };
    return MHD_create_response_from_iovec(pieces, (unsigned)reply->n_pieces, NULL, NULL);
}

static enum MHD_Result send_reply(struct td_call *call)
{
    struct MHD_Response *response = make_response(call);
    if (!response)
        return MHD_NO;
    add_reply_headers(call, response);
    const enum MHD_Result queued =
        MHD_queue_response(call->connection, (unsigned)call->reply.http_status, response);
    MHD_destroy_response(response);
    if (queued == MHD_YES) {
        call->sending = true;
        atomic_fetch_add_explicit(&call->server->sending, 1, memory_order_relaxed);
    }
    td_call_log(call);
    return queued;
}

static enum MHD_Result send_error(struct td_call *call)
{
    td_call_refuse(call);
    return send_reply(call);
}

/* ---- a request, from begin to end ----------------------------------------------------------- */

/* Counts the call before it looks whether the server drains: a drain that sees no call in flight
 * can be sure that none slips in behind its back. */
static td_status accept_call(struct td_call *call)
{
    call->accepted = true;
    atomic_fetch_add(&call->server->in_flight, 1);
    if (!atomic_load(&call->server->draining))
        return TD_OK;
    call->close_connection = true;
    return td_error_set(&call->error, TD_DRAINING, "the server is stopping and takes no new work");
}

/* A preflight asks for the request that follows it, which is told by itself what is wrong with it.
 */
static td_status begin_preflight(struct td_call *call)
{
    call->error.status = TD_OK;
    call->task = NULL;
    call->handler = td_origin_preflight;
    return TD_OK;
}

/* All that can be said before the body. */
static td_status begin(const struct td_http *http, struct td_call *call)
{
    struct td_target target;
    const td_status form = td_target_read(call->method, call->path, &target, &call->error);
    call->path = target.path;
    if (form != TD_OK)
        call->style = td_route_style(td_target_path(target.path));
    const td_status found = form == TD_OK ? td_route_call(call) : form;
    td_status status = read_headers(http, call, target.authority);
    if (status == TD_OK && form == TD_OK && call->preflight)
        return begin_preflight(call);
    if (status != TD_OK || found != TD_OK || call->handler)
        return status != TD_OK ? status : found;
    const bool has_body = call->body_limit != TD_BODY_NONE;
    call->negotiated = call->style == TD_STYLE_OIP || call->server->config.compress;
    if (call->negotiated)
        call->encoding = td_deflate_choose(call->headers.accept_encoding);
    status = accept_call(call);
    if (status == TD_OK && has_body)
        status = td_inflate_wanted(call->headers.content_encoding, &call->encoded, &call->error);
    if (status == TD_OK && call->task->begin)
        status = call->task->begin(call);
    if (status == TD_OK && call->task->argument)
        MHD_get_connection_values_n(call->connection, MHD_GET_ARGUMENT_KIND, visit_argument, call);
    if (status == TD_OK)
        status = call->error.status;
    return status == TD_OK && has_body ? td_body_begin(call) : status;
}

/* A refused request's body is read and dropped when it is small, so that the next request on the
 * connection finds its place; one that is large, or of unknown length, is answered at once and the
 * connection closed. */
static bool answer_before_body(const struct td_call *call)
{
    return call->close_connection || call->headers.chunked ||
           call->headers.content_length > DISCARDED_BODY;
}

static enum MHD_Result first_look(struct td_http *http, struct MHD_Connection *connection,
                                  const char *path, const char *method, void **state)
{
    struct td_call *call = td_call_new(http->server);
    if (!call)
        return MHD_NO;
    *state = call;
    call->connection = connection;
    call->method = method;
    call->path = path;
    call->times.begun = td_now_ns();
    if (begin(http, call) == TD_OK || !answer_before_body(call))
        return MHD_YES;
    call->lingers = call->headers.chunked || call->headers.content_length > 0;
    return send_error(call);
}

/* On the thread that makes pages. */
static void read_on(struct td_pages_job *job)
{
    struct td_call *call =
        (struct td_call *)(void *)((char *)job - offsetof(struct td_call, pages));
    MHD_resume_connection(call->connection);
}

/* The connection sleeps until the memory for what comes next is there. */
static void wait_for_pages(struct td_http *http, struct td_call *call)
{
    call->pages.done = read_on;
    MHD_suspend_connection(call->connection);
    td_pages_populate(http->pages, &call->pages);
}

static enum MHD_Result take_body(struct td_http *http, struct td_call *call, const char *data,
                                 size_t bytes)
{
    if (call->task && call->body_limit != TD_BODY_NONE && call->error.status == TD_OK) {
        /* What goes wrong is in call->error, and said after the body. */
        if (td_body_receive(call, data, bytes) == TD_OK && td_body_wants_pages(call))
            wait_for_pages(http, call);
        return MHD_YES;
    }
    /* The answer to a body that does not end is the end of the connection. */
    call->discarded += bytes;
    return call->discarded <= td_call_body_limit(call) ? MHD_YES : MHD_NO;
}

/* On a worker. */
static void wake(struct td_call *call)
{
    call->answered = true;
    MHD_resume_connection(call->connection);
}

static enum MHD_Result body_complete(struct td_call *call)
{
    call->times.arrived = call->times.lap = td_now_ns();
    if (call->error.status != TD_OK)
        return send_error(call);
    if (call->handler)
        return call->handler(call) == TD_OK ? send_reply(call) : send_error(call);
    if (td_schedule(call) == TD_ANSWERED)
        return send_reply(call);
    call->socket = socket_of(call->connection);
    call->finished = wake;
    MHD_suspend_connection(call->connection);
    td_schedule_submit(call);
    return MHD_YES;
}

static enum MHD_Result handle(void *context, struct MHD_Connection *connection, const char *path,
                              const char *method, const char *version, const char *data,
                              size_t *bytes, void **state)
{
    struct td_call *call = *state;
    (void)version;
    if (!call)
        return first_look(context, connection, path, method, state);
    if (*bytes > 0) {
        const size_t taken = *bytes;
        *bytes = 0;
        return take_body(context, call, data, taken);
    }
    if (!call->answered)
        return body_complete(call);
    if (call->gone) {
        td_call_log(call);
        return MHD_NO;
    }
    return send_reply(call);
}

/* The last byte is sent, or the client is gone. libmicrohttpd may still hold the response, but
 * reads no byte of it any more. */
static void completed(void *context, struct MHD_Connection *connection, void **state,
                      enum MHD_RequestTerminationCode code)
{
    struct td_http *http = context;
    struct td_call *call = *state;
    if (!call)
        return;
    *state = NULL;
    if (call->lingers && code == MHD_REQUEST_TERMINATED_COMPLETED_OK) {
        /* The library closes its own descriptor; the connection lives on in the other. */
        const int other = fcntl(socket_of(connection), F_DUPFD_CLOEXEC, 0);
        if (other >= 0)
            td_linger_take(http->linger, other);
    }
    const bool accepted = call->accepted, sending = call->sending;
    td_call_free(call);
    if (sending)
        atomic_fetch_sub_explicit(&http->server->sending, 1, memory_order_relaxed);
    if (accepted)
        atomic_fetch_sub(&http->server->in_flight, 1);
}

static void connection_changed(void *context, struct MHD_Connection *connection, void **state,
                               enum MHD_ConnectionNotificationCode change)
{
    struct td_http *http = context;
    const int socket = socket_of(connection);
    (void)state;
    if (change == MHD_CONNECTION_NOTIFY_STARTED)
        td_connections_add(http->connections, socket);
    else
        td_connections_remove(http->connections, socket);
}

/* ---- start and stop ------------------------------------------------------------------------- */

static int bind_address(const struct td_server *server, const char **why)
{
    char host[256], service[8];
    uint16_t port = 0;
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV };
    struct addrinfo *found = NULL;
    const int on = 1;
    (void)td_config_split_address(server->config.listen, host,
                                  &port); /* checked when it was read */
    snprintf(service, sizeof service, "%u", port);
    const int code = getaddrinfo(host, service, &hints, &found);
    if (code != 0) {
        *why = gai_strerror(code);
        return -1;
    }
    int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        bind(fd, found->ai_addr, found->ai_addrlen) != 0 || listen(fd, BACKLOG) != 0) {
        *why = strerror(errno);
        if (fd >= 0)
            close(fd);
        fd = -1;
    }
    freeaddrinfo(found);
    return fd;
}

/* Where the server listens. */
struct bound {
    struct sockaddr_storage address;
    socklen_t length;
};

static bool is_loopback(const struct bound *bound)
{
    const struct sockaddr_in *ipv4 = (const void *)&bound->address;
    const struct sockaddr_in6 *ipv6 = (const void *)&bound->address;
    if (bound->address.ss_family == AF_INET)
        return ntohl(ipv4->sin_addr.s_addr) >> 24 == 127;
    return bound->address.ss_family == AF_INET6 &&
           (IN6_IS_ADDR_LOOPBACK(&ipv6->sin6_addr) ||
            (IN6_IS_ADDR_V4MAPPED(&ipv6->sin6_addr) && ipv6->sin6_addr.s6_addr[12] == 127));
}

static void print_address(const struct bound *bound, char *text, size_t size)
{
    char host[NI_MAXHOST] = "?", service[NI_MAXSERV] = "?";
    getnameinfo((const struct sockaddr *)&bound->address, bound->length, host, sizeof host, service,
                sizeof service, NI_NUMERICHOST | NI_NUMERICSERV);
    snprintf(text, size, strchr(host, ':') ? "[%.200s]:%.30s" : "%.200s:%.30s", host, service);
}

/* As many connections as asked for, or as the limit on open files leaves room for. */
static unsigned connection_limit(const struct td_server *server)
{
    struct rlimit files;
    const int64_t wanted = server->config.connection_limit;
    const int64_t spare = SPARE_FILES + (server->shm ? TD_SHM_REGIONS : 0);
    if (getrlimit(RLIMIT_NOFILE, &files) != 0)
        return (unsigned)wanted;
    const rlim_t before = files.rlim_cur;
    files.rlim_cur = files.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &files) != 0)
        files.rlim_cur = before;
    if (files.rlim_cur == RLIM_INFINITY || files.rlim_cur >= (rlim_t)(wanted + spare))
        return (unsigned)wanted;
    const int64_t room = (int64_t)files.rlim_cur - spare;
    const unsigned limit = room > 1 ? (unsigned)room : 1;
    td_log(&server->log, TD_LOG_WARN, "connection_limit_lowered", TD_INT("wanted", wanted),
           TD_INT("limit", limit), TD_TEXT("reason", "the limit on open files"));
    return limit;
}

__attribute__((format(printf, 2, 0))) static void library_log(void *context, const char *format,
                                                              va_list arguments)
{
    const struct td_server *server = context;
    char text[512];
    if (!td_log_wants(&server->log, TD_LOG_DEBUG))
        return;
    const int length = vsnprintf(text, sizeof text, format, arguments);
    if (length > 0 && length < (int)sizeof text && text[length - 1] == '\n')
        text[length - 1] = '\0';
    td_log(&server->log, TD_LOG_DEBUG, "http_library", TD_TEXT("message", text));
}

static struct MHD_Daemon *start_daemon(struct td_http *http, int fd)
{
    const struct td_config *config = &http->server->config;
    const unsigned flags =
        MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ITC | MHD_USE_ERROR_LOG;
    const unsigned timeout_s = (unsigned)((config->idle_timeout_ms + 999) / 1000);
    struct MHD_OptionItem options[] = {
        { MHD_OPTION_EXTERNAL_LOGGER, (intptr_t)library_log, http->server },
        { MHD_OPTION_LISTEN_SOCKET, fd, NULL },
        { MHD_OPTION_NOTIFY_COMPLETED, (intptr_t)completed, http },
        { MHD_OPTION_UNESCAPE_CALLBACK, (intptr_t)leave_encoded, NULL },
        { MHD_OPTION_URI_LOG_CALLBACK, (intptr_t)td_transport_note_path, http },
        { MHD_OPTION_NOTIFY_CONNECTION, (intptr_t)connection_changed, http },
        { MHD_OPTION_CLIENT_DISCIPLINE_LVL, 1, NULL },
        { MHD_OPTION_CONNECTION_MEMORY_LIMIT, (intptr_t)config->connection_memory, NULL },
        { MHD_OPTION_CONNECTION_LIMIT, (intptr_t)connection_limit(http->server), NULL },
        { MHD_OPTION_CONNECTION_TIMEOUT, (intptr_t)timeout_s, NULL },
        /* A pool of one is refused: without the option there is one thread. */
        { config->io_threads > 1 ? MHD_OPTION_THREAD_POOL_SIZE : MHD_OPTION_END,
          (intptr_t)config->io_threads, NULL },
        { MHD_OPTION_END, 0, NULL },
    };
    return MHD_start_daemon(flags, 0, NULL, NULL, handle, http, MHD_OPTION_ARRAY, options,
                            MHD_OPTION_END);
}

/* False where a part cannot be had; *why tells. */
static bool start_parts(struct td_http *http, int fd, struct bound *bound, const char **why)
{
    const struct td_config *config = &http->server->config;
    char message[TD_CONFIG_MESSAGE];
    bound->length = sizeof bound->address;
    if (getsockname(fd, (struct sockaddr *)&bound->address, &bound->length) != 0) {
        *why = strerror(errno);
        return false;
    }
    *why = "no memory";
    http->linger = td_linger_new();
    http->connections = td_connections_new();
    http->pages = td_pages_new();
    /* The values were checked when the program started. */
    http->origins = td_origins_new(config->allow_origin, config->allow_host, is_loopback(bound),
                                   message, sizeof message);
    if (!http->linger || !http->connections || !http->pages || !http->origins)
        return false;
    *why = "libmicrohttpd did not start";
    http->daemon = start_daemon(http, fd);
    return http->daemon != NULL;
}

static void free_parts(struct td_http *http)
{
    td_linger_free(http->linger);
    td_connections_free(http->connections);
    td_pages_free(http->pages);
    td_origins_free(http->origins);
    free(http);
}

struct td_http *td_http_start(struct td_server *server)
{
    struct td_http *http = calloc(1, sizeof *http);
    const char *why = "no memory";
    struct bound bound;
    char address[256];
    const int fd = http ? bind_address(server, &why) : -1;
    if (http)
        http->server = server;
    if (fd < 0 || !start_parts(http, fd, &bound, &why)) {
        td_log(&server->log, TD_LOG_ERROR, "listen_failed",
               TD_TEXT("address", server->config.listen), TD_TEXT("reason", why));
        if (fd >= 0)
            close(fd);
        if (http)
            free_parts(http);
        return NULL;
    }
    print_address(&bound, address, sizeof address);
    td_log(&server->log, TD_LOG_INFO, "listening", TD_TEXT("address", address),
           TD_INT("io_threads", server->config.io_threads),
           TD_INT("workers", server->config.workers),
           TD_INT("memory_limit", server->config.memory_limit),
           TD_INT("tables_bytes", td_store_stats(server->store).mapped));
    return http;
}

void td_http_nudge(struct td_http *http)
{
    td_connections_nudge(http->connections);
}

void td_http_stop(struct td_http *http)
{
    if (!http)
        return;
    td_pages_stop(http->pages);    /* no connection may sleep then */
    MHD_stop_daemon(http->daemon); /* closes the listening socket as well */
    free_parts(http);
}
