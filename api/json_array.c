#include "api/json_array.h"

#include "api/float_text.h"
#include "api/half.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define ALWAYS_INLINE inline __attribute__((always_inline))
#define LIKELY(x)     __builtin_expect(!!(x), 1)
#define UNLIKELY(x)   __builtin_expect(!!(x), 0)

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "digits are gathered little end first");

/* ---- digits ---- */

static const uint64_t power_of_ten[] = { 1,      10,      100,      1000,     10000,
                                         100000, 1000000, 10000000, 100000000 };

/* Value of the digits at p, up to eight, and how many they are. */
static ALWAYS_INLINE unsigned eight_digits(const char *p, uint64_t *value)
{
    uint64_t x;
    memcpy(&x, p, sizeof x);
    x ^= UINT64_C(0x3030303030303030); /* digits become 0 to 9, everything else more */
    uint64_t others = ((x + UINT64_C(0x7676767676767676)) | x) & UINT64_C(0x8080808080808080);
    unsigned n = others ? (unsigned)__builtin_ctzll(others) >> 3 : 8;
    /* Zeros in front of the n digits; in two steps, for n may be 0. */
    x = x << 4 * (8 - n) << 4 * (8 - n);
    /* Pairs, then pairs of pairs, then all: each step joins neighbours. */
    x = x * 10 + (x >> 8);
    x = ((x & UINT64_C(0x000000ff000000ff)) * UINT64_C(0x000f424000000064) +
         (x >> 16 & UINT64_C(0x000000ff000000ff)) * UINT64_C(0x0000271000000001)) >>
        32;
    *value = x;
    return n;
}

/* ---- leaves: the innermost lists, one loop per dtype ---- */

enum fault {
    FAULT_NONE,
    FAULT_VALUE,   /* not a value of the dtype, or not JSON */
    FAULT_RANGE,   /* a number that does not fit */
    FAULT_REPORTED /* the error is set */
};

/* Where elements come from and go to. */
struct leaves {
    const char *end;    /* of the text */
    char *next, *limit; /* next element to write, and the end of the room for them */
    enum fault fault;
    /* Strings: next is the end offset of the next string. */
    char *bytes, *bytes_next;
    struct td_json_scan *scan;
    struct td_error *err;
};

/* Reads the element at p to `to`. Returns where it ends, or NULL with fault set. */
typedef const char *read_fn(const char *p, struct leaves *leaves, char *to);

/* Reads the elements of one list, from the one at p on, to the end of the list or of the room,
 * which has place for one at least. Returns the place behind the last, white space skipped; with
 * fault set, the place of the element at fault. */
typedef const char *run_fn(struct leaves *leaves, const char *p);

static ALWAYS_INLINE const char *run(struct leaves *leaves, const char *p, size_t width,
                                     read_fn *read)
{
    const char *end = leaves->end;
    char *next = leaves->next;
    leaves->fault = FAULT_NONE;
    for (;;) {
        const char *behind = NULL;
        if (LIKELY(p < end))
            behind = read(p, leaves, next);
        else
            leaves->fault = FAULT_VALUE;
        if (UNLIKELY(!behind))
            break;
        p = behind;
        next += width;
        if (*p != ',') {
            p = td_json_skip_space(p, end);
            if (p >= end || *p != ',')
                break;
        }
        if (UNLIKELY(next == leaves->limit))
            break;
        p++;
        if (td_json_is_space(*p))
            p = td_json_skip_space(p, end);
    }
    leaves->next = next;
    return p;
}

static const char *fail(struct leaves *leaves, enum fault fault)
{
    leaves->fault = fault;
    return NULL;
}

