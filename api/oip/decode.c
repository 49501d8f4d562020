#include "api/json/scan.h"
#include "api/json/values.h"
#include "api/oip/complex.h"
#include "api/oip/reader.h"
#include "api/oip/types.h"
#include "api/text/suggest.h"

#include <string.h>

/* ---- the body ---- */

static td_status read_id(struct td_oip_reader *reader, const struct td_json_path *path)
{
    const char *text = "";
    size_t length = 0;
    bool absent;
    td_status status = td_json_null(&reader->scan, &absent, reader->err);
    if (status != TD_OK || absent)
        return status;
    const char *begin = reader->scan.at;
    status = td_json_text(&reader->scan, reader->arena, path, "id", &text, &length, reader->err);
    if (status == TD_OK) {
        reader->oip->id = begin + 1;
        reader->oip->id_length = (size_t)(reader->scan.at - begin) - 2;
    }
    return status;
}

static td_status read_member(void *context, const struct td_json_path *path,
                             struct td_json_name name)
{
    struct td_oip_reader *reader = context;
    if (td_json_name_is(name, "inputs")) {
        reader->has_inputs = true;
        return td_oip_read_inputs(reader, path);
    }
    if (td_json_name_is(name, "outputs"))
        return td_oip_read_outputs(reader, path);
    if (td_json_name_is(name, "parameters"))
        return td_oip_read_parameters(reader, path);
    if (td_json_name_is(name, "id"))
        return read_id(reader, path);
    if (!reader->misplaced.text &&
        td_oip_check_unknown(reader->request, path, name, TD_OIP_REQUEST, TD_IGNORED) != TD_OK)
        reader->misplaced = name; /* reported later, because the body might use another protocol */
    return td_json_skip(&reader->scan, 1, reader->arena, reader->err);
}

/* Splits the body into JSON text and binary data. */
static td_status split_body(struct td_oip_reader *reader, const char *body, size_t bytes)
{
    size_t json_bytes = reader->source->json_bytes;
    const char *problem = NULL;
    if (json_bytes == TD_OIP_NO_HEADER)
        json_bytes = bytes;
    else if (json_bytes == 0)
        problem = "a body with only a tensor's bytes, without JSON, is not supported";
    else if (json_bytes > bytes)
        problem = "the JSON text would extend beyond the body";
    if (problem) {
        td_error_set(reader->err, TD_MALFORMED_REQUEST,
                     "Inference-Header-Content-Length is %zu with a body of %zu bytes: %s",
                     json_bytes, bytes, problem);
        return td_error_at_attribute(reader->err, TD_MALFORMED_REQUEST,
                                     "Inference-Header-Content-Length");
    }
    reader->scan = (struct td_json_scan){ .begin = body, .at = body, .end = body + json_bytes };
    reader->binary_data = (char *)body + json_bytes;
    reader->binary_end = (char *)body + bytes;
    return TD_OK;
}

static td_status check_misplaced(struct td_oip_reader *reader)
{
    const struct td_json_name name = reader->misplaced;
    const struct td_json_path path = td_json_member(NULL, name.text, name.length);
    if (!name.text || (!reader->has_inputs && reader->n_refs == 0))
        return TD_OK;
    return td_oip_check_unknown(reader->request, &path, name, TD_OIP_REQUEST, reader->err);
}

static td_status read_body(struct td_oip_reader *reader)
{
    struct td_json_scan *scan = &reader->scan;
    td_json_peek(scan);
    if (scan->at == scan->end) {
        td_error_set(reader->err, TD_MALFORMED_REQUEST,
                     "the body is empty; expected a JSON object with the inputs of %s",
                     reader->request->op->name);
        reader->err->offset = 0;
        return TD_MALFORMED_REQUEST;
    }
    bool absent; /* td_json_object accepts null as an object without members */
    td_status status = td_json_null(scan, &absent, reader->err);
    if (absent && status == TD_OK)
        return td_json_refuse(NULL, reader->err,
                              "the body is null; expected a JSON object with the inputs of %s",
                              reader->request->op->name);
    if (status == TD_OK)
        status =
            td_json_object(scan, NULL, "the body", read_member, reader, reader->arena, reader->err);
    if (status == TD_OK)
        status = check_misplaced(reader);
    if (status != TD_OK)
        return status;
    td_json_peek(scan);
    if (scan->at != scan->end)
        return td_json_syntax(scan, scan->at, reader->err, "expected the end of the JSON text");
    if (reader->binary_data == reader->binary_end)
        return TD_OK;
    td_error_set(reader->err, TD_MALFORMED_REQUEST,
                 "%td bytes follow the data of the inputs; the binary_data_size values must add up "
                 "to the number of bytes after the JSON text",
                 reader->binary_end - reader->binary_data);
    reader->err->offset = reader->binary_data - scan->begin;
    return TD_MALFORMED_REQUEST;
}

