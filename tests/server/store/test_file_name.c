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
    const char *name, *files;
} holders[] = {
    { "m", "m.tensord m.npy " },
    { "m@v", "m@v.tensord m@v.npy " },
    { "m:w", "m:w.tensord m:w.npy m.safetensors " },
    { "m:w@v", "m:w@v.tensord m:w@v.npy m.safetensors m@v.safetensors " },
    { "a:b:c@v", "a:b:c@v.tensord a:b:c@v.npy a.safetensors a@v.safetensors a:b.safetensors "
                 "a:b@v.safetensors " },
    { ":w", ":w.tensord :w.npy " },
    { "m.program", "m.program.json " },
    { "m:w.program@v", "m:w@v.program.json " },
    { ".program", ".program.tensord .program.npy " },
};

TD_TEST_EACH(each_file_that_can_hold_a_name_is_found, holders)
{
    char file[TD_FILE_NAME], list[256] = "";
    for (int place = 0; td_data_next_file(holders[_i].name, &place, file);)
        strcat(strcat(list, file), " ");
    ck_assert_str_eq(list, holders[_i].files);
}

static const struct {
    const char *file, *suffix;
    bool own;
    const char *name; /* of the only tensor, or NULL */
} files[] = {
    { "m.tensord", ".tensord", true, "m" },
    { "m@v.npy", ".npy", false, "m@v" },
    { "m.safetensors", ".safetensors", false, NULL },
    { "m b.npy", ".npy", false, NULL },
    { "m.program.json", ".program.json", true, "m.program" },
    { "m:w@v.program.json", ".program.json", true, "m:w.program@v" },
    { "m.program.program.json", ".program.json", true, "m.program.program" },
    { "m@v.program.program.json", ".program.json", true, NULL },
    { "m b.program.json", ".program.json", true, NULL },
};

TD_TEST_EACH(the_name_of_a_file_says_what_it_holds, files)
{
    const char *file = files[_i].file;
    char name[TD_TENSOR_NAME];
    const bool one = td_data_only_name(file, name);
    ck_assert(td_data_file_wanted(file));
    ck_assert_str_eq(td_data_file_suffix(file), files[_i].suffix);
    ck_assert(td_data_file_is_own(file) == files[_i].own);
    ck_assert_pstr_eq(one ? name : NULL, files[_i].name);
}

static const char *const other_files[] = { ".m.tensord",    ".m.npy", ".m.program.json",
                                           ".program.json", "m.json", "program.json" };

TD_TEST_EACH(hidden_files_and_other_files_are_not_read, other_files)
{
    ck_assert(!td_data_file_wanted(other_files[_i]));
    ck_assert(!td_data_file_is_own(other_files[_i]));
}

static const struct {
    const char *file, *name;
    td_status status;
    const char *message;
} named[] = {
    { "m.npy", "m", TD_OK, NULL },
    { "m.program.json", "m.program", TD_OK, NULL },
    { "m.program.npy", "m.program", TD_INVALID_ARGUMENT,
      "'m.program' is the name of the program 'm', not of a tensor; a program is read from its "
      "text in m.program.json" },
    { "m@v.safetensors", "m:w.program@v", TD_INVALID_ARGUMENT, "m:w@v.program.json" },
    { "run.program.json", "run.program", TD_INVALID_ARGUMENT,
      "no program can have the name 'run', because POST /v1/programs/run and /v1/programs/plan "
      "take a program in their body; a stored program needs another name" },
    { "plan@v.program.json", "plan.program@v", TD_INVALID_ARGUMENT,
      "no program can have the name 'plan@v'" },
    { "runs.program.json", "runs.program", TD_OK, NULL },
    { "run.tensord", "run", TD_OK, NULL },
    { "m b.program.json", "m b.program", TD_INVALID_ARGUMENT, "not a valid program name" },
    { "m@v.program.npy", "m@v.program", TD_INVALID_ARGUMENT,
      ".program must come before the '@', as in 'm.program@v'" },
};

TD_TEST_EACH(only_the_files_of_programs_hold_programs, named)
{
    struct td_error err = { 0 };
    ck_assert_int_eq(td_data_check_name(named[_i].file, named[_i].name, &err), named[_i].status);
    if (named[_i].message)
        EXPECT_MESSAGE(&err, named[_i].message);
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
