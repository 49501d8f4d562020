#include "server/http/metrics_listener.h"

#include "server/calls/call.h"
#include "server/http/headers.h"
#include "server/http/origin.h"
#include "server/http/query.h"
#include "server/http/replies.h"
#include "server/http/request_facts.h"
#include "server/http/request_log.h"
#include "server/http/routes.h"
#include "server/http/target.h"
#include "server/http/transport_errors.h"
#include "server/observe/clock.h"

#include <sys/socket.h>

#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { IDLE_S = 60 }; /* longer than the usual scrape interval */

struct td_metrics_listener {
    struct td_services *services;
    struct MHD_Daemon *library;
    struct td_origins *origins;
    bool loopback; /* as in struct td_origin_request */
    int shard;
    int n_open;
    int open[TD_METRICS_CONNECTIONS]; /* sockets, oldest first */
};

static td_status read_request(const struct td_metrics_listener *listener, struct td_call *call)
{
    struct td_target target;
    td_status status = td_target_read(call->method, call->path, &target, &call->error);
    call->path = target.path;
    if (status == TD_OK)
        status = td_route_call(call);
    const td_status headers =
        td_headers_read(call, listener->origins, listener->loopback, target.authority);
    if (headers != TD_OK || status != TD_OK)
        return headers != TD_OK ? headers : status;
    if (!call->handler || !td_route_is_open(call)) {
        call->task = NULL;
        call->op = NULL;
        call->operation = TD_OPERATION_NONE;
        return td_error_set(&call->error, TD_NOT_FOUND,
                            "this address serves only /metrics and the health paths");
    }
    return td_query_read(call);
}

/* Answers when the headers have arrived, because bodies are ignored. */
static enum MHD_Result handle(void *context, struct MHD_Connection *connection, const char *path,
                              const char *method, const char *version, const char *data,
                              size_t *bytes, void **state)
{
    struct td_metrics_listener *listener = context;
    (void)version;
    (void)data;
    *bytes = 0;
    struct td_call *call = *state ? NULL : td_call_new(listener->services);
    if (!call)
        return MHD_NO;
    *state = call;
    call->http.connection = connection;
    call->method = method;
    call->path = path;
    call->sender.peer = td_request_peer(connection);
    call->times.begun = td_now_ns();
    if (read_request(listener, call) != TD_OK || call->handler(call) != TD_OK)
        td_call_refuse(call);
    call->times.stage_end = td_now_ns();
    td_call_count(call, listener->shard);
    return td_reply_send(call);
}

static void completed(void *context, struct MHD_Connection *connection, void **state,
                      enum MHD_RequestTerminationCode code)
{
    struct td_call *call = *state;
    (void)context;
    (void)connection;
    if (call && call->http.replied)
        td_request_log(call, code == MHD_REQUEST_TERMINATED_COMPLETED_OK);
    td_call_free(call);
    *state = NULL;
}

static void forget(struct td_metrics_listener *listener, int socket)
{
    for (int i = 0; i < listener->n_open; i++)
        if (listener->open[i] == socket) {
            listener->n_open--;
            memmove(&listener->open[i], &listener->open[i + 1],
                    (size_t)(listener->n_open - i) * sizeof *listener->open);
            return;
        }
}

/* Tracks open connections. When a connection has been shut down, the library closes it as if its
 * client had closed it. */
static void connection_changed(void *context, struct MHD_Connection *connection, void **state,
                               enum MHD_ConnectionNotificationCode change)
{
    struct td_metrics_listener *listener = context;
    const int socket =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    (void)state;
    forget(listener, socket);
    if (change != MHD_CONNECTION_NOTIFY_STARTED)
        return;
    td_transport_use(listener->services, listener->shard);
    if (listener->n_open == TD_METRICS_OPEN) {
        (void)shutdown(listener->open[0], SHUT_RDWR);
        forget(listener, listener->open[0]);
    }
    listener->open[listener->n_open++] = socket;
}

/* Starts the library, which then owns the socket. The library uses poll, which is level-triggered,
 * because epoll does not detect every client that disconnects. */
static struct MHD_Daemon *start_library(struct td_metrics_listener *listener, int socket)
{
    const struct td_config *config = &listener->services->config;
    struct MHD_OptionItem options[] = {
        { MHD_OPTION_LISTEN_SOCKET, socket, NULL },
        { MHD_OPTION_NOTIFY_COMPLETED, (intptr_t)completed, NULL },
        { MHD_OPTION_NOTIFY_CONNECTION, (intptr_t)connection_changed, listener },
        { MHD_OPTION_UNESCAPE_CALLBACK, (intptr_t)td_query_leave_encoded, NULL },
        { MHD_OPTION_URI_LOG_CALLBACK, (intptr_t)td_transport_record_path, NULL },
        { MHD_OPTION_CLIENT_DISCIPLINE_LVL, 1, NULL },
        { MHD_OPTION_CONNECTION_MEMORY_LIMIT, (intptr_t)config->connection_memory, NULL },
        { MHD_OPTION_CONNECTION_LIMIT, TD_METRICS_CONNECTIONS, NULL },
        { MHD_OPTION_CONNECTION_TIMEOUT, IDLE_S, NULL },
        { MHD_OPTION_END, 0, NULL },
    };
    return MHD_start_daemon(MHD_USE_POLL_INTERNAL_THREAD | MHD_USE_ITC, 0, NULL, NULL, handle,
                            listener, MHD_OPTION_ARRAY, options, MHD_OPTION_END);
}

static void log_address(const struct td_services *services, const struct td_listener_address *bound)
{
    char address[256];
    td_listener_print(bound, address, sizeof address);
    td_log(&services->log, TD_LOG_INFO, "metrics_listening", TD_TEXT("address", address));
}

struct td_metrics_listener *td_metrics_listener_start(struct td_services *services,
                                                      const struct td_listeners *others, int shard,
                                                      const char **why)
{
    const struct td_config *config = &services->config;
    struct td_listener_address bound;
    char message[TD_CONFIG_MESSAGE];
    struct td_metrics_listener *listener = calloc(1, sizeof *listener);
    *why = "no memory";
    const int socket =
        listener ? td_listeners_open_beside(others, config->metrics_listen, td_listener_open, why)
                 : -1;
    if (socket < 0 || !td_listener_find(socket, &bound, why))
        goto failed;
    *why = "no memory";
    listener->services = services;
    listener->shard = shard;
    listener->loopback = td_listener_is_loopback(&bound);
    listener->origins =
        td_origins_new(config->allow_origin, config->allow_host, message, sizeof message);
    if (!listener->origins)
        goto failed;
    *why = "libmicrohttpd could not start";
    listener->library = start_library(listener, socket);
    if (!listener->library)
        goto failed;
    log_address(services, &bound);
    return listener;
failed:
    if (socket >= 0)
        close(socket);
    td_metrics_listener_stop(listener);
    return NULL;
}

void td_metrics_listener_stop(struct td_metrics_listener *listener)
{
    if (!listener)
        return;
    if (listener->library)
        MHD_stop_daemon(listener->library);
    td_origins_free(listener->origins);
    free(listener);
}
