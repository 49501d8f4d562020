/* unicode_name.h - names of resident tensors with characters beyond ASCII.
 *
 * Such a name has letters, combining marks and digits of any script (the general categories L, M
 * and N of Unicode), the marks inside words of Catalan, Hebrew, Tibetan and Japanese, and the
 * characters that names in ASCII have: A-Z, a-z, 0-9, '.', '_', ':' and '-'. It is in normalisation
 * form C (NFC), so that one text has one name. Invisible characters (Default_Ignorable_Code_Point),
 * such as joiners and variation selectors, are refused, and so is everything else: spaces,
 * controls, punctuation, symbols, private use, unassigned code points. A combining mark needs a
 * letter, a digit or another mark before it.
 *
 * libunistring decides, with the tables of its version of Unicode: a newer one accepts more names
 * and never fewer, because NFC of assigned characters is stable.
 *
 * Ownership  Borrows the text, which need not end in NUL.
 * Threads    Reentrant.
 * Cost       0.3 us for a name of ten characters. Names in ASCII need no call of this.
 * Source     Unicode Standard Annexes 15 and 31. */
#ifndef TD_API_TEXT_UNICODE_NAME_H
#define TD_API_TEXT_UNICODE_NAME_H

#include <stdbool.h>
#include <stddef.h>

enum { TD_UNICODE_NAME = 128 }; /* maximum bytes of a name */

/* Why a text is not such a name: "U+202E is not ...", for a message that has the text before it. */
struct td_unicode_reason {
    char text[384];
};

/* True if the text consists of these characters and is in NFC; an empty text does. Otherwise
 * *reason says why not, unless it is NULL; the form that is expected ends with the `rest` bytes
 * after the text, such as "@v" of a version. A longer text than TD_UNICODE_NAME is refused. */
bool td_unicode_name_valid(const char *text, size_t length, size_t rest,
                           struct td_unicode_reason *reason);

#endif
