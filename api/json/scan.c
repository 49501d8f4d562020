#include "api/json/scan.h"

#include "kernels/name.h"
#include "kernels/utf8.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static bool begins_with(const char *at, const char *end, const char *word)
{
    return (size_t)(end - at) >= strlen(word) && memcmp(at, word, strlen(word)) == 0;
}

/* Returns a hint about a non-ASCII character in a place where only ASCII is allowed. */
static const char *hint_about_character(const char *at, const char *end)
{
    const unsigned char *text = (const unsigned char *)at;
    const size_t size = td_utf8_character(text, (size_t)(end - at));
    if (size == 0)
        return "; JSON must be UTF-8";
    const uint32_t point = td_utf8_code_point(text, size);
    return point >= 0x2018 && point <= 0x201d ? "; JSON uses straight double quotes" : "";
}

/* If the text at `at` uses a notation that JSON does not have, returns advice on writing the value
 * in JSON. Otherwise returns "". */
static const char *advice(const struct td_json_scan *scan, const char *at)
{
    const char *before = at;
    while (before > scan->begin && td_json_is_space(before[-1]))
        before--;
    const bool after_comma = before > scan->begin && before[-1] == ',';
    switch (*at) {
    case '\'':
        return "; JSON uses double quotes";
    case '/':
    case '#':
        return "; JSON has no comments";
    case ']':
    case '}':
        return after_comma ? "; remove the ',' before it" : "";
    case '(':
        return "; lists use square brackets";
    case '.':
    case '+':
        return "; a number must start with a digit, or with '-' and a digit";
    case 'T':
    case 'F':
    case 'N':
        return begins_with(at, scan->end, "True") || begins_with(at, scan->end, "False") ||
                       begins_with(at, scan->end, "None")
                   ? "; JSON writes true, false and null"
                   : "";
    default:
        return (unsigned char)*at >= 0x80 ? hint_about_character(at, scan->end) : "";
    }
}

