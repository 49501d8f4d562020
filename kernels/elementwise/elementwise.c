#include "kernels/elementwise/elementwise.h"

#include "kernels/chain/chain.h"
#include "kernels/elementwise/divisors.h"
#include "kernels/elementwise/loops.h"
#include "kernels/elementwise/string_elements.h"
#include "kernels/integers.h"

#include <inttypes.h>
#include <string.h>

/* What distinguishes the ops: td_op.detail. */
struct detail {
    td_elementwise_name loop;
    td_dtype result; /* BOOL, or TD_DTYPE_COUNT for the dtype of x */
    bool parts;      /* the result has the dtype of the parts of x */
    uint64_t work;   /* cost per element, in additions of float32 */
    /* Checks the values of y. NULL if all values are accepted. */
    td_status (*check)(const struct td_tensor *y, const char *op, struct td_exec *exec,
                       struct td_error *err);
};

static const struct detail *detail_of(const struct td_op_args *args)
{
    return args->op->detail;
}

/* ---- Shapes ------------------------------------------------------------------------------ */

/* The tensor that gives the result its dtype: x, or in `where` the operand after the condition. */
static const struct td_tensor *values_of(const struct td_op_args *args)
{
    return args->inputs[args->op->inputs[0].role == TD_ROLE_CONDITION].tensors;
}

/* Refuses an input whose shape does not broadcast with `shape`, the common shape of the inputs
 * before it. The sizes of dimension `dim` from the end differ. */
static td_status mismatch(const struct td_op_args *args, int input, const struct td_shape *shape,
                          int dim, struct td_error *err)
{
    const struct td_op *op = args->op;
    const char *name = op->inputs[input].name;
    const char *other = input == 1 ? op->inputs[0].name : "the other inputs";
    const struct td_shape *its = &args->inputs[input].tensors->shape;
    char text[TD_SHAPE_TEXT], other_text[TD_SHAPE_TEXT];
    td_error_set(err, TD_SHAPE_MISMATCH,
                 "%s %s does not broadcast with %s %s: dimension %d of %s is %" PRId64
                 ", and dimension %d of %s is %" PRId64 "; expected equal sizes, or a size of 1",
                 name, td_shape_text(its, text, sizeof(text)), other,
                 td_shape_text(shape, other_text, sizeof(other_text)), its->rank - dim, name,
                 its->dim[its->rank - dim], shape->rank - dim, other,
                 shape->dim[shape->rank - dim]);
    for (int i = 0; i <= input; i++)
        td_error_add_shape(err, op->inputs[i].name, &args->inputs[i].tensors->shape);
    return td_error_at_input(err, TD_SHAPE_MISMATCH, "%s", name);
}

static td_status infer(struct td_op_args *args, struct td_arena *arena, struct td_error *err)
{
    const struct detail *detail = detail_of(args);
    const td_dtype dtype = values_of(args)->dtype;
    const td_dtype same = detail->parts ? td_dtype_part(dtype) : dtype;
    struct td_shape shape = args->inputs[0].tensors->shape;
    int dim;
    for (int i = 1; i < args->op->n_inputs; i++)
        if (!td_broadcast_shape(&shape, &args->inputs[i].tensors->shape, &dim))
            return mismatch(args, i, &shape, dim, err);
    return td_op_output(args, detail->result == TD_DTYPE_COUNT ? same : detail->result, &shape,
                        arena, err);
}

/* ---- Cost -------------------------------------------------------------------------------- */

/* Functions of float64 come from the C library, an element at a time, and so do powers of complex
 * numbers. */
static uint64_t work_of(const struct detail *detail, td_dtype dtype)
{
    const uint64_t double_factor = 4, complex_factor = 8;
    if (td_dtype_is_complex(dtype))
        return detail->work * complex_factor;
    return dtype == TD_DTYPE_FLOAT64 && detail->work > 1 ? detail->work * double_factor
                                                         : detail->work;
}

