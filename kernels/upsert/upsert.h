/* upsert.h - replaces, appends and removes rows of a table by their keys.
 *
 *     upsert   replaces the row of each key that the table has, and appends the rows of the other
 *              keys in their order
 *     remove   removes the rows of the keys that the table has. The last rows fill the gaps: the
 *              last row fills the first gap, the row before it fills the next gap, and so on
 *
 * Both are changes by key (op_change.h): after find, the caller allocates the table and then
 * applies the change to the rows and to their keys.
 *
 * Shapes     params [R, S...], row_keys [R]; keys [n], rows [n, S...]
 * Keys       int64, uint64 or string, the same dtype for both; int32 and uint32 are widened. If an
 *            upsert repeats a key, the last of the key's rows is used, at the place of the first.
 * Ownership  The arrays of a change are in exec->arena.
 * Threads    Reentrant. exec splits the work. */
#ifndef TD_KERNELS_UPSERT_H
#define TD_KERNELS_UPSERT_H

#include "kernels/op_change.h"

enum { TD_UPSERT_PARAMS, TD_UPSERT_ROW_KEYS, TD_UPSERT_KEYS, TD_UPSERT_ROWS };

#endif
