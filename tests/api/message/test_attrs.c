#include "api/message/attr_values.h"
#include "api/message/attrs.h"
#include "api/message/common_members.h"
#include "api/message/message.h"
#include "tests/api/request.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <string.h>

static struct td_request request;
static struct td_error err;

static void begin(void)
{
    td_request_init(&request, &list_op);
}

static td_status set_text(const char *name, const char *text, bool *known)
{
    return td_attrs_set_text(&request, name, strlen(name), text, strlen(text), &test_arena, known,
                             &err);
}

static td_status set(const char *name, struct td_attr_value value, bool *known)
{
    return td_attrs_set(&request, name, strlen(name), &value, &test_arena, known, &err);
}

static int64_t count(void)
{
    int64_t value;
    memcpy(&value, request.args.attrs + list_op.attrs[0].offset, sizeof value);
    return value;
}

/* The index in the list of names. */
static unsigned size(void)
{
    unsigned value;
    memcpy(&value, request.args.attrs + list_op.attrs[3].offset, sizeof value);
    return value;
}

TD_TEST(a_request_is_initialized_with_defaults)
{
    begin();
    ck_assert_int_eq(count(), 7);
    ck_assert_int_eq(td_request_bounds(&request), TD_BOUNDS_CLIP);
    ck_assert_uint_eq(size(), 1);
    ck_assert_int_eq(request.common.device, TD_DEVICE_AUTO);
    ck_assert_int_eq(request.common.layout, TD_LAYOUT_NESTED);
    ck_assert(!request.common.timing);
    ck_assert_ptr_null(request.common.store);
    ck_assert_uint_eq(request.args.attrs_set, 0);
    ck_assert_ptr_null(request.args.inputs[0].tensors);
}

static const struct {
    const char *name, *text;
    bool accepted;
} texts[] = {
    { "count", "0", true },
    { "count", "-12", true },
    { "count", "+5", true },
    { "count", "9223372036854775807", true },
    { "count", "-9223372036854775808", true },
    { "count", "9223372036854775808", false },
    { "count", "-9223372036854775809", false },
    { "count", "", false },
    { "count", "-", false },
    { "count", "1.0", false },
    { "count", " 1", false },
    { "count", "0x10", false },
    { "count", "1e3", false },
    { "bounds", "error", true },
    { "bounds", "zero", true },
    { "bounds", "clip", true },
    { "bounds", "wrap", true },
    { "bounds", "Zero", false },
    { "bounds", "", false },
    { "size", "small", true },
    { "size", "huge", true },
    { "size", "clip", false },
    { "size", "2", false },
    { "equation", "", true },
    { "equation", "1", true },
    { "axes", "", true },
    { "axes", "0", true },
    { "axes", "0,-2,+5", true },
    { "axes", "0,", false },
    { "axes", ",0", false },
    { "axes", "0, 1", false },
    { "axes", "0.5", false },
    { "axes", "all", false },
    { "axes", "[0]", false },
    { "axes", "9223372036854775808", false },
    { "axes",
      "0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,"
      "0,0,"
      "0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0",
      true },
    { "axes",
      "0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,"
      "0,0,"
      "0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0",
      false },
    { "epsilon", "0.25", true },
    { "epsilon", "0.11111111111111111111111111111111111111111111111111111111111111",
      true }, /* 64 characters */
    { "epsilon", "0.111111111111111111111111111111111111111111111111111111111111111", false },
    { "epsilon", "1", true },
    { "epsilon", "-1e-7", true },
    { "epsilon", "1e999", false },
    { "epsilon", "nan", false },
    { "epsilon", "inf", false },
    { "epsilon", ".5", false },
    { "epsilon", "0.5x", false },
    { "epsilon", "", false },
    { "keep", "true", true },
    { "keep", "false", true },
    { "keep", "1", true },
    { "keep", "0", true },
    { "keep", "True", false },
    { "keep", "", false },
    { "dtype", "int64", true },
    { "dtype", "string", true },
    { "dtype", "float31", false },
    { "dtype", "INT64", false },
};

TD_TEST_EACH(text_is_parsed_as_the_kind_of_the_attribute, texts)
{
    bool known;
    begin();
    td_status status = set_text(texts[_i].name, texts[_i].text, &known);
    ck_assert(known);
    ck_assert_msg((status == TD_OK) == texts[_i].accepted, "%s=%s", texts[_i].name, texts[_i].text);
    if (status != TD_OK) {
        ck_assert_int_eq(status, TD_MALFORMED_REQUEST);
        ck_assert_str_eq(err.attribute, texts[_i].name);
        EXPECT_MESSAGE(&err, "expected");
    }
}