static struct td_cost cost(const struct td_op_args *args)
{
    const struct td_tensor *tensors[TD_CHAIN_OPERANDS];
    const struct td_tensor *out = &args->outputs[0];
    const int n = args->op->n_inputs;
    struct td_cost cost = { .bytes_written = td_tensor_footprint(out) };
    for (int i = 0; i < n; i++) {
        tensors[i] = args->inputs[i].tensors;
        cost.bytes_read += td_tensor_footprint(tensors[i]);
        if (out->dtype == TD_DTYPE_STRING)
            cost.bytes_written += tensors[i]->bytes;
    }
    cost.flops =
        td_capped_product((uint64_t)out->numel, work_of(detail_of(args), values_of(args)->dtype));
    cost.workspace =
        out->dtype == TD_DTYPE_STRING ? tensors[0]->bytes : td_chain_workspace(tensors, n, out);
    return cost;
}

/* ---- Execution --------------------------------------------------------------------------- */

/* Returns the loop of the call, which for gelu depends on an attribute. */
static td_elementwise_name loop_of(const struct td_op_args *args)
{
    struct td_gelu_attrs attrs;
    if (args->op->n_attrs == 0)
        return detail_of(args)->loop;
    memcpy(&attrs, args->attrs, sizeof(attrs));
    return attrs.approximate ? TD_ELEMENTWISE_gelu_tanh : TD_ELEMENTWISE_gelu;
}

static td_status run_strings(struct td_op_args *args, struct td_exec *exec, struct td_error *err)
{
    const struct td_tensor *first = args->inputs[0].tensors, *second = args->inputs[1].tensors;
    const td_elementwise_name loop = detail_of(args)->loop;
    if (loop == TD_ELEMENTWISE_where)
        return td_strings_where(first, second, args->inputs[2].tensors, &args->outputs[0], exec,
                                err);
    return td_strings_compare(first, second, loop == TD_ELEMENTWISE_equal, &args->outputs[0], exec,
                              err);
}

/* Adds the loop of the call to a chain. Implements td_op_chain.add. */
static int add(const struct td_op_args *args, struct td_chain *chain, const int *operands,
               const struct td_tensor *to, td_isa isa)
{
    const td_dtype dtype = values_of(args)->dtype;
    td_chain_fn *const *loops = td_elementwise_loops(isa)->of[loop_of(args)];
    const td_dtype computed = loops[dtype] ? dtype : TD_DTYPE_FLOAT32;
    const struct td_chain_op op = { loops[computed], dtype, computed, args->outputs[0].dtype };
    return td_chain_add(chain, &op, operands, args->op->n_inputs, to, isa);
}

/* True if the op can be a step of a chain: it has loops, and no values to check before. Implements
 * td_op_chain.can_add. */
static bool can_add(const struct td_op_args *args)
{
    const td_dtype dtype = values_of(args)->dtype;
    const bool is_integer = !td_dtype_is_float(dtype) && !td_dtype_is_complex(dtype);
    return dtype != TD_DTYPE_STRING && !(detail_of(args)->check && is_integer);
}

static td_status run(struct td_op_args *args, struct td_exec *exec, struct td_error *err)
{
    const struct detail *detail = detail_of(args);
    const td_dtype dtype = values_of(args)->dtype;
    struct td_chain chain = { .shape = args->outputs[0].shape };
    int values[TD_CHAIN_OPERANDS];
    td_status status = TD_OK;
    if (dtype == TD_DTYPE_STRING)
        return run_strings(args, exec, err);
    if (detail->check && args->outputs[0].numel > 0)
        status = detail->check(args->inputs[1].tensors, args->op->name, exec, err);
    if (status != TD_OK)
        return status;
    for (int i = 0; i < args->op->n_inputs; i++)
        values[i] = td_chain_input(&chain, args->inputs[i].tensors);
    (void)add(args, &chain, values, &args->outputs[0], td_isa_resolve(exec->isa));
    return td_chain_run(&chain, exec, err);
}

