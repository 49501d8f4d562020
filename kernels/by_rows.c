#include "kernels/by_rows.h"

#include "kernels/op_rows.h"

/* ---- Tensors ----------------------------------------------------------------------------- */

static bool has_tensor(td_tensor_set rows, int number)
{
    return number < TD_TENSOR_SET_MOST && rows >> number & 1;
}

bool td_rows_has_input(const struct td_op_args *args, td_tensor_set rows, int i)
{
    int number = 0;
    for (int before = 0; before < i; before++)
        number += args->inputs[before].count;
    return args->inputs[i].count == 1 && has_tensor(rows, number);
}

bool td_rows_are_inputs(const struct td_op_args *args, td_tensor_set rows, uint64_t inputs)
{
    for (int i = 0; i < args->op->n_inputs; i++)
        if (args->inputs[i].count > 0 && (inputs >> i & 1) != td_rows_has_input(args, rows, i))
            return false;
    return true;
}

static bool has_n_rows(const struct td_tensor *tensor, int64_t n)
{
    return tensor->shape.rank > 0 && tensor->shape.dim[0] == n;
}

/* True if the tensors in `rows` and all outputs have the same number of rows. */
static bool has_same_rows(const struct td_op_args *args, td_tensor_set rows)
{
    if (args->n_outputs == 0 || args->outputs[0].shape.rank == 0)
        return false;
    const int64_t n = args->outputs[0].shape.dim[0];
    for (int i = 0; i < args->n_outputs; i++)
        if (!has_n_rows(&args->outputs[i], n))
            return false;
    for (int i = 0, number = 0; i < args->op->n_inputs; i++)
        for (int k = 0; k < args->inputs[i].count; k++, number++)
            if (has_tensor(rows, number) && !has_n_rows(&args->inputs[i].tensors[k], n))
                return false;
    return true;
}

/* ---- Elementwise ops --------------------------------------------------------------------- */

/* A tensor in `rows` has the first dimension of the output, and any other tensor is broadcast along
 * it. */
static bool elements_by_rows(const struct td_op_args *args, td_tensor_set rows)
{
    const int rank = args->outputs[0].shape.rank;
    for (int i = 0, number = 0; i < args->op->n_inputs; i++)
        for (int k = 0; k < args->inputs[i].count; k++, number++) {
            const struct td_shape *shape = &args->inputs[i].tensors[k].shape;
            if (has_tensor(rows, number) ? shape->rank < rank
                                         : shape->rank == rank && shape->dim[0] != 1)
                return false;
        }
    return true;
}

/* ---- Ops that pick rows of a table ------------------------------------------------------- */

/* Each query gives one row of the output, without bags. */
static bool queries_by_rows(const struct td_op_args *args, td_tensor_set rows)
{
    const struct td_op *op = args->op;
    if (!op->rows->is_plain(args))
        return false;
    for (int i = 0; i < op->n_inputs; i++) {
        const td_row_part part = op->inputs[i].part;
        const bool by_query = part == TD_ROW_PART_QUERY || part == TD_ROW_PART_PER_QUERY;
        if (args->inputs[i].count == 0)
            continue;
        if (part == TD_ROW_PART_OFFSETS || part == TD_ROW_PART_SEGMENTS ||
            by_query != td_rows_has_input(args, rows, i))
            return false;
    }
    return true;
}

bool td_op_by_rows(const struct td_op_args *args, td_tensor_set rows)
{
    const struct td_op *op = args->op;
    if (rows == 0 || !has_same_rows(args, rows))
        return false;
    if (op->by_rows)
        return op->by_rows(args, rows);
    if (op->chain)
        return elements_by_rows(args, rows);
    if (op->rows)
        return queries_by_rows(args, rows);
    return op->reshapes && td_rows_is_first(rows);
}
