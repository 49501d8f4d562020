#include "server/calls/device_call.h"

#include "kernels/program/inputs.h"
#include "server/calls/away.h"
#include "server/calls/reply_outputs.h"
#include "server/calls/services.h"
#include "server/devices/launch.h"
#include "server/devices/placement.h"
#include "server/devices/staging.h"
#include "server/observe/clock.h"

#include <stddef.h>

struct device_call {
    struct td_away base; /* must be first, because submit casts back */
    struct td_batch_item item;
    struct td_call *call;
    void (*back)(struct td_call *call);
    struct td_tensor table; /* table to upload */
};

static struct device_call *of_item(struct td_batch_item *item)
{
    return (struct device_call *)(void *)((char *)item - offsetof(struct device_call, item));
}

static bool gone(struct td_batch_item *item)
{
    struct td_call *call = of_item(item)->call;
    call->gone = td_call_client_left(call);
    return call->gone;
}

/* True if the call continues after this error, either on the CPU or without the upload. After a bad
 * index, the CPU runs the op again to find the index, even with device 'gpu'. */
static bool continues_without(const struct device_call *device, td_status status)
{
    return device->item.kind == TD_BATCH_UPLOAD || status == TD_INDEX_OUT_OF_BOUNDS ||
           (device->call->request.common.device != TD_DEVICE_GPU &&
            (status == TD_DEVICE_UNAVAILABLE || status == TD_UNSUPPORTED_DTYPE ||
             status == TD_MEMORY_EXHAUSTED || status == TD_RESOURCE_LIMIT));
}

/* Clears the owner of outputs that the call stores, so the store copies the outputs out of pinned
 * memory. */
static void disown_stored(struct device_call *device)
{
    struct td_op_args *args = device->item.args;
    if (device->item.kind == TD_BATCH_OP && device->call->request.common.store)
        for (int i = 0; i < args->n_outputs; i++)
            args->outputs[i].owner = NULL;
}

static void done(struct td_batch_item *item, td_status status, const struct td_error *err)
{
    struct device_call *device = of_item(item);
    struct td_call *call = device->call;
    const int64_t now = td_now_ns(), begun = item->begun_ns > 0 ? item->begun_ns : now;
    td_times_end(&call->times, "queue", &call->times.queue, begun);
    td_times_end(&call->times, "compute", &call->times.compute, now);
    if (status == TD_OK) {
        device->base.state = TD_AWAY_DONE;
        disown_stored(device);
    } else if (continues_without(device, status)) {
        device->base.state = TD_AWAY_HERE;
    } else {
        device->base.state = TD_AWAY_REFUSED;
        call->error = *err;
    }
    device->back(call);
}

static void submit(struct td_call *call, void (*back)(struct td_call *call))
{
    struct device_call *device = (struct device_call *)(void *)call->schedule.away;
    device->back = back;
    td_batcher_submit(td_devices_batcher(call->services->devices), &device->item);
}

/* Copies the outputs that are in staging memory to the arena. Returns false if allocation fails, in
 * which case some outputs remain there. */
static bool copy_outputs(struct td_request *request, const struct td_buffer *staged,
                         struct td_arena *arena)
{
    for (int i = 0; i < td_request_n_outputs(request); i++) {
        struct td_tensor *output = td_request_output(request, i);
        if (output->owner == staged && td_tensor_copy(output, arena, TD_IGNORED) != TD_OK)
            return false;
    }
    return true;
}

/* Checks the tables that the call read. Copies the outputs out of scarce pinned memory if memory
 * for the copy is available. */
static td_status finish(struct td_call *call, struct td_worker *worker)
{
    (void)worker;
    const struct td_op_args *args = &call->request.args;
    struct td_buffer *staged = args->n_outputs > 0 ? args->outputs[0].owner : NULL;
    const bool is_scarce = staged && td_staging_is_scarce(staged);
    struct td_exec exec;
    td_exec_serial(&exec, &call->arena);
    exec.isa = call->services->config.isa;
    td_status status = td_borrowed_check(&call->borrowed, &call->error);
    if (status == TD_OK)
        status = td_reply_outputs_finish(call, &exec);
    if (status == TD_OK && is_scarce && copy_outputs(&call->request, staged, &call->arena))
        td_arena_drop(&call->arena, staged);
    return status;
}

/* ---- before placing -------------------------------------------------------------------------- */

td_status td_device_call_check(struct td_call *call)
{
    return td_devices_check(call->services->devices, call->request.common.device, &call->error);
}

