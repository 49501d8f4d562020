#include "api/json/parse_scalars.h"

#include "api/json/float_text.h"
#include "api/json/parse_floats.h"
#include "kernels/half.h"
#include "kernels/name.h"

#include <stdio.h>
#include <string.h>

#define ALWAYS_INLINE inline __attribute__((always_inline))
#define LIKELY(x)     __builtin_expect(!!(x), 1)
#define UNLIKELY(x)   __builtin_expect(!!(x), 0)

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "digits are loaded in little-endian order");

/* ---- digits ---- */

static const uint64_t power_of_ten[] = { 1,      10,      100,      1000,     10000,
                                         100000, 1000000, 10000000, 100000000 };

/* Parses up to eight digits at p and returns the number of digits. */
static ALWAYS_INLINE unsigned eight_digits(const char *p, uint64_t *value)
{
    uint64_t x;
    memcpy(&x, p, sizeof x);
    x ^= UINT64_C(0x3030303030303030); /* digits become 0 to 9, other bytes become larger */
    uint64_t others = ((x + UINT64_C(0x7676767676767676)) | x) & UINT64_C(0x8080808080808080);
    unsigned n = others ? (unsigned)__builtin_ctzll(others) >> 3 : 8;
    /* Shifts in zeros before the n digits. Uses two steps because n can be 0, and a shift by 64
     * bits is undefined. */
    x = x << 4 * (8 - n) << 4 * (8 - n);
    /* Combines digits into pairs, pairs into groups of four, and groups of four into eight
     * digits. */
    x = x * 10 + (x >> 8);
    x = ((x & UINT64_C(0x000000ff000000ff)) * UINT64_C(0x000f424000000064) +
         (x >> 16 & UINT64_C(0x000000ff000000ff)) * UINT64_C(0x0000271000000001)) >>
        32;
    *value = x;
    return n;
}

/* ---- the loop over one list ---- */

/* Parses the element at p into `to`. Returns the end of the element, or NULL with `fault` set. */
typedef const char *read_fn(const char *p, struct td_scalar_parser *parser, char *to);

/* Number of elements that parse_list skips between attempts to read groups. */
enum { PAUSE = 8 };

static ALWAYS_INLINE const char *parse_list(struct td_scalar_parser *parser, const char *p,
                                            size_t width, read_fn *read, bool in_groups)
{
    const char *end = parser->end;
    char *next = parser->next;
    int pause = 0; /* number of elements to read before the next attempt to read a group */
    parser->fault = TD_SCALAR_FAULT_NONE;
    for (;;) {
        const char *after = NULL;
        size_t n = 1;
        const size_t room = (size_t)(parser->limit - next) / width;
        if (in_groups && parser->group && p < end && room >= TD_FLOAT_GROUP && pause-- == 0) {
            after = parser->group(p, end, next, room, &n);
            pause = PAUSE;
        }
        if (LIKELY(p < end))
            after = after ? after : read(p, parser, next);
        else
            parser->fault = TD_SCALAR_FAULT_VALUE;
        if (UNLIKELY(!after))
            break;
        p = after;
        next += n * width;
        if (*p != ',') {
            p = td_json_skip_space(p, end);
            if (p >= end || *p != ',')
                break;
        }
        if (UNLIKELY(next == parser->limit))
            break;
        p++;
        if (td_json_is_space(*p))
            p = td_json_skip_space(p, end);
    }
    parser->next = next;
    return p;
}

static const char *fail(struct td_scalar_parser *parser, enum td_scalar_fault fault)
{
    parser->fault = fault;
    return NULL;
}

/* ---- integers ---- */

/* Reads an integer. `most` is the maximum magnitude of a positive value, and `least` the maximum
 * magnitude of a negative value. */
