#include "kernels/embedding_bag/arguments.h"
#include "kernels/isa.h"
#include "kernels/statistics/statistics.h"
#include "tests/support/op_call.h"
#include "tests/support/random.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"
#include "tests/support/threads.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Random numbers whose products and sums are rounded: of all signs, of similar magnitude. */
static struct td_tensor numbers(td_dtype dtype, struct td_shape shape)
{
    struct td_tensor t = random_tensor(dtype, &shape);
    for (int64_t i = 0; i < t.numel; i++) {
        const uint64_t mantissa = random_next();
        const uint64_t sign = random_next() & 1, scale = random_next() & 3;
        if (dtype == TD_DTYPE_FLOAT32)
            ((uint32_t *)t.data)[i] = (uint32_t)(sign << 31 | (125 + scale) << 23 | mantissa >> 41);
        else if (dtype == TD_DTYPE_FLOAT64)
            ((uint64_t *)t.data)[i] = sign << 63 | (1021 + scale) << 52 | mantissa >> 12;
        else if (dtype == TD_DTYPE_FLOAT16)
            ((uint16_t *)t.data)[i] = (uint16_t)(sign << 15 | (13 + scale) << 10 | mantissa >> 54);
        else if (dtype == TD_DTYPE_BFLOAT16)
            ((uint16_t *)t.data)[i] = (uint16_t)(sign << 15 | (125 + scale) << 7 | mantissa >> 57);
    }
    return t;
}

static struct td_shape vector(int64_t n)
{
    return (struct td_shape){ .rank = 1, .dim = { n } };
}

static struct td_shape matrix(int64_t n, int64_t m)
{
    return (struct td_shape){ .rank = 2, .dim = { n, m } };
}

static struct td_tensor indices(int64_t n, int below)
{
    const struct td_shape shape = vector(n);
    struct td_tensor t = random_tensor(TD_DTYPE_INT32, &shape);
    for (int64_t i = 0; i < n; i++)
        ((int32_t *)t.data)[i] = random_below(below);
    return t;
}

static struct td_operand operand(struct td_tensor tensor)
{
    struct td_error err;
    struct td_operand copy = { td_arena_alloc(&test_arena, 1, sizeof(tensor), &err), 1 };
    EXPECT(copy.tensors, "%s", err.message);
    *copy.tensors = tensor;
    return copy;
}

/* Runs the call with every instruction set of the machine. An input without data is not given. */
static void expect_one_answer(const char *op, const char *attrs, const struct td_tensor *inputs,
                              int n_inputs, const char *what)
{
    struct op_call generic, other;
    for (td_isa isa = TD_ISA_GENERIC; isa < TD_ISA_COUNT; isa++) {
        struct op_call *call = isa == TD_ISA_GENERIC ? &generic : &other;
        struct thread_exec exec;
        char name[300];
        if (!td_isa_supported(isa))
            continue;
        thread_exec_init(&exec, isa == TD_ISA_GENERIC ? 1 : 3, 0);
        exec.exec.isa = isa;
        call_begin(call, op, attrs, inputs[0], n_inputs > 1 ? inputs[1] : (struct td_tensor){ 0 });
        for (int i = 2; i < n_inputs; i++)
            if (inputs[i].data)
                call->args.inputs[i] = operand(inputs[i]);
        call_run(call, op, &exec.exec);
        snprintf(name, sizeof(name), "%s %s, %s: %s", op, attrs, what, td_isa_name(isa));
        EXPECT(call->status == TD_OK, "%s: %s", name, call->err.message);
        for (int i = 0; i < call->args.n_outputs; i++)
            expect_same_tensor(&call->args.outputs[i], &generic.args.outputs[i], name);
    }
}

/* Rows shorter and longer than the vectors of each instruction set. */
static const int64_t widths[] = { 1, 2, 3, 4, 5, 7, 8, 12, 15, 16, 17, 33, 64, 70, 259 };

