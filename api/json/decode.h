/* decode.h - decodes a JSON body into a request.
 *
 * The body is read once, directly into tensors (array.h). Only data that precedes its dtype or
 * shape is skipped and read later.
 *
 * Bounds     Lists of a tensor nest at most TD_MAX_RANK deep; deeper nesting is RESOURCE_LIMIT
 *            (rank).
 * Ownership  Tensors are in the arena. Texts (names of references, attributes) can point into the
 *            body, which must therefore live as long as the request.
 * Threads    Reentrant.
 * Errors     MALFORMED_REQUEST with a JSON Pointer, or with the byte offset if the text is not
 *            JSON; TENSOR_NOT_FOUND; RESOURCE_LIMIT (rank, tensors); MEMORY_EXHAUSTED.
 * Cost       About 12 ns for a float32 of 11 characters. Allocates only the tensors. */
#ifndef TD_API_JSON_DECODE_H
#define TD_API_JSON_DECODE_H

#include "api/json/tensor.h"
#include "api/message/message.h"

/* Decodes the body into `request`, for which the caller has called td_request_init and applied the
 * query parameters. At least TD_JSON_PADDING readable bytes must follow the body. */
TD_MUST_CHECK td_status td_json_decode(const char *body, size_t bytes, struct td_resolver *resolver,
                                       struct td_arena *arena, struct td_request *request,
                                       struct td_error *err);

#endif
