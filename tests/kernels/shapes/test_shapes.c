#include "kernels/op_check.h"
#include "kernels/shapes/shapes.h"
#include "tests/support/op_call.h"
#include "tests/support/random.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"
#include "tests/support/threads.h"

#include <string.h>

#define INPUTS 8 /* in a list of a test, at most */

static void call_shapes(struct op_call *call, const char *op, const char *attrs, const char *inputs)
{
    struct td_tensor tensors[INPUTS];
    const int n = tensor_list(inputs, tensors, INPUTS);
    call_begin_lists(call, op, attrs, n, tensors, 0, NULL);
}

/* ---- Results, beside those of tests/conformance/cases ------------------------------------ */

static const struct {
    const char *op;
    const char *says;
    const char *attrs;
    const char *inputs;
    const char *output;
} results[] = {
    { "reshape", "the -1 may be first", "shape=-1,2", "int8[2,3] 1..6", "int8[3,2] 1..6" },
    { "reshape", "the -1 may be 1", "shape=6,-1", "int8[2,3] 1..6", "int8[6,1] 1..6" },
    { "reshape", "no elements, dimensions whose product has no number",
      "shape=0,4611686018427387904,4", "float32[0]", "float32[0,4611686018427387904,4]" },
    { "reshape", "an inferred size of 0", "shape=3,-1", "string[0]", "string[3,0]" },
    { "reshape", "NaN bits stay", "shape=1,1", "float32[1] -0.0", "float32[1,1] -0.0" },
    { "expand_dims", "between", "axis=1", "string[2,2] 'a' '' 'c' 'dd'",
      "string[2,1,2] 'a' '' 'c' 'dd'" },
    { "expand_dims", "no elements", "axis=-1", "uint8[0,2]", "uint8[0,2,1]" },
    { "squeeze", "axes in any order", "axes=-1,0", "int16[1,2,1] 1 2", "int16[2] 1 2" },
    { "squeeze", "other dimensions of 1 stay", "axes=1", "int16[1,1,2] 1 2", "int16[1,2] 1 2" },
    { "squeeze", "an empty list removes none", "axes=", "int16[1,2] 1 2", "int16[1,2] 1 2" },
    { "squeeze", "a scalar has nothing to remove", "", "int16[] 7", "int16[] 7" },
    { "squeeze", "an empty list of a scalar", "axes=", "int16[] 7", "int16[] 7" },
    { "transpose", "a vector stays", "", "uint16[3] 1 2 3", "uint16[3] 1 2 3" },
    { "transpose", "output dimension i is dimension perm[i]", "perm=2,0,1", "int32[1,2,3] 1..6",
      "int32[3,1,2] 1 4 2 5 3 6" },
    { "transpose", "strings", "", "string[2,3] 'a' 'b' 'c' 'd' '' 'fff'",
      "string[3,2] 'a' 'd' 'b' '' 'c' 'fff'" },
    { "transpose", "no elements", "perm=1,2,0", "string[2,0,3]", "string[0,3,2]" },
    { "transpose", "both parts of complex numbers", "", "complex64[1,2] 1 2 3 4",
      "complex64[2,1] 1 2 3 4" },
    { "slice", "x[1:3]", "starts=1 stops=3", "int8[4] 1..4", "int8[2] 2 3" },
    { "slice", "x[-2:]", "starts=-2 stops=9223372036854775807", "int8[4] 1..4", "int8[2] 3 4" },
    { "slice", "x[::-1]", "starts=-1 stops=-9223372036854775808 steps=-1", "int8[3] 1..3",
      "int8[3] 3 2 1" },
    { "slice", "x[10:1:-2]", "starts=10 stops=1 steps=-2", "int8[6] 0..5", "int8[2] 5 3" },
    { "slice", "x[-10:3:2]", "starts=-10 stops=3 steps=2", "int8[6] 0..5", "int8[2] 0 2" },
    { "slice", "x[2:2]", "starts=2 stops=2", "string[3] 'a' 'b' 'c'", "string[0]" },
    { "slice", "a step of -2^63 takes one element", "starts=2 stops=0 steps=-9223372036854775808",
      "int8[3] 1..3", "int8[1] 3" },
    { "slice", "a step of 2^63 - 1 takes one element", "starts=1 stops=3 steps=9223372036854775807",
      "int8[3] 1..3", "int8[1] 2" },
    { "slice", "no starts take everything", "starts= stops=", "int8[2] 1 2", "int8[2] 1 2" },
    { "slice", "no starts of a scalar", "starts= stops=", "int8[] 5", "int8[] 5" },
    { "slice", "x[..., ::2]", "starts=0 stops=3 steps=2 axes=-1", "int8[2,3] 1..6",
      "int8[2,2] 1 3 4 6" },
    { "slice", "axes in any order", "starts=1,0 stops=2,2 axes=2,0", "int8[2,1,2] 1..4",
      "int8[2,1,1] 2 4" },
    { "slice", "strings in reverse", "starts=-1,1 stops=-9,2 steps=-1,1",
      "string[2,2] 'a' 'bb' '' 'dddd'", "string[2,1] 'dddd' 'bb'" },
    { "slice", "a dimension of 0", "starts=-1 stops=-9 steps=-1", "int8[0,2]", "int8[0,2]" },
    { "slice", "nothing of dimensions without a number", "starts=1 stops=1 axes=2",
      "int8[0,4611686018427387904,4]", "int8[0,4611686018427387904,0]" },
    { "stack", "rows", "", "int8[2] 1 2; int8[2] 3 4", "int8[2,2] 1 2 3 4" },
    { "stack", "columns", "axis=-1", "int8[2] 1 2; int8[2] 3 4", "int8[2,2] 1 3 2 4" },
    { "stack", "between", "axis=1", "string[2,1] 'a' 'b'; string[2,1] '' 'dd'",
      "string[2,2,1] 'a' '' 'b' 'dd'" },
    { "stack", "no elements", "axis=1", "int8[2,0]; int8[2,0]; int8[2,0]", "int8[2,3,0]" },
    { "one_hot", "float32 unless dtype is given", "depth=2", "int16[2] 1 0",
      "float32[2,2] 0 1 1 0" },
    { "one_hot", "an index outside is a row of zeros", "depth=2 dtype=int8", "int64[4] -1 2 1 -2",
      "int8[4,2] 0 0 0 0 0 1 0 0" },
    { "one_hot", "the first index past 2^32 is outside", "depth=2 dtype=int8",
      "int64[1] 4294967297", "int8[1,2] 0 0" },
    { "one_hot", "half precision", "depth=1 dtype=bfloat16", "int32[1] 0", "bfloat16[1,1] 0x3f80" },
    { "one_hot", "complex numbers", "depth=2 dtype=complex128", "int32[] 1",
      "complex128[2] 0 0 1 0" },
    { "one_hot", "no indices", "depth=3", "int32[0,2]", "float32[0,2,3]" },
    { "one_hot", "no depth", "depth=0", "int32[2] 0 1", "float32[2,0]" },
};

