/* codec.h - selects decoder and encoder by Content-Type and Accept. */
#ifndef TD_API_CODEC_H
#define TD_API_CODEC_H

#include "api/json/decode.h"
#include "api/message/message.h"

/* The format of a body: JSON for application/json, for a missing Content-Type and for the type that
 * curl -d sends; safetensors for application/vnd.safetensors and application/octet-stream;
 * otherwise UNSUPPORTED_MEDIA_TYPE. content_type may be NULL. Parameters are ignored, except that
 * JSON with a charset other than UTF-8 is an error. */
TD_MUST_CHECK td_status td_codec_request_format(const char *content_type, td_format *out,
                                                struct td_error *err);

/* The format of the reply, by the q-values of the Accept header. If several formats have the same
 * q-value, the request's format is preferred. NOT_ACCEPTABLE names both formats. accept may be
 * NULL. */
TD_MUST_CHECK td_status td_codec_reply_format(const char *accept, td_format request_format,
                                              td_format *out, struct td_error *err);

TD_MUST_CHECK td_status td_codec_decode(td_format format, const char *body, size_t bytes,
                                        struct td_resolver *resolver, struct td_arena *arena,
                                        struct td_request *request, struct td_error *err);

/* Adds to the error of a decoded request that its op refused how the body may have been meant. */
void td_codec_hint(td_format format, const struct td_request *request, struct td_error *err);

/* Requests of the Open Inference Protocol are decoded by td_oip_decode, which needs more arguments;
 * the functions below encode their replies, too. */

/* Does the client accept JSON? accept may be NULL. */
bool td_codec_accepts_json(const char *accept);

/* Can the outputs be encoded? Uses only their dtypes, so that a call is rejected after infer and
 * before it is computed: NOT_ACCEPTABLE if safetensors lacks a dtype. */
TD_MUST_CHECK td_status td_codec_can_encode(td_format format, const struct td_request *request,
                                            struct td_error *err);

/* Upper bound of what td_codec_encode allocates. False on overflow. */
bool td_codec_encoded_bound(td_format format, const struct td_request *request, size_t *bytes);

TD_MUST_CHECK td_status td_codec_encode(td_format format, const struct td_request *request,
                                        struct td_arena *arena, struct td_reply *reply,
                                        struct td_error *err);

#endif
