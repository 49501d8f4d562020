/* row_keys.h - requests that name the rows of a table by its keys.
 *
 *     lookup     the keys of the rows are left out: they are those of the table
 *     gather     {"keys": [...]} in the place of indices: found before the op runs, which then gets
 *                the row numbers as int64
 *
 * Threads    The call's owner.
 * Errors     INVALID_ARGUMENT if the table has no keys, or the row numbers are not those of its
 *            rows; UNSUPPORTED_DTYPE if the keys have another dtype than the table's; KEY_NOT_FOUND
 *            unless `bounds` is zero, which gives a row of zeros. */
#ifndef TD_SERVER_CALLS_ROW_KEYS_H
#define TD_SERVER_CALLS_ROW_KEYS_H

#include "server/calls/call.h"

/* The bytes that td_row_keys_bind copies: keys of a body or a mapped file may not be aligned. */
uint64_t td_row_keys_copied(const struct td_call *call);

/* Before inference: sets the inputs that keys stand for; row numbers have no data yet. */
TD_MUST_CHECK td_status td_row_keys_bind(struct td_call *call);

/* After inference failed: adds to the error that keys are in the place of the input it names, or
 * what the keys of the table are that was given for them. */
void td_row_keys_explain(struct td_call *call);

/* Before the error of a call is sent: a row number that the table does not have may be a key. */
void td_row_keys_explain_number(struct td_call *call);

/* Adds what td_row_keys_find costs. */
void td_row_keys_add_cost(const struct td_call *call, struct td_cost *cost);

/* Before the op runs: finds the row numbers. */
TD_MUST_CHECK td_status td_row_keys_find(struct td_call *call, struct td_exec *exec);

#endif
