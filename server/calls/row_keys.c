#include "server/calls/row_keys.h"

#include "api/message/table_keys.h"
#include "kernels/key_dtype.h"
#include "kernels/key_index/keyed_rows.h"
#include "kernels/op_rows.h"
#include "kernels/shown_text.h"
#include "server/calls/companions.h"
#include "server/store/store.h"
#include "server/store/table_name.h"

#include <stdio.h>
#include <string.h>

static const struct td_tensor *table_of(const struct td_call *call)
{
    return call->request.args.inputs[0].tensors;
}

static const char *keys_name(const struct td_call *call, const struct td_row_keys *row_keys)
{
    const struct td_request *request = &call->request;
    return request->row_keys_name && row_keys->input == td_op_keys_input(call->op)
               ? request->row_keys_name
               : call->op->inputs[row_keys->input].name;
}

/* ---- before inference ------------------------------------------------------------------------ */

/* Returns the name of the resident tensor, or the version's name if the request used an alias.
 * Returns NULL if the values are in the body. */
static const char *table_name(const struct td_call *call)
{
    const char *name = NULL;
    uint64_t number;
    return table_of(call) && td_store_identity(table_of(call), &name, &number) ? name
                                                                               : call->table.name;
}

/* Refuses a table without keys. `member` names the member that the request contains or omits
 * because it expects the table to have keys. */
static td_status no_keys(struct td_call *call, const char *member)
{
    const char *table = table_name(call), *whole = td_companions_table(call, table);
    const td_status status =
        td_table_without_keys(table, whole, table_of(call), call->op, &call->error);
    return td_error_at_input(&call->error, status, "%s", member);
}

/* True if the `keys` in the body are treated as the keys of the rows only because the table in the
 * path has none. */
static bool are_queries(const struct td_call *call)
{
    const int queries = td_op_keys_input(call->op);
    return call->table.name && queries > 0 && !call->request.args.inputs[queries].tensors &&
           !call->op->inputs[queries].optional && call->request.n_row_keys == 0;
}

/* Refuses a string passed instead of a table. The string is probably the name of a table, but a
 * string has no keys. */
static td_status refuse_name(struct td_call *call, const struct td_tensor *name)
{
    const char *text = (const char *)name->data + name->offsets[0];
    const char *input = call->op->inputs[0].name;
    td_error_set(&call->error, TD_INVALID_ARGUMENT, "%s is a string; expected a table", input);
    td_error_hint(&call->error, "a resident tensor is {\"ref\": \"%s\"}",
                  TD_SHOWN(text, (size_t)(name->offsets[1] - name->offsets[0])));
    return td_error_at_input(&call->error, TD_INVALID_ARGUMENT, "%s", input);
}

static bool is_string(const struct td_tensor *tensor)
{
    return tensor->dtype == TD_DTYPE_STRING && tensor->shape.rank == 0 && !tensor->owner &&
           tensor->offsets;
}

/* Fills in the row keys if the request omits them and the table has keys. */
static td_status fill_keys(struct td_call *call)
{
    struct td_op_args *args = &call->request.args;
    const struct td_tensor *table = table_of(call);
    for (int i = 1; table && i < call->op->n_inputs; i++) {
        const struct td_input_spec *spec = &call->op->inputs[i];
        if (!td_input_is_row_keys(spec))
            continue;
        if (args->inputs[i].tensors && !table->keys && are_queries(call))
            return no_keys(call, spec->name);
        if (args->inputs[i].tensors)
            continue;
        if (is_string(table))
            return refuse_name(call, table);
        if (!table->keys && !spec->optional)
            return table_name(call) ? no_keys(call, spec->name) : TD_OK;
    }
    return td_keyed_rows_fill(call->op, args, &call->arena, &call->error);
}

uint64_t td_row_keys_copied(const struct td_call *call)
{
    uint64_t bytes = 0;
    for (int i = 0; i < call->request.n_row_keys; i++) {
        const struct td_tensor *keys = call->request.row_keys[i].keys;
        if (!td_tensor_is_aligned(keys) || td_key_is_narrow(keys->dtype))
            bytes += keys->bytes;
    }
    return bytes;
}

static td_status bind_keys(struct td_call *call, const struct td_row_keys *row_keys)
{
    const struct td_tensor *table = table_of(call);
    if (table && !table->keys && table_name(call))
        return no_keys(call, keys_name(call, row_keys));
    return td_keyed_rows_describe(call->op, &call->request.args, row_keys->input, row_keys->keys,
                                  keys_name(call, row_keys), &call->arena, &call->error);
}

td_status td_row_keys_bind(struct td_call *call)
{
    td_status status = fill_keys(call);
    for (int i = 0; i < call->request.n_row_keys && status == TD_OK; i++)
        status = bind_keys(call, &call->request.row_keys[i]);
    return status;
}

