#include "kernels/gather/gather.h"

#include "kernels/integers.h"
#include "kernels/merge.h"
#include "kernels/rows/gathering.h"

#include <inttypes.h>
#include <string.h>

/* Of gather, in the order of the descriptor. */
enum { ATTR_AXIS, ATTR_BATCH_DIMS, ATTR_BOUNDS, ATTR_COUNT };

/* What both ops come down to: attributes resolved against the shapes. */
struct view {
    const struct td_tensor *params, *indices;
    int axis;
    int batch_dims;
    td_bounds bounds;
};

static td_status gather_view(const struct td_op_args *args, struct view *view, struct td_error *err)
{
    struct td_gather_attrs attrs;
    memcpy(&attrs, args->attrs, sizeof(attrs));
    const struct td_tensor *params = args->inputs[TD_GATHERING_PARAMS].tensors;
    const struct td_tensor *indices = args->inputs[TD_GATHERING_INDICES].tensors;
    int rank = params->shape.rank, indices_rank = indices->shape.rank;
    char text[TD_SHAPE_TEXT];

    *view = (struct view){ .params = params, .indices = indices, .bounds = attrs.bounds };
    if (rank == 0)
        return td_gathering_refuse_scalar("params", err);
    if (attrs.batch_dims < -indices_rank || attrs.batch_dims > indices_rank) {
        td_error_set(err, TD_INVALID_BATCH_DIMS,
                     "batch_dims = %" PRId64 " is not in [-%d, %d]: indices has shape %s",
                     attrs.batch_dims, indices_rank, indices_rank,
                     td_shape_text(&indices->shape, text, sizeof(text)));
        return td_error_at_attribute(err, TD_INVALID_BATCH_DIMS, "batch_dims");
    }
    int batch_dims =
        (int)(attrs.batch_dims < 0 ? attrs.batch_dims + indices_rank : attrs.batch_dims);
    if (batch_dims >= rank) {
        td_error_set(err, TD_INVALID_BATCH_DIMS,
                     "batch_dims = %d is not below the rank of params, which has shape %s",
                     batch_dims, td_shape_text(&params->shape, text, sizeof(text)));
        return td_error_at_attribute(err, TD_INVALID_BATCH_DIMS, "batch_dims");
    }
    int axis = batch_dims;
    /* INT64_MIN stands for "not given"; a client who gives it meant an axis, and a wrong one. */
    bool given = attrs.axis != TD_ATTR_UNSET || args->attrs_set & 1u << ATTR_AXIS;
    if (given && !td_axis_normalize(attrs.axis, rank, &axis)) {
        td_error_set(err, TD_INVALID_AXIS,
                     "axis = %" PRId64 " is not in [-%d, %d): params has shape %s", attrs.axis,
                     rank, rank, td_shape_text(&params->shape, text, sizeof(text)));
        return td_error_at_attribute(err, TD_INVALID_AXIS, "axis");
    }
    if (batch_dims > axis) {
        td_error_set(err, TD_INVALID_BATCH_DIMS,
                     "batch_dims = %d is above axis = %d; at most the axis is expected", batch_dims,
                     axis);
        return td_error_at_attribute(err, TD_INVALID_BATCH_DIMS, "batch_dims");
    }
    view->axis = axis;
    view->batch_dims = batch_dims;
    return TD_OK;
}

static td_status batch_gather_view(const struct td_op_args *args, struct view *view,
                                   struct td_error *err)
{
    struct td_batch_gather_attrs attrs;
    memcpy(&attrs, args->attrs, sizeof(attrs));
    const struct td_tensor *params = args->inputs[TD_GATHERING_PARAMS].tensors;
    const struct td_tensor *indices = args->inputs[TD_GATHERING_INDICES].tensors;
    int rank = params->shape.rank, indices_rank = indices->shape.rank;

