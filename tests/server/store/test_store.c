#include "tests/server/one_store.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <sys/stat.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- loaded files ---------------------------------------------------------------------------- */

TD_TEST(an_npy_file_is_a_table_named_after_it)
{
    put_npy("planets.npy", 10, 5);
    store = open_folder();
    expect_names(store, "planets");
    const struct td_tensor_listing *planets = found(store, "planets");
    ck_assert_str_eq(planets->source, "planets.npy");
    ck_assert_int_eq(planets->tensor->dtype, TD_DTYPE_INT32);
    ck_assert_int_eq(planets->tensor->shape.rank, 1);
    ck_assert_int_eq(planets->tensor->shape.dim[0], 5);
    ck_assert_int_eq(planets->tensor->numel, 5);
    ck_assert_uint_eq(planets->tensor->bytes, 20);
    ck_assert_int_eq(value_of(planets->tensor, 0), 10);
    ck_assert_int_eq(value_of(planets->tensor, 4), 14);
    ck_assert_uint_eq(td_store_usage(store).mapped, 20);
    ck_assert_str_eq(logged(), "");
}

TD_TEST(a_safetensors_file_is_a_table_for_each_of_its_tensors)
{
    put_safetensors("model.safetensors", TWO_TENSORS, 100, 6);
    store = open_folder();
    expect_names(store, "model:b.x model:w");
    ck_assert_str_eq(found(store, "model:w")->source, "model.safetensors");
    ck_assert_int_eq(found(store, "model:w")->tensor->shape.rank, 2);
    ck_assert_int_eq(value_of(found(store, "model:w")->tensor, 3), 103);
    ck_assert_int_eq(value_of(found(store, "model:b.x")->tensor, 1), 105);
    ck_assert_uint_eq(td_store_usage(store).mapped, 24);
}

TD_TEST(tables_are_listed_in_the_order_of_their_names)
{
    static const char *const files[] = { "m.npy", "a.npy",  "Z.npy", "a1.npy",  "a-b.npy",
                                         "_.npy", "aa.npy", "0.npy", "a.b.npy", "mm.npy" };
    for (size_t i = 0; i < COUNT_OF(files); i++)
        put_npy(files[i], (int32_t)i, 1);
    put_safetensors("a.safetensors", TWO_TENSORS, 0, 6);
    store = open_folder();
    expect_names(store, "0 Z _ a a-b a.b a1 a:b.x a:w aa m mm");
    for (size_t i = 0; i < COUNT_OF(files); i++) { /* each is found */
        char name[16];
        snprintf(name, sizeof name, "%.*s", (int)(strlen(files[i]) - 4), files[i]);
        ck_assert_int_eq(value_of(found(store, name)->tensor, 0), (int32_t)i);
    }
}

TD_TEST(each_of_many_tables_is_found)
{
    char name[32];
    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof name, "t%d.npy", i);
        put_npy(name, i, 1);
    }
    store = open_folder();
    ck_assert_int_eq(td_store_usage(store).tensors, 100);
    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof name, "t%d", i);
        ck_assert_int_eq(value_of(found(store, name)->tensor, 0), i);
    }
}

TD_TEST(no_folder_is_an_empty_store)
{
    store = open_at("");
    ck_assert_ptr_nonnull(store);
    expect_names(store, "");
    ck_assert_uint_eq(td_store_usage(store).mapped, 0);
    ck_assert_str_eq(missing_error(store, "a", 1).did_you_mean, "");
    close_store();
    td_store_free(NULL);
}

TD_TEST(an_empty_folder_is_an_empty_store)
{
    store = open_folder();
    expect_names(store, "");
    ck_assert_str_eq(logged(), "");
}

TD_TEST(a_folder_that_cannot_be_read_is_an_error)
{
    char wanted[128];
    snprintf(wanted, sizeof wanted, " error data_dir_unreadable dir=%s/missing ", folder);
    ck_assert_ptr_null(open_at(path_of("missing")));
    ck_assert_ptr_nonnull(strstr(logged(), wanted));
    put_text("file", "x");
    ck_assert_ptr_null(open_at(path_of("file")));
    ck_assert_ptr_nonnull(strstr(logged(), "Not a directory"));
}

