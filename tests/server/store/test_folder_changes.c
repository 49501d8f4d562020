/* Folders of versions that were taken, and whose files change. */
#include "server/store/aliases/aliases.h"
#include "tests/server/one_store.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <sys/stat.h>

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct td_error err;

TD_TEST(a_folder_that_was_taken_does_not_change)
{
    put_version("1", "m.npy", 10, "\"aliases\":{\"x\":\"m@1\"}");
    store = open_folder();
    put_npy("new", 11, 100);
    move_file("new", "1/m.npy");
    td_store_rescan(store);
    ck_assert_int_eq(value_of(found(store, "m@1")->tensor, 0), 10);
    ck_assert_ptr_nonnull(strstr(problems_of(store),
                                 "1: m.npy has changed since the folder was taken; the versions "
                                 "loaded before are still served"));
    /* The manifest gets another size, since its time may be the same: file times move in ticks of
     * the kernel. */
    put_manifest("1", "m.npy", "\"aliases\":{\"yy\":\"m@1\"}");
    td_store_rescan(store);
    ck_assert_int_eq(value_of(found(store, "m@1")->tensor, 0), 10);
    ck_assert_str_eq(aliases_of(store), "x=m@1 ");
    ck_assert_ptr_nonnull(strstr(problems_of(store), "1: manifest.json has changed"));
    restart(); /* the new manifest is valid */
    ck_assert_int_eq(value_of(found(store, "m@1")->tensor, 0), 11);
    ck_assert_str_eq(aliases_of(store), "x=m@1 yy=m@1 ");
}

/* Writes the last number of a file of numbers in place. */
static void write_last(const char *file, int32_t value)
{
    const struct timespec times[2] = { { .tv_sec = 1 }, { .tv_sec = 1 } };
    const int fd = open(path_of(file), O_WRONLY);
    ck_assert_int_ge(fd, 0);
    const off_t end = lseek(fd, 0, SEEK_END);
    ck_assert_int_eq(pwrite(fd, &value, sizeof value, end - 4), 4);
    ck_assert_int_eq(futimens(fd, times), 0); /* the clock of files may not have moved */
    close(fd);
}

TD_TEST(a_file_of_a_taken_folder_that_is_written_in_place_may_be_served_already)
{
    put_version("1", "m.npy", 10, "");
    folder_verify = TD_VERIFY_BACKGROUND;
    store = open_folder();
    put_manifest("1", "m.npy", "\"aliases\":{}"); /* not the change that matters most */
    write_last("1/m.npy", -5);
    td_store_rescan(store);
    ck_assert_int_eq(value_of(found(store, "m@1")->tensor, 99), -5);
    ck_assert_ptr_nonnull(strstr(problems_of(store),
                                 "1: m.npy was written in place since the folder was taken, so "
                                 "its new content might already be served. A restart"));
    ck_assert_ptr_null(strstr(problems_of(store), "still served"));
}

/* Writes a file of numbers in place, and restores its time of modification. The time of its last
 * change is another one: the clock of files is coarse. */
static void write_in_its_time(const char *file, int32_t first)
{
    struct stat before, now;
    ck_assert_int_eq(stat(path_of(file), &before), 0);
    const struct timespec times[] = { before.st_atim, before.st_mtim };
    put_npy(file, first, 100);
    do {
        ck_assert_int_eq(utimensat(AT_FDCWD, path_of(file), times, 0), 0);
        ck_assert_int_eq(stat(path_of(file), &now), 0);
    } while (now.st_ctim.tv_sec == before.st_ctim.tv_sec &&
             now.st_ctim.tv_nsec == before.st_ctim.tv_nsec);
}

TD_TEST(a_file_of_a_taken_folder_is_compared_if_its_last_change_is_another_one)
{
    put_version("1", "m.npy", 10, "");
    store = open_folder();
    write_in_its_time("1/m.npy", 11);
    for (int i = 0; i < 2; i++) {
        td_store_rescan(store);
        ck_assert_ptr_nonnull(strstr(problems_of(store), "1: m.npy was written in place"));
    }
    write_in_its_time("1/m.npy", 10);
    td_store_rescan(store);
    ck_assert_str_eq(problems_of(store), "");
    ck_assert_int_eq(value_of(found(store, "m@1")->tensor, 0), 10);
}

TD_TEST(a_file_of_a_taken_folder_that_was_cut_and_restored_is_served_again_after_a_rescan)
{
    struct td_tensor_listing unused;
    put_version("1", "m.npy t.npy", 10, "\"aliases\":{\"x\":\"m@1\"}");
    store = open_folder();
    const uint64_t version = found(store, "m@1")->version;
    ck_assert_int_eq(truncate(path_of("1/m.npy"), 200), 0);
    ck_assert_int_eq(td_store_get(store, "m@1", 3, &test_arena, &unused, &err),
                     TD_DEVICE_UNAVAILABLE);
    td_store_rescan(store);
    ck_assert_ptr_nonnull(strstr(problems_of(store), "1: m.npy was written in place"));
    put_npy("1/m.npy", 10, 100);
    td_store_rescan(store);
    ck_assert_int_eq(value_of(found(store, "m@1")->tensor, 99), 109);
    ck_assert_uint_eq(found(store, "m@1")->version, version);
    ck_assert_str_eq(problems_of(store), "");
}

