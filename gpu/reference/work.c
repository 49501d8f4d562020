#include "gpu/reference/work.h"

#include "gpu/reference/memory.h"
#include "gpu/reference/stream.h"
#include "kernels/embedding_bag/embedding_bag.h"
#include "kernels/gather/gather.h"
#include "kernels/gather_nd/gather_nd.h"
#include "kernels/key_index/key_index.h"
#include "kernels/lookup/lookup.h"
#include "kernels/rows/gathering.h"

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

/* The workspace is the arena's first block, so it also holds the arena's alignment padding. */
size_t td_reference_workspace_bytes(struct td_device *device, const struct td_device_work *work)
{
    enum { PADDING = 1024 };
    (void)device;
    struct td_cost cost = work->op->cost(work->args);
    uint64_t bytes = cost.workspace + cost.workspace_per_thread;
    return bytes > 0 ? (size_t)bytes + PADDING : 0;
}

/* May its tensors be in pinned memory? */
static bool is_direct(const struct td_device *device, const struct td_device_work *work)
{
    const struct td_op_args *args = work->args;
    uint64_t bytes = 0;
    for (int i = 0; i < work->op->n_inputs; i++)
        for (int j = 0; j < args->inputs[i].count; j++)
            if (td_reference_in_blocks(device->host_blocks, args->inputs[i].tensors[j].data, 1))
                bytes += args->inputs[i].tensors[j].bytes;
    for (int i = 0; i < args->n_outputs; i++)
        if (td_reference_in_blocks(device->host_blocks, args->outputs[i].data, 1))
            bytes += args->outputs[i].bytes;
    return !args->plan && bytes <= (uint64_t)device->options.direct_bytes;
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
    if (direct && td_reference_in_blocks(device->host_blocks, tensor->data, tensor->bytes)) {
        if (align > 64)
            align = 64;
    } else if (!td_reference_in_blocks(device->blocks, tensor->data, tensor->bytes)) {
        return not_in_memory(name, number, tensor, err);
    }
    if (tensor->bytes > 0 && (uintptr_t)tensor->data % align != 0)
        snprintf(message, sizeof(message), "%s[%d] at %p is not aligned to %zu bytes", name, number,
                 tensor->data, align);
    else
        return TD_OK;
    return td_reference_misuse(err, message);
}

/* The index of keys, if they have one. */
static td_status check_index(const struct td_device *device, const struct td_tensor *keys,
                             struct td_error *err)
{
    const struct td_key_index *index = keys->key_index;
    if (!index || (index->keys.data == keys->data &&
                   td_reference_in_blocks(device->blocks, td_key_index_image(index),
                                          td_key_index_bytes(keys->numel))))
        return TD_OK;
    return td_reference_misuse(err, "the index of keys is not in device memory, or one of others");
}

static td_status check_tensors(const struct td_device *device, const struct td_device_work *work,
                               struct td_error *err)
{
    const struct td_op_args *args = work->args;
    const bool direct = is_direct(device, work);
    td_status status = TD_OK;
    for (int i = 0; i < work->op->n_inputs; i++)
        for (int j = 0; status == TD_OK && j < args->inputs[i].count; j++) {
            const struct td_tensor *tensor = &args->inputs[i].tensors[j];
            status = check_tensor(device, work->op->inputs[i].name, j, tensor,
                                  td_dtype_info(tensor->dtype)->align, direct, err);
            if (status == TD_OK)
                status = check_index(device, tensor, err);
        }
    for (int i = 0; status == TD_OK && i < args->n_outputs; i++)
        status =
            check_tensor(device, "outputs", i, &args->outputs[i], TD_REFERENCE_ALIGN, direct, err);
    return status;
}

_Static_assert((int)TD_BAG_PARAMS == (int)TD_GATHERING_PARAMS &&
                   (int)TD_BAG_INDICES == (int)TD_GATHERING_INDICES,
               "indices are the same input of all ops that have any");

/* Depth and bounds of the index tuples that the op checks; false if it replaces no index. */
static bool index_space(const struct td_op *op, const struct td_op_args *args,
                        struct td_tuple_space *space)
{
    const struct td_shape *params = &args->inputs[TD_GATHERING_PARAMS].tensors->shape;
    const struct td_operand *indices = &args->inputs[TD_GATHERING_INDICES];
    int axis;
    if (op == &td_op_gather) {
        struct td_gather_attrs attrs;
        memcpy(&attrs, args->attrs, sizeof(attrs));
        if (attrs.axis == TD_ATTR_UNSET)
            attrs.axis = attrs.batch_dims < 0 ? attrs.batch_dims + indices->tensors->shape.rank
                                              : attrs.batch_dims;
        (void)td_axis_normalize(attrs.axis, params->rank, &axis); /* infer has validated it */
    } else if (op == &td_op_batch_gather) {
        axis = indices->tensors->shape.rank - 1;
    } else if (op == &td_op_embedding_bag) {
        axis = 0;
    } else if (op == &td_op_gather_nd) {
        struct td_gather_nd_attrs attrs;
        memcpy(&attrs, args->attrs, sizeof(attrs));
        const struct td_shape *shape = &indices->tensors->shape;
        td_gathering_tuple_space(params, (int)attrs.batch_dims, (int)shape->dim[shape->rank - 1],
                                 space);
        return true;
    } else {
        return false;
    }
    *space = (struct td_tuple_space){ .depth = 1, .bound = { params->dim[axis] } };
    return true;
}

