#include "api/json/values.h"

#include "api/json/float_text.h"
#include "api/text/suggest.h"
#include "kernels/name.h"
#include "kernels/shown_text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

td_status td_json_key(struct td_json_scan *scan, struct td_arena *arena, const char **key,
                      size_t *length, struct td_error *err)
{
    if (td_json_peek(scan) != '"')
        return td_json_syntax(scan, scan->at, err, "expected a member name in quotes");
    td_status status = td_json_string(scan, arena, key, length, err);
    if (status != TD_OK)
        return status;
    return td_json_expect(scan, ':', err);
}

td_status td_json_begins_with(const struct td_json_scan *scan, struct td_arena *arena,
                              const char *key, bool *out, struct td_error *err)
{
    struct td_json_scan ahead = *scan;
    const char *name = "";
    size_t length = 0;
    bool more;
    *out = false;
    if (td_json_peek(&ahead) != '{')
        return TD_OK;
    td_status status = td_json_open(&ahead, '{', '}', &more, err);
    if (status == TD_OK && more)
        status = td_json_key(&ahead, arena, &name, &length, err);
    *out = status == TD_OK && td_name_is(key, name, length);
    return status;
}

td_status td_json_text(struct td_json_scan *scan, struct td_arena *arena,
                       const struct td_json_path *path, const char *what, const char **text,
                       size_t *length, struct td_error *err)
{
    char c = td_json_peek(scan);
    if (c == '"')
        return td_json_string(scan, arena, text, length, err);
    const char *kind = td_json_value_kind(scan);
    if (!kind)
        return td_json_syntax(scan, scan->at, err, "expected a value");
    return td_json_refuse(path, err, "%s is %s; expected a string", what, kind);
}

td_status td_json_dtype(struct td_json_scan *scan, struct td_arena *arena,
                        const struct td_json_path *path, td_dtype *dtype, struct td_error *err)
{
    const char *name = "";
    size_t length = 0;
    td_status status = td_json_text(scan, arena, path, "dtype", &name, &length, err);
    if (status != TD_OK)
        return status;
    if (td_dtype_from_name(name, length, dtype))
        return TD_OK;

    char all[TD_DTYPE_SET_TEXT];
    td_json_refuse(path, err, "\"%s\" is not a dtype; expected one of %s", TD_SHOWN(name, length),
                   td_dtype_set_text(TD_DTYPES_ALL, all, sizeof all));
    td_suggest_dtype(err, name, length, TD_DTYPES_ALL);
    return TD_MALFORMED_REQUEST;
}

td_status td_json_shape(struct td_json_scan *scan, const struct td_json_path *path,
                        struct td_shape *shape, struct td_error *err)
{
    char c = td_json_peek(scan);
    const char *begin = scan->at, *kind = td_json_value_kind(scan);
    if (!kind)
        return td_json_syntax(scan, scan->at, err, "expected a list of dimensions");
    if (c != '[')
        return td_json_refuse(path, err, "shape is %s; expected a list of dimensions", kind);
    shape->rank = 0;
    char number[41];
    bool more;
    td_status status = td_json_open(scan, '[', ']', &more, err);
    if (status != TD_OK)
        return status;
    while (more) {
        struct td_json_path step = { .up = path, .index = shape->rank };
        if (shape->rank == TD_MAX_RANK) {
            size_t commas;
            if (!td_json_measure(begin, scan->end, &commas))
                return td_json_syntax(scan, scan->end, err, "expected ']'");
            td_error_resource(err, "rank", commas + 1, TD_MAX_RANK, "the shape");
            td_json_set_pointer(path, err);
            return TD_RESOURCE_LIMIT;
        }
        td_json_peek(scan);
        kind = td_json_value_kind(scan);
        if (!kind)
            return td_json_syntax(scan, scan->at, err, "expected a dimension");
        int64_t *dim = &shape->dim[shape->rank];
        const char *at = scan->at;
        bool fits = false, is_integer;
        if (strcmp(kind, "a number") == 0) {
            status = td_json_int64(scan, dim, &fits, err);
            if (status != TD_OK)
                return status;
            const size_t length = (size_t)(td_json_number_end(at, scan->end, &is_integer) - at);
            snprintf(number, sizeof number, "%.*s", (int)(length < 40 ? length : 40), at);
            kind = number;
        }
        if (!fits || *dim < 0)
            return td_json_refuse(
                &step, err, "a dimension must be an integer from 0 to 2^63 - 1, not %s", kind);
        shape->rank++;
        status = td_json_next(scan, ']', &more, err);
        if (status != TD_OK)
            return status;
    }
    return TD_OK;
}

/* Reads a list of at most TD_MAX_INTS integers. Skips any other list and leaves value->kind as
 * TD_VALUE_OTHER. */
