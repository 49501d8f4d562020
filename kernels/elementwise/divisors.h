/* divisors.h - checks the values of y in the integer ops floor_divide, floor_mod and power.
 *
 * Threads    Reentrant. Splits the elements through exec.
 * Errors     Of several faults, the first in row-major order is named, with its position in y. */
#ifndef TD_KERNELS_ELEMENTWISE_DIVISORS_H
#define TD_KERNELS_ELEMENTWISE_DIVISORS_H

#include "kernels/exec.h"
#include "kernels/tensor.h"

/* Returns DIVISION_BY_ZERO if an integer of y is 0. Accepts floats and complex numbers. `op` is the
 * name of the op. */
TD_MUST_CHECK td_status td_check_divisors(const struct td_tensor *y, const char *op,
                                          struct td_exec *exec, struct td_error *err);

/* Returns INVALID_ARGUMENT if an integer of y is negative. Accepts floats and complex numbers. */
TD_MUST_CHECK td_status td_check_exponents(const struct td_tensor *y, const char *op,
                                           struct td_exec *exec, struct td_error *err);

#endif
