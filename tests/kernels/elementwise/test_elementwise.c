#include "kernels/elementwise/elementwise.h"
#include "tests/support/op_call.h"
#include "tests/support/random.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"
#include "tests/support/threads.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define INPUTS 3

static void set_inputs(struct op_call *call, const struct td_op *op, const char *attrs,
                       const struct td_tensor *inputs, int n)
{
    call_begin(call, op->name, attrs, n > 0 ? inputs[0] : (struct td_tensor){ 0 },
               n > 1 ? inputs[1] : (struct td_tensor){ 0 });
    call->args.inputs[1].count = n > 1;
    for (int i = 2; i < n; i++) {
        struct td_error err;
        struct td_tensor *copy = td_arena_alloc(&test_arena, 1, sizeof(*copy), &err);
        *copy = inputs[i];
        call->args.inputs[i] = (struct td_operand){ copy, 1 };
    }
}

/* ---- Results ----------------------------------------------------------------------------- */

/* Beside those of tests/conformance/cases. */
static const struct {
    const char *says;
    const char *op, *attrs;
    const char *inputs;
    const char *output;
} results[] = {
    { "int8 wraps around", "multiply", "", "int8[2] 100 -128; int8[2] 3 -1", "int8[2] 44 -128" },
    { "uint16 products do not overflow an int", "multiply", "", "uint16[1] 65535; uint16[1] 65535",
      "uint16[1] 1" },
    { "the minimum of a signed dtype is its own negative", "negative", "", "int32[1] -2147483648",
      "int32[1] -2147483648" },
    { "the minimum of a signed dtype is its own absolute value", "abs", "", "int8[2] -128 -3",
      "int8[2] -128 3" },
    { "the minimum divided by -1 wraps around", "floor_divide", "",
      "int64[2] -9223372036854775808 -7; int64[] -1", "int64[2] -9223372036854775808 7" },
    { "int32: the minimum divided by -1", "floor_divide", "", "int32[1] -2147483648; int32[] -1",
      "int32[1] -2147483648" },
    { "int8: the minimum divided by -1", "floor_divide", "", "int8[1] -128; int8[] -1",
      "int8[1] -128" },
    { "int16: the minimum modulo -1", "floor_mod", "", "int16[1] -32768; int16[] -1",
      "int16[1] 0" },
    { "quotients of large numbers are exact", "floor_divide", "",
      "int32[3] 2147483647 2147483646 -2147483647; int32[] 2147483647", "int32[3] 1 0 -1" },
    { "quotients of large unsigned numbers are exact", "floor_divide", "",
      "uint32[3] 4294967295 4294967294 4294967293; uint32[] 4294967295", "uint32[3] 1 0 0" },
    { "a quotient of int64 has all digits", "floor_divide", "",
      "int64[1] -9223372036854775807; int64[1] 2", "int64[1] -4611686018427387904" },
    { "an exponent of 0 gives 1, of 0 too", "power", "", "uint8[3] 0 1 255; uint8[] 0",
      "uint8[3] 1 1 1" },
    { "powers wrap around", "power", "", "int64[2] 3 -3; int64[] 41",
      "int64[2] -420491770248316829 420491770248316829" },
    { "scalars stay scalars", "add", "", "int32[] 1; int32[] 2", "int32[] 3" },
    { "dimensions of 1 are repeated on both sides", "add", "", "int32[2,1] 10 20; int32[1,3] 1 2 3",
      "int32[2,3] 11 12 13 21 22 23" },
    { "a middle dimension is repeated", "subtract", "", "int32[2,3,2] 1..12; int32[2,1,2] 1 2 7 8",
      "int32[2,3,2] 0 0 2 2 4 4 0 0 2 2 4 4" },
    { "an empty dimension meets a dimension of 1", "add", "", "float32[0,3]; float32[1,3] 1 2 3",
      "float32[0,3]" },
    { "an empty result divides by nothing", "floor_divide", "", "int32[0]; int32[1] 0",
      "int32[0]" },
    { "any byte but 0 is true", "logical_and", "", "bool[2] 1 1; bool[2] 1 0", "bool[2] 1 0" },
    { "strings are compared with all their bytes", "equal", "",
      "string[3] 'a' '' 'a\\x00b'; string[3] 'a' 'b' 'a\\x00c'", "bool[3] 1 0 0" },
    { "a string is repeated", "not_equal", "", "string[2,1] 'a' 'b'; string[2] 'a' 'c'",
      "bool[2,2] 0 1 1 1" },
    { "strings are selected", "where", "",
      "bool[2,1] 1 0; string[2,2] 'a' 'bb' 'c' 'dd'; string[] '?'",
      "string[2,2] 'a' 'bb' '?' '?'" },
    { "strings of an empty condition", "where", "", "bool[0]; string[1] 'a'; string[] '?'",
      "string[0]" },
    { "complex numbers are selected whole", "where", "",
      "bool[2] 1 0; complex128[2] 1 2 3 4; complex128[] 5 6", "complex128[2] 1 2 5 6" },
    { "a complex product", "multiply", "", "complex64[1] 1 2; complex64[1] 3 4",
      "complex64[1] -5 10" },
    { "a complex quotient does not overflow", "divide", "",
      "complex128[1] 1e300 1e300; complex128[1] 1e300 1e300", "complex128[1] 1 0" },
    { "the absolute value of a complex number is real", "abs", "", "complex64[1] 3 4",
      "float32[1] 5" },
    { "the sign of a complex number is its direction", "sign", "", "complex128[2] 3 4 0 0",
      "complex128[2] 0.6 0.8 0 0" },
    { "float16 is rounded once", "add", "", "float16[1] 0x6800; float16[1] 0x3c00",
      "float16[1] 0x6800" },
    { "max wins over min", "clip", "", "int32[3] 0 5 9; int32[] 7; int32[] 3", "int32[3] 3 3 3" },
    { "an input is repeated along two dimensions", "clip", "",
      "int32[4,2,3] 0..23; int32[4,2,1] 0 0 0 0 0 0 0 0; int32[4,1,1] 1 10 13 20",
      "int32[4,2,3] 0 1 1 1 1 1 6 7 8 9 10 10 12 13 13 13 13 13 18 19 20 20 20 20" },
    { "limits are repeated", "clip", "", "int32[2,2] 1 9 1 9; int32[2] 2 3; int32[2,1] 4 8",
      "int32[2,2] 2 4 2 8" },
    { "ties go to the even integer", "round", "", "float64[4] 0.5 1.5 -0.5 -2.5",
      "float64[4] 0 2 -0 -2" },
};

