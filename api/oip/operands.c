#include "api/json/array.h"
#include "api/json/values.h"
#include "api/message/raw.h"
#include "api/oip/reader.h"
#include "api/oip/types.h"
#include "kernels/shown_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static td_status find_range(struct td_oip_reader *reader, const struct td_json_path *path,
                            struct td_oip_range *range)
{
    struct td_regions *regions = reader->source->regions;
    td_status status;
    if (regions)
        status = regions->find(regions, range->region, range->region_length, range->offset,
                               range->bytes, reader->arena, &range->data, reader->err);
    else
        status = td_error_set(
            reader->err, TD_NOT_SUPPORTED,
            "shared memory is off; the server's option --system-shared-memory turns it on");
    if (status != TD_OK)
        td_json_set_pointer(path, reader->err);
    return status;
}

/* ---- an input ---- */

static td_status read_dtype(struct td_oip_reader *reader, const struct td_json_path *path,
                            td_dtype *dtype)
{
    const char *name = "";
    size_t length = 0;
    td_dtype meant;
    td_status status =
        td_json_text(&reader->scan, reader->arena, path, "datatype", &name, &length, reader->err);
    if (status != TD_OK || td_oip_dtype(name, length, dtype))
        return status;
    char all[TD_OIP_NAMES_TEXT];
    td_json_refuse(path, reader->err, "\"%s\" is not a datatype; expected one of %s",
                   TD_SHOWN(name, length), td_oip_names(TD_DTYPES_ALL, all, sizeof all));
    if (td_dtype_from_name(name, length, &meant) && td_dtype_info(meant)->oip)
        snprintf(reader->err->did_you_mean, sizeof reader->err->did_you_mean, "%s",
                 td_dtype_info(meant)->oip);
    return TD_MALFORMED_REQUEST;
}

/* Reads data, or skips it if datatype and shape are not known yet. */
static td_status read_data(struct td_oip_reader *reader, const struct td_json_path *path,
                           struct td_oip_input *input)
{
    struct td_json_scan *scan = &reader->scan;
    bool absent;
    td_status status = td_json_null(scan, &absent, reader->err);
    if (status != TD_OK || absent)
        return status;
    input->has_data = true;
    if (input->has_dtype && input->has_shape) {
        input->data_read = true;
        return td_json_read_oip(scan, input->dtype, &input->shape, path, reader->arena,
                                &input->tensor, reader->err);
    }
    return td_json_skip_unread(scan, &input->data, reader->err);
}

static td_status read_input_member(void *context, const struct td_json_path *path,
                                   struct td_json_name name)
{
    struct td_oip_reader *reader = context;
    struct td_oip_input *input = reader->input;
    if (td_json_name_is(name, "name"))
        return td_json_text(&reader->scan, reader->arena, path, "name", &input->name.text,
                            &input->name.length, reader->err);
    if (td_json_name_is(name, "shape")) {
        input->has_shape = true;
        return td_json_shape(&reader->scan, path, &input->shape, reader->err);
    }
    if (td_json_name_is(name, "datatype")) {
        input->has_dtype = true;
        return read_dtype(reader, path, &input->dtype);
    }
    if (td_json_name_is(name, "data"))
        return read_data(reader, path, input);
    if (td_json_name_is(name, "parameters")) {
        struct td_oip_tensor_parameters parameters = { .binary_size = -1 };
        td_status status = td_oip_read_tensor_parameters(reader, path, &parameters);
        input->binary_size = parameters.binary_size;
        input->has_complex = parameters.has_complex;
        input->is_complex = parameters.is_complex;
        input->range = parameters.range;
        return status;
    }
    const td_status status =
        td_oip_check_unknown(reader->request, path, name, TD_OIP_INPUT, reader->err);
    return status != TD_OK ? status : td_json_skip(&reader->scan, 3, reader->arena, reader->err);
}

/* Converts bytes to bool. Every value except 0 is true. */
static void normalize_bools(unsigned char *to, const unsigned char *from, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = from[i] != 0;
}

static td_status check_size(struct td_oip_reader *reader, const struct td_json_path *path,
                            const struct td_tensor *tensor, const char *what, uint64_t given)
{
    if (tensor->dtype == TD_DTYPE_STRING || given == tensor->bytes)
        return TD_OK;
    char text[TD_SHAPE_TEXT];
    return td_json_refuse(path, reader->err,
                          "%s is %" PRIu64 ", but %s of shape %s takes %zu bytes", what, given,
                          td_dtype_info(tensor->dtype)->oip,
                          td_shape_text(&tensor->shape, text, sizeof text), tensor->bytes);
}

/* Uses the next bytes after the JSON text as the data of an input. Converts booleans and strings in
 * place, because the body belongs to the call. */
