/* utf8.h - UTF-8: validation with the position of the first error, decoding and encoding.
 *
 * Overlong forms, surrogates and code points above U+10FFFF are not valid.
 *
 * Source     RFC 3629, section 4. */
#ifndef TD_KERNELS_UTF8_H
#define TD_KERNELS_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns the size in bytes of the character at text[0], from 1 to 4, or 0 if it is not valid
 * UTF-8. length must be at least 1. Reading stops at the first byte that does not belong to the
 * character, so for NUL-terminated text the caller can pass TD_UTF8_MAX as length. */
#define TD_UTF8_MAX 4
size_t td_utf8_character(const unsigned char *text, size_t length);

/* Returns the code point of a valid character of `size` bytes. */
uint32_t td_utf8_code_point(const unsigned char *text, size_t size);

/* Returns the length of the longest prefix that is valid UTF-8, which is `length` if the whole text
 * is valid. */
size_t td_utf8_valid_prefix(const char *text, size_t length);

static inline bool td_utf8_valid(const char *text, size_t length)
{
    return td_utf8_valid_prefix(text, length) == length;
}

/* Writes a code point, which must not be a surrogate, and returns the end of the written bytes. */
char *td_utf8_write(char *at, uint32_t code_point);

#endif