static ALWAYS_INLINE const char *read_integer(const char *p, struct td_scalar_parser *parser,
                                              char *to, size_t width, uint64_t most, uint64_t least)
{
    bool negative = *p == '-';
    p += negative;
    uint64_t value, more;
    unsigned n = eight_digits(p, &value);
    const char *first = p;
    p += n;
    if (n == 8) {
        unsigned n_more = eight_digits(p, &more);
        value = value * power_of_ten[n_more] + more;
        p += n_more;
        if (n_more == 8) {
            for (; p < parser->end && *p >= '0' && *p <= '9'; p++)
                if (__builtin_mul_overflow(value, (uint64_t)10, &value) ||
                    __builtin_add_overflow(value, (uint64_t)(*p - '0'), &value))
                    return fail(parser, TD_SCALAR_FAULT_RANGE);
        }
    }
    bool leading_zero = n > 1 && *first == '0';
    if (UNLIKELY(n == 0 || leading_zero || *p == '.' || (*p | 0x20) == 'e'))
        return fail(parser, TD_SCALAR_FAULT_VALUE);
    if (UNLIKELY(value > (negative ? least : most)))
        return fail(parser, TD_SCALAR_FAULT_RANGE);
    value = negative ? 0 - value : value;
    memcpy(to, &value, width);
    return p;
}

#define INTEGERS(X)                                                                                \
    X(int8, 1, INT8_MAX, UINT64_C(1) << 7)                                                         \
    X(int16, 2, INT16_MAX, UINT64_C(1) << 15)                                                      \
    X(int32, 4, INT32_MAX, UINT64_C(1) << 31)                                                      \
    X(int64, 8, INT64_MAX, UINT64_C(1) << 63)                                                      \
    X(uint8, 1, UINT8_MAX, 0)                                                                      \
    X(uint16, 2, UINT16_MAX, 0)                                                                    \
    X(uint32, 4, UINT32_MAX, 0)                                                                    \
    X(uint64, 8, UINT64_MAX, 0)

#define TD_READ_INTEGER(name, width, most, least)                                                  \
    static ALWAYS_INLINE const char *read_##name(const char *p, struct td_scalar_parser *parser,   \
                                                 char *to)                                         \
    {                                                                                              \
        return read_integer(p, parser, to, width, most, least);                                    \
    }
INTEGERS(TD_READ_INTEGER)
#undef TD_READ_INTEGER

/* ---- floats ---- */

/* A number token with the value digits * 10^exponent. n_digits includes leading zeros, except a 0
 * before the point, and shows whether the number fits in `digits`. */
struct number {
    uint64_t digits;
    int exponent;
    unsigned n_digits;
    bool negative;
};

/* Number of digits that always fit in uint64_t. Python writes a float32 with up to 17 digits after
 * "0.", or more if they start with zeros. */
#define DIGITS_MAX 19

static const char *scan_exponent(const char *p, const char *end, struct number *number)
{
    const char *q = p + 1;
    bool negative = q < end && *q == '-';
    if (q < end && (*q == '-' || *q == '+'))
        q++;
    const char *first = q;
    int exponent = 0;
    for (; q < end && *q >= '0' && *q <= '9'; q++)
        exponent = exponent < 10000 ? exponent * 10 + (*q - '0') : exponent;
    number->exponent += negative ? -exponent : exponent;
    return q == first ? NULL : q;
}

/* Scans a number with more digits than the blocks of scan_number hold. Checks only the grammar. */
static __attribute__((noinline)) const char *scan_long(const char *token, const char *end,
                                                       struct number *number)
{
    bool is_integer;
    number->n_digits = DIGITS_MAX + 1;
    number->digits = UINT64_MAX;
    number->exponent = 0;
    return td_json_number_end(token, end, &is_integer);
}

/* Scans the number at p in blocks of eight digits: two before the point, three after it. Returns
 * the end of the token, or NULL if there is no number. Reads up to 42 bytes after p. */
static ALWAYS_INLINE const char *scan_number(const char *p, const char *end, struct number *number)
{
    const char *token = p;
    uint64_t value, more;
    unsigned n;
    number->negative = *p == '-';
    p += number->negative;
    if (LIKELY(p[1] == '.')) {
        value = (uint64_t)(unsigned char)*p - '0';
        if (value > 9)
            return NULL;
        n = 1;
    } else {
        n = eight_digits(p, &value);
        if (n == 0 || (n > 1 && *p == '0'))
            return NULL;
        if (n == 8) {
            unsigned n_more = eight_digits(p + 8, &more);
            if (n_more == 8)
                return scan_long(token, end, number);
            value = value * power_of_ten[n_more] + more;
            n += n_more;
        }
    }
    p += n;
    number->exponent = 0;
    number->n_digits = n - (value == 0);
    if (*p == '.') {
        p++;
        n = eight_digits(p, &more);
        if (n == 0)
            return NULL;
        value = value * power_of_ten[n] + more;
        p += n;
        number->n_digits += n;
        number->exponent = -(int)n;
        if (n == 8) {
            unsigned n_more = eight_digits(p, &more);
            value = value * power_of_ten[n_more] + more;
            if (n_more == 8) {
                n = eight_digits(p + 8, &more);
                if (n == 8)
                    return scan_long(token, end, number);
                value = value * power_of_ten[n] + more;
                n_more += n;
            }
            p += n_more;
            number->n_digits += n_more;
            number->exponent -= (int)n_more;
        }
    }
    number->digits = value;
    if (UNLIKELY((*p | 0x20) == 'e'))
        return scan_exponent(p, end, number);
    return p;
}

