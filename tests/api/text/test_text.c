#include "api/text/text.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <string.h>

static const struct {
    const char *case_name, *text, *quoted;
} quotes[] = {
    { "plain", "abc", "\"abc\"" },
    { "quotes and backslashes", "a\"b\\", "\"a\\\"b\\\\\"" },
    { "control characters", "\n\t\x01\x1f", "\"\\n\\u0009\\u0001\\u001f\"" },
    { "UTF-8 is not changed", "\xc3\xa9\xf0\x9f\x98\x80", "\"\xc3\xa9\xf0\x9f\x98\x80\"" },
    { "invalid UTF-8 is replaced",
      "a\xff"
      "b\xe2\x82",
      "\"a\xef\xbf\xbd"
      "b\xef\xbf\xbd\xef\xbf\xbd\"" },
    { "DEL is a character", "\x7f", "\"\x7f\"" },
};

TD_TEST_EACH(text_is_quoted_for_json, quotes)
{
    char buffer[64];
    struct td_text text = { buffer, buffer + sizeof buffer, false };
    td_text_quote(&text, quotes[_i].text);
    ck_assert(!text.full);
    ck_assert_msg((size_t)(text.at - buffer) == strlen(quotes[_i].quoted) &&
                      memcmp(buffer, quotes[_i].quoted, strlen(quotes[_i].quoted)) == 0,
                  "%s", quotes[_i].case_name);
}

TD_TEST(text_that_does_not_fit_is_dropped_and_sets_full)
{
    char buffer[8] = "";
    struct td_text text = { buffer, buffer + 4, false };
    td_text_add(&text, "abcd", 4);
    ck_assert(!text.full);
    td_text_add(&text, "e", 1);
    ck_assert(text.full);
    ck_assert_str_eq(buffer, "abcd");
    text = (struct td_text){ buffer, buffer + 4, false };
    td_text_print(&text, "%d", 123);
    ck_assert(!text.full);
    td_text_print(&text, "%d", 4);
    ck_assert(text.full);
    ck_assert_int_eq(text.at - buffer, 3);
    ck_assert_int_eq(buffer[4], '\0');
}

static const struct {
    uint64_t value;
    const char *text;
} numbers[] = {
    { 0, "0" }, { 1, "1" }, { 9, "9" }, { 10, "10" }, { UINT64_MAX, "18446744073709551615" },
};

TD_TEST_EACH(a_number_is_written_in_decimal, numbers)
{
    char buffer[32];
    size_t length = strlen(numbers[_i].text);
    /* A buffer of exactly the necessary size. */
    struct td_text text = { buffer, buffer + length, false };
    td_text_uint(&text, numbers[_i].value);
    ck_assert_msg(!text.full && text.at == buffer + length, "%s", numbers[_i].text);
    ck_assert_mem_eq(buffer, numbers[_i].text, length);

    text = (struct td_text){ buffer, buffer + length - 1, false };
    td_text_uint(&text, numbers[_i].value);
    ck_assert_msg(text.full && text.at == buffer, "%s", numbers[_i].text);
}

TD_TEST(a_string_is_written_without_its_nul)
{
    char buffer[8] = "";
    struct td_text text = { buffer, buffer + 4, false };
    td_text_string(&text, "");
    ck_assert(!text.full && text.at == buffer);
    td_text_string(&text, "abc");
    td_text_string(&text, "d");
    ck_assert(!text.full);
    ck_assert_str_eq(buffer, "abcd");
    td_text_string(&text, "e");
    ck_assert(text.full);
    ck_assert_str_eq(buffer, "abcd");
}

static const struct {
    const char *name, *segment;
} segments[] = {
    { "", "" },
    { "movies:w@2026.11-22_a~", "movies:w@2026.11-22_a~" },
    { "a b/c?d#e%", "a%20b%2Fc%3Fd%23e%25" },
    { "\xc3\xa9t\xc3\xa9", "%C3%A9t%C3%A9" },
};

TD_TEST_EACH(a_name_is_encoded_as_a_segment_of_a_path, segments)
{
    char buffer[64];
    const char *name = segments[_i].name, *segment = segments[_i].segment;
    struct td_text text = { buffer, buffer + strlen(segment), false };
    td_text_segment(&text, name, strlen(name));
    ck_assert_msg(!text.full && text.at == buffer + strlen(segment), "%s", segment);
    ck_assert_mem_eq(buffer, segment, strlen(segment));
}

TD_TEST(a_nul_is_encoded_in_a_segment)
{
    char buffer[8];
    struct td_text text = { buffer, buffer + sizeof buffer, false };
    td_text_segment(&text, "a\0b", 3);
    ck_assert_int_eq(text.at - buffer, 5);
    ck_assert_mem_eq(buffer, "a%00b", 5);
}

TD_TEST(dimensions_are_written_with_commas_between_them)
{
    static const struct {
        struct td_shape shape;
        const char *text;
    } rows[] = {
        { { 0 }, "" },
        { { .rank = 1, .dim = { 7 } }, "7" },
        { { .rank = 3, .dim = { 2, 0, INT64_MAX } }, "2,0,9223372036854775807" },
    };
    for (int i = 0; i < COUNT_OF(rows); i++) {
        char buffer[64];
        struct td_text text = { buffer, buffer + sizeof buffer, false };
        td_text_dims(&text, rows[i].shape.dim, rows[i].shape.rank);
        ck_assert_uint_eq((size_t)(text.at - buffer), strlen(rows[i].text));
        ck_assert_mem_eq(buffer, rows[i].text, strlen(rows[i].text));
    }
}
