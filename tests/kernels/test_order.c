#include "kernels/rows/order.h"
#include "tests/support/random.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"
#include "tests/support/threads.h"

#include <inttypes.h>
#include <string.h>

static const td_dtype index_dtypes[] = { TD_DTYPE_INT16, TD_DTYPE_INT32, TD_DTYPE_INT64 };

static const struct {
    const char *says;
    const char *ids;
    int64_t most, first_most;
    int64_t first_bad, bad_count; /* first_bad is -1 if the ids are valid */
    const char *message;
} orders[] = {
    { "no ids", "int32[0]", -1, -1, -1, 0, "" },
    { "equal ids", "int16[3] 2 2 2", 2, 2, -1, 0, "" },
    { "increasing ids", "int64[3] 0 5 9223372036854775807", INT64_MAX, INT64_MAX, -1, 0, "" },
    { "a decrease", "int32[4] 0 2 1 0", INT64_MAX, INT64_MAX, 2, 2,
      "ids[2] = 1 is below ids[1] = 2; each element must be at least the element before it" },
    { "a negative id", "int32[2] -3 0", INT64_MAX, INT64_MAX, 0, 1,
      "ids[0] = -3 is negative; must be at least 0" },
    { "a negative id with a maximum", "int64[2] 0 -1", 4, 4, 1, 1, "ids[1] = -1 is not in [0, 5)" },
    { "ids above the maximum", "int16[4] 0 5 6 6", 5, 5, 2, 2, "ids[2] = 6 is not in [0, 6)" },
    { "a first id above its maximum", "int32[2] 1 3", 3, 0, 0, 1,
      "ids[0] = 1 is not in [0, 1), hint" },
    { "the greatest difference", "int64[2] 9223372036854775807 0", INT64_MAX, INT64_MAX, 1, 1,
      "ids[1] = 0 is below ids[0] = 9223372036854775807; each element must be at least the element "
      "before it" },
};

TD_TEST_EACH(the_first_id_that_breaks_the_order_is_reported, orders)
{
    struct td_exec exec;
    struct td_error err;
    const struct td_tensor ids = tensor(orders[_i].ids);
    const struct td_rows_order order = { .name = "ids",
                                         .ids = &ids,
                                         .most = orders[_i].most,
                                         .first_most = orders[_i].first_most,
                                         .first_hint = ", hint" };
    td_exec_serial(&exec, &test_arena);
    const bool valid = orders[_i].first_bad < 0;
    const td_status status = td_rows_order_check(&order, &exec, &err);
    ck_assert_msg(status == (valid ? TD_OK : TD_INDEX_OUT_OF_BOUNDS), "%s", orders[_i].says);
    ck_assert_msg(td_rows_order_holds(&order) == valid, "%s", orders[_i].says);
    if (valid)
        return;
    ck_assert_str_eq(err.message, orders[_i].message);
    ck_assert_str_eq(err.input, "ids");
    ck_assert_int_eq(err.position[0], orders[_i].first_bad);
    ck_assert_int_eq(err.bad_count, orders[_i].bad_count);
}

/* At any position, in the head, body and tail of the vector loop, on several threads. */
TD_TEST_EACH(a_decrease_is_found_at_any_position, index_dtypes)
{
    enum { N = 300 };
    int64_t values[N];
    for (int bad = 1; bad < N; bad++) {
        struct thread_exec exec;
        struct td_error err;
        for (int i = 0; i < N; i++)
            values[i] = 2 * i + (i == bad - 1 ? 3 : 0);
        const struct td_tensor ids = index_vector(index_dtypes[_i], values, N);
        const struct td_rows_order order = {
            .name = "ids", .ids = &ids, .most = INT64_MAX, .first_most = INT64_MAX
        };
        thread_exec_init(&exec, 2, 7);
        ck_assert_int_eq(td_rows_order_check(&order, &exec.exec, &err), TD_INDEX_OUT_OF_BOUNDS);
        ck_assert_int_eq(err.position[0], bad);
        ck_assert(!td_rows_order_holds(&order));
        td_arena_reset(&test_arena);
    }
}

TD_TEST_EACH(an_id_is_found_from_any_start, index_dtypes)
{
    enum { N = 100 };
    int64_t values[N], id = 0;
    random_seed((uint64_t)_i);
    for (int i = 0; i < N; i++)
        values[i] = id += random_below(3);
    const struct td_tensor ids = index_vector(index_dtypes[_i], values, N);
    for (int64_t wanted = 0; wanted <= values[N - 1] + 1; wanted++) {
        int64_t position = 0;
        while (position < N && values[position] < wanted)
            position++;
        for (int64_t low = 0; low <= position; low++)
            EXPECT(td_rows_order_find(&ids, low, wanted) == position, "%" PRId64, wanted);
    }
}

TD_TEST(the_last_id_is_the_number_of_segments)
{
    struct td_error err;
    int64_t n;
    const struct td_tensor none = tensor("int32[0]"), negative = tensor("int16[2] 3 -5"),
                           some = tensor("int64[2] 9 7"),
                           most = tensor("int64[1] 9223372036854775807");
    ck_assert(td_rows_order_segments(&none, &n, &err) == TD_OK && n == 0);
    ck_assert(td_rows_order_segments(&negative, &n, &err) == TD_OK && n == 0);
    ck_assert(td_rows_order_segments(&some, &n, &err) == TD_OK && n == 8);
    ck_assert_int_eq(td_rows_order_segments(&most, &n, &err), TD_RESOURCE_LIMIT);
}
