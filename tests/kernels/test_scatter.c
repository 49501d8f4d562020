#include "kernels/half.h"
#include "kernels/op_check.h"
#include "kernels/scatter/scatter.h"
#include "tests/support/op_call.h"
#include "tests/support/random.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"
#include "tests/support/threads.h"

#include <stdio.h>
#include <string.h>

/* ---- A call ------------------------------------------------------------------------------ */

struct call {
    struct td_tensor inputs[3];
    struct td_op_args args;
    struct td_error err;
    td_status status;
};

static struct td_tensor copy_of(const struct td_tensor *tensor)
{
    struct td_tensor copy = *tensor;
    struct td_error err;
    if (!tensor->data)
        return copy;
    copy.data = td_arena_alloc(&test_arena, tensor->bytes, 1, &err);
    EXPECT(copy.data != NULL, "%s", err.message);
    memcpy(copy.data, tensor->data, tensor->bytes);
    return copy;
}

/* Takes a copy of params, since an update in place modifies it. */
static void infer(struct call *call, td_scatter_mode mode, struct td_tensor params,
                  struct td_tensor indices, struct td_tensor updates)
{
    *call = (struct call){ .inputs = { copy_of(&params), indices, updates } };
    for (int i = 0; i < 3; i++)
        call->args.inputs[i] = (struct td_operand){ &call->inputs[i], 1 };
    td_op_set_defaults(&td_op_scatter, &call->args);
    td_op_set_choice(&td_op_scatter.attrs[0], &call->args, (int)mode);
    call->status = td_op_infer(&td_op_scatter, &call->args, &test_arena, &call->err);
}

/* An output that is not in place is filled with arbitrary bytes first, as in a reused buffer. */
static void run(struct call *call, bool in_place, struct td_exec *exec)
{
    struct td_exec serial;
    if (call->status != TD_OK)
        return;
    struct td_tensor *out = &call->args.outputs[0];
    if (in_place && out->dtype != TD_DTYPE_STRING) {
        out->data = call->inputs[0].data;
    } else {
        EXPECT(td_tensor_alloc(out, &test_arena, &call->err) == TD_OK, "%s", call->err.message);
        memset(out->data, 0xA5, out->bytes);
    }
    td_exec_serial(&serial, &test_arena);
    call->status = td_op_scatter.run(&call->args, exec ? exec : &serial, &call->err);
}

/* ---- Results ----------------------------------------------------------------------------- */

/* Cases with "tf" are the examples of tf.tensor_scatter_nd_update and tf.tensor_scatter_nd_add in
 * TensorFlow's documentation. */
