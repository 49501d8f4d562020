#include "server/http/target.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <string.h>

/* ---- forms ----------------------------------------------------------------------------------- */

static const struct {
    const char *method, *text;
    const char *authority; /* NULL: none */
    const char *path;
} targets[] = {
    { "GET", "/", NULL, "/" },
    { "GET", "/v1/ops", NULL, "/v1/ops" },
    { "GET", "//x/y", NULL, "//x/y" }, /* no authority: a path may begin so */
    { "GET", "/http://x/", NULL, "/http://x/" },
    { "OPTIONS", "*", NULL, "*" },
    { "GET", "http://x/", "x", "/" },
    { "GET", "hTTp://x:80/v1/ops", "x:80", "/v1/ops" },
    { "GET", "http://[::1]:8080/v1", "[::1]:8080", "/v1" },
    { "GET", "http://x", "x", "/" },
    { "OPTIONS", "http://x", "x", "*" },
    { "OPTIONS", "http://x/", "x", "/" },
    { "GET", "http://x/http://y/", "x", "/http://y/" },
};

TD_TEST_EACH(a_target_has_a_path_and_perhaps_an_authority, targets)
{
    struct td_target target;
    struct td_error err = { 0 };
    ck_assert_msg(td_target_read(targets[_i].method, targets[_i].text, &target, &err) == TD_OK,
                  "%s", err.message);
    ck_assert_str_eq(target.path, targets[_i].path);
    ck_assert_int_eq(target.authority.text != NULL, targets[_i].authority != NULL);
    if (targets[_i].authority) {
        ck_assert_uint_eq(target.authority.length, strlen(targets[_i].authority));
        ck_assert_mem_eq(target.authority.text, targets[_i].authority, target.authority.length);
    }
}

static const struct {
    const char *method, *text;
} wrong[] = {
    { "GET", "" },
    { "GET", "*" },
    { "OPTIONS", "**" },
    { "OPTIONS", "*/" },
    { "GET", "v1/ops" },
    { "GET", "http:" },
    { "GET", "http:/x" },
    { "GET", "http://" },
    { "GET", "http:///x" },
    { "OPTIONS", "http://" },
    { "GET", "http://:80/" },
    { "GET", "http://u@x/" },
    { "GET", "http://x:y/" },
    { "GET", "http://x:80:80/" },
    { "GET", "http://[::1/" },
    { "GET", "http://::1/" },
    { "GET", "http://x y/" },
    { "GET", "https://x/" },
    { "GET", "ftp://x/" },
    { "CONNECT", "x:80" },
};

TD_TEST_EACH(another_form_is_malformed_and_quoted, wrong)
{
    struct td_target target;
    struct td_error err = { 0 };
    ck_assert_msg(td_target_read(wrong[_i].method, wrong[_i].text, &target, &err) ==
                      TD_MALFORMED_REQUEST,
                  "%s %s", wrong[_i].method, wrong[_i].text);
    ck_assert_ptr_nonnull(strstr(err.message, wrong[_i].text));
    ck_assert_str_eq(target.path, wrong[_i].text);
    ck_assert_ptr_null(target.authority.text);
}

TD_TEST(a_path_begins_after_the_authority)
{
    ck_assert_str_eq(td_target_path("/v2?x"), "/v2?x");
    ck_assert_str_eq(td_target_path("http://x/v2?x"), "/v2?x");
    ck_assert_str_eq(td_target_path("HTTP://u@x/v2"), "/v2");
    ck_assert_str_eq(td_target_path("http://x?/v2"), "?/v2");
    ck_assert_str_eq(td_target_path("http://"), "");
    ck_assert_str_eq(td_target_path("*"), "*");
}

/* ---- percent-encoding ------------------------------------------------------------------------ */

static const struct {
    const char *text, *decoded;
    size_t length;
} encoded[] = {
    { "", "", 0 },         { "abc", "abc", 3 },   { "%41", "A", 1 },   { "a%2Fb", "a/b", 3 },
    { "%2f%2F", "//", 2 }, { "%2541", "%41", 3 }, { "%00", "\0", 1 },  { "a%00b", "a\0b", 3 },
    { "%fF", "\xff", 1 },  { "a+b", "a+b", 3 },   { "x%20", "x ", 2 }, { "%c3%a9", "\xc3\xa9", 2 },
};

TD_TEST_EACH(an_escape_decodes_to_one_byte, encoded)
{
    struct td_error err = { 0 };
    const char *text = encoded[_i].text;
    size_t length = strlen(text);
    ck_assert_int_eq(td_target_decode(&text, &length, "the path", &test_arena, &err), TD_OK);
    ck_assert_uint_eq(length, encoded[_i].length);
    ck_assert_mem_eq(text, encoded[_i].decoded, length + 1); /* and a NUL */
    ck_assert_int_eq(text == encoded[_i].text, strchr(encoded[_i].text, '%') == NULL);
}

static const struct {
    const char *text, *escape;
} broken[] = {
    { "%", "'%' in the path" }, { "a%4", "'%4' in the path" }, { "%4g", "'%4g' in" },
    { "%g4z", "'%g4' in" },     { "%%41", "'%%4' in" },        { "%41%", "'%' in" },
    { "%-1", "'%-1' in" },      { "% 1", "'% 1' in" },         { "%0x41", "'%0x' in" },
};

TD_TEST_EACH(an_invalid_escape_is_malformed_and_quoted, broken)
{
    struct td_error err = { 0 };
    const char *text = broken[_i].text;
    size_t length = strlen(text);
    ck_assert_int_eq(td_target_check(text, length, "the path", &err), TD_MALFORMED_REQUEST);
    ck_assert_msg(strstr(err.message, broken[_i].escape) != NULL, "%s", err.message);
    ck_assert_int_eq(td_target_decode(&text, &length, "the path", &test_arena, &err),
                     TD_MALFORMED_REQUEST);
}

TD_TEST(an_escape_ends_with_the_text)
{
    struct td_error err;
    const char *text = "%4141";
    size_t length = 2;
    ck_assert_int_eq(td_target_decode(&text, &length, "it", &test_arena, &err),
                     TD_MALFORMED_REQUEST);
}
