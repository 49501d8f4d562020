#include "kernels/isa.h"
#include "kernels/reductions/reductions.h"
#include "tests/support/op_call.h"
#include "tests/support/random.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"
#include "tests/support/threads.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct td_tensor none = { 0 };

/* ---- Values beside those of tests/conformance/cases -------------------------------------- */

static const struct {
    const char *says;
    const char *op, *x, *attrs;
    const char *output;
} results[] = {
    { "all dimensions are reduced unless axes says otherwise", "reduce_sum", "int32[2,3] 1..6", "",
      "int32[] 21" },
    { "an empty list reduces nothing, also of bits that sums would change", "reduce_sum",
      "float32[2] -0 2.5", "axes=''", "float32[2] -0 2.5" },
    { "as float64", "reduce_mean", "float64[2] -0 2.5", "axes=''", "float64[2] -0 2.5" },
    { "as complex", "reduce_prod", "complex64[2] -0 2 3 -4", "axes=''", "complex64[2] -0 2 3 -4" },
    { "a byte that is not 0 is true", "reduce_any", "bool[2,2] 0 0 0 2", "axes=1", "bool[2] 0 1" },
    { "also for all", "reduce_all", "bool[2,2] 1 0 255 2", "axes=1", "bool[2] 0 1" },
    { "and where nothing is reduced", "reduce_all", "bool[2] 0 7", "axes=''", "bool[2] 0 1" },
    { "a scalar has one element", "reduce_max", "float32[] -2.5", "", "float32[] -2.5" },
    { "keepdims of a scalar keeps nothing", "reduce_min", "float32[] -2.5", "keepdims=true",
      "float32[] -2.5" },
    { "0 is more than -0", "reduce_max", "float32[3] -0 0 -0", "", "float32[] 0" },
    { "-0 is less than 0", "reduce_min", "float64[3] 0 -0 0", "", "float64[] -0" },
    { "the least of the greatest", "reduce_min", "float16[3] 0x7c00 0x7bff 0x7c00", "",
      "float16[] 0x7bff" },
    { "the greatest is an infinity", "reduce_max", "bfloat16[3] 0xff80 0x7f80 0", "",
      "bfloat16[] 0x7f80" },
    { "NaN of either sign wins", "reduce_max", "float16[3] 0x7c00 0xfe00 0x3c00", "",
      "float16[] 0xfe00" },
    { "also in a minimum", "reduce_min", "bfloat16[3] 0xff80 0x7fc0 0", "", "bfloat16[] 0x7fc0" },
    { "the sum of nothing", "reduce_sum", "complex64[0,2]", "axes=0", "complex64[2] 0 0 0 0" },
    { "the product of nothing", "reduce_prod", "complex128[0]", "", "complex128[] 1 0" },
    { "the product of no integers", "reduce_prod", "int8[0,2]", "axes=0", "int8[2] 1 1" },
    { "any of nothing", "reduce_any", "bool[0]", "", "bool[] 0" },
    { "all of nothing", "reduce_all", "bool[0]", "", "bool[] 1" },
    { "none of nothing", "reduce_sum", "float32[0,3]", "axes=1", "float32[0]" },
    { "dimensions that are not reduced may be 0", "reduce_max", "int8[2,0,3]", "axes=0,2",
      "int8[0]" },
    { "a product of small numbers is not 0 meanwhile", "reduce_prod",
      "float32[4] 1e30 1e-30 1e30 1e-30", "", "float32[] 1" },
    { "a sum of float16 may be infinite", "reduce_sum", "float16[2] 0x7bff 0x7bff", "",
      "float16[] 0x7c00" },
    { "infinities stay in sums of float64", "reduce_sum", "float64[3] 1 inf 2", "",
      "float64[] inf" },
    { "sums of float64 are compensated", "reduce_sum", "float64[2,2] 1 1e-17 1e16 1", "axes=1",
      "float64[2] 1 1e16" },
    { "the first of the greatest", "argmax", "float32[2,3] -0 0 -0 nan 1 nan", "", "int64[2] 0 0" },
    { "NaN of either sign", "argmin", "float16[3] 0xfc00 0xfe00 0x7e00", "", "int64[] 1" },
    { "unsigned numbers", "argmin", "uint64[3] 18446744073709551615 1 0", "", "int64[] 2" },
    { "axis counts from the end, too", "argmax", "int8[2,2,2] 1 2 3 4 8 7 6 5", "axis=-2",
      "int64[2,2] 1 1 0 0" },
    { "a sum of nothing comes first", "cumsum", "int8[2,2] 1 2 3 4", "axis=1 exclusive=true",
      "int8[2,2] 0 1 0 3" },
    { "float16 is rounded once for each result", "cumsum", "float16[4] 0x6800 0x3c00 0x3c00 0x3c00",
      "", "float16[4] 0x6800 0x6800 0x6801 0x6802" },
    { "parts of complex numbers", "cumsum", "complex64[3] 1 2 3 4 5 6", "reverse=true",
      "complex64[3] 9 12 8 10 5 6" },
};

TD_TEST_EACH(reductions_give, results)
{
    struct op_call call;
    call_op(&call, results[_i].op, results[_i].attrs, tensor(results[_i].x), none, NULL);
    ck_assert_msg(call.status == TD_OK, "%s: %s", results[_i].says, call.err.message);
    expect_tensor(&call.args.outputs[0], results[_i].output, results[_i].says);
}

