/* layout.h - code that reshape, expand_dims, squeeze, transpose and slice share: an output whose
 * elements are elements of the input x, at regular distances.
 *
 * infer finds the element of x at the first position of the output, and the distance in x between
 * neighbours along each dimension of the output. The rest is the same for all of these ops.
 *
 * Ownership  Borrows x for the call; writes only the output.
 * Threads    Reentrant. Splits the output through exec; the parts never overlap.
 * Cost       The bytes of the output read and written. */
#ifndef TD_KERNELS_SHAPES_LAYOUT_H
#define TD_KERNELS_SHAPES_LAYOUT_H

#include "kernels/op.h"
#include "kernels/permute/permute.h"

/* The input `x` of any dtype, and an output of its dtype. */
extern const struct td_input_spec td_layout_inputs[1];
#define TD_LAYOUT_OUTPUT(summary_text, rule)                                                       \
    {                                                                                              \
        .name = "output", .summary = (summary_text), .shape_rule = (rule), .dtype_of = "x"         \
    }

/* INVALID_AXIS, INVALID_ARGUMENT and RESOURCE_LIMIT, for td_op.errors. */
extern const td_status td_layout_errors[];

/* Sets strides[d] to the distance in elements between two neighbours along dimension d of x. If x
 * has no elements, all strides are 0. */
void td_layout_strides(const struct td_tensor *x, int64_t *strides);

/* Describes the output and sets args->plan. The output's first element is element `first` of x, and
 * its neighbours along dimension d of the output are strides[d] elements apart in x, in either
 * direction. The stride of a dimension of 1 does not matter. If `strides` is NULL, the output has
 * the elements of x in their order. */
TD_MUST_CHECK td_status td_layout_output(struct td_op_args *args, const struct td_shape *shape,
                                         int64_t first, const int64_t *strides,
                                         struct td_arena *arena, struct td_error *err);

/* Returns the loops over an output that has elements, outermost first. The strides in C describe a
 * dense tensor. Sets *n_loops, and sets *first to the element of x at the first position. */
const struct td_permute_loop *td_layout_loops(const struct td_op_args *args, int *n_loops,
                                              int64_t *first);

/* Implement cost and run of a descriptor whose infer calls td_layout_output. */
struct td_cost td_layout_cost(const struct td_op_args *args);
TD_MUST_CHECK td_status td_layout_run(struct td_op_args *args, struct td_exec *exec,
                                      struct td_error *err);

#endif
