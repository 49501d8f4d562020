#include "api/json/print_scalars.h"
#include "api/json/print_strings.h"
#include "api/message/chunks.h"
#include "api/message/named_inputs.h"
#include "api/message/problem.h"
#include "api/message/raw.h"
#include "api/oip/complex.h"
#include "api/oip/oip.h"
#include "api/oip/types.h"
#include "api/text/text.h"
#include "kernels/name.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- the requested outputs ---- */

static int n_outputs(const struct td_request *request)
{
    return request->oip->outputs ? request->oip->n_outputs : td_request_n_outputs(request);
}

/* Returns the i-th output of the reply. */
static struct td_oip_output output_at(const struct td_request *request, int i)
{
    const struct td_oip_request *oip = request->oip;
    struct td_oip_output output =
        oip->outputs ? oip->outputs[i] : (struct td_oip_output){ .index = i };
    if (!output.has_binary)
        output.binary = oip->binary;
    if (output.range.region)
        output.binary = false;
    return output;
}

/* Computes the size of the binary form, excluding the bytes of strings that are not computed yet.
 * Returns false if a string is too long. */
static bool binary_bytes(const struct td_tensor *tensor, size_t *bytes)
{
    *bytes = tensor->bytes;
    if (tensor->dtype != TD_DTYPE_STRING)
        return true;
    if (tensor->data)
        return td_raw_strings_size(tensor, bytes);
    return td_size_mul((size_t)tensor->numel, sizeof(uint32_t), bytes);
}

/* ---- checks ---- */

/* Name of an output for error messages. */
struct output_name {
    char text[64];
};

static const char *output_name(const struct td_op *op, int index, struct output_name *name)
{
    struct td_text text = { .at = name->text, .end = name->text + sizeof name->text };
    td_named_output_write(&text, op, index);
    td_text_add(&text, "", 1);
    return name->text;
}

static td_status check_output(const struct td_request *request, const struct td_oip_output *output,
                              struct td_error *err)
{
    struct output_name name;
    const struct td_op *op = request->op;
    const int n = td_request_n_outputs(request);
    if (output->index >= n)
        return td_error_set(err, TD_INVALID_ARGUMENT,
                            "%s has no output \"%s\"; the number of outputs is %d", op->name,
                            output_name(op, output->index, &name), n);
    const struct td_tensor *tensor = td_request_output(request, output->index);
    if (!request->oip->pairs && td_dtype_is_complex(tensor->dtype))
        return td_error_set(err, TD_NOT_ACCEPTABLE,
                            "%s is %s, which has no datatype; set the parameter \"complex\": true "
                            "to get pairs of floats. FP32 and FP64 inputs are then also read as "
                            "pairs, except inputs with \"complex\": false",
                            output_name(op, output->index, &name),
                            td_dtype_info(tensor->dtype)->name);
    size_t bytes;
    if ((output->binary || output->range.region) && !binary_bytes(tensor, &bytes))
        return td_error_set(err, TD_NOT_ACCEPTABLE,
                            "%s has a string of 4 GiB or more, which has no binary form",
                            output_name(op, output->index, &name));
    if (output->range.region && bytes > output->range.bytes)
        return td_error_set(err, TD_INVALID_ARGUMENT,
                            "%s takes %zu bytes, but the range of shared memory has %" PRIu64,
                            output_name(op, output->index, &name), bytes, output->range.bytes);
    return TD_OK;
}

td_status td_oip_can_encode(const struct td_request *request, struct td_error *err)
{
    td_status status = TD_OK;
    for (int i = 0; i < n_outputs(request) && status == TD_OK; i++) {
        const struct td_oip_output output = output_at(request, i);
        status = check_output(request, &output, err);
    }
    return status;
}

/* Checks that the strings of JSON outputs are UTF-8. Sets *escape_bytes to the number of bytes that
 * their escapes add. */
