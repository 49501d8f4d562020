#include "api/json/tensor.h"

#include "api/json/array.h"
#include "api/json/hints.h"
#include "api/json/parse_scalars.h"
#include "api/json/values.h"
#include "api/message/raw.h"
#include "api/text/base64.h"
#include "api/text/suggest.h"
#include "kernels/name.h"
#include "kernels/shown_text.h"

#include <stdio.h>
#include <string.h>

_Static_assert(TD_JSON_PADDING >= TD_JSON_SCALARS_SLACK, "arrays read ahead within the padding");

enum member { MEMBER_DTYPE, MEMBER_SHAPE, MEMBER_DATA, MEMBER_BASE64, MEMBER_REF, MEMBER_COUNT };

/* Member names of a tensor. Some inputs accept an object with the last name, "keys", instead of a
 * tensor. */
static const char *const member_names[MEMBER_COUNT + 1] = { "dtype",  "shape", "data",
                                                            "base64", "ref",   "keys" };

#define SEEN(member) (1u << MEMBER_##member)

struct object {
    unsigned seen; /* SEEN() bits of the members read so far */
    td_dtype dtype;
    td_dtype_set others; /* dtypes that error messages suggest instead */
    struct td_shape shape;
    /* Data that was skipped because it comes before dtype or shape. */
    struct td_json_skipped data;
    bool data_read;
    const char *text; /* value of base64 or ref, unescaped */
    size_t text_length;
};

/* Reads "data", or skips it if dtype and shape are not known yet. */
static td_status read_data(struct td_json_source *source, const struct td_json_path *path,
                           struct object *object, struct td_tensor *out)
{
    if ((object->seen & SEEN(DTYPE)) && (object->seen & SEEN(SHAPE))) {
        object->data_read = true;
        return td_json_read_typed(&source->scan, object->dtype, object->others, &object->shape,
                                  path, source->arena, out, source->err);
    }
    return td_json_skip_unread(&source->scan, &object->data, source->err);
}

static td_status read_member(struct td_json_source *source, const struct td_json_path *path,
                             struct object *object, enum member member, struct td_tensor *out)
{
    switch (member) {
    case MEMBER_DTYPE:
        return td_json_dtype(&source->scan, source->arena, path, &object->dtype, source->err);
    case MEMBER_SHAPE:
        return td_json_shape(&source->scan, path, &object->shape, source->err);
    case MEMBER_DATA:
        return read_data(source, path, object, out);
    default:
        return td_json_text(&source->scan, source->arena, path, member_names[member], &object->text,
                            &object->text_length, source->err);
    }
}

/* True for a tensor without data in a plan. */
static bool is_declared(const struct td_json_source *source, unsigned seen)
{
    return source->is_plan && seen == (SEEN(DTYPE) | SEEN(SHAPE));
}

/* Checks that the members of the object describe a tensor. */
static td_status check_members(struct td_json_source *source, const struct td_json_path *path,
                               unsigned seen)
{
    const char *problem = NULL;
    if ((seen & SEEN(REF)) && seen != SEEN(REF))
        problem = "a tensor with ref cannot have other members";
    else if (!(seen & (SEEN(REF) | SEEN(DATA) | SEEN(BASE64))) && !is_declared(source, seen))
        problem = "a tensor must have data, base64 or ref";
    else if ((seen & SEEN(DATA)) && (seen & SEEN(BASE64)))
        problem = "a tensor cannot have both data and base64";
    else if (!(seen & (SEEN(REF) | SEEN(DTYPE))))
        problem = "dtype is missing; a tensor without dtype must be a plain nested list";
    else if ((seen & SEEN(BASE64)) && !(seen & SEEN(SHAPE)))
        problem = "shape is missing; base64 requires it";
    return problem ? td_json_refuse(path, source->err, "%s", problem) : TD_OK;
}

/* Decodes base64 text in steps. Returns the length of the text, or the position of the first
 * character that is not base64. */
static size_t decode_text(struct td_json_source *source, const char *text, size_t length,
                          char *bytes, td_status *status)
{
    for (size_t at = 0; at < length;) {
        const size_t left = length - at;
        size_t step = left < TD_STOP_STEP ? left : TD_STOP_STEP;
        /* Padding before the end is an error, so no step except the last may end with padding. */
        while (step < left && text[at + step - 1] == '=')
            step += 4;
        const size_t done = td_base64_decode(bytes, text + at, step);
        if (done != step)
            return at + done;
        at += step;
        bytes += step / 4 * 3;
        *status = at < length ? td_stop_check(&source->arena->stop, source->err) : TD_OK;
        if (*status != TD_OK)
            break;
    }
    return length;
}

