/* hints.h - adds hints to errors about JSON values that clients often write in another form: NaN,
 * complex numbers, the name of a resident tensor, keys.
 *
 * A hint follows the error message after a semicolon. A hint that does not fit is omitted. All
 * functions except td_json_hint_inputs are private to api/json. */
#ifndef TD_API_JSON_HINTS_H
#define TD_API_JSON_HINTS_H

#include "api/json/tensor.h"
#include "api/message/message.h"

/* True if the text at `at` is null, NaN or an infinity. Accepts NaN and infinities as other
 * programs write them: with or without quotes, in upper or lower case, and with or without a
 * sign. */
bool td_json_is_nonfinite(const char *at, const char *end);

/* Adds a hint that shows how to write NaN and infinities in a tensor of this float or complex
 * dtype. */
void td_json_hint_nonfinite(struct td_error *err, td_dtype dtype);

/* If the value at `at` is an object with the key "0", adds a hint that shows how to send a typed
 * array, which JSON.stringify turns into such an object. */
void td_json_hint_typed_array(struct td_error *err, const char *at, const char *end);

/* Adds a hint to an error about the shape of a complex tensor, which says that the last dimension
 * of its data is [re, im]. */
void td_json_hint_complex(struct td_error *err);

#define TD_THE_TABLE "the table" /* value of `of` for the table that the path names */

/* Kind of tensor that determined the dtype of another value. */
typedef enum td_json_other {
    TD_JSON_OTHER_INPUT,
    TD_JSON_OTHER_RESIDENT,
    TD_JSON_OTHER_KEYS /* keys have no fractions */
} td_json_other;

/* Adds a hint that the erroneous value was read with this dtype because `of` has this dtype. */
void td_json_hint_dtype(struct td_error *err, const char *of, td_dtype dtype, td_json_other other);

/* If the scan is at a string where a tensor is expected, adds a hint that shows how to refer to the
 * resident tensor of this name. */
void td_json_hint_string(const struct td_json_scan *scan, const struct td_json_source *source);

/* Adds hints about the inputs of a request that an op refused. A string in place of a tensor could
 * be the name of a resident tensor, strings in place of row numbers could be keys, and "NaN" could
 * be a number. The shape of a complex tensor could include [re, im]. */
void td_json_hint_inputs(const struct td_request *request, struct td_error *err);

#endif
