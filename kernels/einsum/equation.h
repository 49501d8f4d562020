/* equation.h - "bij,bjk->bik" as text, and with the shapes of its operands put in.
 *
 * Grammar    subscript {"," subscript} ["->" subscript]; a subscript is labels with at most one
 *            "..." among them, or nothing (a scalar). A label is one character (a UTF-8 sequence)
 *            but , . - > and space; spaces are ignored wherever they stand. Without "->" the output
 *            is the ellipsis, if any input has one, then the labels that occur once in all inputs,
 *            by code point. An output ellipsis when no input has one stands for no dimension.
 * Errors     INVALID_EQUATION with the byte offset of the character at fault, the end of the text
 *            where something is missing there: malformed text, two ellipses in a subscript, an
 *            output label that no input has.
 *            INVALID_ARGUMENT: another number of inputs than the equation has, or more than
 *            TD_EINSUM_MAX_INPUTS; broadcast dimensions although the output has no ellipsis.
 *            SHAPE_MISMATCH: rank against subscript; extents of a label, naming it and both;
 *            ellipses that do not broadcast.
 *            RESOURCE_LIMIT (rank): an output of more than TD_MAX_RANK dimensions.
 *            Text comes before numbers of inputs, these before shapes.
 * Cost       One pass over the text, however long; labels are looked for among at most
 *            TD_EINSUM_MAX_LABELS.
 * Source     numpy.einsum in the NumPy reference; tf.einsum in the TensorFlow API reference. */
#ifndef TD_KERNELS_EINSUM_EQUATION_H
#define TD_KERNELS_EINSUM_EQUATION_H

#include "kernels/arena.h"
#include "kernels/shape.h"
#include "kernels/status.h"

#define TD_EINSUM_MAX_INPUTS 16
/* No operand has more than TD_MAX_RANK labels. */
#define TD_EINSUM_MAX_LABELS (TD_EINSUM_MAX_INPUTS * TD_MAX_RANK)

/* The dimensions of one operand, or of the output, as labels: the same number for the same label.
 * Named ones count from 0 in the order of their first occurrence; the dimensions of the ellipsis
 * follow, from left to right. */
struct td_subscript {
    int rank;
    uint8_t label[TD_MAX_RANK]; /* TD_EINSUM_MAX_LABELS is 256 */
};

/* An equation with shapes put in. Ellipses have become labels of their own. */
struct td_equation {
    int n_inputs;
    struct td_subscript inputs[TD_EINSUM_MAX_INPUTS];
    struct td_subscript output;
    struct td_shape output_shape;
    int n_labels;
    int n_named; /* labels from here on are dimensions of the ellipsis */
    int64_t
        extent[TD_EINSUM_MAX_LABELS]; /* of each label; an ellipsis dimension's after broadcast */
    uint32_t character[TD_EINSUM_MAX_LABELS]; /* as written, a code point; for a dimension of the
                                                 ellipsis a letter that the equation does not use */
};

/* Parses the NUL-terminated text and puts shapes in. An input whose ellipsis dimension has extent 1
 * while the label's is larger is broadcast. *equation comes from the arena. */
TD_MUST_CHECK td_status td_equation_parse(const char *text, const struct td_shape *const *shapes,
                                          int n_shapes, struct td_arena *arena,
                                          struct td_equation **equation, struct td_error *err);

#endif
