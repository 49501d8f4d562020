#include "api/json/string_map.h"

#include "kernels/shown_text.h"

#include <string.h>

struct reader {
    struct td_json_scan *scan;
    struct td_arena *arena;
    struct td_string_map *map;
    int capacity;
    struct td_error *err;
};

/* Returns a NUL-terminated copy of the text. Returns NULL with err filled if the text contains a
 * NUL. */
static const char *copy(const struct td_json_path *path, const char *what, const char *text,
                        size_t length, struct td_arena *arena, struct td_error *err)
{
    if (!memchr(text, '\0', length))
        return td_arena_text(arena, text, length, err);
    td_json_refuse(path, err, "%s is \"%s\", which contains a NUL", what, TD_SHOWN(text, length));
    return NULL;
}

td_status td_json_c_string(struct td_json_scan *scan, const struct td_json_path *path,
                           const char *what, struct td_arena *arena, const char **out,
                           struct td_error *err)
{
    const char *text = "", *kind;
    size_t length = 0;
    if (td_json_peek(scan) != '"') {
        kind = td_json_value_kind(scan);
        return kind ? td_json_refuse(path, err, "%s is %s; expected a string", what, kind)
                    : td_json_syntax(scan, scan->at, err, "expected a string");
    }
    const td_status status = td_json_string(scan, arena, &text, &length, err);
    if (status != TD_OK)
        return status;
    *out = copy(path, what, text, length, arena, err);
    return *out ? TD_OK : err->status;
}

static td_status add(struct reader *reader, struct td_string_pair pair)
{
    struct td_string_map *map = reader->map;
    if (map->count == reader->capacity) {
        const int capacity = reader->capacity ? 2 * reader->capacity : 8;
        struct td_string_pair *larger =
            td_arena_alloc(reader->arena, (size_t)capacity, sizeof *larger, reader->err);
        if (!larger)
            return reader->err->status;
        if (map->count > 0)
            memcpy(larger, map->pairs, (size_t)map->count * sizeof *larger);
        map->pairs = larger;
        reader->capacity = capacity;
    }
    map->pairs[map->count++] = pair;
    return TD_OK;
}

static td_status read_member(void *context, const struct td_json_path *path,
                             struct td_json_name name)
{
    struct reader *reader = context;
    struct td_string_pair pair = { 0 };
    bool is_null;
    pair.name = copy(path, "the name", name.text, name.length, reader->arena, reader->err);
    if (!pair.name)
        return reader->err->status;
    td_status status = td_json_null(reader->scan, &is_null, reader->err);
    if (status == TD_OK && !is_null)
        status = td_json_c_string(reader->scan, path, TD_SHOWN(name.text, name.length),
                                  reader->arena, &pair.value, reader->err);
    return status == TD_OK ? add(reader, pair) : status;
}

td_status td_json_string_map(struct td_json_scan *scan, const struct td_json_path *path,
                             const char *what, struct td_arena *arena, struct td_string_map *out,
                             struct td_error *err)
{
    struct reader reader = { .scan = scan, .arena = arena, .map = out, .err = err };
    *out = (struct td_string_map){ 0 };
    return td_json_object(scan, path, what, read_member, &reader, arena, err);
}
