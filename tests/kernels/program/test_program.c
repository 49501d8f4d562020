#include "kernels/op_check.h"
#include "kernels/program/plan.h"
#include "tests/support/op_call.h"
#include "tests/support/random.h"
#include "tests/support/sample_program.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"
#include "tests/support/threads.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- Results of a call ------------------------------------------------------------------- */

static void run(struct sample *sample, struct op_call *call, struct td_exec *exec)
{
    struct td_exec serial;
    if (sample_infer(sample, call) != TD_OK)
        return;
    for (int i = 0; i < call->args.n_outputs && call->status == TD_OK; i++)
        call->status = td_tensor_alloc(&call->args.outputs[i], &test_arena, &call->err);
    if (!exec) {
        td_exec_serial(&serial, &test_arena);
        exec = &serial;
    }
    exec->arena = &test_arena;
    if (call->status == TD_OK)
        call->status = sample->program.op.run(&call->args, exec, &call->err);
}

static const struct td_program_plan *plan_of(const struct op_call *call)
{
    return call->args.plan;
}

/* ---- Results ----------------------------------------------------------------------------- */

TD_TEST(the_chain_of_the_documentation_of_dynamic_partition)
{
    struct sample sample;
    struct op_call call;
    sample_begin(&sample);
    const int x = sample_input(&sample, tensor("float32[6] 0.1 -1 5.2 4.3 -1 7.4"));
    const int range = sample_input(&sample, tensor("int32[6] 0..5"));
    const int minus_one = sample_constant(&sample, tensor("float32[] -1"));
    const int one = sample_constant(&sample, tensor("float32[] 1"));
    const int keep = sample_step(&sample, "not_equal", "", OPERANDS(x, NEXT, minus_one), 1);
    const int part = sample_step(&sample, "cast", "dtype=int32", OPERANDS(keep), 1);
    const int data =
        sample_step(&sample, "dynamic_partition", "num_partitions=2", OPERANDS(x, NEXT, part), 2);
    const int raised = sample_step(&sample, "add", "", OPERANDS(data + 1, NEXT, one), 1);
    const int at = sample_step(&sample, "dynamic_partition", "num_partitions=2",
                               OPERANDS(range, NEXT, part), 2);
    const int result =
        sample_step(&sample, "dynamic_stitch", "", OPERANDS(at, at + 1, NEXT, data, raised), 1);
    sample_output(&sample, result);
    run(&sample, &call, NULL);
    ck_assert_msg(call.status == TD_OK, "%s", call.err.message);
    expect_tensor(&call.args.outputs[0], "float32[6] 1.1 -1 6.2 5.3 -1 8.4", "stitched");
    /* The shapes after the partitions depend on values. */
    ck_assert(plan_of(&call)->steps[1].is_inferred);
    ck_assert(plan_of(&call)->steps[0].last == 1);
}

TD_TEST(a_result_can_be_used_twice_in_a_step)
{
    struct sample sample;
    struct op_call call;
    sample_begin(&sample);
    const int x = sample_input(&sample, tensor("float32[3] 1 2 3"));
    const int a = sample_step(&sample, "add", "", OPERANDS(x, NEXT, x), 1);
    const int b = sample_step(&sample, "multiply", "", OPERANDS(a, NEXT, a), 1);
    sample_output(&sample, b);
    sample_output(&sample, a);
    run(&sample, &call, NULL);
    ck_assert_msg(call.status == TD_OK, "%s", call.err.message);
    expect_tensor(&call.args.outputs[0], "float32[3] 4 16 36", "b");
    expect_tensor(&call.args.outputs[1], "float32[3] 2 4 6", "a");
}

TD_TEST(keys_that_are_also_data_keep_their_dtype)
{
    struct sample sample;
    struct op_call call;
    sample_begin(&sample);
    const int ids = sample_input(&sample, tensor("int32[3] 3 1 2"));
    const int keys = sample_constant(&sample, tensor("int64[3] 1 2 3"));
    sample_output(&sample, sample_step(&sample, "find", "", OPERANDS(keys, NEXT, ids), 1));
    sample_output(&sample, sample_step(&sample, "negative", "", OPERANDS(ids), 1));
    run(&sample, &call, NULL);
    ck_assert_msg(call.status == TD_OK, "%s", call.err.message);
    expect_tensor(&call.args.outputs[0], "int64[3] 2 0 1", "found");
    expect_tensor(&call.args.outputs[1], "int32[3] -3 -1 -2", "negative");
}