TD_TEST(the_mean_of_nothing_is_nan)
{
    struct op_call call;
    call_op(&call, "reduce_mean", "", tensor("float32[0]"), none, NULL);
    ck_assert_int_eq(call.status, TD_OK);
    ck_assert(isnan(*(const float *)call.args.outputs[0].data));
}

/* ---- Errors ------------------------------------------------------------------------------ */

#define ORDERED                                                                                    \
    "expected int8, int16, int32, int64, uint8, uint16, uint32, uint64, float16, bfloat16, "       \
    "float32 or float64"
#define NUMBERS                                                                                    \
    "expected int8, int16, int32, int64, uint8, uint16, uint32, uint64, float16, bfloat16, "       \
    "float32, float64, complex64 or complex128"

static const struct {
    const char *says;
    const char *op, *x, *attrs;
    td_status status;
    const char *message, *input, *attribute;
} refusals[] = {
    { "an axis above", "reduce_sum", "int32[1,2] 1 2", "axes=1,2", TD_INVALID_AXIS,
      "axes[1] = 2 is not in [-2, 2): x has shape [1,2]", "", "axes" },
    { "an axis below", "reduce_max", "int32[1,2] 1 2", "axes=-3", TD_INVALID_AXIS,
      "axes[0] = -3 is not in [-2, 2): x has shape [1,2]", "", "axes" },
    { "an axis of a scalar", "reduce_mean", "float32[] 1", "axes=0", TD_INVALID_AXIS,
      "axes[0] is 0, but x is a scalar", "", "axes" },
    { "an axis twice", "reduce_all", "bool[1,2] 1 1", "axes=0,1,-2", TD_INVALID_AXIS,
      "axes[2] is -2, which is dimension 0 again; expected each dimension at most once", "",
      "axes" },
    { "the maximum of nothing", "reduce_max", "float32[2,0,3]", "axes=1,2", TD_INVALID_ARGUMENT,
      "dimension 1 of x is 0; reduce_max needs at least one element along it: x has shape [2,0,3]",
      "x", "" },
    { "also if the output is empty", "reduce_min", "int8[0,0]", "axes=1", TD_INVALID_ARGUMENT,
      "dimension 1 of x is 0; reduce_min needs at least one element along it: x has shape [0,0]",
      "x", "" },
    { "the position of nothing", "argmin", "int8[2,0]", "", TD_INVALID_ARGUMENT,
      "dimension 1 of x is 0; argmin needs at least one element along it: x has shape [2,0]", "x",
      "" },
    { "a position in a scalar", "argmax", "int8[] 1", "", TD_INVALID_AXIS,
      "axis is -1, but x is a scalar", "", "axis" },
    { "a position along no axis", "argmax", "int8[2,1] 1 2", "axis=2", TD_INVALID_AXIS,
      "axis = 2 is not in [-2, 2): x has shape [2,1]", "", "axis" },
    { "a cumulative sum of a scalar", "cumsum", "int8[] 1", "", TD_INVALID_AXIS,
      "axis is 0, but x is a scalar", "", "axis" },
    { "the mean of integers", "reduce_mean", "int32[1] 1", "", TD_UNSUPPORTED_DTYPE,
      "x has dtype int32; expected float16, bfloat16, float32, float64, complex64 or complex128; "
      "the op cast with dtype = float64 converts it",
      "x", "" },
    { "the sum of bool", "reduce_sum", "bool[1] 1", "", TD_UNSUPPORTED_DTYPE,
      "x has dtype bool; " NUMBERS "; the op cast with dtype = int64 converts it", "x", "" },
    { "the maximum of complex numbers", "reduce_max", "complex64[1] 1 0", "", TD_UNSUPPORTED_DTYPE,
      "x has dtype complex64; " ORDERED, "x", "" },
    { "any of numbers", "reduce_any", "float32[1] 1", "", TD_UNSUPPORTED_DTYPE,
      "x has dtype float32; expected bool", "x", "" },
    { "the position of a string", "argmax", "string[1] 'a'", "", TD_UNSUPPORTED_DTYPE,
      "x has dtype string; " ORDERED, "x", "" },
    { "the cumulative sum of bool", "cumsum", "bool[1] 1", "", TD_UNSUPPORTED_DTYPE,
      "x has dtype bool; " NUMBERS "; the op cast with dtype = int64 converts it", "x", "" },
};

TD_TEST_EACH(reductions_refuse, refusals)
{
    struct op_call call;
    call_begin(&call, refusals[_i].op, refusals[_i].attrs, tensor(refusals[_i].x), none);
    call_infer(&call, refusals[_i].op);
    expect_refusal(&call, refusals[_i].status, refusals[_i].message, refusals[_i].input,
                   refusals[_i].attribute, refusals[_i].says);
}

/* ---- Against the definition -------------------------------------------------------------- */

#define ALL_INTEGERS                                                                               \
    TD_DTYPE_INT8, TD_DTYPE_INT16, TD_DTYPE_INT32, TD_DTYPE_INT64, TD_DTYPE_UINT8,                 \
        TD_DTYPE_UINT16, TD_DTYPE_UINT32, TD_DTYPE_UINT64
#define ALL_FLOATS  TD_DTYPE_FLOAT16, TD_DTYPE_BFLOAT16, TD_DTYPE_FLOAT32, TD_DTYPE_FLOAT64
#define ALL_COMPLEX TD_DTYPE_COMPLEX64, TD_DTYPE_COMPLEX128

static const td_dtype dtypes[] = { ALL_INTEGERS, ALL_FLOATS, ALL_COMPLEX, TD_DTYPE_BOOL };

