#include "kernels/gather/gather.h"

#include "kernels/axes.h"
#include "kernels/by_rows.h"
#include "kernels/integers.h"
#include "kernels/op_rows.h"
#include "kernels/rows/gathering.h"

#include <inttypes.h>
#include <string.h>

/* Positions of the attributes in the descriptor of gather. */
enum { ATTR_AXIS, ATTR_BATCH_DIMS, ATTR_BOUNDS, ATTR_DTYPE, ATTR_COUNT };

/* The arguments of either op, with attributes checked against the shapes and defaults filled in. */
struct resolved {
    const struct td_tensor *params, *indices;
    int axis;
    int batch_dims;
    td_bounds bounds;
    td_dtype dtype; /* dtype of the output */
};

static td_status resolve_gather(const struct td_op_args *args, struct resolved *resolved,
                                struct td_error *err)
{
    struct td_gather_attrs attrs;
    memcpy(&attrs, args->attrs, sizeof(attrs));
    const struct td_tensor *params = args->inputs[TD_GATHERING_PARAMS].tensors;
    const struct td_tensor *indices = args->inputs[TD_GATHERING_INDICES].tensors;
    int rank = params->shape.rank, indices_rank = indices->shape.rank;
    char text[TD_SHAPE_TEXT];

    *resolved = (struct resolved){
        .params = params,
        .indices = indices,
        .bounds = attrs.bounds,
        .dtype = args->attrs_set & 1u << ATTR_DTYPE ? attrs.dtype : params->dtype,
    };
    if (rank == 0)
        return td_gathering_refuse_scalar("params", err);
    if (params->dtype == TD_DTYPE_STRING && resolved->dtype != TD_DTYPE_STRING) {
        td_error_set(err, TD_UNSUPPORTED_DTYPE,
                     "params has dtype string, which cannot be converted to %s; leave out dtype",
                     td_dtype_info(resolved->dtype)->name);
        return td_error_at_attribute(err, TD_UNSUPPORTED_DTYPE, "dtype");
    }
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
    /* TD_ATTR_UNSET is INT64_MIN, which is an invalid axis if a client gives it. */
    bool given = attrs.axis != TD_ATTR_UNSET || args->attrs_set & 1u << ATTR_AXIS;
    const td_status status =
        given ? td_axis_find(attrs.axis, "params", &params->shape, &axis, err) : TD_OK;
    if (status != TD_OK)
        return status;
    if (batch_dims > axis) {
        td_error_set(err, TD_INVALID_BATCH_DIMS,
                     "batch_dims = %d is above axis = %d; it must be at most axis", batch_dims,
                     axis);
        return td_error_at_attribute(err, TD_INVALID_BATCH_DIMS, "batch_dims");
    }
    resolved->axis = axis;
    resolved->batch_dims = batch_dims;
    return TD_OK;
}

static td_status resolve_batch_gather(const struct td_op_args *args, struct resolved *resolved,
                                      struct td_error *err)
{
    struct td_batch_gather_attrs attrs;
    memcpy(&attrs, args->attrs, sizeof(attrs));
    const struct td_tensor *params = args->inputs[TD_GATHERING_PARAMS].tensors;
    const struct td_tensor *indices = args->inputs[TD_GATHERING_INDICES].tensors;
    int rank = params->shape.rank, indices_rank = indices->shape.rank;

    *resolved = (struct resolved){
        .params = params,
        .indices = indices,
        .bounds = attrs.bounds,
        .dtype = params->dtype,
    };
    if (rank == 0)
        return td_gathering_refuse_scalar("params", err);
    if (indices_rank == 0)
        return td_gathering_refuse_scalar("indices", err);
    if (indices_rank > rank) {
        char text[TD_SHAPE_TEXT], more[TD_SHAPE_TEXT];
        td_error_set(err, TD_SHAPE_MISMATCH,
                     "indices %s has more dimensions than params %s; expected at most %d",
                     td_shape_text(&indices->shape, text, sizeof(text)),
                     td_shape_text(&params->shape, more, sizeof(more)), rank);
        return td_gathering_shapes_at_fault(err, &params->shape, &indices->shape);
    }
    resolved->axis = resolved->batch_dims = indices_rank - 1;
    return TD_OK;
}

/* The difference between gather and batch_gather, in td_op.detail. */
struct detail {
    td_status (*resolve)(const struct td_op_args *args, struct resolved *resolved,
                         struct td_error *err);
};

static td_status resolve(const struct td_op_args *args, struct resolved *resolved,
                         struct td_error *err)
{
    const struct detail *detail = args->op->detail;
    return detail->resolve(args, resolved, err);
}

