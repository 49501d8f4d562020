/* siblings.h - finds a common dtype for plain values among the inputs of a JSON request that must
 * have the same dtype (td_input_spec.one_dtype). Only inputs with the same role are siblings: keys
 * and queries, but not keys and data.
 *
 * A plain value gets the dtype of the first typed tensor in the body. Plain values before that
 * tensor are skipped and read later. If no tensor is typed, all plain values get the dtype that a
 * single list of their elements would have: float32 if any number has a fraction, otherwise the
 * narrowest integer dtype that holds all elements (for keys, int64 or uint64).
 *
 * Ownership  As in decode.h.
 * Errors     MALFORMED_REQUEST for a value that does not fit the dtype. */
#ifndef TD_API_JSON_SIBLINGS_H
#define TD_API_JSON_SIBLINGS_H

#include "api/json/tensor.h"

struct td_json_sibling;

struct td_json_siblings {
    struct td_json_sibling_dtype {
        bool known;    /* true if `dtype` is the dtype of a typed tensor */
        bool resident; /* true if that tensor is resident */
        td_dtype dtype;
        const char *name; /* name of the tensor, for error messages */
    } of[TD_ROLE_COUNT];
    struct td_json_sibling *untyped; /* skipped values; in the arena */
    int count, capacity;
};

/* Initializes `siblings`. If the path names an input with one_dtype, its siblings get the dtype of
 * that input. */
void td_json_siblings_begin(struct td_json_siblings *siblings, const struct td_request *request);

/* Reads tensor `index` of an input at source->scan into *out. If the dtype is not known yet, skips
 * the tensor, and td_json_siblings_end sets it later. */
TD_MUST_CHECK td_status td_json_siblings_read(struct td_json_siblings *siblings,
                                              struct td_json_source *source,
                                              const struct td_request *request, int input,
                                              int index, const struct td_json_path *path,
                                              struct td_tensor *out);

/* Reads the skipped values into the request. */
TD_MUST_CHECK td_status td_json_siblings_end(struct td_json_siblings *siblings,
                                             struct td_json_source *source,
                                             struct td_request *request);

#endif