static const struct {
    const char *case_name;
    td_scatter_mode mode;
    const char *params, *indices, *updates;
    const char *output;
} results[] = {
    { "tf: elements of a vector", TD_SCATTER_SET, "int32[8] 0 0 0 0 0 0 0 0", "int32[4,1] 1 3 4 7",
      "int32[4] 9 10 11 12", "int32[8] 0 9 0 10 11 0 0 12" },
    { "tf: elements of a matrix", TD_SCATTER_SET, "int32[2,3] 1 1 1 1 1 1",
      "int32[3,2] 0 1 1 0 1 1", "int32[3] 9 10 11", "int32[2,3] 1 9 1 10 11 1" },
    { "tf: rows of a matrix", TD_SCATTER_SET, "int32[6,3] 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1",
      "int32[2,1] 2 4", "int32[2,3] 1 2 3 4 5 6",
      "int32[6,3] 1 1 1 1 1 1 1 2 3 1 1 1 4 5 6 1 1 1" },
    { "tf: added to elements", TD_SCATTER_ADD, "int32[8] 1 1 1 1 1 1 1 1", "int32[4,1] 4 3 1 7",
      "int32[4] 9 10 11 12", "int32[8] 1 12 1 11 10 1 1 13" },
    { "tf: added to matrices", TD_SCATTER_ADD, "int32[4,4] 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1",
      "int32[2,1] 0 2", "int32[2,4] 5 5 5 5 6 6 6 6",
      "int32[4,4] 6 6 6 6 1 1 1 1 7 7 7 7 1 1 1 1" },
    { "of equal tuples the last counts", TD_SCATTER_SET, "int32[3] 0 0 0", "int64[4,1] 1 2 1 1",
      "int32[4] 5 6 7 8", "int32[3] 0 8 6" },
    { "of equal tuples all are added", TD_SCATTER_ADD, "int32[3] 1 2 3", "int64[4,1] 1 2 1 1",
      "int32[4] 5 6 7 8", "int32[3] 1 22 9" },
    { "batches of tuples", TD_SCATTER_SET, "int8[2,2] 1 2 3 4", "int16[2,1,2] 0 0 1 1",
      "int8[2,1] 7 8", "int8[2,2] 7 2 3 8" },
    { "one tuple without other dimensions", TD_SCATTER_SET, "int8[2,2] 1 2 3 4", "int16[1] 1",
      "int8[2] 7 8", "int8[2,2] 1 2 7 8" },
    { "one full tuple and a scalar", TD_SCATTER_ADD, "int8[2,2] 1 2 3 4", "int16[2] 1 0",
      "int8[] 7", "int8[2,2] 1 2 10 4" },
    { "tuples of four components", TD_SCATTER_SET, "int8[2,2,2,2] 0..15",
      "int32[2,4] 1 0 1 0 0 1 1 1", "int8[2] 50 51", "int8[2,2,2,2] 0..6 51 8 9 50 11..15" },
    { "an empty tuple selects all of params", TD_SCATTER_SET, "int32[2] 7 8", "int32[0]",
      "int32[2] 1 2", "int32[2] 1 2" },
    { "empty tuples are written in order", TD_SCATTER_SET, "int32[2] 7 8", "int32[3,0]",
      "int32[3,2] 1 2 3 4 5 6", "int32[2] 5 6" },
    { "empty tuples add to all of params", TD_SCATTER_ADD, "int32[2] 7 8", "int32[3,0]",
      "int32[3,2] 1 2 3 4 5 6", "int32[2] 16 20" },
    { "no tuples change nothing", TD_SCATTER_ADD, "float32[2,3] 0..5", "int32[0,2]", "float32[0]",
      "float32[2,3] 0..5" },
    { "no tuples change no strings", TD_SCATTER_SET, "string[2] 'a' 'bc'", "int32[0,1]",
      "string[0]", "string[2] 'a' 'bc'" },
    { "no tuples into an empty tensor", TD_SCATTER_SET, "float32[0,2]", "int32[0,2]", "float32[0]",
      "float32[0,2]" },
    { "slices without elements", TD_SCATTER_SET, "float32[2,0]", "int32[3,1] 0 1 0", "float32[3,0]",
      "float32[2,0]" },
    { "slices without strings", TD_SCATTER_SET, "string[2,0]", "int32[3,1] 0 1 0", "string[3,0]",
      "string[2,0]" },
    { "strings", TD_SCATTER_SET, "string[3] 'one' '' 'three'", "int32[3,1] 1 2 1",
      "string[3] 'x' '\\x00\\xff' 'later'", "string[3] 'one' 'later' '\\x00\\xff'" },
    { "rows of strings", TD_SCATTER_SET, "string[3,2] 'a' 'b' 'c' 'd' 'e' 'f'", "int32[1,1] 1",
      "string[1,2] '' 'long'", "string[3,2] 'a' 'b' '' 'long' 'e' 'f'" },
    { "bool", TD_SCATTER_SET, "bool[3] 1 0 1", "int32[2,1] 0 1", "bool[2] 0 1", "bool[3] 0 1 1" },
    { "int8 is multiplied modulo 2^8", TD_SCATTER_MUL, "int8[2] -128 3", "int32[2,1] 0 1",
      "int8[2] 3 100", "int8[2] -128 44" },
    { "int16 is multiplied modulo 2^16", TD_SCATTER_MUL, "int16[2] -32768 3", "int32[2,1] 0 1",
      "int16[2] 3 20000", "int16[2] -32768 -5536" },
    { "int32 is multiplied modulo 2^32", TD_SCATTER_MUL, "int32[2] -2147483648 3", "int32[2,1] 0 1",
      "int32[2] 3 2000000000", "int32[2] -2147483648 1705032704" },
    { "int64 is multiplied modulo 2^64", TD_SCATTER_MUL, "int64[2] -9223372036854775808 3",
      "int32[2,1] 0 1", "int64[2] 3 9000000000000000000",
      "int64[2] -9223372036854775808 8553255926290448384" },
    { "uint8 is multiplied modulo 2^8", TD_SCATTER_MUL, "uint8[2] 200 3", "int32[2,1] 0 1",
      "uint8[2] 3 100", "uint8[2] 88 44" },
    { "uint16 is multiplied modulo 2^16", TD_SCATTER_MUL, "uint16[2] 65535 3", "int32[2,1] 0 1",
      "uint16[2] 65535 30000", "uint16[2] 1 24464" },
    { "uint32 is multiplied modulo 2^32", TD_SCATTER_MUL, "uint32[2] 4294967295 3",
      "int32[2,1] 0 1", "uint32[2] 4294967295 3000000000", "uint32[2] 1 410065408" },
    { "uint64 is multiplied modulo 2^64", TD_SCATTER_MUL, "uint64[2] 18446744073709551615 3",
      "int32[2,1] 0 1", "uint64[2] 18446744073709551615 9000000000000000000",
      "uint64[2] 1 8553255926290448384" },
    { "the minimum of int8", TD_SCATTER_MIN, "int8[2] 7 7", "int32[3,1] 0 1 1", "int8[3] -5 100 9",
      "int8[2] -5 7" },
    { "the maximum of int8", TD_SCATTER_MAX, "int8[2] 7 7", "int32[3,1] 0 1 1", "int8[3] -5 100 9",
      "int8[2] 7 100" },
    { "the minimum of int16", TD_SCATTER_MIN, "int16[2] 7 7", "int32[3,1] 0 1 1",
      "int16[3] -5 100 9", "int16[2] -5 7" },
    { "the maximum of int16", TD_SCATTER_MAX, "int16[2] 7 7", "int32[3,1] 0 1 1",
      "int16[3] -5 100 9", "int16[2] 7 100" },
    { "the minimum of int32", TD_SCATTER_MIN, "int32[2] 7 7", "int32[3,1] 0 1 1",
      "int32[3] -5 100 9", "int32[2] -5 7" },
    { "the maximum of int32", TD_SCATTER_MAX, "int32[2] 7 7", "int32[3,1] 0 1 1",
      "int32[3] -5 100 9", "int32[2] 7 100" },
    { "the minimum of int64", TD_SCATTER_MIN, "int64[2] 7 7", "int32[3,1] 0 1 1",
      "int64[3] -5 100 9", "int64[2] -5 7" },
    { "the maximum of int64", TD_SCATTER_MAX, "int64[2] 7 7", "int32[3,1] 0 1 1",
      "int64[3] -5 100 9", "int64[2] 7 100" },
    { "the minimum of uint8", TD_SCATTER_MIN, "uint8[2] 7 7", "int32[3,1] 0 1 1",
      "uint8[3] 5 200 9", "uint8[2] 5 7" },
    { "the maximum of uint8", TD_SCATTER_MAX, "uint8[2] 7 7", "int32[3,1] 0 1 1",
      "uint8[3] 5 200 9", "uint8[2] 7 200" },
    { "the minimum of uint16", TD_SCATTER_MIN, "uint16[2] 7 7", "int32[3,1] 0 1 1",
      "uint16[3] 5 200 9", "uint16[2] 5 7" },
    { "the maximum of uint16", TD_SCATTER_MAX, "uint16[2] 7 7", "int32[3,1] 0 1 1",
      "uint16[3] 5 200 9", "uint16[2] 7 200" },
    { "the minimum of uint32", TD_SCATTER_MIN, "uint32[2] 7 7", "int32[3,1] 0 1 1",
      "uint32[3] 5 200 9", "uint32[2] 5 7" },
    { "the maximum of uint32", TD_SCATTER_MAX, "uint32[2] 7 7", "int32[3,1] 0 1 1",
      "uint32[3] 5 200 9", "uint32[2] 7 200" },
    { "the minimum of uint64", TD_SCATTER_MIN, "uint64[2] 7 7", "int32[3,1] 0 1 1",
      "uint64[3] 5 200 9", "uint64[2] 5 7" },
    { "the maximum of uint64", TD_SCATTER_MAX, "uint64[2] 7 7", "int32[3,1] 0 1 1",
      "uint64[3] 5 200 9", "uint64[2] 7 200" },
    { "products of float32, in order", TD_SCATTER_MUL, "float32[2] 3 -2", "int32[3,1] 0 1 0",
      "float32[3] 0.5 4 -8", "float32[2] -12 -8" },
    { "the minimum of float32, where NaN wins", TD_SCATTER_MIN, "float32[3] 1 nan 2",
      "int32[4,1] 0 1 2 2", "float32[4] -1 3 nan 1", "float32[3] -1 nan nan" },
    { "the maximum of float32, where NaN wins", TD_SCATTER_MAX, "float32[3] 1 nan 2",
      "int32[4,1] 0 1 2 2", "float32[4] 5 3 nan 9", "float32[3] 5 nan nan" },
    { "products of float64, in order", TD_SCATTER_MUL, "float64[2] 3 -2", "int32[3,1] 0 1 0",
      "float64[3] 0.5 4 -8", "float64[2] -12 -8" },
    { "the minimum of float64, where NaN wins", TD_SCATTER_MIN, "float64[3] 1 nan 2",
      "int32[4,1] 0 1 2 2", "float64[4] -1 3 nan 1", "float64[3] -1 nan nan" },
    { "the maximum of float64, where NaN wins", TD_SCATTER_MAX, "float64[3] 1 nan 2",
      "int32[4,1] 0 1 2 2", "float64[4] 5 3 nan 9", "float64[3] 5 nan nan" },
    { "a product of float16 is rounded", TD_SCATTER_MUL, "float16[1] 0x3c01", "int32[1,1] 0",
      "float16[1] 0x3c01", "float16[1] 0x3c02" },
    { "a product of bfloat16", TD_SCATTER_MUL, "bfloat16[1] 0x4040", "int32[1,1] 0",
      "bfloat16[1] 0xc000", "bfloat16[1] 0xc0c0" },
    { "the minimum of float16", TD_SCATTER_MIN, "float16[2] 0x3c00 0x3c00", "int32[2,1] 0 1",
      "float16[2] 0xbc00 0x4000", "float16[2] 0xbc00 0x3c00" },
    { "the maximum of bfloat16", TD_SCATTER_MAX, "bfloat16[2] 0x3f80 0x3f80", "int32[2,1] 0 1",
      "bfloat16[2] 0xbf80 0x4000", "bfloat16[2] 0x3f80 0x4000" },
    { "products of complex numbers", TD_SCATTER_MUL, "complex64[2] 1 2 0 1", "int32[2,1] 0 1",
      "complex64[2] 3 -1 0 1", "complex64[2] 5 5 -1 0" },
    { "also of doubles", TD_SCATTER_MUL, "complex128[1] 1 2", "int32[2,1] 0 0",
      "complex128[2] 3 -1 0 1", "complex128[1] -5 5" },
    { "rows are multiplied", TD_SCATTER_MUL, "int32[2,3] 1 2 3 4 5 6", "int32[2,1] 1 1",
      "int32[2,3] 2 2 2 3 2 1", "int32[2,3] 1 2 3 24 20 12" },
    { "int8 wraps around", TD_SCATTER_ADD, "int8[2] 127 -128", "int32[2,1] 0 1", "int8[2] 1 -1",
      "int8[2] -128 127" },
    { "uint8 wraps around", TD_SCATTER_ADD, "uint8[1] 200", "int32[1,1] 0", "uint8[1] 100",
      "uint8[1] 44" },
    { "int16 wraps around", TD_SCATTER_ADD, "int16[1] 32767", "int32[1,1] 0", "int16[1] 2",
      "int16[1] -32767" },
    { "uint16 wraps around", TD_SCATTER_ADD, "uint16[1] 65535", "int32[1,1] 0", "uint16[1] 2",
      "uint16[1] 1" },
    { "int32 wraps around", TD_SCATTER_ADD, "int32[1] 2147483647", "int32[1,1] 0", "int32[1] 1",
      "int32[1] -2147483648" },
    { "uint32 wraps around", TD_SCATTER_ADD, "uint32[1] 4294967295", "int32[1,1] 0", "uint32[1] 3",
      "uint32[1] 2" },
    { "int64 wraps around", TD_SCATTER_ADD, "int64[1] 9223372036854775807", "int32[1,1] 0",
      "int64[1] 1", "int64[1] -9223372036854775808" },
    { "uint64 wraps around", TD_SCATTER_ADD, "uint64[1] 18446744073709551615", "int32[1,1] 0",
      "uint64[1] 5", "uint64[1] 4" },
    { "float32", TD_SCATTER_ADD, "float32[2] 0.5 1", "int32[1,1] 0", "float32[1] 0.25",
      "float32[2] 0.75 1" },
    { "float32 is rounded after each addition", TD_SCATTER_ADD, "float32[1] 16777216",
      "int32[3,1] 0 0 0", "float32[3] 1 1 1", "float32[1] 16777216" },
    { "float64", TD_SCATTER_ADD, "float64[1] 16777216", "int32[2,1] 0 0", "float64[2] 1 0.5",
      "float64[1] 16777217.5" },
    { "complex64", TD_SCATTER_ADD, "complex64[2] 1 2 3 4", "int32[2,1] 1 1",
      "complex64[2] 10 20 100 200", "complex64[2] 1 2 113 224" },
    { "complex128", TD_SCATTER_ADD, "complex128[1,2] 1 2 3 4", "int32[1,1] 0",
      "complex128[1,2] 10 20 30 40", "complex128[1,2] 11 22 33 44" },
    /* 2048 + 1 is the midpoint of 2048 and 2050 and rounds to 2048 (even), each time. 2048 + 3 is
     * the midpoint of 2050 and 2052 and rounds to 2052. */
    { "float16 is rounded after each addition", TD_SCATTER_ADD, "float16[2] 0x6800 0x6800",
      "int32[3,1] 0 0 1", "float16[3] 0x3c00 0x3c00 0x4200", "float16[2] 0x6800 0x6802" },
    { "float16 overflows to infinity", TD_SCATTER_ADD, "float16[1] 0x7bff", "int32[1,1] 0",
      "float16[1] 0x7bff", "float16[1] 0x7c00" },
    /* 256 + 1 is the midpoint of 256 and 258, 256 + 3 that of 258 and 260. */
    { "bfloat16 is rounded after each addition", TD_SCATTER_ADD, "bfloat16[2] 0x4380 0x4380",
      "int32[3,1] 0 0 1", "bfloat16[3] 0x3f80 0x3f80 0x4040", "bfloat16[2] 0x4380 0x4382" },
};

