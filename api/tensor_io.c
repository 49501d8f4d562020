#include "api/tensor_io.h"

#include "api/files/npy.h"
#include "api/files/safetensors.h"
#include "api/json/encode.h"
#include "api/json/tensor.h"
#include "api/media_type.h"
#include "api/message/raw.h"

#include <assert.h>
#include <string.h>

#define FORMATS (TD_FORMAT_BIT(JSON) | TD_FORMAT_BIT(SAFETENSORS) | TD_FORMAT_BIT(NPY))

td_status td_tensor_io_body_format(const char *content_type, td_format *out, struct td_error *err)
{
    return td_media_of_body(content_type, FORMATS, out, err);
}

td_format td_tensor_io_recognise(const char *body, size_t bytes)
{
    enum { HEADER = 8 }; /* of a safetensors file: the bytes of its header, whose text follows */
    static const char upper_half[4] = { 0 };
    if (td_npy_is(body, bytes))
        return TD_FORMAT_NPY;
    if (bytes > HEADER && memcmp(body + 4, upper_half, sizeof upper_half) == 0 &&
        body[HEADER] == '{')
        return TD_FORMAT_SAFETENSORS;
    return TD_FORMAT_JSON;
}

td_status td_tensor_io_reply_format(const char *accept, td_format *out, struct td_error *err)
{
    return td_media_of_reply(accept, FORMATS, TD_FORMAT_JSON, out, err);
}

/* ---- reading ---- */

/* The parser of a number reads up to the character after it, which exists in an object but not if
 * the number is the whole body: copies the body and appends zeros. False, with err filled, without
 * memory. */
static bool end_number(struct td_json_source *source)
{
    struct td_json_scan *scan = &source->scan;
    size_t bytes = (size_t)(scan->end - scan->begin);
    char *copy = td_arena_alloc(source->arena, bytes + TD_JSON_PADDING, 1, source->err);
    if (!copy)
        return false;
    memcpy(copy, scan->begin, bytes);
    memset(copy + bytes, 0, TD_JSON_PADDING);
    *scan = (struct td_json_scan){ copy, copy + (scan->at - scan->begin), copy + bytes };
    return true;
}

static td_status read_json(const char *body, size_t bytes, struct td_resolver *resolver,
                           struct td_arena *arena, struct td_tensor *out, struct td_error *err)
{
    struct td_json_source source = { .scan = { .begin = body, .at = body, .end = body + bytes },
                                     .resolver = resolver,
                                     .arena = arena,
                                     .err = err };
    char c = td_json_peek(&source.scan);
    if (source.scan.at == source.scan.end) {
        td_error_set(err, TD_MALFORMED_REQUEST, "the body is empty; a tensor is expected");
        err->offset = 0;
        return TD_MALFORMED_REQUEST;
    }
    if ((c == '-' || (c >= '0' && c <= '9')) && !end_number(&source))
        return err->status;
    const struct td_untyped untyped = { .empty = TD_DTYPE_FLOAT32, .integer = TD_DTYPE_INT32 };
    td_status status = td_json_tensor(&source, NULL, untyped, NULL, out);
    if (status != TD_OK)
        return status;
    td_json_peek(&source.scan);
    if (source.scan.at != source.scan.end)
        return td_json_syntax(&source.scan, source.scan.at, err, "expected the end of the body");
    return TD_OK;
}

static td_status read_safetensors(const char *body, size_t bytes, struct td_arena *arena,
                                  struct td_tensor *out, struct td_error *err)
{
    struct td_safetensors file;
    td_status status = td_safetensors_open(body, bytes, arena, &file, err);
    if (status != TD_OK)
        return status;
    if (file.n_entries != 1) {
        td_error_set(err, TD_MALFORMED_REQUEST,
                     "the safetensors file holds %d tensors; exactly one is expected",
                     file.n_entries);
        err->offset = 0;
        return TD_MALFORMED_REQUEST;
    }
    *out = file.entries[0].tensor;
    return TD_OK;
}

td_status td_tensor_read(td_format format, const char *body, size_t bytes,
                         struct td_resolver *resolver, struct td_arena *arena,
                         struct td_tensor *out, bool *in_body, struct td_error *err)
{
    *in_body = false;
    switch (format) {
    case TD_FORMAT_SAFETENSORS:
        *in_body = true;
        return read_safetensors(body, bytes, arena, out, err);
    case TD_FORMAT_NPY:
        return td_npy_read(body, bytes, arena, out, in_body, err);
    default:
        assert(format == TD_FORMAT_JSON);
        return read_json(body, bytes, resolver, arena, out, err);
    }
}

/* ---- writing ---- */

bool td_tensor_write_bound(td_format format, td_layout layout, const struct td_tensor *tensor,
                           size_t *bytes)
{
    if (format == TD_FORMAT_JSON)
        return td_json_tensor_bound(tensor, layout, bytes);
    /* The header, and the data if it is copied after it. */
    return td_size_add(TD_NPY_HEADER + 64, td_raw_is_copied(tensor) ? tensor->bytes : 0, bytes);
}

static td_status write_npy(const struct td_tensor *tensor, struct td_arena *arena,
                           struct td_reply *reply, struct td_error *err)
{
    char header[TD_NPY_HEADER];
    size_t size;
    td_status status = td_npy_write_header(tensor, header, &size, err);
    if (status != TD_OK)
        return status;
    return td_raw_reply(td_media_type(TD_FORMAT_NPY), header, size, tensor, arena, reply, err);
}

td_status td_tensor_write(td_format format, td_layout layout, const struct td_tensor *tensor,
                          struct td_arena *arena, struct td_reply *reply, struct td_error *err)
{
    switch (format) {
    case TD_FORMAT_SAFETENSORS:
        return td_safetensors_encode_tensor(tensor, arena, reply, err);
    case TD_FORMAT_NPY:
        return write_npy(tensor, arena, reply, err);
    default:
        assert(format == TD_FORMAT_JSON);
        return td_json_encode_tensor(tensor, layout, arena, reply, err);
    }
}