td_status td_json_syntax(const struct td_json_scan *scan, const char *at, struct td_error *err,
                         const char *format, ...)
{
    char expected[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(expected, sizeof expected, format, arguments);
    va_end(arguments);

    long long offset = at - scan->begin;
    unsigned char found = at < scan->end ? (unsigned char)*at : 0;
    if (at >= scan->end) {
        offset = scan->end - scan->begin;
        td_error_set(err, TD_MALFORMED_REQUEST, "%s at byte %lld, but the JSON text ends there",
                     expected, offset);
    } else if (found > ' ' && found < 0x7f) {
        td_error_set(err, TD_MALFORMED_REQUEST, "%s at byte %lld, not '%c'%s", expected, offset,
                     found, advice(scan, at));
    } else {
        td_error_set(err, TD_MALFORMED_REQUEST, "%s at byte %lld, not byte 0x%02x%s", expected,
                     offset, found, advice(scan, at));
    }
    err->offset = offset;
    return TD_MALFORMED_REQUEST;
}

/* Appends `more` to `text`, a buffer of `size` bytes, if all of `more` fits. Keeps the text
 * NUL-terminated. */
static size_t append(char *text, size_t size, size_t used, const char *more, size_t length)
{
    if (length >= size - used)
        return used;
    memcpy(text + used, more, length);
    text[used + length] = '\0';
    return used + length;
}

static size_t write_pointer(const struct td_json_path *path, char *text, size_t size)
{
    if (!path) {
        text[0] = '\0';
        return 0;
    }
    size_t used = write_pointer(path->up, text, size);
    used = append(text, size, used, "/", 1);
    if (!path->key) {
        char number[24];
        int length = snprintf(number, sizeof number, "%" PRId64, path->index);
        return append(text, size, used, number, (size_t)length);
    }
    for (size_t i = 0; i < path->key_length; i++) {
        char c = path->key[i];
        used = c == '~'   ? append(text, size, used, "~0", 2)
               : c == '/' ? append(text, size, used, "~1", 2)
                          : append(text, size, used, &c, 1);
    }
    return used;
}

void td_json_set_pointer(const struct td_json_path *path, struct td_error *err)
{
    err->pointer_length = write_pointer(path, err->pointer, sizeof err->pointer);
    err->has_pointer = true;
}

td_status td_json_refuse(const struct td_json_path *path, struct td_error *err, const char *format,
                         ...)
{
    char message[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    td_error_set(err, TD_MALFORMED_REQUEST, "%s", message);
    td_json_set_pointer(path, err);
    return TD_MALFORMED_REQUEST;
}

td_status td_json_expect(struct td_json_scan *scan, char c, struct td_error *err)
{
    if (td_json_peek(scan) != c || scan->at == scan->end)
        return td_json_syntax(scan, scan->at, err, "expected '%c'", c);
    scan->at++;
    return TD_OK;
}

td_status td_json_open(struct td_json_scan *scan, char open, char close, bool *more,
                       struct td_error *err)
{
    td_status status = td_json_expect(scan, open, err);
    *more = status == TD_OK && td_json_peek(scan) != close;
    scan->at += status == TD_OK && !*more;
    return status;
}

td_status td_json_next(struct td_json_scan *scan, char close, bool *more, struct td_error *err)
{
    char c = td_json_peek(scan);
    if (c != ',' && c != close)
        return td_json_syntax(scan, scan->at, err, "expected ',' or '%c'", close);
    scan->at++;
    *more = c == ',';
    return TD_OK;
}

#define EIGHT(byte) (UINT64_C(0x0101010101010101) * (byte))

/* Sets the high bit of every zero byte of x. Can also set the high bits of bytes above a zero
 * byte. */
static uint64_t zero_bytes(uint64_t x)
{
    return (x - EIGHT(1)) & ~x & EIGHT(0x80);
}

td_status td_json_raw_string(struct td_json_scan *scan, struct td_json_raw *out,
                             struct td_error *err)
{
    const char *begin = scan->at + 1, *at = begin, *end = scan->end;
    bool escaped = false, ascii = true;
    for (;;) {
        /* Skips eight characters at a time if none is a quote, a backslash or a control
         * character. */
        uint64_t eight;
        while (end - at >= (ptrdiff_t)sizeof eight) {
            memcpy(&eight, at, sizeof eight);
            uint64_t special = zero_bytes(eight ^ EIGHT('"')) | zero_bytes(eight ^ EIGHT('\\')) |
                               zero_bytes(eight & EIGHT(0xe0));
            ascii = ascii && (eight & EIGHT(0x80)) == 0;
            if (special) {
                at += __builtin_ctzll(special) / 8;
                break;
            }
            at += sizeof eight;
        }
        if (at >= end)
            return td_json_syntax(scan, end, err, "expected '\"' to end the string");
        unsigned char c = (unsigned char)*at;
        if (c == '"')
            break;
        if (c < ' ')
            return td_json_syntax(scan, at, err,
                                  "expected an escape sequence for a control character");
        ascii = ascii && c < 0x80;
        at++;
        if (c == '\\') {
            /* The character after a backslash cannot end the string. td_json_unescape checks the
             * rest of the escape. */
            if (at < end && ((unsigned char)*at < ' ' || (unsigned char)*at >= 0x80))
                return td_json_syntax(scan, at - 1, err, "expected a legal escape sequence");
            escaped = true;
            at++;
        }
    }
    out->text = begin;
    out->length = (size_t)(at - begin);
    out->escaped = escaped;
    if (!ascii) {
        size_t valid = td_utf8_valid_prefix(begin, out->length);
        if (valid < out->length)
            return td_json_syntax(scan, begin + valid, err, "expected UTF-8");
    }
    scan->at = at + 1;
    return TD_OK;
}

/* Parses four hexadecimal digits. Returns -1 if they are not hexadecimal. */
static int32_t hex4(const char *text, const char *end)
{
    if (end - text < 4)
        return -1;
    int32_t value = 0;
    for (int i = 0; i < 4; i++) {
        char c = text[i];
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0)
            return -1;
        value = value << 4 | digit;
    }
    return value;
}

char *td_json_unescape(const struct td_json_scan *scan, const struct td_json_raw *raw, char *at,
                       struct td_error *err)
{
    const char *from = raw->text, *end = raw->text + raw->length;
    while (from < end) {
        const char *slash = memchr(from, '\\', (size_t)(end - from));
        size_t plain = (size_t)((slash ? slash : end) - from);
        memmove(at, from, plain);
        at += plain;
        from += plain;
        if (!slash)
            break;
        static const char names[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
        const char *name = from + 1 < end ? strchr(names, from[1]) : NULL;
        if (name && *name) {
            *at++ = meanings[name - names];
            from += 2;
            continue;
        }
        int32_t code_unit = from + 1 < end && from[1] == 'u' ? hex4(from + 2, end) : -1;
        if (code_unit < 0) {
            td_json_syntax(scan, from, err, "expected a legal escape sequence");
            return NULL;
        }
        uint32_t code_point = (uint32_t)code_unit;
        from += 6;
        /* A high surrogate must be followed by a low surrogate. */
        if ((code_unit & 0xf800) == 0xd800) {
            int32_t low =
                end - from >= 6 && from[0] == '\\' && from[1] == 'u' ? hex4(from + 2, end) : -1;
            if (code_unit >= 0xdc00 || (low & 0xfc00) != 0xdc00) {
                td_json_syntax(scan, from - 6, err, "expected both halves of a surrogate pair");
                return NULL;
            }
            code_point = 0x10000 + ((uint32_t)(code_unit & 0x3ff) << 10 | (uint32_t)(low & 0x3ff));
            from += 6;
        }
        at = td_utf8_write(at, code_point);
    }
    return at;
}

td_status td_json_string(struct td_json_scan *scan, struct td_arena *arena, const char **text,
                         size_t *length, struct td_error *err)
{
    struct td_json_raw raw = { 0 };
    td_status status = td_json_raw_string(scan, &raw, err);
    if (status != TD_OK)
        return status;
    *text = raw.text;
    *length = raw.length;
    if (!raw.escaped)
        return TD_OK;

    char *copy = td_arena_alloc(arena, raw.length, 1, err);
    if (!copy)
        return err->status;
    char *copy_end = td_json_unescape(scan, &raw, copy, err);
    if (!copy_end)
        return TD_MALFORMED_REQUEST;
    *text = copy;
    *length = (size_t)(copy_end - copy);
    return TD_OK;
}

static const char *skip_digits(const char *at, const char *end)
{
    while (at < end && *at >= '0' && *at <= '9')
        at++;
    return at;
}

/* Returns the end of the valid part of the number token at `at`. Sets *valid to false if the token
 * is malformed at that position: either a digit is missing, or a digit follows a leading zero. */
static const char *number_prefix(const char *at, const char *end, bool *is_integer, bool *valid)
{
    *is_integer = true;
    if (at < end && *at == '-')
        at++;
    const char *digits = at;
    at = skip_digits(at, end);
    *valid = at > digits && (*digits != '0' || at - digits == 1);
    if (!*valid)
        return at > digits ? digits + 1 : at;
    if (at < end && *at == '.') {
        *is_integer = false;
        digits = ++at;
        at = skip_digits(at, end);
        *valid = at > digits;
    }
    if (*valid && at < end && (*at == 'e' || *at == 'E')) {
        *is_integer = false;
        at++;
        if (at < end && (*at == '+' || *at == '-'))
            at++;
        digits = at;
        at = skip_digits(at, end);
        *valid = at > digits;
    }
    return at;
}

const char *td_json_number_end(const char *at, const char *end, bool *is_integer)
{
    bool valid;
    const char *stop = number_prefix(at, end, is_integer, &valid);
    return valid ? stop : NULL;
}

td_status td_json_bad_number(const struct td_json_scan *scan, const char *at, struct td_error *err)
{
    bool is_integer, valid;
    const char *bad = number_prefix(at, scan->end, &is_integer, &valid);
    if (bad == at)
        return td_json_syntax(scan, at, err, "expected a number");
    if (bad[-1] != '0')
        return td_json_syntax(scan, bad, err, "expected a digit after '%c'", bad[-1]);
    td_json_syntax(scan, bad, err, "expected the end of the number after '0'");
    td_error_hint(err, "a number cannot have leading zeros");
    return TD_MALFORMED_REQUEST;
}

bool td_json_integral(const char *at, const char *end, bool *negative, uint64_t *magnitude)
{
    const int64_t exponent_limit = 1000000000000; /* larger than the number of digits in any body */
    const char *mantissa_end = at;
    int64_t exponent = 0; /* decimal exponent of the last nonzero digit */
    *negative = *at == '-';
    at += *negative;
    while (mantissa_end < end && (*mantissa_end | 0x20) != 'e')
        mantissa_end++;
    if (mantissa_end < end) {
        const char *p = mantissa_end + 1;
        bool negative_exponent = *p == '-';
        for (p += *p == '-' || *p == '+'; p < end; p++)
            exponent = exponent < exponent_limit ? exponent * 10 + (*p - '0') : exponent;
        exponent = negative_exponent ? -exponent : exponent;
    }
    const char *point = memchr(at, '.', (size_t)(mantissa_end - at));
    exponent -= point ? mantissa_end - point - 1 : 0;
    const char *last = mantissa_end;
    for (; last > at && (last[-1] == '0' || last[-1] == '.'); last--)
        exponent += last[-1] == '0';
    *magnitude = 0;
    if (last > at && exponent < 0)
        return false;
    for (; at < last; at++)
        if (*at != '.' && (__builtin_mul_overflow(*magnitude, (uint64_t)10, magnitude) ||
                           __builtin_add_overflow(*magnitude, (uint64_t)(*at - '0'), magnitude)))
            return false;
    /* The loop ends after at most 20 steps, because any nonzero value overflows. */
    for (; *magnitude > 0 && exponent > 0; exponent--)
        if (__builtin_mul_overflow(*magnitude, (uint64_t)10, magnitude))
            return false;
    return true;
}

/* Reads an integer of at most 18 digits, which always fits. Returns its end, or NULL for any other
 * text. */
static const char *short_integer(const char *at, const char *end, int64_t *out)
{
    const char *const begin = at;
    int64_t value = 0;
    for (; at < end && *at >= '0' && *at <= '9'; at++) {
        if (at - begin == 18)
            return NULL;
        value = value * 10 + (*at - '0');
    }
    if (at == begin || (*begin == '0' && at - begin > 1) ||
        (at < end && (*at == '.' || (*at | 0x20) == 'e')))
        return NULL;
    *out = value;
    return at;
}

td_status td_json_int64(struct td_json_scan *scan, int64_t *out, bool *fits, struct td_error *err)
{
    const char *at = scan->at;
    bool is_integer;
    const char *short_end = short_integer(at, scan->end, out);
    if (short_end) {
        *fits = true;
        scan->at = short_end;
        return TD_OK;
    }
    const char *end = td_json_number_end(at, scan->end, &is_integer);
    if (!end)
        return td_json_bad_number(scan, at, err);
    *fits = is_integer;
    if (!is_integer)
        return TD_OK;
    bool negative = *at == '-';
    int64_t value = 0;
    for (at += negative; at < end && *fits; at++)
        *fits = !__builtin_mul_overflow(value, (int64_t)10, &value) &&
                !__builtin_sub_overflow(value, (int64_t)(*at - '0'), &value);
    /* Accumulates the value as a negative number, because INT64_MIN has no positive counterpart. */
    if (!negative)
        *fits = *fits && !__builtin_sub_overflow((int64_t)0, value, &value);
    if (*fits) {
        *out = value;
        scan->at = end;
    }
    return TD_OK;
}

const char *td_json_kind(char c)
{
    switch (c) {
    case '{':
        return "an object";
    case '[':
        return "a list";
    case '"':
        return "a string";
    case 't':
        return "true";
    case 'f':
        return "false";
    case 'n':
        return "null";
    default:
        return c == '-' || (c >= '0' && c <= '9') ? "a number" : NULL;
    }
}

/* Returns the literal at scan->at, or NULL if there is none. */
static const char *literal_at(const struct td_json_scan *scan)
{
    static const char *const literals[] = { "true", "false", "null" };
    for (size_t i = 0; i < sizeof literals / sizeof *literals; i++)
        if (td_name_begins(literals[i], scan->at, (size_t)(scan->end - scan->at)))
            return literals[i];
    return NULL;
}

const char *td_json_value_kind(const struct td_json_scan *scan)
{
    const char c = (char)(scan->at < scan->end ? *scan->at : '\0');
    return c == 't' || c == 'f' || c == 'n' ? literal_at(scan) : td_json_kind(c);
}

const char *td_json_literal(struct td_json_scan *scan, struct td_error *err)
{
    const char *literal = literal_at(scan);
    if (literal)
        scan->at += strlen(literal);
    else
        td_json_syntax(scan, scan->at, err, "expected a value");
    return literal;
}

/* Returns the position after the closing quote of the string that starts at `at`, or NULL if the
 * string does not end. */
static const char *string_end(const char *at, const char *end)
{
    for (at++; at < end; at++) {
        if (*at == '"')
            return at + 1;
        if (*at == '\\')
            at++;
    }
    return NULL;
}

/* Progress of td_json_measure. */
struct measure {
    const char *at;
    size_t depth; /* number of open lists and objects */
    size_t commas;
};

#ifdef __SSE2__

/* Returns a mask of the 64 bytes at `at` that equal `c` in all bits except `ignored`. */
static uint64_t bytes_like(const char *at, char c, char ignored)
{
    uint64_t mask = 0;
    for (size_t i = 0; i < 64; i += 16) {
        const __m128i text = _mm_loadu_si128((const __m128i *)(const void *)(at + i));
        const __m128i like = _mm_or_si128(text, _mm_set1_epi8(ignored));
        const __m128i match = _mm_cmpeq_epi8(like, _mm_set1_epi8(c));
        mask |= (uint64_t)(uint32_t)_mm_movemask_epi8(match) << i;
    }
    return mask;
}

/* Skips 64 bytes, or fewer if the value ends in them. Returns false, and skips nothing, if they
 * contain a quote. */
static bool skip_block(struct measure *measure)
{
    if (bytes_like(measure->at, '"', 0))
        return false;
    /* '[' and '{' differ in one bit, as do ']' and '}'. */
    const uint64_t open = bytes_like(measure->at, '{', 0x20),
                   close = bytes_like(measure->at, '}', 0x20);
    uint64_t commas = bytes_like(measure->at, ',', 0);
    const char *next = measure->at + 64;
    for (uint64_t rest = open | close; rest; rest &= rest - 1) {
        const uint64_t bracket = rest & -rest;
        measure->depth += open & bracket ? 1 : SIZE_MAX;
        if (measure->depth == 0) {
            commas &= bracket - 1;
            next = measure->at + __builtin_ctzll(bracket) + 1;
            break;
        }
    }
    measure->commas += (size_t)__builtin_popcountll(commas);
    measure->at = next;
    return true;
}

#else

static bool skip_block(struct measure *measure)
{
    (void)measure;
    return false;
}

#endif

/* Skips up to 64 bytes, or a longer string. Stops if the value ends. Returns false if a string does
 * not end. */
static bool skip_bytes(struct measure *measure, const char *end)
{
    const char *stop = end - measure->at > 64 ? measure->at + 64 : end;
    while (measure->at < stop) {
        const char c = *measure->at;
        if (c == '"') {
            measure->at = string_end(measure->at, end);
            if (!measure->at)
                return false;
        } else {
            measure->at++;
            measure->commas += c == ',';
            measure->depth += c == '[' || c == '{';
            measure->depth -= c == ']' || c == '}';
        }
        if (measure->depth == 0)
            break;
    }
    return true;
}

const char *td_json_measure(const char *at, const char *end, size_t *commas)
{
    struct measure measure = { .at = at };
    *commas = 0;
    if (at < end && *at == '"')
        return string_end(at, end);
    if (at < end && *at != '[' && *at != '{') {
        /* A scalar can be a whole document, so the end of the text also ends a scalar. */
        while (at < end && !td_json_is_space(*at) && *at != ',' && *at != ']' && *at != '}')
            at++;
        return at;
    }
    while (measure.at < end) {
        const bool in_block = end - measure.at >= 64 && skip_block(&measure);
        const bool skipped = in_block || skip_bytes(&measure, end);
        *commas = measure.commas;
        if (!skipped)
            return NULL;
        if (measure.depth == 0)
            return measure.at;
    }
    return NULL;
}

static td_status ignore_scalar(struct td_json_scan *scan, struct td_arena *arena,
                               struct td_error *err)
{
    const char *text = "", c = td_json_peek(scan);
    size_t length;
    bool is_integer;
    if (c == '"')
        return td_json_string(scan, arena, &text, &length, err);
    if (c != '-' && (c < '0' || c > '9'))
        return td_json_literal(scan, err) ? TD_OK : TD_MALFORMED_REQUEST;
    const char *end = td_json_number_end(scan->at, scan->end, &is_integer);
    if (!end)
        return td_json_bad_number(scan, scan->at, err);
    scan->at = end;
    return TD_OK;
}

static td_status ignore_key(struct td_json_scan *scan, struct td_arena *arena, struct td_error *err)
{
    const char *text = "";
    size_t length;
    if (td_json_peek(scan) != '"')
        return td_json_syntax(scan, scan->at, err, "expected a member name in quotes");
    const td_status status = td_json_string(scan, arena, &text, &length, err);
    return status == TD_OK ? td_json_expect(scan, ':', err) : status;
}

td_status td_json_ignore(struct td_json_scan *scan, struct td_arena *arena, struct td_error *err)
{
    enum { MOST_DEPTH = 64 };
    /* One bit per open level, with the innermost level lowest: 1 for an object, 0 for a list. */
    uint64_t objects = 0;
    int depth = 0;
    td_status status = TD_OK;
    do {
        const char c = td_json_peek(scan);
        const bool opens = c == '{' || c == '[';
        bool more = opens;
        if (opens && depth == MOST_DEPTH)
            return td_json_syntax(scan, scan->at, err, "expected at most %d levels of nesting",
                                  MOST_DEPTH);
        if (opens)
            status = td_json_open(scan, c, c == '{' ? '}' : ']', &more, err);
        else
            status = ignore_scalar(scan, arena, err);
        if (more) {
            objects = objects << 1 | (c == '{');
            depth++;
        }
        while (status == TD_OK && !more && depth > 0) {
            status = td_json_next(scan, objects & 1 ? '}' : ']', &more, err);
            objects >>= !more;
            depth -= !more;
        }
        if (status == TD_OK && depth > 0 && (objects & 1))
            status = ignore_key(scan, arena, err);
    } while (status == TD_OK && depth > 0);
    return status;
}

td_status td_json_skip_unread(struct td_json_scan *scan, struct td_json_skipped *skipped,
                              struct td_error *err)
{
    size_t commas;
    td_json_peek(scan);
    skipped->scan = *scan;
    skipped->end = td_json_measure(scan->at, scan->end, &commas);
    if (!skipped->end)
        return td_json_syntax(scan, scan->end, err, "expected the end of a value");
    scan->at = skipped->end;
    return TD_OK;
}

td_status td_json_skipped_end(const struct td_json_skipped *skipped, struct td_error *err)
{
    const struct td_json_scan *scan = &skipped->scan;
    return scan->at == skipped->end
               ? TD_OK
               : td_json_syntax(scan, scan->at, err, "expected the end of the value");
}
