/* utf8.h - is it UTF-8, and if not, where does it stop being so; characters read and written.
 *
 * Strict: no overlong forms, no surrogates, nothing above U+10FFFF.
 * Source  RFC 3629, section 4. */
#ifndef TD_KERNELS_UTF8_H
#define TD_KERNELS_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of the character that begins at text[0], 1 to 4; 0 when none does. length > 0. Nothing is
 * read behind a byte that does not belong to it, so where a NUL ends the text, TD_UTF8_MAX is
 * length enough. */
#define TD_UTF8_MAX 4
size_t td_utf8_character(const unsigned char *text, size_t length);

/* The code point of that character, whose bytes are `size`. */
uint32_t td_utf8_code_point(const unsigned char *text, size_t size);

/* Bytes from the beginning that are UTF-8: length when all are. */
size_t td_utf8_valid_prefix(const char *text, size_t length);

static inline bool td_utf8_valid(const char *text, size_t length)
{
    return td_utf8_valid_prefix(text, length) == length;
}

/* Writes a code point (a scalar value) and returns the end. */
char *td_utf8_write(char *at, uint32_t code_point);

#endif
