#include "kernels/rows/rows.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

int64_t td_row_settle_one(int64_t index, int64_t bound, td_bounds policy)
{
    if (index >= 0 && index < bound)
        return index;
    switch (policy) {
    case TD_BOUNDS_CLIP:
        return index < 0 ? 0 : bound - 1;
    case TD_BOUNDS_WRAP:
        return index % bound < 0 ? index % bound + bound : index % bound;
    default:
        return TD_ROW_ZERO;
    }
}

/* Components in the repeated pattern of bounds that a tuple check runs along: enough for a
 * vectorised inner loop. */
#define PATTERN 64

#define TD_INDEX     int16_t
#define TD_UINDEX    uint16_t
#define TD_INDEX_MAX INT16_MAX
#define TD_NAME(f)   f##_int16
#include "kernels/rows/rows.inc"

#define TD_INDEX     int32_t
#define TD_UINDEX    uint32_t
#define TD_INDEX_MAX INT32_MAX
#define TD_NAME(f)   f##_int32
#include "kernels/rows/rows.inc"

#define TD_INDEX     int64_t
#define TD_UINDEX    uint64_t
#define TD_INDEX_MAX INT64_MAX
#define TD_NAME(f)   f##_int64
#include "kernels/rows/rows.inc"

/* Calls f_int16, f_int32 or f_int64; td_op_check let no other dtype through. */
#define BY_INDEX_TYPE(dtype, f, ...)                                                               \
    ((dtype) == TD_DTYPE_INT16   ? f##_int16(__VA_ARGS__)                                          \
     : (dtype) == TD_DTYPE_INT32 ? f##_int32(__VA_ARGS__)                                          \
                                 : f##_int64(__VA_ARGS__))

/* ---- Checking ---------------------------------------------------------------------------- */

struct check {
    const struct td_tensor *indices;
    const struct td_tuple_space *space;
    /* Sum and minimum do not depend on the order of the ranges. Relaxed: the end of parallel_for
     * publishes them. */
    atomic_int_fast64_t n_bad;
    atomic_int_fast64_t first;
};

static void check_range(void *context, int64_t begin, int64_t end)
{
    struct check *check = context;
    const struct td_tuple_space *space = check->space;
    if (BY_INDEX_TYPE(check->indices->dtype, range_is_clean, check->indices, space, begin, end))
        return;
    int64_t n_bad = 0, first = INT64_MAX;
    for (int64_t t = begin; t < end; t++) {
        for (int c = 0; c < space->depth; c++) {
            int64_t place = t * space->depth + c;
            int64_t index = td_tensor_index_at(check->indices, place);
            if (index >= 0 && index < space->bound[c])
                continue;
            if (n_bad++ == 0)
                first = place;
        }
    }
    atomic_fetch_add_explicit(&check->n_bad, n_bad, memory_order_relaxed);
    int_fast64_t seen = atomic_load_explicit(&check->first, memory_order_relaxed);
    while (first < seen &&
           !atomic_compare_exchange_weak_explicit(&check->first, &seen, first, memory_order_relaxed,
                                                  memory_order_relaxed))
        ;
}

/* Indices in a range of a check: read at memory speed, this many int32 take 40 us and int64 80 us,
 * and waking a thread costs 30. */
#define CHECK_GRAIN 262144

td_status td_rows_check_tuples(const struct td_tensor *indices, const struct td_tuple_space *space,
                               struct td_exec *exec, int64_t *n_bad, int64_t *first,
                               struct td_error *err)
{
    *n_bad = 0;
    *first = -1;
    if (indices->numel == 0)
        return TD_OK; /* depth 0, or no tuple at all */
    struct check check = { .indices = indices, .space = space, .n_bad = 0, .first = INT64_MAX };
    int64_t n_tuples = indices->numel / space->depth;
    if (indices->numel <= CHECK_GRAIN) {
        check_range(&check, 0, n_tuples);
    } else {
        td_status status =
            td_exec_for(exec, n_tuples, CHECK_GRAIN / space->depth, check_range, &check, err);
        if (status != TD_OK)
            return status;
    }
    *n_bad = atomic_load_explicit(&check.n_bad, memory_order_relaxed);
    if (*n_bad > 0)
        *first = atomic_load_explicit(&check.first, memory_order_relaxed);
    return TD_OK;
}

td_status td_rows_check(const struct td_tensor *indices, int64_t bound, struct td_exec *exec,
                        int64_t *n_bad, int64_t *first, struct td_error *err)
{
    struct td_tuple_space space = { .depth = 1, .bound = { bound }, .stride = { 1 } };
    return td_rows_check_tuples(indices, &space, exec, n_bad, first, err);
}

td_status td_rows_out_of_bounds(struct td_error *err, const char *name,
                                const struct td_tensor *indices, int64_t first, int64_t n_bad,
                                int64_t bound, int axis, const char *more)
{
    struct td_shape position = { .rank = indices->shape.rank };
    td_shape_unravel(&indices->shape, first, position.dim);
    int64_t index = td_tensor_index_at(indices, first);
    char place[TD_SHAPE_TEXT] = ""; /* a scalar has no coordinates */
    if (position.rank > 0)
        td_shape_text(&position, place, sizeof(place));
    td_error_set(err, TD_INDEX_OUT_OF_BOUNDS, "%s%s = %" PRId64 " is not in [0, %" PRId64 ")%s",
                 name, place, index, bound, more);
    if (err) {
        err->has_index = true;
        err->has_bound = true;
        err->position_rank = position.rank;
        memcpy(err->position, position.dim, sizeof(err->position));
        err->index = index;
        err->bound = bound;
        err->axis = axis;
        err->bad_count = n_bad;
    }
    return td_error_at_input(err, TD_INDEX_OUT_OF_BOUNDS, "%s", name);
}

/* ---- Settling ---------------------------------------------------------------------------- */

void td_rows_settle(const struct td_tensor *indices, int64_t begin, int64_t n, int64_t bound,
                    td_bounds policy, int64_t *rows)
{
    const char *from =
        (const char *)indices->data + (size_t)begin * td_dtype_info(indices->dtype)->size;
    BY_INDEX_TYPE(indices->dtype, settle, (const void *)from, n, bound, policy, rows);
}

void td_rows_settle_tuples(const struct td_tensor *indices, int64_t begin, int64_t n,
                           const struct td_tuple_space *space, td_bounds policy, int64_t *rows)
{
    const char *from = (const char *)indices->data +
                       (size_t)(begin * space->depth) * td_dtype_info(indices->dtype)->size;
    BY_INDEX_TYPE(indices->dtype, settle_tuples, (const void *)from, n, space, policy, rows);
}

/* ---- Copying ----------------------------------------------------------------------------- */

/* A row is asked for this many rows before it is copied, and only its beginning is: the first line,
 * from MIDDLE_ROW to LARGE_ROW the first four; the processor fetches the rest by itself once the
 * copying has begun. Random rows of 1 GiB on Zen 4, one thread, GB/s by rows ahead (first line):
 *
 *     row      0     2     4     8    16    24    32    64    all lines, 16 ahead
 *     16 B  1.17  1.01  1.13  1.35  1.46  1.46  1.47  1.41
 *     64 B   4.2   3.9   4.5   5.3   5.8   5.8   5.8   5.4
 *    256 B   5.3   6.8   7.2   7.5   7.5   7.5   6.5   6.4   6.8
 *      1 K   5.3   5.9   6.0   5.9   5.8   5.9   5.9   6.0   5.6
 *      4 K   7.9  10.5  10.1  10.0  10.6  10.3  10.3  10.2   7.5 */
#define AHEAD 16

/* Rows from MIDDLE_ROW to LARGE_ROW come faster by the string instruction than by glibc's memcpy,
 * which uses it from about 4 KiB on (GB/s, 1 K, 2 K, 3 K, 4 K: 6.0, 5.1, 9.5, 11.5 by memcpy; 8.5,
 * 8.7, 9.4, 11.3 by the instruction). Below, and where everything is in the first cache, it is
 * slower. */
#define MIDDLE_ROW 1024
#define LARGE_ROW  4096

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED /* sanitizers do not see what assembly touches */
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED
#endif
#endif
#if defined(__x86_64__) && !defined(SANITIZED)
#define STRING_MOVES
#endif

static inline __attribute__((always_inline)) void
copy_row(char *restrict to, const char *restrict from, size_t row_bytes)
{
#ifdef STRING_MOVES
    if (row_bytes >= MIDDLE_ROW && row_bytes < LARGE_ROW && row_bytes % 8 == 0) {
        size_t words = row_bytes / 8;
        __asm__ volatile("rep movsq" : "+D"(to), "+S"(from), "+c"(words) : : "memory");
        return;
    }
#endif
    memcpy(to, from, row_bytes);
}

/* Asks for the first `reach` bytes of a row. The address is a number, since a row number may be
 * TD_ROW_ZERO; asking for a place that is not there does nothing. */
static inline __attribute__((always_inline)) void prefetch_row(const char *table, size_t row_bytes,
                                                               size_t reach, int64_t row)
{
    uintptr_t place = (uintptr_t)table + (size_t)row * row_bytes;
    for (size_t offset = 0; offset < reach; offset += 64)
        __builtin_prefetch((const void *)(place + offset));
}

/* The loop that all gathers end in. Built per width below: with a constant row_bytes the copy is a
 * move or two. */
static inline __attribute__((always_inline)) void copy_rows(char *restrict out,
                                                            const char *restrict table,
                                                            size_t row_bytes, const int64_t *rows,
                                                            int64_t n, bool may_be_zero)
{
    const size_t reach = row_bytes >= MIDDLE_ROW && row_bytes < LARGE_ROW ? 256 : 64;
    for (int64_t k = 0; k < n && k < AHEAD; k++)
        prefetch_row(table, row_bytes, reach, rows[k]);
    for (int64_t k = 0; k < n; k++, out += row_bytes) {
        if (k + AHEAD < n)
            prefetch_row(table, row_bytes, reach, rows[k + AHEAD]);
        if (may_be_zero && rows[k] == TD_ROW_ZERO)
            memset(out, 0, row_bytes);
        else
            copy_row(out, table + (size_t)rows[k] * row_bytes, row_bytes);
    }
}

void td_rows_copy(void *out, const void *table, size_t row_bytes, const int64_t *rows, int64_t n,
                  bool may_be_zero)
{
    if (may_be_zero) {
        copy_rows(out, table, row_bytes, rows, n, true);
        return;
    }
    switch (row_bytes) {
#define BUILD(width)                                                                               \
    case width:                                                                                    \
        copy_rows(out, table, width, rows, n, false);                                              \
        return;
        BUILD(1)
        BUILD(2)
        BUILD(4)
        BUILD(8)
        BUILD(16)
        BUILD(32)
        BUILD(64)
#undef BUILD
    default:
        copy_rows(out, table, row_bytes, rows, n, false);
        return;
    }
}
