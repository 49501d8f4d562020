#include "kernels/einsum/plan.h"
#include "kernels/tensor.h"
#include "tests/support/equations.h"
#include "tests/support/random.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MAX_SHAPES 20

static td_status make(const char *equation, td_dtype dtype, const char *shapes_text,
                      const struct td_einsum_plan **plan, struct td_error *err)
{
    static struct td_shape shapes[MAX_SHAPES];
    const struct td_shape *pointers[MAX_SHAPES];
    int n = 0;
    for (const char *at = shapes_text; *at; at = strchr(at, ']') + 1) {
        at += strspn(at, " ");
        EXPECT(n < MAX_SHAPES, "too many shapes");
        pointers[n] = &shapes[n];
        shapes[n++] = shape(at);
    }
    return td_einsum_plan_make(equation, pointers, n, dtype, &test_arena, plan, err);
}

static const struct td_einsum_plan *make_plan(const char *equation, td_dtype dtype,
                                              const char *shapes)
{
    const struct td_einsum_plan *plan;
    struct td_error err;
    td_status status = make(equation, dtype, shapes, &plan, &err);
    ck_assert_msg(status == TD_OK, "%s: %s", equation, err.message);
    return plan;
}

/* "0,1 ij,jk->ik 48; 2 ik->i 8": operands, equation and FLOPs of each step. */
static const char *steps_text(const struct td_einsum_plan *plan, char *text)
{
    char *at = text;
    *at = '\0';
    for (int i = 0; i < plan->n_steps; i++) {
        const struct td_einsum_step *step = &plan->steps[i];
        at += sprintf(at, "%s%d", i ? "; " : "", step->a);
        if (step->b >= 0)
            at += sprintf(at, ",%d", step->b);
        at += sprintf(at, " %s %" PRIu64, step->equation, step->flops);
    }
    return text;
}

static const struct {
    const char *case_name;
    const char *equation, *shapes;
    const char *steps;
} plans[] = {
    { "a matrix product is one step", "ij,jk->ik", "[2,3] [3,4]", "0,1 ij,jk->ik 48" },
    { "a transposition moves data", "ijk->kij", "[2,3,4]", "0 ijk->kij 0" },
    { "so does a diagonal", "iij->ji", "[3,3,2]", "0 iij->ji 0" },
    { "one operand is summed in one step", "ijik->k", "[2,3,2,4]", "0 ijik->k 24" },
    { "an outer product has no sum", "i,j->ij", "[3] [4]", "0,1 i,j->ij 12" },
    { "an elementwise product has no sum", "ij,ji->ij", "[2,3] [3,2]", "0,1 ij,ji->ij 6" },
    { "a label of one operand only is summed in it first", "ij,jk->j", "[2,3] [3,4]",
      "0 ij->j 6; 1 jk->j 12; 2,3 j,j->j 3" },
    { "its diagonal is taken in the same step", "iij,j->j", "[2,2,3] [3]",
      "0 iij->j 6; 2,1 j,j->j 3" },
    { "extents of 1 are left out", "ij,jk->ik", "[1,3] [3,1]", "0,1 j,j-> 6" },
    { "which may leave no dimension", "ij->ji", "[1,1]", "0 -> 0" },
    { "scalars", ",->", "[] []", "0,1 ,-> 1" },
    { "a scalar times a vector", ",i->i", "[] [3]", "0,1 ,i->i 3" },
    { "a repeated output label stays repeated", "i->ii", "[3]", "0 i->ii 0" },
    { "the product with the vector is first", "ij,jk,k->i", "[5,5] [5,5] [5]",
      "1,2 jk,k->j 50; 0,3 ij,j->i 50" },
    { "an intermediate result has batch, rows, columns", "aizj,jzk,kl->zial",
      "[2,2,2,9] [9,2,2] [2,2]", "0,1 aizj,jzk->zaik 288; 2,3 kl,zaik->zial 64" },
    { "a dimension of the ellipsis is named by a letter", "...ij,...jk->...ik", "[4,2,3] [4,3,5]",
      "0,1 Aij,Ajk->Aik 240" },
    { "a broadcast operand does not have its label", "...ij,...jk->...ik", "[4,1,2,3] [5,3,6]",
      "0,1 Aij,Bjk->ABik 1440" },
    { "labels keep their characters", "\xce\xb1\xe2\x88\x91->\xe2\x88\x91", "[2,3]",
      "0 \xce\xb1\xe2\x88\x91->\xe2\x88\x91 6" },
    { "an extent of 0 leaves no step", "ij,jk->ik", "[2,0] [0,3]", "" },
};

