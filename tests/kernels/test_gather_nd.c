#include "kernels/gather_nd/gather_nd.h"
#include "tests/support/op_call.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <string.h>

/* Beside those of tests/conformance/cases. */
static const struct {
    const char *case_name;
    const char *attrs;
    const char *params, *indices;
    const char *output;
} results[] = {
    { "empty tuples in batches", "batch_dims=1", "int32[2,2] 0..3", "int32[2,3,0]",
      "int32[2,3,2] 0 1 0 1 0 1 2 3 2 3 2 3" },
    { "an output of rank 16", "", "float32[1,1,1,1,1,1,1,1,1,1] 5", "int32[1,1,1,1,1,1,1,1] 0",
      "float32[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1] 5" },
    { "slices without elements", "", "float32[2,0]", "int32[3,1] 0 1 0", "float32[3,0]" },
    { "dimensions whose product overflows, besides a 0", "",
      "float32[1099511627776,1099511627776,0]", "int32[1,2] 1099 1099", "float32[1,0]" },
};

TD_TEST_EACH(gather_nd_has_output, results)
{
    struct op_call call;
    call_op(&call, "gather_nd", results[_i].attrs, tensor(results[_i].params),
            tensor(results[_i].indices), NULL);
    ck_assert_msg(call.status == TD_OK, "%s: %s", results[_i].case_name, call.err.message);
    ck_assert_int_eq(call.args.n_outputs, 1);
    ck_assert_int_eq(call.args.replaced, 0);
    expect_tensor(&call.args.outputs[0], results[_i].output, results[_i].case_name);
}

static const struct {
    const char *case_name;
    const char *attrs;
    const char *params, *indices;
    const char *output;
    int64_t replaced;
} policies[] = {
    { "zero makes the whole row zero", "bounds=zero", "int32[2,2] 1..4",
      "int32[4,2] 0 1 0 2 -1 0 1 1", "int32[4] 2 0 0 4", 2 },
    { "a tuple with two bad components counts two", "bounds=zero", "int32[2,2] 1..4",
      "int32[1,2] 5 5", "int32[1] 0", 2 },
    { "empty strings", "bounds=zero", "string[2,2] 'a' 'b' 'c' 'd'", "int32[3,1] 2 1 0",
      "string[3,2] '' '' 'c' 'd' 'a' 'b'", 1 },
    { "in batches", "batch_dims=1 bounds=wrap", "int32[2,2] 1..4", "int32[2,1] -1 2",
      "int32[2] 2 3", 2 },
    { "zero with an empty dimension", "bounds=zero", "int32[0,3,2]", "int32[1,2] 0 1",
      "int32[1,2] 0 0", 1 },
    { "zero with an empty dimension, other products overflow", "bounds=zero",
      "int8[0,1099511627776,1099511627776]", "int32[2,3] 0 1 2 3 4 5", "int8[2] 0 0", 2 },
};

TD_TEST_EACH(a_policy_replaces_indices_and_counts_them, policies)
{
    struct op_call call;
    call_op(&call, "gather_nd", policies[_i].attrs, tensor(policies[_i].params),
            tensor(policies[_i].indices), NULL);
    ck_assert_msg(call.status == TD_OK, "%s: %s", policies[_i].case_name, call.err.message);
    expect_tensor(&call.args.outputs[0], policies[_i].output, policies[_i].case_name);
    ck_assert_msg(call.args.replaced == policies[_i].replaced, "%s: replaced %d",
                  policies[_i].case_name, (int)call.args.replaced);
}

