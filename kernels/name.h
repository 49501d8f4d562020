/* name.h - compares text from requests with names, and joins names for messages.
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

/* Joins the names with ", ", as in "gather, lookup". Truncates the text if it does not fit. Returns
 * text. */
const char *td_names_text(const char *const *names, int n, char *text, size_t size);

#endif
