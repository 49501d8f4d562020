#include "kernels/shapes/layout.h"

#include "kernels/integers.h"
#include "kernels/permute/permute.h"
#include "kernels/rows/strings.h"

/* The loops over the output, outermost first, whose strides in C are those of a dense tensor. */
struct plan {
    int64_t first; /* element of x at the first position */
    int n_loops;
    struct td_permute_loop loops[TD_MAX_RANK];
};

const struct td_input_spec td_layout_inputs[1] = {
    {
        .name = "x",
        .summary = "The tensor, of any shape.",
        .dtypes = TD_DTYPES_ALL,
    },
};

const td_status td_layout_errors[] = {
    TD_INVALID_AXIS,
    TD_INVALID_ARGUMENT,
    TD_RESOURCE_LIMIT,
    TD_OK,
};

/* ---- Shapes ------------------------------------------------------------------------------ */

void td_layout_strides(const struct td_tensor *x, int64_t *strides)
{
    int64_t step = x->numel > 0;
    for (int d = x->shape.rank - 1; d >= 0; d--) {
        strides[d] = step;
        step *= x->shape.dim[d];
    }
}

td_status td_layout_output(struct td_op_args *args, const struct td_shape *shape, int64_t first,
                           const int64_t *strides, struct td_arena *arena, struct td_error *err)
{
    struct plan *plan = td_arena_alloc(arena, 1, sizeof(*plan), err);
    if (!plan)
        return err->status;
    *plan = (struct plan){ .first = first };
    args->plan = plan;
    const td_status status =
        td_op_output(args, args->inputs[0].tensors[0].dtype, shape, arena, err);
    if (status != TD_OK)
        return status;
    int64_t left = args->outputs[0].numel;
    for (int d = 0; d < shape->rank && left > 0; d++) {
        left /= shape->dim[d];
        plan->n_loops = td_permute_add_loop(
            plan->loops, plan->n_loops,
            (struct td_permute_loop){
                .extent = shape->dim[d], .a = strides ? strides[d] : left, .c = left });
    }
    return TD_OK;
}

const struct td_permute_loop *td_layout_loops(const struct td_op_args *args, int *n_loops,
                                              int64_t *first)
{
    const struct plan *plan = args->plan;
    *n_loops = plan->n_loops;
    *first = plan->first;
    return plan->loops;
}

struct td_cost td_layout_cost(const struct td_op_args *args)
{
    const struct td_tensor *x = &args->inputs[0].tensors[0], *out = &args->outputs[0];
    struct td_cost cost = { .bytes_written = td_tensor_footprint(out) };
    if (out->dtype == TD_DTYPE_STRING && x->numel > 0)
        /* Assumes strings of average size. */
        cost.bytes_written += (uint64_t)((double)x->bytes * (double)out->numel / (double)x->numel);
    cost.bytes_read = cost.bytes_written;
    return cost;
}

/* ---- Strings ----------------------------------------------------------------------------- */

/* Maximum number of strings in a row. Longer runs are divided, so that a range of td_strings_run
 * stays short. */
#define ROW_STRINGS 2048

/* Runs of strings, which are contiguous in x and in the output. */
struct runs {
    const struct td_tensor *x;
    struct plan plan;  /* loops over the runs */
    int64_t row_numel; /* number of strings in a run */
};

static struct runs find_runs(const struct td_tensor *x, const struct plan *plan)
{
    struct runs runs = { .x = x, .plan = *plan, .row_numel = 1 };
    struct td_permute_loop *last = plan->n_loops > 0 ? &runs.plan.loops[plan->n_loops - 1] : NULL;
    if (!last || last->a != 1)
        return runs;
    runs.row_numel = td_smaller(last->extent, ROW_STRINGS);
    while (last->extent % runs.row_numel != 0)
        runs.row_numel--;
    last->extent /= runs.row_numel;
    last->a = runs.row_numel;
    return runs;
}

/* Implements td_string_rows_fn. */
static const struct td_string_row *string_rows(const void *context, int64_t begin, int64_t n,
                                               struct td_string_row *rows)
{
    const struct runs *runs = context;
    const struct td_permute_loop *loops = runs->plan.loops;
    int64_t position[TD_MAX_RANK], at = runs->plan.first;
    for (int i = runs->plan.n_loops - 1; i >= 0; i--) {
        position[i] = begin % loops[i].extent;
        begin /= loops[i].extent;
        at += position[i] * loops[i].a;
    }
    for (int64_t k = 0; k < n; k++) {
        rows[k] = (struct td_string_row){ runs->x->offsets + at, runs->x->data };
        for (int i = runs->plan.n_loops - 1; i >= 0; i--) {
            at += loops[i].a;
            if (++position[i] < loops[i].extent)
                break;
            position[i] = 0;
            at -= loops[i].a * loops[i].extent;
        }
    }
    return rows;
}

/* ---- All elements ------------------------------------------------------------------------ */

td_status td_layout_run(struct td_op_args *args, struct td_exec *exec, struct td_error *err)
{
    const struct plan *plan = args->plan;
    const struct td_tensor *x = &args->inputs[0].tensors[0];
    struct td_tensor *out = &args->outputs[0];
    if (out->numel == 0)
        return TD_OK;
    if (out->dtype == TD_DTYPE_STRING) {
        const struct runs runs = find_runs(x, plan);
        const struct td_strings strings = {
            .out = out,
            .n_rows = out->numel / runs.row_numel,
            .row_numel = runs.row_numel,
            .rows = string_rows,
            .context = &runs,
        };
        return td_strings_run(&strings, exec, err);
    }
    const size_t width = td_dtype_info(out->dtype)->size;
    return td_permute_run(plan->loops, plan->n_loops, width,
                          (const char *)x->data + (size_t)plan->first * width, out->data, exec,
                          err);
}
