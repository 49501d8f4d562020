#include "kernels/einsum/einsum.h"

#include "kernels/by_rows.h"
#include "kernels/einsum/explain.h"
#include "kernels/einsum/plan.h"
#include "kernels/merge.h"
#include "kernels/utf8.h"
#include "kernels/workspace.h"

#include <inttypes.h>
#include <string.h>

/* ---- inference and cost ----------------------------------------------------------------- */

static td_status infer(struct td_op_args *args, struct td_arena *arena, struct td_error *err)
{
    const struct td_operand *inputs = &args->inputs[0];
    struct td_einsum_attrs attrs;
    memcpy(&attrs, args->attrs, sizeof(attrs));
    const struct td_shape **shapes =
        td_arena_alloc(arena, (size_t)inputs->count, sizeof(*shapes), err);
    if (!shapes)
        return TD_MEMORY_EXHAUSTED;
    for (int i = 0; i < inputs->count; i++)
        shapes[i] = &inputs->tensors[i].shape;
    const struct td_einsum_plan *plan;
    td_status status = td_einsum_plan_make(attrs.equation, shapes, inputs->count,
                                           inputs->tensors[0].dtype, arena, &plan, err);
    if (status != TD_OK)
        return status;
    args->plan = plan;
    return td_op_output(args, plan->dtype, &plan->equation->output_shape, arena, err);
}

static struct td_cost cost(const struct td_op_args *args)
{
    const struct td_einsum_plan *plan = args->plan;
    struct td_cost cost = {
        .bytes_written = args->outputs[0].bytes,
        .flops = plan->flops,
        .workspace = td_einsum_plan_workspace(plan, 0),
        .workspace_per_thread = plan->workspace.per_thread,
        .single_threaded = plan->workspace.single_threaded,
    };
    for (int i = 0; i < args->inputs[0].count; i++)
        cost.bytes_read += args->inputs[0].tensors[i].bytes;
    return cost;
}

/* ---- execution --------------------------------------------------------------------------- */

/* A run of the plan: its tensors, the memory for intermediate results, and the workspace of the
 * steps. */
struct run {
    const struct td_einsum_plan *plan;
    const struct td_tensor *inputs;
    struct td_tensor *output;
    char *results;
    struct td_workspace workspace;
};

/* Allocates td_einsum_plan_workspace bytes as one block for the intermediate results, the shared
 * workspace and the threads' scratch memory. */
static td_status alloc_workspace(struct run *run, struct td_exec *exec, struct td_error *err)
{
    const struct td_einsum_plan *plan = run->plan;
    int n_threads = exec->width < TD_WORKSPACE_MAX_THREADS ? exec->width : TD_WORKSPACE_MAX_THREADS;
    if (plan->workspace.single_threaded)
        n_threads = 1;
    char *block =
        td_arena_alloc(exec->arena, (size_t)td_einsum_plan_workspace(plan, n_threads), 1, err);
    if (!block)
        return err->status;
    run->results = block;
    run->workspace.shared = run->results + td_workspace_align(plan->intermediate_bytes);
    run->workspace.scratch = run->workspace.shared + td_workspace_align(plan->workspace.shared);
    run->workspace.scratch_bytes = td_workspace_align(plan->workspace.per_thread);
    run->workspace.n_threads = n_threads;
    memset(run->workspace.in_use, 0, sizeof(run->workspace.in_use));
    return TD_OK;
}

static void fill_zeros(void *context, int64_t begin, int64_t end)
{
    const struct td_tensor *output = context;
    memset((char *)output->data + begin, 0, (size_t)(end - begin));
}

static void *operand_data(const struct run *run, int number)
{
    const struct td_einsum_plan *plan = run->plan;
    const int n_inputs = plan->equation->n_inputs;
    if (number < 0)
        return NULL;
    if (number < n_inputs)
        return run->inputs[number].data;
    const int step = number - n_inputs;
    return step == plan->n_steps - 1 ? run->output->data : run->results + plan->steps[step].offset;
}

static td_status run(struct td_op_args *args, struct td_exec *exec, struct td_error *err)
{
    enum { ZEROS_GRAIN = 4 << 20 };
    struct run run = { .plan = args->plan,
                       .inputs = args->inputs[0].tensors,
                       .output = &args->outputs[0] };
    const struct td_einsum_plan *plan = run.plan;
    td_status status = TD_OK;
    if (plan->fill_zeros)
        status =
            td_exec_for(exec, (int64_t)run.output->bytes, ZEROS_GRAIN, fill_zeros, run.output, err);
    if (status != TD_OK || plan->nothing_to_do)
        return status;
    status = alloc_workspace(&run, exec, err);
    for (int i = 0; status == TD_OK && i < plan->n_steps; i++) {
        const struct td_einsum_step *step = &plan->steps[i];
        status = td_contraction_run(
            &step->contraction, operand_data(&run, step->a), operand_data(&run, step->b),
            operand_data(&run, plan->equation->n_inputs + i), &run.workspace, exec, err);
    }
    return status;
}

