/* array.h - the numbers, truth values and strings of a tensor, from nested lists or flat ones.
 *
 * One pass: parse_scalars.h reads the innermost lists, this file what is around them: the nesting,
 * the shape, and the dtype where none is given.
 *
 * Bounds     Lists nest at most TD_MAX_RANK deep; deeper is RESOURCE_LIMIT (rank), and costs no
 *            more than reading that far. Memory is asked for once, sized by the text, whatever a
 *            shape claims: for each number at most 16 bytes, twice where a list has to be widened.
 * Ownership  Tensors are allocated from the arena.
 * Errors     As scan.h. The pointer leads to the element or list at fault.
 */
#ifndef TD_API_JSON_ARRAY_H
#define TD_API_JSON_ARRAY_H

#include "api/json/scan.h"
#include "kernels/op.h"
#include "kernels/tensor.h"

/* TD_JSON_SCALARS_SLACK bytes behind scan->end may be read (their values do not matter). */

/* A value with its dtype to be inferred: bool; int32, else int64, else uint64; float32 when any
 * number has a fraction or exponent; string. `untyped` says what a list without elements is, and the
 * first of the integers. */
TD_MUST_CHECK td_status td_json_read_untyped(struct td_json_scan *scan, struct td_untyped untyped,
                                             const struct td_json_path *path,
                                             struct td_arena *arena, struct td_tensor *out,
                                             struct td_error *err);

/* A value of a given dtype, nested as `shape` says, or flat in row-major order; a scalar may stand
 * in a list of one. shape NULL: as it is nested. */
TD_MUST_CHECK td_status td_json_read_typed(struct td_json_scan *scan, td_dtype dtype,
                                           const struct td_shape *shape,
                                           const struct td_json_path *path, struct td_arena *arena,
                                           struct td_tensor *out, struct td_error *err);

/* The same with elements spelled as in the Open Inference Protocol (TD_SCALARS_OIP). dtype has a
 * name there. */
TD_MUST_CHECK td_status td_json_read_oip(struct td_json_scan *scan, td_dtype dtype,
                                         const struct td_shape *shape,
                                         const struct td_json_path *path, struct td_arena *arena,
                                         struct td_tensor *out, struct td_error *err);

#endif
