#include "kernels/dequantize/dequantize.h"
#include "tests/support/op_call.h"
#include "tests/support/random.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"
#include "tests/support/threads.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define OP "dequantize"

enum { OFFSET = 2, ZERO_POINT };

static void give(struct op_call *call, int input, struct td_tensor tensor)
{
    struct td_error err;
    call->args.inputs[input] =
        (struct td_operand){ td_arena_alloc(&test_arena, 1, sizeof(tensor), &err), 1 };
    EXPECT(call->args.inputs[input].tensors, "%s", err.message);
    *call->args.inputs[input].tensors = tensor;
}

static void begin(struct op_call *call, const char *attrs, struct td_tensor params,
                  struct td_tensor scale, struct td_tensor offset)
{
    call_begin(call, OP, attrs, params, scale);
    give(call, OFFSET, offset);
}

static const struct {
    const char *says;
    const char *params, *scale, *offset, *attrs;
    const char *output;
} results[] = {
    { "each row has its scale and its offset", "int8[2,2] -128 127 0 1", "float32[2] 0.5 2",
      "float32[2] 1 -1", "", "float32[2,2] -63 64.5 -1 1" },
    { "of uint8, too", "uint8[2,1] 255 128", "float32[2] 2 1", "float32[2] 0 0.5", "",
      "float32[2,1] 510 128.5" },
    { "or all have one", "int8[3] -1 0 1", "float32[] 3", "float32[] 0.5", "",
      "float32[3] -2.5 0.5 3.5" },
    { "of either", "int8[2,2] 1 2 3 4", "float32[2] 0.5 2", "float32[] 1", "",
      "float32[2,2] 1.5 2 7 9" },
    { "and of the other", "int8[2,2] 1 2 3 4", "float32[] 2", "float32[2] 1 -1", "",
      "float32[2,2] 3 5 5 7" },
    { "a row may have more dimensions", "uint8[2,1,2] 1 2 3 4", "float32[2] 1 10", "float32[2] 0 0",
      "", "float32[2,1,2] 1 2 30 40" },
    { "a scalar", "uint8[] 200", "float32[] 0.25", "float32[] -1", "", "float32[] 49" },
    { "float64 is computed as such", "uint8[1,1] 3", "float32[1] 1e-8", "float32[1] 16777216",
      "dtype=float64", "float64[1,1] 16777216.0000000298" },
    { "float16", "int8[1,2] 3 -2", "float32[1] 0.5", "float32[1] 0", "dtype=float16",
      "float16[1,2] 0x3e00 0xbc00" },
    { "bfloat16", "int8[1,2] 3 -2", "float32[1] 0.5", "float32[1] 0", "dtype=bfloat16",
      "bfloat16[1,2] 0x3fc0 0xbf80" },
    { "no rows", "int8[0,3]", "float32[0]", "float32[] 0", "", "float32[0,3]" },
    { "no columns", "int8[2,0]", "float32[2] 1 2", "float32[2] 0 0", "dtype=float16",
      "float16[2,0]" },
};

TD_TEST_EACH(dequantize_gives, results)
{
    struct op_call call;
    begin(&call, results[_i].attrs, tensor(results[_i].params), tensor(results[_i].scale),
          tensor(results[_i].offset));
    call_run(&call, OP, NULL);
    ck_assert_msg(call.status == TD_OK, "%s: %s", results[_i].says, call.err.message);
    expect_tensor(&call.args.outputs[0], results[_i].output, results[_i].says);
}

static const struct {
    const char *says;
    const char *params, *scale, *zero_point, *attrs;
    const char *output;
} results_by_zero_point[] = {
    { "each row has its zero point", "int8[2,2] -128 127 0 1", "float32[2] 0.5 2", "int8[2] 1 -1",
      "", "float32[2,2] -64.5 63 2 4" },
    { "or all have one", "uint8[3] 0 7 255", "float32[] 0.5", "uint8[] 7", "",
      "float32[3] -3.5 0 124" },
    { "of either", "uint8[2,1] 3 4", "float32[] 2", "uint8[2] 3 3", "", "float32[2,1] 0 2" },
    { "of the other", "uint8[2,1] 3 4", "float32[2] 2 3", "uint8[] 3", "", "float32[2,1] 0 3" },
    { "which need not be an element", "int8[2] -128 127", "float32[] 1", "int32[] 1000", "",
      "float32[2] -1128 -873" },
    { "int64, as PyTorch has it", "int8[2,1] 3 4", "float32[2] 2 3", "int64[2] 3 5", "",
      "float32[2,1] 0 -3" },
    { "as float64", "uint8[2] 7 8", "float32[] 0.1", "uint8[] 7", "dtype=float64",
      "float64[2] 0 0.10000000149011612" },
};

