#include "kernels/gather/gather.h"
#include "tests/support/op_call.h"
#include "tests/support/random.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"
#include "tests/support/threads.h"

#include <string.h>

/* Beside those of tests/conformance/cases. */
static const struct {
    const char *case_name;
    const char *op, *attrs;
    const char *params, *indices;
    const char *output;
} results[] = {
    { "NaN bits are preserved", "gather", "", "float16[3] 0x7e01 0xfc00 0x8000", "int32[3] 2 1 0",
      "float16[3] 0x8000 0xfc00 0x7e01" },
    { "dtype converts as cast does", "gather", "dtype=int8", "float64[3] 1.9 -300 nan",
      "int64[3] 2 1 0", "int8[3] 0 -128 1" },
    { "along any axis", "gather", "axis=1 dtype=complex64", "int16[2,3] 0..5", "int32[1] 2",
      "complex64[2,1] 2 0 5 0" },
    { "or to what params has", "gather", "dtype=int16", "int16[3] 7 8 9", "int32[1] 1",
      "int16[1] 8" },
    { "an output of rank 16", "gather", "", "float32[1,1,1,1,1,1,1,1,1,1] 5",
      "int32[1,1,1,1,1,1,1] 0", "float32[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1] 5" },
    { "no indices into strings", "gather", "", "string[2] 'a' 'b'", "int32[0]", "string[0]" },
    { "dimensions whose product overflows, besides a 0", "gather", "axis=2",
      "float32[1099511627776,1099511627776,0]", "int32[0]",
      "float32[1099511627776,1099511627776,0]" },
    { "dimensions after the axis whose product overflows, besides a 0", "gather", "",
      "float32[0,1099511627776,1099511627776]", "int32[0]",
      "float32[0,1099511627776,1099511627776]" },
};

TD_TEST_EACH(gather_has_output, results)
{
    struct op_call call;
    call_op(&call, results[_i].op, results[_i].attrs, tensor(results[_i].params),
            tensor(results[_i].indices), NULL);
    ck_assert_msg(call.status == TD_OK, "%s: %s", results[_i].case_name, call.err.message);
    ck_assert_int_eq(call.args.n_outputs, 1);
    ck_assert_int_eq(call.args.replaced, 0);
    expect_tensor(&call.args.outputs[0], results[_i].output, results[_i].case_name);
}

static const struct {
    const char *case_name;
    const char *op, *attrs;
    const char *params, *indices;
    const char *output;
    int64_t replaced;
} policies[] = {
    { "zeros of another dtype", "gather", "bounds=zero dtype=float32", "int8[2,2] 1 2 3 4",
      "int32[2] 2 1", "float32[2,2] 0 0 3 4", 1 },
    { "zero in every batch", "gather", "batch_dims=1 bounds=zero", "int32[2,2] 1..4",
      "int32[2,3] 0 2 1 -1 1 0", "int32[2,3] 1 0 2 0 4 3", 2 },
    { "zero with an empty axis of strings", "gather", "bounds=zero", "string[0]", "int32[2] 0 5",
      "string[2] '' ''", 2 },
};

TD_TEST_EACH(a_policy_replaces_indices_and_counts_them, policies)
{
    struct op_call call;
    call_op(&call, policies[_i].op, policies[_i].attrs, tensor(policies[_i].params),
            tensor(policies[_i].indices), NULL);
    ck_assert_msg(call.status == TD_OK, "%s: %s", policies[_i].case_name, call.err.message);
    expect_tensor(&call.args.outputs[0], policies[_i].output, policies[_i].case_name);
    ck_assert_msg(call.args.replaced == policies[_i].replaced, "%s: replaced %d",
                  policies[_i].case_name, (int)call.args.replaced);
}

