#include "tests/support/tensors.h"

#include <ctype.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct td_arena test_arena;

void test_arena_open(void)
{
    td_arena_init(&test_arena, NULL, 0, td_memory_heap());
}

void test_arena_close(void)
{
    td_arena_reset(&test_arena);
}

static struct td_buffer *take_nothing(struct td_memory *self, size_t bytes, struct td_error *err)
{
    (void)self;
    (void)bytes;
    td_error_set(err, TD_MEMORY_EXHAUSTED, "none");
    return NULL;
}

struct td_memory no_memory = { .take = take_nothing };

static struct td_shape parse_shape(const char **text)
{
    const char *at = *text;
    struct td_shape result = { .rank = 0 };
    ck_assert_msg(*at == '[', "no shape at \"%s\"", *text);
    at++;
    while (*at != ']') {
        char *end;
        ck_assert_msg(result.rank < TD_MAX_RANK, "too many dimensions: \"%s\"", *text);
        result.dim[result.rank++] = strtoll(at, &end, 10);
        ck_assert_msg(end > at && (*end == ',' || *end == ']'), "no shape at \"%s\"", *text);
        at = *end == ',' ? end + 1 : end;
    }
    *text = at + 1;
    return result;
}

struct td_shape shape(const char *text)
{
    return parse_shape(&text);
}

static struct td_tensor parse_head(const char **text)
{
    td_dtype dtype;
    size_t length = strcspn(*text, "[");
    ck_assert_msg(td_dtype_from_name(*text, length, &dtype), "no dtype at \"%s\"", *text);
    *text += length;
    struct td_shape dims = parse_shape(text);
    struct td_tensor result;
    struct td_error err;
    ck_assert_msg(td_tensor_describe(&result, "literal", dtype, &dims, &err) == TD_OK, "%s",
                  err.message);
    return result;
}

struct td_tensor tensor_without_data(const char *text)
{
    return parse_head(&text);
}

/* One number of the tensor's dtype; complex elements are two of them. */
static void put_number(struct td_tensor *to, int64_t i, const char *text, char **end)
{
    char *data = to->data;
    long long integer = strtoll(text, end, 0);
    switch (to->dtype) {
    case TD_DTYPE_FLOAT32:
    case TD_DTYPE_COMPLEX64: {
        float value = strtof(text, end);
        memcpy(data + (size_t)i * sizeof(value), &value, sizeof(value));
        return;
    }
    case TD_DTYPE_FLOAT64:
    case TD_DTYPE_COMPLEX128: {
        double value = strtod(text, end);
        memcpy(data + (size_t)i * sizeof(value), &value, sizeof(value));
        return;
    }
    case TD_DTYPE_UINT64:
        integer = (long long)strtoull(text, end, 0);
        break;
    default:
        break;
    }
    size_t size = td_dtype_info(to->dtype)->size; /* little-endian: the low bytes come first */
    memcpy(data + (size_t)i * size, &integer, size);
}

static void parse_numbers(struct td_tensor *to, const char *at)
{
    bool complex = to->dtype == TD_DTYPE_COMPLEX64 || to->dtype == TD_DTYPE_COMPLEX128;
    int64_t n = complex ? to->numel * 2 : to->numel, i = 0;
    for (at += strspn(at, " "); *at; at += strspn(at, " ")) {
        const char *dots = memmem(at, strcspn(at, " "), "..", 2);
        char *end;
        if (dots) {
            long long last = strtoll(dots + 2, &end, 10);
            for (long long value = strtoll(at, NULL, 10); value <= last; value++) {
                char digits[32];
                char *ignored;
                snprintf(digits, sizeof(digits), "%lld", value);
                EXPECT(i < n, "too many elements at \"%s\"", at);
                put_number(to, i++, digits, &ignored);
            }
        } else {
            EXPECT(i < n, "too many elements at \"%s\"", at);
            put_number(to, i++, at, &end);
        }
        ck_assert_msg(end > at && (*end == ' ' || *end == '\0'), "no number at \"%s\"", at);
        at = end;
    }
    ck_assert_msg(i == n, "%" PRId64 " numbers where %" PRId64 " are needed", i, n);
}

static void parse_strings(struct td_tensor *to, const char *at)
{
    struct td_error err;
    char *bytes = td_arena_alloc(&test_arena, strlen(at), 1, &err);
    ck_assert_ptr_nonnull(bytes);
    to->data = bytes;
    int64_t i = 0;
    for (at += strspn(at, " "); *at; at += strspn(at, " ")) {
        ck_assert_msg(*at == '\'' && i < to->numel, "no string, or one too many, at \"%s\"", at);
        for (at++; *at != '\''; at++) {
            ck_assert_msg(*at, "a string does not end");
            if (at[0] == '\\' && at[1] == 'x') {
                char hex[3] = { at[2], at[3], '\0' };
                bytes[to->bytes++] = (char)strtol(hex, NULL, 16);
                at += 3;
            } else {
                bytes[to->bytes++] = *at;
            }
        }
        at++;
        to->offsets[++i] = to->bytes;
    }
    ck_assert_msg(i == to->numel, "%" PRId64 " strings where %" PRId64 " are needed", i, to->numel);
}

struct td_tensor tensor(const char *text)
{
    struct td_tensor result = parse_head(&text);
    struct td_error err;
    ck_assert_msg(td_tensor_alloc(&result, &test_arena, &err) == TD_OK, "%s", err.message);
    if (result.dtype == TD_DTYPE_STRING)
        parse_strings(&result, text);
    else
        parse_numbers(&result, text);
    return result;
}