/* ---- rows -------------------------------------------------------------------------------- */

/* True if the label is the first of the subscript, and only there. */
static bool is_only_first(const struct td_subscript *subscript, uint8_t label)
{
    for (int d = 0; d < subscript->rank; d++)
        if ((subscript->label[d] == label) != (d == 0))
            return false;
    return subscript->rank > 0;
}

static bool has_label(const struct td_subscript *subscript, uint8_t label)
{
    return memchr(subscript->label, label, (size_t)subscript->rank) != NULL;
}

/* True if one label is the first dimension of the output and of the inputs in `rows`, and occurs
 * nowhere else. Implements td_op.by_rows. */
static bool by_rows(const struct td_op_args *args, td_tensor_set rows)
{
    const struct td_einsum_plan *plan = args->plan;
    const struct td_equation *equation = plan->equation;
    const uint8_t label = equation->output.label[0];
    for (int i = 0; i < equation->n_inputs; i++)
        if (rows >> i & 1 ? !is_only_first(&equation->inputs[i], label)
                          : has_label(&equation->inputs[i], label))
            return false;
    return is_only_first(&equation->output, label);
}

/* ---- merging calls ----------------------------------------------------------------------- */

static bool is_shared(uint32_t shared, int input)
{
    return shared >> input & 1;
}

/* True if calls can be stacked, which requires at least one stacked input, and ranks below
 * TD_MAX_RANK for every stacked input and the output. The inputs then have fewer than
 * TD_EINSUM_MAX_LABELS labels, so a label can be added to the equation. */
static bool can_stack(const struct td_op_args *args, uint32_t shared)
{
    const struct td_operand *inputs = &args->inputs[0];
    bool any = false;
    for (int i = 0; i < inputs->count; i++) {
        if (is_shared(shared, i))
            continue;
        if (inputs->tensors[i].shape.rank == TD_MAX_RANK)
            return false;
        any = true;
    }
    return any && args->outputs[0].shape.rank < TD_MAX_RANK;
}

/* Returns a label that the equation does not use: a letter if possible, otherwise a code point of
 * at least U+0100. */
static uint32_t unused_label(const struct td_equation *equation)
{
    for (uint32_t letter = 'a';; letter = letter == 'z'   ? 'A'
                                          : letter == 'Z' ? 0x100
                                                          : letter + 1) {
        int i = 0;
        while (i < equation->n_labels && equation->character[i] != letter)
            i++;
        if (i == equation->n_labels)
            return letter;
    }
}

/* Writes a subscript as text. Writes "..." for the ellipsis only if it has dimensions. */
static char *write_subscript(const struct td_equation *equation,
                             const struct td_subscript *subscript, char *at)
{
    bool in_ellipsis = false;
    for (int d = 0; d < subscript->rank; d++) {
        const uint8_t label = subscript->label[d];
        if (label < equation->n_named)
            at = td_utf8_write(at, equation->character[label]);
        else if (!in_ellipsis)
            at = stpcpy(at, "...");
        in_ellipsis = label >= equation->n_named;
    }
    return at;
}

/* Writes the equation with an additional label at the front of every stacked input and of the
 * output. The output is always written, because an additional label would change an implicit
 * output. */
static td_status stack_equation(const struct td_op_args *call, uint32_t shared,
                                struct td_op_args *merged, struct td_arena *arena,
                                struct td_error *err)
{
    const struct td_einsum_plan *plan = call->plan;
    const struct td_equation *equation = plan->equation;
    const uint32_t label = unused_label(equation);
    /* A subscript has at most the added label, an ellipsis, TD_MAX_RANK labels, and "->" or ','. */
    const size_t subscript_size = TD_UTF8_MAX * (TD_MAX_RANK + 1) + 3 + 2;
    char *text = td_arena_alloc(arena, (size_t)equation->n_inputs + 1, subscript_size, err);
    if (!text)
        return err->status;
    char *at = text;
    for (int i = 0; i < equation->n_inputs; i++) {
        if (i > 0)
            *at++ = ',';
        if (!is_shared(shared, i))
            at = td_utf8_write(at, label);
        at = write_subscript(equation, &equation->inputs[i], at);
    }
    *at++ = '-';
    *at++ = '>';
    at = td_utf8_write(at, label);
    at = write_subscript(equation, &equation->output, at);
    *at = '\0';
    const struct td_einsum_attrs attrs = { .equation = text };
    memcpy(merged->attrs, &attrs, sizeof(attrs));
    merged->attrs_set = call->attrs_set;
    return TD_OK;
}

