/* split.h - splits a call of an op that picks rows of a table (op_rows.h) into calls on parts of
 * the table, and joins their outputs. Used for tables whose parts are in different places. (merge.h
 * does the opposite: it merges several calls on one table into one.)
 *
 *     table, per row    part p has the rows [begin[p], begin[p + 1]) of the table
 *     queries           a list of the queries whose row is in the part, in order. Row numbers are
 *                       counted from the first row of the part
 *     per query         the elements or rows of the part's queries
 *     bags              each part has all bags, as segments. A bag has only the part's own queries,
 *                       and its result is the sum, or the maximum, of their rows
 *     outputs           the rows of the parts, in the order of the call's queries. A query that is
 *                       in no part has a row of zeros or empty strings, as with policy zero. Sums
 *                       of bags are added in float64 and then divided
 *
 * A table need not have data. Only its shape is then used, and its parts have no data either.
 *
 * Ownership  All results are in the arena. Tables and slices of them are the call's own data.
 * Threads    Reentrant.
 * Errors     RESOURCE_LIMIT, MEMORY_EXHAUSTED; INDEX_OUT_OF_BOUNDS and KEY_NOT_FOUND as reported by
 *            the op itself.
 * Source     tf.nn.embedding_lookup with partition_strategy="div", TensorFlow API reference. */
#ifndef TD_KERNELS_SPLIT_H
#define TD_KERNELS_SPLIT_H

#include "kernels/op.h"

enum td_split_no_part {
    TD_SPLIT_ZEROS = -1,  /* the query has a row of zeros */
    TD_SPLIT_SKIPPED = -2 /* the query is ignored */
};

struct td_split_part {
    struct td_op_args args; /* arguments after infer; the outputs have no data */
    /* int64 [n]: position of each query of the part in the queries of the call. */
    struct td_tensor places;
};

struct td_split {
    const struct td_op *op;
    const int64_t *begin; /* the caller's array */
    int n_parts;
    struct td_split_part *parts;
    int64_t replaced;   /* number of indices that the bounds policy replaced */
    const int *part;    /* [number of queries]: number of a part, or a value of td_split_no_part */
    const int64_t *bag; /* [number of queries]: bag of each query, if the op has bags */
};

/* True if a call that td_op_infer has accepted can be split. Its queries must select rows along the
 * first dimension of the table, and its outputs must have one row per query or bag. */
bool td_split_possible(const struct td_op *op, const struct td_op_args *call);

/* Returns the index of the part that holds the queried row, or TD_SPLIT_ZEROS. Only the caller
 * knows which part holds the row of a key. */
typedef int td_split_part_of(const void *context, const struct td_tensor *queries, int64_t query);

/* Splits a call among n_parts >= 1 parts of the table. `begin` has n_parts + 1 row numbers, from 0
 * to the number of rows. part_of is required for keys, and must be NULL for row numbers. */
TD_MUST_CHECK td_status td_split_call(const struct td_op *op, const struct td_op_args *call,
                                      const int64_t *begin, int n_parts, td_split_part_of *part_of,
                                      const void *context, struct td_exec *exec,
                                      struct td_split *out, struct td_error *err);

/* Fills the outputs of the call from the outputs of the parts. The outputs must be allocated as for
 * td_op.run. */
TD_MUST_CHECK td_status td_split_join(const struct td_split *split, struct td_op_args *call,
                                      struct td_exec *exec, struct td_error *err);

#endif
