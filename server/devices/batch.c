#include "server/devices/batch.h"

#include "kernels/merge.h"
#include "server/observe/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ALIGN = 256,        /* of data on the device (device.h) */
    FIRST_BLOCK = 32768 /* of the arena: a few dozen calls need no more */
};

/* Memory on the device that a batch keeps for the next one; more is given back at its end. */
#define SCRATCH_KEPT ((size_t)64 << 20)
#define SCRATCH_STEP ((size_t)1 << 16)

/* Outputs of one of several calls that are copied out of staging memory: some 5 us at most. */
#define SMALL_SHARE ((size_t)64 << 10)

struct td_batch {
    struct td_batch_device on;
    struct td_device_stream *stream;
    void *scratch; /* on the device */
    size_t scratch_bytes;

    bool in_flight;
    td_batch_kind kind; /* of its items */
    int64_t begun_ns, deadline_ns;
    struct td_batch_item **items; /* on.batch_limit of them; NULL: given back */
    int n_items, n_outputs;       /* outputs of an item */
    size_t *begins;               /* [n_items][n_outputs]: bytes into `out` */
    struct td_buffer *in, *out;
    struct td_device_report *reports; /* in `in` */
    int n_reports;
    struct td_device_table *tables[TD_BATCH_TABLES];
    int n_tables;
    uint64_t bytes; /* that are moved, at most */
    bool submitted; /* something was, since the stream was idle */

    struct td_arena arena; /* of what lives as long as it is in flight */
    _Alignas(64) char first[FIRST_BLOCK];
};

/* A launch, from the calls to the device. */
struct launch {
    const struct td_op *op;
    struct td_op_args args;
    const int64_t *item_end; /* NULL but for calls joined one after the other */
    uint32_t tables;         /* bit i: the i-th tensor is one */
    size_t *offsets;         /* of each input from the start of the inputs */
    size_t in_bytes, out_bytes, report_bytes;
    size_t outputs, workspace, scratch_bytes; /* on the device, from the start of the inputs */
};

/* ---- from calls to a launch ------------------------------------------------------------------ */

static bool is_table(uint32_t tables, int i)
{
    return i < TD_BATCH_TABLES && tables >> i & 1;
}

static int count_inputs(const struct td_op *op, const struct td_op_args *args)
{
    int n = 0;
    for (int i = 0; i < op->n_inputs; i++)
        n += args->inputs[i].count;
    return n;
}

/* The i-th tensor of all inputs, through the lists. */
static struct td_tensor *input_at(const struct td_op_args *args, int i)
{
    const struct td_operand *operand = args->inputs;
    while (i >= operand->count)
        i -= (operand++)->count;
    return &operand->tensors[i];
}

/* Which input a device has no kernel for: one of strings, which no device takes, or else the first. */
static void input_at_fault(const struct td_op *op, const struct td_op_args *args, int *input,
                           int *number)
{
    for (*input = 0; *input < op->n_inputs; ++*input)
        for (*number = 0; *number < args->inputs[*input].count; ++*number)
            if (args->inputs[*input].tensors[*number].dtype == TD_DTYPE_STRING)
                return;
    *input = *number = 0;
}

td_status td_batch_check_kernel(const struct td_device_api *api, const struct td_op *op,
                                const struct td_op_args *args, struct td_error *err)
{
    char shape[TD_SHAPE_TEXT], list_number[16] = "";
    int input, number;
    if (api->supports(op, args))
        return TD_OK;
    if (!err)
        return TD_UNSUPPORTED_DTYPE;
    input_at_fault(op, args, &input, &number);
    const struct td_tensor *tensor = &args->inputs[input].tensors[number];
    if (op->inputs[input].list)
        snprintf(list_number, sizeof list_number, "[%d]", number);
    td_error_set(
        err, TD_UNSUPPORTED_DTYPE,
        "device is 'gpu', but it has no kernel for %s with %s%s = %s%s; 'auto' or 'cpu' is "
        "expected",
        op->name, op->inputs[input].name, list_number, td_dtype_info(tensor->dtype)->name,
        td_shape_text(&tensor->shape, shape, sizeof shape));
    (void)td_error_at_device(err, TD_UNSUPPORTED_DTYPE, "gpu");
    return td_error_at_input(err, TD_UNSUPPORTED_DTYPE, "%s%s", op->inputs[input].name,
                             list_number);
}

