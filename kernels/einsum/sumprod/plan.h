/* plan.h - the order of the loops of a nest of sums and products, and how they are divided into
 * blocks and splits: everything that is decided before the operands are read.
 *
 * Depending on the innermost loop, the run, a nest is computed in one of two ways:
 *
 *     reduce      The run is summed. A block is a few outputs along one loop, held as totals while
 *                 all summed loops run: dot products, sums of rows, matrix times vector.
 *     accumulate  The run is a loop of C. A block is a range of outputs along it, held as sums in
 *                 the L1 cache while rows of A (times scalars, or times rows of B) are added to it:
 *                 sums over rows, vector times matrix; and, with nothing summed, elementwise and
 *                 outer products and conversions.
 *
 * With few or long blocks, one summed loop is split into ranges, whose totals are computed
 * separately and then added.
 *
 * Kernels read contiguous runs of the compute type. Runs that are stored in another type, or are
 * not contiguous, are widened to a buffer first, one by one.
 *
 * Threads  Reentrant. The plan, and so the bits of the result, is the same for any number of
 *          threads. */
#ifndef TD_KERNELS_EINSUM_SUMPROD_PLAN_H
#define TD_KERNELS_EINSUM_SUMPROD_PLAN_H

#include "kernels/convert/convert.h"
#include "kernels/einsum/nest/nest.h"

/* Bytes of the sums of a block in the compute type: half an L1 cache. */
#define TD_SUMPROD_BLOCK_BYTES (16 << 10)

/* Bytes of a run that is widened to a buffer at once. */
#define TD_SUMPROD_BUFFER_BYTES (8 << 10)

/* The most elements of a scattered run, whose elements are on different cache lines, next to those
 * of the following runs: so few that the L1 cache and the TLB hold these lines. As many runs as
 * fill the lines are transposed into a tile at once. */
#define TD_SUMPROD_SCATTERED_LENGTH 128
#define TD_SUMPROD_CACHE_LINE       64
#define TD_SUMPROD_TILE_BYTES       (TD_SUMPROD_CACHE_LINE * TD_SUMPROD_SCATTERED_LENGTH)

/* The most elements that are summed in the compute type before their sum is added in double. */
#define TD_SUMPROD_REDUCE_LENGTH 4096
/* The most rows that are added in the compute type, likewise. */
#define TD_SUMPROD_FLUSH_ROWS    64

/* How the elements of an operand are stored. */
struct td_sumprod_format {
    int64_t size; /* bytes per element */
    bool native;  /* stored in the compute type */
    td_dtype dtype;
};

/* The loop outside the run that moves to the next run of a tile of a scattered operand. */
enum td_sumprod_tile_loop {
    TD_TILE_LOOP_NONE,
    TD_TILE_LOOP_OUTPUTS, /* if the run is summed: the outputs of a block */
    TD_TILE_LOOP_SUMMED,  /* the last of the summed loops */
    TD_TILE_LOOP_OUTER    /* the last of the outer loops */
};

/* Strides of loops are in bytes here. */
struct td_sumprod_plan {
    td_compute compute;
    int64_t element_size, total_size; /* of T and W, see kernels.h */
    struct td_sumprod_format format[3];
    bool has_b, swapped;    /* swapped: A of the plan is the contraction's B */
    struct td_loop run;     /* the innermost loop */
    struct td_loop outputs; /* of a block; the run itself if the plan accumulates */
    bool reduces;           /* the run is summed */
    bool direct[2];         /* the operand is read in place, not through a buffer */
    bool scalar;            /* B is one scalar for a whole run; A is always a run */
    bool buffered;          /* an operand is read through a buffer */
    bool scattered;         /* an operand has scattered runs that share cache lines with others */
    bool folds_rows;        /* rows are so short that the kernels add many of them as one */
    int64_t block_length;   /* iterations of `outputs` in a block; the last block may have fewer */
    int64_t block_outputs;  /* outputs of the largest block: at most block_length */
    int64_t run_length;     /* if the plan reduces: the most elements of the run at a time */
    int n_outer;
    int outputs_loop; /* index in `outer` of the loop over the blocks of `outputs` */
    int n_summed;
    int64_t n_blocks;
    int64_t n_splits; /* ranges of a summed loop that are summed separately; 1: no split */
    int split_loop;   /* the loop that is split: an index in `summed`, or n_summed for the run */
    enum td_sumprod_tile_loop tile_loop[2];
    double bytes;                            /* read and written by all iterations, estimated */
    struct td_loop outer[TD_MAX_LOOPS + 1];  /* over blocks */
    struct td_loop summed[TD_MAX_LOOPS + 1]; /* without the run; the last is the loop over rows */
};

void td_sumprod_plan_make(struct td_sumprod_plan *plan, const struct td_contraction *contraction);

#endif
