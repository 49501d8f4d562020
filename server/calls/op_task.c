#include "server/calls/op_task.h"

#include "api/codec.h"
#include "api/files/foreign.h"
#include "api/message/attrs.h"
#include "api/message/outputs.h"
#include "api/message/unknown_member.h"
#include "api/oip/oip.h"
#include "api/tensor_io.h"
#include "kernels/key_dtype.h"
#include "kernels/name.h"
#include "kernels/op_check.h"
#include "server/calls/companions.h"
#include "server/calls/conditions.h"
#include "server/calls/device_call.h"
#include "server/calls/models.h"
#include "server/calls/op_limits.h"
#include "server/calls/passes.h"
#include "server/calls/path_table.h"
#include "server/calls/reply_outputs.h"
#include "server/calls/row_keys.h"
#include "server/calls/services.h"
#include "server/calls/store_option.h"
#include "server/calls/stored_programs.h"
#include "server/observe/clock.h"

#include <string.h>

/* ---- before the body ------------------------------------------------------------------------- */

/* Finds the model in a path of /v2, or checks that the call is allowed to read the table in a path
 * of /v1. Like an unknown op, an unknown model is refused before the body arrives. */
static td_status check_path(struct td_call *call)
{
    struct td_oip_model model;
    if (call->style == TD_STYLE_OIP)
        return td_model_find(call, &model);
    return call->table.name ? td_catalog_may_name(&call->catalog, call->table.name, &call->error)
                            : TD_OK;
}

td_status td_op_begin(struct td_call *call)
{
    const td_status found = check_path(call);
    td_request_init(&call->request, call->op);
    if (found != TD_OK)
        return found;
    if (call->style == TD_STYLE_OIP) { /* the protocol ignores Content-Type and Accept */
        call->body_format = call->reply_format = TD_FORMAT_OIP;
        return TD_OK;
    }
    const td_status status =
        td_tensor_io_body_format(call->headers.content_type, &call->body_format, &call->error);
    return status != TD_OK ? status
                           : td_codec_reply_format(call->headers.accept, call->body_format,
                                                   &call->reply_format, &call->error);
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
        return td_store_option_check(call);
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
    const td_status status = call->program ? td_stored_program_use(call) : TD_OK;
    if (status != TD_OK)
        return status;
    return call->body_format == TD_FORMAT_OIP
               ? td_foreign_explain_body(decode_oip(call), TD_FORMAT_OIP, call->body,
                                         call->body_bytes, &call->error)
               : td_codec_decode(call->body_format, call->body, call->body_bytes,
                                 &call->borrowed.resolver, &call->arena, &call->request,
                                 &call->error);
}

td_status td_op_decode_with(struct td_call *call, td_status (*decode)(struct td_call *call))
{
    struct td_services *services = call->services;
    td_borrowed_begin(&call->borrowed, &call->catalog.resolver,
                      services->shm ? td_shm_regions(services->shm) : NULL);
    td_status status = call->table.name ? td_path_table_bind(call) : TD_OK;
    if (status == TD_OK)
        status = decode(call);
    call->schedule.must_queue = call->request.common.store != NULL;
    if (status == TD_OK)
        status = td_store_option_check(call);
    if (status == TD_OK && !call->request.common.store)
        status = td_conditions_refuse(call, TD_CHANGES_NOTHING);
    return status;
}

static td_status decode(struct td_call *call)
{
    return td_op_decode_with(call, decode_body);
}

/* Returns the number of bytes that the admit stage reads. Some ops infer the shapes of their
 * outputs from values, and values that are not aligned are copied before they are read. Values in a
 * resident table might not be aligned. */
uint64_t td_op_admit_bytes(const struct td_call *call)
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

/* Checks the format and the length of the reply. If the format cannot hold the outputs, the reply
 * has another format that the client accepts. */