TD_TEST_EACH(an_op_gives, results)
{
    struct op_call call;
    struct td_tensor inputs[INPUTS];
    const struct td_op *op = td_op_named(results[_i].op, strlen(results[_i].op));
    set_inputs(&call, op, results[_i].attrs, inputs,
               tensor_list(results[_i].inputs, inputs, INPUTS));
    call_run(&call, op->name, NULL);
    ck_assert_msg(call.status == TD_OK, "%s: %s", results[_i].says, call.err.message);
    expect_tensor(&call.args.outputs[0], results[_i].output, results[_i].says);
}

TD_TEST(every_byte_but_0_is_true)
{
    static const char *const ops[] = { "logical_and", "logical_or", "equal" };
    for (int i = 0; i < COUNT_OF(ops); i++) {
        struct op_call call;
        struct td_tensor inputs[] = { tensor("bool[1] 1"), tensor("bool[1] 1") };
        *(uint8_t *)inputs[0].data = 2;
        *(uint8_t *)inputs[1].data = 4;
        set_inputs(&call, td_op_named(ops[i], strlen(ops[i])), "", inputs, 2);
        call_run(&call, ops[i], NULL);
        expect_tensor(&call.args.outputs[0], "bool[1] 1", ops[i]);
    }
}

/* ---- Refusals ---------------------------------------------------------------------------- */

