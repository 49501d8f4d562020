/* context.h - a product being computed: the operands, and the kernels and packing that td_gemm_run
 * chose for them.
 *
 * Ownership  Borrows everything to which it points.
 * Threads    Read-only while ranges run. */
#ifndef TD_KERNELS_EINSUM_GEMM_CONTEXT_H
#define TD_KERNELS_EINSUM_GEMM_CONTEXT_H

#include "kernels/convert/convert.h"
#include "kernels/einsum/gemm/blocking.h"
#include "kernels/einsum/gemm/kernels.h"
#include "kernels/einsum/gemm/product.h"
#include "kernels/workspace.h"

#include <stdbool.h>
#include <stdint.h>

struct td_gemm_context {
    const struct td_gemm_product *p;
    const struct td_gemm_blocking *blocking;
    const struct td_gemm_kernels *kernels;
    const struct td_gemm_microkernels *microkernels;
    td_widen_fn *widen[2];
    td_narrow_fn *narrow;
    const char *a, *b;
    char *c;
    struct td_workspace *workspace;
    /* Maximum number of rows and columns of a tile, in elements. */
    int64_t mr, nr;
    /* Maximum number of rows of a block of A, a multiple of mr. */
    int64_t mc;
    /* True if the tiles read the operand directly, without packing. */
    bool a_in_place, b_in_place;
    bool c_in_place; /* tiles are stored directly to C */
};

/* The operands of one product of the batch. */
struct td_gemm_operands {
    const char *a, *b;
    char *c;
};

static inline struct td_gemm_operands td_gemm_operands_of(const struct td_gemm_context *g,
                                                          const struct td_gemm_batch_iter *iter)
{
    const struct td_gemm_product *p = g->p;
    return (struct td_gemm_operands){ g->a + iter->offset[TD_A] * p->size[TD_A],
                                      g->b + iter->offset[TD_B] * p->size[TD_B],
                                      g->c + iter->offset[TD_C] * p->size[TD_C] };
}

static inline struct td_gemm_operands td_gemm_operands_at(const struct td_gemm_context *g,
                                                          int64_t i)
{
    struct td_gemm_batch_iter iter;
    td_gemm_batch_iter_init(&iter, &g->p->batch, i);
    return td_gemm_operands_of(g, &iter);
}

#endif
