/* merge.h - several calls of one op made one, for a device on which starting is what costs.
 *
 *     concat   lookups in one table: their indices, one call's after the other's, give their
 *              outputs one after the other. gather with axis = batch_dims = 0, gather_nd with
 *              batch_dims = 0; same table, attributes, dtypes, rows.
 *     stack    calls with the same equation, shapes and dtypes: what each brings is stacked
 *              along a new first dimension, what all share (a table) is not; so is the output.
 *              einsum.
 *
 * The merged call is an ordinary one, with an equation and shapes of its own, that td_op_infer has
 * accepted; only its data are not there yet. Which they are is told by td_merge_calls.
 *
 * `shared` says which tensors are the same for all calls, by address: bit i is the i-th tensor of
 * all inputs, counted through the lists.
 *
 * Ownership  Everything lies in the arena; nothing refers to the calls afterwards.
 * Threads    Reentrant.
 * Errors     RESOURCE_LIMIT where the merged call would be too large: merge fewer.
 *            MEMORY_EXHAUSTED. */
#ifndef TD_KERNELS_MERGE_H
#define TD_KERNELS_MERGE_H

#include "kernels/op.h"

typedef enum td_merge_kind {
    TD_MERGE_NONE, /* only by itself */
    TD_MERGE_CONCAT,
    TD_MERGE_STACK
} td_merge_kind;

/* What an op says of it: how its calls merge, and what of that is its own. */
struct td_op_merge {
    td_merge_kind kind; /* of all calls that can; concat: inputs are a table and its indices */
    /* Can this one, with these tensors shared? After infer; strings have been refused. */
    bool (*can)(const struct td_op_args *args, uint32_t shared);
    int row_rank; /* concat: so many last dimensions of indices are one row */
    /* Bit i: attribute i means its default in every call that can, however it was written. */
    uint32_t default_attrs;
    /* Stack: sets the attributes of the merged call, whose inputs are described. */
    td_status (*attrs)(const struct td_op_args *call, uint32_t shared, struct td_op_args *merged,
                       struct td_arena *arena, struct td_error *err);
};

/* How this call can be merged with others like it; td_op_infer has accepted it. NONE where the op
 * says nothing of merging or the call has not exactly one output. Concat wants the table shared and
 * the indices not; stack, that some input is not shared. */
td_merge_kind td_merge_kind_of(const struct td_op *op, const struct td_op_args *args,
                               uint32_t shared);

/* Of calls that can be merged with each other, equal for all: a hash to find them by. */
uint64_t td_merge_key(const struct td_op *op, const struct td_op_args *args, uint32_t shared);

/* Can they, hash or not? Also with itself. */
bool td_merge_fits(const struct td_op *op, const struct td_op_args *a, const struct td_op_args *b,
                   uint32_t shared);

/* What a merged call is made of. */
struct td_merged {
    struct td_op_args args; /* inferred: outputs described, plan made; data NULL everywhere */
    int64_t *item_end;      /* concat: elements of indices up to the end of each call's, n of them;
                               NULL for stack */
    size_t *output_begin;   /* byte of the merged output where each call's begins, n of them; it
                               has as many bytes there as that call's own output */
};

/* n >= 1 calls that fit each other. Of a tensor that is shared the merged one is the first call's;
 * of any other, the bytes of all calls one after the other. */
TD_MUST_CHECK td_status td_merge_calls(const struct td_op *op,
                                       const struct td_op_args *const *calls, int n,
                                       uint32_t shared, struct td_arena *arena,
                                       struct td_merged *out, struct td_error *err);

#endif
