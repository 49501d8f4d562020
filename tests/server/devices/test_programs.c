#include "kernels/program/inputs.h"
#include "kernels/program/plan.h"
#include "server/devices/support.h"
#include "tests/server/devices/batcher_setup.h"
#include "tests/support/sample_program.h"

#include <string.h>

/* A program of four launches: the sum over the rows `ids` of many tables of exp(w * row) + row. */
struct lookups {
    struct sample sample;
    struct op_call on_cpu;
    struct batch_call call;
};

enum { TABLES = 40 };

static void describe(struct lookups *lookups, struct td_tensor ids, const char *bounds)
{
    struct sample *sample = &lookups->sample;
    int tables[TABLES + 1];
    sample_begin(sample);
    const int rows = sample_input(sample, ids);
    const int w = sample_input(sample, tensor("float32[4] 0.001 -0.002 0.003 0.004"));
    for (int t = 0; t < TABLES; t++)
        tables[t] = sample_constant(sample, table_of(10, (float)t / 4));
    tables[TABLES] = END;
    const int all = sample_step(sample, "concat", "", tables, 1);
    const int picked = sample_step(sample, "gather", bounds, OPERANDS(all, NEXT, rows), 1);
    const int flat = sample_step(sample, "reshape", "shape=-1,4", OPERANDS(picked), 1);
    const int scaled = sample_step(sample, "multiply", "", OPERANDS(flat, NEXT, w), 1);
    const int exp = sample_step(sample, "exp", "", OPERANDS(scaled), 1);
    const int added = sample_step(sample, "add", "", OPERANDS(exp, NEXT, flat), 1);
    sample_output(sample, sample_step(sample, "reduce_sum", "axes=0", OPERANDS(added), 1));
    sample_output(sample, added);
}

static void run_on_cpu(struct lookups *lookups)
{
    struct op_call *call = &lookups->on_cpu;
    struct td_exec exec;
    td_exec_serial(&exec, &test_arena);
    EXPECT_OK(sample_infer(&lookups->sample, call), &call->err);
    for (int i = 0; i < call->args.n_outputs; i++)
        EXPECT_OK(td_tensor_alloc(&call->args.outputs[i], &test_arena, &call->err), &call->err);
    call->status = lookups->sample.program.op.run(&call->args, &exec, &call->err);
}

/* Submits the program. Its tables have a version. */
static void submit_program(struct setup *setup, struct lookups *lookups)
{
    const struct td_op *op = &lookups->sample.program.op;
    struct batch_call *call = &lookups->call;
    struct td_error err;
    td_program_describe(&lookups->sample.program, lookups->sample.inputs);
    batch_call_begin(call, op);
    for (int i = 0; i < op->n_inputs; i++) {
        call->inputs[i] = lookups->sample.tensors[i];
        call->args.inputs[i] = (struct td_operand){ &call->inputs[i], 1 };
    }
    batch_call_infer(call, op, 0);
    struct td_program_plan *plan = (struct td_program_plan *)(uintptr_t)call->args.plan;
    EXPECT_OK(td_program_find_inputs(plan, &call->arena, &err), &err);
    for (int i = 0; i < plan->n_inputs; i++)
        td_batch_tables_set(&call->item.resident, i, plan->inputs[i]->owner != NULL);
    submit(setup, call);
}

static void expect_same_outputs(const struct lookups *lookups)
{
    ck_assert_int_eq(lookups->call.args.n_outputs, lookups->on_cpu.args.n_outputs);
    for (int i = 0; i < lookups->on_cpu.args.n_outputs; i++) {
        const struct td_tensor *expected = &lookups->on_cpu.args.outputs[i],
                               *got = &lookups->call.args.outputs[i];
        ck_assert_uint_eq(got->bytes, expected->bytes);
        ck_assert_mem_eq(got->data, expected->data, expected->bytes);
    }
}

static void expect_copies(struct td_device_reference_counts before, uint64_t to_device)
{
    const struct td_device_reference_counts after = td_device_reference_counts();
    ck_assert_uint_eq(after.launches - before.launches, 4); /* reshape takes no launch */
    ck_assert_uint_eq(after.copies_to_device - before.copies_to_device, to_device);
    ck_assert_uint_eq(after.copies_to_host - before.copies_to_host, 1);
}

TD_TEST(inputs_are_copied_once_a_call_and_tables_once)
{
    static struct lookups lookups;
    struct setup setup = { 0 };
    setup_open(&setup, "");
    describe(&lookups, tensor("int64[2,2] 0 399 3 3"), "");
    run_on_cpu(&lookups);
    ck_assert_int_eq(lookups.on_cpu.status, TD_OK);
    for (int i = 0; i < 2; i++) {
        const struct td_device_reference_counts before = td_device_reference_counts();
        submit_program(&setup, &lookups);
        expect_status(&lookups.call, TD_OK);
        expect_same_outputs(&lookups);
        expect_copies(before, i == 0 ? TABLES + 1 : 1);
        batch_call_end(&lookups.call);
    }
    ck_assert_uint_eq(counts_of(&setup).tables, TABLES);
    setup_close(&setup);
}

