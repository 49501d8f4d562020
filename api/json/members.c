#include "api/json/members.h"

#include "api/json/values.h"
#include "kernels/shown_text.h"

#include <stdlib.h>
#include <string.h>

static int compare(const void *a, const void *b)
{
    const struct td_json_name *left = a, *right = b;
    if (left->length != right->length)
        return left->length < right->length ? -1 : 1;
    return memcmp(left->text, right->text, left->length);
}

/* A stack of the names in all open objects. The names of an inner object are above the names of the
 * enclosing object. Memory use depends only on the objects that are open at the same time, not on
 * the number of objects. */
struct names {
    struct td_json_scan *scan;
    struct td_arena *arena;
    struct td_error *err;
    struct td_json_name *stack; /* points to `few`, or to a larger array in the arena */
    size_t count, capacity;
    struct td_json_name few[32];
    bool has_path;
    const struct td_json_path *path; /* of the object, if has_path */
};

static void begin_names(struct names *names, struct td_json_scan *scan, struct td_arena *arena,
                        struct td_error *err)
{
    names->scan = scan;
    names->arena = arena;
    names->err = err;
    names->stack = names->few;
    names->count = 0;
    names->capacity = sizeof names->few / sizeof *names->few;
    names->has_path = false;
}

/* Sets the error for a repeated name, with the offset of its value. */
static td_status refuse(const struct names *names, const struct td_json_name *name)
{
    td_error_set(names->err, TD_MALFORMED_REQUEST, "the member \"%s\" is given twice",
                 TD_SHOWN(name->text, name->length));
    names->err->offset = names->scan->at - names->scan->begin;
    if (names->has_path) {
        const struct td_json_path member = td_json_member(names->path, name->text, name->length);
        td_json_set_pointer(&member, names->err);
    }
    return TD_MALFORMED_REQUEST;
}

static td_status grow(struct names *names)
{
    if (names->count == TD_JSON_MAX_NAMES)
        return td_error_resource(names->err, "names", names->count + 1, TD_JSON_MAX_NAMES,
                                 "the objects of a request");
    const size_t capacity = 2 * names->capacity;
    struct td_json_name *larger =
        td_arena_alloc(names->arena, capacity, sizeof *larger, names->err);
    if (!larger)
        return names->err->status;
    memcpy(larger, names->stack, names->count * sizeof *larger);
    names->stack = larger;
    names->capacity = capacity;
    return TD_OK;
}

/* Maximum number of names in an object for which each new name is compared with all earlier names.
 * In a larger object, sorting the names at its end finds repeated names. */
enum { FEW_NAMES = 8 };

/* Reads a member's name and the colon. `first` is the stack index of the object's first name. */
static td_status read_name(struct names *names, size_t first, struct td_json_name *name)
{
    name->text = "";
    name->length = 0;
    td_status status =
        td_json_key(names->scan, names->arena, &name->text, &name->length, names->err);
    if (status != TD_OK)
        return status;
    if (names->count - first < FEW_NAMES)
        for (size_t i = first; i < names->count; i++)
            if (compare(name, &names->stack[i]) == 0)
                return refuse(names, name);
    if (names->count == names->capacity && (status = grow(names)) != TD_OK)
        return status;
    names->stack[names->count++] = *name;
    return TD_OK;
}

/* Ends the object whose names start at stack index `first`. */
static td_status end_object(struct names *names, size_t first)
{
    const struct td_json_name *name = names->stack + first;
    const size_t n = names->count - first;
    names->count = first;
    if (n <= FEW_NAMES)
        return TD_OK;
    qsort(names->stack + first, n, sizeof *name, compare);
    for (size_t i = 1; i < n; i++)
        if (compare(&name[i], &name[i - 1]) == 0)
            return refuse(names, &name[i]);
    return TD_OK;
}