static const struct {
    const char *says;
    const char *op;
    const char *inputs;
    td_status status;
    const char *message, *input;
} refusals[] = {
    { "sizes differ", "add", "int32[2,3] 1..6; int32[2] 1 2", TD_SHAPE_MISMATCH,
      "y [2] does not broadcast with x [2,3]: dimension 0 of y is 2, and dimension 1 of x is 3; "
      "expected equal sizes, or a size of 1",
      "y" },
    { "a size of 0 is a size", "multiply", "int32[2] 1 2; int32[0]", TD_SHAPE_MISMATCH,
      "y [0] does not broadcast with x [2]: dimension 0 of y is 0, and dimension 0 of x is 2; "
      "expected equal sizes, or a size of 1",
      "y" },
    { "the third input differs from the shape of the first two", "clip",
      "int32[1] 1; int32[2] 1 2; int32[3] 1 2 3", TD_SHAPE_MISMATCH,
      "max [3] does not broadcast with the other inputs [2]: dimension 0 of max is 3, and "
      "dimension 0 of the other inputs is 2; expected equal sizes, or a size of 1",
      "max" },
    { "dtypes differ", "add", "int32[] 1; int64[] 1", TD_UNSUPPORTED_DTYPE,
      "y has dtype int64 and x int32; the dtypes must be equal: the op cast with dtype = int64 "
      "converts x",
      "y" },
    { "floats only", "exp", "int32[] 1", TD_UNSUPPORTED_DTYPE,
      "x has dtype int32; expected float16, bfloat16, float32 or float64; the op cast with dtype "
      "= float64 converts it",
      "x" },
    { "a missing input", "add", "int32[] 1", TD_INVALID_ARGUMENT,
      "y is missing; expected: A tensor of any shape that broadcasts with the other inputs", "y" },
};

TD_TEST_EACH(an_op_refuses, refusals)
{
    struct op_call call;
    struct td_tensor inputs[INPUTS];
    const struct td_op *op = td_op_named(refusals[_i].op, strlen(refusals[_i].op));
    set_inputs(&call, op, "", inputs, tensor_list(refusals[_i].inputs, inputs, INPUTS));
    call_infer(&call, op->name);
    expect_refusal(&call, refusals[_i].status, refusals[_i].message, refusals[_i].input, "",
                   refusals[_i].says);
}

TD_TEST(the_broadcast_shape_must_have_a_number_of_elements)
{
    struct op_call call;
    struct td_tensor inputs[] = { tensor_without_data("float32[4294967296,1]"),
                                  tensor_without_data("float32[1,4294967296]") };
    set_inputs(&call, &td_op_add, "", inputs, 2);
    call_infer(&call, "add");
    ck_assert_int_eq(call.status, TD_RESOURCE_LIMIT);
}

/* ---- Values of y that integers refuse ---------------------------------------------------- */

static const struct {
    const char *op;
    const char *inputs;
    td_status status;
    const char *message;
    int rank;
    int64_t position[2], bad_count;
} faults[] = {
    { "floor_divide",
      "int32[3] 1 2 3; int32[3] 1 0 0",
      TD_DIVISION_BY_ZERO,
      "y[1] is 0; floor_divide cannot divide an integer by 0; floats can be divided by 0",
      1,
      { 1 },
      2 },
    { "floor_mod",
      "uint64[2] 1 2; uint64[] 0",
      TD_DIVISION_BY_ZERO,
      "y is 0; floor_mod cannot divide an integer by 0; floats can be divided by 0",
      0,
      { 0 },
      1 },
    { "floor_mod",
      "int8[2,2] 1 2 3 4; int8[2,1] 4 0",
      TD_DIVISION_BY_ZERO,
      "y[1,0] is 0; floor_mod cannot divide an integer by 0; floats can be divided by 0",
      2,
      { 1, 0 },
      1 },
    { "power",
      "int16[3] 1 2 3; int16[3] 0 -1 -2",
      TD_INVALID_ARGUMENT,
      "y[1] is negative; power needs exponents of 0 or more for integers; floats can have "
      "negative exponents",
      1,
      { 1 },
      2 },
};

TD_TEST_EACH(integers_refuse, faults)
{
    struct op_call call;
    struct td_tensor inputs[INPUTS];
    const struct td_op *op = td_op_named(faults[_i].op, strlen(faults[_i].op));
    set_inputs(&call, op, "", inputs, tensor_list(faults[_i].inputs, inputs, INPUTS));
    call_run(&call, op->name, NULL);
    expect_refusal(&call, faults[_i].status, faults[_i].message, "y", "", faults[_i].op);
    ck_assert(call.err.has_position);
    ck_assert_int_eq(call.err.position_rank, faults[_i].rank);
    for (int d = 0; d < faults[_i].rank; d++)
        ck_assert_int_eq(call.err.position[d], faults[_i].position[d]);
    ck_assert_int_eq(call.err.bad_count, faults[_i].bad_count);
}

