/* trace_context.h - the trace that a request belongs to, as its caller says.
 *
 * A log line names the trace and the caller's span, so that the lines of all services for one request
 * are found together.
 *
 * Source   W3C Trace Context, level 1: traceparent is VERSION-TRACE_ID-PARENT_ID-FLAGS in lower-case
 *          hexadecimal digits. Later versions may append fields after another '-'. */
#ifndef TD_SERVER_OBSERVE_TRACE_CONTEXT_H
#define TD_SERVER_OBSERVE_TRACE_CONTEXT_H

#include <stdbool.h>

enum { TD_TRACE_ID_DIGITS = 32, TD_SPAN_ID_DIGITS = 16 };

struct td_trace_context {
    char trace_id[TD_TRACE_ID_DIGITS + 1];
    char span_id[TD_SPAN_ID_DIGITS + 1]; /* the caller's */
};

/* False, with empty ids, if the header is absent (NULL) or invalid: then it means nothing. */
bool td_trace_context_read(const char *traceparent, struct td_trace_context *out);

#endif