static const struct {
    const char *case_name;
    const char *op, *attrs;
    const char *params, *indices;
    td_status status;
    const char *message, *input, *attribute;
} refusals[] = {
    { "scalar params", "gather", "axis=0", "float32[] 1", "int32[1] 0", TD_INVALID_ARGUMENT,
      "params is a scalar; expected at least one dimension", "params", "" },
    { "an axis equal to the rank", "gather", "axis=2", "float32[3,4]", "int32[1] 0",
      TD_INVALID_AXIS, "axis = 2 is not in [-2, 2): params has shape [3,4]", "", "axis" },
    { "an axis below minus the rank", "gather", "axis=-3", "float32[3,4]", "int32[1] 0",
      TD_INVALID_AXIS, "axis = -3 is not in [-2, 2): params has shape [3,4]", "", "axis" },
    { "an axis of 2^32 is not truncated to 0", "gather", "axis=4294967296", "float32[3,4]",
      "int32[1] 0", TD_INVALID_AXIS, "axis = 4294967296 is not in [-2, 2): params has shape [3,4]",
      "", "axis" },
    { "the smallest axis is not the default", "gather", "axis=-9223372036854775808", "float32[3,4]",
      "int32[1] 0", TD_INVALID_AXIS,
      "axis = -9223372036854775808 is not in [-2, 2): params has shape [3,4]", "", "axis" },
    { "batch_dims above the rank of indices", "gather", "axis=2 batch_dims=2", "float32[2,3,4]",
      "int32[2] 0 0", TD_INVALID_BATCH_DIMS,
      "batch_dims = 2 is not in [-1, 1]: indices has shape [2]", "", "batch_dims" },
    { "batch_dims below minus the rank of indices", "gather", "axis=1 batch_dims=-3",
      "float32[2,3,4]", "int32[2,1] 0 0", TD_INVALID_BATCH_DIMS,
      "batch_dims = -3 is not in [-2, 2]: indices has shape [2,1]", "", "batch_dims" },
    { "batch_dims of the rank of params", "gather", "batch_dims=1", "float32[2]", "int32[2] 0 0",
      TD_INVALID_BATCH_DIMS, "batch_dims = 1 is not below the rank of params, which has shape [2]",
      "", "batch_dims" },
    { "batch_dims above the axis", "gather", "axis=0 batch_dims=1", "float32[2,3,4]",
      "int32[2,1] 0 0", TD_INVALID_BATCH_DIMS,
      "batch_dims = 1 is above axis = 0; it must be at most axis", "", "batch_dims" },
    { "different batch dimensions", "gather", "axis=1 batch_dims=1", "float32[2,3,4]",
      "int32[3,1] 0 0 9", TD_SHAPE_MISMATCH,
      "batch dimension 0 is 2 in params [2,3,4] and 3 in indices [3,1]; the sizes must be equal",
      "indices", "" },
    { "floating-point indices", "gather", "", "float32[3]", "float32[1] 0", TD_UNSUPPORTED_DTYPE,
      "indices has dtype float32; expected int16, int32 or int64; pass integers as int64",
      "indices", "" },
    { "strings as numbers", "gather", "dtype=float32", "string[3]", "int32[1] 0",
      TD_UNSUPPORTED_DTYPE,
      "params has dtype string, which cannot be converted to float32; leave out dtype", "",
      "dtype" },
    { "numbers as strings", "gather", "dtype=string", "float32[3]", "int32[1] 0",
      TD_UNSUPPORTED_DTYPE,
      "dtype is string; expected bool, int8, int16, int32, int64, uint8, uint16, uint32, uint64, "
      "float16, "
      "bfloat16, float32, float64, complex64 or complex128",
      "", "dtype" },
    { "an output of rank 17", "gather", "", "float32[1,1,1,1,1,1,1,1,1,1]",
      "int32[1,1,1,1,1,1,1,1] 0", TD_RESOURCE_LIMIT, "output needs 17 dimensions; the limit is 16",
      "", "" },
    { "batch_gather: scalar indices", "batch_gather", "", "float32[2,3]", "int32[] 0",
      TD_INVALID_ARGUMENT, "indices is a scalar; expected at least one dimension", "indices", "" },
    { "batch_gather: scalar params", "batch_gather", "", "float32[] 0", "int32[1] 0",
      TD_INVALID_ARGUMENT, "params is a scalar; expected at least one dimension", "params", "" },
    { "batch_gather: indices of a higher rank", "batch_gather", "", "float32[3,4]", "int32[3,4,1]",
      TD_SHAPE_MISMATCH,
      "indices [3,4,1] has more dimensions than params [3,4]; expected at most 2", "indices", "" },
    { "batch_gather: different batch dimensions", "batch_gather", "", "float32[2,3,4]",
      "int32[3,1] 0 0 9", TD_SHAPE_MISMATCH,
      "batch dimension 0 is 2 in params [2,3,4] and 3 in indices [3,1]; the sizes must be equal",
      "indices", "" },
};