static const struct {
    const char *case_name;
    const char *attrs;
    const char *params, *indices;
    td_status status;
    const char *message, *input, *attribute;
} refusals[] = {
    { "scalar params", "", "float32[] 0", "int32[2,0]", TD_INVALID_ARGUMENT,
      "params is a scalar; expected at least one dimension", "params", "" },
    { "scalar indices", "", "float32[2,3]", "int32[] 0", TD_INVALID_ARGUMENT,
      "indices is a scalar; expected at least one dimension", "indices", "" },
    { "negative batch_dims", "batch_dims=-1", "float32[2,3,4]", "int32[2,1]", TD_INVALID_BATCH_DIMS,
      "batch_dims = -1 is not in [0, 2): indices has shape [2,1]", "", "batch_dims" },
    { "batch_dims of the rank of indices", "batch_dims=2", "float32[2,3,4]", "int32[2,1]",
      TD_INVALID_BATCH_DIMS, "batch_dims = 2 is not in [0, 2): indices has shape [2,1]", "",
      "batch_dims" },
    { "tuples longer than the rank of params", "", "float32[2,2]", "int32[1,3]", TD_SHAPE_MISMATCH,
      "batch_dims = 0 plus the last dimension of indices [1,3], 3, exceeds the rank of params "
      "[2,2], 2",
      "indices", "" },
    { "row numbers in a flat list", "", "float32[4,2]", "int32[3]", TD_SHAPE_MISMATCH,
      "indices has shape [3], which is one tuple of 3 positions; to select rows by number, pass "
      "indices of shape [3,1], one tuple per row: [[i], [j], ...]",
      "indices", "" },
    { "tuples longer than the rank without batch dimensions", "batch_dims=1", "float32[2,2]",
      "int32[2,1,2]", TD_SHAPE_MISMATCH,
      "batch_dims = 1 plus the last dimension of indices [2,1,2], 2, exceeds the rank of params "
      "[2,2], 2",
      "indices", "" },
    { "more batch dimensions than the rank of params", "batch_dims=2", "float32[2]", "int32[2,1,0]",
      TD_SHAPE_MISMATCH,
      "batch_dims = 2 plus the last dimension of indices [2,1,0], 0, exceeds the rank of params "
      "[2], 1",
      "indices", "" },
    { "tuples of 2^40 components", "", "float32[2]", "int32[0,1099511627776]", TD_SHAPE_MISMATCH,
      "batch_dims = 0 plus the last dimension of indices [0,1099511627776], 1099511627776, exceeds "
      "the rank of params [2], 1",
      "indices", "" },
    { "different batch dimensions", "batch_dims=1", "float32[2,3,4]", "int32[3,1]",
      TD_SHAPE_MISMATCH,
      "batch dimension 0 is 2 in params [2,3,4] and 3 in indices [3,1]; the sizes must be equal",
      "indices", "" },
    { "floating-point indices", "", "float32[3]", "float32[1,1]", TD_UNSUPPORTED_DTYPE,
      "indices has dtype float32; expected int16, int32 or int64; pass integers as int64",
      "indices", "" },
    { "an output of rank 17", "", "float32[1,1,1,1,1,1,1,1,1,1]", "int32[1,1,1,1,1,1,1,1,1]",
      TD_RESOURCE_LIMIT, "output needs 17 dimensions; the limit is 16", "", "" },
};

TD_TEST_EACH(infer_refuses, refusals)
{
    struct op_call call;
    call_begin(&call, "gather_nd", refusals[_i].attrs, tensor_without_data(refusals[_i].params),
               tensor_without_data(refusals[_i].indices));
    call_infer(&call, "gather_nd");
    expect_refusal(&call, refusals[_i].status, refusals[_i].message, refusals[_i].input,
                   refusals[_i].attribute, refusals[_i].case_name);
    ck_assert_int_eq(call.err.n_shapes, call.status == TD_SHAPE_MISMATCH ? 2 : 0);
}

static const struct {
    const char *case_name;
    const char *attrs;
    const char *params, *indices;
    const char *message;
    int axis, bad_count;
} out_of_bounds[] = {
    { "the second component", "", "string[2,2] 'a' 'b' 'c' 'd'", "int32[2,2] 0 0 0 2",
      "indices[1,1] = 2 is not in [0, 2): tuple [0,2] indexes dimension 1 of params [2,2]", 1, 1 },
    { "a negative component does not wrap", "", "int32[2,2] 0..3", "int32[1,2,2] 0 0 -1 0",
      "indices[0,1,0] = -1 is not in [0, 2): tuple [-1,0] indexes dimension 0 of params [2,2]", 0,
      1 },
    { "each component has its own bound", "", "float32[3,4] 0..11", "int32[2,2] 2 3 3 3",
      "indices[1,0] = 3 is not in [0, 3): tuple [3,3] indexes dimension 0 of params [3,4]", 0, 1 },
    { "two bad components: the first is reported, both count", "", "float32[3,4] 0..11",
      "int32[2,2] 0 0 3 4",
      "indices[1,0] = 3 is not in [0, 3): tuple [3,4] indexes dimension 0 of params [3,4]", 0, 2 },
    { "the dimension is after the batch dimensions", "batch_dims=1", "float32[2,3,1] 0..5",
      "int32[2,1] 2 3",
      "indices[1,0] = 3 is not in [0, 3): tuple [3] indexes dimension 1 of params [2,3,1]", 1, 1 },
    { "2^32 is not truncated to 0", "", "float32[3,4] 0..11", "int64[1,2] 4294967296 0",
      "indices[0,0] = 4294967296 is not in [0, 3): tuple [4294967296,0] indexes dimension 0 of "
      "params [3,4]",
      0, 1 },
    { "an empty dimension", "", "float32[0,2]", "int32[1,2] 0 0",
      "indices[0,0] = 0 is not in [0, 0): tuple [0,0] indexes dimension 0 of params [0,2]", 0, 1 },
    { "clip with an empty dimension", "bounds=clip", "float32[2,0]", "int32[1,2] 0 0",
      "indices[0,1] = 0 is not in [0, 0): tuple [0,0] indexes dimension 1 of params [2,0]", 1, 1 },
    { "slices without elements", "", "float32[2,0]", "int32[1,1] 2",
      "indices[0,0] = 2 is not in [0, 2): tuple [2] indexes dimension 0 of params [2,0]", 0, 1 },
    { "one tuple without other dimensions", "", "float32[2,2] 0..3", "int16[2] 1 5",
      "indices[1] = 5 is not in [0, 2): tuple [1,5] indexes dimension 1 of params [2,2]", 1, 1 },
};

