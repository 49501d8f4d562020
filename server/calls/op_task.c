#include "server/calls/op_task.h"

#include "api/codec.h"
#include "api/describe.h"
#include "api/files/foreign.h"
#include "api/message/attrs.h"
#include "api/message/common_members.h"
#include "api/message/message.h"
#include "api/message/unknown_member.h"
#include "api/oip/oip.h"
#include "kernels/integers.h"
#include "kernels/key_dtype.h"
#include "kernels/name.h"
#include "kernels/op_check.h"
#include "server/calls/audit.h"
#include "server/calls/companions.h"
#include "server/calls/models.h"
#include "server/calls/path_table.h"
#include "server/calls/row_keys.h"
#include "server/calls/services.h"
#include "server/observe/clock.h"
#include "server/store/table_name.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- before the body ------------------------------------------------------------------------- */

/* Checks that the call is allowed to read the table in its path. Like an unknown op, an unknown
 * model is refused before the body arrives. */
static td_status check_table(struct td_call *call)
{
    struct td_oip_model model;
    return call->table.model ? td_model_find(call, &model)
                             : td_catalog_may_name(&call->catalog, call->table.name, &call->error);
}

static td_status begin(struct td_call *call)
{
    td_request_init(&call->request, call->op);
    if (call->table.name && check_table(call) != TD_OK)
        return call->error.status;
    if (call->style == TD_STYLE_OIP) { /* the protocol ignores Content-Type and Accept */
        call->body_format = call->reply_format = TD_FORMAT_OIP;
        return TD_OK;
    }
    const td_status status =
        td_codec_request_format(call->headers.content_type, &call->body_format, &call->error);
    return status != TD_OK ? status
                           : td_codec_reply_format(call->headers.accept, call->body_format,
                                                   &call->reply_format, &call->error);
}

/* Checks that the call is allowed to write the tensor in which it stores its outputs. */
static td_status check_store(struct td_call *call)
{
    const char *name = call->request.common.store;
    return name ? td_catalog_may_write(&call->catalog, name, &call->error) : TD_OK;
}

td_status td_op_argument(struct td_call *call, const char *name, size_t length, const char *value,
                         size_t value_length)
{
    bool known;
    if (call->style == TD_STYLE_OIP)
        return td_oip_check_query(&call->request, name, length, &call->error);
    const td_status status = td_attrs_set_query(&call->request, name, length, value, value_length,
                                                &call->arena, &known, &call->error);
    if (status != TD_OK)
        return status;
    if (known)
        return check_store(call);
    (void)td_unknown_member(&call->request, name, length, TD_QUERY, &call->error);
    if (td_name_is("persist", name, length))
        td_error_hint(&call->error, "an op stores its output in memory; PUT "
                                    "/v1/tensors/NAME?persist=1 with {\"ref\": \"STORED\"} "
                                    "writes it to the data folder");
    return call->error.status;
}

/* ---- decode ---------------------------------------------------------------------------------- */

static td_status decode_oip(struct td_call *call)
{
    const struct td_oip_source source = { .json_bytes = call->headers.inference_header,
                                          .model = call->table.model,
                                          .version = td_path_table_version(call),
                                          .resolver = &call->borrowed.resolver,
                                          .regions = call->services->shm ? &call->borrowed.regions
                                                                         : NULL };
    uint64_t timeout_us = 0;
    const td_status status = td_oip_decode(call->body, call->body_bytes, &source, &call->arena,
                                           &call->request, &timeout_us, &call->error);
    if (timeout_us > 0 && timeout_us < INT64_MAX / 1000 - (uint64_t)call->times.arrived / 1000)
        call->schedule.start_by_ns = call->times.arrived + (int64_t)timeout_us * 1000;
    return status;
}

static td_status decode_body(struct td_call *call)
{
    return call->body_format == TD_FORMAT_OIP
               ? td_foreign_explain_body(decode_oip(call), TD_FORMAT_OIP, call->body,
                                         call->body_bytes, &call->error)
               : td_codec_decode(call->body_format, call->body, call->body_bytes,
                                 &call->borrowed.resolver, &call->arena, &call->request,
                                 &call->error);
}

