#include "kernels/convert/convert.h"
#include "kernels/normalisation/normalisation.h"
#include "tests/support/op_call.h"
#include "tests/support/random.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"
#include "tests/support/threads.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { X, GAIN, BIAS, INPUTS };

static struct td_operand operand(const struct td_tensor *tensor)
{
    struct td_error err;
    struct td_operand copy = { td_arena_alloc(&test_arena, 1, sizeof(*tensor), &err), 1 };
    EXPECT(copy.tensors, "%s", err.message);
    *copy.tensors = *tensor;
    return copy;
}

/* Begins a call with the inputs "x; scale; bias", of which the last can be missing. */
static void begin(struct op_call *call, const char *op, const char *inputs, const char *attrs)
{
    struct td_tensor tensors[INPUTS];
    const int n = tensor_list(inputs, tensors, INPUTS);
    call_begin(call, op, attrs, tensors[X], n > GAIN ? tensors[GAIN] : (struct td_tensor){ 0 });
    if (n > BIAS)
        call->args.inputs[BIAS] = operand(&tensors[BIAS]);
}

/* ---- Special values ---------------------------------------------------------------------- */

/* Beside those of tests/conformance/cases. */
static const struct {
    const char *says;
    const char *op, *inputs, *attrs;
    const char *output;
} results[] = {
    { "a softmax of large elements does not overflow", "softmax", "float32[2] 3e38 3e38", "",
      "float32[2] 0.5 0.5" },
    { "a masked element is 0", "softmax", "float32[3] 1 -inf 1", "", "float32[3] 0.5 0 0.5" },
    { "and so is an element that is much smaller than another", "softmax", "float32[2] 0 -90", "",
      "float32[2] 1 0" },
    { "the logarithm of a masked element is -infinity", "log_softmax", "float32[2] 7 -inf", "",
      "float32[2] 0 -inf" },
    { "a scalar group", "softmax", "float64[3,1] 5 -1 0", "", "float64[3,1] 1 1 1" },
    { "along the first dimension", "softmax", "float32[2,3] 1 2 3 1 2 3", "axis=0",
      "float32[2,3] 0.5 0.5 0.5 0.5 0.5 0.5" },
    { "along a dimension in the middle", "softmax", "float64[1,2,2] 1 2 1 2", "axis=-2",
      "float64[1,2,2] 0.5 0.5 0.5 0.5" },
    { "no groups", "softmax", "float32[0,3]", "", "float32[0,3]" },
    { "empty groups", "softmax", "float32[3,0]", "", "float32[3,0]" },
    { "empty groups along the first dimension", "log_softmax", "float16[0,3]", "axis=0",
      "float16[0,3]" },
    { "halves are rounded once: 1/3", "softmax", "float16[3] 0 0 0", "",
      "float16[3] 0x3555 0x3555 0x3555" },
    { "a unit vector", "l2_normalize", "float64[4] 1 -1 1 1", "", "float64[4] 0.5 -0.5 0.5 0.5" },
    { "squares do not overflow", "l2_normalize", "float32[4] 0x1p100 0x1p100 0x1p100 0x1p100", "",
      "float32[4] 0.5 0.5 0.5 0.5" },
    { "nor do they underflow", "l2_normalize", "float32[4] 0x1p-90 0x1p-90 0x1p-90 0x1p-90",
      "epsilon=0", "float32[4] 0.5 0.5 0.5 0.5" },
    { "epsilon limits the divisor", "l2_normalize", "float64[2] 0.5 0", "epsilon=4",
      "float64[2] 0.25 0" },
    { "zeros stay zeros", "l2_normalize", "float32[2,2] 0 0 0 1", "", "float32[2,2] 0 0 0 1" },
    { "along the first dimension", "l2_normalize", "float64[4,2] 1 0 1 0 1 0 1 2", "axis=0",
      "float64[4,2] 0.5 0 0.5 0 0.5 0 0.5 1" },
    { "scale without bias", "layer_norm", "float64[2,2] 1 3 2 6; float64[2] 1 2", "epsilon=0",
      "float64[2,2] -1 2 -1 2" },
    { "a scale for all elements", "layer_norm", "float32[2] 1 3; float32[] 3; float32[1] 1",
      "epsilon=0", "float32[2] -2 4" },
    { "scale and bias are repeated along other dimensions", "layer_norm",
      "float32[1,2,2] -1 1 -1 1; float32[2,1] 1 2; float32[2] 10 20", "axis=1 epsilon=0",
      "float32[1,2,2] 9 21 8 22" },
    { "also as halves", "layer_norm",
      "float16[1,2,2] 0xbc00 0x3c00 0xbc00 0x3c00; float16[2,1] 0x3c00 0x4000; float16[1] 0x3c00",
      "axis=1 epsilon=0", "float16[1,2,2] 0 0x4000 0xbc00 0x4200" },
    { "the variance of a constant is 0", "layer_norm",
      "float32[3] 0.1 0.1 0.1; float32[3] 1 1 1; float32[3] 1 2 3", "", "float32[3] 1 2 3" },
    { "a large mean", "layer_norm", "float32[4] 1000001 1000003 1000001 1000003; float32[1] 1",
      "epsilon=0", "float32[4] -1 1 -1 1" },
    { "an element far from the others", "layer_norm", "float64[5] 8 -2 -2 -2 -2; float64[1] 1",
      "epsilon=0", "float64[5] 2 -0.5 -0.5 -0.5 -0.5" },
    { "no rows", "layer_norm", "float32[0,2]; float32[2] 1 1", "", "float32[0,2]" },
    { "no elements", "layer_norm", "float32[2,0]; float32[0]", "", "float32[2,0]" },
};

