#include "kernels/normalisation/normalisation.h"

#include "kernels/broadcast.h"
#include "kernels/by_rows.h"
#include "kernels/convert/convert.h"
#include "kernels/integers.h"
#include "kernels/normalisation/groups.h"
#include "kernels/workspace.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- Methods ----------------------------------------------------------------------------- */

static void learn_shift(struct td_norm_facts *facts, const struct td_norm_sums *sums, int columns,
                        int64_t n, double epsilon)
{
    (void)n;
    (void)epsilon;
    memcpy(facts->of[TD_NORM_SHIFT], sums->of, (size_t)columns * sizeof(sums->of[0]));
}

static void learn_reciprocal(struct td_norm_facts *facts, const struct td_norm_sums *sums,
                             int columns, int64_t n, double epsilon)
{
    (void)n;
    (void)epsilon;
    for (int j = 0; j < columns; j++)
        facts->of[TD_NORM_FACTOR][j] = 1 / sums->of[j];
}

static void learn_logarithm(struct td_norm_facts *facts, const struct td_norm_sums *sums,
                            int columns, int64_t n, double epsilon)
{
    (void)n;
    (void)epsilon;
    for (int j = 0; j < columns; j++)
        facts->of[TD_NORM_FACTOR][j] = log(sums->of[j]);
}

static void learn_norm(struct td_norm_facts *facts, const struct td_norm_sums *sums, int columns,
                       int64_t n, double epsilon)
{
    (void)n;
    for (int j = 0; j < columns; j++) {
        const double sum = sums->of[j];
        facts->of[TD_NORM_FACTOR][j] = 1 / sqrt(sum < epsilon ? epsilon : sum); /* NaN stays NaN */
    }
}

static void learn_moments(struct td_norm_facts *facts, const struct td_norm_sums *sums, int columns,
                          int64_t n, double epsilon)
{
    const double variance = sums->squares / (double)n;
    (void)columns;
    facts->of[TD_NORM_SHIFT][0] = sums->of[0];
    facts->of[TD_NORM_FACTOR][0] = 1 / sqrt((variance < 0 ? 0 : variance) + epsilon);
}

static const struct td_norm_method softmax_method = {
    .first = TD_NORM_MAXIMUM,
    .learn_first = learn_shift,
    .second = TD_NORM_EXPONENTIALS,
    .learn_second = learn_reciprocal,
    .map = TD_NORM_SCALE,
    .work = 20,
};

static const struct td_norm_method log_softmax_method = {
    .first = TD_NORM_MAXIMUM,
    .learn_first = learn_shift,
    .second = TD_NORM_EXP_SUM,
    .learn_second = learn_logarithm,
    .map = TD_NORM_SUBTRACT,
    .work = 20,
};

static const struct td_norm_method l2_normalize_method = {
    .first = TD_NORM_SQUARES,
    .learn_first = learn_norm,
    .second = TD_NORM_REDUCTIONS,
    .map = TD_NORM_SCALE,
    .work = 5,
};

static const struct td_norm_method layer_norm_method = {
    .first = TD_NORM_MOMENTS,
    .learn_first = learn_moments,
    .second = TD_NORM_REDUCTIONS,
    .map = TD_NORM_STANDARDISE,
    .work = 10,
};

/* ---- Shapes ------------------------------------------------------------------------------ */

enum { X, SCALE, BIAS };

static struct td_normalisation_attrs attrs_of(const struct td_op_args *args)
{
    struct td_normalisation_attrs attrs;
    memcpy(&attrs, args->attrs, sizeof(attrs));
    return attrs;
}

static bool is_layer_norm(const struct td_op_args *args)
{
    return args->op->detail == &layer_norm_method;
}

/* Returns an input, or NULL if the call or the op does not have it. */
static const struct td_tensor *given(const struct td_op_args *args, int input)
{
    return input < args->op->n_inputs && args->inputs[input].count > 0 ? args->inputs[input].tensors
                                                                       : NULL;
}

