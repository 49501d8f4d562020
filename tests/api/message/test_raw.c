#include "api/message/raw.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <stdlib.h>
#include <string.h>

TD_TEST(bool_bytes_are_0_or_1)
{
    struct td_error err;
    struct td_tensor bools = tensor("bool[3] 1 0 1"), bytes = tensor("uint8[2] 0 2");
    ck_assert_int_eq(td_raw_check(&bools, &err), TD_OK);
    ck_assert_int_eq(td_raw_check(&bytes, &err), TD_OK);
    ((unsigned char *)bools.data)[2] = 255;
    ck_assert_int_eq(td_raw_check(&bools, &err), TD_MALFORMED_REQUEST);
    EXPECT_MESSAGE(&err, "element 2");
    EXPECT_MESSAGE(&err, "255");
}

static const struct {
    const char *case_name, *shape, *bytes;
    size_t size;
    const char *want; /* NULL: refused */
} strings[] = {
    { "one after the other", "[3]", "\x02\0\0\0ab\0\0\0\0\x01\0\0\0c", 15,
      "string[3] 'ab' '' 'c'" },
    { "none", "[0]", "", 0, "string[0]" },
    { "a scalar", "[]", "\x01\0\0\0a", 5, "string[] 'a'" },
    { "a truncated length", "[1]", "\x01\0\0", 3, NULL },
    { "truncated bytes", "[1]", "\x03\0\0\0ab", 6, NULL },
    { "a length larger than the data", "[1]",
      "\xff\xff\xff\xff"
      "a",
      5, NULL },
    { "a string too few", "[2]", "\x01\0\0\0a\0\0\0", 8, NULL },
    { "a byte too many", "[1]", "\x01\0\0\0ab", 6, NULL },
    { "bytes for no strings", "[0]", "\0\0\0\0", 4, NULL },
    { "a shape that the bytes cannot hold", "[1000000000000]", "\0\0\0\0", 4, NULL },
};

TD_TEST_EACH(strings_are_lengths_and_bytes, strings)
{
    struct td_error err;
    struct td_tensor got = { .data = NULL };
    struct td_shape given = shape(strings[_i].shape);
    char *bytes = td_arena_alloc(&test_arena, strings[_i].size, 1, &err);
    memcpy(bytes, strings[_i].bytes, strings[_i].size);
    ck_assert_int_eq(td_tensor_describe(&got, "x", TD_DTYPE_STRING, &given, &err), TD_OK);
    td_status status = td_raw_strings(bytes, strings[_i].size, &got, &test_arena, &err);
    ck_assert_msg((status == TD_OK) == (strings[_i].want != NULL), "%s: %s", strings[_i].case_name,
                  err.message);
    if (status == TD_OK)
        expect_tensor(&got, strings[_i].want, strings[_i].case_name);
}

TD_TEST(strings_round_trip)
{
    struct td_tensor from = tensor("string[2,2] 'ab' '' '\\x00\\xff' 'c'"),
                     again = { .data = NULL };
    struct td_error err;
    size_t size;
    ck_assert(td_raw_strings_size(&from, &size));
    ck_assert_uint_eq(size, 4 * 4 + 5);
    char *bytes = td_arena_alloc(&test_arena, size, 1, &err);
    ck_assert_int_eq(td_raw_write_strings(bytes, &from, NULL, &err), TD_OK);
    ck_assert_int_eq(td_tensor_describe(&again, "x", TD_DTYPE_STRING, &from.shape, &err), TD_OK);
    ck_assert_int_eq(td_raw_strings(bytes, size, &again, &test_arena, &err), TD_OK);
    expect_same_tensor(&again, &from, "strings");
}

/* Stops at the check that *context counts down to. */
static td_status stop_at(void *context, struct td_error *err)
{
    return --*(int *)context == 0 ? td_error_set(err, TD_DRAINING, "stopped") : TD_OK;
}

TD_TEST(reading_many_strings_stops_at_any_step)
{
    enum { STEPS = 3, STRINGS = STEPS * TD_STOP_ELEMENTS + 1, BYTES = 4 * STRINGS };
    const struct td_shape given = { 1, { STRINGS } };
    struct td_tensor got = { .data = NULL };
    struct td_error err;
    char *bytes = calloc(1, BYTES); /* of empty strings */
    ck_assert_int_eq(td_tensor_describe(&got, "x", TD_DTYPE_STRING, &given, &err), TD_OK);
    for (int check = 1; check <= STEPS + 1; check++) {
        int left = check;
        test_arena.stop = (struct td_stop){ stop_at, &left };
        const td_status status = td_raw_strings(bytes, BYTES, &got, &test_arena, &err);
        ck_assert_int_eq(status, check <= STEPS ? TD_DRAINING : TD_OK);
        ck_assert_int_eq(left, check <= STEPS ? 0 : 1);
    }
    free(bytes);
}