static td_status copy_tensors(struct td_tensor **tensors, int count, struct td_arena *arena,
                              struct td_error *err)
{
    struct td_tensor *copy = td_arena_alloc(arena, (size_t)count, sizeof *copy, err);
    if (!copy)
        return err->status;
    if (count > 0)
        memcpy(copy, *tensors, (size_t)count * sizeof *copy);
    *tensors = copy;
    return TD_OK;
}

/* One call as it is: its arguments, with tensors of our own to point elsewhere. */
static td_status describe_one(struct td_batch *batch, struct launch *launch, struct td_error *err)
{
    const struct td_batch_item *item = batch->items[0];
    launch->args = *item->args;
    launch->tables = item->resident;
    td_status status = TD_OK;
    for (int i = 0; status == TD_OK && i < item->op->n_inputs; i++)
        status = copy_tensors(&launch->args.inputs[i].tensors, launch->args.inputs[i].count,
                              &batch->arena, err);
    if (status == TD_OK)
        status = copy_tensors(&launch->args.outputs, launch->args.n_outputs, &batch->arena, err);
    if (status != TD_OK)
        return status;
    batch->n_outputs = launch->args.n_outputs;
    batch->begins = td_arena_alloc(&batch->arena, (size_t)batch->n_outputs, sizeof(size_t), err);
    return batch->begins ? TD_OK : err->status;
}

static td_status describe_merged(struct td_batch *batch, struct launch *launch,
                                 struct td_error *err)
{
    const int n = batch->n_items;
    struct td_merged merged;
    const struct td_op_args **calls =
        td_arena_alloc(&batch->arena, (size_t)n, sizeof(const struct td_op_args *), err);
    if (!calls)
        return err->status;
    for (int i = 0; i < n; i++)
        calls[i] = batch->items[i]->args;
    launch->tables = td_batch_item_shared(batch->items[0]);
    const td_status status =
        td_merge_calls(launch->op, calls, n, launch->tables, &batch->arena, &merged, err);
    if (status != TD_OK)
        return status;
    launch->args = merged.args;
    launch->item_end = merged.item_end;
    batch->n_outputs = 1;
    batch->begins = merged.output_begin;
    return TD_OK;
}

static td_status describe(struct td_batch *batch, struct launch *launch, struct td_error *err)
{
    const td_status status = batch->n_items == 1 ? describe_one(batch, launch, err)
                                                 : describe_merged(batch, launch, err);
    if (status != TD_OK)
        return status;
    return td_batch_check_kernel(batch->on.api, launch->op, &launch->args, err);
}

/* ---- where everything lies ------------------------------------------------------------------- */

/* *end becomes the place behind `bytes` that begin at the next aligned place, *begin. */
static bool place(size_t *end, size_t bytes, size_t *begin)
{
    size_t aligned;
    *begin = 0;
    if (!td_size_add(*end, ALIGN - 1, &aligned))
        return false;
    *begin = aligned / ALIGN * ALIGN;
    return td_size_add(*begin, bytes, end);
}

static td_status lay_out(struct td_batch *batch, struct launch *launch, struct td_error *err)
{
    const int n = count_inputs(launch->op, &launch->args);
    bool fits = true;
    batch->n_reports = launch->item_end ? batch->n_items : 1;
    launch->report_bytes =
        ((size_t)batch->n_reports * sizeof *batch->reports + ALIGN - 1) / ALIGN * ALIGN;
    launch->offsets = td_arena_alloc(&batch->arena, (size_t)n, sizeof(size_t), err);
    if (!launch->offsets)
        return err->status;
    for (int i = 0; fits && i < n; i++)
        if (!is_table(launch->tables, i))
            fits = place(&launch->in_bytes, input_at(&launch->args, i)->bytes, &launch->offsets[i]);
    for (int i = 0; fits && i < launch->args.n_outputs; i++) {
        size_t begin;
        fits = place(&launch->out_bytes, launch->args.outputs[i].bytes, &begin);
        if (batch->n_items == 1)
            batch->begins[i] = begin;
    }
    return fits ? TD_OK
                : td_error_resource(err, "gpu_memory_bytes", UINT64_MAX, SIZE_MAX,
                                    "the request, on the device,");
}

