#include "kernels/einsum/plan.h"

#include "kernels/tensor.h"
#include "kernels/utf8.h"
#include "kernels/workspace.h"

#include <string.h>

/* An operand of a step, with its labels of extent 2 or more. */
struct operand {
    td_dtype dtype;
    struct td_subscript_list dims;   /* all dimensions; a diagonal repeats a label */
    struct td_subscript_list labels; /* each label once */
    const int64_t *stride;           /* stride of each of `labels`, in elements */
    struct td_labels set;
};

struct builder {
    const struct td_equation *equation;
    struct td_arena *arena;
    struct td_error *err;
    struct td_einsum_plan *plan;
    int64_t output_numel;
    int n_planned; /* number of steps still to be added */
    /* dtype of the results of all steps except the last. */
    td_dtype intermediate_dtype;
    struct operand *operands; /* the inputs, then the results of steps */
    /* For each label, the number of remaining tensors that have it, including the output. */
    uint8_t uses[TD_EINSUM_MAX_LABELS];
};

/* ---- Operands ---------------------------------------------------------------------------- */

/* Returns the stride of the label in the operand, or 0 if the operand does not have the label. */
static int64_t stride_of(const struct operand *operand, int label)
{
    if (!td_labels_has(&operand->set, label))
        return 0;
    int i = 0;
    while (operand->labels.label[i] != label)
        i++;
    return operand->stride[i];
}

/* Describes an input or the output. Omits dimensions of extent 1, including broadcast
 * dimensions. */
static td_status describe_tensor(struct builder *b, const struct td_subscript *subscript,
                                 const struct td_shape *shape, struct operand *to)
{
    const int rank = shape->rank;
    int64_t *stride = td_arena_alloc(b->arena, (size_t)rank, sizeof(*stride), b->err);
    uint8_t *label = td_arena_alloc(b->arena, 2 * (size_t)rank, sizeof(*label), b->err);
    if (!stride || !label)
        return b->err->status;
    uint8_t *dims = label + rank;
    *to = (struct operand){ .dtype = b->plan->dtype };
    int64_t step[TD_MAX_RANK], next = 1;
    for (int d = rank - 1; d >= 0; d--) {
        step[d] = next;
        next *= shape->dim[d];
    }
    for (int d = 0; d < rank; d++) {
        const uint8_t name = subscript->label[d];
        if (shape->dim[d] == 1)
            continue;
        dims[to->dims.rank++] = name;
        int i = 0;
        while (i < to->labels.rank && label[i] != name)
            i++;
        if (i == to->labels.rank) {
            td_labels_add(&to->set, name);
            label[to->labels.rank++] = name;
            stride[i] = 0;
        }
        /* The stride of a diagonal is the sum of the strides of its dimensions. */
        stride[i] += step[d];
    }
    to->dims.label = dims;
    to->labels.label = label;
    to->stride = stride;
    return TD_OK;
}

/* Describes the result of a step other than the last: a row-major tensor with the given labels. */
static td_status describe_result(struct builder *b, const uint8_t *labels, int rank, int64_t *numel,
                                 struct operand *to)
{
    const int64_t *extent = b->equation->extent;
    const int64_t limit = INT64_MAX / (int64_t)td_dtype_info(b->intermediate_dtype)->size;
    *numel = 1;
    for (int i = 0; i < rank; i++)
        if (__builtin_mul_overflow(*numel, extent[labels[i]], numel) || *numel > limit)
            return td_error_resource(b->err, "workspace_bytes", UINT64_MAX, INT64_MAX,
                                     "an intermediate result");
    int64_t *stride = td_arena_alloc(b->arena, (size_t)rank, sizeof(*stride), b->err);
    uint8_t *label = td_arena_alloc(b->arena, (size_t)rank, sizeof(*label), b->err);
    if (!stride || !label)
        return b->err->status;
    *to = (struct operand){ .dtype = b->intermediate_dtype,
                            .dims = { rank, label },
                            .labels = { rank, label },
                            .stride = stride };
    int64_t next = 1;
    for (int i = rank - 1; i >= 0; i--) {
        td_labels_add(&to->set, labels[i]);
        label[i] = labels[i];
        stride[i] = next;
        next *= extent[labels[i]];
    }
    return TD_OK;
}

