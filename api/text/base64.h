/* base64.h - encodes and decodes base64 with the standard alphabet and padding.
 *
 * Decoding is strict: white space, missing padding and nonzero unused bits in the last character
 * are errors.
 *
 * Source  RFC 4648, section 4. */
#ifndef TD_API_TEXT_BASE64_H
#define TD_API_TEXT_BASE64_H

#include <stdbool.h>
#include <stddef.h>

/* Computes the number of characters that encode n bytes. Returns false on overflow. */
bool td_base64_encoded_size(size_t n, size_t *out);

/* Encodes n bytes to `at` and returns the end of the written text. */
char *td_base64_encode(char *at, const void *bytes, size_t n);

/* Computes, from the length and padding of the text, the number of bytes that it decodes to.
 * Returns false if the length is not a multiple of four. */
bool td_base64_decoded_size(const char *text, size_t length, size_t *out);

/* True if `c` is in the alphabet, which does not include the padding character. */
bool td_base64_is_digit(char c);

/* Decodes into `bytes`. Returns `length`, or the position of the first invalid character. */
size_t td_base64_decode(void *bytes, const char *text, size_t length);

#endif