/* Has one of the tables before the i-th the same place? */
static bool is_repeated(const struct launch *launch, int i)
{
    const struct td_tensor *table = input_at(&launch->args, i);
    for (int j = 0; j < i; j++)
        if (is_table(launch->tables, j) && input_at(&launch->args, j)->data == table->data)
            return true;
    return false;
}

/* Of the launch, on the host still. */
static uint64_t table_bytes(const struct launch *launch)
{
    const int n = count_inputs(launch->op, &launch->args);
    uint64_t bytes = 0;
    for (int i = 0; i < n && i < TD_BATCH_TABLES; i++)
        if (is_table(launch->tables, i) && !is_repeated(launch, i))
            bytes += input_at(&launch->args, i)->bytes;
    return bytes;
}

/* A table that the batch uses until its end. */
static td_status take_table(struct td_batch *batch, const struct td_tensor *tensor,
                            struct td_device_table **out, struct td_error *err)
{
    bool uploads = false;
    const td_status status =
        td_device_tables_use(batch->on.tables, tensor, batch->stream, out, &uploads, err);
    if (status != TD_OK)
        return status;
    batch->tables[batch->n_tables++] = *out;
    batch->submitted = batch->submitted || uploads;
    batch->bytes += uploads ? tensor->bytes : 0;
    return TD_OK;
}

static td_status take_tables(struct td_batch *batch, struct launch *launch, struct td_error *err)
{
    const int n = count_inputs(launch->op, &launch->args);
    for (int i = 0; i < n && i < TD_BATCH_TABLES; i++) {
        struct td_device_table *table;
        if (!is_table(launch->tables, i))
            continue;
        const td_status status = take_table(batch, input_at(batch->items[0]->args, i), &table, err);
        if (status != TD_OK)
            return status;
        input_at(&launch->args, i)->data = td_device_table_data(table);
    }
    return TD_OK;
}

static td_status take_staging(struct td_batch *batch, const struct launch *launch,
                              struct td_error *err)
{
    size_t in_bytes;
    if (!td_size_add(launch->report_bytes, launch->in_bytes, &in_bytes))
        in_bytes = SIZE_MAX;
    const td_status status = td_staging_check(batch->on.staging, in_bytes, launch->out_bytes, err);
    if (status != TD_OK)
        return status;
    batch->in = td_staging_take(batch->on.staging, in_bytes, err);
    if (!batch->in)
        return err->status;
    batch->reports = batch->in->data;
    batch->out = td_staging_take(batch->on.staging, launch->out_bytes, err);
    return batch->out ? TD_OK : err->status;
}

bool td_batch_trim(struct td_batch *batch)
{
    if (!batch->scratch || batch->in_flight)
        return false;
    batch->on.api->free(batch->on.device, batch->scratch);
    batch->scratch = NULL;
    batch->scratch_bytes = 0;
    return true;
}

/* At least `bytes` on the device, some more where there is room; what was there is given back first. */
static td_status grow_scratch(struct td_batch *batch, size_t bytes, struct td_error *err)
{
    struct td_device_tables *tables = batch->on.tables;
    size_t rounded;
    if (bytes <= batch->scratch_bytes)
        return TD_OK;
    if (!td_size_add(bytes, SCRATCH_STEP - 1, &rounded))
        return td_error_set(err, TD_MEMORY_EXHAUSTED, "no device holds %zu bytes", bytes);
    rounded = rounded / SCRATCH_STEP * SCRATCH_STEP;
    (void)td_batch_trim(batch);
    td_status status = td_device_tables_alloc(tables, rounded, &batch->scratch, err);
    if (status == TD_MEMORY_EXHAUSTED && bytes < rounded) {
        rounded = bytes;
        status = td_device_tables_alloc(tables, rounded, &batch->scratch, err);
    }
    if (status == TD_OK)
        batch->scratch_bytes = rounded;
    else
        batch->scratch = NULL;
    return status;
}

