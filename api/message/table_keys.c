#include "api/message/table_keys.h"

#include "kernels/name.h"
#include "kernels/op_rows.h"

#include <stdio.h>
#include <string.h>

int td_table_keys_input(const struct td_request *request, const char *name, size_t length)
{
    return request->table_has_keys && td_name_is(TD_TABLE_KEYS, name, length)
               ? td_op_keys_input(request->op)
               : -1;
}

td_status td_table_without_keys(const char *table, const char *whole,
                                const struct td_tensor *tensor, const struct td_op *op,
                                struct td_error *err)
{
    if (tensor && tensor->key_index)
        return td_error_set(
            err, TD_INVALID_ARGUMENT,
            "this tensor holds the keys of '%s' and has no keys itself; look up rows in '%s'",
            table, table);
    if (whole)
        return td_error_set(
            err, TD_INVALID_ARGUMENT,
            "'%s' has no keys to find rows by, but it has the same rows as '%s'; if "
            "that table has keys, POST /v1/tensors/%s/%s gives their row numbers",
            table, whole, whole, td_row_numbers_op->name);
    char numbers[96] = "";
    const int input = td_op_keys_input(op);
    if (input > 0 && td_input_is_row_numbers(&op->inputs[input]))
        snprintf(numbers, sizeof numbers, "give row numbers as %s, or ", op->inputs[input].name);
    /* An alias names a version, to which keys cannot be added later. */
    if (strchr(table, '@'))
        return td_error_set(err, TD_INVALID_ARGUMENT,
                            "'%s' has no keys to find rows by; %sput another version with its "
                            "keys, {\"tensor\": [...], \"keys\": [...]}, or import one with --keys",
                            table, numbers);
    return td_error_set(err, TD_INVALID_ARGUMENT,
                        "'%s' has no keys to find rows by; %sset keys with "
                        "PUT /v1/tensors/%s/keys, or import the table with --keys",
                        table, numbers, table);
}

td_status td_table_keys_misplaced(const struct td_request *request, const char *name, size_t length,
                                  struct td_error *err)
{
    const int input = td_op_keys_input(request->op);
    if (!td_name_is(TD_TABLE_KEYS, name, length) || (input < 0 && !request->table))
        return TD_OK;
    if (input < 0) {
        td_error_set(err, TD_MALFORMED_REQUEST,
                     "%s takes row numbers, not keys; POST /v1/tensors/%s/%s gives the row "
                     "numbers of keys",
                     request->op->name, request->table, td_row_numbers_op->name);
        return td_error_at_input(err, TD_MALFORMED_REQUEST, "%s", TD_TABLE_KEYS);
    }
    const char *rows = request->op->inputs[input].name;
    if (request->table)
        td_table_without_keys(request->table, request->whole, request->args.inputs[0].tensors,
                              request->op, err);
    else
        td_error_set(err, TD_MALFORMED_REQUEST,
                     "%s has no member \"keys\"; give keys of a resident table as \"%s\": "
                     "{\"keys\": [...]}, together with \"%s\": {\"ref\": \"NAME\"}",
                     request->op->name, rows, request->op->inputs[0].name);
    return td_error_at_input(err, request->table ? TD_INVALID_ARGUMENT : TD_MALFORMED_REQUEST, "%s",
                             TD_TABLE_KEYS);
}