static td_status read_binary_data(struct td_oip_reader *reader, const struct td_json_path *path,
                                  struct td_oip_input *input)
{
    struct td_tensor *tensor = &input->tensor;
    const size_t size = (size_t)input->binary_size;
    const size_t left = (size_t)(reader->binary_end - reader->binary_data);
    td_status status = check_size(reader, path, tensor, "binary_data_size", size);
    if (status != TD_OK)
        return status;
    if (size > left)
        return td_json_refuse(path, reader->err,
                              "binary_data_size is %zu, but the body has %zu bytes left after its "
                              "JSON text%s",
                              size, left,
                              reader->source->json_bytes == TD_OIP_NO_HEADER
                                  ? "; the header Inference-Header-Content-Length is missing"
                                  : "");
    tensor->data = reader->binary_data;
    reader->binary_data += size;
    if (tensor->dtype == TD_DTYPE_BOOL)
        normalize_bools(tensor->data, tensor->data, size);
    if (tensor->dtype == TD_DTYPE_STRING)
        status = td_raw_strings(tensor->data, size, tensor, reader->arena, reader->err);
    if (status == TD_MALFORMED_REQUEST)
        td_json_set_pointer(path, reader->err);
    return status;
}

/* Returns the size in bytes of the n strings at `from`, including their lengths, or `size` if the
 * strings do not fit. */
static size_t strings_end(const char *from, size_t size, int64_t n)
{
    size_t used = 0;
    for (int64_t i = 0; i < n; i++) {
        uint32_t length;
        if (size - used < sizeof length)
            return size;
        memcpy(&length, from + used, sizeof length);
        used += sizeof length;
        if (length > size - used)
            return size;
        used += length;
    }
    return used;
}

/* Checks that there is enough memory for the shortest possible strings. The region can be larger
 * than memory, so the check comes before reading it. */
static td_status check_memory(struct td_oip_reader *reader, const struct td_tensor *tensor)
{
    size_t least;
    if (!td_size_mul((size_t)tensor->numel, sizeof(uint32_t) + sizeof(uint64_t), &least))
        least = SIZE_MAX / 2;
    struct td_memory *memory = reader->arena->memory;
    struct td_buffer *buffer = memory->take(memory, least, reader->err);
    td_buffer_unref(buffer);
    return buffer ? TD_OK : reader->err->status;
}

/* Uses shared memory as the data of an input. Numbers are used in place. Booleans and values that
 * determine addresses (lengths and indices) are copied before they are checked, because the client
 * can modify the region at any time. */
static td_status read_shared_memory(struct td_oip_reader *reader, const struct td_json_path *path,
                                    struct td_oip_input *input)
{
    struct td_tensor *tensor = &input->tensor;
    struct td_oip_range *range = &input->range;
    const struct td_input_spec *spec = &reader->request->op->inputs[input->target.input];
    const bool strings = tensor->dtype == TD_DTYPE_STRING, bools = tensor->dtype == TD_DTYPE_BOOL;
    const bool indices = spec->role == TD_ROLE_INDEX;
    td_status status = check_size(reader, path, tensor, "shared_memory_byte_size", range->bytes);
    if (status == TD_OK)
        status = find_range(reader, path, range);
    if (status != TD_OK)
        return status;
    tensor->data = range->data;
    if (!strings && !bools && !indices)
        return TD_OK;
    if (strings)
        status = check_memory(reader, tensor);
    if (status != TD_OK)
        return status;
    const size_t size =
        strings ? strings_end(range->data, (size_t)range->bytes, tensor->numel) : tensor->bytes;
    tensor->data = td_arena_alloc(reader->arena, size, 1, reader->err);
    if (!tensor->data)
        return reader->err->status;
    if (bools)
        normalize_bools(tensor->data, range->data, size);
    else
        memcpy(tensor->data, range->data, size);
    if (strings)
        status = td_raw_strings(tensor->data, size, tensor, reader->arena, reader->err);
    if (status == TD_MALFORMED_REQUEST)
        td_json_set_pointer(path, reader->err);
    return status;
}

/* Allocates an empty input, which needs no data. */
static td_status allocate_empty(struct td_oip_reader *reader, struct td_oip_input *input)
{
    struct td_tensor *tensor = &input->tensor;
    td_status status = td_tensor_alloc(tensor, reader->arena, reader->err);
    if (status == TD_OK && !tensor->data)
        tensor->data = td_arena_alloc(reader->arena, 0, 1, reader->err);
    return status == TD_OK && !tensor->data ? reader->err->status : status;
}

