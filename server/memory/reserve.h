/* reserve.h - memory outside the budget, for short documents such as the metrics, which are most
 * needed when the budget is exhausted.
 *
 * Bounds     A fixed number of buffers at a time, each of at most TD_RESERVE_BYTES.
 * Threads    Any thread. */
#ifndef TD_SERVER_MEMORY_RESERVE_H
#define TD_SERVER_MEMORY_RESERVE_H

#include "kernels/buffer.h"

#include <stdatomic.h>

#define TD_RESERVE_BYTES ((size_t)4 << 20)

struct td_reserve {
    /* Takes memory from `first`, or from the reserve if `first` refuses. */
    struct td_memory base;
    struct td_memory *first; /* borrowed */
    atomic_int left;
};

/* Initializes a reserve of `buffers` buffers. The reserve must outlive its buffers. */
void td_reserve_init(struct td_reserve *reserve, struct td_memory *first, int buffers);

#endif
