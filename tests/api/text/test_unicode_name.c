#include "api/text/unicode_name.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define E_ACUTE     "\xc3\xa9"     /* U+00E9 */
#define ACUTE       "\xcc\x81"     /* U+0301, a combining mark */
#define JOINER      "\xe2\x80\x8d" /* U+200D */
#define HAN         "\xe6\xbc\xa2" /* U+6F22 */
#define FOUR_MARKS  ACUTE ACUTE ACUTE ACUTE
#define EIGHT_MARKS FOUR_MARKS FOUR_MARKS

static const struct {
    const char *says, *text;
    const char *why; /* a part of the reason; NULL: valid */
} names[] = {
    { "a precomposed letter", "caf" E_ACUTE, NULL },
    { "all that names in ASCII have", E_ACUTE "aZ09._:-", NULL },
    { "Han", HAN "\xe5\xad\x97", NULL },
    { "Hangul syllables", "\xed\x95\x9c\xea\xb8\x80", NULL },
    { "Cyrillic", "\xd0\xb6\xd0\xb8\xd0\xb7\xd0\xbd\xd1\x8c", NULL },
    { "Arabic, without a control of direction", "\xd8\xb9\xd8\xb1\xd8\xa8\xd9\x8a", NULL },
    { "Devanagari with vowel signs", "\xe0\xa4\xb9\xe0\xa4\xbf\xe0\xa4\x82\xe0\xa4\xa6\xe0\xa5\x80",
      NULL },
    { "Thai vowels and tone marks", "\xe0\xb8\x97\xe0\xb8\xb5\xe0\xb9\x88", NULL },
    { "Arabic-Indic digits", "\xd9\xa3\xd9\xa4", NULL },
    { "a letter beyond U+FFFF", "\xf0\xa0\xae\xb7", NULL },
    { "a Roman numeral and a superscript digit",
      "\xe2\x85\xa3"
      "m\xc2\xb2",
      NULL },
    { "a mark without a composed letter", "x" ACUTE, NULL },
    { "several marks in canonical order", "x\xcc\xa3" ACUTE, NULL },
    { "the Katakana middle dot between words", "\xe3\x82\xa2\xe3\x83\xbb\xe3\x82\xa4", NULL },
    { "the middle dot of Catalan", "col\xc2\xb7lecci\xc3\xb3", NULL },
    { "full-width letters, which NFC keeps", "\xef\xbc\xa1", NULL },

    { "a decomposed letter", "cafe" ACUTE, "expected 'caf" E_ACUTE "', in a path caf%C3%A9" },
    { "marks in another order", "x" ACUTE "\xcc\xa3", "(NFC); expected 'x\xcc\xa3" ACUTE "'" },
    { "conjoining jamo", "\xe1\x84\x92\xe1\x85\xa1", "expected '\xed\x95\x98'" },
    { "a letter that NFC replaces: ANGSTROM SIGN", "\xe2\x84\xab", "expected '\xc3\x85'" },
    { "a letter that NFC decomposes", "\xe0\xa5\x98", "expected '\xe0\xa4\x95\xe0\xa4\xbc'" },
    { "a compatibility ideograph", "\xef\xa4\x80", "expected '\xe8\xb1\x88'" },
    { "a mark at the start", ACUTE "x", "mark U+0301 does not follow" },
    { "a mark after a dot", E_ACUTE "." ACUTE, "mark U+0301 does not follow" },
    { "a mark after a middle dot", "l\xc2\xb7" ACUTE, "mark U+0301 does not follow" },
    { "a space", E_ACUTE " b", "U+0020 is not allowed; expected letters" },
    { "a no-break space",
      "a\xc2\xa0"
      "b",
      "U+00A0 is not allowed" },
    { "an ideographic space", HAN "\xe3\x80\x80" HAN, "U+3000 is not allowed" },
    { "a control of C1", "a\xc2\x85", "U+0085 is not allowed" },
    { "a line separator", "a\xe2\x80\xa8", "U+2028 is not allowed" },
    { "right-to-left override",
      "a\xe2\x80\xae"
      "b",
      "U+202E is not allowed" },
    { "right-to-left mark", "a\xe2\x80\x8f", "U+200F is not allowed" },
    { "isolate", "a\xe2\x81\xa6", "U+2066 is not allowed" },
    { "zero-width joiner", "a" JOINER "b", "U+200D is not allowed" },
    { "soft hyphen",
      "a\xc2\xad"
      "b",
      "U+00AD is not allowed" },
    { "byte order mark",
      "\xef\xbb\xbf"
      "a",
      "U+FEFF is not allowed" },
    { "variation selector, an invisible mark", HAN "\xef\xb8\x80", "U+FE00 is not allowed" },
    { "ideographic variation selector", HAN "\xf3\xa0\x84\x80", "U+E0100 is not allowed" },
    { "grapheme joiner, an invisible mark", "a\xcd\x8f", "U+034F is not allowed" },
    { "Hangul filler, an invisible letter", "\xe3\x85\xa4", "U+3164 is not allowed" },
    { "private use", "\xee\x80\x80", "U+E000 is not allowed" },
    { "a noncharacter", "\xef\xbf\xbf", "U+FFFF is not allowed" },
    { "unassigned", "\xf0\xaf\xbf\xb0", "U+2FFF0 is not allowed" },
    { "emoji", "\xf0\x9f\x98\x80", "U+1F600 is not allowed" },
    { "currency", "\xe2\x82\xac", "U+20AC is not allowed" },
    { "a full-width slash",
      "a\xef\xbc\x8f"
      "b",
      "U+FF0F is not allowed" },
    { "a full-width @",
      "a\xef\xbc\xa0"
      "b",
      "U+FF20 is not allowed" },
    { "a typographic apostrophe",
      "l\xe2\x80\x99"
      "eau",
      "U+2019 is not allowed" },
    { "characters with a meaning in paths", E_ACUTE "/", "U+002F is not allowed" },
    { "a percent sign", E_ACUTE "%", "U+0025 is not allowed" },
    { "an at sign, which is not in a BASE", E_ACUTE "@v", "U+0040 is not allowed" },
    { "a backslash", E_ACUTE "\\", "U+005C is not allowed" },
    { "Latin-1", "caf\xe9", "byte 0xE9 is not valid UTF-8" },
    { "half a character", "a\xe6\xbc", "byte 0xE6 is not valid UTF-8" },
    { "an overlong slash", "a\xc0\xaf", "byte 0xC0 is not valid UTF-8" },
    { "a surrogate", "\xed\xa0\x80", "byte 0xED is not valid UTF-8" },
    { "beyond U+10FFFF", "\xf4\x90\x80\x80", "byte 0xF4 is not valid UTF-8" },
};