TD_TEST(replaced_indices_name_their_step)
{
    static struct lookups lookups;
    struct setup setup = { 0 };
    setup_open(&setup, "");
    describe(&lookups, tensor("int64[3] 0 400 -1"), "bounds=zero");
    run_on_cpu(&lookups);
    submit_program(&setup, &lookups);
    expect_status(&lookups.call, TD_OK);
    expect_same_outputs(&lookups);
    ck_assert_int_eq(lookups.call.args.n_replaced_in, 1);
    ck_assert_int_eq(lookups.call.args.replaced_in[0].step, 1);
    ck_assert_int_eq(lookups.call.args.replaced_in[0].policy, TD_BOUNDS_ZERO);
    ck_assert_int_eq(lookups.call.args.replaced_in[0].replaced, 2);
    setup_close(&setup);
}

/* The caller then runs the program on the CPU, whose error names the step and the index. */
TD_TEST(a_bad_index_gives_the_program_back)
{
    static struct lookups lookups;
    struct setup setup = { 0 };
    setup_open(&setup, "");
    describe(&lookups, tensor("int64[3] 0 400 -1"), "");
    submit_program(&setup, &lookups);
    expect_status(&lookups.call, TD_INDEX_OUT_OF_BOUNDS);
    setup_close(&setup);
}

/* The kernel of the reference device checks the segments. */
TD_TEST(the_error_of_a_kernel_names_the_step)
{
    static struct lookups lookups;
    struct sample *sample = &lookups.sample;
    struct setup setup = { 0 };
    setup_open(&setup, "");
    sample_begin(sample);
    const int ids = sample_input(sample, tensor("int32[2] 1 3"));
    const int x = sample_input(sample, tensor("float32[2] 1 2"));
    const int y = sample_step(sample, "negative", "", OPERANDS(x), 1);
    sample_output(sample, sample_step(sample, "unsorted_segment_sum", "num_segments=3",
                                      OPERANDS(y, NEXT, ids), 1));
    submit_program(&setup, &lookups);
    expect_status(&lookups.call, TD_INDEX_OUT_OF_BOUNDS);
    ck_assert(lookups.call.err.has_step);
    ck_assert_int_eq(lookups.call.err.step, 1);
    setup_close(&setup);
}

/* ---- programs without kernels ---------------------------------------------------------------- */

static const struct td_device_api *device; /* without a kernel for exp */

static bool supports_all_but_exp(const struct td_op *op, const struct td_op_args *args)
{
    return strcmp(op->name, "exp") != 0 && td_device_reference()->supports(op, args);
}

static void expect_refused(struct sample *sample, int step, const char *why)
{
    struct op_call call;
    struct td_error err;
    EXPECT_OK(sample_infer(sample, &call), &call.err);
    struct td_program_plan *plan = (struct td_program_plan *)(uintptr_t)call.args.plan;
    EXPECT_OK(td_program_find_inputs(plan, &test_arena, &err), &err);
    ck_assert_int_eq(td_support_check(device, &sample->program.op, &call.args, &err),
                     TD_UNSUPPORTED_DTYPE);
    ck_assert_int_eq(err.step, step);
    EXPECT(strstr(err.message, why), "%s", err.message);
}

TD_TEST(a_program_is_refused_with_the_step_and_the_reason)
{
    static struct lookups lookups;
    struct sample sample;
    struct td_device_api api = *td_device_reference();
    api.supports = supports_all_but_exp;
    device = &api;
    describe(&lookups, tensor("int64[1] 0"), "");
    expect_refused(&lookups.sample, 4, "no kernel for exp with x = float32[1,4]");

    sample_begin(&sample);
    const int x = sample_input(&sample, tensor("int32[3] 0 2 2"));
    const int ends = sample_step(&sample, "cumsum", "", OPERANDS(x), 1);
    const int table = sample_constant(&sample, tensor("float32[3,1] 1 2 3"));
    sample_output(&sample, sample_step(&sample, "embedding_bag", "",
                                       OPERANDS(table, NEXT, x, NEXT, ends), 1));
    expect_refused(&sample, 1, "only the CPU can check the values of embedding_bag");

    sample_begin(&sample);
    const int part = sample_step(&sample, "negative", "",
                                 OPERANDS(sample_input(&sample, tensor("int32[2] 0 -1"))), 1);
    const int halves = sample_step(&sample, "dynamic_partition", "num_partitions=2",
                                   OPERANDS(part, NEXT, part), 2);
    sample_output(&sample, halves);
    sample_output(&sample, halves + 1);
    expect_refused(&sample, 1, "values that the program computes decide the shapes");

    sample_begin(&sample);
    const int n = sample_input(&sample, tensor("int32[2] 4 6"));
    const int divisor = sample_step(&sample, "negative", "", OPERANDS(n), 1);
    sample_output(&sample, sample_step(&sample, "floor_mod", "", OPERANDS(n, NEXT, divisor), 1));
    expect_refused(&sample, 1, "only the CPU can check the values of floor_mod");
}
