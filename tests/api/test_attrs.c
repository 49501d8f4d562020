#include "api/attrs.h"
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

START_TEST(a_request_begins_with_defaults)
{
    begin();
    ck_assert_int_eq(count(), 7);
    ck_assert_int_eq(td_request_bounds(&request), TD_BOUNDS_CLIP);
    ck_assert_int_eq(request.options.device, TD_DEVICE_AUTO);
    ck_assert_int_eq(request.options.layout, TD_LAYOUT_NESTED);
    ck_assert(!request.options.timing);
    ck_assert_uint_eq(request.args.attrs_set, 0);
    ck_assert_ptr_null(request.args.inputs[0].tensors);
}
END_TEST

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
    { "equation", "", true },
    { "equation", "1", true },
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
};

START_TEST(text_is_read_as_the_kind_that_is_wanted)
{
    bool known;
    begin();
    td_status status = set_text(texts[_i].name, texts[_i].text, &known);
    ck_assert(known);
    ck_assert_msg((status == TD_OK) == texts[_i].accepted, "%s=%s", texts[_i].name, texts[_i].text);
    if (status != TD_OK) {
        ck_assert_int_eq(status, TD_MALFORMED_REQUEST);
        ck_assert_str_eq(err.attribute, texts[_i].name);
        ck_assert_ptr_nonnull(strstr(err.message, "expected"));
    }
}
END_TEST

static const struct {
    const char *says, *name;
    struct td_attr_value value;
    bool accepted;
} values[] = {
    { "an integer", "count", { .kind = TD_VALUE_INT, .integer = 3 }, true },
    { "text for an integer",
      "count",
      { .kind = TD_VALUE_TEXT, .text = "3", .text_length = 1 },
      false },
    { "an integer for text", "equation", { .kind = TD_VALUE_INT, .integer = 3 }, false },
    { "an integer for a policy", "bounds", { .kind = TD_VALUE_INT, .integer = 0 }, false },
    { "a list", "count", { .kind = TD_VALUE_OTHER, .text = "a list", .text_length = 6 }, false },
    { "text with a NUL",
      "equation",
      { .kind = TD_VALUE_TEXT, .text = "a\0b", .text_length = 3 },
      false },
    { "timing as 1", "timing", { .kind = TD_VALUE_INT, .integer = 1 }, true },
    { "timing as 2", "timing", { .kind = TD_VALUE_INT, .integer = 2 }, false },
    { "timing as true",
      "timing",
      { .kind = TD_VALUE_OTHER, .text = "true", .text_length = 4 },
      true },
    { "timing as null",
      "timing",
      { .kind = TD_VALUE_OTHER, .text = "null", .text_length = 4 },
      false },
};

START_TEST(typed_values_must_be_of_the_kind_that_is_wanted)
{
    bool known;
    begin();
    td_status status = set(values[_i].name, values[_i].value, &known);
    ck_assert(known);
    ck_assert_msg((status == TD_OK) == values[_i].accepted, "%s", values[_i].says);
}
END_TEST

START_TEST(what_is_set_is_there)
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
    memset(equation, 'x', 5); /* it was copied */
    ck_assert_int_eq(count(), -42);
    ck_assert_int_eq(td_request_bounds(&request), TD_BOUNDS_ZERO);
    ck_assert(request.options.timing);
    ck_assert_int_eq(request.options.layout, TD_LAYOUT_BASE64);
    ck_assert_int_eq(request.options.device, TD_DEVICE_GPU);
    const char *copy;
    memcpy(&copy, request.args.attrs + list_op.attrs[2].offset, sizeof copy);
    ck_assert_str_eq(copy, "ij,jk");
    ck_assert_uint_eq(request.args.attrs_set, 7);
}
END_TEST

START_TEST(nothing_is_given_twice)
{
    static const char *const names[] = { "count", "device" };
    static const char *const texts_of[] = { "1", "cpu" };
    for (int i = 0; i < 2; i++) {
        bool known;
        begin();
        ck_assert_int_eq(set_text(names[i], texts_of[i], &known), TD_OK);
        ck_assert_int_eq(set_text(names[i], texts_of[i], &known), TD_MALFORMED_REQUEST);
        ck_assert_str_eq(err.attribute, names[i]);
        ck_assert_ptr_nonnull(strstr(err.message, "twice"));
    }
}
END_TEST

START_TEST(a_refused_value_is_not_set)
{
    bool known;
    begin();
    ck_assert_int_eq(set_text("count", "x", &known), TD_MALFORMED_REQUEST);
    ck_assert_int_eq(set_text("count", "1", &known), TD_OK);
}
END_TEST

START_TEST(other_names_are_left_alone)
{
    bool known = true;
    begin();
    ck_assert_int_eq(set_text("ints", "1", &known), TD_OK);
    ck_assert(!known);
    ck_assert_int_eq(set_text("counts", "1", &known), TD_OK);
    ck_assert(!known);
}
END_TEST

static const struct {
    const char *name, *near;
} unknown[] = {
    { "cuont", "count" },
    { "coun", "count" },
    { "equations", "equation" },
    { "devcie", "device" },
    { "xyz", "" },
    { "c", "" },
    { "", "" },
    { "repsonse", "response" },
    { "bonds", "bounds" },
    { "a very long name that is near to nothing at all, of course", "" },
};

START_TEST(unknown_names_get_the_nearest_known)
{
    begin();
    td_status status = td_attrs_unknown(&list_op, unknown[_i].name, strlen(unknown[_i].name),
                                        "query parameter", &err);
    ck_assert_int_eq(status, TD_MALFORMED_REQUEST);
    ck_assert_msg(strcmp(err.did_you_mean, unknown[_i].near) == 0, "%s: %s", unknown[_i].name,
                  err.did_you_mean);
    ck_assert_ptr_nonnull(strstr(err.message, "query parameter"));
}
END_TEST

START_TEST(an_input_in_the_query_is_told_apart)
{
    begin();
    td_attrs_unknown(&list_op, "ints", 4, "query parameter", &err);
    ck_assert_ptr_nonnull(strstr(err.message, "input"));
    ck_assert_str_eq(err.did_you_mean, "");
}
END_TEST

static void add(TCase *t)
{
    tcase_add_test(t, a_request_begins_with_defaults);
    tcase_add_loop_test(t, text_is_read_as_the_kind_that_is_wanted, 0, COUNT_OF(texts));
    tcase_add_loop_test(t, typed_values_must_be_of_the_kind_that_is_wanted, 0, COUNT_OF(values));
    tcase_add_test(t, what_is_set_is_there);
    tcase_add_test(t, nothing_is_given_twice);
    tcase_add_test(t, a_refused_value_is_not_set);
    tcase_add_test(t, other_names_are_left_alone);
    tcase_add_loop_test(t, unknown_names_get_the_nearest_known, 0, COUNT_OF(unknown));
    tcase_add_test(t, an_input_in_the_query_is_told_apart);
}

int main(void)
{
    return run_suite("attrs", add);
}
