#include "api/codec.h"

#include "api/json_encode.h"
#include "api/safetensors.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* ---- media types ---- */

/* A piece of a header's text. */
struct token {
    const char *text;
    size_t length;
};

static bool is(struct token token, const char *name)
{
    return strlen(name) == token.length && strncasecmp(token.text, name, token.length) == 0;
}

static struct token trim(const char *begin, const char *end)
{
    while (begin < end && (*begin == ' ' || *begin == '\t'))
        begin++;
    while (end > begin && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    return (struct token){ begin, (size_t)(end - begin) };
}

/* Cuts off and returns what stands before the next `separator` outside quotes; *rest is NULL after
 * the last. */
static struct token cut(const char **rest, const char *end, char separator)
{
    const char *begin = *rest, *at = begin;
    bool quoted = false;
    for (; at < end && (quoted || *at != separator); at++) {
        if (quoted && *at == '\\' && at + 1 < end)
            at++;
        else if (*at == '"')
            quoted = !quoted;
    }
    *rest = at < end ? at + 1 : NULL;
    return trim(begin, at);
}

/* Splits "name = value"; quotes around the value are taken off. */
static void split_parameter(struct token parameter, struct token *name, struct token *value)
{
    const char *end = parameter.text + parameter.length;
    const char *equals = memchr(parameter.text, '=', parameter.length);
    *name = trim(parameter.text, equals ? equals : end);
    *value = trim(equals ? equals + 1 : end, end);
    if (value->length >= 2 && value->text[0] == '"' && value->text[value->length - 1] == '"') {
        value->text++;
        value->length -= 2;
    }
}

static bool is_json(struct token type)
{
    return is(type, "application/json") || is(type, "application/x-www-form-urlencoded");
}

static bool is_safetensors(struct token type)
{
    return is(type, "application/vnd.safetensors") || is(type, "application/octet-stream");
}

td_status td_codec_request_format(const char *content_type, td_format *out, struct td_error *err)
{
    *out = TD_FORMAT_JSON;
    if (!content_type)
        return TD_OK;
    const char *rest = content_type, *end = content_type + strlen(content_type);
    struct token type = cut(&rest, end, ';');
    if (type.length == 0)
        return TD_OK;
    if (is_safetensors(type)) {
        *out = TD_FORMAT_SAFETENSORS;
        return TD_OK;
    }
    if (!is_json(type)) {
        td_error_set(err, TD_UNSUPPORTED_MEDIA_TYPE,
                     "Content-Type is \"%.*s\"; expected application/json or "
                     "application/vnd.safetensors",
                     (int)(type.length < 100 ? type.length : 100), type.text);
        return td_error_at_attribute(err, TD_UNSUPPORTED_MEDIA_TYPE, "Content-Type");
    }
    while (rest) {
        struct token name, value;
        split_parameter(cut(&rest, end, ';'), &name, &value);
        if (is(name, "charset") && !is(value, "utf-8") && !is(value, "utf8") &&
            !is(value, "us-ascii")) {
            td_error_set(err, TD_UNSUPPORTED_MEDIA_TYPE, "charset is \"%.*s\"; JSON is UTF-8",
                         (int)(value.length < 100 ? value.length : 100), value.text);
            return td_error_at_attribute(err, TD_UNSUPPORTED_MEDIA_TYPE, "Content-Type");
        }
    }
    return TD_OK;
}

/* ---- Accept ---- */

/* A q-value in thousandths: "0.8" is 800. What is no q-value counts as 1, as if it were not there.
 */
static int quality(struct token text)
{
    if (text.length == 0 || (text.text[0] != '0' && text.text[0] != '1'))
        return 1000;
    int thousandths = (text.text[0] - '0') * 1000, unit = 100;
    for (size_t i = 2; i < text.length && text.text[1] == '.'; i++, unit /= 10) {
        if (text.text[i] < '0' || text.text[i] > '9')
            return 1000;
        thousandths += (text.text[i] - '0') * unit;
    }
    return thousandths < 1000 ? thousandths : 1000;
}

/* How closely a media range names a format: 0 not at all, 1 as one of all, 2 as one of its type, 3
 * by name. */
static int match(struct token range, td_format format)
{
    if (is(range, "*/*") || is(range, "*"))
        return 1;
    if (is(range, "application/*"))
        return 2;
    /* Not is_json: the form type that curl -d puts on a JSON body names no format of a reply. */
    bool named = format == TD_FORMAT_JSON ? is(range, "application/json") : is_safetensors(range);
    return named ? 3 : 0;
}

td_status td_codec_reply_format(const char *accept, td_format request_format, td_format *out,
                                struct td_error *err)
{
    enum { FORMATS = 2 };
    int best_match[FORMATS] = { 0 }, q[FORMATS] = { 0 };
    const char *rest = accept, *end = accept ? accept + strlen(accept) : NULL;
    *out = request_format;
    if (!accept || trim(accept, end).length == 0)
        return TD_OK;
    while (rest) {
        struct token element = cut(&rest, end, ',');
        const char *parameters = element.text, *element_end = element.text + element.length;
        struct token range = cut(&parameters, element_end, ';');
        int range_q = 1000;
        while (parameters) {
            struct token name, value;
            split_parameter(cut(&parameters, element_end, ';'), &name, &value);
            if (is(name, "q"))
                range_q = quality(value);
        }
        /* The most specific range decides; of equally specific ones the most favourable. */
        for (int format = 0; format < FORMATS; format++) {
            int closeness = match(range, (td_format)format);
            if (closeness == 0 || closeness < best_match[format])
                continue;
            if (closeness > best_match[format] || range_q > q[format])
                q[format] = range_q;
            best_match[format] = closeness;
        }
    }
    td_format other = request_format == TD_FORMAT_JSON ? TD_FORMAT_SAFETENSORS : TD_FORMAT_JSON;
    if (q[other] > q[request_format])
        *out = other;
    if (q[*out] > 0)
        return TD_OK;
    size_t length = strlen(accept);
    td_error_set(err, TD_NOT_ACCEPTABLE,
                 "Accept is \"%.*s\"; results come as application/json or "
                 "application/vnd.safetensors",
                 (int)(length < 100 ? length : 100), accept);
    return td_error_at_attribute(err, TD_NOT_ACCEPTABLE, "Accept");
}

/* ---- dispatch ---- */

td_status td_codec_decode(td_format format, const char *body, size_t bytes,
                          struct td_resolver *resolver, struct td_arena *arena,
                          struct td_request *request, struct td_error *err)
{
    if (format == TD_FORMAT_SAFETENSORS)
        return td_safetensors_decode(body, bytes, resolver, arena, request, err);
    return td_json_decode(body, bytes, resolver, arena, request, err);
}

td_status td_codec_can_encode(td_format format, const struct td_request *request,
                              struct td_error *err)
{
    return format == TD_FORMAT_SAFETENSORS ? td_safetensors_can_encode(request, err) : TD_OK;
}

bool td_codec_encoded_bound(td_format format, const struct td_request *request, size_t *bytes)
{
    return format == TD_FORMAT_SAFETENSORS ? td_safetensors_encoded_bound(request, bytes)
                                           : td_json_encoded_bound(request, bytes);
}

td_status td_codec_encode(td_format format, const struct td_request *request,
                          struct td_arena *arena, struct td_reply *reply, struct td_error *err)
{
    return format == TD_FORMAT_SAFETENSORS ? td_safetensors_encode(request, arena, reply, err)
                                           : td_json_encode(request, arena, reply, err);
}