TD_TEST_EACH(an_equation_is_planned_as_these_steps, plans)
{
    char text[1024];
    const struct td_einsum_plan *plan =
        make_plan(plans[_i].equation, TD_DTYPE_FLOAT32, plans[_i].shapes);
    ck_assert_msg(strcmp(steps_text(plan, text), plans[_i].steps) == 0, "%s: %s",
                  plans[_i].case_name, text);
}

static const struct {
    const char *case_name;
    const char *equation, *shapes;
    const char *loops; /* of the last step: extent(stride of A,B,C) */
    td_contraction_kind kind;
} nests[] = {
    { "a matrix product", "ij,jk->ik", "[200,300] [300,400]",
      "200(300,0,400) 400(0,1,1) 300(1,400,0)", TD_CONTRACT_GEMM },
    { "a transposition", "ij->ji", "[2,3]", "3(1,0,2) 2(3,0,1)", TD_CONTRACT_PERMUTE },
    { "a copy is one loop", "ijk->ijk", "[2,3,4]", "24(1,0,1)", TD_CONTRACT_PERMUTE },
    { "a diagonal has the sum of the strides", "iji->ji", "[3,2,3]", "2(3,0,3) 3(7,0,1)",
      TD_CONTRACT_PERMUTE },
    { "so has a diagonal of the output", "i->iii", "[3]", "3(1,0,13)", TD_CONTRACT_PERMUTE },
    { "a trace", "ii->", "[3,3]", "3(4,0,0)", TD_CONTRACT_SUMPROD },
    { "a broadcast dimension has no stride", "...i,...i->...i", "[1,3] [2,3]", "2(0,3,3) 3(1,1,1)",
      TD_CONTRACT_SUMPROD },
    { "only extents of 1", "ij,jk->ik", "[1,1] [1,1]", "1(0,0,0)", TD_CONTRACT_SUMPROD },
    { "a scalar", "->", "[]", "1(0,0,0)", TD_CONTRACT_PERMUTE },
};

TD_TEST_EACH(the_last_step_has_this_loop_nest_and_kind, nests)
{
    char text[512], *at = text;
    const struct td_einsum_plan *plan =
        make_plan(nests[_i].equation, TD_DTYPE_FLOAT32, nests[_i].shapes);
    const struct td_contraction *last = &plan->steps[plan->n_steps - 1].contraction;
    for (int i = 0; i < last->rank; i++) {
        const struct td_loop *loop = &last->loops[i];
        at += sprintf(at, "%s%" PRId64 "(%" PRId64 ",%" PRId64 ",%" PRId64 ")", i ? " " : "",
                      loop->extent, loop->stride[TD_A], loop->stride[TD_B], loop->stride[TD_C]);
    }
    ck_assert_msg(strcmp(text, nests[_i].loops) == 0, "%s: %s", nests[_i].case_name, text);
    ck_assert_msg(last->kind == nests[_i].kind, "%s: kind %d", nests[_i].case_name, last->kind);
}