static const char *const ops[] = { "reduce_sum", "reduce_mean", "reduce_prod", "reduce_max",
                                   "reduce_min", "reduce_any",  "reduce_all",  "argmax",
                                   "argmin",     "cumsum" };

static bool is(const char *op, const char *name)
{
    return strcmp(op, name) == 0;
}

static bool accepts(const char *op, td_dtype dtype)
{
    return td_op_named(op, strlen(op))->inputs[0].dtypes >> dtype & 1;
}

/* A few large dimensions, so that a tensor is divided, and many small ones, 0 and 1 among them. */
static struct td_shape random_shape(void)
{
    static const int large[] = { 33, 64, 100, 257, 1025, 2049, 70001 };
    struct td_shape shape = { .rank = random_below(6) };
    int64_t numel = 1;
    for (int d = 0; d < shape.rank; d++) {
        int64_t size = random_below(4) ? random_below(9) + (random_below(20) != 0)
                                       : large[random_below(COUNT_OF(large))];
        if (numel * size > 150000)
            size = 1;
        shape.dim[d] = size;
        numel *= size > 0 ? size : 1;
    }
    return shape;
}

/* Finite numbers of similar magnitude, so that rounding matters, from 0.5 to 2 for products. */
static void make_numbers(struct td_tensor *t, bool around_one)
{
    for (int64_t i = 0; i < t->numel; i++) {
        const uint64_t mantissa = random_next(), sign = random_next() & !around_one;
        const uint64_t scale = around_one ? random_next() & 1 : random_next() & 3;
        if (t->dtype == TD_DTYPE_FLOAT32)
            ((uint32_t *)t->data)[i] =
                (uint32_t)(sign << 31 | (126 + scale) << 23 | mantissa >> 41);
        else if (t->dtype == TD_DTYPE_FLOAT64)
            ((uint64_t *)t->data)[i] = sign << 63 | (1022 + scale) << 52 | mantissa >> 12;
        else if (t->dtype == TD_DTYPE_FLOAT16)
            ((uint16_t *)t->data)[i] = (uint16_t)(sign << 15 | (14 + scale) << 10 | mantissa >> 54);
        else if (t->dtype == TD_DTYPE_BFLOAT16)
            ((uint16_t *)t->data)[i] = (uint16_t)(sign << 15 | (126 + scale) << 7 | mantissa >> 57);
    }
}

/* Numbers of the unit circle, or numbers whose parts have similar magnitudes. */
static void make_complex(struct td_tensor *t, bool on_circle)
{
    for (int64_t i = 0; i < 2 * t->numel; i += 2) {
        const int turn = random_below(4);
        double parts[2] = { (turn == 0) - (turn == 2), (turn == 1) - (turn == 3) };
        for (int part = 0; part < 2 && !on_circle; part++)
            parts[part] = (double)(int32_t)random_next() * 0x1p-30;
        for (int part = 0; part < 2; part++)
            if (t->dtype == TD_DTYPE_COMPLEX64)
                ((float *)t->data)[i + part] = (float)parts[part];
            else
                ((double *)t->data)[i + part] = parts[part];
    }
}

static void make_finite(const char *op, struct td_tensor *t)
{
    if (td_dtype_is_complex(t->dtype))
        make_complex(t, is(op, "reduce_prod"));
    else
        make_numbers(t, is(op, "reduce_prod"));
}

/* Any bits for ops that compare: NaN, infinities, few different elements. */
static struct td_tensor random_x(const char *op, td_dtype dtype, const struct td_shape *shape)
{
    struct td_tensor x = random_tensor(dtype, shape);
    const size_t size = td_dtype_info(dtype)->size;
    const bool adds =
        is(op, "reduce_sum") || is(op, "reduce_mean") || is(op, "reduce_prod") || is(op, "cumsum");
    const int distinct = random_below(3) ? 0 : 1 + random_below(20);
    const bool ordinary = random_below(2); /* else random bits, often NaN as float16 */
    if (adds || ordinary)
        make_finite(op, &x);
    for (int64_t i = 0; dtype == TD_DTYPE_BOOL && i < x.numel; i++)
        ((uint8_t *)x.data)[i] =
            (uint8_t)(random_below(50) == 0 ? random_below(256) : distinct % 2);
    for (int64_t i = 0; !adds && distinct > 0 && i < x.numel; i++)
        memmove((char *)x.data + (size_t)i * size,
                (char *)x.data + (size_t)random_below(distinct) % (size_t)x.numel * size, size);
    return x;
}

/* What the definition says of one output element. */
struct expected {
    long double re, im, size; /* size: what rounding errors are relative to */
    uint64_t bits;            /* of integers */
    int64_t n, position;
};

static uint64_t bits_of(const struct td_tensor *t, int64_t i)
{
    size_t size;
    const void *at = tensor_element(t, i, &size);
    uint64_t bits = 0;
    memcpy(&bits, at, size < 8 ? size : 8);
    return bits;
}

static bool is_integer(td_dtype dtype)
{
    return !td_dtype_is_float(dtype) && !td_dtype_is_complex(dtype);
}

static void start(const char *op, struct expected *e)
{
    const bool one = is(op, "reduce_prod") || is(op, "reduce_all");
    *e = (struct expected){ .re = one, .bits = one };
}

static bool is_better(const char *op, long double a, long double b)
{
    const bool max = is(op, "reduce_max") || is(op, "argmax");
    if (isnan(a) || isnan(b))
        return isnan(a) && !isnan(b);
    return max ? a > b : a < b;
}