/* Implements td_op.valid for the ops that check the values of y. */
static bool has_valid_y(const struct td_op_args *args)
{
    const struct td_tensor *y = args->inputs[1].tensors;
    struct td_arena none;
    struct td_exec exec;
    if (td_dtype_is_float(y->dtype) || td_dtype_is_complex(y->dtype) || y->numel == 0)
        return true;
    td_arena_init(&none, NULL, 0, td_memory_heap());
    td_exec_serial(&exec, &none);
    return y->data && detail_of(args)->check(y, args->op->name, &exec, TD_IGNORED) == TD_OK;
}

static const struct td_op_chain op_chain = { can_add, add };

/* ---- Descriptors ------------------------------------------------------------------------- */

#define TRUTHS TD_DTYPE_BIT(BOOL)
#define INTEGERS                                                                                   \
    (TD_DTYPE_BIT(INT8) | TD_DTYPE_BIT(INT16) | TD_DTYPE_BIT(INT32) | TD_DTYPE_BIT(INT64) |        \
     TD_DTYPE_BIT(UINT8) | TD_DTYPE_BIT(UINT16) | TD_DTYPE_BIT(UINT32) | TD_DTYPE_BIT(UINT64))
#define FLOATS                                                                                     \
    (TD_DTYPE_BIT(FLOAT16) | TD_DTYPE_BIT(BFLOAT16) | TD_DTYPE_BIT(FLOAT32) | TD_DTYPE_BIT(FLOAT64))
#define COMPLEX (TD_DTYPE_BIT(COMPLEX64) | TD_DTYPE_BIT(COMPLEX128))
#define REALS   (INTEGERS | FLOATS)
#define NUMBERS (REALS | COMPLEX)
#define ANY     TD_DTYPES_ALL

#define OPERAND(label, text, accepted)                                                             \
    {                                                                                              \
        .name = (label), .summary = (text), .dtypes = (accepted), .one_dtype = true,               \
        .reads_values = true,                                                                      \
    }
#define BROADCAST_TEXT "A tensor of any shape that broadcasts with the other inputs."
#define UNARY_INPUTS(accepted)                                                                     \
    {                                                                                              \
        OPERAND("x", "A tensor of any shape.", accepted)                                           \
    }
#define GELU_INPUTS(accepted) UNARY_INPUTS(accepted)
#define BINARY_INPUTS(accepted)                                                                    \
    {                                                                                              \
        OPERAND("x", BROADCAST_TEXT, accepted), OPERAND("y", BROADCAST_TEXT, accepted)             \
    }
#define CLIP_INPUTS(accepted)                                                                      \
    {                                                                                              \
        OPERAND("x", BROADCAST_TEXT, accepted), OPERAND("min", "The least result.", accepted),     \
            OPERAND("max", "The greatest result. If it is below min, it is the result.", accepted) \
    }
#define WHERE_INPUTS(accepted)                                                                     \
    {                                                                                              \
        { .name = "condition",                                                                     \
          .summary = "True where the result is x.",                                                \
          .role = TD_ROLE_CONDITION,                                                               \
          .dtypes = TRUTHS },                                                                      \
            OPERAND("x", "The elements where the condition is true.", accepted),                   \
            OPERAND("y", "The elements where the condition is false.", accepted)                   \
    }

static const struct td_attr_spec gelu_attrs[] = {
    {
        .name = "approximate",
        .summary = "If true, computes 0.5 x (1 + tanh(0.79788456 (x + 0.044715 x^3))) instead of "
                   "0.5 x (1 + erf(x / sqrt(2))).",
        .kind = TD_ATTR_BOOL,
        .default_int = false,
        .offset = offsetof(struct td_gelu_attrs, approximate),
    },
};
#define UNARY_ATTRS  NULL
#define BINARY_ATTRS NULL
#define CLIP_ATTRS   NULL
#define WHERE_ATTRS  NULL
#define GELU_ATTRS   gelu_attrs

