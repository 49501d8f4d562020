/* nest_iter.h - iterates over a loop nest and tracks the offset of each operand.
 *
 * Threads  Reentrant. An iterator belongs to one thread. */
#ifndef TD_KERNELS_EINSUM_NEST_NEST_ITER_H
#define TD_KERNELS_EINSUM_NEST_NEST_ITER_H

#include "kernels/einsum/nest/nest.h"

#include <string.h>

/* A position in the nest. The last loop is the innermost. */
struct td_nest_iter {
    const struct td_loop *loops;
    int n_loops;
    int64_t index[TD_MAX_LOOPS + 1]; /* index in each loop */
    /* Offsets indexed by TD_A, TD_B, TD_C, in the unit of the strides. */
    int64_t offset[3];
};

/* Moves to the position with the given number, counted from 0 in row-major order. */
static inline void td_nest_iter_init(struct td_nest_iter *iter, const struct td_loop *loops,
                                     int n_loops, int64_t position)
{
    iter->loops = loops;
    iter->n_loops = n_loops;
    memset(iter->offset, 0, sizeof(iter->offset));
    for (int i = n_loops - 1; i >= 0; i--) {
        iter->index[i] = position == 0 ? 0 : position % loops[i].extent;
        position = position == 0 ? 0 : position / loops[i].extent;
        for (int operand = TD_A; operand <= TD_C; operand++)
            iter->offset[operand] += iter->index[i] * loops[i].stride[operand];
    }
}

/* Moves to the next position and returns true. From the last position, moves to the first and
 * returns false. */
static inline bool td_nest_iter_next(struct td_nest_iter *iter)
{
    for (int i = iter->n_loops - 1; i >= 0; i--) {
        const struct td_loop *loop = &iter->loops[i];
        const bool wraps = ++iter->index[i] == loop->extent;
        const int64_t steps = wraps ? 1 - loop->extent : 1;
        for (int operand = TD_A; operand <= TD_C; operand++)
            iter->offset[operand] += steps * loop->stride[operand];
        if (!wraps)
            return true;
        iter->index[i] = 0;
    }
    return false;
}

#endif
