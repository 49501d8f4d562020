#include "kernels/embedding_bag/embedding_bag.h"

#include "kernels/by_rows.h"
#include "kernels/embedding_bag/bags.h"
#include "kernels/embedding_bag/starts.h"
#include "kernels/integers.h"
#include "kernels/op_rows.h"
#include "kernels/rows/gathering.h"
#include "kernels/rows/order.h"
#include "kernels/zero_point.h"

#include <inttypes.h>

enum {
    ATTR_MODE,
    ATTR_PADDING_INDEX,
    ATTR_NUM_SEGMENTS,
    ATTR_BOUNDS,
    ATTR_DTYPE,
    ATTR_LAYOUT,
    ATTR_INCLUDE_LAST_OFFSET,
    ATTR_COUNT
};

static const char *const mode_names[] = {
    [TD_BAG_SUM] = "sum",
    [TD_BAG_MEAN] = "mean",
    [TD_BAG_SQRTN] = "sqrtn",
    [TD_BAG_MAX] = "max",
    NULL,
};

/* ---- Checks ------------------------------------------------------------------------------ */

/* Names of the inputs, for messages. */
static const char *const names[TD_BAG_INPUTS] = {
    [TD_BAG_PARAMS] = "params",   [TD_BAG_INDICES] = "indices",
    [TD_BAG_OFFSETS] = "offsets", [TD_BAG_SEGMENT_IDS] = "segment_ids",
    [TD_BAG_WEIGHTS] = "weights", [TD_BAG_SCALE] = "scale",
    [TD_BAG_OFFSET] = "offset",   [TD_BAG_ZERO_POINT] = "zero_point",
};

/* Checks that the input is a vector, if it is given. */
static td_status check_vector(const struct td_op_args *args, int input, struct td_error *err)
{
    const struct td_tensor *tensor = td_embedding_bag_given(args, input);
    char text[TD_SHAPE_TEXT];
    if (!tensor || tensor->shape.rank == 1)
        return TD_OK;
    td_error_set(err, TD_SHAPE_MISMATCH, "%s has shape %s; expected a vector", names[input],
                 td_shape_text(&tensor->shape, text, sizeof(text)));
    td_error_add_shape(err, names[input], &tensor->shape);
    return td_error_at_input(err, TD_SHAPE_MISMATCH, "%s", names[input]);
}

static td_status refuse_length(const struct td_op_args *args, int input, int other,
                               const char *what, struct td_error *err)
{
    const struct td_tensor *tensor = td_embedding_bag_given(args, input),
                           *like = td_embedding_bag_given(args, other);
    char text[TD_SHAPE_TEXT], more[TD_SHAPE_TEXT];
    td_error_set(err, TD_SHAPE_MISMATCH, "%s has shape %s and %s %s; expected one element per %s%s",
                 names[input], td_shape_text(&tensor->shape, text, sizeof(text)), names[other],
                 td_shape_text(&like->shape, more, sizeof(more)), what,
                 other == TD_BAG_PARAMS ? ", or a scalar" : "");
    td_error_add_shape(err, names[other], &like->shape);
    td_error_add_shape(err, names[input], &tensor->shape);
    return td_error_at_input(err, TD_SHAPE_MISMATCH, "%s", names[input]);
}

/* Checks the length of a vector, if it is given: one element per row of the other input, or per
 * element if the other input is a vector. */
static td_status check_length(const struct td_op_args *args, int input, int other, const char *what,
                              struct td_error *err)
{
    const struct td_tensor *tensor = td_embedding_bag_given(args, input),
                           *like = td_embedding_bag_given(args, other);
    td_status status = check_vector(args, input, err);
    if (status != TD_OK || !tensor || tensor->shape.dim[0] == like->shape.dim[0])
        return status;
    return refuse_length(args, input, other, what, err);
}

static td_status refuse_input(int input, const char *problem, struct td_error *err)
{
    td_error_set(err, TD_INVALID_ARGUMENT, "%s is given %s", names[input], problem);
    return td_error_at_input(err, TD_INVALID_ARGUMENT, "%s", names[input]);
}

