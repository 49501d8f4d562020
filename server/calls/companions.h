/* companions.h - the resident tensors that belong to a quantised table: NAME.scale, NAME.offset and
 * NAME.zero_point beside NAME.
 *
 * A request that scales the rows of such a table and leaves out what is added to them would compute other
 * numbers without an error. The inputs are marked in the op's descriptor (td_companion in kernels/op.h).
 *
 * Errors     INVALID_ARGUMENT
 * Cost       Nothing unless a resident table is scaled and nothing is added: then a look-up for each name. */
#ifndef TD_SERVER_CALLS_COMPANIONS_H
#define TD_SERVER_CALLS_COMPANIONS_H

#include "server/calls/call.h"

/* After inference: refuses a request that leaves out a companion of its table. */
TD_MUST_CHECK td_status td_companions_check(struct td_call *call);

/* After inference has failed: if a companion is missing, adds to the error which tensor that is. */
void td_companions_explain(struct td_call *call);

#endif
