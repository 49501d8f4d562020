#include "kernels/half.h"
#include "kernels/segments/segments.h"
#include "tests/support/op_call.h"
#include "tests/support/random.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"
#include "tests/support/threads.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Beside those of tests/conformance/cases. */
static const struct {
    const char *says;
    const char *op, *attrs;
    const char *data, *ids;
    const char *output;
} results[] = {
    { "ids of every integer type", "segment_sum", "", "int32[3] 1 2 3", "int16[3] 0 0 1",
      "int32[2] 3 3" },
    { "the first segments have no rows", "segment_min", "", "float32[2] -1 -2", "int64[2] 2 2",
      "float32[3] 0 0 -2" },
    { "no rows, but segments", "segment_max", "num_segments=2", "int8[0,3]", "int32[0]",
      "int8[2,3] 0 0 0 0 0 0" },
    { "no rows, and no segments", "segment_prod", "", "int8[0,3]", "int32[0]", "int8[0,3]" },
    { "rows without elements", "segment_mean", "", "float32[2,0]", "int32[2] 0 3", "float32[4,0]" },
    { "a dimension of 0 beside dimensions whose product is too large", "segment_sum", "",
      "int8[1,4611686018427387904,0,4]", "int32[1] 1", "int8[2,4611686018427387904,0,4]" },
    { "num_segments = 0", "unsorted_segment_sum", "num_segments=0", "int32[2] 1 2",
      "int32[2] -1 -2", "int32[0]" },
    { "a scalar id makes all of data one row", "unsorted_segment_prod", "num_segments=2",
      "int16[2,2] 1..4", "int64[] 0", "int16[2,2,2] 1 2 3 4 1 1 1 1" },
    { "a scalar id that is negative", "unsorted_segment_max", "num_segments=1", "int8[2] 1 2",
      "int64[] -1", "int8[1,2] -128 -128" },
    { "data and ids of rank 0", "unsorted_segment_mean", "num_segments=2", "float32[] 3",
      "int16[] 1", "float32[2] 0 3" },
    { "ids as negative as possible", "unsorted_segment_sum", "num_segments=1", "int32[3] 1 2 4",
      "int64[3] -9223372036854775808 0 -1", "int32[1] 2" },
    { "the maximum of -infinity is no gap", "unsorted_segment_max", "num_segments=2",
      "float32[1] -inf", "int32[1] 1", "float32[2] -0x1.fffffep127 -inf" },
    { "nor is the minimum of infinity", "unsorted_segment_min", "num_segments=2",
      "float16[1] 0x7c00", "int32[1] 0", "float16[2] 0x7c00 0x7bff" },
    { "gaps of bfloat16 and float64", "unsorted_segment_max", "num_segments=1", "bfloat16[0]",
      "int32[0]", "bfloat16[1] 0xff7f" },
    { "gaps of float64", "unsorted_segment_min", "num_segments=1", "float64[0]", "int32[0]",
      "float64[1] 0x1.fffffffffffffp1023" },
    { "gaps of unsigned integers", "unsorted_segment_min", "num_segments=1", "uint16[0]",
      "int32[0]", "uint16[1] 65535" },
    { "NaN after numbers", "segment_max", "", "float64[3] 1 nan 2", "int32[3] 0 0 0",
      "float64[1] nan" },
    { "the NaN of an ignored row", "unsorted_segment_min", "num_segments=1", "float32[2] nan 2",
      "int32[2] -1 0", "float32[1] 2" },
    { "sums in the order of rows, in float32", "segment_sum", "", "float32[3] 16777216 1 1",
      "int32[3] 0 0 0", "float32[1] 16777216" },
    { "float16 is rounded once: 2048 + 1 + 1", "unsorted_segment_sum", "num_segments=1",
      "float16[3] 0x6800 0x3c00 0x3c00", "int32[3] 0 0 0", "float16[1] 0x6801" },
    { "sums of float16 above its range", "segment_mean", "", "float16[2] 0x7bff 0x7bff",
      "int32[2] 0 0", "float16[1] 0x7bff" },
    { "uint64 above int64", "segment_max", "",
      "uint64[3] 9223372036854775808 1 9223372036854775809", "int32[3] 0 0 0",
      "uint64[1] 9223372036854775809" },
    { "products of complex numbers", "segment_prod", "num_segments=2", "complex64[2] 1 2 3 4",
      "int32[2] 0 0", "complex64[2] -5 10 1 0" },
    { "the mean of complex numbers", "segment_mean", "num_segments=2", "complex128[2] 1 2 3 5",
      "int32[2] 1 1", "complex128[2] 0 0 2 3.5" },
};

