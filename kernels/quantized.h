/* quantized.h - the inputs that give the values of int8 and uint8 rows: an input scale with an
 * input offset or zero_point, or, with the layout byte_rowwise, the end of each row.
 *
 *     x * scale + offset, or (x - zero_point) * scale
 *
 * Errors     INVALID_ARGUMENT: inputs that exclude each other. UNSUPPORTED_DTYPE: integers without
 *            scale. SHAPE_MISMATCH: the length of scale, offset or zero_point; rows that are too
 *            short for the layout.
 * Threads    Reentrant. */
#ifndef TD_KERNELS_QUANTIZED_H
#define TD_KERNELS_QUANTIZED_H

#include "kernels/tensor.h"

#include <stdbool.h>

typedef enum td_row_layout {
    TD_ROW_LAYOUT_PLAIN,       /* scale and offset are inputs */
    TD_ROW_LAYOUT_BYTE_ROWWISE /* scale and offset are the last TD_ROW_TRAILER bytes of each row */
} td_row_layout;

extern const char *const td_row_layout_names[]; /* "plain", "byte_rowwise", NULL */

#define TD_ROW_TRAILER 8 /* bytes: two float32 */

/* The tensors of a call. NULL: not given. */
struct td_quantized {
    const struct td_tensor *params, *scale, *offset, *zero_point;
    td_row_layout layout;
};

/* True if the dtype is int8 or uint8. */
bool td_is_quantized(td_dtype dtype);

/* Checks the tensors against each other. The names in errors are the names of the members. */
TD_MUST_CHECK td_status td_quantized_check(const struct td_quantized *rows, struct td_error *err);

#endif