TD_TEST(values_that_become_indices_after_a_reshape_are_indices)
{
    struct sample sample;
    struct op_call call;
    sample_begin(&sample);
    const int given = sample_input(&sample, tensor("int32[2,1] 1 0"));
    const int other = sample_input(&sample, tensor("int32[2] 1 0"));
    const int constant = sample_constant(&sample, tensor("int32[1,2] 0 1"));
    const int flat = sample_step(&sample, "reshape", "shape=-1", OPERANDS(given), 1);
    const int flat2 = sample_step(&sample, "reshape", "shape=-1", OPERANDS(constant), 1);
    const int a = sample_step(&sample, "gather", "", OPERANDS(other, NEXT, flat), 1);
    sample_output(&sample, sample_step(&sample, "gather", "", OPERANDS(a, NEXT, flat2), 1));
    run(&sample, &call, NULL);
    ck_assert_msg(call.status == TD_OK, "%s", call.err.message);
    expect_tensor(&call.args.outputs[0], "int32[2] 0 1", "gathered");
    ck_assert_int_eq(sample.inputs[0].role, TD_ROLE_INDEX);
    ck_assert_int_eq(sample.inputs[1].role, TD_ROLE_DATA);
    ck_assert(sample.values[constant].is_index);
}

TD_TEST(strings_pass_through_steps)
{
    struct sample sample;
    struct op_call call;
    sample_begin(&sample);
    const int x = sample_input(&sample, tensor("string[3] 'a' 'bb' 'c'"));
    const int mask = sample_input(&sample, tensor("bool[3] 1 0 1"));
    const int other = sample_constant(&sample, tensor("string[] 'none'"));
    const int order = sample_constant(&sample, tensor("int32[2] 1 2"));
    const int chosen = sample_step(&sample, "where", "", OPERANDS(mask, NEXT, x, NEXT, other), 1);
    const int picked = sample_step(&sample, "gather", "", OPERANDS(chosen, NEXT, order), 1);
    sample_output(&sample, picked);
    run(&sample, &call, NULL);
    ck_assert_msg(call.status == TD_OK, "%s", call.err.message);
    expect_tensor(&call.args.outputs[0], "string[2] 'none' 'c'", "picked");
}

/* search returns keys only if it gets keys. */
static int add_search(struct sample *sample)
{
    const int params = sample_input(sample, tensor("float32[2,1] 1 2"));
    const int queries = sample_input(sample, tensor("float32[1] 1"));
    return sample_step(sample, "search", "k=1", OPERANDS(params, NEXT, queries), 3);
}

TD_TEST(a_step_can_leave_out_an_output_that_is_not_used)
{
    struct sample sample;
    struct op_call call;
    sample_begin(&sample);
    sample_output(&sample, add_search(&sample));
    run(&sample, &call, NULL);
    ck_assert_msg(call.status == TD_OK, "%s", call.err.message);
    expect_tensor(&call.args.outputs[0], "float32[1] 2", "scores");
}

TD_TEST(an_output_that_a_step_leaves_out_cannot_be_used)
{
    struct sample sample;
    struct op_call call;
    sample_begin(&sample);
    const int scores = add_search(&sample);
    const int y = sample_step(&sample, "abs", "", OPERANDS(scores + 2), 1);
    sample_output(&sample, y);
    ck_assert_int_eq(sample_infer(&sample, &call), TD_MALFORMED_REQUEST);
    ck_assert_str_eq(call.err.message, "search does not return keys with these inputs");
    ck_assert_str_eq(call.err.pointer, "/steps/0/as/keys");
}

/* ---- Memory ------------------------------------------------------------------------------ */

