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
