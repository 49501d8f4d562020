/* equations.h - random einsum equations with matching shapes, and a reference: the loop nest over
 * all labels, which is independent of the code under test. */
#ifndef TD_TESTS_SUPPORT_EQUATIONS_H
#define TD_TESTS_SUPPORT_EQUATIONS_H

#include "kernels/shape.h"

#include <stdint.h>

#define MAX_EQUATION_INPUTS 6
#define MAX_EQUATION_LABELS 12

struct random_equation {
    char text[512];
    int n_inputs;
    struct td_shape shapes[MAX_EQUATION_INPUTS];
    struct td_shape output;
    int n_labels;
    int64_t extent[MAX_EQUATION_LABELS];
    /* The label of each dimension. */
    int input_label[MAX_EQUATION_INPUTS][TD_MAX_RANK];
    int output_label[TD_MAX_RANK];
};

/* 1 to 5 inputs; labels repeated in an input, in several, in the output; an ellipsis anywhere, with
 * dimensions that broadcast; with and without an output; extents of 0 and 1; spaces. The nest has
 * at most `most` products, and no tensor more elements. The equation depends on the seed only,
 * which is passed to random.h. */
void random_equation(uint64_t seed, int64_t most, struct random_equation *equation);

/* Two inputs of a batch of matrix products, with one or two labels for each of its dimensions, in
 * any order; about 2 * 10^5 products at most. */
void random_product(uint64_t seed, struct random_equation *equation);

/* Calls fn for every combination of the values of the labels, with the offsets of the elements of
 * the inputs and of the output. The last label varies fastest. */
typedef void products_fn(void *context, const int64_t *input, int64_t output);
void each_product(const struct random_equation *equation, products_fn *fn, void *context);

#endif
