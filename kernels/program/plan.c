#include "kernels/program/plan.h"

#include "kernels/key_dtype.h"
#include "kernels/key_index/keyed_rows.h"
#include "kernels/op_check.h"
#include "kernels/program/fuse.h"
#include "kernels/program/placement.h"

#include <stdio.h>
#include <string.h>

/* ---- Errors ------------------------------------------------------------------------------ */

td_status td_program_blame(const struct td_program *program, int step, td_status status,
                           struct td_error *err)
{
    if (status == TD_OK || err->has_step)
        return status;
    err->has_step = true;
    err->step = step;
    snprintf(err->as, sizeof(err->as), "%s", program->steps[step].as);
    snprintf(err->op, sizeof(err->op), "%s", program->steps[step].op->name);
    return status;
}

/* ---- One step ---------------------------------------------------------------------------- */

/* True if infer reads the values of the input, so that they must be computed first. infer also
 * widens 32-bit keys. Keys that are an input of the program need no such check: they have data,
 * unless the program is only planned. */
static bool needs_values(const struct td_input_spec *spec, bool by_keys,
                         const struct td_program_value *value, const struct td_tensor *tensor)
{
    return spec->sets_shape || (value->step >= 0 && (by_keys || spec->role == TD_ROLE_KEY) &&
                                td_key_is_narrow(tensor->dtype));
}

/* True if the value is described, and has data if infer reads it. A constant that `complete` sets
 * is ready. */
static bool is_ready(const struct td_program_plan *plan, const struct td_input_spec *spec,
                     bool by_keys, int v)
{
    const struct td_program_value *value = &plan->program->values[v];
    const struct td_tensor *tensor = &plan->values[v].tensor;
    if (value->step < 0 && v >= plan->program->op.n_inputs)
        return !value->is_missing;
    return plan->values[v].is_known &&
           (tensor->data || !needs_values(spec, by_keys, value, tensor) ||
            (value->step < 0 && tensor->numel == 0));
}

/* True if the attributes that the step takes from the program have values. */
static bool has_attributes(const struct td_program_plan *plan, const struct td_program_step *step)
{
    for (int b = 0; b < step->n_bindings; b++)
        if (!(plan->call->attrs_set >> step->bindings[b].attr & 1) &&
            !(step->attrs_set >> step->bindings[b].step_attr & 1))
            return false;
    return true;
}

static bool can_infer(const struct td_program_plan *plan, int s)
{
    const struct td_program_step *step = &plan->program->steps[s];
    if (!has_attributes(plan, step))
        return false;
    for (int i = 0; i < step->op->n_inputs; i++)
        for (int k = 0; k < step->inputs[i].count; k++)
            if (!is_ready(plan, &step->op->inputs[i], step->inputs[i].by_keys,
                          step->inputs[i].values[k]))
                return false;
    return true;
}

static td_status set_inputs(const struct td_program_plan *plan, int s, struct td_op_args *args,
                            struct td_arena *arena, struct td_error *err)
{
    const struct td_program_step *step = &plan->program->steps[s];
    for (int i = 0; i < step->op->n_inputs; i++) {
        const int count = step->inputs[i].count;
        struct td_tensor *tensors = NULL;
        if (count > 0)
            tensors = td_arena_alloc(arena, (size_t)count, sizeof(*tensors), err);
        if (count > 0 && !tensors)
            return err->status;
        for (int k = 0; k < count; k++)
            tensors[k] = plan->values[step->inputs[i].values[k]].tensor;
        args->inputs[i] = (struct td_operand){ tensors, count };
    }
    return TD_OK;
}

static bool is_used(const struct td_program *program, int v)
{
    bool used = program->values[v].output >= 0;
    for (int s = program->values[v].step + 1; s < program->n_steps && !used; s++) {
        const struct td_program_step *step = &program->steps[s];
        for (int i = 0; i < step->op->n_inputs; i++)
            for (int k = 0; k < step->inputs[i].count; k++)
                used |= step->inputs[i].values[k] == v;
    }
    return used;
}

static td_status refuse_as(int s, const char *output, struct td_error *err)
{
    err->has_pointer = true;
    err->pointer_length = (size_t)snprintf(err->pointer, sizeof(err->pointer), "/steps/%d/as%s%s",
                                           s, *output ? "/" : "", output);
    return TD_MALFORMED_REQUEST;
}

