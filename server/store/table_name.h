/* table_name.h - names of resident tensors: BASE, or BASE@VERSION for an immutable version of BASE.
 *
 *     movies   model:w   movies@20261122   model:w@20261122
 *
 * BASE consists of letters, digits and combining marks of any script in normalisation form C
 * (api/text/unicode_name.h), '.', '_', ':' and '-'. It does not start with '.'. version_name.h
 * describes VERSION. The whole name has at most TD_TENSOR_NAME - 1 bytes. Names are compared byte
 * by byte.
 *
 * Threads    Reentrant. */
#ifndef TD_SERVER_STORE_TABLE_NAME_H
#define TD_SERVER_STORE_TABLE_NAME_H

#include "api/text/unicode_name.h"
#include "kernels/status.h"
#include "server/store/version_name.h"

#include <stdbool.h>
#include <stddef.h>

#define TD_TENSOR_NAME 129 /* with its NUL */

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

/* Returns INVALID_ARGUMENT, with the reason, unless the name is valid. */
TD_MUST_CHECK td_status td_name_check(const char *name, struct td_error *err);

/* True if the name is the name of a tensor's keys, because its BASE ends in ".keys". For example,
 * "w.keys@v" is the name of the keys of "w@v". Sets `table` to the name of the tensor. */
bool td_table_of_keys(const char *name, size_t length, char table[TD_TENSOR_NAME],
                      size_t *table_length);

/* Writes the name of a tensor's keys to `name`. */
enum { TD_KEYS_NAME = TD_TENSOR_NAME + 5 };
void td_table_keys_name(const char *table, char name[TD_KEYS_NAME]);

/* A program is stored as the tensor NAME.program, or NAME.program@VERSION: a vector of bytes, the
 * JSON text.
 *
 * td_table_of_program is true if the name is the name of a program's tensor, because its BASE ends
 * in ".program". It sets `program` to the name of the program: "score@v" for "score.program@v".
 * td_program_name does the reverse. It returns false if the name is too long. */
bool td_table_of_program(const char *name, size_t length, char program[TD_TENSOR_NAME],
                         size_t *program_length);
bool td_program_name(const char *program, char name[TD_TENSOR_NAME]);

/* True if the name is the name of a program's tensor. */
bool td_is_program_name(const char *name, size_t length);

/* True if no program can have this name, NAME or NAME@VERSION, because /v1/programs/NAME is a path
 * with another meaning. TD_PROGRAM_RESERVED is the reason, a clause for errors. */
bool td_program_is_reserved(const char *program);
#define TD_PROGRAM_RESERVED                                                                        \
    "POST /v1/programs/run and /v1/programs/plan take a program in their body; a stored program "  \
    "needs another name"

/* td_named_text describes the tensor or program of this name for errors: "'movies'", or "the
 * program 'rank'" for "rank.program". td_named_kind returns "tensor" or "program". */
struct td_named {
    char text[TD_TENSOR_NAME + 16];
};
const char *td_named_text(const char *name, size_t length, struct td_named *out);
const char *td_named_kind(const char *name);

/* Calls td_named_text with a buffer that lives until the end of the enclosing block. */
#define TD_NAMED(name) td_named_text(name, strlen(name), &(struct td_named){ { 0 } })

/* A table of integers can have parts: separate tensors that belong to its rows, such as "t.scale"
 * for the table "t". td_op_table_part in kernels/op.h returns the names of the parts, which are
 * also the names of the ops' inputs.
 *
 * td_table_part_name writes the name of a part of a table: "t.scale@v" for the table "t@v" and the
 * part "scale". It returns false if that name is too long. td_table_of_part writes the name of the
 * table to which a part belongs. It returns false if the BASE of the name does not end in the part,
 * as in ".scale". */
bool td_table_part_name(const char *table, const char *part, char name[TD_TENSOR_NAME]);
bool td_table_of_part(const char *name, const char *part, char table[TD_TENSOR_NAME]);

#endif
