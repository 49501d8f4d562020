/* Memory beside the budget: when it is used, how much there is, and that it comes back. */
#include "kernels/status.h"
#include "server/memory/reserve.h"
#include "tests/support/suite.h"

#include <string.h>

enum { BUFFERS = 2 };

static struct td_error err;
static bool exhausted;

static struct td_buffer *take_if_any(struct td_memory *self, size_t bytes, struct td_error *error)
{
    (void)self;
    if (!exhausted)
        return td_memory_heap()->take(td_memory_heap(), bytes, error);
    td_error_set(error, TD_MEMORY_EXHAUSTED, "no memory");
    return NULL;
}

static struct td_memory budget = { .take = take_if_any };

static struct td_reserve reserve(bool is_exhausted)
{
    struct td_reserve out;
    exhausted = is_exhausted;
    memset(&err, 0, sizeof err);
    td_reserve_init(&out, &budget, BUFFERS);
    return out;
}

TD_TEST(the_budget_is_used_first)
{
    struct td_reserve of = reserve(false);
    struct td_buffer *buffers[BUFFERS + 1];
    for (int i = 0; i <= BUFFERS; i++)
        ck_assert_ptr_nonnull(buffers[i] = of.base.take(&of.base, 100, &err));
    for (int i = 0; i <= BUFFERS; i++)
        td_buffer_unref(buffers[i]);
    ck_assert_int_eq(atomic_load(&of.left), BUFFERS);
}

TD_TEST(what_the_budget_refuses_comes_from_the_reserve_until_that_is_used_up)
{
    struct td_reserve of = reserve(true);
    struct td_buffer *buffers[BUFFERS];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < BUFFERS; i++) {
            ck_assert_ptr_nonnull(buffers[i] = of.base.take(&of.base, TD_RESERVE_BYTES, &err));
            ck_assert_uint_ge(buffers[i]->size, TD_RESERVE_BYTES);
            memset(buffers[i]->data, 1, TD_RESERVE_BYTES);
            ck_assert_int_eq(err.status, TD_OK);
        }
        ck_assert_ptr_null(of.base.take(&of.base, 1, &err));
        ck_assert_int_eq(err.status, TD_MEMORY_EXHAUSTED);
        ck_assert_str_eq(err.message, "no memory");
        err.status = TD_OK;
        for (int i = 0; i < BUFFERS; i++)
            td_buffer_unref(buffers[i]);
    }
    ck_assert_int_eq(atomic_load(&of.left), BUFFERS);
}

TD_TEST(a_long_document_does_not_come_from_the_reserve)
{
    struct td_reserve of = reserve(true);
    ck_assert_ptr_null(of.base.take(&of.base, TD_RESERVE_BYTES + 1, &err));
    ck_assert_int_eq(err.status, TD_MEMORY_EXHAUSTED);
    ck_assert_int_eq(atomic_load(&of.left), BUFFERS);
}