/* Checks that indices is a vector if offsets or segment_ids is given, and a matrix otherwise. */
static td_status check_indices_rank(const struct td_op_args *args, struct td_error *err)
{
    const struct td_shape *shape = &td_embedding_bag_given(args, TD_BAG_INDICES)->shape;
    char text[TD_SHAPE_TEXT];
    if (!td_embedding_bag_by_rows(args))
        return check_vector(args, TD_BAG_INDICES, err);
    if (shape->rank == 2)
        return TD_OK;
    if (shape->rank == 1) {
        td_error_set(err, TD_INVALID_ARGUMENT,
                     "offsets and segment_ids are missing; expected one of them, or indices of "
                     "rank 2 with a bag in each row");
        if (td_embedding_bag_given(args, TD_BAG_OFFSET))
            td_error_hint(err, "the input offset is added to int8 and uint8 rows; the input "
                               "offsets gives the positions where bags start");
        return td_error_at_input(err, TD_INVALID_ARGUMENT, "offsets");
    }
    td_error_set(err, TD_SHAPE_MISMATCH,
                 "indices has shape %s; expected a vector, or a matrix with a bag in each row",
                 td_shape_text(shape, text, sizeof(text)));
    td_error_add_shape(err, "indices", shape);
    return td_error_at_input(err, TD_SHAPE_MISMATCH, "indices");
}

static td_status refuse_attribute(const char *name, const char *needed, const char *given,
                                  struct td_error *err)
{
    td_error_set(err, TD_INVALID_ARGUMENT, "%s is given with %s; it is only used with %s", name,
                 given, needed);
    return td_error_at_attribute(err, TD_INVALID_ARGUMENT, name);
}

/* Refuses attributes that apply only if bags are defined in another way. */
static td_status check_bag_attributes(const struct td_op_args *args, struct td_error *err)
{
    const bool offsets = td_embedding_bag_given(args, TD_BAG_OFFSETS),
               ids = td_embedding_bag_given(args, TD_BAG_SEGMENT_IDS);
    const char *given = offsets ? "offsets" : ids ? "segment_ids" : "indices of rank 2";
    if (!ids && args->attrs_set & 1u << ATTR_NUM_SEGMENTS)
        return refuse_attribute("num_segments", "segment_ids", given, err);
    if (!offsets && td_embedding_bag_attrs(args).include_last_offset)
        return refuse_attribute("include_last_offset", "offsets", given, err);
    return TD_OK;
}

static td_status check_offsets(const struct td_op_args *args, struct td_error *err)
{
    const struct td_tensor *offsets = td_embedding_bag_given(args, TD_BAG_OFFSETS);
    td_status status = check_vector(args, TD_BAG_OFFSETS, err);
    if (status != TD_OK || !offsets || offsets->numel > 0 ||
        !td_embedding_bag_attrs(args).include_last_offset)
        return status;
    td_error_set(err, TD_SHAPE_MISMATCH,
                 "offsets has shape [0]; expected at least one element with "
                 "include_last_offset");
    td_error_add_shape(err, "offsets", &offsets->shape);
    return td_error_at_input(err, TD_SHAPE_MISMATCH, "offsets");
}

static td_status check_bags(const struct td_op_args *args, struct td_error *err)
{
    if (td_embedding_bag_given(args, TD_BAG_OFFSETS) &&
        td_embedding_bag_given(args, TD_BAG_SEGMENT_IDS))
        return refuse_input(TD_BAG_SEGMENT_IDS,
                            "together with offsets; only one of them is allowed", err);
    td_status status = check_indices_rank(args, err);
    if (status == TD_OK)
        status = check_bag_attributes(args, err);
    if (status == TD_OK)
        status = check_offsets(args, err);
    return status == TD_OK ? check_length(args, TD_BAG_SEGMENT_IDS, TD_BAG_INDICES, "index", err)
                           : status;
}

static td_status check_weights(const struct td_op_args *args, struct td_error *err)
{
    const struct td_tensor *weights = td_embedding_bag_given(args, TD_BAG_WEIGHTS);
    if (!weights)
        return TD_OK;
    if (td_embedding_bag_attrs(args).mode == TD_BAG_MAX)
        return refuse_input(TD_BAG_WEIGHTS, "with mode = max; expected sum, mean or sqrtn", err);
    if (td_is_quantized(td_embedding_bag_given(args, TD_BAG_PARAMS)->dtype) &&
        weights->dtype != TD_DTYPE_FLOAT32) {
        td_error_set(err, TD_UNSUPPORTED_DTYPE,
                     "weights has dtype %s; expected float32 with params of dtype %s",
                     td_dtype_info(weights->dtype)->name,
                     td_dtype_info(td_embedding_bag_given(args, TD_BAG_PARAMS)->dtype)->name);
        return td_error_at_input(err, TD_UNSUPPORTED_DTYPE, "weights");
    }
    return td_shape_equal(&weights->shape, &td_embedding_bag_given(args, TD_BAG_INDICES)->shape)
               ? TD_OK
               : refuse_length(args, TD_BAG_WEIGHTS, TD_BAG_INDICES, "index", err);
}