static td_status measure_strings(const struct td_request *request, const struct td_stop *stop,
                                 size_t *escape_bytes, struct td_error *err)
{
    *escape_bytes = 0;
    for (int i = 0; i < n_outputs(request); i++) {
        const struct td_oip_output output = output_at(request, i);
        const struct td_tensor *tensor = td_request_output(request, output.index);
        struct td_json_strings strings;
        struct output_name name;
        if (output.binary || output.range.region || tensor->dtype != TD_DTYPE_STRING)
            continue;
        if (td_json_measure_strings(tensor, stop, &strings, err) != TD_OK)
            return err->status;
        if (!strings.valid)
            return td_error_set(
                err, TD_NOT_ACCEPTABLE,
                "%s has strings that are not UTF-8, which JSON cannot carry; request binary data",
                output_name(request->op, output.index, &name));
        if (!td_size_add(*escape_bytes, strings.escape_bytes, escape_bytes))
            *escape_bytes = SIZE_MAX;
    }
    return TD_OK;
}

/* ---- upper bounds ---- */

/* Maximum length of the text around the outputs: model, version, bounds policy and number of
 * replaced indices. */
#define REPLY_TEXT  ((size_t)512)
/* Maximum length of the text of an output without its data: name, datatype, 17 dimensions,
 * parameters. */
#define OUTPUT_TEXT ((size_t)768)

static bool text_bound(const struct td_request *request, size_t *bytes)
{
    *bytes = REPLY_TEXT + TD_JSON_ELEMENTS_SLACK + request->oip->id_length;
    for (int i = 0; i < n_outputs(request); i++) {
        const struct td_oip_output output = output_at(request, i);
        size_t data = 0;
        if (!output.binary && !output.range.region) {
            const struct td_tensor parts =
                td_oip_complex_to_pairs(td_request_output(request, output.index));
            if (!td_json_elements_bound(&parts, &data))
                return false;
        }
        if (!td_size_add(*bytes, OUTPUT_TEXT, bytes) || !td_size_add(*bytes, data, bytes))
            return false;
    }
    return true;
}

/* Counts the data of binary outputs: bytes copied after the text, large chunks that are not copied,
 * and bytes of strings. */
static bool count_binary(const struct td_request *request, size_t *copied, int *n_large,
                         size_t *strings)
{
    *copied = *strings = 0;
    *n_large = 0;
    for (int i = 0; i < n_outputs(request); i++) {
        const struct td_oip_output output = output_at(request, i);
        const struct td_tensor *tensor = td_request_output(request, output.index);
        size_t bytes;
        if (!output.binary)
            continue;
        if (!binary_bytes(tensor, &bytes) || !td_chunk_count(bytes, copied, n_large) ||
            (tensor->dtype == TD_DTYPE_STRING && !td_size_add(*strings, bytes, strings)))
            return false;
    }
    return true;
}

bool td_oip_encoded_bound(const struct td_request *request, size_t *bytes)
{
    size_t copied, strings;
    int n_large;
    return text_bound(request, bytes) && count_binary(request, &copied, &n_large, &strings) &&
           td_size_add(*bytes, copied, bytes) && td_size_add(*bytes, strings, bytes) &&
           td_size_add(*bytes, 2 * sizeof(struct td_chunk) * (size_t)n_large, bytes);
}

size_t td_oip_copied_bytes(const struct td_request *request)
{
    size_t copied, strings;
    int n_large;
    return count_binary(request, &copied, &n_large, &strings) ? copied : 0;
}

/* ---- the reply ---- */

static void write_shape(struct td_text *text, const struct td_tensor *tensor, bool pairs)
{
    td_text_string(text, "[");
    td_text_dims(text, tensor->shape.dim, tensor->shape.rank);
    if (pairs)
        td_text_string(text, tensor->shape.rank > 0 ? ",2" : "2");
    td_text_string(text, "]");
}

/* Writes ,"parameters":{...} if there are any. Omits the parameters of an output in shared memory,
 * because Triton's C++ client expects binary_data_size in any output's parameters. */
