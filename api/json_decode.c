#include "api/json_decode.h"

#include "api/attrs.h"
#include "api/base64.h"
#include "api/json_array.h"
#include "api/json_leaves.h"
#include "api/json_values.h"
#include "api/raw.h"
#include "api/suggest.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(TD_JSON_PADDING >= TD_JSON_LEAVES_SLACK, "arrays read ahead within the padding");

struct reader {
    struct td_json_scan scan;
    struct td_resolver *resolver;
    struct td_arena *arena;
    struct td_request *request;
    struct td_error *err;
};

/* ---- a tensor given as an object ---- */

enum member { MEMBER_DTYPE, MEMBER_SHAPE, MEMBER_DATA, MEMBER_BASE64, MEMBER_REF, MEMBER_COUNT };

static const char *const member_names[MEMBER_COUNT] = { "dtype", "shape", "data", "base64", "ref" };

#define SEEN(member) (1u << MEMBER_##member)

struct object {
    unsigned seen; /* SEEN(...) of the members so far */
    td_dtype dtype;
    struct td_shape shape;
    struct td_json_scan data; /* where it stands, when it has to wait for dtype or shape */
    bool data_read;
    const char *text; /* of base64 or ref, unescaped */
    size_t text_length;
};

/* Reads "data" where scan stands, or passes over it until dtype and shape are known. */
static td_status read_data(struct reader *reader, const struct td_json_path *path,
                           struct object *object, struct td_tensor *out)
{
    if ((object->seen & SEEN(DTYPE)) && (object->seen & SEEN(SHAPE))) {
        object->data_read = true;
        return td_json_read_typed(&reader->scan, object->dtype, &object->shape, path, reader->arena,
                                  out, reader->err);
    }
    td_json_peek(&reader->scan);
    object->data = reader->scan;
    size_t commas;
    const char *end = td_json_measure(reader->scan.at, reader->scan.end, &commas);
    if (!end)
        return td_json_syntax(&reader->scan, reader->scan.end, reader->err,
                              "expected the end of data");
    reader->scan.at = end;
    return TD_OK;
}

static td_status read_member(struct reader *reader, const struct td_json_path *path,
                             struct object *object, enum member member, struct td_tensor *out)
{
    switch (member) {
    case MEMBER_DTYPE:
        return td_json_dtype(&reader->scan, reader->arena, path, &object->dtype, reader->err);
    case MEMBER_SHAPE:
        return td_json_shape(&reader->scan, path, &object->shape, reader->err);
    case MEMBER_DATA:
        return read_data(reader, path, object, out);
    default:
        return td_json_text(&reader->scan, reader->arena, path, member_names[member], &object->text,
                            &object->text_length, reader->err);
    }
}

/* Which member combinations make a tensor. */
static td_status check_members(struct reader *reader, const struct td_json_path *path,
                               unsigned seen)
{
    const char *problem = NULL;
    if ((seen & SEEN(REF)) && seen != SEEN(REF))
        problem = "a tensor with ref has no other member";
    else if (!(seen & (SEEN(REF) | SEEN(DATA) | SEEN(BASE64))))
        problem = "a tensor has data, base64 or ref; none of them is here";
    else if ((seen & SEEN(DATA)) && (seen & SEEN(BASE64)))
        problem = "a tensor has data or base64, not both";
    else if (!(seen & (SEEN(REF) | SEEN(DTYPE))))
        problem = "dtype is missing; without it a tensor is a plain nested list";
    else if ((seen & SEEN(BASE64)) && !(seen & SEEN(SHAPE)))
        problem = "shape is missing; base64 needs it";
    return problem ? td_json_refuse(path, reader->err, "%s", problem) : TD_OK;
}

static td_status decode_base64(struct reader *reader, const struct td_json_path *path,
                               const struct object *object, struct td_tensor *out)
{
    memset(out, 0, sizeof *out);
    td_status status =
        td_tensor_describe(out, "base64", object->dtype, &object->shape, reader->err);
    if (status != TD_OK)
        return status;
    size_t size;
    if (!td_base64_decoded_size(object->text, object->text_length, &size))
        return td_json_refuse(path, reader->err,
                              "base64 of %zu letters is cut off: expected a multiple of 4, padded "
                              "with '='",
                              object->text_length);
    bool strings = object->dtype == TD_DTYPE_STRING;
    if (!strings && size != out->bytes) {
        char text[TD_SHAPE_TEXT];
        return td_json_refuse(path, reader->err,
                              "base64 holds %zu bytes, but %s of shape %s takes %zu", size,
                              td_dtype_info(object->dtype)->name,
                              td_shape_text(&object->shape, text, sizeof text), out->bytes);
    }
    char *bytes = td_arena_alloc(reader->arena, size, 1, reader->err);
    if (!bytes)
        return reader->err->status;
    size_t done = td_base64_decode(bytes, object->text, object->text_length);
    if (done != object->text_length)
        return td_json_refuse(path, reader->err, "letter %zu is not base64 (RFC 4648, section 4)",
                              done);
    out->data = bytes;
    status = strings ? td_raw_strings(bytes, size, out, reader->arena, reader->err)
                     : td_raw_check(out, reader->err);
    if (status == TD_MALFORMED_REQUEST)
        td_json_point(path, reader->err);
    return status;
}