/* ---- skipped files
 * ---------------------------------------------------------------------------- */

#define LETTERS_32  "abcdefghijklmnopqrstuvwxyzabcdef"
#define LETTERS_126 LETTERS_32 LETTERS_32 LETTERS_32 "abcdefghijklmnopqrstuvwxyzabcd"

static const struct {
    const char *description, *file;
    const char *name; /* NULL: skipped, and logged */
} file_names[] = {
    { "letters, digits and . _ : - are written as they are", "aZ09._:-.npy", "aZ09._:-" },
    { "128 bytes", LETTERS_126 "xy.npy", LETTERS_126 "xy" },
    { "129 bytes", LETTERS_126 "xyz.npy", NULL },
    { "a space", "a b.npy", NULL },
    { "a quote", "a\"b.npy", NULL },
    { "a percent sign", "a%20b.npy", NULL },
    { "letters beyond ASCII", "\xc3\xa9\xe6\xbc\xa2.npy", "\xc3\xa9\xe6\xbc\xa2" },
    { "128 bytes of 127 characters", LETTERS_126 "\xc3\xa9.npy", LETTERS_126 "\xc3\xa9" },
    { "129 bytes of 128 characters", LETTERS_126 "x\xc3\xa9.npy", NULL },
    { "a decomposed letter, as macOS writes it", "e\xcc\x81.npy", NULL },
    { "a space beside a letter beyond ASCII", "\xc3\xa9 b.npy", NULL },
    { "Latin-1", "caf\xe9.npy", NULL },
    { "a new line", "a\nb.npy", NULL },
    { "a backslash", "a\\b.npy", NULL },
    { "keys that would be a version", "a@1.keys.npy", NULL },
    { "a version with a point", "a@1.key.npy", "a@1.key" },
};

TD_TEST_EACH(files_with_invalid_names_are_skipped, file_names)
{
    put_npy(file_names[_i].file, 0, 1);
    put_npy("good.npy", 1, 1);
    store = open_folder();
    const char *text = logged();
    found(store, "good");
    if (file_names[_i].name) {
        found(store, file_names[_i].name);
        ck_assert_str_eq(text, "");
    } else {
        ck_assert_msg(td_store_usage(store).tensors == 1, "%s", file_names[_i].description);
        ck_assert_msg(strstr(text, " warn table_skipped file=") != NULL, "%s: %s",
                      file_names[_i].description, text);
        ck_assert_ptr_nonnull(strstr(text, "is not a valid tensor name"));
        ck_assert_msg(strchr(text, '\n') == text + strlen(text) - 1, "one line: %s", text);
    }
}

TD_TEST(tensors_with_invalid_names_are_skipped)
{
    put_safetensors("m.safetensors",
                    "{\"a b\":{\"dtype\":\"I32\",\"shape\":[1],\"data_offsets\":[0,4]},"
                    "\"" LETTERS_126 "\":{\"dtype\":\"I32\",\"shape\":[1],\"data_offsets\":[4,8]},"
                    "\"" LETTERS_126
                    "x\":{\"dtype\":\"I32\",\"shape\":[1],\"data_offsets\":[8,12]},"
                    "\"ok\":{\"dtype\":\"I32\",\"shape\":[1],\"data_offsets\":[12,16]}}",
                    7, 4);
    store = open_folder();
    expect_names(store, "m:" LETTERS_126 " m:ok");
    ck_assert_int_eq(value_of(found(store, "m:ok")->tensor, 0), 10);
    const char *text = logged();
    ck_assert_ptr_nonnull(strstr(text, "tensor=\"m:a b\""));
    ck_assert_ptr_nonnull(strstr(text, "tensor=m:" LETTERS_126 "x "));
}

TD_TEST(files_of_other_types_are_ignored_without_a_log_line)
{
    put_text("README.md", "hello");
    put_text("npy", "x");
    put_text("safetensors", "x");
    put_text(".npy", "x");
    put_text("table.npy.bak", "x");
    put_npy(".hidden.npy", 0, 1);
    put_text(".safetensors", "x");
    put_npy("a.npy", 0, 1);
    store = open_folder();
    expect_names(store, "a");
    ck_assert_str_eq(logged(), "");
}

