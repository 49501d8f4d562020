/* tensor.h - reads one tensor of a JSON document in any form that a request can use: a nested list
 * or a scalar, {"dtype", "shape", "data"}, {"dtype", "shape", "base64"}, {"ref"}.
 *
 * Bounds     Reads up to TD_JSON_PADDING bytes after the text.
 * Ownership  Tensors are in the arena. The resolver owns the data of a ref, to which the arena
 *            holds a reference.
 * Errors     As in decode.h. */
#ifndef TD_API_JSON_TENSOR_H
#define TD_API_JSON_TENSOR_H

#include "api/json/infer_dtype.h"
#include "api/json/scan.h"
#include "api/message/message.h"

#define TD_JSON_PADDING 64 /* number of readable bytes that must follow the text */

/* A JSON text and everything that is needed to read tensors from it. */
struct td_json_source {
    struct td_json_scan scan;
    struct td_resolver *resolver; /* NULL if there are no resident tensors */
    struct td_arena *arena;
    struct td_error *err;
    /* For hints about unknown members. or_keys: true if {"keys"} can be given instead of the
     * tensor. of_keys: true if the tensor holds keys. */
    bool or_keys, of_keys;
    bool is_plan;            /* true if a tensor can be a dtype and a shape without data */
    bool has_complex_base64; /* true if a complex tensor was given as base64 */
};

/* Reads the tensor at source->scan. An untyped value gets dtype *as or, if `as` is NULL, the dtype
 * that `untyped` infers. untyped.others applies to all forms of the tensor. */
TD_MUST_CHECK td_status td_json_tensor(struct td_json_source *source, const td_dtype *as,
                                       struct td_untyped untyped, const struct td_json_path *path,
                                       struct td_tensor *out);

#endif