static const struct {
    const char *case_name;
    const char *equation, *shapes;
    uint64_t flops, naive_flops, largest;
    bool fill_zeros, nothing_to_do;
} totals[] = {
    { "numpy.einsum_path's example", "ea,fb,abcd,gc,hd->efgh",
      "[10,10] [10,10] [10,10,10,10] [10,10] [10,10]", 800000, 500000000, 10000, false, false },
    { "sums count as additions", "ij->i", "[3,4]", 12, 24, 3, false, false },
    { "data movement has no FLOPs", "ij->ji", "[3,4]", 0, 12, 12, false, false },
    { "an intermediate result may be the largest", "ab,bc,ca->", "[9,9] [9,9] [9,9]",
      2 * 729 + 2 * 81, 3 * 729, 81, false, false },
    { "a repeated output label does not write all elements", "i,i->ii", "[3] [3]", 3, 3, 9, true,
      false },
    { "except with extent 1", "i->ii", "[1]", 0, 1, 1, false, false },
    { "an empty output", "ij,jk->ik", "[0,3] [3,2]", 0, 0, 0, false, true },
    { "an empty sum", "ij,jk->ik", "[2,0] [0,3]", 0, 0, 6, true, true },
    { "FLOPs saturate", "i,j,k->",
      "[9223372036854775807] [9223372036854775807] [9223372036854775807]", UINT64_MAX, UINT64_MAX,
      1, false, false },
};

TD_TEST_EACH(a_plan_has_these_costs, totals)
{
    const struct td_einsum_plan *plan =
        make_plan(totals[_i].equation, TD_DTYPE_INT8, totals[_i].shapes);
    ck_assert_msg(plan->flops == totals[_i].flops, "%s: %" PRIu64 " FLOPs", totals[_i].case_name,
                  plan->flops);
    ck_assert_msg(plan->naive_flops == totals[_i].naive_flops, "%s: %" PRIu64 " naive FLOPs",
                  totals[_i].case_name, plan->naive_flops);
    ck_assert_msg(plan->largest_intermediate == totals[_i].largest, "%s: %" PRIu64 " elements",
                  totals[_i].case_name, plan->largest_intermediate);
    ck_assert_msg(plan->fill_zeros == totals[_i].fill_zeros, "%s: zeros", totals[_i].case_name);
    ck_assert_msg(plan->nothing_to_do == totals[_i].nothing_to_do, "%s: nothing to do",
                  totals[_i].case_name);
    ck_assert_int_eq(plan->n_steps == 0, plan->nothing_to_do);
}

TD_TEST(the_contraction_order_is_reported_as_pairs)
{
    const struct td_einsum_plan *plan =
        make_plan("ab,bc,cd->ad", TD_DTYPE_FLOAT32, "[2,90] [90,3] [3,90]");
    ck_assert_int_eq(plan->n_pairs, 2);
    ck_assert_int_eq(plan->pairs[0].a, 0);
    ck_assert_int_eq(plan->pairs[0].b, 1);
    ck_assert_int_eq(plan->pairs[1].a, 2);
    ck_assert_int_eq(plan->pairs[1].b, 3);
}

TD_TEST(float16_and_bfloat16_intermediate_results_are_float32)
{
    const td_dtype narrow[] = { TD_DTYPE_FLOAT16, TD_DTYPE_BFLOAT16 };
    for (int i = 0; i < COUNT_OF(narrow); i++) {
        const struct td_einsum_plan *plan = make_plan("ij,jk,k->i", narrow[i], "[5,5] [5,5] [5]");
        ck_assert_int_eq(plan->n_steps, 2);
        const struct td_contraction *first = &plan->steps[0].contraction,
                                    *last = &plan->steps[1].contraction;
        ck_assert_int_eq(first->dtype[TD_A], narrow[i]);
        ck_assert_int_eq(first->dtype[TD_C], TD_DTYPE_FLOAT32);
        ck_assert_int_eq(last->dtype[TD_A], narrow[i]);
        ck_assert_int_eq(last->dtype[TD_B], TD_DTYPE_FLOAT32);
        ck_assert_int_eq(last->dtype[TD_C], narrow[i]);
        ck_assert_int_eq(plan->steps[1].dtype, narrow[i]);
        ck_assert_uint_eq(plan->intermediate_bytes, 64); /* 5 float32 */
    }
    ck_assert_int_eq(make_plan("ij,jk,k->i", TD_DTYPE_INT8, "[5,5] [5,5] [5]")->steps[0].dtype,
                     TD_DTYPE_INT8);
}