TD_TEST_EACH(scatter_has_output, results)
{
    for (int in_place = 0; in_place < 2; in_place++) {
        struct call call;
        struct td_tensor params = tensor(results[_i].params);
        infer(&call, results[_i].mode, params, tensor(results[_i].indices),
              tensor(results[_i].updates));
        run(&call, in_place, NULL);
        ck_assert_msg(call.status == TD_OK, "%s: %s", results[_i].case_name, call.err.message);
        ck_assert_int_eq(call.args.n_outputs, 1);
        ck_assert_int_eq(call.args.replaced, 0);
        expect_tensor(&call.args.outputs[0], results[_i].output, results[_i].case_name);
        if (!in_place)
            expect_same_tensor(&call.inputs[0], &params, results[_i].case_name);
    }
}

TD_TEST(updates_may_overwrite_a_large_tensor_with_itself)
{
    /* Ten rows of 300 KB: larger than a range. */
    struct td_shape rows = { .rank = 2, .dim = { 10, 75000 } };
    struct td_tensor params = random_tensor(TD_DTYPE_INT32, &rows);
    struct call call;
    infer(&call, TD_SCATTER_SET, params, tensor("int32[10,1] 9 8 7 6 5 4 3 2 1 0"), params);
    run(&call, false, NULL);
    ck_assert_int_eq(call.status, TD_OK);
    for (int64_t i = 0; i < params.numel; i++)
        EXPECT(((int32_t *)call.args.outputs[0].data)[i] ==
                   ((int32_t *)params.data)[(9 - i / 75000) * 75000 + i % 75000],
               "element %lld", (long long)i);
}

