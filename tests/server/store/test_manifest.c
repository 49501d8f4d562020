/* The text of a manifest, which may be hostile. */
#include "server/store/scan/manifest.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <stdio.h>
#include <string.h>

#define SHA           "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define FILE_OF(name) "\"" name "\":{\"size\":1,\"sha256\":\"" SHA "\"}"

static struct td_error err;
static struct td_manifest manifest;

static td_status read(const char *text, const char *version)
{
    return td_manifest_read(text, strlen(text), version, &test_arena, &manifest, &err);
}

TD_TEST(files_and_aliases_are_read)
{
    ck_assert_int_eq(read("{\"files\":{\"m.safetensors\":{\"size\":9223372036854775807,\"sha256\":"
                          "\"" SHA "\"}, " FILE_OF(
                              "t.npy") "},"
                                       "\"aliases\":{\"movies\":\"m:w@7\",\"t\":\"other@1\"}}\n",
                          "7"),
                     TD_OK);
    ck_assert_int_eq(manifest.n_files, 2);
    ck_assert_str_eq(manifest.files[0].name, "m.safetensors");
    ck_assert_str_eq(manifest.files[0].versioned, "m@7.safetensors");
    ck_assert_uint_eq(manifest.files[0].size, INT64_MAX);
    ck_assert_int_eq(manifest.files[0].sha256[1], 0x23);
    ck_assert_int_eq(manifest.files[1].sha256[31], 0xef);
    ck_assert_str_eq(manifest.files[1].versioned, "t@7.npy");
    ck_assert_int_eq(manifest.aliases.count, 2);
    ck_assert_str_eq(manifest.aliases.pairs[1].value, "other@1");
}

TD_TEST(a_manifest_can_list_many_files)
{
    enum { FILES = 40 };
    char text[8192], name[32];
    size_t n = (size_t)snprintf(text, sizeof text, "{\"files\":{");
    for (int i = 0; i < FILES; i++)
        n += (size_t)snprintf(text + n, sizeof text - n,
                              "%s\"t%d.npy\":{\"size\":%d,\"sha256\":\"" SHA "\"}",
                              i > 0 ? "," : "", i, i);
    snprintf(text + n, sizeof text - n, "}}");
    EXPECT(read(text, "7") == TD_OK, "%s", err.message);
    ck_assert_int_eq(manifest.n_files, FILES);
    for (int i = 0; i < FILES; i++) {
        snprintf(name, sizeof name, "t%d.npy", i);
        ck_assert_str_eq(manifest.files[i].name, name);
        ck_assert_uint_eq(manifest.files[i].size, (unsigned)i);
    }
}

#define LETTERS_64 "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijkl"