TD_TEST(results_of_a_chain_have_no_memory)
{
    struct sample sample;
    struct op_call call;
    sample_begin(&sample);
    int x = sample_input(&sample, tensor("float32[4] 1 2 3 4"));
    for (int i = 0; i < 8; i++)
        x = sample_step(&sample, "exp", "", OPERANDS(x), 1);
    sample_output(&sample, x);
    ck_assert_int_eq(sample_infer(&sample, &call), TD_OK);
    ck_assert_uint_eq(plan_of(&call)->block_bytes, 0);
    ck_assert_int_eq(plan_of(&call)->steps[0].last, 7);
}

TD_TEST(a_result_takes_the_place_of_one_that_is_no_longer_used)
{
    struct sample sample;
    struct op_call call;
    sample_begin(&sample);
    const int x = sample_input(&sample, tensor("float32[64,64] 0..4095"));
    const int rows = sample_constant(&sample, tensor("int32[64] 0..63"));
    int at = x;
    for (int i = 0; i < 6; i++)
        at = sample_step(&sample, "gather", "", OPERANDS(at, NEXT, rows), 1);
    sample_output(&sample, at);
    ck_assert_int_eq(sample_infer(&sample, &call), TD_OK);
    ck_assert_uint_eq(plan_of(&call)->block_bytes, sizeof(float) * 2 * 64 * 64);
    ck_assert_uint_eq(sample.program.op.cost(&call.args).workspace >= sizeof(float) * 2 * 64 * 64,
                      true);
}

TD_TEST(a_chain_keeps_a_result_that_a_later_step_uses)
{
    struct sample sample;
    struct op_call call;
    sample_begin(&sample);
    const int x = sample_input(&sample, tensor("float32[2] 1 2"));
    const int rows = sample_constant(&sample, tensor("int32[1] 1"));
    const int a = sample_step(&sample, "negative", "", OPERANDS(x), 1);
    const int b = sample_step(&sample, "square", "", OPERANDS(a), 1);
    const int c = sample_step(&sample, "gather", "", OPERANDS(a, NEXT, rows), 1);
    sample_output(&sample, b);
    sample_output(&sample, c);
    run(&sample, &call, NULL);
    ck_assert_msg(call.status == TD_OK, "%s", call.err.message);
    expect_tensor(&call.args.outputs[0], "float32[2] 1 4", "b");
    expect_tensor(&call.args.outputs[1], "float32[1] -2", "c");
}

TD_TEST(a_chain_streams_results_that_do_not_fit_the_cache)
{
    const struct td_shape length = { .rank = 1, .dim = { (32 << 20) + 45 } };
    struct sample sample;
    struct op_call call;
    struct thread_exec exec;
    const struct td_tensor data = random_tensor(TD_DTYPE_UINT8, &length);
    thread_exec_init(&exec, 2, 0);
    sample_begin(&sample);
    const int x = sample_input(&sample, data);
    const int a = sample_step(&sample, "negative", "", OPERANDS(x), 1);
    const int b = sample_step(&sample, "add", "", OPERANDS(a, NEXT, a), 1);
    const int c = sample_step(&sample, "subtract", "", OPERANDS(b, NEXT, a), 1);
    sample_output(&sample, a);
    sample_output(&sample, c);
    run(&sample, &call, &exec.exec);
    ck_assert_msg(call.status == TD_OK, "%s", call.err.message);
    ck_assert_int_eq(plan_of(&call)->steps[0].last, 2);
    int64_t n_wrong = 0;
    for (int64_t i = 0; i < data.numel; i++) {
        const uint8_t negative = (uint8_t) - ((const uint8_t *)data.data)[i];
        n_wrong += ((const uint8_t *)call.args.outputs[0].data)[i] != negative ||
                   ((const uint8_t *)call.args.outputs[1].data)[i] != negative;
    }
    ck_assert_int_eq(n_wrong, 0);
}