TD_TEST_EACH(segment_ops_give, results)
{
    struct op_call call;
    call_op(&call, results[_i].op, results[_i].attrs, tensor(results[_i].data),
            tensor(results[_i].ids), NULL);
    ck_assert_msg(call.status == TD_OK, "%s: %s", results[_i].says, call.err.message);
    ck_assert_int_eq(call.args.n_outputs, 1);
    expect_tensor(&call.args.outputs[0], results[_i].output, results[_i].says);
}

#define FLOATS_AND_COMPLEX "expected float16, bfloat16, float32, float64, complex64 or complex128"

static const struct {
    const char *says;
    const char *op, *attrs;
    const char *data, *ids;
    td_status status;
    const char *message, *input, *attribute;
} refusals[] = {
    { "a matrix of sorted ids", "segment_sum", "", "int32[2,2] 1..4", "int32[2,2] 0 0 1 1",
      TD_SHAPE_MISMATCH,
      "segment_ids has shape [2,2]; expected a vector with one id for each row of data; "
      "unsorted_segment_sum accepts ids of any rank",
      "segment_ids", "" },
    { "a scalar", "segment_max", "", "int32[2] 1 2", "int32[] 0", TD_SHAPE_MISMATCH,
      "segment_ids has shape []; expected a vector with one id for each row of data; "
      "unsorted_segment_max accepts ids of any rank",
      "segment_ids", "" },
    { "too few ids", "segment_prod", "", "int32[3] 1 2 3", "int32[2] 0 0", TD_SHAPE_MISMATCH,
      "data [3] does not start with the shape of segment_ids, [2]", "data", "" },
    { "data of rank 0", "segment_sum", "", "int32[] 1", "int32[1] 0", TD_SHAPE_MISMATCH,
      "data [] does not start with the shape of segment_ids, [1]", "data", "" },
    { "ids of a later dimension", "unsorted_segment_min", "num_segments=3", "int32[2,3] 1..6",
      "int32[3] 0 1 2", TD_SHAPE_MISMATCH,
      "data [2,3] does not start with the shape of segment_ids, [3]", "data", "" },
    { "a rank too many", "unsorted_segment_sum", "num_segments=1",
      "int32[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1] 1", "int32[] 0", TD_RESOURCE_LIMIT,
      "output needs 17 dimensions; the limit is 16", "", "" },
    { "a last id that is too large", "segment_sum", "", "int32[1] 1",
      "int64[1] 9223372036854775807", TD_RESOURCE_LIMIT,
      "the output needs 9223372036854775808 elements; the limit is 9223372036854775807", "", "" },
    { "an output that is too large", "unsorted_segment_sum", "num_segments=4611686018427387904",
      "int32[1,3] 1 2 3", "int32[1] 0", TD_RESOURCE_LIMIT,
      "output of shape [4611686018427387904,3] and dtype int32 needs more than "
      "9223372036854775807 bytes",
      "output", "" },
    { "no number of segments", "unsorted_segment_mean", "", "float32[1] 1", "int32[1] 0",
      TD_INVALID_ARGUMENT, "num_segments is missing; unsorted_segment_mean requires it", "",
      "num_segments" },
    { "a negative number of segments", "segment_sum", "num_segments=-1", "float32[1] 1",
      "int32[1] 0", TD_INVALID_ARGUMENT, "num_segments is -1; expected 0 or more", "",
      "num_segments" },
    { "a mean of integers", "segment_mean", "", "int64[1] 1", "int32[1] 0", TD_UNSUPPORTED_DTYPE,
      "data has dtype int64; " FLOATS_AND_COMPLEX "; the op cast with dtype = float64 rounds it",
      "data", "" },
    { "a maximum of complex numbers", "unsorted_segment_max", "num_segments=1", "complex64[1] 1 0",
      "int32[1] 0", TD_UNSUPPORTED_DTYPE,
      "data has dtype complex64; expected int8, int16, int32, int64, uint8, uint16, uint32, "
      "uint64, float16, bfloat16, float32 or float64",
      "data", "" },
    { "a sum of bool", "segment_sum", "", "bool[1] 1", "int32[1] 0", TD_UNSUPPORTED_DTYPE,
      "data has dtype bool; expected int8, int16, int32, int64, uint8, uint16, uint32, uint64, "
      "float16, bfloat16, float32, float64, complex64 or complex128; the op cast with dtype = "
      "int64 converts it",
      "data", "" },
    { "ids of another dtype", "segment_sum", "", "int32[1] 1", "uint8[1] 0", TD_UNSUPPORTED_DTYPE,
      "segment_ids has dtype uint8; expected int16, int32 or int64; pass them as int64",
      "segment_ids", "" },
};

TD_TEST_EACH(segment_ops_refuse, refusals)
{
    struct op_call call;
    call_begin(&call, refusals[_i].op, refusals[_i].attrs, tensor(refusals[_i].data),
               tensor(refusals[_i].ids));
    call_infer(&call, refusals[_i].op);
    expect_refusal(&call, refusals[_i].status, refusals[_i].message, refusals[_i].input,
                   refusals[_i].attribute, refusals[_i].says);
    if (refusals[_i].status == TD_SHAPE_MISMATCH)
        expect_shape_names(&call.err, "data segment_ids");
}

