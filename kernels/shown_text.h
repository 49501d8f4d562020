/* shown_text.h - text from requests, as shown in messages, and the key in an error: cut to 128
 * bytes between characters, with NULs escaped in messages. */
#ifndef TD_KERNELS_SHOWN_TEXT_H
#define TD_KERNELS_SHOWN_TEXT_H

#include <stddef.h>

/* Copies a text for "%s" in a message. NULs become \u0000, and a text that does not fit is cut
 * between characters. The code that quotes the message escapes all other characters. `text` can be
 * NULL if `length` is 0. Returns out->text. */
#define TD_SHOWN_SIZE 129 /* large enough for the longest tensor name */
struct td_shown {
    char text[TD_SHOWN_SIZE];
};
const char *td_shown_text(const char *text, size_t length, struct td_shown *out);

/* Returns how many of the first `most` bytes of a longer text to keep, so that the cut is between
 * characters. Keeps all of them if the text is not UTF-8 there. */
size_t td_shown_cut(const char *text, size_t most);

/* Calls td_shown_text with a buffer that lives until the end of the enclosing block. */
#define TD_SHOWN(text, length) td_shown_text(text, length, &(struct td_shown){ { 0 } })

#endif
