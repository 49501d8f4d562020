#include "server/http/http.h"

#include "server/calls/drain.h"
#include "server/calls/reply_compression.h"
#include "server/calls/scheduler.h"
#include "server/clients/connections.h"
#include "server/compression/inflate.h"
#include "server/http/acceptor.h"
#include "server/http/authorize.h"
#include "server/http/body.h"
#include "server/http/capacity.h"
#include "server/http/handshakes.h"
#include "server/http/headers.h"
#include "server/http/io_thread.h"
#include "server/http/linger.h"
#include "server/http/listener.h"
#include "server/http/metrics_listener.h"
#include "server/http/origin.h"
#include "server/http/proxies.h"
#include "server/http/query.h"
#include "server/http/replies.h"
#include "server/http/request_facts.h"
#include "server/http/request_log.h"
#include "server/http/request_trace.h"
#include "server/http/restricted.h"
#include "server/http/routes.h"
#include "server/http/target.h"
#include "server/http/tls_output.h"
#include "server/http/transport_errors.h"
#include "server/memory/populate.h"
#include "server/observe/clock.h"
#include "server/workers/quantum.h"

#include <fcntl.h>
#include <malloc.h>
#include <microhttpd.h>
#include <poll.h>
#include <sched.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    /* Number of ended connections after which memory is returned to the system. */
    STORM = 1024,
    REQUESTS_PER_YIELD = 8, /* number of requests that take about 0.1 ms together */
    /* Sweeps end idle connections. The library's own timeout counts only its writes to the kernel,
     * so a short timeout would end a reply that is read slowly but steadily. The timeout must not
     * be off either. If the library closes a connection without an event while the client's bytes
     * fill the receive buffer, it releases the connection only when it looks for the least recently
     * active connection, which it does at each event if a timeout is set. */
    LIBRARY_TIMEOUT_S = 3600
};

/* Shards of the metrics after the shards of the I/O threads. */
enum { LISTENER_SHARD, MAIN_SHARD, OTHER_SHARDS };

struct td_http {
    struct td_services *services;
    struct td_listeners listeners;
    struct td_acceptor *acceptor;
    struct td_handshakes *handshakes; /* NULL without TLS */
    /* NULL without --metrics-listen. */
    struct td_metrics_listener *metrics;
    struct td_linger *linger;
    struct td_populator *populator;
    struct td_origins *origins;
    struct td_proxies *proxies;
    /* Writes the error replies of sweeps. */
    struct td_transport_errors sweeps;
    /* True if the listening sockets are inherited. */
    bool inherited;
    /* Maximum number of connections since memory was last returned to the system. */
    int most_connections;
    int n_io_threads;
    /* Number of I/O threads without TLS, after the others, for the Unix sockets of a server with
     * TLS. */
    int n_plain_threads;
    struct td_io_thread io_threads[];
};

static int socket_of(struct MHD_Connection *connection)
{
    return MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
}

/* Returns the record of a connection. */
static struct td_connection *record_of(struct MHD_Connection *connection)
{
    return MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
}

/* ---- a request ------------------------------------------------------------------------------ */

/* Counts the call before checking whether calls are refused. Otherwise, a call could start after a
 * drain has found that no call is in flight. */
static td_status accept_call(struct td_call *call)
{
    call->http.accepted = true;
    atomic_fetch_add(&call->services->in_flight, 1);
    const td_status status = td_drain_check_new(call);
    call->http.close_connection = call->http.close_connection || status != TD_OK;
    return status;
}

/* Returns the client of a request that a trusted proxy forwards. The client is the address in
 * X-Forwarded-For, or the proxy itself if the header names no client. Returns NULL if no memory
 * is available. */
static struct td_client *forwarded_client(const struct td_http *http, struct td_call *call)
{
    struct td_sender *sender = &call->sender;
    if (call->headers.forwarded_for)
        (void)td_proxies_client(http->proxies, call->headers.forwarded_for, &sender->forwarded);
    struct td_client_key key;
    if (sender->forwarded.known)
        key = td_client_key_of_address(&sender->forwarded.address);
    else if (!td_peer_key(&sender->peer, &key))
        return NULL;
    return td_clients_find(http->services->clients, &key);
}

/* Sets the sender as far as the headers identify it. The token has not been checked yet. */
static void identify(const struct td_http *http, struct td_call *call,
                     const struct td_connection *record)
{
    call->sender.peer = record->peer;
    if (record->forwards)
        call->client = forwarded_client(http, call);
    else if (record->client)
        call->client = td_client_ref(record->client);
}

