/* name.h - counted text from outside, compared with names that end in NUL, and shown in messages.
 *
 * Text from the network has a length; it need not end in NUL and may hold NULs. So lengths are
 * compared first, then bytes, and no byte outside the text is read: strcmp and strncmp would take
 * "INT32" followed by a NUL for "INT32", and then read on past it. `name`, `prefix` and `suffix`
 * are our own: they end in NUL and hold none.
 *
 * Ownership  Borrows all texts.
 * Cost       A constant name is compared without a call. */
#ifndef TD_KERNELS_NAME_H
#define TD_KERNELS_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Is the text that name? */
static inline bool td_name_is(const char *name, const char *text, size_t length)
{
    return strlen(name) == length && memcmp(name, text, length) == 0;
}

/* The same where upper and lower case of ASCII letters are alike. */
bool td_name_is_caseless(const char *name, const char *text, size_t length);

/* Does the text begin with prefix, or end with suffix? It may be nothing else. */
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

/* As much of a text as fits, for "%s" in a message: NULs are written \u0000, and it is cut off
 * between characters. Nothing else is escaped: what quotes the message does that. text may be NULL
 * where length is 0. */
#define TD_SHOWN_SIZE 129 /* room for the longest name of a resident tensor */
struct td_shown {
    char text[TD_SHOWN_SIZE];
};
const char *td_shown_text(const char *text, size_t length, struct td_shown *out);

/* The same, in memory that lasts until the end of the block. */
#define TD_SHOWN(text, length) td_shown_text(text, length, &(struct td_shown){ { 0 } })

#endif