enum real { FLOAT16, BFLOAT16, FLOAT32, FLOAT64 };

static const size_t real_size[] = { 2, 2, 4, 8 };

/* Powers of ten that are exact in double. */
static const double exact_power[] = { 1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                      1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                      1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22 };

/* Upper bound for the error of digits * 10^exponent, in units in the last place. The product is
 * rounded at most twice. */
#define SLACK UINT64_C(4)

/* Rounds a number to `real` in double arithmetic. Returns false if the result is not provably
 * correct. */
static ALWAYS_INLINE bool round_fast(const struct number *number, enum real real, char *to)
{
    if (UNLIKELY(number->n_digits > DIGITS_MAX || number->exponent < -22 || number->exponent > 22))
        return false;
    /* Converting int64_t to double takes one instruction. */
    if (UNLIKELY(number->digits > INT64_MAX))
        return false;
    /* Both operands are exact, so the quotient or product is rounded only once. */
    if (real == FLOAT64 && number->digits > UINT64_C(1) << 53)
        return false;
    double value = (double)(int64_t)number->digits;
    value = number->exponent < 0 ? value / exact_power[-number->exponent]
                                 : value * exact_power[number->exponent];
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (real == FLOAT64) {
        bits |= (uint64_t)number->negative << 63;
        memcpy(to, &bits, sizeof bits);
        return true;
    }
    if (real == FLOAT32) {
        /* The second rounding drops 29 bits. The result can be wrong only if these bits are close
         * to half a unit in the last place. */
        uint64_t dropped = bits & ((UINT64_C(1) << 29) - 1);
        if (UNLIKELY(dropped - (UINT64_C(1) << 28) + SLACK <= 2 * SLACK))
            return false;
        /* The value is zero or at least 10^-22, so the result is not subnormal. */
        if (UNLIKELY(value >= 0x1p127))
            return false;
        float narrow = (float)value;
        uint32_t narrow_bits;
        memcpy(&narrow_bits, &narrow, sizeof narrow_bits);
        narrow_bits |= (uint32_t)number->negative << 31;
        memcpy(to, &narrow_bits, sizeof narrow_bits);
        return true;
    }
    struct td_narrow format = real == FLOAT16 ? TD_NARROW_FLOAT16 : TD_NARROW_BFLOAT16;
    bool unsure;
    uint16_t narrow = td_narrow_round(value, format, SLACK, &unsure);
    uint16_t infinity = real == FLOAT16 ? 0x7c00 : 0x7f80;
    if (unsure || narrow == infinity)
        return false;
    narrow = (uint16_t)(narrow | (unsigned)number->negative << 15);
    memcpy(to, &narrow, sizeof narrow);
    return true;
}

/* Rounds a number in exact decimal arithmetic. Returns false if the number is too large for
 * `real`. */
static __attribute__((noinline)) bool round_exact(const char *token, const char *end,
                                                  enum real real, char *to)
{
    bool fits = false;
    switch (real) {
    case FLOAT16: {
        uint16_t value;
        if ((fits = td_float16_read(token, end, &value)))
            memcpy(to, &value, sizeof value);
        break;
    }
    case BFLOAT16: {
        uint16_t value;
        if ((fits = td_bfloat16_read(token, end, &value)))
            memcpy(to, &value, sizeof value);
        break;
    }
    case FLOAT32: {
        float value;
        if ((fits = td_float32_read(token, end, &value)))
            memcpy(to, &value, sizeof value);
        break;
    }
    case FLOAT64: {
        double value;
        if ((fits = td_float64_read(token, end, &value)))
            memcpy(to, &value, sizeof value);
        break;
    }
    }
    return fits;
}

