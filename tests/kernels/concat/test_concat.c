#include "kernels/concat/concat.h"
#include "kernels/op_check.h"
#include "tests/support/op_call.h"
#include "tests/support/random.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"
#include "tests/support/threads.h"

#include <stdio.h>
#include <string.h>

#define OP     "concat"
#define INPUTS 8 /* in a list of a test, at most */

static void call_concat(struct op_call *call, const char *attrs, int n_inputs,
                        const struct td_tensor *inputs, struct td_exec *exec)
{
    call_begin_lists(call, OP, attrs, n_inputs, inputs, 0, NULL);
    call_run(call, OP, exec);
}

/* Beside those of tests/conformance/cases. */
static const struct {
    const char *says;
    const char *attrs;
    const char *inputs;
    const char *output;
} results[] = {
    { "tf: rows below rows", "axis=0", "int32[2,3] 1..6; int32[2,3] 7..12", "int32[4,3] 1..12" },
    { "axis -rank is the first", "axis=-2", "int16[1,2] 1 2; int16[2,2] 3..6", "int16[3,2] 1..6" },
    { "axis is 0 unless it is given", "", "uint8[1] 1; uint8[2] 2 3", "uint8[3] 1 2 3" },
    { "one tensor stays as it is", "axis=1", "float16[1,2] 0x3c00 0x7e01",
      "float16[1,2] 0x3c00 0x7e01" },
    { "strings of a middle dimension", "axis=1",
      "string[2,1,2] 'a' 'b' 'c' 'd'; string[2,0,2]; string[2,1,2] 'e' 'f' 'g' 'h'",
      "string[2,2,2] 'a' 'b' 'e' 'f' 'c' 'd' 'g' 'h'" },
    { "a tensor without elements adds nothing", "axis=1",
      "int64[2,0]; int64[2,1] 1 2; int64[2,0]; int64[2,0]; int64[2,1] 3 4; int64[2,0]",
      "int64[2,2] 1 3 2 4" },
    { "only tensors without elements", "axis=1", "complex64[2,0]; complex64[2,0]",
      "complex64[2,0]" },
    { "another dimension of 0", "axis=1", "float32[0,1]; float32[0,2]", "float32[0,3]" },
    { "strings without elements", "axis=0", "string[2,0]; string[1,0]", "string[3,0]" },
    { "dimensions whose product has no number, beside a 0", "axis=0",
      "int8[0,4611686018427387904,4]; int8[0,4611686018427387904,4]",
      "int8[0,4611686018427387904,4]" },
};

TD_TEST_EACH(concat_gives, results)
{
    struct op_call call;
    struct td_tensor inputs[INPUTS];
    int n = tensor_list(results[_i].inputs, inputs, INPUTS);
    call_concat(&call, results[_i].attrs, n, inputs, NULL);
    ck_assert_msg(call.status == TD_OK, "%s: %s", results[_i].says, call.err.message);
    ck_assert_int_eq(call.args.n_outputs, 1);
    expect_tensor(&call.args.outputs[0], results[_i].output, results[_i].says);
}

