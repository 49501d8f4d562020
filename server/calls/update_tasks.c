#include "server/calls/update_tasks.h"

#include "api/codec.h"
#include "api/message/message.h"
#include "api/message/table_keys.h"
#include "api/message/unknown_member.h"
#include "kernels/key_index/key_index.h"
#include "kernels/name.h"
#include "kernels/op.h"
#include "kernels/op_change.h"
#include "kernels/op_check.h"
#include "kernels/op_rows.h"
#include "kernels/rows/row_change.h"
#include "server/calls/audit.h"
#include "server/calls/companions.h"
#include "server/calls/device_call.h"
#include "server/calls/op_task.h"
#include "server/calls/services.h"
#include "server/calls/tensor_call.h"

#include <stdio.h>
#include <string.h>

/* ---- all updates ----------------------------------------------------------------------------- */

static bool is_by_key(const struct td_op *op)
{
    return op->change->find;
}

static struct td_operand *input_of(struct td_call *call, td_row_part part)
{
    return &call->request.args.inputs[td_op_rows_input(call->op, part)];
}

static td_status begin(struct td_call *call)
{
    td_status status = td_tensor_call_begin_write(call);
    td_request_init(&call->request, call->op);
    call->request.has_no_output = call->request.is_change = true;
    if (status == TD_OK)
        status =
            td_codec_request_format(call->headers.content_type, &call->body_format, &call->error);
    return status;
}

static td_status argument(struct td_call *call, const char *name, size_t length, const char *value,
                          size_t value_length)
{
    return td_name_is(TD_PERSIST, name, length)
               ? td_tensor_call_persist(call, value, value_length)
               : td_op_argument(call, name, length, value, value_length);
}

static struct td_tensor without_data(const struct td_tensor *tensor)
{
    struct td_tensor described = *tensor;
    described.data = described.offsets = NULL;
    described.owner = NULL;
    described.key_index = NULL;
    described.keys = NULL;
    return described;
}

static td_status no_keys(struct td_call *call)
{
    const struct td_tensor_call *state = call->state;
    return td_table_without_keys(state->write.name, NULL, NULL, call->op, &call->error);
}

/* Represents an existing index in the cost estimate, which never reads the index. */
static const struct td_key_index there_is_one;

/* Describes the current version for decoding and inference. Keeps no reference to the version,
 * because a version can be updated in place only if nothing else refers to it. */
static td_status describe_inputs(struct td_call *call, const struct td_tensor *table)
{
    struct td_tensor_call *state = call->state;
    state->tensor = without_data(table);
    call->request.table = state->write.name;
    call->request.args.inputs[0] = (struct td_operand){ &state->tensor, 1 };
    if (!is_by_key(call->op))
        return TD_OK;
    if (!table->keys)
        return no_keys(call);
    state->keys = without_data(table->keys);
    state->keys.key_index = table->keys->key_index ? &there_is_one : NULL;
    *input_of(call, TD_ROW_PART_PER_ROW) = (struct td_operand){ &state->keys, 1 };
    return TD_OK;
}

static td_status describe(struct td_call *call)
{
    const struct td_tensor_call *state = call->state;
    struct td_tensor_listing found;
    struct td_arena arena;
    _Alignas(64) char block[1024];
    td_arena_init(&arena, block, sizeof block, td_buffer_pool_memory(call->services->buffers));
    td_status status =
        td_catalog_get(&call->catalog, state->write.name, &arena, &found, &call->error);
    if (status == TD_OK)
        status = describe_inputs(call, found.tensor);
    if (status == TD_OK)
        status = td_companions_check_change(call, state->write.name, found.tensor, &arena);
    td_arena_reset(&arena);
    return status;
}

/* Explains the error of a request that passes keys to an op that takes row numbers. */
static td_status explain_keys(struct td_call *call, td_status status)
{
    static const char member[] = "/" TD_TABLE_KEYS;
    struct td_error *err = &call->error;
    const struct td_tensor_call *state = call->state;
    if (!is_by_key(call->op) && status == TD_MALFORMED_REQUEST && err->has_pointer &&
        td_name_ends(member, err->pointer, err->pointer_length))
        snprintf(err->message, sizeof err->message,
                 "%s takes row numbers, not keys; POST /v1/tensors/%s/%s writes rows by key",
                 call->op->name, state->write.name, td_key_writer->name);
    return status;
}

static td_status decode(struct td_call *call)
{
    td_borrowed_begin(&call->borrowed, &call->catalog.resolver, NULL);
    td_status status = td_tensor_call_check_write(call);
    if (status == TD_OK)
        status = describe(call);
    if (status == TD_OK)
        status =
            td_codec_decode(call->body_format, call->body, call->body_bytes,
                            &call->borrowed.resolver, &call->arena, &call->request, &call->error);
    return explain_keys(call, status);
}