TD_TEST_EACH(shapes_give, results)
{
    struct op_call call;
    call_shapes(&call, results[_i].op, results[_i].attrs, results[_i].inputs);
    call_run(&call, results[_i].op, NULL);
    ck_assert_msg(call.status == TD_OK, "%s: %s: %s", results[_i].op, results[_i].says,
                  call.err.message);
    ck_assert_int_eq(call.args.n_outputs, 1);
    expect_tensor(&call.args.outputs[0], results[_i].output, results[_i].says);
}

/* ---- Refusals ---------------------------------------------------------------------------- */

#define RANK_16 "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]"

static const struct {
    const char *op;
    const char *says;
    const char *attrs;
    const char *inputs;
    td_status status;
    const char *message, *input, *attribute;
    const char *shapes; /* the names of the shapes of the error */
} refusals[] = {
    { "reshape", "no shape", "", "int8[1] 1", TD_INVALID_ARGUMENT,
      "shape is missing; reshape requires it", "", "shape", "" },
    { "reshape", "another number of elements", "shape=4", "int8[2,3] 1..6", TD_SHAPE_MISMATCH,
      "shape = [4] does not fit the 6 elements of x, which has shape [2,3]", "", "shape", "x" },
    { "reshape", "elements from none", "shape=", "int8[0]", TD_SHAPE_MISMATCH,
      "shape = [] does not fit the 0 elements of x, which has shape [0]", "", "shape", "x" },
    { "reshape", "a number of elements without a number", "shape=4294967296,4294967296",
      "int8[2] 1 2", TD_SHAPE_MISMATCH,
      "shape = [4294967296,4294967296] does not fit the 2 elements of x, which has shape [2]", "",
      "shape", "x" },
    { "reshape", "no size for the -1", "shape=4,-1", "int8[2,3] 1..6", TD_SHAPE_MISMATCH,
      "no size for the -1 in shape = [4,-1] fits the 6 elements of x, which has shape [2,3]", "",
      "shape", "x" },
    { "reshape", "no size for the -1 beside a 0", "shape=0,-1", "int8[2] 1 2", TD_SHAPE_MISMATCH,
      "no size for the -1 in shape = [0,-1] fits the 2 elements of x, which has shape [2]", "",
      "shape", "x" },
    { "reshape", "any size for the -1", "shape=0,-1", "int8[0,5]", TD_SHAPE_MISMATCH,
      "every size for the -1 in shape = [0,-1] fits the 0 elements of x, which has shape [0,5]; "
      "pass the size",
      "", "shape", "x" },
    { "reshape", "two -1", "shape=-1,1,-1", "int8[2] 1 2", TD_INVALID_ARGUMENT,
      "shape[0] and shape[2] are -1; at most one size can be inferred", "", "shape", "" },
    { "reshape", "a -2", "shape=3,-2", "int8[2] 1 2", TD_INVALID_ARGUMENT,
      "shape[1] is -2; expected -1 or more", "", "shape", "" },
    { "reshape", "17 dimensions", "shape=1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1", "int8[] 1",
      TD_RESOURCE_LIMIT, "output needs 17 dimensions; the limit is 16", "", "", "" },
    { "expand_dims", "no axis", "", "int8[1] 1", TD_INVALID_ARGUMENT,
      "axis is missing; expand_dims requires it", "", "axis", "" },
    { "expand_dims", "axis above", "axis=2", "int8[1] 1", TD_INVALID_AXIS,
      "axis = 2 is not in [-2, 2): the output has one dimension more than x, which has shape [1]",
      "", "axis", "" },
    { "expand_dims", "17 dimensions", "axis=0", "int8" RANK_16 " 1", TD_RESOURCE_LIMIT,
      "output needs 17 dimensions; the limit is 16", "", "", "" },
    { "squeeze", "a size of 2", "axes=0,1", "int8[1,2] 1 2", TD_SHAPE_MISMATCH,
      "axes[1] names dimension 1 of x, whose size is 2; expected 1: x has shape [1,2]", "", "axes",
      "x" },
    { "squeeze", "a size of 0", "axes=0", "int8[0]", TD_SHAPE_MISMATCH,
      "axes[0] names dimension 0 of x, whose size is 0; expected 1: x has shape [0]", "", "axes",
      "x" },
    { "squeeze", "axis below", "axes=-3", "int8[1,1] 1", TD_INVALID_AXIS,
      "axes[0] = -3 is not in [-2, 2): x has shape [1,1]", "", "axes", "" },
    { "squeeze", "an axis twice", "axes=0,-2", "int8[1,1] 1", TD_INVALID_AXIS,
      "axes[1] = -2 names dimension 0, as axes[0] does; expected distinct dimensions", "", "axes",
      "" },
    { "squeeze", "an axis of a scalar", "axes=0", "int8[] 1", TD_INVALID_AXIS,
      "x is a scalar; expected at least one dimension", "x", "", "" },
    { "transpose", "too few axes", "perm=0", "int8[1,2] 1 2", TD_INVALID_AXIS,
      "perm has length 1; expected 2, one axis for each dimension of x, which has shape [1,2]", "",
      "perm", "" },
    { "transpose", "an empty list", "perm=", "int8[1] 1", TD_INVALID_AXIS,
      "perm has length 0; expected 1, one axis for each dimension of x, which has shape [1]", "",
      "perm", "" },
    { "transpose", "an axis of a scalar", "perm=0", "int8[] 1", TD_INVALID_AXIS,
      "perm has length 1; expected 0, one axis for each dimension of x, which has shape []", "",
      "perm", "" },
    { "transpose", "an axis twice", "perm=1,-1", "int8[1,2] 1 2", TD_INVALID_AXIS,
      "perm[1] = -1 names dimension 1, as perm[0] does; expected distinct dimensions", "", "perm",
      "" },
    { "transpose", "axis above", "perm=0,2", "int8[1,2] 1 2", TD_INVALID_AXIS,
      "perm[1] = 2 is not in [-2, 2): x has shape [1,2]", "", "perm", "" },
    { "slice", "no starts", "stops=1", "int8[1] 1", TD_INVALID_ARGUMENT,
      "starts is missing; slice requires it", "", "starts", "" },
    { "slice", "no stops", "starts=1", "int8[1] 1", TD_INVALID_ARGUMENT,
      "stops is missing; slice requires it", "", "stops", "" },
    { "slice", "fewer stops", "starts=0,1 stops=4", "int8[1,1] 1", TD_INVALID_ARGUMENT,
      "stops has length 1; expected 2, the length of starts", "", "stops", "" },
    { "slice", "more steps", "starts=0 stops=4 steps=1,1", "int8[1] 1", TD_INVALID_ARGUMENT,
      "steps has length 2; expected 1, the length of starts", "", "steps", "" },
    { "slice", "no axes", "starts=0 stops=4 axes=", "int8[1] 1", TD_INVALID_ARGUMENT,
      "axes has length 0; expected 1, the length of starts", "", "axes", "" },
    { "slice", "a step of 0", "starts=0,0 stops=1,1 steps=1,0", "int8[1,1] 1", TD_INVALID_ARGUMENT,
      "steps[1] is 0; expected a number above or below 0", "", "steps", "" },
    { "slice", "more starts than dimensions", "starts=0,0 stops=1,1", "int8[1] 1", TD_INVALID_AXIS,
      "starts has length 2; expected at most 1, the rank of x, which has shape [1]", "", "starts",
      "" },
    { "slice", "an axis twice", "starts=0,0 stops=1,1 axes=0,-1", "int8[1] 1", TD_INVALID_AXIS,
      "axes[1] = -1 names dimension 0, as axes[0] does; expected distinct dimensions", "", "axes",
      "" },
    { "stack", "no tensors", "", "", TD_INVALID_ARGUMENT,
      "inputs has no tensors; expected a list of at least one", "inputs", "", "" },
    { "stack", "shapes differ", "", "int8[2] 1 2; int8[2] 3 4; int8[1,2] 1 2", TD_SHAPE_MISMATCH,
      "inputs[2] has shape [1,2]; expected [2], as inputs[0] has", "inputs[2]", "",
      "inputs[0] inputs[2]" },
    { "stack", "axis below", "axis=-3", "int8[1] 1", TD_INVALID_AXIS,
      "axis = -3 is not in [-2, 2): the output has one dimension more than inputs[0], which has "
      "shape [1]",
      "", "axis", "" },
    { "stack", "17 dimensions", "", "int8" RANK_16 " 1", TD_RESOURCE_LIMIT,
      "output needs 17 dimensions; the limit is 16", "", "", "" },
    { "stack", "dtypes differ", "", "int8[1] 1; int16[1] 1", TD_UNSUPPORTED_DTYPE,
      "inputs[1] has dtype int16 and inputs[0] int8; the dtypes must be equal: the op cast with "
      "dtype = int16 converts inputs[0]",
      "inputs[1]", "", "" },
    { "one_hot", "no depth", "", "int32[1] 1", TD_INVALID_ARGUMENT,
      "depth is missing; one_hot requires it", "", "depth", "" },
    { "one_hot", "a negative depth", "depth=-1", "int32[1] 1", TD_INVALID_ARGUMENT,
      "depth is -1; expected 0 or more", "", "depth", "" },
    { "one_hot", "strings", "depth=1 dtype=string", "int32[1] 1", TD_UNSUPPORTED_DTYPE,
      "dtype is string; expected bool, int8, int16, int32, int64, uint8, uint16, uint32, uint64, "
      "float16, bfloat16, float32, float64, complex64 or complex128",
      "", "dtype", "" },
    { "one_hot", "indices of another dtype", "depth=1", "uint8[1] 1", TD_UNSUPPORTED_DTYPE,
      "indices has dtype uint8; expected int16, int32 or int64; pass them as int64", "indices", "",
      "" },
    { "one_hot", "17 dimensions", "depth=1", "int32" RANK_16 " 1", TD_RESOURCE_LIMIT,
      "output needs 17 dimensions; the limit is 16", "", "", "" },
    { "one_hot", "more bytes than there are", "depth=9223372036854775807", "int32[2] 1 2",
      TD_RESOURCE_LIMIT,
      "output of shape [2,9223372036854775807] and dtype float32 needs more than "
      "9223372036854775807 bytes",
      "output", "", "output" },
};

