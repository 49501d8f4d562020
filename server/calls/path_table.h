/* path_table.h - the resident table that the path of a call names: it, or the keys of its rows, is
 * the first input of the op, as in POST /v1/tensors/{name}/gather and .../find.
 *
 * Errors     TENSOR_NOT_FOUND, FORBIDDEN; INVALID_ARGUMENT if the op needs keys and there are
 *            none. */
#ifndef TD_SERVER_CALLS_PATH_TABLE_H
#define TD_SERVER_CALLS_PATH_TABLE_H

#include "server/calls/call.h"

/* Before the body is decoded: looks the table up and makes it the input. */
TD_MUST_CHECK td_status td_path_table_bind(struct td_call *call);

/* Before the error of a call is sent: inputs get the names that the request has for them. "params"
 * is explained as the table of the path, and queries are called keys where the body does so. */
void td_path_table_explain(struct td_call *call);

/* The version of the model that the table is; NULL if it is none. */
const char *td_path_table_version(const struct td_call *call);

/* Before the reply is made: adds X-Tensord-Table to that of a call that has one. */
void td_path_table_tell(struct td_call *call);

#endif
