#include "kernels/segments/segments.h"

#include "kernels/integers.h"
#include "kernels/rows/order.h"
#include "kernels/rows/rows.h"
#include "kernels/segments/reduce.h"

#include <inttypes.h>
#include <string.h>

enum { DATA, SEGMENT_IDS, INPUTS };

/* What an op of the family computes. */
struct variant {
    td_segment_reduction reduction;
    bool sorted;
};

static struct variant variant_of(const struct td_op_args *args)
{
    return *(const struct variant *)args->op->detail;
}

static int64_t num_segments(const struct td_op_args *args)
{
    struct td_segments_attrs attrs;
    memcpy(&attrs, args->attrs, sizeof(attrs));
    return attrs.num_segments;
}

/* ---- Shapes ------------------------------------------------------------------------------ */

static td_status mismatch(const struct td_shape *data, const struct td_shape *ids,
                          const char *input, struct td_error *err)
{
    td_error_add_shape(err, "data", data);
    td_error_add_shape(err, "segment_ids", ids);
    return td_error_at_input(err, TD_SHAPE_MISMATCH, "%s", input);
}

static td_status check(const struct td_op_args *args, struct td_error *err)
{
    const struct td_shape *data = &args->inputs[DATA].tensors->shape;
    const struct td_shape *ids = &args->inputs[SEGMENT_IDS].tensors->shape;
    char text[TD_SHAPE_TEXT], more[TD_SHAPE_TEXT];
    if (variant_of(args).sorted && ids->rank != 1) {
        td_error_set(err, TD_SHAPE_MISMATCH,
                     "segment_ids has shape %s; expected a vector with one id for each row of data",
                     td_shape_text(ids, text, sizeof(text)));
        td_error_hint(err, "unsorted_%s accepts ids of any rank", args->op->name);
        return mismatch(data, ids, "segment_ids", err);
    }
    if (!td_shape_starts_with(data, ids)) {
        td_error_set(
            err, TD_SHAPE_MISMATCH, "data %s does not start with the shape of segment_ids, %s",
            td_shape_text(data, text, sizeof(text)), td_shape_text(ids, more, sizeof(more)));
        return mismatch(data, ids, "data", err);
    }
    if (data->rank - ids->rank == TD_MAX_RANK)
        return td_error_resource(err, "rank", TD_MAX_RANK + 1, TD_MAX_RANK, "output");
    return TD_OK;
}

static td_status infer(struct td_op_args *args, struct td_arena *arena, struct td_error *err)
{
    const struct td_tensor *data = args->inputs[DATA].tensors,
                           *ids = args->inputs[SEGMENT_IDS].tensors;
    struct td_shape shape = { .rank = 1, .dim = { num_segments(args) } };
    td_status status = check(args, err);
    if (status == TD_OK && num_segments(args) == TD_ATTR_UNSET)
        status = td_rows_order_segments(ids, &shape.dim[0], err); /* run checks the ids */
    if (status != TD_OK)
        return status;
    (void)td_shape_append(&shape, &data->shape, ids->shape.rank, data->shape.rank);
    return td_op_output(args, data->dtype, &shape, arena, err);
}

static struct td_segment_call call_of(const struct td_op_args *args)
{
    const struct variant variant = variant_of(args);
    return (struct td_segment_call){
        .reduction = variant.reduction,
        .sorted = variant.sorted,
        .data = args->inputs[DATA].tensors,
        .ids = args->inputs[SEGMENT_IDS].tensors,
        .out = &args->outputs[0],
    };
}

/* Sums are set, added to, and read. Sorted ids are read twice, first to check them. */
static struct td_cost cost(const struct td_op_args *args)
{
    const struct td_segment_call call = call_of(args);
    const uint64_t passes = call.sorted ? 2 : (uint64_t)td_segments_passes(&call);
    return (struct td_cost){
        .bytes_read =
            call.data->bytes + td_capped_product(passes, call.ids->bytes) + call.out->bytes,
        .bytes_written = 2 * call.out->bytes,
        .random_reads = call.sorted ? 0 : td_capped_product(passes, (uint64_t)call.ids->numel),
        .flops = (uint64_t)call.data->numel,
        .workspace = td_segments_workspace(&call),
        .workspace_per_thread = td_segments_workspace_per_thread(&call),
    };
}

/* ---- Run --------------------------------------------------------------------------------- */

