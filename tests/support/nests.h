/* nests.h - loop nests for tests of contractions: drawn at random, filled, and computed the slow
 * way. */
#ifndef TD_TESTS_SUPPORT_NESTS_H
#define TD_TESTS_SUPPORT_NESTS_H

#include "kernels/einsum/contraction.h"
#include "kernels/einsum/nest/workspace.h"

#include <stddef.h>

#define NEST_LOOPS 12

struct nest {
    struct td_contraction contraction;
    struct td_loop loops[NEST_LOOPS];
    int64_t n_elements[3]; /* of A, B and C, gaps included */
    void *data[3];         /* of malloc, exactly as large */
    void *want;            /* as C, filled by nest_reference */
};

uint64_t nest_random(uint64_t *state);

/* What the letters of random nests may be. */
struct nest_kind {
    td_dtype in, out;
    bool has_b, sums;
    int64_t steps; /* the most that all loops together take */
};

/* Letters in any order, permuted, broadcast, repeated (diagonals), with gaps between rows; extents
 * of 1 now and then. C is dense and every element of it is written. */
void nest_draw(struct nest *nest, const struct nest_kind *kind, uint64_t *state);

/* From an equation, "ij,jk->ik" or "ij->", with extents by letter in the order they first occur;
 * all operands dense. */
void nest_parse(struct nest *nest, const char *equation, const int64_t *extents, td_dtype in,
                td_dtype out);

/* Small whole numbers in floating dtypes, so that sums are exact; any bits in integers. */
void nest_fill(struct nest *nest, uint64_t *state);

/* Fills want: floats computed in double and rounded once, integers modulo 2^64 and cut. */
void nest_reference(struct nest *nest);

/* C is want, bit for bit; `says` names the case. */
void nest_expect(const struct nest *nest, const char *says);

void nest_free(struct nest *nest);

/* A workspace of exactly the size that is needed, with a guard after every part. */
struct guarded_workspace {
    struct td_workspace workspace;
    struct td_workspace_need need;
};
void guarded_workspace_open(struct guarded_workspace *guarded, struct td_workspace_need need,
                            int n_slots);
/* Fails the test when a guard was touched or a slot is still taken. */
void guarded_workspace_close(struct guarded_workspace *guarded, const char *says);

#endif
