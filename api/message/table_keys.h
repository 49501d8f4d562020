/* table_keys.h - the member "keys" of a request whose path names a table: the keys to look up.
 *
 * The routes are POST /v1/tensors/{table}/{op}. If the table has no keys, or the path names none,
 * the errors say what to send instead. */
#ifndef TD_API_MESSAGE_TABLE_KEYS_H
#define TD_API_MESSAGE_TABLE_KEYS_H

#include "api/message/message.h"

/* Member of the body that holds the keys to look up, whatever the op calls this input. The path of
 * a request with this member names a table with keys. td_table_keys_input returns the index of the
 * input, or -1 if `name` is not TD_TABLE_KEYS. */
#define TD_TABLE_KEYS "keys"
int td_table_keys_input(const struct td_request *request, const char *name, size_t length);

/* Sets the error for an op that needs keys but is used on a table without keys. The message says
 * what to send instead. If `table` is a part of another table, such as its scales, `whole` is the
 * name of that table, otherwise NULL. If the tensor that the request uses as the table might hold
 * the keys of `table`, `tensor` is that tensor, otherwise NULL. */
td_status td_table_without_keys(const char *table, const char *whole,
                                const struct td_tensor *tensor, const struct td_op *op,
                                struct td_error *err);

/* If `name` is "keys" and the request cannot have this member, sets an error that says why and how
 * to select rows. Otherwise returns TD_OK. */
td_status td_table_keys_misplaced(const struct td_request *request, const char *name, size_t length,
                                  struct td_error *err);

#endif