/* Builds the tensor of an input whose members have all been read. */
static td_status finish_input(struct td_oip_reader *reader, const struct td_json_path *path,
                              struct td_oip_input *input)
{
    const char *name = reader->request->op->inputs[input->target.input].name;
    const int sources = input->has_data + (input->binary_size >= 0) + (input->range.region != NULL);
    td_status status;
    if (!input->data_read) {
        status = td_tensor_describe(&input->tensor, name, input->dtype, &input->shape, reader->err);
        if (status != TD_OK)
            return status;
    }
    if (sources > 1)
        return td_json_refuse(path, reader->err,
                              "%s has more than one of data, binary_data_size and "
                              "shared_memory_region; expected exactly one",
                              TD_OIP_SHOWN(input->name));
    if (input->binary_size >= 0)
        return read_binary_data(reader, path, input);
    if (input->range.region)
        return read_shared_memory(reader, path, input);
    if (input->data_read)
        return TD_OK;
    if (input->has_data) {
        const struct td_json_path step = td_json_member(path, "data", 4);
        status = td_json_read_oip(&input->data.scan, input->dtype, &input->shape, &step,
                                  reader->arena, &input->tensor, reader->err);
        return status != TD_OK ? status : td_json_skipped_end(&input->data, reader->err);
    }
    if (input->tensor.numel == 0)
        return allocate_empty(reader, input);
    return td_json_refuse(
        path, reader->err,
        "%s has no data; expected exactly one of data, binary_data_size and shared_memory_region",
        TD_OIP_SHOWN(input->name));
}

static td_status read_input(void *context, const struct td_json_path *path)
{
    struct td_oip_reader *reader = context;
    struct td_oip_input *inputs = td_oip_grow(reader, reader->inputs, reader->n_inputs,
                                              &reader->input_capacity, sizeof *inputs);
    if (!inputs)
        return reader->err->status;
    reader->inputs = inputs;
    struct td_oip_input *input = &inputs[reader->n_inputs];
    memset(input, 0, sizeof *input);
    input->binary_size = -1;
    reader->input = input;
    td_status status = td_json_object(&reader->scan, path, "an input", read_input_member, reader,
                                      reader->arena, reader->err);
    if (status != TD_OK)
        return td_oip_error_at_input(reader, status, input);
    const char *lacks = !input->name.text   ? "name"
                        : !input->has_dtype ? "datatype"
                        : !input->has_shape ? "shape"
                                            : NULL;
    if (lacks) {
        if (input->name.text)
            td_json_refuse(path, reader->err, "the input \"%s\" has no %s",
                           TD_OIP_SHOWN(input->name), lacks);
        else
            td_json_refuse(path, reader->err, "an input has no name");
        return td_oip_error_at_input(reader, TD_MALFORMED_REQUEST, input);
    }
    status = td_named_input_count(reader->request, input->name.text, input->name.length,
                                  &input->target, reader->err);
    if (status != TD_OK) {
        td_json_set_pointer(path, reader->err);
        return status;
    }
    reader->n_inputs++;
    return td_oip_error_at_input(reader, finish_input(reader, path, input), input);
}

td_status td_oip_read_inputs(struct td_oip_reader *reader, const struct td_json_path *path)
{
    return td_json_list(&reader->scan, path, "inputs", read_input, reader, reader->err);
}

/* ---- an output ---- */

static td_status read_output_member(void *context, const struct td_json_path *path,
                                    struct td_json_name name)
{
    struct td_oip_reader *reader = context;
    struct td_json_name *own = reader->output_name;
    if (td_json_name_is(name, "name"))
        return td_json_text(&reader->scan, reader->arena, path, "name", &own->text, &own->length,
                            reader->err);
    if (td_json_name_is(name, "parameters"))
        return td_oip_read_tensor_parameters(reader, path, reader->tensor_parameters);
    const td_status status =
        td_oip_check_unknown(reader->request, path, name, TD_OIP_OUTPUT, reader->err);
    return status != TD_OK ? status : td_json_skip(&reader->scan, 3, reader->arena, reader->err);
}

/* Marks an output as requested. Sets *twice to true if it is already requested. */
static td_status mark_requested(struct td_oip_reader *reader, int64_t index, bool *twice)
{
    enum { BYTES = TD_MAX_LIST / 8 };
    if (!reader->requested) {
        reader->requested = td_arena_alloc(reader->arena, BYTES, 1, reader->err);
        if (!reader->requested)
            return reader->err->status;
        memset(reader->requested, 0, BYTES);
    }
    const unsigned char bit = (unsigned char)(1U << index % 8);
    *twice = reader->requested[index / 8] & bit;
    reader->requested[index / 8] |= bit;
    return TD_OK;
}