static void take(const char *op, const struct td_tensor *x, int64_t i, int64_t position,
                 struct expected *e)
{
    const bool complex = td_dtype_is_complex(x->dtype);
    const long double re = tensor_value(x, i, 0), im = complex ? tensor_value(x, i, 1) : 0;
    if (is(op, "reduce_any") || is(op, "reduce_all")) {
        const bool truth = bits_of(x, i) != 0;
        e->bits = is(op, "reduce_any") ? e->bits || truth : e->bits && truth;
    } else if (is(op, "reduce_prod")) {
        const long double was = e->re;
        e->re = was * re - e->im * im;
        e->im = was * im + e->im * re;
        e->bits *= bits_of(x, i);
        e->size = hypotl(e->re, e->im);
    } else if (is(op, "reduce_sum") || is(op, "reduce_mean") || is(op, "cumsum")) {
        e->re += re;
        e->im += im;
        e->bits += bits_of(x, i);
        e->size += hypotl(re, im);
    } else if (e->n == 0 || is_better(op, re, e->re)) {
        e->re = re;
        e->bits = bits_of(x, i);
        e->position = position;
    }
    e->n++;
}

/* Errors of a result with these roundings: one to the dtype, and the sum of at most CHAIN and a few
 * more numbers as float32, or of any number in the order of the pairwise sum as float64. */
static long double tolerance(td_dtype dtype, long double value, long double size)
{
    const td_dtype part = td_dtype_part(dtype);
    const long double last = part == TD_DTYPE_FLOAT16    ? 0x1p-11L
                             : part == TD_DTYPE_BFLOAT16 ? 0x1p-8L
                             : part == TD_DTYPE_FLOAT32  ? 0x1p-24L
                                                         : 0x1p-53L;
    const long double sums = part == TD_DTYPE_FLOAT64 ? 0x1p-53L : 0x1p-24L;
    return fabsl(value) * last * 1.001L + 20 * sums * size;
}

/* True if the value is too large for the dtype, or so small that it has fewer digits. */
static bool is_out_of_range(td_dtype dtype, long double value, long double got)
{
    const td_dtype part = td_dtype_part(dtype);
    const long double most = part == TD_DTYPE_FLOAT16   ? 65504
                             : part == TD_DTYPE_FLOAT64 ? (long double)DBL_MAX
                                                        : 3.38e38L;
    const long double least = part == TD_DTYPE_FLOAT16   ? 0x1p-14L
                              : part == TD_DTYPE_FLOAT64 ? 0x1p-1000L
                                                         : 0x1p-126L;
    return (fabsl(value) > most && isinf(got)) || (fabsl(value) < least && fabsl(got) <= least);
}

static void expect_element(const char *op, const struct td_tensor *out, int64_t i,
                           const struct expected *e, const char *what)
{
    const td_dtype dtype = out->dtype;
    const bool compares = is(op, "reduce_max") || is(op, "reduce_min");
    if (dtype == TD_DTYPE_INT64 && (is(op, "argmax") || is(op, "argmin"))) {
        EXPECT(((const int64_t *)out->data)[i] == e->position,
               "%s: element %" PRId64 " is %" PRId64 "; expected %" PRId64, what, i,
               ((const int64_t *)out->data)[i], e->position);
        return;
    }
    if (is_integer(dtype)) {
        const size_t size = td_dtype_info(dtype)->size;
        const uint64_t mask = size == 8 ? UINT64_MAX : ((uint64_t)1 << (8 * size)) - 1;
        EXPECT(bits_of(out, i) == (e->bits & mask),
               "%s: element %" PRId64 " is %" PRIx64 "; expected %" PRIx64, what, i,
               bits_of(out, i), e->bits & mask);
        return;
    }
    const long double n = is(op, "reduce_mean") ? (long double)e->n : 1;
    for (int part = 0; part < (td_dtype_is_complex(dtype) ? 2 : 1); part++) {
        const long double want = (part ? e->im : e->re) / n, got = tensor_value(out, i, part);
        const long double off = compares ? 0 : tolerance(dtype, want, e->size / n);
        const long double products = is(op, "reduce_prod") ? (long double)(e->n + 1) : 1;
        EXPECT((isnan(want) && isnan(got)) || got == want || is_out_of_range(dtype, want, got) ||
                   fabsl(got - want) <= off * products,
               "%s: element %" PRId64 " is %.20Lg; expected %.20Lg within %Lg", what, i, got, want,
               off * products);
    }
}

/* The position in the output of element i of x, and its position along the axes. */
static int64_t output_position(const struct td_shape *x, uint32_t axes, int64_t i, int64_t *along)
{
    int64_t at[TD_MAX_RANK], position = 0;
    td_shape_unravel(x, i, at);
    *along = 0;
    for (int d = 0; d < x->rank; d++)
        if (axes >> d & 1)
            *along = *along * x->dim[d] + at[d];
        else
            position = position * x->dim[d] + at[d];
    return position;
}

static void expect_reduction(const char *op, const struct td_tensor *x, uint32_t axes,
                             const struct td_tensor *out, const char *what)
{
    struct td_error err;
    struct expected *all =
        td_arena_alloc(&test_arena, (size_t)out->numel + 1, sizeof(struct expected), &err);
    EXPECT(all != NULL, "%s", err.message);
    for (int64_t i = 0; i < out->numel; i++)
        start(op, &all[i]);
    for (int64_t i = 0; i < x->numel; i++) {
        int64_t along;
        const int64_t to = output_position(&x->shape, axes, i, &along);
        take(op, x, i, along, &all[to]);
    }
    for (int64_t i = 0; i < out->numel; i++)
        expect_element(op, out, i, &all[i], what);
}

