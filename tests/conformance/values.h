/* values.h - the tensor of a case or a reply as a list of values that can be compared: read from
 * JSON or from bytes, written as bytes. Independent of api/ and of kernels/convert.
 *
 * Floats are rounded to the dtype when they are read.
 *
 * Ownership  All results are in the arena. */
#ifndef TD_TESTS_CONFORMANCE_VALUES_H
#define TD_TESTS_CONFORMANCE_VALUES_H

#include "kernels/tensor.h"
#include "tests/conformance/tree.h"

#include <stdio.h>

struct value {
    double re, im; /* floats; complex numbers */
    bool negative; /* integers, with their magnitude; bool */
    uint64_t magnitude;
    struct text string;
};

struct values {
    td_dtype dtype;
    struct td_shape shape;
    int64_t count;
    struct value *at;
};

/* What is wrong: the first difference. */
struct why {
    char text[400];
};
bool because(struct why *why, const char *format, ...)
    __attribute__((format(printf, 2, 3))); /* false */

enum layout { LAYOUT_FLAT, LAYOUT_NESTED, LAYOUT_BASE64, LAYOUT_ANY };

/* Reads {"dtype", "shape", "data" or "base64"}. The layout must be as given, except that strings
 * may always be base64, which those that are not UTF-8 are. */
bool values_of_tree(const struct tree *tree, enum layout layout, struct td_arena *arena,
                    struct values *out, struct why *why);

/* Reads dims as of a shape. */
bool shape_of_tree(const struct tree *tree, struct td_shape *out, struct why *why);

/* out->dtype and out->shape are set. Numbers are those of the Open Inference Protocol: NaN without
 * quotes, complex numbers as two. */
bool values_of_numbers(const struct tree *data, struct td_arena *arena, struct values *out,
                       struct why *why);

/* Little-endian bytes; out->dtype and out->shape are set. */
bool values_of_bytes(struct text bytes, struct td_arena *arena, struct values *out,
                     struct why *why);
void values_write(FILE *file, const struct values *values);

/* Compares dtype, shape and values; NaN equals NaN. */
struct tolerance {
    double rtol, atol; /* both 0: equal */
};
bool values_equal(const struct values *got, const struct values *want, struct tolerance tolerance,
                  struct why *why);

void base64_write(FILE *file, struct text bytes);

#endif