static td_status decode(struct td_call *call)
{
    struct td_services *services = call->services;
    td_borrowed_begin(&call->borrowed, &call->catalog.resolver,
                      services->shm ? td_shm_regions(services->shm) : NULL);
    td_status status = call->table.name ? td_path_table_bind(call) : TD_OK;
    if (status == TD_OK)
        status = decode_body(call);
    call->schedule.must_queue = call->request.common.store != NULL;
    if (status == TD_OK)
        status = check_store(call);
    if (status == TD_OK && !call->request.common.store)
        status = td_call_refuse_conditions(call, TD_CHANGES_NOTHING);
    return status;
}

/* Returns the number of bytes that the admit stage reads. Some ops infer the shapes of their
 * outputs from values, and values that are not aligned are copied before they are read. Values in a
 * resident table might not be aligned. */
static uint64_t admit_bytes(const struct td_call *call)
{
    uint64_t bytes = td_borrowed_index_bytes(&call->request) + td_row_keys_copied(call);
    for (int i = 0; i < call->op->n_inputs; i++) {
        const struct td_input_spec *spec = &call->op->inputs[i];
        const struct td_operand *operand = &call->request.args.inputs[i];
        for (int j = 0; j < operand->count; j++) {
            const struct td_tensor *tensor = &operand->tensors[j];
            /* checked for a device */
            const bool checked = call->op->valid && spec->role == TD_ROLE_INDEX;
            const bool widened = spec->role == TD_ROLE_KEY && td_key_is_narrow(tensor->dtype);
            if (spec->sets_shape || checked || widened ||
                (td_input_reads_values(spec) && !td_tensor_is_aligned(tensor)))
                bytes += tensor->bytes;
        }
    }
    return bytes;
}

/* ---- admit ----------------------------------------------------------------------------------- */

/* State of a call that stores its outputs. */
enum { LONGEST_PART = TD_TENSOR_NAME + 1 }; /* longer parts of a name are invalid */
struct stored {
    /* Output being stored. Its name is the next member. */
    struct td_store_write write;
    char name[2 * LONGEST_PART + 64];
    const char **names; /* sorted names of all outputs */
};

/* Writes the name of output `i` for the name "w": "w", or "w.0", "w.1", ... if the op has a list of
 * outputs, or "w.values" if the outputs have names. For "w@v", the names are "w.0@v" and so on, so
 * each output has the version v. A name that is too long remains too long, and is therefore
 * invalid. */
static void name_output(struct td_call *call, int i)
{
    struct stored *stored = call->state;
    const char *name = call->request.common.store;
    const int base = (int)td_smaller((int64_t)td_table_base(name), LONGEST_PART);
    const char *version = name + td_table_base(name);
    switch (td_op_output_form(call->op)) {
    case TD_OUTPUT_ONE:
        snprintf(stored->name, sizeof stored->name, "%.*s%.*s", base, name, LONGEST_PART, version);
        break;
    case TD_OUTPUT_LIST:
        snprintf(stored->name, sizeof stored->name, "%.*s.%d%.*s", base, name, i, LONGEST_PART,
                 version);
        break;
    case TD_OUTPUT_NAMED:
        snprintf(stored->name, sizeof stored->name, "%.*s.%s%.*s", base, name,
                 call->op->outputs[i].name, LONGEST_PART, version);
        break;
    }
    stored->write.name = stored->name;
}

/* Checks the names of all outputs. In a list, the last output has the longest name. */
static td_status check_names(struct td_call *call)
{
    const struct stored *stored = call->state;
    const int n = call->request.args.n_outputs;
    td_status status = td_store_check_name(call->request.common.store, &call->error);
    if (status != TD_OK)
        return td_error_at_attribute(&call->error, status, "store");
    int i = td_op_output_form(call->op) == TD_OUTPUT_LIST && n > 0 ? n - 1 : 0;
    for (; status == TD_OK && i < n; i++) {
        name_output(call, i);
        status = td_store_check_name(stored->name, &call->error);
        if (status == TD_OK)
            status = td_catalog_may_write(&call->catalog, stored->name, &call->error);
    }
    return status;
}

/* Checks the total size of the outputs against --max-output and writes it to *bytes. For strings,
 * counts only the offsets, because `exec` limits their bytes while the op runs. */
