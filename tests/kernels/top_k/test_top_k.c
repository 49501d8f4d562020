#include "kernels/top_k/top_k.h"
#include "tests/support/op_call.h"
#include "tests/support/random.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"
#include "tests/support/threads.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OP "top_k"

static void call_top_k(struct op_call *call, struct td_tensor x, int64_t k, bool largest,
                       struct td_exec *exec)
{
    char attrs[64];
    snprintf(attrs, sizeof(attrs), "k=%" PRId64 " largest=%s", k, largest ? "true" : "false");
    call_op(call, OP, attrs, x, (struct td_tensor){ 0 }, exec);
}

/* Beside those of tests/conformance/cases. */
static const struct {
    const char *says;
    const char *x, *attrs;
    const char *values, *indices;
} results[] = {
    { "zeros of either sign are equal, and keep it", "float64[4] -0 0 -0 0", "k=3",
      "float64[3] -0 0 -0", "int32[3] 0 1 2" },
    { "also as float32", "float32[3] -0 0 -0", "k=2 largest=false", "float32[2] -0 0",
      "int32[2] 0 1" },
    { "and as float16", "float16[3] 0x8000 0 0x8000", "k=3", "float16[3] 0x8000 0 0x8000",
      "int32[3] 0 1 2" },
    { "NaN of either sign is the greatest", "float16[4] 0x3c00 0xfe01 0x7c00 0x7e00", "k=4",
      "float16[4] 0xfe01 0x7e00 0x7c00 0x3c00", "int32[4] 1 3 2 0" },
    { "and the last of the smallest", "bfloat16[3] 0x7fc0 0x3f80 0xff80", "k=3 largest=false",
      "bfloat16[3] 0xff80 0x3f80 0x7fc0", "int32[3] 2 1 0" },
    { "negative numbers", "int8[4] -128 127 -1 0", "k=4", "int8[4] 127 0 -1 -128",
      "int32[4] 1 3 2 0" },
    { "along the first dimension", "int32[3,2] 1 9 5 7 3 8", "k=2 axis=0", "int32[2,2] 5 9 3 8",
      "int32[2,2] 1 0 2 2" },
    { "axis counts from the end, too", "int8[2,2,1] 1 2 4 3", "k=1 axis=-2 largest=false",
      "int8[2,1,1] 1 3", "int32[2,1,1] 0 1" },
    { "rows whose number is too large, beside a 0", "int8[4611686018427387904,4,0]", "k=0",
      "int8[4611686018427387904,4,0]", "int32[4611686018427387904,4,0]" },
};

TD_TEST_EACH(top_k_gives, results)
{
    struct op_call call;
    call_op(&call, OP, results[_i].attrs, tensor(results[_i].x), (struct td_tensor){ 0 }, NULL);
    ck_assert_msg(call.status == TD_OK, "%s: %s", results[_i].says, call.err.message);
    ck_assert_int_eq(call.args.n_outputs, 2);
    expect_tensor(&call.args.outputs[0], results[_i].values, results[_i].says);
    expect_tensor(&call.args.outputs[1], results[_i].indices, results[_i].says);
}

#define NUMBERS                                                                                    \
    "expected int8, int16, int32, int64, uint8, uint16, uint32, uint64, float16, bfloat16, "       \
    "float32 or "                                                                                  \
    "float64"

static const struct {
    const char *says;
    const char *x, *attrs;
    td_status status;
    const char *message, *input, *attribute;
} refusals[] = {
    { "no k", "int32[1] 1", "", TD_INVALID_ARGUMENT, "k is missing; top_k requires it", "", "k" },
    { "k below 0", "int32[1] 1", "k=-1", TD_INVALID_ARGUMENT, "k is -1; expected 0 or more", "",
      "k" },
    { "k above the row", "int32[1,2] 1 2", "k=3", TD_INVALID_ARGUMENT,
      "k is 3; must be from 0 to 2, the length of axis 1 of x, which has shape [1,2]", "", "k" },
    { "also where there are no rows", "int32[0,2]", "k=3", TD_INVALID_ARGUMENT,
      "k is 3; must be from 0 to 2, the length of axis 1 of x, which has shape [0,2]", "", "k" },
    { "an axis above", "int32[1,2] 1 2", "k=1 axis=2", TD_INVALID_AXIS,
      "axis = 2 is not in [-2, 2): x has shape [1,2]", "", "axis" },
    { "k above another dimension", "int32[1,2] 1 2", "k=2 axis=0", TD_INVALID_ARGUMENT,
      "k is 2; must be from 0 to 1, the length of axis 0 of x, which has shape [1,2]", "", "k" },
    { "a scalar", "int32[] 1", "k=1", TD_INVALID_ARGUMENT,
      "x is a scalar; expected at least one dimension", "x", "" },
    { "bool", "bool[1] 1", "k=1", TD_UNSUPPORTED_DTYPE,
      "x has dtype bool; " NUMBERS "; the op cast with dtype = int64 converts it", "x", "" },
    { "complex", "complex64[1] 1 0", "k=1", TD_UNSUPPORTED_DTYPE, "x has dtype complex64; " NUMBERS,
      "x", "" },
    { "strings", "string[1] 'a'", "k=1", TD_UNSUPPORTED_DTYPE, "x has dtype string; " NUMBERS, "x",
      "" },
    { "rows that int32 cannot count", "int8[0,2147483648]", "k=1", TD_RESOURCE_LIMIT,
      "a row of x needs 2147483648 elements; the limit is 2147483647", "x", "" },
};

