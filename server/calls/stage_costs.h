/* stage_costs.h - estimates how long the stages of a call take on a CPU, in nanoseconds, from
 * sizes.
 *
 * The constants are from tests/bench, rounded up. An estimate only needs to distinguish tiny calls
 * from others, so one set of constants serves all machines. No sum overflows, because bytes and
 * rows belong to tensors that exist or are known to fit, and large numbers of FLOPs are divided by
 * 16.
 *
 * Threads  The thread that owns the call. */
#ifndef TD_SERVER_CALLS_STAGE_COSTS_H
#define TD_SERVER_CALLS_STAGE_COSTS_H

#include "server/calls/call.h"

uint64_t td_stage_decode_ns(const struct td_call *call); /* called before the call is decoded */
uint64_t td_stage_admit_ns(const struct td_call *call);  /* called after the call is decoded */

/* Estimates for a call that has been admitted. */
uint64_t td_stage_compute_ns(const struct td_cost *cost);
uint64_t td_stage_encode_ns(const struct td_call *call, const struct td_admission *admission);

#endif