static struct td_rows_order order_of(const struct td_op_args *args)
{
    const int64_t bound = args->outputs[0].shape.dim[0];
    const int64_t most = num_segments(args) == TD_ATTR_UNSET ? INT64_MAX : bound - 1;
    return (struct td_rows_order){
        .name = "segment_ids",
        .ids = args->inputs[SEGMENT_IDS].tensors,
        .most = most,
        .first_most = most,
    };
}

static td_status check_sorted(const struct td_op_args *args, struct td_exec *exec,
                              struct td_error *err)
{
    const struct td_rows_order order = order_of(args);
    const td_status status = td_rows_order_check(&order, exec, err);
    if (status == TD_INDEX_OUT_OF_BOUNDS && err->index < 0)
        td_error_hint(err, "unsorted_%s ignores rows with a negative id", args->op->name);
    else if (status == TD_INDEX_OUT_OF_BOUNDS && !err->has_bound)
        td_error_hint(err, "unsorted_%s accepts ids in any order", args->op->name);
    return status;
}

static td_status check_unsorted(const struct td_op_args *args, struct td_exec *exec,
                                struct td_error *err)
{
    const struct td_tensor *ids = args->inputs[SEGMENT_IDS].tensors;
    const int64_t bound = args->outputs[0].shape.dim[0];
    int64_t n_bad, first;
    td_status status = td_rows_check_below(ids, bound, exec, &n_bad, &first, err);
    if (status != TD_OK || n_bad == 0)
        return status;
    return td_rows_out_of_bounds(err, "segment_ids", ids, first, n_bad, bound, 0, "");
}

/* Implements td_op.valid for sorted ids. */
static bool is_sorted_call(const struct td_op_args *args)
{
    const struct td_rows_order order = order_of(args);
    return order.ids->numel == 0 || (order.ids->data && td_rows_order_holds(&order));
}

/* Unsorted ids are checked as they are read, and a second time only to report the first bad id. A
 * separate pass over a million ids would take a quarter of the time of a call with one column
 * (bench_segments). */
static td_status run(struct td_op_args *args, struct td_exec *exec, struct td_error *err)
{
    const struct td_segment_call call = call_of(args);
    const bool is_empty = call.out->numel == 0;
    bool outside = false;
    td_status status = TD_OK;
    if (call.sorted)
        status = check_sorted(args, exec, err);
    if (status == TD_OK && !is_empty)
        status = td_segments_reduce(&call, &outside, exec, err);
    if (status == TD_OK && (outside || (is_empty && !call.sorted)))
        status = check_unsorted(args, exec, err);
    return status;
}

/* ---- Descriptors ------------------------------------------------------------------------- */

#define INTEGERS                                                                                   \
    (TD_DTYPE_BIT(INT8) | TD_DTYPE_BIT(INT16) | TD_DTYPE_BIT(INT32) | TD_DTYPE_BIT(INT64) |        \
     TD_DTYPE_BIT(UINT8) | TD_DTYPE_BIT(UINT16) | TD_DTYPE_BIT(UINT32) | TD_DTYPE_BIT(UINT64))
#define FLOATS                                                                                     \
    (TD_DTYPE_BIT(FLOAT16) | TD_DTYPE_BIT(BFLOAT16) | TD_DTYPE_BIT(FLOAT32) | TD_DTYPE_BIT(FLOAT64))
#define COMPLEX (TD_DTYPE_BIT(COMPLEX64) | TD_DTYPE_BIT(COMPLEX128))

/* The inputs of the ops that accept these dtypes. */
#define INPUT_SPECS(group, accepted)                                                               \
    static const struct td_input_spec sorted_##group[INPUTS] = {                                   \
        { .name = "data",                                                                          \
          .summary = "The rows to combine, along the first dimension.",                            \
          .dtypes = (accepted),                                                                    \
          .reads_values = true },                                                                  \
        { .name = "segment_ids",                                                                   \
          .summary = "A vector with the segment of each row, in non-decreasing order.",            \
          .role = TD_ROLE_INDEX,                                                                   \
          .dtypes = TD_DTYPES_INDEX,                                                               \
          .sets_shape = true,                                                                      \
          .aligned_with = "data" },                                                                \
    };                                                                                             \
    static const struct td_input_spec unsorted_##group[INPUTS] = {                                 \
        { .name = "data",                                                                          \
          .summary = "The rows to combine. The shape starts with the shape of segment_ids.",       \
          .dtypes = (accepted),                                                                    \
          .reads_values = true },                                                                  \
        { .name = "segment_ids",                                                                   \
          .summary = "The segment of each row: a tensor of any rank. Rows with a negative id are " \
                     "ignored.",                                                                   \
          .role = TD_ROLE_INDEX,                                                                   \
          .dtypes = TD_DTYPES_INDEX,                                                               \
          .aligned_with = "data" },                                                                \
    }
