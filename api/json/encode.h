/* encode.h - encodes outputs as JSON: {"output": T} or {"outputs": [T, ...]}, plus "bounds" if a
 * bounds policy replaced indices.
 *
 * T is {"dtype", "shape", "data"} with nested or flat data, or {"dtype", "shape", "base64"}. Floats
 * are printed as the shortest text that reads back as the same value of their dtype. NaN and
 * infinities are printed as strings. String tensors that are not valid UTF-8 are sent as base64.
 *
 * Ownership  The reply's bytes are in the arena.
 * Errors     MEMORY_EXHAUSTED; NOT_ACCEPTABLE if a string of 4 GiB or more would have to be base64.
 * Cost       About 20 ns per float32. The buffer is allocated once, sized by an upper bound of the
 *            text. */
#ifndef TD_API_JSON_ENCODE_H
#define TD_API_JSON_ENCODE_H

#include "api/message/message.h"

/* Computes an upper bound of the reply's size, for admission control. The bound excludes the
 * escapes of strings and the base64 form of strings that are not UTF-8, whose sizes are known only
 * when the reply is built. Returns false on overflow. */
bool td_json_encoded_bound(const struct td_request *request, size_t *bytes);

TD_MUST_CHECK td_status td_json_encode(const struct td_request *request, struct td_arena *arena,
                                       struct td_reply *reply, struct td_error *err);

/* Encodes a single tensor as T, without an envelope. td_json_tensor_bound computes an upper bound
 * of the memory that encoding allocates, with the same exclusions as td_json_encoded_bound. */
bool td_json_tensor_bound(const struct td_tensor *tensor, td_layout layout, size_t *bytes);
TD_MUST_CHECK td_status td_json_encode_tensor(const struct td_tensor *tensor, td_layout layout,
                                              struct td_arena *arena, struct td_reply *reply,
                                              struct td_error *err);

#endif
