#include "kernels/name.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <stdlib.h>

/* A copy of the text in memory of its exact size, so that AddressSanitizer detects overruns. */
static char *exact(const char *text, size_t length)
{
    char *copy = malloc(length ? length : 1);
    memcpy(copy, text, length);
    return copy;
}

static const struct {
    const char *case_name, *name, *text;
    size_t length;
    bool is, caseless, begins, ends;
} pairs[] = {
    { "the name itself", "INT32", "INT32", 5, true, true, true, true },
    { "other case", "int32", "Int32", 5, false, true, false, false },
    { "a NUL and more after it", "INT32", "INT32\0xxxx", 10, false, false, true, false },
    { "one NUL after it", "INT32", "INT32", 6, false, false, true, false },
    { "a NUL before it", "INT32", "\0INT32", 6, false, false, false, true },
    { "a NUL within it", "INT32",
      "INT\0"
      "2",
      5, false, false, false, false },
    { "a prefix of the name", "INT32", "INT3", 4, false, false, false, false },
    { "a prefix and a NUL", "INT32", "INT3", 5, false, false, false, false },
    { "more after it", "INT32", "INT32x", 6, false, false, true, false },
    { "nothing", "INT32", "", 0, false, false, false, false },
    { "only NULs", "INT32", "\0\0\0\0", 5, false, false, false, false },
    { "an empty name and an empty text", "", "", 0, true, true, true, true },
    { "an empty name and a NUL", "", "", 1, false, false, true, true },
};

TD_TEST_EACH(name_is_a_text_of_its_length_and_bytes, pairs)
{
    const size_t length = pairs[_i].length;
    const char *name = pairs[_i].name, *case_name = pairs[_i].case_name;
    char *text = exact(pairs[_i].text, length);
    ck_assert_msg(td_name_is(name, text, length) == pairs[_i].is, "%s", case_name);
    ck_assert_msg(td_name_is_caseless(name, text, length) == pairs[_i].caseless, "%s", case_name);
    ck_assert_msg(td_name_begins(name, text, length) == pairs[_i].begins, "%s", case_name);
    ck_assert_msg(td_name_ends(name, text, length) == pairs[_i].ends, "%s", case_name);
    free(text);
}

TD_TEST(names_are_joined_by_commas_and_cut_at_the_end_of_the_buffer)
{
    static const char *const names[] = { "gather", "lookup", "find" };
    char text[16];
    ck_assert_str_eq(td_names_text(names, 0, text, sizeof text), "");
    ck_assert_str_eq(td_names_text(names, 1, text, sizeof text), "gather");
    ck_assert_str_eq(td_names_text(names, 2, text, sizeof text), "gather, lookup");
    ck_assert_str_eq(td_names_text(names, 3, text, sizeof text), "gather, lookup,");
}
