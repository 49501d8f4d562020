#include "kernels/embedding_bag/starts.h"

#include "kernels/embedding_bag/arguments.h"
#include "kernels/integers.h"
#include "kernels/rows/bounds.h"
#include "kernels/workspace.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>

/* The required order of offsets or segment_ids: no element is less than the previous element, and
 * all are in [0, most]. */
struct order {
    const struct td_tensor *tensor;
    int64_t first_most; /* maximum value of the first element */
    int64_t most;
    /* Number of bad elements, and the position of the first. The sum and the minimum do not depend
     * on the order of the ranges. Relaxed accesses are enough, because the end of td_exec_for
     * publishes the values. */
    atomic_int_fast64_t n_bad;
    atomic_int_fast64_t first_bad;
};

static bool is_bad(const struct order *order, int64_t i)
{
    const int64_t value = td_tensor_index_at(order->tensor, i);
    return value < 0 || value > (i > 0 ? order->most : order->first_most) ||
           (i > 0 && value < td_tensor_index_at(order->tensor, i - 1));
}

/* True if the range has a bad element. The sign bit of `all` is set if a value, or the difference
 * of two neighbours, is negative. Differences are exact if no value is negative. The loop avoids
 * comparisons because SSE2 has none for int64, so the compiler could not vectorise it. */
#define ANY_BAD(type, name)                                                                        \
    static bool any_bad_##name(const struct order *order, int64_t begin, int64_t end)              \
    {                                                                                              \
        const u##type *values = order->tensor->data;                                               \
        u##type all = values[begin];                                                               \
        if (begin == 0 && is_bad(order, 0))                                                        \
            return true;                                                                           \
        for (int64_t i = td_larger(begin, 1); i < end; i++)                                        \
            all = (u##type)(all | values[i] | (u##type)(values[i] - values[i - 1]));               \
        return all >> (8 * sizeof(all) - 1) || (int64_t)values[end - 1] > order->most;             \
    }
ANY_BAD(int16_t, int16)
ANY_BAD(int32_t, int32)
ANY_BAD(int64_t, int64)

static bool any_bad(const struct order *order, int64_t begin, int64_t end)
{
    switch (order->tensor->dtype) {
    case TD_DTYPE_INT16:
        return any_bad_int16(order, begin, end);
    case TD_DTYPE_INT32:
        return any_bad_int32(order, begin, end);
    default:
        return any_bad_int64(order, begin, end);
    }
}

static void check_range(void *context, int64_t begin, int64_t end)
{
    struct order *order = context;
    if (!any_bad(order, begin, end))
        return;
    int64_t n_bad = 0, first = INT64_MAX;
    for (int64_t i = begin; i < end; i++)
        if (is_bad(order, i) && n_bad++ == 0)
            first = i;
    atomic_fetch_add_explicit(&order->n_bad, n_bad, memory_order_relaxed);
    int_fast64_t seen = atomic_load_explicit(&order->first_bad, memory_order_relaxed);
    while (first < seen &&
           !atomic_compare_exchange_weak_explicit(&order->first_bad, &seen, first,
                                                  memory_order_relaxed, memory_order_relaxed))
        ;
}

/* Number of elements in a range that is checked or converted. A range takes about 50 us. */
#define ORDER_GRAIN 65536

static td_status refuse_order(const struct order *order, const char *name, struct td_error *err)
{
    const int64_t first = order->first_bad, n_bad = order->n_bad;
    const int64_t value = td_tensor_index_at(order->tensor, first);
    const int64_t most = first == 0 ? order->first_most : order->most;
    if (value < 0 && most == INT64_MAX)
        return td_rows_negative(err, name, order->tensor, first, n_bad);
    if (value >= 0 && value <= most) {
        td_rows_out_of_bounds(err, name, order->tensor, first, n_bad, 0, 0, "");
        snprintf(err->message, sizeof(err->message),
                 "%s[%" PRId64 "] = %" PRId64 " is below %s[%" PRId64 "] = %" PRId64
                 "; each element must be at least the element before it",
                 name, first, value, name, first - 1, td_tensor_index_at(order->tensor, first - 1));
        err->has_bound = false;
        return TD_INDEX_OUT_OF_BOUNDS;
    }
    return td_rows_out_of_bounds(err, name, order->tensor, first, n_bad, most + 1, 0,
                                 most < order->most ? ": the first bag must start at 0" : "");
}

static void init_order(struct order *order, const struct td_op_args *args)
{
    const struct td_tensor *offsets = td_embedding_bag_given(args, TD_BAG_OFFSETS);
    const int64_t n_indices = td_embedding_bag_given(args, TD_BAG_INDICES)->numel;
    const int64_t n_bags = args->outputs[0].shape.dim[0];
    const bool limited = td_embedding_bag_attrs(args).num_segments != TD_ATTR_UNSET;
    *order = (struct order){
        .tensor = offsets ? offsets : args->inputs[TD_BAG_SEGMENT_IDS].tensors,
        .first_most = offsets   ? 0
                      : limited ? n_bags - 1
                                : INT64_MAX,
        .most = offsets   ? n_indices
                : limited ? n_bags - 1
                          : INT64_MAX,
        .n_bad = 0,
        .first_bad = INT64_MAX,
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
    const char *name = td_embedding_bag_given(args, TD_BAG_OFFSETS) ? "offsets" : "segment_ids";
    struct order order;
    init_order(&order, args);
    td_status status =
        td_exec_for(exec, order.tensor->numel, ORDER_GRAIN, check_range, &order, err);
    if (status == TD_OK && order.n_bad > 0)
        return refuse_order(&order, name, err);
    return status == TD_OK && !has_right_end(args) ? refuse_end(args, err) : status;
}

bool td_bag_starts_valid(const struct td_op_args *args)
{
    struct order order;
    if (td_embedding_bag_by_rows(args))
        return true;
    init_order(&order, args);
    return order.tensor->numel == 0 ||
           (!any_bad(&order, 0, order.tensor->numel) && has_right_end(args));
}

struct starts {
    const struct td_tensor *from; /* offsets, segment_ids, or indices if each row is a bag */
    bool is_ids, is_matrix;
    int64_t *starts;
};

/* Returns the position of the first id that is at least `id`, starting at `low`. The ids are
 * sorted. Searches near `low` first. */
static int64_t find_id(const struct td_tensor *ids, int64_t low, int64_t id)
{
    int64_t high = low, step = 1;
    while (high < ids->numel && td_tensor_index_at(ids, high) < id) {
        low = high + 1;
        high += step;
        step *= 2;
    }
    high = td_smaller(high, ids->numel);
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (td_tensor_index_at(ids, middle) < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Returns the position at which `bag` starts. `low` is the start of the previous bag, or 0. */
static int64_t find_start(const struct starts *job, int64_t low, int64_t bag)
{
    if (job->is_matrix)
        return bag * job->from->shape.dim[1];
    return job->is_ids ? find_id(job->from, low, bag) : td_tensor_index_at(job->from, bag);
}

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
    return td_exec_for(exec, n_bags, ORDER_GRAIN, find_starts, &job, err);
}
