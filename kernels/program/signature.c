#include "kernels/program/signature.h"

#include "kernels/program/plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- Shapes of a call -------------------------------------------------------------------- */

const char *td_program_shape_text(const struct td_program_shape *shape, const char *const *letters,
                                  char *text, size_t size)
{
    size_t used = (size_t)snprintf(text, size, "[");
    for (int i = 0; i < shape->rank && used < size; i++) {
        const struct td_program_size *of = &shape->sizes[i];
        const char *comma = i > 0 ? "," : "";
        used +=
            (size_t)(of->letter >= 0
                         ? snprintf(text + used, size - used, "%s%s", comma, letters[of->letter])
                         : snprintf(text + used, size - used, "%s%" PRId64, comma, of->size));
    }
    if (used < size)
        snprintf(text + used, size - used, "]");
    return text;
}

static td_status wrong_shape(const struct td_program *program, int input,
                             const struct td_shape *shape, struct td_error *err)
{
    char declared[TD_PROGRAM_SHAPE_TEXT], given[TD_SHAPE_TEXT];
    const char *name = program->op.inputs[input].name;
    td_error_set(err, TD_SHAPE_MISMATCH, "%s has shape %s; expected %s", name,
                 td_shape_text(shape, given, sizeof(given)),
                 td_program_shape_text(&program->shapes[input], program->letters, declared,
                                       sizeof(declared)));
    td_error_add_shape(err, name, shape);
    return td_error_at_input(err, TD_SHAPE_MISMATCH, "%s", name);
}

/* The first input that has the letter in its shape, and the size of the letter there. */
struct letter {
    bool known;
    int64_t size;
    int input;
};

static td_status wrong_letter(const struct td_program *program, const struct td_op_args *args,
                              int input, int number, const struct letter *letter, int64_t size,
                              struct td_error *err)
{
    const char *name = program->op.inputs[input].name,
               *other = program->op.inputs[letter->input].name;
    if (input == letter->input)
        td_error_set(err, TD_SHAPE_MISMATCH,
                     "%s is both %" PRId64 " and %" PRId64 " in %s; a letter is one size",
                     program->letters[number], letter->size, size, name);
    else
        td_error_set(err, TD_SHAPE_MISMATCH,
                     "%s is %" PRId64 " in %s, but %" PRId64 " in %s; a letter is one size",
                     program->letters[number], letter->size, other, size, name);
    if (input != letter->input)
        td_error_add_shape(err, other, &args->inputs[letter->input].tensors[0].shape);
    td_error_add_shape(err, name, &args->inputs[input].tensors[0].shape);
    return td_error_at_input(err, TD_SHAPE_MISMATCH, "%s", name);
}

static td_status check_shape(const struct td_program *program, const struct td_op_args *args,
                             int input, struct letter *letters, struct td_error *err)
{
    const struct td_program_shape *declared = &program->shapes[input];
    const struct td_shape *shape = &args->inputs[input].tensors[0].shape;
    bool same = shape->rank == declared->rank;
    for (int i = 0; same && i < shape->rank; i++)
        same = declared->sizes[i].letter >= 0 || declared->sizes[i].size == shape->dim[i];
    if (!same)
        return wrong_shape(program, input, shape, err);
    for (int i = 0; i < shape->rank; i++) {
        const int number = declared->sizes[i].letter;
        if (number < 0)
            continue;
        if (!letters[number].known)
            letters[number] = (struct letter){ true, shape->dim[i], input };
        else if (letters[number].size != shape->dim[i])
            return wrong_letter(program, args, input, number, &letters[number], shape->dim[i], err);
    }
    return TD_OK;
}

td_status td_program_check_shapes(const struct td_program *program, const struct td_op_args *args,
                                  struct td_error *err)
{
    struct letter letters[TD_PROGRAM_LETTERS] = { 0 };
    td_status status = TD_OK;
    for (int i = 0; program->shapes && i < program->op.n_inputs && status == TD_OK; i++)
        status = check_shape(program, args, i, letters, err);
    return status;
}

/* ---- Shapes of results ------------------------------------------------------------------- */

/* Sizes for the letters. Ops often divide a size or take the first elements along it, so most of
 * them have many divisors and are large. */
enum { SAMPLES = 6 };