/* Cumulative sums along dimension d. */
static void expect_cumsum(const struct td_tensor *x, int d, bool exclusive, bool reverse,
                          const struct td_tensor *out, const char *what)
{
    const int64_t n = x->shape.dim[d];
    int64_t stride;
    (void)td_shape_product(&x->shape, d + 1, x->shape.rank, &stride);
    for (int64_t line = 0; x->numel > 0 && line < x->numel / n; line++) {
        const int64_t first = line / stride * n * stride + line % stride;
        struct expected e;
        start("cumsum", &e);
        for (int64_t k = 0; k < n; k++) {
            const int64_t i = first + (reverse ? n - 1 - k : k) * stride;
            if (exclusive)
                expect_element("cumsum", out, i, &e, what);
            take("cumsum", x, i, k, &e);
            if (!exclusive)
                expect_element("cumsum", out, i, &e, what);
        }
    }
}

/* Attributes of a random call, and what they mean. */
struct choice {
    char attrs[96];
    uint32_t axes;
    int axis;
    bool exclusive, reverse, keepdims;
};

static void choose(const char *op, const struct td_shape *x, struct choice *c)
{
    memset(c, 0, sizeof(*c));
    if (strncmp(op, "reduce", 6) != 0) {
        c->axis = random_below(x->rank);
        c->axes = (uint32_t)1 << c->axis;
        c->exclusive = random_below(2);
        c->reverse = random_below(2);
        snprintf(c->attrs, sizeof(c->attrs),
                 is(op, "cumsum") ? "axis=%d exclusive=%s reverse=%s" : "axis=%d",
                 c->axis - (random_below(2) ? x->rank : 0), c->exclusive ? "true" : "false",
                 c->reverse ? "true" : "false");
        return;
    }
    size_t used = (size_t)snprintf(c->attrs, sizeof(c->attrs), "axes='");
    for (int k = 0; k < x->rank; k++) {
        const int d = (k + 1) % x->rank; /* not in order */
        if (random_below(2))
            continue;
        used += (size_t)snprintf(c->attrs + used, sizeof(c->attrs) - used, "%s%d",
                                 c->axes ? "," : "", d - (random_below(2) ? x->rank : 0));
        c->axes |= (uint32_t)1 << d;
    }
    c->keepdims = random_below(2);
    snprintf(c->attrs + used, sizeof(c->attrs) - used, "' keepdims=%s",
             c->keepdims ? "true" : "false");
}

static bool has_empty(const struct td_shape *x, uint32_t axes)
{
    for (int d = 0; d < x->rank; d++)
        if ((axes >> d & 1) && x->dim[d] == 0)
            return true;
    return false;
}

TD_TEST_LOOP(any_reduction_is_what_the_definition_says, 0, COUNT_OF(ops) * COUNT_OF(dtypes))
{
    enum { SAMPLES = 12 };
    const char *op = ops[_i % COUNT_OF(ops)];
    const td_dtype dtype = dtypes[_i / COUNT_OF(ops)];
    for (int s = 0; accepts(op, dtype) && s < SAMPLES * test_effort(); s++) {
        const int seed = _i + s * COUNT_OF(ops) * COUNT_OF(dtypes);
        char what[256], shape_text[TD_SHAPE_TEXT];
        struct thread_exec exec;
        struct op_call call;
        struct choice c;
        td_arena_reset(&test_arena);
        random_seed((uint64_t)seed);
        struct td_shape shape = random_shape();
        if (strncmp(op, "reduce", 6) != 0 && shape.rank == 0)
            continue;
        choose(op, &shape, &c);
        const bool mean_of_none = is(op, "reduce_mean") && has_empty(&shape, c.axes);
        const bool needs = is(op, "reduce_max") || is(op, "reduce_min") || strstr(op, "arg");
        if (mean_of_none || (needs && has_empty(&shape, c.axes)))
            continue;
        struct td_tensor x = random_x(op, dtype, &shape);
        thread_exec_init(&exec, 1 + random_below(3), random_below(2) ? 0 : 1 + random_below(5));
        exec.exec.isa = (td_isa)(TD_ISA_GENERIC + random_below(3));
        exec.backwards = random_below(2);
        snprintf(what, sizeof(what), "seed %d: %s %s %s %s, %s", seed, op,
                 td_dtype_info(dtype)->name, td_shape_text(&shape, shape_text, sizeof(shape_text)),
                 c.attrs, td_isa_name(td_isa_resolve(exec.exec.isa)));
        call_op(&call, op, c.attrs, x, none, &exec.exec);
        EXPECT(call.status == TD_OK, "%s: %s", what, call.err.message);
        const struct td_tensor *out = &call.args.outputs[0];
        if (is(op, "cumsum"))
            expect_cumsum(&x, c.axis, c.exclusive, c.reverse, out, what);
        else
            expect_reduction(op, &x, c.axes, out, what);
    }
}

