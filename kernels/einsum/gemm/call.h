/* gemm_call.h - a product that is being run: what td_gemm_run decided, for all that take part.
 *
 * Ownership  Borrows everything it points to for the run.
 * Threads    Not written once ranges run. */
#ifndef TD_KERNELS_EINSUM_GEMM_CALL_H
#define TD_KERNELS_EINSUM_GEMM_CALL_H

#include "kernels/convert/convert.h"
#include "kernels/einsum/gemm/blocking.h"
#include "kernels/einsum/gemm/gemm_isa.h"
#include "kernels/einsum/gemm/product.h"
#include "kernels/einsum/nest/workspace.h"

#include <stdbool.h>
#include <stdint.h>

struct td_gemm_call {
    const struct td_gemm_product *p;
    const struct td_gemm_blocking *blocking;
    const struct td_gemm_isa *isa;
    const struct td_gemm_tiles *tiles;
    td_widen_fn *widen[2];
    td_narrow_fn *narrow;
    const char *a, *b;
    char *c;
    struct td_workspace *workspace;
    int64_t rows;      /* of a tile, at most */
    int64_t panel;     /* columns (numbers) of a panel of B */
    int64_t most_rows; /* of a block of A: a multiple of `rows` */
    bool a_in_place, b_in_place;
    bool c_in_place; /* tiles go straight to C */
};

/* One of the batch. */
struct td_gemm_item {
    const char *a, *b;
    char *c;
};

static inline struct td_gemm_item td_gemm_walk_item(const struct td_gemm_call *g,
                                                    const struct td_gemm_walk *walk)
{
    const struct td_gemm_product *p = g->p;
    return (struct td_gemm_item){ g->a + walk->offset[TD_A] * p->size[TD_A],
                                  g->b + walk->offset[TD_B] * p->size[TD_B],
                                  g->c + walk->offset[TD_C] * p->size[TD_C] };
}

static inline struct td_gemm_item td_gemm_item_at(const struct td_gemm_call *g, int64_t i)
{
    struct td_gemm_walk walk;
    td_gemm_walk_begin(&walk, &g->p->batch, i);
    return td_gemm_walk_item(g, &walk);
}

#endif
