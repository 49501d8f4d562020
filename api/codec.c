#include "api/codec.h"

#include "api/files/foreign.h"
#include "api/files/npy.h"
#include "api/files/safetensors.h"
#include "api/json/encode.h"
#include "api/json/hints.h"
#include "api/media_type.h"
#include "api/message/named_inputs.h"
#include "api/message/path_inputs.h"
#include "api/message/table_keys.h"
#include "api/oip/oip.h"
#include "api/tensor_io.h"

#include <assert.h>
#include <string.h>

#define BODY_FORMATS  (TD_FORMAT_BIT(JSON) | TD_FORMAT_BIT(SAFETENSORS))
#define REPLY_FORMATS (BODY_FORMATS | TD_FORMAT_BIT(NPY))

td_status td_codec_request_format(const char *content_type, td_format *out, struct td_error *err)
{
    return td_media_of_body(content_type, BODY_FORMATS, out, err);
}

td_status td_codec_reply_format(const char *accept, td_format request_format, td_format *out,
                                struct td_error *err)
{
    return td_media_of_reply(accept, REPLY_FORMATS, request_format, out, err);
}

/* True if a .npy body can be this input. The path gives inputs, and implies the keys of its
 * table. */
static bool takes_body(const struct td_request *request, int input)
{
    return !td_path_gives_input(request, input) &&
           !(request->table_has_keys && td_input_is_row_keys(&request->op->inputs[input]));
}

static td_status decode_npy(const char *body, size_t bytes, struct td_arena *arena,
                            struct td_request *request, struct td_error *err)
{
    const struct td_op *op = request->op;
    bool in_body;
    int input = 0;
    /* An op on a table in the path also has an input that picks rows. */
    while (!takes_body(request, input))
        input++;
    assert(input < op->n_inputs);
    if (request->table && td_input_is_row_keys(&op->inputs[input]))
        return td_table_without_keys(request->table, request->whole,
                                     request->args.inputs[0].tensors, op, err);
    struct td_tensor *tensor = td_arena_alloc(arena, 1, sizeof *tensor, err);
    if (!tensor)
        return err->status;
    const td_status status = td_npy_read(body, bytes, arena, tensor, &in_body, err);
    if (status != TD_OK)
        return td_error_at_input(err, status, "%s", op->inputs[input].name);
    request->args.inputs[input] = (struct td_operand){ tensor, 1 };
    return TD_OK;
}

static td_status decode(td_format format, const char *body, size_t bytes,
                        struct td_resolver *resolver, struct td_arena *arena,
                        struct td_request *request, struct td_error *err)
{
    switch (format) {
    case TD_FORMAT_SAFETENSORS:
        return td_safetensors_decode(body, bytes, resolver, arena, request, err);
    case TD_FORMAT_NPY:
        return decode_npy(body, bytes, arena, request, err);
    default:
        return td_json_decode(body, bytes, resolver, arena, request, err);
    }
}

td_status td_codec_decode(td_format format, const char *body, size_t bytes,
                          struct td_resolver *resolver, struct td_arena *arena,
                          struct td_request *request, struct td_error *err)
{
    const td_status status = decode(format, body, bytes, resolver, arena, request, err);
    request->decoded = status == TD_OK;
    if (status != TD_OK)
        return td_foreign_explain_body(status, format, body, bytes, err);
    if (request->common.store || !request->common.store_ttl_s)
        return status;
    td_error_set(err, TD_MALFORMED_REQUEST, "store.ttl_s requires store, the name of the result");
    return td_error_at_attribute(err, TD_MALFORMED_REQUEST, "store.ttl_s");
}

/* True if the error is about a required input that the request does not have. */
static bool is_missing(const struct td_request *request, const char *name)
{
    for (int i = 0; i < request->op->n_inputs; i++)
        if (strcmp(request->op->inputs[i].name, name) == 0)
            return request->args.inputs[i].count == 0;
    return false;
}

