/* Statistics that versions keep: each of the rows and of the keys its own, once, and given back. */
#include "tests/server/one_store.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <string.h>

static struct td_error err;
static struct td_exec serial;

enum { ROWS = 4000, SMALL = 100 }; /* as many as are kept, and as are not */

/* Rows `first`, first + 1, ... with the keys 1000 + these. */
static void put(int64_t first, int64_t n)
{
    static int64_t rows[ROWS], keys[ROWS];
    const struct td_store_write write = { .name = "t" };
    for (int64_t i = 0; i < n; i++) {
        rows[i] = first + i;
        keys[i] = 1000 + rows[i];
    }
    const struct td_tensor r = index_vector(TD_DTYPE_INT64, rows, n),
                           k = index_vector(TD_DTYPE_INT64, keys, n);
    struct td_tensor_listing listing;
    bool created;
    td_exec_serial(&serial, &test_arena);
    ck_assert_int_eq(
        td_store_put_table(store, &write, &r, &k, &serial, &test_arena, &listing, &created, &err),
        TD_OK);
}

/* Those of the tensor, in the arena. */
static struct td_statistics *statistics_of(const struct td_tensor *t)
{
    struct td_statistics *statistics = td_arena_alloc(&test_arena, td_statistics_bytes(t), 1, &err);
    td_exec_serial(&serial, &test_arena);
    ck_assert_ptr_nonnull(statistics);
    ck_assert_int_eq(td_statistics_run(t, &serial, statistics, &err), TD_OK);
    return statistics;
}

TD_TEST(rows_and_keys_keep_their_own)
{
    store = open_folder();
    put(0, ROWS);
    const struct td_tensor *rows = found(store, "t")->tensor, *keys = found(store, "t")->keys;
    ck_assert_ptr_null(td_store_statistics(rows));
    td_store_keep_statistics(store, rows, statistics_of(rows));
    ck_assert_ptr_null(td_store_statistics(keys));
    td_store_keep_statistics(store, keys, statistics_of(keys));
    ck_assert_double_eq(td_store_statistics(rows)->mean, 1999.5);
    ck_assert_double_eq(td_store_statistics(keys)->mean, 2999.5);
}

TD_TEST(those_that_are_kept_first_stay)
{
    store = open_folder();
    put(0, ROWS);
    const struct td_tensor *rows = found(store, "t")->tensor;
    td_store_keep_statistics(store, rows, statistics_of(rows));
    const struct td_statistics *kept = td_store_statistics(rows);
    td_store_keep_statistics(store, rows, statistics_of(rows));
    ck_assert_ptr_eq(td_store_statistics(rows), kept);
}

TD_TEST(a_new_version_has_none_and_readers_of_the_old_one_keep_theirs)
{
    store = open_folder();
    put(0, ROWS);
    const struct td_tensor *old = found(store, "t")->tensor;
    td_store_keep_statistics(store, old, statistics_of(old));
    put(5, ROWS);
    ck_assert_ptr_null(td_store_statistics(found(store, "t")->tensor));
    ck_assert_double_eq(td_store_statistics(old)->mean, 1999.5);
}

static struct td_buffer *refuse(struct td_memory *memory, size_t bytes, struct td_error *e)
{
    (void)memory;
    td_error_set(e, TD_MEMORY_EXHAUSTED, "no memory for %zu bytes", bytes);
    return NULL;
}

TD_TEST(without_memory_none_are_kept)
{
    store = open_folder();
    put(0, ROWS);
    const struct td_tensor *rows = found(store, "t")->tensor;
    store_memory.memory.take = refuse;
    td_store_keep_statistics(store, rows, statistics_of(rows));
    ck_assert_ptr_null(td_store_statistics(rows));
}

TD_TEST(those_of_a_small_tensor_are_not_kept)
{
    store = open_folder();
    put(0, SMALL);
    const struct td_tensor *rows = found(store, "t")->tensor;
    td_store_keep_statistics(store, rows, statistics_of(rows));
    ck_assert_ptr_null(td_store_statistics(rows));
}

TD_TEST(a_tensor_that_is_not_resident_keeps_none)
{
    store = open_folder();
    const struct td_tensor t = tensor("float32[2] 1 2");
    td_store_keep_statistics(store, &t, statistics_of(&t));
    ck_assert_ptr_null(td_store_statistics(&t));
    ck_assert_int_eq(atomic_load(&store_memory.taken), 0);
}

/* What the stores of the test took is given back when they are closed. */
static void end(void)
{
    close_store(); /* resets the arena, and with it the listings */
    ck_assert_int_eq(atomic_load(&store_memory.alive), 0);
    one_store_end();
}

TD_FIXTURE(one_store_begin, end);
