#include "kernels/status.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <string.h>

TD_TEST(codes_are_spelled_as_in_the_api)
{
    ck_assert_str_eq(td_status_name(TD_OK), "OK");
    ck_assert_str_eq(td_status_name(TD_MALFORMED_REQUEST), "MALFORMED_REQUEST");
    ck_assert_str_eq(td_status_name(TD_INDEX_OUT_OF_BOUNDS), "INDEX_OUT_OF_BOUNDS");
    ck_assert_str_eq(td_status_name(TD_INTERNAL), "INTERNAL");
}

TD_TEST(every_code_has_a_name)
{
    for (td_status status = TD_OK; status < TD_STATUS_COUNT; status++)
        ck_assert_uint_gt(strlen(td_status_name(status)), 1);
}

TD_TEST(a_new_error_clears_the_previous_one)
{
    struct td_error err;
    memset(&err, 0xFF, sizeof(err));
    ck_assert_int_eq(td_error_set(&err, TD_INVALID_AXIS, "axis = %d", 7), TD_INVALID_AXIS);
    ck_assert_int_eq(err.status, TD_INVALID_AXIS);
    ck_assert_str_eq(err.message, "axis = 7");
    ck_assert_str_eq(err.input, "");
    ck_assert_str_eq(err.attribute, "");
    ck_assert_str_eq(err.did_you_mean, "");
    ck_assert_str_eq(err.label, "");
    ck_assert(!err.has_extents);
    ck_assert_str_eq(err.resource, "");
    ck_assert(!err.has_pointer && !err.has_index && !err.has_bound);
    ck_assert_int_eq(err.offset, -1);
    ck_assert_int_eq(err.n_shapes, 0);
    ck_assert_uint_eq(err.retry_after_s, 0);
}

TD_TEST(details_are_added_to_an_error)
{
    struct td_error err;
    struct td_shape params = { .rank = 1, .dim = { 3 } };
    td_error_set(&err, TD_SHAPE_MISMATCH, "they differ");
    ck_assert_int_eq(td_error_at_input(&err, TD_SHAPE_MISMATCH, "data[%d]", 3), TD_SHAPE_MISMATCH);
    ck_assert_int_eq(td_error_at_attribute(&err, TD_SHAPE_MISMATCH, "axis"), TD_SHAPE_MISMATCH);
    td_error_add_shape(&err, "params", &params);
    ck_assert_str_eq(err.message, "they differ");
    ck_assert_str_eq(err.input, "data[3]");
    ck_assert_str_eq(err.attribute, "axis");
    ck_assert_int_eq(err.n_shapes, 1);
    ck_assert_str_eq(err.shapes[0].name, "params");
    ck_assert_int_eq(err.shapes[0].shape.dim[0], 3);
}

TD_TEST(a_fourth_shape_is_left_out)
{
    struct td_error err;
    struct td_shape shape = { .rank = 0 };
    td_error_set(&err, TD_SHAPE_MISMATCH, "they differ");
    for (int i = 0; i < 4; i++)
        td_error_add_shape(&err, i == 3 ? "fourth" : "earlier", &shape);
    ck_assert_int_eq(err.n_shapes, 3);
    ck_assert_str_eq(err.shapes[2].name, "earlier");
}

/* The message holds 511 bytes. */
static const struct {
    const char *case_name;
    const char *end; /* after 509 times 'a' */
    const char *kept;
} truncations[] = {
    { "a text that fits", "bc", "bc" },
    { "ASCII is truncated at the size", "bcd", "bc" },
    { "a two-byte character that fits is kept", "\xc3\xa9", "\xc3\xa9" },
    { "a two-byte character before the end is kept", "\xc3\xa9z", "\xc3\xa9" },
    { "a two-byte character is not split", "b\xc3\xa9", "b" },
    { "a three-byte character is not split", "\xe2\x82\xac", "" },
    { "a four-byte character is not split", "\xf0\x9f\x98\x80", "" },
    { "bytes that are not UTF-8 are truncated at the size", "\x80\x80\x80", "\x80\x80" },
};

TD_TEST_EACH(a_long_message_is_truncated_between_characters, truncations)
{
    char text[600], want[600];
    struct td_error err;
    memset(text, 'a', 509);
    memset(want, 'a', 509);
    memcpy(text + 509, truncations[_i].end, strlen(truncations[_i].end) + 1);
    memcpy(want + 509, truncations[_i].kept, strlen(truncations[_i].kept) + 1);
    td_error_set(&err, TD_INTERNAL, "%s", text);
    ck_assert_msg(strcmp(err.message, want) == 0, "%s", truncations[_i].case_name);
}

static const struct {
    const char *resource;
    const char *sentence;
} resources[] = {
    { "output_bytes", "output needs 20 bytes; the limit is 16" },
    { "workspace_bytes", "output needs 20 bytes; the limit is 16" },
    { "rank", "output needs 20 dimensions; the limit is 16" },
    { "flops", "output needs 20 operations; the limit is 16" },
    { "inputs", "output needs 20 inputs; the limit is 16" },
};

TD_TEST_EACH(a_limit_is_stated_with_its_unit, resources)
{
    struct td_error err;
    ck_assert_int_eq(td_error_resource(&err, resources[_i].resource, 20, 16, "output"),
                     TD_RESOURCE_LIMIT);
    ck_assert_int_eq(err.status, TD_RESOURCE_LIMIT);
    ck_assert_str_eq(err.message, resources[_i].sentence);
    ck_assert_str_eq(err.resource, resources[_i].resource);
    ck_assert_uint_eq(err.needed, 20);
    ck_assert_uint_eq(err.limit, 16);
}
