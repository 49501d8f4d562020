/* merge.h - merges several calls of one op into one, for devices where a launch is expensive.
 *
 *     concat   plain calls that pick rows of one table (op_rows.h). Tables, attributes, dtypes and
 *              the shape of a query must be equal. The merged call has the queries and outputs of
 *              all calls, one after another. The number of queries or bags in the previous calls is
 *              added to the offsets or segments of bags.
 *     rows     calls whose rows are independent of each other (by_rows.h), such as calls of a
 *              stored program that has one batch dimension. The rows of all calls follow one
 *              another in the inputs that differ between the calls, and in the outputs. Everything
 *              else must be equal.
 *     stack    calls with equal shapes and dtypes. The outputs, and the inputs that differ between
 *              the calls, are stacked along a new first dimension. Inputs that are the same tensor
 *              in all calls are not stacked.
 *
 * The merged call is an ordinary call with its own shapes and attributes, which td_op_infer has
 * already accepted. Only its data is missing: td_merge_copy writes the data of the inputs that are
 * not shared.
 *
 * `shared` is the set of tensors that all calls have in common, compared by address. Bit i is the
 * i-th tensor over all inputs, counting each element of a list as one.
 *
 * Ownership  All results are in the arena and do not refer to the calls.
 * Threads    Reentrant.
 * Errors     RESOURCE_LIMIT if the merged call is too large or is not possible; the caller then
 *            merges fewer calls. MEMORY_EXHAUSTED. */
#ifndef TD_KERNELS_MERGE_H
#define TD_KERNELS_MERGE_H

#include "kernels/op.h"

typedef enum td_merge_kind {
    TD_MERGE_NONE, /* the call cannot be merged */
    TD_MERGE_CONCAT,
    TD_MERGE_ROWS,
    TD_MERGE_STACK
} td_merge_kind;

/* Functions with which calls of an op are stacked. The op does not return a list. */
struct td_op_stack {
    /* True if this call can be stacked when these tensors are shared. Called after infer, but not
     * for calls that have strings as inputs. */
    bool (*can_stack)(const struct td_op_args *args, uint32_t shared);
    /* Sets the attributes of the merged call, whose inputs are already described. Can also give an
     * input another shape with the same elements. */
    td_status (*attrs)(const struct td_op_args *call, uint32_t shared, struct td_op_args *merged,
                       struct td_arena *arena, struct td_error *err);
};

/* Returns the subset of `candidates` that merged calls have in common. For an op that picks rows of
 * a table, this subset is the tables, because queries are copied even if they are shared. For other
 * ops, it is all candidates. */
uint32_t td_merge_shared(const struct td_op *op, const struct td_op_args *args,
                         uint32_t candidates);

/* Returns how a call that td_op_infer has accepted can be merged with other calls. For concat, the
 * tables and no other inputs must be shared. For rows and stack, at least one input must not be
 * shared. */
td_merge_kind td_merge_kind_of(const struct td_op *op, const struct td_op_args *args,
                               uint32_t shared);

/* Returns a hash that is equal for calls that can be merged with each other, or 0 if the call
 * cannot be merged. */
uint64_t td_merge_key(const struct td_op *op, const struct td_op_args *args, uint32_t shared);

/* True if a and b can be merged with each other. Each of them can be merged (td_merge_kind_of). a
 * and b can be the same call. */
bool td_merge_fits(const struct td_op_args *a, const struct td_op_args *b, uint32_t shared);

/* The result of merging n calls. */
struct td_merged {
    struct td_op_args args; /* described by infer: outputs and plan are set, and all data is NULL */
    /* For concat, and for rows of ops that pick rows of a table, an array [n]: the end of each
     * call's queries within the merged queries, in elements. Otherwise NULL. */
    int64_t *item_end;
    /* An array [n * n_outputs]: element c * n_outputs + j is the byte offset of output j of call c
     * in merged output j. The part has the size of the call's own output. */
    size_t *output_begin;
};

/* Merges at least one call. The calls must fit each other (td_merge_fits), and td_op.valid must
 * accept their values. */
TD_MUST_CHECK td_status td_merge_calls(const struct td_op *op,
                                       const struct td_op_args *const *calls, int n,
                                       uint32_t shared, struct td_arena *arena,
                                       struct td_merged *out, struct td_error *err);

/* Copies bytes, immediately or later. Used for all data that td_merge_copy does not compute. */
typedef void td_merge_copy_fn(void *context, void *to, const void *from, size_t bytes);

/* Writes the data of tensor `number` of the merged call, which must not be shared. Calls `copy` at
 * most n times, or uses memcpy if `copy` is NULL. */
void td_merge_copy(const struct td_op *op, const struct td_op_args *const *calls, int n, int number,
                   void *to, td_merge_copy_fn *copy, void *context);

#endif
