/* tensor.h - reads one tensor of a JSON document, in any form that a request may use: a nested list
 * or a scalar, {"dtype", "shape", "data"}, {"dtype", "shape", "base64"}, {"ref"}.
 *
 * Bounds     TD_JSON_PADDING bytes after the text may be read.
 * Ownership  Tensors are in the arena. The data of a ref is owned by the resolver, and the arena
 *            has a reference to it.
 * Errors     As decode.h. */
#ifndef TD_API_JSON_TENSOR_H
#define TD_API_JSON_TENSOR_H

#include "api/json/scan.h"
#include "api/message/message.h"

#define TD_JSON_PADDING 64 /* readable bytes that must follow the text */

/* A text, and what is needed to read tensors from it. */
struct td_json_source {
    struct td_json_scan scan;
    struct td_resolver *resolver; /* NULL: there are no resident tensors */
    struct td_arena *arena;
    struct td_error *err;
    /* For errors of unknown members: {"keys"} may stand in place of the tensor; the tensor has
     * keys. */
    bool or_keys, of_keys;
    bool has_complex_base64; /* a complex tensor was given as base64 */
};

/* Reads the tensor at source->scan. An untyped value has dtype `as`; if `as` is NULL its dtype is
 * inferred, with `untyped` for what the values leave open. untyped.others counts for all forms. */
TD_MUST_CHECK td_status td_json_tensor(struct td_json_source *source, const td_dtype *as,
                                       struct td_untyped untyped, const struct td_json_path *path,
                                       struct td_tensor *out);

#endif