/* Handles a preflight request. Ignores errors of the announced request, because that request
 * reports them itself. */
static td_status begin_preflight(struct td_call *call)
{
    call->error.status = TD_OK;
    call->task = NULL;
    call->handler = td_origin_preflight;
    return TD_OK;
}

/* Returns the origins to check, or NULL on a Unix socket, because browsers cannot connect to it. A
 * trusted proxy is an exception: it forwards the requests of browsers. */
static const struct td_origins *origins_of(const struct td_http *http,
                                           const struct td_connection *record)
{
    return record->is_unix && !record->forwards ? NULL : http->origins;
}

/* Performs all checks that do not need the body. */
static td_status begin(const struct td_http *http, struct td_call *call,
                       struct td_connection *record)
{
    call->http.close_connection = record->restriction != TD_UNRESTRICTED;
    struct td_target target;
    const td_status form = td_target_read(call->method, call->path, &target, &call->error);
    call->path = target.path;
    if (form != TD_OK)
        call->style = td_route_style(td_target_path(target.path));
    const td_status found = form == TD_OK ? td_route_call(call) : form;
    td_status status =
        td_headers_read(call, origins_of(http, record), record->loopback, target.authority);
    identify(http, call, record);
    if (status == TD_OK && form == TD_OK && call->http.preflight)
        return begin_preflight(call);
    if (status == TD_OK)
        status = td_authorize(call, record);
    if (status != TD_OK || found != TD_OK)
        return status != TD_OK ? status : found;
    status = td_restricted_check(call, record);
    if (status != TD_OK)
        return status;
    if (call->handler)
        return td_query_read(call);
    const bool has_body = call->body_limit != TD_BODY_NONE;
    td_reply_compression_negotiate(call);
    status = accept_call(call);
    if (status == TD_OK && has_body)
        status = td_inflate_wanted(call->headers.content_encoding, &call->encoded, &call->error);
    if (status == TD_OK && call->task->begin)
        status = call->task->begin(call);
    if (status == TD_OK)
        status = td_query_read(call);
    return status == TD_OK && has_body ? td_body_begin(call) : status;
}

/* True if the connection should be closed after the reply, so that the client opens another one,
 * which another I/O thread serves. Near a limit, no connection moves: until the closed connection
 * is no longer counted, the new one could exceed the limit. */
static bool moves(const struct td_services *services, const struct td_connection *record)
{
    const struct td_connection_limits *limits = &services->connection_limits;
    const struct td_connections *connections = services->connections;
    return td_connections_should_move(connections, record) &&
           td_client_connections(record->client) <= limits->per_client - TD_FEW_CONNECTIONS &&
           td_connections_count(connections) <= limits->open - TD_FEW_CONNECTIONS;
}

/* Sends the call's reply, unless the connection was ended. */
static enum MHD_Result send_reply(struct td_call *call)
{
    struct td_connection *record = record_of(call->http.connection);
    td_call_count(call, record->io_thread);
    if (moves(call->services, record)) {
        call->http.close_connection = call->http.lingers = true;
        atomic_store_explicit(&record->client->left_first, true, memory_order_relaxed);
    }
    td_tls_output_expect(record->tls_output, td_call_reply_bytes(call));
    /* Uses the end of the last stage to avoid reading the clock again. */
    const int64_t now = call->times.stage_end > 0 ? call->times.stage_end : call->times.begun;
    return td_connection_enter(record, TD_CONNECTION_SENDING, now) ? td_reply_send(call) : MHD_NO;
}

static enum MHD_Result send_error(struct td_call *call)
{
    td_call_refuse(call);
    return send_reply(call);
}

static enum MHD_Result begin_request(struct td_http *http, struct MHD_Connection *connection,
                                     const char *path, const char *method, void **state)
{
    struct td_connection *record = record_of(connection);
    const int64_t now = td_now_ns();
    if (!td_connection_enter(record, TD_CONNECTION_RECEIVING, now))
        return MHD_NO;
    td_connections_note_request(http->services->connections, record, now);
    struct td_call *call = td_call_new(http->services);
    if (!call)
        return MHD_NO;
    *state = call;
    call->http.connection = connection;
    call->method = method;
    call->path = path;
    call->times.begun = now;
    if (begin(http, call, record) == TD_OK || !td_body_is_refused_early(call))
        return MHD_YES;
    call->http.lingers = call->headers.chunked || call->headers.content_length > 0;
    return send_error(call);
}