TD_TEST(a_taken_folder_that_is_restored_from_a_copy_is_no_problem)
{
    put_version("1", "m.npy", 10, "");
    store = open_folder();
    put_npy("new", 11, 100);
    move_file("new", "1/m.npy");
    td_store_rescan(store);
    ck_assert_ptr_nonnull(strstr(problems_of(store), "1: m.npy has changed"));
    put_npy("new", 10, 100);
    move_file("new", "1/m.npy");
    td_store_rescan(store);
    ck_assert_str_eq(problems_of(store), "");
}

/* By a rename of the file, of the folder, or in place. */
enum restoring { NEW_FILE, NEW_FOLDER, IN_PLACE, RESTORINGS };

static void restore(enum restoring how)
{
    if (how == NEW_FILE) {
        put_npy("new", 10, 100);
        move_file("new", "1/m.npy");
    } else if (how == NEW_FOLDER) {
        move_file("1", ".bad");
        move_file(".copy", "1");
    } else {
        write_last("1/m.npy", 109);
    }
}

/* Even: a rescan finds the damage; odd: the first one comes after the repair. */
TD_TEST_LOOP(a_damaged_file_of_a_taken_folder_that_is_restored_is_served_again, 0, 2 * RESTORINGS)
{
    char etag[64];
    put_version("1", "m.npy t.npy", 10, "");
    move_file("1", ".copy");
    put_version("1", "m.npy t.npy", 10, "");
    store = open_folder();
    const uint64_t version = found(store, "m@1")->version;
    snprintf(etag, sizeof etag, "%s", found(store, "m@1")->etag);
    write_last("1/m.npy", -5);
    if (_i % 2 == 0) {
        td_store_rescan(store);
        ck_assert_ptr_nonnull(strstr(problems_of(store), "1: m.npy was written in place"));
    }
    restore((enum restoring)(_i / 2));
    for (int i = 0; i < 2; i++) {
        td_store_rescan(store);
        ck_assert_str_eq(problems_of(store), "");
        ck_assert_int_eq(value_of(found(store, "m@1")->tensor, 99), 109);
        ck_assert_uint_eq(found(store, "m@1")->version, version);
        ck_assert_str_eq(found(store, "m@1")->etag, etag);
    }
}

TD_TEST(the_versions_of_a_folder_are_made_again_once_all_of_it_is_restored)
{
    put_version("1", "m.npy t.npy", 10, "");
    store = open_folder();
    write_last("1/m.npy", -5);
    write_last("1/t.npy", -5);
    restore(NEW_FILE);
    td_store_rescan(store);
    ck_assert_ptr_nonnull(strstr(problems_of(store), "1: t.npy was written in place"));
    write_last("1/t.npy", 109);
    td_store_rescan(store);
    ck_assert_str_eq(problems_of(store), "");
    ck_assert_int_eq(value_of(found(store, "m@1")->tensor, 99), 109);
    ck_assert_int_eq(value_of(found(store, "t@1")->tensor, 99), 109);
}

static const char *const in_folder[] = { "1/manifest.json", "1/m.npy" };

TD_TEST_EACH(a_taken_folder_that_may_no_longer_be_read_is_a_problem_before_the_restart, in_folder)
{
    const char *file = in_folder[_i];
    char problem[300];
    snprintf(problem, sizeof problem, "%s; the versions loaded before are still", denied());
    put_version("1", "m.npy", 10, "");
    ck_assert_int_eq(chmod(folder, 0755), 0);
    ck_assert_int_eq(chmod(path_of("1"), 0755), 0);
    store = open_folder();
    ck_assert_int_eq(chmod(path_of(file), 0), 0);
    drop_rights();
    for (int i = 0; i < 2; i++) {
        td_store_rescan(store);
        ck_assert_int_eq(value_of(found(store, "m@1")->tensor, 0), 10);
        ck_assert_int_eq(td_store_reading(store).problems, 1);
        ck_assert_ptr_nonnull(strstr(problems_of(store), file + 2));
        ck_assert_ptr_nonnull(strstr(problems_of(store), problem));
    }
    restart();
    expect_names(store, "");
    regain_rights();
    ck_assert_int_eq(chmod(path_of(file), 0644), 0);
    td_store_rescan(store);
    expect_names(store, "m@1");
    ck_assert_str_eq(problems_of(store), "");
    ck_assert_int_eq(chmod(path_of(file), 0600), 0);
    td_store_rescan(store);
    ck_assert_str_eq(problems_of(store), "");
}

TD_TEST(a_start_compares_files_that_are_verified_at_the_start)
{
    put_version("1", "m.npy", 10, "");
    store = open_folder();
    td_arena_reset(&test_arena);
    td_store_free(store);
    put_npy("1/m.npy", 11, 100); /* as a failing disk */
    folder_verify = TD_VERIFY_BACKGROUND;
    store = open_folder();
    expect_names(store, "m@1");
    td_arena_reset(&test_arena);
    td_store_free(store);
    folder_verify = TD_VERIFY_START;
    store = open_folder();
    expect_names(store, "");
    ck_assert_ptr_nonnull(strstr(problems_of(store), "SHA-256"));
}

TD_FIXTURE(one_store_begin, one_store_end);
