/* encode.h - results as JSON: {"output": T} or {"outputs": [T, ...]}, and "bounds" when a
 * policy replaced something.
 *
 * T is {"dtype", "shape", "data"}; data nested, flat, or "base64" instead. Floats print as the
 * shortest text that reads back to the same value of their dtype; NaN and the infinities as
 * strings. Strings that are not UTF-8 make their tensor base64.
 *
 * Ownership  The reply's bytes lie in the arena.
 * Errors     Memory only.
 * Cost       About 20 ns a float32. The buffer is sized by an upper bound of the text first. */
#ifndef TD_API_JSON_ENCODE_H
#define TD_API_JSON_ENCODE_H

#include "api/message/message.h"

/* Upper bound of the reply's bytes; for admission. False on overflow. */
bool td_json_encoded_bound(const struct td_request *request, size_t *bytes);

TD_MUST_CHECK td_status td_json_encode(const struct td_request *request, struct td_arena *arena,
                                       struct td_reply *reply, struct td_error *err);

/* One tensor, which has its data: T alone. The bound is of all that is allocated. */
bool td_json_tensor_bound(const struct td_tensor *tensor, td_layout layout, size_t *bytes);
TD_MUST_CHECK td_status td_json_encode_tensor(const struct td_tensor *tensor, td_layout layout,
                                              struct td_arena *arena, struct td_reply *reply,
                                              struct td_error *err);

#endif