static int64_t sample_size(int sample, int letter)
{
    static const int primes[2 * TD_PROGRAM_LETTERS] = { 7,   11,  13,  17,  19,  23,  29,  31,
                                                        37,  41,  43,  47,  53,  59,  61,  67,
                                                        71,  73,  79,  83,  89,  97,  101, 103,
                                                        107, 109, 113, 127, 131, 137, 139, 149 };
    static const int equal[SAMPLES - 2] = { 1, 2, 16, 1024 };
    return sample < 2 ? (int64_t)720 * primes[sample * TD_PROGRAM_LETTERS + letter]
                      : equal[sample - 2];
}

static td_status describe_inputs(const struct td_program *program, int sample,
                                 struct td_arena *arena, struct td_op_args *args,
                                 struct td_error *err)
{
    const int n = program->op.n_inputs;
    struct td_tensor *tensors = td_arena_alloc(arena, (size_t)n, sizeof(*tensors), err);
    td_status status = tensors ? TD_OK : err->status;
    memset(args, 0, sizeof(*args));
    args->op = &program->op;
    for (int i = 0; i < n && status == TD_OK; i++) {
        const struct td_program_shape *declared = &program->shapes[i];
        const td_dtype dtype = (td_dtype)__builtin_ctz(program->op.inputs[i].dtypes);
        struct td_shape shape = { .rank = declared->rank };
        for (int d = 0; d < declared->rank; d++)
            shape.dim[d] = declared->sizes[d].letter >= 0
                               ? sample_size(sample, declared->sizes[d].letter)
                               : declared->sizes[d].size;
        status = td_tensor_describe(&tensors[i], program->op.inputs[i].name, dtype, &shape, err);
        args->inputs[i] = (struct td_operand){ &tensors[i], 1 };
    }
    return status;
}

/* Adds a number to the defaults of the arguments that are integers, because sizes that follow from
 * an argument are not known. */
static void change_arguments(const struct td_program *program, int64_t more,
                             struct td_op_args *args)
{
    for (int i = 0; i < program->op.n_attrs; i++) {
        const struct td_attr_spec *spec = &program->op.attrs[i];
        int64_t value;
        if (spec->kind != TD_ATTR_INT || spec->required ||
            __builtin_add_overflow(spec->default_int, more, &value) ||
            (spec->range && (value < spec->range->min || value > spec->range->max)))
            continue;
        memcpy(args->attrs + spec->offset, &value, sizeof(value));
        args->attrs_set |= UINT32_C(1) << i;
    }
}

/* Returns a copy of the program without the defaults of all arguments, or of all arguments that are
 * not integers. Steps that use these arguments are not described, so the shapes of their results
 * stay unknown. */
static const struct td_program *without_defaults(const struct td_program *program, bool all,
                                                 struct td_arena *arena, struct td_error *err)
{
    struct td_program *copy = td_arena_alloc(arena, 1, sizeof(*copy), err);
    struct td_program_step *steps =
        td_arena_alloc(arena, (size_t)program->n_steps, sizeof(*steps), err);
    if (!copy || !steps)
        return NULL;
    *copy = *program;
    memcpy(steps, program->steps, (size_t)program->n_steps * sizeof(*steps));
    copy->steps = steps;
    for (int s = 0; s < program->n_steps; s++)
        for (int b = 0; b < steps[s].n_bindings; b++) {
            const struct td_program_binding *binding = &steps[s].bindings[b];
            if (all || program->op.attrs[binding->attr].kind != TD_ATTR_INT)
                steps[s].attrs_set &= ~(UINT32_C(1) << binding->step_attr);
        }
    return copy;
}

/* Describes the program with the sizes of a sample. `more` is added to arguments. */
static td_status describe(const struct td_program *program, int sample, int64_t more,
                          struct td_arena *arena, struct td_program_plan **plan,
                          struct td_error *err)
{
    struct td_op_args *args = td_arena_alloc(arena, 1, sizeof(*args), err);
    td_status status = args ? describe_inputs(program, sample, arena, args, err) : err->status;
    if (status == TD_OK && more != 0)
        change_arguments(program, more, args);
    return status == TD_OK ? td_program_plan_make(program, args, arena, plan, err) : status;
}

/* Describes the program again, with other sizes and other arguments. */
static td_status describe_again(const struct td_program *program, struct td_arena *arena,
                                struct td_program_plan **plan, struct td_error *err)
{
    const struct td_program *copy = without_defaults(program, false, arena, err);
    if (!copy)
        return err->status;
    if (describe(copy, 1, 1, arena, plan, err) == TD_OK ||
        describe(copy, 1, -1, arena, plan, err) == TD_OK)
        return TD_OK;
    copy = without_defaults(program, true, arena, err);
    return copy ? describe(copy, 1, 0, arena, plan, err) : err->status;
}