/* ---- Steps ------------------------------------------------------------------------------- */

/* Labels of a step. An operand has at most TD_MAX_LOOPS labels, because its size is below 2^63
 * bytes. */
struct pair_labels {
    int n_kept, n_summed;
    /* Labels of both operands, then labels of only A, then labels of only B. */
    uint8_t kept[2 * TD_MAX_LOOPS];
    uint8_t summed[2 * TD_MAX_LOOPS];
};

/* Adds a label that n operands of the step have. The label is kept if another tensor has it, and
 * summed otherwise. */
static void add_label(const struct builder *b, uint8_t label, int n, struct pair_labels *to)
{
    if (b->uses[label] > n)
        to->kept[to->n_kept++] = label;
    else
        to->summed[to->n_summed++] = label;
}

static void classify_labels(const struct builder *b, const struct operand *lhs,
                            const struct operand *rhs, struct pair_labels *to)
{
    to->n_kept = to->n_summed = 0;
    for (int i = 0; rhs && i < lhs->labels.rank; i++)
        if (td_labels_has(&rhs->set, lhs->labels.label[i]))
            add_label(b, lhs->labels.label[i], 2, to);
    for (int i = 0; i < lhs->labels.rank; i++)
        if (!rhs || !td_labels_has(&rhs->set, lhs->labels.label[i]))
            add_label(b, lhs->labels.label[i], 1, to);
    for (int i = 0; rhs && i < rhs->labels.rank; i++)
        if (!td_labels_has(&lhs->set, rhs->labels.label[i]))
            add_label(b, rhs->labels.label[i], 1, to);
}

/* Returns label i of the nest. Kept labels come first, then summed labels. */
static uint8_t label_at(const struct pair_labels *labels, int i)
{
    return i < labels->n_kept ? labels->kept[i] : labels->summed[i - labels->n_kept];
}

/* Counts the labels of a tensor that was added (`by` is 1) or removed (`by` is -1). */
static void count_uses(struct builder *b, const struct operand *operand, int by)
{
    for (int i = 0; i < operand->labels.rank; i++) {
        uint8_t *uses = &b->uses[operand->labels.label[i]];
        *uses = (uint8_t)(*uses + by);
    }
}

static char *write_labels(const struct td_equation *equation, const struct td_subscript_list *list,
                          char *at)
{
    for (int i = 0; i < list->rank; i++)
        at = td_utf8_write(at, equation->character[list->label[i]]);
    return at;
}

static const char *step_text(const struct builder *b, const struct operand *lhs,
                             const struct operand *rhs, const struct operand *result)
{
    int n_labels = lhs->dims.rank + (rhs ? rhs->dims.rank : 0) + result->dims.rank;
    char *text = td_arena_alloc(b->arena, 4 * (size_t)n_labels + sizeof(",->"), 1, b->err);
    if (!text)
        return NULL;
    char *at = write_labels(b->equation, &lhs->dims, text);
    if (rhs) {
        *at++ = ',';
        at = write_labels(b->equation, &rhs->dims, at);
    }
    *at++ = '-';
    *at++ = '>';
    at = write_labels(b->equation, &result->dims, at);
    *at = '\0';
    return text;
}