TD_TEST(the_shape_of_a_reduction_has_the_other_dimensions)
{
    static const struct {
        const char *op, *x, *attrs, *shape;
    } shapes[] = {
        { "reduce_sum", "int8[2,3,4]", "axes=1", "[2,4]" },
        { "reduce_sum", "int8[2,3,4]", "axes=-1,0", "[3]" },
        { "reduce_sum", "int8[2,3,4]", "axes=-1,0 keepdims=true", "[1,3,1]" },
        { "reduce_sum", "int8[2,3,4]", "keepdims=true", "[1,1,1]" },
        { "reduce_sum", "int8[2,3,4]", "axes='' keepdims=true", "[2,3,4]" },
        { "argmax", "int8[2,3,4]", "", "[2,3]" },
        { "argmax", "int8[2,3,4]", "axis=0", "[3,4]" },
        { "cumsum", "int8[2,3,4]", "", "[2,3,4]" },
    };
    for (int i = 0; i < COUNT_OF(shapes); i++) {
        struct op_call call;
        call_begin(&call, shapes[i].op, shapes[i].attrs, tensor_without_data(shapes[i].x), none);
        call_infer(&call, shapes[i].op);
        expect_shape(&call.args.outputs[0].shape, shapes[i].shape, shapes[i].attrs);
    }
}

/* ---- The same bits ----------------------------------------------------------------------- */

/* Rows and columns around the lanes, groups, chunks and tiles of the loops. */
static const struct {
    const char *x, *axes;
} divided[] = {
    { "[100000]", "0" },    { "[70000,2]", "0" },  { "[2,70000]", "1" },
    { "[40000,3]", "0,1" }, { "[5000,33]", "0" },  { "[33,5000]", "1" },
    { "[3,1030,40]", "1" }, { "[300,1030]", "0" }, { "[40,50,60]", "0,2" },
    { "[60,2,1025]", "1" }, { "[9000,7]", "1" },   { "[5,17,63]", "1" },
    { "[64,15]", "1" },     { "[64,1023]", "1" },  { "[2,2,30000]", "0,2" },
};

static struct td_tensor numbers_like(const char *op, td_dtype dtype, const char *shape_text)
{
    const struct td_shape dims = shape(shape_text);
    struct td_tensor x = random_tensor(dtype, &dims);
    make_finite(op, &x);
    return x;
}

TD_TEST_LOOP(bits_depend_neither_on_threads_nor_on_the_instruction_set, 0,
             COUNT_OF(ops) * COUNT_OF(divided))
{
    const char *op = ops[_i % COUNT_OF(ops)], *axes = divided[_i / COUNT_OF(ops)].axes;
    const bool one_axis = strncmp(op, "reduce", 6) != 0;
    for (int k = 0; k < COUNT_OF(dtypes); k++) {
        struct op_call want, got;
        char attrs[32], what[128];
        if (!accepts(op, dtypes[k]) || (one_axis && strlen(axes) > 1))
            continue;
        td_arena_reset(&test_arena);
        random_seed((uint64_t)(100 * _i + k));
        snprintf(attrs, sizeof(attrs), "%s=%s", one_axis ? "axis" : "axes", axes);
        const struct td_tensor x = numbers_like(op, dtypes[k], divided[_i / COUNT_OF(ops)].x);
        for (td_isa isa = TD_ISA_GENERIC; isa < TD_ISA_COUNT; isa++) {
            struct thread_exec exec;
            const bool first = isa == TD_ISA_GENERIC;
            if (!td_isa_supported(isa))
                continue;
            thread_exec_init(&exec, first ? 1 : 3, first ? 0 : 1 + random_below(7));
            exec.exec.isa = isa;
            exec.backwards = !first;
            call_op(first ? &want : &got, op, attrs, x, none, &exec.exec);
            snprintf(what, sizeof(what), "%s %s, %s", op, td_dtype_info(dtypes[k])->name,
                     td_isa_name(isa));
            EXPECT((first ? &want : &got)->status == TD_OK, "%s", what);
            if (!first)
                expect_same_tensor(&got.args.outputs[0], &want.args.outputs[0], what);
        }
    }
}

/* ---- Special values in long rows --------------------------------------------------------- */

/* A NaN, a zero of the other sign or an infinity, anywhere in a row that the loops compare as
 * floats. */
static const struct {
    const char *says;
    const char *op;
    float others, special, want;
} specials[] = {
    { "NaN", "reduce_max", 1, NAN, NAN },
    { "NaN in a minimum", "reduce_min", 1, NAN, NAN },
    { "a negative NaN", "reduce_max", 1, -NAN, -NAN },
    { "a negative NaN in a minimum", "reduce_min", 1, -NAN, -NAN },
    { "0 among -0", "reduce_max", -0.0f, 0.0f, 0.0f },
    { "-0 among 0", "reduce_min", 0.0f, -0.0f, -0.0f },
    { "an infinity", "reduce_max", -INFINITY, INFINITY, INFINITY },
    { "a negative infinity", "reduce_min", INFINITY, -INFINITY, -INFINITY },
    { "the largest number", "reduce_max", -INFINITY, -FLT_MAX, -FLT_MAX },
    { "sums that overflow", "reduce_max", FLT_MAX, INFINITY, INFINITY },
    { "negative numbers", "reduce_max", -3, -2, -2 },
    { "positive numbers", "reduce_min", 3, 2, 2 },
};

