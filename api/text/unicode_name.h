/* unicode_name.h - checks the names of resident tensors that contain characters beyond ASCII.
 *
 * A name can contain letters, combining marks and digits of any script (the general categories L, M
 * and N of Unicode), the marks inside words of Catalan, Hebrew, Tibetan and Japanese, and the
 * characters of ASCII names: A-Z, a-z, 0-9, '.', '_', ':' and '-'. The name must be in
 * normalisation form C (NFC), so each text has only one name. Everything else is refused: spaces,
 * controls, punctuation, symbols, private use, unassigned code points, and invisible characters
 * (Default_Ignorable_Code_Point) such as joiners and variation selectors. A combining mark must
 * follow a letter, a digit or another mark.
 *
 * The result depends on libunistring's version of Unicode. A newer version never accepts fewer
 * names, because NFC of assigned characters is stable.
 *
 * Ownership  Borrows the text, which does not have to end in NUL.
 * Threads    Reentrant.
 * Cost       0.3 us for a name of ten characters. ASCII names do not need this check.
 * Source     Unicode Standard Annexes 15 and 31. */
#ifndef TD_API_TEXT_UNICODE_NAME_H
#define TD_API_TEXT_UNICODE_NAME_H

#include <stdbool.h>
#include <stddef.h>

enum { TD_UNICODE_NAME = 128 }; /* maximum length of a name in bytes */

/* Why a text is not a valid name, such as "U+202E is not ...". Messages show this reason after the
 * text. */
struct td_unicode_reason {
    char text[384];
};

/* True if the text is empty, or consists of allowed characters and is in NFC. Otherwise returns
 * false and, unless `reason` is NULL, sets *reason. The name that the reason suggests ends with the
 * `rest` bytes after the text, such as "@v" for a version. A text longer than TD_UNICODE_NAME is
 * refused. */
bool td_unicode_name_valid(const char *text, size_t length, size_t rest,
                           struct td_unicode_reason *reason);

#endif
