/* placement.h - places of results in one block of memory.
 *
 * Results whose lifetimes do not overlap can have the same bytes.
 *
 * Threads    Pure functions.
 * Source     Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020:
 *            greedy by size. */
#ifndef TD_KERNELS_PROGRAM_PLACEMENT_H
#define TD_KERNELS_PROGRAM_PLACEMENT_H

#include <stddef.h>

struct td_placement {
    size_t bytes;
    int first, last; /* the first and the last step that uses the bytes */
    size_t place;    /* set by td_place: a multiple of 64 */
};

/* Sets the place of each of n results. `order` has room for n elements. Returns the size of the
 * block, or SIZE_MAX if it is too large. */
size_t td_place(struct td_placement *results, int n, int *order);

#endif
