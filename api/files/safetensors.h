/* safetensors.h - reads and writes safetensors files: an 8-byte little-endian header length, a JSON
 * header and the data.
 *
 * In a request, tensors have the names of the op's inputs ("indices.0", "indices.1", ... for
 * lists), and __metadata__ contains attributes as text. In a file in the data folder, every entry
 * is a table.
 *
 * Bounds     The header must fit in the body. Each range must have the size of its tensor. The
 *            ranges must cover the data without overlaps. Violations are MALFORMED_REQUEST errors
 *            that describe the fault and its place. Bytes after the end are not read. A tensor is
 *            unreadable if tensord does not support its dtype, if it has too many dimensions, or if
 *            it is bool and has bytes other than 0 and 1.
 * Ownership  Tensors point into the body and can be unaligned.
 * Cost       A header of 128 bytes takes about 0.4 us.
 * Source     The safetensors format description (Hugging Face), "Format". */
#ifndef TD_API_FILES_SAFETENSORS_H
#define TD_API_FILES_SAFETENSORS_H

#include "api/message/message.h"

/* A tensor in a file. */
struct td_safetensors_entry {
    const char *name; /* NUL-terminated, in the arena */
    /* The data points into the file. If the tensor is unreadable, all members are zero. */
    struct td_tensor tensor;
    /* Reason why the tensor is unreadable, in the arena. NULL if the tensor is readable. */
    const char *unreadable;
};

/* An entry of __metadata__. Both strings are NUL-terminated, in the arena. */
struct td_safetensors_metadata {
    const char *key, *value;
};

struct td_safetensors {
    struct td_safetensors_entry *entries;
    int n_entries;
    struct td_safetensors_metadata *metadata; /* __metadata__ */
    int n_metadata;
    const char *data; /* start of the data section */
};

/* True if the bytes start like a safetensors file: a header length below 4 GiB, then the header. */
bool td_safetensors_is(const void *bytes, size_t size);

/* Reads and checks the header of a file that is completely in memory. The tensors borrow
 * bytes[0..size). Returns MALFORMED_REQUEST if a tensor is unreadable. */
TD_MUST_CHECK td_status td_safetensors_open(const void *bytes, size_t size, struct td_arena *arena,
                                            struct td_safetensors *out, struct td_error *err);

/* Like td_safetensors_open, but marks unreadable tensors instead of failing, so callers can use the
 * other tensors. */
TD_MUST_CHECK td_status td_safetensors_open_partly(const void *bytes, size_t size,
                                                   struct td_arena *arena,
                                                   struct td_safetensors *out,
                                                   struct td_error *err);

/* Decodes the body into `request`, for which the caller has called td_request_init and applied the
 * query parameters. A metadata entry "params.ref" names a resident tensor to use as the input
 * "params". */
TD_MUST_CHECK td_status td_safetensors_decode(const char *body, size_t bytes,
                                              struct td_resolver *resolver, struct td_arena *arena,
                                              struct td_request *request, struct td_error *err);

/* Returns NOT_ACCEPTABLE if safetensors does not support the dtype of an output. Can be called
 * before the outputs are computed. */
TD_MUST_CHECK td_status td_safetensors_can_encode(const struct td_request *request,
                                                  struct td_error *err);

/* Computes an upper bound for the memory that encoding allocates for the header and for the outputs
 * that are copied after it. Returns false on overflow. */
bool td_safetensors_encoded_bound(const struct td_request *request, size_t *bytes);

/* Encodes the outputs as "output", as "outputs.0", ... for a list, or by their own names if the op
 * has several outputs. If a bounds policy replaced indices, __metadata__ has bounds.policy and
 * bounds.replaced. Returns NOT_ACCEPTABLE like td_safetensors_can_encode. Large outputs become
 * separate chunks and are not copied. */
TD_MUST_CHECK td_status td_safetensors_encode(const struct td_request *request,
                                              struct td_arena *arena, struct td_reply *reply,
                                              struct td_error *err);

/* Builds a reply like td_raw_reply: a file with one tensor, named "tensor". Returns NOT_ACCEPTABLE
 * if safetensors does not support the dtype. */
TD_MUST_CHECK td_status td_safetensors_encode_tensor(const struct td_tensor *tensor,
                                                     struct td_arena *arena, struct td_reply *reply,
                                                     struct td_error *err);

#endif
