#include "kernels/gather_nd/gather_nd.h"

#include "kernels/op_rows.h"
#include "kernels/rows/gathering.h"

#include <inttypes.h>
#include <string.h>

/* Positions of the attributes in the descriptor. */
enum { ATTR_BATCH_DIMS, ATTR_BOUNDS, ATTR_COUNT };

/* The arguments, with attributes checked against the shapes: params [B..., D_0, ..., D_{k-1},
 * Q...], indices [B..., I..., k]. */
struct resolved {
    const struct td_tensor *params, *indices;
    int batch_dims;
    int depth; /* k */
    td_bounds bounds;
};

static td_status resolve(const struct td_op_args *args, struct resolved *resolved,
                         struct td_error *err)
{
    struct td_gather_nd_attrs attrs;
    memcpy(&attrs, args->attrs, sizeof(attrs));
    const struct td_tensor *params = args->inputs[TD_GATHERING_PARAMS].tensors;
    const struct td_tensor *indices = args->inputs[TD_GATHERING_INDICES].tensors;
    int rank = params->shape.rank, indices_rank = indices->shape.rank;
    char text[TD_SHAPE_TEXT];

    *resolved = (struct resolved){ .params = params, .indices = indices, .bounds = attrs.bounds };
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
    if (depth > rank - batch_dims && indices_rank == 1)
        return td_gathering_refuse_flat(err, &params->shape, &indices->shape);
    if (depth > rank - batch_dims) {
        char more[TD_SHAPE_TEXT];
        td_error_set(err, TD_SHAPE_MISMATCH,
                     "batch_dims = %d plus the last dimension of indices %s, %" PRId64
                     ", exceeds the rank of params %s, %d",
                     batch_dims, td_shape_text(&indices->shape, text, sizeof(text)), depth,
                     td_shape_text(&params->shape, more, sizeof(more)), rank);
        return td_gathering_shapes_at_fault(err, &params->shape, &indices->shape);
    }
    resolved->batch_dims = batch_dims;
    resolved->depth = (int)depth;
    return TD_OK;
}

static td_status gather_nd_infer(struct td_op_args *args, struct td_arena *arena,
                                 struct td_error *err)
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
        { indices, 0, indices->rank - 1 },
        { params, resolved.batch_dims + resolved.depth, params->rank },
    };
    return td_gathering_output(args, args->inputs[TD_GATHERING_PARAMS].tensors->dtype, parts, 2,
                               arena, err);
}

static struct td_gather_nd_geometry make_geometry(const struct resolved *resolved,
                                                  const struct td_tensor *out)
{
    const struct td_shape *params = &resolved->params->shape, *indices = &resolved->indices->shape;
    const int inner = resolved->batch_dims + resolved->depth;
    struct td_gather_nd_geometry geometry = { .bounds = resolved->bounds };
    td_gathering_tuple_space(params, resolved->batch_dims, resolved->depth, &geometry.space);
    if (out->numel == 0)
        return geometry;
    /* The output has no dimension of size 0. Therefore, if params is empty, tuples index a
     * dimension of size 0, so every row is zeros and no stride is used. Otherwise, all products
     * divide numel. */
    (void)td_shape_product(indices, 0, resolved->batch_dims, &geometry.batches);
    (void)td_shape_product(params, resolved->batch_dims, inner, &geometry.block_rows);
    (void)td_shape_product(indices, resolved->batch_dims, indices->rank - 1,
                           &geometry.block_tuples);
    (void)td_shape_product(params, inner, params->rank, &geometry.row_numel);
    geometry.n_rows = out->numel / geometry.row_numel;
    geometry.row_bytes = (size_t)geometry.row_numel * td_dtype_info(out->dtype)->size;
    return geometry;
}

struct td_gather_nd_geometry td_gather_nd_geometry(const struct td_op_args *args)
{
    struct resolved resolved;
    struct td_error unused;
    if (resolve(args, &resolved, &unused) != TD_OK)
        /* Unreachable, because infer has resolved the same call. */
        return (struct td_gather_nd_geometry){ 0 };
    return make_geometry(&resolved, &args->outputs[0]);
}

/* The context of plan_rows, for an output with elements. */
struct plan {
    struct td_gather_nd_geometry geometry;
    const struct td_tensor *indices;
    /* Set to TD_BOUNDS_ERROR if all indices are in range, because no policy then applies. */
    td_bounds bounds;
};

/* Implements td_rows_fn for gather_nd. */
static const int64_t *plan_rows(const void *context, int64_t begin, int64_t n, int64_t *rows)
{
    const struct plan *plan = context;
    td_rows_resolve_tuples(plan->indices, begin, n, &plan->geometry.space, plan->bounds, rows);
    td_gathering_add_slice_offsets(rows, n, begin, plan->geometry.block_tuples,
                                   plan->geometry.block_rows);
    return rows;
}

