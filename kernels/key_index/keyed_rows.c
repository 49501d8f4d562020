#include "kernels/key_index/keyed_rows.h"

#include "kernels/key_dtype.h"
#include "kernels/key_index/search.h"
#include "kernels/op_rows.h"

#include <inttypes.h>
#include <string.h>

static const struct td_tensor *keys_of_table(const struct td_op_args *args)
{
    const struct td_tensor *table = args->inputs[0].tensors;
    return table ? table->keys : NULL;
}

/* ---- Keys that the table has ------------------------------------------------------------- */

td_status td_keyed_rows_fill(const struct td_op *op, struct td_op_args *args,
                             struct td_arena *arena, struct td_error *err)
{
    const struct td_tensor *of_table = keys_of_table(args);
    for (int i = 1; of_table && i < op->n_inputs; i++) {
        if (!td_input_is_row_keys(&op->inputs[i]) || args->inputs[i].tensors)
            continue;
        struct td_tensor *keys = td_arena_alloc(arena, 1, sizeof(*keys), err);
        if (!keys)
            return err->status;
        *keys = *of_table;
        args->inputs[i] = (struct td_operand){ keys, 1 };
    }
    return TD_OK;
}

/* ---- Keys in place of row numbers -------------------------------------------------------- */

static td_status check_keys(const struct td_op *op, const struct td_op_args *args, int input,
                            const struct td_tensor *keys, const char *name, struct td_error *err)
{
    const struct td_tensor *of_table = keys_of_table(args);
    if (of_table && keys->dtype == of_table->dtype)
        return TD_OK;
    if (!of_table)
        td_error_set(err, TD_INVALID_ARGUMENT,
                     "%s is not a resident table with keys, {\"ref\": \"NAME\"}; give row numbers "
                     "as %s",
                     op->inputs[0].name, op->inputs[input].name);
    else
        td_error_set(
            err, TD_UNSUPPORTED_DTYPE,
            keys->dtype == TD_DTYPE_BOOL
                ? "keys have dtype %s, but the keys of the table have dtype %s; a mask has "
                  "no keys: the positions at which it is true are row numbers"
                : "keys have dtype %s, but the keys of the table have dtype %s; use that "
                  "dtype",
            td_dtype_info(keys->dtype)->name, td_dtype_info(of_table->dtype)->name);
    return td_error_at_input(err, err->status, "%s", name);
}

static td_status describe_rows(const struct td_op *op, struct td_op_args *args, int input,
                               const struct td_tensor *keys, struct td_arena *arena,
                               struct td_error *err)
{
    struct td_tensor *rows = td_arena_alloc(arena, 1, sizeof(*rows), err);
    if (!rows)
        return err->status;
    const td_status status =
        td_tensor_describe(rows, op->inputs[input].name, TD_DTYPE_INT64, &keys->shape, err);
    args->inputs[input] = (struct td_operand){ rows, 1 };
    return status;
}

/* Checks that an axis attribute, if present, is 0, because keys choose rows along the first
 * dimension. Called after describe_rows. */
static td_status check_axis(const struct td_op *op, const struct td_op_args *args,
                            struct td_error *err)
{
    const uint32_t given = op->rows ? op->rows->plain_attrs & args->attrs_set : 0;
    for (int i = 0; i < op->n_attrs && given && !op->rows->is_plain(args); i++) {
        int64_t value;
        memcpy(&value, args->attrs + op->attrs[i].offset, sizeof(value));
        if (!(given >> i & 1) || value == 0)
            continue;
        td_error_set(err, TD_INVALID_ARGUMENT,
                     "%s is %" PRId64 ", but keys choose rows along dimension 0 of the "
                     "table; expected 0",
                     op->attrs[i].name, value);
        return td_error_at_attribute(err, TD_INVALID_ARGUMENT, op->attrs[i].name);
    }
    return TD_OK;
}

static td_status check_bounds(const struct td_op *op, const struct td_op_args *args,
                              struct td_error *err)
{
    const td_bounds bounds = td_op_bounds(op, args);
    if (bounds == TD_BOUNDS_ERROR || bounds == TD_BOUNDS_ZERO)
        return TD_OK;
    const char *name = op->attrs[op->rows->policy_attr].name;
    td_error_set(err, TD_INVALID_ARGUMENT,
                 "%s is %s, but a key that is not found has no nearest row; expected error or zero",
                 name, td_bounds_name(bounds));
    return td_error_at_attribute(err, TD_INVALID_ARGUMENT, name);
}

td_status td_keyed_rows_describe(const struct td_op *op, struct td_op_args *args, int input,
                                 struct td_tensor *keys, const char *name, struct td_arena *arena,
                                 struct td_error *err)
{
    const struct td_tensor *of_table = keys_of_table(args);
    td_status status =
        td_key_widen(keys, name, of_table ? of_table->dtype : TD_DTYPE_INT64, arena, err);
    if (status == TD_OK)
        status = check_keys(op, args, input, keys, name, err);
    if (status == TD_OK)
        status = td_tensor_align(keys, arena, err);
    if (status == TD_OK)
        status = describe_rows(op, args, input, keys, arena, err);
    if (status == TD_OK)
        status = check_axis(op, args, err);
    return status == TD_OK ? check_bounds(op, args, err) : status;
}

td_status td_keyed_rows_find(const struct td_op *op, struct td_op_args *args, int input,
                             const struct td_tensor *keys, const char *name, struct td_exec *exec,
                             struct td_error *err)
{
    struct td_tensor *rows = args->inputs[input].tensors;
    td_status status = td_tensor_alloc(rows, exec->arena, err);
    if (status != TD_OK)
        return status;
    struct td_key_search search;
    struct td_key_rows found = { .rows = rows->data };
    status = td_key_search_begin(&search, keys_of_table(args), "keys", keys, exec, err);
    if (status == TD_OK)
        status = td_key_search_all(&search, &found, exec, err);
    if (status != TD_OK || found.n_missing == 0 || td_op_bounds(op, args) == TD_BOUNDS_ZERO)
        return status;
    return td_key_not_found(err, name, keys_of_table(args), keys, found.first_missing,
                            found.n_missing);
}

void td_keyed_rows_add_cost(const struct td_op_args *args, const struct td_tensor *keys,
                            struct td_cost *cost)
{
    td_key_search_add_cost(keys_of_table(args), keys, cost);
    cost->workspace += (uint64_t)keys->numel * sizeof(int64_t);
}