/* most: the largest magnitude of a positive value; least: of a negative one. */
static ALWAYS_INLINE const char *read_integer(const char *p, struct leaves *leaves, char *to,
                                              size_t width, uint64_t most, uint64_t least)
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
            for (; p < leaves->end && *p >= '0' && *p <= '9'; p++)
                if (__builtin_mul_overflow(value, (uint64_t)10, &value) ||
                    __builtin_add_overflow(value, (uint64_t)(*p - '0'), &value))
                    return fail(leaves, FAULT_RANGE);
        }
    }
    bool leading_zero = n > 1 && *first == '0';
    if (UNLIKELY(n == 0 || leading_zero || *p == '.' || (*p | 0x20) == 'e'))
        return fail(leaves, FAULT_VALUE);
    if (UNLIKELY(value > (negative ? least : most)))
        return fail(leaves, FAULT_RANGE);
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
    static ALWAYS_INLINE const char *read_##name(const char *p, struct leaves *leaves, char *to)   \
    {                                                                                              \
        return read_integer(p, leaves, to, width, most, least);                                    \
    }
INTEGERS(TD_READ_INTEGER)
#undef TD_READ_INTEGER

/* A number token: digits * 10^exponent, where n_digits (leading zeros included) says whether digits
 * could hold them. */
struct number {
    uint64_t digits;
    int exponent;
    unsigned n_digits;
    bool negative;
};

#define DIGITS_MAX                                                                                 \
    18 /* what an int64_t surely holds: its conversion to double is one instruction */

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

/* More digits than the two blocks of a part hold: only the grammar is checked. */
static __attribute__((noinline)) const char *scan_long(const char *token, const char *end,
                                                       struct number *number)
{
    bool is_integer;
    number->n_digits = DIGITS_MAX + 1;
    return td_json_number_end(token, end, &is_integer);
}

/* Returns the end of the token, NULL when there is none. Reads up to 34 bytes behind p. */
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
    number->n_digits = n;
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
            n = eight_digits(p, &more);
            if (n == 8)
                return scan_long(token, end, number);
            value = value * power_of_ten[n] + more;
            p += n;
            number->n_digits += n;
            number->exponent -= (int)n;
        }
    }
    number->digits = value;
    if (UNLIKELY((*p | 0x20) == 'e'))
        return scan_exponent(p, end, number);
    return p;
}

enum real { FLOAT16, BFLOAT16, FLOAT32, FLOAT64 };

static const size_t real_size[] = { 2, 2, 4, 8 };

/* The powers of ten that double holds exactly. */
static const double exact_power[] = { 1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                      1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                      1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22 };

/* digits * 10^exponent was computed with at most two roundings; this many last places are more than
 * they can be wrong by. */
#define SLACK UINT64_C(4)