/* The launch, but for data and workspace. */
static struct td_device_work work_of(const struct td_batch *batch, const struct launch *launch)
{
    return (struct td_device_work){
        .op = launch->op,
        .args = &launch->args,
        .n_items = batch->n_reports,
        .item_end = launch->item_end,
        .reports = batch->reports,
    };
}

/* Where outputs and workspace begin behind the inputs, and how long it all is. */
static td_status lay_out_scratch(struct td_batch *batch, struct launch *launch,
                                 struct td_error *err)
{
    const struct td_device_work work = work_of(batch, launch);
    const size_t workspace_bytes = batch->on.api->workspace_bytes(batch->on.device, &work);
    size_t end = launch->in_bytes;
    if (workspace_bytes == SIZE_MAX)
        return td_error_set(err, TD_MEMORY_EXHAUSTED,
                            "the device cannot tell what memory %s takes there", launch->op->name);
    if (!place(&end, launch->out_bytes, &launch->outputs) ||
        !place(&end, workspace_bytes, &launch->workspace) ||
        !td_size_add(end, 1, &launch->scratch_bytes)) /* behind every address, though it be empty */
        launch->scratch_bytes = SIZE_MAX;
    return TD_OK;
}

/* Would it all be in the device's memory if that had nothing else to hold? */
static td_status check_device(struct td_batch *batch, uint64_t tables, uint64_t scratch,
                              struct td_error *err)
{
    struct td_device_info info;
    uint64_t bytes;
    batch->on.api->info(batch->on.device, &info);
    if (__builtin_add_overflow(tables, scratch, &bytes))
        bytes = UINT64_MAX;
    return bytes <= info.memory ? TD_OK
                                : td_error_resource(err, "gpu_memory_bytes", bytes, info.memory,
                                                    "the request, on the device,");
}

/* Memory on the device for inputs, outputs and workspace, and the addresses that the launch wants to
 * know. */
static td_status take_scratch(struct td_batch *batch, struct launch *launch,
                              struct td_device_work *work, struct td_error *err)
{
    const int n = count_inputs(launch->op, &launch->args);
    const td_status status = grow_scratch(batch, launch->scratch_bytes, err);
    if (status != TD_OK)
        return status;
    char *base = batch->scratch;
    for (int i = 0; i < n; i++)
        if (!is_table(launch->tables, i))
            input_at(&launch->args, i)->data = base + launch->offsets[i];
    size_t output_end = 0;
    for (int i = 0; i < launch->args.n_outputs; i++) {
        size_t begin;
        (void)place(&output_end, launch->args.outputs[i].bytes, &begin);
        launch->args.outputs[i].data = base + launch->outputs + begin;
    }
    work->workspace = base + launch->workspace;
    return TD_OK;
}

/* ---- start ----------------------------------------------------------------------------------- */

/* What the items bring, each input of all items one after the other, and reports that say nothing.
 */
static void fill_staging(struct td_batch *batch, const struct launch *launch)
{
    const int n = count_inputs(launch->op, &launch->args);
    for (int i = 0; i < batch->n_reports; i++)
        batch->reports[i] = (struct td_device_report){ .first_bad = INT64_MAX };
    for (int i = 0; i < n; i++) {
        if (is_table(launch->tables, i))
            continue;
        char *to = (char *)batch->in->data + launch->report_bytes + launch->offsets[i];
        for (int k = 0; k < batch->n_items; k++) {
            const struct td_tensor *from = input_at(batch->items[k]->args, i);
            memcpy(to, from->data, from->bytes);
            to += from->bytes;
        }
    }
}

static td_status submit(struct td_batch *batch, const struct launch *launch,
                        const struct td_device_work *work, struct td_error *err)
{
    const struct td_device_api *api = batch->on.api;
    const char *from = (char *)batch->in->data + launch->report_bytes;
    td_status status = TD_OK;
    batch->submitted = true;
    batch->bytes += launch->in_bytes + launch->out_bytes;
    if (launch->in_bytes > 0)
        status = api->copy_to_device(batch->stream, batch->scratch, from, launch->in_bytes, err);
    if (status == TD_OK)
        status = api->run(batch->stream, work, err);
    if (status == TD_OK && launch->out_bytes > 0)
        status = api->copy_to_host(batch->stream, batch->out->data, launch->args.outputs[0].data,
                                   launch->out_bytes, err);
    return status;
}

