/* version_name.h - the VERSION in the name BASE@VERSION of a tensor: which texts are valid, and
 * their natural order.
 *
 * VERSION has 1 to 64 of the characters A-Z, a-z, 0-9, '.', '_' and '-'.
 *
 * Threads    Reentrant. */
#ifndef TD_SERVER_STORE_VERSION_NAME_H
#define TD_SERVER_STORE_VERSION_NAME_H

#include <stdbool.h>
#include <stddef.h>

#define TD_TABLE_VERSION 65 /* with its NUL */

/* The characters of a VERSION. The BASE of a name can have other characters, too. */
#define TD_NAME_DIGITS "0123456789"
#define TD_NAME_CHARACTERS                                                                         \
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ" TD_NAME_DIGITS "._-"

/* td_table_version returns the VERSION of a valid name, or NULL if the name has no version.
 * td_table_base returns the length of the name's BASE. */
const char *td_table_version(const char *name);
size_t td_table_base(const char *name);

/* True if the text can be the VERSION of a name. A text that ends in ".keys", in ".program" or in
 * the name of a part of a table cannot be a VERSION. Otherwise, "w@v.keys" would be a version of w,
 * although "w.keys@v" was meant. */
bool td_version_name_valid(const char *version);

/* Returns the suffix of the version if it is "keys", "program" or the name of a part of a table,
 * otherwise NULL. */
const char *td_version_name_part(const char *version);

/* Compares versions in natural order, in which numbers compare by value: v9 sorts before v10.
 * Returns 0 only if both texts are the same. */
int td_version_name_order(const char *a, const char *b);

#endif
