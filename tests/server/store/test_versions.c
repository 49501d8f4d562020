/* Versions of a table: NAME@VERSION in memory, in files, and after a restart. */
#include "server/memory/fault_guard.h"
#include "tests/server/one_store.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct td_error err;

static td_status put(const char *name, int32_t value, bool persist)
{
    char values[64];
    snprintf(values, sizeof values, "int32[2] %d %d", value, value);
    const struct td_tensor t = tensor(values);
    return put_tensor(store, name, &t, persist, &err);
}

static td_status drop(const char *name)
{
    const struct td_store_write write = { .name = name };
    return td_store_delete(store, &write, &(bool){ false }, &err);
}

TD_TEST(the_version_of_a_file_is_that_of_its_tables)
{
    put_npy("movies@20261121.npy", 1, 2);
    put_npy("movies@20261122.npy", 2, 2);
    put_safetensors("m@v1.safetensors", TWO_TENSORS, 3, 6);
    store = open_folder();
    expect_names(store, "m:b.x@v1 m:w@v1 movies@20261121 movies@20261122");
    ck_assert_int_eq(value_of(found(store, "movies@20261122")->tensor, 0), 2);
    ck_assert_str_eq(found(store, "m:w@v1")->source, "m@v1.safetensors");
}

TD_TEST(a_version_may_be_part_of_the_name_in_a_file)
{
    put_safetensors("m.safetensors",
                    "{\"w@v\":{\"dtype\":\"I32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 5, 1);
    put_safetensors("n@u.safetensors",
                    "{\"w@v\":{\"dtype\":\"I32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 6, 1);
    store = open_folder();
    expect_names(store, "m:w@v");
    ck_assert_ptr_nonnull(strstr(logged(), "tensor=n:w@v@u"));
    ck_assert_int_eq(drop("m:w@v"), TD_OK);
    ck_assert_int_ne(access(path_of("m.safetensors"), F_OK), 0);
}

TD_TEST(of_two_files_with_one_version_the_first_is_served)
{
    put_safetensors("m.safetensors",
                    "{\"w@v\":{\"dtype\":\"I32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 5, 1);
    put_safetensors("m@v.safetensors",
                    "{\"w\":{\"dtype\":\"I32\",\"shape\":[1],\"data_offsets\":[0,4]} }", 6, 1);
    store = open_folder();
    expect_names(store, "m:w@v");
    ck_assert_int_eq(value_of(found(store, "m:w@v")->tensor, 0), 5);
    ck_assert_ptr_nonnull(
        strstr(logged(), "m.safetensors takes precedence and contains a tensor of this name"));
    td_store_rescan(store);
    ck_assert_int_eq(value_of(found(store, "m:w@v")->tensor, 0), 5);
    ck_assert_int_eq(drop("m:w@v"), TD_OK); /* both files */
    td_store_rescan(store);
    expect_names(store, "");
}

TD_TEST(a_persisted_version_is_there_after_a_restart)
{
    store = open_folder();
    ck_assert_int_eq(put("m:w@1", 1, true), TD_OK);
    restart();
    ck_assert_int_eq(value_of(found(store, "m:w@1")->tensor, 0), 1);
    ck_assert_str_eq(found(store, "m:w@1")->source, "m:w@1.tensord");
    ck_assert_int_eq(drop("m:w@1"), TD_OK);
    td_store_rescan(store);
    expect_names(store, "");
}

TD_TEST(a_version_is_stored_once)
{
    store = open_folder();
    const struct td_store_write again = { .name = "m@1" },
                                conditional = { .name = "m@1",
                                                .condition = { .if_none_match = "*" } };
    struct td_store_totals totals = { 0 };
    for (int persist = 0; persist < 2; persist++) {
        ck_assert_int_eq(put("m@1", 1, persist), TD_OK);
        ck_assert_int_eq(put("m@1", 2, false), TD_CONFLICT);
        EXPECT_MESSAGE(&err, "'m@1'");
        ck_assert_int_eq(put("m@1", 2, true), TD_CONFLICT);
        ck_assert_int_eq(td_store_admit(store, &again, 8, &err), TD_CONFLICT);
        ck_assert_int_eq(td_store_admit_next(store, &again, 8, &totals, &err), TD_CONFLICT);
        ck_assert_int_eq(td_store_check_change(store, &again, &err), TD_CONFLICT);
        ck_assert_int_eq(td_store_check_change(store, &conditional, &err), TD_PRECONDITION_FAILED);
        ck_assert_int_eq(value_of(found(store, "m@1")->tensor, 0), 1);
        ck_assert_int_eq(drop("m@1"), TD_OK);
    }
    ck_assert_int_eq(put("m@1", 3, false), TD_OK); /* after it was deleted */
    ck_assert_int_eq(put("m", 4, false), TD_OK);
    ck_assert_int_eq(put("m", 5, false), TD_OK);
}

TD_TEST(a_version_is_not_updated)
{
    const struct td_store_write write = { .name = "m@1" };
    struct td_store_update *update;
    store = open_folder();
    ck_assert_int_eq(put("m@1", 1, false), TD_OK);
    ck_assert_int_eq(td_store_update_begin(store, &write, &test_arena, NULL, &update, &err),
                     TD_CONFLICT);
    ck_assert_int_eq(drop("m@1"), TD_OK); /* the name is not left locked */
}

TD_TEST(a_version_whose_file_is_truncated_may_be_stored_again)
{
    put_npy("m@1.npy", 1, 5000);
    store = open_folder();
    const struct td_tensor_listing *served = found(store, "m@1");
    ck_assert_int_eq(truncate(path_of("m@1.npy"), 100), 0);
    ck_assert_int_eq(td_store_check(served, &err), TD_DEVICE_UNAVAILABLE);
    ck_assert_int_eq(put("m@1", 7, true), TD_OK);
    ck_assert_int_eq(value_of(found(store, "m@1")->tensor, 0), 7);
}

TD_FIXTURE(one_store_begin, one_store_end);
