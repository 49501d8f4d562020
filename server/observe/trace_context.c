#include "server/observe/trace_context.h"

#include <string.h>

enum {
    TRACE_ID_AT = 3,
    SPAN_ID_AT = TRACE_ID_AT + TD_TRACE_ID_DIGITS + 1,
    FLAGS_AT = SPAN_ID_AT + TD_SPAN_ID_DIGITS + 1,
    LENGTH = FLAGS_AT + 2
};

/* True if the text starts with at least `digits` lower-case hexadecimal digits. The text can be
 * shorter than that. */
static bool is_hex(const char *text, size_t digits)
{
    return strspn(text, "0123456789abcdef") >= digits;
}

static bool is_zero(const char *text, size_t digits)
{
    return strspn(text, "0") >= digits;
}

/* Checks a traceparent. Each check reads only bytes that the previous checks have shown to
 * exist. */
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

/* True if the lowest bit of the hexadecimal digit is set. */
static bool is_odd(char digit)
{
    return strchr("13579bdf", digit) != NULL;
}

bool td_trace_context_read(const char *traceparent, struct td_trace_context *out)
{
    *out = (struct td_trace_context){ .trace_id = "" };
    if (!traceparent || !is_valid(traceparent))
        return false;
    memcpy(out->trace_id, traceparent + TRACE_ID_AT, TD_TRACE_ID_DIGITS);
    memcpy(out->span_id, traceparent + SPAN_ID_AT, TD_SPAN_ID_DIGITS);
    out->sampled = is_odd(traceparent[FLAGS_AT + 1]);
    return true;
}

/* ---- tracestate ------------------------------------------------------------------------------ */

enum { MOST_MEMBERS = 32, LONGEST_KEY = 256, LONGEST_TENANT = 241, LONGEST_SYSTEM = 14 };
enum { LONGEST_VALUE = 256 };

#define LETTERS "abcdefghijklmnopqrstuvwxyz"
#define DIGITS  "0123456789"

static bool is_one_of(char c, const char *characters)
{
    return c != '\0' && strchr(characters, c) != NULL;
}

/* True if the text of `length` bytes is a key: "vendor" or "tenant@system". */
static bool is_key(const char *text, size_t length)
{
    const size_t name = strspn(text, LETTERS DIGITS "_-*/");
    if (name == length)
        return length <= LONGEST_KEY && is_one_of(text[0], LETTERS);
    if (name > length || text[name] != '@' || name == 0 || name > LONGEST_TENANT)
        return false;
    const char *system = text + name + 1;
    const size_t system_length = length - name - 1;
    return is_one_of(text[0], LETTERS DIGITS) && is_one_of(system[0], LETTERS) &&
           system_length <= LONGEST_SYSTEM &&
           strspn(system, LETTERS DIGITS "_-*/") >= system_length;
}

static bool is_value(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (text[i] < ' ' || text[i] > '~' || text[i] == '=')
            return false;
    return length > 0 && length <= LONGEST_VALUE && text[length - 1] != ' ';
}

static bool is_member(const char *text, size_t length)
{
    const size_t key = strcspn(text, "=");
    return key > 0 && key < length && is_key(text, key) &&
           is_value(text + key + 1, length - key - 1);
}

/* List members can be empty and can be surrounded by blanks. */
bool td_trace_state_is_valid(const char *tracestate)
{
    int n = 0;
    if (strnlen(tracestate, TD_TRACE_STATE + 1) > TD_TRACE_STATE)
        return false;
    for (const char *at = tracestate; *at;) {
        at += strspn(at, " \t");
        size_t whole = strcspn(at, ","), length = whole;
        while (length > 0 && is_one_of(at[length - 1], " \t"))
            length--;
        if (length > 0 && (!is_member(at, length) || ++n > MOST_MEMBERS))
            return false;
        at += whole + (at[whole] == ',');
    }
    return n > 0;
}
