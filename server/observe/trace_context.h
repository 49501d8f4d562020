/* trace_context.h - the trace that a request belongs to, as its caller says.
 *
 * A log line names the trace and the caller's span, so that the lines of all services for one
 * request are found together.
 *
 * Source   W3C Trace Context, level 1: traceparent is VERSION-TRACE_ID-PARENT_ID-FLAGS in
 *          lower-case hexadecimal digits. Later versions may append fields after another '-'.
 *          tracestate is a list of KEY=VALUE. */
#ifndef TD_SERVER_OBSERVE_TRACE_CONTEXT_H
#define TD_SERVER_OBSERVE_TRACE_CONTEXT_H

#include <stdbool.h>

enum { TD_TRACE_ID_DIGITS = 32, TD_SPAN_ID_DIGITS = 16 };

struct td_trace_context {
    char trace_id[TD_TRACE_ID_DIGITS + 1];
    char span_id[TD_SPAN_ID_DIGITS + 1]; /* the caller's */
    bool sampled;                        /* the caller may have recorded its span */
};

/* False, with empty ids, if the header is absent (NULL) or invalid: then it means nothing. */
bool td_trace_context_read(const char *traceparent, struct td_trace_context *out);

/* Is it a valid tracestate, which is passed on as it is? One that is longer than TD_TRACE_STATE
 * bytes or has more than 32 members is not. */
enum { TD_TRACE_STATE = 512 };
bool td_trace_state_is_valid(const char *tracestate);

#endif
