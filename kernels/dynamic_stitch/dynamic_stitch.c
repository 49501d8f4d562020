#include "kernels/dynamic_stitch/dynamic_stitch.h"

#include "kernels/dynamic_stitch/stitch_rows.h"
#include "kernels/rows/rows.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- Shapes ------------------------------------------------------------------------------ */

/* Adds two shapes to a SHAPE_MISMATCH error of data[m]: its own shape and the shape of the tensor
 * that contradicts it. */
static td_status shapes_at_fault(struct td_error *err, int m, const struct td_tensor *data,
                                 const char *other_list, int other, const struct td_tensor *tensor)
{
    char name[32];
    snprintf(name, sizeof(name), "data[%d]", m);
    td_error_add_shape(err, name, &data->shape);
    snprintf(name, sizeof(name), "%s[%d]", other_list, other);
    td_error_add_shape(err, name, &tensor->shape);
    return td_error_at_input(err, TD_SHAPE_MISMATCH, "data[%d]", m);
}

/* Returns the shape of a row of data: the dimensions after the shape of its indices. */
static struct td_shape row_shape(const struct td_tensor *data, const struct td_tensor *indices)
{
    struct td_shape row = { .rank = 0 };
    (void)td_shape_append(&row, &data->shape, indices->shape.rank, data->shape.rank);
    return row;
}

/* True if the rows of data[m] have the same shape as the rows of data[0]. */
static bool same_row_shape(const struct td_op_args *args, int m)
{
    const struct td_shape *data = &args->inputs[TD_STITCH_DATA].tensors[m].shape;
    const struct td_shape *data0 = &args->inputs[TD_STITCH_DATA].tensors[0].shape;
    int depth = args->inputs[TD_STITCH_INDICES].tensors[m].shape.rank;
    int depth0 = args->inputs[TD_STITCH_INDICES].tensors[0].shape.rank;
    int rank = data->rank - depth;
    return rank == data0->rank - depth0 &&
           memcmp(data->dim + depth, data0->dim + depth0, (size_t)rank * sizeof(data->dim[0])) == 0;
}

/* Checks data[m] against indices[m] and data[0]. */
static td_status check_tensor(const struct td_op_args *args, int m, struct td_error *err)
{
    const struct td_tensor *indices = &args->inputs[TD_STITCH_INDICES].tensors[m];
    const struct td_tensor *data = &args->inputs[TD_STITCH_DATA].tensors[m];
    const struct td_tensor *data0 = &args->inputs[TD_STITCH_DATA].tensors[0];
    char text[TD_SHAPE_TEXT], more[TD_SHAPE_TEXT];
    if (!td_shape_starts_with(&data->shape, &indices->shape)) {
        td_error_set(err, TD_SHAPE_MISMATCH,
                     "data[%d] %s does not start with the shape of indices[%d], %s", m,
                     td_shape_text(&data->shape, text, sizeof(text)), m,
                     td_shape_text(&indices->shape, more, sizeof(more)));
        return shapes_at_fault(err, m, data, "indices", m, indices);
    }
    if (!same_row_shape(args, m)) {
        struct td_shape row = row_shape(data, indices);
        struct td_shape row0 = row_shape(data0, &args->inputs[TD_STITCH_INDICES].tensors[0]);
        td_error_set(err, TD_SHAPE_MISMATCH,
                     "the rows of data[%d] have shape %s and the rows of data[0] %s; the shapes "
                     "must be equal",
                     m, td_shape_text(&row, text, sizeof(text)),
                     td_shape_text(&row0, more, sizeof(more)));
        return shapes_at_fault(err, m, data, "data", 0, data0);
    }
    return TD_OK;
}

static td_status check_lists(const struct td_op_args *args, struct td_error *err)
{
    int n_indices = args->inputs[TD_STITCH_INDICES].count,
        n_data = args->inputs[TD_STITCH_DATA].count;
    if (n_indices != n_data) {
        td_error_set(err, TD_INVALID_ARGUMENT,
                     "data has length %d and indices has length %d; the lengths must be equal",
                     n_data, n_indices);
        return td_error_at_input(err, TD_INVALID_ARGUMENT, "data");
    }
    for (int m = 0; m < n_data; m++) {
        td_status status = check_tensor(args, m, err);
        if (status != TD_OK)
            return status;
    }
    return TD_OK;
}