/* Adds a hint if the rows to look up are missing. The request might have passed its keys as the
 * keys of the rows although the table already has keys. */
static void explain_queries(struct td_call *call)
{
    const int queries = td_op_keys_input(call->op);
    const struct td_tensor *table = table_of(call);
    if (queries < 1 || !table || !table->keys || call->request.args.inputs[queries].tensors)
        return;
    const struct td_input_spec *spec = &call->op->inputs[queries];
    if (strcmp(call->error.input, spec->name) != 0)
        return;
    if (spec->role == TD_ROLE_KEY)
        td_error_hint(&call->error, "the table has keys of its own: give those to look up as %s",
                      spec->name);
    else if (call->request.table && call->body_format == TD_FORMAT_JSON)
        td_error_hint(&call->error,
                      "rows are found by key with \"" TD_TABLE_KEYS "\": [...] instead");
}

void td_row_keys_explain(struct td_call *call)
{
    struct td_error *err = &call->error;
    char table[TD_KEYS_NAME], keys[TD_KEYS_NAME];
    explain_queries(call);
    for (int i = 0; i < call->request.n_row_keys && call->request.row_keys_name; i++) {
        const struct td_row_keys *row_keys = &call->request.row_keys[i];
        if (row_keys->input != td_op_keys_input(call->op) ||
            strcmp(err->input, call->op->inputs[row_keys->input].name) != 0)
            continue;
        td_error_hint(err, "%s are given instead of %s", keys_name(call, row_keys), err->input);
        snprintf(err->input, sizeof err->input, "%s", keys_name(call, row_keys));
    }
    for (int i = 0; i < call->op->n_inputs; i++) {
        const struct td_tensor *given = call->request.args.inputs[i].tensors;
        if (!td_input_is_row_keys(&call->op->inputs[i]) ||
            strcmp(err->input, call->op->inputs[i].name) != 0)
            continue;
        if (!given && i > 0 && table_of(call) && !table_of(call)->owner)
            td_error_hint(err, "a resident table with keys, {\"ref\": \"NAME\"}, has its own");
        if (!given || !given->owner || !given->keys)
            continue;
        if (!td_catalog_name_of(&call->catalog, given, table) || strlen(table) >= TD_TENSOR_NAME)
            continue;
        td_table_keys_name(table, keys);
        td_error_hint(err, "the keys of '%s' are {\"ref\": \"%s\"}", table, keys);
    }
}

/* True if the error is about an input that keys can replace. */
static bool is_about_row_numbers(const struct td_call *call)
{
    for (int i = 0; i < call->op->n_inputs; i++)
        if (td_input_is_row_numbers(&call->op->inputs[i]) &&
            strcmp(call->error.input, call->op->inputs[i].name) == 0)
            return true;
    return false;
}

void td_row_keys_explain_number(struct td_call *call)
{
    const struct td_request *request = &call->request;
    struct td_error *err = &call->error;
    if (err->status != TD_INDEX_OUT_OF_BOUNDS || !call->op || request->op != call->op ||
        request->n_row_keys > 0)
        return;
    const struct td_tensor *table = table_of(call);
    if (!table || !table->keys || !is_about_row_numbers(call))
        return;
    const int rows = td_op_keys_input(call->op); /* "keys" stands for this input only */
    const bool is_rows = strcmp(err->input, call->op->inputs[rows].name) == 0;
    if (request->oip && is_rows)
        td_error_hint(err, "rows are found by key with the input " TD_TABLE_KEYS);
    else if (request->table && is_rows && call->body_format == TD_FORMAT_JSON)
        td_error_hint(err, "rows are found by key with \"" TD_TABLE_KEYS "\": [...] instead");
    else if (call->body_format == TD_FORMAT_JSON)
        td_error_hint(err, "rows are found by key with \"%s\": {\"keys\": [...]}", err->input);
    else
        td_error_hint(err, "rows are found by key with the tensor %s.keys", err->input);
}

void td_row_keys_add_cost(const struct td_call *call, struct td_cost *cost)
{
    for (int i = 0; i < call->request.n_row_keys; i++)
        td_keyed_rows_add_cost(&call->request.args, call->request.row_keys[i].keys, cost);
}

/* ---- before the op runs ---------------------------------------------------------------------- */

td_status td_row_keys_find(struct td_call *call, struct td_exec *exec)
{
    td_status status = TD_OK;
    for (int i = 0; i < call->request.n_row_keys && status == TD_OK; i++)
        status =
            td_keyed_rows_find(call->op, &call->request.args, call->request.row_keys[i].input,
                               call->request.row_keys[i].keys,
                               keys_name(call, &call->request.row_keys[i]), exec, &call->error);
    return status;
}
