/* tensor_io.h - one tensor as a document: the bodies of PUT and GET /v1/tensors/{name}.
 *
 *     format       reads                                    writes
 *     json         a tensor as in a request, also `ref`     a typed tensor, in any layout
 *     safetensors  a file of one tensor of any name         a file of one tensor named "tensor"
 *     npy          versions 1 to 3, either byte order,      version 1, C order
 *                  C or Fortran order
 *
 * Ownership  The data of a tensor that is read points into the body if it needs no conversion
 *            (*in_body), otherwise into the arena; that of a ref is owned by the resolver. A reply
 *            points to the data of the tensor.
 * Errors     MALFORMED_REQUEST, RESOURCE_LIMIT, TENSOR_NOT_FOUND (ref); NOT_ACCEPTABLE if the
 *            format lacks the dtype (safetensors: string, complex128; npy: string, bfloat16). */
#ifndef TD_API_TENSOR_IO_H
#define TD_API_TENSOR_IO_H

#include "api/message/message.h"

/* The format of a body, by Content-Type: as td_codec_request_format, and application/x-npy (also
 * application/npy). */
TD_MUST_CHECK td_status td_tensor_io_body_format(const char *content_type, td_format *out,
                                                 struct td_error *err);

/* The format of a body whose Content-Type does not state it: safetensors or npy if it begins as
 * such a file, otherwise JSON. No JSON document begins like that: in a safetensors file the bytes 4
 * to 7 are 0, since they are the upper half of the size of its header. */
td_format td_tensor_io_recognise(const char *body, size_t bytes);

/* The format of a reply, by Accept: safetensors, npy or JSON, which is the default and the format
 * of a wildcard. NOT_ACCEPTABLE names all three. */
TD_MUST_CHECK td_status td_tensor_io_reply_format(const char *accept, td_format *out,
                                                  struct td_error *err);

/* TD_JSON_PADDING readable bytes must follow the body. Every index and size in it is checked. The
 * role decides on the dtype of JSON values that have none. */
TD_MUST_CHECK td_status td_tensor_read(td_format format, td_role role, const char *body,
                                       size_t bytes, struct td_resolver *resolver,
                                       struct td_arena *arena, struct td_tensor *out, bool *in_body,
                                       struct td_error *err);

/* A table: a tensor, perhaps with keys for its rows. */
struct td_table_document {
    struct td_tensor rows;
    struct td_tensor keys; /* if has_keys */
    bool has_keys;
    bool in_body; /* rows, and keys unless they are strings */
};

/* As td_tensor_read; with keys the document is, in JSON, {"tensor": T, "keys": T}, as safetensors a
 * tensor of any name beside "keys", or beside "keys.offsets" (int64) and "keys.bytes" (uint8);
 * these names may also be "NAME.keys", ... for the tensor "NAME", as in a file of the data
 * folder. */
TD_MUST_CHECK td_status td_table_read(td_format format, const char *body, size_t bytes,
                                      struct td_resolver *resolver, struct td_arena *arena,
                                      struct td_table_document *out, struct td_error *err);

/* Upper bound of what td_tensor_write allocates. False on overflow. */
bool td_tensor_write_bound(td_format format, td_layout layout, const struct td_tensor *tensor,
                           size_t *bytes);

/* A reply with status 200, the document and its Content-Type. Data of numbers, unless it is small,
 * is a chunk of its own and not copied. JSON is {"dtype","shape","data"} (or "base64"), which PUT
 * accepts. */
TD_MUST_CHECK td_status td_tensor_write(td_format format, td_layout layout,
                                        const struct td_tensor *tensor, struct td_arena *arena,
                                        struct td_reply *reply, struct td_error *err);

#endif