static td_status refuse_negative(const struct td_tensor *indices, int m, struct td_error *err)
{
    char name[32];
    int64_t first = -1, n_bad = 0;
    snprintf(name, sizeof(name), "indices[%d]", m);
    for (int64_t i = 0; i < indices->numel; i++)
        if (td_tensor_index_at(indices, i) < 0 && n_bad++ == 0)
            first = i;
    return td_rows_negative(err, name, indices, first, n_bad);
}

/* A tensor of at least this size is read only once, even if several elements of a list refer to the
 * same resident tensor. infer cannot be cancelled, so it must not take longer than reading all
 * resident tensors and the body once. */
#define LARGE_INDICES 4096

static bool is_repeated(const struct td_tensor *tensors, int m)
{
    const struct td_tensor *tensor = &tensors[m];
    if (tensor->numel < LARGE_INDICES)
        return false;
    for (int i = 0; i < m; i++)
        if (tensors[i].data == tensor->data && tensors[i].numel == tensor->numel &&
            tensors[i].dtype == tensor->dtype)
            return true;
    return false;
}

/* Sets *largest to the largest index, or to -1 if there are no indices. */
static td_status largest_index(const struct td_op_args *args, int64_t *largest,
                               struct td_error *err)
{
    *largest = -1;
    for (int m = 0; m < args->inputs[TD_STITCH_INDICES].count; m++) {
        const struct td_tensor *indices = &args->inputs[TD_STITCH_INDICES].tensors[m];
        bool negative;
        if (is_repeated(args->inputs[TD_STITCH_INDICES].tensors, m))
            continue;
        int64_t most = td_rows_largest(indices, &negative);
        if (negative)
            return refuse_negative(indices, m, err);
        *largest = most > *largest ? most : *largest;
    }
    return TD_OK;
}

static td_status make_geometry(struct td_op_args *args, const struct td_tensor *output,
                               struct td_arena *arena, struct td_error *err)
{
    const struct td_operand *indices = &args->inputs[TD_STITCH_INDICES];
    struct td_dynamic_stitch_geometry *geometry = td_arena_alloc(arena, 1, sizeof(*geometry), err);
    if (!geometry)
        return err->status;
    geometry->n_tensors = indices->count;
    geometry->n_out = output->shape.dim[0];
    geometry->row_numel = geometry->n_out == 0 ? 0 : output->numel / geometry->n_out;
    geometry->row_bytes = (size_t)geometry->row_numel * td_dtype_info(output->dtype)->size;
    geometry->first =
        td_arena_alloc(arena, (size_t)geometry->n_tensors + 1, sizeof(geometry->first[0]), err);
    if (!geometry->first)
        return err->status;
    geometry->first[0] = 0;
    /* The list can repeat a resident tensor, so even the number of rows can overflow. */
    for (int m = 0; m < geometry->n_tensors; m++)
        if (__builtin_add_overflow(geometry->first[m], indices->tensors[m].numel,
                                   &geometry->first[m + 1]))
            return td_error_resource(err, "indices", UINT64_MAX, INT64_MAX, "the list");
    args->plan = geometry;
    return TD_OK;
}

static td_status infer(struct td_op_args *args, struct td_arena *arena, struct td_error *err)
{
    td_status status = check_lists(args, err);
    if (status != TD_OK)
        return status;
    const struct td_tensor *data0 = &args->inputs[TD_STITCH_DATA].tensors[0];
    int depth0 = args->inputs[TD_STITCH_INDICES].tensors[0].shape.rank;
    if (data0->shape.rank - depth0 == TD_MAX_RANK)
        return td_error_resource(err, "rank", TD_MAX_RANK + 1, TD_MAX_RANK, "output");
    int64_t largest;
    status = largest_index(args, &largest, err);
    if (status != TD_OK)
        return status;
    if (largest == INT64_MAX)
        return td_error_resource(err, "rows", (uint64_t)largest + 1, INT64_MAX, "output");
    struct td_shape shape = { .rank = 1, .dim = { largest + 1 } };
    (void)td_shape_append(&shape, &data0->shape, depth0, data0->shape.rank);

    status = td_op_output(args, data0->dtype, &shape, arena, err);
    return status == TD_OK ? make_geometry(args, &args->outputs[0], arena, err) : status;
}

