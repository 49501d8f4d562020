#include "api/programs/describe.h"

#include "api/message/document.h"
#include "kernels/integers.h"
#include "kernels/program/plan.h"

#include <stdio.h>
#include <string.h>

/* ---- Shapes ------------------------------------------------------------------------------ */

static cJSON *size_item(const struct td_program *program, const struct td_program_size *size)
{
    if (size->letter == TD_SIZE_UNKNOWN)
        return cJSON_CreateNull();
    return size->letter >= 0 ? cJSON_CreateString(program->letters[size->letter])
                             : td_document_integer(size->size);
}

static cJSON *shape_item(const struct td_program *program, const struct td_program_shape *shape)
{
    if (shape->rank < 0)
        return cJSON_CreateNull();
    cJSON *list = cJSON_CreateArray();
    bool complete = list != NULL;
    for (int i = 0; i < shape->rank && complete; i++)
        complete = td_document_append(list, size_item(program, &shape->sizes[i]));
    if (!complete)
        cJSON_Delete(list);
    return complete ? list : NULL;
}

static bool add_result(cJSON *item, const struct td_program *program,
                       const struct td_program_result *result)
{
    return td_document_add(item, "dtype",
                           result->has_dtype
                               ? cJSON_CreateString(td_dtype_info(result->dtype)->name)
                               : cJSON_CreateNull()) &&
           td_document_add(item, "shape", shape_item(program, &result->shape));
}

/* ---- A stored program -------------------------------------------------------------------- */

static bool add_listing(cJSON *item, const struct td_program_listing *listing)
{
    return td_document_text(item, "name", listing->name) &&
           (!listing->etag ||
            (td_document_add(item, "version", td_document_count(listing->version)) &&
             td_document_text(item, "etag", listing->etag))) &&
           td_document_add(item, "bytes", td_document_count(listing->bytes)) &&
           (!listing->source || td_document_text(item, "source", listing->source)) &&
           td_document_add(item, "persisted", cJSON_CreateBool(listing->persisted));
}

/* Adds whether the program can run now, and why not. */
static bool add_readiness(cJSON *document, const struct td_program_signature *signature)
{
    if (!td_document_add(document, "ready", cJSON_CreateBool(signature->is_ready)))
        return false;
    return signature->is_ready || td_document_text(document, "reason", signature->problem.message);
}

static bool add_inputs(cJSON *document, const struct td_program *program)
{
    cJSON *list = cJSON_AddArrayToObject(document, "inputs");
    bool complete = list != NULL;
    for (int i = 0; i < program->op.n_inputs && complete; i++) {
        const struct td_program_result input = {
            .has_dtype = true,
            .dtype = (td_dtype)__builtin_ctz(program->op.inputs[i].dtypes),
            .shape = program->shapes[i],
        };
        cJSON *item = cJSON_CreateObject();
        complete = td_document_append(list, item) &&
                   td_document_text(item, "name", program->op.inputs[i].name) &&
                   add_result(item, program, &input);
    }
    return complete;
}

static bool add_arguments(cJSON *document, const struct td_program *program)
{
    cJSON *list = cJSON_AddArrayToObject(document, "arguments");
    bool complete = list != NULL;
    for (int i = 0; i < program->op.n_attrs && complete; i++) {
        const struct td_attr_spec *spec = &program->op.attrs[i];
        cJSON *item = cJSON_CreateObject();
        complete = td_document_append(list, item) && td_document_text(item, "name", spec->name) &&
                   td_document_text(item, "summary", spec->summary) && td_document_attr(item, spec);
    }
    return complete;
}

static bool add_outputs(cJSON *document, const struct td_program_signature *signature)
{
    const struct td_program *program = signature->program;
    cJSON *list = cJSON_AddArrayToObject(document, "outputs");
    bool complete = list != NULL;
    for (int i = 0; i < program->op.n_outputs && complete; i++) {
        cJSON *item = cJSON_CreateObject();
        complete = td_document_append(list, item) &&
                   td_document_text(item, "name", program->op.outputs[i].name) &&
                   add_result(item, program, &signature->results[program->outputs[i]]);
    }
    return complete;
}