static td_status check_axis(const struct td_op_args *args, int *axis, struct td_error *err)
{
    const struct td_shape *x = &given(args, X)->shape;
    char text[TD_SHAPE_TEXT];
    if (td_axis_normalize(attrs_of(args).axis, x->rank, axis))
        return TD_OK;
    if (x->rank == 0) {
        td_error_set(err, TD_INVALID_AXIS, "x is a scalar; expected at least one dimension");
        return td_error_at_input(err, TD_INVALID_AXIS, "x");
    }
    td_error_set(err, TD_INVALID_AXIS, "axis = %" PRId64 " is not in [-%d, %d): x has shape %s",
                 attrs_of(args).axis, x->rank, x->rank, td_shape_text(x, text, sizeof(text)));
    return td_error_at_attribute(err, TD_INVALID_AXIS, "axis");
}

/* Returns the shape of the normalised dimensions. */
static struct td_shape normalised(const struct td_shape *x, int axis)
{
    struct td_shape shape = { .rank = 0 };
    (void)td_shape_append(&shape, x, axis, x->rank);
    return shape;
}

/* Checks that an input of layer_norm broadcasts to the normalised dimensions. */
static td_status check_broadcast(const struct td_op_args *args, int input, int axis,
                                 struct td_error *err)
{
    const struct td_tensor *x = given(args, X), *tensor = given(args, input);
    const struct td_shape want = normalised(&x->shape, axis);
    const char *name = args->op->inputs[input].name;
    char text[TD_SHAPE_TEXT], want_text[TD_SHAPE_TEXT];
    struct td_shape shape = want;
    int dim;
    if (!tensor ||
        (td_broadcast_shape(&shape, &tensor->shape, &dim) && td_shape_equal(&shape, &want)))
        return TD_OK;
    td_error_set(err, TD_SHAPE_MISMATCH,
                 "%s %s does not broadcast to %s, the dimensions of x from axis %d on; expected "
                 "the same sizes, or sizes of 1",
                 name, td_shape_text(&tensor->shape, text, sizeof(text)),
                 td_shape_text(&want, want_text, sizeof(want_text)), axis);
    td_error_add_shape(err, "x", &x->shape);
    td_error_add_shape(err, name, &tensor->shape);
    return td_error_at_input(err, TD_SHAPE_MISMATCH, "%s", name);
}

static td_status infer(struct td_op_args *args, struct td_arena *arena, struct td_error *err)
{
    const struct td_tensor *x = given(args, X);
    int axis;
    td_status status = check_axis(args, &axis, err);
    for (int i = SCALE; status == TD_OK && i < args->op->n_inputs; i++)
        status = check_broadcast(args, i, axis, err);
    return status == TD_OK ? td_op_output(args, x->dtype, &x->shape, arena, err) : status;
}

/* Describes a call whose tensors are not empty, except scale and bias. */
static struct td_norm_groups groups_of(const struct td_op_args *args)
{
    const struct td_tensor *x = given(args, X);
    struct td_norm_groups groups = {
        .x = x,
        .out = &args->outputs[0],
        .method = args->op->detail,
        .epsilon = attrs_of(args).epsilon,
        .inner = 1,
    };
    int axis = 0;
    (void)td_axis_normalize(attrs_of(args).axis, x->shape.rank, &axis);
    /* The products divide numel, so they cannot overflow. */
    (void)td_shape_product(&x->shape, 0, axis, &groups.n_outer);
    if (!is_layer_norm(args))
        (void)td_shape_product(&x->shape, axis + 1, x->shape.rank, &groups.inner);
    groups.n = x->numel / groups.n_outer / groups.inner;
    return groups;
}

/* ---- Scale and bias ---------------------------------------------------------------------- */

/* True if the numbers of an input must be copied: repeated, or converted. */
static bool needs_copy(const struct td_tensor *tensor, int64_t n)
{
    return tensor && (tensor->numel != n || !td_compute_is_native(tensor->dtype));
}

static uint64_t copy_bytes(const struct td_tensor *tensor, int64_t n)
{
    return needs_copy(tensor, n)
               ? td_workspace_align((uint64_t)n * td_compute_size(td_compute_of(tensor->dtype)))
               : 0;
}

struct copy {
    const struct td_tensor *tensor;
    struct td_repeat repeat;
    td_widen_fn *widen;
    size_t size; /* size in bytes of a number */
    char *to;
};

enum { COPY_ELEMENTS = 1024 };

static void copy_range(void *context, int64_t begin, int64_t end)
{
    const struct copy *copy = context;
    const size_t width = td_dtype_info(copy->tensor->dtype)->size;
    uint64_t stored[COPY_ELEMENTS];
    for (int64_t n; begin < end; begin += n) {
        n = td_smaller(COPY_ELEMENTS, end - begin);
        td_repeat_copy(&copy->repeat, stored, copy->tensor->data, width, begin, n);
        copy->widen(copy->to + (size_t)begin * copy->size, stored, 1, n);
    }
}

