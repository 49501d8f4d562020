/* decode.h - a JSON body becomes a request.
 *
 * The body is read where it lies, once, straight into tensors (array.h); only data that stands
 * before its dtype or shape is passed over first and read afterwards.
 *
 * Bounds     Lists of a tensor nest at most TD_MAX_RANK deep; deeper is RESOURCE_LIMIT (rank).
 * Ownership  Everything decoded lies in the arena; the body may go.
 * Threads    Reentrant.
 * Errors     MALFORMED_REQUEST with a JSON Pointer to the place (or the byte offset where the text
 *            is not JSON at all), TENSOR_NOT_FOUND, RESOURCE_LIMIT (rank, tensors), memory.
 * Cost       About 12 ns for a float32 of 11 characters; no memory but for the tensors.
 */
#ifndef TD_API_JSON_DECODE_H
#define TD_API_JSON_DECODE_H

#include "api/json/tensor.h"
#include "api/message/message.h"

/* Fills request (begun by td_request_init, query parameters already applied) from the body, which
 * TD_JSON_PADDING readable bytes follow. */
TD_MUST_CHECK td_status td_json_decode(const char *body, size_t bytes, struct td_resolver *resolver,
                                       struct td_arena *arena, struct td_request *request,
                                       struct td_error *err);

#endif
