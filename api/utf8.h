/* utf8.h - is it UTF-8, and if not, where does it stop being so.
 *
 * Strict: no overlong forms, no surrogates, nothing above U+10FFFF.
 * Source  RFC 3629, section 4. */
#ifndef TD_API_UTF8_H
#define TD_API_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of the character that begins at text[0], 1 to 4; 0 when none does. length > 0. */
size_t td_utf8_character(const unsigned char *text, size_t length);

/* Bytes from the beginning that are UTF-8: length when all are. */
size_t td_utf8_valid_prefix(const char *text, size_t length);

static inline bool td_utf8_valid(const char *text, size_t length)
{
    return td_utf8_valid_prefix(text, length) == length;
}

/* Writes a code point (a scalar value) and returns the end. */
char *td_utf8_write(char *at, uint32_t code_point);

#endif
