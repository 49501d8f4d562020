/* members.h - reads objects and lists by the rules of the Open Inference Protocol: null means that
 * the value is absent, unknown members are skipped but must be valid JSON, and a name can occur
 * only once per object.
 *
 * Bounds     Values nest at most TD_JSON_MAX_DEPTH deep; deeper nesting is MALFORMED_REQUEST. At
 * most TD_JSON_MAX_NAMES names of open objects are kept in memory; more names are RESOURCE_LIMIT
 * (names). */
#ifndef TD_API_JSON_MEMBERS_H
#define TD_API_JSON_MEMBERS_H

#include "api/json/scan.h"
#include "kernels/name.h"

#define TD_JSON_MAX_DEPTH 100
#define TD_JSON_MAX_NAMES ((size_t)1 << 20)

struct td_json_name {
    const char *text;
    size_t length;
};

static inline bool td_json_name_is(struct td_json_name name, const char *text)
{
    return td_name_is(text, name.text, name.length);
}

/* Callbacks that read the value at scan->at, which is the member `name` of an object or the element
 * path->index of a list. */
typedef td_status td_json_member_fn(void *context, const struct td_json_path *path,
                                    struct td_json_name name);
typedef td_status td_json_element_fn(void *context, const struct td_json_path *path);

/* Read an object or a list. `what` is the value's name in error messages. */
TD_MUST_CHECK td_status td_json_object(struct td_json_scan *scan, const struct td_json_path *path,
                                       const char *what, td_json_member_fn *member, void *context,
                                       struct td_arena *arena, struct td_error *err);
TD_MUST_CHECK td_status td_json_list(struct td_json_scan *scan, const struct td_json_path *path,
                                     const char *what, td_json_element_fn *element, void *context,
                                     struct td_error *err);

/* Sets *is_null to true and skips the next value if the value is null. Otherwise sets *is_null to
 * false. */
TD_MUST_CHECK td_status td_json_null(struct td_json_scan *scan, bool *is_null,
                                     struct td_error *err);

/* Skips a value that is nested in `depth` lists and objects. */
TD_MUST_CHECK td_status td_json_skip(struct td_json_scan *scan, int depth, struct td_arena *arena,
                                     struct td_error *err);

#endif
