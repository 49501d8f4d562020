#include "api/json/print_scalars.h"

#include "api/json/float_text.h"

#include <string.h>

_Static_assert(TD_JSON_ELEMENTS_SLACK >= TD_FLOAT_SLACK, "floats are written as whole words");

/* ---- an element ---- */

static const char two_digits[] = "0001020304050607080910111213141516171819"
                                 "2021222324252627282930313233343536373839"
                                 "4041424344454647484950515253545556575859"
                                 "6061626364656667686970717273747576777879"
                                 "8081828384858687888990919293949596979899";

/* Returns the number of decimal digits of `value`. */
static inline unsigned count_digits(uint32_t value)
{
    static const uint32_t power[] = { 0,      10,      100,      1000,      10000,
                                      100000, 1000000, 10000000, 100000000, 1000000000 };
    unsigned guess = (32 - (unsigned)__builtin_clz(value | 1)) * 1233 >> 12; /* log10(2) */
    return guess + (value >= power[guess]);
}

/* Writes two digits at a time, backwards from the end. The number of digits determines where the
 * end is. */
static inline char *write_uint32(char *at, uint32_t value)
{
    char *end = at + count_digits(value), *to = end;
    while (value >= 100) {
        to -= 2;
        memcpy(to, two_digits + (size_t)(value % 100) * 2, 2);
        value /= 100;
    }
    if (value >= 10)
        memcpy(to - 2, two_digits + (size_t)value * 2, 2);
    else
        to[-1] = (char)('0' + value);
    return end;
}

static char *write_uint64(char *at, uint64_t value)
{
    if (value <= UINT32_MAX)
        return write_uint32(at, (uint32_t)value);
    at = write_uint64(at, value / 100000000);
    uint32_t rest = (uint32_t)(value % 100000000);
    for (int i = 6; i >= 0; i -= 2) {
        memcpy(at + i, two_digits + (size_t)(rest % 100) * 2, 2);
        rest /= 100;
    }
    return at + 8;
}

static inline char *write_int32(char *at, int32_t value)
{
    *at = '-';
    at += value < 0;
    return write_uint32(at, value < 0 ? 0 - (uint32_t)value : (uint32_t)value);
}