/* ---- Refusals ---------------------------------------------------------------------------- */

static const struct {
    const char *case_name;
    td_scatter_mode mode;
    const char *params, *indices, *updates;
    td_status status;
    const char *message, *input;
    const char *shapes; /* names of the shapes in the error */
} refusals[] = {
    { "scalar params", TD_SCATTER_SET, "float32[]", "int32[0]", "float32[]", TD_INVALID_ARGUMENT,
      "params is a scalar; expected at least one dimension", "params", "" },
    { "scalar indices", TD_SCATTER_SET, "float32[3]", "int32[]", "float32[]", TD_INVALID_ARGUMENT,
      "indices is a scalar; expected at least one dimension", "indices", "" },
    { "floating-point indices", TD_SCATTER_SET, "float32[3]", "float32[1,1]", "float32[1]",
      TD_UNSUPPORTED_DTYPE,
      "indices has dtype float32; expected int16, int32 or int64; pass integers as int64",
      "indices", "" },
    { "different dtypes", TD_SCATTER_SET, "float32[3]", "int32[1,1]", "int32[1]",
      TD_INVALID_ARGUMENT,
      "updates has dtype int32 and params float32; the dtypes must be equal: the op cast with "
      "dtype = float32 rounds updates",
      "updates", "" },
    { "adding bools", TD_SCATTER_ADD, "bool[3]", "int32[1,1]", "bool[1]", TD_UNSUPPORTED_DTYPE,
      "params has dtype bool; mode \"add\" expects a numeric dtype", "params", "" },
    { "multiplying strings", TD_SCATTER_MUL, "string[3]", "int32[1,1]", "string[1]",
      TD_UNSUPPORTED_DTYPE, "params has dtype string; mode \"mul\" expects a numeric dtype",
      "params", "" },
    { "the minimum of complex numbers", TD_SCATTER_MIN, "complex64[3]", "int32[1,1]",
      "complex64[1]", TD_UNSUPPORTED_DTYPE,
      "params has dtype complex64; mode \"min\" expects integers or floats", "params", "" },
    { "the maximum of truth values", TD_SCATTER_MAX, "bool[3]", "int32[1,1]", "bool[1]",
      TD_UNSUPPORTED_DTYPE, "params has dtype bool; mode \"max\" expects integers or floats",
      "params", "" },
    { "adding strings", TD_SCATTER_ADD, "string[3]", "int32[1,1]", "string[1]",
      TD_UNSUPPORTED_DTYPE, "params has dtype string; mode \"add\" expects a numeric dtype",
      "params", "" },
    { "tuples longer than the rank of params", TD_SCATTER_SET, "float32[2,2]", "int32[1,3]",
      "float32[1]", TD_SHAPE_MISMATCH,
      "the last dimension of indices [1,3], 3, exceeds the rank of params [2,2], 2", "indices",
      "params indices" },
    { "tuples of 2^40 components", TD_SCATTER_SET, "float32[2]", "int32[0,1099511627776]",
      "float32[0]", TD_SHAPE_MISMATCH,
      "the last dimension of indices [0,1099511627776], 1099511627776, exceeds the rank of params "
      "[2], 1",
      "indices", "params indices" },
    { "fewer updates than tuples", TD_SCATTER_SET, "float32[4,2]", "int32[3,1]", "float32[2,2]",
      TD_SHAPE_MISMATCH,
      "the shape of updates, [2,2], does not start with the shape of indices without its last "
      "dimension, [3]; expected [3,2]",
      "updates", "updates indices" },
    { "updates of too low a rank", TD_SCATTER_SET, "float32[4]", "int32[1,1,1]", "float32[1]",
      TD_SHAPE_MISMATCH,
      "the shape of updates, [1], does not start with the shape of indices without its last "
      "dimension, [1,1]; expected [1,1]",
      "updates", "updates indices" },
    { "updates that do not have the shape of a slice", TD_SCATTER_SET, "float32[4,2]", "int32[3,1]",
      "float32[3,3]", TD_SHAPE_MISMATCH,
      "each update has shape [3], but tuples of length 1 select slices of shape [2]", "updates",
      "updates params" },
    { "elements where tuples select slices", TD_SCATTER_ADD, "float32[4,2]", "int32[3,1]",
      "float32[3]", TD_SHAPE_MISMATCH,
      "each update has shape [], but tuples of length 1 select slices of shape [2]", "updates",
      "updates params" },
    { "row numbers in a flat list", TD_SCATTER_SET, "float32[4,2]", "int32[2]", "float32[2,2]",
      TD_SHAPE_MISMATCH,
      "indices has shape [2], which is one tuple of 2 positions; to select rows by number, pass "
      "indices of shape [2,1], one tuple per row: [[i], [j], ...]",
      "indices", "params indices" },
    { "more row numbers in a flat list than the rank of params", TD_SCATTER_SET, "float32[4]",
      "int32[2]", "float32[2]", TD_SHAPE_MISMATCH,
      "indices has shape [2], which is one tuple of 2 positions; to select rows by number, pass "
      "indices of shape [2,1], one tuple per row: [[i], [j], ...]",
      "indices", "params indices" },
    { "slices where tuples select elements", TD_SCATTER_ADD, "float32[4,2]", "int32[3,2]",
      "float32[3,1]", TD_SHAPE_MISMATCH,
      "each update has shape [1], but tuples of length 2 select slices of shape []", "updates",
      "updates params" },
    { "tuples and slices of more than 16 dimensions together", TD_SCATTER_SET,
      "float32[1,1,1,1,1,1,1,1,1,1]", "int32[1,1,1,1,1,1,1,1,1,1]",
      "float32[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", TD_SHAPE_MISMATCH,
      "each update has shape [1,1,1,1,1,1,1], but tuples of length 1 select slices of shape "
      "[1,1,1,1,1,1,1,1,1]",
      "updates", "updates params" },
};