static td_status read_object(struct reader *reader, const struct td_json_path *path,
                             struct td_tensor *out)
{
    struct object object = { 0 };
    bool more;
    td_status status = td_json_open(&reader->scan, '{', '}', &more, reader->err);
    if (status != TD_OK)
        return status;
    while (more) {
        const char *key = "";
        size_t length = 0;
        status = td_json_key(&reader->scan, reader->arena, &key, &length, reader->err);
        if (status != TD_OK)
            return status;
        struct td_json_path step = td_json_member(path, key, length);
        unsigned member = 0;
        while (member < MEMBER_COUNT && (strlen(member_names[member]) != length ||
                                         memcmp(member_names[member], key, length) != 0))
            member++;
        if (member == MEMBER_COUNT) {
            td_json_refuse(
                &step, reader->err,
                "a tensor has no member \"%.*s\"; expected dtype, shape, data, base64 or "
                "ref",
                (int)(length < 64 ? length : 64), key);
            td_suggest(reader->err, key, length, member_names, MEMBER_COUNT);
            return TD_MALFORMED_REQUEST;
        }
        if (object.seen & 1u << member)
            return td_json_refuse(&step, reader->err, "%s is given twice", member_names[member]);
        if (member == MEMBER_REF && object.seen)
            return check_members(reader, path, object.seen | SEEN(REF));
        status = read_member(reader, &step, &object, (enum member)member, out);
        if (status != TD_OK)
            return status;
        object.seen |= 1u << member;
        status = td_json_next(&reader->scan, '}', &more, reader->err);
        if (status != TD_OK)
            return status;
    }
    status = check_members(reader, path, object.seen);
    if (status != TD_OK)
        return status;

    if (object.seen & SEEN(REF)) {
        struct td_json_path step = td_json_member(path, "ref", 3);
        status = td_resolve(reader->resolver, object.text, object.text_length, reader->arena, out,
                            reader->err);
        if (status != TD_OK)
            td_json_point(&step, reader->err);
        return status;
    }
    if (object.seen & SEEN(BASE64)) {
        struct td_json_path step = td_json_member(path, "base64", 6);
        return decode_base64(reader, &step, &object, out);
    }
    if (object.data_read)
        return TD_OK;
    struct td_json_path step = td_json_member(path, "data", 4);
    return td_json_read_typed(&object.data, object.dtype,
                              object.seen & SEEN(SHAPE) ? &object.shape : NULL, &step,
                              reader->arena, out, reader->err);
}

/* ---- inputs ---- */

static td_status read_tensor(struct reader *reader, const struct td_input_spec *spec,
                             const struct td_json_path *path, struct td_tensor *out)
{
    return td_json_peek(&reader->scan) == '{'
               ? read_object(reader, path, out)
               : td_json_read_untyped(&reader->scan, spec->empty_dtype, path, reader->arena, out,
                                      reader->err);
}

/* Doubles the room for the tensors of a list. */
static struct td_tensor *grow(struct td_arena *arena, const struct td_tensor *tensors, int count,
                              int room, struct td_error *err)
{
    struct td_tensor *larger = td_arena_alloc(arena, (size_t)room, sizeof *larger, err);
    if (larger && count)
        memcpy(larger, tensors, (size_t)count * sizeof *larger);
    return larger;
}

