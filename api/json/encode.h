/* encode.h - encodes outputs as JSON: {"output": T} or {"outputs": [T, ...]}, and "bounds" if a
 * bounds policy replaced something.
 *
 * T is {"dtype", "shape", "data"} with nested or flat data, or {"dtype", "shape", "base64"}. Floats
 * are printed as the shortest text that reads back to the same value of their dtype; NaN and
 * infinities as strings. Tensors with strings that are not UTF-8 are base64.
 *
 * Ownership  The reply's bytes are in the arena.
 * Errors     MEMORY_EXHAUSTED; NOT_ACCEPTABLE for a string of 4 GiB or more as base64.
 * Cost       About 20 ns per float32. The buffer is allocated once, sized by an upper bound of the
 *            text. */
#ifndef TD_API_JSON_ENCODE_H
#define TD_API_JSON_ENCODE_H

#include "api/message/message.h"

/* Upper bound of the reply's size, for admission, without what the escapes of strings add and what
 * strings that are not UTF-8 take as base64: these are counted when the reply is made. False on
 * overflow. */
bool td_json_encoded_bound(const struct td_request *request, size_t *bytes);

TD_MUST_CHECK td_status td_json_encode(const struct td_request *request, struct td_arena *arena,
                                       struct td_reply *reply, struct td_error *err);

/* Encodes a single tensor: T alone. td_json_tensor_bound is an upper bound of what is allocated for
 * it, as td_json_encoded_bound. */
bool td_json_tensor_bound(const struct td_tensor *tensor, td_layout layout, size_t *bytes);
TD_MUST_CHECK td_status td_json_encode_tensor(const struct td_tensor *tensor, td_layout layout,
                                              struct td_arena *arena, struct td_reply *reply,
                                              struct td_error *err);

#endif