/* Items must be consecutive, consist of whole tuples and cover the indices. */
static td_status check_items(const struct td_device_work *work, struct td_error *err)
{
    struct td_tuple_space space;
    if (work->n_items < 1)
        return td_reference_misuse(err, "work has no items; 1 or more is expected");
    if (!index_space(work->op, work->args, &space))
        return TD_OK;
    if (!work->item_end)
        return work->n_items == 1
                   ? TD_OK
                   : td_reference_misuse(err, "several items of indices have no item_end");
    int64_t begin = 0, depth = space.depth > 0 ? space.depth : 1;
    for (int i = 0; i < work->n_items; i++) {
        if (work->item_end[i] < begin || work->item_end[i] % depth != 0)
            return td_reference_misuse(
                err, "an item_end is less than the one before it, or inside a tuple");
        begin = work->item_end[i];
    }
    if (begin != work->args->inputs[TD_GATHERING_INDICES].tensors->numel)
        return td_reference_misuse(err, "the last item_end is not the number of indices");
    return TD_OK;
}

static td_status check_work(struct td_device *device, const struct td_device_work *work,
                            struct td_error *err)
{
    td_status status = td_reference_check(device, err);
    if (status == TD_OK && !td_reference_supports(work->op, work->args))
        status =
            td_error_set(err, TD_NOT_SUPPORTED, "the reference device does not support strings");
    if (status == TD_OK)
        status = check_items(work, err);
    if (status == TD_OK)
        status = check_tensors(device, work, err);
    if (status != TD_OK)
        return status;
    size_t reports = (size_t)work->n_items * sizeof(work->reports[0]);
    if (work->reports && !td_reference_in_blocks(device->host_blocks, work->reports, reports))
        return td_reference_misuse(err, "reports are not in memory of host_alloc");
    if (!td_reference_in_blocks(device->blocks, work->workspace,
                                td_reference_workspace_bytes(device, work)))
        return td_reference_misuse(
            err, "the workspace is not in device memory, or less than workspace_bytes");
    return TD_OK;
}

/* ---- the result ------------------------------------------------------------------------------ */

static const struct td_attr_spec *bounds_attr(const struct td_op *op)
{
    for (int i = 0; i < op->n_attrs; i++)
        if (op->attrs[i].choices == td_bounds_names)
            return &op->attrs[i];
    return NULL;
}

/* On a device, rows of bad indices are zero where the policy is error, and where clip and wrap have
 * an empty range; so are those of missing keys. The CPU kernel then returns an error and writes
 * nothing, so it runs again with the policy zero. */
static td_status run_kernel(const struct td_device_work *work, struct td_exec *exec,
                            struct td_error *err)
{
    struct td_op_args args = *work->args;
    td_status status = work->op->run(&args, exec, err);
    const struct td_attr_spec *bounds = bounds_attr(work->op);
    if (status == TD_INDEX_OUT_OF_BOUNDS && bounds)
        td_op_set_choice(bounds, &args, TD_BOUNDS_ZERO);
    else if (status == TD_KEY_NOT_FOUND && work->op == &td_op_lookup)
        td_op_set_choice(&td_op_lookup.attrs[0], &args, TD_MISSING_ZERO);
    else
        return status;
    return work->op->run(&args, exec, err);
}

/* The queries that lookup has not found, where the policy is error. */
static struct td_device_report missing_keys(const struct td_op_args *args)
{
    enum { OUTPUT, FOUND };
    struct td_device_report report = { .first_bad = INT64_MAX };
    const struct td_tensor *found = &args->outputs[FOUND];
    struct td_lookup_attrs attrs;
    memcpy(&attrs, args->attrs, sizeof(attrs));
    for (int64_t i = 0; attrs.missing == TD_MISSING_ERROR && i < found->numel; i++)
        if (!((const bool *)found->data)[i] && report.n_bad++ == 0)
            report.first_bad = i;
    return report;
}

static td_status write_reports(const struct td_device_work *work, struct td_exec *exec,
                               struct td_error *err)
{
    struct td_tuple_space space;
    bool checked = index_space(work->op, work->args, &space);
    const struct td_tensor *indices = work->args->inputs[TD_GATHERING_INDICES].tensors;
    int64_t begin = 0;
    for (int i = 0; i < work->n_items; i++) {
        work->reports[i] = work->op == &td_op_lookup
                               ? missing_keys(work->args)
                               : (struct td_device_report){ .first_bad = INT64_MAX };
        if (!checked)
            continue;
        int64_t end = work->item_end ? work->item_end[i] : indices->numel, n_bad, first;
        struct td_tensor item = *indices;
        item.data = (char *)indices->data + (size_t)begin * td_dtype_info(item.dtype)->size;
        item.numel = end - begin;
        td_status status = td_rows_check_tuples(&item, &space, exec, &n_bad, &first, err);
        if (status != TD_OK)
            return status;
        if (n_bad > 0)
            work->reports[i] = (struct td_device_report){ .first_bad = first, .n_bad = n_bad };
        begin = end;
    }
    return TD_OK;
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
        device->lost = true; /* reported by the next call, as a GPU's asynchronous errors are */
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
