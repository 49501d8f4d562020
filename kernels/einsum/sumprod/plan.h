/* plan.h - plans a nest of sums and products before the operands are read: the order of the loops,
 * and how they are divided into blocks and splits.
 *
 * A nest is computed in one of two ways, depending on the innermost loop, called the run:
 *
 *     reduce      The run is summed. A block is a few outputs along one loop, which are held as
 *                 totals while all summed loops run. Used for dot products, sums of rows, and
 *                 matrix times vector.
 *     accumulate  The run is a loop of C. A block is a range of outputs along the run, held as sums
 *                 in the L1 cache while rows of A (times scalars, or times rows of B) are added to
 *                 the sums. Used for sums over rows and vector times matrix, and, if no loop is
 *                 summed, for elementwise and outer products and conversions.
 *
 * If blocks are few or long, a summed loop is split into ranges, whose totals are computed
 * separately and then added.
 *
 * Kernels read contiguous runs of the compute type. Other runs are first widened to a buffer, one
 * at a time.
 *
 * Threads  Reentrant. The plan is the same for any number of threads, and so are the bits of the
 *          result. */
#ifndef TD_KERNELS_EINSUM_SUMPROD_PLAN_H
#define TD_KERNELS_EINSUM_SUMPROD_PLAN_H

#include "kernels/convert/convert.h"
#include "kernels/einsum/nest/nest.h"

/* Size in bytes of a block's sums in the compute type: half an L1 cache. */
#define TD_SUMPROD_BLOCK_BYTES (16 << 10)

/* Size in bytes of the part of a run that is widened to a buffer at once. */
#define TD_SUMPROD_BUFFER_BYTES (8 << 10)

/* Maximum number of elements of a scattered run. Each of its elements is on a different cache line,
 * next to elements of the following runs. The run is short enough for these lines to stay in the L1
 * cache and their pages in the TLB. Enough runs to fill these lines are transposed into a tile at
 * once. */
#define TD_SUMPROD_SCATTERED_LENGTH 128
#define TD_SUMPROD_CACHE_LINE       64
#define TD_SUMPROD_TILE_BYTES       (TD_SUMPROD_CACHE_LINE * TD_SUMPROD_SCATTERED_LENGTH)

/* Maximum number of elements to sum in the compute type before their sum is added in double. */
#define TD_SUMPROD_REDUCE_LENGTH 4096
/* Maximum number of rows to add in the compute type before their sums are added in double. */
#define TD_SUMPROD_FLUSH_ROWS    64

/* How the elements of an operand are stored. */
struct td_sumprod_format {
    int64_t size; /* bytes per element */
    bool native;  /* stored in the compute type */
    td_dtype dtype;
};

/* The loop outside the run that moves to the next run in a tile of a scattered operand. */
enum td_sumprod_tile_loop {
    TD_TILE_LOOP_NONE,
    TD_TILE_LOOP_OUTPUTS, /* the outputs of a block, if the run is summed */
    TD_TILE_LOOP_SUMMED,  /* the last summed loop */
    TD_TILE_LOOP_OUTER    /* the last outer loop */
};

/* A plan. Strides of loops are in bytes. */
struct td_sumprod_plan {
    td_compute compute;
    /* Size in bytes of an element of type T and of type W (kernels.h). */
    int64_t element_size, total_size;
    struct td_sumprod_format format[3];
    /* True if A and B of the contraction are swapped in the plan. */
    bool has_b, swapped;
    struct td_loop run; /* the innermost loop */
    /* The loop over the outputs of a block. If the plan accumulates, this is the run. */
    struct td_loop outputs;
    bool reduces; /* the run is summed */
    /* True if the operand is read in place, without a buffer. */
    bool direct[2];
    /* True if B is one scalar for a whole run. A is always a run. */
    bool scalar;
    bool buffered; /* an operand is read through a buffer */
    /* True if an operand has scattered runs that share cache lines with other runs. */
    bool scattered;
    /* True if rows are so short that the kernels add many of them as one row. */
    bool folds_rows;
    /* Number of iterations of `outputs` per block. The last block can have fewer. */
    int64_t block_length;
    /* Number of outputs of the largest block, at most block_length. */
    int64_t block_outputs;
    /* If the plan reduces, the maximum number of elements of the run that are processed at a
     * time. */
    int64_t run_length;
    int n_outer;
    /* Index in `outer` of the loop over the blocks of `outputs`. */
    int outputs_loop;
    int n_summed;
    int64_t n_blocks;
    /* Number of ranges of a summed loop that are summed separately. 1 if no loop is split. */
    int64_t n_splits;
    /* The loop that is split: an index in `summed`, or n_summed for the run. */
    int split_loop;
    enum td_sumprod_tile_loop tile_loop[2];
    /* Estimated number of bytes that all iterations read and write. */
    double bytes;
    struct td_loop outer[TD_MAX_LOOPS + 1]; /* the loops over blocks */
    /* The summed loops except the run. The loop over rows is the last. */
    struct td_loop summed[TD_MAX_LOOPS + 1];
};

void td_sumprod_plan_make(struct td_sumprod_plan *plan, const struct td_contraction *contraction);

#endif