static void let_go(struct td_batch *batch)
{
    while (batch->n_tables > 0)
        td_device_tables_unuse(batch->on.tables, batch->tables[--batch->n_tables]);
    td_buffer_unref(batch->in);
    td_buffer_unref(batch->out);
    batch->in = batch->out = NULL;
    batch->n_items = 0;
    batch->in_flight = batch->submitted = false;
    batch->bytes = 0;
    td_arena_reset(&batch->arena);
}

/* Waits until the stream has ended what was submitted before something failed: it reads and writes
 * memory that others are to have. */
static td_status drain(struct td_batch *batch, struct td_error *err)
{
    enum { BYTE_NS = 20 }; /* of a table that comes from a slow disk */
    const int64_t late_ns = td_now_ns() + batch->on.hang_ns + BYTE_NS * (int64_t)batch->bytes;
    bool done = !batch->submitted;
    while (!done) {
        const td_status status = td_batch_wait(batch, 1000000, &done, err);
        if (status != TD_OK)
            return status;
        if (!done && td_now_ns() > late_ns)
            return td_error_set(err, TD_DEVICE_UNAVAILABLE, "the device does not answer any more");
    }
    return TD_OK;
}

bool td_batch_is_lost(td_status status)
{
    return status == TD_DEVICE_UNAVAILABLE || status == TD_INTERNAL;
}

/* After a failure: back to where it was, unless the device turns out to be lost. */
static td_status undo(struct td_batch *batch, td_status status, struct td_error *err)
{
    struct td_error lost;
    if (!td_batch_is_lost(status) && drain(batch, &lost) != TD_OK) {
        *err = lost;
        status = lost.status;
    }
    let_go(batch);
    return status;
}

static void begin(struct td_batch *batch)
{
    batch->in_flight = true;
    batch->begun_ns = td_now_ns();
    batch->deadline_ns = TD_NEVER;
    for (int i = 0; i < batch->n_items; i++) {
        struct td_batch_item *item = batch->items[i];
        td_batch_item_begun(item, batch->begun_ns);
        if (item->deadline_ns < batch->deadline_ns)
            batch->deadline_ns = item->deadline_ns;
    }
}

static td_status upload(struct td_batch *batch, struct td_error *err)
{
    const struct td_tensor *tensor = batch->items[0]->table;
    struct td_device_table *table;
    td_status status = check_device(batch, tensor->bytes, 0, err);
    if (status == TD_OK)
        status = take_table(batch, tensor, &table, err);
    if (status == TD_OK)
        td_device_table_keep(table);
    return status;
}

static td_status launch_items(struct td_batch *batch, struct td_error *err)
{
    struct launch of = { .op = batch->items[0]->op }, *launch = &of;
    struct td_device_work work;
    td_status status = describe(batch, launch, err);
    if (status == TD_OK)
        status = lay_out(batch, launch, err);
    if (status == TD_OK)
        status = take_staging(batch, launch, err);
    if (status == TD_OK)
        status = lay_out_scratch(batch, launch, err);
    if (status == TD_OK)
        status = check_device(batch, table_bytes(launch), launch->scratch_bytes, err);
    if (status == TD_OK)
        status = take_tables(batch, launch, err);
    if (status == TD_OK) {
        fill_staging(batch, launch);
        work = work_of(batch, launch);
        status = take_scratch(batch, launch, &work, err);
    }
    return status == TD_OK ? submit(batch, launch, &work, err) : status;
}

td_status td_batch_start(struct td_batch *batch, struct td_batch_item **items, int n,
                         struct td_error *err)
{
    memcpy(batch->items, items, (size_t)n * sizeof *items);
    batch->n_items = n;
    batch->kind = items[0]->kind;
    const td_status status =
        batch->kind == TD_BATCH_UPLOAD ? upload(batch, err) : launch_items(batch, err);
    if (status != TD_OK)
        return undo(batch, status, err);
    begin(batch);
    return TD_OK;
}

/* ---- while it is in flight ------------------------------------------------------------------- */