static const struct {
    const char *says;
    const char *attrs;
    const char *inputs;
    td_status status;
    const char *message, *input, *attribute;
} refusals[] = {
    { "no tensors", "", "", TD_INVALID_ARGUMENT,
      "inputs has no tensors; expected a list of at least one", "inputs", "" },
    { "scalars", "", "int32[] 1; int32[] 2", TD_INVALID_AXIS,
      "inputs[0] is a scalar; expected at least one dimension", "inputs[0]", "" },
    { "axis above", "axis=2", "int32[1,1] 1; int32[1,1] 2", TD_INVALID_AXIS,
      "axis = 2 is not in [-2, 2): inputs[0] has shape [1,1]", "", "axis" },
    { "axis below", "axis=-2", "string[1] 'a'", TD_INVALID_AXIS,
      "axis = -2 is not in [-1, 1): inputs[0] has shape [1]", "", "axis" },
    { "another dimension differs", "axis=1", "int32[2,1] 1 2; int32[2,2] 3..6; int32[3,1] 7 8 9",
      TD_SHAPE_MISMATCH,
      "dimension 0 of inputs[2] [3,1] is 3; expected 2, as in inputs[0] [2,1]; only dimension "
      "1, the axis, can differ",
      "inputs[2]", "" },
    { "a tensor without elements must fit, too", "axis=0", "int32[1,2] 1 2; int32[0,3]",
      TD_SHAPE_MISMATCH,
      "dimension 1 of inputs[1] [0,3] is 3; expected 2, as in inputs[0] [1,2]; only dimension "
      "0, the axis, can differ",
      "inputs[1]", "" },
    { "ranks differ", "axis=-1", "int32[2,2] 1..4; int32[2] 5 6", TD_SHAPE_MISMATCH,
      "inputs[1] [2] has rank 1; expected 2, as in inputs[0] [2,2]", "inputs[1]", "" },
    { "a scalar among vectors", "", "int32[1] 1; int32[] 2", TD_SHAPE_MISMATCH,
      "inputs[1] [] has rank 0; expected 1, as in inputs[0] [1]", "inputs[1]", "" },
    { "dtypes differ", "", "float32[1] 1; float32[1] 2; float64[1] 3", TD_UNSUPPORTED_DTYPE,
      "inputs[2] has dtype float64 and inputs[0] float32; the dtypes must be equal: the op cast "
      "with dtype = float32 rounds inputs[2], and cast with dtype = float64 converts inputs[0]",
      "inputs[2]", "" },
    { "a sum without a number", "axis=0",
      "int8[4611686018427387904,0]; int8[4611686018427387904,0]", TD_RESOURCE_LIMIT,
      "the output along axis needs 9223372036854775808 elements; the limit is 9223372036854775807",
      "", "" },
};

TD_TEST_EACH(concat_refuses, refusals)
{
    struct op_call call;
    struct td_tensor inputs[INPUTS];
    int n = tensor_list(refusals[_i].inputs, inputs, INPUTS);
    call_begin_lists(&call, OP, refusals[_i].attrs, n, inputs, 0, NULL);
    call_infer(&call, OP);
    expect_refusal(&call, refusals[_i].status, refusals[_i].message, refusals[_i].input,
                   refusals[_i].attribute, refusals[_i].says);
    const int n_shapes = call.status == TD_SHAPE_MISMATCH ? 2 : 0;
    ck_assert_int_eq(call.err.n_shapes, n_shapes);
    if (n_shapes > 0) {
        ck_assert_str_eq(call.err.shapes[0].name, "inputs[0]");
        ck_assert_str_eq(call.err.shapes[1].name, refusals[_i].input);
    }
}

TD_TEST(an_output_too_large_is_refused_before_it_is_allocated)
{
    struct op_call call;
    struct td_tensor inputs[] = { tensor_without_data("float64[536870912,536870912]"),
                                  tensor_without_data("float64[536870912,1610612736]") };
    call_begin_lists(&call, OP, "axis=1", 2, inputs, 0, NULL);
    call_infer(&call, OP);
    ck_assert_int_eq(call.status, TD_RESOURCE_LIMIT);
    ck_assert_str_eq(call.err.resource, "tensor_bytes");
}

TD_TEST(cost_is_the_bytes_on_both_sides)
{
    struct op_call call;
    struct td_tensor inputs[INPUTS];
    call_begin_lists(&call, OP, "", tensor_list("int32[2] 1 2; int32[3] 3 4 5", inputs, INPUTS),
                     inputs, 0, NULL);
    call_infer(&call, OP);
    struct td_cost cost = td_op_concat.cost(&call.args);
    ck_assert_uint_eq(cost.bytes_read, 20);
    ck_assert_uint_eq(cost.bytes_written, 20);
    ck_assert_uint_eq(cost.random_reads, 0);

    call_begin_lists(&call, OP, "", tensor_list("string[1] 'abc'; string[1] 'de'", inputs, INPUTS),
                     inputs, 0, NULL);
    call_infer(&call, OP);
    cost = td_op_concat.cost(&call.args);
    ck_assert_uint_eq(cost.bytes_read, 2 * 2 * 8 + 5);
    ck_assert_uint_eq(cost.bytes_written, 3 * 8 + 5);
}

/* ---- Against the definition, element by element ------------------------------------------ */