static td_status check_scale(const struct td_op_args *args, struct td_error *err)
{
    const struct td_quantized rows = {
        .params = td_embedding_bag_given(args, TD_BAG_PARAMS),
        .scale = td_embedding_bag_given(args, TD_BAG_SCALE),
        .offset = td_embedding_bag_given(args, TD_BAG_OFFSET),
        .zero_point = td_embedding_bag_given(args, TD_BAG_ZERO_POINT),
        .layout = td_embedding_bag_attrs(args).layout,
    };
    return td_quantized_check(&rows, err);
}

static td_status check_padding(const struct td_op_args *args, struct td_error *err)
{
    const struct td_shape *params = &td_embedding_bag_given(args, TD_BAG_PARAMS)->shape;
    const int64_t index = td_embedding_bag_attrs(args).padding_index;
    char text[TD_SHAPE_TEXT];
    if (index == TD_ATTR_UNSET || index < params->dim[0])
        return TD_OK;
    td_error_set(err, TD_INVALID_ARGUMENT,
                 "padding_index is %" PRId64 "; expected a row number of params, whose shape is %s",
                 index, td_shape_text(params, text, sizeof(text)));
    return td_error_at_attribute(err, TD_INVALID_ARGUMENT, "padding_index");
}

static td_status check(const struct td_op_args *args, struct td_error *err)
{
    if (td_embedding_bag_given(args, TD_BAG_PARAMS)->shape.rank == 0)
        return td_gathering_refuse_scalar("params", err);
    td_status status = check_bags(args, err);
    if (status == TD_OK)
        status = check_scale(args, err);
    if (status == TD_OK)
        status = check_weights(args, err);
    return status == TD_OK ? check_padding(args, err) : status;
}

/* ---- Shapes ------------------------------------------------------------------------------ */

static td_status count_bags(const struct td_op_args *args, int64_t *n_bags, struct td_error *err)
{
    const struct td_tensor *offsets = td_embedding_bag_given(args, TD_BAG_OFFSETS),
                           *ids = td_embedding_bag_given(args, TD_BAG_SEGMENT_IDS);
    if (offsets) {
        *n_bags = offsets->numel - td_embedding_bag_attrs(args).include_last_offset;
        return TD_OK;
    }
    if (!ids) {
        *n_bags = td_embedding_bag_given(args, TD_BAG_INDICES)->shape.dim[0];
        return TD_OK;
    }
    if (args->attrs_set & 1u << ATTR_NUM_SEGMENTS) {
        *n_bags = td_embedding_bag_attrs(args).num_segments;
        return TD_OK;
    }
    return td_rows_order_segments(ids, n_bags, err); /* run refuses negative segment ids */
}

static td_dtype output_dtype(const struct td_op_args *args)
{
    const struct td_tensor *params = td_embedding_bag_given(args, TD_BAG_PARAMS);
    if (args->attrs_set & 1u << ATTR_DTYPE)
        return td_embedding_bag_attrs(args).dtype;
    return td_is_quantized(params->dtype) ? TD_DTYPE_FLOAT32 : params->dtype;
}

static td_status infer(struct td_op_args *args, struct td_arena *arena, struct td_error *err)
{
    const struct td_tensor *params = td_embedding_bag_given(args, TD_BAG_PARAMS);
    td_status status = check(args, err);
    if (status != TD_OK)
        return status;
    struct td_shape shape = params->shape;
    status = count_bags(args, &shape.dim[0], err);
    if (status != TD_OK)
        return status;
    if (td_embedding_bag_attrs(args).layout == TD_ROW_LAYOUT_BYTE_ROWWISE)
        shape.dim[1] -= TD_ROW_TRAILER;
    return td_op_output(args, output_dtype(args), &shape, arena, err);
}

/* ---- Cost -------------------------------------------------------------------------------- */

