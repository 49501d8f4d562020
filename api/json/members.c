#include "api/json/members.h"

#include "api/json/values.h"
#include "kernels/name.h"

#include <stdlib.h>
#include <string.h>

static int compare(const void *a, const void *b)
{
    const struct td_json_name *left = a, *right = b;
    if (left->length != right->length)
        return left->length < right->length ? -1 : 1;
    return memcmp(left->text, right->text, left->length);
}

/* Sets the error for a repeated name, with the offset of its value. */
static td_status refuse(const struct td_json_scan *scan, const struct td_json_name *name,
                        struct td_error *err)
{
    td_error_set(err, TD_MALFORMED_REQUEST, "the member \"%s\" is given twice",
                 TD_SHOWN(name->text, name->length));
    if (err)
        err->offset = scan->at - scan->begin;
    return TD_MALFORMED_REQUEST;
}

/* Moves the names to a larger array. */
static bool grow(struct td_json_members *members, struct td_arena *arena, struct td_error *err)
{
    size_t capacity = members->many ? members->capacity * 2 : (size_t)8 * TD_JSON_FEW_NAMES;
    struct td_json_name *larger = td_arena_alloc(arena, capacity, sizeof *larger, err);
    if (!larger)
        return false;
    memcpy(larger, members->many ? members->many : members->few, members->count * sizeof *larger);
    members->many = larger;
    members->capacity = capacity;
    return true;
}

td_status td_json_member_name(struct td_json_scan *scan, struct td_arena *arena,
                              struct td_json_members *members, struct td_json_name *name,
                              struct td_error *err)
{
    name->text = "";
    name->length = 0;
    td_status status = td_json_key(scan, arena, &name->text, &name->length, err);
    if (status != TD_OK)
        return status;
    for (size_t i = 0; !members->many && i < members->count; i++)
        if (compare(name, &members->few[i]) == 0)
            return refuse(scan, name, err);
    bool full = members->count == (members->many ? members->capacity : TD_JSON_FEW_NAMES);
    if (full && !grow(members, arena, err))
        return err->status;
    (members->many ? members->many : members->few)[members->count++] = *name;
    return TD_OK;
}

td_status td_json_members_end(const struct td_json_scan *scan, struct td_json_members *members,
                              struct td_error *err)
{
    if (!members->many)
        return TD_OK;
    qsort(members->many, members->count, sizeof *members->many, compare);
    for (size_t i = 1; i < members->count; i++)
        if (compare(&members->many[i], &members->many[i - 1]) == 0)
            return refuse(scan, &members->many[i], err);
    return TD_OK;
}

td_status td_json_null(struct td_json_scan *scan, bool *is_null, struct td_error *err)
{
    *is_null = td_json_peek(scan) == 'n';
    return !*is_null || td_json_literal(scan, err) ? TD_OK : TD_MALFORMED_REQUEST;
}

/* Checks that the next value starts with `open`; *absent is true if it is null. */
static td_status begin_value(struct td_json_scan *scan, const struct td_json_path *path,
                             const char *what, char open, bool *absent, struct td_error *err)
{
    td_status status = td_json_null(scan, absent, err);
    if (status != TD_OK || *absent)
        return status;
    const char c = td_json_peek(scan), *kind = td_json_value_kind(scan);
    if (!kind)
        return td_json_syntax(scan, scan->at, err, "expected a value");
    return c == open ? TD_OK
                     : td_json_refuse(path, err, "%s is %s; %s is expected", what, kind,
                                      td_json_kind(open));
}

td_status td_json_object(struct td_json_scan *scan, const struct td_json_path *path,
                         const char *what, td_json_member_fn *member, void *context,
                         struct td_arena *arena, struct td_error *err)
{
    struct td_json_members members;
    bool more, absent;
    members.many = NULL;
    members.count = 0;
    td_status status = begin_value(scan, path, what, '{', &absent, err);
    if (status != TD_OK || absent)
        return status;
    status = td_json_open(scan, '{', '}', &more, err);
    while (status == TD_OK && more) {
        struct td_json_name name;
        status = td_json_member_name(scan, arena, &members, &name, err);
        if (status != TD_OK)
            return status;
        const struct td_json_path step = td_json_member(path, name.text, name.length);
        status = member(context, &step, name);
        if (status == TD_OK)
            status = td_json_next(scan, '}', &more, err);
    }
    return status == TD_OK ? td_json_members_end(scan, &members, err) : status;
}

td_status td_json_list(struct td_json_scan *scan, const struct td_json_path *path, const char *what,
                       td_json_element_fn *element, void *context, struct td_error *err)
{
    struct td_json_path step = { .up = path };
    bool more, absent;
    td_status status = begin_value(scan, path, what, '[', &absent, err);
    if (status != TD_OK || absent)
        return status;
    status = td_json_open(scan, '[', ']', &more, err);
    for (; status == TD_OK && more; step.index++) {
        status = element(context, &step);
        if (status == TD_OK)
            status = td_json_next(scan, ']', &more, err);
    }
    return status;
}

static td_status skip_object(struct td_json_scan *scan, int depth, struct td_arena *arena,
                             struct td_error *err)
{
    struct td_json_members members = { .count = 0 };
    bool more;
    td_status status = td_json_open(scan, '{', '}', &more, err);
    while (status == TD_OK && more) {
        struct td_json_name name;
        status = td_json_member_name(scan, arena, &members, &name, err);
        if (status == TD_OK)
            status = td_json_skip(scan, depth + 1, arena, err);
        if (status == TD_OK)
            status = td_json_next(scan, '}', &more, err);
    }
    return status == TD_OK ? td_json_members_end(scan, &members, err) : status;
}

static td_status skip_list(struct td_json_scan *scan, int depth, struct td_arena *arena,
                           struct td_error *err)
{
    bool more;
    td_status status = td_json_open(scan, '[', ']', &more, err);
    while (status == TD_OK && more) {
        status = td_json_skip(scan, depth + 1, arena, err);
        if (status == TD_OK)
            status = td_json_next(scan, ']', &more, err);
    }
    return status;
}

td_status td_json_skip(struct td_json_scan *scan, int depth, struct td_arena *arena,
                       struct td_error *err)
{
    const char c = td_json_peek(scan), *begin = scan->at;
    bool is_integer;
    switch (c) {
    case '{':
    case '[':
        if (depth == TD_JSON_MAX_DEPTH)
            return td_json_syntax(scan, begin, err,
                                  "expected at most %d lists and objects within "
                                  "each other",
                                  TD_JSON_MAX_DEPTH);
        return c == '{' ? skip_object(scan, depth, arena, err) : skip_list(scan, depth, arena, err);
    case '"': {
        const char *text = "";
        size_t length = 0;
        return td_json_string(scan, arena, &text, &length, err);
    }
    case 't':
    case 'f':
    case 'n':
        return td_json_literal(scan, err) ? TD_OK : TD_MALFORMED_REQUEST;
    default:
        scan->at = td_json_number_end(begin, scan->end, &is_integer);
        if (scan->at)
            return TD_OK;
        scan->at = begin;
        return td_json_syntax(scan, begin, err, "expected a value");
    }
}
