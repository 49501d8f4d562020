/* siblings.h - tensors of a JSON request that have one dtype (td_input_spec.one_dtype), where
 * some say theirs and others are plain values.
 *
 * A plain value has the dtype of the first tensor that says one, wherever in the body that stands;
 * it is passed over until that is known. Where none says one, all are read as one list would be:
 * float32 where any has a fraction, else the narrowest integers that hold all.
 *
 * Ownership  As decode.h.
 * Errors     MALFORMED_REQUEST for a value that does not fit the dtype it takes. */
#ifndef TD_API_JSON_SIBLINGS_H
#define TD_API_JSON_SIBLINGS_H

#include "api/json/tensor.h"

struct td_json_sibling;

struct td_json_siblings {
    bool known; /* dtype is that of a tensor that says it */
    td_dtype dtype;
    struct td_json_sibling *untyped; /* in the arena */
    int count, room;
};

/* Takes the dtype of an input that the path gives, where it gives one. */
void td_json_siblings_begin(struct td_json_siblings *siblings, const struct td_request *request);

/* Reads tensor `index` of an input where source->scan stands, or passes over it: then *out is
 * filled by td_json_siblings_end. */
TD_MUST_CHECK td_status td_json_siblings_read(struct td_json_siblings *siblings,
                                              struct td_json_source *source,
                                              const struct td_request *request, int input,
                                              int index, const struct td_json_path *path,
                                              struct td_tensor *out);

/* Reads what was passed over. */
TD_MUST_CHECK td_status td_json_siblings_end(struct td_json_siblings *siblings,
                                             struct td_json_source *source,
                                             struct td_request *request);

#endif
