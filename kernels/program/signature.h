/* signature.h - the declared shapes of a program's inputs, and the dtypes and shapes of its results
 * that follow from them.
 *
 * A letter stands for a size that a call chooses. The shapes of results are found by describing the
 * program twice, with different sizes for all letters: a size that is the same both times is a
 * number, and a size that equals the size of a letter both times is that letter. Other sizes, such
 * as the sum of two letters, stay unknown, and so do sizes that depend on an argument or on data.
 * For integer arguments without a default, a few values are tried to find dtypes and ranks.
 *
 * Threads    Reentrant.
 * Errors     td_program_check_shapes: SHAPE_MISMATCH. td_program_results: the error of a step that
 *            fails for all sizes of the letters. */
#ifndef TD_KERNELS_PROGRAM_SIGNATURE_H
#define TD_KERNELS_PROGRAM_SIGNATURE_H

#include "kernels/program/program.h"

#define TD_PROGRAM_LETTERS 16 /* maximum number of letters */

/* Writes a declared shape, such as "[n,64]", and cuts it off at `size`. Returns `text`. */
enum { TD_PROGRAM_SHAPE_TEXT = 256 };
const char *td_program_shape_text(const struct td_program_shape *shape, const char *const *letters,
                                  char *text, size_t size);

/* Checks that the inputs of a call have their declared shapes. */
TD_MUST_CHECK td_status td_program_check_shapes(const struct td_program *program,
                                                const struct td_op_args *args,
                                                struct td_error *err);

/* What is known of a value before any data exist. */
struct td_program_result {
    bool has_dtype;
    td_dtype dtype;
    struct td_program_shape shape;
};

/* Finds the dtypes and shapes of all values of a program. The shapes of the inputs are declared,
 * and each input has one dtype. `out` has n_values elements. */
TD_MUST_CHECK td_status td_program_results(const struct td_program *program, struct td_arena *arena,
                                           struct td_program_result *out, struct td_error *err);

#endif
