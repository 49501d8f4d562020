#include "kernels/axes.h"
#include "kernels/by_rows.h"
#include "kernels/convert/cast_path.h"
#include "kernels/integers.h"
#include "kernels/permute/permute.h"
#include "kernels/rows/rows.h"
#include "kernels/shapes/shapes.h"

#include <string.h>

/* ---- Shapes ------------------------------------------------------------------------------ */

static td_status infer(struct td_op_args *args, struct td_arena *arena, struct td_error *err)
{
    struct td_one_hot_attrs attrs;
    struct td_shape shape = args->inputs[0].tensors[0].shape;
    memcpy(&attrs, args->attrs, sizeof(attrs));
    const td_status status = td_axes_check_rank(shape.rank + 1, err);
    if (status != TD_OK)
        return status;
    shape.dim[shape.rank++] = attrs.depth;
    return td_op_output(args, attrs.dtype, &shape, arena, err);
}

static struct td_cost cost(const struct td_op_args *args)
{
    return (struct td_cost){
        .bytes_read = args->inputs[0].tensors[0].bytes,
        .bytes_written = args->outputs[0].bytes,
    };
}

/* ---- Execution --------------------------------------------------------------------------- */

/* Minimum size of a streamed row. The line of the 1 is written twice, so streaming shorter rows
 * saves nothing. */
#define STREAM_ROW ((size_t)1024)

struct job {
    const struct td_tensor *indices;
    char *out;
    int64_t depth;
    size_t size;       /* bytes per element */
    size_t row_bytes;  /* bytes of a row, which has depth elements */
    int64_t row_parts; /* number of parts of TD_ROWS_RANGE_BYTES per row */
    bool stream;       /* set rows to zero with non-temporal stores */
    _Alignas(16) char one[16];
};

static void write_zeros(const struct job *job, char *to, size_t bytes)
{
    const int64_t first = 0;
    td_rows_zero(to, &first, bytes, 1, job->stream);
}

/* Writes whole rows. */
static void write_rows(void *context, int64_t begin, int64_t end)
{
    const struct job *job = context;
    char *to = job->out + (size_t)begin * job->row_bytes;
    int64_t hot[TD_ROWS_CHUNK];
    write_zeros(job, to, (size_t)(end - begin) * job->row_bytes);
    for (int64_t k = begin; k < end; k += TD_ROWS_CHUNK) {
        const int64_t n = td_smaller(end - k, TD_ROWS_CHUNK);
        td_rows_resolve_indices(job->indices, k, n, job->depth, TD_BOUNDS_ZERO, hot);
        for (int64_t j = 0; j < n; j++, to += job->row_bytes)
            if (hot[j] != TD_ROW_ZERO)
                memcpy(to + (size_t)hot[j] * job->size, job->one, job->size);
    }
}

/* Writes parts of rows. Item i is part i % row_parts of row i / row_parts. */
static void write_parts(void *context, int64_t begin, int64_t end)
{
    const struct job *job = context;
    for (int64_t item = begin; item < end; item++) {
        const int64_t row = item / job->row_parts;
        const size_t at = (size_t)(item % job->row_parts) * TD_ROWS_RANGE_BYTES;
        const size_t left = job->row_bytes - at;
        char *to = job->out + (size_t)row * job->row_bytes;
        int64_t hot;
        write_zeros(job, to + at, left < TD_ROWS_RANGE_BYTES ? left : TD_ROWS_RANGE_BYTES);
        td_rows_resolve_indices(job->indices, row, 1, job->depth, TD_BOUNDS_ZERO, &hot);
        /* An element is in one part, because the size of a part is a multiple of its size. */
        const size_t place = (size_t)hot * job->size;
        if (hot != TD_ROW_ZERO && place >= at && place - at < TD_ROWS_RANGE_BYTES)
            memcpy(to + place, job->one, job->size);
    }
}

static td_status run(struct td_op_args *args, struct td_exec *exec, struct td_error *err)
{
    const struct td_tensor *out = &args->outputs[0];
    struct job job = {
        .indices = &args->inputs[0].tensors[0],
        .out = out->data,
        .depth = out->shape.dim[out->shape.rank - 1],
        .size = td_dtype_info(out->dtype)->size,
    };
    struct td_cast_path path;
    if (out->numel == 0)
        return TD_OK;
    td_cast_path_find(&path, TD_DTYPE_BOOL, out->dtype, td_isa_resolve(exec->isa));
    td_cast_path_run(&path, job.one, &(const bool){ true }, 1);
    job.row_bytes = (size_t)job.depth * job.size;
    job.stream = job.row_bytes >= STREAM_ROW && td_permute_should_stream(out->bytes, job.row_bytes);
    if (job.row_bytes <= TD_ROWS_RANGE_BYTES)
        return td_exec_for(exec, job.indices->numel, td_rows_in_range(job.row_bytes), write_rows,
                           &job, err);
    job.row_parts = td_rows_parts(job.row_bytes);
    return td_exec_for(exec, job.indices->numel * job.row_parts, 1, write_parts, &job, err);
}

/* Implements td_op.by_rows. */
static bool by_rows(const struct td_op_args *args, td_tensor_set rows)
{
    (void)args;
    return td_rows_is_first(rows);
}

/* ---- Descriptor -------------------------------------------------------------------------- */

static const struct td_input_spec inputs_specs[] = {
    {
        .name = "indices",
        .summary = "The position of the 1 in each row, of any shape. An index outside [0, depth) "
                   "gives a row of zeros.",
        .role = TD_ROLE_INDEX,
        .dtypes = TD_DTYPES_INDEX,
    },
};

static const struct td_attr_spec attrs_specs[] = {
    {
        .name = "depth",
        .summary = "The length of a row.",
        .kind = TD_ATTR_INT,
        .required = true,
        .range = &(const struct td_int_range){ 0, INT64_MAX },
        .offset = offsetof(struct td_one_hot_attrs, depth),
    },
    {
        .name = "dtype",
        .summary = "The dtype of the output.",
        .kind = TD_ATTR_DTYPE,
        .default_int = TD_DTYPE_FLOAT32,
        .dtypes = TD_DTYPES_ALL & ~TD_DTYPE_BIT(STRING),
        .offset = offsetof(struct td_one_hot_attrs, dtype),
    },
};

static const td_status errors[] = {
    TD_UNSUPPORTED_DTYPE,
    TD_INVALID_ARGUMENT,
    TD_RESOURCE_LIMIT,
    TD_OK,
};

static const struct td_output_spec outputs_specs[] = {
    {
        .name = "output",
        .summary = "Rows of zeros with a 1, or true, at the index.",
        .shape_rule = "indices.shape + [depth]",
        .dtype_of = "dtype",
    },
};

static const struct td_op_example examples[] = {
    { "classes as rows", "{\"indices\":[0,2,1],\"depth\":3}" },
    { "no class: a row of zeros", "{\"indices\":[0,-1],\"depth\":2,\"dtype\":\"bool\"}" },
    { NULL, NULL },
};

const struct td_op td_op_one_hot = {
    .name = "one_hot",
    .summary = "Makes a row of zeros with a single 1 for each index.",
    .source = "tf.one_hot (TensorFlow 2 API reference)",
    .inputs = inputs_specs,
    .n_inputs = 1,
    .attrs = attrs_specs,
    .n_attrs = 2,
    .outputs = outputs_specs,
    .n_outputs = 1,
    .errors = errors,
    .examples = examples,
    .infer = infer,
    .cost = cost,
    .run = run,
    .by_rows = by_rows,
};
