#include "kernels/op_check.h"
#include "kernels/op_pass.h"
#include "tests/support/random.h"
#include "tests/support/sample_program.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <string.h>

enum { ROWS = 4000, COLUMNS = 6, CALLS = 4 };

/* A call of a program that searches the table: [negate the query,] search, gather the rows. */
struct search_call {
    struct sample sample;
    struct op_call call;
    int scores;
};

static struct td_tensor table;
static struct td_buffer owner; /* makes the table a resident one */

static void begin_table(void)
{
    const struct td_shape shape = { .rank = 2, .dim = { ROWS, COLUMNS } };
    table = random_tensor(TD_DTYPE_FLOAT32, &shape);
    td_buffer_init(&owner, table.data, table.bytes, NULL);
    table.owner = &owner;
}

static struct td_tensor query(void)
{
    const struct td_shape shape = { .rank = 1, .dim = { COLUMNS } };
    return random_tensor(TD_DTYPE_FLOAT32, &shape);
}

static void alloc_outputs(struct search_call *one)
{
    for (int i = 0; i < one->call.args.n_outputs && one->call.status == TD_OK; i++)
        one->call.status = td_tensor_alloc(&one->call.args.outputs[i], &test_arena, &one->call.err);
    ck_assert_msg(one->call.status == TD_OK, "%s", one->call.err.message);
}

/* The rows that were found are picked from `picked`, or from the table if it is NULL. */
static void begin_call(struct search_call *one, bool negated, const struct td_tensor *picked)
{
    struct sample *sample = &one->sample;
    sample_begin(sample);
    int q = sample_input(sample, query());
    const int params = sample_constant(sample, table), rows = sample_constant(sample, table);
    const int from = picked ? sample_constant(sample, *picked) : rows;
    if (negated)
        q = sample_step(sample, "negative", "", OPERANDS(q), 1);
    one->scores = sample_step(sample, "search", "k=3", OPERANDS(params, NEXT, q), 3);
    sample_output(sample,
                  sample_step(sample, "gather", "", OPERANDS(from, NEXT, one->scores + 1), 1));
    sample_output(sample, one->scores);
    ck_assert_msg(sample_infer(sample, &one->call) == TD_OK, "%s", one->call.err.message);
    alloc_outputs(one);
}

static void run_alone(const struct search_call *one, struct td_tensor outputs[2])
{
    struct op_call call = { 0 };
    struct sample sample = one->sample;
    struct td_exec exec;
    td_exec_serial(&exec, &test_arena);
    sample.program.values = sample.values;
    sample.program.steps = sample.steps;
    sample.program.op.detail = &sample.program;
    ck_assert(sample_infer(&sample, &call) == TD_OK);
    for (int i = 0; i < 2; i++)
        ck_assert(td_tensor_alloc(&call.args.outputs[i], &test_arena, &call.err) == TD_OK);
    ck_assert(sample.program.op.run(&call.args, &exec, &call.err) == TD_OK);
    memcpy(outputs, call.args.outputs, 2 * sizeof(outputs[0]));
}

static void expect_as_alone(const struct search_call *one, const char *says)
{
    struct td_tensor alone[2];
    run_alone(one, alone);
    for (int i = 0; i < 2; i++)
        expect_same_tensor(&one->call.args.outputs[i], &alone[i], says);
}

TD_TEST(programs_that_search_one_table_share_the_pass)
{
    struct search_call calls[CALLS];
    struct td_op_args *args[CALLS];
    struct td_exec exec;
    struct td_error err;
    begin_table();
    td_exec_serial(&exec, &test_arena);
    for (int i = 0; i < CALLS; i++) {
        begin_call(&calls[i], i % 2, NULL);
        args[i] = &calls[i].call.args;
        const struct td_op_pass *pass = calls[i].sample.program.op.pass;
        ck_assert(pass && pass->can_join(args[0], args[i]) && pass->data(args[i]) == table.data);
        ck_assert_msg(pass->prepare(args[i], &exec, &err) == TD_OK, "%s", err.message);
    }
    const struct td_op_pass *pass = calls[0].sample.program.op.pass;
    ck_assert(pass->run(args, CALLS, &exec, &err) == TD_OK);
    for (int i = 0; i < CALLS; i++) {
        ck_assert_msg(pass->finish(args[i], &exec, &err) == TD_OK, "%s", err.message);
        expect_as_alone(&calls[i], "a call of the pass");
    }
}

TD_TEST(a_call_runs_alone_after_a_pass_that_failed)
{
    struct search_call one;
    struct td_exec exec;
    struct td_error err;
    begin_table();
    td_exec_serial(&exec, &test_arena);
    begin_call(&one, true, NULL);
    ck_assert(one.sample.program.op.pass->prepare(&one.call.args, &exec, &err) == TD_OK);
    ck_assert(one.sample.program.op.run(&one.call.args, &exec, &err) == TD_OK);
    expect_as_alone(&one, "after a pass");
}

TD_TEST(a_step_after_the_pass_names_itself_in_its_error)
{
    struct search_call one;
    struct td_op_args *args = &one.call.args;
    struct td_exec exec;
    struct td_error err = { 0 };
    const struct td_tensor none = tensor("float32[0,2]");
    begin_table();
    td_exec_serial(&exec, &test_arena);
    begin_call(&one, false, &none);
    const struct td_op_pass *pass = one.sample.program.op.pass;
    ck_assert(pass->prepare(args, &exec, &err) == TD_OK &&
              pass->run(&args, 1, &exec, &err) == TD_OK);
    ck_assert(pass->finish(args, &exec, &err) == TD_INDEX_OUT_OF_BOUNDS);
    ck_assert(err.has_step && err.step == 1);
}

/* Describes a program that searches `params`, with the step `other` of the table if it is set. */
static bool can_share(bool computed, const char *other)
{
    struct sample sample;
    struct op_call call;
    sample_begin(&sample);
    const int q = sample_input(&sample, query());
    int params = sample_constant(&sample, table);
    if (computed)
        params = sample_step(&sample, "negative", "", OPERANDS(params), 1);
    if (other)
        sample_output(
            &sample, sample_step(&sample, other, "", OPERANDS(sample_constant(&sample, table)), 1));
    sample_output(&sample, sample_step(&sample, "search", "k=3", OPERANDS(params, NEXT, q), 3));
    ck_assert_msg(sample_infer(&sample, &call) == TD_OK, "%s", call.err.message);
    return sample.program.op.pass->can_join(&call.args, &call.args);
}

TD_TEST(a_program_shares_a_pass_only_if_reading_the_table_is_most_of_its_work)
{
    begin_table();
    ck_assert(can_share(false, NULL));
    ck_assert(!can_share(false, "reduce_sum"));
    ck_assert(!can_share(true, NULL));
    table.owner = NULL;
    ck_assert(!can_share(false, NULL));
}

TD_TEST(a_program_without_a_search_has_no_pass)
{
    struct sample sample;
    struct op_call call;
    sample_begin(&sample);
    sample_output(
        &sample, sample_step(&sample, "negative", "", OPERANDS(sample_input(&sample, query())), 1));
    ck_assert(sample_infer(&sample, &call) == TD_OK);
    ck_assert_ptr_null(sample.program.op.pass);
}