TD_TEST_EACH(normalisation_gives, results)
{
    struct op_call call;
    begin(&call, results[_i].op, results[_i].inputs, results[_i].attrs);
    call_run(&call, results[_i].op, NULL);
    ck_assert_msg(call.status == TD_OK, "%s: %s", results[_i].says, call.err.message);
    expect_tensor(&call.args.outputs[0], results[_i].output, results[_i].says);
}

/* Groups that contain these elements become NaN. */
static const struct {
    const char *op, *x;
} not_numbers[] = {
    { "softmax", "float32[3] 1 nan 2" },       { "softmax", "float32[2] -inf -inf" },
    { "softmax", "float64[2] 1 inf" },         { "log_softmax", "float32[3] nan 1 2" },
    { "log_softmax", "float32[2] -inf -inf" }, { "l2_normalize", "float32[2] nan 1" },
    { "layer_norm", "float32[3] 1 2 nan" },    { "layer_norm", "float64[3] inf 2 1" },
    { "softmax", "float16[2] 0x7e00 0x3c00" },
};

TD_TEST_EACH(a_group_with_nan_is_nan, not_numbers)
{
    char inputs[80];
    struct op_call call;
    const char *x = not_numbers[_i].x;
    snprintf(inputs, sizeof(inputs), "%s; %.*s[1] 0", x, (int)strcspn(x, "["), x);
    begin(&call, not_numbers[_i].op, inputs, "");
    call_run(&call, not_numbers[_i].op, NULL);
    EXPECT(call.status == TD_OK, "%s", call.err.message);
    for (int64_t i = 0; i < call.args.outputs[0].numel; i++)
        EXPECT(isnan((double)tensor_value(&call.args.outputs[0], i, 0)), "%s %s: element %" PRId64,
               not_numbers[_i].op, x, i);
}

/* ---- Errors ------------------------------------------------------------------------------ */

static const struct {
    const char *says;
    const char *op, *inputs, *attrs;
    td_status status;
    const char *message, *input, *attribute;
} refusals[] = {
    { "a scalar", "softmax", "float32[] 1", "", TD_INVALID_AXIS,
      "x is a scalar; expected at least one dimension", "x", "" },
    { "an axis above", "log_softmax", "float32[1,2] 1 2", "axis=2", TD_INVALID_AXIS,
      "axis = 2 is not in [-2, 2): x has shape [1,2]", "", "axis" },
    { "an axis below", "layer_norm", "float32[2] 1 2; float32[2] 1 1", "axis=-2", TD_INVALID_AXIS,
      "axis = -2 is not in [-1, 1): x has shape [2]", "", "axis" },
    { "integers", "softmax", "int32[1] 1", "", TD_UNSUPPORTED_DTYPE,
      "x has dtype int32; expected float16, bfloat16, float32 or float64; the op cast with dtype = "
      "float64 converts it",
      "x", "" },
    { "a negative epsilon", "l2_normalize", "float32[1] 1", "epsilon=-1", TD_INVALID_ARGUMENT,
      "epsilon is -1; expected 0 or more", "", "epsilon" },
    { "a scale of another length", "layer_norm", "float32[1,3] 1 2 3; float32[2] 1 1", "",
      TD_SHAPE_MISMATCH,
      "scale [2] does not broadcast to [3], the dimensions of x from axis 1 on; expected the same "
      "sizes, or sizes of 1",
      "scale", "" },
    { "a scale of more dimensions", "layer_norm", "float32[1,3] 1 2 3; float32[1,3] 1 1 1", "",
      TD_SHAPE_MISMATCH,
      "scale [1,3] does not broadcast to [3], the dimensions of x from axis 1 on; expected the "
      "same sizes, or sizes of 1",
      "scale", "" },
    { "a bias that is larger than x", "layer_norm", "float32[1,1] 1; float32[1] 1; float32[2] 1 1",
      "axis=0", TD_SHAPE_MISMATCH,
      "bias [2] does not broadcast to [1,1], the dimensions of x from axis 0 on; expected the same "
      "sizes, or sizes of 1",
      "bias", "" },
    { "a scale of another dtype", "layer_norm", "float32[1] 1; float64[1] 1", "",
      TD_UNSUPPORTED_DTYPE,
      "scale has dtype float64 and x float32; the dtypes must be equal: the op cast with dtype = "
      "float32 rounds scale, and cast with dtype = float64 converts x",
      "scale", "" },
};