#define UNARY_SHAPE  "x.shape"
#define GELU_SHAPE   "x.shape"
#define BINARY_SHAPE "x.shape and y.shape, broadcast"
#define CLIP_SHAPE   "x.shape, min.shape and max.shape, broadcast"
#define WHERE_SHAPE  "condition.shape, x.shape and y.shape, broadcast"

#define OUTPUT_SUMMARY        "One element for each element of the inputs."
#define SAME_OUTPUT(accepted) .dtype_of = "x"
#define BOOL_OUTPUT(accepted) .dtypes = TD_DTYPE_BIT(BOOL)
#define PART_OUTPUT(accepted)                                                                      \
    .dtypes = (accepted) & ~(td_dtype_set)COMPLEX,                                                 \
    .dtype_rule = "dtype of x, or of its parts if x is complex"

#define PLAIN_ERRORS TD_UNSUPPORTED_DTYPE, TD_INVALID_ARGUMENT, TD_RESOURCE_LIMIT
static const td_status errors_PLAIN[] = { PLAIN_ERRORS, TD_OK };
static const td_status errors_BROADCAST[] = { TD_SHAPE_MISMATCH, PLAIN_ERRORS, TD_OK };
static const td_status errors_DIVISOR[] = { TD_SHAPE_MISMATCH, TD_DIVISION_BY_ZERO, PLAIN_ERRORS,
                                            TD_OK };
#define errors_EXPONENT errors_BROADCAST
#define check_PLAIN     NULL
#define check_BROADCAST NULL
#define check_DIVISOR   td_check_divisors
#define check_EXPONENT  td_check_exponents
#define valid_PLAIN     NULL
#define valid_BROADCAST NULL
#define valid_DIVISOR   has_valid_y
#define valid_EXPONENT  has_valid_y

#define RESULT_SAME TD_DTYPE_COUNT
#define RESULT_PART TD_DTYPE_COUNT
#define RESULT_BOOL TD_DTYPE_BOOL
#define PARTS_SAME  false
#define PARTS_PART  true
#define PARTS_BOOL  false

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

#define TD_ELEMENTWISE(op, operands, accepted, kind, faults, effort, origin, text, request)        \
    static const struct td_input_spec op##_inputs[] = operands##_INPUTS(accepted);                 \
    static const struct td_output_spec op##_outputs[] = {                                          \
        { .name = "output",                                                                        \
          .summary = OUTPUT_SUMMARY,                                                               \
          .shape_rule = operands##_SHAPE,                                                          \
          kind##_OUTPUT(accepted) },                                                               \
    };                                                                                             \
    static const struct detail op##_detail = {                                                     \
        .loop = TD_ELEMENTWISE_##op,                                                               \
        .result = RESULT_##kind,                                                                   \
        .parts = PARTS_##kind,                                                                     \
        .work = (effort),                                                                          \
        .check = check_##faults,                                                                   \
    };                                                                                             \
    static const struct td_op_example op##_examples[] = {                                          \
        { #op, request },                                                                          \
        { NULL, NULL },                                                                            \
    };                                                                                             \
    const struct td_op td_op_##op = {                                                              \
        .name = #op,                                                                               \
        .summary = (text),                                                                         \
        .source = (origin),                                                                        \
        .inputs = op##_inputs,                                                                     \
        .n_inputs = COUNT(op##_inputs),                                                            \
        .attrs = operands##_ATTRS,                                                                 \
        .n_attrs = (operands##_ATTRS) != NULL,                                                     \
        .outputs = op##_outputs,                                                                   \
        .n_outputs = 1,                                                                            \
        .errors = errors_##faults,                                                                 \
        .examples = op##_examples,                                                                 \
        .infer = infer,                                                                            \
        .cost = cost,                                                                              \
        .run = run,                                                                                \
        .valid = valid_##faults,                                                                   \
        .chain = &op_chain,                                                                        \
        .detail = &op##_detail,                                                                    \
    };
#include "kernels/elementwise/elementwise.def"
#undef TD_ELEMENTWISE