static const struct {
    const char *file, *contents;
    size_t size;
} corrupt[] = {
    { "bad.npy", "", 0 },
    { "bad.npy", "x", 1 },
    { "bad.npy", "\x93NUMPY", 6 },
    { "bad.npy", "\x93NUMPY\x01\x00\xff\xff{", 11 },
    { "bad.npy", "\x93NUMPY\x01\x00\x10\x00{'descr': 'bad' }\n", 28 },
    { "bad.safetensors", "", 0 },
    { "bad.safetensors", "\x02\x00\x00", 3 },
    { "bad.safetensors", "\x02\x00\x00\x00\x00\x00\x00\x00{", 9 },
    { "bad.safetensors", "\xff\xff\xff\xff\xff\xff\xff\xff{}", 10 },
    { "bad.safetensors", "\x02\x00\x00\x00\x00\x00\x00\x00[]", 10 },
};

TD_TEST_EACH(a_corrupt_file_is_skipped_and_the_others_are_served, corrupt)
{
    put_file(corrupt[_i].file, corrupt[_i].contents, corrupt[_i].size);
    put_npy("good.npy", 1, 1);
    put_safetensors("model.safetensors", TWO_TENSORS, 100, 6);
    store = open_folder();
    expect_names(store, "good model:b.x model:w");
    char line[100];
    snprintf(line, sizeof line, " warn table_skipped file=%s reason=", corrupt[_i].file);
    const char *text = logged();
    ck_assert_ptr_nonnull(strstr(text, line));
    if (corrupt[_i].size == 0)
        ck_assert_ptr_nonnull(strstr(text, "it is empty"));
}

#define WITH_FOREIGN_DTYPE                                                                         \
    "{\"w\":{\"dtype\":\"I32\",\"shape\":[4],\"data_offsets\":[0,16]},"                            \
    "\"q\":{\"dtype\":\"F8_E4M3\",\"shape\":[8],\"data_offsets\":[16,24]}}  "

TD_TEST(a_tensor_without_an_equivalent_dtype_is_skipped_and_the_others_of_its_file_are_served)
{
    put_safetensors("m.safetensors", WITH_FOREIGN_DTYPE, 100, 6);
    store = open_folder();
    expect_names(store, "m:w");
    ck_assert_ptr_nonnull(strstr(logged(), " warn table_skipped file=m.safetensors tensor=m:q "
                                           "reason=\"tensor \\\"q\\\" has dtype "
                                           "\\\"F8_E4M3\\\"; expected BOOL"));
}

TD_TEST(a_tensor_is_dropped_when_a_new_file_has_it_in_a_dtype_without_an_equivalent)
{
    put_safetensors("m.safetensors", TWO_TENSORS, 0, 6);
    store = open_folder();
    expect_names(store, "m:b.x m:w");
    ck_assert_int_eq(unlink(path_of("m.safetensors")), 0);
    put_safetensors("m.safetensors", WITH_FOREIGN_DTYPE, 100, 6);
    td_store_rescan(store);
    expect_names(store, "m:w");
    ck_assert_int_eq(value_of(found(store, "m:w")->tensor, 0), 100);
    ck_assert_int_eq(unlink(path_of("m.safetensors")), 0);
    put_safetensors("m.safetensors", TWO_TENSORS, 200, 6);
    td_store_rescan(store);
    expect_names(store, "m:b.x m:w");
}

TD_TEST(a_table_whose_keys_have_no_equivalent_dtype_is_not_served_without_them)
{
    put_safetensors("m.safetensors",
                    "{\"w\":{\"dtype\":\"I32\",\"shape\":[4],\"data_offsets\":[0,16]},"
                    "\"w.keys\":{\"dtype\":\"F8_E4M3\",\"shape\":[4],\"data_offsets\":[16,20]},"
                    "\"v\":{\"dtype\":\"I32\",\"shape\":[1],\"data_offsets\":[20,24]}}",
                    0, 6);
    store = open_folder();
    expect_names(store, "m:v");
    ck_assert_ptr_nonnull(strstr(logged(), "tensor=m:w reason=\"tensor \\\"w.keys\\\" has dtype"));
}

