/* block.h - computes a block of a sumprod plan, which is a group of outputs.
 *
 * Ownership  Borrows everything. Writes the scratch memory of the thread, and the outputs of the
 *            block or the partial totals of a split.
 * Threads    Reentrant. Blocks and splits can run at the same time, each with its own scratch
 *            memory. */
#ifndef TD_KERNELS_EINSUM_SUMPROD_BLOCK_H
#define TD_KERNELS_EINSUM_SUMPROD_BLOCK_H

#include "kernels/einsum/nest/nest_iter.h"
#include "kernels/einsum/sumprod/kernels.h"
#include "kernels/einsum/sumprod/plan.h"
#include "kernels/permute/kernels.h"

/* A plan with its operands and the kernels of the instruction set. */
struct td_sumprod_context {
    struct td_sumprod_plan plan;
    const struct td_sumprod_kernels *kernels;
    td_widen_fn *widen[2];
    td_transpose_fn *transpose[2];
    td_narrow_fn *narrow;
    const char *data[2];
    char *c;
};

/* The summed loops of a block, or of a split of a block. */
struct td_sumprod_reduction {
    const struct td_loop *loops; /* plan.n_summed loops */
    struct td_loop run;
};

/* Runs of a scattered operand, made contiguous in the type in which they are stored. */
struct td_sumprod_tile {
    char *data; /* [columns][n], TD_SUMPROD_TILE_BYTES */
    /* The first element of the first run, or NULL if the tile is empty. */
    const char *from;
    int64_t columns, n;
};

/* The buffers in the scratch memory of a thread. */
struct td_sumprod_scratch {
    struct td_sumprod_tile tile[2]; /* tiles of A and B */
    char *run[2];                   /* runs of A and B, TD_SUMPROD_BUFFER_BYTES each */
    char *scalars;                  /* TD_SUMPROD_FLUSH_ROWS elements */
    char *sums;                     /* TD_SUMPROD_BLOCK_BYTES */
    char *totals;                   /* the same number of elements as `sums` */
};

/* Return the size of the scratch memory of a thread, and its buffers. */
int64_t td_sumprod_scratch_bytes(const struct td_sumprod_plan *plan);
struct td_sumprod_scratch td_sumprod_scratch_at(const struct td_sumprod_plan *plan, char *memory);

/* Returns the size in bytes of the totals of a block. */
static inline int64_t td_sumprod_totals_bytes(const struct td_sumprod_plan *plan)
{
    return plan->block_outputs * plan->total_size;
}

/* Computes the block at the position of `iter` in plan.outer. Sums over `reduction`, which starts
 * split_offset bytes after the first elements of A and B. If `partial` is not NULL, writes the
 * totals there; otherwise, writes the results to C. */
void td_sumprod_compute_block(const struct td_sumprod_context *ctx,
                              struct td_sumprod_scratch *scratch, const struct td_nest_iter *iter,
                              const struct td_sumprod_reduction *reduction,
                              const int64_t split_offset[2], char *partial);

/* Adds the totals of the plan.n_splits splits of a block in order, and writes the results to C. The
 * totals of consecutive splits are split_bytes apart. */
void td_sumprod_add_partials(const struct td_sumprod_context *ctx,
                             struct td_sumprod_scratch *scratch, const struct td_nest_iter *iter,
                             const char *partial, int64_t split_bytes);

#endif
