/* joining.h - code that concat and stack share: joins the tensors of a list along one dimension of
 * the output.
 *
 * The output has n_rows rows, one for each combination of the dimensions before the dimension. A
 * row consists of one chunk from each input, in the order of the list. A chunk is contiguous in the
 * input.
 *
 * Ownership  Borrows all tensors for the call; writes only the output.
 * Threads    Reentrant. Splits the output through exec; the parts never overlap.
 * Cost       The bytes of the output read and written, in order. */
#ifndef TD_KERNELS_PERMUTE_JOINING_H
#define TD_KERNELS_PERMUTE_JOINING_H

#include "kernels/op.h"

/* Describes the output, whose dtype is the dtype of the inputs, and sets args->plan. The first
 * input of the op is the list. start[0 .. count] are the places of the inputs along dimension
 * `axis` of the output: input i has the places [start[i], start[i + 1]), and start[count] is
 * shape->dim[axis]. `start` is in the arena. */
TD_MUST_CHECK td_status td_joining_output(struct td_op_args *args, const struct td_shape *shape,
                                          int axis, const int64_t *start, struct td_arena *arena,
                                          struct td_error *err);

/* Returns the number of rows of an output that has elements. Sets *chunk to the number of elements
 * that input i has in each row, *begin to the place of these elements in a row of the output, and
 * *row to the number of elements in a row. */
int64_t td_joining_rows(const struct td_op_args *args, int i, int64_t *chunk, int64_t *begin,
                        int64_t *row);

/* Adds the shapes of inputs[0] and inputs[i] to a SHAPE_MISMATCH error, and names inputs[i] as the
 * invalid input. */
td_status td_joining_mismatch(const struct td_op_args *args, int i, struct td_error *err);

/* Implement cost and run of a descriptor whose infer calls td_joining_output. */
struct td_cost td_joining_cost(const struct td_op_args *args);
TD_MUST_CHECK td_status td_joining_run(struct td_op_args *args, struct td_exec *exec,
                                       struct td_error *err);

#endif