/* ---- integers in floats ---- */

/* Number of significant bits, by enum real. */
static const int real_bits[] = { 11, 8, TD_FLOAT32_BITS, 53 };

/* Writes the value at `from` as text, exactly as replies show it. */
enum { REAL_TEXT = TD_FLOAT64_TEXT + 1 + TD_FLOAT_SLACK };
static void real_text(const void *from, enum real real, char text[REAL_TEXT])
{
    char *(*const list[])(char *, const void *, int64_t) = { td_float16_list, td_bfloat16_list,
                                                             td_float32_list, td_float64_list };
    list[real](text, from, 1)[-1] = '\0'; /* overwrites the comma */
}

/* True if the token and the text of a float have the same digits, ignoring trailing zeros. */
static bool same_digits(const char *token, const char *end, const char *text)
{
    token += *token == '-';
    text += *text == '-';
    for (;; token++, text++) {
        text += *text == '.';
        const bool ends = *text < '0' || *text > '9';
        if (token == end || ends || *token != *text) {
            const char *mantissa_end = text + strcspn(text, "eE");
            while (token < end && *token == '0')
                token++;
            while (text < mantissa_end && (*text == '0' || *text == '.'))
                text++;
            return token == end && text == mantissa_end;
        }
    }
}

static double real_value(const void *from, enum real real)
{
    uint16_t narrow = 0;
    float single;
    double value;
    if (real == FLOAT32) {
        memcpy(&single, from, sizeof single);
        return (double)single;
    }
    if (real == FLOAT64) {
        memcpy(&value, from, sizeof value);
        return value;
    }
    memcpy(&narrow, from, sizeof narrow);
    return real == FLOAT16 ? (double)td_float16_value(narrow) : (double)td_bfloat16_value(narrow);
}

static bool keeps_integer(const char *begin, const char *end, enum real real)
{
    enum { LONGEST = 310 }; /* number of digits in the largest double */
    char rounded[8], text[REAL_TEXT], exact[LONGEST + 2];
    double value;
    if (!round_exact(begin, end, real, rounded) || !td_float64_read(begin, end, &value))
        return true; /* too large: another fault */
    real_text(rounded, real, text);
    if (same_digits(begin, end, text))
        return true;
    if (real_value(rounded, real) != value)
        return false;
    snprintf(exact, sizeof exact, "%.0f", value);
    real_text(&value, FLOAT64, text);
    return td_name_is(exact, begin, (size_t)(end - begin)) || same_digits(begin, end, text);
}

/* True if a number with too many digits to be exact is an integer that rounding would change. Not
 * inlined, because most numbers are smaller or have a fraction. */
static __attribute__((noinline)) bool rounds_integer(const struct number *number, const char *token,
                                                     const char *end, enum real real)
{
    for (const char *p = token; p < end; p++)
        if (*p == '.' || (*p | 0x20) == 'e')
            return false;
    return !(number->n_digits <= DIGITS_MAX &&
             td_integer_is_exact(number->digits, real_bits[real])) &&
           !keeps_integer(token, end, real);
}

bool td_scalar_keeps_integer(const char *begin, const char *end, td_dtype dtype)
{
    switch (dtype) {
    case TD_DTYPE_FLOAT16:
        return keeps_integer(begin, end, FLOAT16);
    case TD_DTYPE_BFLOAT16:
        return keeps_integer(begin, end, BFLOAT16);
    case TD_DTYPE_FLOAT32:
        return keeps_integer(begin, end, FLOAT32);
    default:
        return keeps_integer(begin, end, FLOAT64);
    }
}

/* ---- floats as elements ---- */

/* Parses NaN, Infinity and -Infinity, with or without quotes. */
static __attribute__((noinline)) const char *read_nonfinite(const char *p,
                                                            struct td_scalar_parser *parser,
                                                            enum real real, bool quoted, char *to)
{
    static const struct {
        const char *text;
        uint64_t bits[4]; /* bit patterns, indexed by enum real */
    } names[] = {
        { "\"NaN\"", { 0x7e00, 0x7fc0, 0x7fc00000, UINT64_C(0x7ff8000000000000) } },
        { "\"Infinity\"", { 0x7c00, 0x7f80, 0x7f800000, UINT64_C(0x7ff0000000000000) } },
        { "\"-Infinity\"", { 0xfc00, 0xff80, 0xff800000, UINT64_C(0xfff0000000000000) } },
    };
    size_t left = (size_t)(parser->end - p);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *text = names[i].text + !quoted;
        size_t length = strlen(names[i].text) - (quoted ? 0 : 2);
        if (left >= length && memcmp(p, text, length) == 0) {
            memcpy(to, &names[i].bits[real], real_size[real]);
            return p + length;
        }
    }
    return fail(parser, TD_SCALAR_FAULT_VALUE);
}