TD_TEST(intermediate_results_never_alive_together_share_memory)
{
    /* Contracted from the right: vectors of 100, each read by the next step, so that two areas of
     * 448 bytes suffice. */
    const struct td_einsum_plan *plan =
        make_plan("ab,bc,cd,de,ef,f->a", TD_DTYPE_FLOAT32,
                  "[100,100] [100,100] [100,100] [100,100] [100,100] [100]");
    ck_assert_int_eq(plan->n_steps, 5);
    for (int i = 0; i < 4; i++)
        ck_assert_uint_eq(plan->steps[i].offset, i % 2 == 0 ? 0 : 448);
    ck_assert_uint_eq(plan->intermediate_bytes, 2 * 448);
}

TD_TEST(the_workspace_has_scratch_for_each_thread)
{
    struct td_einsum_plan plan = { .intermediate_bytes = 128,
                                   .workspace = { .shared = 65, .per_thread = 1 } };
    ck_assert_uint_eq(td_einsum_plan_workspace(&plan, 0), 128 + 128);
    ck_assert_uint_eq(td_einsum_plan_workspace(&plan, 3), 128 + 128 + 3 * 64);
    plan.workspace.single_threaded = true; /* then the scratch of one thread */
    ck_assert_uint_eq(td_einsum_plan_workspace(&plan, 3), 128 + 128 + 64);
    ck_assert_uint_eq(td_einsum_plan_workspace(&plan, 0), 128 + 128);
    plan.workspace.single_threaded = false;
    plan.workspace.per_thread = UINT64_MAX / 2;
    ck_assert_uint_eq(td_einsum_plan_workspace(&plan, 3), UINT64_MAX);
    plan.workspace.per_thread = UINT64_MAX;
    ck_assert_uint_eq(td_einsum_plan_workspace(&plan, 1), UINT64_MAX);
}

static const struct {
    const char *case_name;
    const char *equation, *shapes;
    td_dtype dtype;
    td_status status;
    const char *message;
    const char *resource;
} rejected[] = {
    { "too few inputs", "ij,", "[2,3]", TD_DTYPE_INT8, TD_INVALID_ARGUMENT,
      "inputs has 1 tensor; the equation expects 2", "" },
    { "an output of 2^80 elements", "i,j->ij", "[1099511627776] [1099511627776]", TD_DTYPE_INT8,
      TD_RESOURCE_LIMIT,
      "output of shape [1099511627776,1099511627776] and dtype int8 needs more than "
      "9223372036854775807 bytes",
      "tensor_bytes" },
    { "an intermediate result of 2^61 float32, although its bfloat16 would fit", "a,b,ab->ab",
      "[2147483648] [1073741824] [2147483648,1073741824]", TD_DTYPE_BFLOAT16, TD_RESOURCE_LIMIT,
      "an intermediate result needs 18446744073709551615 bytes; the limit is 9223372036854775807",
      "workspace_bytes" },
    { "2^61 products are below the limit of a plan", "ij,jk,kl->il",
      "[1048576,1048576] [1048576,1048576] [1048576,1048576]", TD_DTYPE_INT8, TD_OK, NULL, NULL },
    { "2^66 products for 2^44 elements", "ij,jk->ik", "[4194304,4194304] [4194304,4194304]",
      TD_DTYPE_INT8, TD_RESOURCE_LIMIT,
      "a contraction needs 18446744073709551615 operations; the limit is 9223372036854775807",
      "flops" },
};

