#include "kernels/utf8.h"

#include <string.h>

/* A well-formed character is overlong, a surrogate or above U+10FFFF if and only if its second byte
 * is outside [low, high]. The first byte determines low and high. */
size_t td_utf8_character(const unsigned char *text, size_t length)
{
    unsigned char first = text[0];
    if (first < 0x80)
        return 1;
    size_t size = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    if (first < 0xc2 || first > 0xf4 || length < size)
        return 0;
    unsigned char low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    unsigned char high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    if (text[1] < low || text[1] > high)
        return 0;
    for (size_t i = 2; i < size; i++)
        if ((text[i] & 0xc0) != 0x80)
            return 0;
    return size;
}

uint32_t td_utf8_code_point(const unsigned char *text, size_t size)
{
    /* First bytes by size: 0xxxxxxx, 110xxxxx, 1110xxxx, 11110xxx. */
    uint32_t code_point = size == 1 ? text[0] : text[0] & (0x7fu >> size);
    for (size_t i = 1; i < size; i++)
        code_point = code_point << 6 | (text[i] & 0x3fu);
    return code_point;
}

size_t td_utf8_valid_prefix(const char *text, size_t length)
{
    const unsigned char *bytes = (const unsigned char *)text;
    size_t i = 0;
    while (i < length) {
        uint64_t eight;
        if (length - i >= sizeof eight) {
            memcpy(&eight, bytes + i, sizeof eight);
            if ((eight & UINT64_C(0x8080808080808080)) == 0) {
                i += sizeof eight;
                continue;
            }
        }
        size_t size = td_utf8_character(bytes + i, length - i);
        if (size == 0)
            return i;
        i += size;
    }
    return length;
}

char *td_utf8_write(char *at, uint32_t code_point)
{
    if (code_point < 0x80) {
        *at++ = (char)code_point;
    } else if (code_point < 0x800) {
        *at++ = (char)(0xc0 | code_point >> 6);
        *at++ = (char)(0x80 | (code_point & 0x3f));
    } else if (code_point < 0x10000) {
        *at++ = (char)(0xe0 | code_point >> 12);
        *at++ = (char)(0x80 | (code_point >> 6 & 0x3f));
        *at++ = (char)(0x80 | (code_point & 0x3f));
    } else {
        *at++ = (char)(0xf0 | code_point >> 18);
        *at++ = (char)(0x80 | (code_point >> 12 & 0x3f));
        *at++ = (char)(0x80 | (code_point >> 6 & 0x3f));
        *at++ = (char)(0x80 | (code_point & 0x3f));
    }
    return at;
}
