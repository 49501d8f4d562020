/* companions.h - the parts of a quantised table NAME (td_op_table_part in kernels/op.h):
 * NAME.scale, NAME.offset and NAME.zero_point.
 *
 * A request that scales the rows of a quantised table but leaves out the offset or zero point would
 * get a wrong result without an error. td_companions_check refuses it. The op's descriptor marks
 * the inputs (td_companion in kernels/op.h).
 *
 * A part that cannot be read still counts as a part of the table, and so does an alias of a version
 * that the token does not allow. The request is refused with the error that naming the part would
 * give, so a token learns no more than by naming the part. A token for NAME can always name its
 * parts, because prefixes have no '@', and a prefix of NAME is also a prefix of NAME.offset.
 *
 * Errors     INVALID_ARGUMENT; CONFLICT for a change; FORBIDDEN, DEVICE_UNAVAILABLE, ... for a part
 *            that cannot be read
 * Cost       An op: none unless a request scales a resident table and omits the offset and the zero
 *            point, or the table's rows contain its scales. Then, for each input that could be
 *            added, one search of the names, or two if an alias names the table. */
#ifndef TD_SERVER_CALLS_COMPANIONS_H
#define TD_SERVER_CALLS_COMPANIONS_H

#include "server/calls/call.h"

/* Checks, after inference, how the request or each step of its program uses the companions of its
 * table. Refuses a request that leaves a companion out, takes scales from the rows although the
 * table has scales in a separate tensor, or passes a part of another table. */
TD_MUST_CHECK td_status td_companions_check(struct td_call *call);

/* Refuses a change by key of the quantised table `name` if another tensor has a scale, offset or
 * zero point for each row, because its elements would no longer match the rows (CONFLICT). A scalar
 * applies to all rows, so it is accepted. */
TD_MUST_CHECK td_status td_companions_check_change(struct td_call *call, const char *name,
                                                   const struct td_tensor *table,
                                                   struct td_arena *arena);

/* Returns the name of the table to which the part `name` belongs, in the call's arena. Returns NULL
 * if `name` is not the name of a part or allocation fails. */
const char *td_companions_table(struct td_call *call, const char *name);

/* Names the missing companion tensor in the error. Called after inference has failed. */
void td_companions_explain(struct td_call *call);

#endif