TD_TEST_EACH(long_rows_have_special_values_anywhere, specials)
{
    static const int64_t places[] = { 0, 1, 63, 64, 1000, 1023, 4095, 4096, 4999 };
    const struct td_shape dims = { .rank = 1, .dim = { 5000 } };
    for (int wide = 0; wide < 2; wide++)
        for (int k = 0; k < COUNT_OF(places) * TD_ISA_COUNT; k++) {
            struct thread_exec exec;
            struct op_call call;
            td_arena_reset(&test_arena);
            struct td_tensor x = random_tensor(wide ? TD_DTYPE_FLOAT64 : TD_DTYPE_FLOAT32, &dims);
            for (int64_t i = 0; i < x.numel; i++) {
                const float value =
                    i == places[k % COUNT_OF(places)] ? specials[_i].special : specials[_i].others;
                if (wide)
                    ((double *)x.data)[i] = (double)value;
                else
                    ((float *)x.data)[i] = value;
            }
            thread_exec_init(&exec, 1, 0);
            exec.exec.isa = (td_isa)(k / COUNT_OF(places));
            call_op(&call, specials[_i].op, "", x, none, &exec.exec);
            const long double got = tensor_value(&call.args.outputs[0], 0, 0);
            const long double want = (long double)specials[_i].want;
            EXPECT((isnan(got) && isnan(want)) || got == want, "%s: %Lg", specials[_i].says, got);
            EXPECT(!signbit(got) == !signbit(want), "%s: the sign", specials[_i].says);
        }
}

TD_TEST(rows_of_bool_are_decided_anywhere)
{
    static const int64_t places[] = { 0, 4095, 4096, 9000, 39999 };
    const struct td_shape dims = { .rank = 2, .dim = { 2, 40000 } };
    for (int k = 0; k < 2 * COUNT_OF(places); k++) {
        const bool any = k % 2;
        struct op_call call;
        td_arena_reset(&test_arena);
        struct td_tensor x = random_tensor(TD_DTYPE_BOOL, &dims);
        memset(x.data, !any, (size_t)x.numel);
        ((uint8_t *)x.data)[40000 + places[k / 2]] = any;
        call_op(&call, any ? "reduce_any" : "reduce_all", "axes=1", x, none, NULL);
        expect_tensor(&call.args.outputs[0], any ? "bool[2] 0 1" : "bool[2] 1 0", "rows");
    }
}

/* ---- Accuracy ---------------------------------------------------------------------------- */