char *td_json_write_int64(char *at, int64_t value)
{
    *at = '-';
    at += value < 0;
    return write_uint64(at, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
}

static char *write_literal(char *at, const char *text)
{
    return mempcpy(at, text, strlen(text));
}

static inline char *write_bool_at(char *at, const char *from)
{
    return write_literal(at, *from ? "true" : "false");
}

#define TD_WRITE_INTEGER(name, type, write)                                                        \
    static inline char *write_##name##_at(char *at, const char *from)                              \
    {                                                                                              \
        type value;                                                                                \
        memcpy(&value, from, sizeof value);                                                        \
        return write(at, value);                                                                   \
    }
TD_WRITE_INTEGER(int8, int8_t, write_int32)
TD_WRITE_INTEGER(int16, int16_t, write_int32)
TD_WRITE_INTEGER(int32, int32_t, write_int32)
TD_WRITE_INTEGER(int64, int64_t, td_json_write_int64)
TD_WRITE_INTEGER(uint8, uint8_t, write_uint32)
TD_WRITE_INTEGER(uint16, uint16_t, write_uint32)
TD_WRITE_INTEGER(uint32, uint32_t, write_uint32)
TD_WRITE_INTEGER(uint64, uint64_t, write_uint64)
#undef TD_WRITE_INTEGER

/* ---- printers ---- */

/* Writes elements [begin, begin + n), each followed by a comma. */
typedef char *print_fn(char *at, const struct td_tensor *tensor, int64_t begin, int64_t n);

/* X(enum suffix, name, bytes in memory, maximum length of an element's text) */
#define INTEGERS(X)                                                                                \
    X(BOOL, bool, 1, 5)                                                                            \
    X(INT8, int8, 1, 4)                                                                            \
    X(INT16, int16, 2, 6)                                                                          \
    X(INT32, int32, 4, 11)                                                                         \
    X(INT64, int64, 8, 20)                                                                         \
    X(UINT8, uint8, 1, 3)                                                                          \
    X(UINT16, uint16, 2, 5)                                                                        \
    X(UINT32, uint32, 4, 10)                                                                       \
    X(UINT64, uint64, 8, 20)

#define TD_PRINT(dtype, name, width, max_bytes)                                                    \
    static char *print_##name(char *at, const struct td_tensor *tensor, int64_t begin, int64_t n)  \
    {                                                                                              \
        const char *from = (const char *)tensor->data + begin * (width);                           \
        for (int64_t i = 0; i < n; i++) {                                                          \
            at = write_##name##_at(at, from + i * (width));                                        \
            *at++ = ',';                                                                           \
        }                                                                                          \
        return at;                                                                                 \
    }
INTEGERS(TD_PRINT)
#undef TD_PRINT

/* Floats are printed by float_text.cc. */
#define FLOATS(X)                                                                                  \
    X(FLOAT16, float16, 2, TD_FLOAT16_TEXT)                                                        \
    X(BFLOAT16, bfloat16, 2, TD_FLOAT16_TEXT)                                                      \
    X(FLOAT32, float32, 4, TD_FLOAT32_TEXT)                                                        \
    X(FLOAT64, float64, 8, TD_FLOAT64_TEXT)

#define TD_PRINT(dtype, name, width, max_bytes)                                                    \
    static char *print_##name(char *at, const struct td_tensor *tensor, int64_t begin, int64_t n)  \
    {                                                                                              \
        return td_##name##_list(at, (const char *)tensor->data + begin * (width), n);              \
    }
FLOATS(TD_PRINT)
#undef TD_PRINT

/* Complex numbers are printed as lists of two floats. */
#define COMPLEXES(X)                                                                               \
    X(COMPLEX64, complex64, float32, 8, 2 * TD_FLOAT32_TEXT + 3)                                   \
    X(COMPLEX128, complex128, float64, 16, 2 * TD_FLOAT64_TEXT + 3)

#define TD_PRINT(dtype, name, part, width, max_bytes)                                              \
    static char *print_##name(char *at, const struct td_tensor *tensor, int64_t begin, int64_t n)  \
    {                                                                                              \
        const char *from = (const char *)tensor->data + begin * (width);                           \
        for (int64_t i = 0; i < n; i++) {                                                          \
            *at++ = '[';                                                                           \
            at = td_##part##_list(at, from + i * (width), 2);                                      \
            at[-1] = ']'; /* overwrites the comma */                                               \
            *at++ = ',';                                                                           \
        }                                                                                          \
        return at;                                                                                 \
    }
COMPLEXES(TD_PRINT)
#undef TD_PRINT

static print_fn *const printers[TD_DTYPE_COUNT] = {
#define TD_PRINT(dtype, name, ...) [TD_DTYPE_##dtype] = print_##name,
    INTEGERS(TD_PRINT) FLOATS(TD_PRINT) COMPLEXES(TD_PRINT)
#undef TD_PRINT
};

static const size_t max_bytes[TD_DTYPE_COUNT] = {
#define TD_PRINT(dtype, name, width, max_bytes)               [TD_DTYPE_##dtype] = (max_bytes),
#define TD_COMPLEX_PRINT(dtype, name, part, width, max_bytes) [TD_DTYPE_##dtype] = (max_bytes),
    INTEGERS(TD_PRINT) FLOATS(TD_PRINT) COMPLEXES(TD_COMPLEX_PRINT)
#undef TD_COMPLEX_PRINT
#undef TD_PRINT
        [TD_DTYPE_STRING] = 2, /* two quotes */
};

/* ---- elements ---- */

bool td_json_elements_bound(const struct td_tensor *tensor, size_t *bytes)
{
    return td_size_mul((size_t)tensor->numel, max_bytes[tensor->dtype] + 1, bytes) &&
           (tensor->dtype != TD_DTYPE_STRING || td_size_add(*bytes, tensor->bytes, bytes));
}

char *td_json_write_elements(char *at, const struct td_tensor *tensor, int64_t begin, int64_t n)
{
    return printers[tensor->dtype](at, tensor, begin, n);
}

/* Number of elements per block, which stays in the L1 cache. td_json_write_oip_elements prints a
 * block and then removes quotes from it. */
#define BLOCK 1024

char *td_json_write_oip_elements(char *at, const struct td_tensor *tensor, int64_t begin, int64_t n)
{
    print_fn *print = printers[tensor->dtype];
    for (int64_t done = 0; done < n; done += BLOCK) {
        const int64_t block = n - done < BLOCK ? n - done : BLOCK;
        const char *end = print(at, tensor, begin + done, block), *from = at;
        /* In the text of numbers, only NaN and infinities have quotes. */
        for (const char *quote; (quote = memchr(from, '"', (size_t)(end - from))); from = quote + 1)
            at = memmove(at, from, (size_t)(quote - from)) + (quote - from);
        at = (char *)memmove(at, from, (size_t)(end - from)) + (end - from);
    }
    return at;
}
