#include "gpu/reference/work.h"

#include "gpu/reference/memory.h"
#include "gpu/reference/stream.h"
#include "kernels/key_index/key_index.h"
#include "kernels/op_rows.h"
#include "kernels/rows/rows.h"

#include <stdio.h>
#include <string.h>

/* ---- the contract ---------------------------------------------------------------------------- */

bool td_reference_supports(const struct td_op *op, const struct td_op_args *args)
{
    for (int i = 0; i < op->n_inputs; i++)
        for (int j = 0; j < args->inputs[i].count; j++)
            if (args->inputs[i].tensors[j].dtype == TD_DTYPE_STRING)
                return false;
    return true;
}

/* Returns the number of calls of the work: the length of its chain, or 1. */
static int n_calls(const struct td_device_work *work)
{
    return work->chain ? work->n_chain : 1;
}

static const struct td_op_args *call_args(const struct td_device_work *work, int i)
{
    return work->chain ? work->chain[i].args : work->args;
}

/* True if an input of call i has memory: it is not the result of another call of the chain. */
static bool has_input(const struct td_device_work *work, int i, int input)
{
    return !work->chain || work->chain[i].operands[input] < 0;
}

static bool has_outputs(const struct td_device_work *work, int i)
{
    return !work->chain || !work->chain[i].is_inner;
}

/* Includes the alignment padding of the arena, whose first block is the workspace. */
size_t td_reference_workspace_bytes(struct td_device *device, const struct td_device_work *work)
{
    enum { PADDING = 1024 };
    uint64_t bytes = 0;
    (void)device;
    for (int i = 0; i < n_calls(work); i++) {
        const struct td_op_args *args = call_args(work, i);
        const struct td_cost cost = args->op->cost(args);
        bytes += cost.workspace + cost.workspace_per_thread;
    }
    return bytes > 0 ? (size_t)bytes + PADDING : 0;
}

/* Returns the number of bytes of the call's inputs and outputs that are in pinned memory. */
static uint64_t pinned_bytes(const struct td_device *device, const struct td_op_args *args)
{
    uint64_t bytes = 0;
    for (int i = 0; i < args->op->n_inputs; i++)
        for (int j = 0; j < args->inputs[i].count; j++)
            if (td_reference_in_blocks(device->host_blocks, args->inputs[i].tensors[j].data, 1))
                bytes += args->inputs[i].tensors[j].bytes;
    for (int i = 0; i < args->n_outputs; i++)
        if (td_reference_in_blocks(device->host_blocks, args->outputs[i].data, 1))
            bytes += args->outputs[i].bytes;
    return bytes;
}

/* True if the work's tensors are allowed to be in pinned memory. */
static bool is_direct(const struct td_device *device, const struct td_device_work *work)
{
    uint64_t bytes = 0;
    for (int i = 0; i < n_calls(work); i++)
        bytes += pinned_bytes(device, call_args(work, i));
    return !work->args->plan && bytes <= (uint64_t)device->options.direct_bytes;
}

static td_status not_in_memory(const char *name, int number, const struct td_tensor *tensor,
                               struct td_error *err)
{
    char message[200];
    snprintf(message, sizeof(message), "%s[%d], %zu bytes at %p, is not in device memory", name,
             number, tensor->bytes, tensor->data);
    return td_reference_misuse(err, message);
}

static td_status check_tensor(const struct td_device *device, const char *name, int number,
                              const struct td_tensor *tensor, size_t align, bool direct,
                              struct td_error *err)
{
    char message[200];
    if (!(direct && td_reference_in_blocks(device->host_blocks, tensor->data, tensor->bytes)) &&
        !td_reference_in_blocks(device->blocks, tensor->data, tensor->bytes))
        return not_in_memory(name, number, tensor, err);
    if (tensor->bytes > 0 && (uintptr_t)tensor->data % align != 0)
        snprintf(message, sizeof(message), "%s[%d] at %p is not aligned to %zu bytes", name, number,
                 tensor->data, align);
    else
        return TD_OK;
    return td_reference_misuse(err, message);
}

/* Checks the index of `keys`, if it has one. */
static td_status check_index(const struct td_device *device, const struct td_tensor *keys,
                             struct td_error *err)
{
    const struct td_key_index *index = keys->key_index;
    if (!index || (index->keys.data == keys->data &&
                   td_reference_in_blocks(device->blocks, td_key_index_image(index),
                                          td_key_index_bytes(keys->numel))))
        return TD_OK;
    return td_reference_misuse(
        err, "the index of keys is not in device memory, or belongs to other keys");
}