void td_codec_hint(td_format format, const struct td_request *request, struct td_error *err)
{
    const bool has_path = request->op->rows && !request->table;
    if (format == TD_FORMAT_JSON)
        td_json_hint_inputs(request, err);
    else if (format == TD_FORMAT_NPY && is_missing(request, err->input))
        td_error_hint(err, "a .npy body is one input; send several inputs as %s or %s%s%s",
                      td_media_type(TD_FORMAT_SAFETENSORS), td_media_type(TD_FORMAT_JSON),
                      has_path ? ", or use the path /v1/tensors/TABLE/" : "",
                      has_path ? request->op->name : "");
}

/* ---- the reply ---- */

static td_status can_encode_npy(const struct td_request *request, struct td_error *err)
{
    const int n = td_request_n_outputs(request);
    char header[TD_NPY_HEADER];
    size_t size;
    return n == 1 ? td_npy_write_header(td_request_output(request, 0), header, &size, err)
                  : td_error_set(err, TD_NOT_ACCEPTABLE,
                                 "a .npy file holds one tensor, but %s returns %d here",
                                 request->op->name, n);
}

td_status td_codec_can_encode(td_format format, const struct td_request *request,
                              struct td_error *err)
{
    switch (format) {
    case TD_FORMAT_SAFETENSORS:
        return td_safetensors_can_encode(request, err);
    case TD_FORMAT_OIP:
        return td_oip_can_encode(request, err);
    case TD_FORMAT_NPY:
        return can_encode_npy(request, err);
    case TD_FORMAT_JSON:
        break;
    }
    return TD_OK;
}

td_status td_codec_choose_reply(const char *accept, const struct td_request *request,
                                td_format *format, struct td_error *err)
{
    /* Not cleared, because clearing it would cost time for every binary reply. */
    struct td_error why, unused;
    unsigned possible = TD_FORMAT_BIT(JSON);
    char types[TD_MEDIA_LIST], names[TD_TENSOR_NAMES_TEXT];
    const td_format first = *format;
    if (*format == TD_FORMAT_OIP)
        return td_codec_can_encode(*format, request, err);
    if (td_codec_can_encode(*format, request, &why) == TD_OK)
        return TD_OK;
    for (int i = TD_FORMAT_SAFETENSORS; i <= TD_FORMAT_NPY; i++)
        if (td_codec_can_encode((td_format)i, request, &unused) == TD_OK)
            possible |= 1u << i;
    if (td_media_of_reply(accept, possible, TD_FORMAT_JSON, format, &unused) == TD_OK)
        return TD_OK;
    *err = why;
    td_error_hint(err, "Accept must allow %s", td_media_list(possible, types));
    if (first == TD_FORMAT_NPY && td_request_n_outputs(request) > 1 &&
        td_op_output_form(request->op) == TD_OUTPUT_NAMED)
        td_error_hint(err, "the member outputs selects one of %s",
                      td_output_names_text(request->op, names, sizeof names));
    return td_error_at_attribute(err, TD_NOT_ACCEPTABLE, "Accept");
}

bool td_codec_encoded_bound(td_format format, const struct td_request *request, size_t *bytes)
{
    switch (format) {
    case TD_FORMAT_SAFETENSORS:
        return td_safetensors_encoded_bound(request, bytes);
    case TD_FORMAT_OIP:
        return td_oip_encoded_bound(request, bytes);
    case TD_FORMAT_NPY:
        return td_tensor_write_bound(format, request->common.layout, td_request_output(request, 0),
                                     bytes);
    case TD_FORMAT_JSON:
        break;
    }
    return td_json_encoded_bound(request, bytes);
}

td_status td_codec_encode(td_format format, const struct td_request *request,
                          struct td_arena *arena, struct td_reply *reply, struct td_error *err)
{
    switch (format) {
    case TD_FORMAT_SAFETENSORS:
        return td_safetensors_encode(request, arena, reply, err);
    case TD_FORMAT_OIP:
        return td_oip_encode(request, arena, reply, err);
    case TD_FORMAT_NPY:
        return td_tensor_write(format, request->common.layout, td_request_output(request, 0), arena,
                               reply, err);
    case TD_FORMAT_JSON:
        break;
    }
    return td_json_encode(request, arena, reply, err);
}
