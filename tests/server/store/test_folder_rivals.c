/* Files beside a version folder that have, or may have, one of its tensors. */
#include "server/store/aliases/aliases.h"
#include "tests/server/one_store.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct td_error err;

static void loose_npy(void)
{
    put_npy("m@1.npy", 5, 1);
}

static void damaged_npy(void)
{
    put_text("m@1.npy", "no numbers");
}

static void link_to_nothing(void)
{
    ck_assert_int_eq(symlink("nothing", path_of("m@1.tensord")), 0);
}

static void loose_tensord(void)
{
    char from[128];
    snprintf(from, sizeof from, "%s", path_of("kept"));
    ck_assert_int_eq(link(from, path_of("m@1.tensord")), 0);
}

static void model_of_the_version(void)
{
    put_safetensors("q@1.safetensors", TWO_TENSORS, 5, 6);
}

static void tensor_of_the_version(void)
{
    put_safetensors("q.safetensors",
                    "{\"w@1\":{\"dtype\":\"I32\",\"shape\":[2],\"data_offsets\":[0,8]}}  ", 5, 2);
}

/* It has no equivalent here. */
static void unreadable_tensor(void)
{
    put_safetensors("q@1.safetensors",
                    "{\"w\":{\"dtype\":\"F8_E5M2\",\"shape\":[8],\"data_offsets\":[0,8]}}  ", 5, 2);
}

static const struct {
    const char *file;
    void (*put)(void);
} rivals[] = {
    { "m@1.npy", loose_npy },
    { "m@1.npy", damaged_npy },
    { "m@1.tensord", link_to_nothing },
    { "m@1.tensord", loose_tensord },
    { "q@1.safetensors", model_of_the_version },
    { "q.safetensors", tensor_of_the_version },
    { "q@1.safetensors", unreadable_tensor },
};

/* The folder 1 with m@1, q:b.x@1, q:w@1 and t@1, and the file that loose_tensord puts. */
static void put_folder_with_rivals(void)
{
    const struct td_tensor t = tensor("int32[1] 5");
    store = open_folder();
    EXPECT_OK(put_tensor(store, "m@1", &t, true, &err), &err);
    close_store();
    move_file("m@1.tensord", "kept");
    put_version_files("1", "m.npy t.npy", 10);
    put_safetensors("1/q.safetensors", TWO_TENSORS, 10, 6);
    put_manifest("1", "m.npy t.npy q.safetensors", "\"aliases\":{\"x\":\"m@1\"}");
}

static void expect_folder_served(void)
{
    expect_names(store, "m@1 q:b.x@1 q:w@1 t@1");
    ck_assert_int_eq(value_of(found(store, "m@1")->tensor, 0), 10);
    ck_assert_int_eq(value_of(found(store, "q:w@1")->tensor, 0), 10);
}

/* Fails unless the folder is a problem because of the file, and the log says so. */
static void expect_rival(const char *file)
{
    const char *problems = problems_of(store);
    ck_assert_msg(strncmp(problems, "1: ", 3) == 0 && strstr(problems, file), "%s: %s", file,
                  problems);
    ck_assert_ptr_nonnull(strstr(logged(), " warn folder_refused folder=1 reason="));
}

TD_TEST_EACH(a_file_that_has_the_tensor_of_a_served_folder_is_told_before_the_restart, rivals)
{
    const char *file = rivals[_i].file;
    put_folder_with_rivals();
    store = open_folder();
    rivals[_i].put();
    for (int i = 0; i < 2; i++) {
        td_store_rescan(store);
        expect_folder_served();
        expect_rival(file);
        ck_assert_ptr_nonnull(strstr(problems_of(store), "is served until a restart"));
    }
    restart();
    expect_rival(file);
    ck_assert_int_eq(unlink(path_of(file)), 0); /* as the problem says */
    td_store_rescan(store);
    expect_folder_served();
    ck_assert_str_eq(problems_of(store), "");
    rivals[_i].put();
    td_store_rescan(store);
    expect_rival(file);
    ck_assert_int_eq(unlink(path_of(file)), 0);
    td_store_rescan(store);
    expect_folder_served();
    ck_assert_str_eq(problems_of(store), "");
}