static void write_parameters(struct td_text *text, const struct td_oip_output *output, bool pairs,
                             size_t bytes)
{
    if (output->range.region || (!pairs && !output->binary))
        return;
    td_text_string(text, ",\"parameters\":{");
    if (pairs)
        td_text_string(text, output->binary ? "\"complex\":true," : "\"complex\":true");
    if (output->binary) {
        td_text_string(text, "\"binary_data_size\":");
        td_text_uint(text, bytes);
    }
    td_text_string(text, "}");
}

static td_status write_strings(struct td_text *text, const struct td_tensor *tensor,
                               const struct td_arena *arena, struct td_error *err)
{
    struct td_stop_meter meter = td_stop_meter(&arena->stop);
    char *end = td_json_write_strings(text->at, tensor, 0, tensor->numel, &meter, err);
    if (!end)
        return err->status;
    text->at = end;
    return TD_OK;
}

static td_status write_numbers(struct td_text *text, const struct td_tensor *tensor,
                               const struct td_arena *arena, struct td_error *err)
{
    for (int64_t done = 0; done < tensor->numel; done += TD_STOP_ELEMENTS) {
        const int64_t left = tensor->numel - done;
        const td_status status = done > 0 ? td_stop_check(&arena->stop, err) : TD_OK;
        if (status != TD_OK)
            return status;
        text->at = td_json_write_oip_elements(text->at, tensor, done,
                                              left < TD_STOP_ELEMENTS ? left : TD_STOP_ELEMENTS);
    }
    return TD_OK;
}

/* Writes the elements without a comma at the end. */
static td_status write_data(struct td_text *text, const struct td_tensor *tensor,
                            const struct td_arena *arena, struct td_error *err)
{
    const td_status status = tensor->dtype == TD_DTYPE_STRING
                                 ? write_strings(text, tensor, arena, err)
                                 : write_numbers(text, tensor, arena, err);
    text->at -= status == TD_OK && tensor->numel > 0;
    return status;
}

static td_status write_output(struct td_text *text, const struct td_request *request, int i,
                              const struct td_arena *arena, struct td_error *err)
{
    td_status status = TD_OK;
    const struct td_oip_output output = output_at(request, i);
    const struct td_tensor *tensor = td_request_output(request, output.index);
    const struct td_tensor parts = td_oip_complex_to_pairs(tensor);
    const bool pairs = parts.dtype != tensor->dtype;
    size_t bytes = 0;
    if (output.binary)
        binary_bytes(tensor, &bytes);
    td_text_string(text, i > 0 ? ",{\"name\":\"" : "{\"name\":\"");
    td_named_output_write(text, request->op, output.index);
    td_text_string(text, "\",\"datatype\":\"");
    td_text_string(text, td_dtype_info(parts.dtype)->oip);
    td_text_string(text, "\",\"shape\":");
    write_shape(text, tensor, pairs);
    write_parameters(text, &output, pairs, bytes);
    if (!output.binary && !output.range.region) {
        td_text_string(text, ",\"data\":[");
        status = write_data(text, &parts, arena, err);
        td_text_string(text, "]");
    }
    td_text_string(text, "}");
    return status;
}

static td_status write_reply(struct td_text *text, const struct td_request *request,
                             const struct td_arena *arena, struct td_error *err)
{
    td_status status = TD_OK;
    const struct td_op_args *args = &request->args;
    td_text_string(text, "{\"model_name\":\"");
    td_text_string(text, request->oip->model);
    td_text_string(text, "\",\"model_version\":\"");
    td_text_string(text, request->oip->version);
    td_text_string(text, "\"");
    if (request->oip->id_length > 0) {
        td_text_string(text, ",\"id\":\"");
        td_text_add(text, request->oip->id, request->oip->id_length);
        td_text_string(text, "\"");
    }
    if (args->replaced) {
        td_text_string(text, ",\"parameters\":{\"bounds_policy\":\"");
        td_text_string(text, td_bounds_name(td_request_bounds(request)));
        td_text_string(text, "\",\"bounds_replaced\":");
        td_text_uint(text, (uint64_t)args->replaced);
        td_text_string(text, "}");
    }
    td_text_string(text, ",\"outputs\":[");
    for (int i = 0; i < n_outputs(request) && status == TD_OK; i++)
        status = write_output(text, request, i, arena, err);
    td_text_string(text, "]}");
    return status;
}

