/* hints.h - what an error adds about a value in JSON that is often written in another form: NaN,
 * complex numbers, the name of a resident tensor, keys.
 *
 * A hint follows the message of the error, after a semicolon. A hint that does not fit is left out.
 * Private to api/json, except td_json_hint_inputs. */
#ifndef TD_API_JSON_HINTS_H
#define TD_API_JSON_HINTS_H

#include "api/json/tensor.h"
#include "api/message/message.h"

/* True if the text at `at` is NaN or an infinity as other programs write it: bare or in quotes, in
 * any case, with a sign or without; or null. */
bool td_json_is_nonfinite(const char *at, const char *end);

/* Adds how NaN and the infinities are written in a tensor of this dtype, a float or complex one. */
void td_json_hint_nonfinite(struct td_error *err, td_dtype dtype);

/* If the value at `at` is an object with the key "0", as JSON.stringify makes it of a typed array,
 * adds how a typed array is sent. */
void td_json_hint_typed_array(struct td_error *err, const char *at, const char *end);

/* Adds to the error of a complex tensor's shape that the last dimension of its data is [re, im]. */
void td_json_hint_complex(struct td_error *err);

#define TD_THE_TABLE "the table" /* `of` for the table in the path */

/* What another tensor is, whose dtype a value was read with. */
typedef enum td_json_other {
    TD_JSON_OTHER_INPUT,
    TD_JSON_OTHER_RESIDENT,
    TD_JSON_OTHER_KEYS /* which have no fractions */
} td_json_other;

/* Adds to the error of a value that it was read with this dtype because `of` has it. */
void td_json_hint_dtype(struct td_error *err, const char *of, td_dtype dtype, td_json_other other);

/* If a string is at the scan, in place of a tensor, adds how the resident tensor of this name is
 * written. */
void td_json_hint_string(const struct td_json_scan *scan, const struct td_json_source *source);

/* Adds hints about the inputs of a request that an op refused: a string in place of a tensor may be
 * the name of a resident tensor, strings in place of row numbers keys, and "NaN" a number; the
 * shape of a complex tensor may include [re, im]. */
void td_json_hint_inputs(const struct td_request *request, struct td_error *err);

#endif
