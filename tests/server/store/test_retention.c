/* --keep-versions: of each table the newest versions stay, and those that aliases name. */
#include "server/store/aliases/aliases.h"
#include "tests/server/one_store.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct td_error err;

static void begin(void)
{
    one_store_begin();
    folder_keep_versions = 2;
    restart();
}

static void end(void)
{
    one_store_end();
    folder_keep_versions = 0;
}

static void restart_with(int64_t keep)
{
    folder_keep_versions = keep;
    restart();
}

/* Puts each of the names, "a@1 a@2". */
static void put(const char *names, bool persist)
{
    const struct td_tensor t = tensor("int32[2] 1 2");
    struct td_tensor_listing listing;
    bool created;
    char words[256], *rest = words;
    snprintf(words, sizeof words, "%s", names);
    for (const char *name; (name = strtok_r(rest, " ", &rest));) {
        const struct td_store_write write = { .name = name, .persist = persist };
        ck_assert_msg(td_store_put(store, &write, &t, &test_arena, &listing, &created, &err) ==
                          TD_OK,
                      "%s", err.message);
    }
}

static void flip(const char *name, const char *target)
{
    const struct td_alias_change set = { name, target };
    EXPECT_OK(td_store_flip(store, &(struct td_alias_flip){ .set = &set, .n_set = 1 }, &err), &err);
}

static bool exists(const char *file)
{
    return access(path_of(file), F_OK) == 0;
}

/* ---- which versions stay --------------------------------------------------------------------- */

static const struct {
    const char *description, *put, *stay;
} orders[] = {
    { "numbers by value", "m@9 m@8 m@10 m@11", "m@10 m@11" },
    { "text", "m@b m@a m@c", "m@b m@c" },
    { "dates", "m@20261121 m@20261122 m@20261123", "m@20261122 m@20261123" },
    { "whenever they were put", "m@1 m@4 m@3", "m@3 m@4" },
    { "each table for itself", "a@1 b@1 a@2 b@2 a@3", "a@2 a@3 b@1 b@2" },
    { "tables with like names", "a@1 a@2 ab@1 ab@2 a:b@1 a:b@2 a-b@1",
      "a-b@1 a:b@1 a:b@2 a@1 a@2 ab@1 ab@2" },
    { "not what has no version", "a b c m m@1 m@2 m@3", "a b c m m@2 m@3" },
};

TD_TEST_EACH(the_newest_of_each_table_stay, orders)
{
    for (int persist = 0; persist < 2; persist++) {
        put(orders[_i].put, persist);
        expect_names(store, orders[_i].stay);
        restart_with(2);
        expect_names(store, persist ? orders[_i].stay : "");
    }
}

TD_TEST(without_the_option_all_stay)
{
    restart_with(0);
    put("m@1 m@2 m@3 m@4", true);
    expect_names(store, "m@1 m@2 m@3 m@4");
    restart_with(0);
    expect_names(store, "m@1 m@2 m@3 m@4");
}

TD_TEST(a_start_removes_what_is_older)
{
    restart_with(0);
    put("m@1 m@2 m@3 m@4", true);
    restart_with(1);
    expect_names(store, "m@4");
    ck_assert(!exists("m@1.tensord") && !exists("m@3.tensord") && exists("m@4.tensord"));
    ck_assert_ptr_nonnull(strstr(logged(), " info version_removed tensor=m@3"));
    restart_with(0);
    expect_names(store, "m@4");
}

/* aliases.json is a link that leads nowhere: the versions that it named are unknown. */
TD_TEST(nothing_is_removed_while_the_aliases_are_unknown)
{
    char path[128];
    snprintf(path, sizeof path, "%s", path_of("aliases.json"));
    put("m@1", true);
    flip("x", "m@1");
    put("m@2 m@3", true);
    ck_assert_int_eq(rename(path, path_of("aside")), 0);
    ck_assert_int_eq(symlink("nowhere", path), 0);
    restart_with(1);
    expect_names(store, "m@1 m@2 m@3");
    put("m@4", true);
    expect_names(store, "m@1 m@2 m@3 m@4");
    ck_assert_int_eq(unlink(path), 0);
    put("m@5", true);
    expect_names(store, "m@1 m@2 m@3 m@4 m@5");
    ck_assert_int_eq(rename(path_of("aside"), path), 0);
    td_store_rescan(store);
    expect_names(store, "m@1 m@5");
}

TD_TEST(a_rescan_removes_what_new_files_displace)
{
    put("m@1 m@2", true);
    put_npy("m@3.npy", 1, 2);
    td_store_rescan(store);
    expect_names(store, "m@2 m@3");
}

TD_TEST(a_reader_keeps_its_version)
{
    put("m@1", true);
    const struct td_tensor *t = found(store, "m@1")->tensor;
    put("m@2 m@3", true);
    expect_names(store, "m@2 m@3");
    ck_assert_int_eq(value_of(t, 1), 2);
}