static td_status run(struct td_op_args *args, struct td_exec *exec, struct td_error *err)
{
    struct td_stitch job;
    td_stitch_init(&job, args);
    return td_stitch_run(&job, exec, err);
}

/* ---- Descriptors ------------------------------------------------------------------------- */

static const struct td_input_spec inputs[] = {
    [TD_STITCH_INDICES] = {
        .name = "indices",
        .summary = "Row numbers in the output, each at least 0: tensors of any rank, including "
                   "scalars.",
        .role = TD_ROLE_INDEX,
        .dtypes = TD_DTYPES_INDEX,
        .list = true,
        .sets_shape = true,
        .aligned_with = "data",
    },
    [TD_STITCH_DATA] = {
        .name = "data",
        .summary = "The rows: one tensor for each tensor of indices, all of the same dtype. The "
                   "shape of data[m] starts with the shape of indices[m]; the remaining "
                   "dimensions are the same for all.",
        .dtypes = TD_DTYPES_ALL,
        .list = true,
        .one_dtype = true,
    },
};

static const td_status errors[] = {
    TD_INDEX_OUT_OF_BOUNDS, TD_SHAPE_MISMATCH, TD_UNSUPPORTED_DTYPE,
    TD_INVALID_ARGUMENT,    TD_RESOURCE_LIMIT, TD_OK,
};

static const struct td_output_spec outputs[] = {
    {
        .name = "output",
        .summary = "The rows, each at its index.",
        .shape_rule = "[max(indices) + 1] + data[0].shape[rank(indices[0]):]",
        .dtype_of = "data",
    },
};

static const char rows_of_two_tensors[] =
    "{\"indices\":[[0,2],[1]],\"data\":[[[1,2],[5,6]],[[3,4]]]}";

static const struct td_op_example examples[] = {
    { "rows of two tensors", rows_of_two_tensors },
    { "a repeated index: the last row is kept",
      "{\"indices\":[[0,1],[1]],\"data\":[[10,20],[30]]}" },
    { NULL, NULL },
};

const struct td_op td_op_dynamic_stitch = {
    .name = "dynamic_stitch",
    .summary =
        "Assembles one tensor from the rows of several tensors, placing each row at its index. If "
        "an index is repeated, the last row is kept. Rows without an index are zeros.",
    .source = "tf.dynamic_stitch (TensorFlow 2 API reference)",
    .inputs = inputs,
    .n_inputs = 2,
    .outputs = outputs,
    .n_outputs = 1,
    .errors = errors,
    .mixed_dtypes = TD_INVALID_ARGUMENT,
    .examples = examples,
    .infer = infer,
    .cost = td_stitch_cost,
    .run = run,
};

static const struct td_op_example parallel_examples[] = {
    { "rows of two tensors", rows_of_two_tensors },
    { NULL, NULL },
};

const struct td_op td_op_parallel_dynamic_stitch = {
    .name = "parallel_dynamic_stitch",
    .summary = "Assembles one tensor from the rows of several tensors, as dynamic_stitch does. If "
               "an index is repeated, any of its rows is kept.",
    .source = "tf.raw_ops.ParallelDynamicStitch (TensorFlow 2 API reference)",
    .inputs = inputs,
    .n_inputs = 2,
    .outputs = outputs,
    .n_outputs = 1,
    .errors = errors,
    .mixed_dtypes = TD_INVALID_ARGUMENT,
    .examples = parallel_examples,
    .infer = infer,
    .cost = td_stitch_cost,
    .run = run,
};