TD_TEST_EACH(dequantize_gives_one_answer, widths)
{
    static const char *const attrs[] = { "", "dtype=float64", "dtype=float16", "dtype=bfloat16" };
    for (int seed = 0; seed < 40; seed++) {
        random_seed((uint64_t)(100 * _i + seed));
        td_arena_reset(&test_arena);
        const int64_t n = 1 + random_below(20);
        const struct td_shape per_row = { .rank = random_below(2), .dim = { n } };
        struct td_tensor inputs[4] = {
            numbers(random_below(2) ? TD_DTYPE_INT8 : TD_DTYPE_UINT8, matrix(n, widths[_i])),
            numbers(TD_DTYPE_FLOAT32, per_row),
        };
        if (random_below(2))
            inputs[2] = numbers(TD_DTYPE_FLOAT32, per_row);
        else
            inputs[3] = numbers(TD_DTYPE_INT8, per_row);
        expect_one_answer("dequantize", attrs[random_below(4)], inputs, 4, "rows");
    }
}

static const td_dtype bag_dtypes[] = { TD_DTYPE_FLOAT16, TD_DTYPE_BFLOAT16, TD_DTYPE_FLOAT32,
                                       TD_DTYPE_FLOAT64, TD_DTYPE_INT8,     TD_DTYPE_UINT8 };

static void expect_one_answer_of_bags(td_dtype dtype, int64_t columns, int64_t n_indices)
{
    static const char *const modes[] = { "mode=sum", "mode=mean", "mode=sqrtn", "mode=max" };
    enum { ROWS = 30 };
    struct td_tensor inputs[TD_BAG_INPUTS] = { { 0 } };
    char what[64], attrs[64];
    const int mode = random_below(4), n_bags = 1 + random_below(5);
    const bool quantized = dtype == TD_DTYPE_INT8 || dtype == TD_DTYPE_UINT8;
    const bool trailer = dtype == TD_DTYPE_UINT8 && random_below(3) == 0;
    inputs[TD_BAG_PARAMS] = numbers(dtype, matrix(ROWS, columns + (trailer ? 8 : 0)));
    inputs[TD_BAG_INDICES] = indices(n_indices, ROWS);
    inputs[TD_BAG_OFFSETS] = indices(n_bags, 1);
    for (int k = 1; k < n_bags; k++)
        ((int32_t *)inputs[TD_BAG_OFFSETS].data)[k] = (int32_t)(n_indices * k / n_bags);
    if (mode != TD_BAG_MAX && random_below(2))
        inputs[TD_BAG_WEIGHTS] = numbers(quantized ? TD_DTYPE_FLOAT32 : dtype, vector(n_indices));
    const struct td_shape per_row = { .rank = random_below(2), .dim = { ROWS } };
    const struct td_tensor scale = numbers(TD_DTYPE_FLOAT32, vector(2 * ROWS));
    for (int64_t row = 0; trailer && row < ROWS; row++)
        memcpy((char *)inputs[TD_BAG_PARAMS].data + row * (columns + 8) + columns,
               (const float *)scale.data + 2 * row, 8);
    if (quantized && !trailer) {
        inputs[TD_BAG_SCALE] = numbers(TD_DTYPE_FLOAT32, per_row);
        if (random_below(2))
            inputs[TD_BAG_OFFSET] = numbers(TD_DTYPE_FLOAT32, per_row);
        else
            inputs[TD_BAG_ZERO_POINT] = numbers(TD_DTYPE_UINT8, per_row);
    }
    snprintf(attrs, sizeof(attrs), "%s layout=%s", modes[mode], trailer ? "byte_rowwise" : "plain");
    snprintf(what, sizeof(what), "%s, %" PRId64 " columns", td_dtype_info(dtype)->name, columns);
    expect_one_answer("embedding_bag", attrs, inputs, TD_BAG_INPUTS, what);
}

TD_TEST_EACH(embedding_bag_gives_one_answer, widths)
{
    for (int seed = 0; seed < 120; seed++) {
        random_seed((uint64_t)(1000 * _i + seed));
        td_arena_reset(&test_arena);
        expect_one_answer_of_bags(bag_dtypes[seed % COUNT_OF(bag_dtypes)], widths[_i],
                                  random_below(40));
    }
    for (int i = 0; i < COUNT_OF(bag_dtypes); i++) /* in parts */
        expect_one_answer_of_bags(bag_dtypes[i], widths[_i], 3000);
}