/* Reads a number. If `keep` is true, an integer that rounding would change is a fault. */
static ALWAYS_INLINE const char *read_number(const char *p, struct td_scalar_parser *parser,
                                             char *to, enum real real, bool keep)
{
    struct number number;
    const char *after = scan_number(p, parser->end, &number);
    if (UNLIKELY(!after))
        return fail(parser, TD_SCALAR_FAULT_VALUE);
    if (UNLIKELY(!round_fast(&number, real, to) && !round_exact(p, after, real, to)))
        return fail(parser, TD_SCALAR_FAULT_RANGE);
    if (keep && number.exponent == 0 && UNLIKELY(number.digits > UINT64_C(1) << real_bits[real]) &&
        rounds_integer(&number, p, after, real))
        return fail(parser, TD_SCALAR_FAULT_ROUNDED);
    return after;
}

static ALWAYS_INLINE const char *read_real(const char *p, struct td_scalar_parser *parser, char *to,
                                           enum real real)
{
    if (UNLIKELY(*p == '"'))
        return read_nonfinite(p, parser, real, true, to);
    return read_number(p, parser, to, real, true);
}

/* Reads a complex number [re, im]. */
static ALWAYS_INLINE const char *read_pair(const char *p, struct td_scalar_parser *parser, char *to,
                                           enum real real)
{
    const char *end = parser->end;
    static const char punctuation[] = { '[', ',', ']' };
    for (int i = 0; i < 3; i++) {
        p = td_json_skip_space(p, end);
        if (p >= end || *p != punctuation[i])
            return fail(parser, TD_SCALAR_FAULT_VALUE);
        p++;
        if (i == 2)
            break;
        p = td_json_skip_space(p, end);
        if (p >= end)
            return fail(parser, TD_SCALAR_FAULT_VALUE);
        p = read_real(p, parser, to + (size_t)i * real_size[real], real);
        if (!p)
            return NULL;
    }
    return p;
}

static ALWAYS_INLINE const char *read_float16(const char *p, struct td_scalar_parser *parser,
                                              char *to)
{
    return read_real(p, parser, to, FLOAT16);
}
static ALWAYS_INLINE const char *read_bfloat16(const char *p, struct td_scalar_parser *parser,
                                               char *to)
{
    return read_real(p, parser, to, BFLOAT16);
}
static ALWAYS_INLINE const char *read_float32(const char *p, struct td_scalar_parser *parser,
                                              char *to)
{
    return read_real(p, parser, to, FLOAT32);
}
static ALWAYS_INLINE const char *read_float64(const char *p, struct td_scalar_parser *parser,
                                              char *to)
{
    return read_real(p, parser, to, FLOAT64);
}
static ALWAYS_INLINE const char *read_complex64(const char *p, struct td_scalar_parser *parser,
                                                char *to)
{
    return read_pair(p, parser, to, FLOAT32);
}
static ALWAYS_INLINE const char *read_complex128(const char *p, struct td_scalar_parser *parser,
                                                 char *to)
{
    return read_pair(p, parser, to, FLOAT64);
}
/* Reads a float32 in a tensor with inferred dtype, in which "NaN" is a string. */
static ALWAYS_INLINE const char *read_plain_float32(const char *p, struct td_scalar_parser *parser,
                                                    char *to)
{
    return read_number(p, parser, to, FLOAT32, true);
}

/* ---- booleans and strings ---- */

static ALWAYS_INLINE const char *read_bool(const char *p, struct td_scalar_parser *parser, char *to)
{
    size_t left = (size_t)(parser->end - p);
    if (td_name_begins("true", p, left)) {
        *to = 1;
        return p + 4;
    }
    if (td_name_begins("false", p, left)) {
        *to = 0;
        return p + 5;
    }
    return fail(parser, TD_SCALAR_FAULT_VALUE);
}