td_status td_json_null(struct td_json_scan *scan, bool *is_null, struct td_error *err)
{
    *is_null = td_json_peek(scan) == 'n';
    return !*is_null || td_json_literal(scan, err) ? TD_OK : TD_MALFORMED_REQUEST;
}

/* Checks that the next value starts with `open`. Sets *absent to true if the value is null. */
static td_status begin_value(struct td_json_scan *scan, const struct td_json_path *path,
                             const char *what, char open, bool *absent, struct td_error *err)
{
    td_status status = td_json_null(scan, absent, err);
    if (status != TD_OK || *absent)
        return status;
    const char c = td_json_peek(scan), *kind = td_json_value_kind(scan);
    if (!kind)
        return td_json_syntax(scan, scan->at, err, "expected a value");
    return c == open
               ? TD_OK
               : td_json_refuse(path, err, "%s is %s; expected %s", what, kind, td_json_kind(open));
}

td_status td_json_object(struct td_json_scan *scan, const struct td_json_path *path,
                         const char *what, td_json_member_fn *member, void *context,
                         struct td_arena *arena, struct td_error *err)
{
    struct names names;
    bool more, absent;
    td_status status = begin_value(scan, path, what, '{', &absent, err);
    if (status != TD_OK || absent)
        return status;
    begin_names(&names, scan, arena, err);
    names.has_path = true;
    names.path = path;
    status = td_json_open(scan, '{', '}', &more, err);
    while (status == TD_OK && more) {
        struct td_json_name name;
        status = read_name(&names, 0, &name);
        if (status != TD_OK)
            return status;
        const struct td_json_path step = td_json_member(path, name.text, name.length);
        status = member(context, &step, name);
        if (status == TD_OK)
            status = td_json_next(scan, '}', &more, err);
    }
    return status == TD_OK ? end_object(&names, 0) : status;
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

static td_status skip(struct names *names, int depth);

static td_status skip_object(struct names *names, int depth)
{
    const size_t first = names->count;
    bool more;
    td_status status = td_json_open(names->scan, '{', '}', &more, names->err);
    while (status == TD_OK && more) {
        struct td_json_name name;
        status = read_name(names, first, &name);
        if (status == TD_OK)
            status = skip(names, depth + 1);
        if (status == TD_OK)
            status = td_json_next(names->scan, '}', &more, names->err);
    }
    return status == TD_OK ? end_object(names, first) : status;
}

static td_status skip_list(struct names *names, int depth)
{
    bool more;
    td_status status = td_json_open(names->scan, '[', ']', &more, names->err);
    while (status == TD_OK && more) {
        status = skip(names, depth + 1);
        if (status == TD_OK)
            status = td_json_next(names->scan, ']', &more, names->err);
    }
    return status;
}

static td_status skip(struct names *names, int depth)
{
    struct td_json_scan *scan = names->scan;
    const char c = td_json_peek(scan), *begin = scan->at;
    bool is_integer;
    switch (c) {
    case '{':
    case '[':
        if (depth == TD_JSON_MAX_DEPTH)
            return td_json_syntax(scan, begin, names->err,
                                  "expected at most %d nested lists and objects",
                                  TD_JSON_MAX_DEPTH);
        return c == '{' ? skip_object(names, depth) : skip_list(names, depth);
    case '"': {
        const char *text = "";
        size_t length = 0;
        return td_json_string(scan, names->arena, &text, &length, names->err);
    }
    case 't':
    case 'f':
    case 'n':
        return td_json_literal(scan, names->err) ? TD_OK : TD_MALFORMED_REQUEST;
    default:
        scan->at = td_json_number_end(begin, scan->end, &is_integer);
        if (scan->at)
            return TD_OK;
        scan->at = begin;
        return td_json_syntax(scan, begin, names->err, "expected a value");
    }
}

td_status td_json_skip(struct td_json_scan *scan, int depth, struct td_arena *arena,
                       struct td_error *err)
{
    struct names names;
    begin_names(&names, scan, arena, err);
    return skip(&names, depth);
}
