#include "kernels/embedding_bag/starts.h"

#include "kernels/embedding_bag/arguments.h"
#include "kernels/rows/bounds.h"
#include "kernels/rows/order.h"
#include "kernels/workspace.h"

#include <inttypes.h>
#include <stdio.h>

static struct td_rows_order order_of(const struct td_op_args *args)
{
    const struct td_tensor *offsets = td_embedding_bag_given(args, TD_BAG_OFFSETS);
    const bool limited = td_embedding_bag_attrs(args).num_segments != TD_ATTR_UNSET;
    const int64_t last_bag = limited ? args->outputs[0].shape.dim[0] - 1 : INT64_MAX;
    if (offsets)
        return (struct td_rows_order){
            .name = "offsets",
            .ids = offsets,
            .most = td_embedding_bag_given(args, TD_BAG_INDICES)->numel,
            .first_most = 0,
            .first_hint = ": the first bag must start at 0",
        };
    return (struct td_rows_order){
        .name = "segment_ids",
        .ids = args->inputs[TD_BAG_SEGMENT_IDS].tensors,
        .most = last_bag,
        .first_most = last_bag,
    };
}

/* Returns false if include_last_offset is set and the last offset is not the number of indices,
 * otherwise true. The offsets must already be in order. */
static bool has_right_end(const struct td_op_args *args)
{
    const struct td_tensor *offsets = td_embedding_bag_given(args, TD_BAG_OFFSETS);
    return !td_embedding_bag_attrs(args).include_last_offset ||
           td_tensor_index_at(offsets, offsets->numel - 1) ==
               td_embedding_bag_given(args, TD_BAG_INDICES)->numel;
}

static td_status refuse_end(const struct td_op_args *args, struct td_error *err)
{
    const struct td_tensor *offsets = td_embedding_bag_given(args, TD_BAG_OFFSETS);
    const int64_t last = offsets->numel - 1;
    td_rows_out_of_bounds(err, "offsets", offsets, last, 1, 0, 0, "");
    snprintf(err->message, sizeof(err->message),
             "offsets[%" PRId64 "] = %" PRId64
             "; with include_last_offset the last offset must be %" PRId64
             ", the number of indices",
             last, td_tensor_index_at(offsets, last),
             td_embedding_bag_given(args, TD_BAG_INDICES)->numel);
    err->has_bound = false;
    return TD_INDEX_OUT_OF_BOUNDS;
}

td_status td_bag_starts_check(const struct td_op_args *args, struct td_exec *exec,
                              struct td_error *err)
{
    if (td_embedding_bag_by_rows(args))
        return TD_OK;
    const struct td_rows_order order = order_of(args);
    td_status status = td_rows_order_check(&order, exec, err);
    return status == TD_OK && !has_right_end(args) ? refuse_end(args, err) : status;
}

bool td_bag_starts_valid(const struct td_op_args *args)
{
    if (td_embedding_bag_by_rows(args))
        return true;
    const struct td_rows_order order = order_of(args);
    if (order.ids->numel > 0 && !order.ids->data)
        return false;
    return td_rows_order_holds(&order) && (order.ids->numel == 0 || has_right_end(args));
}

struct starts {
    const struct td_tensor *from; /* offsets, segment_ids, or indices if each row is a bag */
    bool is_ids, is_matrix;
    int64_t *starts;
};

/* Returns the position at which `bag` starts. `low` is the start of the previous bag, or 0. */
static int64_t find_start(const struct starts *job, int64_t low, int64_t bag)
{
    if (job->is_matrix)
        return bag * job->from->shape.dim[1];
    return job->is_ids ? td_rows_order_find(job->from, low, bag)
                       : td_tensor_index_at(job->from, bag);
}

/* Number of starts in a range that is converted. A range takes about 50 us. */
#define STARTS_GRAIN 65536

static void find_starts(void *context, int64_t begin, int64_t end)
{
    const struct starts *job = context;
    int64_t at = 0;
    for (int64_t bag = begin; bag < end; bag++) {
        at = find_start(job, at, bag);
        job->starts[bag] = at;
    }
}

/* True if the data of `offsets` can be used as starts without conversion. `offsets` is NULL if it
 * is not given. */
static bool are_starts(const struct td_tensor *offsets)
{
    return offsets && offsets->dtype == TD_DTYPE_INT64;
}

uint64_t td_bag_starts_workspace(const struct td_op_args *args)
{
    const uint64_t n_bags = (uint64_t)td_embedding_bag_geometry(args).n_bags;
    uint64_t bytes;
    if (are_starts(td_embedding_bag_given(args, TD_BAG_OFFSETS)))
        return 0;
    return __builtin_mul_overflow(n_bags, sizeof(int64_t), &bytes) ? UINT64_MAX / 8
                                                                   : td_workspace_align(bytes);
}

td_status td_bag_starts_make(const struct td_op_args *args, int64_t n_bags, struct td_exec *exec,
                             const int64_t **starts, struct td_error *err)
{
    const struct td_tensor *offsets = td_embedding_bag_given(args, TD_BAG_OFFSETS);
    struct starts job = { .from = offsets };
    if (td_embedding_bag_by_rows(args)) {
        job.from = td_embedding_bag_given(args, TD_BAG_INDICES);
        job.is_matrix = true;
    } else if (!offsets) {
        job.from = td_embedding_bag_given(args, TD_BAG_SEGMENT_IDS);
        job.is_ids = true;
    }
    if (are_starts(offsets)) {
        *starts = offsets->data;
        return TD_OK;
    }
    job.starts = td_arena_alloc(exec->arena, (size_t)n_bags, sizeof(job.starts[0]), err);
    if (!job.starts)
        return err->status;
    *starts = job.starts;
    return td_exec_for(exec, n_bags, STARTS_GRAIN, find_starts, &job, err);
}
