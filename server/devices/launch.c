#include "server/devices/launch.h"

#include "kernels/key_index/key_index.h"
#include "kernels/merge.h"
#include "kernels/op_check.h"
#include "kernels/program/inputs.h"
#include "server/devices/steps.h"
#include "server/devices/support.h"

#include <string.h>

enum { ALIGN = 256 }; /* alignment of data on the device (gpu/device.h) */

/* ---- inputs ---------------------------------------------------------------------------------- */

static const struct td_program_plan *plan_of(const struct td_op *op, const struct td_op_args *args)
{
    return td_program_of(op) ? args->plan : NULL;
}

bool td_launch_is_table(const struct td_launch *launch, int i)
{
    return td_batch_tables_has(&launch->tables, i);
}

int td_launch_count_inputs(const struct td_op *op, const struct td_op_args *args)
{
    const struct td_program_plan *plan = plan_of(op, args);
    int n = 0;
    if (plan)
        return plan->n_inputs;
    for (int i = 0; i < op->n_inputs; i++)
        n += args->inputs[i].count;
    return n;
}

struct td_tensor *td_launch_input(const struct td_op_args *args, int i)
{
    const struct td_program_plan *plan = plan_of(args->op, args);
    const struct td_operand *operand = args->inputs;
    if (plan)
        return plan->inputs[i];
    while (i >= operand->count)
        i -= (operand++)->count;
    return &operand->tensors[i];
}

bool td_launch_can_merge(const struct td_batch_item *item)
{
    const struct td_program_plan *plan = plan_of(item->op, item->args);
    for (int i = 0; plan && i < plan->n_inputs; i++)
        if (plan->input_values[i] < item->op->n_inputs && td_batch_tables_has(&item->resident, i))
            return false;
    return true;
}

bool td_launch_index_of(const struct td_tensor *keys, struct td_tensor *image)
{
    if (!keys->key_index)
        return false;
    const size_t bytes = td_key_index_bytes(keys->numel);
    *image = (struct td_tensor){ .dtype = TD_DTYPE_UINT8,
                                 .shape = { .rank = 1, .dim = { (int64_t)bytes } },
                                 .numel = (int64_t)bytes,
                                 .data = (void *)(uintptr_t)td_key_index_image(keys->key_index),
                                 .bytes = bytes,
                                 .owner = keys->owner };
    return true;
}

/* ---- arguments ------------------------------------------------------------------------------- */

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

/* Describes one call that is not merged. Copies its arguments and tensors, whose data are bound
 * later, and makes its own plan. Everything that the device reads therefore lives as long as the
 * batch, which can outlive the call. */
static td_status describe_one(struct td_launch *launch, const struct td_batch_item *item,
                              struct td_arena *arena, struct td_error *err)
{
    launch->args = *item->args;
    launch->tables = item->resident;
    td_status status = TD_OK;
    for (int i = 0; status == TD_OK && i < item->op->n_inputs; i++)
        status =
            copy_tensors(&launch->args.inputs[i].tensors, launch->args.inputs[i].count, arena, err);
    if (status == TD_OK)
        status = launch->args.plan
                     ? td_op_infer(item->op, &launch->args, arena, err)
                     : copy_tensors(&launch->args.outputs, launch->args.n_outputs, arena, err);
    if (status != TD_OK)
        return status;
    launch->begins = td_arena_alloc(arena, (size_t)launch->args.n_outputs, sizeof(size_t), err);
    if (!launch->begins)
        return err->status;
    memset(launch->begins, 0, (size_t)launch->args.n_outputs * sizeof(size_t));
    return TD_OK;
}

static td_status describe_merged(struct td_launch *launch, struct td_batch_item *const *items,
                                 struct td_arena *arena, struct td_error *err)
{
    struct td_merged merged;
    const struct td_op_args **calls =
        td_arena_alloc(arena, (size_t)launch->n_items, sizeof(const struct td_op_args *), err);
    if (!calls)
        return err->status;
    for (int i = 0; i < launch->n_items; i++)
        calls[i] = items[i]->args;
    const uint32_t shared = td_batch_item_shared(items[0]);
    launch->tables.bits[0] = shared;
    if (td_program_of(launch->op))
        launch->tables = items[0]->resident;
    const td_status status =
        td_merge_calls(launch->op, calls, launch->n_items, shared, arena, &merged, err);
    if (status != TD_OK)
        return status;
    launch->args = merged.args;
    launch->calls = calls;
    launch->item_end = merged.item_end;
    launch->begins = merged.output_begin;
    return TD_OK;
}