static struct td_cost cost(const struct td_op_args *args)
{
    const struct td_embedding_bag_geometry geometry = td_embedding_bag_geometry(args);
    const uint64_t n_indices = (uint64_t)geometry.n_indices;
    struct td_cost cost = {
        .bytes_written = args->outputs[0].bytes,
        .random_reads = geometry.n_bags > 0 ? n_indices : 0,
        .flops = td_capped_product(2 * n_indices, (uint64_t)geometry.row_numel),
        .workspace = td_bag_starts_workspace(args) + td_bags_workspace(args),
    };
    for (int input = TD_BAG_INDICES; input <= TD_BAG_WEIGHTS; input++)
        cost.bytes_read +=
            td_embedding_bag_given(args, input) ? td_embedding_bag_given(args, input)->bytes : 0;
    cost.bytes_read += td_capped_product(n_indices, geometry.row_bytes + 2 * sizeof(float));
    return cost;
}

/* Counts the out-of-bounds indices and refuses them unless the bounds policy replaces them. */
static td_status check_indices(struct td_op_args *args, struct td_exec *exec, struct td_error *err)
{
    const struct td_tensor *indices = td_embedding_bag_given(args, TD_BAG_INDICES);
    const int64_t n_rows = td_embedding_bag_geometry(args).n_rows;
    const td_bounds bounds = td_embedding_bag_attrs(args).bounds;
    int64_t n_bad, first;
    td_status status = td_rows_check(indices, n_rows, exec, &n_bad, &first, err);
    if (status != TD_OK)
        return status;
    if (td_row_policy_refuses(bounds, n_bad, n_rows))
        return td_rows_out_of_bounds(err, "indices", indices, first, n_bad, n_rows, 0,
                                     td_rows_bounds_hint(indices, first, n_rows));
    args->replaced = n_bad;
    return TD_OK;
}

/* If every index must be in bounds, the indices are checked as they are read. A separate pass over
 * 20,000 indices would take a fifth of the time of a call whose rows have 16 columns and are in the
 * cache. */
static td_status run(struct td_op_args *args, struct td_exec *exec, struct td_error *err)
{
    const int64_t n_bags = td_embedding_bag_geometry(args).n_bags;
    const bool unknown = td_embedding_bag_attrs(args).bounds == TD_BOUNDS_ERROR && n_bags > 0;
    td_bag_indices known = TD_BAG_INDICES_UNKNOWN;
    const int64_t *starts = NULL;
    bool outside = false;
    args->replaced = 0;
    td_status status = td_bag_starts_check(args, exec, err);
    if (status == TD_OK && !unknown) {
        status = check_indices(args, exec, err);
        known = args->replaced > 0 ? TD_BAG_INDICES_OUT_OF_BOUNDS : TD_BAG_INDICES_IN_BOUNDS;
    }
    if (status != TD_OK || n_bags == 0)
        return status;
    status = td_bag_starts_make(args, n_bags, exec, &starts, err);
    if (status == TD_OK)
        status = td_bags_run(args, starts, known, &outside, exec, err);
    return status == TD_OK && outside ? check_indices(args, exec, err) : status;
}

/* ---- Rows -------------------------------------------------------------------------------- */

/* Returns false for calls that cannot be merged. Indices of a call without bags belong to no bag,
 * but in a merged call they would belong to another call's bag. With include_last_offset, the last
 * offset would become another bag. The rows of a matrix of indices can have different lengths in
 * different calls. */
static bool is_plain(const struct td_op_args *args)
{
    if (td_embedding_bag_by_rows(args) || td_embedding_bag_attrs(args).include_last_offset)
        return false;
    return args->outputs[0].shape.dim[0] > 0 ||
           td_embedding_bag_given(args, TD_BAG_INDICES)->numel == 0;
}

static const struct td_op_bags bags = {
    .mode_attr = ATTR_MODE,
    .dtype_attr = ATTR_DTYPE,
    .skip_attr = ATTR_PADDING_INDEX,
    .last_attr = ATTR_INCLUDE_LAST_OFFSET,
};

static const struct td_op_rows bag_rows = {
    .bags = &bags,
    .is_plain = is_plain,
    .axis_attr = TD_ROWS_NONE,
    .batch_attr = TD_ROWS_NONE,
    .count_attr = ATTR_NUM_SEGMENTS,
    .policy_attr = ATTR_BOUNDS,
    .found_output = TD_ROWS_NONE,
    .numbers_output = TD_ROWS_NONE,
};

/* True if each row of indices is a bag. Implements td_op.by_rows. */
static bool by_rows(const struct td_op_args *args, td_tensor_set rows)
{
    return td_embedding_bag_by_rows(args) &&
           td_rows_are_inputs(args, rows, 1 << TD_BAG_INDICES | 1 << TD_BAG_WEIGHTS);
}