static td_status admit_reply(struct td_call *call, struct td_admission *admission)
{
    const td_status status = td_codec_choose_reply(call->headers.accept, &call->request,
                                                   &call->reply_format, &call->error);
    return status != TD_OK ? status : td_op_limits_check_text(call, &admission->encoded_bound);
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

td_status td_op_admit(struct td_call *call, struct td_admission *admission)
{
    td_device_call_set_defaults(call);
    td_status status = td_row_keys_bind(call);
    if (status == TD_OK)
        status = td_borrowed_copy_indices(&call->request, &call->arena, &call->error);
    if (status == TD_OK)
        status = infer(call);
    if (status == TD_OK)
        status = td_outputs_describe(&call->request, &call->arena, &call->error);
    if (status == TD_OK)
        status = td_op_limits_check_outputs(call, &admission->output_bytes);
    if (status == TD_OK)
        status = call->request.common.store ? td_store_option_admit(call, admission)
                                            : admit_reply(call, admission);
    if (status != TD_OK)
        return status;
    admission->cost = call->op->cost(&call->request.args);
    td_row_keys_add_cost(call, &admission->cost);
    status = td_op_limits_check_flops(call, admission->cost.flops);
    return status != TD_OK ? status
                           : td_call_admit_memory(call, td_op_limits_memory(call, admission));
}

/* ---- compute, change, encode ----------------------------------------------------------------- */

static td_status alloc_outputs(struct td_call *call)
{
    struct td_op_args *args = &call->request.args;
    td_status status = TD_OK;
    for (int i = 0; status == TD_OK && i < args->n_outputs; i++)
        status = call->request.common.store
                     ? td_store_option_alloc(call, &args->outputs[i])
                     : td_tensor_alloc(&args->outputs[i], &call->arena, &call->error);
    return status;
}

static uint64_t now(void)
{
    return (uint64_t)td_now_ns();
}

void td_op_task_exec(struct td_call *call, struct td_worker *worker, struct td_pool_exec *exec)
{
    td_pool_exec_init(exec, worker, &call->arena, td_call_stopped, call);
    exec->base.hash_seed = call->services->hash_seed;
    exec->base.output_limit = (uint64_t)call->services->config.max_output;
    exec->base.flops_limit = call->services->config.max_flops > 0
                                 ? (uint64_t)call->services->config.max_flops
                                 : UINT64_MAX;
    exec->base.isa = call->services->config.isa;
    exec->base.now = call->request.common.timing ? now : NULL;
}

/* Allocates the outputs only now, so a queued call holds only its inputs. */
td_status td_op_task_begin(struct td_call *call, struct td_worker *worker,
                           struct td_pool_exec *exec)
{
    td_op_task_exec(call, worker, exec);
    const td_status status = alloc_outputs(call);
    return status == TD_OK ? td_row_keys_find(call, &exec->base) : status;
}

td_status td_op_task_end(struct td_call *call, struct td_exec *exec, td_status status)
{
    if (status == TD_OK)
        status = td_reply_outputs_finish(call, exec);
    status = td_op_limits_name(call, status, exec->output_limit, "--max-output");
    if (strcmp(call->error.resource, "flops") == 0)
        status = td_op_limits_name(call, status, exec->flops_limit, "--max-flops");
    return status != TD_OK ? status : td_borrowed_check(&call->borrowed, &call->error);
}

td_status td_op_compute(struct td_call *call, struct td_worker *worker)
{
    struct td_pool_exec exec;
    td_status status = td_op_task_begin(call, worker, &exec);
    if (status == TD_OK)
        status = call->schedule.pass ? td_pass_run(call, worker, &exec.base)
                                     : call->op->run(&call->request.args, &exec.base, &call->error);
    return td_op_task_end(call, &exec.base, status);
}

/* Checks the outputs again, because string lengths were unknown before the op ran. */
static td_status check_computed(struct td_call *call, size_t *bytes)
{
    const td_status status = td_op_limits_check_outputs(call, bytes);
    return status == TD_OK ? td_call_late(call, "while the result was being computed") : status;
}

td_status td_op_change_stage(struct td_call *call, struct td_worker *worker)
{
    size_t bytes;
    const td_status status = check_computed(call, &bytes);
    (void)worker;
    if (status != TD_OK)
        return status;
    td_path_table_tell(call);
    return td_store_option_change(call);
}

td_status td_op_encode(struct td_call *call)
{
    size_t bytes;
    if (call->request.common.store)
        return TD_OK; /* the reply was written by the change stage */
    td_status status = check_computed(call, &bytes);
    if (status == TD_OK)
        status = td_op_limits_check_text(call, &bytes);
    if (status != TD_OK)
        return status;
    td_path_table_tell(call);
    status = td_codec_encode(call->reply_format, &call->request, &call->arena, &call->reply,
                             &call->error);
    /* Outputs in shared memory might have been truncated. */
    return status != TD_OK ? status : td_borrowed_check(&call->borrowed, &call->error);
}

const struct td_task td_op_task = { .begin = td_op_begin,
                                    .argument = td_op_argument,
                                    .decode = decode,
                                    .admit = td_op_admit,
                                    .compute = td_op_compute,
                                    .effect = td_store_option_effect,
                                    .change = td_op_change_stage,
                                    .encode = td_op_encode,
                                    .body_limit = TD_BODY_ANY,
                                    .on_device = true,
                                    .admit_bytes = td_op_admit_bytes };
