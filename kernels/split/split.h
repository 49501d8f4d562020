/* split.h - splits a call of an op that picks rows of a table (op_rows.h) into calls on parts of
 * the table, and joins their outputs: for a table whose parts are in different places. merge.h, the
 * other way round, makes one call of several on one table.
 *
 *     table, per row    part p has the rows [begin[p], begin[p + 1]) of the table
 *     queries           those whose row is in the part, in their order, as a list. Row numbers are
 *                       counted from the first row of the part
 *     per query         what belongs to the queries of the part
 *     bags              each part has all bags, as segments, with the queries that are its own, and
 *                       sums of their rows, or the greatest elements
 *     outputs           those of the parts, in the order of the call's queries; a query that is in
 *                       no part has a row of zeros, or of empty strings, as the policy zero gives.
 *                       Of bags the sums of the parts are added in float64, and divided after that
 *
 * The tables need not be there: of a tensor without data only the shape is used, and the parts of
 * it have no data.
 *
 * Ownership  All results are in the arena; tables and rows of them are those of the call.
 * Threads    Reentrant.
 * Errors     RESOURCE_LIMIT, MEMORY_EXHAUSTED; INDEX_OUT_OF_BOUNDS and KEY_NOT_FOUND as the op
 *            itself reports them.
 * Source     tf.nn.embedding_lookup with partition_strategy="div", TensorFlow API reference. */
#ifndef TD_KERNELS_SPLIT_H
#define TD_KERNELS_SPLIT_H

#include "kernels/op.h"

enum td_split_no_part {
    TD_SPLIT_ZEROS = -1,  /* the query has a row of zeros */
    TD_SPLIT_SKIPPED = -2 /* the query does not count */
};

struct td_split_part {
    struct td_op_args args;  /* after infer; the outputs have no data */
    struct td_tensor places; /* int64 [n]: of each query, its place among those of the call */
};

struct td_split {
    const struct td_op *op;
    const int64_t *begin; /* as given */
    int n_parts;
    struct td_split_part *parts;
    int64_t replaced;   /* indices of the call that the bounds policy replaced */
    const int *part;    /* [number of queries]: the part, or one of td_split_no_part */
    const int64_t *bag; /* [number of queries], if the op has bags */
};

/* Can a call that td_op_infer has accepted be split? Its queries choose rows along the first
 * dimension of the table, and its outputs have a row for each query or bag. */
bool td_split_possible(const struct td_op *op, const struct td_op_args *call);

/* The number of the part that has a query, or TD_SPLIT_ZEROS. Only the caller knows where the rows
 * of keys are. */
typedef int td_split_part_of(const void *context, const struct td_tensor *queries, int64_t query);

/* Splits a call among n_parts >= 1 parts of the table: `begin` has n_parts + 1 row numbers, from 0
 * to the number of rows. part_of: for keys; NULL for row numbers. */
TD_MUST_CHECK td_status td_split_call(const struct td_op *op, const struct td_op_args *call,
                                      const int64_t *begin, int n_parts, td_split_part_of *part_of,
                                      const void *context, struct td_exec *exec,
                                      struct td_split *out, struct td_error *err);

/* Fills the outputs of the call, allocated as for td_op.run, from those of the parts. */
TD_MUST_CHECK td_status td_split_join(const struct td_split *split, struct td_op_args *call,
                                      struct td_exec *exec, struct td_error *err);

#endif
