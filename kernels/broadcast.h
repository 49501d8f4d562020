/* broadcast.h - shapes of operands that are repeated to a common shape.
 *
 * Shapes     As in NumPy: shapes are aligned at their last dimensions, and a dimension that is
 *            missing or 1 is repeated to the size of the other operands.
 * Threads    Pure functions.
 * Source     "Broadcasting", NumPy user guide. */
#ifndef TD_KERNELS_BROADCAST_H
#define TD_KERNELS_BROADCAST_H

#include "kernels/shape.h"

#include <stddef.h>

/* Sets *to to the common shape of *to and `from`. Returns false, with *to unchanged, if a dimension
 * differs and neither size is 1. *dim is then the number of that dimension from the end: 1 is the
 * last. */
bool td_broadcast_shape(struct td_shape *to, const struct td_shape *from, int *dim);

/* Merges the dimensions of `shape` that all operands treat alike, and removes dimensions of size 1.
 * An operand has in each remaining dimension either the size of the dimension or 1. Operand i has
 * the shape operands[i], which broadcasts to `shape`. On return, bit d of full[i] is set if the
 * operand has the size of dimension d. */
void td_broadcast_merge(struct td_shape *shape, const struct td_shape *const *operands, int n,
                        uint32_t *full);

/* How an operand is repeated to a merged shape. */
struct td_repeat {
    const struct td_shape *shape;
    int64_t stride[TD_MAX_RANK]; /* in elements; 0 where the operand is repeated */
};

void td_repeat_init(struct td_repeat *repeat, const struct td_shape *shape, uint32_t full);

/* Copies elements [begin, begin + n) of the repeated operand. An element has `width` bytes. */
void td_repeat_copy(const struct td_repeat *repeat, void *to, const void *from, size_t width,
                    int64_t begin, int64_t n);

/* Returns the position in the operand of element `i` of the repeated operand. */
int64_t td_repeat_at(const struct td_repeat *repeat, int64_t i);

#endif