/* ---- Descriptor -------------------------------------------------------------------------- */

#define FLOATS                                                                                     \
    (TD_DTYPE_BIT(FLOAT16) | TD_DTYPE_BIT(BFLOAT16) | TD_DTYPE_BIT(FLOAT32) | TD_DTYPE_BIT(FLOAT64))

static const struct td_input_spec inputs_specs[] = {
    [TD_BAG_PARAMS] = {
        .name = "params",
        .summary = "The table, of rank 1 or more. int8 and uint8 rows need scale.",
        .dtypes = FLOATS | TD_DTYPE_BIT(INT8) | TD_DTYPE_BIT(UINT8),
        .one_dtype = true,
        .reads_values = true,
        .part = TD_ROW_PART_TABLE,
    },
    [TD_BAG_INDICES] = {
        .name = "indices",
        .summary = "Row numbers, each in [0, params.shape[0]). With offsets or segment_ids, a "
                   "vector that lists one bag after another; otherwise, a matrix with a bag in "
                   "each row.",
        .role = TD_ROLE_INDEX,
        .dtypes = TD_DTYPES_INDEX,
        .part = TD_ROW_PART_QUERY,
        .or_keys = true,
    },
    [TD_BAG_OFFSETS] = {
        .name = "offsets",
        .summary = "The position in indices at which each bag starts. The first position must be "
                   "0, and the last bag extends to the end of indices.",
        .role = TD_ROLE_INDEX,
        .dtypes = TD_DTYPES_INDEX,
        .optional = true,
        .part = TD_ROW_PART_OFFSETS,
    },
    [TD_BAG_SEGMENT_IDS] = {
        .name = "segment_ids",
        .summary = "The bag number of each index, in nondecreasing order. Cannot be combined with "
                   "offsets.",
        .role = TD_ROLE_INDEX,
        .dtypes = TD_DTYPES_INDEX,
        .optional = true,
        .sets_shape = true,
        .part = TD_ROW_PART_SEGMENTS,
    },
    [TD_BAG_WEIGHTS] = {
        .name = "weights",
        .summary = "A factor for each index, in the dtype of params, or in float32 for int8 and "
                   "uint8 params. Not allowed with mode = max.",
        .dtypes = FLOATS,
        .one_dtype = true,
        .optional = true,
        .reads_values = true,
        .part = TD_ROW_PART_PER_QUERY,
    },
    [TD_BAG_SCALE] = {
        .name = "scale",
        .companion = TD_COMPANION_SCALE,
        .summary = "The scale factor of int8 and uint8 params: one for each row, or one for all "
                   "rows.",
        .dtypes = TD_DTYPE_BIT(FLOAT32),
        .optional = true,
        .reads_values = true,
        .part = TD_ROW_PART_PER_ROW,
    },
    [TD_BAG_OFFSET] = {
        .name = "offset",
        .companion = TD_COMPANION_SHIFT,
        .summary = "The number added to int8 and uint8 params after scaling: one for each row, or "
                   "one for all rows. Cannot be combined with zero_point.",
        .dtypes = TD_DTYPE_BIT(FLOAT32),
        .optional = true,
        .reads_values = true,
        .part = TD_ROW_PART_PER_ROW,
    },
    [TD_BAG_ZERO_POINT] = {
        .name = "zero_point",
        .companion = TD_COMPANION_SHIFT,
        .summary = "The stored value of int8 and uint8 params that represents 0: one for each row, "
                   "or one for all rows. Subtracted before scaling. If neither zero_point nor "
                   "offset is given, it is 0. If NAME.zero_point or NAME.offset is resident beside "
                   "the table NAME, a request with scale must give one of the two.",
        .dtypes = TD_DTYPES_ZERO_POINT,
        .optional = true,
        .reads_values = true,
        .part = TD_ROW_PART_PER_ROW,
    },
};

static const struct td_int_range count_range = { 0, INT64_MAX };

