/* values.h - reads the small values of a request: member names, strings, dtypes, shapes,
 * attributes.
 *
 * Each function reads the value at scan->at. `path` is the value's path in the document, for error
 * messages.
 *
 * Ownership  Strings point into the body if they have no escapes, otherwise into the arena.
 * Errors     MALFORMED_REQUEST with a pointer or offset, as in scan.h; RESOURCE_LIMIT (rank). */
#ifndef TD_API_JSON_VALUES_H
#define TD_API_JSON_VALUES_H

#include "api/json/scan.h"
#include "api/message/attr_values.h"

/* Returns the path of a member of the value at `up`. */
static inline struct td_json_path td_json_member(const struct td_json_path *up, const char *key,
                                                 size_t length)
{
    return (struct td_json_path){ .up = up, .key = key, .key_length = length };
}

/* Reads a member's name and the colon after it. */
TD_MUST_CHECK td_status td_json_key(struct td_json_scan *scan, struct td_arena *arena,
                                    const char **key, size_t *length, struct td_error *err);

/* Sets *out to true if the value at scan->at is an object whose first member is `key`. Does not
 * advance the scan. */
TD_MUST_CHECK td_status td_json_begins_with(const struct td_json_scan *scan, struct td_arena *arena,
                                            const char *key, bool *out, struct td_error *err);

/* Reads a string. `what` is the value's name in error messages. */
TD_MUST_CHECK td_status td_json_text(struct td_json_scan *scan, struct td_arena *arena,
                                     const struct td_json_path *path, const char *what,
                                     const char **text, size_t *length, struct td_error *err);

/* Reads the name of a dtype. */
TD_MUST_CHECK td_status td_json_dtype(struct td_json_scan *scan, struct td_arena *arena,
                                      const struct td_json_path *path, td_dtype *dtype,
                                      struct td_error *err);

/* Reads a list of dimensions. */
TD_MUST_CHECK td_status td_json_shape(struct td_json_scan *scan, const struct td_json_path *path,
                                      struct td_shape *shape, struct td_error *err);

/* Reads the value of an attribute. Skips a value of a kind that no attribute can have, and gives it
 * the kind TD_VALUE_OTHER. */
TD_MUST_CHECK td_status td_json_attr(struct td_json_scan *scan, struct td_arena *arena,
                                     struct td_attr_value *value, struct td_error *err);

#endif
