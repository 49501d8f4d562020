#include "server/http/http.h"

#include "server/calls/scheduler.h"
#include "server/compression/inflate.h"
#include "server/http/body.h"
#include "server/http/connections.h"
#include "server/http/headers.h"
#include "server/http/linger.h"
#include "server/http/listener.h"
#include "server/http/origin.h"
#include "server/http/query.h"
#include "server/http/replies.h"
#include "server/http/routes.h"
#include "server/http/target.h"
#include "server/http/transport_errors.h"
#include "server/memory/populate.h"
#include "server/observe/clock.h"

#include <sys/resource.h>

#include <fcntl.h>
#include <microhttpd.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    DISCARDED_BODY =
        64 << 10, /* a refused body is read up to this, so that the connection can be reused */
    SPARE_FILES =
        64 + TD_LINGER_SOCKETS, /* file descriptors beside connections, shared memory and */
    FILES_PER_IO_THREAD = 2     /* those of libmicrohttpd: an epoll and an eventfd */
};

struct td_http {
    struct td_services *services;
    struct MHD_Daemon *daemon;
    struct td_linger *linger;
    struct td_connections *connections;
    struct td_populator *populator;
    struct td_origins *origins;
};

static int socket_of(struct MHD_Connection *connection)
{
    return MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
}

/* ---- a request ------------------------------------------------------------------------------ */

/* Counts the call before it checks for draining, so that no call starts after a drain has seen none
 * in flight. */
static td_status accept_call(struct td_call *call)
{
    call->accepted = true;
    atomic_fetch_add(&call->services->in_flight, 1);
    if (!atomic_load(&call->services->draining))
        return TD_OK;
    call->close_connection = true;
    return td_error_set(&call->error, TD_DRAINING,
                        "the server is stopping and accepts no new requests");
}

/* A preflight does not report errors of the request that it announces; that request reports
 * them. */
static td_status begin_preflight(struct td_call *call)
{
    call->error.status = TD_OK;
    call->task = NULL;
    call->handler = td_origin_preflight;
    return TD_OK;
}

/* All checks that do not need the body. */
static td_status begin(const struct td_http *http, struct td_call *call)
{
    struct td_target target;
    const td_status form = td_target_read(call->method, call->path, &target, &call->error);
    call->path = target.path;
    if (form != TD_OK)
        call->style = td_route_style(td_target_path(target.path));
    const td_status found = form == TD_OK ? td_route_call(call) : form;
    td_status status = td_headers_read(call, http->origins, target.authority);
    if (status == TD_OK && form == TD_OK && call->preflight)
        return begin_preflight(call);
    if (status != TD_OK || found != TD_OK)
        return status != TD_OK ? status : found;
    if (call->handler)
        return td_query_read(call);
    const bool has_body = call->body_limit != TD_BODY_NONE;
    call->negotiated = call->style == TD_STYLE_OIP || call->services->config.compress;
    if (call->negotiated)
        call->encoding = td_deflate_choose(call->headers.accept_encoding);
    status = accept_call(call);
    if (status == TD_OK && has_body)
        status = td_inflate_wanted(call->headers.content_encoding, &call->encoded, &call->error);
    if (status == TD_OK && call->task->begin)
        status = call->task->begin(call);
    if (status == TD_OK)
        status = td_query_read(call);
    return status == TD_OK && has_body ? td_body_begin(call) : status;
}

/* A small body of a refused request is read and dropped, so that the connection can be reused.
 * Before a large body, one of unknown length, or one for which the client waits for 100 Continue,
 * the error is sent at once and the connection closed. */
static bool answer_before_body(const struct td_call *call)
{
    return call->close_connection || call->headers.chunked ||
           call->headers.content_length > DISCARDED_BODY ||
           (call->headers.expect && call->headers.content_length > 0);
}

static enum MHD_Result begin_request(struct td_http *http, struct MHD_Connection *connection,
                                     const char *path, const char *method, void **state)
{
    struct td_call *call = td_call_new(http->services);
    if (!call)
        return MHD_NO;
    struct td_client *client =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
    *state = call;
    call->connection = connection;
    call->client = client ? td_client_ref(client) : NULL;
    call->method = method;
    call->path = path;
    call->times.begun = td_now_ns();
    if (begin(http, call) == TD_OK || !answer_before_body(call))
        return MHD_YES;
    call->lingers = call->headers.chunked || call->headers.content_length > 0;
    return td_reply_send_error(call);
}

/* On the populator's thread. */
static void resume(struct td_populate_job *job)
{
    struct td_call *call =
        (struct td_call *)(void *)((char *)job - offsetof(struct td_call, populate));
    MHD_resume_connection(call->connection);
}

/* Suspends the connection until the memory for the next bytes is populated. */
static void suspend_to_populate(struct td_http *http, struct td_call *call)
{
    call->populate.done = resume;
    MHD_suspend_connection(call->connection);
    td_populator_submit(http->populator, &call->populate);
}