/* Returns the position of the first character outside the alphabet or the first padding before the
 * end. */
static size_t find_bad_character(const char *text, size_t length)
{
    size_t at = 0;
    while (at < length && (td_base64_is_digit(text[at]) || (text[at] == '=' && at + 2 >= length)))
        at++;
    return at;
}

static td_status refuse_character(const struct td_json_path *path, const char *text, size_t at,
                                  struct td_error *err)
{
    const unsigned char c = (unsigned char)text[at];
    char why[96];
    if (c == '-' || c == '_')
        snprintf(why, sizeof why, "'%c' belongs to the URL-safe alphabet; expected '%c'", c,
                 c == '-' ? '+' : '/');
    else if (c == '=')
        snprintf(why, sizeof why, "'=' is only allowed at the end");
    else if (td_base64_is_digit(text[at]))
        snprintf(why, sizeof why, "its unused bits are not 0; the text is damaged or cut off");
    else if (c > ' ' && c < 0x7f)
        snprintf(why, sizeof why, "'%c'; expected A-Z, a-z, 0-9, '+' or '/'", c);
    else
        snprintf(why, sizeof why, "byte 0x%02x; white space and line breaks are not allowed", c);
    return td_json_refuse(path, err, "character %zu is not base64 (RFC 4648, section 4): %s", at,
                          why);
}

/* Reports text whose length is wrong for the tensor. If the text contains a character that is not
 * base64, the error names that character instead. */
static td_status refuse_length(const struct td_json_path *path, const char *text, size_t length,
                               const struct td_tensor *tensor, size_t size, struct td_error *err)
{
    char shape[TD_SHAPE_TEXT];
    const size_t bad = find_bad_character(text, length);
    if (bad < length)
        return refuse_character(path, text, bad, err);
    if (length % 4 == 1)
        return td_json_refuse(
            path, err, "base64 has %zu characters; expected a multiple of 4. The text is cut off",
            length);
    if (length % 4 != 0)
        return td_json_refuse(path, err,
                              "base64 has %zu characters; expected a multiple of 4, padded with "
                              "'='. Append %zu more '='",
                              length, 4 - length % 4);
    return td_json_refuse(path, err, "base64 holds %zu bytes, but %s of shape %s takes %zu", size,
                          td_dtype_info(tensor->dtype)->name,
                          td_shape_text(&tensor->shape, shape, sizeof shape), tensor->bytes);
}

static td_status decode_base64(struct td_json_source *source, const struct td_json_path *path,
                               const struct object *object, struct td_tensor *out)
{
    memset(out, 0, sizeof *out);
    td_status status =
        td_tensor_describe(out, "base64", object->dtype, &object->shape, source->err);
    if (status != TD_OK)
        return status;
    size_t size;
    const bool strings = object->dtype == TD_DTYPE_STRING;
    if (!td_base64_decoded_size(object->text, object->text_length, &size) ||
        (!strings && size != out->bytes))
        return refuse_length(path, object->text, object->text_length, out, size, source->err);
    char *bytes = td_arena_alloc(source->arena, size, 1, source->err);
    if (!bytes)
        return source->err->status;
    const size_t done = decode_text(source, object->text, object->text_length, bytes, &status);
    if (status != TD_OK)
        return status;
    if (done != object->text_length)
        return refuse_character(path, object->text, done, source->err);
    out->data = bytes;
    status = strings ? td_raw_strings(bytes, size, out, source->arena, source->err)
                     : td_raw_check(out, source->err);
    if (status == TD_MALFORMED_REQUEST)
        td_json_set_pointer(path, source->err);
    return status;
}

static td_status refuse_member(struct td_json_source *source, const struct td_json_path *step,
                               const char *key, size_t length)
{
    const bool or_keys = source->or_keys;
    td_json_refuse(step, source->err,
                   "a tensor has no member \"%s\"; expected dtype, shape, data, base64 %s",
                   TD_SHOWN(key, length), or_keys ? "or ref, or keys alone" : "or ref");
    td_suggest(source->err, key, length, member_names, or_keys ? MEMBER_COUNT + 1 : MEMBER_COUNT);
    if (!td_name_is("keys", key, length))
        return TD_MALFORMED_REQUEST;
    if (source->of_keys)
        td_error_hint(source->err, "give the keys as a plain list, without the member \"keys\"");
    else if (!step->up) /* the body itself is the tensor */
        td_error_hint(source->err,
                      "give a table and its keys as {\"tensor\": ..., \"keys\": [...]}");
    else
        td_error_hint(source->err, "look up the rows by key first, and store them");
    return TD_MALFORMED_REQUEST;
}

