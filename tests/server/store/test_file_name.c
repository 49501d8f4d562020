#include "server/store/files/file_name.h"
#include "tests/support/expect.h"
#include "tests/support/suite.h"

#include <string.h>

static const struct {
    const char *stem, *tensor, *name;
} in_files[] = {
    { "m", "w", "m:w" },     { "m@v", "w", "m:w@v" },     { "m:n@v", "a:b", "m:n:a:b@v" },
    { "m", "w@v", "m:w@v" }, { "m@v", "w@v", "m:w@v@v" }, /* which is not valid */
};

TD_TEST_EACH(the_version_of_a_file_is_that_of_its_tensors, in_files)
{
    char name[TD_NAME_IN_FILE];
    td_data_name_in_file(in_files[_i].stem, in_files[_i].tensor, name);
    ck_assert_str_eq(name, in_files[_i].name);
}

TD_TEST(a_name_that_is_too_long_is_not_made_valid)
{
    char name[TD_NAME_IN_FILE], longest[300];
    memset(longest, 'a', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    td_data_name_in_file(longest, "w", name);
    ck_assert(!td_name_valid(name));
    td_data_name_in_file("m", longest, name);
    ck_assert(!td_name_valid(name));
    longest[1] = '@';
    td_data_name_in_file(longest, "w", name);
    ck_assert(!td_name_valid(name));
}

static const struct {
    const char *name, *stems;
} stems[] = {
    { "m", "" },
    { "m@v", "" },
    { "m:w", "m " },
    { "m:w@v", "m m@v " },
    { "a:b:c@v", "a a@v a:b a:b@v " },
    { ":w", "" },
};

TD_TEST_EACH(each_file_that_can_hold_a_name_is_found, stems)
{
    char stem[TD_TENSOR_NAME], list[256] = "";
    for (int place = 0; td_data_next_stem(stems[_i].name, &place, stem);)
        strcat(strcat(list, stem), " ");
    ck_assert_str_eq(list, stems[_i].stems);
}

TD_TEST(the_index_of_a_file_of_keys_has_its_name)
{
    char index[TD_FILE_NAME], keys[TD_FILE_NAME];
    td_data_index_file("m.keys@v.npy", index);
    ck_assert_str_eq(index, ".m.keys@v.npy.index.tensord");
    ck_assert(td_data_keys_file_of_index(index, keys));
    ck_assert_str_eq(keys, "m.keys@v.npy");
    ck_assert(!td_data_file_wanted(index));
}

static const char *const no_indices[] = { "m.keys.npy.index.tensord", ".m.npy.index.tensord",
                                          ".m.keys.npy.index",        ".index.tensord",
                                          "..index.tensord",          ".m.keys.npy" };

TD_TEST_EACH(other_files_hold_no_index, no_indices)
{
    char keys[TD_FILE_NAME];
    ck_assert_msg(!td_data_keys_file_of_index(no_indices[_i], keys), "%s", no_indices[_i]);
}
