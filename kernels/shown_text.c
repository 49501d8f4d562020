#include "kernels/shown_text.h"

#include "kernels/utf8.h"

#include <string.h>

const char *td_shown_text(const char *text, size_t length, struct td_shown *out)
{
    static const char nul[] = "\\u0000";
    size_t used = 0;
    for (size_t i = 0, size; i < length; i += size) {
        size = td_utf8_character((const unsigned char *)text + i, length - i);
        size = size > 0 ? size : 1; /* not UTF-8: copy one byte unchanged */
        const bool is_nul = text[i] == '\0';
        const size_t more = is_nul ? sizeof nul - 1 : size;
        if (more >= sizeof out->text - used)
            break;
        memcpy(out->text + used, is_nul ? nul : text + i, more);
        used += more;
    }
    out->text[used] = '\0';
    return out->text;
}

size_t td_shown_cut(const char *text, size_t most)
{
    size_t start = most; /* start of the last character; continuation bytes are 10xxxxxx */
    while (start > 0 && ((unsigned char)text[start - 1] & 0xC0) == 0x80)
        start--;
    if (start == 0 || (unsigned char)text[start - 1] < 0xC0)
        return most; /* the last character is ASCII, or the text is not UTF-8 */
    const unsigned char lead = (unsigned char)text[start - 1];
    const size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
    return start - 1 + length > most ? start - 1 : most;
}