/* Halves with any bits, -0 and NaN among them, and other numbers. */
static struct td_tensor rows_of_any_bits(td_dtype dtype, struct td_shape shape)
{
    if (dtype != TD_DTYPE_FLOAT16 && dtype != TD_DTYPE_BFLOAT16)
        return numbers(dtype, shape);
    struct td_tensor t = random_tensor(dtype, &shape);
    for (int64_t i = 0; i < t.numel; i += 7)
        ((uint16_t *)t.data)[i] = 0x8000;
    return t;
}

TD_TEST_EACH(bags_of_one_row_give_one_answer, widths)
{
    enum { ROWS = 30, BAGS = 200 };
    for (int i = 0; i < COUNT_OF(bag_dtypes); i++) {
        random_seed((uint64_t)(1000 * _i + i));
        td_arena_reset(&test_arena);
        const td_dtype dtype = bag_dtypes[i];
        struct td_tensor inputs[TD_BAG_INPUTS] = { { 0 } };
        inputs[TD_BAG_PARAMS] = rows_of_any_bits(dtype, matrix(ROWS, widths[_i]));
        inputs[TD_BAG_INDICES] = indices(BAGS, ROWS);
        inputs[TD_BAG_OFFSETS] = indices(BAGS, 1);
        for (int k = 0; k < BAGS; k++)
            ((int32_t *)inputs[TD_BAG_OFFSETS].data)[k] = k;
        if (dtype == TD_DTYPE_INT8 || dtype == TD_DTYPE_UINT8)
            inputs[TD_BAG_SCALE] = numbers(TD_DTYPE_FLOAT32, vector(ROWS));
        expect_one_answer("embedding_bag", "", inputs, TD_BAG_INPUTS, td_dtype_info(dtype)->name);
    }
}

/* Numbers of any magnitude, infinities and NaN among them, whose sums of products often lie next to
 * the middle of two numbers. */
static struct td_tensor extremes(td_dtype dtype, struct td_shape shape)
{
    const int digits = dtype == TD_DTYPE_FLOAT32 ? 23 : 52;
    const uint64_t ones = ((uint64_t)1 << digits) - 1;
    struct td_tensor t = random_tensor(dtype, &shape);
    for (int64_t i = 0; i < t.numel; i++) {
        const uint64_t mantissas[] = { 0, 1, ones, random_next() & ones };
        const uint64_t sign = random_next() & 1;
        uint64_t exponent = random_next() & (dtype == TD_DTYPE_FLOAT32 ? 255 : 2047);
        if (random_below(8))
            exponent = (uint64_t)((dtype == TD_DTYPE_FLOAT32 ? 127 : 1023) +
                                  (random_below(3) - 1) * (digits + 1) - random_below(2));
        const uint64_t bits = exponent << digits | mantissas[random_below(4)];
        if (dtype == TD_DTYPE_FLOAT32)
            ((uint32_t *)t.data)[i] = (uint32_t)(sign << 31 | bits);
        else
            ((uint64_t *)t.data)[i] = sign << 63 | bits;
    }
    return t;
}

/* Sums in the order of the rows, each rounded once. */
#define EXPECT_FUSED(real, fused, isa)                                                             \
    for (int64_t c = 0; c < columns; c++) {                                                        \
        real sum = 0;                                                                              \
        for (int64_t i = 0; i < ROWS; i++)                                                         \
            sum = fused(((const real *)params.data)[i * columns + c],                              \
                        ((const real *)weights.data)[i], sum);                                     \
        const real got = ((const real *)call.args.outputs[0].data)[c];                             \
        EXPECT((isnan(got) && isnan(sum)) || memcmp(&got, &sum, sizeof(sum)) == 0,                 \
               "%s, column %" PRId64 ": %a, expected %a", td_isa_name(isa), c, (double)got,        \
               (double)sum);                                                                       \
    }

