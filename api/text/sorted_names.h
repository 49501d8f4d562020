/* sorted_names.h - where a name stands in a list that is sorted by name.
 *
 * Names from a client may hold any byte, a NUL too, and are told with their length; those of the
 * list end with a NUL. The order is that of strcmp.
 *
 * Cost       One call of name_at for each halving.
 * Threads    Any; the list must not change meanwhile. */
#ifndef TD_API_TEXT_SORTED_NAMES_H
#define TD_API_TEXT_SORTED_NAMES_H

#include <stdbool.h>
#include <stddef.h>

/* The i-th name of a list. */
typedef const char *td_name_at_fn(const void *list, int i);

/* Where the name stands among `count`, or would; *found tells which of the two. */
int td_sorted_find(const void *list, int count, td_name_at_fn *name_at, const char *name,
                   size_t length, bool *found);

#endif
