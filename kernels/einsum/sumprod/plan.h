/* sumprod_plan.h - the order in which a nest of sums and products is walked, and how it is cut into
 * units and parts: all that is decided from the nest, before an operand is touched.
 *
 * Every nest is done in one of two ways, after which loop is innermost, the run:
 *
 *     reduce      The run is summed. A unit is a few outputs along one loop, kept as totals while
 *                 everything that is summed passes by: dot products, sums of rows, matrix times
 *                 vector.
 *     accumulate  The run is one of C's. A unit is a block of outputs along it, kept as sums in the
 *                 first cache while rows of A (times numbers, times rows of B) are added to it:
 *                 sums over rows, vector times matrix; and, with nothing summed, elementwise and
 *                 outer products and conversions.
 *
 * Kernels read dense runs of the compute type. What is stored otherwise, or lies scattered, is
 * widened into a buffer first, run by run.
 *
 * Threads  Pure. The plan is the same for any number of them, and so are the bits of the result. */
#ifndef TD_KERNELS_EINSUM_SUMPROD_PLAN_H
#define TD_KERNELS_EINSUM_SUMPROD_PLAN_H

#include "kernels/convert/convert.h"
#include "kernels/einsum/nest/nest.h"

/* Bytes of sums in the compute type that a unit keeps: half a first cache. */
#define TD_SUMPROD_UNIT_BYTES (16 << 10)

/* Bytes of a run that goes through a buffer at once. */
#define TD_SUMPROD_BUFFER_BYTES (8 << 10)

/* Elements of a run that is scattered, where the next run finds its elements beside those of this
 * one: so few that the first cache and its page table hold their lines. As many runs as fill the
 * lines are transposed into a tile at once. */
#define TD_SUMPROD_SCATTERED_BLOCK 128
#define TD_SUMPROD_LINE            64
#define TD_SUMPROD_TILE_BYTES      (TD_SUMPROD_LINE * TD_SUMPROD_SCATTERED_BLOCK)

/* Elements that are summed in the compute type before their sum is added in double. */
#define TD_SUMPROD_REDUCE_BLOCK 4096
/* Rows that are added in the compute type, likewise. */
#define TD_SUMPROD_FLUSH_ROWS   64

/* An operand, and how it becomes runs of the compute type. */
struct td_sumprod_side {
    int64_t size; /* bytes per element */
    bool native;  /* stored as it is computed in */
    td_dtype dtype;
};

/* The loop around the run that goes through the lines of a scattered operand. */
enum td_sumprod_around {
    TD_AROUND_NOTHING,
    TD_AROUND_ALONG, /* reducing: the outputs of a unit */
    TD_AROUND_SUMS,  /* the last of the summed loops */
    TD_AROUND_UNITS  /* the last of the loops over units */
};

/* Strides of loops are in bytes here. */
struct td_sumprod_plan {
    td_compute compute;
    int64_t element_size, total_size; /* of T and W, see sumprod_isa.h */
    struct td_sumprod_side side[3];
    bool has_b, swapped;  /* swapped: A of the plan is the contraction's B */
    struct td_loop run;   /* the innermost loop */
    struct td_loop along; /* the outputs of a unit; the run itself where it accumulates */
    bool reduces;
    bool direct[2];       /* the operand is read where it is, not through a buffer */
    bool scalar;          /* B is a number for the whole run; A is always made a run of it */
    bool buffered;        /* an operand goes through a buffer */
    bool scattered;       /* an operand is, and lies in lines that other runs share */
    bool side_by_side;    /* the rows are so short that the kernels add many as one */
    int64_t block;        /* steps of `along` in a unit, the last may have fewer */
    int64_t unit_outputs; /* the most that a unit has: as `block`, but no more than there are */
    int64_t run_block;    /* elements of the run at a time, where it reduces */
    int n_unit_loops, along_at, n_sums;
    int64_t units, parts;
    int split; /* the summed loop that is cut into parts: in sums, or n_sums for the run */
    enum td_sumprod_around around[2];
    double bytes;                                /* moved by all steps together, about */
    struct td_loop unit_loops[TD_MAX_LOOPS + 1]; /* over units, blocks of `along` being one loop */
    struct td_loop sums[TD_MAX_LOOPS + 1]; /* the other summed loops; last, that of the rows */
};

/* From the contraction alone. */
void td_sumprod_plan_make(struct td_sumprod_plan *plan, const struct td_contraction *contraction);

#endif
