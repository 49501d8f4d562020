#include "gpu/loader/loader.h"
#include "gpu/reference/reference.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TEXT(number)    #number
#define TEXT_OF(number) TEXT(number) /* expands the macro first */

static struct td_device_library library;
static struct td_error err;

static void expect_refused(const char *name)
{
    library.handle = &library; /* must be overwritten */
    ck_assert_int_eq(td_device_load(name, &library, &err), TD_DEVICE_UNAVAILABLE);
    ck_assert_int_eq(err.status, TD_DEVICE_UNAVAILABLE);
    ck_assert_ptr_null(library.api);
    ck_assert_ptr_null(library.handle);
    td_device_unload(&library);
}

static const struct {
    const char *says, *name;
} found[] = {
    { "a path is taken as it is", TD_TEST_PLUGINS "/tensord-gpu-valid.so" },
    { "in the program's folder", "program_folder" },
    { "in ../lib/tensord from the program's folder", "installed" },
    { "in the dynamic linker's path", "system" },
};

TD_TEST_EACH(a_plugin_is_found, found)
{
    ck_assert_msg(td_device_load(found[_i].name, &library, &err) == TD_OK, "%s: %s", found[_i].says,
                  err.message);
    ck_assert_str_eq(library.api->kind, "fake");
    ck_assert_ptr_nonnull(library.handle);
    td_device_unload(&library);
    ck_assert_ptr_null(library.api);
    td_device_unload(&library); /* an unloaded library is fine */
}

TD_TEST(the_reference_device_is_always_available)
{
    ck_assert_int_eq(td_device_load("reference", &library, &err), TD_OK);
    ck_assert_ptr_eq(library.api, td_device_reference());
    ck_assert_ptr_null(library.handle);
    ck_assert_str_eq(library.api->kind, "reference");
    td_device_unload(&library);
}

static const struct {
    const char *file;
    const char *found, *expected; /* parts of the message */
} wrong[] = {
    { "no_symbol", "is not a device plugin", "it does not export td_device_plugin" },
    { "no_table", "its function td_device_plugin returns NULL", "expected a struct td_device_api" },
    { "no_run", "its run is NULL", "expected every member of struct td_device_api to be set" },
    { "no_kind", "its kind is NULL", "expected every member of struct td_device_api to be set" },
    { "other_abi", "built for version 77 of the device interface",
      "; expected " TEXT_OF(TD_DEVICE_ABI) },
    { "other_args", "a struct td_op_args of 8 bytes", "; expected " },
};

TD_TEST_EACH(an_incompatible_plugin_is_refused, wrong)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/tensord-gpu-%s.so", TD_TEST_PLUGINS, wrong[_i].file);
    expect_refused(path);
    EXPECT_MESSAGE(&err, path);
    EXPECT_MESSAGE(&err, wrong[_i].found);
    EXPECT_MESSAGE(&err, wrong[_i].expected);
}

TD_TEST(the_message_gives_the_expected_size)
{
    char expected[64];
    expect_refused(TD_TEST_PLUGINS "/tensord-gpu-other_args.so");
    snprintf(expected, sizeof(expected), "expected %zu bytes", sizeof(struct td_op_args));
    EXPECT_MESSAGE(&err, expected);
}

TD_TEST(a_plugin_that_is_not_found_is_refused_with_the_folders_searched)
{
    char folder[512];
    ssize_t length = readlink("/proc/self/exe", folder, sizeof(folder) - 1);
    ck_assert_int_gt(length, 0);
    folder[length] = '\0';
    strrchr(folder, '/')[1] = '\0';

    expect_refused("nowhere");
    EXPECT_MESSAGE(&err, "tensord-gpu-nowhere.so is neither in ");
    EXPECT_MESSAGE(&err, folder);
    EXPECT_MESSAGE(&err, "../lib/tensord/");
    EXPECT_MESSAGE(&err, "nor in the dynamic linker's path");
}

TD_TEST(a_path_that_does_not_exist_is_refused)
{
    expect_refused(TD_TEST_PLUGINS "/nothing.so");
    EXPECT_MESSAGE(&err, TD_TEST_PLUGINS "/nothing.so");
}

TD_TEST(a_file_that_is_not_a_shared_object_is_refused)
{
    char path[] = "/tmp/td_device_XXXXXX";
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, "no ELF", 6), 6);
    close(fd);
    expect_refused(path);
    unlink(path);
    EXPECT_MESSAGE(&err, path);
}

TD_TEST(a_broken_plugin_ends_the_search)
{
    /* The program's folder has a file that cannot be loaded; the dynamic linker's path has a valid
     * one. */
    char path[512];
    ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);
    ck_assert_int_gt(length, 0);
    path[length] = '\0';
    strcpy(strrchr(path, '/') + 1, "tensord-gpu-system.so");
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    fclose(file);
    td_status status = td_device_load("system", &library, &err);
    unlink(path);
    ck_assert_int_eq(status, TD_DEVICE_UNAVAILABLE);
    EXPECT_MESSAGE(&err, path);
}

TD_TEST(an_empty_name_is_refused)
{
    expect_refused("");
    EXPECT_MESSAGE(&err, "expected cuda, reference or the path of a plugin");
}

TD_TEST(only_the_reference_device_s_options_are_checked_before_opening)
{
    ck_assert_int_eq(td_device_load("reference", &library, &err), TD_OK);
    ck_assert_int_eq(td_device_check_options(&library, "", &err), TD_OK);
    ck_assert_int_eq(td_device_check_options(&library, "launch_us=7,lose_at=1", &err), TD_OK);
    ck_assert_int_eq(td_device_check_options(&library, "launch_us=x", &err), TD_INVALID_ARGUMENT);
    EXPECT_MESSAGE(&err, "launch_us is \"x\"; expected a number from 0 to ");
    td_device_unload(&library);

    ck_assert_int_eq(td_device_load(TD_TEST_PLUGINS "/tensord-gpu-valid.so", &library, &err),
                     TD_OK);
    ck_assert_int_eq(td_device_check_options(&library, "launch_us=x", &err), TD_OK);
    td_device_unload(&library);
}