TD_TEST_EACH(infer_refuses, refusals)
{
    struct call call;
    infer(&call, refusals[_i].mode, tensor_without_data(refusals[_i].params),
          tensor_without_data(refusals[_i].indices), tensor_without_data(refusals[_i].updates));
    ck_assert_msg(call.status == refusals[_i].status, "%s: %s", refusals[_i].case_name,
                  td_status_name(call.status));
    ck_assert_str_eq(call.err.message, refusals[_i].message);
    ck_assert_str_eq(call.err.input, refusals[_i].input);
    expect_shape_names(&call.err, refusals[_i].shapes);
    ck_assert_int_eq(td_op_infer(&td_op_scatter, &call.args, &test_arena, TD_IGNORED),
                     refusals[_i].status);
}

static const struct {
    const char *case_name;
    const char *params, *indices, *updates;
    const char *message;
    int axis, bad_count;
} out_of_bounds[] = {
    { "a row after the last", "int32[3,2] 0..5", "int32[3,1] 0 3 -1", "int32[3,2] 0..5",
      "indices[1,0] = 3 is not in [0, 3): tuple [3] indexes dimension 0 of params [3,2]", 0, 2 },
    { "a negative component does not wrap", "float32[3,4] 0..11", "int64[1,2,2] 0 0 2 -1",
      "float32[1,2] 1 2",
      "indices[0,1,1] = -1 is not in [0, 4): tuple [2,-1] indexes dimension 1 of params [3,4]", 1,
      1 },
    { "strings", "string[2] 'a' 'b'", "int16[1] 2", "string[] 'c'",
      "indices[0] = 2 is not in [0, 2): tuple [2] indexes dimension 0 of params [2]", 0, 1 },
    { "an empty dimension", "float32[0,2]", "int32[1,2] 0 0", "float32[1] 1",
      "indices[0,0] = 0 is not in [0, 0): tuple [0,0] indexes dimension 0 of params [0,2]", 0, 1 },
    { "slices without elements", "float32[2,0]", "int32[1,1] 2", "float32[1,0]",
      "indices[0,0] = 2 is not in [0, 2): tuple [2] indexes dimension 0 of params [2,0]", 0, 1 },
};