TD_TEST(the_first_fault_is_named_on_any_number_of_threads)
{
    enum { N = 300000 };
    const struct td_shape length = { .rank = 1, .dim = { N } };
    struct td_tensor x = random_tensor(TD_DTYPE_INT16, &length);
    struct td_tensor y = random_tensor(TD_DTYPE_INT16, &length);
    for (int i = 0; i < N; i++)
        ((int16_t *)y.data)[i] = i == 123456 || i == 123457 || i == N - 1 ? 0 : 3;
    for (int threads = 1; threads <= 4; threads++) {
        struct op_call call;
        struct thread_exec exec;
        struct td_tensor inputs[] = { x, y };
        thread_exec_init(&exec, threads, 0);
        set_inputs(&call, &td_op_floor_mod, "", inputs, 2);
        call_run(&call, "floor_mod", &exec.exec);
        ck_assert_int_eq(call.status, TD_DIVISION_BY_ZERO);
        ck_assert_int_eq(call.err.position[0], 123456);
        ck_assert_int_eq(call.err.bad_count, 3);
    }
}

/* ---- Against calls with single elements -------------------------------------------------- */

/* Fills a tensor with numbers for which all ops give a result: integers from 0 to 6, in y from 1 to
 * 4, and floats from -4 to 4, some of them special. */
static void fill(struct td_tensor *t, int input)
{
    for (int64_t i = 0; i < t->numel; i++) {
        const int64_t integer = input == 1 ? 1 + random_below(4) : random_below(7);
        const float real = (float)(random_below(4096) - 2048) / 512;
        const float special[] = { NAN, INFINITY, -INFINITY, 0.0f, -0.0f };
        const float number = random_below(20) ? real : special[random_below(5)];
        char *at = (char *)t->data + (size_t)i * td_dtype_info(t->dtype)->size;
        switch (t->dtype) {
        case TD_DTYPE_FLOAT32:
            memcpy(at, &number, sizeof(number));
            break;
        case TD_DTYPE_FLOAT64:
            memcpy(at, &(double){ (double)number }, sizeof(double));
            break;
        case TD_DTYPE_COMPLEX64:
            memcpy(at, (float[]){ real, (float)integer }, 2 * sizeof(float));
            break;
        case TD_DTYPE_COMPLEX128:
            memcpy(at, (double[]){ (double)real, (double)integer }, 2 * sizeof(double));
            break;
        case TD_DTYPE_FLOAT16:
            memcpy(at, &(uint16_t){ (uint16_t)(0x3c00 + 64 * integer) }, sizeof(uint16_t));
            break;
        case TD_DTYPE_BFLOAT16:
            memcpy(at, &(uint16_t){ (uint16_t)(0x3f80 + 8 * integer) }, sizeof(uint16_t));
            break;
        case TD_DTYPE_BOOL:
            *at = (char)(integer & 1);
            break;
        default:
            memcpy(at, &integer, td_dtype_info(t->dtype)->size);
        }
    }
}

/* Makes every NaN of a tensor the same, because its payload may differ. */
static void unify_nans(struct td_tensor *t)
{
    const td_dtype part = td_dtype_part(t->dtype);
    const int64_t n = t->numel * (td_dtype_is_complex(t->dtype) ? 2 : 1);
    for (int64_t i = 0; i < n; i++) {
        if (part == TD_DTYPE_FLOAT32 && isnan(((float *)t->data)[i]))
            ((float *)t->data)[i] = NAN;
        if (part == TD_DTYPE_FLOAT64 && isnan(((double *)t->data)[i]))
            ((double *)t->data)[i] = (double)NAN;
    }
}

/* Removes leading dimensions, or sets some to 1. */
static struct td_shape shrunk(const struct td_shape *full)
{
    struct td_shape shape = { .rank = random_below(full->rank + 1) };
    for (int d = 0; d < shape.rank; d++) {
        const int64_t size = full->dim[full->rank - shape.rank + d];
        shape.dim[d] = random_below(3) ? size : 1;
    }
    return shape;
}