static td_status read_ints(struct td_json_scan *scan, struct td_arena *arena,
                           struct td_attr_value *value, struct td_error *err)
{
    const char *begin = scan->at;
    size_t commas;
    const char *end = td_json_measure(begin, scan->end, &commas);
    if (!end)
        return td_json_syntax(scan, scan->end, err, "expected the end of a list");
    bool more, fits = commas < TD_MAX_INTS;
    td_status status = td_json_open(scan, '[', ']', &more, err);
    int64_t *values =
        fits && status == TD_OK ? td_arena_alloc(arena, commas + 1, sizeof *values, err) : NULL;
    if (status != TD_OK || (fits && !values))
        return err->status;
    int count = 0;
    while (fits && more) {
        const char *kind = td_json_kind(td_json_peek(scan));
        fits = kind && strcmp(kind, "a number") == 0;
        status = fits ? td_json_int64(scan, &values[count++], &fits, err) : TD_OK;
        if (status == TD_OK && fits)
            status = td_json_next(scan, ']', &more, err);
        if (status != TD_OK)
            return status;
    }
    scan->at = end;
    if (fits) {
        value->kind = TD_VALUE_INTS;
        value->list = (struct td_ints){ values, count };
    }
    return TD_OK;
}

/* Reads a list of at most TD_MAX_NAMES strings. Skips any other list and leaves value->kind as
 * TD_VALUE_OTHER. */
static td_status read_names(struct td_json_scan *scan, struct td_arena *arena,
                            struct td_attr_value *value, struct td_error *err)
{
    struct td_attr_name names[TD_MAX_NAMES];
    size_t commas;
    const char *end = td_json_measure(scan->at, scan->end, &commas);
    if (!end)
        return td_json_syntax(scan, scan->end, err, "expected the end of a list");
    bool more, fits = true;
    int count = 0;
    td_status status = td_json_open(scan, '[', ']', &more, err);
    for (; status == TD_OK && more && fits; count++) {
        fits = count < TD_MAX_NAMES && td_json_peek(scan) == '"';
        if (!fits)
            break;
        status = td_json_string(scan, arena, &names[count].text, &names[count].length, err);
        if (status == TD_OK)
            status = td_json_next(scan, ']', &more, err);
    }
    if (status != TD_OK)
        return status;
    scan->at = end;
    struct td_attr_name *kept = td_arena_alloc(arena, (size_t)count, sizeof *kept, err);
    if (!kept)
        return err->status;
    if (!fits)
        return TD_OK;
    memcpy(kept, names, (size_t)count * sizeof *kept);
    value->kind = TD_VALUE_NAMES;
    value->names = (struct td_attr_names){ kept, count };
    return TD_OK;
}

/* True if the list at the scan starts with a string. */
static bool is_of_strings(struct td_json_scan scan)
{
    scan.at++;
    return td_json_peek(&scan) == '"';
}

static td_status read_number(struct td_json_scan *scan, struct td_arena *arena,
                             struct td_attr_value *value, struct td_error *err)
{
    bool fits, is_integer;
    td_status status = td_json_int64(scan, &value->integer, &fits, err);
    value->kind = TD_VALUE_INT;
    if (status != TD_OK || fits)
        return status;
    const char *begin = scan->at;
    scan->at = td_json_number_end(begin, scan->end, &is_integer);
    value->kind = TD_VALUE_FLOAT;
    if (!td_float64_read(begin, scan->at, &value->number))
        value->number = INFINITY;
    const size_t length = (size_t)(scan->at - begin);
    value->text = td_arena_text(arena, begin, length < 40 ? length : 40, err);
    return value->text ? TD_OK : TD_MEMORY_EXHAUSTED;
}

td_status td_json_attr(struct td_json_scan *scan, struct td_arena *arena,
                       struct td_attr_value *value, struct td_error *err)
{
    char c = td_json_peek(scan);
    const char *kind = td_json_kind(c);
    td_status status = TD_OK;
    *value = (struct td_attr_value){ .kind = TD_VALUE_OTHER, .text = kind };
    switch (c) {
    case '"':
        value->kind = TD_VALUE_TEXT;
        return td_json_string(scan, arena, &value->text, &value->text_length, err);
    case '[':
        status = is_of_strings(*scan) ? read_names(scan, arena, value, err)
                                      : read_ints(scan, arena, value, err);
        break;
    case '{': {
        size_t commas;
        const char *end = td_json_measure(scan->at, scan->end, &commas);
        if (!end)
            return td_json_syntax(scan, scan->end, err, "expected the end of %s", kind);
        scan->at = end;
        break;
    }
    case 't':
    case 'f':
    case 'n':
        value->text = td_json_literal(scan, err);
        if (!value->text)
            return TD_MALFORMED_REQUEST;
        value->kind = c == 'n' ? TD_VALUE_OTHER : TD_VALUE_BOOL;
        value->boolean = c == 't';
        break;
    default:
        if (!kind)
            return td_json_syntax(scan, scan->at, err, "expected a value");
        status = read_number(scan, arena, value, err);
        break;
    }
    if (status != TD_OK)
        return status;
    value->text_length = strlen(value->text ? value->text : "");
    return TD_OK;
}