TD_TEST_EACH(weighted_sums_of_floats_are_rounded_once_a_row, widths)
{
    enum { ROWS = 4, SEEDS = 300 };
    for (int seed = 0; seed < SEEDS; seed++) {
        random_seed((uint64_t)(1000 * _i + seed));
        td_arena_reset(&test_arena);
        const int64_t columns = widths[_i];
        const td_dtype dtype = seed % 2 ? TD_DTYPE_FLOAT32 : TD_DTYPE_FLOAT64;
        const struct td_tensor params = extremes(dtype, matrix(ROWS, columns));
        const struct td_tensor weights = extremes(dtype, matrix(1, ROWS));
        struct td_tensor rows = random_tensor(TD_DTYPE_INT32, &weights.shape);
        for (int i = 0; i < ROWS; i++)
            ((int32_t *)rows.data)[i] = i;
        for (td_isa isa = TD_ISA_GENERIC; isa < TD_ISA_COUNT; isa++) {
            struct op_call call;
            struct thread_exec exec;
            if (!td_isa_supported(isa))
                continue;
            thread_exec_init(&exec, 1, 0);
            exec.exec.isa = isa;
            call_begin(&call, "embedding_bag", "", params, rows);
            call.args.inputs[TD_BAG_WEIGHTS] = operand(weights);
            call_run(&call, "embedding_bag", &exec.exec);
            EXPECT(call.status == TD_OK, "%s", call.err.message);
            if (dtype == TD_DTYPE_FLOAT32)
                EXPECT_FUSED(float, fmaf, isa)
            else
                EXPECT_FUSED(double, fma, isa)
        }
    }
}

/* Bags of one row of bytes. */
TD_TEST_EACH(a_bag_of_one_row_is_what_dequantize_gives, widths)
{
    enum { ROWS = 30 };
    struct op_call bag, row;
    for (td_isa isa = TD_ISA_GENERIC; isa < TD_ISA_COUNT; isa++) {
        struct thread_exec exec;
        if (!td_isa_supported(isa))
            continue;
        random_seed((uint64_t)_i);
        td_arena_reset(&test_arena);
        thread_exec_init(&exec, 1, 0);
        exec.exec.isa = isa;
        const struct td_tensor params = numbers(TD_DTYPE_UINT8, matrix(ROWS, widths[_i]));
        struct td_tensor rows = random_tensor(TD_DTYPE_INT32, &(struct td_shape){ 2, { ROWS, 1 } });
        for (int i = 0; i < ROWS; i++)
            ((int32_t *)rows.data)[i] = i;
        const struct td_operand scale = operand(numbers(TD_DTYPE_FLOAT32, vector(ROWS)));
        const struct td_operand offset = operand(numbers(TD_DTYPE_FLOAT32, vector(ROWS)));
        call_begin(&bag, "embedding_bag", "", params, rows);
        bag.args.inputs[TD_BAG_SCALE] = scale;
        bag.args.inputs[TD_BAG_OFFSET] = offset;
        call_run(&bag, "embedding_bag", &exec.exec);
        call_begin(&row, "dequantize", "", params, *scale.tensors);
        row.args.inputs[2] = offset;
        call_run(&row, "dequantize", &exec.exec);
        EXPECT(bag.status == TD_OK && row.status == TD_OK, "%s", bag.err.message);
        expect_same_tensor(&bag.args.outputs[0], &row.args.outputs[0], td_isa_name(isa));
    }
}

static const td_dtype cast_dtypes[] = {
    TD_DTYPE_BOOL,    TD_DTYPE_INT8,     TD_DTYPE_INT64,   TD_DTYPE_UINT16,  TD_DTYPE_UINT64,
    TD_DTYPE_FLOAT16, TD_DTYPE_BFLOAT16, TD_DTYPE_FLOAT32, TD_DTYPE_FLOAT64, TD_DTYPE_COMPLEX64,
};

