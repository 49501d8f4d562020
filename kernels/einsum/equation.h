/* equation.h - parses an equation such as "bij,bjk->bik", and resolves it against the shapes of its
 * operands.
 *
 * Grammar    subscript {"," subscript} ["->" subscript]; a subscript is labels with at most one
 *            "..." among them, or empty (a scalar). A label is one character (a UTF-8 sequence)
 *            except , . - > and space; spaces are ignored everywhere. Without "->" the output is
 *            the ellipsis, if any input has one, then the labels that occur once in all inputs, by
 *            code point. An output ellipsis that no input has stands for no dimension.
 * Errors     INVALID_EQUATION with the byte offset of the invalid character, or of the end of the
 *            text if something is missing: malformed text, two ellipses in a subscript, an output
 *            label that no input has. INVALID_ARGUMENT: the number of inputs differs from the
 *            equation's, or exceeds TD_EINSUM_MAX_INPUTS; broadcast dimensions although the output
 *            has no ellipsis. SHAPE_MISMATCH: the rank does not match the subscript; a label has
 *            two extents, and the error names the label and both; ellipses do not broadcast.
 *            RESOURCE_LIMIT (rank): the output has more than TD_MAX_RANK dimensions. The text is
 *            checked first, then the number of inputs, then the shapes. If the equation has a label
 *            that looks like syntax, such as an arrow, the message of any error advises against it.
 * Ownership  The equation is allocated from the arena and refers to nothing outside of it.
 * Threads    Reentrant.
 * Cost       One pass over the text, of any length; each label is searched for among at most
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

/* The dimensions of one operand, or of the output, as label numbers. Named labels are numbered from
 * 0 in the order of their first occurrence; the dimensions of the ellipsis follow, from left to
 * right. */
struct td_subscript {
    int rank;
    uint8_t label[TD_MAX_RANK]; /* TD_EINSUM_MAX_LABELS is 256 */
};

/* An equation resolved against shapes. Each dimension of the ellipsis has a label of its own. */
struct td_equation {
    int n_inputs;
    struct td_subscript inputs[TD_EINSUM_MAX_INPUTS];
    struct td_subscript output;
    struct td_shape output_shape;
    int n_labels;
    int n_named; /* labels from n_named on are dimensions of the ellipsis */
    /* Extent of each label; of a dimension of the ellipsis, after broadcasting. */
    int64_t extent[TD_EINSUM_MAX_LABELS];
    /* Code point of each label; a dimension of the ellipsis has a letter that the equation does not
     * use. */
    uint32_t character[TD_EINSUM_MAX_LABELS];
};

/* Parses the NUL-terminated text and resolves it against the shapes. An input is broadcast where a
 * dimension of its ellipsis has extent 1 and the label a larger one. */
TD_MUST_CHECK td_status td_equation_parse(const char *text, const struct td_shape *const *shapes,
                                          int n_shapes, struct td_arena *arena,
                                          struct td_equation **equation, struct td_error *err);

#endif