static td_status admit(struct td_call *call, struct td_admission *admission)
{
    td_status status = td_device_call_check(call);
    if (status == TD_OK)
        status = td_borrowed_copy_indices(&call->request, &call->arena, &call->error);
    if (status == TD_OK)
        status = td_op_infer(call->op, &call->request.args, &call->arena, &call->error);
    if (status == TD_OK)
        admission->cost = call->op->cost(&call->request.args);
    return status;
}

static void init_exec(struct td_call *call, struct td_worker *worker, struct td_pool_exec *exec)
{
    td_pool_exec_init(exec, worker, &call->arena, td_call_stopped, call);
    exec->base.hash_seed = call->services->hash_seed;
    exec->base.output_limit = (uint64_t)call->services->config.tensor_quota;
    exec->base.isa = call->services->config.isa;
}

/* Ends the update. Publishes the update if it succeeded, and aborts it otherwise. */
static td_status end(struct td_call *call, td_status status, struct td_store_update *update,
                     const struct td_written_slices *slices)
{
    struct td_tensor_call *state = call->state;
    if (status == TD_OK)
        status = td_borrowed_check(&call->borrowed, &call->error);
    if (status == TD_OK)
        status = td_call_reserve_reply(call);
    if (status != TD_OK) {
        td_store_update_abort(update);
        return status;
    }
    status = td_store_update_commit(update, slices->offsets, slices->count, slices->slice_bytes,
                                    &call->arena, &state->listing, &call->error);
    if (status == TD_OK)
        td_audit_table(call, call->op->name, &state->listing);
    return status;
}

/* ---- in place -------------------------------------------------------------------------------- */

/* Applies the update to the new version. If another writer has since replaced the tensor for which
 * the body was decoded, updates the newer tensor if possible. */
static td_status write_rows(struct td_call *call, struct td_store_update *update,
                            struct td_exec *exec, struct td_written_slices *slices)
{
    struct td_op_args *args = &call->request.args;
    struct td_tensor *output;
    update->unchanged = true;
    args->inputs[0] = (struct td_operand){ &update->tensor, 1 };
    td_status status = td_op_infer(call->op, args, &call->arena, &call->error);
    if (status != TD_OK)
        return status;
    output = &args->outputs[0];
    if (output->dtype == TD_DTYPE_STRING)
        status = td_tensor_alloc(output, &call->arena, &call->error);
    else
        output->data = update->tensor.data;
    if (status != TD_OK)
        return status;
    update->unchanged = false;
    status = call->op->run(args, exec, &call->error);
    if (status != TD_OK) {
        /* An index error is reported before anything is written. */
        update->unchanged = status == TD_INDEX_OUT_OF_BOUNDS;
        return status;
    }
    if (output->dtype != TD_DTYPE_STRING)
        return call->op->change->slices(args, &call->arena, slices, &call->error);
    update->tensor = *output;
    return TD_OK;
}

static td_status change_in_place(struct td_call *call, struct td_worker *worker)
{
    const struct td_tensor_call *state = call->state;
    struct td_pool_exec exec;
    struct td_store_update *update = NULL;
    struct td_written_slices slices = { 0 };
    init_exec(call, worker, &exec);
    const td_status status = td_store_update_begin(call->services->store, &state->write,
                                                   &call->arena, &exec.base, &update, &call->error);
    if (status != TD_OK)
        return td_catalog_hide(&call->catalog, state->write.name, status, &call->error);
    return end(call, write_rows(call, update, &exec.base, &slices), update, &slices);
}

/* ---- by key ---------------------------------------------------------------------------------- */

/* Sets the inputs to the version that is being changed, and its keys. */
static td_status set_inputs(struct td_call *call, const struct td_store_update *update)
{
    struct td_op_args *args = &call->request.args;
    struct td_tensor *inputs = td_arena_alloc(&call->arena, 2, sizeof *inputs, &call->error);
    if (!inputs)
        return call->error.status;
    if (!update->before->keys)
        return no_keys(call);
    inputs[0] = *update->before;
    inputs[1] = *update->before->keys;
    args->inputs[0] = (struct td_operand){ &inputs[0], 1 };
    *input_of(call, TD_ROW_PART_PER_ROW) = (struct td_operand){ &inputs[1], 1 };
    return td_op_infer(call->op, args, &call->arena, &call->error);
}

/* Allocates a tensor with n rows. For numbers, copies the first rows. For strings, only allocates
 * the offsets. */
static td_status resize(const struct td_tensor *tensor, int64_t n, struct td_arena *arena,
                        struct td_tensor *out, struct td_error *err)
{
    struct td_shape shape = tensor->shape;
    shape.dim[0] = n;
    td_status status = td_tensor_describe(out, "the table", tensor->dtype, &shape, err);
    if (status == TD_OK)
        status = td_tensor_alloc(out, arena, err);
    if (status == TD_OK && tensor->dtype != TD_DTYPE_STRING && out->bytes > 0)
        memcpy(out->data, tensor->data, out->bytes < tensor->bytes ? out->bytes : tensor->bytes);
    return status;
}