static const struct {
    const char *op, *attrs, *data, *ids;
    const char *message;
    int64_t bad_count;
} bad_ids[] = {
    { "segment_sum", "", "int32[4] 1..4", "int32[4] 0 2 1 0",
      "segment_ids[2] = 1 is below segment_ids[1] = 2; each element must be at least the element "
      "before it; unsorted_segment_sum accepts ids in any order",
      2 },
    { "segment_max", "", "int32[2] 1 2", "int64[2] -1 0",
      "segment_ids[0] = -1 is negative; must be at least 0; unsorted_segment_max ignores rows with "
      "a negative id",
      1 },
    { "segment_prod", "", "int32[2] 1 2", "int16[2] 0 -1",
      "segment_ids[1] = -1 is negative; must be at least 0; unsorted_segment_prod ignores rows "
      "with a negative id",
      1 },
    { "segment_min", "num_segments=1", "int32[2] 1 2", "int16[2] 0 -1",
      "segment_ids[1] = -1 is not in [0, 1); unsorted_segment_min ignores rows with a negative id",
      1 },
    { "segment_min", "num_segments=3", "int32[3] 1 2 3", "int32[3] 0 3 4",
      "segment_ids[1] = 3 is not in [0, 3)", 2 },
    { "segment_mean", "num_segments=0", "float32[1] 1", "int32[1] 0",
      "segment_ids[0] = 0 is not in [0, 0)", 1 },
    { "segment_sum", "num_segments=2", "int32[2,0]", "int32[2] 1 0",
      "segment_ids[1] = 0 is below segment_ids[0] = 1; each element must be at least the element "
      "before it; unsorted_segment_sum accepts ids in any order",
      1 },
    { "unsorted_segment_sum", "num_segments=3", "int32[3] 1 2 3", "int32[3] -1 3 5",
      "segment_ids[1] = 3 is not in [0, 3)", 2 },
    { "unsorted_segment_max", "num_segments=2", "float16[2,2] 0 0 0 0", "int64[2,2] 0 1 -1 7",
      "segment_ids[1,1] = 7 is not in [0, 2)", 1 },
    { "unsorted_segment_prod", "num_segments=1", "complex64[1] 1 1", "int64[1] 9223372036854775807",
      "segment_ids[0] = 9223372036854775807 is not in [0, 1)", 1 },
    { "unsorted_segment_sum", "num_segments=0", "int32[2] 1 2", "int16[2] -1 0",
      "segment_ids[1] = 0 is not in [0, 0)", 1 },
    { "unsorted_segment_mean", "num_segments=1", "float32[1,0]", "int16[1] 1",
      "segment_ids[0] = 1 is not in [0, 1)", 1 },
    { "unsorted_segment_min", "num_segments=3", "int8[2] 1 2", "int32[] 3",
      "segment_ids = 3 is not in [0, 3)", 1 },
};

TD_TEST_EACH(the_first_bad_id_is_reported, bad_ids)
{
    struct op_call call;
    call_op(&call, bad_ids[_i].op, bad_ids[_i].attrs, tensor(bad_ids[_i].data),
            tensor(bad_ids[_i].ids), NULL);
    ck_assert_int_eq(call.status, TD_INDEX_OUT_OF_BOUNDS);
    if (!strstr(bad_ids[_i].message, " is below ")) {
        expect_index_error(&call.err, "segment_ids", bad_ids[_i].message, bad_ids[_i].bad_count);
        return;
    }
    ck_assert_str_eq(call.err.message, bad_ids[_i].message);
    ck_assert_str_eq(call.err.input, "segment_ids");
    ck_assert(call.err.has_index && !call.err.has_bound);
    ck_assert_int_eq(call.err.bad_count, bad_ids[_i].bad_count);
}

/* ---- Against the definition -------------------------------------------------------------- */

static const char *const reductions[] = { "sum", "mean", "max", "min", "prod" };
enum { SUM, MEAN, MAX, MIN, PROD, REDUCTIONS };

static bool is_integer(td_dtype dtype)
{
    return dtype >= TD_DTYPE_INT8 && dtype <= TD_DTYPE_UINT64;
}

static bool accepts(int reduction, td_dtype dtype)
{
    return !(reduction == MEAN && is_integer(dtype)) &&
           !((reduction == MAX || reduction == MIN) && td_dtype_is_complex(dtype));
}

/* One column of one segment: the values of its rows, in order, are combined in `real`, which is
 * float or double. `value` has one or two parts. */