/* Sets the nest and the FLOPs of a step. */
static td_status make_nest(const struct builder *b, const struct operand *lhs,
                           const struct operand *rhs, const struct operand *result,
                           const struct pair_labels *labels, struct td_einsum_step *step)
{
    int rank = labels->n_kept + labels->n_summed;
    int64_t products = 1;
    for (int i = 0; i < rank; i++) {
        uint8_t label = label_at(labels, i);
        if (__builtin_mul_overflow(products, b->equation->extent[label], &products))
            return td_error_resource(b->err, "flops", UINT64_MAX, INT64_MAX, "a contraction");
    }
    struct td_loop *loops =
        td_arena_alloc(b->arena, rank > 0 ? (size_t)rank : 1, sizeof(*loops), b->err);
    if (!loops)
        return b->err->status;
    for (int i = 0; i < rank; i++) {
        uint8_t label = label_at(labels, i);
        loops[i] = (struct td_loop){
            .extent = b->equation->extent[label],
            .stride = { stride_of(lhs, label), rhs ? stride_of(rhs, label) : 0,
                        stride_of(result, label) },
        };
    }
    if (rank == 0)
        loops[rank++] = (struct td_loop){ .extent = 1 };
    step->contraction = (struct td_contraction){
        .dtype = { lhs->dtype, rhs ? rhs->dtype : lhs->dtype, result->dtype },
        .has_b = rhs != NULL,
        .rank = rank,
        .loops = loops,
    };
    td_contraction_simplify(&step->contraction);
    step->flops = (uint64_t)products;
    if (rhs && labels->n_summed > 0)
        step->flops *= 2; /* below 2^64, because products is below 2^63 */
    else if (!rhs && labels->n_summed == 0)
        step->flops = 0;
    return TD_OK;
}

/* Appends a step that contracts two operands, or sums and permutes a single operand (rhs < 0). */
static td_status add_step(struct builder *b, int lhs_number, int rhs_number)
{
    struct td_einsum_plan *plan = b->plan;
    struct operand *lhs = &b->operands[lhs_number];
    struct operand *rhs = rhs_number < 0 ? NULL : &b->operands[rhs_number];
    struct operand *result = &b->operands[b->equation->n_inputs + plan->n_steps];
    struct td_einsum_step *step = &plan->steps[plan->n_steps];
    struct pair_labels labels; /* not cleared */
    classify_labels(b, lhs, rhs, &labels);
    td_status status;
    step->offset = 0;
    if (plan->n_steps == b->n_planned - 1) {
        step->numel = b->output_numel;
        status = describe_tensor(b, &b->equation->output, &b->equation->output_shape, result);
        plan->fill_zeros = status == TD_OK && result->dims.rank > result->labels.rank;
    } else {
        status = describe_result(b, labels.kept, labels.n_kept, &step->numel, result);
    }
    if (status == TD_OK)
        status = make_nest(b, lhs, rhs, result, &labels, step);
    if (status != TD_OK)
        return status;
    step->a = lhs_number;
    step->b = rhs_number;
    step->dtype = result->dtype;
    step->result = result->dims;
    step->equation = step_text(b, lhs, rhs, result);
    if (!step->equation)
        return b->err->status;
    count_uses(b, lhs, -1);
    if (rhs)
        count_uses(b, rhs, -1);
    count_uses(b, result, 1);
    plan->n_steps++;
    return TD_OK;
}

/* ---- Workspace --------------------------------------------------------------------------- */

static uint64_t result_bytes(const struct td_einsum_step *step)
{
    return td_workspace_align((uint64_t)step->numel * td_dtype_info(step->dtype)->size);
}

/* Places the result of a step at the lowest offset whose bytes stay free until the reader of the
 * result has run. The bytes of an earlier result are not free if this step or a later step reads
 * it. */
static td_status place_result(struct td_einsum_plan *plan, int number, const int *reader,
                              struct td_error *err)
{
    struct td_einsum_step *step = &plan->steps[number];
    const uint64_t bytes = result_bytes(step);
    uint64_t offset = 0;
    for (int i = 0; i < number; i++) {
        const struct td_einsum_step *other = &plan->steps[i];
        uint64_t end = other->offset + result_bytes(other);
        if (reader[i] >= number && offset < end && other->offset < offset + bytes) {
            offset = end;
            i = -1; /* start over, because earlier results can overlap the new offset */
        }
    }
    step->offset = offset;
    /* Both terms are below 2^63, so the sum is exact. */
    if (offset + bytes > INT64_MAX)
        return td_error_resource(err, "workspace_bytes", offset + bytes, INT64_MAX,
                                 "the intermediate results");
    if (offset + bytes > plan->intermediate_bytes)
        plan->intermediate_bytes = offset + bytes;
    return TD_OK;
}