static td_status check_outputs(struct td_call *call, size_t *bytes)
{
    const struct td_op_args *args = &call->request.args;
    const uint64_t limit = (uint64_t)call->services->config.max_output;
    *bytes = 0;
    for (int i = 0; i < args->n_outputs; i++)
        if (!td_size_add(*bytes, td_tensor_footprint(&args->outputs[i]), bytes))
            *bytes = SIZE_MAX;
    if (*bytes <= limit)
        return TD_OK;
    const td_status status =
        td_error_resource(&call->error, "output_bytes", *bytes, limit, "the output");
    return td_call_limited_by(call, status, limit, "--max-output");
}

/* Limits the length of the reply's text to --max-output. The text of numbers can be several times
 * longer than their bytes, so text of up to TEXT_PER_BYTE characters per output byte is accepted in
 * any case. */
static td_status check_encoded(struct td_call *call, size_t outputs, size_t *bytes)
{
    /* An int8 in a list of its own takes up to 7 characters: [-127], */
    enum { TEXT_PER_BYTE = 8 };
    const uint64_t limit = (uint64_t)call->services->config.max_output;
    if (!td_codec_encoded_bound(call->reply_format, &call->request, bytes))
        *bytes = SIZE_MAX;
    if (*bytes <= limit || *bytes / TEXT_PER_BYTE <= outputs)
        return TD_OK;
    const td_status status =
        td_error_resource(&call->error, "output_bytes", *bytes, limit, "the text of the reply");
    td_error_hint(&call->error,
                  "the server's option --max-output sets this limit; response=base64 and "
                  "the binary formats are shorter");
    return status;
}

static td_status check_flops(struct td_call *call, uint64_t flops)
{
    const uint64_t limit = (uint64_t)call->services->config.max_flops;
    if (limit == 0 || flops <= limit)
        return TD_OK;
    const td_status status = td_error_resource(&call->error, "flops", flops, limit, call->op->name);
    return td_call_limited_by(call, status, limit, "--max-flops");
}

/* Returns a + b, or SIZE_MAX on overflow. */
static size_t plus(size_t a, uint64_t b)
{
    size_t sum;
    return b <= SIZE_MAX && td_size_add(a, (size_t)b, &sum) ? sum : SIZE_MAX;
}

/* Returns the number of bytes needed to compute the outputs and encode the reply, without the
 * inputs. The number of threads is not known yet, so all workers are counted unless the computation
 * is single-threaded. */
static size_t memory_needed(const struct td_call *call, const struct td_admission *admission)
{
    const struct td_cost *cost = &admission->cost;
    const uint64_t threads = cost->single_threaded ? 1 : (uint64_t)call->services->config.workers;
    uint64_t scratch;
    if (__builtin_mul_overflow(cost->workspace_per_thread, threads, &scratch))
        scratch = UINT64_MAX;
    return plus(plus(plus(admission->output_bytes, admission->encoded_bound), cost->workspace),
                scratch);
}

td_status td_op_device(struct td_call *call)
{
    return td_devices_check(call->services->devices, call->request.common.device, &call->error);
}

/* Makes bounds=zero the default for device=gpu. An index out of bounds then gives zeros, as in
 * TensorFlow's GPU kernels. */
static void default_bounds(struct td_request *request)
{
    const struct td_op *op = request->op;
    for (int i = 0; i < op->n_attrs; i++)
        if (op->attrs[i].choices == td_bounds_names && !(request->args.attrs_set >> i & 1))
            td_op_set_choice(&op->attrs[i], &request->args, TD_BOUNDS_ZERO);
}

/* Checks the format and the length of the reply. If safetensors does not support the dtype of an
 * output and the client also accepts JSON, the outputs are sent as JSON. */
static td_status admit_reply(struct td_call *call, struct td_admission *admission)
{
    /* Not TD_IGNORED, because clearing it would cost time for every safetensors reply. */
    struct td_error unused;
    if (call->reply_format == TD_FORMAT_SAFETENSORS &&
        td_codec_can_encode(call->reply_format, &call->request, &unused) != TD_OK &&
        td_codec_accepts_json(call->headers.accept))
        call->reply_format = TD_FORMAT_JSON;
    const td_status status = td_codec_can_encode(call->reply_format, &call->request, &call->error);
    return status != TD_OK
               ? status
               : check_encoded(call, admission->output_bytes, &admission->encoded_bound);
}

