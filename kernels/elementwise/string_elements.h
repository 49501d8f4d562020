/* string_elements.h - the elementwise ops on strings: equal, not_equal and where.
 *
 * Shapes     As in elementwise.h.
 * Ownership  Borrows the inputs. `where` allocates the bytes of the output in exec->arena.
 * Threads    Reentrant. Splits the elements through exec.
 * Errors     Those of td_strings_run. */
#ifndef TD_KERNELS_ELEMENTWISE_STRING_ELEMENTS_H
#define TD_KERNELS_ELEMENTWISE_STRING_ELEMENTS_H

#include "kernels/op.h"

/* Sets out[i] to true if x[i] and y[i] are equal, or, with `equal` false, if they differ. */
TD_MUST_CHECK td_status td_strings_compare(const struct td_tensor *x, const struct td_tensor *y,
                                           bool equal, struct td_tensor *out, struct td_exec *exec,
                                           struct td_error *err);

/* Sets out[i] to x[i] where the condition is true, and to y[i] elsewhere. */
TD_MUST_CHECK td_status td_strings_where(const struct td_tensor *condition,
                                         const struct td_tensor *x, const struct td_tensor *y,
                                         struct td_tensor *out, struct td_exec *exec,
                                         struct td_error *err);

#endif