static const struct td_attr_spec attrs_specs[] = {
    [ATTR_MODE] = {
        .name = "mode",
        .summary = "How the rows of a bag are combined: sum adds them, mean divides the sum by the "
                   "sum of the weights, sqrtn divides it by the square root of the sum of the "
                   "squared weights, max takes the largest elements.",
        .kind = TD_ATTR_CHOICE,
        .choices = mode_names,
        .default_int = TD_BAG_SUM,
        .offset = offsetof(struct td_embedding_bag_attrs, mode),
    },
    [ATTR_PADDING_INDEX] = {
        .name = "padding_index",
        .summary = "A row number. Indices equal to it are ignored.",
        .kind = TD_ATTR_INT,
        .range = &count_range,
        .default_int = TD_ATTR_UNSET,
        .default_text = "none",
        .offset = offsetof(struct td_embedding_bag_attrs, padding_index),
    },
    [ATTR_NUM_SEGMENTS] = {
        .name = "num_segments",
        .summary = "The number of bags. Only allowed with segment_ids.",
        .kind = TD_ATTR_INT,
        .range = &count_range,
        .default_int = TD_ATTR_UNSET,
        .default_text = "segment_ids[-1] + 1",
        .offset = offsetof(struct td_embedding_bag_attrs, num_segments),
    },
    [ATTR_BOUNDS] = TD_GATHERING_BOUNDS(struct td_embedding_bag_attrs),
    [ATTR_DTYPE] = {
        .name = "dtype",
        .summary = "The dtype of the output.",
        .kind = TD_ATTR_DTYPE,
        .dtypes = FLOATS,
        .default_int = TD_DTYPE_FLOAT32,
        .default_text = "the dtype of params; float32 for int8, uint8",
        .offset = offsetof(struct td_embedding_bag_attrs, dtype),
    },
    [ATTR_LAYOUT] = {
        .name = "layout",
        .summary = "Where scale and offset are: plain, in the inputs of these names; byte_rowwise, "
                   "in the last 8 bytes of each row, as two float32 numbers.",
        .kind = TD_ATTR_CHOICE,
        .choices = td_row_layout_names,
        .default_int = TD_ROW_LAYOUT_PLAIN,
        .offset = offsetof(struct td_embedding_bag_attrs, layout),
    },
    [ATTR_INCLUDE_LAST_OFFSET] = {
        .name = "include_last_offset",
        .summary = "True if offsets has one more element than there are bags. The last element is "
                   "then the number of indices.",
        .kind = TD_ATTR_BOOL,
        .offset = offsetof(struct td_embedding_bag_attrs, include_last_offset),
    },
};

static const td_status errors[] = {
    TD_INDEX_OUT_OF_BOUNDS, TD_SHAPE_MISMATCH, TD_UNSUPPORTED_DTYPE,
    TD_INVALID_ARGUMENT,    TD_RESOURCE_LIMIT, TD_OK,
};

static const struct td_output_spec outputs_specs[] = {
    {
        .name = "output",
        .summary = "The sum of each bag, or the combination that mode selects.",
        .shape_rule = "[number of bags] + params.shape[1:]",
        .dtype_of = "dtype",
    },
};

static const struct td_op_example examples[] = {
    { "sums", "{\"params\":[[1,2],[3,4],[5,6]],\"indices\":[2,0,1],\"offsets\":[0,2]}" },
    { "means",
      "{\"params\":[[1,2],[3,4],[5,6]],\"indices\":[2,0,1],\"offsets\":[0,2],\"mode\":\"mean\"}" },
    { "weighted sums", "{\"params\":[[1,2],[3,4.5],[5,6]],\"indices\":[2,0,1],\"offsets\":[0,2],"
                       "\"weights\":[0.5,0.5,2]}" },
    { "bags by segment ids", "{\"params\":[[1,2],[3,4],[5,6]],\"indices\":[2,0,1],"
                             "\"segment_ids\":[0,0,2],\"num_segments\":3}" },
    { NULL, NULL },
};

const struct td_op td_op_embedding_bag = {
    .name = "embedding_bag",
    .summary = "Sums rows of a table, bag by bag.",
    .source = "torch.nn.functional.embedding_bag (PyTorch API reference) with offsets, "
              "tf.nn.embedding_lookup_sparse (TensorFlow 2 API reference) with segment_ids; with "
              "bounds, dtype and integers as additions",
    .inputs = inputs_specs,
    .n_inputs = TD_BAG_INPUTS,
    .attrs = attrs_specs,
    .n_attrs = ATTR_COUNT,
    .outputs = outputs_specs,
    .n_outputs = 1,
    .errors = errors,
    .examples = examples,
    .infer = infer,
    .cost = cost,
    .run = run,
    .by_rows = by_rows,
    .valid = td_bag_starts_valid,
    .rows = &bag_rows,
};