TD_TEST_EACH(infer_refuses, refusals)
{
    struct op_call call;
    call_begin(&call, refusals[_i].op, refusals[_i].attrs, tensor_without_data(refusals[_i].params),
               tensor_without_data(refusals[_i].indices));
    call_infer(&call, refusals[_i].op);
    expect_refusal(&call, refusals[_i].status, refusals[_i].message, refusals[_i].input,
                   refusals[_i].attribute, refusals[_i].case_name);
    if (call.status == TD_SHAPE_MISMATCH) {
        ck_assert_int_eq(call.err.n_shapes, 2);
        ck_assert_str_eq(call.err.shapes[0].name, "params");
        ck_assert(td_shape_equal(&call.err.shapes[0].shape, &call.args.inputs[0].tensors->shape));
        ck_assert_str_eq(call.err.shapes[1].name, "indices");
        ck_assert(td_shape_equal(&call.err.shapes[1].shape, &call.args.inputs[1].tensors->shape));
    }
}

TD_TEST(an_output_too_large_to_count_is_refused)
{
    struct op_call call;
    call_begin(&call, "gather", "", tensor_without_data("float32[1,4294967296]"),
               tensor_without_data("int32[2147483648]"));
    call_infer(&call, "gather");
    ck_assert_int_eq(call.status, TD_RESOURCE_LIMIT);
    ck_assert_str_eq(call.err.input, "output");
}

static const struct {
    const char *case_name;
    const char *op, *attrs;
    const char *params, *indices;
    const char *message;
    int axis, bad_count;
} out_of_bounds[] = {
    { "an index equal to the bound", "gather", "", "float32[3,1] 0 0 0", "int32[2] 0 3",
      "indices[1] = 3 is not in [0, 3)", 0, 1 },
    { "a negative index does not wrap", "gather", "", "float32[3] 0 0 0", "int16[1] -1",
      "indices[0] = -1 is not in [0, 3); find returns -1 for a missing key, for which bounds = "
      "zero gives zeros; bounds = wrap counts negative indices from the end",
      0, 1 },
    { "the first of two, with the axis", "gather", "axis=-1", "float32[1,3] 0 0 0",
      "int32[2,2] 0 7 -2 1", "indices[0,1] = 7 is not in [0, 3)", 1, 2 },
    { "a scalar has no position", "gather", "", "float32[3] 0 0 0", "int32[] 3",
      "indices = 3 is not in [0, 3)", 0, 1 },
    { "2^32 is not truncated to 0", "gather", "", "float32[3] 0 0 0", "int64[1] 4294967296",
      "indices[0] = 4294967296 is not in [0, 3)", 0, 1 },
    { "in a batch", "gather", "batch_dims=1", "float32[2,3] 0..5", "int32[2,1] 2 3",
      "indices[1,0] = 3 is not in [0, 3)", 1, 1 },
    { "an axis of size 0", "gather", "", "float32[0,3]", "int32[1] 0",
      "indices[0] = 0 is not in [0, 0)", 0, 1 },
    { "clip with an empty axis", "gather", "bounds=clip", "float32[0]", "int32[2] 0 1",
      "indices[0] = 0 is not in [0, 0)", 0, 2 },
    { "wrap with an empty axis", "gather", "bounds=wrap", "float32[0]", "int32[1] -1",
      "indices[0] = -1 is not in [0, 0)", 0, 1 },
    { "rows without elements", "gather", "", "float32[3,0]", "int32[1] 3",
      "indices[0] = 3 is not in [0, 3)", 0, 1 },
    { "strings", "gather", "", "string[2] 'a' 'b'", "int32[3] 1 0 2",
      "indices[2] = 2 is not in [0, 2)", 0, 1 },
    { "batch_gather", "batch_gather", "", "float32[3,4] 0..11", "int32[3,2] 0 1 2 -1 3 0",
      "indices[1,1] = -1 is not in [0, 4); find returns -1 for a missing key, for which bounds = "
      "zero gives zeros; bounds = wrap counts negative indices from the end",
      1, 1 },
};