    *view = (struct view){ .params = params, .indices = indices, .bounds = attrs.bounds };
    if (rank == 0)
        return td_gathering_refuse_scalar("params", err);
    if (indices_rank == 0)
        return td_gathering_refuse_scalar("indices", err);
    if (indices_rank > rank) {
        char text[TD_SHAPE_TEXT], more[TD_SHAPE_TEXT];
        td_error_set(err, TD_SHAPE_MISMATCH,
                     "indices %s has more dimensions than params %s; at most %d are expected",
                     td_shape_text(&indices->shape, text, sizeof(text)),
                     td_shape_text(&params->shape, more, sizeof(more)), rank);
        return td_gathering_shapes_at_fault(err, &params->shape, &indices->shape);
    }
    view->axis = view->batch_dims = indices_rank - 1;
    return TD_OK;
}

typedef td_status view_fn(const struct td_op_args *args, struct view *view, struct td_error *err);

static td_status infer(view_fn *resolve, struct td_op_args *args, struct td_arena *arena,
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
        { params, 0, view.axis },
        { indices, view.batch_dims, indices->rank },
        { params, view.axis + 1, params->rank },
    };
    return td_gathering_output(args, parts, 3, arena, err);
}

static struct td_gather_geometry geometry(const struct view *view, const struct td_tensor *out)
{
    const struct td_shape *params = &view->params->shape, *indices = &view->indices->shape;
    struct td_gather_geometry made = {
        .slice_rows = params->dim[view->axis],
        .bounds = view->bounds,
    };
    if (out->numel == 0)
        return made;
    /* Each is a factor of the output's element count, so none of the products overflows. */
    (void)td_shape_product(indices, 0, view->batch_dims, &made.batches);
    (void)td_shape_product(params, view->batch_dims, view->axis, &made.slices);
    (void)td_shape_product(indices, view->batch_dims, indices->rank, &made.slice_indices);
    (void)td_shape_product(params, view->axis + 1, params->rank, &made.row_numel);
    made.n_rows = out->numel / made.row_numel;
    made.row_bytes = (size_t)made.row_numel * td_dtype_info(out->dtype)->size;
    return made;
}

static struct td_gather_geometry geometry_of(view_fn *resolve, const struct td_op_args *args)
{
    struct view view;
    if (resolve(args, &view, NULL) != TD_OK)
        return (struct td_gather_geometry){ 0 }; /* infer has let nothing like that through */
    return geometry(&view, &args->outputs[0]);
}

struct td_gather_geometry td_gather_geometry(const struct td_op_args *args)
{
    return geometry_of(gather_view, args);
}

struct td_gather_geometry td_batch_gather_geometry(const struct td_op_args *args)
{
    return geometry_of(batch_gather_view, args);
}

/* For an output that is not empty. */
struct plan {
    struct td_gather_geometry of;
    const struct td_tensor *indices;
    td_bounds bounds; /* error as well where no policy has anything to do */
    bool plain;       /* one slice, good int64 indices: they are the row numbers */
};

/* Row numbers of output rows begin .. begin + n, which stand in the order of b, p, i. */
static const int64_t *plan_rows(const void *context, int64_t begin, int64_t n, int64_t *rows)
{
    const struct plan *plan = context;
    const struct td_gather_geometry *of = &plan->of;
    const int64_t size = of->slice_indices;
    if (plan->plain)
        return (const int64_t *)plan->indices->data + begin;
    if (of->slices == 1) { /* the order of the indices themselves */
        td_rows_settle(plan->indices, begin, n, of->slice_rows, plan->bounds, rows);
        td_gathering_into_slices(rows, n, begin, size, of->slice_rows);
        return rows;
    }
    /* Slices of one batch use the same indices: those of one slice are settled, and in every
     * further slice the rows stand slice_rows behind those of the slice before. */
    for (int64_t done = 0; done < n;) {
        int64_t i = (begin + done) % size, slice = (begin + done) / size;
        int64_t batch = slice / of->slices, p = slice % of->slices;
        int64_t same = td_smaller((of->slices - p) * size - i, n - done); /* rows of this batch */
        int64_t head = td_smaller(size - i, same), settled = td_smaller(size, same);
        int64_t *to = rows + done;
        td_rows_settle(plan->indices, batch * size + i, head, of->slice_rows, plan->bounds, to);
        td_rows_settle(plan->indices, batch * size, settled - head, of->slice_rows, plan->bounds,
                       to + head);
        td_gathering_into_slices(to, settled, begin + done, size, of->slice_rows);
        for (int64_t k = settled; k < same; k++)
            to[k] = to[k - size] == TD_ROW_ZERO ? TD_ROW_ZERO : to[k - size] + of->slice_rows;
        done += same;
    }
    return rows;
}

