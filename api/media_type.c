#include "api/media_type.h"

#include "kernels/name.h"
#include "kernels/shown_text.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { FORMATS = TD_FORMAT_NPY + 1 }; /* number of formats, without the Open Inference Protocol */

/* Names of the formats. Replies use the first name of a format. */
static const char *const types[FORMATS][2] = {
    [TD_FORMAT_JSON] = { "application/json", NULL },
    [TD_FORMAT_SAFETENSORS] = { "application/vnd.safetensors", "application/octet-stream" },
    [TD_FORMAT_NPY] = { "application/x-npy", "application/npy" },
};

const char *td_media_type(td_format format)
{
    return types[format][0];
}

const char *td_media_list(unsigned formats, char text[TD_MEDIA_LIST])
{
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < FORMATS; i++)
        if (formats >> i & 1)
            used += (size_t)snprintf(text + used, TD_MEDIA_LIST - used, "%s%s",
                                     used == 0           ? ""
                                     : formats >> i == 1 ? " or "
                                                         : ", ",
                                     types[i][0]);
    return text;
}

bool td_token_is(struct td_token token, const char *name)
{
    return td_name_is_caseless(name, token.text, token.length);
}

static struct td_token trim(const char *begin, const char *end)
{
    while (begin < end && (*begin == ' ' || *begin == '\t'))
        begin++;
    while (end > begin && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    return (struct td_token){ begin, (size_t)(end - begin) };
}

/* Removes and returns the text before the next `separator` outside quotes. Sets *rest to NULL after
 * the last part. */
static struct td_token cut(const char **rest, const char *end, char separator)
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

/* Splits "name = value" and removes the quotes around the value. */
static void split_parameter(struct td_token parameter, struct td_token *name,
                            struct td_token *value)
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

static bool names(struct td_token type, td_format format)
{
    const char *const *known = types[format];
    return td_token_is(type, known[0]) || (known[1] && td_token_is(type, known[1]));
}

/* ---- Content-Type ---- */

static td_status refuse_type(const char *what, struct td_token given, const char *expected,
                             struct td_error *err)
{
    td_error_set(err, TD_UNSUPPORTED_MEDIA_TYPE, "%s is \"%s\"; %s", what,
                 TD_SHOWN(given.text, given.length), expected);
    return td_error_at_attribute(err, TD_UNSUPPORTED_MEDIA_TYPE, "Content-Type");
}

static td_status check_charset(const char *parameters, const char *end, struct td_error *err)
{
    while (parameters) {
        struct td_token name, value;
        split_parameter(cut(&parameters, end, ';'), &name, &value);
        if (td_token_is(name, "charset") && !td_token_is(value, "utf-8") &&
            !td_token_is(value, "utf8") && !td_token_is(value, "us-ascii"))
            return refuse_type("charset", value, "JSON is UTF-8", err);
    }
    return TD_OK;
}

/* True for the default type of curl -d and --data-binary. */
static bool is_form(struct td_token type)
{
    return td_token_is(type, "application/x-www-form-urlencoded");
}

bool td_media_is_stated(const char *content_type)
{
    const char *rest = content_type;
    if (!content_type)
        return false;
    const struct td_token type = cut(&rest, content_type + strlen(content_type), ';');
    return type.length > 0 && !is_form(type);
}

td_status td_media_of_body(const char *content_type, unsigned formats, td_format *out,
                           struct td_error *err)
{
    *out = TD_FORMAT_JSON;
    if (!content_type)
        return TD_OK;
    const char *rest = content_type, *end = content_type + strlen(content_type);
    struct td_token type = cut(&rest, end, ';');
    if (type.length == 0)
        return TD_OK;
    for (int i = 0; i < FORMATS; i++) {
        if (i == TD_FORMAT_JSON || !(formats >> i & 1) || !names(type, (td_format)i))
            continue;
        *out = (td_format)i;
        return TD_OK;
    }
    if (names(type, TD_FORMAT_JSON) || is_form(type))
        return check_charset(rest, end, err);
    char list[TD_MEDIA_LIST], expected[TD_MEDIA_LIST + 16];
    snprintf(expected, sizeof expected, "expected %s", td_media_list(formats, list));
    return refuse_type("Content-Type", type, expected, err);
}

/* ---- lists of preferences ---- */

/* Parses a q-value and returns it in thousandths: "0.8" is 800. Malformed q-values count as 1. */
static int parse_q(struct td_token text)
{
    if (text.length == 0 || text.length > 5 || (text.text[0] != '0' && text.text[0] != '1') ||
        (text.length > 1 && text.text[1] != '.'))
        return 1000;
    int thousandths = (text.text[0] - '0') * 1000, digit_weight = 100;
    for (size_t i = 2; i < text.length; i++, digit_weight /= 10) {
        if (text.text[i] < '0' || text.text[i] > '9')
            return 1000;
        thousandths += (text.text[i] - '0') * digit_weight;
    }
    return thousandths < 1000 ? thousandths : 1000;
}

bool td_preference_next(const char **list, const char *list_end, struct td_preference *out)
{
    if (!*list)
        return false;
    struct td_token element = cut(list, list_end, ',');
    const char *parameters = element.text, *end = element.text + element.length;
    out->name = cut(&parameters, end, ';');
    out->weight = 1000;
    while (parameters) {
        struct td_token name, value;
        split_parameter(cut(&parameters, end, ';'), &name, &value);
        if (td_token_is(name, "q"))
            out->weight = parse_q(value);
    }
    return true;
}

/* ---- Accept ---- */

/* Returns how specifically a media range matches a format: 0 if it does not match, 1 for any type,
 * 2 for the main type of the format, 3 for its name. The default type of curl -d does not match any
 * reply format. */
static int match(struct td_token range, td_format format)
{
    if (td_token_is(range, "*/*") || td_token_is(range, "*"))
        return 1;
    if (td_token_is(range, "application/*"))
        return 2;
    return names(range, format) ? 3 : 0;
}

td_status td_media_of_reply(const char *accept, unsigned formats, td_format preferred,
                            td_format *out, struct td_error *err)
{
    int best_match[FORMATS] = { 0 }, q[FORMATS] = { 0 };
    const char *rest = accept, *end = accept ? accept + strlen(accept) : NULL;
    struct td_preference range;
    *out = preferred;
    if (!accept || trim(accept, end).length == 0)
        return TD_OK;
    while (td_preference_next(&rest, end, &range)) {
        /* The most specific range determines the q-value. Among equally specific ranges, the
         * highest q-value counts. */
        for (int i = 0; i < FORMATS; i++) {
            int specificity = match(range.name, (td_format)i);
            if (specificity == 0 || specificity < best_match[i])
                continue;
            if (specificity > best_match[i] || range.weight > q[i])
                q[i] = range.weight;
            best_match[i] = specificity;
        }
    }
    for (int i = 0; i < FORMATS; i++)
        if ((formats >> i & 1) && q[i] > q[*out])
            *out = (td_format)i;
    if (q[*out] > 0)
        return TD_OK;
    char list[TD_MEDIA_LIST];
    td_error_set(err, TD_NOT_ACCEPTABLE, "Accept is \"%.100s\"; it must allow %s", accept,
                 td_media_list(formats, list));
    return td_error_at_attribute(err, TD_NOT_ACCEPTABLE, "Accept");
}