/* Reports missing inputs. Bodies that use other protocols, such as /v1, have no "inputs". */
static td_status refuse_without_inputs(struct td_oip_reader *reader)
{
    static const char *const inputs = "inputs";
    const struct td_json_name misplaced = reader->misplaced;
    char expected[TD_TENSOR_NAMES_TEXT];
    td_error_set(reader->err, TD_INVALID_ARGUMENT,
                 "inputs is missing; expected a list of {\"name\", \"datatype\", \"shape\", "
                 "\"data\"} with the names %s",
                 td_input_names_text(reader->request, expected, sizeof expected));
    td_suggest(reader->err, misplaced.text, misplaced.length, &inputs, 1);
    return td_error_at_input(reader->err, TD_INVALID_ARGUMENT, "inputs");
}

/* Assigns the tensors to the op's inputs after the body has been read. */
static td_status fill_inputs(struct td_oip_reader *reader)
{
    struct td_request *request = reader->request;
    const struct td_op *op = request->op;
    for (int i = 0; i < op->n_inputs; i++) {
        char expected[TD_TENSOR_NAMES_TEXT];
        if (request->args.inputs[i].count > 0 || td_op_input_may_be_omitted(op, i))
            continue;
        if (!reader->has_inputs && reader->n_refs == 0)
            return refuse_without_inputs(reader);
        td_error_set(reader->err, TD_INVALID_ARGUMENT, "%s%s is missing; %s has the inputs %s",
                     op->inputs[i].name, op->inputs[i].list ? ".0" : "", td_inputs_owner(request),
                     td_input_names_text(request, expected, sizeof expected));
        return td_error_at_input(reader->err, TD_INVALID_ARGUMENT, "%s", op->inputs[i].name);
    }
    td_status status = td_named_inputs_alloc(request, reader->arena, reader->err);
    const bool pairs = reader->oip->pairs; /* default for inputs without the parameter */
    for (int i = 0; i < reader->n_inputs && status == TD_OK; i++) {
        const struct td_oip_input *input = &reader->inputs[i];
        struct td_tensor *place = NULL;
        status = td_named_input_tensor(request, input->target, &place, reader->err);
        if (status != TD_OK)
            break;
        *place = input->tensor;
        if (input->has_complex ? input->is_complex : pairs) {
            reader->oip->pairs = true;
            status = td_oip_pairs_to_complex(reader, input, place);
        }
    }
    for (int i = 0; i < reader->n_refs && status == TD_OK; i++) {
        const struct td_oip_ref *ref = &reader->refs[i];
        status = td_named_input_resolve(request, ref->target, ref->name, ref->length,
                                        reader->source->resolver, reader->arena, reader->err);
    }
    return status;
}

td_status td_oip_header_length(const char *text, size_t *json_bytes, struct td_error *err)
{
    size_t value = 0;
    const char *at = text;
    *json_bytes = TD_OIP_NO_HEADER;
    if (!text)
        return TD_OK;
    while (*at >= '0' && *at <= '9' && td_size_mul(value, 10, &value) &&
           td_size_add(value, (size_t)(*at - '0'), &value))
        at++;
    if (at > text && *at == '\0' && value != TD_OIP_NO_HEADER) {
        *json_bytes = value;
        return TD_OK;
    }
    td_error_set(err, TD_MALFORMED_REQUEST,
                 "Inference-Header-Content-Length is \"%.64s\"; expected a number of bytes", text);
    return td_error_at_attribute(err, TD_MALFORMED_REQUEST, "Inference-Header-Content-Length");
}

td_status td_oip_decode(const char *body, size_t bytes, const struct td_oip_source *source,
                        struct td_arena *arena, struct td_request *request, uint64_t *timeout_us,
                        struct td_error *err)
{
    struct td_oip_request *oip = td_arena_alloc(arena, 1, sizeof *oip, err);
    if (!oip)
        return err->status;
    const struct td_tensor *table = request->args.inputs[0].tensors;
    *oip = (struct td_oip_request){ .model = source->model ? source->model : request->op->name,
                                    .version = source->version ? source->version : "1",
                                    .pairs = table && td_dtype_is_complex(table->dtype) };
    request->row_keys_name = request->table ? TD_OIP_KEYS : NULL;
    *timeout_us = 0;
    struct td_oip_reader reader = {
        .source = source,
        .arena = arena,
        .request = request,
        .oip = oip,
        .timeout_us = timeout_us,
        .err = err,
    };
    td_status status = split_body(&reader, body, bytes);
    if (status == TD_OK)
        status = read_body(&reader);
    if (status == TD_MALFORMED_REQUEST && reader.scan.end < body + bytes &&
        err->offset == (int64_t)source->json_bytes)
        td_error_hint(err, "Inference-Header-Content-Length is %zu, and the body has %zu bytes",
                      source->json_bytes, bytes);
    if (status == TD_OK)
        status = fill_inputs(&reader);
    if (status == TD_OK)
        status = td_oip_check_ranges(&reader);
    oip->outputs = reader.outputs;
    oip->n_outputs = reader.n_outputs;
    request->oip = oip;
    request->decoded = status == TD_OK;
    return status;
}
