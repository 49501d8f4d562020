/* companions.h - the parts of a quantised table NAME (td_table_parts in table_name.h): NAME.scale,
 * NAME.offset and NAME.zero_point.
 *
 * A request that scales the rows of such a table and leaves out what is added to them would compute
 * other numbers without an error. The inputs are marked in the op's descriptor (td_companion in
 * kernels/op.h).
 *
 * A part that cannot be read counts as a part of the table, and so does an alias of a version that
 * the token is not for. The request is refused with the error that naming the part would give, so a
 * token learns no more than by naming it. A token that is for NAME may always name its parts:
 * prefixes have no '@', so a prefix of NAME is a prefix of NAME.offset, too.
 *
 * Errors     INVALID_ARGUMENT; FORBIDDEN, DEVICE_UNAVAILABLE, ... of a part that cannot be read
 * Cost       Nothing unless a resident table is scaled and nothing is added, or has its scales in
 *            its rows: then a search among
 *            the names for each input that could be added, and as many more if an alias names the
 *            table. */
#ifndef TD_SERVER_CALLS_COMPANIONS_H
#define TD_SERVER_CALLS_COMPANIONS_H

#include "server/calls/call.h"

/* After inference: refuses a request that leaves out a companion of its table, also one that takes
 * the scales from rows that have them beside the table, or gives a part of another table. */
TD_MUST_CHECK td_status td_companions_check(struct td_call *call);

/* The table of which the name is that of a part, in the arena of the call; NULL if it is none, or
 * there is no memory. */
const char *td_companions_table(struct td_call *call, const char *name);

/* After inference has failed: if a companion is missing, adds to the error which tensor that is. */
void td_companions_explain(struct td_call *call);

#endif