static const char *read_string(const char *p, struct td_scalar_parser *parser, char *to)
{
    if (*p != '"')
        return fail(parser, TD_SCALAR_FAULT_VALUE);
    parser->scan->at = p;
    struct td_json_raw raw;
    if (td_json_raw_string(parser->scan, &raw, parser->err) != TD_OK)
        return fail(parser, TD_SCALAR_FAULT_REPORTED);
    if (raw.escaped) {
        char *end = td_json_unescape(parser->scan, &raw, parser->bytes_next, parser->err);
        if (!end)
            return fail(parser, TD_SCALAR_FAULT_REPORTED);
        parser->bytes_next = end;
    } else {
        memcpy(parser->bytes_next, raw.text, raw.length);
        parser->bytes_next += raw.length;
    }
    uint64_t offset = (uint64_t)(parser->bytes_next - parser->bytes);
    memcpy(to, &offset, sizeof offset);
    return parser->scan->at;
}

/* ---- integers in any notation ---- */

/* An integer of at least this magnitude, 10^15, might have been rounded if it is written with a
 * fraction or an exponent. Programs such as cJSON print doubles with 15 significant digits, so
 * 9007199254740993 becomes 9.00719925474099e+15. */
#define MAY_BE_ROUNDED UINT64_C(1000000000000000)

/* Reads an integer that read_integer rejected because it has a fraction, an exponent or quotes.
 * 64-bit integers can be in quotes. Not inlined, because this path is slow and rare. */
static __attribute__((noinline)) const char *read_integral(const char *p,
                                                           struct td_scalar_parser *parser,
                                                           char *to, size_t width, uint64_t most,
                                                           uint64_t least)
{
    bool is_integer, negative;
    uint64_t value;
    const bool quoted = *p == '"' && width == sizeof value;
    p += quoted;
    const char *end = td_json_number_end(p, parser->end, &is_integer);
    if (quoted && (!end || !is_integer || end == parser->end || *end != '"'))
        return NULL; /* fault is already set */
    if (!end || !td_json_integral(p, end, &negative, &value))
        return quoted ? fail(parser, TD_SCALAR_FAULT_RANGE) : NULL;
    if (value > (negative ? least : most))
        return fail(parser, TD_SCALAR_FAULT_RANGE);
    if (!is_integer && value >= MAY_BE_ROUNDED)
        return fail(parser, TD_SCALAR_FAULT_ROUNDED);
    value = negative ? 0 - value : value;
    memcpy(to, &value, width);
    parser->fault = TD_SCALAR_FAULT_NONE;
    return end + quoted;
}

#define TD_READ_INTEGER(name, width, most, least)                                                  \
    static ALWAYS_INLINE const char *read_any_##name(const char *p,                                \
                                                     struct td_scalar_parser *parser, char *to)    \
    {                                                                                              \
        const char *after = read_##name(p, parser, to);                                            \
        return LIKELY(after) ? after : read_integral(p, parser, to, width, most, least);           \
    }
INTEGERS(TD_READ_INTEGER)
#undef TD_READ_INTEGER

/* ---- the Open Inference Protocol ---- */

static ALWAYS_INLINE const char *read_oip_bool(const char *p, struct td_scalar_parser *parser,
                                               char *to)
{
    const char *after = read_bool(p, parser, to);
    return LIKELY(after) ? after : read_integral(p, parser, to, 1, 1, 0);
}

static __attribute__((noinline)) const char *
read_oip_special(const char *p, struct td_scalar_parser *parser, enum real real, char *to)
{
    const enum td_scalar_fault fault = parser->fault;
    bool is_integer;
    parser->fault = TD_SCALAR_FAULT_NONE;
    if (fault == TD_SCALAR_FAULT_VALUE)
        return read_nonfinite(p, parser, real, false, to);
    if (real != FLOAT16 && real != BFLOAT16)
        return fail(parser, fault);
    const uint16_t infinity = real == FLOAT16 ? 0x7c00 : 0x7f80;
    const uint16_t bits = (uint16_t)(infinity | (*p == '-') << 15);
    memcpy(to, &bits, sizeof bits);
    return td_json_number_end(p, parser->end, &is_integer);
}

#define OIP_REALS(X)                                                                               \
    X(float16, FLOAT16)                                                                            \
    X(bfloat16, BFLOAT16)                                                                          \
    X(float32, FLOAT32)                                                                            \
    X(float64, FLOAT64)

