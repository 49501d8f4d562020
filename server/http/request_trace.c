#include "server/http/request_trace.h"

#include "server/calls/services.h"
#include "server/http/request_facts.h"
#include "server/observe/clock.h"
#include "server/observe/trace_context.h"

#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Maximum sizes in bytes of strings whose length a client controls. Together, these strings fit in
 * a span. */
enum { PATH = 512, USER_AGENT = 200, HOST = 200, INPUTS = 200, REASON = 200, SHORT = 130 };

/* ---- times ----------------------------------------------------------------------------------- */

/* Returns the difference between the time of day and the monotonic clock. */
static int64_t clock_offset_ns(int64_t now_ns)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec - now_ns;
}

static void add_stages(struct td_span *span, const struct td_times *times, int64_t offset)
{
    for (int i = 0; i < times->n_intervals; i++) {
        const struct td_interval *interval = &times->intervals[i];
        td_span_stage(span, interval->name, offset + interval->begun, offset + interval->ended);
    }
}

/* ---- attributes ------------------------------------------------------------------------------ */

static const char *header_of(const struct td_call *call, const char *name)
{
    return MHD_lookup_connection_value(call->http.connection, MHD_HEADER_KIND, name);
}

/* Parses "host", "host:8080" or "[::1]:8080". */
static void add_server(struct td_span *span, const char *host)
{
    char address[HOST];
    const size_t bracket = host[0] == '[' ? strcspn(host, "]") : 0;
    const size_t name = bracket + strcspn(host + bracket, ":");
    if (name >= sizeof address)
        return;
    memcpy(address, host + (bracket > 0), name);
    address[bracket > 0 ? bracket - 1 : name] = '\0';
    td_span_text(span, "server.address", address, HOST);
    const long port = host[name] == ':' ? strtol(host + name + 1, NULL, 10) : 80;
    if (port > 0 && port <= UINT16_MAX)
        td_span_number(span, "server.port", port);
}

/* Returns the method, or NULL if it is not a standard method. Clients can send any method. */
static const char *method_of(const struct td_call *call)
{
    static const char *const known[] = { "GET",     "HEAD",    "POST",  "PUT",  "DELETE",
                                         "OPTIONS", "CONNECT", "TRACE", "PATCH" };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(call->method, known[i]) == 0)
            return known[i];
    return NULL;
}

static void add_request(struct td_span *span, const struct td_call *call)
{
    const char *method = method_of(call), *host = header_of(call, "Host");
    const bool is_unix = call->sender.peer.kind == TD_PEER_USER;
    struct td_sender_text sender;
    char name[SHORT];
    snprintf(name, sizeof name, "%s%s%s", method ? method : "HTTP", call->http.route ? " " : "",
             call->http.route ? call->http.route : "");
    span->name = td_span_copy(span, name, sizeof name);
    td_sender_print(&call->sender, &sender);
    td_span_text(span, "http.request.method", method ? method : "_OTHER", SHORT);
    if (!method)
        td_span_text(span, "http.request.method_original", call->method, SHORT);
    td_span_text(span, "http.route", call->http.route, SHORT);
    td_span_text(span, "url.scheme", call->services->tls && !is_unix ? "https" : "http", SHORT);
    td_span_text(span, "url.path", call->path, PATH);
    td_span_text(span, "client.address", sender.forwarded[0] ? sender.forwarded : sender.peer,
                 SHORT);
    td_span_text(span, "network.peer.address", is_unix ? NULL : sender.peer, SHORT);
    td_span_text(span, "network.transport", is_unix ? "unix" : NULL, SHORT);
    td_span_text(span, "tensord.token", call->sender.token, SHORT);
    if (host)
        add_server(span, host);
    td_span_text(span, "user_agent.original", header_of(call, "User-Agent"), USER_AGENT);
    td_span_number(span, "http.request.body.size", (int64_t)call->body_bytes);
}

