/* strings.h - td_gathering_run for strings, whose rows differ in size.
 *
 * The elements of a row lie one after the other in the table's bytes, so a row of strings is one
 * copy too, once its place in the output is known: first the sizes of all rows, then their sums,
 * then the bytes.
 *
 * Ownership  The caller allocated out->offsets; out->data is taken from exec->arena.
 * Errors     RESOURCE_LIMIT when the bytes exceed INT64_MAX; what the arena says when it has none.
 * Threads    Reentrant. Both passes over the rows go through exec. */
#ifndef TD_KERNELS_ROWS_STRINGS_H
#define TD_KERNELS_ROWS_STRINGS_H

#include "kernels/rows/gathering.h"

TD_MUST_CHECK td_status td_gathering_run_strings(const struct td_gathering *job,
                                                 struct td_exec *exec, struct td_error *err);

#endif
