/* walk.h - a place in a nest of loops, going from one to the next.
 *
 * Threads  Pure. */
#ifndef TD_KERNELS_EINSUM_NEST_LOOP_NEST_H
#define TD_KERNELS_EINSUM_NEST_LOOP_NEST_H

#include "kernels/einsum/nest/nest.h"

#include <string.h>

/* The last loop moves fastest. */
struct td_walk {
    const struct td_loop *loops;
    int n_loops;
    int64_t position[TD_MAX_LOOPS + 1];
    int64_t offset[3]; /* by TD_A, TD_B, TD_C, in the unit of the strides */
};

static inline void td_walk_to(struct td_walk *walk, const struct td_loop *loops, int n_loops,
                              int64_t index)
{
    walk->loops = loops;
    walk->n_loops = n_loops;
    memset(walk->offset, 0, sizeof(walk->offset));
    for (int i = n_loops - 1; i >= 0; i--) {
        walk->position[i] = index == 0 ? 0 : index % loops[i].extent;
        index = index == 0 ? 0 : index / loops[i].extent;
        for (int operand = TD_A; operand <= TD_C; operand++)
            walk->offset[operand] += walk->position[i] * loops[i].stride[operand];
    }
}

/* False when that was the last place; then it is at the first again. */
static inline bool td_walk_on(struct td_walk *walk)
{
    for (int i = walk->n_loops - 1; i >= 0; i--) {
        const struct td_loop *loop = &walk->loops[i];
        const bool wraps = ++walk->position[i] == loop->extent;
        const int64_t steps = wraps ? 1 - loop->extent : 1;
        for (int operand = TD_A; operand <= TD_C; operand++)
            walk->offset[operand] += steps * loop->stride[operand];
        if (!wraps)
            return true;
        walk->position[i] = 0;
    }
    return false;
}

#endif