static td_status read_list(struct reader *reader, const struct td_input_spec *spec,
                           const struct td_json_path *path, struct td_operand *operand)
{
    struct td_json_scan *scan = &reader->scan;
    char c = td_json_peek(scan);
    const char *kind = td_json_kind(c);
    if (!kind)
        return td_json_syntax(scan, scan->at, reader->err, "expected a list of tensors");
    if (c != '[') {
        td_json_refuse(path, reader->err, "%s is %s; a list of tensors is expected", spec->name,
                       kind);
        return td_error_at_input(reader->err, TD_MALFORMED_REQUEST, "%s", spec->name);
    }
    bool more;
    td_status status = td_json_open(scan, '[', ']', &more, reader->err);
    if (status != TD_OK)
        return status;
    int room = 4;
    operand->count = 0;
    operand->tensors = grow(reader->arena, NULL, 0, room, reader->err);
    if (!operand->tensors)
        return reader->err->status;
    while (more) {
        struct td_json_path step = { .up = path, .index = operand->count };
        if (operand->count == TD_MAX_LIST) {
            td_error_resource(reader->err, "tensors", TD_MAX_LIST + 1, TD_MAX_LIST,
                              "a list of tensors");
            td_json_point(path, reader->err);
            return td_error_at_input(reader->err, TD_RESOURCE_LIMIT, "%s", spec->name);
        }
        if (operand->count == room) {
            room *= 2;
            operand->tensors =
                grow(reader->arena, operand->tensors, operand->count, room, reader->err);
            if (!operand->tensors)
                return reader->err->status;
        }
        status = read_tensor(reader, spec, &step, &operand->tensors[operand->count]);
        if (status != TD_OK)
            return td_error_at_input(reader->err, status, "%s[%d]", spec->name, operand->count);
        operand->count++;
        status = td_json_next(scan, ']', &more, reader->err);
        if (status != TD_OK)
            return status;
    }
    return TD_OK;
}

static td_status read_input(struct reader *reader, const struct td_input_spec *spec,
                            const struct td_json_path *path, struct td_operand *operand)
{
    if (operand->tensors) {
        td_json_refuse(path, reader->err, "%s is given twice", spec->name);
        return td_error_at_input(reader->err, TD_MALFORMED_REQUEST, "%s", spec->name);
    }
    if (spec->list)
        return read_list(reader, spec, path, operand);
    struct td_tensor *tensor = td_arena_alloc(reader->arena, 1, sizeof *tensor, reader->err);
    if (!tensor)
        return reader->err->status;
    td_status status = read_tensor(reader, spec, path, tensor);
    if (status != TD_OK)
        return td_error_at_input(reader->err, status, "%s", spec->name);
    operand->tensors = tensor;
    operand->count = 1;
    return TD_OK;
}

/* ---- attributes and request-wide members ---- */

static td_status read_attr(struct reader *reader, const struct td_json_path *path)
{
    struct td_attr_value value;
    td_status status = td_json_attr(&reader->scan, reader->arena, &value, reader->err);
    if (status != TD_OK)
        return status;
    bool known;
    status = td_attrs_set(reader->request, path->key, path->key_length, &value, reader->arena,
                          &known, reader->err);
    if (status == TD_OK && !known)
        status = td_attrs_unknown(reader->request->op, path->key, path->key_length, "member",
                                  reader->err);
    if (status != TD_OK)
        td_json_point(path, reader->err);
    return status;
}

/* ---- the request ---- */

static int find_input(const struct td_op *op, const char *name, size_t length)
{
    for (int i = 0; i < op->n_inputs; i++)
        if (strlen(op->inputs[i].name) == length && memcmp(op->inputs[i].name, name, length) == 0)
            return i;
    return -1;
}

td_status td_json_decode(const char *body, size_t bytes, struct td_resolver *resolver,
                         struct td_arena *arena, struct td_request *request, struct td_error *err)
{
    struct reader reader = {
        .scan = { .begin = body, .at = body, .end = body + bytes },
        .resolver = resolver,
        .arena = arena,
        .request = request,
        .err = err,
    };
    struct td_json_scan *scan = &reader.scan;
    char c = td_json_peek(scan);
    if (scan->at == scan->end) {
        td_error_set(err, TD_MALFORMED_REQUEST,
                     "the body is empty; a JSON object with the inputs of %s is expected",
                     request->op->name);
        err->offset = 0;
        return TD_MALFORMED_REQUEST;
    }
    if (c != '{' && td_json_kind(c))
        return td_json_refuse(NULL, err,
                              "the body is %s; a JSON object with the inputs of %s is expected",
                              td_json_kind(c), request->op->name);
    bool more;
    td_status status = td_json_open(scan, '{', '}', &more, err);
    if (status != TD_OK)
        return status;
    while (more) {
        const char *key = "";
        size_t length = 0;
        status = td_json_key(scan, arena, &key, &length, err);
        if (status != TD_OK)
            return status;
        struct td_json_path path = td_json_member(NULL, key, length);
        int input = find_input(request->op, key, length);
        status = input < 0 ? read_attr(&reader, &path)
                           : read_input(&reader, &request->op->inputs[input], &path,
                                        &request->args.inputs[input]);
        if (status == TD_OK)
            status = td_json_next(scan, '}', &more, err);
        if (status != TD_OK)
            return status;
    }
    td_json_peek(scan);
    if (scan->at != scan->end)
        return td_json_syntax(scan, scan->at, err, "expected the end of the body");
    return TD_OK;
}