INPUT_SPECS(numbers, INTEGERS | FLOATS | COMPLEX);
INPUT_SPECS(fractions, FLOATS | COMPLEX);
INPUT_SPECS(ordered, INTEGERS | FLOATS);

static const struct td_int_range count_range = { 0, INT64_MAX };

static const struct td_attr_spec sorted_attrs[] = {
    {
        .name = "num_segments",
        .summary = "The number of segments.",
        .kind = TD_ATTR_INT,
        .range = &count_range,
        .default_int = TD_ATTR_UNSET,
        .default_text = "segment_ids[-1] + 1",
        .offset = offsetof(struct td_segments_attrs, num_segments),
    },
};

static const struct td_attr_spec unsorted_attrs[] = {
    {
        .name = "num_segments",
        .summary = "The number of segments.",
        .kind = TD_ATTR_INT,
        .required = true,
        .range = &count_range,
        .offset = offsetof(struct td_segments_attrs, num_segments),
    },
};

static const td_status errors[] = {
    TD_INDEX_OUT_OF_BOUNDS, TD_SHAPE_MISMATCH, TD_UNSUPPORTED_DTYPE,
    TD_INVALID_ARGUMENT,    TD_RESOURCE_LIMIT, TD_OK,
};

static const struct td_output_spec sorted_outputs[] = {
    {
        .name = "output",
        .summary = "A row for each segment.",
        .shape_rule = "[num_segments] + data.shape[1:]",
        .dtype_of = "data",
    },
};

static const struct td_output_spec unsorted_outputs[] = {
    {
        .name = "output",
        .summary = "A row for each segment.",
        .shape_rule = "[num_segments] + data.shape[rank(segment_ids):]",
        .dtype_of = "data",
    },
};

static const struct td_op_example sorted_examples[] = {
    { "two segments", "{\"data\":[[1,2],[3,4],[5,6.5]],\"segment_ids\":[0,0,1]}" },
    { "segments without rows", "{\"data\":[1.5,2,3],\"segment_ids\":[0,2,2],\"num_segments\":4}" },
    { NULL, NULL },
};

static const struct td_op_example unsorted_examples[] = {
    { "two segments",
      "{\"data\":[[1,2],[3,4],[5,6.5]],\"segment_ids\":[1,0,1],\"num_segments\":2}" },
    { "a row that is ignored", "{\"data\":[1.5,2,3],\"segment_ids\":[2,-1,0],\"num_segments\":3}" },
    { NULL, NULL },
};

#define OP(order, suffix, prefix, dtypes, kind, text)                                              \
    const struct td_op td_op_##prefix##segment_##suffix = {                                        \
        .name = #prefix "segment_" #suffix,                                                        \
        .summary = (text),                                                                         \
        .source = "tf.math." #prefix "segment_" #suffix " (TensorFlow 2 API reference)",           \
        .inputs = order##_##dtypes,                                                                \
        .n_inputs = INPUTS,                                                                        \
        .attrs = order##_attrs,                                                                    \
        .n_attrs = 1,                                                                              \
        .outputs = order##_outputs,                                                                \
        .n_outputs = 1,                                                                            \
        .errors = errors,                                                                          \
        .examples = order##_examples,                                                              \
        .infer = infer,                                                                            \
        .cost = cost,                                                                              \
        .run = run,                                                                                \
        .valid = valid_##order,                                                                    \
        .detail = &(const struct variant){ (kind), is_##order },                                   \
    }
#define OPS(suffix, dtypes, kind, text)                                                            \
    OP(sorted, suffix, , dtypes, kind, text ", by sorted segment ids.");                           \
    OP(unsorted, suffix, unsorted_, dtypes, kind, text ", by segment ids in any order.")

enum { is_unsorted, is_sorted };
#define valid_unsorted NULL
#define valid_sorted   is_sorted_call

OPS(sum, numbers, TD_SEGMENT_SUM, "Adds the rows of each segment");
OPS(mean, fractions, TD_SEGMENT_MEAN, "Computes the mean of the rows of each segment");
OPS(max, ordered, TD_SEGMENT_MAX, "Computes the maximum of each column of each segment");
OPS(min, ordered, TD_SEGMENT_MIN, "Computes the minimum of each column of each segment");
OPS(prod, numbers, TD_SEGMENT_PROD, "Multiplies the rows of each segment");