static const struct {
    const char *text, *reason;
} refused[] = {
    { "", "JSON object" },
    { "[]", "JSON object" },
    { "{", "" },
    { "{}", "no files" },
    { "{\"files\":{}}", "no files" },
    { "{\"files\":null}", "no files" },
    { "{\"files\":[]}", "expected an object" },
    { "{\"files\":{" FILE_OF("t.npy") "}} x", "the end" },
    { "{\"files\":{" FILE_OF("t.npy") "," FILE_OF("t.npy") "}}", "given twice" },
    { "{\"files\":{" FILE_OF("t.npy") "},\"files\":{}}", "given twice" },
    { "{\"files\":{" FILE_OF("t.npy") "},\"more\":1}", "\"more\" is unknown" },
    { "{\"files\":{" FILE_OF("../t.npy") "}}", "not the name" },
    { "{\"files\":{" FILE_OF("/etc/t.npy") "}}", "is not a valid name" },
    { "{\"files\":{" FILE_OF("a/t.npy") "}}", "is not a valid name" },
    { "{\"files\":{" FILE_OF("..npy") "}}", "not the name" },
    { "{\"files\":{" FILE_OF(".hidden.npy") "}}", "not the name" },
    { "{\"files\":{" FILE_OF("..") "}}", "not the name" },
    { "{\"files\":{" FILE_OF("") "}}", "not the name" },
    { "{\"files\":{" FILE_OF("manifest.json") "}}", "not the name" },
    { "{\"files\":{" FILE_OF("t.npy\\u0000") "}}", "not the name" },
    { "{\"files\":{" FILE_OF("t\\u0000.npy") "}}", "not the name" },
    { "{\"files\":{" FILE_OF("t@6.npy") "}}", "is not a valid name" },
    { "{\"files\":{" FILE_OF("t t.npy") "}}", "is not a valid name" },
    { "{\"files\":{" FILE_OF("e\xcc\x81.npy") "}}", "is not a valid name: it is not in Unicode" },
    { "{\"files\":{" FILE_OF(LETTERS_64 LETTERS_64 ".npy") "}}", "is not a valid name" },
    { "{\"files\":{\"t.npy\":{\"size\":1}}}", "t.npy has no sha256" },
    { "{\"files\":{\"t.npy\":{\"sha256\":\"" SHA "\"}}}", "t.npy has no size" },
    { "{\"files\":{\"t.npy\":{}}}", "t.npy has no size" },
    { "{\"files\":{\"t.npy\":null}}", "t.npy has no size" },
    { "{\"files\":{\"t.npy\":1}}", "expected an object" },
    { "{\"files\":{\"t.npy\":{\"size\":-1,\"sha256\":\"" SHA "\"}}}", "size" },
    { "{\"files\":{\"t.npy\":{\"size\":9223372036854775808,\"sha256\":\"" SHA "\"}}}", "size" },
    { "{\"files\":{\"t.npy\":{\"size\":1.5,\"sha256\":\"" SHA "\"}}}", "size" },
    { "{\"files\":{\"t.npy\":{\"size\":1e3,\"sha256\":\"" SHA "\"}}}", "size" },
    { "{\"files\":{\"t.npy\":{\"size\":\"1\",\"sha256\":\"" SHA "\"}}}", "size" },
    { "{\"files\":{\"t.npy\":{\"size\":1,\"sha256\":\"" SHA "0\"}}}", "64 hexadecimal" },
    { "{\"files\":{\"t.npy\":{\"size\":1,\"sha256\":\"\"}}}", "64 hexadecimal" },
    { "{\"files\":{\"t.npy\":{\"size\":1,\"sha256\":\"X123456789abcdef0123456789abcdef0123456789"
      "abcdef0123456789abcdef\"}}}",
      "64 hexadecimal" },
    { "{\"files\":{\"t.npy\":{\"size\":1,\"sha256\":\"" SHA "\",\"more\":1}}}", "is unknown" },
    { "{\"files\":{" FILE_OF("t.npy") "},\"aliases\":{\"a\":null}}", "null" },
    { "{\"files\":{" FILE_OF("t.npy") "},\"aliases\":{\"a\":\"b\"}}", "expected a version" },
    { "{\"files\":{" FILE_OF("t.npy") "},\"aliases\":{\"a@1\":\"b@1\"}}", "cannot be an alias" },
    { "{\"files\":{" FILE_OF("t.npy") "},\"aliases\":{\"a\":\"b@1\",\"a\":\"c@1\"}}",
      "given twice" },
    { "{\"files\":{" FILE_OF("t.npy") "},\"aliases\":[]}", "expected an object" },
};

TD_TEST_EACH(another_document_is_refused, refused)
{
    const td_status status = read(refused[_i].text, "7");
    ck_assert_msg(status == TD_MALFORMED_REQUEST, "%s: %d", refused[_i].text, (int)status);
    ck_assert_msg(strstr(err.message, refused[_i].reason) != NULL, "%s: %s", refused[_i].text,
                  err.message);
}

TD_TEST(each_beginning_of_a_manifest_is_refused)
{
    static const char text[] = "{\"files\":{" FILE_OF("t.npy") "},\"aliases\":{\"a\":\"t@7\"}}";
    for (size_t n = 0; n + 1 < sizeof text; n++)
        ck_assert_int_eq(td_manifest_read(text, n, "7", &test_arena, &manifest, &err),
                         TD_MALFORMED_REQUEST);
    ck_assert_int_eq(read(text, "7"), TD_OK);
}
