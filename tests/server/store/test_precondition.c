#include "server/store/etag.h"
#include "server/store/precondition.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <string.h>

static const struct {
    const char *description, *list, *etag;
    bool strong, weak; /* whether it is listed */
} lists[] = {
    { "one tag", "\"a\"", "\"a\"", true, true },
    { "another tag", "\"b\"", "\"a\"", false, false },
    { "a list", "\"b\", \"a\"", "\"a\"", true, true },
    { "blanks and empty elements", " ,\"b\" ,\t, \"a\" , ", "\"a\"", true, true },
    { "a comma within quotes is part of the tag", "\"a,b\"", "\"a,b\"", true, true },
    { "... and does not separate tags", "\"a,b\"", "\"a\"", false, false },
    { "a weak tag never matches strongly", "W/\"a\"", "\"a\"", false, true },
    { "a weak one beside a strong one", "W/\"a\", \"a\"", "\"a\"", true, true },
    { "any", "*", "\"a\"", true, true },
    { "any, between blanks", " * ", "\"a\"", true, true },
    { "any, but the tensor does not exist", "*", NULL, false, false },
    { "a tag, but the tensor does not exist", "\"a\"", NULL, false, false },
    { "an empty tag", "\"\"", "\"a\"", false, false },
    { "a prefix does not match", "\"ab\"", "\"a\"", false, false },
};

TD_TEST_EACH(a_list_matches_an_entity_tag_or_not, lists)
{
    bool listed;
    struct td_error err;
    ck_assert_int_eq(
        td_etag_listed("If-Match", lists[_i].list, lists[_i].etag, false, &listed, &err), TD_OK);
    ck_assert_msg(listed == lists[_i].strong, "%s", lists[_i].description);
    ck_assert_int_eq(
        td_etag_listed("If-Match", lists[_i].list, lists[_i].etag, true, &listed, &err), TD_OK);
    ck_assert_msg(listed == lists[_i].weak, "%s", lists[_i].description);
}

TD_TEST(each_format_has_a_tag)
{
    char json[TD_ETAG_SIZE], npy[TD_ETAG_SIZE], safetensors[TD_ETAG_SIZE];
    bool listed;
    struct td_error err;
    td_etag_of_format("\"a\"", TD_FORMAT_JSON, json);
    td_etag_of_format("\"a\"", TD_FORMAT_NPY, npy);
    td_etag_of_format("\"a\"", TD_FORMAT_SAFETENSORS, safetensors);
    ck_assert_str_eq(json, "\"a\"");
    ck_assert_str_eq(npy, "\"a-npy\"");
    ck_assert_str_eq(safetensors, "\"a-safetensors\"");
    ck_assert_int_eq(td_etag_listed("If-None-Match", json, npy, true, &listed, &err), TD_OK);
    ck_assert(!listed);
}

static const char *const no_lists[] = { "",         " ",        "a",           "\"a",
                                        "a\"",      "**",       "\"a\" \"b\"", "w/\"a\"",
                                        "*, \"a\"", "\"a\", *", "W/ \"a\"",    ",",
                                        "W/" };

TD_TEST_EACH(a_malformed_list_is_rejected, no_lists)
{
    bool listed;
    struct td_error err;
    ck_assert_msg(td_etag_listed("If-None-Match", no_lists[_i], "\"a\"", true, &listed, &err) ==
                      TD_MALFORMED_REQUEST,
                  "%s", no_lists[_i]);
    ck_assert_str_eq(err.attribute, "If-None-Match");
    EXPECT_MESSAGE(&err, "If-None-Match");
}

static const struct {
    const char *description, *if_match, *if_none_match, *etag;
    const char *refused; /* the failing header; NULL if the conditions hold */
} conditions[] = {
    { "no condition, no tensor", NULL, NULL, NULL, NULL },
    { "no condition, a tensor", NULL, NULL, "\"1\"", NULL },
    { "If-Match of the current version", "\"1\"", NULL, "\"1\"", NULL },
    { "If-Match of an older version", "\"1\"", NULL, "\"2\"", "If-Match" },
    { "If-Match of a deleted tensor", "\"1\"", NULL, NULL, "If-Match" },
    { "replace only", "*", NULL, "\"1\"", NULL },
    { "replace only, but there is no tensor", "*", NULL, NULL, "If-Match" },
    { "create only", NULL, "*", NULL, NULL },
    { "create only, but there is a tensor", NULL, "*", "\"1\"", "If-None-Match" },
    { "If-None-Match of the current version", NULL, "\"1\"", "\"1\"", "If-None-Match" },
    { "... as a weak tag", NULL, "W/\"1\"", "\"1\"", "If-None-Match" },
    { "If-None-Match of another version", NULL, "\"2\"", "\"1\"", NULL },
    { "If-Match is evaluated first", "\"2\"", "\"1\"", "\"1\"", "If-Match" },
    { "both have to hold", "\"1\"", "\"1\"", "\"1\"", "If-None-Match" },
    { "both hold", "\"1\"", "\"2\"", "\"1\"", NULL },
    { "If-Match of the version as .npy", "\"1-npy\"", NULL, "\"1\"", NULL },
    { "... as safetensors", "\"1-safetensors\"", NULL, "\"1\"", NULL },
    { "... as a format that does not exist", "\"1-json\"", NULL, "\"1\"", "If-Match" },
    { "... of another version", "\"2-npy\"", NULL, "\"1\"", "If-Match" },
    { "If-None-Match of the version as .npy", NULL, "\"1-npy\"", "\"1\"", "If-None-Match" },
};

TD_TEST_EACH(a_failed_condition_returns_the_current_etag, conditions)
{
    struct td_error err;
    const struct td_condition condition = { conditions[_i].if_match, conditions[_i].if_none_match };
    const td_status status = td_condition_check(&condition, "t", conditions[_i].etag, &err);
    const char *refused = conditions[_i].refused;
    ck_assert_msg(status == (refused ? TD_PRECONDITION_FAILED : TD_OK), "%s",
                  conditions[_i].description);
    if (refused) {
        ck_assert_str_eq(err.attribute, refused);
        ck_assert_str_eq(err.etag, conditions[_i].etag ? conditions[_i].etag : "");
        ck_assert_str_eq(err.etag_of, conditions[_i].etag ? "t" : "");
        ck_assert(!conditions[_i].etag || !strstr(err.message, conditions[_i].etag));
    }
}

static const struct {
    const char *if_match, *if_none_match, *etag, *message;
} reasons[] = {
    { "\"1\"", NULL, "\"2\"", "If-Match does not match the current version of 't'" },
    { "W/\"2\"", NULL, "\"2\"",
      "If-Match does not match the current version of 't'; a weak ETag, W/\"...\", never matches" },
    { "\"1\"", NULL, NULL, "If-Match requires a version of 't', which does not exist" },
    { NULL, "*", "\"1\"",
      "'t' exists, but If-None-Match: * requires that it does not; send If-Match with its ETag to "
      "replace it if it has not changed" },
    { NULL, "\"1\"", "\"1\"", "'t' still has an ETag that If-None-Match lists" },
};

TD_TEST_EACH(an_error_says_which_condition_does_not_hold, reasons)
{
    const struct td_condition condition = { .if_match = reasons[_i].if_match,
                                            .if_none_match = reasons[_i].if_none_match };
    struct td_error err;
    ck_assert_int_eq(td_condition_check(&condition, "t", reasons[_i].etag, &err),
                     TD_PRECONDITION_FAILED);
    ck_assert_str_eq(err.message, reasons[_i].message);
}
