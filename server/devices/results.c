#include "server/devices/results.h"

#include <string.h>

/* Outputs of a merged call are copied out of staging memory if they have at most this size. Copying
 * them takes at most about 5 us. */
#define SMALL_PORTION ((size_t)64 << 10)

/* ---- reports --------------------------------------------------------------------------------- */

static bool has_empty_dimension(const struct td_op_args *args)
{
    for (int i = 0; i < args->op->n_inputs; i++)
        for (int k = 0; k < args->inputs[i].count; k++) {
            const struct td_shape *shape = &args->inputs[i].tensors[k].shape;
            for (int j = 0; j < shape->rank; j++)
                if (shape->dim[j] == 0)
                    return true;
        }
    return false;
}

/* True if the bounds policy of a call, or of a step of a program, has replaced bad indices. */
static bool is_replaced(const struct td_op_args *args)
{
    const td_bounds bounds = td_op_bounds(args->op, args);
    /* Clip and wrap cannot replace an index into an empty dimension. */
    return bounds == TD_BOUNDS_ZERO || (bounds != TD_BOUNDS_ERROR && !has_empty_dimension(args));
}

static td_status refuse_index(const struct td_op *op, const struct td_device_report *report,
                              struct td_error *err)
{
    return td_error_set(err, TD_INDEX_OUT_OF_BOUNDS,
                        "the device found %lld indices of %s out of range, the first at element "
                        "%lld",
                        (long long)report->n_bad, op->name, (long long)report->first_bad);
}

/* Checks the device's report for an item. Does not search for the bad index, because the search
 * runs the op on the host, which takes time proportional to the number of indices and would block
 * the batcher's thread. */
static td_status check_report(const struct td_results *results, int i, struct td_batch_item *item,
                              struct td_error *err)
{
    const struct td_launch *launch = results->launch;
    const bool own = launch->n_reports == launch->n_items;
    const struct td_device_report *report = &results->reports[own ? i : 0];
    const bool replaced = own && report->n_bad > 0 && is_replaced(item->args);
    item->args->replaced = replaced ? report->n_bad : 0;
    return report->n_bad == 0 || replaced ? TD_OK : refuse_index(item->op, report, err);
}

/* Checks the reports of the steps of a program, and records the indices that were replaced. */
static td_status check_steps(const struct td_results *results, int i, struct td_batch_item *item,
                             struct td_error *err)
{
    const struct td_launch *launch = results->launch;
    struct td_op_args *args = item->args;
    struct td_step_replaced *replaced =
        td_arena_alloc(item->arena, (size_t)launch->n_works, sizeof *replaced, err);
    if (!replaced)
        return err->status;
    args->replaced_in = replaced;
    args->n_replaced_in = 0;
    for (int w = 0; w < launch->n_works; w++) {
        const struct td_device_work *work = &launch->works[w];
        const struct td_device_report *report = td_launch_report(launch, w, i, results->reports);
        if (report->n_bad == 0)
            continue;
        if (!is_replaced(work->args))
            return refuse_index(work->op, report, err);
        replaced[args->n_replaced_in++] =
            (struct td_step_replaced){ .step = launch->steps[w],
                                       .policy = td_op_bounds(work->op, work->args),
                                       .replaced = report->n_bad };
    }
    return TD_OK;
}

/* ---- outputs --------------------------------------------------------------------------------- */

/* Returns the data of an output as written by the device. */
static void *output_of(const struct td_results *results, int i, int j)
{
    const struct td_launch *launch = results->launch;
    return (char *)results->out->data + launch->begins[i * launch->n_outputs + j];
}

/* True if the item's portion of a batch is small enough to copy. After the copy, a slow client does
 * not keep the whole batch's staging memory in use. */
static bool is_small_portion(const struct td_launch *launch, const struct td_op_args *args)
{
    size_t bytes = 0;
    for (int j = 0; j < launch->n_outputs && bytes <= SMALL_PORTION; j++)
        bytes += args->outputs[j].bytes;
    return launch->n_items > 1 && bytes <= SMALL_PORTION;
}

/* Sets an item's outputs either to its portion of the staging memory, which the item's arena then
 * references, or to a copy. */
static td_status set_outputs(const struct td_results *results, int i, struct td_batch_item *item,
                             struct td_error *err)
{
    const struct td_launch *launch = results->launch;
    const bool copied = is_small_portion(launch, item->args);
    td_status status = TD_OK;
    if (!copied && !td_arena_keep(item->arena, td_buffer_ref(results->out), err))
        return err->status;
    for (int j = 0; status == TD_OK && j < launch->n_outputs; j++) {
        struct td_tensor *output = &item->args->outputs[j];
        output->data = output_of(results, i, j);
        if (copied)
            status = td_tensor_copy(output, item->arena, err);
        else
            output->owner = results->out;
    }
    return status;
}

td_status td_results_take(const struct td_results *results, int i, struct td_batch_item *item,
                          struct td_error *err)
{
    const td_status status = results->launch->plan ? check_steps(results, i, item, err)
                                                   : check_report(results, i, item, err);
    return status == TD_OK ? set_outputs(results, i, item, err) : status;
}