static int in_order(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Lists the names of all outputs in order. The names have already been checked. */
static td_status list_names(struct td_call *call)
{
    struct stored *stored = call->state;
    const size_t n = (size_t)call->request.args.n_outputs;
    stored->names = td_arena_alloc(&call->arena, n, sizeof *stored->names, &call->error);
    for (size_t i = 0; stored->names && i < n; i++) {
        name_output(call, (int)i);
        stored->names[i] =
            td_arena_text(&call->arena, stored->name, strlen(stored->name), &call->error);
        if (!stored->names[i])
            return call->error.status;
    }
    if (!stored->names)
        return call->error.status;
    qsort(stored->names, n, sizeof *stored->names, in_order);
    return TD_OK;
}

/* Admits a call that stores its outputs. Checks their names and conditions, and that each output
 * fits in the store in addition to the previous outputs. */
static td_status admit_store(struct td_call *call, struct td_admission *admission)
{
    struct stored *stored = td_arena_alloc(&call->arena, 1, sizeof *stored, &call->error);
    struct td_store *store = call->services->store;
    const struct td_op_args *args = &call->request.args;
    struct td_store_totals totals = { 0 };
    if (!stored)
        return call->error.status;
    call->state = stored;
    admission->encoded_bound = td_describe_stored_bound(args->n_outputs);
    *stored = (struct stored){ 0 };
    stored->write.is_result = true;
    stored->write.ttl_s = call->request.common.store_ttl_s;
    stored->write.condition = (struct td_condition){ .if_match = call->headers.if_match,
                                                     .if_none_match = call->headers.if_none_match };
    td_status status = check_names(call);
    for (int i = 0; status == TD_OK && i < args->n_outputs; i++) {
        name_output(call, i);
        status = td_store_admit_next(store, &stored->write, td_tensor_footprint(&args->outputs[i]),
                                     &totals, &call->error);
    }
    return status == TD_OK ? list_names(call) : status;
}

static td_status infer(struct td_call *call)
{
    const td_status status = td_op_infer(call->op, &call->request.args, &call->arena, &call->error);
    if (status == TD_OK)
        return td_companions_check(call);
    td_companions_explain(call);
    td_row_keys_explain(call);
    td_codec_hint(call->body_format, &call->request, &call->error);
    return status;
}

static td_status admit(struct td_call *call, struct td_admission *admission)
{
    if (call->request.common.device == TD_DEVICE_GPU)
        default_bounds(&call->request);
    td_status status = td_row_keys_bind(call);
    if (status == TD_OK)
        status = td_borrowed_copy_indices(&call->request, &call->arena, &call->error);
    if (status == TD_OK)
        status = infer(call);
    if (status == TD_OK)
        status = check_outputs(call, &admission->output_bytes);
    if (status == TD_OK)
        status = call->request.common.store ? admit_store(call, admission)
                                            : admit_reply(call, admission);
    if (status != TD_OK)
        return status;
    admission->cost = call->op->cost(&call->request.args);
    td_row_keys_add_cost(call, &admission->cost);
    status = check_flops(call, admission->cost.flops);
    return status != TD_OK ? status : td_call_admit_memory(call, memory_needed(call, admission));
}

/* ---- compute, change, encode ----------------------------------------------------------------- */

/* Allocates separate memory for an output that will be stored, because it outlives the call. The
 * store copies small outputs and strings. */
static td_status alloc_kept(struct td_call *call, struct td_tensor *output)
{
    if (output->dtype == TD_DTYPE_STRING || output->bytes <= TD_CALL_BLOCK / 2)
        return td_tensor_alloc(output, &call->arena, &call->error);
    struct td_memory *memory = td_buffer_pool_memory(call->services->buffers);
    struct td_buffer *buffer = memory->take(memory, output->bytes, &call->error);
    if (!buffer || !td_arena_keep(&call->arena, buffer, &call->error))
        return call->error.status;
    output->data = buffer->data;
    output->owner = buffer;
    return TD_OK;
}

static td_status alloc_outputs(struct td_call *call)
{
    struct td_op_args *args = &call->request.args;
    td_status status = TD_OK;
    for (int i = 0; status == TD_OK && i < args->n_outputs; i++)
        status = call->request.common.store
                     ? alloc_kept(call, &args->outputs[i])
                     : td_tensor_alloc(&args->outputs[i], &call->arena, &call->error);
    return status;
}

static td_status compute(struct td_call *call, struct td_worker *worker)
{
    struct td_pool_exec exec;
    /* Allocate the outputs only now, so a queued call holds only its inputs. */
    td_status status = alloc_outputs(call);
    if (status != TD_OK)
        return status;
    td_pool_exec_init(&exec, worker, &call->arena, td_call_stopped, call);
    exec.base.hash_seed = call->services->hash_seed;
    exec.base.output_limit = (uint64_t)call->services->config.max_output;
    exec.base.isa = call->services->config.isa;
    status = td_row_keys_find(call, &exec.base);
    if (status == TD_OK)
        status = call->op->run(&call->request.args, &exec.base, &call->error);
    status = td_call_limited_by(call, status, exec.base.output_limit, "--max-output");
    return status != TD_OK ? status : td_borrowed_check(&call->borrowed, &call->error);
}

/* Stores the outputs and replies with their metadata. Allocates the reply first, so no error is
 * possible after the outputs are stored. */
static td_status store_outputs(struct td_call *call)
{
    struct stored *stored = call->state;
    const struct td_op_args *args = &call->request.args;
    const size_t size = td_describe_stored_bound(args->n_outputs);
    struct td_tensor_listing *list =
        td_arena_alloc(&call->arena, (size_t)args->n_outputs, sizeof *list, &call->error);
    char *text = list ? td_arena_alloc(&call->arena, size, 1, &call->error) : NULL;
    td_status status = text ? TD_OK : call->error.status;
    for (int i = 0; status == TD_OK && i < args->n_outputs; i++) {
        bool created;
        name_output(call, i);
        status = td_store_put(call->services->store, &stored->write, &args->outputs[i],
                              &call->arena, &list[i], &created, &call->error);
        if (status == TD_OK)
            td_audit_table(call, call->op->name, &list[i]);
    }
    if (status == TD_OK)
        td_describe_stored(&call->request, list, text, size, &call->reply);
    return status;
}

static td_effect effect(struct td_call *call, struct td_writer *writer)
{
    struct stored *stored = call->state;
    if (!call->request.common.store)
        return TD_EFFECT_NONE;
    *writer = (struct td_writer){ .names = stored->names, .n_names = call->request.args.n_outputs };
    stored->write.writer = writer;
    return TD_EFFECT_MEMORY;
}

/* Checks the outputs again, because string lengths were unknown before the op ran. */
static td_status check_computed(struct td_call *call, size_t *bytes)
{
    const td_status status = check_outputs(call, bytes);
    return status == TD_OK ? td_call_late(call, "while the result was being computed") : status;
}

static td_status change(struct td_call *call, struct td_worker *worker)
{
    size_t bytes;
    const td_status status = check_computed(call, &bytes);
    (void)worker;
    if (status != TD_OK)
        return status;
    td_path_table_tell(call);
    return store_outputs(call);
}

static td_status encode(struct td_call *call)
{
    size_t outputs, bytes;
    if (call->request.common.store)
        return TD_OK; /* the reply was written by the change stage */
    td_status status = check_computed(call, &outputs);
    if (status == TD_OK)
        status = check_encoded(call, outputs, &bytes);
    if (status != TD_OK)
        return status;
    td_path_table_tell(call);
    status = td_codec_encode(call->reply_format, &call->request, &call->arena, &call->reply,
                             &call->error);
    /* Outputs in shared memory might have been truncated. */
    return status != TD_OK ? status : td_borrowed_check(&call->borrowed, &call->error);
}

const struct td_task td_op_task = { .begin = begin,
                                    .argument = td_op_argument,
                                    .decode = decode,
                                    .admit = admit,
                                    .compute = compute,
                                    .effect = effect,
                                    .change = change,
                                    .encode = encode,
                                    .on_device = true,
                                    .admit_bytes = admit_bytes };