TD_TEST_EACH(cast_and_gather_with_dtype_give_one_answer, cast_dtypes)
{
    for (int to = 0; to < COUNT_OF(cast_dtypes); to++) {
        char attrs[40];
        random_seed((uint64_t)(20 * _i + to));
        td_arena_reset(&test_arena);
        snprintf(attrs, sizeof(attrs), "dtype=%s", td_dtype_info(cast_dtypes[to])->name);
        const struct td_tensor inputs[2] = { numbers(cast_dtypes[_i], matrix(9, 71)),
                                             indices(20, 9) };
        expect_one_answer("cast", attrs, inputs, 1, td_dtype_info(cast_dtypes[_i])->name);
        if (cast_dtypes[_i] >= TD_DTYPE_FLOAT16 && cast_dtypes[_i] <= TD_DTYPE_FLOAT64 &&
            cast_dtypes[to] >= TD_DTYPE_FLOAT16 && cast_dtypes[to] <= TD_DTYPE_FLOAT64)
            expect_one_answer("gather", attrs, inputs, 2, td_dtype_info(cast_dtypes[_i])->name);
    }
}

static const td_dtype ordered_dtypes[] = {
    TD_DTYPE_INT8,    TD_DTYPE_INT64,    TD_DTYPE_UINT16,  TD_DTYPE_UINT64,
    TD_DTYPE_FLOAT16, TD_DTYPE_BFLOAT16, TD_DTYPE_FLOAT32, TD_DTYPE_FLOAT64,
};

TD_TEST_EACH(top_k_gives_one_answer, ordered_dtypes)
{
    random_seed((uint64_t)_i);
    const struct td_tensor x = numbers(ordered_dtypes[_i], matrix(30, 501));
    expect_one_answer("top_k", "k=7", &x, 1, td_dtype_info(x.dtype)->name);
    expect_one_answer("top_k", "k=100 largest=false", &x, 1, td_dtype_info(x.dtype)->name);
}

/* Sums of integers, and elements that are only moved. Sums of floats may differ in rounding. */
static const char *const equations[] = { "ij,jk->ik", "ij,jk->kij", "ij,jk->", "ij,jk->ijk" };

TD_TEST_EACH(einsum_of_integers_gives_one_answer, equations)
{
    static const td_dtype integers[] = { TD_DTYPE_INT8, TD_DTYPE_INT32, TD_DTYPE_INT64,
                                         TD_DTYPE_UINT16 };
    struct op_call generic;
    for (int d = 0; d < COUNT_OF(integers); d++)
        for (td_isa isa = TD_ISA_GENERIC; isa < TD_ISA_COUNT; isa++) {
            char attrs[40];
            struct op_call call;
            struct thread_exec exec;
            random_seed((uint64_t)(10 * _i + d));
            const struct td_tensor inputs[2] = { numbers(integers[d], matrix(19, 33)),
                                                 numbers(integers[d], matrix(33, 21)) };
            thread_exec_init(&exec, 2, 0);
            exec.exec.isa = isa;
            snprintf(attrs, sizeof(attrs), "equation=%s", equations[_i]);
            call_begin_lists(&call, "einsum", attrs, 2, inputs, 0, NULL);
            call_run(&call, "einsum", &exec.exec);
            EXPECT(call.status == TD_OK, "%s", call.err.message);
            if (isa == TD_ISA_GENERIC)
                generic = call;
            expect_same_tensor(&call.args.outputs[0], &generic.args.outputs[0], attrs);
        }
}

TD_TEST_EACH(statistics_have_the_same_bits, ordered_dtypes)
{
    random_seed((uint64_t)_i);
    const struct td_tensor x = numbers(ordered_dtypes[_i], matrix(30, 501));
    struct td_statistics *first = NULL;
    for (td_isa isa = TD_ISA_GENERIC; isa < TD_ISA_COUNT; isa++) {
        struct td_error err;
        struct thread_exec exec;
        struct td_statistics *got = td_arena_alloc(&test_arena, td_statistics_bytes(&x), 1, &err);
        EXPECT(got, "%s", err.message);
        thread_exec_init(&exec, 2, 0);
        exec.exec.isa = isa;
        exec.exec.arena = &test_arena;
        EXPECT(td_statistics_run(&x, &exec.exec, got, &err) == TD_OK, "%s", err.message);
        first = first ? first : got;
        EXPECT(memcmp(got, first, td_statistics_bytes(&x)) == 0, "%s", td_isa_name(isa));
    }
}
