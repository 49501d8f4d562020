#include "kernels/elementwise/string_elements.h"

#include "kernels/broadcast.h"
#include "kernels/rows/strings.h"

#include <string.h>

#define OPERANDS    3
#define RANGE_ITEMS 4096

struct job {
    const struct td_tensor *operands[OPERANDS];
    struct td_repeat repeats[OPERANDS];
    struct td_shape shape;
    bool equal;
    uint8_t *out;
};

static void prepare(struct job *job, int n, const struct td_tensor *out)
{
    const struct td_shape *shapes[OPERANDS] = { NULL };
    uint32_t full[OPERANDS];
    for (int i = 0; i < n; i++)
        shapes[i] = &job->operands[i]->shape;
    job->shape = out->shape;
    td_broadcast_merge(&job->shape, shapes, n, full);
    for (int i = 0; i < n; i++)
        td_repeat_init(&job->repeats[i], &job->shape, full[i]);
}

/* ---- Comparing --------------------------------------------------------------------------- */

static bool is_equal(const struct td_tensor *x, int64_t i, const struct td_tensor *y, int64_t k)
{
    const uint64_t length = x->offsets[i + 1] - x->offsets[i];
    return length == y->offsets[k + 1] - y->offsets[k] &&
           memcmp((const char *)x->data + x->offsets[i], (const char *)y->data + y->offsets[k],
                  length) == 0;
}

static void compare_range(void *context, int64_t begin, int64_t end)
{
    const struct job *job = context;
    for (int64_t i = begin; i < end; i++)
        job->out[i] = is_equal(job->operands[0], td_repeat_at(&job->repeats[0], i),
                               job->operands[1], td_repeat_at(&job->repeats[1], i)) == job->equal;
}

td_status td_strings_compare(const struct td_tensor *x, const struct td_tensor *y, bool equal,
                             struct td_tensor *out, struct td_exec *exec, struct td_error *err)
{
    struct job job = { .operands = { x, y }, .equal = equal, .out = out->data };
    if (out->numel == 0)
        return TD_OK;
    prepare(&job, 2, out);
    return td_exec_for(exec, out->numel, RANGE_ITEMS, compare_range, &job, err);
}

/* ---- Selecting --------------------------------------------------------------------------- */

/* Implements td_string_rows_fn. A row is one element. */
static const struct td_string_row *select_rows(const void *context, int64_t begin, int64_t n,
                                               struct td_string_row *rows)
{
    const struct job *job = context;
    const uint8_t *condition = job->operands[0]->data;
    for (int64_t k = 0; k < n; k++) {
        const int from = condition[td_repeat_at(&job->repeats[0], begin + k)] ? 1 : 2;
        const struct td_tensor *strings = job->operands[from];
        rows[k] =
            (struct td_string_row){ strings->offsets + td_repeat_at(&job->repeats[from], begin + k),
                                    strings->data };
    }
    return rows;
}

td_status td_strings_where(const struct td_tensor *condition, const struct td_tensor *x,
                           const struct td_tensor *y, struct td_tensor *out, struct td_exec *exec,
                           struct td_error *err)
{
    /* The condition determines the sizes and is read twice. In shared memory, it could change in
     * between. */
    struct td_tensor copy = *condition;
    struct job job = { .operands = { &copy, x, y } };
    if (out->numel == 0)
        return TD_OK;
    const td_status status = td_tensor_copy(&copy, exec->arena, err);
    if (status != TD_OK)
        return status;
    prepare(&job, 3, out);
    return td_strings_run(&(struct td_strings){ .out = out,
                                                .n_rows = out->numel,
                                                .row_numel = 1,
                                                .rows = select_rows,
                                                .context = &job },
                          exec, err);
}
