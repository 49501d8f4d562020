/* store_option.h - the member `store` of an op: stores the outputs under this name instead of
 * returning them, and replies (200) with their metadata.
 *
 * Names       A list of outputs is stored as name.0, name.1, ..., and named outputs as name.values,
 *             ....
 * Conditions  If-Match and If-None-Match apply to each stored name. Outputs are stored one after
 *             another. Before the outputs are computed, the call checks that all of them fit.
 *             Storing an output can still fail if the quota has been used up in the meantime or a
 *             condition does not hold. The reply is then this error, and the outputs stored before
 *             the failure remain.
 * Ownership   The state is in the arena of the call.
 * Threads     The thread that owns the call. */
#ifndef TD_SERVER_CALLS_STORE_OPTION_H
#define TD_SERVER_CALLS_STORE_OPTION_H

#include "server/calls/call.h"

/* Checks that the call is allowed to write the tensor in which it stores its outputs, if any. */
TD_MUST_CHECK td_status td_store_option_check(struct td_call *call);

/* Admits a call with `store`, after its outputs are inferred. Checks their names and conditions,
 * and that each output fits in the store in addition to the previous outputs. */
TD_MUST_CHECK td_status td_store_option_admit(struct td_call *call, struct td_admission *admission);

/* Allocates separate memory for an output that will be stored, because it outlives the call. The
 * store copies small outputs and strings. */
TD_MUST_CHECK td_status td_store_option_alloc(struct td_call *call, struct td_tensor *output);

/* The effect of a call of an op. A call without `store` has none. */
td_effect td_store_option_effect(struct td_call *call, struct td_writer *writer);

/* Stores the outputs and makes the reply. Allocates the reply first, so no error is possible after
 * the outputs are stored. */
TD_MUST_CHECK td_status td_store_option_change(struct td_call *call);

#endif
