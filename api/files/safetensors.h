/* safetensors.h - reads and writes safetensors: an 8-byte little-endian header length, a JSON
 * header, the data.
 *
 * In a request, tensors have the names of the op's inputs ("indices.0", "indices.1", ... for
 * lists), and __metadata__ has attributes as text. In a file of the data folder every entry is a
 * table.
 *
 * Bounds     The header must fit the body, and each range must have the size of its tensor. The
 *            ranges must not overlap and must cover the data. Violations are MALFORMED_REQUEST,
 *            with a description and the place. Bytes after the end are not read. A tensor is
 *            unreadable if tensord lacks its dtype, if it has too many dimensions, or if it is bool
 *            with bytes other than 0 and 1.
 * Ownership  Tensors point into the body and can be unaligned.
 * Cost       A header of 128 bytes takes about 0.4 us.
 * Source     The safetensors format description (Hugging Face), "Format". */
#ifndef TD_API_FILES_SAFETENSORS_H
#define TD_API_FILES_SAFETENSORS_H

#include "api/message/message.h"

/* A tensor of a file. */
struct td_safetensors_entry {
    const char *name;        /* NUL-terminated, in the arena */
    struct td_tensor tensor; /* data points into the file; all zero if the tensor is unreadable */
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

/* True if the bytes start like a safetensors file: the length of a header of less than 4 GiB, then
 * the header. */
bool td_safetensors_is(const void *bytes, size_t size);

/* Reads and checks the header of a complete file in memory. The tensors borrow bytes[0..size). An
 * unreadable tensor is MALFORMED_REQUEST. */
TD_MUST_CHECK td_status td_safetensors_open(const void *bytes, size_t size, struct td_arena *arena,
                                            struct td_safetensors *out, struct td_error *err);

/* Same as td_safetensors_open, but marks the entries of unreadable tensors instead of failing, for
 * callers that use the readable ones. */
TD_MUST_CHECK td_status td_safetensors_open_partly(const void *bytes, size_t size,
                                                   struct td_arena *arena,
                                                   struct td_safetensors *out,
                                                   struct td_error *err);

/* Decodes the body into `request`. The caller has already called td_request_init and applied the
 * query parameters. A metadata entry "params.ref" is the name of a resident tensor for the input
 * "params". */
TD_MUST_CHECK td_status td_safetensors_decode(const char *body, size_t bytes,
                                              struct td_resolver *resolver, struct td_arena *arena,
                                              struct td_request *request, struct td_error *err);

/* Returns NOT_ACCEPTABLE if safetensors lacks the dtype of an output. The outputs do not have to be
 * computed yet. */
TD_MUST_CHECK td_status td_safetensors_can_encode(const struct td_request *request,
                                                  struct td_error *err);

/* Computes an upper bound of the memory that encoding allocates: the header, and the outputs that
 * are copied after it. Returns false on overflow. */
bool td_safetensors_encoded_bound(const struct td_request *request, size_t *bytes);

/* Encodes the outputs as "output", as "outputs.0", ... for a list, or by their own names if the op
 * has several outputs. If a bounds policy replaced indices, __metadata__ has bounds.policy and
 * bounds.replaced. Returns NOT_ACCEPTABLE like td_safetensors_can_encode. Large outputs become
 * their own chunks and are not copied. */
TD_MUST_CHECK td_status td_safetensors_encode(const struct td_request *request,
                                              struct td_arena *arena, struct td_reply *reply,
                                              struct td_error *err);

/* Makes a reply with a file of one tensor, named "tensor", like td_raw_reply. Returns
 * NOT_ACCEPTABLE if safetensors lacks the dtype. */
TD_MUST_CHECK td_status td_safetensors_encode_tensor(const struct td_tensor *tensor,
                                                     struct td_arena *arena, struct td_reply *reply,
                                                     struct td_error *err);

#endif