TD_TEST(a_reshaped_result_of_unknown_size_stays_until_its_last_use)
{
    struct sample sample;
    struct op_call call;
    sample_begin(&sample);
    const int x = sample_input(&sample, tensor("float32[3] 1 2 3"));
    const int p = sample_input(&sample, tensor("int64[3] 1 0 1"));
    const int rows = sample_constant(&sample, tensor("int32[2] 1 0"));
    const int part = sample_step(&sample, "cast", "dtype=int32", OPERANDS(p), 1);
    const int parts =
        sample_step(&sample, "dynamic_partition", "num_partitions=2", OPERANDS(x, NEXT, part), 2);
    const int column = sample_step(&sample, "expand_dims", "axis=1", OPERANDS(parts + 1), 1);
    const int other =
        sample_step(&sample, "dynamic_partition", "num_partitions=2", OPERANDS(x, NEXT, part), 2);
    const int y = sample_step(&sample, "gather", "", OPERANDS(column, NEXT, rows), 1);
    sample_output(&sample, y);
    sample_output(&sample, other);
    run(&sample, &call, NULL);
    ck_assert_msg(call.status == TD_OK, "%s", call.err.message);
    expect_tensor(&call.args.outputs[0], "float32[2,1] 3 1", "reshaped");
}

TD_TEST(without_memory_a_program_ends_cleanly)
{
    enum { ROOM = 16384, STEP = 64 };
    _Alignas(64) static char room_of[ROOM];
    for (size_t size = 0;; size += STEP) {
        struct sample sample;
        struct op_call call;
        struct td_arena arena;
        struct td_exec exec;
        ck_assert_uint_le(size, ROOM);
        sample_begin(&sample);
        const int x = sample_input(&sample, tensor("float32[2] 1 2"));
        const int rows = sample_constant(&sample, tensor("int32[2] 1 0"));
        const int y = sample_step(&sample, "gather", "", OPERANDS(x, NEXT, rows), 1);
        const int z = sample_step(&sample, "gather", "", OPERANDS(y, NEXT, rows), 1);
        sample_output(&sample, z);
        ck_assert_int_eq(sample_infer(&sample, &call), TD_OK);
        ck_assert_int_eq(td_tensor_alloc(&call.args.outputs[0], &test_arena, &call.err), TD_OK);
        td_arena_init(&arena, room_of, size, &no_memory);
        td_exec_serial(&exec, &arena);
        call.status = sample.program.op.run(&call.args, &exec, &call.err);
        td_arena_reset(&arena);
        if (call.status == TD_OK)
            break;
        ck_assert_str_eq(call.err.message, "none");
    }
}

/* ---- Errors ------------------------------------------------------------------------------ */

TD_TEST(an_error_names_its_step)
{
    struct sample sample;
    struct op_call call;
    sample_begin(&sample);
    const int x = sample_input(&sample, tensor("float32[2] 1 2"));
    const int y = sample_input(&sample, tensor("float32[3] 1 2 3"));
    const int a = sample_step(&sample, "negative", "", OPERANDS(x), 1);
    const int b = sample_step(&sample, "add", "", OPERANDS(a, NEXT, y), 1);
    sample_output(&sample, b);
    ck_assert_int_eq(sample_infer(&sample, &call), TD_SHAPE_MISMATCH);
    ck_assert(call.err.has_step);
    ck_assert_int_eq(call.err.step, 1);
    ck_assert_str_eq(call.err.as, "as");
    ck_assert_str_eq(call.err.op, "add");
}

TD_TEST(an_error_while_a_program_runs_names_its_step)
{
    struct sample sample;
    struct op_call call;
    sample_begin(&sample);
    const int x = sample_input(&sample, tensor("int32[2] 1 2"));
    const int two = sample_constant(&sample, tensor("int32[] 2"));
    const int z = sample_step(&sample, "subtract", "", OPERANDS(x, NEXT, two), 1);
    const int y = sample_step(&sample, "floor_mod", "", OPERANDS(x, NEXT, z), 1);
    sample_output(&sample, y);
    run(&sample, &call, NULL);
    ck_assert_int_eq(call.status, TD_DIVISION_BY_ZERO);
    ck_assert_int_eq(call.err.step, 1);
    ck_assert_int_eq(call.err.position[0], 1);
}

