/* reserve.h - memory beside the budget, for short documents that are wanted most when the budget is
 * exhausted, such as the metrics.
 *
 * Bounds     Of so many buffers at a time, each of TD_RESERVE_BYTES at most.
 * Threads    Any. */
#ifndef TD_SERVER_MEMORY_RESERVE_H
#define TD_SERVER_MEMORY_RESERVE_H

#include "kernels/buffer.h"

#include <stdatomic.h>

#define TD_RESERVE_BYTES ((size_t)1 << 20)

struct td_reserve {
    struct td_memory base;   /* takes from `first`, and what it refuses from the reserve */
    struct td_memory *first; /* borrowed */
    atomic_int left;
};

/* The reserve outlives its buffers. */
void td_reserve_init(struct td_reserve *reserve, struct td_memory *first, int buffers);

#endif