/* Returns the element of a tensor that belongs to position `place` of the broadcast shape. */
static struct td_tensor element_at(const struct td_tensor *t, const int64_t *place, int rank)
{
    struct td_error err;
    struct td_tensor one;
    const struct td_shape scalar = { .rank = 0 };
    int64_t at = 0;
    for (int d = 0; d < t->shape.rank; d++) {
        const int64_t of = place[rank - t->shape.rank + d];
        at = at * t->shape.dim[d] + (t->shape.dim[d] == 1 ? 0 : of);
    }
    ck_assert_int_eq(td_tensor_describe(&one, "one", t->dtype, &scalar, &err), TD_OK);
    ck_assert_int_eq(td_tensor_alloc(&one, &test_arena, &err), TD_OK);
    memcpy(one.data, (const char *)t->data + (size_t)at * one.bytes, one.bytes);
    return one;
}

static td_dtype random_dtype(const struct td_op *op)
{
    const td_dtype_set set = op->inputs[op->n_inputs - 1].dtypes & ~TD_DTYPE_BIT(STRING);
    td_dtype dtype;
    do
        dtype = (td_dtype)random_below(TD_DTYPE_COUNT);
    while (!(set >> dtype & 1));
    return dtype;
}

static struct td_shape random_shape(void)
{
    struct td_shape shape = { .rank = random_below(4) };
    for (int d = 0; d < shape.rank; d++)
        shape.dim[d] = 1 + random_below(random_below(3) ? 5 : 70);
    if (random_below(8) == 0 && shape.rank > 0)
        shape.dim[random_below(shape.rank)] = 2000 + random_below(3000);
    return shape;
}

static void compare_with_elements(const struct td_op *op, const struct op_call *call,
                                  const struct td_tensor *inputs, int64_t at, const char *says)
{
    const struct td_tensor *out = &call->args.outputs[0];
    int64_t place[TD_MAX_RANK];
    struct td_tensor elements[INPUTS], got;
    struct op_call single;
    td_shape_unravel(&out->shape, at, place);
    for (int i = 0; i < op->n_inputs; i++)
        elements[i] = element_at(&inputs[i], place, out->shape.rank);
    got = element_at(out, place, out->shape.rank);
    set_inputs(&single, op, "", elements, op->n_inputs);
    call_run(&single, op->name, NULL);
    EXPECT(single.status == TD_OK, "%s: %s", says, single.err.message);
    unify_nans(&got);
    unify_nans(&single.args.outputs[0]);
    expect_same_tensor(&got, &single.args.outputs[0], says);
}

static void check_random_call(const struct td_op *op)
{
    struct td_tensor inputs[INPUTS];
    struct op_call call;
    struct thread_exec exec;
    char says[200], text[TD_SHAPE_TEXT];
    const struct td_shape shape = random_shape();
    const td_dtype dtype = random_dtype(op);
    const int whole = random_below(op->n_inputs);
    for (int i = 0; i < op->n_inputs; i++) {
        const struct td_shape its = i == whole ? shape : shrunk(&shape);
        const bool condition = op->inputs[i].role == TD_ROLE_CONDITION;
        inputs[i] = random_tensor(condition ? TD_DTYPE_BOOL : dtype, &its);
        fill(&inputs[i], i);
    }
    thread_exec_init(&exec, 1 + random_below(3), 0);
    exec.exec.isa = (td_isa)random_below(TD_ISA_COUNT);
    set_inputs(&call, op, "", inputs, op->n_inputs);
    call_run(&call, op->name, &exec.exec);
    snprintf(says, sizeof(says), "%s of %s, %s, %s", op->name, td_dtype_info(dtype)->name,
             td_shape_text(&shape, text, sizeof(text)), td_isa_name(exec.exec.isa));
    ck_assert_msg(call.status == TD_OK, "%s: %s", says, call.err.message);
    const int64_t n = call.args.outputs[0].numel;
    for (int k = 0; k < 30 && n > 0; k++)
        compare_with_elements(op, &call, inputs, random_below((int)n), says);
    compare_with_elements(op, &call, inputs, n - 1, says);
}

TD_TEST(every_element_is_computed_from_its_elements)
{
    static const struct td_op *const ops[] = {
#define TD_ELEMENTWISE(name, ...) &td_op_##name,
#include "kernels/elementwise/elementwise.def"
#undef TD_ELEMENTWISE
    };
    for (int i = 0; i < COUNT_OF(ops); i++)
        for (int seed = 0; seed < 30 * test_effort(); seed++) {
            random_seed((uint64_t)(1000 * i + seed));
            td_arena_reset(&test_arena);
            check_random_call(ops[i]);
        }
}
