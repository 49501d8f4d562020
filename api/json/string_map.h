/* string_map.h - reads an object whose members are strings or null: {"a": "b", "c": null}.
 *
 * Ownership  Names and values are NUL-terminated copies in the arena.
 * Errors     MALFORMED_REQUEST with a pointer for any other value, a NUL inside a text, or a
 *            repeated name. Other errors are as for td_json_object. */
#ifndef TD_API_JSON_STRING_MAP_H
#define TD_API_JSON_STRING_MAP_H

#include "api/json/members.h"

struct td_string_pair {
    const char *name;
    const char *value; /* NULL if the member is null */
};

struct td_string_map {
    struct td_string_pair *pairs; /* members in the order of the text */
    int count;
};

/* Reads the object at scan->at. null gives an empty map. `what` is the value's name in error
 * messages. */
TD_MUST_CHECK td_status td_json_string_map(struct td_json_scan *scan,
                                           const struct td_json_path *path, const char *what,
                                           struct td_arena *arena, struct td_string_map *out,
                                           struct td_error *err);

/* Reads the string at scan->at as a NUL-terminated copy. */
TD_MUST_CHECK td_status td_json_c_string(struct td_json_scan *scan, const struct td_json_path *path,
                                         const char *what, struct td_arena *arena, const char **out,
                                         struct td_error *err);

#endif