#define COMBINE_REALS(real)                                                                        \
    {                                                                                              \
        real *a = sum, x[2] = { (real)value[0], (real)value[1] };                                  \
        if (reduction == SUM || reduction == MEAN) {                                               \
            a[0] += x[0];                                                                          \
            a[1] += x[1];                                                                          \
        } else if (reduction == PROD && parts == 2) {                                              \
            const real re = a[0] * x[0] - a[1] * x[1];                                             \
            a[1] = a[0] * x[1] + a[1] * x[0];                                                      \
            a[0] = re;                                                                             \
        } else if (reduction == PROD) {                                                            \
            a[0] *= x[0];                                                                          \
        } else if (isnan(x[0]) || (reduction == MAX ? x[0] > a[0] : x[0] < a[0])) {                \
            a[0] = isnan(a[0]) ? a[0] : x[0];                                                      \
        }                                                                                          \
    }

static void combine_floats(int reduction, int parts, void *sum, const long double *value)
{
    COMBINE_REALS(float)
}

static void combine_doubles(int reduction, int parts, void *sum, const long double *value)
{
    COMBINE_REALS(double)
}

/* long double holds all int64 and uint64. */
static long double combine_integers(int reduction, td_dtype dtype, long double a, long double x)
{
    const bool is_signed = dtype <= TD_DTYPE_INT64;
    const uint64_t b = is_signed ? (uint64_t)(int64_t)a : (uint64_t)a,
                   y = is_signed ? (uint64_t)(int64_t)x : (uint64_t)x;
    if (reduction == MAX)
        return x > a ? x : a;
    if (reduction == MIN)
        return x < a ? x : a;
    const uint64_t result = reduction == SUM ? b + y : b * y;
    return is_signed ? (long double)(int64_t)result : (long double)result;
}

struct sums {
    float floats[2];
    double doubles[2];
    long double integer;
    int64_t count;
};

static void store(td_dtype dtype, const struct sums *sums, void *to)
{
    const size_t size = td_dtype_info(dtype)->size;
    const struct td_narrow format =
        dtype == TD_DTYPE_FLOAT16 ? TD_NARROW_FLOAT16 : TD_NARROW_BFLOAT16;
    const uint64_t integer =
        dtype <= TD_DTYPE_INT64 ? (uint64_t)(int64_t)sums->integer : (uint64_t)sums->integer;
    bool unsure;
    uint16_t half = td_narrow_round((double)sums->floats[0], format, 0, &unsure);
    if (isnan(sums->floats[0]))
        half = 0x7fff;
    if (dtype == TD_DTYPE_FLOAT16 || dtype == TD_DTYPE_BFLOAT16)
        memcpy(to, &half, size);
    else if (td_dtype_part(dtype) == TD_DTYPE_FLOAT32)
        memcpy(to, sums->floats, size);
    else if (td_dtype_part(dtype) == TD_DTYPE_FLOAT64)
        memcpy(to, sums->doubles, size);
    else
        memcpy(to, &integer, size);
}

/* The highest finite number. */
static long double highest(td_dtype dtype)
{
    const int bits = 8 * (int)td_dtype_info(dtype)->size;
    if (dtype == TD_DTYPE_FLOAT16)
        return 65504;
    if (dtype == TD_DTYPE_BFLOAT16)
        return 0x1.fep127L;
    if (dtype == TD_DTYPE_FLOAT32)
        return 0x1.fffffep127L;
    if (dtype == TD_DTYPE_FLOAT64)
        return 0x1.fffffffffffffp1023L;
    return ldexpl(1, dtype <= TD_DTYPE_INT64 ? bits - 1 : bits) - 1;
}

/* The lowest finite number. */
static long double lowest(td_dtype dtype)
{
    if (dtype >= TD_DTYPE_UINT8 && dtype <= TD_DTYPE_UINT64)
        return 0;
    return -highest(dtype) - (is_integer(dtype) ? 1 : 0);
}

static void set(struct sums *sums, long double value)
{
    sums->floats[0] = (float)value;
    sums->doubles[0] = (double)value;
    sums->integer = value;
    sums->floats[1] = 0;
    sums->doubles[1] = 0;
}

static void begin_sums(struct sums *sums, int reduction, td_dtype dtype)
{
    const long double least = is_integer(dtype) ? lowest(dtype) : -INFINITY,
                      most = is_integer(dtype) ? highest(dtype) : INFINITY;
    set(sums, reduction == PROD ? 1 : reduction == MAX ? least : reduction == MIN ? most : 0);
    sums->count = 0;
}

static void end_sums(struct sums *sums, int reduction, bool sorted, td_dtype dtype)
{
    const float floats = (float)sums->count;
    const double doubles = (double)sums->count;
    if (sums->count == 0 && (reduction == MAX || reduction == MIN))
        set(sums, sorted ? 0 : reduction == MAX ? lowest(dtype) : highest(dtype));
    for (int part = 0; sums->count > 0 && reduction == MEAN && part < 2; part++) {
        sums->floats[part] /= floats;
        sums->doubles[part] /= doubles;
    }
}