/* Finds the member with this name. Unknown and repeated names are errors. */
static td_status find_member(struct td_json_source *source, const struct td_json_path *step,
                             const char *key, size_t length, unsigned seen, enum member *out)
{
    unsigned member = 0;
    while (member < MEMBER_COUNT && !td_name_is(member_names[member], key, length))
        member++;
    if (member == MEMBER_COUNT)
        return refuse_member(source, step, key, length);
    if (seen & 1u << member) {
        td_json_refuse(step, source->err, "%s is given twice", member_names[member]);
        return TD_MALFORMED_REQUEST;
    }
    *out = (enum member)member;
    return TD_OK;
}

/* Builds a tensor from an object whose members have all been read and checked. */
static td_status finish_object(struct td_json_source *source, const struct td_json_path *path,
                               struct object *object, struct td_tensor *out)
{
    if (object->seen & SEEN(REF)) {
        struct td_json_path step = td_json_member(path, "ref", 3);
        td_status status = td_resolve(source->resolver, object->text, object->text_length,
                                      source->arena, out, source->err);
        if (status != TD_OK)
            td_json_set_pointer(&step, source->err);
        return status;
    }
    if (object->seen & SEEN(BASE64)) {
        struct td_json_path step = td_json_member(path, "base64", 6);
        source->has_complex_base64 |= td_dtype_is_complex(object->dtype);
        return decode_base64(source, &step, object, out);
    }
    if (is_declared(source, object->seen))
        return td_tensor_describe(out, "the tensor", object->dtype, &object->shape, source->err);
    if (object->data_read)
        return TD_OK;
    struct td_json_path step = td_json_member(path, "data", 4);
    const td_status status = td_json_read_typed(&object->data.scan, object->dtype, object->others,
                                                object->seen & SEEN(SHAPE) ? &object->shape : NULL,
                                                &step, source->arena, out, source->err);
    return status != TD_OK ? status : td_json_skipped_end(&object->data, source->err);
}

static td_status read_object(struct td_json_source *source, td_dtype_set others,
                             const struct td_json_path *path, struct td_tensor *out)
{
    struct object object = { .others = others };
    bool more;
    td_status status = td_json_open(&source->scan, '{', '}', &more, source->err);
    if (status != TD_OK)
        return status;
    while (more) {
        const char *key = "";
        size_t length = 0;
        enum member member = MEMBER_COUNT;
        status = td_json_key(&source->scan, source->arena, &key, &length, source->err);
        if (status != TD_OK)
            return status;
        struct td_json_path step = td_json_member(path, key, length);
        status = find_member(source, &step, key, length, object.seen, &member);
        if (status != TD_OK)
            return status;
        if (member == MEMBER_REF && object.seen)
            return check_members(source, path, object.seen | SEEN(REF));
        status = read_member(source, &step, &object, member, out);
        if (status != TD_OK)
            return status;
        object.seen |= 1u << member;
        status = td_json_next(&source->scan, '}', &more, source->err);
        if (status != TD_OK)
            return status;
    }
    status = check_members(source, path, object.seen);
    return status == TD_OK ? finish_object(source, path, &object, out) : status;
}

td_status td_json_tensor(struct td_json_source *source, const td_dtype *as,
                         struct td_untyped untyped, const struct td_json_path *path,
                         struct td_tensor *out)
{
    td_json_peek(&source->scan);
    const struct td_json_scan begin = source->scan;
    if (begin.at < begin.end && *begin.at == '{') {
        const td_status read = read_object(source, untyped.others, path, out);
        if (read == TD_MALFORMED_REQUEST)
            td_json_hint_typed_array(source->err, begin.at, begin.end);
        return read;
    }
    if (!as)
        return td_json_read_untyped(&source->scan, untyped, path, source->arena, out, source->err);
    const td_status status = td_json_read_typed(&source->scan, *as, untyped.others, NULL, path,
                                                source->arena, out, source->err);
    if (status == TD_MALFORMED_REQUEST)
        td_json_hint_string(&begin, source);
    return status;
}