TD_TEST_EACH(top_k_refuses, refusals)
{
    struct op_call call;
    call_begin(&call, OP, refusals[_i].attrs, tensor(refusals[_i].x), (struct td_tensor){ 0 });
    call_infer(&call, OP);
    expect_refusal(&call, refusals[_i].status, refusals[_i].message, refusals[_i].input,
                   refusals[_i].attribute, refusals[_i].says);
}

/* ---- Against the definition -------------------------------------------------------------- */

struct element {
    long double value;
    int32_t index;
    bool largest;
};

static struct element element_of(const struct td_tensor *x, int64_t row, int64_t n, int64_t i,
                                 bool largest)
{
    return (struct element){ tensor_value(x, row * n + i, 0), (int32_t)i, largest };
}

/* The order of the result. */
static bool is_before(const struct element *a, const struct element *b)
{
    if (isnan(a->value) != isnan(b->value))
        return isnan(a->value) == a->largest;
    if (a->value != b->value && !isnan(a->value))
        return (a->value > b->value) == a->largest;
    return a->index < b->index;
}

/* The chosen elements of a row are in order, and all that belong before the last one are chosen:
 * those are as many, and none is chosen twice. */
static void expect_row(const struct td_tensor *x, int64_t row, int64_t n, const int32_t *indices,
                       int64_t k, bool largest, const char *what)
{
    struct element last = { 0 };
    int64_t n_before = 0;
    for (int64_t i = 0; i < k; i++) {
        EXPECT(indices[i] >= 0 && indices[i] < n, "%s: indices[%" PRId64 ", %" PRId64 "] is %d",
               what, row, i, (int)indices[i]);
        const struct element next = element_of(x, row, n, indices[i], largest);
        EXPECT(i == 0 || is_before(&last, &next), "%s: indices[%" PRId64 ", %" PRId64 "] is %d",
               what, row, i, (int)indices[i]);
        last = next;
    }
    for (int64_t i = 0; k > 0 && i < n; i++) {
        const struct element one = element_of(x, row, n, i, largest);
        n_before += is_before(&one, &last);
    }
    EXPECT(k == 0 || n_before == k - 1, "%s: row %" PRId64 ": %" PRId64 " belong before the last",
           what, row, n_before);
}

static void expect_top_k(const struct td_tensor *x, int64_t k, bool largest,
                         const struct td_tensor *values, const struct td_tensor *indices,
                         const char *what)
{
    const int64_t n = x->shape.dim[x->shape.rank - 1];
    struct td_shape shape = x->shape;
    shape.dim[shape.rank - 1] = k;
    EXPECT(td_shape_equal(&values->shape, &shape) && values->dtype == x->dtype, "%s: values", what);
    EXPECT(td_shape_equal(&indices->shape, &shape) && indices->dtype == TD_DTYPE_INT32,
           "%s: indices", what);
    for (int64_t r = 0; n > 0 && r < x->numel / n; r++) {
        const int32_t *chosen = (const int32_t *)indices->data + r * k;
        expect_row(x, r, n, chosen, k, largest, what);
        for (int64_t i = 0; i < k; i++) {
            size_t size;
            const void *got = tensor_element(values, r * k + i, &size);
            EXPECT(memcmp(got, tensor_element(x, r * n + chosen[i], &size), size) == 0,
                   "%s: values[%" PRId64 ", %" PRId64 "]", what, r, i);
        }
    }
}

static const td_dtype dtypes[] = {
    TD_DTYPE_INT8,    TD_DTYPE_INT16,    TD_DTYPE_INT32,   TD_DTYPE_INT64,
    TD_DTYPE_UINT8,   TD_DTYPE_UINT16,   TD_DTYPE_UINT32,  TD_DTYPE_UINT64,
    TD_DTYPE_FLOAT16, TD_DTYPE_BFLOAT16, TD_DTYPE_FLOAT32, TD_DTYPE_FLOAT64,
};

