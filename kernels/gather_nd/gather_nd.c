#include "kernels/gather_nd/gather_nd.h"

#include "kernels/rows/gathering.h"

#include <inttypes.h>
#include <string.h>

/* The arguments with what follows from their shapes: params [B..., D_0, ..., D_{k-1}, Q...],
 * indices [B..., I..., k]. */
struct view {
    const struct td_tensor *params, *indices;
    int batch_dims;
    int depth; /* k */
    td_bounds bounds;
};

static td_status resolve(const struct td_op_args *args, struct view *view, struct td_error *err)
{
    struct td_gather_nd_attrs attrs;
    memcpy(&attrs, args->attrs, sizeof(attrs));
    const struct td_tensor *params = args->inputs[TD_GATHERING_PARAMS].tensors;
    const struct td_tensor *indices = args->inputs[TD_GATHERING_INDICES].tensors;
    int rank = params->shape.rank, indices_rank = indices->shape.rank;
    char text[TD_SHAPE_TEXT];

    *view = (struct view){ .params = params, .indices = indices, .bounds = attrs.bounds };
    if (rank == 0)
        return td_gathering_refuse_scalar("params", err);
    if (indices_rank == 0)
        return td_gathering_refuse_scalar("indices", err);
    if (attrs.batch_dims < 0 || attrs.batch_dims >= indices_rank) {
        td_error_set(err, TD_INVALID_BATCH_DIMS,
                     "batch_dims = %" PRId64 " is not in [0, %d): indices has shape %s",
                     attrs.batch_dims, indices_rank,
                     td_shape_text(&indices->shape, text, sizeof(text)));
        return td_error_at_attribute(err, TD_INVALID_BATCH_DIMS, "batch_dims");
    }
    int batch_dims = (int)attrs.batch_dims;
    int64_t depth = indices->shape.dim[indices_rank - 1];
    if (depth > rank - batch_dims) {
        char more[TD_SHAPE_TEXT];
        td_error_set(err, TD_SHAPE_MISMATCH,
                     "batch_dims = %d and the last dimension of indices %s, %" PRId64
                     ", together exceed the rank of params %s, %d",
                     batch_dims, td_shape_text(&indices->shape, text, sizeof(text)), depth,
                     td_shape_text(&params->shape, more, sizeof(more)), rank);
        return td_gathering_shapes_at_fault(err, &params->shape, &indices->shape);
    }
    view->batch_dims = batch_dims;
    view->depth = (int)depth;
    return TD_OK;
}

static td_status gather_nd_infer(struct td_op_args *args, struct td_arena *arena,
                                 struct td_error *err)
{
    struct view view;
    td_status status = resolve(args, &view, err);
    if (status != TD_OK)
        return status;
    const struct td_shape *params = &view.params->shape, *indices = &view.indices->shape;
    status = td_gathering_check_batch(params, indices, view.batch_dims, err);
    if (status != TD_OK)
        return status;
    const struct td_gathering_part parts[] = {
        { indices, 0, indices->rank - 1 },
        { params, view.batch_dims + view.depth, params->rank },
    };
    return td_gathering_output(args, parts, 2, arena, err);
}

/* For an output that is not empty: params as B blocks of block_rows rows, the product of the
 * dimensions that a tuple indexes; the output as B blocks of block_tuples rows. */
struct plan {
    const struct td_tensor *indices;
    td_bounds bounds;
    struct td_tuple_space space;
    int64_t block_rows;
    int64_t block_tuples;
};

static const int64_t *plan_rows(const void *context, int64_t begin, int64_t n, int64_t *rows)
{
    const struct plan *plan = context;
    td_rows_settle_tuples(plan->indices, begin, n, &plan->space, plan->bounds, rows);
    td_gathering_into_slices(rows, n, begin, plan->block_tuples, plan->block_rows);
    return rows;
}

