/* stitch_rows.h - the loops of dynamic_stitch, one function for each strategy.
 *
 * Threads    Reentrant. Splits rows through exec. */
#ifndef TD_KERNELS_DYNAMIC_STITCH_STITCH_ROWS_H
#define TD_KERNELS_DYNAMIC_STITCH_STITCH_ROWS_H

#include "kernels/dynamic_stitch/strategy.h"

/* Writes the output of a job after td_stitch_init. Scratch memory and the bytes of strings are
 * allocated in exec->arena. */
TD_MUST_CHECK td_status td_stitch_run(struct td_stitch *job, struct td_exec *exec,
                                      struct td_error *err);

#endif
