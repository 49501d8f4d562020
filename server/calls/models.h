/* models.h - the models of /v2: resident tensors that have rows, which `gather` looks up; stored
 * programs; and ops. If names collide, a tensor takes precedence over a program, and a program over
 * an op.
 *
 * A model path names a table with or without its version: /v2/models/movies/versions/V is the
 * tensor movies@V. The only version of a model whose name has no version is "1". For an alias, or a
 * name with a version, the model's version is the tensor's version. The path of `stats` returns the
 * statistics of all models.
 *
 * If an op and a tensor, an alias or versions of a tensor have the same name, the model is the
 * table, so a new op does not replace an existing model. A token that is not allowed to name the
 * table gets the op, as if the table did not exist.
 *
 * Errors     UNKNOWN_OP with the most similar model, NOT_FOUND for a version, FORBIDDEN,
 *            DEVICE_UNAVAILABLE for a damaged table. */
#ifndef TD_SERVER_CALLS_MODELS_H
#define TD_SERVER_CALLS_MODELS_H

#include "api/oip/oip.h"
#include "server/calls/call.h"

/* Finds the model that the path names. The model's texts and table live as long as the call. For a
 * table, also sets call->table.name to the tensor's name, and for a program, call->program and the
 * call's op. If the path names an op, and a table has this name, makes td_table_op the call's
 * op. */
TD_MUST_CHECK td_status td_model_find(struct td_call *call, struct td_oip_model *out);

/* Sets the dtypes and shapes of the inputs and outputs of a program's model. *problem is the reason
 * that a table of the program cannot be found, or has the status TD_OK. */
TD_MUST_CHECK td_status td_model_describe_program(struct td_call *call, struct td_oip_model *model,
                                                  struct td_error *problem);

/* Returns the version of the model for the tensor `name`. */
const char *td_model_version(const char *name);

/* Lists all models that the call is allowed to name: tables, aliases, programs, and then ops. */
TD_MUST_CHECK td_status td_models_list(struct td_call *call, struct td_oip_entry **entries,
                                       int *count);

/* Lists the tables that have their own counts (metrics.h), are currently models, and can be named
 * by the call. Each table has one entry: the version to which its name refers, or else its newest
 * version. */
TD_MUST_CHECK td_status td_models_counted(struct td_call *call, struct td_oip_entry **entries,
                                          int *count);

/* Logs, at startup, the tables and programs whose names are reserved or are the names of ops. */
void td_models_log_names(struct td_services *services);

#endif