TD_TEST_EACH(run_refuses_the_first_bad_index, out_of_bounds)
{
    struct op_call call;
    call_op(&call, out_of_bounds[_i].op, out_of_bounds[_i].attrs, tensor(out_of_bounds[_i].params),
            tensor(out_of_bounds[_i].indices), NULL);
    expect_index_error(&call.err, "indices", out_of_bounds[_i].message,
                       out_of_bounds[_i].bad_count);
    ck_assert_int_eq(call.err.axis, out_of_bounds[_i].axis);
    const unsigned char *out = call.args.outputs[0].data;
    for (size_t i = 0; i < call.args.outputs[0].bytes; i++)
        EXPECT(out[i] == 0xA5, "%s: the output was touched", out_of_bounds[_i].case_name);
}

TD_TEST(cost_follows_from_shapes)
{
    struct op_call call;
    call_begin(&call, "gather", "axis=1", tensor_without_data("float32[10,1000,8]"),
               tensor_without_data("int64[50]"));
    call_infer(&call, "gather");
    struct td_cost cost = td_op_gather.cost(&call.args);
    ck_assert_uint_eq(cost.bytes_written, 16000);
    ck_assert_uint_eq(cost.bytes_read, 16000 + 400);
    ck_assert_uint_eq(cost.random_reads, 500);
    ck_assert_uint_eq(cost.flops, 0);
    ck_assert_uint_eq(cost.workspace, 0);
}

TD_TEST(an_empty_output_costs_its_indices)
{
    struct op_call call;
    call_begin(&call, "gather", "", tensor_without_data("float32[10,0]"),
               tensor_without_data("int64[50]"));
    call_infer(&call, "gather");
    struct td_cost cost = td_op_gather.cost(&call.args);
    ck_assert_uint_eq(cost.bytes_written, 0);
    ck_assert_uint_eq(cost.bytes_read, 400);
    ck_assert_uint_eq(cost.random_reads, 0);
}

TD_TEST(strings_cost_their_average)
{
    struct op_call call;
    call_begin(&call, "gather", "", tensor("string[2] 'aaa' 'b'"), tensor("int32[3] 0 0 0"));
    call_infer(&call, "gather");
    struct td_cost cost = td_op_gather.cost(&call.args);
    ck_assert_uint_eq(cost.bytes_written, 32 + 6);
}

/* Members in the order of the struct. */
static const struct {
    const char *case_name, *op, *attrs, *params, *indices;
    struct td_gather_geometry geometry;
} geometries[] = {
    { "rows", "gather", "", "float32[5,2]", "int32[3]",
      LIST(5, TD_BOUNDS_ERROR, 3, 1, 1, 3, 2, 8) },
    { "all four dimensions of params", "gather", "axis=2 batch_dims=1", "int16[2,3,4,5]",
      "int64[2,6]", LIST(4, TD_BOUNDS_ERROR, 36, 2, 3, 6, 5, 10) },
    { "several dimensions in each group", "gather", "axis=4 batch_dims=2 bounds=clip",
      "int8[2,3,4,5,6,7,8]", "int64[2,3,2,3]", LIST(6, TD_BOUNDS_CLIP, 720, 6, 20, 6, 56, 56) },
    { "one index along the last axis", "gather", "axis=-1 bounds=wrap", "int8[2,3,4]", "int16[]",
      LIST(4, TD_BOUNDS_WRAP, 6, 1, 6, 1, 1, 1) },
    { "batches", "batch_gather", "bounds=zero", "float64[2,3,4]", "int32[2,5]",
      LIST(3, TD_BOUNDS_ZERO, 10, 2, 1, 5, 4, 32) },
    { "strings", "gather", "", "string[5,2]", "int32[3]",
      LIST(5, TD_BOUNDS_ERROR, 3, 1, 1, 3, 2, 0) },
    { "zeros from an empty table", "gather", "bounds=zero", "float32[0,2]", "int32[3]",
      LIST(0, TD_BOUNDS_ZERO, 3, 1, 1, 3, 2, 8) },
    { "rows without elements: indices still have a bound", "gather", "", "float32[5,0]", "int32[3]",
      LIST(.slice_rows = 5) },
    { "no slices", "gather", "axis=1", "float32[0,7]", "int32[3]", LIST(.slice_rows = 7) },
    { "no indices", "gather", "bounds=clip", "float32[5,2]", "int32[0]",
      LIST(.slice_rows = 5, .bounds = TD_BOUNDS_CLIP) },
    { "rows whose size overflows", "gather", "", "int8[0,4611686018427387904,4611686018427387904]",
      "int32[0]", LIST(0) },
};