/* Appends the bytes of binary outputs. */
static td_status add_binary_outputs(const struct td_request *request,
                                    struct td_chunk_writer *writer, struct td_arena *arena,
                                    struct td_error *err)
{
    for (int i = 0; i < n_outputs(request); i++) {
        const struct td_oip_output output = output_at(request, i);
        const struct td_tensor *tensor = td_request_output(request, output.index);
        const void *data = tensor->data;
        size_t bytes = 0;
        if (!output.binary)
            continue;
        binary_bytes(tensor, &bytes);
        if (tensor->dtype == TD_DTYPE_STRING) {
            char *joined = td_arena_alloc(arena, bytes, 1, err);
            if (!joined)
                return err->status;
            if (td_raw_write_strings(joined, tensor, &arena->stop, err) != TD_OK)
                return err->status;
            data = joined;
        }
        td_chunk_writer_add(writer, data, bytes);
    }
    td_chunk_writer_end(writer);
    return TD_OK;
}

/* Writes the outputs in shared memory. Never stops midway, because the client can already see what
 * has been written. */
static td_status write_ranges(const struct td_request *request, struct td_error *err)
{
    td_status status = TD_OK;
    for (int i = 0; i < n_outputs(request); i++) {
        const struct td_oip_output output = output_at(request, i);
        const struct td_tensor *tensor = td_request_output(request, output.index);
        if (!output.range.region)
            continue;
        if (tensor->dtype == TD_DTYPE_STRING)
            status = td_raw_write_strings(output.range.data, tensor, NULL, err);
        else
            memcpy(output.range.data, tensor->data, tensor->bytes);
    }
    return status;
}

static bool any_binary(const struct td_request *request)
{
    for (int i = 0; i < n_outputs(request); i++)
        if (output_at(request, i).binary)
            return true;
    return false;
}

td_status td_oip_encode(const struct td_request *request, struct td_arena *arena,
                        struct td_reply *reply, struct td_error *err)
{
    enum { LENGTH_TEXT = 24 };
    size_t capacity, escape_bytes, copied, strings;
    int n_large;
    /* Checks the outputs again, because the lengths of strings are known only now. */
    td_status status = td_oip_can_encode(request, err);
    if (status == TD_OK)
        status = measure_strings(request, &arena->stop, &escape_bytes, err);
    if (status != TD_OK)
        return status;
    if (!text_bound(request, &capacity) || !td_size_add(capacity, escape_bytes, &capacity) ||
        !count_binary(request, &copied, &n_large, &strings) ||
        !td_size_add(capacity, copied, &copied))
        return td_error_resource(err, "output_bytes", UINT64_MAX, INT64_MAX, "the reply");
    char *begin = td_arena_alloc(arena, copied, 1, err);
    if (!begin)
        return err->status;
    struct td_text text = { .at = begin, .end = begin + capacity };
    status = write_reply(&text, request, arena, err);
    if (status != TD_OK)
        return status;
    const size_t length = (size_t)(text.at - begin);
    if (any_binary(request)) {
        struct td_chunk_writer writer;
        char *header = td_arena_alloc(arena, LENGTH_TEXT, 1, err);
        if (!header)
            return err->status;
        struct td_text number = { .at = header, .end = header + LENGTH_TEXT };
        td_text_uint(&number, length);
        td_text_add(&number, "", 1);
        status = td_chunk_writer_begin(&writer, reply, "application/octet-stream", begin, length,
                                       n_large, arena, err);
        if (status == TD_OK)
            status = add_binary_outputs(request, &writer, arena, err);
        if (status != TD_OK)
            return status;
        td_reply_header(reply, "Inference-Header-Content-Length", header);
    } else {
        td_reply_set(reply, 200, "application/json", begin, length);
    }
    /* Writes shared memory last, so nothing is written there if an earlier step fails. */
    return write_ranges(request, err);
}

