#include "api/files/range.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* A parsed Range header. A position that does not fit in 64 bits is stored as UINT64_MAX. */
struct spec {
    /* For "-5", only `last` is set: the number of bytes at the end. */
    bool has_first, has_last;
    uint64_t first, last;
};

static const char *skip(const char *at, const char *characters)
{
    return at + strspn(at, characters);
}

static const char *read_position(const char *at, bool *found, uint64_t *out)
{
    *found = *at >= '0' && *at <= '9';
    *out = 0;
    for (; *at >= '0' && *at <= '9'; at++)
        if (__builtin_mul_overflow(*out, (uint64_t)10, out) ||
            __builtin_add_overflow(*out, (uint64_t)(*at - '0'), out))
            return *out = UINT64_MAX, at + strspn(at, "0123456789");
    return at;
}

/* Parses a Range header. Returns false if the header has several ranges, uses a unit other than
 * bytes, or is malformed. */
static bool read_spec(const char *range, struct spec *out)
{
    /* Skips empty elements, which the list of ranges can contain. */
    static const char between[] = " \t,";
    const char *at = skip(range, " \t");
    if (strncasecmp(at, "bytes=", 6) != 0)
        return false;
    at = read_position(skip(at + 6, between), &out->has_first, &out->first);
    if (*at != '-')
        return false;
    at = read_position(at + 1, &out->has_last, &out->last);
    if (*skip(at, between) != '\0' || (!out->has_first && !out->has_last))
        return false;
    return !out->has_first || !out->has_last || out->first <= out->last;
}

/* Reduces the reply to its bytes [begin, end) without copying the chunks. */
static void cut(struct td_reply *reply, size_t begin, size_t end)
{
    int kept = 0;
    size_t at = 0; /* offset of the chunk in the reply */
    for (int i = 0; i < reply->n_chunks; i++) {
        struct td_chunk chunk = reply->chunks[i];
        size_t from = begin > at ? begin - at : 0, to = end > at ? end - at : 0;
        at += chunk.size;
        to = to < chunk.size ? to : chunk.size;
        if (from < to)
            reply->chunks[kept++] = (struct td_chunk){ (const char *)chunk.data + from, to - from };
    }
    reply->n_chunks = kept;
}

/* Adds the header Content-Range. */
static td_status add_content_range(struct td_reply *reply, struct td_arena *arena,
                                   struct td_error *err, const char *text)
{
    const char *value = td_arena_text(arena, text, strlen(text), err);
    if (!value)
        return err->status;
    td_reply_header(reply, "Content-Range", value);
    return TD_OK;
}

td_status td_range_apply(const char *range, struct td_reply *reply, struct td_arena *arena,
                         struct td_error *err)
{
    struct spec spec;
    char text[80]; /* enough for three numbers of 20 digits */
    uint64_t size = td_reply_bytes(reply);
    td_reply_header(reply, "Accept-Ranges", "bytes");
    if (!range || reply->http_status != 200 || !read_spec(range, &spec))
        return TD_OK;
    uint64_t begin = spec.first, end = size;
    if (!spec.has_first)
        begin = spec.last == 0 ? size : spec.last < size ? size - spec.last : 0;
    else if (spec.has_last && spec.last < size)
        end = spec.last + 1;
    if (begin < size) {
        snprintf(text, sizeof text, "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64, begin, end - 1, size);
        td_status status = add_content_range(reply, arena, err, text);
        if (status != TD_OK)
            return status;
        cut(reply, begin, end);
        reply->http_status = 206;
        return TD_OK;
    }
    snprintf(text, sizeof text, "bytes */%" PRIu64, size);
    td_status status = add_content_range(reply, arena, err, text);
    if (status != TD_OK)
        return status;
    td_error_set(err, TD_RANGE_NOT_SATISFIABLE,
                 "Range is \"%.100s\", but the reply has %" PRIu64 " bytes, numbered from 0", range,
                 size);
    return td_error_at_attribute(err, TD_RANGE_NOT_SATISFIABLE, "Range");
}