bool td_batch_must_wait(const struct td_batch *batch, const struct td_batch_item *item)
{
    struct td_device_tables *tables = batch->on.tables;
    if (item->kind == TD_BATCH_UPLOAD)
        return td_device_tables_elsewhere(tables, item->table, batch->stream);
    const int n = count_inputs(item->op, item->args);
    for (int i = 0; i < n && i < TD_BATCH_TABLES; i++)
        if (is_table(item->resident, i) &&
            td_device_tables_elsewhere(tables, input_at(item->args, i), batch->stream))
            return true;
    return false;
}

bool td_batch_in_flight(const struct td_batch *batch)
{
    return batch->in_flight;
}

bool td_batch_is_upload(const struct td_batch *batch)
{
    return batch->kind == TD_BATCH_UPLOAD;
}

uint64_t td_batch_bytes(const struct td_batch *batch)
{
    return batch->bytes;
}

int64_t td_batch_begun_ns(const struct td_batch *batch)
{
    return batch->begun_ns;
}

int64_t td_batch_deadline_ns(const struct td_batch *batch)
{
    return batch->in_flight ? batch->deadline_ns : TD_NEVER;
}

td_status td_batch_wait(struct td_batch *batch, int64_t timeout_ns, bool *done,
                        struct td_error *err)
{
    const struct td_device_api *api = batch->on.api;
    *done = false;
    const td_status status = timeout_ns > 0 ? api->wait(batch->stream, timeout_ns, done, err)
                                            : api->poll(batch->stream, done, err);
    if (status == TD_OK && *done)
        td_device_tables_settle(batch->on.tables, batch->stream);
    return status;
}

static void give_back(struct td_batch *batch, int i, td_status status, const struct td_error *err)
{
    struct td_batch_item *item = batch->items[i];
    batch->items[i] = NULL;
    td_batch_item_give_back(item, status, err);
}

void td_batch_expire(struct td_batch *batch, int64_t now_ns)
{
    if (!batch->in_flight || now_ns <= batch->deadline_ns)
        return;
    int64_t next_ns = TD_NEVER;
    for (int i = 0; i < batch->n_items; i++) {
        const struct td_batch_item *item = batch->items[i];
        if (item && now_ns > item->deadline_ns) {
            struct td_error err;
            td_error_set(&err, TD_DEADLINE_EXCEEDED,
                         "the deadline passed while %s was being computed",
                         td_batch_item_subject(item));
            give_back(batch, i, TD_DEADLINE_EXCEEDED, &err);
        } else if (item && item->deadline_ns < next_ns) {
            next_ns = item->deadline_ns;
        }
    }
    batch->deadline_ns = next_ns;
}

/* ---- end ------------------------------------------------------------------------------------- */

static bool has_empty_dimension(const struct td_batch_item *item)
{
    const int n = count_inputs(item->op, item->args);
    for (int i = 0; i < n; i++) {
        const struct td_shape *shape = &input_at(item->args, i)->shape;
        for (int j = 0; j < shape->rank; j++)
            if (shape->dim[j] == 0)
                return true;
    }
    return false;
}

/* Has the call's policy replaced its bad indices? */
static bool is_replaced(const struct td_batch_item *item)
{
    unsigned choice = TD_BOUNDS_ERROR;
    for (int i = 0; i < item->op->n_attrs; i++)
        if (item->op->attrs[i].choices == td_bounds_names)
            memcpy(&choice, item->args->attrs + item->op->attrs[i].offset, sizeof choice);
    /* Clip and wrap replace nothing where there is nothing to choose from. */
    return choice == TD_BOUNDS_ZERO || (choice != TD_BOUNDS_ERROR && !has_empty_dimension(item));
}

/* What the device reports of the item's indices. It takes the op on the host to say which one is out
 * of range, and that is as much work as there are indices: not for this thread. */
static td_status check_report(const struct td_batch *batch, int i, struct td_error *err)
{
    struct td_batch_item *item = batch->items[i];
    const bool own = batch->n_reports == batch->n_items;
    const struct td_device_report *report = &batch->reports[own ? i : 0];
    const bool replaced = own && report->n_bad > 0 && is_replaced(item);
    item->args->replaced = replaced ? report->n_bad : 0;
    if (report->n_bad == 0 || replaced)
        return TD_OK;
    return td_error_set(err, TD_INDEX_OUT_OF_BOUNDS,
                        "the device found %lld indices of %s out of range, the first at element "
                        "%lld",
                        (long long)report->n_bad, item->op->name, (long long)report->first_bad);
}