/* Appends the sizes of the letters to an error, because the caller has not chosen them. */
static void tell_sizes(const struct td_program *program, struct td_error *err)
{
    char text[256] = "";
    size_t used = 0;
    for (int i = 0; i < program->n_letters && used < sizeof(text); i++)
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s = %" PRId64, i ? ", " : "",
                                 program->letters[i], sample_size(0, i));
    if (program->n_letters > 0 && used < sizeof(text))
        td_error_hint(
            err,
            "this is with %s; the sizes 1, 2, 16 and 1024 fail, too. If the program is for "
            "few sizes, declare a number in place of the letter",
            text);
}

/* Finds the size of a dimension from its sizes in both plans. */
static struct td_program_size size_of(const struct td_program *program, int64_t a, int64_t b)
{
    if (a == b)
        return (struct td_program_size){ .size = a, .letter = TD_SIZE_NUMBER };
    for (int i = 0; i < program->n_letters; i++)
        if (a == sample_size(0, i) && b == sample_size(1, i))
            return (struct td_program_size){ .letter = i };
    return (struct td_program_size){ .letter = TD_SIZE_UNKNOWN };
}

/* Describes a value that both plans describe. */
static void describe_value(const struct td_program *program, const struct td_tensor *a,
                           const struct td_tensor *b, struct td_program_result *out)
{
    *out = (struct td_program_result){ .has_dtype = true, .dtype = a->dtype, .shape.rank = -1 };
    if (a->shape.rank != b->shape.rank)
        return;
    out->shape.rank = a->shape.rank;
    for (int i = 0; i < a->shape.rank; i++)
        out->shape.sizes[i] = size_of(program, a->shape.dim[i], b->shape.dim[i]);
}

/* True if the attribute takes its value from an argument of the program. */
static bool is_bound(const struct td_program_step *step, int attr)
{
    for (int b = 0; b < step->n_bindings; b++)
        if (step->bindings[b].step_attr == attr)
            return true;
    return false;
}

/* Finds the dtype of a result if its step is not described: the dtype of an input or of an
 * attribute, or the only dtype that the op returns. */
static void find_dtype(const struct td_program_plan *plan, int s, int r,
                       const struct td_program_result *values, struct td_program_result *out)
{
    const struct td_program_step *step = &plan->program->steps[s];
    const struct td_output_spec *spec = &step->op->outputs[step->op->outputs[0].list ? 0 : r];
    const td_dtype_set only = spec->dtype_of ? 0 : spec->dtypes;
    *out = (struct td_program_result){ .shape.rank = -1 };
    if (only && !(only & (only - 1))) {
        out->has_dtype = true;
        out->dtype = (td_dtype)__builtin_ctz(only);
    }
    for (int i = 0; spec->dtype_of && i < step->op->n_attrs; i++) {
        const struct td_attr_spec *attr = &step->op->attrs[i];
        if (attr->kind == TD_ATTR_DTYPE && strcmp(attr->name, spec->dtype_of) == 0 &&
            (step->attrs_set >> i & 1) && !is_bound(step, i)) {
            out->has_dtype = true;
            memcpy(&out->dtype, step->attrs + attr->offset, sizeof(out->dtype));
        }
    }
    for (int i = 0; spec->dtype_of && i < step->op->n_inputs; i++)
        if (strcmp(step->op->inputs[i].name, spec->dtype_of) == 0 && step->inputs[i].count > 0) {
            out->has_dtype = values[step->inputs[i].values[0]].has_dtype;
            out->dtype = values[step->inputs[i].values[0]].dtype;
        }
}

/* Describes a value from two plans. Both are the same plan if only one choice of sizes could be
 * planned. */
static void describe_both(const struct td_program_plan *a, const struct td_program_plan *b, int v,
                          struct td_program_result *out)
{
    const struct td_program *program = a->program;
    const struct td_program_value *value = &program->values[v];
    const bool is_known = a->values[v].is_known && b->values[v].is_known &&
                          (v < program->op.n_inputs || value->step >= 0 || value->constant);
    out[v] = (struct td_program_result){ .shape.rank = -1 };
    if (is_known)
        describe_value(program, &a->values[v].tensor, &b->values[v].tensor, &out[v]);
    else if (value->step >= 0)
        find_dtype(a, value->step, value->result, out, &out[v]);
    for (int i = 0; a == b && program->n_letters > 0 && i < out[v].shape.rank; i++)
        out[v].shape.sizes[i].letter = TD_SIZE_UNKNOWN;
}