static enum MHD_Result receive_body(struct td_http *http, struct td_call *call, const char *data,
                                    size_t bytes)
{
    if (call->task && call->body_limit != TD_BODY_NONE && call->error.status == TD_OK) {
        /* An error stays in call->error and is sent after the body. */
        if (td_body_receive(call, data, bytes) == TD_OK && td_body_must_populate(call))
            suspend_to_populate(http, call);
        return MHD_YES;
    }
    /* Close the connection if the body is too long to be discarded. */
    const size_t limit = td_call_body_limit(call);
    call->discarded += bytes;
    return call->discarded <= (limit > DISCARDED_BODY ? limit : DISCARDED_BODY) ? MHD_YES : MHD_NO;
}

/* On a worker. */
static void finish_on_worker(struct td_call *call)
{
    call->answered = true;
    MHD_resume_connection(call->connection);
}

static enum MHD_Result body_complete(struct td_call *call)
{
    call->times.arrived = call->times.stage_end = td_now_ns();
    td_call_count_unsent(call);
    if (call->error.status != TD_OK)
        return td_reply_send_error(call);
    if (call->handler)
        return call->handler(call) == TD_OK ? td_reply_send(call) : td_reply_send_error(call);
    if (td_schedule(call) == TD_ANSWERED)
        return td_reply_send(call);
    call->socket = socket_of(call->connection);
    call->finished = finish_on_worker;
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
        return begin_request(context, connection, path, method, state);
    if (*bytes > 0) {
        const size_t taken = *bytes;
        *bytes = 0;
        return receive_body(context, call, data, taken);
    }
    if (!call->answered)
        return body_complete(call);
    if (call->gone) {
        td_call_log(call);
        return MHD_NO;
    }
    return td_reply_send(call);
}

/* The last byte is sent, or the client has disconnected. libmicrohttpd may still hold the response
 * but reads no byte of it any more. */
static void completed(void *context, struct MHD_Connection *connection, void **state,
                      enum MHD_RequestTerminationCode code)
{
    struct td_http *http = context;
    struct td_call *call = *state;
    if (!call)
        return;
    *state = NULL;
    if (call->lingers && code == MHD_REQUEST_TERMINATED_COMPLETED_OK) {
        /* The library closes its own descriptor; the copy keeps the connection open. */
        const int other = fcntl(socket_of(connection), F_DUPFD_CLOEXEC, 0);
        if (other >= 0)
            td_linger_take(http->linger, other);
    }
    const bool accepted = call->accepted;
    td_call_free(call);
    if (accepted)
        atomic_fetch_sub(&http->services->in_flight, 1);
}

/* The client at the other end; NULL without memory. */
static struct td_client *client_of(struct td_http *http, struct MHD_Connection *connection)
{
    struct td_client_key key;
    const struct sockaddr *address =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS)->client_addr;
    return address && td_client_key_of(address, &key)
               ? td_clients_find(http->services->clients, &key)
               : NULL;
}

static void connection_changed(void *context, struct MHD_Connection *connection, void **state,
                               enum MHD_ConnectionNotificationCode change)
{
    struct td_http *http = context;
    const int socket = socket_of(connection);
    if (change == MHD_CONNECTION_NOTIFY_STARTED) {
        *state = client_of(http, connection);
        atomic_fetch_add_explicit(&http->services->connections, 1, memory_order_relaxed);
        td_connections_add(http->connections, socket);
    } else {
        atomic_fetch_sub_explicit(&http->services->connections, 1, memory_order_relaxed);
        td_connections_remove(http->connections, socket);
        td_client_unref(*state);
    }
}

/* ---- start and stop ------------------------------------------------------------------------- */

/* --connection-limit, or less if the limit on open files requires it. */
static unsigned connection_limit(const struct td_services *services)
{
    struct rlimit files;
    const int64_t wanted = services->config.connection_limit;
    const int64_t reserved = SPARE_FILES + FILES_PER_IO_THREAD * services->config.io_threads +
                             (services->shm ? TD_SHM_REGIONS : 0);
    if (getrlimit(RLIMIT_NOFILE, &files) != 0)
        return (unsigned)wanted;
    const rlim_t before = files.rlim_cur;
    files.rlim_cur = files.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &files) != 0)
        files.rlim_cur = before;
    if (files.rlim_cur == RLIM_INFINITY || files.rlim_cur >= (rlim_t)(wanted + reserved))
        return (unsigned)wanted;
    const int64_t room = (int64_t)files.rlim_cur - reserved;
    const unsigned limit = room > 1 ? (unsigned)room : 1;
    td_log(&services->log, TD_LOG_WARN, "connection_limit_lowered", TD_INT("wanted", wanted),
           TD_INT("limit", limit), TD_TEXT("reason", "the limit on open files"));
    return limit;
}