static td_status gather_nd_run(struct td_op_args *args, struct td_exec *exec, struct td_error *err)
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
    const struct td_tuple_space *space = &plan.geometry.space;
    int n_empty = 0, first_empty = 0; /* components that index a dimension of size 0 */
    for (int c = resolved.depth - 1; c >= 0; c--) {
        if (space->bound[c] == 0) {
            n_empty++;
            first_empty = c;
        }
    }

    int64_t n_bad, first;
    status = td_rows_check_tuples(resolved.indices, space, exec, &n_bad, &first, err);
    if (status != TD_OK)
        return status;
    if (n_bad > 0 && resolved.bounds == TD_BOUNDS_ERROR)
        return td_rows_bad_tuple(resolved.params, resolved.indices, resolved.batch_dims, first,
                                 n_bad, err);
    /* Clip and wrap can replace any index except an index for a dimension of size 0, which has no
     * valid index. */
    if (n_empty > 0 && resolved.indices->numel > 0 && resolved.bounds != TD_BOUNDS_ZERO)
        return td_rows_bad_tuple(resolved.params, resolved.indices, resolved.batch_dims,
                                 first_empty, resolved.indices->numel / resolved.depth * n_empty,
                                 err);
    args->replaced = n_bad;
    if (n_bad == 0)
        plan.bounds = TD_BOUNDS_ERROR; /* row numbers are computed without checks */
    if (plan.geometry.n_rows == 0)
        return TD_OK;
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

static struct td_cost gather_nd_cost(const struct td_op_args *args)
{
    return td_gathering_cost(args, td_gather_nd_geometry(args).row_numel);
}

/* True if there are no batch dimensions, so each tuple gives one row. The number of tuples must
 * also be representable: tuples without components have no elements, so the product of the other
 * dimensions can overflow. */
static bool is_plain(const struct td_op_args *args)
{
    struct resolved resolved;
    struct td_error unused;
    int64_t tuples;
    return resolve(args, &resolved, &unused) == TD_OK && resolved.batch_dims == 0 &&
           td_shape_product(&resolved.indices->shape, 0, resolved.indices->shape.rank - 1, &tuples);
}

static void space(const struct td_op_args *args, struct td_tuple_space *out)
{
    *out = td_gather_nd_geometry(args).space;
}

static const struct td_op_rows rows = {
    .query_rank = 1,
    .axis_attr = TD_ROWS_NONE,
    .batch_attr = ATTR_BATCH_DIMS,
    .is_plain = is_plain,
    .count_attr = TD_ROWS_NONE,
    .policy_attr = ATTR_BOUNDS,
    .found_output = TD_ROWS_NONE,
    .numbers_output = TD_ROWS_NONE,
    .space = space,
};

static const struct td_input_spec inputs[] = {
    [TD_GATHERING_PARAMS] = {
        .name = "params",
        .summary = "The tensor to pick from, of rank 1 or more. Its first batch_dims "
                   "dimensions are the same as in indices.",
        .dtypes = TD_DTYPES_ALL,
        .part = TD_ROW_PART_TABLE,
    },
    [TD_GATHERING_INDICES] = {
        .name = "indices",
        .summary = "Index tuples along the last dimension, of rank 1 or more: component c is a "
                   "position in dimension batch_dims + c of params. If the tuples are shorter than "
                   "the remaining rank of params, they pick slices. [] is one tuple without "
                   "components, which picks all of params. To give no tuples, pass an int32 tensor "
                   "of shape [0, 1].",
        .role = TD_ROLE_INDEX,
        .dtypes = TD_DTYPES_INDEX,
        .part = TD_ROW_PART_QUERY,
    },
};

static const struct td_attr_spec attrs[] = {
    [ATTR_BATCH_DIMS] = {
        .name = "batch_dims",
        .summary = "The number of leading dimensions that params and indices share; less than "
                   "the rank of indices.",
        .kind = TD_ATTR_INT,
        .default_int = 0,
        .offset = offsetof(struct td_gather_nd_attrs, batch_dims),
    },
    [ATTR_BOUNDS] = TD_GATHERING_BOUNDS(struct td_gather_nd_attrs),
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

static const struct td_op_example examples[] = {
    { "elements of a matrix", "{\"params\":[[1,2],[3,4]],\"indices\":[[0,0],[1,1]]}" },
    { "rows of a cube",
      "{\"params\":[[[1,2],[3,4],[5,6]],[[7,8],[9,10],[11,12]]],\"indices\":[[1,0],[0,2]]}" },
    { "a row of each batch", "{\"params\":[[[1,2],[3,4],[5,6]],[[7,8],[9,10],[11,12]]],"
                             "\"indices\":[[2],[0]],\"batch_dims\":1}" },
    { NULL, NULL },
};

const struct td_op td_op_gather_nd = {
    .name = "gather_nd",
    .summary = "Picks elements or slices of params by index tuples.",
    .source = "tf.gather_nd (TensorFlow 2 API reference), with bounds as an addition",
    .inputs = inputs,
    .n_inputs = 2,
    .attrs = attrs,
    .n_attrs = ATTR_COUNT,
    .outputs = outputs,
    .n_outputs = 1,
    .errors = errors,
    .examples = examples,
    .infer = gather_nd_infer,
    .cost = gather_nd_cost,
    .run = gather_nd_run,
    .rows = &rows,
};
