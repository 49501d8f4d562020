#include "api/message/common_members.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <string.h>

static struct td_common_members members;
static struct td_error err;

static td_status set(const char *name, const struct td_attr_value *value)
{
    const enum td_common_member member = td_common_member_find(name, strlen(name), 2);
    ck_assert_int_ne(member, TD_COMMON_MEMBER_COUNT);
    return td_common_member_set(&members, member, value, &test_arena, &err);
}

static td_status set_text(const char *name, const char *text)
{
    return set(name, &(struct td_attr_value){
                         .kind = TD_VALUE_TEXT, .text = text, .text_length = strlen(text) });
}

static const struct {
    const char *name, *text;
    bool accepted;
} texts[] = {
    { "device", "auto", true },
    { "device", "cpu", true },
    { "device", "gpu", true },
    { "device", "tpu", false },
    { "response", "flat", true },
    { "response", "base64", true },
    { "response", "nested", true },
    { "response", "xml", false },
    { "timing", "0", true },
    { "timing", "1", true },
    { "timing", "true", true },
    { "timing", "false", true },
    { "timing", "yes", false },
    { "timing", "2", false },
    { "store", "name", true },
    { "store", "1", true },
    { "store.ttl_s", "1", true },
    { "store.ttl_s", "31536000", true },
    { "store.ttl_s", "0", false },
    { "store.ttl_s", "31536001", false },
    { "store.ttl_s", "-1", false },
    { "store.ttl_s", "1.5", false },
    { "store.ttl_s", "", false },
    { "output_dtype", "float16", true },
    { "output_dtype", "bfloat16", true },
    { "output_dtype", "float32", true },
    { "output_dtype", "float64", true },
    { "output_dtype", "int8", false },
    { "output_dtype", "complex64", false },
    { "output_dtype", "", false },
};

TD_TEST_EACH(text_is_parsed_as_the_kind_of_the_member, texts)
{
    const td_status status = set_text(texts[_i].name, texts[_i].text);
    ck_assert_msg((status == TD_OK) == texts[_i].accepted, "%s=%s", texts[_i].name, texts[_i].text);
    if (status != TD_OK) {
        ck_assert_int_eq(status, TD_MALFORMED_REQUEST);
        ck_assert_str_eq(err.attribute, texts[_i].name);
        EXPECT_MESSAGE(&err, "expected");
    }
}

static const struct {
    const char *case_name, *name;
    struct td_attr_value value;
    bool accepted;
} values[] = {
    { "a name to store under", "store", LIST(.kind = TD_VALUE_TEXT, .text = "x", .text_length = 1),
      true },
    { "an integer for a name", "store", LIST(.kind = TD_VALUE_INT, .integer = 1), false },
    { "a name with a NUL", "store", LIST(.kind = TD_VALUE_TEXT, .text = "a\0b", .text_length = 3),
      false },
    { "true for a name", "store",
      LIST(.kind = TD_VALUE_BOOL, .boolean = true, .text = "true", .text_length = 4), false },
    { "timing as 1", "timing", LIST(.kind = TD_VALUE_INT, .integer = 1), true },
    { "timing as 2", "timing", LIST(.kind = TD_VALUE_INT, .integer = 2), false },
    { "timing as true", "timing",
      LIST(.kind = TD_VALUE_BOOL, .boolean = true, .text = "true", .text_length = 4), true },
    { "timing as null", "timing", LIST(.kind = TD_VALUE_OTHER, .text = "null", .text_length = 4),
      false },
    { "a time to live", "store.ttl_s", LIST(.kind = TD_VALUE_INT, .integer = 60), true },
    { "no time to live", "store.ttl_s", LIST(.kind = TD_VALUE_INT, .integer = 0), false },
    { "a fraction of a second", "store.ttl_s",
      LIST(.kind = TD_VALUE_FLOAT, .number = 0.5, .text = "0.5", .text_length = 3), false },
};

TD_TEST_EACH(typed_values_must_have_the_kind_of_the_member, values)
{
    ck_assert_msg((set(values[_i].name, &values[_i].value) == TD_OK) == values[_i].accepted, "%s",
                  values[_i].case_name);
}

TD_TEST(the_error_of_a_time_to_live_states_the_limits)
{
    ck_assert_int_eq(set_text("store.ttl_s", "0"), TD_MALFORMED_REQUEST);
    EXPECT_MESSAGE(&err,
                   "store.ttl_s is \"0\"; expected an integer from 1 to 31536000, in seconds");
}

TD_TEST(an_unknown_layout_has_a_hint_about_binary_formats)
{
    ck_assert_int_eq(set_text("response", "npy"), TD_MALFORMED_REQUEST);
    EXPECT_MESSAGE(&err, TD_BINARY_HINT);
    ck_assert_int_eq(td_common_member_choose("response", td_layout_names, "npy", 3, &err), -1);
    EXPECT_MESSAGE(&err, TD_BINARY_HINT);
}

TD_TEST(an_unknown_output_dtype_gets_the_nearest_name)
{
    ck_assert_int_eq(set_text("output_dtype", "half"), TD_MALFORMED_REQUEST);
    ck_assert_str_eq(err.did_you_mean, "float16");
}

TD_TEST(only_requests_with_several_outputs_can_select_outputs)
{
    ck_assert_int_eq(td_common_member_find("outputs", 7, 2), TD_COMMON_OUTPUTS);
    ck_assert_int_eq(td_common_member_find("outputs", 7, 1), TD_COMMON_MEMBER_COUNT);
    ck_assert_int_eq(td_common_member_find("outputs", 7, 0), TD_COMMON_MEMBER_COUNT);
}

TD_TEST(requests_without_outputs_have_no_members_about_outputs)
{
    ck_assert_int_eq(td_common_member_find("device", 6, 0), TD_COMMON_DEVICE);
    ck_assert_int_eq(td_common_member_find("timing", 6, 0), TD_COMMON_TIMING);
    ck_assert_int_eq(td_common_member_find("store", 5, 0), TD_COMMON_MEMBER_COUNT);
    ck_assert_int_eq(td_common_member_find("store.ttl_s", 11, 0), TD_COMMON_MEMBER_COUNT);
    ck_assert_int_eq(td_common_member_find("response", 8, 0), TD_COMMON_MEMBER_COUNT);
    ck_assert_int_eq(td_common_member_find("output_dtype", 12, 0), TD_COMMON_MEMBER_COUNT);
}

TD_TEST(only_an_unknown_layout_has_a_hint_at_binary_formats)
{
    ck_assert_int_eq(set_text("response", "xml"), TD_MALFORMED_REQUEST);
    EXPECT_MESSAGE(&err, TD_BINARY_HINT);
    ck_assert_int_eq(set_text("device", "tpu"), TD_MALFORMED_REQUEST);
    ck_assert_ptr_null(strstr(err.message, TD_BINARY_HINT));
}