TD_TEST_EACH(normalisation_refuses, refusals)
{
    struct op_call call;
    begin(&call, refusals[_i].op, refusals[_i].inputs, refusals[_i].attrs);
    call_infer(&call, refusals[_i].op);
    expect_refusal(&call, refusals[_i].status, refusals[_i].message, refusals[_i].input,
                   refusals[_i].attribute, refusals[_i].says);
}

/* ---- Against the definition -------------------------------------------------------------- */

static const char *const ops[] = { "softmax", "log_softmax", "layer_norm", "l2_normalize" };
static const td_dtype dtypes[] = { TD_DTYPE_FLOAT16, TD_DTYPE_BFLOAT16, TD_DTYPE_FLOAT32,
                                   TD_DTYPE_FLOAT64 };

/* Numbers of all signs, with a mean other than 0. */
static struct td_tensor numbers(td_dtype dtype, const struct td_shape *shape)
{
    struct td_tensor t = random_tensor(dtype, shape);
    td_narrow_fn *narrow = td_narrow(dtype, TD_ISA_GENERIC);
    for (int64_t i = 0; i < t.numel; i++) {
        const double value = (double)random_below(16000) * 1e-3 - 6;
        const float rounded = (float)value;
        narrow((char *)t.data + (size_t)i * td_dtype_info(dtype)->size, 1,
               dtype == TD_DTYPE_FLOAT64 ? (const void *)&value : (const void *)&rounded, 1);
    }
    return t;
}

/* A group: n elements of a tensor. */
struct group {
    const struct td_tensor *x;
    int64_t first, n, stride;
};

static long double at(const struct group *group, int64_t i)
{
    return tensor_value(group->x, group->first + i * group->stride, 0);
}

/* Returns the mean of the elements to the power `power`, less `shift`. */
static long double mean_of(const struct group *group, long double shift, int power)
{
    long double sum = 0;
    for (int64_t i = 0; i < group->n; i++)
        sum += powl(at(group, i) - shift, (long double)power);
    return sum / (long double)group->n;
}

static long double log_of_sum(const struct group *group)
{
    long double most = -INFINITY, sum = 0;
    for (int64_t i = 0; i < group->n; i++)
        most = fmaxl(most, at(group, i));
    for (int64_t i = 0; i < group->n; i++)
        sum += expl(at(group, i) - most);
    return most + logl(sum);
}

/* Numbers from which the elements of a group are computed. */
struct facts {
    long double log_sum, norm, mean, deviation;
};

static struct facts facts_of(const struct group *group, const char *op)
{
    struct facts facts = { 0 };
    if (strcmp(op, "layer_norm") == 0) {
        facts.mean = mean_of(group, 0, 1);
        facts.deviation = sqrtl(mean_of(group, facts.mean, 2) + 0.01L);
    } else if (strcmp(op, "l2_normalize") == 0) {
        facts.norm = sqrtl(fmaxl(mean_of(group, 0, 2) * (long double)group->n, 0.01L));
    } else {
        facts.log_sum = log_of_sum(group);
    }
    return facts;
}

static long double expected(const struct op_call *call, const struct group *group,
                            const struct facts *facts, const char *op, int64_t i)
{
    const long double value = at(group, i);
    if (strcmp(op, "softmax") == 0)
        return expl(value - facts->log_sum);
    if (strcmp(op, "log_softmax") == 0)
        return value - facts->log_sum;
    if (strcmp(op, "l2_normalize") == 0)
        return value / facts->norm;
    const struct td_tensor *scale = call->args.inputs[GAIN].tensors;
    const struct td_tensor *bias = call->args.inputs[BIAS].tensors;
    return (value - facts->mean) / facts->deviation * tensor_value(scale, i % scale->numel, 0) +
           (bias ? tensor_value(bias, i % bias->numel, 0) : 0);
}

