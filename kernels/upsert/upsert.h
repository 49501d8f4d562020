/* upsert.h - rows of a table replaced, appended and removed by their keys.
 *
 *     upsert   a key that the table has: its row is replaced; the others are appended in their
 *              order
 *     remove   the rows of the keys that the table has are taken out, and the last rows move up:
 *              the first gap gets the last row, the next one the row before it, until none is left
 *
 * Both are changes by key (op_change.h): the caller allocates the table between find and the
 * application to the rows and to their keys.
 *
 * Shapes     params [R, S...], row_keys [R]; keys [n], rows [n, S...]
 * Keys       int64, uint64 or string, of one dtype; int32 and uint32 are widened. Of equal
 *            keys of an upsert the last row counts, at the place of the first.
 * Ownership  What a change points to is in exec->arena.
 * Threads    Reentrant; work is split by exec. */
#ifndef TD_KERNELS_UPSERT_H
#define TD_KERNELS_UPSERT_H

#include "kernels/op_change.h"

enum { TD_UPSERT_PARAMS, TD_UPSERT_ROW_KEYS, TD_UPSERT_KEYS, TD_UPSERT_ROWS };

#endif
