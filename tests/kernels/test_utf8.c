#include "kernels/utf8.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    const char *case_name, *text;
    size_t valid; /* bytes */
} texts[] = {
    { "ASCII", "abc", 3 },
    { "nothing", "", 0 },
    { "two bytes", "\xc3\xa9", 2 },
    { "three", "\xe2\x82\xac", 3 },
    { "four", "\xf0\x9f\x98\x80", 4 },
    { "the last code point", "\xf4\x8f\xbf\xbf", 4 },
    { "one code point more", "a\xf4\x90\x80\x80", 1 },
    { "before the surrogates", "\xed\x9f\xbf", 3 },
    { "a surrogate", "a\xed\xa0\x80", 1 },
    { "after the surrogates", "\xee\x80\x80", 3 },
    { "overlong, two bytes", "\xc1\xbf", 0 },
    { "overlong, three bytes", "\xe0\x9f\xbf", 0 },
    { "overlong, four bytes", "\xf0\x8f\xbf\xbf", 0 },
    { "a continuation byte without lead", "ab\x80", 2 },
    { "a lead byte at the end", "ab\xc3", 2 },
    { "a lead byte before ASCII", "\xe2\x82z", 0 },
    { "five bytes", "\xf8\x88\x80\x80\x80", 0 },
    { "eight ASCII bytes in front", "abcdefgh\xff", 8 },
    { "the end of a block", "abcdefg\xc3\xa9xyzxyz\xe9", 15 },
};

TD_TEST_EACH(utf8_is_valid_up_to_the_first_invalid_byte, texts)
{
    size_t length = strlen(texts[_i].text);
    char *exact = malloc(length ? length : 1);
    memcpy(exact, texts[_i].text, length);
    ck_assert_msg(td_utf8_valid_prefix(exact, length) == texts[_i].valid, "%s",
                  texts[_i].case_name);
    ck_assert_msg(td_utf8_valid(exact, length) == (texts[_i].valid == length), "%s",
                  texts[_i].case_name);
    free(exact);
}

TD_TEST(a_nul_ends_a_truncated_character)
{
    for (size_t length = 1; length < TD_UTF8_MAX; length++) {
        char *exact = calloc(1, length + 1);
        memcpy(exact, "\xf0\x9f\x98\x80", length);
        ck_assert_uint_eq(td_utf8_character((unsigned char *)exact, TD_UTF8_MAX), 0);
        free(exact);
    }
}

TD_TEST(every_code_point_is_written_and_read_back)
{
    for (uint32_t code = 0; code < 0x110000; code++) {
        if (code >= 0xd800 && code < 0xe000)
            continue;
        char text[4];
        size_t size = (size_t)(td_utf8_write(text, code) - text);
        if (td_utf8_character((unsigned char *)text, size) != size)
            ck_abort_msg("U+%04X", code);
        if (td_utf8_code_point((unsigned char *)text, size) != code)
            ck_abort_msg("U+%04X is read as another", code);
        if (size > 1 && td_utf8_character((unsigned char *)text, size - 1) != 0)
            ck_abort_msg("U+%04X cut off", code);
    }
}