/* A step that returns a list has a fixed number of names for it. */
static td_status check_list(const struct td_program *program, int s, const struct td_op_args *args,
                            struct td_error *err)
{
    const int names = program->steps[s].n_results;
    if (args->n_outputs == names)
        return TD_OK;
    td_error_set(err, TD_MALFORMED_REQUEST, "the step returns %d tensors; as has %d names",
                 args->n_outputs, names);
    return refuse_as(s, "", err);
}

/* Checks that the op returns all named outputs that the program uses. Some ops leave out their last
 * outputs if an optional input is missing. */
static td_status check_named(const struct td_program *program, int s, const struct td_op_args *args,
                             struct td_error *err)
{
    const struct td_program_step *step = &program->steps[s];
    for (int r = args->n_outputs; r < step->n_results; r++) {
        if (!is_used(program, step->results[r]))
            continue;
        td_error_set(err, TD_MALFORMED_REQUEST, "%s does not return %s with these inputs",
                     step->op->name, step->op->outputs[r].name);
        return refuse_as(s, step->op->outputs[r].name, err);
    }
    return TD_OK;
}

static td_status check_results(const struct td_program *program, int s,
                               const struct td_op_args *args, struct td_error *err)
{
    return td_op_output_form(program->steps[s].op) == TD_OUTPUT_NAMED
               ? check_named(program, s, args, err)
               : check_list(program, s, args, err);
}

struct td_cost td_program_step_cost(const struct td_program_plan *plan, int step)
{
    const struct td_op *op = plan->program->steps[step].op;
    struct td_tensor **keys = plan->steps[step].keys;
    struct td_cost cost = op->cost(&plan->steps[step].args);
    for (int i = 0; keys && i < op->n_inputs; i++)
        if (keys[i])
            td_keyed_rows_add_cost(&plan->steps[step].args, keys[i], &cost);
    return cost;
}

int td_program_result_count(const struct td_program_plan *plan, int step)
{
    const int known = plan->steps[step].args.n_outputs;
    const int results = plan->program->steps[step].n_results;
    return known < results ? known : results;
}

bool td_program_shares(const struct td_program *program, int step)
{
    const struct td_program_step *its = &program->steps[step];
    return its->op->reshapes && program->values[its->results[0]].output < 0;
}

void td_program_share(struct td_program_plan *plan, int step)
{
    const struct td_program_step *its = &plan->program->steps[step];
    const struct td_tensor *from = plan->steps[step].args.inputs[0].tensors;
    struct td_tensor *to = &plan->values[its->results[0]].tensor;
    to->data = from->data;
    to->bytes = from->bytes;
    to->offsets = from->offsets;
    to->owner = from->owner;
}

/* Describes the results of a step. */
static void keep_results(struct td_program_plan *plan, int s)
{
    const struct td_program_step *step = &plan->program->steps[s];
    const struct td_op_args *args = &plan->steps[s].args;
    for (int r = 0; r < td_program_result_count(plan, s); r++) {
        plan->values[step->results[r]].tensor = args->outputs[r];
        plan->values[step->results[r]].is_known = true;
    }
    if (td_program_shares(plan->program, s))
        td_program_share(plan, s);
}

/* Gives the step the attributes that the call sets. */
static void bind_attributes(const struct td_program_plan *plan, int s, struct td_op_args *args)
{
    const struct td_program_step *step = &plan->program->steps[s];
    for (int b = 0; b < step->n_bindings; b++) {
        const struct td_program_binding *binding = &step->bindings[b];
        const struct td_attr_spec *from = &plan->program->op.attrs[binding->attr],
                                  *to = &step->op->attrs[binding->step_attr];
        if (!(plan->call->attrs_set >> binding->attr & 1))
            continue;
        memcpy(args->attrs + to->offset, plan->call->attrs + from->offset, td_attr_size(to->kind));
        args->attrs_set |= UINT32_C(1) << binding->step_attr;
    }
}

/* Replaces keys with row numbers, which are found when the step runs, and gives the step the keys
 * of its table. */
