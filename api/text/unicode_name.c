#include "api/text/unicode_name.h"

#include "api/text/text.h"
#include "kernels/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unictype.h>
#include <uninorm.h>

/* True for the middle dot, geresh, gershayim, tsheg and the Katakana middle dot, which are
 * punctuation but occur inside words (table 3a of Annex 31). */
static bool is_inside_words(uint32_t c)
{
    return c == 0xb7 || c == 0x5f3 || c == 0x5f4 || c == 0xf0b || c == 0x30fb;
}

static bool is_mark(uint32_t c)
{
    return uc_is_general_category_withtable(c, UC_CATEGORY_MASK_M);
}

static bool is_ascii_punctuation(uint32_t c)
{
    return c < 0x80 && strchr("._:-", (int)c) != NULL;
}

static bool is_name_character(uint32_t c)
{
    static const uint32_t categories = UC_CATEGORY_MASK_L | UC_CATEGORY_MASK_M | UC_CATEGORY_MASK_N;
    return is_ascii_punctuation(c) || is_inside_words(c) ||
           (uc_is_general_category_withtable(c, categories) &&
            !uc_is_property_default_ignorable_code_point(c));
}

/* Checks all characters. `reason` names the first character that is refused. */
static bool check_characters(const char *text, size_t length, struct td_unicode_reason *reason)
{
    bool marks = false; /* true if a combining mark is allowed next */
    for (size_t i = 0; i < length;) {
        const unsigned char *at = (const unsigned char *)text + i;
        const size_t size = td_utf8_character(at, length - i);
        const uint32_t c = size > 0 ? td_utf8_code_point(at, size) : 0;
        if (size == 0)
            snprintf(reason->text, sizeof reason->text, "byte 0x%02X is not valid UTF-8", *at);
        else if (c == 0 || !is_name_character(c))
            snprintf(reason->text, sizeof reason->text,
                     "U+%04X is not allowed; expected letters, digits and combining marks of any "
                     "script, '.', '_', ':' and '-'",
                     c);
        else if (!marks && is_mark(c))
            snprintf(reason->text, sizeof reason->text,
                     "the combining mark U+%04X does not follow a letter or a digit", c);
        if (reason->text[0])
            return false;
        marks = !is_ascii_punctuation(c) && !is_inside_words(c);
        i += size;
    }
    return true;
}

/* Writes the NFC form both as text and percent-encoded for a path, because the text can look the
 * same as the given name. */
static void name_nfc(const char *nfc, size_t length, const char *rest, size_t rest_length,
                     struct td_unicode_reason *reason)
{
    struct td_text text = { .at = reason->text, .end = reason->text + sizeof reason->text - 1 };
    td_text_string(&text, "it is not in Unicode normalisation form C (NFC); ");
    if (length > TD_UNICODE_NAME) {
        td_text_print(&text, "that form has %zu bytes, expected at most %d", length,
                      TD_UNICODE_NAME);
    } else {
        td_text_string(&text, "expected '");
        td_text_add(&text, nfc, length);
        td_text_add(&text, rest, rest_length);
        td_text_string(&text, "'");
        const struct td_text before = text;
        td_text_string(&text, ", in a path ");
        td_text_segment(&text, nfc, length);
        td_text_segment(&text, rest, rest_length);
        if (text.full)
            text = before;
    }
    *text.at = '\0';
}

/* Checks that the text is in NFC. Allocates memory only to sort a run of combining marks longer
 * than any language has. */
static bool check_nfc(const char *text, size_t length, size_t rest,
                      struct td_unicode_reason *reason)
{
    uint8_t room[4 * TD_UNICODE_NAME];
    size_t size = sizeof room;
    uint8_t *nfc = u8_normalize(UNINORM_NFC, (const uint8_t *)text, length, room, &size);
    const bool same = nfc && size == length && memcmp(nfc, text, length) == 0;
    if (!nfc)
        snprintf(reason->text, sizeof reason->text, "no memory to compare it with its NFC form");
    else if (!same)
        name_nfc((const char *)nfc, size, text + length, rest, reason);
    if (nfc != room)
        free(nfc);
    return same;
}

bool td_unicode_name_valid(const char *text, size_t length, size_t rest,
                           struct td_unicode_reason *reason)
{
    struct td_unicode_reason unused;
    if (!reason)
        reason = &unused;
    reason->text[0] = '\0';
    if (length > TD_UNICODE_NAME) {
        snprintf(reason->text, sizeof reason->text, "it has %zu bytes; expected at most %d", length,
                 TD_UNICODE_NAME);
        return false;
    }
    return check_characters(text, length, reason) && check_nfc(text, length, rest, reason);
}
