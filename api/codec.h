/* codec.h - selects the decoder from Content-Type and the encoder from Accept. */
#ifndef TD_API_CODEC_H
#define TD_API_CODEC_H

#include "api/json/decode.h"
#include "api/message/message.h"

/* Finds the format of a body from its Content-Type, which can be NULL. JSON is application/json, a
 * missing Content-Type and the default type of curl -d. safetensors is application/vnd.safetensors
 * and application/octet-stream. Other types are UNSUPPORTED_MEDIA_TYPE. Parameters are ignored,
 * except that JSON with a charset other than UTF-8 is an error. The body of an op can also be .npy:
 * td_tensor_io_body_format. */
TD_MUST_CHECK td_status td_codec_request_format(const char *content_type, td_format *out,
                                                struct td_error *err);

/* Finds the format of the reply from the q-values of the Accept header, which can be NULL. Among
 * formats with the same q-value, prefers the request's format. The NOT_ACCEPTABLE error names all
 * formats. */
TD_MUST_CHECK td_status td_codec_reply_format(const char *accept, td_format request_format,
                                              td_format *out, struct td_error *err);

/* Decodes a body into `request`, for which the caller has called td_request_init, applied the query
 * parameters and set the input that the path names. A .npy body is the first input that the path
 * does not give. */
TD_MUST_CHECK td_status td_codec_decode(td_format format, const char *body, size_t bytes,
                                        struct td_resolver *resolver, struct td_arena *arena,
                                        struct td_request *request, struct td_error *err);

/* Adds a hint about what the client might have meant to the error with which the op refused a
 * decoded request. */
void td_codec_hint(td_format format, const struct td_request *request, struct td_error *err);

/* td_oip_decode, which needs more arguments, decodes requests of the Open Inference Protocol. The
 * functions below also encode replies of this protocol. */

/* Checks that the outputs can be encoded. Reads only their number and their dtypes, so a call can
 * be rejected after infer and before it is computed. Returns NOT_ACCEPTABLE if the format does not
 * support a dtype, or if it is .npy and there is not exactly one output. */
TD_MUST_CHECK td_status td_codec_can_encode(td_format format, const struct td_request *request,
                                            struct td_error *err);

/* Checks that the outputs can be encoded. If they cannot, changes *format to another format that
 * Accept allows, preferably JSON. The NOT_ACCEPTABLE error names the formats that can hold these
 * outputs. */
TD_MUST_CHECK td_status td_codec_choose_reply(const char *accept, const struct td_request *request,
                                              td_format *format, struct td_error *err);

/* Computes an upper bound for the memory that td_codec_encode allocates. Returns false on
 * overflow. */
bool td_codec_encoded_bound(td_format format, const struct td_request *request, size_t *bytes);

TD_MUST_CHECK td_status td_codec_encode(td_format format, const struct td_request *request,
                                        struct td_arena *arena, struct td_reply *reply,
                                        struct td_error *err);

#endif