/* The error of a rounding, relative to a number, and of the computation, relative to the largest
 * term. */
static long double tolerance(td_dtype dtype, long double want)
{
    const long double size = fabsl(want);
    if (dtype == TD_DTYPE_FLOAT16)
        return size * 0x1.01p-11L + 0x1p-17L;
    if (dtype == TD_DTYPE_BFLOAT16)
        return size * 0x1.01p-8L + 0x1p-17L;
    return dtype == TD_DTYPE_FLOAT32 ? size * 1e-6L + 0x1p-17L : size * 1e-14L + 1e-14L;
}

static void expect_group(const struct op_call *call, const struct group *group, const char *op,
                         const char *what)
{
    const struct facts facts = facts_of(group, op);
    const struct td_tensor *out = &call->args.outputs[0];
    for (int64_t i = 0; i < group->n; i++) {
        const int64_t place = group->first + i * group->stride;
        const long double got = tensor_value(out, place, 0);
        const long double want = expected(call, group, &facts, op, i);
        EXPECT(fabsl(got - want) <= tolerance(out->dtype, want),
               "%s: element %" PRId64 " is %.17Lg, expected %.17Lg", what, place, got, want);
    }
}

static void expect_definition(const struct op_call *call, const char *op, int axis,
                              const char *what)
{
    const struct td_tensor *x = call->args.inputs[X].tensors;
    int64_t inner = 1, n = 1;
    for (int d = axis; d < x->shape.rank; d++) {
        if (d == axis || strcmp(op, "layer_norm") == 0)
            n *= x->shape.dim[d];
        else
            inner *= x->shape.dim[d];
    }
    for (int64_t outer = 0; outer < x->numel / n / inner; outer++)
        for (int64_t column = 0; column < inner; column++)
            expect_group(call, &(struct group){ x, outer * n * inner + column, n, inner }, op,
                         what);
}

/* Begins a call with random numbers. scale and bias have the shape of the last dimension. */
static void begin_random(struct op_call *call, const char *op, td_dtype dtype,
                         const struct td_shape *shape, int axis)
{
    char attrs[60];
    const struct td_shape last = { .rank = 1, .dim = { shape->dim[shape->rank - 1] } };
    const bool is_softmax = strstr(op, "softmax") != NULL;
    const struct td_tensor x = numbers(dtype, shape), scale = numbers(dtype, &last);
    snprintf(attrs, sizeof(attrs), "axis=%d %s", axis, is_softmax ? "" : "epsilon=0.01");
    call_begin(call, op, attrs, x, scale);
    if (strcmp(op, "layer_norm") == 0 && random_below(2)) {
        const struct td_tensor bias = numbers(dtype, &last);
        call->args.inputs[BIAS] = operand(&bias);
    }
}

/* Runs the call in different ways, with every instruction set, and expects the bits of `first`. */
static void expect_same_bits(const struct op_call *first, const char *op, const char *what)
{
    for (td_isa isa = TD_ISA_GENERIC; isa < TD_ISA_COUNT; isa++) {
        struct thread_exec exec;
        struct op_call call = *first;
        if (!td_isa_supported(isa))
            continue;
        thread_exec_init(&exec, 1 + random_below(MOST_THREADS), random_below(3) * 5);
        exec.backwards = random_below(2);
        exec.exec.isa = isa;
        call_run(&call, op, &exec.exec);
        EXPECT(call.status == TD_OK, "%s: %s", what, call.err.message);
        expect_same_tensor(&call.args.outputs[0], &first->args.outputs[0], what);
    }
}

static void expect_op(const char *op, td_dtype dtype, const struct td_shape *shape, int axis)
{
    struct op_call call;
    char what[400], text[TD_SHAPE_TEXT];
    begin_random(&call, op, dtype, shape, axis);
    call_run(&call, op, NULL);
    snprintf(what, sizeof(what), "%s of %s%s along %d", op, td_dtype_info(dtype)->name,
             td_shape_text(shape, text, sizeof(text)), axis);
    EXPECT(call.status == TD_OK, "%s: %s", what, call.err.message);
    expect_definition(&call, op, axis, what);
    expect_same_bits(&call, op, what);
}