/* Parses the first `length` characters as a number. Returns -1 if they are not a number. */
static double number_of(const char *text, size_t length)
{
    const struct td_attr_spec spec = { .kind = TD_ATTR_FLOAT };
    struct td_attr_value value;
    const td_status status = td_attr_of_text(&spec, text, length, &test_arena, &value, &err);
    return status == TD_OK && value.kind == TD_VALUE_FLOAT ? value.number : -1;
}

TD_TEST(a_number_ends_with_the_text_whatever_follows_or_was_parsed_before)
{
    const double numbers[] = {
        number_of("0.11111111111111111111", 22),
        number_of("0.25", 4),
        number_of("0.25678", 4),
        number_of("2&k=3", 1),
    };
    ck_assert(numbers[0] == 0.11111111111111111111);
    ck_assert(numbers[1] == 0.25);
    ck_assert(numbers[2] == 0.25);
    ck_assert(numbers[3] == 2);
}

static const struct {
    const char *case_name, *name;
    struct td_attr_value value;
    bool accepted;
} values[] = {
    { "an integer", "count", LIST(.kind = TD_VALUE_INT, .integer = 3), true },
    { "text for an integer", "count", LIST(.kind = TD_VALUE_TEXT, .text = "3", .text_length = 1),
      false },
    { "an integer for text", "equation", LIST(.kind = TD_VALUE_INT, .integer = 3), false },
    { "an integer for a policy", "bounds", LIST(.kind = TD_VALUE_INT, .integer = 0), false },
    { "an integer for a choice", "size", LIST(.kind = TD_VALUE_INT, .integer = 0), false },
    { "a list", "count", LIST(.kind = TD_VALUE_OTHER, .text = "a list", .text_length = 6), false },
    { "text with a NUL", "equation", LIST(.kind = TD_VALUE_TEXT, .text = "a\0b", .text_length = 3),
      false },
    { "text for a list", "axes", LIST(.kind = TD_VALUE_TEXT, .text = "0", .text_length = 1),
      false },
    { "an integer for a list", "axes", LIST(.kind = TD_VALUE_INT, .integer = 0), false },
    { "an integer for a number", "epsilon", LIST(.kind = TD_VALUE_INT, .integer = 3), true },
    { "text for a number", "epsilon", LIST(.kind = TD_VALUE_TEXT, .text = "3", .text_length = 1),
      false },
    { "an integer for a boolean", "keep", LIST(.kind = TD_VALUE_INT, .integer = 1), false },
    { "text for a boolean", "keep", LIST(.kind = TD_VALUE_TEXT, .text = "true", .text_length = 4),
      false },
    { "an integer for a dtype", "dtype", LIST(.kind = TD_VALUE_INT, .integer = 3), false },
};

TD_TEST_EACH(typed_values_must_have_the_kind_of_the_attribute, values)
{
    bool known;
    begin();
    td_status status = set(values[_i].name, values[_i].value, &known);
    ck_assert(known);
    ck_assert_msg((status == TD_OK) == values[_i].accepted, "%s", values[_i].case_name);
}

TD_TEST(values_are_stored_in_the_request)
{
    bool known;
    begin();
    ck_assert_int_eq(set_text("count", "-42", &known), TD_OK);
    ck_assert_int_eq(set_text("bounds", "zero", &known), TD_OK);
    ck_assert_int_eq(set_text("timing", "1", &known), TD_OK);
    ck_assert_int_eq(set_text("response", "base64", &known), TD_OK);
    ck_assert_int_eq(set_text("device", "gpu", &known), TD_OK);
    char equation[] = "ij,jk";
    ck_assert_int_eq(set_text("equation", equation, &known), TD_OK);
    memset(equation, 'x', 5); /* the value is a copy */
    char store[] = "result";
    ck_assert_int_eq(set_text("store", store, &known), TD_OK);
    memset(store, 'x', 6);
    ck_assert_str_eq(request.common.store, "result");
    ck_assert_int_eq(count(), -42);
    ck_assert_int_eq(td_request_bounds(&request), TD_BOUNDS_ZERO);
    ck_assert(request.common.timing);
    ck_assert_int_eq(request.common.layout, TD_LAYOUT_BASE64);
    ck_assert_int_eq(request.common.device, TD_DEVICE_GPU);
    const char *copy;
    memcpy(&copy, request.args.attrs + list_op.attrs[2].offset, sizeof copy);
    ck_assert_str_eq(copy, "ij,jk");
    ck_assert_int_eq(set_text("size", "huge", &known), TD_OK);
    ck_assert_uint_eq(size(), 2);
    ck_assert_int_eq(td_request_bounds(&request), TD_BOUNDS_ZERO);
    ck_assert_uint_eq(request.args.attrs_set, 15);
}