TD_TEST_EACH(shapes_refuse, refusals)
{
    struct op_call call;
    call_shapes(&call, refusals[_i].op, refusals[_i].attrs, refusals[_i].inputs);
    call_infer(&call, refusals[_i].op);
    expect_refusal(&call, refusals[_i].status, refusals[_i].message, refusals[_i].input,
                   refusals[_i].attribute, refusals[_i].says);
    expect_shape_names(&call.err, refusals[_i].shapes);
}

/* ---- Costs, and the flag ----------------------------------------------------------------- */

static const struct {
    const char *op;
    const char *attrs;
    const char *inputs;
    uint64_t read, written;
} costs[] = {
    { "reshape", "shape=2", "int32[1,2] 1 2", 8, 8 },
    { "transpose", "", "complex128[2,1] 1 2 3 4", 32, 32 },
    { "slice", "starts=1 stops=2", "int16[3,2] 1..6", 4, 4 },
    { "stack", "", "int32[2] 1 2; int32[2] 3 4", 16, 16 },
    { "one_hot", "depth=5", "int64[3] 1 2 3", 24, 60 },
    { "expand_dims", "axis=0", "string[2] 'abc' 'de'", 3 * 8 + 5, 3 * 8 + 5 },
    /* Half of the strings, of average size. */
    { "slice", "starts=1 stops=2", "string[2] 'abcdef' 'gh'", 2 * 8 + 4, 2 * 8 + 4 },
    { "slice", "starts=0 stops=0", "string[0]", 8, 8 },
};