/* ---- errors ---- */

int td_oip_http_status(td_status status)
{
    const int v1 = td_problem_of(status)->http_status;
    if (status == TD_MEMORY_EXHAUSTED)
        return 429;
    return v1 == 422 || v1 == 406 ? 400 : v1;
}

/* Renames "indices[3]" to "indices.3". */
static void rename_input(char *input)
{
    char *open = strchr(input, '['), *close = open ? strchr(open, ']') : NULL;
    if (!close || close[1] != '\0')
        return;
    *open = '.';
    *close = '\0';
}

static bool is_word_character(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* True if the message contains the name of the input as a separate word. */
static bool names_input(const char *message, const char *input)
{
    const size_t length = strlen(input);
    for (const char *at = strstr(message, input); at && *at; at = strstr(at + 1, input))
        if ((at == message || !is_word_character(at[-1])) && !is_word_character(at[length]))
            return true;
    return false;
}

/* True if the message starts with the name of the model. Only names of ops count, because messages
 * never name a table. For example, if a table is named `indices`, a message that starts with
 * "indices" means the input. */
static bool begins_with_model(const char *message, const char *model, const char *op_name)
{
    return op_name && strcmp(model, op_name) == 0 &&
           td_name_begins(model, message, strlen(message)) &&
           !is_word_character(message[strlen(model)]);
}

/* Writes the message of an error, preceded by the names of the model and the input unless the
 * message already contains them. */
static void write_error(struct td_text *text, const struct td_error *err, const char *input,
                        const char *model, const char *op_name)
{
    enum { MODEL_TEXT = 128 };
    char whole[sizeof err->message + 2 * sizeof err->input + MODEL_TEXT] = "";
    size_t used = 0;
    if (model && !begins_with_model(err->message, model, op_name))
        used += (size_t)snprintf(whole, sizeof whole, "%.*s: ", MODEL_TEXT, model);
    if (*input && !names_input(err->message, input) && !names_input(err->message, err->input))
        used += (size_t)snprintf(whole + used, sizeof whole - used, "%s: ", input);
    used += (size_t)snprintf(whole + used, sizeof whole - used, "%s", err->message);
    td_text_quote_bytes(text, whole, used);
}

void td_oip_problem(const struct td_error *err, const char *model, const char *op_name,
                    const char *request_id, struct td_arena *arena, struct td_reply *reply)
{
    enum { CAPACITY = 16384 };
    static const char begin[] = "{\"error\":\"", end[] = "\"}";
    char buffer[CAPACITY];
    struct td_error no_memory, problem = *err;
    struct td_text text = { .at = buffer, .end = buffer + CAPACITY };
    rename_input(problem.input);
    td_text_string(&text, "{\"error\":");
    write_error(&text, err, problem.input, model, op_name);
    td_problem_members(&problem, op_name, request_id, &text);
    td_text_string(&text, "}");
    const size_t length = (size_t)(text.at - buffer);
    char *body = text.full ? NULL : td_arena_alloc(arena, length, 1, &no_memory);
    if (body) {
        memcpy(body, buffer, length);
        td_reply_set(reply, td_oip_http_status(err->status), "application/json", body, length);
        return;
    }
    const char *title = td_problem_of(err->status)->title;
    td_reply_set(reply, td_oip_http_status(err->status), "application/json", begin,
                 sizeof begin - 1);
    reply->own[reply->n_chunks++] = (struct td_chunk){ title, strlen(title) };
    reply->own[reply->n_chunks++] = (struct td_chunk){ end, sizeof end - 1 };
}