static bool add_steps(cJSON *document, const struct td_program_signature *signature)
{
    const struct td_program *program = signature->program;
    cJSON *list = cJSON_AddArrayToObject(document, "steps");
    bool complete = list != NULL;
    for (int s = 0; s < program->n_steps && complete; s++) {
        const struct td_program_step *step = &program->steps[s];
        cJSON *item = cJSON_CreateObject();
        complete = td_document_append(list, item) && td_document_text(item, "op", step->op->name) &&
                   td_document_text(item, "as", step->as);
        cJSON *results = cJSON_AddArrayToObject(item, "results");
        for (int r = 0; r < step->n_results && complete; r++) {
            cJSON *result = cJSON_CreateObject();
            complete = td_document_append(results, result) &&
                       add_result(result, program, &signature->results[step->results[r]]);
        }
    }
    return complete;
}

/* Adds the text of the program as it was stored. */
static bool add_text(cJSON *document, const struct td_stored_program *stored,
                     struct td_arena *arena)
{
    char *text = td_arena_text(arena, stored->text, stored->bytes, TD_IGNORED);
    return text && td_document_add(document, "program", cJSON_CreateRaw(text));
}

td_status td_describe_program(const struct td_program_listing *listing,
                              const struct td_stored_program *stored,
                              const struct td_program_signature *signature, struct td_arena *arena,
                              struct td_reply *reply, struct td_error *err)
{
    cJSON *document = cJSON_CreateObject();
    const bool complete = add_listing(document, listing) && add_readiness(document, signature) &&
                          add_inputs(document, signature->program) &&
                          add_arguments(document, signature->program) &&
                          add_outputs(document, signature) && add_steps(document, signature) &&
                          add_text(document, stored, arena);
    return td_document_reply(document, complete, arena, reply, err);
}

td_status td_describe_programs(const struct td_program_listing *list, int count, bool more,
                               struct td_arena *arena, struct td_reply *reply, struct td_error *err)
{
    cJSON *document = cJSON_CreateObject();
    cJSON *programs = cJSON_AddArrayToObject(document, "programs");
    bool complete = programs != NULL;
    for (int i = 0; i < count && complete; i++) {
        cJSON *item = cJSON_CreateObject();
        complete = td_document_append(programs, item) && add_listing(item, &list[i]);
    }
    if (complete && more && count > 0)
        complete = td_document_text(document, "next", list[count - 1].name);
    return td_document_reply(document, complete, arena, reply, err);
}

/* ---- Plans ------------------------------------------------------------------------------- */

static bool add_count(cJSON *item, const char *name, uint64_t value)
{
    return td_document_add(item, name, td_document_count(value));
}

static bool add_dims(cJSON *item, const struct td_shape *shape)
{
    cJSON *list = cJSON_AddArrayToObject(item, "shape");
    bool complete = list != NULL;
    for (int i = 0; i < shape->rank && complete; i++)
        complete = td_document_append(list, td_document_integer(shape->dim[i]));
    return complete;
}

/* Adds {"dtype", "shape", "bytes"}, or null for a value whose shape depends on data. */
static bool add_value(cJSON *list, const char *name, const struct td_program_plan *plan, int v)
{
    const struct td_tensor *tensor = &plan->values[v].tensor;
    cJSON *item = plan->values[v].is_known ? cJSON_CreateObject() : cJSON_CreateNull();
    if (!(name ? td_document_add(list, name, item) : td_document_append(list, item)))
        return false;
    return !plan->values[v].is_known ||
           (td_document_text(item, "dtype", td_dtype_info(tensor->dtype)->name) &&
            add_dims(item, &tensor->shape) && add_count(item, "bytes", tensor->bytes));
}

static bool add_step_cost(cJSON *item, const struct td_program_plan *plan, int s)
{
    const struct td_cost cost = td_program_step_cost(plan, s);
    return add_count(item, "flops", cost.flops) && add_count(item, "bytes_read", cost.bytes_read) &&
           add_count(item, "bytes_written", cost.bytes_written) &&
           add_count(item, "workspace_bytes",
                     td_saturating_add(cost.workspace, cost.workspace_per_thread));
}

/* Adds how a step runs: "alone"; "shared" if its result shares the memory of its input; "fused" if
 * it runs in one pass over memory with neighbouring steps. */
