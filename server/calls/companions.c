#include "server/calls/companions.h"

#include "kernels/op.h"
#include "kernels/op_change.h"
#include "kernels/program/plan.h"
#include "kernels/quantized.h"
#include "server/calls/services.h"
#include "server/store/store.h"
#include "server/store/table_name.h"

#include <stdio.h>
#include <string.h>

/* An op with the inputs that the request gives it: the op of the call, or a step of a program. */
struct use {
    struct td_call *call;
    const struct td_op *op;
    const struct td_operand *inputs; /* [op->n_inputs] */
};

static struct use use_of(struct td_call *call)
{
    return (struct use){ call, call->op, call->request.args.inputs };
}

/* Returns the resident table that is the first input, or NULL if the first input is not a resident
 * table. */
static const struct td_tensor *table_of(const struct use *use)
{
    const struct td_operand *operand = &use->inputs[0];
    return operand->count == 1 && operand->tensors->owner ? operand->tensors : NULL;
}

static bool is_given(const struct use *use, int input)
{
    return use->inputs[input].count > 0;
}

/* True if the op has an input of this kind and the request provides it. */
static bool any_given(const struct use *use, td_companion kind)
{
    for (int i = 1; i < use->op->n_inputs; i++)
        if (use->op->inputs[i].companion == kind && is_given(use, i))
            return true;
    return false;
}

/* A part of a table, as found in the store. */
struct part {
    /* Name of the table that has the part, or "" if no table has it. */
    char table[TD_KEYS_NAME];
    char name[TD_TENSOR_NAME];
    const struct td_tensor *tensor; /* the part, or NULL if the table has none */
};

/* Looks for the part for an input, first under the name that the request uses for its table, then
 * under the name of the version. The two names differ if the request names an alias. */
static td_status find(const struct use *use, const char *input, struct part *part,
                      struct td_error *err)
{
    const char *version;
    uint64_t number;
    const struct td_tensor *found = NULL;
    const bool has_name = td_catalog_name_of(&use->call->catalog, table_of(use), part->table);
    td_status status = TD_OK;
    if (has_name)
        status = td_catalog_find_part(&use->call->catalog, part->table, input, &use->call->arena,
                                      part->name, &found, err);
    if (status == TD_OK && !found && td_store_identity(table_of(use), &version, &number) &&
        (!has_name || strcmp(version, part->table) != 0)) {
        snprintf(part->table, sizeof part->table, "%s", version);
        status = td_catalog_find_part(&use->call->catalog, version, input, &use->call->arena,
                                      part->name, &found, err);
    }
    part->tensor = found;
    if (!found)
        part->table[0] = '\0';
    return status;
}

/* Writes the text with which a request passes a resident tensor as this input. */
enum { REF_TEXT = 2 * TD_TENSOR_NAME };
static const char *ref_to(const struct use *use, const char *input, const char *tensor,
                          char text[REF_TEXT])
{
    const bool json = use->call->body_format == TD_FORMAT_JSON;
    snprintf(text, REF_TEXT, json ? "\"%s\": {\"ref\": \"%s\"}" : "\"%s.ref\": \"%s\"", input,
             tensor);
    return text;
}

/* Refuses the request if the table has this part or the part cannot be looked up. */
static td_status check_part(const struct use *use, const char *input)
{
    struct td_error *err = &use->call->error;
    struct part part;
    char ref[REF_TEXT];
    const td_status status = find(use, input, &part, err);
    if (status != TD_OK) {
        td_error_hint(
            err,
            "%s is missing, and that tensor might belong to the table: give %s, or %s = 0 if the "
            "rows have none",
            input, input, input);
        return td_error_at_input(err, status, "%s", input);
    }
    if (!part.table[0])
        return TD_OK;
    td_error_set(err, TD_INVALID_ARGUMENT,
                 "%s is missing, but '%s' has '%s' beside it; give %s, or %s = 0 if the rows "
                 "have none",
                 input, part.table, part.name, ref_to(use, input, part.name, ref), input);
    return td_error_at_input(err, TD_INVALID_ARGUMENT, "%s", input);
}

/* Refuses the request if the table has scales in a separate tensor. Because the request has no
 * scale, the op has accepted rows of bytes and would read the scales from the rows. */
static td_status check_own_scales(const struct use *use, const char *input)
{
    struct td_error *err = &use->call->error;
    struct part part;
    char ref[REF_TEXT];
    const td_status status = find(use, input, &part, err);
    if (status != TD_OK || !part.table[0])
        return status;
    td_error_set(err, TD_INVALID_ARGUMENT,
                 "%s is missing, but '%s' has '%s' beside it, so its rows have no scales of their "
                 "own; give %s, and no layout with scales in the rows",
                 input, part.table, part.name, ref_to(use, input, part.name, ref));
    return td_error_at_input(err, TD_INVALID_ARGUMENT, "%s", input);
}

/* True if `name` is the name of a part. Writes the name of its table to `whole`. */
static bool is_part_name(const char *name, char whole[TD_TENSOR_NAME])
{
    const char *part;
    for (int i = 0; (part = td_op_table_part(i)); i++)
        if (td_table_of_part(name, part, whole))
            return true;
    return false;
}

/* Refuses a part of another table, or the wrong part, if the table has its own part for this input.
 * Examples: t.offset as scale, or the scale of another version. */
