/* row_keys.h - requests that name the rows of a table by key.
 *
 *     lookup     omits the keys of the rows; the op uses the keys of the table
 *     gather     {"keys": [...]} instead of indices; the row numbers are found before the op
 *                runs and passed to it as int64
 *
 * Threads    The thread that owns the call.
 * Errors     INVALID_ARGUMENT if the table has no keys, or if the op would not use row numbers
 *            along the table's first dimension; UNSUPPORTED_DTYPE if the dtypes of the request's
 *            keys and the table's keys differ; KEY_NOT_FOUND unless `bounds` is zero, which gives a
 *            row of zeros. */
#ifndef TD_SERVER_CALLS_ROW_KEYS_H
#define TD_SERVER_CALLS_ROW_KEYS_H

#include "server/calls/call.h"

/* Returns the number of bytes that td_row_keys_bind copies. Keys in a body or a mapped file might
 * not be aligned. */
uint64_t td_row_keys_copied(const struct td_call *call);

/* Sets, before inference, the inputs that the keys replace. Row numbers have no data yet. */
TD_MUST_CHECK td_status td_row_keys_bind(struct td_call *call);

/* Adds hints to the error after inference has failed. If the error is about an input that the keys
 * replace, the hint says so. If the request passed a table as keys, the hint names the tensor with
 * the table's keys. */
void td_row_keys_explain(struct td_call *call);

/* Adds a hint to the call's error if a row number that does not exist in the table might be a key.
 * Called before the error is sent. */
void td_row_keys_explain_number(struct td_call *call);

/* Adds the cost of td_row_keys_find. */
void td_row_keys_add_cost(const struct td_call *call, struct td_cost *cost);

/* Finds the row numbers. Called before the op runs. */
TD_MUST_CHECK td_status td_row_keys_find(struct td_call *call, struct td_exec *exec);

#endif