static td_status run(view_fn *resolve, struct td_op_args *args, struct td_exec *exec,
                     struct td_error *err)
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
    const int64_t bound = plan.of.slice_rows;

    int64_t n_bad, first;
    status = td_rows_check(view.indices, bound, exec, &n_bad, &first, err);
    if (status != TD_OK)
        return status;
    bool nothing_to_choose = bound == 0 && view.bounds != TD_BOUNDS_ZERO;
    if (n_bad > 0 && (view.bounds == TD_BOUNDS_ERROR || nothing_to_choose))
        return td_rows_out_of_bounds(err, "indices", view.indices, first, n_bad, bound, view.axis,
                                     "");
    args->replaced = n_bad;
    if (n_bad == 0)
        plan.bounds = TD_BOUNDS_ERROR; /* settling is a widening */
    if (plan.of.n_rows == 0)
        return TD_OK;
    plan.plain = plan.bounds == TD_BOUNDS_ERROR && view.indices->dtype == TD_DTYPE_INT64 &&
                 plan.of.slice_indices == plan.of.n_rows;
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

static struct td_cost cost(view_fn *resolve, const struct td_op_args *args)
{
    return td_gathering_cost(args, geometry_of(resolve, args).row_numel);
}

static td_status gather_infer(struct td_op_args *args, struct td_arena *arena, struct td_error *err)
{
    return infer(gather_view, args, arena, err);
}

static struct td_cost gather_cost(const struct td_op_args *args)
{
    return cost(gather_view, args);
}

static td_status gather_run(struct td_op_args *args, struct td_exec *exec, struct td_error *err)
{
    return run(gather_view, args, exec, err);
}

static td_status batch_gather_infer(struct td_op_args *args, struct td_arena *arena,
                                    struct td_error *err)
{
    return infer(batch_gather_view, args, arena, err);
}

static struct td_cost batch_gather_cost(const struct td_op_args *args)
{
    return cost(batch_gather_view, args);
}

static td_status batch_gather_run(struct td_op_args *args, struct td_exec *exec,
                                  struct td_error *err)
{
    return run(batch_gather_view, args, exec, err);
}

/* ---- Merging ----------------------------------------------------------------------------- */

/* Along the first dimension, which no batch can stand before, each index gives a row, whatever the
 * shape that the indices stand in. That is the default of all attributes but bounds. */
static bool picks_rows(view_fn *resolve, const struct td_op_args *args)
{
    struct view view;
    return resolve(args, &view, NULL) == TD_OK && view.axis == 0;
}

static bool gather_can_merge(const struct td_op_args *args, uint32_t shared)
{
    (void)shared;
    return picks_rows(gather_view, args);
}

static bool batch_gather_can_merge(const struct td_op_args *args, uint32_t shared)
{
    (void)shared;
    return picks_rows(batch_gather_view, args);
}

static const struct td_op_merge gather_merge = {
    .kind = TD_MERGE_CONCAT,
    .can_merge = gather_can_merge,
    .default_attrs = 1u << ATTR_AXIS | 1u << ATTR_BATCH_DIMS,
};

static const struct td_op_merge batch_gather_merge = {
    .kind = TD_MERGE_CONCAT,
    .can_merge = batch_gather_can_merge,
};

/* ---- Descriptors ------------------------------------------------------------------------- */

static const struct td_input_spec gather_inputs[] = {
    [TD_GATHERING_PARAMS] = {
        .name = "params",
        .summary = "The tensor to pick from, of rank 1 or more; its first batch_dims dimensions are "
                   "those of indices.",
        .dtypes = TD_DTYPES_ALL,
    },
    [TD_GATHERING_INDICES] = {
        .name = "indices",
        .summary = "Positions along axis, each in [0, params.shape[axis]), in a tensor of any rank "
                   "from batch_dims on.",
        .role = TD_ROLE_INDEX,
        .dtypes = TD_DTYPES_INDEX,
    },
};