static bool add_way(cJSON *item, const struct td_program_plan *plan, int s)
{
    const bool is_fused = plan->steps[s].first < plan->steps[s].last;
    return td_document_text(item, "runs",
                            td_program_shares(plan->program, s) ? "shared"
                            : is_fused                          ? "fused"
                                                                : "alone") &&
           (!is_fused || (td_document_add(item, "from", cJSON_CreateNumber(plan->steps[s].first)) &&
                          td_document_add(item, "to", cJSON_CreateNumber(plan->steps[s].last))));
}

static bool add_plan_steps(cJSON *document, const struct td_program_plan *plan)
{
    cJSON *list = cJSON_AddArrayToObject(document, "steps");
    bool complete = list != NULL;
    for (int s = 0; s < plan->program->n_steps && complete; s++) {
        const struct td_program_step *step = &plan->program->steps[s];
        cJSON *item = cJSON_CreateObject();
        complete = td_document_append(list, item) && td_document_text(item, "op", step->op->name) &&
                   td_document_text(item, "as", step->as) &&
                   td_document_text(item, "device", "cpu");
        cJSON *results = cJSON_AddArrayToObject(item, "results");
        complete = complete && results != NULL;
        for (int r = 0; r < step->n_results && complete; r++)
            complete = add_value(results, NULL, plan, step->results[r]);
        if (complete && plan->steps[s].is_inferred)
            complete = add_way(item, plan, s) && add_step_cost(item, plan, s);
    }
    return complete;
}

static bool add_plan_outputs(cJSON *document, const struct td_program_plan *plan)
{
    const struct td_program *program = plan->program;
    cJSON *outputs = cJSON_AddObjectToObject(document, "outputs");
    bool complete = outputs != NULL;
    for (int i = 0; i < program->op.n_outputs && complete; i++)
        complete = add_value(outputs, program->op.outputs[i].name, plan, program->outputs[i]);
    return complete;
}

static uint64_t output_bytes(const struct td_op_args *args)
{
    uint64_t sum = 0;
    for (int i = 0; i < args->n_outputs; i++)
        sum = td_saturating_add(sum, td_tensor_footprint(&args->outputs[i]));
    return sum;
}

/* Adds the limits, and the names of the limits that the program exceeds, spelled as in the error
 * RESOURCE_LIMIT. */
static bool add_limits(cJSON *document, uint64_t flops, uint64_t outputs, uint64_t peak,
                       const struct td_plan_limits *limits)
{
    const struct {
        const char *name;
        bool exceeded;
    } checks[] = {
        { "flops", limits->max_flops > 0 && flops > limits->max_flops },
        { "output_bytes", outputs > limits->max_output },
        { "workspace_bytes", peak > limits->memory },
    };
    cJSON *item = cJSON_AddObjectToObject(document, "limits");
    bool complete = item && add_count(item, "max_flops", limits->max_flops) &&
                    add_count(item, "max_output", limits->max_output) &&
                    add_count(item, "memory_limit", limits->memory);
    cJSON *list = cJSON_AddArrayToObject(document, "exceeds");
    bool any = false;
    for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]) && complete; i++)
        if (checks[i].exceeded) {
            any = true;
            complete = td_document_append(list, cJSON_CreateString(checks[i].name));
        }
    return complete && td_document_add(document, "admitted", cJSON_CreateBool(!any));
}

td_status td_describe_program_plan(const struct td_op_args *args,
                                   const struct td_plan_limits *limits, struct td_arena *arena,
                                   struct td_reply *reply, struct td_error *err)
{
    const struct td_program_plan *plan = args->plan;
    const struct td_cost cost = args->op->cost(args);
    const uint64_t outputs = output_bytes(args);
    const uint64_t threads = limits->threads > 0 ? (uint64_t)limits->threads : 1;
    const uint64_t per_thread = td_saturating_mul(cost.workspace_per_thread, threads);
    const uint64_t peak = td_saturating_add(outputs, td_saturating_add(cost.workspace, per_thread));
    cJSON *document = cJSON_CreateObject();
    const bool complete =
        add_plan_outputs(document, plan) && add_count(document, "flops", cost.flops) &&
        add_count(document, "bytes_read", cost.bytes_read) &&
        add_count(document, "bytes_written", cost.bytes_written) &&
        add_count(document, "results_bytes", plan->block_bytes) &&
        add_count(document, "peak_bytes", peak) &&
        add_limits(document, cost.flops, outputs, peak, limits) && add_plan_steps(document, plan);
    return td_document_reply(document, complete, arena, reply, err);
}