/* Describes inputs and constants, and then the results in the order of the steps, because the dtype
 * of a result can follow from the values that its step uses. */
static void describe_values(const struct td_program_plan *a, const struct td_program_plan *b,
                            struct td_program_result *out)
{
    const struct td_program *program = a->program;
    for (int v = 0; v < program->n_values; v++)
        if (program->values[v].step < 0)
            describe_both(a, b, v, out);
    for (int s = 0; s < program->n_steps; s++)
        for (int r = 0; r < program->steps[s].n_results; r++)
            describe_both(a, b, program->steps[s].results[r], out);
}

/* Describes the program with a value for all integer arguments without a default. Returns NULL if a
 * step does not accept the value. */
static const struct td_program_plan *guess(const struct td_program *program, int64_t value,
                                           struct td_arena *arena)
{
    struct td_error why = { 0 };
    struct td_program_plan *plan = NULL;
    struct td_op_args *args = td_arena_alloc(arena, 1, sizeof(*args), &why);
    if (!args || describe_inputs(program, 0, arena, args, &why) != TD_OK)
        return NULL;
    for (int i = 0; i < program->op.n_attrs; i++) {
        const struct td_attr_spec *spec = &program->op.attrs[i];
        if (spec->kind != TD_ATTR_INT || !spec->required)
            continue;
        memcpy(args->attrs + spec->offset, &value, sizeof(value));
        args->attrs_set |= UINT32_C(1) << i;
    }
    return td_program_plan_make(program, args, arena, &plan, &why) == TD_OK ? plan : NULL;
}

/* Finds the dtypes and ranks of values that depend on an integer argument without a default: they
 * are the same for each value of the argument that works. The sizes stay unknown. */
static void describe_guesses(const struct td_program *program, struct td_arena *arena,
                             struct td_program_result *out)
{
    enum { GUESSES = 3 };
    const struct td_program_plan *plans[GUESSES];
    const struct td_program *copy = without_defaults(program, false, arena, TD_IGNORED);
    int n = 0;
    for (int64_t value = 0; copy && value < GUESSES; value++)
        if ((plans[n] = guess(copy, value, arena)) != NULL)
            n++;
    for (int v = 0; v < program->n_values && n > 1; v++) {
        const struct td_tensor *first = &plans[0]->values[v].tensor;
        bool same_dtype =
            plans[0]->values[v].is_known && program->values[v].step >= 0 && out[v].shape.rank < 0;
        bool same_rank = same_dtype;
        for (int p = 1; p < n; p++) {
            const struct td_tensor *other = &plans[p]->values[v].tensor;
            same_dtype = same_dtype && plans[p]->values[v].is_known && other->dtype == first->dtype;
            same_rank = same_rank && same_dtype && other->shape.rank == first->shape.rank;
        }
        if (same_dtype)
            out[v] = (struct td_program_result){ .has_dtype = true,
                                                 .dtype = first->dtype,
                                                 .shape.rank = -1 };
        if (same_rank)
            out[v].shape.rank = first->shape.rank;
        for (int i = 0; same_rank && i < first->shape.rank; i++)
            out[v].shape.sizes[i].letter = TD_SIZE_UNKNOWN;
    }
}

/* True if a call must set an argument that is an integer. */
static bool needs_integer(const struct td_program *program)
{
    for (int i = 0; i < program->op.n_attrs; i++)
        if (program->op.attrs[i].kind == TD_ATTR_INT && program->op.attrs[i].required)
            return true;
    return false;
}

td_status td_program_results(const struct td_program *program, struct td_arena *arena,
                             struct td_program_result *out, struct td_error *err)
{
    struct td_program_plan *first = NULL, *second = NULL;
    struct td_error why = { 0 };
    td_status status = describe(program, 0, 0, arena, &first, err);
    if (status == TD_MEMORY_EXHAUSTED)
        return status;
    if (status == TD_OK && describe_again(program, arena, &second, &why) != TD_OK)
        second = first;
    bool is_about_sizes = false;
    for (int sample = 2; status != TD_OK && program->n_letters > 0 && sample < SAMPLES; sample++) {
        if (describe(program, sample, 0, arena, &first, &why) == TD_OK) {
            second = first;
            status = TD_OK;
        }
        is_about_sizes |= strcmp(err->message, why.message) != 0;
    }
    if (status == TD_OK)
        describe_values(first, second, out);
    if (status == TD_OK && needs_integer(program))
        describe_guesses(program, arena, out);
    if (status != TD_OK && is_about_sizes)
        tell_sizes(program, err);
    return status;
}
