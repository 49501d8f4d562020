/* equation.h - parses an equation such as "bij,bjk->bik" and resolves it against the shapes of its
 * operands.
 *
 * Grammar    subscript {"," subscript} ["->" subscript] A subscript is a sequence of labels with at
 *            most one "..." among them. An empty subscript stands for a scalar. A label is one
 *            character (a UTF-8 sequence) other than , . - > and space. Spaces are ignored
 *            everywhere. Without "->", the output is the ellipsis, if any input has one, then the
 *            labels that occur once in all inputs, sorted by code point. An ellipsis in the output
 *            stands for no dimensions if no input has an ellipsis.
 * Errors     INVALID_EQUATION: malformed text, two ellipses in a subscript, or an output label that
 *            no input has. The error gives the byte offset of the invalid character, or of the end
 *            of the text if it is incomplete. INVALID_ARGUMENT: the number of inputs differs from
 *            the number in the equation or exceeds TD_EINSUM_MAX_INPUTS, or there are broadcast
 *            dimensions but the output has no ellipsis. SHAPE_MISMATCH: the rank of an input does
 *            not match its subscript, a label has two extents (the error names the label and both
 *            extents), or ellipses do not broadcast. RESOURCE_LIMIT (rank): the output has more
 *            than TD_MAX_RANK dimensions. The text is checked first, then the number of inputs,
 *            then the shapes. If the equation has a label that looks like syntax, such as an arrow,
 *            the message of any error advises against that label.
 * Ownership  The equation is allocated from the arena and refers to nothing outside the arena.
 * Threads    Reentrant.
 * Cost       One pass over the text, which can have any length. Each label is looked up among at
 *            most TD_EINSUM_MAX_LABELS.
 * Source     numpy.einsum in the NumPy reference; tf.einsum in the TensorFlow API reference. */
#ifndef TD_KERNELS_EINSUM_EQUATION_H
#define TD_KERNELS_EINSUM_EQUATION_H

#include "kernels/arena.h"
#include "kernels/shape.h"
#include "kernels/status.h"

#define TD_EINSUM_MAX_INPUTS 16
/* Every operand has at most TD_MAX_RANK labels. */
#define TD_EINSUM_MAX_LABELS (TD_EINSUM_MAX_INPUTS * TD_MAX_RANK)

/* The dimensions of an operand or of the output, as label numbers. Named labels are numbered from 0
 * in the order of their first occurrence. The dimensions of the ellipsis follow, from left to
 * right. */
struct td_subscript {
    int rank;
    /* A label number fits in 8 bits, because TD_EINSUM_MAX_LABELS is 256. */
    uint8_t label[TD_MAX_RANK];
};

/* An equation resolved against shapes. Each dimension of the ellipsis has its own label. */
struct td_equation {
    int n_inputs;
    struct td_subscript inputs[TD_EINSUM_MAX_INPUTS];
    struct td_subscript output;
    struct td_shape output_shape;
    int n_labels;
    int n_named; /* labels with numbers from n_named are ellipsis dimensions */
    /* Extent of each label. For an ellipsis dimension, the extent after broadcasting. */
    int64_t extent[TD_EINSUM_MAX_LABELS];
    /* Code point of each label. For an ellipsis dimension, a letter that the equation does not
     * use. */
    uint32_t character[TD_EINSUM_MAX_LABELS];
};

/* Parses the NUL-terminated text and resolves it against the shapes. An input whose extent along an
 * ellipsis dimension is 1 is broadcast to the extent of the label. */
TD_MUST_CHECK td_status td_equation_parse(const char *text, const struct td_shape *const *shapes,
                                          int n_shapes, struct td_arena *arena,
                                          struct td_equation **equation, struct td_error *err);

#endif
