#include "kernels/elementwise/divisors.h"

#include "kernels/rows/rows.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>

/* The bad elements of a range: how many, and the first. */
struct found {
    int64_t count, first;
};

typedef struct found find_fn(const void *values, int64_t begin, int64_t end);

struct job {
    find_fn *find;
    const void *values;
    _Atomic int64_t count, first;
};

/* Defines a function that finds the elements x for which the condition is true. Elements are first
 * counted, because the compiler vectorises that loop. */
#define FIND(name, dtype, type, condition)                                                         \
    static struct found name##_##dtype(const void *values, int64_t begin, int64_t end)             \
    {                                                                                              \
        const type *y = values;                                                                    \
        struct found found = { 0, INT64_MAX };                                                     \
        for (int64_t i = begin; i < end; i++) {                                                    \
            const type x = y[i];                                                                   \
            found.count += (condition);                                                            \
        }                                                                                          \
        for (int64_t i = begin; found.count > 0 && found.first == INT64_MAX && i < end; i++) {     \
            const type x = y[i];                                                                   \
            if (condition)                                                                         \
                found.first = i;                                                                   \
        }                                                                                          \
        return found;                                                                              \
    }
#define SIGNED(X)                                                                                  \
    X(INT8, int8_t)                                                                                \
    X(INT16, int16_t)                                                                              \
    X(INT32, int32_t)                                                                              \
    X(INT64, int64_t)
#define INTEGERS(X)                                                                                \
    SIGNED(X)                                                                                      \
    X(UINT8, uint8_t)                                                                              \
    X(UINT16, uint16_t)                                                                            \
    X(UINT32, uint32_t)                                                                            \
    X(UINT64, uint64_t)
#define FIND_ZERO(dtype, type)      FIND(zero, dtype, type, x == 0)
#define FIND_NEGATIVE(dtype, type)  FIND(negative, dtype, type, x < 0)
#define ZERO_ENTRY(dtype, type)     [TD_DTYPE_##dtype] = zero_##dtype,
#define NEGATIVE_ENTRY(dtype, type) [TD_DTYPE_##dtype] = negative_##dtype,
INTEGERS(FIND_ZERO)
SIGNED(FIND_NEGATIVE)
static find_fn *const zeros[TD_DTYPE_COUNT] = { INTEGERS(ZERO_ENTRY) };
static find_fn *const negatives[TD_DTYPE_COUNT] = { SIGNED(NEGATIVE_ENTRY) };

static void find_range(void *context, int64_t begin, int64_t end)
{
    struct job *job = context;
    const struct found found = job->find(job->values, begin, end);
    if (found.first == INT64_MAX)
        return;
    atomic_fetch_add_explicit(&job->count, found.count, memory_order_relaxed);
    int64_t first = atomic_load_explicit(&job->first, memory_order_relaxed);
    while (found.first < first &&
           !atomic_compare_exchange_weak_explicit(&job->first, &first, found.first,
                                                  memory_order_relaxed, memory_order_relaxed)) {
    }
}

/* Sets *found to the bad elements of y. */
static td_status find(find_fn *finder, const struct td_tensor *y, struct td_exec *exec,
                      struct found *found, struct td_error *err)
{
    struct job job = { .find = finder, .values = y->data, .first = INT64_MAX };
    *found = (struct found){ 0, INT64_MAX };
    if (!finder)
        return TD_OK;
    const int64_t grain = (int64_t)(TD_ROWS_RANGE_BYTES / td_dtype_info(y->dtype)->size);
    const td_status status = td_exec_for(exec, y->numel, grain, find_range, &job, err);
    *found = (struct found){ atomic_load(&job.count), atomic_load(&job.first) };
    return status;
}

/* Writes the place of an element, such as "y[1,0]", or "y" for a scalar. */
static const char *place_text(const struct td_tensor *y, const int64_t *position, char *text,
                              size_t size)
{
    struct td_shape place = { .rank = y->shape.rank };
    char coordinates[TD_SHAPE_TEXT];
    for (int d = 0; d < place.rank; d++)
        place.dim[d] = position[d];
    snprintf(text, size, "y%s",
             place.rank ? td_shape_text(&place, coordinates, sizeof(coordinates)) : "");
    return text;
}

static td_status refuse(const struct td_tensor *y, struct found found, td_status status,
                        const char *what, struct td_error *err)
{
    char place[TD_SHAPE_TEXT + 1];
    int64_t position[TD_MAX_RANK];
    td_shape_unravel(&y->shape, found.first, position);
    td_error_set(err, status, "%s %s", place_text(y, position, place, sizeof(place)), what);
    err->has_position = true;
    err->position_rank = y->shape.rank;
    for (int d = 0; d < y->shape.rank; d++)
        err->position[d] = position[d];
    err->bad_count = found.count;
    return td_error_at_input(err, status, "y");
}

td_status td_check_divisors(const struct td_tensor *y, const char *op, struct td_exec *exec,
                            struct td_error *err)
{
    struct found found;
    char what[128];
    const td_status status = find(zeros[y->dtype], y, exec, &found, err);
    if (status != TD_OK || found.first == INT64_MAX)
        return status;
    snprintf(what, sizeof(what), "is 0; %s cannot divide an integer by 0", op);
    td_status refused = refuse(y, found, TD_DIVISION_BY_ZERO, what, err);
    td_error_hint(err, "floats can be divided by 0");
    return refused;
}

td_status td_check_exponents(const struct td_tensor *y, const char *op, struct td_exec *exec,
                             struct td_error *err)
{
    struct found found;
    char what[128];
    const td_status status = find(negatives[y->dtype], y, exec, &found, err);
    if (status != TD_OK || found.first == INT64_MAX)
        return status;
    snprintf(what, sizeof(what), "is negative; %s needs exponents of 0 or more for integers", op);
    td_status refused = refuse(y, found, TD_INVALID_ARGUMENT, what, err);
    td_error_hint(err, "floats can have negative exponents");
    return refused;
}
