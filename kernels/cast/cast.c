#include "kernels/cast/cast.h"

#include "kernels/chain/chain.h"
#include "kernels/convert/cast_path.h"
#include "kernels/isa.h"
#include "kernels/rows/rows.h"

#include <string.h>

/* ---- Shapes ------------------------------------------------------------------------------ */

static td_dtype dtype_of(const struct td_op_args *args)
{
    struct td_cast_attrs attrs;
    memcpy(&attrs, args->attrs, sizeof(attrs));
    return attrs.dtype;
}

static td_status infer(struct td_op_args *args, struct td_arena *arena, struct td_error *err)
{
    return td_op_output(args, dtype_of(args), &args->inputs[0].tensors[0].shape, arena, err);
}

static struct td_cost cost(const struct td_op_args *args)
{
    const struct td_tensor *x = &args->inputs[0].tensors[0];
    return (struct td_cost){
        .bytes_read = x->bytes,
        .bytes_written = args->outputs[0].bytes,
        .flops = (uint64_t)x->numel,
    };
}

/* ---- Execution --------------------------------------------------------------------------- */

struct job {
    struct td_cast_path path;
    const char *from;
    char *to;
    size_t from_size, to_size; /* bytes per element */
};

static void cast_range(void *context, int64_t begin, int64_t end)
{
    const struct job *job = context;
    td_cast_path_run(&job->path, job->to + (size_t)begin * job->to_size,
                     job->from + (size_t)begin * job->from_size, end - begin);
}

static td_status run(struct td_op_args *args, struct td_exec *exec, struct td_error *err)
{
    const struct td_tensor *x = &args->inputs[0].tensors[0];
    const struct td_tensor *out = &args->outputs[0];
    struct job job = {
        .from = x->data,
        .to = out->data,
        .from_size = td_dtype_info(x->dtype)->size,
        .to_size = td_dtype_info(out->dtype)->size,
    };
    td_cast_path_find(&job.path, x->dtype, out->dtype, td_isa_resolve(exec->isa));
    const size_t fit = TD_ROWS_RANGE_BYTES / (job.from_size + job.to_size);
    const int64_t grain = (int64_t)(fit / TD_CAST_BLOCK * TD_CAST_BLOCK);
    return td_exec_for(exec, x->numel, grain, cast_range, &job, err);
}

/* ---- Chains ------------------------------------------------------------------------------ */

/* A conversion to the same dtype has no steps, and copies. */
static bool can_add(const struct td_op_args *args)
{
    return args->inputs[0].tensors[0].dtype != args->outputs[0].dtype;
}

static int add(const struct td_op_args *args, struct td_chain *chain, const int *operands,
               const struct td_tensor *to, td_isa isa)
{
    return td_chain_cast(chain, args->inputs[0].tensors[0].dtype, args->outputs[0].dtype,
                         operands[0], to, isa);
}

static const struct td_op_chain op_chain = { can_add, add };

/* ---- Descriptor -------------------------------------------------------------------------- */

#define CASTABLE (TD_DTYPES_ALL & ~TD_DTYPE_BIT(STRING))

static const struct td_input_spec inputs_specs[] = {
    {
        .name = "x",
        .summary = "The tensor to convert, of any shape. To scale quantised rows, use dequantize.",
        .dtypes = CASTABLE,
        .reads_values = true,
    },
};

static const struct td_attr_spec attrs_specs[] = {
    {
        .name = "dtype",
        .summary = "The dtype to convert to. Integers that do not fit an integer dtype wrap "
                   "around.",
        .kind = TD_ATTR_DTYPE,
        .required = true,
        .dtypes = CASTABLE,
        .offset = offsetof(struct td_cast_attrs, dtype),
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
        .summary = "The converted elements.",
        .shape_rule = "x.shape",
        .dtype_of = "dtype",
    },
};

static const struct td_op_example examples[] = {
    { "floats to integers", "{\"x\":[1.5,-2.5,3e10],\"dtype\":\"int32\"}" },
    { "half precision", "{\"x\":[0.1,65504,100000],\"dtype\":\"float16\"}" },
    { NULL, NULL },
};

const struct td_op td_op_cast = {
    .name = "cast",
    .summary = "Converts the elements of a tensor to another dtype.",
    .source = "tf.cast (TensorFlow 2 API reference); floats out of the range of an integer dtype "
              "saturate, and NaN gives 0",
    .inputs = inputs_specs,
    .n_inputs = 1,
    .attrs = attrs_specs,
    .n_attrs = 1,
    .outputs = outputs_specs,
    .n_outputs = 1,
    .errors = errors,
    .examples = examples,
    .infer = infer,
    .cost = cost,
    .run = run,
    .chain = &op_chain,
};