TD_TEST(the_quota_of_removed_versions_is_free_again)
{
    put("m@1 m@2", false);
    const uint64_t held = td_store_usage(store).held;
    put("m@3 m@4 m@5", false);
    ck_assert_uint_eq(td_store_usage(store).held, held);
}

/* ---- aliases --------------------------------------------------------------------------------- */

TD_TEST(what_an_alias_names_stays_until_it_names_another)
{
    put("m@1", true);
    flip("x", "m@1");
    put("m@2 m@3 m@4", true);
    expect_names(store, "m@1 m@3 m@4");
    restart_with(2);
    expect_names(store, "m@1 m@3 m@4");
    flip("x", "m@3");
    expect_names(store, "m@3 m@4");
}

TD_TEST(an_alias_that_is_deleted_keeps_nothing)
{
    put("m@1", true);
    flip("x", "m@1");
    put("m@2 m@3", true);
    const struct td_store_write on_x = { .name = "x", .removes = true };
    ck_assert_int_eq(td_store_delete(store, &on_x, &(bool){ false }, &err), TD_OK);
    expect_names(store, "m@2 m@3");
}

TD_TEST(nothing_is_removed_while_aliases_json_is_not_known)
{
    put("m@1 m@2", true);
    put_text("aliases.json", "{\"aliases\":");
    put("m@3", true);
    expect_names(store, "m@1 m@2 m@3"); /* it may name m@1 */
    restart_with(2);
    expect_names(store, "m@1 m@2 m@3");
    ck_assert_int_eq(unlink(path_of("aliases.json")), 0);
    td_store_rescan(store);
    expect_names(store, "m@2 m@3");
}

/* ---- files ----------------------------------------------------------------------------------- */

TD_TEST(files_that_the_server_did_not_write_stay_and_count)
{
    put_npy("m@1.npy", 1, 2);
    put_npy("m@8.npy", 1, 2);
    put_safetensors("n@1.safetensors", TWO_TENSORS, 1, 6);
    put_version("2", "m.npy", 1, "");
    td_store_rescan(store);
    put("m@5 m@6 m@9 n:w@2 n:w@3", true);
    expect_names(store, "m@1 m@2 m@8 m@9 n:b.x@1 n:w@1 n:w@2 n:w@3");
    ck_assert(exists("m@1.npy") && exists("2/m.npy") && !exists("m@6.tensord"));
    ck_assert_ptr_null(strstr(logged(), "version_not_removed"));
}

TD_TEST(a_version_that_another_file_has_as_well_stays)
{
    put("m@1", true);
    put_npy("m@1.npy", 1, 2);
    put("m@2 m@3", true);
    expect_names(store, "m@1 m@2 m@3");
    ck_assert(exists("m@1.npy") && exists("m@1.tensord"));
    ck_assert_int_eq(unlink(path_of("m@1.npy")), 0);
    td_store_rescan(store);
    expect_names(store, "m@2 m@3");
}

TD_TEST(a_version_that_cannot_be_read_counts_as_none)
{
    const struct td_tensor large = tensor("int32[5000] 1..5000");
    const struct td_store_write write = { .name = "m@3", .persist = true };
    struct td_tensor_listing listing;
    bool created;
    put("m@1", true);
    ck_assert_int_eq(td_store_put(store, &write, &large, &test_arena, &listing, &created, &err),
                     TD_OK);
    td_arena_reset(&test_arena);
    ck_assert_int_eq(truncate(path_of("m@3.tensord"), 100), 0);
    ck_assert_int_eq(td_store_get(store, "m@3", 3, &test_arena, &listing, &err),
                     TD_DEVICE_UNAVAILABLE);
    put("m@2", true);
    expect_names(store, "m@1 m@2 m@3");
    put("m@4", true);
    expect_names(store, "m@2 m@3 m@4");
}

TD_TEST(a_store_that_may_not_change_the_folder_removes_what_is_in_memory)
{
    restart_with(0);
    put("m@1 m@2 m@3", true);
    folder_keep_versions = 1;
    struct td_store *other = open_folder(); /* without the lock */
    ck_assert(td_store_is_locked_out(other));
    expect_names(other, "m@1 m@2 m@3");
    td_store_free(other);
    ck_assert(exists("m@1.tensord") && exists("m@2.tensord"));
    ck_assert_ptr_null(strstr(logged(), "version_"));
    restart_with(1);
    expect_names(store, "m@3");
}

TD_TEST(without_a_folder_versions_in_memory_are_removed)
{
    td_store_free(store);
    store = td_store_open(&(struct td_store_options){ .dir = "",
                                                      .quota = QUOTA,
                                                      .keep_versions = 1,
                                                      .memory = td_memory_heap(),
                                                      .log = &store_log });
    ck_assert_ptr_nonnull(store);
    put("m@1 m@2 m@10", false);
    expect_names(store, "m@10");
}

TD_FIXTURE(begin, end);