TD_TEST_EACH(sizes_beyond_63_bits_are_rejected, rejected)
{
    const struct td_einsum_plan *plan;
    struct td_error err;
    td_status status =
        make(rejected[_i].equation, rejected[_i].dtype, rejected[_i].shapes, &plan, &err);
    ck_assert_msg(status == rejected[_i].status, "%s: %s", rejected[_i].case_name,
                  td_status_name(status));
    if (rejected[_i].message)
        ck_assert_str_eq(err.message, rejected[_i].message);
    if (rejected[_i].resource)
        ck_assert_str_eq(err.resource, rejected[_i].resource);
}

/* ---- Plans of random equations, run by a reference ---------------------------------------- */

/* int64 wraps around, so every order of steps has the same result. */
struct nest {
    const struct td_contraction *contraction;
    const uint64_t *a, *b;
    uint64_t *c;
};

/* Runs the loops from `depth` on. */
static void run_loops(const struct nest *nest, int depth, int64_t a, int64_t b, int64_t c)
{
    if (depth == nest->contraction->rank) {
        nest->c[c] += nest->b ? nest->a[a] * nest->b[b] : nest->a[a];
        return;
    }
    const struct td_loop *loop = &nest->contraction->loops[depth];
    for (int64_t i = 0; i < loop->extent; i++)
        run_loops(nest, depth + 1, a + i * loop->stride[TD_A], b + i * loop->stride[TD_B],
                  c + i * loop->stride[TD_C]);
}

struct data {
    const uint64_t *input[MAX_EQUATION_INPUTS];
    uint64_t *output;
    int n_inputs;
};

static void add_product(void *context, const int64_t *input, int64_t output)
{
    struct data *data = context;
    uint64_t product = 1;
    for (int k = 0; k < data->n_inputs; k++)
        product *= data->input[k][input[k]];
    data->output[output] += product;
}

static uint64_t *zeros(int64_t n)
{
    uint64_t *data = td_arena_alloc(&test_arena, (size_t)n, sizeof(*data), TD_IGNORED);
    for (int64_t i = 0; i < n; i++)
        data[i] = 0;
    return data;
}

/* Runs the steps, with results at their offsets in one block, so that an overlap changes the
 * output. */
static uint64_t *run_plan(const struct td_einsum_plan *plan, const struct data *data,
                          int64_t output_numel)
{
    int n = plan->equation->n_inputs;
    uint64_t *output = zeros(output_numel);
    uint64_t *block = zeros((int64_t)(plan->intermediate_bytes / sizeof(*block)));
    const uint64_t *operand[MAX_EQUATION_INPUTS * 3];
    memcpy(operand, data->input, (size_t)n * sizeof(operand[0]));
    for (int i = 0; i < plan->n_steps; i++) {
        const struct td_einsum_step *step = &plan->steps[i];
        bool last = i == plan->n_steps - 1;
        uint64_t *to = last ? output : block + step->offset / sizeof(*block);
        EXPECT(last ||
                   (step->offset % 64 == 0 &&
                    step->offset + (uint64_t)step->numel * sizeof(*to) <= plan->intermediate_bytes),
               "step %d: offset", i);
        for (int64_t k = 0; !last && k < step->numel; k++)
            to[k] = 0;
        operand[n + i] = to;
        run_loops(&(struct nest){ &step->contraction, operand[step->a],
                                  step->b < 0 ? NULL : operand[step->b], to },
                  0, 0, 0, 0);
    }
    return output;
}