/* ---- layout ---------------------------------------------------------------------------------- */

/* Places `bytes` bytes at the next aligned offset. Writes that offset to *begin and the offset
 * after the bytes to *end. */
static bool place(size_t *end, size_t bytes, size_t *begin)
{
    size_t aligned;
    *begin = 0;
    if (!td_size_add(*end, ALIGN - 1, &aligned))
        return false;
    *begin = aligned / ALIGN * ALIGN;
    return td_size_add(*begin, bytes, end);
}

static td_status lay_out(struct td_launch *launch, struct td_arena *arena, struct td_error *err)
{
    bool fits = true;
    launch->n_reports = launch->plan       ? launch->n_works * launch->n_items
                        : launch->item_end ? launch->n_items
                                           : 1;
    launch->report_bytes =
        ((size_t)launch->n_reports * sizeof(struct td_device_report) + ALIGN - 1) / ALIGN * ALIGN;
    launch->offsets = td_arena_alloc(arena, (size_t)launch->n_inputs, sizeof(size_t), err);
    launch->copies = td_arena_alloc(arena, (size_t)launch->n_inputs * (size_t)launch->n_items,
                                    sizeof *launch->copies, err);
    if (!launch->offsets || !launch->copies)
        return err->status;
    for (int i = 0; fits && i < launch->n_inputs; i++)
        if (!td_launch_is_table(launch, i))
            fits = place(&launch->in_bytes, td_launch_input(&launch->args, i)->bytes,
                         &launch->offsets[i]);
    launch->n_outputs = launch->args.n_outputs;
    for (int i = 0; fits && i < launch->n_outputs; i++) {
        size_t begin;
        fits = place(&launch->out_bytes, launch->args.outputs[i].bytes, &begin);
        for (int item = 0; item < launch->n_items; item++)
            launch->begins[item * launch->n_outputs + i] += begin;
    }
    return fits ? TD_OK
                : td_error_resource(err, "gpu_memory_bytes", UINT64_MAX, SIZE_MAX,
                                    "the request on the device");
}

/* Removes the index of keys that are copied like other inputs, because their index remains on the
 * host. */
static void forget_indices(struct td_launch *launch)
{
    for (int i = 0; i < launch->n_inputs; i++)
        if (!td_launch_is_table(launch, i))
            td_launch_input(&launch->args, i)->key_index = NULL;
    if (launch->plan)
        td_program_pass_inputs(launch->plan);
}

/* ---- works ----------------------------------------------------------------------------------- */

static td_status refuse_merging(struct td_error *err)
{
    return td_error_set(err, TD_RESOURCE_LIMIT, "the calls cannot be merged on the device");
}

/* Checks that each input of a merged program is the same constant in all calls, or has room for the
 * inputs of all calls. A step can read a converted copy of an input, so the inputs of the calls can
 * differ from those of the merged call. */
static td_status check_inputs(const struct td_launch *launch, struct td_error *err)
{
    const struct td_program_plan *plan = launch->plan;
    for (int c = 0; c < launch->n_items; c++)
        if (plan_of(launch->op, launch->calls[c])->n_inputs != plan->n_inputs)
            return refuse_merging(err);
    for (int i = 0; i < plan->n_inputs; i++) {
        const bool is_constant = plan->input_values[i] >= launch->op->n_inputs;
        size_t bytes = 0;
        for (int c = 0; c < (is_constant ? 1 : launch->n_items); c++)
            bytes += td_launch_input(launch->calls[c], i)->bytes;
        if (bytes != plan->inputs[i]->bytes)
            return refuse_merging(err);
    }
    return TD_OK;
}

