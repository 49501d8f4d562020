/* base64.h - bytes as text, with the standard alphabet and padding.
 *
 * Strict when reading: no white space, padding where it is due, no stray bits in the last letter.
 * Source  RFC 4648, section 4. */
#ifndef TD_API_TEXT_BASE64_H
#define TD_API_TEXT_BASE64_H

#include <stdbool.h>
#include <stddef.h>

/* Letters that n bytes take. False on overflow. */
bool td_base64_encoded_size(size_t n, size_t *out);

/* Writes them and returns the end. */
char *td_base64_encode(char *at, const void *bytes, size_t n);

/* Bytes that the text stands for, told from its length and padding. False when the length is not a
 * multiple of four. */
bool td_base64_decoded_size(const char *text, size_t length, size_t *out);

/* Writes them. Returns length, or the position of the first letter that is wrong. */
size_t td_base64_decode(void *bytes, const char *text, size_t length);

#endif