TD_TEST_EACH(dequantize_with_a_zero_point_gives, results_by_zero_point)
{
    struct op_call call;
    call_begin(&call, OP, results_by_zero_point[_i].attrs, tensor(results_by_zero_point[_i].params),
               tensor(results_by_zero_point[_i].scale));
    give(&call, ZERO_POINT, tensor(results_by_zero_point[_i].zero_point));
    call_run(&call, OP, NULL);
    ck_assert_msg(call.status == TD_OK, "%s: %s", results_by_zero_point[_i].says, call.err.message);
    expect_tensor(&call.args.outputs[0], results_by_zero_point[_i].output,
                  results_by_zero_point[_i].says);
}

/* Every scale with some digits, and every zero point. */
TD_TEST_LOOP(the_element_that_stands_for_0_gives_0, 0, 256)
{
    enum { SCALES = 97 };
    struct op_call by_offset, by_zero_point;
    struct td_tensor params =
        random_tensor(TD_DTYPE_UINT8, &(struct td_shape){ .rank = 1, .dim = { SCALES } });
    struct td_tensor scale = random_tensor(TD_DTYPE_FLOAT32, &params.shape),
                     offset = random_tensor(TD_DTYPE_FLOAT32, &params.shape);
    for (int i = 0; i < SCALES; i++) {
        ((uint8_t *)params.data)[i] = (uint8_t)_i;
        ((float *)scale.data)[i] = 0.1f / (float)(i + 1);
        ((float *)offset.data)[i] = -((float *)scale.data)[i] * (float)_i;
    }
    begin(&by_offset, "", params, scale, offset);
    call_run(&by_offset, OP, NULL);
    call_begin(&by_zero_point, OP, "", params, scale);
    give(&by_zero_point, ZERO_POINT, params);
    call_run(&by_zero_point, OP, NULL);
    for (int i = 0; i < SCALES; i++) {
        EXPECT(((float *)by_offset.args.outputs[0].data)[i] == 0, "scale %d", i);
        EXPECT(((float *)by_zero_point.args.outputs[0].data)[i] == 0, "scale %d", i);
    }
}

static const struct {
    const char *says;
    const char *params, *scale, *offset, *attrs;
    td_status status;
    const char *message, *input, *attribute;
} refusals[] = {
    { "a scale too many", "int8[2,2] 1 2 3 4", "float32[3] 1 2 3", "float32[] 0", "",
      TD_SHAPE_MISMATCH,
      "scale has shape [3] and params [2,2]; expected one number per row or a scalar", "scale",
      "" },
    { "an offset for each element", "int8[1,2] 1 2", "float32[] 1", "float32[1,2] 1 2", "",
      TD_SHAPE_MISMATCH,
      "offset has shape [1,2] and params [1,2]; expected one number per row or a scalar", "offset",
      "" },
    { "a scalar has no rows", "int8[] 1", "float32[1] 1", "float32[] 0", "", TD_SHAPE_MISMATCH,
      "scale has shape [1] and params []; expected one number per row or a scalar", "scale", "" },
    { "wider integers", "int16[1] 1", "float32[] 1", "float32[] 0", "", TD_UNSUPPORTED_DTYPE,
      "params has dtype int16; expected int8 or uint8", "params", "" },
    { "a scale of float64", "int8[1] 1", "float64[] 1", "float32[] 0", "", TD_UNSUPPORTED_DTYPE,
      "scale has dtype float64; expected float32; the op cast with dtype = float32 rounds it",
      "scale", "" },
    { "to integers", "int8[1] 1", "float32[] 1", "float32[] 0", "dtype=int32", TD_UNSUPPORTED_DTYPE,
      "dtype is int32; expected float16, bfloat16, float32 or float64", "", "dtype" },
};

TD_TEST_EACH(dequantize_refuses, refusals)
{
    struct op_call call;
    begin(&call, refusals[_i].attrs, tensor(refusals[_i].params), tensor(refusals[_i].scale),
          tensor(refusals[_i].offset));
    call_infer(&call, OP);
    expect_refusal(&call, refusals[_i].status, refusals[_i].message, refusals[_i].input,
                   refusals[_i].attribute, refusals[_i].says);
}

TD_TEST(without_an_offset_or_a_zero_point_0_is_0)
{
    struct op_call call;
    call_op(&call, OP, "", tensor("int8[3] -2 0 3"), tensor("float32[] 0.5"), NULL);
    ck_assert_msg(call.status == TD_OK, "%s", call.err.message);
    expect_tensor(&call.args.outputs[0], "float32[3] -1 0 1.5", "symmetric");
}

TD_TEST(an_offset_and_a_zero_point_are_refused)
{
    struct op_call call;
    begin(&call, "", tensor("int8[1] 1"), tensor("float32[] 1"), tensor("float32[] 1"));
    give(&call, ZERO_POINT, tensor("int8[] 1"));
    call_infer(&call, OP);
    ck_assert_int_eq(call.status, TD_INVALID_ARGUMENT);
    ck_assert_str_eq(call.err.message,
                     "zero_point is given together with offset; at most one of them is allowed");
    ck_assert_str_eq(call.err.input, "zero_point");
}