int tensor_list(const char *text, struct td_tensor *tensors, int room)
{
    int count = 0;
    for (text += strspn(text, "; "); *text; text += strspn(text, "; ")) {
        struct td_error err;
        size_t length = strcspn(text, ";");
        const char *one = td_arena_text(&test_arena, text, length, &err);
        EXPECT(one != NULL && count < room, "too many tensors: %s", text);
        tensors[count++] = tensor(one);
        text += length;
    }
    return count;
}

struct td_tensor index_vector(td_dtype dtype, const int64_t *values, int64_t n)
{
    struct td_shape dims = { .rank = 1, .dim = { n } };
    struct td_tensor result;
    struct td_error err;
    ck_assert_int_eq(td_tensor_describe(&result, "indices", dtype, &dims, &err), TD_OK);
    ck_assert_int_eq(td_tensor_alloc(&result, &test_arena, &err), TD_OK);
    size_t size = td_dtype_info(dtype)->size;
    for (int64_t i = 0; i < n; i++)
        memcpy((char *)result.data + (size_t)i * size, &values[i], size);
    return result;
}

void expect_shape(const struct td_shape *got, const char *want, const char *case_name)
{
    char text[TD_SHAPE_TEXT];
    ck_assert_msg(strcmp(td_shape_text(got, text, sizeof(text)), want) == 0,
                  "%s: shape is %s, should be %s", case_name, text, want);
}

void expect_same_tensor(const struct td_tensor *got, const struct td_tensor *want,
                        const char *case_name)
{
    char got_shape[TD_SHAPE_TEXT], want_shape[TD_SHAPE_TEXT];
    ck_assert_msg(got->dtype == want->dtype, "%s: dtype is %s, should be %s", case_name,
                  td_dtype_info(got->dtype)->name, td_dtype_info(want->dtype)->name);
    ck_assert_msg(td_shape_equal(&got->shape, &want->shape), "%s: shape is %s, should be %s",
                  case_name, td_shape_text(&got->shape, got_shape, sizeof(got_shape)),
                  td_shape_text(&want->shape, want_shape, sizeof(want_shape)));
    ck_assert_msg(got->numel == want->numel, "%s: numel does not fit the shape", case_name);
    ck_assert_msg(got->data != NULL, "%s: there is no data", case_name);
    ck_assert_msg(got->bytes == want->bytes, "%s: %zu bytes, should be %zu", case_name, got->bytes,
                  want->bytes);
    if (want->dtype != TD_DTYPE_STRING && memcmp(got->data, want->data, want->bytes) == 0)
        return;
    for (int64_t i = 0; i < want->numel; i++) {
        size_t size = td_dtype_info(want->dtype)->size;
        size_t at = (size_t)i * size, want_at = at;
        if (want->dtype == TD_DTYPE_STRING) {
            at = got->offsets[i];
            want_at = want->offsets[i];
            size = want->offsets[i + 1] - want_at;
            EXPECT(got->offsets[i + 1] - at == size && got->offsets[i + 1] <= got->bytes,
                   "%s: string %" PRId64 " has the wrong length", case_name, i);
        }
        EXPECT(memcmp((char *)got->data + at, (char *)want->data + want_at, size) == 0,
               "%s: element %" PRId64 " differs", case_name, i);
    }
}

void expect_tensor(const struct td_tensor *got, const char *want, const char *case_name)
{
    struct td_tensor wanted = tensor(want);
    expect_same_tensor(got, &wanted, case_name);
}

_Static_assert(LDBL_MANT_DIG >= 64, "a long double holds the 64 digits of an integer");

/* The value of a bit pattern of 16 bits. */
static long double half_value(uint16_t bits, int fraction_bits)
{
    const int one = 1 << fraction_bits, fraction = bits & (one - 1);
    const int exponent = (bits & 0x7fff) >> fraction_bits, most = 0x7fff >> fraction_bits;
    const int least = 1 - most / 2 - fraction_bits;
    long double value;
    if (exponent == most)
        value = fraction ? (long double)NAN : (long double)INFINITY;
    else if (exponent == 0)
        value = ldexpl(fraction, least);
    else
        value = ldexpl(one + fraction, least + exponent - 1);
    return bits & 0x8000 ? -value : value;
}

long double tensor_value(const struct td_tensor *t, int64_t i, int part)
{
    switch (t->dtype) {
    case TD_DTYPE_BOOL:
        return ((const uint8_t *)t->data)[i] != 0;
    case TD_DTYPE_INT8:
        return ((const int8_t *)t->data)[i];
    case TD_DTYPE_INT16:
        return ((const int16_t *)t->data)[i];
    case TD_DTYPE_INT32:
        return ((const int32_t *)t->data)[i];
    case TD_DTYPE_INT64:
        return (long double)((const int64_t *)t->data)[i];
    case TD_DTYPE_UINT8:
        return ((const uint8_t *)t->data)[i];
    case TD_DTYPE_UINT16:
        return ((const uint16_t *)t->data)[i];
    case TD_DTYPE_UINT32:
        return ((const uint32_t *)t->data)[i];
    case TD_DTYPE_UINT64:
        return (long double)((const uint64_t *)t->data)[i];
    case TD_DTYPE_FLOAT16:
        return half_value(((const uint16_t *)t->data)[i], 10);
    case TD_DTYPE_BFLOAT16:
        return half_value(((const uint16_t *)t->data)[i], 7);
    case TD_DTYPE_FLOAT32:
        return ((const float *)t->data)[i];
    case TD_DTYPE_FLOAT64:
        return ((const double *)t->data)[i];
    case TD_DTYPE_COMPLEX64:
        return ((const float *)t->data)[2 * i + part];
    default:
        return ((const double *)t->data)[2 * i + part];
    }
}
