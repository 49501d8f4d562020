/* reply_outputs.h - the outputs that a call of an op sends or stores, if the request selects some
 * of them (`outputs`) or sets their dtype (`output_dtype`).
 *
 * Ownership  Converted outputs are in the arena or, with `store`, in memory that the store can
 *            keep. The op's outputs are freed early if all outputs are converted.
 * Threads    The thread that owns the call. */
#ifndef TD_SERVER_CALLS_REPLY_OUTPUTS_H
#define TD_SERVER_CALLS_REPLY_OUTPUTS_H

#include "server/calls/call.h"

/* Returns the size in bytes of the outputs that are converted to another dtype, after they are
 * described. Saturates at SIZE_MAX. */
size_t td_reply_outputs_converted(const struct td_request *request);

/* Makes the outputs, after the op has run here or on a device. */
TD_MUST_CHECK td_status td_reply_outputs_finish(struct td_call *call, struct td_exec *exec);

#endif
