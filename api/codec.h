/* codec.h - selects the decoder from Content-Type and the encoder from Accept. */
#ifndef TD_API_CODEC_H
#define TD_API_CODEC_H

#include "api/json/decode.h"
#include "api/message/message.h"

/* Finds the format of a body from its Content-Type, which can be NULL. JSON is application/json, a
 * missing Content-Type and the default type of curl -d. safetensors is application/vnd.safetensors
 * and application/octet-stream. Other types are UNSUPPORTED_MEDIA_TYPE. Parameters are ignored,
 * except that JSON with a charset other than UTF-8 is an error. */
TD_MUST_CHECK td_status td_codec_request_format(const char *content_type, td_format *out,
                                                struct td_error *err);

/* Finds the format of the reply from the q-values of the Accept header, which can be NULL. Among
 * formats with the same q-value, prefers the request's format. The NOT_ACCEPTABLE error names both
 * formats. */
TD_MUST_CHECK td_status td_codec_reply_format(const char *accept, td_format request_format,
                                              td_format *out, struct td_error *err);

TD_MUST_CHECK td_status td_codec_decode(td_format format, const char *body, size_t bytes,
                                        struct td_resolver *resolver, struct td_arena *arena,
                                        struct td_request *request, struct td_error *err);

/* Adds a hint about what the client might have meant to the error with which the op refused a
 * decoded request. */
void td_codec_hint(td_format format, const struct td_request *request, struct td_error *err);

/* td_oip_decode, which needs more arguments, decodes requests of the Open Inference Protocol. The
 * functions below also encode replies of this protocol. */

/* True if the client accepts JSON. accept can be NULL. */
bool td_codec_accepts_json(const char *accept);

/* Checks that the outputs can be encoded. Reads only their dtypes, so a call can be rejected after
 * infer and before it is computed. Returns NOT_ACCEPTABLE if safetensors does not support a
 * dtype. */
TD_MUST_CHECK td_status td_codec_can_encode(td_format format, const struct td_request *request,
                                            struct td_error *err);

/* Computes an upper bound for the memory that td_codec_encode allocates. Returns false on
 * overflow. */
bool td_codec_encoded_bound(td_format format, const struct td_request *request, size_t *bytes);

TD_MUST_CHECK td_status td_codec_encode(td_format format, const struct td_request *request,
                                        struct td_arena *arena, struct td_reply *reply,
                                        struct td_error *err);

#endif