static td_status describe_keys(struct td_program_plan *plan, int s, struct td_op_args *args,
                               struct td_arena *arena, struct td_error *err)
{
    const struct td_program_step *step = &plan->program->steps[s];
    td_status status = td_keyed_rows_fill(step->op, args, arena, err);
    struct td_tensor **keys = NULL;
    for (int i = 0; i < step->op->n_inputs && status == TD_OK; i++) {
        if (!step->inputs[i].by_keys)
            continue;
        if (!keys) {
            keys = td_arena_alloc(arena, (size_t)step->op->n_inputs, sizeof(*keys), err);
            if (!keys)
                return err->status;
            memset(keys, 0, (size_t)step->op->n_inputs * sizeof(*keys));
        }
        keys[i] = args->inputs[i].tensors;
        status = td_keyed_rows_describe(step->op, args, i, keys[i], step->op->inputs[i].name, arena,
                                        err);
    }
    plan->steps[s].keys = keys;
    return status;
}

static td_status infer_step(struct td_program_plan *plan, int s, struct td_arena *arena,
                            struct td_error *err)
{
    const struct td_program *program = plan->program;
    const struct td_program_step *step = &program->steps[s];
    struct td_op_args *args = &plan->steps[s].args;
    memset(args, 0, sizeof(*args));
    td_op_set_defaults(step->op, args);
    memcpy(args->attrs, step->attrs, sizeof(args->attrs));
    args->attrs_set = step->attrs_set;
    bind_attributes(plan, s, args);
    td_status status = set_inputs(plan, s, args, arena, err);
    if (status == TD_OK && program->complete)
        status = program->complete(program, s, args, arena, err);
    if (status == TD_OK)
        status = describe_keys(plan, s, args, arena, err);
    if (status == TD_OK)
        status = td_op_infer(step->op, args, arena, err);
    if (status == TD_OK)
        status = check_results(program, s, args, err);
    if (status != TD_OK)
        return status;
    keep_results(plan, s);
    plan->steps[s].is_inferred = true;
    return TD_OK;
}

td_status td_program_plan_step(struct td_program_plan *plan, int step, struct td_arena *arena,
                               struct td_error *err)
{
    const td_status status = infer_step(plan, step, arena, err);
    if (status != TD_OK && plan->program->explain)
        plan->program->explain(plan->program, step, err);
    return td_program_blame(plan->program, step, status, err);
}

/* ---- All steps --------------------------------------------------------------------------- */

/* The tensor of a value that is not known yet: it has no elements. */
static struct td_tensor unknown(void)
{
    struct td_tensor none;
    struct td_error err;
    const struct td_shape empty = { .rank = 1 };
    if (td_tensor_describe(&none, "none", TD_DTYPE_FLOAT32, &empty, &err) != TD_OK)
        memset(&none, 0, sizeof(none));
    return none;
}

static void begin_values(struct td_program_plan *plan, const struct td_op_args *args)
{
    const struct td_program *program = plan->program;
    const struct td_tensor none = unknown();
    for (int v = 0; v < program->n_values; v++) {
        const struct td_program_value *value = &program->values[v];
        plan->values[v].tensor = none;
        plan->values[v].last_use = -1;
        plan->values[v].place = TD_PROGRAM_NO_PLACE;
        plan->values[v].is_known = value->step < 0;
        if (v < program->op.n_inputs)
            plan->values[v].tensor = args->inputs[v].tensors[0];
        else if (value->constant)
            plan->values[v].tensor = *value->constant;
    }
}

/* Sets the root of each value, also of values that are not described yet: a result that shares the
 * data of another one keeps it in memory. */
static void find_roots(struct td_program_plan *plan)
{
    for (int v = 0; v < plan->program->n_values; v++)
        plan->values[v].root = v;
    for (int s = 0; s < plan->program->n_steps; s++) {
        const struct td_program_step *step = &plan->program->steps[s];
        if (td_program_shares(plan->program, s))
            plan->values[step->results[0]].root = plan->values[step->inputs[0].values[0]].root;
    }
}

static void use(struct td_program_plan *plan, int v, int s)
{
    const int producer = plan->program->values[v].step, root = plan->values[v].root;
    plan->values[root].last_use = plan->steps[s].last;
    if (producer >= 0 && plan->steps[producer].first != plan->steps[s].first)
        plan->values[v].is_inner = false;
}

