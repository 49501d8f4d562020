#include "kernels/einsum/explain.h"

#include "kernels/einsum/plan.h"
#include "kernels/utf8.h"

static const char *kind_name(td_contraction_kind kind)
{
    static const char *const names[] = { [TD_CONTRACT_PERMUTE] = "permute",
                                         [TD_CONTRACT_SUMPROD] = "sumprod",
                                         [TD_CONTRACT_GEMM] = "gemm" };
    return names[kind];
}

static char *write_subscript(const struct td_equation *equation,
                             const struct td_subscript *subscript, char *at)
{
    for (int d = 0; d < subscript->rank; d++)
        at = td_utf8_write(at, equation->character[subscript->label[d]]);
    return at;
}

/* Returns the equation with labels instead of ellipses, and with an explicit output. Returns NULL
 * if memory is exhausted. */
static const char *write_equation(const struct td_equation *equation, struct td_arena *arena,
                                  struct td_error *err)
{
    const size_t subscript_size = TD_UTF8_MAX * TD_MAX_RANK + 2; /* "->" or ',' */
    char *text = td_arena_alloc(arena, (size_t)equation->n_inputs + 1, subscript_size, err);
    if (!text)
        return NULL;
    char *at = text;
    for (int i = 0; i < equation->n_inputs; i++) {
        if (i > 0)
            *at++ = ',';
        at = write_subscript(equation, &equation->inputs[i], at);
    }
    *at++ = '-';
    *at++ = '>';
    *write_subscript(equation, &equation->output, at) = '\0';
    return text;
}

/* Describes one step. The described shape has only the dimensions of extent 2 or more. */
static struct td_plan_step explain_step(const struct td_einsum_plan *plan,
                                        const struct td_einsum_step *step, int64_t *dims)
{
    struct td_plan_step out = { .operands = { step->a, step->b },
                                .equation = step->equation,
                                .kind = kind_name(step->contraction.kind),
                                .is_product = step->contraction.kind == TD_CONTRACT_GEMM,
                                .flops = step->flops,
                                .dtype = step->dtype,
                                .rank = step->result.rank,
                                .dims = dims };
    if (out.is_product) {
        const struct td_gemm_sizes sizes = td_contraction_gemm_sizes(&step->contraction);
        out.batch = sizes.batch;
        out.m = sizes.m;
        out.n = sizes.n;
        out.k = sizes.k;
    }
    for (int i = 0; i < step->result.rank; i++)
        dims[i] = plan->equation->extent[step->result.label[i]];
    out.bytes = (uint64_t)step->numel * td_dtype_info(step->dtype)->size;
    return out;
}

/* Writes the contraction order in the format of numpy.einsum_path and returns its length. The path
 * of a single input is one step with one operand. */
static int write_path(const struct td_einsum_plan *plan, int (*path)[2])
{
    int list[TD_EINSUM_MAX_INPUTS], n = plan->equation->n_inputs;
    if (n == 1 && !plan->nothing_to_do) {
        path[0][0] = 0;
        path[0][1] = -1;
        return 1;
    }
    for (int i = 0; i < n; i++)
        list[i] = i;
    for (int i = 0; i < plan->n_pairs; i++) {
        int at[2] = { 0, 0 }, kept = 0;
        for (int j = 0; j < n; j++)
            if (list[j] == plan->pairs[i].a)
                at[0] = j;
            else if (list[j] == plan->pairs[i].b)
                at[1] = j;
            else
                list[kept++] = list[j];
        path[i][0] = at[0] < at[1] ? at[0] : at[1];
        path[i][1] = at[0] < at[1] ? at[1] : at[0];
        list[kept++] = plan->equation->n_inputs + i;
        n = kept;
    }
    return plan->n_pairs;
}

td_status td_einsum_explain(const struct td_op_args *args, int threads, struct td_arena *arena,
                            struct td_plan *out, struct td_error *err)
{
    const struct td_einsum_plan *plan = args->plan;
    const int n_steps = plan->nothing_to_do ? 0 : plan->n_steps;
    struct td_plan_step *steps = td_arena_alloc(arena, (size_t)n_steps, sizeof *steps, err);
    int(*path)[2] = td_arena_alloc(arena, TD_EINSUM_MAX_INPUTS, sizeof *path, err);
    const char *equation = write_equation(plan->equation, arena, err);
    if (!steps || !path || !equation)
        return err->status;
    *out = (struct td_plan){ .n_inputs = plan->equation->n_inputs,
                             .equation = equation,
                             .steps = steps,
                             .n_steps = n_steps,
                             .path = path,
                             .n_path = write_path(plan, path),
                             .flops = plan->flops,
                             .naive_flops = plan->naive_flops,
                             .largest_elements = plan->largest_intermediate,
                             .largest_bytes = args->outputs[0].bytes,
                             .workspace = td_einsum_plan_workspace(plan, threads) };
    /* The largest result in bytes is not always the largest in elements, because 16-bit operands
     * are 32 bits wide between steps. */
    for (int i = 0; i < n_steps; i++) {
        int64_t *dims =
            td_arena_alloc(arena, (size_t)plan->steps[i].result.rank, sizeof *dims, err);
        if (!dims)
            return err->status;
        steps[i] = explain_step(plan, &plan->steps[i], dims);
        if (steps[i].bytes > out->largest_bytes)
            out->largest_bytes = steps[i].bytes;
    }
    return TD_OK;
}