/* Random bits, which have many NaNs as float16, or only a few different elements. */
static struct td_tensor random_elements(td_dtype dtype, const struct td_shape *shape)
{
    struct td_tensor x = random_tensor(dtype, shape);
    const size_t size = td_dtype_info(dtype)->size;
    const int distinct = random_below(3) ? 0 : 1 + random_below(20);
    for (int64_t i = 0; distinct > 0 && i < x.numel; i++)
        memmove((char *)x.data + (size_t)i * size,
                (char *)x.data + (size_t)random_below(distinct) % (size_t)x.numel * size, size);
    return x;
}

TD_TEST_LOOP(any_top_k_is_what_sorting_gives, 0, 2 * COUNT_OF(dtypes))
{
    enum { SAMPLES = 40 };
    for (int s = 0; s < SAMPLES * test_effort(); s++) {
        const int seed = _i + s * 2 * COUNT_OF(dtypes);
        char what[96];
        struct thread_exec exec;
        struct op_call call;
        td_arena_reset(&test_arena);
        random_seed((uint64_t)seed);
        const int n = 1 + random_below(random_below(3) ? 60 : 3000);
        const int64_t k = random_below(3) ? random_below(n < 40 ? n + 1 : 40) : random_below(n + 1);
        const struct td_shape shape = { .rank = 2, .dim = { random_below(12), n } };
        const td_dtype dtype = dtypes[_i % COUNT_OF(dtypes)];
        const td_isa isa = (td_isa)(TD_ISA_GENERIC + random_below(3));
        const bool largest = random_below(2);
        struct td_tensor x = random_elements(dtype, &shape);
        snprintf(what, sizeof(what), "seed %d: %s, %s", seed, td_dtype_info(dtype)->name,
                 td_isa_name(td_isa_resolve(isa)));
        thread_exec_init(&exec, 1 + random_below(3), random_below(2) ? 0 : 1 + random_below(5));
        exec.exec.isa = isa;
        call_top_k(&call, x, k, largest, &exec.exec);
        EXPECT(call.status == TD_OK, "%s: %s", what, call.err.message);
        expect_top_k(&x, k, largest, &call.args.outputs[0], &call.args.outputs[1], what);
    }
}

/* Rows that are selected from in runs, and a shorter one, in the orders that make a selection
 * slow. */
enum order { RANDOM, ASCENDING, DESCENDING, EQUAL, SAWTOOTH, ORDERS };

static const struct {
    td_dtype dtype;
    int64_t n_rows, n, k;
} large[] = {
    { TD_DTYPE_FLOAT32, 1, 300001, 1 },     { TD_DTYPE_FLOAT32, 2, 262145, 16 },
    { TD_DTYPE_INT64, 1, 300000, 17 },      { TD_DTYPE_INT32, 1, 270000, 40000 },
    { TD_DTYPE_UINT64, 1, 290000, 290000 }, { TD_DTYPE_INT32, 1, 262144, 1000 },
    { TD_DTYPE_FLOAT64, 1, 262144, 16 },    { TD_DTYPE_UINT16, 1, 300001, 299999 },
};

static struct td_tensor large_rows(int which, enum order order)
{
    const struct td_shape shape = { .rank = 2, .dim = { large[which].n_rows, large[which].n } };
    struct td_tensor x = random_tensor(large[which].dtype, &shape);
    for (int64_t i = 0; order != RANDOM && i < x.numel; i++) {
        const int64_t value = order == ASCENDING    ? i
                              : order == DESCENDING ? x.numel - i
                              : order == SAWTOOTH   ? i % 1000
                                                    : 7;
        if (x.dtype == TD_DTYPE_FLOAT32)
            ((float *)x.data)[i] = (float)value;
        else if (x.dtype == TD_DTYPE_FLOAT64)
            ((double *)x.data)[i] = (double)value;
        else
            memcpy((char *)x.data + (size_t)i * td_dtype_info(x.dtype)->size, &value,
                   td_dtype_info(x.dtype)->size);
    }
    return x;
}

TD_TEST_LOOP(long_rows_do_not_depend_on_their_order_or_on_how_they_are_split, 0,
             COUNT_OF(large) * ORDERS)
{
    const int which = _i / ORDERS;
    char what[96];
    random_seed((uint64_t)_i);
    struct td_tensor x = large_rows(which, (enum order)(_i % ORDERS));
    for (int largest = 0; largest < 2; largest++) {
        struct thread_exec exec;
        struct op_call call;
        thread_exec_init(&exec, 1 + random_below(4), 0);
        exec.backwards = largest;
        snprintf(what, sizeof(what), "case %d, order %d", which, _i % ORDERS);
        call_top_k(&call, x, large[which].k, largest, &exec.exec);
        EXPECT(call.status == TD_OK, "%s: %s", what, call.err.message);
        expect_top_k(&x, large[which].k, largest, &call.args.outputs[0], &call.args.outputs[1],
                     what);
    }
}

