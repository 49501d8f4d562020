#include "kernels/merge.h"
#include "kernels/op_check.h"
#include "kernels/program/rows.h"
#include "tests/support/random.h"
#include "tests/support/sample_program.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <stdio.h>
#include <string.h>

enum { WIDTH = 4, CALLS = 3, LETTER = 0 };

/* ---- Programs ---------------------------------------------------------------------------- */

/* Declares each input as [letter, WIDTH]. */
static struct td_program_shape *declare(struct sample *sample)
{
    static struct td_program_shape shapes[TD_MAX_INPUTS];
    static const char *const letters[] = { "b", "c" };
    for (int i = 0; i < sample->program.op.n_inputs; i++)
        shapes[i] =
            (struct td_program_shape){ .rank = 2,
                                       .sizes = { { .letter = LETTER },
                                                  { .size = WIDTH, .letter = TD_SIZE_NUMBER } } };
    sample->program.shapes = shapes;
    sample->program.letters = letters;
    sample->program.n_letters = (int)COUNT_OF(letters);
    return shapes;
}

/* Small whole numbers, so that sums do not depend on their order. */
static struct td_tensor numbers(int64_t n_rows)
{
    const struct td_shape dims = { .rank = 2, .dim = { n_rows, WIDTH } };
    struct td_tensor tensor = random_tensor(TD_DTYPE_FLOAT32, &dims);
    for (int64_t i = 0; i < tensor.numel; i++)
        ((float *)tensor.data)[i] = (float)random_below(9) - 4;
    return tensor;
}

static void begin_calls(struct sample *sample, struct op_call *call, const int *n_rows)
{
    for (int c = 0; c < CALLS; c++) {
        for (int i = 0; i < sample->program.op.n_inputs; i++)
            sample->tensors[i] = numbers(n_rows[c]);
        (void)sample_infer(sample, &call[c]);
    }
}

static void run(const struct td_op *op, struct td_op_args *args)
{
    struct td_exec exec;
    struct td_error err;
    td_exec_serial(&exec, &test_arena);
    for (int i = 0; i < args->n_outputs; i++)
        ck_assert(td_tensor_alloc(&args->outputs[i], &test_arena, &err) == TD_OK);
    ck_assert_msg(op->run(args, &exec, &err) == TD_OK, "%s", err.message);
}

/* Runs the calls alone and merged, and compares the outputs. */
static void expect_merged(const struct sample *sample, struct op_call *call, const char *says)
{
    const struct td_op *op = &sample->program.op;
    const struct td_op_args *calls[CALLS];
    struct td_merged merged;
    struct td_error err;
    for (int c = 0; c < CALLS; c++) {
        calls[c] = &call[c].args;
        ck_assert_msg(td_merge_fits(calls[0], calls[c], 0), "%s", says);
        ck_assert_msg(td_merge_key(op, calls[0], 0) == td_merge_key(op, calls[c], 0), "%s", says);
        run(op, &call[c].args);
    }
    ck_assert_msg(td_merge_calls(op, calls, CALLS, 0, &test_arena, &merged, &err) == TD_OK,
                  "%s: %s", says, err.message);
    for (int i = 0; i < op->n_inputs; i++) {
        struct td_tensor *input = merged.args.inputs[i].tensors;
        ck_assert(td_tensor_alloc(input, &test_arena, &err) == TD_OK);
        td_merge_copy(op, calls, CALLS, i, input->data, NULL, NULL);
    }
    ck_assert(td_op_infer(op, &merged.args, &test_arena, &err) == TD_OK);
    run(op, &merged.args);
    for (int c = 0; c < CALLS; c++)
        for (int j = 0; j < op->n_outputs; j++) {
            const struct td_tensor *alone = &call[c].args.outputs[j];
            const char *part = (const char *)merged.args.outputs[j].data +
                               merged.output_begin[c * op->n_outputs + j];
            ck_assert_msg(alone->bytes == 0 || memcmp(part, alone->data, alone->bytes) == 0,
                          "%s: output %d of call %d", says, j, c);
        }
}