#define TD_READ_REAL(name, real)                                                                   \
    static ALWAYS_INLINE const char *read_oip_##name(const char *p,                                \
                                                     struct td_scalar_parser *parser, char *to)    \
    {                                                                                              \
        const char *after = read_number(p, parser, to, real, false);                               \
        return LIKELY(after) ? after : read_oip_special(p, parser, real, to);                      \
    }
OIP_REALS(TD_READ_REAL)
#undef TD_READ_REAL

/* ---- the loops ---- */

/* X(enum suffix, name, bytes per element) */
#define INTEGER_DTYPES(X)                                                                          \
    X(INT8, int8, 1)                                                                               \
    X(INT16, int16, 2)                                                                             \
    X(INT32, int32, 4)                                                                             \
    X(INT64, int64, 8)                                                                             \
    X(UINT8, uint8, 1)                                                                             \
    X(UINT16, uint16, 2)                                                                           \
    X(UINT32, uint32, 4)                                                                           \
    X(UINT64, uint64, 8)

#define BOOL_AND_REAL_DTYPES(X)                                                                    \
    X(BOOL, bool, 1)                                                                               \
    X(FLOAT16, float16, 2)                                                                         \
    X(BFLOAT16, bfloat16, 2)                                                                       \
    X(FLOAT32, float32, 4)                                                                         \
    X(FLOAT64, float64, 8)

#define OTHER_DTYPES(X)                                                                            \
    X(COMPLEX64, complex64, 8)                                                                     \
    X(COMPLEX128, complex128, 16)                                                                  \
    X(STRING, string, 8)

/* Integer dtypes that infer_dtype.h can infer. */
#define INFERRED_DTYPES(X)                                                                         \
    X(INT32, int32, 4)                                                                             \
    X(INT64, int64, 8)                                                                             \
    X(UINT64, uint64, 8)

#define HAS_GROUPS(dtype) ((dtype) == TD_DTYPE_FLOAT32 || (dtype) == TD_DTYPE_FLOAT64)

#define TD_LOOP(dtype, name, width)                                                                \
    static const char *parse_##name(struct td_scalar_parser *parser, const char *p)                \
    {                                                                                              \
        return parse_list(parser, p, width, read_##name, HAS_GROUPS(TD_DTYPE_##dtype));            \
    }
#define TD_ANY_LOOP(dtype, name, width) TD_LOOP(dtype, any_##name, width)
#define TD_OIP_LOOP(dtype, name, width) TD_LOOP(dtype, oip_##name, width)
INFERRED_DTYPES(TD_LOOP)
TD_LOOP(FLOAT32, plain_float32, 4)
INTEGER_DTYPES(TD_ANY_LOOP)
BOOL_AND_REAL_DTYPES(TD_LOOP)
OTHER_DTYPES(TD_LOOP)
BOOL_AND_REAL_DTYPES(TD_OIP_LOOP)

#define TD_ENTRY(dtype, name, width)     [TD_DTYPE_##dtype] = parse_##name,
#define TD_ANY_ENTRY(dtype, name, width) [TD_DTYPE_##dtype] = parse_any_##name,
#define TD_OIP_ENTRY(dtype, name, width) [TD_DTYPE_##dtype] = parse_oip_##name,
static td_parse_scalars_fn *const parsers[][TD_DTYPE_COUNT] = {
    [TD_SCALARS_TYPED] = { INTEGER_DTYPES(TD_ANY_ENTRY) BOOL_AND_REAL_DTYPES(TD_ENTRY)
                               OTHER_DTYPES(TD_ENTRY) },
    [TD_SCALARS_INFERRED] = { INFERRED_DTYPES(TD_ENTRY)[TD_DTYPE_BOOL] = parse_bool,
                              [TD_DTYPE_FLOAT32] = parse_plain_float32,
                              [TD_DTYPE_STRING] = parse_string },
    /* The protocol does not have complex datatypes. */
    [TD_SCALARS_OIP] = { INTEGER_DTYPES(TD_ANY_ENTRY)
                             BOOL_AND_REAL_DTYPES(TD_OIP_ENTRY)[TD_DTYPE_STRING] = parse_string },
};

td_parse_scalars_fn *td_parse_scalars_of(td_dtype dtype, enum td_scalar_style style)
{
    return parsers[style][dtype];
}