/* [a, b, c] as [a, c, b]. */
static struct td_tensor swapped(const struct td_tensor *x)
{
    const int64_t a = x->shape.dim[0], b = x->shape.dim[1], c = x->shape.dim[2];
    const size_t size = td_dtype_info(x->dtype)->size;
    struct td_tensor out =
        random_tensor(x->dtype, &(struct td_shape){ .rank = 3, .dim = { a, c, b } });
    for (int64_t i = 0; i < a * b * c; i++) {
        const int64_t from = i / (b * c) * b * c + i % b * c + i / b % c;
        memcpy((char *)out.data + (size_t)i * size, (const char *)x->data + (size_t)from * size,
               size);
    }
    return out;
}

/* Rows of some elements, and one that is selected from in runs. */
TD_TEST_LOOP(another_axis_gives_what_the_last_one_gives_of_the_transposed_tensor, 0,
             COUNT_OF(dtypes))
{
    static const struct td_shape shapes[] = { { .rank = 3, .dim = { 3, 40, 5 } },
                                              { .rank = 3, .dim = { 2, 700, 33 } },
                                              { .rank = 3, .dim = { 1, 300000, 2 } } };
    for (int s = 0; s < COUNT_OF(shapes); s++) {
        struct op_call strided, contiguous;
        struct thread_exec exec;
        td_arena_reset(&test_arena);
        random_seed((uint64_t)(10 * _i + s));
        const struct td_tensor x = random_tensor(dtypes[_i], &shapes[s]);
        thread_exec_init(&exec, 3, 0);
        call_op(&strided, OP, "k=37 axis=1", x, (struct td_tensor){ 0 }, &exec.exec);
        call_op(&contiguous, OP, "k=37", swapped(&x), (struct td_tensor){ 0 }, NULL);
        EXPECT(strided.status == TD_OK && contiguous.status == TD_OK, "%s", strided.err.message);
        for (int i = 0; i < 2; i++) {
            const struct td_tensor back = swapped(&contiguous.args.outputs[i]);
            expect_same_tensor(&strided.args.outputs[i], &back, td_dtype_info(dtypes[_i])->name);
        }
    }
}

TD_TEST_LOOP(a_deadline_ends_top_k, 0, 3)
{
    static const char *const rows[] = { "float32[4000,100]", "int64[1,300000]", "int8[3,300000]" };
    struct td_tensor like = tensor_without_data(rows[_i]);
    struct td_tensor x = random_tensor(like.dtype, &like.shape);
    struct op_call call;
    call_begin(&call, OP, "k=100", x, (struct td_tensor){ 0 });
    expect_deadlines(&call, OP, 3, rows[_i]);
}

/* ---- Cost and memory
 * ------------------------------------------------------------------------------ */

static const struct {
    const char *says;
    const char *x;
    int64_t k;
    uint64_t flops, workspace, workspace_per_thread;
} costs[] = {
    { "a few entries for each thread", "float32[2,8]", 2, 64, 0, 64 },
    { "all elements of a short row", "float32[100]", 50, 1400, 0, 1600 },
    { "two candidates for each k", "int64[100000]", 1000, 240000, 0, 80384 },
    { "entries of all runs of a long row", "int8[3,327680]", 10, 1966560, 1600, 192 },
    { "none for no elements", "int8[3,0]", 0, 0, 0, 0 },
    { "none for a k of 0", "float32[8]", 0, 16, 0, 0 },
};

TD_TEST_EACH(cost_follows_from_shapes, costs)
{
    struct op_call call;
    char attrs[32];
    struct td_tensor x = tensor_without_data(costs[_i].x);
    snprintf(attrs, sizeof(attrs), "k=%" PRId64, costs[_i].k);
    call_begin(&call, OP, attrs, x, (struct td_tensor){ 0 });
    call_infer(&call, OP);
    const struct td_cost cost = td_op_top_k.cost(&call.args);
    const uint64_t values = call.args.outputs[0].bytes, indices = call.args.outputs[1].bytes;
    ck_assert_uint_eq(cost.bytes_read, x.bytes + values);
    ck_assert_uint_eq(cost.bytes_written, values + indices);
    ck_assert_msg(cost.flops == costs[_i].flops &&
                      cost.workspace == (costs[_i].workspace + 63) / 64 * 64 &&
                      cost.workspace_per_thread == (costs[_i].workspace_per_thread + 63) / 64 * 64,
                  "%s: flops %" PRIu64 ", workspace %" PRIu64 ", for each thread %" PRIu64,
                  costs[_i].says, cost.flops, cost.workspace, cost.workspace_per_thread);
}

TD_TEST(without_memory_top_k_is_refused)
{
    expect_memory_needed(OP, "k=2", tensor("int32[3] 1 3 2"), (struct td_tensor){ 0 });
}