/* ---- Random programs --------------------------------------------------------------------- */

/* The second input of a step: nothing, another value, or a constant. */
typedef enum { NOTHING, VALUE, VECTOR, ROW, MATRIX, COLUMNS } second;

static const struct {
    const char *op, *attrs;
    second second;
    bool is_list, mixes_rows;
} steps[] = {
    { "negative", "", NOTHING, false, false },
    { "relu", "", NOTHING, false, false },
    { "add", "", VALUE, false, false },
    { "multiply", "", VALUE, false, false },
    { "subtract", "", VECTOR, false, false },
    { "maximum", "", ROW, false, false },
    { "softmax", "", NOTHING, false, false },
    { "softmax", "axis=0", NOTHING, false, true },
    { "layer_norm", "", VECTOR, false, false },
    { "cumsum", "axis=1", NOTHING, false, false },
    { "cumsum", "axis=0", NOTHING, false, true },
    { "top_k", "k=4", NOTHING, false, false },
    { "slice", "starts=0 stops=4 axes=1", NOTHING, false, false },
    { "slice", "starts=-1 stops=-99 steps=-1 axes=0", NOTHING, false, true },
    { "reshape", "shape=-1,4", NOTHING, false, false },
    { "gather", "axis=1", COLUMNS, false, false },
    { "einsum", "equation=bd,df->bf", MATRIX, true, false },
    { "einsum", "equation=bd,bd->bd", VALUE, true, false },
};

static int add_second(struct sample *sample, second kind)
{
    switch (kind) {
    case VECTOR:
        return sample_constant(sample, tensor("float32[4] 1 -2 3 0"));
    case ROW:
        return sample_constant(sample, tensor("float32[1,4] -1 0 1 2"));
    case MATRIX:
        return sample_constant(sample, tensor("float32[4,4] 1 0 2 0 0 1 0 1 1 1 0 0 -1 0 0 1"));
    case COLUMNS:
        return sample_constant(sample, tensor("int32[4] 3 0 1 1"));
    default:
        return random_below(sample->program.n_values);
    }
}

/* Adds a step that reads one of the values, which all have the shape of the inputs. `values` has
 * their numbers. */
static void add_step(struct sample *sample, int *values, int *n_values, bool *mixes_rows)
{
    const int s = random_below((int)COUNT_OF(steps)), x = values[random_below(*n_values)];
    const int y = steps[s].second == VALUE     ? values[random_below(*n_values)]
                  : steps[s].second == NOTHING ? END
                                               : add_second(sample, steps[s].second);
    const int list[] = { x, y, END }, inputs[] = { x, y == END ? END : NEXT, y, END };
    const int n_results = strcmp(steps[s].op, "top_k") == 0 ? 2 : 1;
    values[(*n_values)++] = sample_step(sample, steps[s].op, steps[s].attrs,
                                        steps[s].is_list ? list : inputs, n_results);
    *mixes_rows |= steps[s].mixes_rows;
}

TD_TEST(random_programs_give_the_bits_of_single_calls_when_merged)
{
    int n_merged = 0, n_refused = 0;
    for (int seed = 0; seed < 300 * test_effort(); seed++) {
        static struct sample sample;
        struct op_call call[CALLS];
        int values[SAMPLE_MOST], n_values = 0, n_rows[CALLS];
        bool mixes_rows = false;
        char says[32];
        random_seed((uint64_t)seed);
        td_arena_reset(&test_arena);
        sample_begin(&sample);
        snprintf(says, sizeof(says), "seed %d", seed);
        for (int c = 0; c < CALLS; c++)
            n_rows[c] = 1 + random_below(5);
        const int n_inputs = 1 + random_below(2);
        for (int i = 0; i < n_inputs; i++)
            values[n_values++] = sample_input(&sample, numbers(n_rows[0]));
        const int n_steps = 1 + random_below(8);
        for (int i = 0; i < n_steps; i++)
            add_step(&sample, values, &n_values, &mixes_rows);
        sample_output(&sample, values[n_values - 1]);
        (void)declare(&sample);
        begin_calls(&sample, call, n_rows);
        ck_assert_msg(call[0].status == TD_OK, "%s: %s", says, call[0].err.message);
        const td_merge_kind kind = td_merge_kind_of(&sample.program.op, &call[0].args, 0);
        if (!mixes_rows)
            ck_assert_msg(kind == TD_MERGE_ROWS, "%s is not merged", says);
        if (kind == TD_MERGE_ROWS)
            expect_merged(&sample, call, says);
        n_merged += kind == TD_MERGE_ROWS;
        n_refused += kind != TD_MERGE_ROWS;
    }
    ck_assert_int_gt(n_merged, 50);
    ck_assert_int_gt(n_refused, 50);
}