static td_status read_output(void *context, const struct td_json_path *path)
{
    struct td_oip_reader *reader = context;
    const struct td_op *op = reader->request->op;
    struct td_json_name name = { NULL, 0 };
    struct td_oip_tensor_parameters parameters = { .output = true };
    reader->output_name = &name;
    reader->tensor_parameters = &parameters;
    td_status status = td_json_object(&reader->scan, path, "an output", read_output_member, reader,
                                      reader->arena, reader->err);
    if (status != TD_OK)
        return status;
    if (!name.text)
        return td_json_refuse(path, reader->err, "an output has no name");
    const int64_t index = td_named_output_find(op, name.text, name.length);
    if (index < 0 || index >= TD_MAX_LIST) {
        char expected[TD_TENSOR_NAMES_TEXT];
        return td_json_refuse(path, reader->err, "%s has no output \"%s\"; expected %s", op->name,
                              TD_OIP_SHOWN(name),
                              td_output_names_text(op, expected, sizeof expected));
    }
    bool twice = false;
    status = mark_requested(reader, index, &twice);
    if (status != TD_OK)
        return status;
    if (twice)
        return td_json_refuse(path, reader->err, "the output \"%s\" is requested twice",
                              TD_OIP_SHOWN(name));
    if (parameters.range.region && parameters.binary)
        return td_json_refuse(
            path, reader->err,
            "binary_data is true for \"%s\", but this output goes to shared memory",
            TD_OIP_SHOWN(name));
    if (parameters.range.region && (status = find_range(reader, path, &parameters.range)) != TD_OK)
        return status;
    struct td_oip_output *outputs = td_oip_grow(reader, reader->outputs, reader->n_outputs,
                                                &reader->output_capacity, sizeof *outputs);
    if (!outputs)
        return reader->err->status;
    reader->outputs = outputs;
    outputs[reader->n_outputs++] = (struct td_oip_output){ .index = (int)index,
                                                           .has_binary = parameters.has_binary,
                                                           .binary = parameters.binary,
                                                           .range = parameters.range };
    return TD_OK;
}

td_status td_oip_read_outputs(struct td_oip_reader *reader, const struct td_json_path *path)
{
    return td_json_list(&reader->scan, path, "outputs", read_output, reader, reader->err);
}

/* ---- ranges of shared memory ---- */

struct used_range {
    const struct td_oip_range *range;
    bool output;
};

static int compare_regions(const struct td_oip_range *a, const struct td_oip_range *b)
{
    if (a->region_length != b->region_length)
        return a->region_length < b->region_length ? -1 : 1;
    return memcmp(a->region, b->region, a->region_length);
}

static int compare_ranges(const void *a, const void *b)
{
    const struct td_oip_range *left = ((const struct used_range *)a)->range;
    const struct td_oip_range *right = ((const struct used_range *)b)->range;
    const int regions = compare_regions(left, right);
    if (regions != 0)
        return regions;
    return left->offset < right->offset ? -1 : left->offset > right->offset;
}

/* Finds overlaps by sorting the ranges. The end of a range cannot overflow, because each range lies
 * within its region. */
td_status td_oip_check_ranges(struct td_oip_reader *reader)
{
    const size_t most = (size_t)reader->n_inputs + (size_t)reader->n_outputs;
    bool any_output = false;
    for (int i = 0; i < reader->n_outputs; i++)
        any_output = any_output || reader->outputs[i].range.region;
    if (!any_output)
        return TD_OK;
    struct used_range *used = td_arena_alloc(reader->arena, most, sizeof *used, reader->err);
    if (!used)
        return reader->err->status;
    size_t n = 0;
    for (int i = 0; i < reader->n_inputs; i++)
        if (reader->inputs[i].range.region && reader->inputs[i].range.bytes > 0)
            used[n++] = (struct used_range){ &reader->inputs[i].range, false };
    for (int i = 0; i < reader->n_outputs; i++)
        if (reader->outputs[i].range.region && reader->outputs[i].range.bytes > 0)
            used[n++] = (struct used_range){ &reader->outputs[i].range, true };
    qsort(used, n, sizeof *used, compare_ranges);
    uint64_t inputs_end = 0, outputs_end = 0;
    for (size_t i = 0; i < n; i++) {
        const struct td_oip_range *range = used[i].range;
        if (i > 0 && compare_regions(range, used[i - 1].range) != 0)
            inputs_end = outputs_end = 0;
        if (range->offset < outputs_end || (used[i].output && range->offset < inputs_end))
            return td_error_set(
                reader->err, TD_MALFORMED_REQUEST,
                "an output overlaps another tensor of this request at offset %" PRIu64
                " of the shared-memory region \"%s\"",
                range->offset, TD_SHOWN(range->region, range->region_length));
        uint64_t *end = used[i].output ? &outputs_end : &inputs_end;
        *end = range->offset + range->bytes > *end ? range->offset + range->bytes : *end;
    }
    return TD_OK;
}