static const struct td_attr_spec gather_attrs[] = {
    [ATTR_AXIS] = {
        .name = "axis",
        .summary = "The dimension of params to pick along; a negative one counts from the end.",
        .kind = TD_ATTR_INT,
        .default_int = TD_ATTR_UNSET,
        .default_text = "batch_dims",
        .offset = offsetof(struct td_gather_attrs, axis),
    },
    [ATTR_BATCH_DIMS] = {
        .name = "batch_dims",
        .summary = "How many leading dimensions params and indices share; at most axis. A negative "
                   "one counts from the rank of indices.",
        .kind = TD_ATTR_INT,
        .default_int = 0,
        .offset = offsetof(struct td_gather_attrs, batch_dims),
    },
    [ATTR_BOUNDS] = TD_GATHERING_BOUNDS(struct td_gather_attrs),
};

static const td_status gather_errors[] = {
    TD_INDEX_OUT_OF_BOUNDS, TD_SHAPE_MISMATCH,   TD_INVALID_AXIS,   TD_INVALID_BATCH_DIMS,
    TD_UNSUPPORTED_DTYPE,   TD_INVALID_ARGUMENT, TD_RESOURCE_LIMIT, TD_OK,
};

static const struct td_output_spec gather_outputs[] = {
    {
        .name = "output",
        .summary = "The slices, in the order of indices.",
        .shape_rule = "params.shape[:axis] + indices.shape[batch_dims:] + params.shape[axis + 1:]",
        .dtype_of = "params",
    },
};

const struct td_op td_op_gather = {
    .name = "gather",
    .summary = "Picks slices of params along one axis, in the order that indices names.",
    .source = "tf.gather (TensorFlow 2 API reference), with bounds as an addition",
    .inputs = gather_inputs,
    .n_inputs = 2,
    .attrs = gather_attrs,
    .n_attrs = ATTR_COUNT,
    .outputs = gather_outputs,
    .n_outputs = 1,
    .errors = gather_errors,
    .example = "{\"params\":[[1,2],[3,4],[5,6]],\"indices\":[2,0]}",
    .infer = gather_infer,
    .cost = gather_cost,
    .run = gather_run,
    .merge = &gather_merge,
};

static const struct td_input_spec batch_gather_inputs[] = {
    [TD_GATHERING_PARAMS] = {
        .name = "params",
        .summary = "The tensor to pick from, of rank 1 or more; it begins with the dimensions of "
                   "indices but for their last.",
        .dtypes = TD_DTYPES_ALL,
    },
    [TD_GATHERING_INDICES] = {
        .name = "indices",
        .summary = "Positions in the dimension of params that their own last dimension stands for, "
                   "in a tensor of rank 1 up to the rank of params.",
        .role = TD_ROLE_INDEX,
        .dtypes = TD_DTYPES_INDEX,
    },
};

static const struct td_attr_spec batch_gather_attrs[] = {
    TD_GATHERING_BOUNDS(struct td_batch_gather_attrs),
};

static const td_status batch_gather_errors[] = {
    TD_INDEX_OUT_OF_BOUNDS, TD_SHAPE_MISMATCH, TD_UNSUPPORTED_DTYPE,
    TD_INVALID_ARGUMENT,    TD_RESOURCE_LIMIT, TD_OK,
};

static const struct td_output_spec batch_gather_outputs[] = {
    {
        .name = "output",
        .summary = "The slices, in the order of indices.",
        .shape_rule = "indices.shape + params.shape[rank(indices):]",
        .dtype_of = "params",
    },
};

const struct td_op td_op_batch_gather = {
    .name = "batch_gather",
    .summary = "Picks slices of params batch by batch: gather with batch_dims = axis = "
               "rank(indices) - 1.",
    .source = "tf.compat.v1.batch_gather (TensorFlow API reference), with bounds as an addition",
    .inputs = batch_gather_inputs,
    .n_inputs = 2,
    .attrs = batch_gather_attrs,
    .n_attrs = 1,
    .outputs = batch_gather_outputs,
    .n_outputs = 1,
    .errors = batch_gather_errors,
    .example = "{\"params\":[[1,2,3],[4,5,6]],\"indices\":[[2,0],[1,1]]}",
    .infer = batch_gather_infer,
    .cost = batch_gather_cost,
    .run = batch_gather_run,
    .merge = &batch_gather_merge,
};