TD_TEST_EACH(run_refuses_the_first_bad_component_before_anything_is_written, out_of_bounds)
{
    for (int in_place = 0; in_place < 2; in_place++) {
        struct call call;
        struct td_tensor params = tensor(out_of_bounds[_i].params);
        infer(&call, TD_SCATTER_SET, params, tensor(out_of_bounds[_i].indices),
              tensor(out_of_bounds[_i].updates));
        run(&call, in_place, NULL);
        expect_index_error(&call.err, "indices", out_of_bounds[_i].message,
                           out_of_bounds[_i].bad_count);
        ck_assert_int_eq(call.err.axis, out_of_bounds[_i].axis);
        expect_same_tensor(&call.inputs[0], &params, out_of_bounds[_i].case_name);
    }
}

/* ---- Costs and slices -------------------------------------------------------------------- */

TD_TEST(cost_follows_from_shapes)
{
    struct call call;
    infer(&call, TD_SCATTER_ADD, tensor_without_data("float32[1000,8]"),
          tensor_without_data("int64[50,1]"), tensor_without_data("float32[50,8]"));
    int64_t here;
    call.inputs[0].data = &here;
    struct td_cost cost = td_op_scatter.cost(&call.args);
    ck_assert_uint_eq(cost.bytes_read, 400 + 2 * 1600 + 32000);
    ck_assert_uint_eq(cost.bytes_written, 1600 + 32000);
    ck_assert_uint_eq(cost.random_reads, 50);
    ck_assert_uint_eq(cost.flops, 400);
    ck_assert_uint_eq(cost.workspace, 0);

    /* In place, and with both data pointers still NULL. */
    call.args.outputs[0].data = &here;
    for (int i = 0; i < 2; i++) {
        cost = td_op_scatter.cost(&call.args);
        ck_assert_uint_eq(cost.bytes_read, 400 + 2 * 1600);
        ck_assert_uint_eq(cost.bytes_written, 1600);
        call.inputs[0].data = call.args.outputs[0].data = NULL;
    }
}

TD_TEST(strings_need_scratch_for_each_row)
{
    struct call call;
    infer(&call, TD_SCATTER_SET, tensor_without_data("string[1000,8]"),
          tensor_without_data("int64[50,1]"), tensor_without_data("string[50,8]"));
    ck_assert_uint_eq(td_op_scatter.cost(&call.args).workspace, 8000);
}

TD_TEST(slices_are_the_bytes_that_updates_write)
{
    struct call call;
    struct td_written_slices slices;
    infer(&call, TD_SCATTER_SET, tensor("int16[2,3,4] 0..23"), tensor("int32[3,2] 1 2 0 0 1 2"),
          tensor("int16[3,4] 0..11"));
    ck_assert_int_eq(td_op_scatter.change->slices(&call.args, &test_arena, &slices, &call.err),
                     TD_OK);
    ck_assert_int_eq(slices.count, 3);
    ck_assert_uint_eq(slices.slice_bytes, 8);
    ck_assert_uint_eq(slices.offsets[0], 40);
    ck_assert_uint_eq(slices.offsets[1], 0);
    ck_assert_uint_eq(slices.offsets[2], 40);

    infer(&call, TD_SCATTER_SET, tensor("int16[2,0]"), tensor("int32[1,1] 1"),
          tensor("int16[1,0]"));
    ck_assert_int_eq(td_op_scatter.change->slices(&call.args, &test_arena, &slices, &call.err),
                     TD_OK);
    ck_assert_int_eq(slices.count, 0);
}

/* ---- Against the definition -------------------------------------------------------------- */

/* float16 and bfloat16: no infinities and NaNs, whose sums would depend on the tested
 * conversion. */
static void make_finite(struct td_tensor *t)
{
    uint16_t *halves = t->data;
    uint16_t infinity = t->dtype == TD_DTYPE_FLOAT16 ? 0x7c00 : 0x7f80;
    if (t->dtype == TD_DTYPE_FLOAT16 || t->dtype == TD_DTYPE_BFLOAT16)
        for (int64_t i = 0; i < t->numel; i++)
            if ((halves[i] & infinity) == infinity)
                halves[i] = (uint16_t)(halves[i] & ~(infinity >> 1));
}

