/* table_name.h - names of resident tensors: BASE, or BASE@VERSION for an immutable version of BASE.
 *
 *     movies   model:w   movies@20261122   model:w@20261122
 *
 * BASE consists of letters, digits and combining marks of any script in normalisation form C
 * (api/text/unicode_name.h), '.', '_', ':' and '-'. It does not start with '.'. VERSION has 1 to 64
 * of the characters A-Z, a-z, 0-9, '.', '_' and '-'. The whole name has at most TD_TENSOR_NAME - 1
 * bytes. Names are compared byte by byte.
 *
 * Threads    Reentrant. */
#ifndef TD_SERVER_STORE_TABLE_NAME_H
#define TD_SERVER_STORE_TABLE_NAME_H

#include "api/text/unicode_name.h"

#include <stdbool.h>
#include <stddef.h>

#define TD_TENSOR_NAME   129 /* with its NUL */
#define TD_TABLE_VERSION 65  /* with its NUL */

bool td_name_valid(const char *name);

/* Returns the reason that a text with characters beyond ASCII cannot be a name, such as "it is not
 * in Unicode normalisation form C (NFC); expected ...". Returns NULL if the text has no such
 * characters, if they are all allowed, or if the text is too long. */
const char *td_name_fault(const char *name, size_t length, struct td_unicode_reason *reason);

/* Rules for names, for messages about text that breaks the rules. */
#define TD_NAME_EXPECTED                                                                           \
    "1 to 128 bytes of letters, digits and combining marks of any script, '.', '_', ':' and '-', " \
    "not starting with '.', optionally followed by '@' and a version of at most 64 of the "        \
    "characters A-Z, a-z, 0-9, '.', '_' and '-'"

/* True if the name is the name of a tensor's keys, because its BASE ends in ".keys". For example,
 * "w.keys@v" is the name of the keys of "w@v". Sets `table` to the name of the tensor. */
bool td_table_of_keys(const char *name, size_t length, char table[TD_TENSOR_NAME],
                      size_t *table_length);

/* Writes the name of a tensor's keys to `name`. */
enum { TD_KEYS_NAME = TD_TENSOR_NAME + 5 };
void td_table_keys_name(const char *table, char name[TD_KEYS_NAME]);

/* True if the text can be the VERSION of a name. A text that ends in ".keys", or in the name of a
 * part of a table, cannot be a VERSION. Otherwise, "w@v.keys" would be a version of w, although
 * "w.keys@v" was meant. */
bool td_table_version_valid(const char *version);

/* Returns the suffix of the version if it is "keys" or the name of a part of a table, otherwise
 * NULL. */
const char *td_table_part_of_version(const char *version);

/* td_table_version returns the VERSION of a valid name, or NULL if the name has no version.
 * td_table_base returns the length of the name's BASE. */
const char *td_table_version(const char *name);
size_t td_table_base(const char *name);

/* Parts that a table of integers can have: "scale", "offset" and "zero_point". The parts are
 * separate tensors that belong to the rows of the table. The ops use the same names for their
 * inputs (td_companion in kernels/op.h). */
enum { TD_TABLE_PARTS = 3 };
extern const char *const td_table_parts[TD_TABLE_PARTS];

/* td_table_part_name writes the name of a part of a table: "t.scale@v" for the table "t@v" and the
 * part "scale". It returns false if that name is too long. td_table_of_part writes the name of the
 * table to which a part belongs. It returns false if the BASE of the name does not end in the part,
 * as in ".scale". */
bool td_table_part_name(const char *table, const char *part, char name[TD_TENSOR_NAME]);
bool td_table_of_part(const char *name, const char *part, char table[TD_TENSOR_NAME]);

/* Compares versions in natural order, in which numbers compare by value: v9 sorts before v10.
 * Returns 0 only if both texts are the same. */
int td_table_version_order(const char *a, const char *b);

/* Writes the name of the tensor `tensor` of STEM.safetensors: "m:w" for the stem "m", and "m:w@v"
 * for the stem "m@v". If the name does not fit, the truncated name is too long to be valid. */
enum { TD_TABLE_NAME_IN_FILE = 3 * TD_TENSOR_NAME };
void td_table_name_in_file(const char *stem, const char *tensor, char name[TD_TABLE_NAME_IN_FILE]);

/* Writes to `stem` the next stem of a .safetensors file that can contain the name. Returns false
 * after the last stem. *place must be 0 before the first call. */
bool td_table_next_stem(const char *name, int *place, char stem[TD_TENSOR_NAME]);

#endif