static td_status check_input(const struct td_device *device, const struct td_device_work *work,
                             int call, int input, struct td_error *err)
{
    const struct td_op_args *args = call_args(work, call);
    td_status status = TD_OK;
    for (int j = 0; status == TD_OK && j < args->inputs[input].count; j++) {
        const struct td_tensor *tensor = &args->inputs[input].tensors[j];
        status = check_tensor(device, args->op->inputs[input].name, j, tensor,
                              td_dtype_info(tensor->dtype)->align, is_direct(device, work), err);
        if (status == TD_OK)
            status = check_index(device, tensor, err);
    }
    return status;
}

static td_status check_outputs(const struct td_device *device, const struct td_device_work *work,
                               int call, struct td_error *err)
{
    const struct td_op_args *args = call_args(work, call);
    td_status status = TD_OK;
    for (int i = 0; status == TD_OK && i < args->n_outputs; i++)
        status = check_tensor(device, "outputs", i, &args->outputs[i], TD_REFERENCE_OUTPUT_ALIGN,
                              is_direct(device, work), err);
    return status;
}

static td_status check_tensors(const struct td_device *device, const struct td_device_work *work,
                               struct td_error *err)
{
    td_status status = TD_OK;
    for (int c = 0; c < n_calls(work); c++) {
        for (int i = 0; status == TD_OK && i < call_args(work, c)->op->n_inputs; i++)
            if (has_input(work, c, i))
                status = check_input(device, work, c, i, err);
        if (status == TD_OK && has_outputs(work, c))
            status = check_outputs(device, work, c, err);
    }
    return status;
}

/* Returns the queries of an op that reports each bad query, or NULL for other ops. */
static const struct td_tensor *reported_queries(const struct td_op *op,
                                                const struct td_op_args *args)
{
    return op->rows && op->rows->policy_attr != TD_ROWS_NONE
               ? args->inputs[td_op_rows_input(op, TD_ROW_PART_QUERY)].tensors
               : NULL;
}

/* Checks that the items are consecutive, consist of whole tuples and cover the indices. */
static td_status check_items(const struct td_device_work *work, struct td_error *err)
{
    const struct td_tensor *queries = reported_queries(work->op, work->args);
    struct td_tuple_space space = { .depth = 1 };
    if (work->n_items < 1)
        return td_reference_misuse(err, "work has no items; n_items must be at least 1");
    if (!queries)
        return TD_OK;
    (void)td_op_rows_space(work->op, work->args, &space);
    if (!work->item_end)
        return work->n_items == 1
                   ? TD_OK
                   : td_reference_misuse(err, "item_end is NULL for several items of indices");
    int64_t begin = 0, depth = space.depth > 0 ? space.depth : 1;
    for (int i = 0; i < work->n_items; i++) {
        if (work->item_end[i] < begin || work->item_end[i] % depth != 0)
            return td_reference_misuse(
                err, "an item_end is below the previous item_end, or inside a tuple");
        begin = work->item_end[i];
    }
    if (begin != queries->numel)
        return td_reference_misuse(err, "the last item_end is not the number of indices");
    return TD_OK;
}

static td_status check_work(struct td_device *device, const struct td_device_work *work,
                            struct td_error *err)
{
    td_status status = td_reference_check(device, err);
    for (int i = 0; status == TD_OK && i < n_calls(work); i++)
        if (!td_reference_supports(call_args(work, i)->op, call_args(work, i)))
            status = td_error_set(err, TD_NOT_SUPPORTED,
                                  "the reference device does not support strings");
    if (status == TD_OK)
        status = check_items(work, err);
    if (status == TD_OK)
        status = check_tensors(device, work, err);
    if (status != TD_OK)
        return status;
    size_t reports = (size_t)work->n_items * sizeof(work->reports[0]);
    if (work->reports && !td_reference_in_blocks(device->host_blocks, work->reports, reports))
        return td_reference_misuse(err, "the reports are not in host_alloc memory");
    if (!td_reference_in_blocks(device->blocks, work->workspace,
                                td_reference_workspace_bytes(device, work)))
        return td_reference_misuse(
            err, "the workspace is not in device memory, or smaller than workspace_bytes");
    return TD_OK;
}

/* ---- the result ------------------------------------------------------------------------------ */