static td_status place_results(struct builder *b)
{
    struct td_einsum_plan *plan = b->plan;
    const int n_inputs = b->equation->n_inputs;
    /* For each step, the number of the step that reads its result. */
    int reader[2 * TD_EINSUM_MAX_INPUTS] = { 0 };
    for (int i = 0; i < plan->n_steps; i++) {
        if (plan->steps[i].a >= n_inputs)
            reader[plan->steps[i].a - n_inputs] = i;
        if (plan->steps[i].b >= n_inputs)
            reader[plan->steps[i].b - n_inputs] = i;
    }
    for (int i = 0; i < plan->n_steps - 1; i++) {
        td_status status = place_result(plan, i, reader, b->err);
        if (status != TD_OK)
            return status;
    }
    return TD_OK;
}

uint64_t td_einsum_plan_workspace(const struct td_einsum_plan *plan, int threads)
{
    uint64_t bytes = td_saturating_add(td_workspace_align(plan->intermediate_bytes),
                                       td_workspace_align(plan->workspace.shared));
    if (plan->workspace.single_threaded && threads > 1)
        threads = 1;
    uint64_t scratch =
        td_saturating_mul(td_workspace_align(plan->workspace.per_thread), (uint64_t)threads);
    return td_saturating_add(bytes, scratch);
}

/* ---- The plan ---------------------------------------------------------------------------- */

static bool has_empty_label(const struct td_equation *equation)
{
    for (int i = 0; i < equation->n_labels; i++)
        if (equation->extent[i] == 0)
            return true;
    return false;
}

static uint64_t naive_flops(const struct td_equation *equation, const struct td_labels *output)
{
    uint64_t products = 1;
    bool sums = false;
    for (int i = 0; i < equation->n_labels; i++) {
        products = td_saturating_mul(products, (uint64_t)equation->extent[i]);
        sums |= equation->extent[i] > 1 && !td_labels_has(output, i);
    }
    uint64_t each = equation->n_inputs > 1 ? (uint64_t)equation->n_inputs - 1 : 1;
    return td_saturating_mul(products, each + sums);
}

/* True if the operand has a label that no other tensor has, including the output. */
static bool has_unique_label(const struct builder *b, const struct operand *operand)
{
    for (int i = 0; i < operand->labels.rank; i++)
        if (b->uses[operand->labels.label[i]] == 1)
            return true;
    return false;
}

/* Describes the inputs and counts the uses of each label. */
static td_status describe_inputs(struct builder *b, const struct td_shape *const *shapes,
                                 const struct td_labels *output)
{
    const struct td_equation *equation = b->equation;
    for (int i = 0; i < equation->n_labels; i++)
        b->uses[i] = td_labels_has(output, i);
    for (int i = 0; i < equation->n_inputs; i++) {
        td_status status = describe_tensor(b, &equation->inputs[i], shapes[i], &b->operands[i]);
        if (status != TD_OK)
            return status;
        count_uses(b, &b->operands[i], 1);
    }
    return TD_OK;
}

/* Adds one step for each input in the bit set `reduced`, then the pairs that path.h finds. */
static td_status add_steps(struct builder *b, uint32_t reduced, const struct td_labels *output)
{
    const int n = b->equation->n_inputs;
    struct td_einsum_plan *plan = b->plan;
    if (n == 1)
        return add_step(b, 0, -1);
    struct td_labels sets[TD_EINSUM_MAX_INPUTS];
    /* Maps an operand number of the path to an operand number of the steps. */
    int number[2 * TD_EINSUM_MAX_INPUTS];
    for (int i = 0; i < n; i++) {
        number[i] = i;
        if (reduced >> i & 1) {
            number[i] = n + plan->n_steps;
            td_status status = add_step(b, i, -1);
            if (status != TD_OK)
                return status;
        }
        sets[i] = b->operands[number[i]].set;
    }
    plan->n_pairs = n - 1;
    td_status status =
        td_path_find(sets, n, output, b->equation->extent, b->arena, plan->pairs, b->err);
    for (int i = 0; status == TD_OK && i < plan->n_pairs; i++) {
        number[n + i] = n + plan->n_steps;
        status = add_step(b, number[plan->pairs[i].a], number[plan->pairs[i].b]);
    }
    return status;
}

