#include "kernels/op_rows.h"

const char *td_row_part_name(td_row_part part)
{
    static const char *const names[TD_ROW_PART_COUNT] = {
        [TD_ROW_PART_NONE] = "none",           [TD_ROW_PART_TABLE] = "table",
        [TD_ROW_PART_PER_ROW] = "per_row",     [TD_ROW_PART_QUERY] = "query",
        [TD_ROW_PART_PER_QUERY] = "per_query", [TD_ROW_PART_OFFSETS] = "offsets",
        [TD_ROW_PART_SEGMENTS] = "segments",
    };
    return names[part];
}

int td_op_rows_input(const struct td_op *op, td_row_part part)
{
    for (int i = 0; i < op->n_inputs; i++)
        if (op->inputs[i].part == part)
            return i;
    return -1;
}

int td_op_rows_query_dims(const struct td_op *op, const struct td_op_args *args)
{
    const int query = td_op_rows_input(op, TD_ROW_PART_QUERY);
    return args->inputs[query].tensors->shape.rank - op->rows->query_rank;
}

bool td_op_rows_space(const struct td_op *op, const struct td_op_args *args,
                      struct td_tuple_space *out)
{
    const int query = td_op_rows_input(op, TD_ROW_PART_QUERY);
    if (op->inputs[query].role != TD_ROLE_INDEX)
        return false;
    if (op->rows->space)
        op->rows->space(args, out);
    else
        *out = (struct td_tuple_space){ .depth = 1,
                                        .bound = { args->inputs[0].tensors->shape.dim[0] } };
    return true;
}

/* Returns the number of queries. A tuple of indices in the last dimension is one query. */
static int64_t count_queries(const struct td_op *op, const struct td_tensor *queries)
{
    const struct td_shape *shape = &queries->shape;
    const int64_t each = op->rows->query_rank > 0 ? shape->dim[shape->rank - 1] : 1;
    return each > 0 ? queries->numel / each : 0;
}

/* Returns the size in bytes of a row along the first dimension, or 0 for an empty table. */
static uint64_t row_bytes(const struct td_tensor *table)
{
    return table->numel > 0 ? table->bytes / (uint64_t)table->shape.dim[0] : 0;
}

struct td_rows_read td_op_rows_read(const struct td_op *op, const struct td_op_args *args)
{
    const struct td_tensor *table = args->inputs[0].tensors, *output = &args->outputs[0];
    if (!op->rows || op->inputs[0].part != TD_ROW_PART_TABLE)
        return (struct td_rows_read){ 0, 0 };
    const int query = td_op_rows_input(op, TD_ROW_PART_QUERY);
    const uint64_t rows = (uint64_t)count_queries(op, args->inputs[query].tensors);
    if (op->rows->bags)
        return (struct td_rows_read){ rows, rows * row_bytes(table) };
    /* Counts bytes in the dtype of the table, because the op might convert the output. */
    return (struct td_rows_read){ rows, table->dtype == TD_DTYPE_STRING
                                            ? td_tensor_footprint(output)
                                            : (uint64_t)output->numel *
                                                  td_dtype_info(table->dtype)->size };
}