/* Resumes the connection of the job. Called on the populator's thread. */
static void resume(struct td_populate_job *job)
{
    struct td_call *call =
        (struct td_call *)(void *)((char *)job - offsetof(struct td_call, http.populate));
    MHD_resume_connection(call->http.connection);
}

/* Suspends the connection until the memory for the next bytes is populated. */
static void suspend_to_populate(struct td_http *http, struct td_call *call)
{
    call->http.populate.done = resume;
    MHD_suspend_connection(call->http.connection);
    td_populator_submit(http->populator, &call->http.populate);
}

static enum MHD_Result receive_body(struct td_http *http, struct td_call *call, const char *data,
                                    size_t bytes)
{
    td_connection_received(record_of(call->http.connection), bytes);
    if (call->task && call->body_limit != TD_BODY_NONE && call->error.status == TD_OK) {
        /* Keep an error in call->error, because the reply is sent after the body. */
        if (td_body_receive(call, data, bytes) == TD_OK && td_body_must_populate(call))
            suspend_to_populate(http, call);
        return MHD_YES;
    }
    return td_body_discard(call, bytes) ? MHD_YES : MHD_NO;
}

/* Runs on a worker. */
static void finish_on_worker(struct td_call *call)
{
    call->http.answered = true;
    MHD_resume_connection(call->http.connection);
}

/* Lets the workers yield while clients with few connections need the first I/O thread. */
static void set_worker_yields(struct td_services *services)
{
    td_worker_pool_yield(services->workers, td_connections_first_is_wanted(services->connections));
}

/* Sets the time slices of the first I/O thread: short ones while clients with few connections need
 * the thread, otherwise the kernel's. At other times, short slices would only interrupt other
 * programs. */
static void set_first_slices(struct td_io_thread *first, bool wanted)
{
    if (first->has_short_slices == wanted)
        return;
    first->has_short_slices = wanted;
    td_quantum_set_slice(wanted ? TD_FIRST_SLICE_NS : 0);
}

/* Called for each queued and each answered request. The first I/O thread sets its time slices, and
 * lets the workers yield. Other I/O threads yield the processor to the first one after a number of
 * calls, because they can have hundreds of requests to read or to answer in one round. */
static void schedule_fairly(struct td_http *http, int io_thread)
{
    struct td_io_thread *thread = &http->io_threads[io_thread];
    const bool wanted = td_connections_first_is_wanted(http->services->connections);
    if (io_thread < TD_FIRST_IO_THREADS) {
        set_first_slices(thread, wanted);
        td_worker_pool_yield(http->services->workers, wanted);
        return;
    }
    if (thread->requests == 0)
        td_quantum_set_slice(TD_SLICE_NS);
    if (++thread->requests % REQUESTS_PER_YIELD == 0 && wanted)
        sched_yield();
}

static enum MHD_Result body_complete(struct td_http *http, struct td_call *call)
{
    const int64_t now = td_now_ns();
    call->times.arrived = call->times.stage_end = now;
    if (!td_connection_enter(record_of(call->http.connection), TD_CONNECTION_WORKING, now))
        return MHD_NO;
    td_call_count_unsent(call);
    if (call->error.status != TD_OK)
        return send_error(call);
    if (call->handler)
        return call->handler(call) == TD_OK ? send_reply(call) : send_error(call);
    if (td_schedule(call) == TD_ANSWERED)
        return send_reply(call);
    const int io_thread = record_of(call->http.connection)->io_thread;
    call->socket = socket_of(call->http.connection);
    call->finished = finish_on_worker;
    MHD_suspend_connection(call->http.connection);
    td_schedule_submit(call); /* from here on, the call can end on another thread */
    schedule_fairly(http, io_thread);
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
    if (!call->http.answered)
        return body_complete(context, call);
    if (call->gone) {
        td_call_count(call, record_of(connection)->io_thread);
        return MHD_NO;
    }
    return send_reply(call);
}

/* Ends the call after the last byte is sent or the client disconnects. libmicrohttpd might still
 * hold the response, but no longer reads from it. */