TD_TEST(a_zero_point_too_many_is_refused)
{
    struct op_call call;
    call_begin(&call, OP, "", tensor("int8[2,2] 1 2 3 4"), tensor("float32[] 1"));
    give(&call, ZERO_POINT, tensor("int8[3] 1 2 3"));
    call_infer(&call, OP);
    ck_assert_int_eq(call.status, TD_SHAPE_MISMATCH);
    ck_assert_str_eq(call.err.input, "zero_point");
}

TD_TEST(an_output_too_large_is_refused)
{
    struct op_call call;
    begin(&call, "dtype=float64", tensor_without_data("int8[2305843009213693952]"),
          tensor("float32[] 1"), tensor("float32[] 0"));
    call_infer(&call, OP);
    ck_assert_int_eq(call.status, TD_RESOURCE_LIMIT);
}

TD_TEST(cost_counts_all_inputs)
{
    struct op_call call;
    begin(&call, "dtype=float16", tensor("int8[2,3] 0..5"), tensor("float32[2] 1 2"),
          tensor("float32[2] 3 4"));
    call_infer(&call, OP);
    const struct td_cost cost = td_op_dequantize.cost(&call.args);
    ck_assert_uint_eq(cost.bytes_read, 6 + 8 + 8);
    ck_assert_uint_eq(cost.bytes_written, 12);
    ck_assert_uint_eq(cost.flops, 12);
}

/* Small numbers, so that all instruction sets compute without rounding. */
static struct td_tensor eighths(int64_t n)
{
    struct td_tensor t =
        random_tensor(TD_DTYPE_FLOAT32, &(struct td_shape){ .rank = n > 0, .dim = { n } });
    for (int64_t i = 0; i < t.numel; i++)
        ((float *)t.data)[i] = (float)(random_below(33) - 16) / 8;
    return t;
}

/* Rows in several ranges and blocks, by every instruction set. */
TD_TEST_LOOP(any_rows_are_what_their_definition_says, 0, 2)
{
    enum { SAMPLES = 40 };
    for (int seed = 0; seed < SAMPLES; seed++) {
        struct op_call call;
        struct thread_exec exec;
        td_arena_reset(&test_arena);
        random_seed((uint64_t)(_i * SAMPLES + seed));
        const int64_t n = 1 + random_below(50), columns = 1 + random_below(200);
        const struct td_shape shape = { .rank = 2, .dim = { n, columns } };
        const bool is_signed = random_below(2);
        const struct td_tensor params =
            random_tensor(is_signed ? TD_DTYPE_INT8 : TD_DTYPE_UINT8, &shape);
        const struct td_tensor scale = eighths(random_below(2) ? n : 0);
        const struct td_tensor offset = eighths(random_below(2) ? n : 0);
        thread_exec_init(&exec, 1 + random_below(3), random_below(3) ? random_below(3000) : 0);
        exec.exec.isa = (td_isa)(TD_ISA_GENERIC + random_below(3));
        begin(&call, _i ? "dtype=float64" : "", params, scale, offset);
        call_run(&call, OP, &exec.exec);
        EXPECT(call.status == TD_OK, "%s", call.err.message);
        for (int64_t i = 0; i < params.numel; i++) {
            const double x =
                is_signed ? ((const int8_t *)params.data)[i] : ((const uint8_t *)params.data)[i];
            const double want =
                x * (double)((const float *)scale.data)[scale.numel > 1 ? i / columns : 0] +
                (double)((const float *)offset.data)[offset.numel > 1 ? i / columns : 0];
            const void *out = call.args.outputs[0].data;
            const double got = _i ? ((const double *)out)[i] : (double)((const float *)out)[i];
            EXPECT(got == want, "seed %d: element %" PRId64 " is %g, expected %g", seed, i, got,
                   want);
        }
    }
}

/* float16 and bfloat16 pass through blocks: they are those of float32, cast. */
TD_TEST_LOOP(narrow_rows_are_wide_ones_cast, 0, 2)
{
    static const char *const dtypes[] = { "dtype=float16", "dtype=bfloat16" };
    struct op_call wide, narrow, cast;
    struct thread_exec exec;
    random_seed(1);
    const struct td_tensor params =
        random_tensor(TD_DTYPE_INT8, &(struct td_shape){ .rank = 2, .dim = { 90, 77 } });
    const struct td_tensor scale = eighths(90), offset = eighths(90);
    thread_exec_init(&exec, 2, 1500);
    begin(&wide, "", params, scale, offset);
    call_run(&wide, OP, NULL);
    begin(&narrow, dtypes[_i], params, scale, offset);
    call_run(&narrow, OP, &exec.exec);
    call_op(&cast, "cast", dtypes[_i], wide.args.outputs[0], (struct td_tensor){ 0 }, NULL);
    EXPECT(narrow.status == TD_OK && cast.status == TD_OK, "%s", narrow.err.message);
    expect_same_tensor(&narrow.args.outputs[0], &cast.args.outputs[0], dtypes[_i]);
}