static void add_element(struct sums *sums, int reduction, const struct td_tensor *data, int64_t i)
{
    const bool is_complex = td_dtype_is_complex(data->dtype);
    const long double value[2] = { tensor_value(data, i, 0),
                                   is_complex ? tensor_value(data, i, 1) : 0 };
    sums->count++;
    if (is_integer(data->dtype))
        sums->integer = combine_integers(reduction, data->dtype, sums->integer, value[0]);
    else if (td_dtype_part(data->dtype) == TD_DTYPE_FLOAT64)
        combine_doubles(reduction, is_complex ? 2 : 1, sums->doubles, value);
    else
        combine_floats(reduction, is_complex ? 2 : 1, sums->floats, value);
}

/* The output, element by element. */
static struct td_tensor expected(int reduction, bool sorted, const struct td_tensor *data,
                                 const struct td_tensor *ids, const struct td_shape *shape)
{
    struct td_error err;
    struct td_tensor out;
    EXPECT_OK(td_tensor_describe(&out, "output", data->dtype, shape, &err), &err);
    EXPECT_OK(td_tensor_alloc(&out, &test_arena, &err), &err);
    struct sums *sums = td_arena_alloc(&test_arena, (size_t)out.numel, sizeof(sums[0]), &err);
    EXPECT(sums, "%s", err.message);
    const int64_t columns = shape->dim[0] > 0 ? out.numel / shape->dim[0] : 0;
    for (int64_t i = 0; i < out.numel; i++)
        begin_sums(&sums[i], reduction, data->dtype);
    for (int64_t row = 0; columns > 0 && row < ids->numel; row++) {
        const int64_t segment = td_tensor_index_at(ids, row);
        for (int64_t c = 0; segment >= 0 && c < columns; c++)
            add_element(&sums[segment * columns + c], reduction, data, row * columns + c);
    }
    for (int64_t i = 0; i < out.numel; i++) {
        end_sums(&sums[i], reduction, sorted, data->dtype);
        store(data->dtype, &sums[i],
              (char *)out.data + (size_t)i * td_dtype_info(data->dtype)->size);
    }
    return out;
}

/* Elements are equal bit for bit, or both NaN. */
static void expect_equal(const struct td_tensor *got, const struct td_tensor *want,
                         const char *what)
{
    EXPECT(got->dtype == want->dtype && td_shape_equal(&got->shape, &want->shape), "%s: shape",
           what);
    const int parts = td_dtype_is_complex(got->dtype) ? 2 : 1;
    if (memcmp(got->data, want->data, want->bytes) == 0)
        return;
    for (int64_t i = 0; i < want->numel; i++)
        for (int part = 0; part < parts; part++) {
            const long double x = tensor_value(got, i, part), y = tensor_value(want, i, part);
            EXPECT((isnan(x) && isnan(y)) || (x == y && signbit(x) == signbit(y)),
                   "%s: element %" PRId64 " is %La; expected %La", what, i, x, y);
        }
}

static const td_dtype dtypes[] = {
    TD_DTYPE_INT8,    TD_DTYPE_INT16,   TD_DTYPE_INT32,     TD_DTYPE_INT64,      TD_DTYPE_UINT8,
    TD_DTYPE_UINT16,  TD_DTYPE_UINT32,  TD_DTYPE_UINT64,    TD_DTYPE_FLOAT16,    TD_DTYPE_BFLOAT16,
    TD_DTYPE_FLOAT32, TD_DTYPE_FLOAT64, TD_DTYPE_COMPLEX64, TD_DTYPE_COMPLEX128,
};

/* Any bits for integers. Numbers near 1 for floats, whose sums and products are rounded, and
 * sometimes infinities, NaN, and zeros of both signs. */
static struct td_tensor random_data(td_dtype dtype, const struct td_shape *shape)
{
    struct td_tensor t = random_tensor(dtype, shape);
    const td_dtype part = td_dtype_part(dtype);
    const int64_t n = t.numel * (td_dtype_is_complex(dtype) ? 2 : 1);
    const int special = random_below(3) ? 0 : 1 + random_below(40);
    for (int64_t i = 0; !is_integer(dtype) && i < n; i++) {
        const uint64_t sign = random_next() & 1, scale = random_next() & 3;
        const int digits = part == TD_DTYPE_FLOAT64    ? 52
                           : part == TD_DTYPE_FLOAT32  ? 23
                           : part == TD_DTYPE_BFLOAT16 ? 7
                                                       : 10;
        const int bits = 8 * (int)td_dtype_info(part)->size;
        const uint64_t bias = ((uint64_t)1 << (bits - digits - 2)) - 1, all = 2 * bias + 1;
        uint64_t mantissa = random_next() >> (64 - digits), exponent = bias - 2 + scale;
        if (special && random_below(special) == 0) {
            exponent = random_below(2) ? all : 0;
            mantissa = exponent && random_below(2) ? (uint64_t)1 << (digits - 1) : 0;
        }
        const uint64_t value = sign << (bits - 1) | exponent << digits | mantissa;
        memcpy((char *)t.data + (size_t)i * (size_t)(bits / 8), &value, (size_t)(bits / 8));
    }
    return t;
}

