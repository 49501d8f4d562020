/* array.h - the data of a tensor, from nested or flat JSON lists of numbers, booleans or strings.
 *
 * One pass over the text: parse_scalars.h reads the innermost lists; this file handles nesting,
 * shape, and the inferred dtype.
 *
 * Bounds     Lists nest at most TD_MAX_RANK deep; deeper is RESOURCE_LIMIT (rank), reported without
 *            reading further. Memory is allocated once, sized from the text and not from a given
 *            shape: at most 16 bytes per number, twice that if inferred integers must be widened.
 * Ownership  Tensors are allocated from the arena.
 * Errors     As scan.h. The pointer is the path of the element or list in error. */
#ifndef TD_API_JSON_ARRAY_H
#define TD_API_JSON_ARRAY_H

#include "api/json/scan.h"
#include "kernels/op.h"
#include "kernels/tensor.h"

/* How the error of a list begins that is longer or shorter than those before it. */
#define TD_JSON_RAGGED "a list of length "

/* All functions may read TD_JSON_SCALARS_SLACK bytes after scan->end; these bytes may have any
 * value. */

/* Reads a value and infers its dtype: bool; int32, else int64, else uint64; float32 if any number
 * has a fraction or exponent; string. `untyped` has the dtype of a list without elements, the one
 * to try first for integers, whether a fraction is UNSUPPORTED_DTYPE at its element, and the dtypes
 * that the client may give the values. */
TD_MUST_CHECK td_status td_json_read_untyped(struct td_json_scan *scan, struct td_untyped untyped,
                                             const struct td_json_path *path,
                                             struct td_arena *arena, struct td_tensor *out,
                                             struct td_error *err);

/* Reads a value of a given dtype, nested as `shape` or flat in row-major order. A tensor of rank 0
 * may be a list of one element. With shape NULL the shape is that of the nested lists. `others` has
 * the dtypes that the client may give the values instead, for the advice of errors. */
TD_MUST_CHECK td_status td_json_read_typed(struct td_json_scan *scan, td_dtype dtype,
                                           td_dtype_set others, const struct td_shape *shape,
                                           const struct td_json_path *path, struct td_arena *arena,
                                           struct td_tensor *out, struct td_error *err);

/* As td_json_read_typed, with elements as in the Open Inference Protocol (TD_SCALARS_OIP). The
 * protocol must have a name for dtype. */
TD_MUST_CHECK td_status td_json_read_oip(struct td_json_scan *scan, td_dtype dtype,
                                         const struct td_shape *shape,
                                         const struct td_json_path *path, struct td_arena *arena,
                                         struct td_tensor *out, struct td_error *err);

#endif