TD_TEST(a_truncated_file_is_skipped)
{
    put_npy("whole.npy", 0, 10);
    put_safetensors("whole.safetensors", TWO_TENSORS, 0, 6);
    put_npy("cut.npy", 0, 10);
    put_safetensors("cut.safetensors", TWO_TENSORS, 0, 6);
    struct stat info;
    ck_assert_int_eq(stat(path_of("cut.npy"), &info), 0);
    ck_assert_int_eq(truncate(path_of("cut.npy"), info.st_size - 1), 0);
    ck_assert_int_eq(stat(path_of("cut.safetensors"), &info), 0);
    ck_assert_int_eq(truncate(path_of("cut.safetensors"), info.st_size - 1), 0);
    store = open_folder();
    expect_names(store, "whole whole:b.x whole:w");
}

TD_TEST(only_regular_files_are_loaded)
{
    put_npy("good.npy", 1, 1);
    ck_assert_int_eq(mkdir(path_of("folder.npy"), 0700), 0);
    ck_assert_int_eq(symlink("nowhere", path_of("dangling.npy")), 0);
    ck_assert_int_eq(mkfifo(path_of("pipe.npy"), 0600), 0); /* it never has a writer */
    ck_assert_int_eq(symlink("good.npy", path_of("link.npy")), 0);
    store = open_folder();
    expect_names(store, "good link");
    const char *text = logged();
    ck_assert_ptr_nonnull(strstr(text, "file=folder.npy"));
    ck_assert_ptr_nonnull(strstr(text, "file=dangling.npy"));
    ck_assert_ptr_nonnull(strstr(text, "file=pipe.npy"));
}

TD_TEST(one_of_two_tensors_with_the_same_name_is_served)
{
    put_npy("m:w.npy", 1, 1); /* m:w as well */
    put_safetensors("m.safetensors", TWO_TENSORS, 100, 6);
    store = open_folder();
    expect_names(store, "m:b.x m:w");
    ck_assert_ptr_nonnull(
        strstr(logged(), "m.safetensors takes precedence and contains a tensor of this name"));
}

/* ---- looking up ------------------------------------------------------------------------------ */

static const struct {
    const char *name;
    size_t length;
    const char *near; /* "" when none is */
} missing[] = {
    { "planet", 6, "planets" },
    { "planetss", 8, "planets" },
    { "plantes", 7, "planets" },
    { "Planets", 7, "planets" },
    { "model:v", 7, "model:w" },
    { "model", 5, "model:b.x" },
    { "", 0, "" },
    { "quite another thing", 19, "" },
    { "planets/../planets", 18, "" },
};

TD_TEST_EACH(an_unknown_name_gets_a_suggestion, missing)
{
    put_npy("planets.npy", 0, 1);
    put_safetensors("model.safetensors", TWO_TENSORS, 0, 6);
    store = open_folder();
    const struct td_error err = missing_error(store, missing[_i].name, missing[_i].length);
    ck_assert_str_eq(err.did_you_mean, missing[_i].near);
    EXPECT_MESSAGE(&err, missing[_i].name);
    EXPECT_MESSAGE(&err, "GET /v1/tensors");
}

TD_TEST(suggestions_come_from_adjacent_names)
{
    store = open_at("");
    const struct td_tensor t = tensor("int8[1] 1");
    struct td_tensor_listing listing;
    struct td_error err;
    char name[16];
    bool created;
    for (int i = 0; i < 2000; i++) {
        const struct td_store_write write = { .name = name };
        snprintf(name, sizeof name, "n%05d", i * 10);
        ck_assert_int_eq(td_store_put(store, &write, &t, &test_arena, &listing, &created, &err),
                         TD_OK);
    }
    ck_assert_str_eq(missing_error(store, "n00001", 6).did_you_mean, "n00000");
    ck_assert_str_eq(missing_error(store, "n1000", 5).did_you_mean, "n10000");
    ck_assert_str_eq(missing_error(store, "n19990x", 7).did_you_mean, "n19990");
    ck_assert_str_eq(missing_error(store, "z", 1).did_you_mean, "");
}