void td_device_call_set_defaults(struct td_call *call)
{
    const struct td_op *op = call->request.op;
    struct td_op_args *args = &call->request.args;
    if (call->request.common.device != TD_DEVICE_GPU)
        return;
    for (int i = 0; i < op->n_attrs; i++)
        if (op->attrs[i].choices == td_bounds_names && !(args->attrs_set >> i & 1))
            td_op_set_choice(&op->attrs[i], args, TD_BOUNDS_ZERO);
}

td_status td_device_call_check_upload(struct td_call *call, const struct td_tensor *table)
{
    if (table->dtype != TD_DTYPE_STRING)
        return td_devices_check(call->services->devices, TD_DEVICE_GPU, &call->error);
    td_error_set(&call->error, TD_UNSUPPORTED_DTYPE,
                 "device is 'gpu', but the tensor has dtype string, which no device supports; "
                 "expected 'auto' or 'cpu'");
    return td_error_at_device(&call->error, TD_UNSUPPORTED_DTYPE, "gpu");
}

/* ---- placing --------------------------------------------------------------------------------- */

/* Returns the resident tables among the inputs. */
static struct td_batch_tables resident_tables(const struct td_call *call)
{
    const struct td_op_args *args = &call->request.args;
    const int n = td_launch_count_inputs(call->op, args);
    struct td_batch_tables tables = { 0 };
    for (int i = 0; i < n && i < TD_BATCH_TABLES; i++)
        if (td_borrowed_is_table(&call->borrowed, td_launch_input(args, i)))
            td_batch_tables_set(&tables, i, true);
    return tables;
}

static struct device_call *new_device_call(struct td_call *call, struct td_error *err)
{
    struct device_call *device = td_arena_alloc(&call->arena, 1, sizeof *device, err);
    if (!device)
        return NULL;
    *device = (struct device_call){ .base = { .submit = submit, .finish = finish },
                                    .item = { .arena = &call->arena,
                                              .deadline_ns = call->schedule.deadline_ns,
                                              .start_by_ns = call->schedule.start_by_ns,
                                              .gone = gone,
                                              .done = done },
                                    .call = call };
    return device;
}

static td_status refuse_row_keys(struct td_error *err)
{
    td_error_set(
        err, TD_INVALID_ARGUMENT,
        "device is gpu, but keys instead of row numbers are looked up on the CPU; the op %s "
        "finds rows by key on a device",
        td_keyed_rows_op->name);
    return td_error_at_attribute(err, TD_INVALID_ARGUMENT, "device");
}

/* Finds the tensors that a program reads, which are its inputs on a device. */
static td_status find_inputs(struct td_call *call, struct td_error *err)
{
    struct td_program_plan *plan = (struct td_program_plan *)(uintptr_t)call->request.args.plan;
    return td_program_of(call->op) ? td_program_find_inputs(plan, &call->arena, err) : TD_OK;
}

td_status td_device_call_place(struct td_call *call)
{
    const struct td_admission *admission = &call->schedule.admission;
    struct td_devices *devices = call->services->devices;
    const td_device_choice choice = call->request.common.device;
    bool there;
    if (call->request.n_row_keys > 0) /* the CPU finds the row numbers when the op runs */
        return choice == TD_DEVICE_GPU ? refuse_row_keys(&call->error) : TD_OK;
    if (!call->task->on_device || choice == TD_DEVICE_CPU ||
        (choice == TD_DEVICE_AUTO && admission->compute_ns < TD_DEVICES_MIN_NS))
        return TD_OK;
    td_status status = find_inputs(call, &call->error);
    if (status != TD_OK)
        return choice == TD_DEVICE_GPU ? status : TD_OK;
    const struct td_batch_tables resident = resident_tables(call);
    status = td_devices_place(devices, &call->request, &resident, &admission->cost,
                              admission->compute_ns, &there, &call->error);
    if (status != TD_OK || !there)
        return status;
    struct device_call *device =
        new_device_call(call, choice == TD_DEVICE_GPU ? &call->error : TD_IGNORED);
    if (!device)
        return choice == TD_DEVICE_GPU ? call->error.status : TD_OK;
    device->item.op = call->op;
    device->item.args = &call->request.args;
    device->item.resident = resident;
    call->schedule.away = &device->base;
    return TD_OK;
}

bool td_device_call_place_upload(struct td_call *call, const struct td_tensor *table)
{
    struct device_call *device =
        td_devices_batcher(call->services->devices) ? new_device_call(call, TD_IGNORED) : NULL;
    if (!device)
        return false;
    device->table = *table;
    device->item.kind = TD_BATCH_UPLOAD;
    device->item.table = &device->table;
    call->schedule.away = &device->base;
    return true;
}