TD_TEST_EACH(cost_is_the_bytes_on_both_sides, costs)
{
    struct op_call call;
    call_shapes(&call, costs[_i].op, costs[_i].attrs, costs[_i].inputs);
    call_infer(&call, costs[_i].op);
    ck_assert_int_eq(call.status, TD_OK);
    const struct td_cost cost = call.args.op->cost(&call.args);
    ck_assert_uint_eq(cost.bytes_read, costs[_i].read);
    ck_assert_uint_eq(cost.bytes_written, costs[_i].written);
    ck_assert_uint_eq(cost.random_reads, 0);
    ck_assert_uint_eq(cost.workspace + cost.workspace_per_thread, 0);
}

TD_TEST(reshape_expand_dims_and_squeeze_need_no_copy)
{
    ck_assert(td_op_reshape.reshapes && td_op_expand_dims.reshapes && td_op_squeeze.reshapes);
    ck_assert(!td_op_transpose.reshapes && !td_op_slice.reshapes && !td_op_stack.reshapes &&
              !td_op_one_hot.reshapes);
}

/* ---- Memory ------------------------------------------------------------------------------ */

TD_TEST(data_need_not_be_aligned)
{
    static const char bytes[] = "-abcdefghijklmnop";
    static const struct {
        const char *op, *attrs, *want;
    } calls[] = {
        { "reshape", "shape=1,2", "abcdefghijklmnop" },
        { "transpose", "perm=1,0", "abcdefghijklmnop" },
        { "slice", "starts=-1 stops=-9 steps=-1", "ijklmnopabcdefgh" },
        { "stack", "axis=0", "abcdefghijklmnop" },
    };
    for (int i = 0; i < COUNT_OF(calls); i++) {
        struct td_tensor x = tensor_without_data("int64[2,1]");
        struct op_call call;
        x.data = (char *)bytes + 1;
        call_op(&call, calls[i].op, calls[i].attrs, x, x, NULL);
        ck_assert_int_eq(call.status, TD_OK);
        ck_assert_mem_eq(call.args.outputs[0].data, calls[i].want, 16);
    }
}