TD_TEST(a_version_that_is_not_in_a_served_folder_is_not_there)
{
    struct td_tensor_listing unused;
    put_npy("old@1.npy", 1, 1);
    put_version("1", "m.npy", 10, "\"aliases\":{\"x\":\"old@1\"}");
    store = open_folder();
    loose_npy();
    ck_assert_int_eq(unlink(path_of("old@1.npy")), 0);
    td_store_rescan(store);
    expect_rival("m@1.npy");
    ck_assert_int_eq(td_store_get(store, "x", 1, &test_arena, &unused, &err),
                     TD_DEVICE_UNAVAILABLE);
    EXPECT_MESSAGE(&err, "'old@1', which does not exist; put its file back");
}

static const char *const models[] = { "q.safetensors", "q@1.safetensors" };

/* Only the folder is certain to have its names. */
TD_TEST_EACH(a_damaged_file_that_may_have_the_tensor_of_a_folder_is_the_problem_itself, models)
{
    const char *file = models[_i];
    char wanted[64];
    snprintf(wanted, sizeof wanted, "%s: ", file);
    put_folder_with_rivals();
    store = open_folder();
    put_text(file, "no model");
    for (int i = 0; i < 4; i++) {
        if (i % 2)
            restart();
        else
            td_store_rescan(store);
        expect_folder_served();
        ck_assert_int_eq(td_store_reading(store).problems, 1);
        ck_assert_int_eq(strncmp(problems_of(store), wanted, strlen(wanted)), 0);
        ck_assert_str_eq(aliases_of(store), "x=m@1 ");
    }
    ck_assert_int_eq(unlink(path_of(file)), 0);
    td_store_rescan(store);
    ck_assert_str_eq(problems_of(store), "");
}

TD_TEST(a_file_that_had_the_tensor_of_a_folder_before_it_was_damaged_is_the_problem_itself)
{
    put_folder_with_rivals();
    store = open_folder();
    model_of_the_version();
    td_store_rescan(store);
    expect_rival("q@1.safetensors");
    ck_assert_int_eq(unlink(path_of("q@1.safetensors")), 0);
    put_text("q@1.safetensors", "no model"); /* as by a rename: another inode */
    for (int i = 0; i < 2; i++) {
        td_store_rescan(store);
        expect_folder_served();
        ck_assert_int_eq(td_store_reading(store).problems, 1);
        ck_assert_int_eq(strncmp(problems_of(store), "q@1.safetensors: ", 17), 0);
        restart();
    }
}

TD_TEST(a_cut_file_of_a_folder_is_mapped_again_though_another_file_has_its_tensor)
{
    put_folder_with_rivals();
    store = open_folder();
    loose_npy();
    ck_assert_int_eq(truncate(path_of("1/m.npy"), 200), 0);
    td_store_rescan(store);
    put_npy("1/m.npy", 10, 100);
    td_store_rescan(store);
    expect_folder_served();
    expect_rival("m@1.npy");
}

/* 0: the file comes with the removal of the folder; 1: it was there before */
TD_TEST_LOOP(a_file_takes_the_name_of_a_version_whose_folder_is_gone_in_one_rescan, 0, 2)
{
    put_version("1", "m.npy t.npy", 10, "\"aliases\":{\"x\":\"m@1\"}");
    store = open_folder();
    put_npy("m@1.npy", 5, 1);
    if (_i == 1)
        td_store_rescan(store);
    remove_version("1");
    (void)logged_with_scans();
    td_store_rescan(store);
    /* Replaced: at no moment it was missing. */
    const char *lines = logged_with_scans();
    ck_assert_ptr_nonnull(strstr(lines, "tables_changed file=m@1.npy replaced=1"));
    ck_assert_ptr_nonnull(strstr(lines, "tables_changed file=1 removed=1"));
    ck_assert_ptr_null(strstr(lines, "table_skipped"));
    for (int i = 0; i < 3; i++) {
        expect_names(store, "m@1");
        ck_assert_int_eq(value_of(found(store, "m@1")->tensor, 0), 5);
        ck_assert_str_eq(found(store, "m@1")->source, "m@1.npy");
        ck_assert_str_eq(aliases_of(store), "x=m@1 ");
        ck_assert_str_eq(problems_of(store), "");
        if (i == 0)
            td_store_rescan(store);
        else
            restart();
    }
}

TD_TEST(a_file_that_cannot_be_served_gets_no_name_of_a_folder_that_is_gone)
{
    put_version("1", "m.npy", 10, "");
    store = open_folder();
    damaged_npy();
    remove_version("1");
    for (int i = 0; i < 2; i++) {
        td_store_rescan(store);
        expect_names(store, "");
        ck_assert_int_eq(strncmp(problems_of(store), "m@1.npy: ", 9), 0);
        restart();
    }
}

TD_FIXTURE(one_store_begin, one_store_end);
