#include "server/http/target.h"

#include <string.h>
#include <strings.h>

static const char scheme[] = "http://";

/* Returns the authority of a URI, or NULL for other targets. */
static const char *authority_of(const char *text)
{
    return strncasecmp(text, scheme, sizeof scheme - 1) == 0 ? text + sizeof scheme - 1 : NULL;
}

const char *td_target_path(const char *text)
{
    const char *authority = authority_of(text);
    return authority ? authority + strcspn(authority, "/?") : text;
}

static td_status refuse(const char *text, struct td_error *err)
{
    return td_error_set(err, TD_MALFORMED_REQUEST,
                        "'%.128s' is not a request target; expected a path like /v1/ops, "
                        "http://HOST/PATH, or * with OPTIONS",
                        text);
}

td_status td_target_read(const char *method, const char *text, struct td_target *out,
                         struct td_error *err)
{
    const bool is_options = strcmp(method, "OPTIONS") == 0;
    const char *authority = authority_of(text);
    *out = (struct td_target){ .path = text };
    if (!authority)
        return text[0] == '/' || (is_options && strcmp(text, "*") == 0) ? TD_OK : refuse(text, err);
    const char *path = td_target_path(text);
    const struct td_field host = { authority, (size_t)(path - authority) };
    if (!td_origin_is_authority(host))
        return refuse(text, err);
    out->authority = host;
    out->path = *path ? path : is_options ? "*" : "/";
    return TD_OK;
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* Returns the byte that the escape text[0..2] encodes, or -1 if the text is not an escape. */
static int escaped_byte(const char *text, const char *end)
{
    const int high = end - text > 2 ? hex_digit(text[1]) : -1;
    const int low = high >= 0 ? hex_digit(text[2]) : -1;
    return low >= 0 ? high * 16 + low : -1;
}

td_status td_target_check(const char *text, size_t length, const char *what, struct td_error *err)
{
    const char *end = text + length;
    for (const char *at = text; (at = memchr(at, '%', (size_t)(end - at))) != NULL; at += 3)
        if (escaped_byte(at, end) < 0)
            return td_error_set(
                err, TD_MALFORMED_REQUEST,
                "'%.*s' in %s is not an escape; expected %% and two hexadecimal digits",
                (int)(end - at < 3 ? end - at : 3), at, what);
    return TD_OK;
}

td_status td_target_decode(const char **text, size_t *length, const char *what,
                           struct td_arena *arena, struct td_error *err)
{
    const char *at = *text, *end = at + *length;
    size_t n = 0;
    if (!memchr(at, '%', *length))
        return TD_OK;
    const td_status status = td_target_check(at, *length, what, err);
    if (status != TD_OK)
        return status;
    char *decoded = td_arena_alloc(arena, *length + 1, 1, err);
    if (!decoded)
        return TD_MEMORY_EXHAUSTED;
    while (at < end) {
        const bool escaped = *at == '%';
        if (escaped)
            decoded[n++] = (char)escaped_byte(at, end);
        else
            decoded[n++] = *at;
        at += escaped ? 3 : 1;
    }
    decoded[n] = '\0';
    *text = decoded;
    *length = n;
    return TD_OK;
}

td_status td_target_decode_segment(const char **text, size_t *length, struct td_arena *arena,
                                   struct td_error *err)
{
    const td_status status = td_target_decode(text, length, "the path", arena, err);
    if (status == TD_OK && memchr(*text, '\0', *length))
        return td_error_set(err, TD_MALFORMED_REQUEST,
                            "the path contains a NUL (%%00), but names cannot contain a NUL");
    return status;
}
