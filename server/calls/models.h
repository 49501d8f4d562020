/* models.h - the models of /v2: every op, and every resident tensor that has rows, which `gather`
 * looks up.
 *
 * The path of a table's model names it with or without its version: /v2/models/movies/versions/V is
 * the tensor movies@V. The only version of a name without one is "1", of an alias or of a name with
 * a version that of the tensor. Of equal names the op is the model; the path of `stats` is that of
 * all statistics.
 *
 * Errors     UNKNOWN_OP with the nearest model, NOT_FOUND for a version, FORBIDDEN,
 *            DEVICE_UNAVAILABLE of a damaged table. */
#ifndef TD_SERVER_CALLS_MODELS_H
#define TD_SERVER_CALLS_MODELS_H

#include "api/oip/oip.h"
#include "server/calls/call.h"

/* The model that the path names; its texts and table live as long as the call. For a table also
 * sets call->table.name to the name of the tensor. */
TD_MUST_CHECK td_status td_model_find(struct td_call *call, struct td_oip_model *out);

/* The version of a tensor as that of a model. */
const char *td_model_version(const char *name);

/* All models that the call may name, ops first. */
TD_MUST_CHECK td_status td_models_list(struct td_call *call, struct td_oip_entry **entries,
                                       int *count);

/* The tables with counts of their own (metrics.h) that the call may name and that are models now,
 * one entry for each: with the version that the name names, or else the newest one. */
TD_MUST_CHECK td_status td_models_counted(struct td_call *call, struct td_oip_entry **entries,
                                          int *count);

/* At the start: logs the tensors that are no models, since an op has their name. */
void td_models_log_hidden(struct td_services *services);

#endif