__attribute__((format(printf, 2, 0))) static void library_log(void *context, const char *format,
                                                              va_list arguments)
{
    const struct td_services *services = context;
    char text[512];
    if (!td_log_wants(&services->log, TD_LOG_DEBUG))
        return;
    const int length = vsnprintf(text, sizeof text, format, arguments);
    if (length > 0 && length < (int)sizeof text && text[length - 1] == '\n')
        text[length - 1] = '\0';
    td_log(&services->log, TD_LOG_DEBUG, "http_library", TD_TEXT("message", text));
}

static struct MHD_Daemon *start_daemon(struct td_http *http, int fd)
{
    const struct td_config *config = &http->services->config;
    const unsigned flags =
        MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ITC | MHD_USE_ERROR_LOG;
    const unsigned timeout_s = (unsigned)((config->idle_timeout_ms + 999) / 1000);
    struct MHD_OptionItem options[] = {
        { MHD_OPTION_EXTERNAL_LOGGER, (intptr_t)library_log, http->services },
        { MHD_OPTION_LISTEN_SOCKET, fd, NULL },
        { MHD_OPTION_NOTIFY_COMPLETED, (intptr_t)completed, http },
        { MHD_OPTION_UNESCAPE_CALLBACK, (intptr_t)td_query_leave_encoded, NULL },
        { MHD_OPTION_URI_LOG_CALLBACK, (intptr_t)td_transport_record_path, http },
        { MHD_OPTION_NOTIFY_CONNECTION, (intptr_t)connection_changed, http },
        { MHD_OPTION_CLIENT_DISCIPLINE_LVL, 1, NULL },
        { MHD_OPTION_CONNECTION_MEMORY_LIMIT, (intptr_t)config->connection_memory, NULL },
        { MHD_OPTION_CONNECTION_LIMIT, (intptr_t)connection_limit(http->services), NULL },
        { MHD_OPTION_CONNECTION_TIMEOUT, (intptr_t)timeout_s, NULL },
        /* libmicrohttpd refuses a pool of one; without the option there is one thread. */
        { config->io_threads > 1 ? MHD_OPTION_THREAD_POOL_SIZE : MHD_OPTION_END,
          (intptr_t)config->io_threads, NULL },
        { MHD_OPTION_END, 0, NULL },
    };
    return MHD_start_daemon(flags, 0, NULL, NULL, handle, http, MHD_OPTION_ARRAY, options,
                            MHD_OPTION_END);
}

/* False with *why set if a part cannot be started. */
static bool start_parts(struct td_http *http, int fd, struct td_listener_address *bound,
                        const char **why)
{
    const struct td_config *config = &http->services->config;
    char message[TD_CONFIG_MESSAGE];
    if (!td_listener_find(fd, bound, why))
        return false;
    *why = "no memory";
    http->linger = td_linger_new();
    http->connections = td_connections_new();
    http->populator = td_populator_new();
    /* The values were checked when the program started. */
    http->origins = td_origins_new(config->allow_origin, config->allow_host,
                                   td_listener_is_loopback(bound), message, sizeof message);
    if (!http->linger || !http->connections || !http->populator || !http->origins)
        return false;
    *why = "libmicrohttpd could not start";
    http->daemon = start_daemon(http, fd);
    return http->daemon != NULL;
}

static void free_parts(struct td_http *http)
{
    td_linger_free(http->linger);
    td_connections_free(http->connections);
    td_populator_free(http->populator);
    td_origins_free(http->origins);
    free(http);
}

struct td_http *td_http_start(struct td_services *services)
{
    struct td_http *http = calloc(1, sizeof *http);
    const char *why = "no memory";
    struct td_listener_address bound;
    char address[256];
    const int fd = http ? td_listener_open(services->config.listen, &why) : -1;
    if (http)
        http->services = services;
    if (fd < 0 || !start_parts(http, fd, &bound, &why)) {
        td_log(&services->log, TD_LOG_ERROR, "listen_failed",
               TD_TEXT("address", services->config.listen), TD_TEXT("reason", why));
        if (fd >= 0)
            close(fd);
        if (http)
            free_parts(http);
        return NULL;
    }
    td_listener_print(&bound, address, sizeof address);
    td_log(&services->log, TD_LOG_INFO, "listening", TD_TEXT("address", address),
           TD_INT("io_threads", services->config.io_threads),
           TD_INT("workers", services->config.workers),
           TD_INT("memory_limit", services->config.memory_limit),
           TD_INT("tables_bytes", td_store_stats(services->store).mapped));
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
    td_populator_stop(http->populator); /* no connection may be suspended then */
    MHD_stop_daemon(http->daemon);      /* closes the listening socket as well */
    free_parts(http);
}