static td_status gather_nd_run(struct td_op_args *args, struct td_exec *exec, struct td_error *err)
{
    struct view view;
    td_status status = resolve(args, &view, err);
    if (status != TD_OK)
        return status;
    const struct td_shape *params = &view.params->shape, *indices = &view.indices->shape;
    struct plan plan = { .indices = view.indices, .bounds = view.bounds };
    td_gathering_tuple_space(params, view.batch_dims, view.depth, &plan.space);
    int n_empty = 0, first_empty = 0; /* components that index a dimension of size 0 */
    for (int c = view.depth - 1; c >= 0; c--) {
        if (plan.space.bound[c] == 0) {
            n_empty++;
            first_empty = c;
        }
    }

    int64_t n_bad, first;
    status = td_rows_check_tuples(view.indices, &plan.space, exec, &n_bad, &first, err);
    if (status != TD_OK)
        return status;
    if (n_bad > 0 && view.bounds == TD_BOUNDS_ERROR)
        return td_gathering_bad_tuple(view.params, view.indices, view.batch_dims, first, n_bad,
                                      err);
    /* Clip and wrap mend any index but one into a dimension where there is nothing to choose. */
    if (n_empty > 0 && view.indices->numel > 0 && view.bounds != TD_BOUNDS_ZERO)
        return td_gathering_bad_tuple(view.params, view.indices, view.batch_dims, first_empty,
                                      view.indices->numel / view.depth * n_empty, err);
    args->replaced = n_bad;
    if (n_bad == 0)
        plan.bounds = TD_BOUNDS_ERROR; /* no policy has anything to do: settling is a sum */

    struct td_tensor *out = &args->outputs[0];
    if (out->numel == 0)
        return TD_OK;
    /* No dimension of the output is 0, so an empty params has its 0 among those that tuples index:
     * then every row is zeros, and no stride is used. Otherwise all products divide numel. */
    int64_t row_numel;
    int inner = view.batch_dims + view.depth;
    (void)td_shape_product(params, inner, params->rank, &row_numel);
    (void)td_shape_product(params, view.batch_dims, inner, &plan.block_rows);
    (void)td_shape_product(indices, view.batch_dims, indices->rank - 1, &plan.block_tuples);
    struct td_gathering job = {
        .table = view.params,
        .out = out,
        .n_rows = out->numel / row_numel,
        .row_numel = row_numel,
        .rows = plan_rows,
        .context = &plan,
        .may_be_zero = plan.bounds == TD_BOUNDS_ZERO,
    };
    return td_gathering_run(&job, exec, err);
}

static struct td_cost gather_nd_cost(const struct td_op_args *args)
{
    struct view view;
    if (resolve(args, &view, NULL) != TD_OK)
        return (struct td_cost){ 0 }; /* infer has let nothing like that through */
    const struct td_shape *params = &view.params->shape;
    int64_t row_numel = 1;
    (void)td_shape_product(params, view.batch_dims + view.depth, params->rank, &row_numel);
    return td_gathering_cost(args, row_numel);
}

static const struct td_input_spec inputs[] = {
    [TD_GATHERING_PARAMS] = {
        .name = "params",
        .summary = "The tensor to pick from, of rank 1 or more; its first batch_dims dimensions are "
                   "those of indices.",
        .dtypes = TD_DTYPES_ALL,
        .empty_dtype = TD_DTYPE_FLOAT32,
    },
    [TD_GATHERING_INDICES] = {
        .name = "indices",
        .summary = "Tuples along the last dimension, of rank 1 or more: component c is a position "
                   "in dimension batch_dims + c of params. Tuples shorter than the rest of params "
                   "pick slices.",
        .dtypes = TD_DTYPES_INDEX,
        .empty_dtype = TD_DTYPE_INT32,
        .reads_values = true,
    },
};

static const struct td_attr_spec attrs[] = {
    {
        .name = "batch_dims",
        .summary = "How many leading dimensions params and indices share; below the rank of "
                   "indices.",
        .kind = TD_ATTR_INT,
        .default_int = 0,
        .default_text = "0",
        .offset = offsetof(struct td_gather_nd_attrs, batch_dims),
    },
    TD_GATHERING_BOUNDS(struct td_gather_nd_attrs),
};

static const td_status errors[] = {
    TD_INDEX_OUT_OF_BOUNDS,
    TD_SHAPE_MISMATCH,
    TD_INVALID_BATCH_DIMS,
    TD_UNSUPPORTED_DTYPE,
    TD_INVALID_ARGUMENT,
    TD_RESOURCE_LIMIT,
    TD_OK,
};

const struct td_op td_op_gather_nd = {
    .name = "gather_nd",
    .summary = "Picks elements or slices of params by index tuples.",
    .source = "tf.gather_nd (TensorFlow 2 API reference), with bounds as an addition",
    .shape_rule = "indices.shape[:-1] + params.shape[batch_dims + indices.shape[-1]:]",
    .inputs = inputs,
    .n_inputs = 2,
    .attrs = attrs,
    .n_attrs = 2,
    .errors = errors,
    .example = "{\"params\":[[1,2],[3,4]],\"indices\":[[0,0],[1,1]]}",
    .infer = gather_nd_infer,
    .cost = gather_nd_cost,
    .run = gather_nd_run,
};
