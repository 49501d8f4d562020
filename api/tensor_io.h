/* tensor_io.h - reads and writes one tensor as a document: the bodies of PUT and GET
 * /v1/tensors/{name}.
 *
 *     format       reads                                    writes
 *     json         a tensor as in a request, also `ref`     a typed tensor, in any layout
 *     safetensors  a file of one tensor of any name         a file of one tensor named "tensor"
 *     npy          versions 1 to 3, either byte order,      version 1, C order
 *                  C or Fortran order
 *
 * Ownership  If a tensor that is read needs no conversion (*in_body), its data points into the
 *            body, otherwise into the arena. The resolver owns the data of a ref. A reply points to
 *            the data of the tensor.
 * Errors     MALFORMED_REQUEST, RESOURCE_LIMIT, TENSOR_NOT_FOUND (ref); NOT_ACCEPTABLE if the
 *            format does not have the dtype (safetensors: string, complex128; npy: string,
 * bfloat16). */
#ifndef TD_API_TENSOR_IO_H
#define TD_API_TENSOR_IO_H

#include "api/message/message.h"

/* Finds the format of a body from its Content-Type, like td_codec_request_format, and also accepts
 * application/x-npy and application/npy. */
TD_MUST_CHECK td_status td_tensor_io_body_format(const char *content_type, td_format *out,
                                                 struct td_error *err);

/* Finds the format of a body whose Content-Type does not state it: safetensors or npy if the body
 * starts like such a file, otherwise JSON. No JSON document starts like a safetensors file, in
 * which bytes 4 to 7 are 0 because they are the upper half of the header size. */
td_format td_tensor_io_recognise(const char *body, size_t bytes);

/* Finds the format of a reply from Accept: safetensors, npy or JSON. JSON is the default, even for
 * a wildcard. The NOT_ACCEPTABLE error names all three. */
TD_MUST_CHECK td_status td_tensor_io_reply_format(const char *accept, td_format *out,
                                                  struct td_error *err);

/* Reads a tensor and checks every index and size in the body. At least TD_JSON_PADDING readable
 * bytes must follow the body. `role` determines the dtype of JSON values without a dtype. */
TD_MUST_CHECK td_status td_tensor_read(td_format format, td_role role, const char *body,
                                       size_t bytes, struct td_resolver *resolver,
                                       struct td_arena *arena, struct td_tensor *out, bool *in_body,
                                       struct td_error *err);

/* A table: a tensor, with optional keys for its rows. */
struct td_table_document {
    struct td_tensor rows;
    struct td_tensor keys; /* if has_keys */
    bool has_keys;
    /* True if the rows point into the body, and so do the keys unless they are strings. */
    bool in_body;
};

/* Reads a table like td_tensor_read. A JSON document with keys is {"tensor": T, "keys": T}. A
 * safetensors file has one tensor, with any name, and either "keys" or the pair "keys.offsets"
 * (int64) and "keys.bytes" (uint8). For the tensor "NAME", these entries can also be called
 * "NAME.keys", ..., as in a file in the data folder. */
TD_MUST_CHECK td_status td_table_read(td_format format, const char *body, size_t bytes,
                                      struct td_resolver *resolver, struct td_arena *arena,
                                      struct td_table_document *out, struct td_error *err);

/* Computes an upper bound for the memory that td_tensor_write allocates. Returns false on
 * overflow. */
bool td_tensor_write_bound(td_format format, td_layout layout, const struct td_tensor *tensor,
                           size_t *bytes);

/* Builds a reply with status 200, the document and its Content-Type. Numeric data becomes a
 * separate chunk and is not copied, unless it is small. A JSON document is {"dtype","shape","data"}
 * (or "base64"), which PUT accepts. */
TD_MUST_CHECK td_status td_tensor_write(td_format format, td_layout layout,
                                        const struct td_tensor *tensor, struct td_arena *arena,
                                        struct td_reply *reply, struct td_error *err);

#endif