/* Runs the op's CPU kernel so that it gives the results of a device, where the rows of bad indices
 * and missing keys are zero. If the CPU kernel finds a bad index or a missing key, it returns an
 * error and writes nothing, so it runs again with the policy zero. */
static td_status run_kernel(const struct td_device_work *work, struct td_exec *exec,
                            struct td_error *err)
{
    const struct td_op *op = work->op;
    struct td_op_args args = *work->args;
    if (work->chain)
        return td_chain_run_calls(work->chain, work->n_chain, exec, err);
    const td_status status = op->run(&args, exec, err);
    if (status != TD_INDEX_OUT_OF_BOUNDS && status != TD_KEY_NOT_FOUND)
        return status;
    if (!reported_queries(op, &args))
        return status;
    td_op_set_choice(&op->attrs[op->rows->policy_attr], &args, TD_ROWS_POLICY_ZERO);
    return op->run(&args, exec, err);
}

/* Reports the queries [begin, end) that select no row, if the policy makes a missing row an
 * error. */
static struct td_device_report missing_keys(const struct td_op *op, const struct td_op_args *args,
                                            int64_t begin, int64_t end)
{
    struct td_device_report report = { .first_bad = INT64_MAX };
    const bool *found = args->outputs[op->rows->found_output].data;
    if (td_op_choice(&op->attrs[op->rows->policy_attr], args) != TD_ROWS_POLICY_ERROR)
        return report;
    for (int64_t i = begin; i < end; i++)
        if (!found[i] && report.n_bad++ == 0)
            report.first_bad = i - begin;
    return report;
}

static td_status bad_indices(const struct td_tensor *indices, int64_t begin, int64_t end,
                             const struct td_tuple_space *space, struct td_exec *exec,
                             struct td_device_report *out, struct td_error *err)
{
    struct td_tensor item = *indices;
    int64_t n_bad, first;
    item.data = (char *)indices->data + (size_t)begin * td_dtype_info(item.dtype)->size;
    item.numel = end - begin;
    const td_status status = td_rows_check_tuples(&item, space, exec, &n_bad, &first, err);
    *out = (struct td_device_report){ n_bad > 0 ? first : INT64_MAX, n_bad };
    return status;
}

static td_status write_reports(const struct td_device_work *work, struct td_exec *exec,
                               struct td_error *err)
{
    struct td_tuple_space space;
    const struct td_tensor *queries = reported_queries(work->op, work->args);
    const bool by_number = queries && td_op_rows_space(work->op, work->args, &space);
    td_status status = TD_OK;
    int64_t begin = 0;
    for (int i = 0; i < work->n_items && status == TD_OK; i++) {
        work->reports[i] = (struct td_device_report){ .first_bad = INT64_MAX };
        if (!queries)
            continue;
        const int64_t end = work->item_end ? work->item_end[i] : queries->numel;
        if (by_number)
            status = bad_indices(queries, begin, end, &space, exec, &work->reports[i], err);
        else
            work->reports[i] = missing_keys(work->op, work->args, begin, end);
        begin = end;
    }
    return status;
}

static td_status compute(struct td_device *device, const struct td_device_work *work,
                         struct td_error *err)
{
    struct td_arena arena;
    struct td_exec exec;
    size_t bytes = td_reference_workspace_bytes(device, work);
    td_arena_init(&arena, bytes > 0 ? work->workspace : NULL, bytes, td_memory_heap());
    td_exec_serial(&exec, &arena);
    td_status status = run_kernel(work, &exec, err);
    if (status == TD_OK && work->reports)
        status = write_reports(work, &exec, err);
    td_arena_reset(&arena);
    return status;
}

td_status td_reference_run(struct td_device_stream *stream, const struct td_device_work *work,
                           struct td_error *err)
{
    struct td_device *device = stream->device;
    td_status status = check_work(device, work, err);
    if (status != TD_OK)
        return status;
    td_reference_count(TD_REFERENCE_LAUNCHES, 1);
    td_reference_count(TD_REFERENCE_ITEMS, (uint64_t)work->n_items);
    device->launches++;
    if (device->launches == device->options.lose_at) {
        device->lost = true; /* the next call reports the loss, like a GPU's asynchronous error */
        return TD_OK;
    }
    if (device->launches == device->options.hang_at)
        device->idle_ns = TD_REFERENCE_NEVER;
    if (!td_reference_is_hung(device))
        status = compute(device, work, err);
    if (status == TD_OK)
        td_reference_schedule(stream, device->options.launch_us * 1000);
    return status;
}