static int compare_ids(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Ids below n_segments in runs of random length; one of seven is negative if unsorted. */
static struct td_tensor random_ids(const struct td_shape *shape, bool sorted, int n_segments,
                                   int run)
{
    struct td_error err;
    int64_t n;
    EXPECT(td_shape_numel(shape, &n), "ids");
    int64_t *values = td_arena_alloc(&test_arena, (size_t)n + 1, sizeof(values[0]), &err);
    EXPECT(values, "%s", err.message);
    for (int64_t i = 0; i < n; i++) {
        values[i] = i > 0 && random_below(run) ? values[i - 1] : random_below(n_segments);
        if (!sorted && random_below(7) == 0)
            values[i] = -1 - random_below(3);
    }
    if (sorted)
        qsort(values, (size_t)n, sizeof(values[0]), compare_ids);
    static const td_dtype types[] = { TD_DTYPE_INT16, TD_DTYPE_INT32, TD_DTYPE_INT64 };
    struct td_tensor ids =
        index_vector(types[n_segments > INT16_MAX ? 2 : random_below(3)], values, n);
    ids.shape = *shape;
    return ids;
}

/* A call, and the output that its definition says. */
struct trial {
    int reduction;
    bool sorted;
    struct td_tensor data, ids;
    int64_t n_segments;
    struct td_tensor want;
};

static void define(struct trial *trial)
{
    struct td_shape shape = { .rank = 1, .dim = { trial->n_segments } };
    (void)td_shape_append(&shape, &trial->data.shape, trial->ids.shape.rank,
                          trial->data.shape.rank);
    trial->want = expected(trial->reduction, trial->sorted, &trial->data, &trial->ids, &shape);
}

static void expect_definition(const struct trial *trial, struct td_exec *exec, const char *what)
{
    char op[32], attrs[64];
    struct op_call call;
    snprintf(op, sizeof(op), "%ssegment_%s", trial->sorted ? "" : "unsorted_",
             reductions[trial->reduction]);
    snprintf(attrs, sizeof(attrs), "num_segments=%" PRId64, trial->n_segments);
    call_op(&call, op, attrs, trial->data, trial->ids, exec);
    EXPECT(call.status == TD_OK, "%s, %s: %s", what, op, call.err.message);
    expect_equal(&call.args.outputs[0], &trial->want, what);
}

/* Rows shorter and longer than the vectors of each instruction set. */
static const int64_t widths[] = { 1, 2, 3, 4, 5, 7, 8, 12, 15, 16, 17, 33, 64, 70, 259 };

TD_TEST_LOOP(any_segment_op_is_what_its_definition_says, 0, 2 * COUNT_OF(dtypes))
{
    enum { SAMPLES = 60 };
    for (int s = 0; s < SAMPLES * test_effort(); s++) {
        const int seed = _i + s * 2 * COUNT_OF(dtypes);
        char what[96];
        struct thread_exec exec;
        td_arena_reset(&test_arena);
        random_seed((uint64_t)seed);
        const td_dtype dtype = dtypes[_i % COUNT_OF(dtypes)];
        const bool sorted = _i < COUNT_OF(dtypes);
        const int rank = sorted ? 1 : random_below(4), n_segments = 1 + random_below(40);
        struct td_shape shape = { .rank = rank };
        for (int d = 0; d < rank; d++)
            shape.dim[d] = rank == 1 ? random_below(100) : random_below(6);
        const struct td_tensor ids = random_ids(&shape, sorted, n_segments, 1 + random_below(9));
        if (random_below(4))
            shape.dim[shape.rank++] = widths[random_below(COUNT_OF(widths))];
        struct trial trial = { .sorted = sorted,
                               .data = random_data(dtype, &shape),
                               .ids = ids,
                               .n_segments = n_segments };
        const td_isa isa = (td_isa)(TD_ISA_GENERIC + random_below(3));
        thread_exec_init(&exec, 1 + random_below(3), random_below(2) ? 0 : 1 + random_below(5));
        exec.exec.isa = isa;
        snprintf(what, sizeof(what), "seed %d: %s, %s", seed, td_dtype_info(dtype)->name,
                 td_isa_name(td_isa_resolve(isa)));
        for (trial.reduction = 0; trial.reduction < REDUCTIONS; trial.reduction++)
            if (accepts(trial.reduction, dtype)) {
                define(&trial);
                expect_definition(&trial, &exec.exec, what);
            }
    }
}

/* Calls of several steps, parts and blocks of columns. */
static const struct {
    const char *says;
    const char *data;
    int n_segments;
    int run;
} large[] = {
    { "one column", "float32[600000]", 1000, 20 },
    { "one segment", "int8[2200000]", 1, 20 },
    { "three columns, more segments than fit in the cache", "int32[200000,3]", 100000, 1 },
    { "rows of a cache line", "float32[30000,16]", 5000, 1 },
    { "rows of a cache line, in long runs", "float64[30000,8]", 30, 500 },
    { "wide rows of a few segments", "float32[700,700]", 3, 2 },
    { "rows that are split into blocks", "uint32[60,9000]", 20, 2 },
    { "blocks of a few segments", "complex64[40,6000]", 2, 2 },
    { "converted rows", "int16[20000,33]", 2000, 3 },
    { "blocks of converted rows", "bfloat16[60,9000]", 20, 2 },
    { "complex numbers", "complex128[20000,9]", 700, 2 },
};

TD_TEST_LOOP(large_calls_do_not_depend_on_how_they_are_split, 0, 2 * REDUCTIONS * COUNT_OF(large))
{
    const int which = _i / (2 * REDUCTIONS);
    const struct td_tensor like = tensor_without_data(large[which].data);
    const struct td_shape rows = { .rank = 1, .dim = { like.shape.dim[0] } };
    struct trial trial = { .reduction = _i / 2 % REDUCTIONS,
                           .sorted = _i % 2,
                           .n_segments = large[which].n_segments };
    if (!accepts(trial.reduction, like.dtype))
        return;
    random_seed((uint64_t)_i);
    trial.data = random_data(like.dtype, &like.shape);
    trial.ids = random_ids(&rows, trial.sorted, large[which].n_segments, large[which].run);
    define(&trial);
    for (int threads = 1; threads <= MOST_THREADS; threads++) {
        struct thread_exec exec;
        thread_exec_init(&exec, threads, 0);
        exec.backwards = threads == 2;
        exec.exec.isa = (td_isa)(TD_ISA_GENERIC + threads % 3);
        expect_definition(&trial, &exec.exec, large[which].says);
    }
}

/* The sums of so many segments do not fit in the scratch memory at once. */
TD_TEST_LOOP(many_segments_are_computed_in_several_passes, 0, 2)
{
    enum { SEGMENTS = 17000000 };
    struct op_call call;
    const struct td_tensor data = tensor("int8[5] 1 -2 -3 4 5");
    const int64_t positions[5] = { 0, 2, 2, SEGMENTS - 1, SEGMENTS - 1 };
    const struct td_tensor ids = index_vector(TD_DTYPE_INT32, positions, 5);
    char attrs[32];
    snprintf(attrs, sizeof(attrs), "num_segments=%d", SEGMENTS);
    call_op(&call, _i ? "segment_max" : "unsorted_segment_sum", attrs, data, ids, NULL);
    ck_assert_msg(call.status == TD_OK, "%s", call.err.message);
    const int8_t *got = call.args.outputs[0].data;
    int64_t others = 0;
    for (int64_t s = 0; s < SEGMENTS; s++)
        others += got[s] != 0;
    ck_assert_int_eq(got[0], 1);
    ck_assert_int_eq(got[2], _i ? -2 : -5);
    ck_assert_int_eq(got[SEGMENTS - 1], _i ? 5 : 9);
    ck_assert_int_eq(others, 3);
}

TD_TEST(a_bad_id_is_found_in_several_passes)
{
    struct op_call call;
    call_op(&call, "unsorted_segment_sum", "num_segments=20000000", tensor("int8[2] 1 2"),
            tensor("int32[2] -1 20000000"), NULL);
    ck_assert_int_eq(call.status, TD_INDEX_OUT_OF_BOUNDS);
    expect_index_error(&call.err, "segment_ids",
                       "segment_ids[1] = 20000000 is not in [0, 20000000)", 1);
}

TD_TEST(a_bad_id_is_found_in_any_part)
{
    struct td_tensor data = random_data(TD_DTYPE_FLOAT32, &(struct td_shape){ 2, { 40000, 16 } });
    struct td_tensor ids = random_ids(&(struct td_shape){ 1, { 40000 } }, false, 5000, 1);
    for (int threads = 1; threads <= 3; threads++) {
        struct thread_exec exec;
        struct op_call call;
        struct td_tensor bad = index_vector(TD_DTYPE_INT64, (const int64_t[]){ 0 }, 1);
        bad.shape = ids.shape;
        bad.numel = ids.numel;
        bad.bytes = (size_t)ids.numel * sizeof(int64_t);
        EXPECT_OK(td_tensor_alloc(&bad, &test_arena, &call.err), &call.err);
        for (int64_t i = 0; i < ids.numel; i++)
            ((int64_t *)bad.data)[i] = td_tensor_index_at(&ids, i);
        ((int64_t *)bad.data)[30000 + threads] = 5000;
        thread_exec_init(&exec, threads, 0);
        call_op(&call, "unsorted_segment_sum", "num_segments=5000", data, bad, &exec.exec);
        ck_assert_int_eq(call.status, TD_INDEX_OUT_OF_BOUNDS);
        ck_assert_int_eq(call.err.position[0], 30000 + threads);
    }
}

TD_TEST_LOOP(a_deadline_ends_a_call, 0, COUNT_OF(large))
{
    const struct td_tensor like = tensor_without_data(large[_i].data);
    const struct td_shape rows = { .rank = 1, .dim = { like.shape.dim[0] } };
    struct op_call call;
    random_seed((uint64_t)_i);
    const struct td_tensor data = random_data(like.dtype, &like.shape);
    const struct td_tensor ids = random_ids(&rows, _i % 2, large[_i].n_segments, large[_i].run);
    char attrs[32];
    snprintf(attrs, sizeof(attrs), "num_segments=%d", large[_i].n_segments);
    const char *op = _i % 2 ? "segment_sum" : "unsorted_segment_sum";
    call_begin(&call, op, attrs, data, ids);
    expect_deadlines(&call, op, 1, large[_i].says);
}

/* ---- Cost and memory --------------------------------------------------------------------- */

static const struct {
    const char *says;
    const char *op, *attrs, *data, *ids;
    uint64_t bytes_read, bytes_written, random_reads, workspace, workspace_per_thread;
} costs[] = {
    { "a sum", "segment_sum", "num_segments=5", "float32[100,4]", "int64[100]", 1600 + 2 * 800 + 80,
      160, 0, 0, 0 },
    { "unsorted ids", "unsorted_segment_sum", "num_segments=5", "float32[100,4]", "int32[100]",
      1600 + 400 + 80, 160, 100, 0, 0 },
    { "counts of a mean", "segment_mean", "num_segments=100", "float64[100,4]", "int16[100]",
      3200 + 2 * 200 + 3200, 6400, 0, 832, 0 },
    { "no counts for the maximum of unsorted integers", "unsorted_segment_max", "num_segments=100",
      "int32[100]", "int16[100]", 400 + 200 + 400, 800, 100, 0, 0 },
    { "sums and counts of converted rows", "segment_max", "num_segments=100", "int8[100,2]",
      "int16[100]", 200 + 2 * 200 + 200, 400, 0, 832 + 832, 65536 },
    { "at most 64 MiB, in 597 passes over the ids", "unsorted_segment_sum",
      "num_segments=1000000000", "float16[1,10]", "int32[1]", 20 + 597 * 4 + 20000000000,
      40000000000, 597, 67108864, 65536 },
    { "or one segment", "unsorted_segment_sum", "num_segments=2", "float16[1,20000000]", "int32[1]",
      40000000 + 2 * 4 + 80000000, 160000000, 2, 80000000, 65536 },
    { "sums that cannot be allocated", "unsorted_segment_prod", "num_segments=4611686018427387904",
      "int8[1]", "int32[1]", 1 + 274877906944 * 4 + 4611686018427387904, 9223372036854775808u,
      274877906944, 67108864, 65536 },
    { "a row that cannot be allocated", "unsorted_segment_sum", "num_segments=1",
      "int8[0,4611686018427387904]", "int32[0]", 4611686018427387904, 9223372036854775808u, 0,
      UINT64_MAX / 8 + 1, 65536 },
};

TD_TEST_EACH(cost_follows_from_shapes, costs)
{
    struct op_call call;
    call_begin(&call, costs[_i].op, costs[_i].attrs, tensor_without_data(costs[_i].data),
               tensor_without_data(costs[_i].ids));
    call_infer(&call, costs[_i].op);
    ck_assert_msg(call.status == TD_OK, "%s", call.err.message);
    const struct td_cost cost = call.args.op->cost(&call.args);
    ck_assert_uint_eq(cost.bytes_read, costs[_i].bytes_read);
    ck_assert_uint_eq(cost.bytes_written, costs[_i].bytes_written);
    ck_assert_uint_eq(cost.random_reads, costs[_i].random_reads);
    ck_assert_uint_eq(cost.flops, (uint64_t)call.args.inputs[0].tensors->numel);
    ck_assert_msg(cost.workspace == costs[_i].workspace &&
                      cost.workspace_per_thread == costs[_i].workspace_per_thread,
                  "%s: workspace %" PRIu64 ", for each thread %" PRIu64, costs[_i].says,
                  cost.workspace, cost.workspace_per_thread);
}

TD_TEST(without_memory_segment_ops_are_refused)
{
    expect_memory_needed("segment_max", "", tensor("int32[3] 1 3 2"), tensor("int32[3] 0 0 1"));
}
