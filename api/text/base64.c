#include "api/text/base64.h"

#include <stdint.h>

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* Value of each character, or 0xff if the character is not in the alphabet. There are sixteen
 * characters per line, starting with '\0'. */
/* clang-format off */
static const unsigned char decoded[256] = {
#define NONE4  0xff, 0xff, 0xff, 0xff
#define NONE16 NONE4, NONE4, NONE4, NONE4
    NONE16,
    NONE16,
    NONE4, NONE4, 0xff, 0xff, 0xff, 62, 0xff, 0xff, 0xff, 63,
    52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 0xff, 0xff, NONE4,
    0xff, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14,
    15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 0xff, NONE4,
    0xff, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40,
    41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 0xff, NONE4,
    NONE16, NONE16, NONE16, NONE16, NONE16, NONE16, NONE16, NONE16,
#undef NONE16
#undef NONE4
};
/* clang-format on */

bool td_base64_encoded_size(size_t n, size_t *out)
{
    size_t groups = n / 3 + (n % 3 != 0);
    return !__builtin_mul_overflow(groups, (size_t)4, out);
}

char *td_base64_encode(char *at, const void *bytes, size_t n)
{
    const unsigned char *from = bytes;
    size_t i = 0;
    for (; n - i >= 3; i += 3) {
        uint32_t group = (uint32_t)from[i] << 16 | (uint32_t)from[i + 1] << 8 | from[i + 2];
        at[0] = alphabet[group >> 18];
        at[1] = alphabet[group >> 12 & 63];
        at[2] = alphabet[group >> 6 & 63];
        at[3] = alphabet[group & 63];
        at += 4;
    }
    if (n - i == 1) {
        at[0] = alphabet[from[i] >> 2];
        at[1] = alphabet[(from[i] & 3) << 4];
        at[2] = at[3] = '=';
        at += 4;
    } else if (n - i == 2) {
        at[0] = alphabet[from[i] >> 2];
        at[1] = alphabet[(from[i] & 3) << 4 | from[i + 1] >> 4];
        at[2] = alphabet[(from[i + 1] & 15) << 2];
        at[3] = '=';
        at += 4;
    }
    return at;
}

bool td_base64_decoded_size(const char *text, size_t length, size_t *out)
{
    if (length % 4 != 0)
        return false;
    *out = length / 4 * 3;
    if (length != 0 && text[length - 1] == '=')
        *out -= text[length - 2] == '=' ? 2 : 1;
    return true;
}

/* Returns the position of the first invalid character among the first n characters of a group of
 * four, or n if all of them are valid. */
static size_t first_invalid(const unsigned char *group, size_t n)
{
    size_t i = 0;
    while (i < n && decoded[group[i]] != 0xff)
        i++;
    return i;
}

bool td_base64_is_digit(char c)
{
    return decoded[(unsigned char)c] != 0xff;
}

size_t td_base64_decode(void *bytes, const char *text, size_t length)
{
    const unsigned char *from = (const unsigned char *)text;
    unsigned char *to = bytes;
    size_t padding = 0;
    if (length != 0 && text[length - 1] == '=')
        padding = text[length - 2] == '=' ? 2 : 1;
    size_t whole = padding ? length - 4 : length;
    for (size_t i = 0; i < whole; i += 4) {
        unsigned a = decoded[from[i]], b = decoded[from[i + 1]], c = decoded[from[i + 2]],
                 d = decoded[from[i + 3]];
        if ((a | b | c | d) == 0xff) /* valid characters have values below 64 */
            return i + first_invalid(from + i, 4);
        to[0] = (unsigned char)(a << 2 | b >> 4);
        to[1] = (unsigned char)(b << 4 | c >> 2);
        to[2] = (unsigned char)(c << 6 | d);
        to += 3;
    }
    if (padding == 0)
        return length;

    const unsigned char *last = from + whole;
    size_t invalid = first_invalid(last, 4 - padding);
    if (invalid < 4 - padding)
        return whole + invalid;
    to[0] = (unsigned char)(decoded[last[0]] << 2 | decoded[last[1]] >> 4);
    if (padding == 1)
        to[1] = (unsigned char)(decoded[last[1]] << 4 | decoded[last[2]] >> 2);
    unsigned extra_bits = padding == 2 ? decoded[last[1]] & 15u : decoded[last[2]] & 3u;
    return extra_bits ? whole + 3 - padding : length;
}