TD_TEST(a_list_must_have_as_many_tensors_as_names)
{
    struct sample sample;
    struct op_call call;
    sample_begin(&sample);
    const int x = sample_input(&sample, tensor("float32[2] 1 2"));
    const int p = sample_input(&sample, tensor("int32[2] 0 2"));
    const int a =
        sample_step(&sample, "dynamic_partition", "num_partitions=3", OPERANDS(x, NEXT, p), 2);
    sample_output(&sample, a);
    ck_assert_int_eq(sample_infer(&sample, &call), TD_MALFORMED_REQUEST);
    ck_assert_str_eq(call.err.message, "the step returns 3 tensors; as has 2 names");
    ck_assert_str_eq(call.err.pointer, "/steps/0/as");
}

TD_TEST(a_deadline_ends_a_program_between_steps)
{
    struct sample sample;
    struct op_call call;
    struct thread_exec exec;
    sample_begin(&sample);
    const int x = sample_input(&sample, tensor("float32[2] 1 2"));
    const int rows = sample_constant(&sample, tensor("int32[2] 0 1"));
    int at = x;
    for (int i = 0; i < 4; i++)
        at = sample_step(&sample, "gather", "", OPERANDS(at, NEXT, rows), 1);
    sample_output(&sample, at);
    for (int allowed = 0;; allowed++) {
        thread_exec_init(&exec, 1, 0);
        exec.ranges_allowed = allowed;
        run(&sample, &call, &exec.exec);
        if (call.status == TD_OK)
            break;
        ck_assert_int_eq(call.status, TD_DEADLINE_EXCEEDED);
        ck_assert(call.err.has_step);
        ck_assert_int_lt(allowed, 100);
    }
}

TD_TEST(a_deadline_ends_a_program_between_steps_without_loops)
{
    struct sample sample;
    struct op_call call;
    struct thread_exec exec;
    sample_begin(&sample);
    int at = sample_input(&sample, tensor("float32[2] 1 2"));
    for (int i = 0; i < 3; i++)
        at = sample_step(&sample, "expand_dims", "axis=0", OPERANDS(at), 1);
    sample_output(&sample, at);
    for (int allowed = 0; allowed < 3; allowed++) {
        thread_exec_init(&exec, 1, 0);
        exec.ranges_allowed = allowed;
        run(&sample, &call, &exec.exec);
        ck_assert_int_eq(call.status, TD_DEADLINE_EXCEEDED);
        ck_assert_int_eq(call.err.step, allowed);
    }
}

/* ---- Against single calls ---------------------------------------------------------------- */

/* A random program, and the result of each value when each step is a call of its own. */
struct random_program {
    struct sample sample;
    struct td_tensor results[SAMPLE_MOST];
};

static const char *const unary[] = { "negative", "abs", "square", "exp", "tanh", "relu", "floor" };
static const char *const binary[] = { "add", "subtract", "multiply", "maximum", "minimum" };
static const td_dtype dtypes[] = { TD_DTYPE_FLOAT32, TD_DTYPE_FLOAT16, TD_DTYPE_INT32,
                                   TD_DTYPE_FLOAT64 };

static struct td_tensor numbers(td_dtype dtype, const struct td_shape *dims)
{
    struct op_call call;
    struct td_tensor small = random_tensor(TD_DTYPE_INT8, dims);
    char attrs[64];
    snprintf(attrs, sizeof(attrs), "dtype=%s", td_dtype_info(dtype)->name);
    call_begin(&call, "cast", attrs, small, small);
    call_run(&call, "cast", NULL);
    return call.args.outputs[0];
}

static int add_random_input(struct random_program *random, const struct td_shape *dims)
{
    const struct td_tensor values = numbers(dtypes[random_below(COUNT_OF(dtypes))], dims);
    const bool constant = random_below(3) == 0 && random->sample.program.op.n_inputs > 0;
    const int value = constant ? sample_constant(&random->sample, values) : -1;
    if (constant)
        random->results[value] = values;
    return value;
}

