/* Tensors with a time to live. */
#include "kernels/exec.h"
#include "server/observe/clock.h"
#include "tests/server/one_store.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <string.h>

#define S INT64_C(1000000000)

static struct td_error err;
static int64_t start_ns;

static void begin(void)
{
    one_store_begin();
    restart();
    start_ns = td_now_ns();
}

static td_status put(const char *name, int64_t ttl_s)
{
    const struct td_tensor t = tensor("int32[2] 1 2");
    const struct td_store_write write = { .name = name, .is_result = true, .ttl_s = ttl_s };
    struct td_tensor_listing listing;
    bool created;
    return td_store_put(store, &write, &t, &test_arena, &listing, &created, &err);
}

static bool is_there(const char *name)
{
    struct td_tensor_listing listing;
    return td_store_get(store, name, strlen(name), &test_arena, &listing, &err) == TD_OK;
}

TD_TEST(each_tensor_expires_at_its_own_time)
{
    EXPECT_OK(put("a", 20), &err);
    EXPECT_OK(put("b", 10), &err);
    EXPECT_OK(put("c", 0), &err);
    td_store_expire(store, start_ns + 9 * S);
    ck_assert(is_there("a") && is_there("b") && is_there("c"));
    td_store_expire(store, start_ns + 15 * S);
    ck_assert(is_there("a") && !is_there("b") && is_there("c"));
    td_store_expire(store, start_ns + 25 * S);
    ck_assert(!is_there("a") && is_there("c"));
    td_store_expire(store, INT64_MAX - 1);
    ck_assert(is_there("c"));
    ck_assert_uint_eq(td_store_usage(store).held, 8);
}

TD_TEST(a_reader_keeps_what_has_expired)
{
    struct td_tensor_listing listing;
    EXPECT_OK(put("a", 10), &err);
    EXPECT_OK(td_store_get(store, "a", 1, &test_arena, &listing, &err), &err);
    td_store_expire(store, start_ns + 15 * S);
    ck_assert(!is_there("a"));
    ck_assert_int_eq(((const int32_t *)listing.tensor->data)[1], 2);
}

TD_TEST(one_that_is_being_written_expires_after_that)
{
    const struct td_store_write write = { .name = "a" };
    struct td_store_update *update;
    struct td_exec exec;
    td_exec_serial(&exec, &test_arena);
    EXPECT_OK(put("a", 10), &err);
    EXPECT_OK(td_store_update_begin(store, &write, &test_arena, &exec, &update, &err), &err);
    td_store_expire(store, start_ns + 15 * S);
    ck_assert(is_there("a"));
    td_store_update_abort(update);
    td_store_expire(store, start_ns + 15 * S);
    ck_assert(!is_there("a"));
}

TD_TEST(a_result_is_no_version_that_expires_and_replaces_no_file)
{
    put_npy("planets.npy", 1, 2);
    td_store_rescan(store);
    ck_assert_int_eq(put("w@1", 10), TD_INVALID_ARGUMENT);
    for (int64_t ttl_s = 0; ttl_s < 11; ttl_s += 10) {
        ck_assert_int_eq(put("planets", ttl_s), TD_CONFLICT);
        EXPECT_MESSAGE(&err, "data folder");
    }
    td_store_expire(store, INT64_MAX - 1);
    ck_assert(is_there("planets") && !is_there("w@1"));
}

TD_FIXTURE(begin, one_store_end);
