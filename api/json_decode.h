/* json_decode.h - a JSON body becomes a request. One of the two C++ shims: simdjson finds the
 * structure, std::from_chars decides the last bit of a float, and both stay behind this header.
 *
 * Bounds     Bodies nest at most TD_MAX_RANK lists inside three objects; deeper is
 * MALFORMED_REQUEST. Ownership  A decoder keeps simdjson's buffers warm between requests up to a
 * size; give it to one thread at a time. Tensors are allocated from the arena. Threads    One
 * decoder, one thread. Errors     MALFORMED_REQUEST with a JSON Pointer to the place (or the byte
 * offset where the text is not JSON at all), TENSOR_NOT_FOUND, RESOURCE_LIMIT (rank), memory. Cost
 * A float32 of 11 characters takes about 15 ns; workspace is td_json_workspace(body). */
#ifndef TD_API_JSON_DECODE_H
#define TD_API_JSON_DECODE_H

#include "api/message.h"

#ifdef __cplusplus
extern "C" {
#endif

struct td_json_decoder;

struct td_json_decoder *td_json_decoder_new(void); /* NULL without memory */
void td_json_decoder_free(struct td_json_decoder *decoder);

/* Bytes a decoder holds for itself now (it forgets what exceeded 16 MiB after each request). */
size_t td_json_decoder_bytes(const struct td_json_decoder *decoder);

/* Bytes a decoder needs beside body and tensors while it reads `body_bytes`. */
size_t td_json_workspace(size_t body_bytes);

#define TD_JSON_PADDING 64 /* readable bytes that must follow the body */

/* Fills request (begun by td_request_init, query parameters already applied) from the body. */
TD_MUST_CHECK td_status td_json_decode(struct td_json_decoder *decoder, const char *body,
                                       size_t bytes, struct td_resolver *resolver,
                                       struct td_arena *arena, struct td_request *request,
                                       struct td_error *err);

#ifdef __cplusplus
}
#endif

#endif