/* Runs a step as a call of its own. Returns false, and removes the step, if the op refuses it. */
static bool try_step(struct random_program *random, const char *op, const char *attrs,
                     const int *operands, int n_operands, int n_results)
{
    struct op_call call;
    struct td_tensor none = { 0 };
    int with_ends[8], n = 0;
    call_begin(&call, op, attrs, random->results[operands[0]],
               n_operands > 1 ? random->results[operands[1]] : none);
    if (n_operands == 1)
        call.args.inputs[1].count = 0;
    if (n_operands == 3) {
        struct td_tensor *third = td_arena_alloc(&test_arena, 1, sizeof(*third), TD_IGNORED);
        *third = random->results[operands[2]];
        call.args.inputs[2] = (struct td_operand){ third, 1 };
    }
    call_run(&call, op, NULL);
    if (call.status != TD_OK)
        return false;
    for (int i = 0; i < n_operands; i++) {
        with_ends[n++] = operands[i];
        with_ends[n++] = i + 1 < n_operands ? NEXT : END;
    }
    const int first = sample_step(&random->sample, op, attrs, with_ends, n_results);
    for (int r = 0; r < n_results; r++)
        random->results[first + r] = call.args.outputs[r];
    return true;
}

static void add_random_step(struct random_program *random)
{
    const int n = random->sample.program.n_values;
    const int operands[3] = { random_below(n), random_below(n), random_below(n) };
    char attrs[64] = "";
    switch (random_below(7)) {
    case 0:
    case 1:
        (void)try_step(random, unary[random_below(COUNT_OF(unary))], "", operands, 1, 1);
        break;
    case 2:
    case 3:
        (void)try_step(random, binary[random_below(COUNT_OF(binary))], "", operands, 2, 1);
        break;
    case 4:
        snprintf(attrs, sizeof(attrs), "dtype=%s",
                 td_dtype_info(dtypes[random_below(COUNT_OF(dtypes))])->name);
        (void)try_step(random, "cast", attrs, operands, 1, 1);
        break;
    case 5:
        (void)try_step(random, "top_k", "k=1", operands, 1, 2);
        break;
    default:
        (void)try_step(random, "clip", "", operands, 3, 1);
    }
}

static void expect_same_results(struct random_program *random, const char *says)
{
    struct op_call call;
    struct thread_exec exec;
    thread_exec_init(&exec, 1 + random_below(3), random_below(2) ? 0 : 100);
    exec.exec.isa = (td_isa)random_below(TD_ISA_COUNT);
    run(&random->sample, &call, &exec.exec);
    ck_assert_msg(call.status == TD_OK, "%s: %s", says, call.err.message);
    for (int i = 0; i < call.args.n_outputs; i++)
        expect_same_tensor(&call.args.outputs[i], &random->results[random->sample.outputs[i]],
                           says);
}

TD_TEST(a_program_gives_the_bits_of_single_calls)
{
    for (int seed = 0; seed < 300 * test_effort(); seed++) {
        struct random_program random;
        char says[32];
        random_seed((uint64_t)seed);
        td_arena_reset(&test_arena);
        sample_begin(&random.sample);
        snprintf(says, sizeof(says), "seed %d", seed);
        const struct td_shape dims = {
            .rank = 2, .dim = { 1 + random_below(5), random_below(4) ? 1 + random_below(40) : 3000 }
        };
        const struct td_shape row = { .rank = 1, .dim = { dims.dim[1] } };
        const int n_inputs = 1 + random_below(3);
        for (int i = 0; i < n_inputs; i++) {
            const struct td_tensor values =
                numbers(dtypes[random_below(COUNT_OF(dtypes))], random_below(3) ? &dims : &row);
            random.results[sample_input(&random.sample, values)] = values;
        }
        (void)add_random_input(&random, &row);
        for (int i = 0; i < 14; i++)
            add_random_step(&random);
        const int n = random.sample.program.n_values;
        for (int v = 0; v < n; v++)
            if (random.sample.values[v].step >= 0 && (v == n - 1 || random_below(4) == 0))
                sample_output(&random.sample, v);
        if (random.sample.program.op.n_outputs > 0)
            expect_same_results(&random, says);
    }
}