static void completed(void *context, struct MHD_Connection *connection, void **state,
                      enum MHD_RequestTerminationCode code)
{
    struct td_http *http = context;
    struct td_call *call = *state;
    if (!call)
        return;
    *state = NULL;
    if (call->http.lingers && code == MHD_REQUEST_TERMINATED_COMPLETED_OK) {
        /* The library closes its own descriptor; the copy keeps the connection open. */
        const int other = fcntl(socket_of(connection), F_DUPFD_CLOEXEC, 0);
        if (other >= 0)
            td_linger_take(http->linger, other);
    }
    if (call->http.replied || call->gone)
        td_request_log(call, code == MHD_REQUEST_TERMINATED_COMPLETED_OK);
    if (http->services->exporter && (call->http.replied || call->gone))
        td_request_trace(call, code == MHD_REQUEST_TERMINATED_COMPLETED_OK);
    td_connection_wait(record_of(connection));
    const bool accepted = call->http.accepted;
    td_call_free(call);
    if (accepted)
        atomic_fetch_sub(&http->services->in_flight, 1);
    schedule_fairly(http, record_of(connection)->io_thread);
}

/* Tracks the start and the end of a connection. If the library could not set up a connection, it
 * reports neither its start nor its end. */
static void connection_changed(void *context, struct MHD_Connection *connection, void **state,
                               enum MHD_ConnectionNotificationCode change)
{
    struct td_http *http = context;
    const int socket = socket_of(connection);
    struct td_connection *record = td_connections_find(http->services->connections, socket);
    struct td_io_thread *thread = &http->io_threads[record->io_thread];
    if (change == MHD_CONNECTION_NOTIFY_STARTED) {
        *state = record;
        if (td_io_thread_is_stopping(thread))
            return; /* the connection that wakes the thread has no record */
        td_transport_use(http->services, record->io_thread);
        (void)td_connection_enter(record, TD_CONNECTION_WAITING, td_now_ns());
        set_worker_yields(http->services);
        if (thread->handshakes)
            td_handshakes_prepare(&thread->prepared, connection, socket);
    } else {
        td_handshakes_forget(&thread->prepared, connection);
        td_tls_output_free(record->tls_output);
        record->tls_output = NULL;
        td_connections_close(http->services->connections, socket);
    }
}

/* ---- start and stop ------------------------------------------------------------------------- */

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

/* Starts an instance of the library without a listening socket and without a thread. */
static struct MHD_Daemon *start_library(struct td_http *http, bool tls)
{
    const struct td_config *config = &http->services->config;
    const unsigned flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ITC |
                           MHD_USE_ERROR_LOG | MHD_USE_NO_LISTEN_SOCKET | (tls ? MHD_USE_TLS : 0);
    struct MHD_OptionItem options[] = {
        { MHD_OPTION_EXTERNAL_LOGGER, (intptr_t)library_log, http->services },
        { MHD_OPTION_NOTIFY_COMPLETED, (intptr_t)completed, http },
        { MHD_OPTION_UNESCAPE_CALLBACK, (intptr_t)td_query_leave_encoded, NULL },
        { MHD_OPTION_URI_LOG_CALLBACK, (intptr_t)td_transport_record_path, http },
        { MHD_OPTION_NOTIFY_CONNECTION, (intptr_t)connection_changed, http },
        { MHD_OPTION_CLIENT_DISCIPLINE_LVL, 1, NULL },
        { MHD_OPTION_CONNECTION_MEMORY_LIMIT, (intptr_t)config->connection_memory, NULL },
        { MHD_OPTION_CONNECTION_LIMIT, INT32_MAX, NULL }, /* the acceptor enforces the limit */
        { MHD_OPTION_CONNECTION_TIMEOUT, LIBRARY_TIMEOUT_S, NULL },
        { MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1, NULL },
        { MHD_OPTION_END, 0, NULL },
        /* With TLS, td_handshakes_set_options replaces all of these options but the last. */
        { MHD_OPTION_END, 0, NULL },
        { MHD_OPTION_END, 0, NULL },
    };
    if (tls)
        td_handshakes_set_options(options + sizeof options / sizeof *options -
                                  TD_HANDSHAKE_OPTIONS - 1);
    return MHD_start_daemon(flags, 0, NULL, NULL, handle, http, MHD_OPTION_ARRAY, options,
                            MHD_OPTION_END);
}

static bool start_io_threads(struct td_http *http)
{
    const int n = (int)http->services->config.io_threads + TD_FIRST_IO_THREADS;
    for (; http->n_io_threads < n + http->n_plain_threads; http->n_io_threads++) {
        const bool tls = http->services->tls && http->n_io_threads < n;
        struct MHD_Daemon *library = start_library(http, tls);
        if (!library)
            return false;
        if (!td_io_thread_start(&http->io_threads[http->n_io_threads], library,
                                tls ? http->handshakes : NULL)) {
            MHD_stop_daemon(library);
            return false;
        }
    }
    return true;
}