static td_status infer(struct td_op_args *args, struct td_arena *arena, struct td_error *err)
{
    struct resolved resolved;
    td_status status = resolve(args, &resolved, err);
    if (status != TD_OK)
        return status;
    const struct td_shape *params = &resolved.params->shape, *indices = &resolved.indices->shape;
    status = td_gathering_check_batch(params, indices, resolved.batch_dims, err);
    if (status != TD_OK)
        return status;
    const struct td_gathering_part parts[] = {
        { params, 0, resolved.axis },
        { indices, resolved.batch_dims, indices->rank },
        { params, resolved.axis + 1, params->rank },
    };
    return td_gathering_output(args, resolved.dtype, parts, 3, arena, err);
}

static struct td_gather_geometry make_geometry(const struct resolved *resolved,
                                               const struct td_tensor *out)
{
    const struct td_shape *params = &resolved->params->shape, *indices = &resolved->indices->shape;
    struct td_gather_geometry geometry = {
        .slice_rows = params->dim[resolved->axis],
        .bounds = resolved->bounds,
    };
    if (out->numel == 0)
        return geometry;
    /* Neither product overflows, because each is a factor of the output's number of elements. */
    (void)td_shape_product(indices, 0, resolved->batch_dims, &geometry.batches);
    (void)td_shape_product(params, resolved->batch_dims, resolved->axis, &geometry.slices);
    (void)td_shape_product(indices, resolved->batch_dims, indices->rank, &geometry.slice_indices);
    (void)td_shape_product(params, resolved->axis + 1, params->rank, &geometry.row_numel);
    geometry.n_rows = out->numel / geometry.row_numel;
    geometry.row_bytes = (size_t)geometry.row_numel * td_dtype_info(out->dtype)->size;
    return geometry;
}

struct td_gather_geometry td_gather_geometry(const struct td_op_args *args)
{
    struct resolved resolved;
    struct td_error unused;
    if (resolve(args, &resolved, &unused) != TD_OK)
        /* Unreachable, because infer has resolved the same call. */
        return (struct td_gather_geometry){ 0 };
    return make_geometry(&resolved, &args->outputs[0]);
}

/* The context of plan_rows, for an output with elements. */
struct plan {
    struct td_gather_geometry geometry;
    const struct td_tensor *indices;
    /* Set to TD_BOUNDS_ERROR if all indices are in range, because no policy then applies. */
    td_bounds bounds;
    /* True if the indices can be used as row numbers: they are int64 and in range, and there is
     * only one slice. */
    bool indices_are_rows;
};

/* Implements td_rows_fn for both ops. Output rows are in the order of b, p, i. */
static const int64_t *plan_rows(const void *context, int64_t begin, int64_t n, int64_t *rows)
{
    const struct plan *plan = context;
    const struct td_gather_geometry *geometry = &plan->geometry;
    const int64_t size = geometry->slice_indices;
    if (plan->indices_are_rows)
        return (const int64_t *)plan->indices->data + begin;
    if (geometry->slices == 1) { /* output rows are in the order of the indices */
        td_rows_resolve_indices(plan->indices, begin, n, geometry->slice_rows, plan->bounds, rows);
        td_gathering_add_slice_offsets(rows, n, begin, size, geometry->slice_rows);
        return rows;
    }
    /* All slices of a batch use the same indices, which are resolved for the first slice. In each
     * following slice, row numbers are slice_rows higher. */
    for (int64_t done = 0; done < n;) {
        int64_t i = (begin + done) % size, slice = (begin + done) / size;
        int64_t batch = slice / geometry->slices, p = slice % geometry->slices;
        /* Number of remaining output rows that are in this batch. */
        int64_t count = td_smaller((geometry->slices - p) * size - i, n - done);
        int64_t head = td_smaller(size - i, count), resolved = td_smaller(size, count);
        int64_t *to = rows + done;
        td_rows_resolve_indices(plan->indices, batch * size + i, head, geometry->slice_rows,
                                plan->bounds, to);
        td_rows_resolve_indices(plan->indices, batch * size, resolved - head, geometry->slice_rows,
                                plan->bounds, to + head);
        td_gathering_add_slice_offsets(to, resolved, begin + done, size, geometry->slice_rows);
        for (int64_t k = resolved; k < count; k++)
            to[k] = to[k - size] == TD_ROW_ZERO ? TD_ROW_ZERO : to[k - size] + geometry->slice_rows;
        done += count;
    }
    return rows;
}

