#include "kernels/shape.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <string.h>

static const struct {
    const char *case_name;
    const char *shape;
    int begin, end;
    int64_t product; /* -1: it overflows */
} products[] = {
    { "a scalar has one element", "[]", 0, 0, 1 },
    { "dimensions multiply", "[2,3,4]", 0, 3, 24 },
    { "a range of dimensions", "[2,3,4]", 1, 2, 3 },
    { "an empty range is 1", "[2,3,4]", 2, 2, 1 },
    { "a dimension of 0 makes it 0", "[2,0,4]", 0, 3, 0 },
    { "a 0 outside the range does not", "[0,3,4]", 1, 3, 12 },
    { "the largest count fits", "[9223372036854775807,1]", 0, 2, INT64_MAX },
    { "2^31 * 2^31 fits", "[2147483648,2147483648]", 0, 2, (int64_t)1 << 62 },
    { "2^32 * 2^31 is one too many", "[4294967296,2147483648]", 0, 2, -1 },
    { "2^64 is not truncated to 0", "[4294967296,4294967296]", 0, 2, -1 },
    { "a 0 after a huge product", "[4294967296,4294967296,0]", 0, 3, 0 },
    { "a 0 before a huge product", "[0,4294967296,4294967296]", 0, 3, 0 },
};

TD_TEST_EACH(dimensions_multiply_with_overflow_checks, products)
{
    struct td_shape s = shape(products[_i].shape);
    int64_t product = -7;
    bool fits = td_shape_product(&s, products[_i].begin, products[_i].end, &product);
    ck_assert_msg(fits == (products[_i].product >= 0), "%s", products[_i].case_name);
    ck_assert_msg(product == (fits ? products[_i].product : -7), "%s", products[_i].case_name);
}

TD_TEST(numel_is_the_product_of_all)
{
    struct td_shape s = shape("[2,3,4]");
    int64_t numel;
    ck_assert(td_shape_numel(&s, &numel));
    ck_assert_int_eq(numel, 24);
}

TD_TEST(shapes_are_equal_in_rank_and_dimensions)
{
    struct td_shape a = shape("[2,3]"), b = shape("[2,3]"), c = shape("[2,4]"), d = shape("[2]");
    b.dim[2] = 9; /* after the last dimension: ignored */
    ck_assert(td_shape_equal(&a, &b));
    ck_assert(!td_shape_equal(&a, &c));
    ck_assert(!td_shape_equal(&a, &d));
}

TD_TEST(ranges_of_dimensions_are_appended)
{
    struct td_shape to = shape("[5]"), from = shape("[2,3,4]");
    ck_assert(td_shape_append(&to, &from, 1, 3));
    expect_shape(&to, "[5,3,4]", "a range");
    ck_assert(td_shape_append(&to, &from, 2, 2));
    expect_shape(&to, "[5,3,4]", "an empty range");
}

TD_TEST(the_rank_ends_at_16)
{
    struct td_shape to = shape("[1,1,1,1,1,1,1,1,1,1,1,1,1,1]"), from = shape("[2,3,4]");
    ck_assert(!td_shape_append(&to, &from, 0, 3));
    ck_assert_int_eq(to.rank, 14);
    ck_assert(td_shape_append(&to, &from, 0, 2));
    ck_assert_int_eq(to.rank, 16);
}

static const struct {
    int64_t axis;
    int rank;
    int normalized; /* -1: refused */
} axes[] = {
    { 0, 1, 0 },
    { 1, 2, 1 },
    { -1, 2, 1 },
    { -2, 2, 0 },
    { 2, 2, -1 },
    { -3, 2, -1 },
    { 0, 0, -1 },
    { -1, 0, -1 },
    { INT64_MIN, 2, -1 },
    { INT64_MAX, 2, -1 },
    { (int64_t)1 << 32, 2, -1 },
};

TD_TEST_EACH(a_negative_axis_counts_from_the_end, axes)
{
    int axis = -1;
    ck_assert(td_axis_normalize(axes[_i].axis, axes[_i].rank, &axis) == (axes[_i].normalized >= 0));
    ck_assert_int_eq(axis, axes[_i].normalized);
}

TD_TEST(a_linear_position_unravels_row_major)
{
    struct td_shape s = shape("[2,3,4]");
    int64_t position[3], linear = 0;
    for (int64_t i = 0; i < 2; i++)
        for (int64_t j = 0; j < 3; j++)
            for (int64_t k = 0; k < 4; k++, linear++) {
                td_shape_unravel(&s, linear, position);
                ck_assert(position[0] == i && position[1] == j && position[2] == k);
            }
}

TD_TEST(a_shape_prints_as_a_list)
{
    char text[TD_SHAPE_TEXT];
    struct td_shape s = shape("[2,3,4]"), scalar = shape("[]");
    ck_assert_str_eq(td_shape_text(&s, text, sizeof(text)), "[2,3,4]");
    ck_assert_str_eq(td_shape_text(&scalar, text, sizeof(text)), "[]");
    ck_assert_str_eq(td_shape_text(&s, text, 5), "[2,3");
    ck_assert_str_eq(td_shape_text(&s, text, 1), "");
}

TD_TEST(the_largest_shape_fits_its_text)
{
    char text[TD_SHAPE_TEXT];
    struct td_shape s = { .rank = TD_MAX_RANK };
    for (int i = 0; i < TD_MAX_RANK; i++)
        s.dim[i] = INT64_MAX;
    ck_assert_uint_eq(strlen(td_shape_text(&s, text, sizeof(text))), 2 + 16 * 19 + 15);
    ck_assert_int_eq(text[strlen(text) - 1], ']');
}

TD_TEST(sizes_multiply_and_add_with_overflow_checks)
{
    size_t out = 7;
    ck_assert(td_size_mul(6, 7, &out));
    ck_assert_uint_eq(out, 42);
    ck_assert(!td_size_mul(SIZE_MAX / 2 + 1, 2, &out));
    ck_assert(!td_size_add(SIZE_MAX, 1, &out));
    ck_assert_uint_eq(out, 42); /* unchanged */
    ck_assert(td_size_add(SIZE_MAX - 1, 1, &out));
    ck_assert_uint_eq(out, SIZE_MAX);
    ck_assert(td_size_mul(0, SIZE_MAX, &out));
    ck_assert_uint_eq(out, 0);
}

static const struct {
    const char *shape, *start;
    bool starts;
} starts[] = {
    { "[2,3]", "[]", true },       { "[2,3]", "[2]", true },  { "[2,3]", "[2,3]", true },
    { "[2,3]", "[2,3,1]", false }, { "[2,3]", "[3]", false }, { "[2,3]", "[2,4]", false },
    { "[]", "[]", true },          { "[]", "[1]", false },    { "[0,3]", "[0]", true },
};

TD_TEST_EACH(a_shape_starts_with_some_of_its_dimensions, starts)
{
    struct td_shape whole = shape(starts[_i].shape), start = shape(starts[_i].start);
    ck_assert_int_eq(td_shape_starts_with(&whole, &start), starts[_i].starts);
}