/* Sets *out to the numbers of an input, repeated to the normalised dimensions, or to NULL if the
 * input is not given. */
static td_status prepare(const struct td_op_args *args, int input, int64_t n, const void **out,
                         struct td_exec *exec, struct td_error *err)
{
    const struct td_tensor *x = given(args, X), *tensor = given(args, input);
    *out = tensor ? tensor->data : NULL;
    if (!needs_copy(tensor, n))
        return TD_OK;
    int axis = 0;
    (void)td_axis_normalize(attrs_of(args).axis, x->shape.rank, &axis);
    struct td_shape shape = normalised(&x->shape, axis);
    const struct td_shape *operand = &tensor->shape;
    uint32_t full;
    struct copy copy = {
        .tensor = tensor,
        .widen = td_widen(tensor->dtype, td_isa_resolve(exec->isa)),
        .size = td_compute_size(td_compute_of(tensor->dtype)),
        .to = td_arena_alloc(exec->arena, (size_t)copy_bytes(tensor, n), 1, err),
    };
    if (!copy.to)
        return err->status;
    td_broadcast_merge(&shape, &operand, 1, &full);
    td_repeat_init(&copy.repeat, &shape, full);
    *out = copy.to;
    return td_exec_for(exec, n, (int64_t)64 * COPY_ELEMENTS, copy_range, &copy, err);
}

/* ---- Op ---------------------------------------------------------------------------------- */

static struct td_cost cost(const struct td_op_args *args)
{
    const struct td_tensor *x = given(args, X);
    const uint64_t double_factor = 4; /* exp of float64 comes from the C library */
    struct td_cost cost = { .bytes_written = x->bytes };
    for (int i = 0; i < args->op->n_inputs; i++)
        cost.bytes_read += given(args, i) ? given(args, i)->bytes : 0;
    if (x->numel == 0)
        return cost;
    const struct td_norm_groups groups = groups_of(args);
    cost.flops = td_capped_product((uint64_t)x->numel, groups.method->work);
    if (x->dtype == TD_DTYPE_FLOAT64)
        cost.flops *= double_factor;
    cost.workspace = td_workspace_align(td_norm_groups_workspace(&groups)) +
                     copy_bytes(given(args, SCALE), groups.n) +
                     copy_bytes(given(args, BIAS), groups.n);
    cost.workspace_per_thread = td_norm_groups_scratch(&groups);
    return cost;
}

static td_status run(struct td_op_args *args, struct td_exec *exec, struct td_error *err)
{
    if (given(args, X)->numel == 0)
        return TD_OK;
    struct td_norm_groups groups = groups_of(args);
    td_status status = prepare(args, SCALE, groups.n, &groups.scale, exec, err);
    if (status == TD_OK)
        status = prepare(args, BIAS, groups.n, &groups.bias, exec, err);
    return status == TD_OK ? td_norm_groups_run(&groups, exec, err) : status;
}

/* Implements td_op.by_rows. */
static bool by_rows(const struct td_op_args *args, td_tensor_set rows)
{
    return td_rows_is_first(rows) &&
           td_axis_is_in_rows(attrs_of(args).axis, &args->inputs[0].tensors[0].shape);
}

/* ---- Descriptors ------------------------------------------------------------------------- */

#define FLOATS                                                                                     \
    (TD_DTYPE_BIT(FLOAT16) | TD_DTYPE_BIT(BFLOAT16) | TD_DTYPE_BIT(FLOAT32) | TD_DTYPE_BIT(FLOAT64))

static const struct td_input_spec inputs_specs[] = {
    [X] = {
        .name = "x",
        .summary = "The tensor to normalise, of rank 1 or more.",
        .dtypes = FLOATS,
        .one_dtype = true,
        .reads_values = true,
    },
    [SCALE] = {
        .name = "scale",
        .summary = "A factor for each normalised element. Broadcasts to the dimensions of x from "
                   "axis on.",
        .dtypes = FLOATS,
        .one_dtype = true,
        .reads_values = true,
    },
    [BIAS] = {
        .name = "bias",
        .summary = "Added to each scaled element. Broadcasts to the dimensions of x from axis on.",
        .dtypes = FLOATS,
        .one_dtype = true,
        .optional = true,
        .reads_values = true,
    },
};