static td_status run(struct td_op_args *args, struct td_exec *exec, struct td_error *err)
{
    struct resolved resolved;
    td_status status = resolve(args, &resolved, err);
    if (status != TD_OK)
        return status;
    struct td_tensor *out = &args->outputs[0];
    struct plan plan = {
        .geometry = make_geometry(&resolved, out),
        .indices = resolved.indices,
        .bounds = resolved.bounds,
    };
    const int64_t bound = plan.geometry.slice_rows;

    int64_t n_bad, first;
    status = td_rows_check(resolved.indices, bound, exec, &n_bad, &first, err);
    if (status != TD_OK)
        return status;
    if (td_row_policy_refuses(resolved.bounds, n_bad, bound))
        return td_rows_out_of_bounds(err, "indices", resolved.indices, first, n_bad, bound,
                                     resolved.axis,
                                     td_rows_bounds_hint(resolved.indices, first, bound));
    args->replaced = n_bad;
    if (n_bad == 0)
        plan.bounds = TD_BOUNDS_ERROR; /* indices are only widened */
    if (plan.geometry.n_rows == 0)
        return TD_OK;
    plan.indices_are_rows = plan.bounds == TD_BOUNDS_ERROR &&
                            resolved.indices->dtype == TD_DTYPE_INT64 &&
                            plan.geometry.slice_indices == plan.geometry.n_rows;
    struct td_gathering job = {
        .table = resolved.params,
        .out = out,
        .n_rows = plan.geometry.n_rows,
        .row_numel = plan.geometry.row_numel,
        .rows = plan_rows,
        .context = &plan,
        .may_be_zero = plan.bounds == TD_BOUNDS_ZERO,
    };
    return td_gathering_run(&job, exec, err);
}

static struct td_cost cost(const struct td_op_args *args)
{
    return td_gathering_cost(args, td_gather_geometry(args).row_numel);
}

/* ---- Rows -------------------------------------------------------------------------------- */

/* True if axis is 0, which implies that batch_dims is 0. Each index then gives one row of the
 * output, whatever the shape of indices. Both attributes default to 0. */
static bool is_plain(const struct td_op_args *args)
{
    struct resolved resolved;
    struct td_error unused;
    return resolve(args, &resolved, &unused) == TD_OK && resolved.axis == 0;
}

static void space(const struct td_op_args *args, struct td_tuple_space *out)
{
    struct resolved resolved;
    struct td_error unused;
    *out = (struct td_tuple_space){ .depth = 1 };
    if (resolve(args, &resolved, &unused) == TD_OK)
        out->bound[0] = resolved.params->shape.dim[resolved.axis];
}

static const struct td_op_rows gather_rows = {
    .axis_attr = ATTR_AXIS,
    .batch_attr = ATTR_BATCH_DIMS,
    .is_plain = is_plain,
    .plain_attrs = 1u << ATTR_AXIS | 1u << ATTR_BATCH_DIMS,
    .count_attr = TD_ROWS_NONE,
    .policy_attr = ATTR_BOUNDS,
    .found_output = TD_ROWS_NONE,
    .numbers_output = TD_ROWS_NONE,
    .space = space,
};

static const struct td_op_rows batch_gather_rows = {
    .axis_attr = TD_ROWS_NONE,
    .batch_attr = TD_ROWS_NONE,
    .batch_dims = -1,
    .is_plain = is_plain,
    .count_attr = TD_ROWS_NONE,
    .policy_attr = 0,
    .found_output = TD_ROWS_NONE,
    .numbers_output = TD_ROWS_NONE,
    .space = space,
};

/* Implements td_op.by_rows. */
static bool by_rows(const struct td_op_args *args, td_tensor_set rows)
{
    const bool params = td_rows_has_input(args, rows, TD_GATHERING_PARAMS),
               indices = td_rows_has_input(args, rows, TD_GATHERING_INDICES);
    struct resolved resolved;
    struct td_error unused;
    if (resolve(args, &resolved, &unused) != TD_OK)
        return false;
    if (params && indices)
        return resolved.batch_dims > 0;
    return params ? resolved.batch_dims == 0 && resolved.axis > 0 : resolved.axis == 0;
}

/* ---- Descriptors ------------------------------------------------------------------------- */

static const struct td_input_spec gather_inputs[] = {
    [TD_GATHERING_PARAMS] = {
        .name = "params",
        .summary = "The tensor to pick from, of rank 1 or more. Its first batch_dims "
                   "dimensions are the same as in indices.",
        .dtypes = TD_DTYPES_ALL,
        .part = TD_ROW_PART_TABLE,
    },
    [TD_GATHERING_INDICES] = {
        .name = "indices",
        .summary = "Positions along axis, each in [0, params.shape[axis]): a tensor whose rank "
                   "is at least batch_dims.",
        .role = TD_ROLE_INDEX,
        .dtypes = TD_DTYPES_INDEX,
        .part = TD_ROW_PART_QUERY,
        .or_keys = true,
    },
};