TD_TEST(values_of_every_kind_reach_the_op)
{
    static const char body[] = "{\"axes\":[0,-2],\"epsilon\":2.5e-1,\"keep\":false,"
                               "\"dtype\":\"int64\",\"equation\":\"\"}";
    const struct td_attr_spec *specs = list_op.attrs;
    struct decoded decoded;
    bool known;
    begin();
    ck_assert_int_eq(set_text("axes", "0,-2", &known), TD_OK);
    ck_assert_int_eq(set_text("epsilon", "0.25", &known), TD_OK);
    ck_assert_int_eq(set_text("keep", "0", &known), TD_OK);
    ck_assert_int_eq(set_text("dtype", "int64", &known), TD_OK);
    decode_json(&decoded, &list_op, body, sizeof body - 1, NULL);
    ck_assert_msg(decoded.status == TD_OK, "%s", decoded.err.message);
    for (int i = 0; i < 2; i++) {
        const unsigned char *attrs = i == 0 ? request.args.attrs : decoded.request.args.attrs;
        struct td_ints axes;
        double epsilon;
        bool keep;
        td_dtype dtype;
        memcpy(&axes, attrs + specs[4].offset, sizeof axes);
        memcpy(&epsilon, attrs + specs[5].offset, sizeof epsilon);
        memcpy(&keep, attrs + specs[6].offset, sizeof keep);
        memcpy(&dtype, attrs + specs[7].offset, sizeof dtype);
        ck_assert_int_eq(axes.count, 2);
        ck_assert_int_eq(axes.values[0], 0);
        ck_assert_int_eq(axes.values[1], -2);
        ck_assert_double_eq(epsilon, 0.25);
        ck_assert(!keep);
        ck_assert_int_eq(dtype, TD_DTYPE_INT64);
    }
}

TD_TEST(a_list_has_up_to_64_integers)
{
    for (int n = 64; n <= 65; n++) {
        struct decoded decoded;
        char body[256] = "{\"axes\":[";
        struct td_ints axes;
        for (int i = 0; i < n; i++)
            strcat(body, i < n - 1 ? "0," : "7]}");
        decode_json(&decoded, &list_op, body, strlen(body), NULL);
        EXPECT(decoded.status == (n == 64 ? TD_OK : TD_MALFORMED_REQUEST), "%d: %s", n,
               decoded.err.message);
        if (n > 64)
            continue;
        memcpy(&axes, decoded.request.args.attrs + list_op.attrs[4].offset, sizeof axes);
        ck_assert_int_eq(axes.count, 64);
        ck_assert_int_eq(axes.values[63], 7);
    }
}

static const struct {
    const char *body, *message, *pointer;
} misfits[] = {
    { "{\"axes\":0}", "axes is 0; expected a list of at most 64 integers", "/axes" },
    { "{\"axes\":\"0\"}", "axes is \"0\"; expected a list of at most 64 integers", "/axes" },
    { "{\"axes\":[0,1.5]}", "axes is a list; expected a list of at most 64 integers", "/axes" },
    { "{\"axes\":[[0]]}", "axes is a list; expected a list of at most 64 integers", "/axes" },
    { "{\"epsilon\":\"1\"}", "epsilon is \"1\"; expected a number that fits float64", "/epsilon" },
    { "{\"epsilon\":1e999}", "epsilon is 1e999; expected a number that fits float64", "/epsilon" },
    { "{\"keep\":1}", "keep is 1; expected true or false", "/keep" },
    { "{\"keep\":null}", "keep is null; expected true or false", "/keep" },
    { "{\"dtype\":true}", "dtype is true; expected \"int16\", \"int32\" or \"int64\"", "/dtype" },
    { "{\"count\":[1]}", "count is a list; expected a 64-bit integer", "/count" },
    { "{\"count\":true}", "count is true; expected a 64-bit integer", "/count" },
};

