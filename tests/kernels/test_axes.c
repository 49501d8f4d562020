#include "kernels/axes.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <string.h>

static struct td_error err;

static void expect_error(const char *message, const char *input, const char *attribute)
{
    ck_assert_str_eq(err.message, message);
    ck_assert_str_eq(err.input, input);
    ck_assert_str_eq(err.attribute, attribute);
}

static const struct {
    const char *says;
    int64_t axis;
    const char *shape;
    int dim; /* -1: an error */
    const char *message, *input, *attribute;
} finds[] = {
    { "the first", 0, "[2,3]", 0, "", "", "" },
    { "the last, from the end", -1, "[2,3]", 1, "", "", "" },
    { "the first, from the end", -2, "[2,3]", 0, "", "", "" },
    { "above", 2, "[2,3]", -1, "axis = 2 is not in [-2, 2): x has shape [2,3]", "", "axis" },
    { "below", -3, "[2,3]", -1, "axis = -3 is not in [-2, 2): x has shape [2,3]", "", "axis" },
    { "the smallest number", INT64_MIN, "[2]", -1,
      "axis = -9223372036854775808 is not in [-1, 1): x has shape [2]", "", "axis" },
    { "a scalar has none", 0, "[]", -1, "x is a scalar; expected at least one dimension", "x", "" },
};

TD_TEST_EACH(an_axis_names_a_dimension, finds)
{
    const struct td_shape dims = shape(finds[_i].shape);
    int dim = -1;
    const td_status status = td_axis_find(finds[_i].axis, "x", &dims, &dim, &err);
    ck_assert_msg(status == (finds[_i].dim < 0 ? TD_INVALID_AXIS : TD_OK), "%s", finds[_i].says);
    if (status == TD_OK)
        ck_assert_int_eq(dim, finds[_i].dim);
    else
        expect_error(finds[_i].message, finds[_i].input, finds[_i].attribute);
}

static const struct {
    const char *says;
    int64_t axis;
    const char *shape;
    td_status status;
    int position;
    const char *message;
} new_finds[] = {
    { "before all others", 0, "[2,3]", TD_OK, 0, "" },
    { "behind all others", 2, "[2,3]", TD_OK, 2, "" },
    { "behind all others, from the end", -1, "[2,3]", TD_OK, 2, "" },
    { "before all others, from the end", -3, "[2,3]", TD_OK, 0, "" },
    { "the only one of a scalar", 0, "[]", TD_OK, 0, "" },
    { "above", 3, "[2,3]", TD_INVALID_AXIS, 0,
      "axis = 3 is not in [-3, 3): the output has one dimension more than x, which has shape "
      "[2,3]" },
    { "below", -2, "[]", TD_INVALID_AXIS, 0,
      "axis = -2 is not in [-1, 1): the output has one dimension more than x, which has shape []" },
    { "the 17th dimension", 0, "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", TD_RESOURCE_LIMIT, 0,
      "output needs 17 dimensions; the limit is 16" },
};

TD_TEST_EACH(an_axis_names_the_position_of_a_new_dimension, new_finds)
{
    const struct td_shape dims = shape(new_finds[_i].shape);
    int position = -1;
    const td_status status = td_axis_find_new(new_finds[_i].axis, "x", &dims, &position, &err);
    ck_assert_msg(status == new_finds[_i].status, "%s", new_finds[_i].says);
    if (status == TD_OK)
        ck_assert_int_eq(position, new_finds[_i].position);
    else
        expect_error(new_finds[_i].message, "", status == TD_INVALID_AXIS ? "axis" : "");
}

static const struct {
    const char *says;
    const char *shape;
    int n;
    int64_t axes[4];
    int dims[4];
    const char *message, *input, *attribute; /* message "": no error */
} lists[] = {
    { "in the order of the list", "[2,3,4]", 3, LIST(2, 0, -2), LIST(2, 0, 1), "", "", "" },
    { "none", "[2,3]", 0, LIST(0), LIST(0), "", "", "" },
    { "none of a scalar", "[]", 0, LIST(0), LIST(0), "", "", "" },
    { "out of range", "[2,3]", 2, LIST(0, 2), LIST(0),
      "axes[1] = 2 is not in [-2, 2): x has shape [2,3]", "", "axes" },
    { "named twice", "[2,3]", 3, LIST(1, 0, -1), LIST(0),
      "axes[2] = -1 names dimension 1, as axes[0] does; expected distinct dimensions", "", "axes" },
    { "the first fault counts", "[2]", 3, LIST(0, 0, 5), LIST(0),
      "axes[1] = 0 names dimension 0, as axes[0] does; expected distinct dimensions", "", "axes" },
    { "of a scalar", "[]", 1, LIST(0), LIST(0), "x is a scalar; expected at least one dimension",
      "x", "" },
};

TD_TEST_EACH(a_list_names_distinct_dimensions, lists)
{
    const struct td_shape dims = shape(lists[_i].shape);
    const struct td_ints axes = { lists[_i].axes, lists[_i].n };
    int out[TD_MAX_RANK];
    const bool fits = lists[_i].message[0] == '\0';
    const td_status status = td_axes_find("axes", &axes, "x", &dims, out, &err);
    ck_assert_msg(status == (fits ? TD_OK : TD_INVALID_AXIS), "%s", lists[_i].says);
    for (int i = 0; fits && i < lists[_i].n; i++)
        ck_assert_int_eq(out[i], lists[_i].dims[i]);
    if (!fits)
        expect_error(lists[_i].message, lists[_i].input, lists[_i].attribute);
}

TD_TEST(a_list_longer_than_the_largest_rank_names_a_dimension_twice)
{
    const struct td_shape dims = shape("[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]");
    int64_t values[TD_MAX_INTS];
    int out[TD_MAX_RANK];
    for (int i = 0; i < TD_MAX_INTS; i++)
        values[i] = i % TD_MAX_RANK;
    const struct td_ints axes = { values, TD_MAX_INTS };
    ck_assert_int_eq(td_axes_find("axes", &axes, "x", &dims, out, &err), TD_INVALID_AXIS);
    expect_error("axes[16] = 0 names dimension 0, as axes[0] does; expected distinct dimensions",
                 "", "axes");
}