static const struct td_attr_spec gather_attrs[] = {
    [ATTR_AXIS] = {
        .name = "axis",
        .summary = "The dimension of params to pick along. A negative number counts from the "
                   "end.",
        .kind = TD_ATTR_INT,
        .default_int = TD_ATTR_UNSET,
        .default_text = "batch_dims",
        .offset = offsetof(struct td_gather_attrs, axis),
    },
    [ATTR_BATCH_DIMS] = {
        .name = "batch_dims",
        .summary = "The number of leading dimensions that params and indices share, at most "
                   "axis. A negative number counts from the rank of indices.",
        .kind = TD_ATTR_INT,
        .default_int = 0,
        .offset = offsetof(struct td_gather_attrs, batch_dims),
    },
    [ATTR_BOUNDS] = TD_GATHERING_BOUNDS(struct td_gather_attrs),
    [ATTR_DTYPE] = {
        .name = "dtype",
        .summary = "The dtype of the output. Rows are converted as in cast while they are copied. "
                   "To scale quantised rows, use dequantize.",
        .kind = TD_ATTR_DTYPE,
        .dtypes = TD_DTYPES_ALL & ~TD_DTYPE_BIT(STRING),
        .default_int = TD_DTYPE_FLOAT32,
        .default_text = "the dtype of params",
        .offset = offsetof(struct td_gather_attrs, dtype),
    },
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
        .dtype_of = "dtype",
        .dtypes = TD_DTYPE_BIT(STRING),
    },
};

static const struct td_op_example gather_examples[] = {
    { "rows of a matrix", "{\"params\":[[1,2],[3,4],[5,6]],\"indices\":[2,0]}" },
    { "columns: axis 1", "{\"params\":[[1,2,3],[4,5,6]],\"indices\":[2,0],\"axis\":1}" },
    { "a row of each batch",
      "{\"params\":[[[1,2],[3,4],[5,6]],[[7,8],[9,10],[11,12]]],\"indices\":[[2,0],[1,1]],"
      "\"axis\":1,\"batch_dims\":1}" },
    { "strings", "{\"params\":[\"Mercury\",\"Venus\",\"Earth\"],\"indices\":[[2,0],[1,1]]}" },
    { "zeros where an index is out of range",
      "{\"params\":[[1,2],[3,4],[5,6]],\"indices\":[0,7],\"bounds\":\"zero\"}" },
    { NULL, NULL },
};

const struct td_op td_op_gather = {
    .name = "gather",
    .summary = "Picks slices of params along one axis, in the order of indices.",
    .source = "tf.gather (TensorFlow 2 API reference), with bounds and dtype as additions",
    .inputs = gather_inputs,
    .n_inputs = 2,
    .attrs = gather_attrs,
    .n_attrs = ATTR_COUNT,
    .outputs = gather_outputs,
    .n_outputs = 1,
    .errors = gather_errors,
    .examples = gather_examples,
    .infer = infer,
    .cost = cost,
    .run = run,
    .by_rows = by_rows,
    .rows = &gather_rows,
    .detail = &(const struct detail){ resolve_gather },
};

static const struct td_input_spec batch_gather_inputs[] = {
    [TD_GATHERING_PARAMS] = {
        .name = "params",
        .summary = "The tensor to pick from, of rank 1 or more. Its shape starts with all "
                   "dimensions of indices except the last.",
        .dtypes = TD_DTYPES_ALL,
        .part = TD_ROW_PART_TABLE,
    },
    [TD_GATHERING_INDICES] = {
        .name = "indices",
        .summary = "Positions in dimension rank(indices) - 1 of params: a tensor whose rank is at "
                   "least 1 and at most the rank of params.",
        .role = TD_ROLE_INDEX,
        .dtypes = TD_DTYPES_INDEX,
        .part = TD_ROW_PART_QUERY,
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

static const struct td_op_example batch_gather_examples[] = {
    { "elements of each row", "{\"params\":[[1,2,3],[4,5,6]],\"indices\":[[2,0],[1,1]]}" },
    { NULL, NULL },
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
    .examples = batch_gather_examples,
    .infer = infer,
    .cost = cost,
    .run = run,
    .by_rows = by_rows,
    .rows = &batch_gather_rows,
    .detail = &(const struct detail){ resolve_batch_gather },
};