/* Replaces random bits by integers: their sums are exact, and there are no NaNs, whose payload is
 * not specified. */
static void make_integers(struct td_tensor *t)
{
    bool wide = t->dtype == TD_DTYPE_FLOAT64 || t->dtype == TD_DTYPE_COMPLEX128;
    bool narrow = t->dtype == TD_DTYPE_FLOAT32 || t->dtype == TD_DTYPE_COMPLEX64;
    for (size_t i = 0; wide && i < t->bytes / sizeof(double); i++)
        ((double *)t->data)[i] = random_below(1 << 20);
    for (size_t i = 0; narrow && i < t->bytes / sizeof(float); i++)
        ((float *)t->data)[i] = (float)random_below(1 << 10);
}

static uint16_t add_half(uint16_t a, uint16_t b, bool brain)
{
    bool unsure;
    double sum = brain ? (double)td_bfloat16_value(a) + (double)td_bfloat16_value(b)
                       : (double)td_float16_value(a) + (double)td_float16_value(b);
    if (sum == 0) /* the sign of a sum of zeros: minus only if both are */
        return a & b & 0x8000;
    return td_narrow_round(sum, brain ? TD_NARROW_BFLOAT16 : TD_NARROW_FLOAT16, 0, &unsure);
}

static void add_element(td_dtype dtype, void *to, const void *from)
{
#define AS(type) (*(type *)to = (type)(*(type *)to + *(const type *)from))
    switch (dtype) {
    case TD_DTYPE_COMPLEX64:
        ((float *)to)[1] += ((const float *)from)[1];
        AS(float);
        return;
    case TD_DTYPE_COMPLEX128:
        ((double *)to)[1] += ((const double *)from)[1];
        AS(double);
        return;
    case TD_DTYPE_FLOAT32:
        AS(float);
        return;
    case TD_DTYPE_FLOAT64:
        AS(double);
        return;
    case TD_DTYPE_FLOAT16:
    case TD_DTYPE_BFLOAT16:
        *(uint16_t *)to =
            add_half(*(uint16_t *)to, *(const uint16_t *)from, dtype == TD_DTYPE_BFLOAT16);
        return;
    default:
        break;
    }
    switch (td_dtype_info(dtype)->size) {
    case 1:
        AS(uint8_t);
        return;
    case 2:
        AS(uint16_t);
        return;
    case 4:
        AS(uint32_t);
        return;
    default:
        AS(uint64_t);
    }
#undef AS
}

/* The reference: for each element of the output the tensor and position of its value. For "add" the
 * tensor is a copy of params. */
struct element {
    const struct td_tensor *tensor;
    int64_t i;
};

static struct element *naive(struct td_tensor *params, const struct td_tensor *indices,
                             const struct td_tensor *updates, td_scatter_mode mode)
{
    struct td_error err;
    size_t size = td_dtype_info(params->dtype)->size;
    struct element *out = td_arena_alloc(&test_arena, (size_t)params->numel, sizeof(*out), &err);
    EXPECT(out != NULL, "%s", err.message);
    for (int64_t i = 0; i < params->numel; i++)
        out[i] = (struct element){ params, i };
    int depth = (int)indices->shape.dim[indices->shape.rank - 1];
    int64_t row_numel = 1;
    for (int d = depth; d < params->shape.rank; d++)
        row_numel *= params->shape.dim[d];
    for (int64_t u = 0; u < updates->numel; u++) {
        int64_t at = 0;
        for (int c = 0; c < depth; c++)
            at = at * params->shape.dim[c] + td_tensor_index_at(indices, u / row_numel * depth + c);
        at = at * row_numel + u % row_numel;
        if (mode == TD_SCATTER_SET)
            out[at] = (struct element){ updates, u };
        else
            add_element(params->dtype, (char *)params->data + (size_t)at * size,
                        (const char *)updates->data + (size_t)u * size);
    }
    return out;
}

struct sample {
    td_scatter_mode mode;
    struct td_tensor params, indices, updates;
};

/* `large`: often enough rows or tuples for several threads, chunks and steps. */
static struct sample random_sample(bool large)
{
    static const td_dtype index_dtypes[] = { TD_DTYPE_INT16, TD_DTYPE_INT32, TD_DTYPE_INT64 };
    struct sample s = { .mode = (td_scatter_mode)random_below(2) };
    td_dtype dtype = (td_dtype)random_below(TD_DTYPE_COUNT);
    if (dtype == TD_DTYPE_BOOL || dtype == TD_DTYPE_STRING)
        s.mode = TD_SCATTER_SET;
    struct td_shape params = { .rank = 1 + random_below(4) }, indices = { .rank = random_below(3) };
    for (int i = 0; i < params.rank; i++)
        params.dim[i] = random_below(20) == 0 ? 0 : 1 + random_below(6);
    int depth = random_below(params.rank + 1);
    bool empty = false; /* no valid tuple */
    for (int c = 0; c < depth; c++)
        empty = empty || params.dim[c] == 0;
    for (int i = 0; i < indices.rank; i++)
        indices.dim[i] = random_below(20) == 0 ? 0 : 1 + random_below(5);
    if (large && indices.rank > 0)
        indices.dim[0] = 1 + random_below(random_below(2) ? 3000 : 20000);
    if (large && depth < params.rank && random_below(2)) {
        params.dim[params.rank - 1] = 1 + random_below(random_below(2) ? 200 : 40000);
        for (int i = 0; i < indices.rank; i++)
            indices.dim[i] = 1 + random_below(5);
    }
    if (empty) {
        indices.rank += indices.rank == 0;
        indices.dim[0] = 0;
    }
    struct td_shape updates = indices;
    indices.dim[indices.rank++] = depth;
    (void)td_shape_append(&updates, &params, depth, params.rank);
    s.params = random_tensor(dtype, &params);
    s.indices = random_tensor(index_dtypes[random_below(3)], &indices);
    s.updates = random_tensor(dtype, &updates);
    make_finite(&s.params);
    make_finite(&s.updates);
    if (s.mode == TD_SCATTER_ADD) {
        make_integers(&s.params);
        make_integers(&s.updates);
    }
    size_t size = td_dtype_info(s.indices.dtype)->size;
    for (int64_t i = 0; i < s.indices.numel; i++) {
        int64_t index = random_below((int)params.dim[i % depth]);
        memcpy((char *)s.indices.data + (size_t)i * size, &index, size);
    }
    return s;
}