TD_TEST(strings_may_be_views_and_their_bytes_have_a_limit)
{
    static const struct {
        const char *op, *attrs, *want;
    } calls[] = {
        { "reshape", "shape=3,1", "string[3,1] 'b' 'cc' ''" },
        { "transpose", "", "string[3] 'b' 'cc' ''" },
        { "slice", "starts=-1 stops=-9 steps=-1", "string[3] '' 'cc' 'b'" },
        { "stack", "axis=0", "string[1,3] 'b' 'cc' ''" },
    };
    struct td_tensor all = tensor("string[4] 'skipped' 'b' 'cc' ''"), view = all;
    view.shape = shape("[3]");
    view.numel = 3;
    view.offsets = all.offsets + 1; /* begins at 7 */
    for (int i = 0; i < COUNT_OF(calls); i++) {
        struct op_call call;
        struct td_exec exec;
        td_exec_serial(&exec, &test_arena);
        exec.output_limit = 3;
        call_op(&call, calls[i].op, calls[i].attrs, view, view, &exec);
        ck_assert_int_eq(call.status, TD_OK);
        expect_tensor(&call.args.outputs[0], calls[i].want, calls[i].op);
        exec.output_limit = 2;
        call_op(&call, calls[i].op, calls[i].attrs, view, view, &exec);
        ck_assert_int_eq(call.status, TD_RESOURCE_LIMIT);
        ck_assert_str_eq(call.err.resource, "output_bytes");
    }
}

