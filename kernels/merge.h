/* merge.h - merges several calls of one op into one, for devices where a launch is expensive.
 *
 *     concat   lookups in one table: the indices of the calls are concatenated, and the merged
 *              output is the concatenation of their outputs. gather with axis = batch_dims = 0 and
 *              gather_nd with batch_dims = 0, when table, attributes, dtypes and the shape of a row
 *              of indices are equal; find, whose table is the keys and whose indices the queries.
 *              embedding_bag, whose offsets or segment ids are raised by what the calls before
 *              have.
 *     stack    calls with equal equation, shapes and dtypes: inputs that differ between the calls
 *              are stacked along a new first dimension, and so are the outputs; inputs that are the
 *              same tensor in all calls are not. einsum.
 *
 * The merged call is an ordinary call with its own shapes and attributes, already accepted by
 * td_op_infer. Only its data is missing: td_merge_copy writes that of the inputs not shared.
 *
 * `shared` is the set of tensors that all calls have in common, compared by address: bit i is the
 * i-th tensor over all inputs, where each element of a list counts.
 *
 * Ownership  All results are in the arena; they do not refer to the calls.
 * Threads    Reentrant.
 * Errors     RESOURCE_LIMIT when the merged call is too large: merge fewer calls.
 *            MEMORY_EXHAUSTED. */
#ifndef TD_KERNELS_MERGE_H
#define TD_KERNELS_MERGE_H

#include "kernels/op.h"

typedef enum td_merge_kind {
    TD_MERGE_NONE, /* the call cannot be merged */
    TD_MERGE_CONCAT,
    TD_MERGE_STACK
} td_merge_kind;

/* Concat: what an input is. The first one is a table, the second one the indices: rows. */
typedef enum td_merge_part {
    TD_MERGE_TABLE,    /* shared */
    TD_MERGE_ROWS,     /* concatenated along the first dimension */
    TD_MERGE_OFFSETS,  /* positions in the indices: concatenated, as int64, and raised by the number
                          of  indices of the calls before */
    TD_MERGE_SEGMENTS, /* rows of the output: concatenated, as int64, and raised by the number of
                          rows that the outputs of the calls before have */
} td_merge_part;

/* How an op's calls are merged: the part of a descriptor for this file. */
struct td_op_merge {
    td_merge_kind kind;
    const td_merge_part *parts; /* concat: of each input, none of them a list; NULL: a table and its
                                   indices are all */
    /* Can this call be merged, when these tensors are shared? After infer; not called for
     * strings. */
    bool (*can_merge)(const struct td_op_args *args, uint32_t shared);
    int row_rank; /* concat: the number of trailing dimensions of indices that make up one row */
    /* Bit i: in every call that can be merged, attribute i has the meaning of its default, even if
     * the given value is a different one (axis = -2). It is not compared. */
    uint32_t default_attrs;
    int rows_attr; /* concat with segments: the attribute that is the number of rows of the output.
                      It is not compared: the merged call has the sum */
    /* Stack: sets the attributes of the merged call, whose inputs are described already. */
    td_status (*attrs)(const struct td_op_args *call, uint32_t shared, struct td_op_args *merged,
                       struct td_arena *arena, struct td_error *err);
};

/* The tensors that merged calls have in common, of those that could be, `candidates`: for concat
 * the tables, since indices are copied even if they are shared; for stack all of them. */
uint32_t td_merge_shared(const struct td_op *op, const struct td_op_args *args,
                         uint32_t candidates);

/* How a call that td_op_infer has accepted can be merged with others. NONE when its op has no
 * td_op_merge or not exactly one output. For concat the tables must be shared and all other inputs
 * must not; for stack at least one input must not be shared. */
td_merge_kind td_merge_kind_of(const struct td_op *op, const struct td_op_args *args,
                               uint32_t shared);

/* A hash that is equal for calls that can be merged with each other. */
uint64_t td_merge_key(const struct td_op *op, const struct td_op_args *args, uint32_t shared);

/* Can a and b be merged with each other? They may be the same call. */
bool td_merge_fits(const struct td_op *op, const struct td_op_args *a, const struct td_op_args *b,
                   uint32_t shared);

/* The merged call of n calls. */
struct td_merged {
    struct td_op_args args; /* after infer: outputs described, plan made; all data NULL */
    int64_t *item_end;      /* [n], concat: the position in the merged indices, in elements, after
                               the last index of each call; NULL for stack */
    size_t *output_begin;   /* [n]: the position in the merged output, in bytes, where the output of
                               each call begins; its size is that of the call's own output */
};

/* Merges n >= 1 calls that fit each other, whose values td_op.valid accepts. */
TD_MUST_CHECK td_status td_merge_calls(const struct td_op *op,
                                       const struct td_op_args *const *calls, int n,
                                       uint32_t shared, struct td_arena *arena,
                                       struct td_merged *out, struct td_error *err);

/* Copies bytes, at once or later: all that td_merge_copy does not compute. */
typedef void td_merge_copy_fn(void *context, void *to, const void *from, size_t bytes);

/* Writes the data of tensor `number`, which is not shared, of the merged call of these calls. Calls
 * `copy` at most n times; NULL: memcpy. */
void td_merge_copy(const struct td_op *op, const struct td_op_args *const *calls, int n, int number,
                   void *to, td_merge_copy_fn *copy, void *context);

#endif
