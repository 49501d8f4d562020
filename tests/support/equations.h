/* equations.h - random einsum equations with shapes that fit them, and what they mean: the nest of
 * loops over all labels, which owes nothing to the code under test. */
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
    /* Of each dimension. */
    int input_label[MAX_EQUATION_INPUTS][TD_MAX_RANK];
    int output_label[TD_MAX_RANK];
};

/* 1 to 5 inputs; labels repeated in an input, in several, in the output; an ellipsis anywhere, with
 * dimensions that broadcast; with and without an output; extents of 0 and 1; spaces. The nest has
 * at most so many products, and no tensor more elements. The same equation for the same seed,
 * which goes to random.h. */
void random_equation(uint64_t seed, int64_t most, struct random_equation *equation);

/* Two inputs that make a batch of matrix products, a label or two for each of its dimensions, in
 * any order; at most some 2 * 10^5 products. */
void random_product(uint64_t seed, struct random_equation *equation);

/* Calls fn for every combination of values of the labels, with the element of each input and of the
 * output that it is about. The last label runs fastest. */
typedef void products_fn(void *context, const int64_t *input, int64_t output);
void each_product(const struct random_equation *equation, products_fn *fn, void *context);

#endif