/* Sets the ends of the items' queries in each step that picks rows by the rows of the items. */
static td_status divide_queries(struct td_launch *launch, struct td_arena *arena,
                                struct td_error *err)
{
    td_status status = TD_OK;
    for (int w = 0; w < launch->n_works && status == TD_OK; w++)
        status = td_steps_divide(launch->plan, launch->steps[w], launch->calls, launch->n_items,
                                 arena, &launch->works[w], err);
    return status;
}

/* Finds the inputs of the launch's own plan, and makes the works of the program's steps. */
static td_status make_steps(struct td_launch *launch, struct td_arena *arena, struct td_error *err)
{
    launch->plan = (struct td_program_plan *)(uintptr_t)launch->args.plan;
    td_status status = td_program_find_inputs(launch->plan, arena, err);
    if (status != TD_OK)
        return status;
    launch->n_works = td_steps_count(launch->plan);
    status = td_steps_works(launch->plan, arena, &launch->works, &launch->steps, err);
    if (status == TD_OK && launch->calls)
        status = check_inputs(launch, err);
    return status == TD_OK && launch->calls ? divide_queries(launch, arena, err) : status;
}

static td_status make_work(struct td_launch *launch, struct td_arena *arena, struct td_error *err)
{
    launch->works = td_arena_alloc(arena, 1, sizeof *launch->works, err);
    if (!launch->works)
        return err->status;
    launch->n_works = 1;
    launch->works[0] = (struct td_device_work){ .op = launch->op,
                                                .args = &launch->args,
                                                .n_items = launch->item_end ? launch->n_items : 1,
                                                .item_end = launch->item_end };
    return TD_OK;
}

void td_launch_set_reports(struct td_launch *launch, struct td_device_report *reports)
{
    for (int w = 0; w < launch->n_works; w++, reports += launch->n_items)
        launch->works[w].reports = reports;
}

const struct td_device_report *td_launch_report(const struct td_launch *launch, int w, int item,
                                                const struct td_device_report *reports)
{
    return &reports[w * launch->n_items + (launch->works[w].n_items > 1 ? item : 0)];
}

td_status td_launch_blame(const struct td_launch *launch, int w, td_status status,
                          struct td_error *err)
{
    return launch->plan ? td_program_blame(launch->plan->program, launch->steps[w], status, err)
                        : status;
}

/* ---- making ---------------------------------------------------------------------------------- */

td_status td_launch_make(struct td_launch *launch, const struct td_device_api *api,
                         struct td_batch_item *const *items, int n, struct td_arena *arena,
                         struct td_error *err)
{
    *launch = (struct td_launch){ .op = items[0]->op, .n_items = n };
    td_status status = n == 1 ? describe_one(launch, items[0], arena, err)
                              : describe_merged(launch, items, arena, err);
    if (status != TD_OK)
        return status;
    status = plan_of(launch->op, &launch->args) ? make_steps(launch, arena, err)
                                                : make_work(launch, arena, err);
    if (status != TD_OK)
        return status;
    launch->n_inputs = td_launch_count_inputs(launch->op, &launch->args);
    forget_indices(launch);
    status = td_support_check(api, launch->op, &launch->args, err);
    if (status == TD_UNSUPPORTED_DTYPE && launch->plan && launch->calls)
        return refuse_merging(err); /* the device supports each call, but not all of them at once */
    return status == TD_OK ? lay_out(launch, arena, err) : status;
}

void td_launch_lay_out_scratch(struct td_launch *launch, size_t workspace_bytes)
{
    size_t end = launch->direct ? 0 : launch->in_bytes;
    /* The last call adds a byte, so every address is inside the memory even if its part is
     * empty. */
    if (!place(&end, launch->direct ? 0 : launch->out_bytes, &launch->outputs) ||
        !place(&end, launch->plan ? launch->plan->block_bytes : 0, &launch->block) ||
        !place(&end, workspace_bytes, &launch->workspace) ||
        !td_size_add(end, 1, &launch->scratch_bytes))
        launch->scratch_bytes = SIZE_MAX;
}

