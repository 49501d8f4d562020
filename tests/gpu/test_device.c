#include "gpu/device.h"
#include "gpu/reference.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TEXT(number)    #number
#define TEXT_OF(number) TEXT(number) /* of the number that a macro stands for */

static struct td_device_library library;
static struct td_error err;

static void expect_says(const char *part)
{
    ck_assert_msg(strstr(err.message, part), "\"%s\" is not in \"%s\"", part, err.message);
}

static void refuse(const char *name)
{
    library.handle = &library; /* rubbish, to be overwritten */
    ck_assert_int_eq(td_device_load(name, &library, &err), TD_DEVICE_UNAVAILABLE);
    ck_assert_int_eq(err.status, TD_DEVICE_UNAVAILABLE);
    ck_assert_ptr_null(library.api);
    ck_assert_ptr_null(library.handle);
    td_device_unload(&library);
}

static const struct {
    const char *says, *name;
} found[] = {
    { "a path is taken as it is", TD_TEST_PLUGINS "/tensord-gpu-good.so" },
    { "beside the program", "beside" },
    { "in ../lib/tensord beside the program", "installed" },
    { "where the system looks", "system" },
};

START_TEST(a_plugin_is_found)
{
    ck_assert_msg(td_device_load(found[_i].name, &library, &err) == TD_OK, "%s: %s", found[_i].says,
                  err.message);
    ck_assert_str_eq(library.api->kind, "fake");
    ck_assert_ptr_nonnull(library.handle);
    td_device_unload(&library);
    ck_assert_ptr_null(library.api);
    td_device_unload(&library); /* nothing is fine */
}
END_TEST

START_TEST(the_reference_device_is_always_there)
{
    ck_assert_int_eq(td_device_load("reference", &library, &err), TD_OK);
    ck_assert_ptr_eq(library.api, td_device_reference());
    ck_assert_ptr_null(library.handle);
    ck_assert_str_eq(library.api->kind, "reference");
    td_device_unload(&library);
}
END_TEST

static const struct {
    const char *file;
    const char *found, *expected; /* what the message says */
} wrong[] = {
    { "no_symbol", "is no device plugin", "a function td_device_plugin is expected" },
    { "no_table", "its function td_device_plugin gives NULL", "struct td_device_api is expected" },
    { "no_run", "its run is NULL", "all of struct td_device_api is expected" },
    { "no_kind", "its kind is NULL", "all of struct td_device_api is expected" },
    { "other_abi", "built for version 77 of the device interface",
      "; " TEXT_OF(TD_DEVICE_ABI) " is expected" },
    { "other_args", "another struct td_op_args, of 8 bytes", " are expected" },
};

START_TEST(a_plugin_that_does_not_fit_is_refused)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/tensord-gpu-%s.so", TD_TEST_PLUGINS, wrong[_i].file);
    refuse(path);
    expect_says(path);
    expect_says(wrong[_i].found);
    expect_says(wrong[_i].expected);
}
END_TEST

START_TEST(the_size_that_is_expected_is_said)
{
    char expected[64];
    refuse(TD_TEST_PLUGINS "/tensord-gpu-other_args.so");
    snprintf(expected, sizeof(expected), "%zu are expected", sizeof(struct td_op_args));
    expect_says(expected);
}
END_TEST

START_TEST(a_plugin_that_is_nowhere_is_refused_with_the_places)
{
    char folder[512];
    ssize_t length = readlink("/proc/self/exe", folder, sizeof(folder) - 1);
    ck_assert_int_gt(length, 0);
    folder[length] = '\0';
    strrchr(folder, '/')[1] = '\0';

    refuse("nowhere");
    expect_says("tensord-gpu-nowhere.so is neither in ");
    expect_says(folder);
    expect_says("../lib/tensord/");
    expect_says("nor where the system looks");
}
END_TEST

START_TEST(a_path_that_leads_nowhere_is_refused)
{
    refuse(TD_TEST_PLUGINS "/nothing.so");
    expect_says(TD_TEST_PLUGINS "/nothing.so");
}
END_TEST

START_TEST(a_file_that_is_no_shared_object_is_refused)
{
    char path[] = "/tmp/td_device_XXXXXX";
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, "no ELF", 6), 6);
    close(fd);
    refuse(path);
    unlink(path);
    expect_says(path);
}
END_TEST

START_TEST(one_that_is_there_and_broken_is_not_passed_over)
{
    /* Beside the program lies a file that cannot be loaded; where the system looks would be a good
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
    expect_says(path);
}
END_TEST

START_TEST(no_name_is_refused)
{
    refuse("");
    expect_says("cuda, reference or the path of a plugin is expected");
}
END_TEST

START_TEST(only_the_reference_device_knows_its_options_before_it_is_opened)
{
    ck_assert_int_eq(td_device_load("reference", &library, &err), TD_OK);
    ck_assert_int_eq(td_device_check_text(&library, "", &err), TD_OK);
    ck_assert_int_eq(td_device_check_text(&library, "launch_us=7,lose_at=1", &err), TD_OK);
    ck_assert_int_eq(td_device_check_text(&library, "launch_us=x", &err), TD_INVALID_ARGUMENT);
    expect_says("launch_us is \"x\"; a number from 0 to ");
    td_device_unload(&library);

    ck_assert_int_eq(td_device_load(TD_TEST_PLUGINS "/tensord-gpu-good.so", &library, &err), TD_OK);
    ck_assert_int_eq(td_device_check_text(&library, "launch_us=x", &err), TD_OK);
    td_device_unload(&library);
}
END_TEST

static void add(TCase *t)
{
    tcase_add_loop_test(t, a_plugin_is_found, 0, COUNT_OF(found));
    tcase_add_test(t, the_reference_device_is_always_there);
    tcase_add_loop_test(t, a_plugin_that_does_not_fit_is_refused, 0, COUNT_OF(wrong));
    tcase_add_test(t, the_size_that_is_expected_is_said);
    tcase_add_test(t, a_plugin_that_is_nowhere_is_refused_with_the_places);
    tcase_add_test(t, a_path_that_leads_nowhere_is_refused);
    tcase_add_test(t, a_file_that_is_no_shared_object_is_refused);
    tcase_add_test(t, one_that_is_there_and_broken_is_not_passed_over);
    tcase_add_test(t, no_name_is_refused);
    tcase_add_test(t, only_the_reference_device_knows_its_options_before_it_is_opened);
}

int main(void)
{
    return run_suite("device", add);
}
