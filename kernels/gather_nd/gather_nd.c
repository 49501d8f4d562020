#include "kernels/gather_nd/gather_nd.h"

#include "kernels/merge.h"
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

static struct td_gather_nd_geometry geometry(const struct view *view, const struct td_tensor *out)
{
    const struct td_shape *params = &view->params->shape, *indices = &view->indices->shape;
    const int inner = view->batch_dims + view->depth;
    struct td_gather_nd_geometry made = { .bounds = view->bounds };
    td_gathering_tuple_space(params, view->batch_dims, view->depth, &made.space);
    if (out->numel == 0)
        return made;
    /* No dimension of the output is 0, so an empty params has its 0 among those that tuples index:
     * then every row is zeros, and no stride is used. Otherwise all products divide numel. */
    (void)td_shape_product(indices, 0, view->batch_dims, &made.batches);
    (void)td_shape_product(params, view->batch_dims, inner, &made.block_rows);
    (void)td_shape_product(indices, view->batch_dims, indices->rank - 1, &made.block_tuples);
    (void)td_shape_product(params, inner, params->rank, &made.row_numel);
    made.n_rows = out->numel / made.row_numel;
    made.row_bytes = (size_t)made.row_numel * td_dtype_info(out->dtype)->size;
    return made;
}

struct td_gather_nd_geometry td_gather_nd_geometry(const struct td_op_args *args)
{
    struct view view;
    if (resolve(args, &view, NULL) != TD_OK)
        return (struct td_gather_nd_geometry){ 0 }; /* infer has let nothing like that through */
    return geometry(&view, &args->outputs[0]);
}

/* For an output that is not empty. */
struct plan {
    struct td_gather_nd_geometry of;
    const struct td_tensor *indices;
    td_bounds bounds; /* error as well where no policy has anything to do */
};

static const int64_t *plan_rows(const void *context, int64_t begin, int64_t n, int64_t *rows)
{
    const struct plan *plan = context;
    td_rows_settle_tuples(plan->indices, begin, n, &plan->of.space, plan->bounds, rows);
    td_gathering_into_slices(rows, n, begin, plan->of.block_tuples, plan->of.block_rows);
    return rows;
}

static td_status gather_nd_run(struct td_op_args *args, struct td_exec *exec, struct td_error *err)
{
    struct view view;
    td_status status = resolve(args, &view, err);
    if (status != TD_OK)
        return status;
    struct td_tensor *out = &args->outputs[0];
    struct plan plan = {
        .of = geometry(&view, out),
        .indices = view.indices,
        .bounds = view.bounds,
    };
    const struct td_tuple_space *space = &plan.of.space;
    int n_empty = 0, first_empty = 0; /* components that index a dimension of size 0 */
    for (int c = view.depth - 1; c >= 0; c--) {
        if (space->bound[c] == 0) {
            n_empty++;
            first_empty = c;
        }
    }

    int64_t n_bad, first;
    status = td_rows_check_tuples(view.indices, space, exec, &n_bad, &first, err);
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
        plan.bounds = TD_BOUNDS_ERROR; /* settling is a sum */
    if (plan.of.n_rows == 0)
        return TD_OK;
    struct td_gathering job = {
        .table = view.params,
        .out = out,
        .n_rows = plan.of.n_rows,
        .row_numel = plan.of.row_numel,
        .rows = plan_rows,
        .context = &plan,
        .may_be_zero = plan.bounds == TD_BOUNDS_ZERO,
    };
    return td_gathering_run(&job, exec, err);
}

static struct td_cost gather_nd_cost(const struct td_op_args *args)
{
    return td_gathering_cost(args, td_gather_nd_geometry(args).row_numel);
}

/* Without batches each tuple gives a row. Where tuples are empty and so many that only a product
 * with a 0 counts them, there is nothing to count them by. */
static bool can_merge(const struct td_op_args *args, uint32_t shared)
{
    struct view view;
    int64_t tuples;
    (void)shared;
    return resolve(args, &view, NULL) == TD_OK && view.batch_dims == 0 &&
           td_shape_product(&view.indices->shape, 0, view.indices->shape.rank - 1, &tuples);
}

static const struct td_op_merge merge = {
    .kind = TD_MERGE_CONCAT,
    .can_merge = can_merge,
    .row_rank = 1,
};

static const struct td_input_spec inputs[] = {
    [TD_GATHERING_PARAMS] = {
        .name = "params",
        .summary = "The tensor to pick from, of rank 1 or more; its first batch_dims dimensions are "
                   "those of indices.",
        .dtypes = TD_DTYPES_ALL,
    },
    [TD_GATHERING_INDICES] = {
        .name = "indices",
        .summary = "Tuples along the last dimension, of rank 1 or more: component c is a position "
                   "in dimension batch_dims + c of params. Tuples shorter than the rest of params "
                   "pick slices.",
        .role = TD_ROLE_INDEX,
        .dtypes = TD_DTYPES_INDEX,
    },
};

static const struct td_attr_spec attrs[] = {
    {
        .name = "batch_dims",
        .summary = "How many leading dimensions params and indices share; below the rank of "
                   "indices.",
        .kind = TD_ATTR_INT,
        .default_int = 0,
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

static const struct td_output_spec outputs[] = {
    {
        .name = "output",
        .summary = "The slices or elements, in the order of indices.",
        .shape_rule = "indices.shape[:-1] + params.shape[batch_dims + indices.shape[-1]:]",
        .dtype_of = "params",
    },
};

const struct td_op td_op_gather_nd = {
    .name = "gather_nd",
    .summary = "Picks elements or slices of params by index tuples.",
    .source = "tf.gather_nd (TensorFlow 2 API reference), with bounds as an addition",
    .inputs = inputs,
    .n_inputs = 2,
    .attrs = attrs,
    .n_attrs = 2,
    .outputs = outputs,
    .n_outputs = 1,
    .errors = errors,
    .example = "{\"params\":[[1,2],[3,4]],\"indices\":[[0,0],[1,1]]}",
    .infer = gather_nd_infer,
    .cost = gather_nd_cost,
    .run = gather_nd_run,
    .merge = &merge,
};