/* True if table i uses the same memory as an earlier table. */
static bool is_repeated(const struct td_launch *launch, int i)
{
    const struct td_tensor *table = td_launch_input(&launch->args, i);
    for (int j = 0; j < i; j++)
        if (td_launch_is_table(launch, j) && td_launch_input(&launch->args, j)->data == table->data)
            return true;
    return false;
}

uint64_t td_launch_table_bytes(const struct td_launch *launch)
{
    uint64_t bytes = 0;
    for (int i = 0; i < launch->n_inputs; i++) {
        const struct td_tensor *table = td_launch_input(&launch->args, i);
        struct td_tensor index;
        if (!td_launch_is_table(launch, i) || is_repeated(launch, i))
            continue;
        bytes += table->bytes + (td_launch_index_of(table, &index) ? index.bytes : 0);
    }
    return bytes;
}

/* ---- after allocation ------------------------------------------------------------------------ */

struct copies {
    struct td_copy_range *ranges;
    int n;
};

static void copy_later(void *context, void *to, const void *from, size_t bytes)
{
    struct copies *copies = context;
    copies->ranges[copies->n++] = (struct td_copy_range){ to, from, bytes };
}

/* Copies input i of a call that is not merged, or of a program: a constant once, and the rows of an
 * input of all calls one after another. */
static void copy_input(const struct td_launch *launch, struct td_batch_item *const *items, int i,
                       char *to, struct copies *copies)
{
    const bool is_merged = launch->calls && launch->plan->input_values[i] < launch->op->n_inputs;
    for (int c = 0; c < (is_merged ? launch->n_items : 1); c++) {
        const struct td_tensor *from = td_launch_input(items[c]->args, i);
        copy_later(copies, to, from->data, from->bytes);
        to += from->bytes;
    }
}

void td_launch_fill(const struct td_launch *launch, struct td_batch_item *const *items,
                    struct td_copiers *copiers, char *staging)
{
    struct td_device_report *reports = (struct td_device_report *)(void *)staging;
    struct copies copies = { .ranges = launch->copies };
    for (int i = 0; i < launch->n_reports; i++)
        reports[i] = (struct td_device_report){ .first_bad = INT64_MAX };
    for (int i = 0; i < launch->n_inputs; i++) {
        if (td_launch_is_table(launch, i))
            continue;
        char *to = staging + launch->report_bytes + launch->offsets[i];
        if (launch->calls && !launch->plan)
            td_merge_copy(launch->op, launch->calls, launch->n_items, i, to, copy_later, &copies);
        else
            copy_input(launch, items, i, to, &copies);
    }
    td_copiers_copy_ranges(copiers, copies.ranges, copies.n);
}

td_status td_launch_bind_table(struct td_launch *launch, int i, void *data, const void *index,
                               struct td_arena *arena, struct td_error *err)
{
    struct td_tensor *table = td_launch_input(&launch->args, i), image;
    table->data = data;
    if (!td_launch_index_of(table, &image))
        return TD_OK;
    struct td_key_index *there = td_arena_alloc(arena, 1, sizeof *there, err);
    if (!there)
        return err->status;
    *there = *table->key_index;
    there->keys = *table;
    there->blocks =
        (const unsigned char *)index + (there->blocks - (const unsigned char *)image.data);
    table->key_index = there;
    return TD_OK;
}

void td_launch_bind(struct td_launch *launch, char *inputs, char *outputs, char *scratch)
{
    size_t end = 0;
    for (int i = 0; i < launch->n_inputs; i++)
        if (!td_launch_is_table(launch, i))
            td_launch_input(&launch->args, i)->data = inputs + launch->offsets[i];
    for (int i = 0; i < launch->args.n_outputs; i++) {
        size_t begin;
        (void)place(&end, launch->args.outputs[i].bytes, &begin);
        launch->args.outputs[i].data = outputs + begin;
    }
    for (int w = 0; w < launch->n_works; w++)
        launch->works[w].workspace = scratch + launch->workspace;
    if (!launch->plan)
        return;
    td_program_pass_inputs(launch->plan);
    td_program_bind_results(launch->plan, launch->args.outputs, scratch + launch->block);
}