/* ---- Which programs ---------------------------------------------------------------------- */

static void begin_sum(struct sample *sample)
{
    sample_begin(sample);
    const int x = sample_input(sample, numbers(2)), y = sample_input(sample, numbers(2));
    sample_output(sample, sample_step(sample, "add", "", OPERANDS(x, NEXT, y), 1));
}

static bool declares_rows(struct sample *sample)
{
    struct op_call call;
    (void)sample_infer(sample, &call);
    return sample->program.op.by_rows != NULL;
}

TD_TEST(all_inputs_must_begin_with_one_letter_that_is_nowhere_else)
{
    static struct sample sample;
    begin_sum(&sample);
    ck_assert(!declares_rows(&sample));

    begin_sum(&sample);
    struct td_program_shape *shapes = declare(&sample);
    ck_assert(declares_rows(&sample));

    begin_sum(&sample);
    shapes = declare(&sample);
    shapes[1].sizes[0].letter = LETTER + 1;
    ck_assert(!declares_rows(&sample));

    begin_sum(&sample);
    shapes = declare(&sample);
    shapes[1].sizes[1].letter = LETTER;
    ck_assert(!declares_rows(&sample));

    begin_sum(&sample);
    shapes = declare(&sample);
    shapes[0].sizes[0] = shapes[1].sizes[0] =
        (struct td_program_size){ .size = 2, .letter = TD_SIZE_NUMBER };
    ck_assert(!declares_rows(&sample));

    begin_sum(&sample);
    shapes = declare(&sample);
    shapes[1].rank = 0;
    ck_assert(!declares_rows(&sample));
}

TD_TEST(an_output_without_rows_is_not_merged)
{
    static struct sample sample;
    struct op_call call;
    begin_sum(&sample);
    const int constant = sample_constant(&sample, tensor("float32[2] 1 2"));
    sample_output(&sample, sample_step(&sample, "negative", "", OPERANDS(constant), 1));
    (void)declare(&sample);
    ck_assert(sample_infer(&sample, &call) == TD_OK);
    ck_assert_int_eq(td_merge_kind_of(&sample.program.op, &call.args, 0), TD_MERGE_NONE);
}

TD_TEST(programs_are_the_same_if_they_were_compiled_once_and_have_the_same_tables)
{
    static struct sample sample, other;
    struct td_program_value values[SAMPLE_MOST];
    begin_sum(&sample);
    const int table = sample_constant(&sample, tensor("float32[4] 1 2 3 4"));
    sample_output(&sample, sample_step(&sample, "negative", "", OPERANDS(table), 1));
    ck_assert(!declares_rows(&sample));

    struct td_program call = sample.program;
    memcpy(values, sample.values, sizeof(values));
    call.values = values;
    call.op.detail = &call;
    ck_assert(td_program_is_same(&sample.program.op, &call.op));

    struct td_tensor copy = *values[table].constant;
    values[table].constant = &copy;
    ck_assert(td_program_is_same(&sample.program.op, &call.op));
    copy = tensor("float32[4] 1 2 3 4");
    ck_assert(!td_program_is_same(&sample.program.op, &call.op));

    begin_sum(&other);
    ck_assert(!declares_rows(&other));
    ck_assert(!td_program_is_same(&sample.program.op, &other.program.op));
}
