#include "kernels/rows/order.h"

#include "kernels/integers.h"
#include "kernels/rows/bounds.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>

struct check {
    const struct td_rows_order *order;
    /* Number of bad ids, and the position of the first. The sum and the minimum do not depend on
     * the order of the ranges. Relaxed accesses are enough, because the end of td_exec_for
     * publishes the values. */
    atomic_int_fast64_t n_bad;
    atomic_int_fast64_t first_bad;
};

static bool is_bad(const struct td_rows_order *order, int64_t i)
{
    const int64_t id = td_tensor_index_at(order->ids, i);
    return id < 0 || id > (i > 0 ? order->most : order->first_most) ||
           (i > 0 && id < td_tensor_index_at(order->ids, i - 1));
}

/* True if the range has a bad id. The sign bit of `all` is set if an id, or the difference of two
 * neighbours, is negative. Differences are exact if no id is negative. The loop avoids comparisons
 * because SSE2 has none for int64, so the compiler could not vectorise it. */
#define ANY_BAD(type, name)                                                                        \
    static bool any_bad_##name(const struct td_rows_order *order, int64_t begin, int64_t end)      \
    {                                                                                              \
        const u##type *ids = order->ids->data;                                                     \
        u##type all = ids[begin];                                                                  \
        if (begin == 0 && is_bad(order, 0))                                                        \
            return true;                                                                           \
        for (int64_t i = td_larger(begin, 1); i < end; i++)                                        \
            all = (u##type)(all | ids[i] | (u##type)(ids[i] - ids[i - 1]));                        \
        return all >> (8 * sizeof(all) - 1) || (int64_t)ids[end - 1] > order->most;                \
    }
ANY_BAD(int16_t, int16)
ANY_BAD(int32_t, int32)
ANY_BAD(int64_t, int64)

static bool any_bad(const struct td_rows_order *order, int64_t begin, int64_t end)
{
    switch (order->ids->dtype) {
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
    struct check *check = context;
    if (!any_bad(check->order, begin, end))
        return;
    int64_t n_bad = 0, first = INT64_MAX;
    for (int64_t i = begin; i < end; i++)
        if (is_bad(check->order, i) && n_bad++ == 0)
            first = i;
    atomic_fetch_add_explicit(&check->n_bad, n_bad, memory_order_relaxed);
    int_fast64_t seen = atomic_load_explicit(&check->first_bad, memory_order_relaxed);
    while (first < seen &&
           !atomic_compare_exchange_weak_explicit(&check->first_bad, &seen, first,
                                                  memory_order_relaxed, memory_order_relaxed))
        ;
}

static td_status refuse(const struct td_rows_order *order, int64_t first, int64_t n_bad,
                        struct td_error *err)
{
    const struct td_tensor *ids = order->ids;
    const int64_t id = td_tensor_index_at(ids, first);
    const int64_t most = first == 0 ? order->first_most : order->most;
    if (id < 0 && most == INT64_MAX)
        return td_rows_negative(err, order->name, ids, first, n_bad);
    if (id >= 0 && id <= most) {
        td_rows_out_of_bounds(err, order->name, ids, first, n_bad, 0, 0, "");
        snprintf(err->message, sizeof(err->message),
                 "%s[%" PRId64 "] = %" PRId64 " is below %s[%" PRId64 "] = %" PRId64
                 "; each element must be at least the element before it",
                 order->name, first, id, order->name, first - 1,
                 td_tensor_index_at(ids, first - 1));
        err->has_bound = false;
        return TD_INDEX_OUT_OF_BOUNDS;
    }
    return td_rows_out_of_bounds(err, order->name, ids, first, n_bad, most + 1, 0,
                                 most < order->most ? order->first_hint : "");
}

/* Number of ids in a range that is checked. A range takes about 50 us. */
#define CHECK_GRAIN 65536

td_status td_rows_order_check(const struct td_rows_order *order, struct td_exec *exec,
                              struct td_error *err)
{
    struct check check = { .order = order, .n_bad = 0, .first_bad = INT64_MAX };
    td_status status = td_exec_for(exec, order->ids->numel, CHECK_GRAIN, check_range, &check, err);
    if (status == TD_OK && check.n_bad > 0)
        return refuse(order, check.first_bad, check.n_bad, err);
    return status;
}

bool td_rows_order_holds(const struct td_rows_order *order)
{
    return order->ids->numel == 0 || !any_bad(order, 0, order->ids->numel);
}

int64_t td_rows_order_find(const struct td_tensor *ids, int64_t low, int64_t id)
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

td_status td_rows_order_segments(const struct td_tensor *ids, int64_t *n, struct td_error *err)
{
    const int64_t last = ids->numel > 0 ? td_tensor_index_at(ids, ids->numel - 1) : -1;
    if (last == INT64_MAX)
        return td_error_resource(err, "elements", (uint64_t)last + 1, INT64_MAX, "the output");
    *n = td_larger(last, -1) + 1;
    return TD_OK;
}
