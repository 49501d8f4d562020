#include "server/http/request_log.h"

#include "server/calls/services.h"
#include "server/http/request_facts.h"
#include "server/observe/clock.h"
#include "server/observe/trace_context.h"

#include <sys/socket.h>

#define NS_PER_MS 1000000

/* ---- which requests -------------------------------------------------------------------------- */

enum reason { NO_LINE, FAILED, SLOW, ACCESS, DEBUG };

/* True if the request belongs to the fraction --access-log. Mixes the bits of the clock with
 * splitmix64, so requests at regular intervals are chosen as often as other requests. */
static bool is_chosen(const struct td_services *services, int64_t begun_ns)
{
    const double fraction = services->config.access_log;
    if (fraction <= 0)
        return false;
    uint64_t bits = (uint64_t)begun_ns + services->request_seed;
    bits = (bits ^ (bits >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    bits = (bits ^ (bits >> 27)) * UINT64_C(0x94d049bb133111eb);
    bits ^= bits >> 31;
    return (double)(bits >> 11) * 0x1p-53 < fraction;
}

/* True for a refused readiness probe. */
static bool is_probe_of_drain(const struct td_call *call)
{
    return call->operation == TD_OPERATION_HEALTH && call->error.status == TD_DRAINING;
}

/* True if the server is at fault. Excludes errors that any client can cause. The last excluded
 * error refuses a request before any work is done. */
static bool is_fault(const struct td_call *call)
{
    return !call->gone && !is_probe_of_drain(call) && call->error.status != TD_NOT_SUPPORTED &&
           !(call->error.status == TD_DEADLINE_EXCEEDED && call->error.retry_after_s);
}

/* True if the request was slow. Excludes the time in which the client sends the body and reads the
 * reply. */
static bool is_slow(const struct td_call *call)
{
    const struct td_times *times = &call->times;
    const int64_t limit_ns = call->services->config.slow_ms * NS_PER_MS;
    const int64_t from = times->arrived > 0 ? times->arrived : times->begun;
    return limit_ns > 0 && times->stage_end - from > limit_ns;
}

static enum reason reason_of(const struct td_call *call)
{
    const struct td_services *services = call->services;
    if (call->reply.http_status >= 500 && is_fault(call))
        return FAILED;
    if (is_slow(call))
        return SLOW;
    if (is_chosen(services, call->times.begun))
        return ACCESS;
    return td_log_wants(&services->log, TD_LOG_DEBUG) ? DEBUG : NO_LINE;
}

/* ---- the line -------------------------------------------------------------------------------- */

/* Returns NULL for "", which omits the field. */
static const char *given(const char *text)
{
    return text[0] ? text : NULL;
}

struct line {
    enum reason reason;
    bool complete;
    uint64_t suppressed;
};

static void write_line(const struct td_call *call, const struct line *line)
{
    static const char *const reasons[] = {
        [FAILED] = "failed", [SLOW] = "slow", [ACCESS] = "access", [DEBUG] = NULL
    };
    static const enum td_log_level levels[] = {
        [FAILED] = TD_LOG_WARN, [SLOW] = TD_LOG_WARN, [ACCESS] = TD_LOG_INFO, [DEBUG] = TD_LOG_DEBUG
    };
    const struct td_times *times = &call->times;
    const int64_t now = td_now_ns();
    const int64_t made = times->stage_end > 0 ? times->stage_end : times->begun;
    const bool failed = call->error.status && !call->gone;
    struct td_trace_context trace;
    struct td_sender_text sender;
    char inputs[1024];
    td_trace_context_read(call->headers.traceparent, &trace);
    td_sender_print(&call->sender, &sender);
    td_request_inputs(call, inputs, sizeof inputs);
    /* Put strings whose length the client controls last, so they do not displace other fields. */
    const struct td_log_field fields[] = {
        TD_TEXT("why", reasons[line->reason]),
        TD_TEXT("request_id", call->request_id),
        TD_TEXT("trace_id", given(trace.trace_id)),
        TD_TEXT("parent_span_id", given(trace.span_id)),
        TD_TEXT("client", given(sender.peer)),
        TD_TEXT("forwarded_for", given(sender.forwarded)),
        TD_TEXT("token", call->sender.token),
        TD_TEXT("op",
                call->operation == TD_OPERATION_NONE ? NULL : td_operation_name(call->operation)),
        TD_INT("status", call->gone ? TD_CODE_GONE : call->reply.http_status),
        TD_TEXT("code", failed ? td_status_name(call->error.status) : NULL),
        TD_TEXT("transport", td_transport_name(td_call_transport(call))),
        TD_TEXT("device", td_request_device(call)),
        TD_INT("body_bytes", call->body_bytes),
        TD_INT("reply_bytes", td_reply_bytes(&call->reply)),
        TD_TEXT("reply", line->complete ? NULL : "incomplete"),
        TD_MS("duration_ms", now - times->begun),
        TD_MS("receive_ms", times->arrived > 0 ? times->arrived - times->begun : 0),
        TD_MS("decode_ms", times->decode),
        TD_MS("queue_ms", times->queue),
        TD_MS("compute_ms", times->compute),
        TD_MS("encode_ms", times->encode),
        TD_MS("send_ms", call->gone ? 0 : now - made),
        TD_COUNT("suppressed", line->suppressed),
        TD_TEXT("method", call->method),
        TD_TEXT("path", call->path),
        TD_TEXT("inputs", given(inputs)),
        TD_TEXT("detail", failed ? call->error.message : NULL),
    };
    td_log_write(&call->services->log, levels[line->reason],
                 call->gone ? "request_dropped" : "request", fields,
                 (int)(sizeof fields / sizeof *fields));
}

void td_request_log(const struct td_call *call, bool complete)
{
    struct td_log_limit *slow = &call->services->slow;
    struct line line = { .reason = reason_of(call), .complete = complete };
    if (line.reason == NO_LINE)
        return;
    /* Count the request as slow, although its line reports the failure. */
    if (line.reason == FAILED && is_slow(call))
        atomic_fetch_add_explicit(&slow->events, 1, memory_order_relaxed);
    if (line.reason == SLOW) {
        if (!td_log_limit_take(slow, call->times.stage_end, TD_SLOW_LINES))
            return;
        line.suppressed = td_log_limit_suppressed(slow);
    }
    write_line(call, &line);
}

void td_request_log_refused(struct td_services *services, const char *request_id, int socket,
                            const struct td_error *err)
{
    const bool chosen = is_chosen(services, td_now_ns());
    struct sockaddr_storage address;
    socklen_t length = sizeof address;
    struct td_sender sender = { .token = NULL };
    struct td_sender_text text;
    if (!chosen && !td_log_wants(&services->log, TD_LOG_DEBUG))
        return;
    if (socket >= 0 && getpeername(socket, (struct sockaddr *)&address, &length) == 0)
        sender.peer = td_peer_of(socket, (const struct sockaddr *)&address);
    td_sender_print(&sender, &text);
    const struct td_log_field fields[] = {
        TD_TEXT("why", chosen ? "access" : NULL), TD_TEXT("request_id", request_id),
        TD_TEXT("client", given(text.peer)),      TD_TEXT("code", td_status_name(err->status)),
        TD_TEXT("detail", err->message),
    };
    td_log_write(&services->log, chosen ? TD_LOG_INFO : TD_LOG_DEBUG, "request", fields,
                 (int)(sizeof fields / sizeof *fields));
}

void td_request_log_tidy(struct td_services *services, int64_t now_ns)
{
    const uint64_t suppressed = td_log_limit_suppressed_before(&services->slow, now_ns);
    if (suppressed > 0)
        td_log(&services->log, TD_LOG_WARN, "slow_requests", TD_INT("suppressed", suppressed));
}
