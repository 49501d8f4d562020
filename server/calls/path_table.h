/* path_table.h - the resident table that the path of a call names, as in POST
 * /v1/tensors/{name}/gather and .../find. The table, or the keys of its rows, is the first input of
 * the op.
 *
 * Errors     TENSOR_NOT_FOUND, FORBIDDEN; INVALID_ARGUMENT if the op needs keys and the table has
 *            none. */
#ifndef TD_SERVER_CALLS_PATH_TABLE_H
#define TD_SERVER_CALLS_PATH_TABLE_H

#include "server/calls/call.h"

/* Looks up the table and makes it the op's first input. Called before the body is decoded. */
TD_MUST_CHECK td_status td_path_table_bind(struct td_call *call);

/* Rewrites the call's error before it is sent, so the error names inputs as the request does.
 * Explains that "params" is the table in the path, and calls the queries "keys" if the body
 * does. */
void td_path_table_explain(struct td_call *call);

/* Returns the table's version as a model, or NULL if the path names no model. */
const char *td_path_table_version(const struct td_call *call);

/* Adds X-Tensord-Table to the reply if the path names a table. Called before the reply is made. */
void td_path_table_tell(struct td_call *call);

#endif
