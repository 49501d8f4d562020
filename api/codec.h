/* codec.h - picks decoder and encoder from Content-Type and Accept. */
#ifndef TD_API_CODEC_H
#define TD_API_CODEC_H

#include "api/json/decode.h"
#include "api/message/message.h"

/* JSON for application/json, none, and what curl -d sends; safetensors for
 * application/vnd.safetensors and application/octet-stream; else UNSUPPORTED_MEDIA_TYPE.
 * content_type may be NULL. Parameters (charset) are ignored but for a charset other than UTF-8 on
 * JSON, which is refused. */
TD_MUST_CHECK td_status td_codec_request_format(const char *content_type, td_format *out,
                                                struct td_error *err);

/* The answer's format: by the Accept header's q-values among what tensord can write, the request's
 * own format where it is acceptable and none is preferred; NOT_ACCEPTABLE names both. accept may be
 * NULL. */
TD_MUST_CHECK td_status td_codec_reply_format(const char *accept, td_format request_format,
                                              td_format *out, struct td_error *err);

TD_MUST_CHECK td_status td_codec_decode(td_format format, const char *body, size_t bytes,
                                        struct td_resolver *resolver, struct td_arena *arena,
                                        struct td_request *request, struct td_error *err);

/* Requests of the Open Inference Protocol are read by td_oip_decode, which needs to know more; the
 * functions below answer them too. */

/* Can the outputs be written at all? Looks at their dtypes only, so that a call whose answer has no
 * form is refused once its outputs are inferred, before it runs: NOT_ACCEPTABLE for what
 * safetensors lacks. */
/* Would the client take JSON as well? accept may be NULL. */
bool td_codec_accepts_json(const char *accept);

TD_MUST_CHECK td_status td_codec_can_encode(td_format format, const struct td_request *request,
                                            struct td_error *err);

/* Upper bound of what encoding will allocate. False on overflow. */
bool td_codec_encoded_bound(td_format format, const struct td_request *request, size_t *bytes);

TD_MUST_CHECK td_status td_codec_encode(td_format format, const struct td_request *request,
                                        struct td_arena *arena, struct td_reply *reply,
                                        struct td_error *err);

#endif
