#include "kernels/shown_text.h"
#include "tests/support/expect.h"
#include "tests/support/suite.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* A copy of the text in memory of its exact size, so that AddressSanitizer detects overruns. */
static char *exact(const char *text, size_t length)
{
    char *copy = malloc(length ? length : 1);
    memcpy(copy, text, length);
    return copy;
}

static const struct {
    const char *case_name, *text;
    size_t length;
    const char *shown;
} texts[] = {
    { "plain text", "params", 6, "params" },
    { "nothing", "", 0, "" },
    { "a NUL", "INT32\0x", 7, "INT32\\u0000x" },
    { "only NULs", "\0\0", 2, "\\u0000\\u0000" },
    { "UTF-8 is copied", "\xc3\xa9\0\xe2\x82\xac", 6, "\xc3\xa9\\u0000\xe2\x82\xac" },
    { "bytes that are not UTF-8 are copied",
      "a\xff"
      "b",
      3,
      "a\xff"
      "b" },
};

TD_TEST_EACH(shown_text_has_its_nuls_escaped, texts)
{
    struct td_shown shown;
    char *text = exact(texts[_i].text, texts[_i].length);
    ck_assert_str_eq(td_shown_text(text, texts[_i].length, &shown), texts[_i].shown);
    ck_assert_str_eq(TD_SHOWN(text, texts[_i].length), texts[_i].shown);
    free(text);
}

TD_TEST(shown_text_may_be_absent)
{
    ck_assert_str_eq(TD_SHOWN(NULL, 0), "");
}

/* An escape or character of `size` bytes after a number of letters is printed as a whole or left
 * out. */
TD_TEST_LOOP(shown_text_is_truncated_between_characters, TD_SHOWN_SIZE - 8, TD_SHOWN_SIZE)
{
    static const struct {
        const char *character;
        size_t length, size;
    } ends[] = { { "x", 1, 1 }, { "\xc3\xa9", 2, 2 }, { "\xf0\x9f\x98\x80", 4, 4 }, { "", 1, 6 } };
    char text[TD_SHOWN_SIZE + 8];
    for (int i = 0; i < COUNT_OF(ends); i++) {
        memset(text, 'a', sizeof text);
        memcpy(text + _i, ends[i].character, ends[i].length);
        const char *shown = TD_SHOWN(text, sizeof text);
        const bool fits = (size_t)_i + ends[i].size < TD_SHOWN_SIZE;
        ck_assert_uint_eq(strlen(shown), fits ? TD_SHOWN_SIZE - 1 : (size_t)_i);
    }
}
