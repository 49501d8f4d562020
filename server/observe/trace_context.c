#include "server/observe/trace_context.h"

#include <string.h>

enum {
    TRACE_ID_AT = 3,
    SPAN_ID_AT = TRACE_ID_AT + TD_TRACE_ID_DIGITS + 1,
    FLAGS_AT = SPAN_ID_AT + TD_SPAN_ID_DIGITS + 1,
    LENGTH = FLAGS_AT + 2
};

/* Are these so many hexadecimal digits in lower case? The text may end within them. */
static bool is_hex(const char *text, size_t digits)
{
    return strspn(text, "0123456789abcdef") >= digits;
}

static bool is_zero(const char *text, size_t digits)
{
    return strspn(text, "0") >= digits;
}

/* Each check reads only bytes that those before it have found. */
static bool is_valid(const char *text)
{
    if (!is_hex(text, 2) || strncmp(text, "ff", 2) == 0 || text[TRACE_ID_AT - 1] != '-')
        return false;
    if (!is_hex(text + TRACE_ID_AT, TD_TRACE_ID_DIGITS) || text[SPAN_ID_AT - 1] != '-')
        return false;
    if (!is_hex(text + SPAN_ID_AT, TD_SPAN_ID_DIGITS) || text[FLAGS_AT - 1] != '-')
        return false;
    if (!is_hex(text + FLAGS_AT, 2))
        return false;
    if (is_zero(text + TRACE_ID_AT, TD_TRACE_ID_DIGITS) ||
        is_zero(text + SPAN_ID_AT, TD_SPAN_ID_DIGITS))
        return false;
    const bool is_later = strncmp(text, "00", 2) != 0;
    return text[LENGTH] == '\0' || (is_later && text[LENGTH] == '-');
}

bool td_trace_context_read(const char *traceparent, struct td_trace_context *out)
{
    *out = (struct td_trace_context){ .trace_id = "" };
    if (!traceparent || !is_valid(traceparent))
        return false;
    memcpy(out->trace_id, traceparent + TRACE_ID_AT, TD_TRACE_ID_DIGITS);
    memcpy(out->span_id, traceparent + SPAN_ID_AT, TD_SPAN_ID_DIGITS);
    return true;
}