/* The pairwise sum of NumPy: blocks of up to 128, each with eight partial sums. */
static float pairwise(const float *x, int64_t n)
{
    float sums[8] = { 0 };
    if (n > 128) {
        const int64_t half = n / 2 / 8 * 8;
        return pairwise(x, half) + pairwise(x + half, n - half);
    }
    for (int64_t i = 0; i < n; i++)
        sums[i % 8] += x[i];
    return ((sums[0] + sums[1]) + (sums[2] + sums[3])) +
           ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

static long double error_of(const struct td_tensor *x, float sum)
{
    long double exact = 0;
    for (int64_t i = 0; i < x->numel; i++)
        exact += (long double)((const float *)x->data)[i];
    return fabsl((long double)sum - exact);
}

TD_TEST(sums_of_float32_are_no_worse_than_pairwise_sums)
{
    long double ours = 0, theirs = 0;
    for (int seed = 0; seed < 60; seed++) {
        struct op_call call;
        td_arena_reset(&test_arena);
        random_seed((uint64_t)seed);
        const struct td_shape dims = { .rank = 1, .dim = { 1 + random_below(300000) } };
        struct td_tensor x = random_tensor(TD_DTYPE_FLOAT32, &dims);
        make_numbers(&x, seed % 2);
        call_op(&call, "reduce_sum", "", x, none, NULL);
        ours += error_of(&x, *(const float *)call.args.outputs[0].data);
        theirs += error_of(&x, pairwise(x.data, x.numel));
    }
    EXPECT(ours <= theirs, "the errors are %Lg; those of pairwise sums are %Lg", ours, theirs);
}

/* Also along other dimensions, where a sum in order would be off by 1e-4 and more. */
TD_TEST(long_columns_are_accurate)
{
    static const char *const shapes[] = { "[300000,1]", "[300000,2]", "[100000,5]", "[4000,70]" };
    for (int i = 0; i < COUNT_OF(shapes); i++) {
        struct op_call call;
        td_arena_reset(&test_arena);
        const struct td_shape dims = shape(shapes[i]);
        struct td_tensor x = random_tensor(TD_DTYPE_FLOAT32, &dims);
        for (int64_t k = 0; k < x.numel; k++)
            ((float *)x.data)[k] = 0.1f;
        call_op(&call, "reduce_sum", "axes=0", x, none, NULL);
        for (int64_t k = 0; k < dims.dim[1]; k++) {
            const long double exact = (long double)0.1f * (long double)dims.dim[0];
            const long double got = tensor_value(&call.args.outputs[0], k, 0);
            EXPECT(fabsl(got / exact - 1) < 2e-7L, "%s: %Lg, not %Lg", shapes[i], got, exact);
        }
    }
}

TD_TEST(sums_of_float64_do_not_lose_small_elements)
{
    const struct td_shape dims = { .rank = 1, .dim = { 1 << 20 } };
    struct td_tensor x = random_tensor(TD_DTYPE_FLOAT64, &dims);
    struct op_call call;
    for (int64_t i = 0; i < x.numel; i++)
        ((double *)x.data)[i] = i < 1024 ? 0x1p53 : 1;
    call_op(&call, "reduce_sum", "", x, none, NULL);
    EXPECT(*(const double *)call.args.outputs[0].data == 0x1p63 + (double)((1 << 20) - 1024), "%a",
           *(const double *)call.args.outputs[0].data);
}

/* Elements of at least 0 never make a cumulative sum smaller, also from one chunk to the next. */
TD_TEST_LOOP(cumulative_sums_of_positive_numbers_never_decrease, 0, 6)
{
    static const td_dtype floats[] = { TD_DTYPE_FLOAT32, TD_DTYPE_FLOAT64, TD_DTYPE_FLOAT16 };
    const struct td_shape dims = { .rank = 2, .dim = { 40000, _i < 3 ? 1 : 3 } };
    struct td_tensor x = random_tensor(floats[_i % 3], &dims);
    struct op_call call;
    make_numbers(&x, true);
    call_op(&call, "cumsum", "", x, none, NULL);
    const struct td_tensor *out = &call.args.outputs[0];
    for (int64_t i = dims.dim[1]; i < x.numel; i++)
        EXPECT(tensor_value(out, i, 0) >= tensor_value(out, i - dims.dim[1], 0), "at %" PRId64, i);
}

/* ---- Cost, deadlines and memory ---------------------------------------------------------- */

static const struct {
    const char *says;
    const char *op, *x, *attrs;
    uint64_t flops, workspace;
} costs[] = {
    { "no workspace for rows", "reduce_sum", "float32[100,1000]", "axes=1", 100000, 0 },
    { "nor for columns", "reduce_sum", "float32[10,1000]", "axes=0", 10000, 0 },
    { "a result for each chunk of a long row", "reduce_sum", "float32[1048576]", "", 1048576,
      32 * 8 },
    { "in the dtype of x, unless it is a float", "reduce_max", "float32[1048576]", "", 1048576,
      32 * 4 },
    { "results of each step", "reduce_sum", "float32[200,30,20]", "axes=0,2", 120000,
      (4 * 600 + 4 * 30) * 8 },
    { "keys and positions of chunks", "argmax", "int8[1048576]", "", 2097152, 2 * 32 * 8 },
    { "no workspace for short rows", "cumsum", "float32[100,1000]", "axis=1", 100000, 0 },
    { "sums of all chunks, twice", "cumsum", "float32[8192]", "", 16384, 2 * 8 * 8 },
    { "nothing for nothing", "reduce_sum", "float32[0,4]", "axes=1", 0, 0 },
};

TD_TEST_EACH(cost_follows_from_shapes, costs)
{
    struct op_call call;
    const struct td_tensor x = tensor_without_data(costs[_i].x);
    call_begin(&call, costs[_i].op, costs[_i].attrs, x, none);
    call_infer(&call, costs[_i].op);
    const struct td_cost cost = call.args.op->cost(&call.args);
    const uint64_t passes = is(costs[_i].op, "cumsum") && costs[_i].workspace > 0 ? 2 : 1;
    ck_assert_uint_eq(cost.bytes_read, passes * x.bytes);
    ck_assert_uint_eq(cost.bytes_written, call.args.outputs[0].bytes);
    ck_assert_msg(
        cost.flops == costs[_i].flops && cost.workspace == (costs[_i].workspace + 63) / 64 * 64,
        "%s: flops %" PRIu64 ", workspace %" PRIu64, costs[_i].says, cost.flops, cost.workspace);
}

static const struct {
    const char *op, *x, *attrs;
} divisible[] = {
    { "reduce_sum", "float32[500000]", "" },       { "reduce_max", "float32[300,2000]", "axes=0" },
    { "reduce_prod", "int8[3000,200]", "axes=1" }, { "argmax", "int32[500000]", "" },
    { "argmin", "int16[3000,200]", "axis=0" },     { "cumsum", "float32[400000]", "" },
    { "cumsum", "float16[2000,300]", "axis=0" },   { "reduce_any", "bool[500000]", "" },
};

TD_TEST_EACH(a_deadline_ends_a_reduction, divisible)
{
    const struct td_tensor like = tensor_without_data(divisible[_i].x);
    struct op_call call;
    call_begin(&call, divisible[_i].op, divisible[_i].attrs, random_tensor(like.dtype, &like.shape),
               none);
    expect_deadlines(&call, divisible[_i].op, 3, divisible[_i].x);
}

TD_TEST(without_memory_a_reduction_is_refused)
{
    static const char *const with_chunks[] = { "reduce_sum", "argmax", "cumsum" };
    const struct td_shape dims = { .rank = 1, .dim = { 100000 } };
    for (int i = 0; i < COUNT_OF(with_chunks); i++)
        expect_memory_needed(with_chunks[i], "", random_tensor(TD_DTYPE_INT8, &dims), none);
}

/* The memory for the results of chunks. */
TD_TEST_EACH(without_workspace_a_reduction_is_refused, divisible)
{
    const struct td_tensor like = tensor_without_data(divisible[_i].x);
    struct op_call call;
    struct td_arena empty;
    char first[1];
    call_begin(&call, divisible[_i].op, divisible[_i].attrs, random_tensor(like.dtype, &like.shape),
               none);
    call_infer(&call, divisible[_i].op);
    EXPECT_OK(td_tensor_alloc(&call.args.outputs[0], &test_arena, &call.err), &call.err);
    td_arena_init(&empty, first, 0, &no_memory);
    td_exec_serial(&call.serial, &empty);
    const bool needs = call.args.op->cost(&call.args).workspace > 0;
    const td_status status = call.args.op->run(&call.args, &call.serial, &call.err);
    EXPECT(status == (needs ? TD_MEMORY_EXHAUSTED : TD_OK), "%s", divisible[_i].op);
}
