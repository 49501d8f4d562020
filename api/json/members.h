/* members.h - objects and lists as the Open Inference Protocol has them: null stands for none
 * at all, members that nobody here knows are passed over, yet they have to be JSON, and no name may
 * stand twice in one object.
 *
 * Bounds     Values nest at most TD_JSON_MAX_DEPTH deep; more is MALFORMED_REQUEST. The names of an
 *            object are kept until it ends, in the arena where they are many. */
#ifndef TD_API_JSON_MEMBERS_H
#define TD_API_JSON_MEMBERS_H

#include "api/json/scan.h"
#include "kernels/name.h"

#define TD_JSON_MAX_DEPTH 100

struct td_json_name {
    const char *text;
    size_t length;
};

/* The names of an object so far; begins as all zeros. */
#define TD_JSON_FEW_NAMES 8
struct td_json_members {
    struct td_json_name few[TD_JSON_FEW_NAMES];
    struct td_json_name *many; /* sorted at the end; NULL: they are in few */
    size_t count, room;
};

/* A member's name and the colon behind it. Of the first names a repeated one is refused here. */
TD_MUST_CHECK td_status td_json_member_name(struct td_json_scan *scan, struct td_arena *arena,
                                            struct td_json_members *members,
                                            struct td_json_name *name, struct td_error *err);

/* Behind the object: is any name there twice? */
TD_MUST_CHECK td_status td_json_members_end(const struct td_json_scan *scan,
                                            struct td_json_members *members, struct td_error *err);

static inline bool td_json_name_is(struct td_json_name name, const char *text)
{
    return td_name_is(text, name.text, name.length);
}

/* Read a value where the scan stands: the member `name`, or the element path->index. */
typedef td_status td_json_member_fn(void *context, const struct td_json_path *path,
                                    struct td_json_name name);
typedef td_status td_json_element_fn(void *context, const struct td_json_path *path);

/* Reads an object or a list; `what` is what it is called in messages. */
TD_MUST_CHECK td_status td_json_object(struct td_json_scan *scan, const struct td_json_path *path,
                                       const char *what, td_json_member_fn *member, void *context,
                                       struct td_arena *arena, struct td_error *err);
TD_MUST_CHECK td_status td_json_list(struct td_json_scan *scan, const struct td_json_path *path,
                                     const char *what, td_json_element_fn *element, void *context,
                                     struct td_error *err);

/* Passes over null, where it stands there. */
TD_MUST_CHECK td_status td_json_null(struct td_json_scan *scan, bool *there, struct td_error *err);

/* Passes over a value that stands within `depth` lists and objects. */
TD_MUST_CHECK td_status td_json_skip(struct td_json_scan *scan, int depth, struct td_arena *arena,
                                     struct td_error *err);

#endif
