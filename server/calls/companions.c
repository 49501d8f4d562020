#include "server/calls/companions.h"

#include "server/calls/services.h"
#include "server/store/store.h"
#include "server/store/table_name.h"

#include <stdio.h>
#include <string.h>

/* NULL: the first input is not a resident table. */
static const struct td_tensor *table_of(const struct td_call *call)
{
    const struct td_operand *operand = &call->request.args.inputs[0];
    return operand->count == 1 && operand->tensors->owner ? operand->tensors : NULL;
}

static bool is_given(const struct td_call *call, int input)
{
    return call->request.args.inputs[input].count > 0;
}

/* True if the op has an input of this kind and the request gives one. */
static bool any_given(const struct td_call *call, td_companion kind)
{
    for (int i = 1; i < call->op->n_inputs; i++)
        if (call->op->inputs[i].companion == kind && is_given(call, i))
            return true;
    return false;
}

static bool is_there(struct td_call *call, const char *name)
{
    struct td_tensor_listing found;
    struct td_error none;
    return td_tables_get(&call->tables, name, &call->arena, &found, &none) == TD_OK;
}

/* Finds the companion for an input beside the table: beside the name that the request has for it, which may be
 * an alias, or beside the version. */
static bool find(struct td_call *call, const char *input, char table[TD_TENSOR_NAME],
                 char part[TD_TENSOR_NAME])
{
    const char *names[] = { td_tables_name_of(&call->tables, table_of(call), &call->arena), NULL };
    uint64_t number;
    if (!td_store_identity(table_of(call), &names[1], &number))
        names[1] = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (!names[i] || strlen(names[i]) >= TD_TENSOR_NAME ||
            !td_table_part_name(names[i], input, part) || !is_there(call, part))
            continue;
        snprintf(table, TD_TENSOR_NAME, "%s", names[i]);
        return true;
    }
    return false;
}

/* How the request gives a resident tensor as this input. */
enum { REF_TEXT = 2 * TD_TENSOR_NAME };
static const char *ref_to(const struct td_call *call, const char *input, const char *tensor,
                          char text[REF_TEXT])
{
    const bool json = call->body_format == TD_FORMAT_JSON;
    snprintf(text, REF_TEXT, json ? "\"%s\": {\"ref\": \"%s\"}" : "\"%s.ref\": \"%s\"", input,
             tensor);
    return text;
}

td_status td_companions_check(struct td_call *call)
{
    char table[TD_TENSOR_NAME], part[TD_TENSOR_NAME], ref[REF_TEXT];
    if (!any_given(call, TD_COMPANION_SCALE) || any_given(call, TD_COMPANION_SHIFT) ||
        !table_of(call))
        return TD_OK;
    for (int i = 1; i < call->op->n_inputs; i++) {
        const char *name = call->op->inputs[i].name;
        if (call->op->inputs[i].companion != TD_COMPANION_SHIFT || !find(call, name, table, part))
            continue;
        td_error_set(&call->error, TD_INVALID_ARGUMENT,
                     "%s is missing, but '%s' has '%s' beside it; give %s, or %s = 0 if the rows "
                     "have none",
                     name, table, part, ref_to(call, name, part, ref), name);
        return td_error_at_input(&call->error, TD_INVALID_ARGUMENT, "%s", name);
    }
    return TD_OK;
}

void td_companions_explain(struct td_call *call)
{
    struct td_error *err = &call->error;
    char table[TD_TENSOR_NAME], part[TD_TENSOR_NAME], ref[REF_TEXT], text[3 * TD_TENSOR_NAME];
    if (!table_of(call))
        return;
    for (int i = 1; i < call->op->n_inputs; i++) {
        const struct td_input_spec *spec = &call->op->inputs[i];
        const bool named = strcmp(err->input, spec->name) == 0 ||
                           strcmp(err->input, call->op->inputs[0].name) == 0;
        if (spec->companion != TD_COMPANION_SCALE || is_given(call, i) || !named ||
            !find(call, spec->name, table, part))
            continue;
        const size_t used = strlen(err->message);
        const int size = snprintf(text, sizeof text, "; '%s' has '%s' beside it, %s", table, part,
                                  ref_to(call, spec->name, part, ref));
        if (size > 0 && used + (size_t)size < sizeof err->message)
            memcpy(err->message + used, text, (size_t)size + 1);
    }
}