/* The strings of random_tensor have their own offsets and bytes, so a shallow copy is enough. */
static void expect_naive(const struct td_tensor *got, const struct element *want, const char *what)
{
    for (int64_t i = 0; i < got->numel; i++) {
        size_t size, want_size;
        const void *value = tensor_element(got, i, &size);
        const void *wanted = tensor_element(want[i].tensor, want[i].i, &want_size);
        EXPECT(size == want_size && memcmp(value, wanted, size) == 0, "%s: element %lld", what,
               (long long)i);
    }
}

static void try_sample(int seed, bool large)
{
    char what[300], params[TD_SHAPE_TEXT], indices[TD_SHAPE_TEXT];
    td_arena_reset(&test_arena);
    random_seed((uint64_t)seed);
    struct sample s = random_sample(large);
    struct td_tensor model = copy_of(&s.params);
    if (s.updates.numel > 4000000 || s.params.numel > 4000000)
        return; /* many large rows: slow, and covered by others */
    snprintf(what, sizeof(what), "seed %d: %s %s params %.60s indices %.60s", seed,
             s.mode == TD_SCATTER_ADD ? "add" : "set", td_dtype_info(s.params.dtype)->name,
             td_shape_text(&s.params.shape, params, sizeof(params)),
             td_shape_text(&s.indices.shape, indices, sizeof(indices)));
    const struct element *want = naive(&model, &s.indices, &s.updates, s.mode);
    for (int in_place = 0; in_place < 2; in_place++)
        for (int threads = 1; threads <= 3; threads++) {
            struct thread_exec exec;
            struct call call;
            thread_exec_init(&exec, threads, random_below(2) ? 0 : 1 + random_below(2000));
            infer(&call, s.mode, s.params, s.indices, s.updates);
            run(&call, in_place, &exec.exec);
            EXPECT(call.status == TD_OK, "%s: %s", what, call.err.message);
            expect_naive(&call.args.outputs[0], want, what);
        }
}

TD_TEST_LOOP(any_scatter_agrees_with_its_definition, 0, 40)
{
    enum { SAMPLES = 50 };
    for (int n = 0; n < SAMPLES * test_effort(); n++)
        try_sample(_i + n * 40, false);
}

TD_TEST_LOOP(a_large_scatter_agrees_with_its_definition, 0, 20)
{
    enum { SAMPLES = 3 };
    for (int n = 0; n < SAMPLES * test_effort(); n++)
        try_sample(_i + n * 20, true);
}

/* 300,000 updates of 64 bytes to 1,000 rows: about five steps, all in order. */
static struct sample many_rows(td_scatter_mode mode)
{
    struct td_shape params = { .rank = 2, .dim = { 1000, 16 } };
    struct td_shape indices = { .rank = 2, .dim = { 300000, 1 } };
    struct td_shape updates = { .rank = 2, .dim = { 300000, 16 } };
    struct sample s = { mode, random_tensor(TD_DTYPE_INT32, &params),
                        random_tensor(TD_DTYPE_INT32, &indices),
                        random_tensor(TD_DTYPE_INT32, &updates) };
    for (int64_t i = 0; i < s.indices.numel; i++)
        ((int32_t *)s.indices.data)[i] = random_below(1000);
    return s;
}

TD_TEST(many_updates_of_few_rows_are_in_order_at_any_number_of_threads)
{
    for (td_scatter_mode mode = TD_SCATTER_SET; mode <= TD_SCATTER_ADD; mode++) {
        random_seed(7);
        struct sample s = many_rows(mode);
        struct td_tensor model = copy_of(&s.params);
        const struct element *want = naive(&model, &s.indices, &s.updates, mode);
        for (int threads = 1; threads <= 4; threads++) {
            struct thread_exec exec;
            struct call call;
            thread_exec_init(&exec, threads, 0);
            infer(&call, mode, s.params, s.indices, s.updates);
            run(&call, true, &exec.exec);
            ck_assert_int_eq(call.status, TD_OK);
            expect_naive(&call.args.outputs[0], want, "many rows");
        }
    }
}

TD_TEST(a_deadline_stops_a_scatter_between_steps)
{
    for (int threads = 1; threads <= 2; threads++) {
        random_seed(7);
        struct sample s = many_rows(TD_SCATTER_ADD);
        struct thread_exec exec;
        struct call call;
        thread_exec_init(&exec, threads, 0);
        exec.ranges_allowed = 3;
        infer(&call, s.mode, s.params, s.indices, s.updates);
        run(&call, true, &exec.exec);
        ck_assert_int_eq(call.status, TD_DEADLINE_EXCEEDED);
    }
}