TD_TEST_EACH(geometry_merges_dimensions, geometries)
{
    struct op_call call;
    const struct td_gather_geometry want = geometries[_i].geometry;
    const char *case_name = geometries[_i].case_name, *op = geometries[_i].op;
    call_begin(&call, op, geometries[_i].attrs, tensor_without_data(geometries[_i].params),
               tensor_without_data(geometries[_i].indices));
    call_infer(&call, op);
    ck_assert_msg(call.status == TD_OK, "%s: %s", case_name, call.err.message);
    struct td_gather_geometry got = td_gather_geometry(&call.args);
    ck_assert_msg(got.slice_rows == want.slice_rows && got.bounds == want.bounds, "%s: bound",
                  case_name);
    ck_assert_msg(got.n_rows == want.n_rows, "%s: n_rows", case_name);
    ck_assert_msg(got.batches == want.batches && got.slices == want.slices &&
                      got.slice_indices == want.slice_indices,
                  "%s: slices", case_name);
    ck_assert_msg(got.row_numel == want.row_numel && got.row_bytes == want.row_bytes, "%s: rows",
                  case_name);
}

/* Rows of a few elements in several ranges, and rows that are cast in parts. */
static const int64_t converted_columns[] = { 1, 7, 300, 70000 };

TD_TEST_EACH(converted_rows_are_rows_cast, converted_columns)
{
    const int64_t columns = converted_columns[_i], rows = columns > 1000 ? 3 : 200;
    struct op_call converted, picked, cast;
    struct thread_exec exec;
    random_seed((uint64_t)_i);
    const struct td_tensor params =
        random_tensor(TD_DTYPE_INT32, &(struct td_shape){ .rank = 2, .dim = { rows, columns } });
    const struct td_tensor indices = random_tensor(
        TD_DTYPE_INT16, &(struct td_shape){ .rank = 1, .dim = { columns > 1000 ? 4 : 1500 } });
    thread_exec_init(&exec, 3, 0);
    call_op(&converted, "gather", "bounds=wrap dtype=bfloat16", params, indices, &exec.exec);
    call_op(&picked, "gather", "bounds=wrap", params, indices, NULL);
    call_op(&cast, "cast", "dtype=bfloat16", picked.args.outputs[0], (struct td_tensor){ 0 }, NULL);
    EXPECT(converted.status == TD_OK && cast.status == TD_OK, "%s", converted.err.message);
    expect_same_tensor(&converted.args.outputs[0], &cast.args.outputs[0], "bfloat16 of int32");
}

TD_TEST(rows_that_are_not_aligned_are_converted)
{
    struct op_call call;
    char unaligned[3 * sizeof(double) + 1];
    struct td_tensor params = tensor("float64[3] 1.5 2.5 3.5");
    memcpy(unaligned + 1, params.data, params.bytes);
    params.data = unaligned + 1;
    call_op(&call, "gather", "dtype=float32", params, tensor("int32[2] 2 0"), NULL);
    ck_assert_int_eq(call.status, TD_OK);
    expect_tensor(&call.args.outputs[0], "float32[2] 3.5 1.5", "not aligned");
}

TD_TEST(converting_costs_what_is_read_and_what_is_written)
{
    struct op_call call;
    call_begin(&call, "gather", "dtype=float32", tensor_without_data("float16[1000,8]"),
               tensor_without_data("int64[50]"));
    call_infer(&call, "gather");
    struct td_cost cost = td_op_gather.cost(&call.args);
    ck_assert_uint_eq(cost.bytes_written, 1600);
    ck_assert_uint_eq(cost.bytes_read, 800 + 400);
    ck_assert_uint_eq(cost.flops, 400);
}
