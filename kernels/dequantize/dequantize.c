#include "kernels/dequantize/dequantize.h"

#include "kernels/convert/cast_path.h"
#include "kernels/convert/dequantize_loops.h"
#include "kernels/integers.h"
#include "kernels/rows/rows.h"
#include "kernels/zero_point.h"

#include <string.h>

enum { PARAMS, SCALE, OFFSET, ZERO_POINT, INPUTS };

/* Returns an input's tensor, or NULL if the request does not give it. */
static const struct td_tensor *input(const struct td_op_args *args, int i)
{
    return args->inputs[i].count > 0 ? args->inputs[i].tensors : NULL;
}

/* ---- Shapes ------------------------------------------------------------------------------ */

static td_status check_shape(const struct td_op_args *args, int i, const char *name,
                             struct td_error *err)
{
    char text[TD_SHAPE_TEXT], more[TD_SHAPE_TEXT];
    if (!input(args, i))
        return TD_OK;
    const struct td_shape *rows = &input(args, PARAMS)->shape, *shape = &input(args, i)->shape;
    if (shape->rank == 0 || (shape->rank == 1 && rows->rank > 0 && shape->dim[0] == rows->dim[0]))
        return TD_OK;
    td_error_set(err, TD_SHAPE_MISMATCH,
                 "%s has shape %s and params %s; expected one number per row or a scalar", name,
                 td_shape_text(shape, text, sizeof(text)), td_shape_text(rows, more, sizeof(more)));
    td_error_add_shape(err, "params", rows);
    td_error_add_shape(err, name, shape);
    return td_error_at_input(err, TD_SHAPE_MISMATCH, "%s", name);
}

static td_status check_shift(const struct td_op_args *args, struct td_error *err)
{
    if (!input(args, OFFSET) || !input(args, ZERO_POINT))
        return TD_OK;
    td_error_set(err, TD_INVALID_ARGUMENT,
                 "zero_point is given together with offset; at most one of them is allowed");
    return td_error_at_input(err, TD_INVALID_ARGUMENT, "zero_point");
}

static td_status infer(struct td_op_args *args, struct td_arena *arena, struct td_error *err)
{
    struct td_dequantize_attrs attrs;
    memcpy(&attrs, args->attrs, sizeof(attrs));
    td_status status = check_shift(args, err);
    if (status == TD_OK)
        status = check_shape(args, SCALE, "scale", err);
    if (status == TD_OK)
        status = check_shape(args, OFFSET, "offset", err);
    if (status == TD_OK)
        status = check_shape(args, ZERO_POINT, "zero_point", err);
    return status == TD_OK
               ? td_op_output(args, attrs.dtype, &input(args, PARAMS)->shape, arena, err)
               : status;
}

static struct td_cost cost(const struct td_op_args *args)
{
    struct td_cost cost = {
        .bytes_written = args->outputs[0].bytes,
        .flops = 2 * (uint64_t)input(args, PARAMS)->numel,
    };
    for (int i = 0; i < INPUTS; i++)
        cost.bytes_read += input(args, i) ? input(args, i)->bytes : 0;
    return cost;
}

/* ---- Execution --------------------------------------------------------------------------- */

struct job {
    td_dequantize_fn *loop;
    struct td_cast_path path; /* converts the result of the loop to the dtype of the output */
    const int8_t *from;       /* int8 or uint8 */
    char *to;
    size_t real_size, to_size; /* bytes per element */
    int64_t row_numel;         /* number of elements that share a scale and an offset */
    /* Scales and offsets. The step from one row to the next is 1, or 0 if all rows share a
     * value. */
    const float *scale, *offset;
    int64_t scale_step, offset_step;
    struct td_zero_points zero_points; /* used if offset is NULL */
};

static double shift_of(const struct job *job, int64_t row)
{
    return job->offset ? (double)job->offset[row * job->offset_step]
                       : (double)td_zero_point(&job->zero_points, row);
}

/* Computes the elements [begin, end), row by row. */
static void dequantize(const struct job *job, void *to, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end;) {
        const int64_t row = i / job->row_numel;
        const int64_t n = td_smaller((row + 1) * job->row_numel, end) - i;
        job->loop((char *)to + (size_t)(i - begin) * job->real_size, job->from + i, n,
                  job->scale[row * job->scale_step], shift_of(job, row));
        i += n;
    }
}

static void dequantize_range(void *context, int64_t begin, int64_t end)
{
    const struct job *job = context;
    _Alignas(64) char block[TD_CAST_BLOCK * sizeof(float)];
    if (job->path.n_steps == 0) {
        dequantize(job, job->to + (size_t)begin * job->to_size, begin, end);
        return;
    }
    for (int64_t at = begin; at < end; at += TD_CAST_BLOCK) {
        const int64_t n = td_smaller(end - at, TD_CAST_BLOCK);
        dequantize(job, block, at, at + n);
        td_cast_path_run(&job->path, job->to + (size_t)at * job->to_size, block, n);
    }
}