TD_TEST(a_plan_computes_its_equation)
{
    int n_multi_step = 0;
    for (uint64_t seed = 0; seed < 3000; seed++) {
        struct random_equation e;
        random_equation(seed * 1000003, 20000, &e);
        const struct td_shape *shapes[MAX_EQUATION_INPUTS];
        struct data data = { .n_inputs = e.n_inputs };
        for (int k = 0; k < e.n_inputs; k++) {
            int64_t numel;
            ck_assert(td_shape_numel(&e.shapes[k], &numel));
            uint64_t *input = zeros(numel);
            for (int64_t i = 0; i < numel; i++)
                input[i] = (seed + (uint64_t)k * 77 + (uint64_t)i + 1) * 0x9e3779b97f4a7c15u;
            shapes[k] = &e.shapes[k];
            data.input[k] = input;
        }
        const struct td_einsum_plan *plan;
        struct td_error err;
        td_status status = td_einsum_plan_make(e.text, shapes, e.n_inputs, TD_DTYPE_INT64,
                                               &test_arena, &plan, &err);
        EXPECT(status == TD_OK, "%s: %s", e.text, err.message);
        EXPECT(td_shape_equal(&plan->equation->output_shape, &e.output), "%s: shape", e.text);
        int64_t numel;
        ck_assert(td_shape_numel(&e.output, &numel));
        data.output = zeros(numel);
        each_product(&e, add_product, &data);
        const uint64_t *got = run_plan(plan, &data, numel);
        bool all_written = true; /* a sum of random products is 0 only if nothing was added */
        for (int64_t i = 0; i < numel; i++) {
            EXPECT(got[i] == data.output[i], "seed %" PRIu64 ", %s: element %" PRId64, seed, e.text,
                   i);
            all_written &= data.output[i] != 0;
        }
        EXPECT(all_written || plan->fill_zeros, "seed %" PRIu64 ", %s: zeros are missing", seed,
               e.text);
        n_multi_step += plan->n_steps > 2;
        td_arena_reset(&test_arena);
    }
    ck_assert_int_gt(n_multi_step, 500);
}

/* ---- Random sizes ------------------------------------------------------------------------ */

/* Operands without data, of up to 2^62 one-byte elements. */
static int huge_equation(char *text, struct td_shape *shapes)
{
    static const int exponents[] = { 0, 1, 3, 10, 15, 20, 31, 40 }; /* of the labels a to h */
    int n = 1 + random_below(random_below(4) ? 5 : TD_EINSUM_MAX_INPUTS);
    bool has[COUNT_OF(exponents)] = { false };
    for (int k = 0; k < n; k++) {
        shapes[k].rank = 0;
        if (k > 0)
            *text++ = ',';
        int left = 62;
        for (int i = random_below(6); i > 0; i--) {
            int label = random_below(COUNT_OF(exponents));
            if (exponents[label] > left)
                continue;
            left -= exponents[label];
            shapes[k].dim[shapes[k].rank++] = (int64_t)1 << exponents[label];
            *text++ = (char)('a' + label);
            has[label] = true;
        }
    }
    *text++ = '-';
    *text++ = '>';
    for (int i = random_below(4); i > 0; i--) {
        int label = random_below(COUNT_OF(exponents));
        if (has[label])
            *text++ = (char)('a' + label);
    }
    *text = '\0';
    return n;
}

TD_TEST(random_sizes_are_planned_or_rejected)
{
    int n_planned = 0, n_rejected = 0;
    for (int round = 0; round < 5000; round++) {
        random_seed((uint64_t)round);
        char text[256];
        struct td_shape shapes[TD_EINSUM_MAX_INPUTS];
        const struct td_shape *pointers[TD_EINSUM_MAX_INPUTS];
        int n = huge_equation(text, shapes);
        for (int k = 0; k < n; k++)
            pointers[k] = &shapes[k];
        const struct td_einsum_plan *plan;
        struct td_error err;
        td_status status =
            td_einsum_plan_make(text, pointers, n, TD_DTYPE_INT8, &test_arena, &plan, &err);
        if (status == TD_OK) {
            n_planned++;
            EXPECT(plan->intermediate_bytes <= INT64_MAX, "%s: workspace", text);
            for (int i = 0; i < plan->n_steps; i++)
                EXPECT(plan->steps[i].numel >= 1 && plan->steps[i].contraction.rank <= TD_MAX_LOOPS,
                       "%s: step %d", text, i);
        } else {
            n_rejected++;
            EXPECT(status == TD_RESOURCE_LIMIT && err.resource[0], "%s: %s", text, err.message);
        }
        td_arena_reset(&test_arena);
    }
    ck_assert_int_gt(n_planned, 500);
    ck_assert_int_gt(n_rejected, 300);
}