TD_TEST_EACH(normalisation_of_random_shapes_is_as_defined, ops)
{
    for (int seed = 0; seed < 60 * test_effort(); seed++) {
        struct td_shape shape = { .rank = 1 + seed % 4 };
        random_seed((uint64_t)(1000 * _i + seed));
        td_arena_reset(&test_arena);
        for (int d = 0; d < shape.rank; d++)
            shape.dim[d] = 1 + random_below(random_below(3) ? 8 : 90);
        expect_op(ops[_i], dtypes[random_below(COUNT_OF(dtypes))], &shape,
                  random_below(shape.rank));
    }
}

/* Shapes of several blocks, and of groups whose blocks are processed in parallel. */
static const struct {
    const char *shape;
    int axis;
} large[] = {
    { "[3,4096]", 1 },     { "[3,4097]", 1 },  { "[2,13000]", 1 },  { "[1,70001]", 1 },
    { "[300,2]", 0 },      { "[40000,2]", 0 }, { "[2,129,67]", 1 }, { "[1100,65]", 0 },
    { "[1,30,70,65]", 1 }, { "[6000,16]", 0 },
};

TD_TEST_EACH(normalisation_of_large_groups_is_as_defined, large)
{
    const struct td_shape dims = shape(large[_i].shape);
    for (int i = 0; i < COUNT_OF(ops); i++)
        for (int k = 0; k < COUNT_OF(dtypes); k++) {
            random_seed((uint64_t)(100 * _i + 10 * i + k));
            td_arena_reset(&test_arena);
            expect_op(ops[i], dtypes[k], &dims, large[_i].axis);
        }
}

/* The elements differ from their mean by much less than the mean. */
TD_TEST(the_variance_of_a_large_group_keeps_its_digits)
{
    struct op_call call;
    const struct td_shape dims = shape("[1,70001]");
    struct td_tensor x = numbers(TD_DTYPE_FLOAT32, &dims);
    for (int64_t i = 0; i < x.numel; i++)
        ((float *)x.data)[i] += 20000;
    ((float *)x.data)[0] = -20000; /* far from the mean of its block */
    call_begin(&call, "layer_norm", "epsilon=0.01", x, tensor("float32[1] 1"));
    call_run(&call, "layer_norm", NULL);
    EXPECT(call.status == TD_OK, "%s", call.err.message);
    expect_definition(&call, "layer_norm", 1, "a large mean");
}

/* ---- Failures ---------------------------------------------------------------------------- */

static const struct {
    const char *op, *shape, *attrs;
    td_dtype dtype;
    int64_t least;
} long_calls[] = {
    { "softmax", "[200,1000]", "", TD_DTYPE_FLOAT32, 5 },
    { "softmax", "[1,200000]", "", TD_DTYPE_FLOAT16, 15 },
    { "log_softmax", "[100000,2]", "axis=0", TD_DTYPE_FLOAT32, 15 },
    { "layer_norm", "[2,100000]", "axis=0", TD_DTYPE_BFLOAT16, 10 },
};

TD_TEST_EACH(a_deadline_ends_a_normalisation, long_calls)
{
    struct op_call call;
    const struct td_shape dims = shape(long_calls[_i].shape);
    const struct td_tensor x = numbers(long_calls[_i].dtype, &dims);
    const struct td_shape one = { .rank = 0 };
    call_begin(&call, long_calls[_i].op, long_calls[_i].attrs, x,
               numbers(long_calls[_i].dtype, &one));
    expect_deadlines(&call, long_calls[_i].op, long_calls[_i].least, long_calls[_i].op);
}

TD_TEST(without_memory_a_normalisation_is_refused)
{
    expect_memory_needed("softmax", "", tensor("float16[2] 0x3c00 0"), (struct td_tensor){ 0 });
    expect_memory_needed("layer_norm", "", tensor("float32[2,2] 1 2 3 4"), tensor("float32[1] 1"));
}

TD_TEST(cost_announces_the_memory)
{
    struct op_call call;
    begin(&call, "layer_norm", "float16[2,3] 0 0 0 0 0 0; float16[3] 0 0 0; float16[1] 0", "");
    call_infer(&call, "layer_norm");
    EXPECT(call.status == TD_OK, "%s", call.err.message);
    const struct td_cost cost = td_op_layer_norm.cost(&call.args);
    ck_assert_uint_eq(cost.workspace, 2 * 64);
    ck_assert_uint_eq(cost.workspace_per_thread, 64);
    ck_assert_uint_eq(cost.bytes_read, 2 * (6 + 3 + 1));
    ck_assert_uint_eq(cost.bytes_written, 2 * 6);
}