TD_TEST_EACH(run_refuses_the_first_bad_component, out_of_bounds)
{
    struct op_call call;
    call_op(&call, "gather_nd", out_of_bounds[_i].attrs, tensor(out_of_bounds[_i].params),
            tensor(out_of_bounds[_i].indices), NULL);
    expect_index_error(&call.err, "indices", out_of_bounds[_i].message,
                       out_of_bounds[_i].bad_count);
    ck_assert_int_eq(call.err.axis, out_of_bounds[_i].axis);
}

TD_TEST(cost_follows_from_shapes)
{
    struct op_call call;
    call_begin(&call, "gather_nd", "", tensor_without_data("float32[10,1000,8]"),
               tensor_without_data("int32[50,2]"));
    call_infer(&call, "gather_nd");
    struct td_cost cost = td_op_gather_nd.cost(&call.args);
    ck_assert_uint_eq(cost.bytes_written, 1600);
    ck_assert_uint_eq(cost.bytes_read, 1600 + 400);
    ck_assert_uint_eq(cost.random_reads, 50);
}

/* Members in the order of the structs. */
static const struct {
    const char *case_name, *attrs, *params, *indices;
    struct td_gather_nd_geometry geometry;
} geometries[] = {
    { "elements of a matrix", "", "float32[5,7]", "int32[3,2]",
      LIST(LIST(2, LIST(5, 7), LIST(7, 1)), TD_BOUNDS_ERROR, 3, 1, 35, 3, 1, 4) },
    { "rows by shorter tuples", "bounds=zero", "int16[5,7,2]", "int32[3,4,1]",
      LIST(LIST(1, LIST(5), LIST(1)), TD_BOUNDS_ZERO, 12, 1, 5, 12, 14, 28) },
    { "batches", "batch_dims=2", "int8[2,3,4,5,6]", "int64[2,3,9,2]",
      LIST(LIST(2, LIST(4, 5), LIST(5, 1)), TD_BOUNDS_ERROR, 54, 6, 20, 9, 6, 6) },
    { "empty tuples", "", "int8[2,3]", "int64[4,0]",
      LIST(LIST(.depth = 0), TD_BOUNDS_ERROR, 4, 1, 1, 4, 6, 6) },
    { "zeros from an empty table", "bounds=zero", "int8[4,0,3]", "int64[2,2]",
      LIST(LIST(2, LIST(4, 0), LIST(0, 1)), TD_BOUNDS_ZERO, 2, 1, 0, 2, 3, 3) },
    { "strings", "", "string[5,7]", "int32[3,1]",
      LIST(LIST(1, LIST(5), LIST(1)), TD_BOUNDS_ERROR, 3, 1, 5, 3, 7, 0) },
    { "rows without elements: components still have bounds", "", "int8[4,5,0]", "int64[2,2]",
      LIST(.space = LIST(2, LIST(4, 5), LIST(5, 1))) },
    { "no tuples", "", "int8[4,5]", "int64[0,2]", LIST(.space = LIST(2, LIST(4, 5), LIST(5, 1))) },
};

TD_TEST_EACH(geometry_merges_dimensions, geometries)
{
    struct op_call call;
    const struct td_gather_nd_geometry want = geometries[_i].geometry;
    const char *case_name = geometries[_i].case_name;
    call_begin(&call, "gather_nd", geometries[_i].attrs, tensor_without_data(geometries[_i].params),
               tensor_without_data(geometries[_i].indices));
    call_infer(&call, "gather_nd");
    ck_assert_msg(call.status == TD_OK, "%s: %s", case_name, call.err.message);
    struct td_gather_nd_geometry got = td_gather_nd_geometry(&call.args);
    ck_assert_msg(got.space.depth == want.space.depth && got.bounds == want.bounds, "%s: tuples",
                  case_name);
    for (int c = 0; c < want.space.depth; c++)
        ck_assert_msg(got.space.bound[c] == want.space.bound[c] &&
                          got.space.stride[c] == want.space.stride[c],
                      "%s: component %d", case_name, c);
    ck_assert_msg(got.n_rows == want.n_rows, "%s: n_rows", case_name);
    ck_assert_msg(got.batches == want.batches && got.block_rows == want.block_rows &&
                      got.block_tuples == want.block_tuples,
                  "%s: blocks", case_name);
    ck_assert_msg(got.row_numel == want.row_numel && got.row_bytes == want.row_bytes, "%s: rows",
                  case_name);
}