/* Listens on each address of --listen. On failure, sets *why and the address, and returns false. */
static bool listen_on_all(struct td_http *http, char address[TD_ADDRESS_SIZE], const char **why)
{
    const struct td_config *config = &http->services->config;
    const char *rest = config->listen;
    while (td_config_next_address(&rest, address))
        if (!td_listeners_add(&http->listeners, address, td_listener_open, why) ||
            !td_listener_set_mode(&http->listeners.all[http->listeners.n - 1],
                                  (mode_t)config->socket_mode, why))
            return false;
    address[0] = '\0';
    return true;
}

/* Starts all parts. On failure, returns false, and sets *why and the address that caused the
 * failure, or "" if no address did. */
static bool start_parts(struct td_http *http, char address[TD_ADDRESS_SIZE], const char **why)
{
    struct td_services *services = http->services;
    const struct td_config *config = &services->config;
    struct td_capacity capacity;
    char message[TD_CONFIG_MESSAGE];
    const bool found = td_capacity_find(config, &capacity);
    td_capacity_log(&capacity, found, config, &services->log);
    *why = "the limit on open files is too low";
    if (!found)
        return false;
    if (!http->inherited && !listen_on_all(http, address, why))
        return false;
    *why = "no memory";
    services->connection_limits = capacity.limits;
    services->connections = td_connections_new(capacity.n_sockets, services->buffers,
                                               td_capacity_connection_bytes(config));
    services->metrics = td_metrics_new((int)config->io_threads + TD_FIRST_IO_THREADS +
                                       http->n_plain_threads + OTHER_SHARDS);
    http->linger = td_linger_new();
    http->populator = td_populator_new();
    /* These values were already checked when the program started. */
    http->origins =
        td_origins_new(config->allow_origin, config->allow_host, message, sizeof message);
    http->proxies = td_proxies_new(config->trusted_proxy, message, sizeof message);
    if (!services->connections || !services->metrics || !http->linger || !http->populator ||
        !http->origins || !http->proxies)
        return false;
    *why = "--tls-certificate needs a libmicrohttpd with TLS, but this one was built without it";
    if (services->tls && !td_handshakes_are_possible())
        return false;
    *why = "no thread available for handshakes";
    if (services->tls && !(http->handshakes = td_handshakes_start(services)))
        return false;
    *why = "libmicrohttpd could not start";
    if (!start_io_threads(http))
        return false;
    http->sweeps = (struct td_transport_errors){ services, http->n_io_threads + MAIN_SHARD };
    if (config->metrics_listen[0]) {
        snprintf(address, TD_ADDRESS_SIZE, "%s", config->metrics_listen);
        http->metrics = td_metrics_listener_start(services, &http->listeners,
                                                  http->n_io_threads + LISTENER_SHARD, why);
        if (!http->metrics)
            return false;
        address[0] = '\0';
    }
    *why = "no thread available to accept connections";
    http->acceptor = td_acceptor_start(&(struct td_acceptor_options){
        .services = services,
        .proxies = http->proxies,
        .listeners = &http->listeners,
        .leave_waiting = http->inherited,
        .io_threads = http->io_threads,
        .n_io_threads = http->n_io_threads,
        .n_plain_threads = http->n_plain_threads,
    });
    return http->acceptor != NULL;
}

/* Logs one line for each address. */
static void log_listeners(const struct td_http *http)
{
    const struct td_services *services = http->services;
    const struct td_config *config = &services->config;
    for (int i = 0; i < http->listeners.n; i++) {
        const struct td_listener_address *bound = &http->listeners.all[i].bound;
        char address[256];
        td_listener_print(bound, address, sizeof address);
        td_log(&services->log, TD_LOG_INFO, "listening", TD_TEXT("address", address),
               TD_TEXT("socket", http->inherited ? "inherited" : NULL),
               TD_INT("io_threads", config->io_threads), TD_INT("workers", config->workers),
               TD_INT("memory_limit", config->memory_limit),
               TD_INT("tables_bytes", td_store_usage(services->store).mapped));
        if (!td_listener_is_local(bound) && !td_config_identifies_clients(config))
            td_log(&services->log, TD_LOG_WARN, "listening_without_tokens",
                   TD_TEXT("address", address),
                   TD_TEXT("reason", "every client that reaches the address can use every tensor; "
                                     "use --token-file to restrict access"));
    }
}