static const char *output_of(const struct td_batch *batch, int i, int j)
{
    return (const char *)batch->out->data + batch->begins[i * batch->n_outputs + j];
}

/* Is its part of a batch so small that a client who does not read it should not hold the rest? */
static bool is_small_share(const struct td_batch *batch, int i)
{
    const struct td_op_args *args = batch->items[i]->args;
    size_t bytes = 0;
    for (int j = 0; j < batch->n_outputs && bytes <= SMALL_SHARE; j++)
        bytes += args->outputs[j].bytes;
    return batch->n_items > 1 && bytes <= SMALL_SHARE;
}

static td_status copy_share(const struct td_batch *batch, int i, struct td_error *err)
{
    struct td_batch_item *item = batch->items[i];
    td_status status = TD_OK;
    for (int j = 0; status == TD_OK && j < batch->n_outputs; j++) {
        struct td_tensor *output = &item->args->outputs[j];
        output->data = (void *)(uintptr_t)output_of(batch, i, j);
        status = td_tensor_copy(output, item->arena, err);
    }
    return status;
}

/* The outputs of an item are its part of the staging memory, which its arena keeps; or a copy. */
static td_status hand_out(const struct td_batch *batch, int i, struct td_error *err)
{
    struct td_batch_item *item = batch->items[i];
    if (is_small_share(batch, i))
        return copy_share(batch, i, err);
    if (!td_arena_keep(item->arena, td_buffer_ref(batch->out), err))
        return err->status;
    for (int j = 0; j < batch->n_outputs; j++) {
        struct td_tensor *output = &item->args->outputs[j];
        output->data = (void *)(uintptr_t)output_of(batch, i, j);
        output->owner = batch->out;
    }
    return TD_OK;
}

void td_batch_end(struct td_batch *batch)
{
    for (int i = 0; i < batch->n_items; i++) {
        struct td_error err;
        td_status status = TD_OK;
        if (!batch->items[i])
            continue;
        if (batch->kind == TD_BATCH_OP) {
            status = check_report(batch, i, &err);
            if (status == TD_OK)
                status = hand_out(batch, i, &err);
        }
        give_back(batch, i, status, status == TD_OK ? NULL : &err);
    }
    let_go(batch);
    if (batch->scratch_bytes > SCRATCH_KEPT)
        (void)td_batch_trim(batch);
}

void td_batch_fail(struct td_batch *batch, const struct td_error *err)
{
    for (int i = 0; i < batch->n_items; i++)
        if (batch->items[i])
            give_back(batch, i, TD_DEVICE_UNAVAILABLE, err);
    let_go(batch);
}

/* ---- the place itself ------------------------------------------------------------------------ */

struct td_batch *td_batch_new(const struct td_batch_device *on, struct td_error *err)
{
    struct td_batch *batch = aligned_alloc(64, (sizeof *batch + 63) / 64 * 64);
    if (batch) {
        memset(batch, 0, sizeof *batch);
        batch->on = *on;
        batch->items = calloc((size_t)on->batch_limit, sizeof(struct td_batch_item *));
        td_arena_init(&batch->arena, batch->first, sizeof batch->first, on->memory);
    }
    if (!batch || !batch->items) {
        free(batch);
        td_error_set(err, TD_MEMORY_EXHAUSTED, "there is no memory for a batch");
        return NULL;
    }
    if (on->api->stream_open(on->device, &batch->stream, err) != TD_OK) {
        batch->stream = NULL;
        td_batch_abandon(batch);
        return NULL;
    }
    return batch;
}

void td_batch_abandon(struct td_batch *batch)
{
    if (!batch)
        return;
    td_arena_reset(&batch->arena);
    free(batch->items);
    free(batch);
}

void td_batch_free(struct td_batch *batch)
{
    if (!batch)
        return;
    batch->on.api->stream_close(batch->stream);
    (void)td_batch_trim(batch);
    td_batch_abandon(batch);
}
