/* safetensors.h - the binary form: an 8-byte little-endian header length, a JSON header, the data.
 *
 * As a request, tensor names are the op's input names (lists: "indices.0", "indices.1", ...) and
 * __metadata__ holds attributes as text. As a file in the data folder, every entry is a table.
 *
 * Bounds     The header must fit the body, each range its tensor's size; ranges must not overlap,
 *            and together cover the data. Anything else is MALFORMED_REQUEST that says what and
 *            where. Bytes behind the end are not read.
 * Ownership  Tensors point into the body, aligned or not.
 * Cost       A header of 128 bytes takes about 0.4 us.
 * Source     The safetensors format description (Hugging Face), "Format".
 */
#ifndef TD_API_FILES_SAFETENSORS_H
#define TD_API_FILES_SAFETENSORS_H

#include "api/message/message.h"

/* An entry of a header. */
struct td_safetensors_entry {
    const char *name;        /* NUL-terminated, in the arena */
    struct td_tensor tensor; /* data points into the file */
};

/* An entry of __metadata__; both NUL-terminated, in the arena. */
struct td_safetensors_metadata {
    const char *key, *value;
};

struct td_safetensors {
    struct td_safetensors_entry *entries;
    int n_entries;
    struct td_safetensors_metadata *metadata; /* __metadata__ */
    int n_metadata;
};

/* Reads and checks the header of a whole file in memory. bytes[0..size) stays borrowed. */
TD_MUST_CHECK td_status td_safetensors_open(const void *bytes, size_t size, struct td_arena *arena,
                                            struct td_safetensors *out, struct td_error *err);

/* Fills request (begun by td_request_init, query parameters already applied) from the body. A
 * metadata entry "params.ref" names a resident tensor as that input. */
TD_MUST_CHECK td_status td_safetensors_decode(const char *body, size_t bytes,
                                              struct td_resolver *resolver, struct td_arena *arena,
                                              struct td_request *request, struct td_error *err);

/* NOT_ACCEPTABLE where an output's dtype is one that the format lacks; needs no data. */
TD_MUST_CHECK td_status td_safetensors_can_encode(const struct td_request *request,
                                                  struct td_error *err);

/* Upper bound of what encoding allocates: the header and the outputs that are copied behind it.
 * False on overflow. */
bool td_safetensors_encoded_bound(const struct td_request *request, size_t *bytes);

/* Writes the results: "output" or "outputs.0", ...; a bounds policy that replaced something is in
 * __metadata__ as bounds.policy and bounds.replaced. NOT_ACCEPTABLE as td_safetensors_can_encode.
 * Large outputs are chunks of their own, not copied. */
TD_MUST_CHECK td_status td_safetensors_encode(const struct td_request *request,
                                              struct td_arena *arena, struct td_reply *reply,
                                              struct td_error *err);

/* A file of one tensor, named "tensor". As td_raw_reply; NOT_ACCEPTABLE as above. */
TD_MUST_CHECK td_status td_safetensors_encode_tensor(const struct td_tensor *tensor,
                                                     struct td_arena *arena, struct td_reply *reply,
                                                     struct td_error *err);

#endif