TD_TEST(without_memory_shapes_are_refused)
{
    const struct td_tensor strings = tensor("string[2,1] 'ab' 'c'");
    expect_memory_needed("reshape", "shape=-1", strings, strings);
    expect_memory_needed("expand_dims", "axis=0", strings, strings);
    expect_memory_needed("squeeze", "", strings, strings);
    expect_memory_needed("transpose", "", strings, strings);
    expect_memory_needed("slice", "starts=1 stops=2", strings, strings);
    expect_memory_needed("stack", "", strings, strings);
}

/* one_hot needs memory only to describe its output. */
TD_TEST(without_memory_one_hot_is_refused)
{
    const struct td_tensor indices = tensor("int32[1] 1");
    struct td_arena arena;
    struct td_error err;
    struct op_call call;
    char space[1024];
    td_status status = TD_OK;
    for (size_t size = 0; size < sizeof(space); size += 16) {
        call_begin(&call, "one_hot", "depth=2", indices, indices);
        td_arena_init(&arena, space, size, &no_memory);
        status = td_op_infer(&td_op_one_hot, &call.args, &arena, &err);
        ck_assert(status == TD_OK || status == TD_MEMORY_EXHAUSTED);
        ck_assert(size > 0 || status == TD_MEMORY_EXHAUSTED);
        td_arena_reset(&arena);
    }
    ck_assert_int_eq(status, TD_OK);
}
