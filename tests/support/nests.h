/* nests.h - loop nests for tests of contractions: random or from a text, filled, and computed by a
 * reference implementation. */
#ifndef TD_TESTS_SUPPORT_NESTS_H
#define TD_TESTS_SUPPORT_NESTS_H

#include "kernels/einsum/contraction.h"
#include "kernels/workspace.h"

#include <stddef.h>

#define NEST_LOOPS 12

struct nest {
    struct td_contraction contraction; /* its loops are those below: do not copy a nest */
    struct td_loop loops[NEST_LOOPS];
    int64_t n_elements[3]; /* of A, B and C, gaps included */
    void *data[3];         /* from malloc, exactly as large; NULL after nest_parse */
    void *want;            /* the expected C, filled by nest_reference; NULL after nest_parse */
};

/* Constraints on random nests. */
struct nest_kind {
    td_dtype in, out;
    bool has_b, sums;
    int64_t steps; /* upper bound of the product of the extents */
};

/* A random nest: letters in any order, permuted, broadcast, repeated (diagonals), with gaps between
 * rows; some extents are 1. C is dense and every element of it is written. */
void nest_draw(struct nest *nest, const struct nest_kind *kind, uint64_t *state);

/* A nest from an equation and the extents of its letters, "zmk,zkn->zmn z=2 m=5 n=7 k=3" or
 * "ij-> i=3 j=4". Operands are row-major and dense, except that a digit after a letter, "mk2",
 * gives that dimension a gap: only every second element is used. Loops are in the order of
 * simplified nests; those of extent 1 are not removed. Allocates nothing. */
void nest_parse(struct nest *nest, const char *text, td_dtype a, td_dtype b, td_dtype c);

/* nest_parse, with operands in memory; A and B have the dtype `in`. */
void nest_make(struct nest *nest, const char *text, td_dtype in, td_dtype out);

/* data[i] = re + i im; im is ignored unless the dtype is complex, integers are truncated. */
void nest_store(void *data, td_dtype dtype, int64_t i, int64_t re, int64_t im);

/* Fills A and B: floating dtypes with small integers, so that sums are exact; integer dtypes with
 * any bits. */
void nest_fill(struct nest *nest, uint64_t *state);

/* Fills want: floats computed in double and rounded once, integers modulo 2^64 and truncated. */
void nest_reference(struct nest *nest);

/* Fails the test unless C is bitwise equal to want; case_name is in the message. */
void nest_expect(const struct nest *nest, const char *case_name);

void nest_free(struct nest *nest);

/* A workspace of exactly the given size, with guard bytes after every part. */
struct guarded_workspace {
    struct td_workspace workspace;
    struct td_workspace_size size;
};
void guarded_workspace_open(struct guarded_workspace *guarded, struct td_workspace_size size,
                            int n_threads);
/* Fails the test when a guard was overwritten or the scratch of a thread was not released. */
void guarded_workspace_close(struct guarded_workspace *guarded, const char *case_name);

#endif
