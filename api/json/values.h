/* values.h - the small values of a request: member names, strings, dtypes, shapes, attributes.
 *
 * Each reads the value where `scan` stands; `path` says where that is in the document.
 *
 * Ownership  Texts point into the body where they can, else into the arena.
 * Errors     MALFORMED_REQUEST by pointer or offset, as scan.h says; RESOURCE_LIMIT (rank). */
#ifndef TD_API_JSON_VALUES_H
#define TD_API_JSON_VALUES_H

#include "api/json/scan.h"
#include "api/message/attrs.h"

/* A step from `up` to a member. */
static inline struct td_json_path td_json_member(const struct td_json_path *up, const char *key,
                                                 size_t length)
{
    return (struct td_json_path){ .up = up, .key = key, .key_length = length };
}

/* A member's name and the colon behind it. */
TD_MUST_CHECK td_status td_json_key(struct td_json_scan *scan, struct td_arena *arena,
                                    const char **key, size_t *length, struct td_error *err);

/* A string that stands for `what`. */
TD_MUST_CHECK td_status td_json_text(struct td_json_scan *scan, struct td_arena *arena,
                                     const struct td_json_path *path, const char *what,
                                     const char **text, size_t *length, struct td_error *err);

/* The name of a dtype. */
TD_MUST_CHECK td_status td_json_dtype(struct td_json_scan *scan, struct td_arena *arena,
                                      const struct td_json_path *path, td_dtype *dtype,
                                      struct td_error *err);

/* A list of dimensions. */
TD_MUST_CHECK td_status td_json_shape(struct td_json_scan *scan, const struct td_json_path *path,
                                      struct td_shape *shape, struct td_error *err);

/* A value as an attribute would be spelled. What can be none is only passed over. */
TD_MUST_CHECK td_status td_json_attr(struct td_json_scan *scan, struct td_arena *arena,
                                     struct td_attr_value *value, struct td_error *err);

#endif
