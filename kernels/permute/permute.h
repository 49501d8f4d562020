/* permute.h - copies the elements of A into the order of C: transpositions, diagonals, slices,
 * plain copies.
 *
 * Copying depends only on the width of the elements, so every dtype is copied bit for bit. If the
 * innermost loop of C has stride 1 in A, contiguous rows are copied. If it has a larger stride,
 * which no other loop is below, the elements of a run are collected. Otherwise, tiles are
 * transposed in registers.
 *
 * Shapes     A nest of loops over the elements, in any order. No extent is 0, and two positions of
 *            the nest never have the same place in C.
 * Ownership  Borrows A and C, which do not overlap and need not be aligned.
 * Threads    Reentrant. Splits the nest through exec; the parts of C never overlap.
 * Errors     Only DEADLINE_EXCEEDED, from exec, which leaves the contents of C undefined.
 * Cost       Every element read and written once. Uses no workspace. */
#ifndef TD_KERNELS_PERMUTE_PERMUTE_H
#define TD_KERNELS_PERMUTE_PERMUTE_H

#include "kernels/exec.h"
#include "kernels/status.h"

/* Maximum number of loops of extent at least 2 if the product of the extents is below 2^63. */
#define TD_PERMUTE_LOOPS 62

/* Outputs of at least TD_PERMUTE_STREAM_BYTES are written with non-temporal stores if the size of
 * rows, or the alignment of tiles, allows it. Such an output would not stay in the cache for a
 * reader, and non-temporal stores avoid reading cache lines before overwriting them. */
#define TD_PERMUTE_STREAM_BYTES (32 << 20)

/* True if an output of `bytes` bytes, in rows of row_bytes bytes, should be streamed. */
bool td_permute_should_stream(size_t bytes, size_t row_bytes);

struct td_permute_loop {
    int64_t extent;
    int64_t a, c; /* strides in elements; the stride in A can be negative */
};

/* Appends a loop inside n_loops other loops, and returns the new number of loops. Omits a loop of
 * extent 1, and fuses the loop with the last one if both are one contiguous loop in A and in C. */
int td_permute_add_loop(struct td_permute_loop *loops, int n_loops, struct td_permute_loop loop);

/* Copies all elements. `a` and `c` are the elements at the first position of every loop. An element
 * has `width` bytes. */
TD_MUST_CHECK td_status td_permute_run(const struct td_permute_loop *loops, int n_loops,
                                       size_t width, const void *a, void *c, struct td_exec *exec,
                                       struct td_error *err);

#endif
