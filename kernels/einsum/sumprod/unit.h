/* sumprod_unit.h - one unit of a plan for sums and products: the outputs that are computed together.
 *
 * Ownership  Borrows all; a unit writes its own outputs, or its part of their totals, and its
 *            thread's scratch memory.
 * Threads    Reentrant: units and parts may run at once, each with scratch memory of its own. */
#ifndef TD_KERNELS_EINSUM_SUMPROD_UNIT_H
#define TD_KERNELS_EINSUM_SUMPROD_UNIT_H

#include "kernels/einsum/nest/nest_iter.h"
#include "kernels/einsum/permute/kernels.h"
#include "kernels/einsum/sumprod/plan.h"
#include "kernels/einsum/sumprod/sumprod_isa.h"

/* A plan with its operands, and what an instruction set has for it. */
struct td_sumprod_work {
    struct td_sumprod_plan plan;
    const struct td_sumprod_kernels *kernels;
    td_widen_fn *widen[2];
    td_transpose_fn *transpose[2];
    td_narrow_fn *narrow;
    const char *data[2];
    char *c;
};

/* The summed loops of a unit, or of a part of it. */
struct td_sumprod_summed {
    const struct td_loop *loops; /* plan.n_sums of them */
    struct td_loop run;
};

/* Runs of a scattered operand, each dense, as they are stored. */
struct td_sumprod_tile {
    char *data;       /* [columns][n], TD_SUMPROD_TILE_BYTES */
    const char *from; /* the first run's first element; NULL: nothing yet */
    int64_t columns, n;
};

/* A thread's slot, cut up. */
struct td_sumprod_scratch {
    struct td_sumprod_tile tile[2]; /* of A and of B */
    char *run[2];                   /* of A and of B: TD_SUMPROD_BUFFER_BYTES */
    char *scalars;                  /* TD_SUMPROD_FLUSH_ROWS */
    char *sums;                     /* TD_SUMPROD_UNIT_BYTES */
    char *totals;                   /* as many */
};

/* Bytes of a slot, and a slot cut up. */
int64_t td_sumprod_slot_bytes(const struct td_sumprod_plan *plan);
struct td_sumprod_scratch td_sumprod_cut_slot(const struct td_sumprod_plan *plan, char *slot);

/* Bytes of the totals of a unit. */
static inline int64_t td_sumprod_totals_bytes(const struct td_sumprod_plan *plan)
{
    return plan->unit_outputs * plan->total_size;
}

/* Computes the unit that `iter` is at in plan.unit_loops, from what `summed` goes through,
 * beginning part_offset bytes behind the start of A's and B's. `partial` takes the totals; where it
 * is NULL, C takes the results. */
void td_sumprod_unit(const struct td_sumprod_work *work, struct td_sumprod_scratch *scratch,
                     const struct td_nest_iter *iter, const struct td_sumprod_summed *summed,
                     const int64_t part_offset[2], char *partial);

/* Adds the totals of plan.parts parts of a unit in their order, part_bytes apart, into C. */
void td_sumprod_join_parts(const struct td_sumprod_work *work, struct td_sumprod_scratch *scratch,
                           const struct td_nest_iter *iter, const char *partial,
                           int64_t part_bytes);

#endif
