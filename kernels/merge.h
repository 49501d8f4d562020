/* merge.h - merges several calls of one op into one, for devices where a launch is expensive.
 *
 *     concat   plain calls that pick rows of one table (op_rows.h): the queries are concatenated,
 *              and so are the outputs. Tables, attributes, dtypes and the shape of a query are
 *              equal.
 *              Offsets and segments of bags are raised by what the calls before have.
 *     stack    calls with equal shapes and dtypes: inputs that differ between the calls are stacked
 *              along a new first dimension, and so are the outputs; inputs that are the same tensor
 *              in all calls are not.
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

/* How an op's calls are stacked: the part of a descriptor for this file. The op has one output. */
struct td_op_stack {
    /* Can this call be stacked, when these tensors are shared? After infer; not called for
     * strings. */
    bool (*can_stack)(const struct td_op_args *args, uint32_t shared);
    /* Sets the attributes of the merged call, whose inputs are described already. */
    td_status (*attrs)(const struct td_op_args *call, uint32_t shared, struct td_op_args *merged,
                       struct td_arena *arena, struct td_error *err);
};

/* The tensors that merged calls have in common, of those that could be, `candidates`: for concat
 * the tables, since indices are copied even if they are shared; for stack all of them. */
uint32_t td_merge_shared(const struct td_op *op, const struct td_op_args *args,
                         uint32_t candidates);

/* How a call that td_op_infer has accepted can be merged with others. For concat the tables must be
 * shared and all other inputs must not; for stack at least one input must not be shared. */
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
    int64_t *item_end;      /* [n], concat: the position in the merged queries, in elements, after
                               the last query of each call; NULL for stack */
    /* [n * n_outputs]: where in merged output j that of call c begins, in bytes, at
     * [c * n_outputs + j]. Its size is that of the call's own output. */
    size_t *output_begin;
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