TD_TEST(among_long_names_the_closest_in_order_are_compared_first)
{
    store = open_at("");
    const struct td_tensor t = tensor("int8[1] 1");
    struct td_tensor_listing listing;
    struct td_error err;
    char name[64];
    bool created;
    for (int i = 0; i < 2000; i++) {
        const struct td_store_write write = { .name = name };
        snprintf(name, sizeof name, "model:encoder.layer.%05d.attention.self.query.weight", i * 10);
        ck_assert_int_eq(td_store_put(store, &write, &t, &test_arena, &listing, &created, &err),
                         TD_OK);
    }
    static const char missing_name[] = "model:encoder.layer.12340.atention.self.querry.weight";
    ck_assert_str_eq(missing_error(store, missing_name, sizeof missing_name - 1).did_you_mean,
                     "model:encoder.layer.12340.attention.self.query.weight");
}

TD_TEST(a_name_is_compared_by_length_and_bytes)
{
    put_npy("planets.npy", 0, 1);
    store = open_folder();
    struct td_tensor_listing listing;
    ck_assert_int_eq(td_store_get(store, "planets and more", 7, &test_arena, &listing, TD_IGNORED),
                     TD_OK);
    missing_error(store, "planets and more", 8);
    missing_error(store, "planets", 6);
}

TD_TEST(a_nul_is_a_byte_of_a_name_like_any_other)
{
    static const size_t lengths[] = { 8, 9, 129, 130, 1000, 100000 };
    put_npy("planets.npy", 0, 1);
    store = open_folder();
    char *name = calloc(1, 100000);
    strcpy(name, "planets");
    for (size_t i = 0; i < COUNT_OF(lengths); i++) {
        memset(name + 8, 'x', lengths[i] - 8);
        missing_error(store, name, lengths[i]);
    }
    memset(name, 'x', 100000); /* long, and not similar to any */
    missing_error(store, name, 100000);
    free(name);
}

TD_TEST(resolving_a_name_returns_the_tensor)
{
    put_npy("planets.npy", 10, 5);
    store = open_folder();
    struct td_resolver *resolver = td_store_resolver(store);
    struct td_tensor tensor;
    struct td_error err;
    ck_assert_int_eq(resolver->resolve(resolver, "planets", 7, &test_arena, &tensor, &err), TD_OK);
    ck_assert_int_eq(tensor.dtype, TD_DTYPE_INT32);
    ck_assert_int_eq(value_of(&tensor, 4), 14);
    ck_assert_int_eq(resolver->resolve(resolver, "planet", 6, &test_arena, &tensor, &err),
                     TD_TENSOR_NOT_FOUND);
    ck_assert_str_eq(err.did_you_mean, "planets");
}

TD_TEST(a_resolved_tensor_outlives_the_store)
{
    put_npy("planets.npy", 10, 5);
    put_safetensors("model.safetensors", TWO_TENSORS, 100, 6);
    store = open_folder();
    struct td_resolver *resolver = td_store_resolver(store);
    struct td_tensor planets, again, w;
    struct td_error err;
    ck_assert_int_eq(resolver->resolve(resolver, "planets", 7, &test_arena, &planets, &err), TD_OK);
    ck_assert_int_eq(resolver->resolve(resolver, "planets", 7, &test_arena, &again, &err), TD_OK);
    ck_assert_int_eq(resolver->resolve(resolver, "model:w", 7, &test_arena, &w, &err), TD_OK);
    td_store_free(store);
    store = NULL;
    ck_assert_int_eq(value_of(&planets, 4), 14); /* mapped still */
    ck_assert_int_eq(value_of(&again, 0), 10);
    ck_assert_int_eq(value_of(&w, 0), 100);
}

TD_FIXTURE(one_store_begin, one_store_end);