static const struct td_float_range not_negative = { 0, INFINITY };

#define AXIS(text)                                                                                 \
    {                                                                                              \
        .name = "axis", .summary = (text), .kind = TD_ATTR_INT, .default_int = -1,                 \
        .offset = offsetof(struct td_normalisation_attrs, axis),                                   \
    }
#define EPSILON(text, value)                                                                       \
    {                                                                                              \
        .name = "epsilon", .summary = (text), .kind = TD_ATTR_FLOAT, .default_float = (value),     \
        .float_range = &not_negative, .offset = offsetof(struct td_normalisation_attrs, epsilon),  \
    }

static const struct td_attr_spec along_axis[] = {
    AXIS("The dimension to normalise along. A negative number counts from the end."),
    EPSILON("The minimum of the sum of squares that is divided by.", 1e-12),
};

static const struct td_attr_spec from_axis[] = {
    AXIS("The first of the dimensions that are normalised together. A negative number counts from "
         "the end."),
    EPSILON("Added to the variance.", 1e-5),
};

static const td_status errors[] = {
    TD_INVALID_AXIS, TD_UNSUPPORTED_DTYPE, TD_INVALID_ARGUMENT, TD_RESOURCE_LIMIT, TD_OK,
};

static const td_status layer_norm_errors[] = {
    TD_SHAPE_MISMATCH,   TD_INVALID_AXIS,   TD_UNSUPPORTED_DTYPE,
    TD_INVALID_ARGUMENT, TD_RESOURCE_LIMIT, TD_OK,
};

static const struct td_output_spec outputs_specs[] = {
    {
        .name = "output",
        .summary = "The normalised tensor.",
        .shape_rule = "x.shape",
        .dtype_of = "x",
    },
};

#define DESCRIPTOR(op, inputs_count, attributes, attributes_count, faults, origin, text, title,    \
                   request)                                                                        \
    static const struct td_op_example op##_examples[] = {                                          \
        { title, request },                                                                        \
        { NULL, NULL },                                                                            \
    };                                                                                             \
    const struct td_op td_op_##op = {                                                              \
        .name = #op,                                                                               \
        .summary = (text),                                                                         \
        .source = (origin),                                                                        \
        .inputs = inputs_specs,                                                                    \
        .n_inputs = (inputs_count),                                                                \
        .attrs = (attributes),                                                                     \
        .n_attrs = (attributes_count),                                                             \
        .outputs = outputs_specs,                                                                  \
        .n_outputs = 1,                                                                            \
        .errors = (faults),                                                                        \
        .examples = op##_examples,                                                                 \
        .infer = infer,                                                                            \
        .cost = cost,                                                                              \
        .run = run,                                                                                \
        .by_rows = by_rows,                                                                        \
        .detail = &op##_method,                                                                    \
    }

DESCRIPTOR(softmax, 1, along_axis, 1, errors, "tf.nn.softmax (TensorFlow 2 API reference)",
           "Computes the softmax along a dimension: exponentials divided by their sum.",
           "probabilities of each row", "{\"x\":[[1.0,2.0,3.0],[0.0,0.0,0.0]]}");
DESCRIPTOR(log_softmax, 1, along_axis, 1, errors, "tf.nn.log_softmax (TensorFlow 2 API reference)",
           "Computes the logarithm of the softmax along a dimension.",
           "logarithms of the probabilities of each row", "{\"x\":[[1.0,2.0,3.0],[0.0,0.0,0.0]]}");
DESCRIPTOR(layer_norm, 3, from_axis, 2, layer_norm_errors, "ONNX LayerNormalization-17",
           "Shifts and scales the elements of the last dimensions to a mean of 0 and a variance of "
           "1, then applies scale and bias.",
           "each row with a scale and a bias",
           "{\"x\":[[1.0,2.0,3.0],[2.0,4.0,9.0]],\"scale\":[1.0,1.0,2.0],\"bias\":[0.0,0.5,0.0]}");
DESCRIPTOR(l2_normalize, 1, along_axis, 2, errors,
           "tf.math.l2_normalize (TensorFlow 2 API reference)",
           "Divides vectors along a dimension by their Euclidean norm.", "unit vectors",
           "{\"x\":[[3.0,4.0],[0.0,2.0]]}");
