/* trace_context.h - parses the trace context that the caller sends with a request.
 *
 * Log lines contain the IDs of the trace and of the caller's span, so the lines of all services for
 * one request can be found together.
 *
 * Source   W3C Trace Context, level 1. traceparent is VERSION-TRACE_ID-PARENT_ID-FLAGS in
 *          lower-case hexadecimal digits. Later versions can append fields after another '-'.
 *          tracestate is a list of KEY=VALUE. */
#ifndef TD_SERVER_OBSERVE_TRACE_CONTEXT_H
#define TD_SERVER_OBSERVE_TRACE_CONTEXT_H

#include <stdbool.h>

enum { TD_TRACE_ID_DIGITS = 32, TD_SPAN_ID_DIGITS = 16 };

struct td_trace_context {
    char trace_id[TD_TRACE_ID_DIGITS + 1];
    char span_id[TD_SPAN_ID_DIGITS + 1]; /* span of the caller */
    /* The caller might have recorded its span. */
    bool sampled;
};

/* Parses a traceparent header. Returns false, with empty IDs, if it is absent (NULL) or invalid. */
bool td_trace_context_read(const char *traceparent, struct td_trace_context *out);

/* True if the text is a valid tracestate, which is passed on unchanged. A tracestate is invalid if
 * it is longer than TD_TRACE_STATE bytes or has more than 32 members. */
enum { TD_TRACE_STATE = 512 };
bool td_trace_state_is_valid(const char *tracestate);

#endif