/* output[p, a, q] is inputs[i][p, a - the sizes of the inputs before i, q]. */
static void expect_concatenated(const struct td_tensor *inputs, int n_inputs, int axis,
                                const struct td_tensor *out, const char *what)
{
    struct td_shape shape = inputs[0].shape;
    int64_t outer = 1, inner = 1, before = 0;
    for (int d = 0; d < axis; d++)
        outer *= shape.dim[d];
    for (int d = axis + 1; d < shape.rank; d++)
        inner *= shape.dim[d];
    shape.dim[axis] = 0;
    for (int i = 0; i < n_inputs; i++)
        shape.dim[axis] += inputs[i].shape.dim[axis];
    EXPECT(out->dtype == inputs[0].dtype && td_shape_equal(&out->shape, &shape), "%s: shape", what);
    for (int i = 0; i < n_inputs; i++) {
        const int64_t size = inputs[i].shape.dim[axis];
        for (int64_t k = 0; k < outer * size * inner; k++) {
            const int64_t p = k / (size * inner), rest = k % (size * inner);
            size_t got_size, want_size;
            const void *want = tensor_element(&inputs[i], k, &want_size);
            const void *got =
                tensor_element(out, (p * shape.dim[axis] + before) * inner + rest, &got_size);
            EXPECT(got_size == want_size && memcmp(got, want, got_size) == 0,
                   "%s: element %lld of inputs[%d]", what, (long long)k, i);
        }
        before += size;
    }
}

TD_TEST_LOOP(any_concat_is_what_its_definition_says, 0, 10)
{
    enum { SAMPLES = 100 };
    for (int s = 0; s < SAMPLES; s++) {
        const int seed = _i * SAMPLES + s;
        char what[64], attrs[64];
        struct td_tensor inputs[INPUTS];
        td_arena_reset(&test_arena);
        random_seed((uint64_t)seed);
        struct td_shape shape = { .rank = 1 + random_below(4) };
        for (int d = 0; d < shape.rank; d++)
            shape.dim[d] = random_below(15) == 0 ? 0 : 1 + random_below(9);
        const int axis = random_below(shape.rank), n_inputs = 1 + random_below(INPUTS);
        const td_dtype dtype = (td_dtype)random_below(TD_DTYPE_COUNT);
        for (int i = 0; i < n_inputs; i++) {
            shape.dim[axis] = random_below(5) == 0 ? 0 : 1 + random_below(20);
            inputs[i] = random_tensor(dtype, &shape);
        }
        snprintf(attrs, sizeof(attrs), "axis=%d", random_below(2) ? axis : axis - shape.rank);
        snprintf(what, sizeof(what), "seed %d", seed);

        struct thread_exec exec;
        struct op_call call;
        thread_exec_init(&exec, 1 + random_below(3), random_below(2) ? 0 : 1 + random_below(40));
        call_concat(&call, attrs, n_inputs, inputs, &exec.exec);
        EXPECT(call.status == TD_OK, "%s: %s", what, call.err.message);
        expect_concatenated(inputs, n_inputs, axis, &call.args.outputs[0], what);
    }
}

/* Outputs of many ranges. */
static const struct {
    const char *says;
    const char *attrs;
    const char *inputs[3];
    int axis;
} large[] = {
    { "narrow chunks", "axis=1", { "uint8[70000,1]", "uint8[70000,3]", "uint8[70000,2]" }, 1 },
    { "chunks of every width",
      "axis=1",
      { "float32[9000,2]", "float32[9000,3]", "float32[9000,17]" },
      1 },
    { "chunks of one element",
      "axis=1",
      { "uint8[70001,1]", "uint8[70001,1]", "uint8[70001,1]" },
      1 },
    { "wide chunks of one element",
      "axis=1",
      { "complex128[9001,1]", "complex128[9001,1]", "complex128[9001,1]" },
      1 },
    { "one row in parts", "axis=0", { "int16[70001]", "int16[3]", "int16[200000]" }, 0 },
    { "rows in parts", "axis=1", { "uint8[3,140001]", "uint8[3,7]", "uint8[3,300000]" }, 1 },
    { "strings", "axis=1", { "string[3000,1]", "string[3000,2]", "string[3000,5]" }, 1 },
    { "strings row after row", "axis=0", { "string[5000]", "string[1]", "string[4000]" }, 0 },
};