static td_status build(struct builder *b, const struct td_shape *const *shapes)
{
    const int n = b->equation->n_inputs;
    struct td_einsum_plan *plan = b->plan;
    struct td_labels output = { 0 };
    for (int d = 0; d < b->equation->output.rank; d++)
        if (b->equation->output_shape.dim[d] > 1)
            td_labels_add(&output, b->equation->output.label[d]);
    plan->naive_flops = naive_flops(b->equation, &output);

    /* There are at most two steps for each input. */
    b->operands = td_arena_alloc(b->arena, 3 * (size_t)n, sizeof(*b->operands), b->err);
    if (!b->operands)
        return b->err->status;
    td_status status = describe_inputs(b, shapes, &output);
    if (status != TD_OK)
        return status;
    uint32_t reduced = 0;
    for (int i = 0; n > 1 && i < n; i++)
        if (has_unique_label(b, &b->operands[i]))
            reduced |= 1u << i;
    b->n_planned = n == 1 ? 1 : n - 1 + __builtin_popcount(reduced);
    plan->steps = td_arena_alloc(b->arena, (size_t)b->n_planned, sizeof(*plan->steps), b->err);
    plan->pairs = td_arena_alloc(b->arena, (size_t)n - 1, sizeof(*plan->pairs), b->err);
    if (!plan->steps || !plan->pairs)
        return b->err->status;
    status = add_steps(b, reduced, &output);
    if (status != TD_OK)
        return status;
    plan->workspace.single_threaded = true;
    for (int i = 0; i < plan->n_steps; i++) {
        const struct td_einsum_step *step = &plan->steps[i];
        struct td_workspace_size size = td_contraction_workspace(&step->contraction);
        if (size.shared > plan->workspace.shared)
            plan->workspace.shared = size.shared;
        if (size.per_thread > plan->workspace.per_thread)
            plan->workspace.per_thread = size.per_thread;
        plan->workspace.single_threaded &= size.single_threaded || size.per_thread == 0;
        plan->flops = td_saturating_add(plan->flops, step->flops);
        if ((uint64_t)step->numel > plan->largest_intermediate)
            plan->largest_intermediate = (uint64_t)step->numel;
    }
    return place_results(b);
}

td_status td_einsum_plan_make(const char *text, const struct td_shape *const *shapes, int n_shapes,
                              td_dtype dtype, struct td_arena *arena,
                              const struct td_einsum_plan **made, struct td_error *err)
{
    struct td_equation *equation;
    td_status status = td_equation_parse(text, shapes, n_shapes, arena, &equation, err);
    if (status != TD_OK)
        return status;
    struct td_tensor output;
    status = td_tensor_describe(&output, "output", dtype, &equation->output_shape, err);
    if (status != TD_OK)
        return status;
    struct td_einsum_plan *plan = td_arena_alloc(arena, 1, sizeof(*plan), err);
    if (!plan)
        return err->status;
    *plan = (struct td_einsum_plan){
        .equation = equation,
        .dtype = dtype,
        .largest_intermediate = (uint64_t)output.numel,
    };
    if (has_empty_label(equation)) {
        plan->nothing_to_do = true;
        plan->fill_zeros = output.numel > 0;
    } else {
        struct builder b; /* not cleared, because describe_inputs sets the used part of `uses` */
        b.equation = equation;
        b.arena = arena;
        b.err = err;
        b.plan = plan;
        b.output_numel = output.numel;
        b.intermediate_dtype =
            dtype == TD_DTYPE_FLOAT16 || dtype == TD_DTYPE_BFLOAT16 ? TD_DTYPE_FLOAT32 : dtype;
        status = build(&b, shapes);
    }
    if (status == TD_OK)
        *made = plan;
    return status;
}