static td_status check_own(const struct use *use, int input)
{
    const char *const own = use->op->inputs[input].name;
    const struct td_operand *given = &use->inputs[input];
    const char *name, *own_name;
    uint64_t number, own_number;
    char ref[REF_TEXT], whole[TD_TENSOR_NAME];
    struct part part;
    if (given->count != 1 || !td_store_identity(given->tensors, &name, &number) ||
        !is_part_name(name, whole) || find(use, own, &part, TD_IGNORED) != TD_OK || !part.tensor ||
        !td_store_identity(part.tensor, &own_name, &own_number) ||
        (strcmp(own_name, name) == 0 && own_number == number))
        return TD_OK;
    td_error_set(
        &use->call->error, TD_INVALID_ARGUMENT,
        "%s is '%s', but '%s' has '%s' beside it; give %s, or store the other tensor under a "
        "name that is not the name of a part",
        own, name, part.table, part.name, ref_to(use, own, part.name, ref));
    return td_error_at_input(&use->call->error, TD_INVALID_ARGUMENT, "%s", own);
}

static td_status check_use(const struct use *use)
{
    td_status status = TD_OK;
    if (!table_of(use))
        return TD_OK;
    for (int i = 1; i < use->op->n_inputs && status == TD_OK; i++)
        if (use->op->inputs[i].companion != TD_COMPANION_NONE)
            status = check_own(use, i);
    const td_dtype dtype = table_of(use)->dtype;
    for (int i = 1; i < use->op->n_inputs && status == TD_OK; i++)
        if (use->op->inputs[i].companion == TD_COMPANION_SCALE && !is_given(use, i) &&
            td_is_quantized(dtype))
            status = check_own_scales(use, use->op->inputs[i].name);
    if (status != TD_OK || !any_given(use, TD_COMPANION_SCALE) ||
        any_given(use, TD_COMPANION_SHIFT))
        return status;
    for (int i = 1; i < use->op->n_inputs && status == TD_OK; i++)
        if (use->op->inputs[i].companion == TD_COMPANION_SHIFT)
            status = check_part(use, use->op->inputs[i].name);
    return status;
}

/* Returns the tensors that a step uses, as far as they are known. */
static td_status use_of_step(struct td_call *call, int s, struct use *out)
{
    const struct td_program_plan *plan = call->request.args.plan;
    const struct td_program_step *step = &plan->program->steps[s];
    struct td_operand *inputs =
        td_arena_alloc(&call->arena, (size_t)step->op->n_inputs, sizeof *inputs, &call->error);
    if (!inputs)
        return call->error.status;
    for (int i = 0; i < step->op->n_inputs; i++) {
        const int count = step->inputs[i].count;
        struct td_tensor *tensors =
            td_arena_alloc(&call->arena, (size_t)count, sizeof *tensors, &call->error);
        if (!tensors)
            return call->error.status;
        for (int k = 0; k < count; k++)
            tensors[k] = plan->values[step->inputs[i].values[k]].tensor;
        inputs[i] = (struct td_operand){ tensors, count };
    }
    *out = (struct use){ call, step->op, inputs };
    return TD_OK;
}

static bool has_companions(const struct td_op *op)
{
    for (int i = 1; i < op->n_inputs; i++)
        if (op->inputs[i].companion != TD_COMPANION_NONE)
            return true;
    return false;
}

static td_status check_steps(struct td_call *call, const struct td_program *program)
{
    td_status status = TD_OK;
    for (int s = 0; s < program->n_steps && status == TD_OK; s++) {
        struct use use = use_of(call);
        if (!has_companions(program->steps[s].op))
            continue;
        status = use_of_step(call, s, &use);
        if (status == TD_OK)
            status = td_program_blame(program, s, check_use(&use), &call->error);
    }
    return status;
}

td_status td_companions_check(struct td_call *call)
{
    const struct td_program *program = td_program_of(call->op);
    const struct use use = use_of(call);
    return program ? check_steps(call, program) : check_use(&use);
}

td_status td_companions_check_change(struct td_call *call, const char *name,
                                     const struct td_tensor *table, struct td_arena *arena)
{
    const struct td_tensor *found;
    const char *suffix;
    char part[TD_TENSOR_NAME];
    if (!call->op->change->find || !td_is_quantized(table->dtype))
        return TD_OK;
    for (int i = 0; (suffix = td_op_table_part(i)); i++) {
        const td_status status =
            td_catalog_find_part(&call->catalog, name, suffix, arena, part, &found, &call->error);
        if (status != TD_OK)
            return status;
        if (found && found->shape.rank > 0)
            return td_error_set(&call->error, TD_CONFLICT,
                                "'%s' has an element for each row of '%s', and %s does not "
                                "change it; import the table again with the new rows",
                                part, name, call->op->name);
    }
    return TD_OK;
}

void td_companions_explain(struct td_call *call)
{
    struct td_error *err = &call->error;
    struct part part;
    char ref[REF_TEXT];
    const struct use use = use_of(call);
    if (td_program_of(call->op) || !table_of(&use))
        return;
    for (int i = 1; i < call->op->n_inputs; i++) {
        const struct td_input_spec *spec = &call->op->inputs[i];
        const bool named = strcmp(err->input, spec->name) == 0 ||
                           strcmp(err->input, call->op->inputs[0].name) == 0;
        if (spec->companion == TD_COMPANION_SCALE && !is_given(&use, i) && named &&
            find(&use, spec->name, &part, TD_IGNORED) == TD_OK && part.table[0])
            td_error_hint(err, "'%s' has '%s' beside it: give %s", part.table, part.name,
                          ref_to(&use, spec->name, part.name, ref));
    }
}

const char *td_companions_table(struct td_call *call, const char *name)
{
    char whole[TD_TENSOR_NAME];
    struct td_error unused; /* ignored, because this function returns no error */
    return is_part_name(name, whole) ? td_arena_text(&call->arena, whole, strlen(whole), &unused)
                                     : NULL;
}