static void large_inputs(int which, struct td_tensor *inputs)
{
    random_seed(1);
    for (int i = 0; i < 3; i++) {
        struct td_tensor like = tensor_without_data(large[which].inputs[i]);
        inputs[i] = random_tensor(like.dtype, &like.shape);
    }
}

TD_TEST_EACH(a_large_concat_does_not_depend_on_how_it_is_split, large)
{
    static const int64_t grains[] = { 0, 1, 3 };
    struct td_tensor inputs[3];
    struct op_call call;
    large_inputs(_i, inputs);
    call_concat(&call, large[_i].attrs, 3, inputs, NULL);
    ck_assert_int_eq(call.status, TD_OK);
    expect_concatenated(inputs, 3, large[_i].axis, &call.args.outputs[0], large[_i].says);
    for (int g = 0; g < COUNT_OF(grains); g++) {
        struct thread_exec exec;
        struct op_call parallel;
        thread_exec_init(&exec, 3, grains[g]);
        call_concat(&parallel, large[_i].attrs, 3, inputs, &exec.exec);
        ck_assert_int_eq(parallel.status, TD_OK);
        expect_same_tensor(&parallel.args.outputs[0], &call.args.outputs[0], large[_i].says);
    }
}

TD_TEST_EACH(a_deadline_ends_a_large_concat, large)
{
    struct td_tensor inputs[3];
    struct op_call call;
    large_inputs(_i, inputs);
    call_begin_lists(&call, OP, large[_i].attrs, 3, inputs, 0, NULL);
    expect_deadlines(&call, OP, 3, large[_i].says);
}

TD_TEST(strings_may_be_views_and_their_bytes_have_a_limit)
{
    struct td_tensor all = tensor("string[4] 'skipped' 'b' 'cc' ''"), view = all;
    view.shape = shape("[3]");
    view.numel = 3;
    view.offsets = all.offsets + 1; /* begins at 7 */
    const struct td_tensor inputs[] = { view, tensor("string[1] 'd'") };
    struct op_call call;
    struct td_exec exec;
    td_exec_serial(&exec, &test_arena);
    exec.output_limit = 4;
    call_concat(&call, "", 2, inputs, &exec);
    ck_assert_int_eq(call.status, TD_OK);
    expect_tensor(&call.args.outputs[0], "string[4] 'b' 'cc' '' 'd'", "view");
    exec.output_limit = 3;
    call_concat(&call, "", 2, inputs, &exec);
    ck_assert_int_eq(call.status, TD_RESOURCE_LIMIT);
    ck_assert_str_eq(call.err.resource, "output_bytes");
}

TD_TEST(data_need_not_be_aligned)
{
    static const char bytes[] = "-abcdefghijklmnop";
    struct td_tensor input = tensor_without_data("int64[2,1]");
    input.data = (char *)bytes + 1;
    const struct td_tensor inputs[] = { input, input };
    struct op_call call;
    call_concat(&call, "axis=1", 2, inputs, NULL);
    ck_assert_int_eq(call.status, TD_OK);
    ck_assert_mem_eq(call.args.outputs[0].data, "abcdefghabcdefghijklmnopijklmnop", 32);
}

TD_TEST(without_memory_concat_is_refused)
{
    struct td_arena arena;
    struct td_error err;
    struct op_call call;
    struct td_tensor inputs[INPUTS];
    char space[1024];
    td_status status = TD_OK;
    for (size_t size = 0; size < sizeof(space); size += 16) {
        call_begin_lists(&call, OP, "", tensor_list("int32[1] 1; int32[1] 2", inputs, INPUTS),
                         inputs, 0, NULL);
        td_arena_init(&arena, space, size, &no_memory);
        status = td_op_infer(&td_op_concat, &call.args, &arena, &err);
        ck_assert(status == TD_OK || status == TD_MEMORY_EXHAUSTED);
        ck_assert(size > 0 || status == TD_MEMORY_EXHAUSTED);
        td_arena_reset(&arena);
    }
    ck_assert_int_eq(status, TD_OK);
}
