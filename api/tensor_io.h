/* tensor_io.h - one tensor as a document: what PUT /v1/tensors/{name} brings and GET takes away.
 *
 *     format          reads                                       writes
 *     json            a tensor as in a request, `ref` included    its typed form, in any layout
 *     safetensors     a file of one tensor, whatever its name     the same, the tensor named "tensor"
 *     npy             versions 1 to 3, either byte order,         version 1, C order
 *                     C or Fortran order
 *
 * Ownership  A tensor that is read points into the body where its bytes stand there as they are
 *            wanted, else into the arena: *in_body tells. That of a ref is the resolver's, with its
 *            owner. What is written points to the tensor.
 * Errors     MALFORMED_REQUEST, RESOURCE_LIMIT, TENSOR_NOT_FOUND (ref); NOT_ACCEPTABLE where the
 *            format lacks the dtype (safetensors: string, complex128; npy: string, bfloat16). */
#ifndef TD_API_TENSOR_IO_H
#define TD_API_TENSOR_IO_H

#include "api/message/message.h"

/* By Content-Type: as td_codec_request_format, and application/x-npy (also application/npy). */
TD_MUST_CHECK td_status td_tensor_io_body_format(const char *content_type, td_format *out,
                                                 struct td_error *err);

/* By Accept: safetensors, npy, or JSON, which is what no header and a star mean. NOT_ACCEPTABLE
 * names all three. */
TD_MUST_CHECK td_status td_tensor_io_reply_format(const char *accept, td_format *out,
                                                  struct td_error *err);

/* TD_JSON_PADDING readable bytes follow the body. Every index and size in it is checked. */
TD_MUST_CHECK td_status td_tensor_read(td_format format, const char *body, size_t bytes,
                                       struct td_resolver *resolver, struct td_arena *arena,
                                       struct td_tensor *out, bool *in_body, struct td_error *err);

/* Upper bound of what td_tensor_write allocates. False on overflow. */
bool td_tensor_write_bound(td_format format, td_layout layout, const struct td_tensor *tensor,
                           size_t *bytes);

/* The whole document as a 200 with its Content-Type; data of numbers, where it is not small, is a
 * piece of its own and not a copy. JSON is {"dtype","shape","data"} (or "base64"), what PUT takes. */
TD_MUST_CHECK td_status td_tensor_write(td_format format, td_layout layout,
                                        const struct td_tensor *tensor, struct td_arena *arena,
                                        struct td_reply *reply, struct td_error *err);

#endif