/* Rounds number to `real` where double arithmetic proves the result; false where it cannot tell. */
static ALWAYS_INLINE bool settle(const struct number *number, enum real real, char *to)
{
    if (UNLIKELY(number->n_digits > DIGITS_MAX || number->exponent < -22 || number->exponent > 22))
        return false;
    /* Both operands exact: the quotient or product is the number rounded once. */
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
        /* The second rounding drops 29 bits. It can only go astray where they are near one half. */
        uint64_t dropped = bits & ((UINT64_C(1) << 29) - 1);
        if (UNLIKELY(dropped - (UINT64_C(1) << 28) + SLACK <= 2 * SLACK))
            return false;
        /* Never subnormal: what gets here is zero or at least 10^-22. */
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

/* The same by exact decimal arithmetic. False when the number is too large for `real`. */
static __attribute__((noinline)) bool settle_exactly(const char *token, const char *end,
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

/* What JSON has no numbers for, as strings. */
static __attribute__((noinline)) const char *read_named(const char *p, struct leaves *leaves,
                                                        enum real real, char *to)
{
    static const struct {
        const char *text;
        uint64_t bits[4]; /* as enum real */
    } names[] = {
        { "\"NaN\"", { 0x7e00, 0x7fc0, 0x7fc00000, UINT64_C(0x7ff8000000000000) } },
        { "\"Infinity\"", { 0x7c00, 0x7f80, 0x7f800000, UINT64_C(0x7ff0000000000000) } },
        { "\"-Infinity\"", { 0xfc00, 0xff80, 0xff800000, UINT64_C(0xfff0000000000000) } },
    };
    size_t left = (size_t)(leaves->end - p);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t length = strlen(names[i].text);
        if (left >= length && memcmp(p, names[i].text, length) == 0) {
            memcpy(to, &names[i].bits[real], real_size[real]);
            return p + length;
        }
    }
    return fail(leaves, FAULT_VALUE);
}

static ALWAYS_INLINE const char *read_number(const char *p, struct leaves *leaves, char *to,
                                             enum real real)
{
    struct number number;
    const char *behind = scan_number(p, leaves->end, &number);
    if (UNLIKELY(!behind))
        return fail(leaves, FAULT_VALUE);
    if (UNLIKELY(!settle(&number, real, to) && !settle_exactly(p, behind, real, to)))
        return fail(leaves, FAULT_RANGE);
    return behind;
}

static ALWAYS_INLINE const char *read_real(const char *p, struct leaves *leaves, char *to,
                                           enum real real)
{
    if (UNLIKELY(*p == '"'))
        return read_named(p, leaves, real, to);
    return read_number(p, leaves, to, real);
}

/* [re, im] */
static ALWAYS_INLINE const char *read_pair(const char *p, struct leaves *leaves, char *to,
                                           enum real real)
{
    const char *end = leaves->end;
    static const char punctuation[] = { '[', ',', ']' };
    for (int i = 0; i < 3; i++) {
        p = td_json_skip_space(p, end);
        if (p >= end || *p != punctuation[i])
            return fail(leaves, FAULT_VALUE);
        p++;
        if (i == 2)
            break;
        p = td_json_skip_space(p, end);
        if (p >= end)
            return fail(leaves, FAULT_VALUE);
        p = read_real(p, leaves, to + (size_t)i * real_size[real], real);
        if (!p)
            return NULL;
    }
    return p;
}

static ALWAYS_INLINE const char *read_float16(const char *p, struct leaves *leaves, char *to)
{
    return read_real(p, leaves, to, FLOAT16);
}
static ALWAYS_INLINE const char *read_bfloat16(const char *p, struct leaves *leaves, char *to)
{
    return read_real(p, leaves, to, BFLOAT16);
}
static ALWAYS_INLINE const char *read_float32(const char *p, struct leaves *leaves, char *to)
{
    return read_real(p, leaves, to, FLOAT32);
}
static ALWAYS_INLINE const char *read_float64(const char *p, struct leaves *leaves, char *to)
{
    return read_real(p, leaves, to, FLOAT64);
}
static ALWAYS_INLINE const char *read_complex64(const char *p, struct leaves *leaves, char *to)
{
    return read_pair(p, leaves, to, FLOAT32);
}
static ALWAYS_INLINE const char *read_complex128(const char *p, struct leaves *leaves, char *to)
{
    return read_pair(p, leaves, to, FLOAT64);
}
/* Without a dtype a string is a string, "NaN" too. */
static ALWAYS_INLINE const char *read_plain_float32(const char *p, struct leaves *leaves, char *to)
{
    return read_number(p, leaves, to, FLOAT32);
}

static ALWAYS_INLINE const char *read_bool(const char *p, struct leaves *leaves, char *to)
{
    size_t left = (size_t)(leaves->end - p);
    if (left >= 4 && memcmp(p, "true", 4) == 0) {
        *to = 1;
        return p + 4;
    }
    if (left >= 5 && memcmp(p, "false", 5) == 0) {
        *to = 0;
        return p + 5;
    }
    return fail(leaves, FAULT_VALUE);
}

static const char *read_string(const char *p, struct leaves *leaves, char *to)
{
    if (*p != '"')
        return fail(leaves, FAULT_VALUE);
    leaves->scan->at = p;
    struct td_json_raw raw;
    if (td_json_raw_string(leaves->scan, &raw, leaves->err) != TD_OK)
        return fail(leaves, FAULT_REPORTED);
    if (raw.escaped) {
        char *end = td_json_unescape(leaves->scan, &raw, leaves->bytes_next, leaves->err);
        if (!end)
            return fail(leaves, FAULT_REPORTED);
        leaves->bytes_next = end;
    } else {
        memcpy(leaves->bytes_next, raw.text, raw.length);
        leaves->bytes_next += raw.length;
    }
    uint64_t offset = (uint64_t)(leaves->bytes_next - leaves->bytes);
    memcpy(to, &offset, sizeof offset);
    return leaves->scan->at;
}

#define RUNS(X)                                                                                    \
    X(BOOL, bool, 1)                                                                               \
    X(INT8, int8, 1)                                                                               \
    X(INT16, int16, 2)                                                                             \
    X(INT32, int32, 4)                                                                             \
    X(INT64, int64, 8)                                                                             \
    X(UINT8, uint8, 1)                                                                             \
    X(UINT16, uint16, 2)                                                                           \
    X(UINT32, uint32, 4)                                                                           \
    X(UINT64, uint64, 8)                                                                           \
    X(FLOAT16, float16, 2)                                                                         \
    X(BFLOAT16, bfloat16, 2)                                                                       \
    X(FLOAT32, float32, 4)                                                                         \
    X(FLOAT64, float64, 8)                                                                         \
    X(COMPLEX64, complex64, 8)                                                                     \
    X(COMPLEX128, complex128, 16)                                                                  \
    X(STRING, string, 8)

#define TD_RUN(dtype, name, width)                                                                 \
    static const char *run_##name(struct leaves *leaves, const char *p)                            \
    {                                                                                              \
        return run(leaves, p, width, read_##name);                                                 \
    }
RUNS(TD_RUN)
TD_RUN(FLOAT32, plain_float32, 4)
#undef TD_RUN

static run_fn *const runs[TD_DTYPE_COUNT] = {
#define TD_RUN(dtype, name, width) [TD_DTYPE_##dtype] = run_##name,
    RUNS(TD_RUN)
#undef TD_RUN
};

/* ---- lists: the nesting around the leaves ---- */

struct array {
    struct td_json_scan *scan;
    const struct td_json_path *path;
    struct td_arena *arena;
    struct td_error *err;

    td_dtype dtype;
    bool inferred;     /* from the elements, and wider ones may change it */
    bool started;      /* dtype and room are settled */
    int64_t room;      /* elements that there is room for */
    size_t width;      /* of what leaves.next points to: an element, or a string's offset */
    char *data;        /* elements, or offsets */
    size_t text_bytes; /* of the whole value: no string unescapes to more */
    run_fn *run;
    struct leaves leaves;

    /* An integer that fits neither int64 nor uint64, until a float makes it one among floats. */
    const char *misfit;
    int64_t misfit_element;

    int rank;                   /* -1 until the first leaf or empty list */
    int64_t dim[TD_MAX_RANK];   /* -1 until the first list of its level ends */
    int64_t count[TD_MAX_RANK]; /* elements so far of the open list of each level */
};

static bool is_complex(td_dtype dtype)
{
    return dtype == TD_DTYPE_COMPLEX64 || dtype == TD_DTYPE_COMPLEX128;
}

/* Elements read so far. */
static int64_t elements(const struct array *array)
{
    int64_t written = (array->leaves.next - array->data) / (int64_t)array->width;
    return written - (array->dtype == TD_DTYPE_STRING);
}

/* Refuses the value reached by the first n_steps of `index`, behind array->path. */
static td_status refuse_at(const struct array *array, const int64_t *index, int n_steps,
                           const char *message)
{
    struct td_json_path steps[TD_MAX_RANK];
    const struct td_json_path *up = array->path;
    for (int i = 0; i < n_steps; i++) {
        steps[i] = (struct td_json_path){ .up = up, .index = index[i] };
        up = &steps[i];
    }
    return td_json_refuse(up, array->err, "%s", message);
}

/* A piece of the text for a message: the number token at p, cut off where it is long. */
static const char *token_text(const char *p, const char *end, char *text, size_t size)
{
    bool is_integer;
    const char *stop = td_json_number_end(p, end, &is_integer);
    size_t length = stop ? (size_t)(stop - p) : 0;
    if (length < size)
        snprintf(text, size, "%.*s", (int)length, p);
    else
        snprintf(text, size, "%.*s...", (int)(size - 4), p);
    return text;
}

/* Is the value at p JSON at all, as far as its own token or brackets tell? */
static td_status check_syntax(const struct array *array, const char *p)
{
    struct td_json_scan scan = *array->scan;
    struct td_json_raw raw;
    size_t commas;
    scan.at = p;
    switch (p < scan.end ? *p : '\0') {
    case '"':
        return td_json_raw_string(&scan, &raw, array->err);
    case 't':
    case 'f':
    case 'n':
        return td_json_literal(&scan, array->err) ? TD_OK : TD_MALFORMED_REQUEST;
    case '[':
    case '{':
        if (td_json_measure(p, scan.end, &commas))
            return TD_OK;
        return td_json_syntax(&scan, scan.end, array->err, "expected the end of %s",
                              td_json_kind(*p));
    default: {
        bool is_integer;
        if (p >= scan.end || !td_json_kind(*p))
            return td_json_syntax(&scan, p, array->err, "expected a value");
        const char *end = td_json_number_end(p, scan.end, &is_integer);
        if (!end)
            return td_json_syntax(&scan, p, array->err, "expected a JSON number");
        if (end == scan.end)
            return td_json_syntax(&scan, end, array->err, "expected ',' or ']'");
        return TD_OK;
    }
    }
}

/* The element at p, at `level`, is not one: says why. */
static td_status refuse_leaf(const struct array *array, const char *p, int level)
{
    td_status status =
        array->leaves.fault == FAULT_REPORTED ? TD_MALFORMED_REQUEST : check_syntax(array, p);
    if (status != TD_OK)
        return status;

    const char *kind = td_json_kind(*p), *dtype = td_dtype_info(array->dtype)->name;
    char message[256], token[48];
    if (strcmp(kind, "a number") == 0)
        kind = token_text(p, array->leaves.end, token, sizeof token);
    if (is_complex(array->dtype))
        snprintf(message, sizeof message, "%s is not a %s: expected [re, im], two numbers that fit",
                 kind, dtype);
    else if (array->leaves.fault == FAULT_RANGE)
        snprintf(message, sizeof message, "%s does not fit %s", kind, dtype);
    else if (array->inferred && elements(array) == 0 && *p != '[')
        snprintf(message, sizeof message,
                 "%s is no element of a tensor: expected a number, a string, true or false", kind);
    else if (*p == '[')
        snprintf(message, sizeof message,
                 "a list stands where the elements before it are single values");
    else if (array->inferred)
        snprintf(message, sizeof message, "%s stands among elements that are %s", kind,
                 array->dtype == TD_DTYPE_BOOL     ? "true or false"
                 : array->dtype == TD_DTYPE_STRING ? "strings"
                                                   : "numbers");
    else
        snprintf(message, sizeof message, "%s is not %s %s%s", kind, dtype[0] == 'i' ? "an" : "a",
                 dtype, array->dtype == TD_DTYPE_BOOL ? ": expected true or false" : "");
    return refuse_at(array, array->count, level, message);
}

/* Makes room for the elements and picks their loop. */
static td_status start(struct array *array)
{
    bool strings = array->dtype == TD_DTYPE_STRING;
    size_t count = (size_t)array->room + strings; /* offsets are one more */
    array->width = strings ? sizeof(uint64_t) : td_dtype_info(array->dtype)->size;
    array->data = td_arena_alloc(array->arena, count, array->width, array->err);
    if (!array->data)
        return array->err->status;
    array->leaves.next = array->data;
    if (strings) {
        array->leaves.bytes = td_arena_alloc(array->arena, array->text_bytes, 1, array->err);
        if (!array->leaves.bytes)
            return array->err->status;
        array->leaves.bytes_next = array->leaves.bytes;
        memset(array->data, 0, array->width); /* offsets[0] */
        array->leaves.next += array->width;
    }
    array->leaves.limit = array->data + count * array->width;
    array->run = runs[array->dtype];
    array->started = true;
    return TD_OK;
}

/* Integers so far become float32, in place: it is never wider than they are. */
static void integers_to_float32(struct array *array)
{
    int64_t n = elements(array);
    for (int64_t i = 0; i < n; i++) {
        const char *from = array->data + (size_t)i * array->width;
        float value = 0;
        if (array->dtype == TD_DTYPE_INT32) {
            int32_t integer;
            memcpy(&integer, from, sizeof integer);
            value = (float)integer;
        } else if (array->dtype == TD_DTYPE_INT64) {
            int64_t integer;
            memcpy(&integer, from, sizeof integer);
            value = (float)integer;
        } else {
            uint64_t integer;
            memcpy(&integer, from, sizeof integer);
            value = (float)integer;
        }
        memcpy(array->data + (size_t)i * sizeof value, &value, sizeof value);
    }
    array->dtype = TD_DTYPE_FLOAT32;
    array->width = sizeof(float);
    array->run = run_plain_float32;
    array->leaves.next = array->data + (size_t)n * array->width;
    array->leaves.limit = array->data + (size_t)array->room * array->width;
}

static td_status int32_to_int64(struct array *array)
{
    const char *narrow = array->data;
    int64_t n = elements(array);
    array->dtype = TD_DTYPE_INT64;
    td_status status = start(array);
    if (status != TD_OK)
        return status;
    for (int64_t i = 0; i < n; i++) {
        int32_t value;
        memcpy(&value, narrow + (size_t)i * sizeof value, sizeof value);
        int64_t wide = value;
        memcpy(array->leaves.next, &wide, sizeof wide);
        array->leaves.next += sizeof wide;
    }
    return TD_OK;
}

static bool any_negative(const struct array *array)
{
    int64_t lowest = 0;
    for (const char *at = array->data; at < array->leaves.next; at += sizeof lowest) {
        int64_t value;
        memcpy(&value, at, sizeof value);
        lowest = value < lowest ? value : lowest;
    }
    return lowest < 0;
}

/* Widens an inferred integer dtype for the number at p. *widened is false when it is no number, or
 * needs no wider one. */
static td_status widen(struct array *array, const char *p, bool *widened)
{
    *widened = false;
    bool is_integer;
    const char *stop = td_json_number_end(p, array->leaves.end, &is_integer);
    bool integers = array->dtype == TD_DTYPE_INT32 || array->dtype == TD_DTYPE_INT64 ||
                    array->dtype == TD_DTYPE_UINT64;
    if (!array->inferred || !integers || !stop)
        return TD_OK;
    *widened = true;
    if (is_integer && array->dtype == TD_DTYPE_INT32)
        return int32_to_int64(array);
    if (is_integer && array->dtype == TD_DTYPE_INT64 && *p != '-' && !any_negative(array)) {
        array->dtype = TD_DTYPE_UINT64;
        array->run = runs[TD_DTYPE_UINT64];
        return TD_OK;
    }
    if (is_integer) {
        array->misfit = p;
        array->misfit_element = elements(array);
    }
    integers_to_float32(array);
    return TD_OK;
}

/* dtype of a value from its first element. */
static td_status infer_dtype(struct array *array, const char *p)
{
    switch (p < array->leaves.end ? *p : '\0') {
    case 't':
    case 'f':
        array->dtype = TD_DTYPE_BOOL;
        break;
    case '"':
        array->dtype = TD_DTYPE_STRING;
        break;
    default:
        array->dtype = TD_DTYPE_INT32;
        break;
    }
    return start(array);
}

/* Is the '[' at p an element [re, im], not a list of elements? */
static bool is_pair(const char *p, const char *end)
{
    p = td_json_skip_space(p + 1, end);
    return p < end && *p != '[' && *p != ']';
}

/* Only a shape limits the room: what the text itself has fits. */
static td_status refuse_surplus(const struct array *array)
{
    char message[96];
    snprintf(message, sizeof message, "there are more elements than the shape's %" PRId64,
             array->room);
    return refuse_at(array, array->count, 0, message);
}

/* Reads elements from p, at `level`, to the end of their list. */
static td_status read_leaves(struct array *array, const char **p, int level)
{
    td_status status = TD_OK;
    if (!array->started && (status = infer_dtype(array, *p)) != TD_OK)
        return status;
    int64_t before = elements(array);
    if (level == 0) /* one element, and what follows the comma behind it is not ours */
        array->leaves.limit = array->leaves.next + array->width;
    for (;;) {
        if (array->leaves.next == array->leaves.limit)
            return refuse_surplus(array);
        *p = array->run(&array->leaves, *p);
        if (level > 0)
            array->count[level - 1] = elements(array) - before;
        if (array->leaves.fault == FAULT_NONE && level > 0 && *p < array->leaves.end && **p == ',')
            return refuse_surplus(array);
        if (array->leaves.fault == FAULT_NONE)
            return TD_OK;
        bool widened = false;
        if (array->leaves.fault != FAULT_REPORTED)
            status = widen(array, *p, &widened);
        if (status != TD_OK)
            return status;
        if (!widened)
            return refuse_leaf(array, *p, level);
    }
}

/* The list at `level` ends: its length is that of the others there. */
static td_status close_list(struct array *array, int level)
{
    int64_t *dim = &array->dim[level - 1], count = array->count[level - 1];
    if (*dim < 0)
        *dim = count;
    if (*dim == count)
        return TD_OK;
    char message[160];
    snprintf(message, sizeof message,
             "a list of %" PRId64 " stands beside lists of %" PRId64
             ": lists of one level have one length",
             count, *dim);
    return refuse_at(array, array->count, level - 1, message);
}

/* Reads a value: lists in lists around leaves. No recursion, so depth costs nothing. */
static td_status read_value(struct array *array)
{
    const char *end = array->scan->end;
    const char *p = td_json_skip_space(array->scan->at, end);
    int level = 0; /* open lists */
    td_status status;
    array->rank = -1;
    for (int i = 0; i < TD_MAX_RANK; i++)
        array->dim[i] = -1;

    for (;;) {
        /* A value begins at p. */
        bool list = p < end && *p == '[' && level != array->rank;
        if (list && array->rank < 0 && array->started && is_complex(array->dtype))
            list = !is_pair(p, end);
        if (list) {
            if (level == TD_MAX_RANK) {
                td_error_resource(array->err, "rank", TD_MAX_RANK + 1, TD_MAX_RANK,
                                  "a tensor given as nested lists");
                td_json_point(array->path, array->err);
                return TD_RESOURCE_LIMIT;
            }
            array->count[level++] = 0;
            p = td_json_skip_space(p + 1, end);
            if (p >= end || *p != ']')
                continue;
            if (array->rank < 0)
                array->rank = level;
        } else {
            if (array->rank < 0)
                array->rank = level;
            if (level != array->rank) {
                const char *kind = p < end ? td_json_kind(*p) : NULL;
                if (!kind)
                    return td_json_syntax(array->scan, p, array->err, "expected a value");
                char message[96];
                snprintf(message, sizeof message, "%s stands where the values before it are lists",
                         kind);
                return refuse_at(array, array->count, level, message);
            }
            status = read_leaves(array, &p, level);
            if (status != TD_OK)
                return status;
            if (level == 0)
                break;
        }
        /* Behind a value: the next one, or the ends of lists. */
        bool more = false;
        while (level > 0 && !more) {
            p = td_json_skip_space(p, end);
            if (p >= end || (*p != ',' && *p != ']'))
                return td_json_syntax(array->scan, p, array->err, "expected ',' or ']'");
            if (*p == ',') {
                more = true;
            } else {
                status = close_list(array, level);
                if (status != TD_OK)
                    return status;
                level--;
                if (level > 0)
                    array->count[level - 1]++;
            }
            p++;
        }
        if (!more)
            break;
        p = td_json_skip_space(p, end);
    }
    array->scan->at = p;
    return TD_OK;
}

/* Puts what was read into a tensor of the given shape. */
static td_status finish(struct array *array, const struct td_shape *shape, struct td_tensor *out)
{
    memset(out, 0, sizeof *out);
    td_status status = td_tensor_describe(out, "data", array->dtype, shape, array->err);
    if (status != TD_OK)
        return status;
    out->data = array->data;
    if (array->dtype == TD_DTYPE_STRING) {
        out->offsets = (uint64_t *)(void *)array->data;
        out->data = array->leaves.bytes;
        out->bytes = (size_t)(array->leaves.bytes_next - array->leaves.bytes);
    }
    return TD_OK;
}

static void shape_of(const struct array *array, struct td_shape *shape)
{
    shape->rank = array->rank;
    for (int i = 0; i < array->rank; i++)
        shape->dim[i] = array->dim[i];
}

/* Measures the value: room for its elements, told from its commas. */
static td_status measure(struct array *array)
{
    size_t commas;
    const char *at = array->scan->at;
    const char *stop = td_json_measure(at, array->scan->end, &commas);
    if (!stop)
        return td_json_syntax(array->scan, array->scan->end, array->err,
                              "expected the end of a value");
    array->text_bytes = (size_t)(stop - at);
    array->room = (int64_t)(is_complex(array->dtype) ? commas / 2 : commas) + 1;
    return TD_OK;
}

td_status td_json_read_untyped(struct td_json_scan *scan, td_dtype empty_dtype,
                               const struct td_json_path *path, struct td_arena *arena,
                               struct td_tensor *out, struct td_error *err)
{
    struct array array = {
        .scan = scan,
        .path = path,
        .arena = arena,
        .err = err,
        .inferred = true,
        .leaves = { .end = scan->end, .scan = scan, .err = err },
    };
    td_json_peek(scan);
    const char *begin = scan->at;
    td_status status = measure(&array);
    if (status == TD_OK)
        status = read_value(&array);
    if (status == TD_OK && !array.started) {
        array.dtype = empty_dtype;
        status = start(&array);
    }
    if (status != TD_OK)
        return status;

    struct td_shape shape;
    shape_of(&array, &shape);
    if (array.misfit) {
        bool fraction = false;
        for (const char *p = begin; p < scan->at && !fraction; p++)
            fraction = *p == '.' || *p == 'e' || *p == 'E';
        if (!fraction) {
            int64_t position[TD_MAX_RANK];
            char message[128], token[48];
            td_shape_unravel(&shape, array.misfit_element, position);
            snprintf(message, sizeof message, "%s fits neither int64 nor uint64 beside the others",
                     token_text(array.misfit, scan->end, token, sizeof token));
            return refuse_at(&array, position, shape.rank, message);
        }
    }
    return finish(&array, &shape, out);
}

/* May data nested as `nested` be that of a tensor of shape `given`? */
static bool shape_fits(const struct td_shape *nested, const struct td_shape *given, int64_t numel)
{
    if (td_shape_equal(nested, given))
        return true;
    if (nested->rank == 1 && nested->dim[0] == numel)
        return true; /* flat */
    /* Behind a dimension of zero there is nothing to nest. */
    if (numel != 0 || nested->rank == 0 || nested->rank > given->rank ||
        nested->dim[nested->rank - 1] != 0)
        return false;
    struct td_shape prefix = *given;
    prefix.rank = nested->rank;
    return td_shape_equal(nested, &prefix);
}

td_status td_json_read_typed(struct td_json_scan *scan, td_dtype dtype,
                             const struct td_shape *shape, const struct td_json_path *path,
                             struct td_arena *arena, struct td_tensor *out, struct td_error *err)
{
    struct array array = {
        .scan = scan,
        .path = path,
        .arena = arena,
        .err = err,
        .dtype = dtype,
        .leaves = { .end = scan->end, .scan = scan, .err = err },
    };
    td_json_peek(scan);
    td_status status = TD_OK;
    int64_t numel = 0;
    if (!shape || dtype == TD_DTYPE_STRING) {
        status = measure(&array);
        if (status != TD_OK)
            return status;
    }
    if (shape) {
        if (!td_shape_numel(shape, &numel))
            return td_tensor_describe(out, "data", dtype, shape, err);
        /* Whatever the shape claims, an element takes a byte and a comma. */
        int64_t most = (scan->end - scan->at) / 2 + 1;
        array.room = numel < most ? numel : most;
        array.room = array.room > 0 ? array.room : 1;
    }
    status = start(&array);
    if (status == TD_OK)
        status = read_value(&array);
    if (status != TD_OK)
        return status;

    struct td_shape nested;
    shape_of(&array, &nested);
    if (shape && !shape_fits(&nested, shape, numel)) {
        char nested_text[TD_SHAPE_TEXT], shape_text[TD_SHAPE_TEXT];
        return td_json_refuse(path, err, "data is of shape %s, but shape says %s",
                              td_shape_text(&nested, nested_text, sizeof nested_text),
                              td_shape_text(shape, shape_text, sizeof shape_text));
    }
    return finish(&array, shape ? shape : &nested, out);
}
