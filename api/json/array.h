/* array.h - reads the data of a tensor: nested or flat JSON lists of numbers, booleans or strings.
 *
 * The text is read in one pass. parse_scalars.h reads the innermost lists; this file handles
 * nesting, the shape and the inferred dtype.
 *
 * Bounds     Lists nest at most TD_MAX_RANK deep. Deeper nesting is RESOURCE_LIMIT (rank), reported
 *            without reading further. Memory is allocated once. Its size depends on the text, not
 *            on a given shape: at most 16 bytes per number, or twice that if inferred integers must
 *            be widened.
 * Ownership  Tensors are allocated from the arena.
 * Errors     As in scan.h. The JSON Pointer names the element or list in error. */
#ifndef TD_API_JSON_ARRAY_H
#define TD_API_JSON_ARRAY_H

#include "api/json/infer_dtype.h"
#include "api/json/scan.h"
#include "kernels/op.h"
#include "kernels/tensor.h"

/* Start of the error message for a list whose length differs from the length of earlier lists. */
#define TD_JSON_RAGGED "a list of length "

/* The functions in this header can read up to TD_JSON_SCALARS_SLACK bytes after scan->end, whatever
 * those bytes contain. */

/* Reads a value and infers its dtype: bool, string, the first of int32, int64 and uint64 that holds
 * all integers, or float32 if any number has a fraction or an exponent. `untyped` (infer_dtype.h)
 * gives the dtype of an empty list and the first integer dtype to try. It also says whether a
 * fraction is an UNSUPPORTED_DTYPE error and which dtypes error messages suggest. */
TD_MUST_CHECK td_status td_json_read_untyped(struct td_json_scan *scan, struct td_untyped untyped,
                                             const struct td_json_path *path,
                                             struct td_arena *arena, struct td_tensor *out,
                                             struct td_error *err);

/* Reads a value of a given dtype, nested as in `shape` or flat in row-major order. A tensor of rank
 * 0 can also be a list of one element. If `shape` is NULL, the nesting of the lists determines the
 * shape. `others` is the set of dtypes that error messages suggest instead. */
TD_MUST_CHECK td_status td_json_read_typed(struct td_json_scan *scan, td_dtype dtype,
                                           td_dtype_set others, const struct td_shape *shape,
                                           const struct td_json_path *path, struct td_arena *arena,
                                           struct td_tensor *out, struct td_error *err);

/* Like td_json_read_typed, with elements written as in the Open Inference Protocol
 * (TD_SCALARS_OIP). The protocol must have a name for `dtype`. */
TD_MUST_CHECK td_status td_json_read_oip(struct td_json_scan *scan, td_dtype dtype,
                                         const struct td_shape *shape,
                                         const struct td_json_path *path, struct td_arena *arena,
                                         struct td_tensor *out, struct td_error *err);

#endif
