/* sorted_names.h - binary search for a name in a sorted list.
 *
 * Names from a client can contain any byte, including NUL, so they are passed with their length.
 * The names in the list are NUL-terminated and sorted in strcmp order.
 *
 * Cost       One call of name_at for each halving of the list.
 * Threads    Reentrant; the list must not change during the call. */
#ifndef TD_API_TEXT_SORTED_NAMES_H
#define TD_API_TEXT_SORTED_NAMES_H

#include <stdbool.h>
#include <stddef.h>

/* Returns the i-th name of a list. */
typedef const char *td_name_at_fn(const void *list, int i);

/* Returns the index of the name in a list of `count` names and sets *found to true. If the list
 * does not contain the name, sets *found to false and returns the index at which to insert it. */
int td_sorted_find(const void *list, int count, td_name_at_fn *name_at, const char *name,
                   size_t length, bool *found);

/* Like td_sorted_find, but compares the last name first. This is faster for a caller that adds most
 * names in order, because each new name then follows all others. */
int td_sorted_find_at_end(const void *list, int count, td_name_at_fn *name_at, const char *name,
                          size_t length, bool *found);

#endif