/* Keeps the first result of a step as long as its other results, because the memory that they share
 * (run.c) is freed with the first result. */
static void keep_together(struct td_program_plan *plan, int s)
{
    const struct td_program_step *step = &plan->program->steps[s];
    for (int r = 1; r < step->n_results; r++) {
        const int last = plan->values[step->results[r]].last_use;
        if (last > plan->values[step->results[0]].last_use)
            plan->values[step->results[0]].last_use = last;
    }
}

/* Sets the last use of each root. A step that runs in a chain uses its inputs until the chain ends,
 * and a result is in use at least while its step runs. */
static void find_uses(struct td_program_plan *plan)
{
    for (int v = 0; v < plan->program->n_values; v++) {
        const struct td_program_value *value = &plan->program->values[v];
        plan->values[v].is_inner = value->step >= 0 && value->output < 0 &&
                                   plan->steps[value->step].first < plan->steps[value->step].last;
        if (value->step >= 0)
            plan->values[v].last_use = plan->steps[value->step].last;
    }
    for (int s = 0; s < plan->program->n_steps; s++) {
        const struct td_program_step *step = &plan->program->steps[s];
        for (int i = 0; i < step->op->n_inputs; i++)
            for (int k = 0; k < step->inputs[i].count; k++)
                use(plan, step->inputs[i].values[k], s);
    }
    for (int s = 0; s < plan->program->n_steps; s++)
        keep_together(plan, s);
}

/* True if the value is computed by a step, and needs a place in the block. */
static bool needs_place(const struct td_program_plan *plan, int v)
{
    const struct td_program_value *value = &plan->program->values[v];
    return value->step >= 0 && value->output < 0 && plan->values[v].root == v &&
           plan->values[v].is_known && !plan->values[v].is_inner &&
           plan->values[v].tensor.dtype != TD_DTYPE_STRING;
}

static td_status place_results(struct td_program_plan *plan, struct td_arena *arena,
                               struct td_error *err)
{
    const int n = plan->program->n_values;
    struct td_placement *placements = td_arena_alloc(arena, (size_t)n, sizeof(*placements), err);
    int *order = td_arena_alloc(arena, (size_t)n, sizeof(*order), err), count = 0;
    if (!placements || !order)
        return err->status;
    for (int v = 0; v < n; v++)
        if (needs_place(plan, v))
            placements[count++] = (struct td_placement){
                .bytes = plan->values[v].tensor.bytes,
                .first = plan->steps[plan->program->values[v].step].first,
                .last = plan->values[v].last_use,
            };
    plan->block_bytes = td_place(placements, count, order);
    count = 0;
    for (int v = 0; v < n; v++)
        if (needs_place(plan, v))
            plan->values[v].place = placements[count++].place;
    if (plan->block_bytes != SIZE_MAX)
        return TD_OK;
    return td_error_resource(err, "workspace_bytes", UINT64_MAX, INT64_MAX,
                             "the results of the steps");
}

td_status td_program_plan_make(const struct td_program *program, const struct td_op_args *args,
                               struct td_arena *arena, struct td_program_plan **out,
                               struct td_error *err)
{
    struct td_program_plan *plan = td_arena_alloc(arena, 1, sizeof(*plan), err);
    if (!plan)
        return err->status;
    *plan = (struct td_program_plan){
        .program = program,
        .call = args,
        .steps = td_arena_alloc(arena, (size_t)program->n_steps, sizeof(plan->steps[0]), err),
        .values = td_arena_alloc(arena, (size_t)program->n_values, sizeof(plan->values[0]), err),
    };
    if (!plan->steps || !plan->values)
        return err->status;
    begin_values(plan, args);
    td_status status = TD_OK;
    for (int s = 0; s < program->n_steps && status == TD_OK; s++) {
        plan->steps[s].is_inferred = false;
        if (can_infer(plan, s))
            status = td_program_plan_step(plan, s, arena, err);
    }
    if (status != TD_OK)
        return status;
    td_program_fuse(plan);
    find_roots(plan);
    find_uses(plan);
    *out = plan;
    return place_results(plan, arena, err);
}