static void expect(const char *says, const char *text, size_t length, const char *why)
{
    struct td_unicode_reason reason;
    /* In memory of its own, so that a sanitizer sees a read after its end. */
    char *copy = malloc(length ? length : 1);
    memcpy(copy, text, length);
    const bool valid = td_unicode_name_valid(copy, length, 0, &reason);
    ck_assert_msg(valid == !why, "%s: %s", says, valid ? "valid" : reason.text);
    ck_assert_msg(!why || strstr(reason.text, why), "%s: %s", says, reason.text);
    ck_assert_int_eq(td_unicode_name_valid(copy, length, 0, NULL), valid);
    free(copy);
}

TD_TEST_EACH(a_name_has_letters_marks_and_digits_in_nfc, names)
{
    expect(names[_i].says, names[_i].text, strlen(names[_i].text), names[_i].why);
}

TD_TEST(a_nul_is_refused)
{
    expect("a NUL", E_ACUTE "\0b", 4, "U+0000 is not allowed");
}

TD_TEST(an_empty_text_has_no_other_characters)
{
    expect("nothing", "", 0, NULL);
}

/* More marks in a row than libunistring sorts without memory. */
TD_TEST(a_name_has_at_most_128_bytes)
{
    char text[TD_UNICODE_NAME + 2] = "xx";
    for (size_t i = 2; i < TD_UNICODE_NAME; i += 2)
        memcpy(text + i, ACUTE, 2);
    expect("128 bytes", text, TD_UNICODE_NAME, NULL);
    expect("130 bytes", text, TD_UNICODE_NAME + 2, "it has 130 bytes; expected at most 128");
}

TD_TEST(the_nfc_form_may_be_too_long)
{
    char text[TD_UNICODE_NAME];
    for (size_t i = 0; i + 3 <= sizeof text; i += 3)
        memcpy(text + i, "\xe0\xa5\x98", 3);
    expect("42 letters of 3 bytes", text, 126, "that form has 252 bytes, expected at most 128");
}

/* The part of a path would take 384 bytes. */
TD_TEST(a_hint_is_whole_or_left_out)
{
    struct td_unicode_reason reason;
    char text[TD_UNICODE_NAME];
    for (size_t i = 0; i + 3 <= sizeof text; i += 3)
        memcpy(text + i, "\xef\xa4\x80", 3);
    ck_assert(!td_unicode_name_valid(text, 126, 0, &reason));
    ck_assert_ptr_nonnull(strstr(reason.text, "\xe8\xb1\x88'"));
    ck_assert_int_eq(reason.text[strlen(reason.text) - 1], '\'');
}

/* Bytes of any value: memory is a sanitizer's to check. What is valid has no ASCII but that of
 * names. */
TD_TEST_LOOP(any_bytes_are_valid_or_have_a_reason, 0, 4)
{
    static const char *const parts[] = { "a",    ".",         E_ACUTE,        "e" ACUTE, HAN,
                                         JOINER, EIGHT_MARKS, "\xe1\x84\x92", "@",       " " };
    srandom((unsigned)_i);
    for (int n = 0; n < 5000 * test_effort(); n++) {
        char text[TD_UNICODE_NAME + 16];
        size_t length = 0;
        while (length < TD_UNICODE_NAME && random() % 10) {
            const char *part = parts[(size_t)random() % COUNT_OF(parts)];
            memcpy(text + length, part, strlen(part));
            if (random() % 16 == 0)
                text[length] = (char)random();
            length += strlen(part);
        }
        char *copy = malloc(length ? length : 1);
        memcpy(copy, text, length);
        struct td_unicode_reason reason;
        if (!td_unicode_name_valid(copy, length, 0, &reason))
            ck_assert(reason.text[0] && strlen(reason.text) < sizeof reason.text);
        else
            for (size_t i = 0; i < length; i++)
                ck_assert(
                    (unsigned char)copy[i] >= 0x80 || copy[i] == 'a' || copy[i] == 'e' ||
                    strchr("0123456789._:-ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
                           copy[i]));
        free(copy);
    }
}