/* True if the change adds or removes keys. */
static bool changes_keys(const struct td_row_change *change, const struct td_tensor *keys)
{
    return change->n_rows != keys->numel;
}

static td_status change_rows(struct td_call *call, struct td_store_update *update,
                             const struct td_row_change *change, struct td_exec *exec)
{
    const bool has_rows = td_op_rows_input(call->op, TD_ROW_PART_PER_QUERY) >= 0;
    const struct td_tensor *rows = has_rows ? input_of(call, TD_ROW_PART_PER_QUERY)->tensors : NULL;
    td_status status =
        update->before->dtype == TD_DTYPE_STRING
            ? resize(update->before, change->n_rows, &call->arena, &update->tensor, &call->error)
            : td_store_update_copy(update, change->n_rows, &call->error);
    return status == TD_OK ? td_row_change_apply(change, update->before, rows, &update->tensor,
                                                 exec, &call->error)
                           : status;
}

static td_status change_keys(struct td_call *call, struct td_store_update *update,
                             const struct td_row_change *change, struct td_exec *exec)
{
    const struct td_tensor *before = update->before->keys,
                           *keys = input_of(call, TD_ROW_PART_QUERY)->tensors;
    struct td_tensor *after = td_arena_alloc(&call->arena, 1, sizeof *after, &call->error);
    if (!after)
        return call->error.status;
    td_status status = resize(before, change->n_rows, &call->arena, after, &call->error);
    update->keys = after;
    return status == TD_OK ? td_row_change_apply(change, before, keys, after, exec, &call->error)
                           : status;
}

/* Returns which rows were written in a table whose number of rows did not change. */
static td_status written_slices(const struct td_row_change *change, const struct td_tensor *table,
                                struct td_arena *arena, struct td_written_slices *out,
                                struct td_error *err)
{
    const size_t row_bytes =
        table->shape.dim[0] > 0 ? table->bytes / (size_t)table->shape.dim[0] : 0;
    uint64_t *offsets = td_arena_alloc(arena, (size_t)change->n, sizeof *offsets, err);
    if (!offsets)
        return err->status;
    for (int64_t i = 0; i < change->n; i++)
        offsets[i] = (uint64_t)change->to[i] * row_bytes;
    *out = (struct td_written_slices){ offsets, change->n, row_bytes };
    return TD_OK;
}

static td_status apply(struct td_call *call, struct td_store_update *update,
                       const struct td_row_change *change, struct td_exec *exec,
                       struct td_written_slices *slices)
{
    td_status status = change_rows(call, update, change, exec);
    if (status != TD_OK)
        return status;
    return changes_keys(change, update->before->keys)
               ? change_keys(call, update, change, exec)
               : written_slices(change, &update->tensor, &call->arena, slices, &call->error);
}

/* Sets the row counts of the reply. */
static void count_rows(const struct td_op_change *op, const struct td_row_change *change,
                       struct td_row_count *rows)
{
    if (op->found)
        *rows++ = (struct td_row_count){ op->found, change->n_found };
    if (op->added)
        *rows = (struct td_row_count){ op->added, change->n - change->n_found };
}

static td_status change_by_key(struct td_call *call, struct td_worker *worker)
{
    struct td_tensor_call *state = call->state;
    struct td_pool_exec exec;
    struct td_store_update *update = NULL;
    struct td_row_change change = { 0 };
    struct td_written_slices slices = { 0 };
    init_exec(call, worker, &exec);
    td_status status = td_store_update_open(call->services->store, &state->write, &call->arena,
                                            &exec.base, &update, &call->error);
    if (status != TD_OK)
        return td_catalog_hide(&call->catalog, state->write.name, status, &call->error);
    status = set_inputs(call, update);
    if (status == TD_OK)
        status = call->op->change->find(&call->request.args, &exec.base, &change, &call->error);
    if (status == TD_OK)
        status = apply(call, update, &change, &exec.base, &slices);
    status = end(call, status, update, &slices);
    if (status == TD_OK)
        count_rows(call->op->change, &change, state->listing.rows);
    return status;
}

static td_status change_table(struct td_call *call, struct td_worker *worker)
{
    return is_by_key(call->op) ? change_by_key(call, worker) : change_in_place(call, worker);
}

const struct td_task td_table_change_task = { .begin = begin,
                                              .argument = argument,
                                              .decode = decode,
                                              .admit = admit,
                                              .effect = td_tensor_call_effect,
                                              .change = change_table,
                                              .encode = td_tensor_call_encode_listing,
                                              .body_limit = TD_BODY_ANY };