static td_status run(struct td_op_args *args, struct td_exec *exec, struct td_error *err)
{
    const struct td_tensor *params = input(args, PARAMS), *out = &args->outputs[0];
    const struct td_tensor *scale = input(args, SCALE), *offset = input(args, OFFSET);
    const td_isa isa = td_isa_resolve(exec->isa);
    const td_dtype real = out->dtype == TD_DTYPE_FLOAT64 ? TD_DTYPE_FLOAT64 : TD_DTYPE_FLOAT32;
    struct job job = {
        .loop = td_dequantize_loop(params->dtype, real, offset != NULL, isa),
        .from = params->data,
        .to = out->data,
        .real_size = td_dtype_info(real)->size,
        .to_size = td_dtype_info(out->dtype)->size,
        .row_numel = params->numel,
        .scale = scale->data,
        .offset = offset ? offset->data : NULL,
        .scale_step = scale->shape.rank,
        .offset_step = offset ? offset->shape.rank : 0,
        .zero_points = td_zero_points_of(input(args, ZERO_POINT)),
    };
    if (params->numel == 0)
        return TD_OK;
    if (job.scale_step + job.offset_step + job.zero_points.step > 0)
        job.row_numel = params->numel / params->shape.dim[0];
    td_cast_path_find(&job.path, real, out->dtype, isa);
    const int64_t grain = (int64_t)(TD_ROWS_RANGE_BYTES / job.real_size);
    return td_exec_for(exec, params->numel, grain, dequantize_range, &job, err);
}

/* ---- Descriptor -------------------------------------------------------------------------- */

static const struct td_input_spec inputs_specs[] = {
    [PARAMS] = {
        .name = "params",
        .summary = "The quantised rows.",
        .dtypes = TD_DTYPE_BIT(INT8) | TD_DTYPE_BIT(UINT8),
        .reads_values = true,
    },
    [SCALE] = {
        .name = "scale",
        .companion = TD_COMPANION_SCALE,
        .summary = "The scale factor: one for each row, or one for all rows.",
        .dtypes = TD_DTYPE_BIT(FLOAT32),
        .reads_values = true,
    },
    [OFFSET] = {
        .name = "offset",
        .companion = TD_COMPANION_SHIFT,
        .summary = "The number added after scaling: one for each row, or one for all rows. Cannot "
                   "be combined with zero_point.",
        .dtypes = TD_DTYPE_BIT(FLOAT32),
        .optional = true,
        .reads_values = true,
    },
    [ZERO_POINT] = {
        .name = "zero_point",
        .companion = TD_COMPANION_SHIFT,
        .summary = "The stored value that represents 0: one for each row, or one for all rows. "
                   "Subtracted before scaling. If neither zero_point nor offset is given, it is 0. "
                   "If NAME.zero_point or NAME.offset is resident beside the table NAME, one of "
                   "the two must be given.",
        .dtypes = TD_DTYPES_ZERO_POINT,
        .optional = true,
        .reads_values = true,
    },
};

static const struct td_attr_spec attrs_specs[] = {
    {
        .name = "dtype",
        .summary = "The dtype of the output.",
        .kind = TD_ATTR_DTYPE,
        .dtypes = TD_DTYPE_BIT(FLOAT16) | TD_DTYPE_BIT(BFLOAT16) | TD_DTYPE_BIT(FLOAT32) |
                  TD_DTYPE_BIT(FLOAT64),
        .default_int = TD_DTYPE_FLOAT32,
        .offset = offsetof(struct td_dequantize_attrs, dtype),
    },
};

static const td_status errors[] = {
    TD_SHAPE_MISMATCH, TD_UNSUPPORTED_DTYPE, TD_INVALID_ARGUMENT, TD_RESOURCE_LIMIT, TD_OK,
};

static const struct td_output_spec outputs_specs[] = {
    {
        .name = "output",
        .summary = "params * scale + offset, or (params - zero_point) * scale.",
        .shape_rule = "params.shape",
        .dtype_of = "dtype",
    },
};

static const struct td_op_example examples[] = {
    { "a scale for each row", "{\"params\":{\"dtype\":\"int8\",\"data\":[[-128,127],[0,1]]},"
                              "\"scale\":[0.5,2],\"offset\":1}" },
    { "one scale for all rows", "{\"params\":{\"dtype\":\"uint8\",\"data\":[[0,128],[255,1]]},"
                                "\"scale\":0.5,\"offset\":-64}" },
    { NULL, NULL },
};

const struct td_op td_op_dequantize = {
    .name = "dequantize",
    .summary = "Converts quantised rows to the numbers that they represent.",
    .source = "DequantizeLinear (ONNX) with zero_point, "
              "torch.ops.quantized.embedding_bag_byte_unpack (PyTorch) with offset",
    .inputs = inputs_specs,
    .n_inputs = INPUTS,
    .attrs = attrs_specs,
    .n_attrs = 1,
    .outputs = outputs_specs,
    .n_outputs = 1,
    .errors = errors,
    .examples = examples,
    .infer = infer,
    .cost = cost,
    .run = run,
};
