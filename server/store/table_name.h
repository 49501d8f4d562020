/* table_name.h - names of resident tensors: BASE, or BASE@VERSION for an immutable version of BASE.
 *
 *     movies   model:w   movies@20261122   model:w@20261122
 *
 * BASE has letters, digits and combining marks of any script in normalisation form C
 * (api/text/unicode_name.h), '.', '_', ':' and '-', the first of them not '.'; VERSION 1 to 64 of
 * the characters A-Z, a-z, 0-9, '.', '_' and '-'. The whole name has at most TD_TENSOR_NAME - 1
 * bytes. Names are compared by their bytes.
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

/* Why a text with characters beyond ASCII cannot be a name: "it is not in Unicode normalisation
 * form C (NFC); expected ...". NULL if these characters are allowed, if it has none, or if it is
 * too long. */
const char *td_name_fault(const char *name, size_t length, struct td_unicode_reason *reason);

/* The rules of names, for messages about text that breaks them. */
#define TD_NAME_EXPECTED                                                                           \
    "1 to 128 bytes of letters, digits and combining marks of any script, '.', '_', ':' and '-', " \
    "the first of them not '.', and perhaps '@' and a version of at most 64 of the characters "    \
    "A-Z, a-z, 0-9, '.', '_' and '-'"

/* A BASE that ends in ".keys" is not the name of a tensor but of the keys of one: "w.keys@v" of
 * "w@v". Whether this is such a name; then the tensor's. */
bool td_table_of_keys(const char *name, size_t length, char table[TD_TENSOR_NAME],
                      size_t *table_length);

/* The name of the keys of a tensor. */
enum { TD_KEYS_NAME = TD_TENSOR_NAME + 5 };
void td_table_keys_name(const char *table, char name[TD_KEYS_NAME]);

/* Whether it can be the VERSION of a name. One that ends in ".keys" or in the name of a part of a
 * table cannot: "w@v.keys" would be a version of w, and "w.keys@v" was meant. */
bool td_table_version_valid(const char *version);

/* The "keys" or the part in which it ends; NULL for none. */
const char *td_table_part_of_version(const char *version);

/* The VERSION of a valid name, NULL if it has none; and the length of its BASE. */
const char *td_table_version(const char *name);
size_t td_table_base(const char *name);

/* The parts that a table of integers may have, tensors of their own that belong to its rows:
 * "scale", "offset", "zero_point". The ops name their inputs in the same way (td_companion in
 * kernels/op.h). */
enum { TD_TABLE_PARTS = 3 };
extern const char *const td_table_parts[TD_TABLE_PARTS];

/* The name of a part of a table: "t.scale@v" of "t@v" and "scale"; false if it is too long for a
 * name. And the table's name of such a name; false if its BASE does not end in ".scale". */
bool td_table_part_name(const char *table, const char *part, char name[TD_TENSOR_NAME]);
bool td_table_of_part(const char *name, const char *part, char table[TD_TENSOR_NAME]);

/* Compares versions in natural order, in which numbers are compared by their value: v9 before v10.
 * 0 only if they are the same text. */
int td_table_version_order(const char *a, const char *b);

/* The name of tensor `tensor` of STEM.safetensors: "m:w", of the stem "m@v" "m:w@v". Truncated
 * names are too long to be valid. */
enum { TD_TABLE_NAME_IN_FILE = 3 * TD_TENSOR_NAME };
void td_table_name_in_file(const char *stem, const char *tensor, char name[TD_TABLE_NAME_IN_FILE]);

/* The stems of the .safetensors files that can hold the name, one after the other; false after the
 * last. *place is 0 at first. */
bool td_table_next_stem(const char *name, int *place, char stem[TD_TENSOR_NAME]);

#endif