/* True if one of the sockets is a Unix socket. */
static bool serves_unix(const struct td_services *services, const struct td_listeners *inherited)
{
    char address[TD_ADDRESS_SIZE];
    const char *rest = services->config.listen;
    bool found = false;
    for (int i = 0; i < inherited->n; i++)
        found = found || td_listener_is_unix(&inherited->all[i].bound);
    while (inherited->n == 0 && td_config_next_address(&rest, address))
        found = found || td_config_socket_path(address);
    return found;
}

struct td_http *td_http_start(struct td_services *services, const struct td_listeners *inherited)
{
    const bool needs_plain = services->tls && serves_unix(services, inherited);
    const size_t n_plain_threads = needs_plain ? (size_t)services->config.io_threads : 0;
    const size_t n_io_threads =
        (size_t)services->config.io_threads + TD_FIRST_IO_THREADS + n_plain_threads;
    const size_t bytes = sizeof(struct td_http) + n_io_threads * sizeof(struct td_io_thread);
    struct td_http *http = aligned_alloc(_Alignof(struct td_http), bytes);
    const char *why = "no memory";
    char address[TD_ADDRESS_SIZE] = "";
    if (http) {
        memset(http, 0, bytes); /* includes the I/O threads */
        http->services = services;
        http->inherited = inherited->n > 0;
        http->listeners = *inherited;
        http->n_plain_threads = (int)n_plain_threads;
    }
    if (!http || !start_parts(http, address, &why)) {
        td_log(&services->log, TD_LOG_ERROR, "listen_failed",
               TD_TEXT("address", address[0] ? address : services->config.listen),
               TD_TEXT("reason", why));
        td_http_stop(http);
        return NULL;
    }
    log_listeners(http);
    return http;
}

void td_http_stop_accepting(struct td_http *http)
{
    /* Time for the last segments of connections that are being established. */
    enum { SETTLE_MS = 50 };
    struct td_listeners *listeners = &http->listeners;
    bool is_remote = false;
    for (int i = 0; i < listeners->n && !http->inherited; i++) {
        td_listener_shut(&listeners->all[i]);
        is_remote = is_remote || !td_listener_is_local(&listeners->all[i].bound);
    }
    if (is_remote)
        (void)poll(NULL, 0, SETTLE_MS);
    td_acceptor_stop(http->acceptor);
    td_listeners_close(&http->listeners);
}

int td_http_connections(const struct td_http *http)
{
    return td_connections_count(http->services->connections);
}

/* Returns memory to the system after many connections have ended, because the C library would
 * otherwise keep it. */
static void trim_after_storm(struct td_http *http)
{
    const int count = td_connections_count(http->services->connections);
    if (count > http->most_connections)
        http->most_connections = count;
    if (http->most_connections - count < STORM)
        return;
    http->most_connections = count;
    malloc_trim(0);
}

void td_http_tidy(struct td_http *http, int64_t now_ns, int parts)
{
    const struct td_config *config = &http->services->config;
    td_connections_sweep(http->services->connections,
                         &(struct td_progress_limits){
                             .header_timeout_ns = config->header_timeout_ms * 1000000,
                             .idle_timeout_ns = config->idle_timeout_ms * 1000000,
                             .min_rate = (uint64_t)config->min_rate,
                             .refuse = td_transport_refuse,
                             .context = &http->sweeps,
                         },
                         now_ns, parts);
    trim_after_storm(http);
    td_request_log_tidy(http->services, now_ns);
    set_worker_yields(http->services);
}

void td_http_stop(struct td_http *http)
{
    if (!http)
        return;
    td_acceptor_free(http->acceptor);
    td_listeners_close(&http->listeners);
    /* Stop thread 0 first. The record of a socket that wakes a thread is zero, so
     * connection_changed asks whether thread 0 is stopping. After this loop, no thread suspends
     * connections. */
    for (int i = 0; i < http->n_io_threads; i++)
        td_io_thread_stop(&http->io_threads[i]);
    /* The next two calls resume all connections that the modules have suspended. */
    td_handshakes_stop(http->handshakes);
    if (http->populator)
        td_populator_stop(http->populator);
    for (int i = 0; i < http->n_io_threads; i++)
        MHD_stop_daemon(http->io_threads[i].library);
    td_metrics_listener_stop(http->metrics);
    td_connections_free(http->services->connections);
    http->services->connections = NULL;
    td_metrics_free(http->services->metrics);
    http->services->metrics = NULL;
    td_linger_free(http->linger);
    td_populator_free(http->populator);
    td_origins_free(http->origins);
    td_proxies_free(http->proxies);
    free(http);
}