static const struct td_op_stack stack = {
    .can_stack = can_stack,
    .attrs = stack_equation,
};

/* ---- the descriptor ---------------------------------------------------------------------- */

static const struct td_input_spec inputs[] = {
    {
        .name = "inputs",
        .summary = "1 to 16 tensors of one dtype, in the order of the equation's subscripts. "
                   "Sums of integers wrap around in this dtype, as in NumPy and TensorFlow. "
                   "If sums might not fit, cast the inputs to int64 or float64 first.",
        .dtypes = TD_DTYPES_ALL & ~(TD_DTYPE_BIT(BOOL) | TD_DTYPE_BIT(STRING)),
        .list = true,
        .most = TD_EINSUM_MAX_INPUTS,
        .reads_values = true,
        .one_dtype = true,
    },
};

static const struct td_attr_spec attrs_specs[] = {
    {
        .name = "equation",
        .summary =
            "Subscripts of the inputs and of the output, as in ij,jk->ik. Any character except "
            ", . - > and space is a label; ... stands for the dimensions without a label. "
            "Without ->, the output has the ellipsis and the labels that occur once, sorted.",
        .kind = TD_ATTR_TEXT,
        .required = true,
        .offset = offsetof(struct td_einsum_attrs, equation),
    },
};

static const td_status errors[] = {
    TD_SHAPE_MISMATCH,   TD_INVALID_EQUATION, TD_UNSUPPORTED_DTYPE,
    TD_INVALID_ARGUMENT, TD_RESOURCE_LIMIT,   TD_OK,
};

static const struct td_output_spec outputs[] = {
    {
        .name = "output",
        .summary = "The sums of products, in the dtype of the inputs.",
        .shape_rule = "the extents of the labels to the right of ->, in that order",
        .dtype_of = "inputs",
    },
};

static const struct td_op_example examples[] = {
    { "a product of two matrices",
      "{\"equation\":\"ij,jk->ik\",\"inputs\":[[[1,2],[3,4]],[[5,6],[7,8]]]}" },
    { "a chain of three matrices",
      "{\"equation\":\"ij,jk,kl->il\",\"inputs\":[[[1,2,3],[4,5,6]],"
      "[[1,2,3,4],[5,6,7,8],[9,10,11,12]],[[1,0],[0,1],[1,1],[2,3]]]}" },
    { "a product for each batch",
      "{\"equation\":\"bij,bjk->bik\",\"inputs\":[[[[1,2],[3,4],[5,6]],[[7,8],[9,10],[11,12]]],"
      "[[[1,0],[0,1]],[[1,1],[1,1]]]]}" },
    { "transposition", "{\"equation\":\"ij->ji\",\"inputs\":[[[1,2],[3,4],[5,6]]]}" },
    { "trace", "{\"equation\":\"ii->\",\"inputs\":[[[1,2],[3,4]]]}" },
    { "outer product", "{\"equation\":\"i,j->ij\",\"inputs\":[[1,2,3],[10,20]]}" },
    { "sums over the last dimension",
      "{\"equation\":\"...i->...\",\"inputs\":[[[[1,2],[3,4],[5,6]],[[7,8],[9,10],[11,12]]]]}" },
    { NULL, NULL },
};

const struct td_op td_op_einsum = {
    .name = "einsum",
    .summary =
        "Sums products of tensors along labelled dimensions: contractions, batched products, "
        "reductions, diagonals, transpositions.",
    .source = "tf.einsum (TensorFlow 2 API reference), with implicit outputs, any number of inputs "
              "and repeated output labels; numpy.einsum (NumPy reference)",
    .inputs = inputs,
    .n_inputs = 1,
    .attrs = attrs_specs,
    .n_attrs = 1,
    .outputs = outputs,
    .n_outputs = 1,
    .errors = errors,
    .mixed_dtypes = TD_INVALID_ARGUMENT,
    .examples = examples,
    .infer = infer,
    .cost = cost,
    .run = run,
    .by_rows = by_rows,
    .explain = td_einsum_explain,
    .plan_example = "{\"equation\":\"ij,jk->ik\",\"shapes\":[[100,20],[20,50]]}",
    .stack = &stack,
};
