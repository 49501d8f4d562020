/* name.h - compares text from requests with names, and formats such text and lists of names for
 * messages.
 *
 * Text from the network has a length, need not end in NUL, and can contain NULs. Functions
 * therefore compare lengths first, then bytes, and never read a byte outside the text. (strcmp and
 * strncmp would treat "INT32" followed by a NUL and more bytes as equal to "INT32".) `name`,
 * `prefix` and `suffix` are names in the source code, which end in NUL and contain no other NUL.
 *
 * Ownership  Borrows all texts. Cost       Comparison with a constant name is inlined. */
#ifndef TD_KERNELS_NAME_H
#define TD_KERNELS_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* True if the text is equal to name. */
static inline bool td_name_is(const char *name, const char *text, size_t length)
{
    return strlen(name) == length && memcmp(name, text, length) == 0;
}

/* True if the text is equal to name, ignoring the case of ASCII letters. */
bool td_name_is_caseless(const char *name, const char *text, size_t length);

/* True if the text starts with `prefix` or ends with `suffix`, or is equal to it. */
static inline bool td_name_begins(const char *prefix, const char *text, size_t length)
{
    const size_t n = strlen(prefix);
    return length >= n && memcmp(prefix, text, n) == 0;
}

static inline bool td_name_ends(const char *suffix, const char *text, size_t length)
{
    const size_t n = strlen(suffix);
    return length >= n && memcmp(suffix, text + length - n, n) == 0;
}

/* Copies a text for "%s" in a message. NULs become \u0000, and a text that does not fit is
 * truncated between characters. The code that quotes the message escapes all other characters.
 * `text` can be NULL if `length` is 0. Returns out->text. */
#define TD_SHOWN_SIZE 129 /* large enough for the longest tensor name */
struct td_shown {
    char text[TD_SHOWN_SIZE];
};
const char *td_shown_text(const char *text, size_t length, struct td_shown *out);

/* Joins the names with ", ", as in "gather, lookup". Truncates the text if it does not fit. Returns
 * text. */
const char *td_names_text(const char *const *names, int n, char *text, size_t size);

/* Calls td_shown_text with a buffer that lives until the end of the enclosing block. */
#define TD_SHOWN(text, length) td_shown_text(text, length, &(struct td_shown){ { 0 } })

#endif