static void add_reply(struct td_span *span, const struct td_call *call, bool complete)
{
    const int status = call->reply.http_status;
    if (call->gone || !complete)
        td_span_text(span, "tensord.reply", "incomplete", SHORT);
    if (call->gone)
        return;
    td_span_number(span, "http.response.status_code", status);
    td_span_number(span, "http.response.body.size", (int64_t)td_reply_bytes(&call->reply));
    if (call->error.status == TD_OK)
        return;
    td_span_text(span, "tensord.code", td_status_name(call->error.status), SHORT);
    span->failed = status >= 500;
    if (!span->failed)
        return;
    td_span_text(span, "error.type", td_status_name(call->error.status), SHORT);
    span->reason = td_span_copy(span, call->error.message, REASON);
}

static void add_op(struct td_span *span, const struct td_call *call)
{
    const struct td_request *request = &call->request;
    const bool has_input =
        request->decoded && request->op->n_inputs > 0 && request->args.inputs[0].count > 0;
    char inputs[INPUTS];
    td_request_inputs(call, inputs, sizeof inputs);
    td_span_text(span, "tensord.request_id", call->request_id, SHORT);
    if (call->operation != TD_OPERATION_NONE)
        td_span_text(span, "tensord.op", td_operation_name(call->operation), SHORT);
    td_span_text(span, "tensord.transport", td_transport_name(td_call_transport(call)), SHORT);
    td_span_text(span, "tensord.device", td_request_device(call), SHORT);
    td_span_text(span, "tensord.inputs", inputs, INPUTS);
    if (has_input)
        td_span_text(span, "tensord.dtype",
                     td_dtype_info(request->args.inputs[0].tensors[0].dtype)->name, SHORT);
}

/* ---- tracestate ------------------------------------------------------------------------------ */

/* Lines of tracestate, which form one list. */
struct state {
    char text[TD_TRACE_STATE + 2];
    size_t length; /* greater than TD_TRACE_STATE if the list is too long */
};

static enum MHD_Result append_state(void *context, enum MHD_ValueKind kind, const char *name,
                                    size_t length, const char *value, size_t value_length)
{
    struct state *state = context;
    (void)kind;
    if (length != strlen("tracestate") || strncasecmp(name, "tracestate", length) != 0)
        return MHD_YES;
    if (value_length > TD_TRACE_STATE || state->length + 1 + value_length > TD_TRACE_STATE) {
        state->length = TD_TRACE_STATE + 1;
        return MHD_NO;
    }
    if (state->length > 0)
        state->text[state->length++] = ',';
    if (value_length > 0)
        memcpy(state->text + state->length, value, value_length);
    state->length += value_length;
    return MHD_YES;
}

static void add_state(struct td_span *span, const struct td_call *call)
{
    struct state state = { .length = 0 };
    MHD_get_connection_values_n(call->http.connection, MHD_HEADER_KIND, append_state, &state);
    if (state.length > TD_TRACE_STATE)
        return;
    state.text[state.length] = '\0';
    if (td_trace_state_is_valid(state.text))
        span->state = td_span_copy(span, state.text, TD_TRACE_STATE);
}

/* ---- the span -------------------------------------------------------------------------------- */

static void fill(struct td_span *span, const struct td_call *call, bool complete)
{
    const int64_t now = td_now_ns(), offset = clock_offset_ns(now);
    span->begun_ns = offset + call->times.begun;
    span->ended_ns = offset + now;
    add_stages(span, &call->times, offset);
    add_request(span, call);
    add_op(span, call);
    add_reply(span, call, complete);
    if (span->ids.remote)
        add_state(span, call);
}

void td_request_trace(const struct td_call *call, bool complete)
{
    struct td_exporter *exporter = call->services->exporter;
    struct td_trace_context parent;
    struct td_span_ids ids;
    (void)td_trace_context_read(call->headers.traceparent, &parent);
    if (!td_sampler_choose(td_exporter_sampler(exporter), &parent, call->times.begun, call, &ids))
        return;
    struct td_span *span = td_span_new(&ids);
    if (span)
        fill(span, call, complete);
    td_exporter_give(exporter, span);
}