TD_TEST_EACH(a_value_of_the_wrong_kind_is_refused_with_its_position, misfits)
{
    struct decoded decoded;
    decode_json(&decoded, &list_op, misfits[_i].body, strlen(misfits[_i].body), NULL);
    ck_assert_int_eq(decoded.status, TD_MALFORMED_REQUEST);
    ck_assert_str_eq(decoded.err.message, misfits[_i].message);
    ck_assert_str_eq(decoded.err.pointer, misfits[_i].pointer);
}

TD_TEST(an_unknown_dtype_is_refused_with_the_nearest_of_those_accepted)
{
    bool known;
    begin();
    ck_assert_int_eq(set_text("dtype", "uint16x", &known), TD_MALFORMED_REQUEST);
    ck_assert_str_eq(err.message,
                     "dtype is \"uint16x\"; expected \"int16\", \"int32\" or \"int64\"");
    ck_assert_str_eq(err.did_you_mean, "int16");
}

TD_TEST(an_unknown_choice_is_refused_with_the_list_of_choices)
{
    bool known;
    begin();
    ck_assert_int_eq(set_text("size", "hugo", &known), TD_MALFORMED_REQUEST);
    ck_assert_str_eq(err.message, "size is \"hugo\"; expected \"small\", \"large\" or \"huge\"");
    ck_assert_str_eq(err.did_you_mean, "huge");
    ck_assert_uint_eq(size(), 1);
}

TD_TEST(nothing_is_given_twice)
{
    static const char *const names[] = { "count", "device", "store" };
    static const char *const texts_of[] = { "1", "cpu", "x" };
    for (int i = 0; i < COUNT_OF(names); i++) {
        bool known;
        begin();
        ck_assert_int_eq(set_text(names[i], texts_of[i], &known), TD_OK);
        ck_assert_int_eq(set_text(names[i], texts_of[i], &known), TD_MALFORMED_REQUEST);
        ck_assert_str_eq(err.attribute, names[i]);
        EXPECT_MESSAGE(&err, "twice");
    }
}

static const struct {
    const char *name, *query, *body;
    bool is_same;
} repeated[] = {
    { "count", "1", "1", true },        { "count", "1", "+1", true },
    { "count", "1", "2", false },       { "size", "large", "large", true },
    { "size", "large", "huge", false }, { "device", "cpu", "cpu", true },
    { "device", "cpu", "gpu", false },  { "timing", "1", "true", true },
    { "timing", "1", "0", false },      { "store", "x", "x", true },
    { "store", "x", "xy", false },
};

TD_TEST_EACH(the_body_may_repeat_the_value_of_the_query_string_once, repeated)
{
    const char *name = repeated[_i].name, *query = repeated[_i].query, *body = repeated[_i].body;
    bool known;
    begin();
    ck_assert_int_eq(td_attrs_set_query(&request, name, strlen(name), query, strlen(query),
                                        &test_arena, &known, &err),
                     TD_OK);
    const td_status status = set_text(name, body, &known);
    ck_assert_int_eq(status, repeated[_i].is_same ? TD_OK : TD_MALFORMED_REQUEST);
    if (!repeated[_i].is_same)
        EXPECT_MESSAGE(&err, "different values in the query string and in the body");
    ck_assert_int_eq(set_text(name, body, &known), TD_MALFORMED_REQUEST);
    EXPECT_MESSAGE(&err, "twice");
}

TD_TEST(nothing_is_twice_in_the_query_string)
{
    bool known;
    begin();
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(
            td_attrs_set_query(&request, "count", 5, "1", 1, &test_arena, &known, &err),
            i == 0 ? TD_OK : TD_MALFORMED_REQUEST);
    EXPECT_MESSAGE(&err, "twice");
}

TD_TEST(a_refused_value_is_not_set)
{
    bool known;
    begin();
    ck_assert_int_eq(set_text("count", "x", &known), TD_MALFORMED_REQUEST);
    ck_assert_int_eq(set_text("count", "1", &known), TD_OK);
}

TD_TEST(other_names_set_nothing)
{
    bool known = true;
    begin();
    ck_assert_int_eq(set_text("ints", "1", &known), TD_OK);
    ck_assert(!known);
    ck_assert_int_eq(set_text("counts", "1", &known), TD_OK);
    ck_assert(!known);
}
