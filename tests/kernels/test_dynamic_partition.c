#include "kernels/dynamic_partition/dynamic_partition.h"
#include "kernels/op_check.h"
#include "tests/support/op_call.h"
#include "tests/support/random.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"
#include "tests/support/threads.h"

#include <stdio.h>
#include <string.h>

#define OP "dynamic_partition"

/* Beside those of tests/conformance/cases. */
static const struct {
    const char *case_name;
    const char *attrs;
    const char *data, *partitions;
    const char *outputs[4];
} results[] = {
    { "a matrix of numbers", "num_partitions=3", "int8[2,2,2] 0..7", "int16[2,2] 2 0 0 2",
      LIST("int8[2,2] 2 3 4 5", "int8[0,2]", "int8[2,2] 0 1 6 7") },
    { "strings", "num_partitions=4", "string[4] 'a' '' '\\x00' 'bc'", "int32[4] 3 1 3 0",
      LIST("string[1] 'bc'", "string[1] ''", "string[0]", "string[2] 'a' '\\x00'") },
    { "outputs of rank 16", "num_partitions=1", "int32[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1] 5",
      "int32[] 0", LIST("int32[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1] 5") },
    { "no strings", "num_partitions=2", "string[0]", "int32[0]", LIST("string[0]", "string[0]") },
    { "dimensions whose product overflows, besides a 0", "num_partitions=1",
      "int8[1,1099511627776,1099511627776,0]", "int32[1] 0",
      LIST("int8[1,1099511627776,1099511627776,0]") },
};

TD_TEST_EACH(partition_has_outputs, results)
{
    struct op_call call;
    call_op(&call, OP, results[_i].attrs, tensor(results[_i].data), tensor(results[_i].partitions),
            NULL);
    ck_assert_msg(call.status == TD_OK, "%s: %s", results[_i].case_name, call.err.message);
    int n = 0;
    for (; n < 4 && results[_i].outputs[n]; n++) {
        ck_assert_int_lt(n, call.args.n_outputs);
        expect_tensor(&call.args.outputs[n], results[_i].outputs[n], results[_i].case_name);
    }
    ck_assert_int_eq(call.args.n_outputs, n);
}

static const struct {
    const char *case_name;
    const char *attrs;
    const char *data, *partitions;
    td_status status;
    const char *message, *input, *attribute;
    int n_shapes;
} refusals[] = {
    { "num_partitions is missing", "", "float32[2] 0 0", "int32[2] 0 0", TD_INVALID_ARGUMENT,
      "num_partitions is missing; dynamic_partition requires it", "", "num_partitions", 0 },
    { "zero outputs, reported before a bad number", "num_partitions=0", "float32[1] 0",
      "int32[1] 5", TD_INVALID_ARGUMENT, "num_partitions is 0; expected 1 or more", "",
      "num_partitions", 0 },
    { "a negative number of outputs", "num_partitions=-1", "float32[1] 0", "int32[1] 0",
      TD_INVALID_ARGUMENT, "num_partitions is -1; expected 1 or more", "", "num_partitions", 0 },
    { "too many outputs", "num_partitions=16385", "float32[1] 0", "int32[1] 0", TD_RESOURCE_LIMIT,
      "num_partitions needs 16385 outputs; the limit is 16384", "", "num_partitions", 0 },
    { "INT64_MAX outputs", "num_partitions=9223372036854775807", "float32[1] 0", "int32[1] 0",
      TD_RESOURCE_LIMIT, "num_partitions needs 9223372036854775807 outputs; the limit is 16384", "",
      "num_partitions", 0 },
    { "different shapes, reported before a bad number", "num_partitions=2", "float32[3] 0 0 0",
      "int32[2] 0 -1", TD_SHAPE_MISMATCH,
      "data [3] does not start with the shape of partitions, [2]", "data", "", 2 },
    { "partitions of higher rank", "num_partitions=2", "float32[3] 0 0 0", "int32[1,3] 0 0 0",
      TD_SHAPE_MISMATCH, "data [3] does not start with the shape of partitions, [1,3]", "data", "",
      2 },
    { "floating-point partitions", "num_partitions=2", "float32[1] 0", "float32[1] 0",
      TD_UNSUPPORTED_DTYPE,
      "partitions has dtype float32; expected int16, int32 or int64; pass integers as int64",
      "partitions", "", 0 },
    { "an output of rank 17, reported before a bad number", "num_partitions=2",
      "float32[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1] 0", "int32[] 2", TD_RESOURCE_LIMIT,
      "output needs 17 dimensions; the limit is 16", "", "", 0 },
};

TD_TEST_EACH(infer_refuses, refusals)
{
    struct op_call call;
    call_begin(&call, OP, refusals[_i].attrs, tensor(refusals[_i].data),
               tensor(refusals[_i].partitions));
    call_infer(&call, OP);
    expect_refusal(&call, refusals[_i].status, refusals[_i].message, refusals[_i].input,
                   refusals[_i].attribute, refusals[_i].case_name);
    ck_assert_int_eq(call.err.n_shapes, refusals[_i].n_shapes);
    call.status = td_op_infer(&td_op_dynamic_partition, &call.args, &test_arena, TD_IGNORED);
    ck_assert_int_eq(call.status, refusals[_i].status);
}

static const struct {
    const char *case_name;
    const char *data, *partitions;
    const char *message;
    int bad_count;
} out_of_bounds[] = {
    { "too large", "float32[3] 0 0 0", "int32[3] 0 1 3", "partitions[2] = 3 is not in [0, 3)", 1 },
    { "negative, the first of two", "int8[1,3,2] 0..5", "int16[1,3] 1 -1 3",
      "partitions[0,1] = -1 is not in [0, 3)", 2 },
    { "a scalar has no position", "string[3] '' '' ''", "int32[] 7",
      "partitions = 7 is not in [0, 3)", 1 },
    { "2^32 is not 0", "int8[1] 0", "int64[1] 4294967296",
      "partitions[0] = 4294967296 is not in [0, 3)", 1 },
    { "of rows without elements", "int8[2,0]", "int32[2] 0 3", "partitions[1] = 3 is not in [0, 3)",
      1 },
};

TD_TEST_EACH(infer_refuses_the_first_number_out_of_bounds, out_of_bounds)
{
    struct op_call call;
    call_begin(&call, OP, "num_partitions=3", tensor(out_of_bounds[_i].data),
               tensor(out_of_bounds[_i].partitions));
    call_infer(&call, OP);
    expect_index_error(&call.err, "partitions", out_of_bounds[_i].message,
                       out_of_bounds[_i].bad_count);
    ck_assert_int_eq(call.err.axis, 0);
}

TD_TEST(there_may_be_16384_outputs)
{
    struct op_call call;
    call_op(&call, OP, "num_partitions=16384", tensor("int32[3] 7 8 9"),
            tensor("int32[3] 16383 0 16383"), NULL);
    ck_assert_int_eq(call.status, TD_OK);
    ck_assert_int_eq(call.args.n_outputs, 16384);
    expect_tensor(&call.args.outputs[0], "int32[1] 8", "first");
    for (int p = 1; p < 16383; p++)
        EXPECT(call.args.outputs[p].numel == 0, "output %d is not empty", p);
    expect_tensor(&call.args.outputs[16383], "int32[2] 7 9", "last");
}

TD_TEST(cost_follows_from_shapes)
{
    struct op_call call;
    call_begin(&call, OP, "num_partitions=2", tensor("float32[4,2] 0..7"),
               tensor("int64[4] 0 1 1 1"));
    call_infer(&call, OP);
    struct td_cost cost = td_op_dynamic_partition.cost(&call.args);
    ck_assert_uint_eq(cost.bytes_read, 32 + 32);
    ck_assert_uint_eq(cost.workspace, 2 * sizeof(char *));
    ck_assert_uint_eq(cost.bytes_written, 32 + 2 * sizeof(struct td_tensor) + cost.workspace);
    ck_assert_uint_eq(cost.random_reads, 4);
}

TD_TEST(strings_need_scratch_for_row_numbers)
{
    struct op_call call;
    call_begin(&call, OP, "num_partitions=2", tensor("string[4] 'a' 'b' 'c' 'd'"),
               tensor("int32[4] 0 1 1 1"));
    call_infer(&call, OP);
    ck_assert_uint_eq(td_op_dynamic_partition.cost(&call.args).workspace,
                      2 * sizeof(char *) + 4 * sizeof(int64_t));
}

TD_TEST(rows_without_elements_need_no_scratch_per_row)
{
    for (int i = 0; i < 2; i++) {
        struct op_call call;
        call_begin(&call, OP, "num_partitions=2", tensor(i ? "string[4,0]" : "float32[4,0]"),
                   tensor("int32[4] 0 1 1 1"));
        call_infer(&call, OP);
        ck_assert_uint_eq(td_op_dynamic_partition.cost(&call.args).workspace, 2 * sizeof(char *));
    }
}

/* ---- Against the definition, row by row -------------------------------------------------- */

static void expect_partitioned(const struct td_tensor *data, const struct td_tensor *partitions,
                               const struct op_call *call, const char *what)
{
    int64_t n = partitions->numel, width = n > 0 ? data->numel / n : 0;
    int64_t next[64] = { 0 };
    ck_assert_int_le(call->args.n_outputs, 64);
    for (int64_t i = 0; i < n; i++) {
        int64_t p = td_tensor_index_at(partitions, i), row = next[p]++;
        const struct td_tensor *out = &call->args.outputs[p];
        EXPECT(row < out->shape.dim[0], "%s: output %lld is too short", what, (long long)p);
        for (int64_t e = 0; e < width; e++) {
            size_t size, want_size;
            const void *got = tensor_element(out, row * width + e, &size);
            const void *want = tensor_element(data, i * width + e, &want_size);
            EXPECT(size == want_size && memcmp(got, want, size) == 0, "%s: row %lld element %lld",
                   what, (long long)i, (long long)e);
        }
    }
    for (int p = 0; p < call->args.n_outputs; p++) {
        const struct td_tensor *out = &call->args.outputs[p];
        struct td_shape shape = { .rank = 1, .dim = { next[p] } };
        ck_assert(td_shape_append(&shape, &data->shape, partitions->shape.rank, data->shape.rank));
        EXPECT(out->dtype == data->dtype && td_shape_equal(&out->shape, &shape),
               "%s: shape of output %d", what, p);
    }
}

static struct td_tensor random_numbers(const struct td_shape *shape, int n_partitions)
{
    static const td_dtype dtypes[] = { TD_DTYPE_INT16, TD_DTYPE_INT32, TD_DTYPE_INT64 };
    struct td_tensor numbers = random_tensor(dtypes[random_below(3)], shape);
    size_t size = td_dtype_info(numbers.dtype)->size;
    for (int64_t i = 0; i < numbers.numel; i++) {
        int64_t number = random_below(n_partitions);
        memcpy((char *)numbers.data + (size_t)i * size, &number, size);
    }
    return numbers;
}

/* Stitches the rows of all outputs back to their positions in data. */
static void expect_round_trip(const struct td_tensor *data, const struct td_tensor *partitions,
                              const struct op_call *parted, struct td_exec *exec, const char *what)
{
    struct td_tensor where[64];
    int64_t next[64] = { 0 }, n = partitions->numel;
    for (int p = 0; p < parted->args.n_outputs; p++) {
        struct td_shape shape = { .rank = 1, .dim = { parted->args.outputs[p].shape.dim[0] } };
        where[p] = random_tensor(TD_DTYPE_INT32, &shape);
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t p = td_tensor_index_at(partitions, i);
        ((int32_t *)where[p].data)[next[p]++] = (int32_t)i;
    }
    struct op_call call;
    call_begin_lists(&call, "dynamic_stitch", "", parted->args.n_outputs, where,
                     parted->args.n_outputs, parted->args.outputs);
    call_run(&call, "dynamic_stitch", exec);
    EXPECT(call.status == TD_OK, "%s: %s", what, call.err.message);
    struct td_tensor want = *data;
    want.shape = (struct td_shape){ .rank = 1, .dim = { n } };
    ck_assert(td_shape_append(&want.shape, &data->shape, partitions->shape.rank, data->shape.rank));
    expect_same_tensor(&call.args.outputs[0], &want, what);
}

TD_TEST_LOOP(any_partition_agrees_with_its_definition_and_stitch_inverts_it, 0, 20)
{
    enum { SAMPLES = 30 };
    for (int s = 0; s < SAMPLES * test_effort(); s++) {
        const int seed = _i + s * 20;
        char what[64], attrs[64];
        td_arena_reset(&test_arena);
        random_seed((uint64_t)seed);
        const int n_partitions = 1 + random_below(random_below(2) ? 3 : 64);
        snprintf(what, sizeof(what), "seed %d", seed);
        snprintf(attrs, sizeof(attrs), "num_partitions=%d", n_partitions);
        struct td_shape shape = { .rank = random_below(4) };
        for (int i = 0; i < shape.rank; i++)
            shape.dim[i] = random_below(12) == 0 ? 0 : 1 + random_below(5);
        if (shape.rank > 0 && random_below(4) == 0)
            shape.dim[0] = 1500;
        struct td_tensor partitions = random_numbers(&shape, n_partitions);
        for (int extra = random_below(3); extra > 0; extra--)
            shape.dim[shape.rank++] = random_below(15) == 0 ? 0 : 1 + random_below(9);
        struct td_tensor data = random_tensor((td_dtype)random_below(TD_DTYPE_COUNT), &shape);

        struct thread_exec exec;
        struct op_call call;
        thread_exec_init(&exec, 1 + random_below(3), random_below(2) ? 0 : 1 + random_below(2000));
        call_op(&call, OP, attrs, data, partitions, &exec.exec);
        EXPECT(call.status == TD_OK, "%s: %s", what, call.err.message);
        expect_partitioned(&data, &partitions, &call, what);
        expect_round_trip(&data, &partitions, &call, &exec.exec, what);
    }
}

/* Enough rows for several blocks. */
static const struct {
    const char *case_name;
    const char *row; /* dtype and shape of a row */
    int n, n_partitions;
    uint64_t most_scratch;
} large[] = {
    { "bytes", "uint8[]", 100000, 5, 100000 },
    { "narrow rows", "int32[]", 100000, 64, 100000 },
    { "rows of whole cache lines", "float32[1024]", 2200, 3, 563200 },
    { "rows that cross cache lines", "uint8[4099]", 2200, 7, 563600 },
    { "rows larger than a range", "uint8[140001]", 30, 4, 350000 },
    { "strings", "string[3]", 30000, 6, 30000 * 9 },
};

static struct td_tensor large_data(int which, struct td_tensor *partitions)
{
    struct td_tensor row = tensor_without_data(large[which].row);
    struct td_shape shape = { .rank = 1, .dim = { large[which].n } };
    *partitions = random_numbers(&shape, large[which].n_partitions);
    ck_assert(td_shape_append(&shape, &row.shape, 0, row.shape.rank));
    return random_tensor(row.dtype, &shape);
}

TD_TEST_EACH(a_large_partition_does_not_depend_on_how_it_is_split, large)
{
    static const int64_t grains[] = { 0, 1, 3 };
    char attrs[64];
    struct td_tensor partitions;
    struct op_call serial;
    random_seed(1);
    snprintf(attrs, sizeof(attrs), "num_partitions=%d", large[_i].n_partitions);
    struct td_tensor data = large_data(_i, &partitions);
    call_op(&serial, OP, attrs, data, partitions, NULL);
    ck_assert_int_eq(serial.status, TD_OK);
    expect_partitioned(&data, &partitions, &serial, large[_i].case_name);
    ck_assert_uint_le(td_op_dynamic_partition.cost(&serial.args).workspace, large[_i].most_scratch);
    for (int g = 0; g < COUNT_OF(grains); g++) {
        for (int threads = 2; threads <= MOST_THREADS; threads *= 2) {
            struct thread_exec exec;
            struct op_call call;
            thread_exec_init(&exec, threads, grains[g]);
            call_op(&call, OP, attrs, data, partitions, &exec.exec);
            ck_assert_int_eq(call.status, TD_OK);
            for (int p = 0; p < call.args.n_outputs; p++)
                expect_same_tensor(&call.args.outputs[p], &serial.args.outputs[p],
                                   large[_i].case_name);
            expect_round_trip(&data, &partitions, &call, &exec.exec, large[_i].case_name);
        }
    }
}

TD_TEST_EACH(a_deadline_stops_a_large_partition, large)
{
    char attrs[64];
    struct td_tensor partitions;
    struct op_call call;
    random_seed(1);
    snprintf(attrs, sizeof(attrs), "num_partitions=%d", large[_i].n_partitions);
    struct td_tensor data = large_data(_i, &partitions);
    call_begin(&call, OP, attrs, data, partitions);
    expect_deadlines(&call, OP, 3, large[_i].case_name);
}

TD_TEST(strings_may_be_a_view)
{
    struct td_tensor all = tensor("string[4] 'skipped' 'b' 'cc' ''"), view = all;
    view.shape = shape("[3]");
    view.numel = 3;
    view.offsets = all.offsets + 1; /* begins at 7 */
    struct op_call call;
    struct td_exec exec;
    td_exec_serial(&exec, &test_arena);
    exec.output_limit = 3;
    call_op(&call, OP, "num_partitions=2", view, tensor("int32[3] 1 0 1"), &exec);
    ck_assert_int_eq(call.status, TD_OK);
    expect_tensor(&call.args.outputs[0], "string[1] 'cc'", "view");
    expect_tensor(&call.args.outputs[1], "string[2] 'b' ''", "view");
    exec.output_limit = 2; /* of all outputs together */
    call_op(&call, OP, "num_partitions=2", view, tensor("int32[3] 1 0 1"), &exec);
    ck_assert_int_eq(call.status, TD_RESOURCE_LIMIT);
    ck_assert_str_eq(call.err.resource, "output_bytes");
}

TD_TEST_LOOP(a_partition_without_memory_is_refused, 0, 2)
{
    static const char *const data[] = { "int32[2] 1 2", "string[2] 'a' 'b'" };
    struct td_arena arena;
    struct td_exec exec;
    struct td_error err;
    struct op_call call;
    char space[4096];
    /* memory is exhausted at each allocation in turn, in infer and in run */
    for (size_t size = 0; size < sizeof(space); size += 16) {
        call_begin(&call, OP, "num_partitions=2", tensor(data[_i]), tensor("int32[2] 1 0"));
        td_arena_init(&arena, space, size, &no_memory);
        td_status status = td_op_infer(&td_op_dynamic_partition, &call.args, &arena, &err);
        EXPECT(status == TD_OK || status == TD_MEMORY_EXHAUSTED, "%s", err.message);
        td_arena_reset(&arena);
        td_exec_serial(&exec, &arena);
        call_run(&call, OP, &exec);
        EXPECT(call.status == TD_OK || call.status == TD_MEMORY_EXHAUSTED, "%s", call.err.message);
        ck_assert(size > 0 || call.status == TD_MEMORY_EXHAUSTED);
        td_arena_reset(&arena);
    }
    ck_assert_int_eq(call.status, TD_OK);
}

static const struct {
    const char *case_name, *attrs, *data, *partitions;
    struct td_dynamic_partition_geometry geometry;
} geometries[] = {
    { "rows", "num_partitions=3", "float32[2,2,5] 0..19", "int32[2,2] 0 1 2 0", { 4, 3, 5, 20 } },
    { "one row", "num_partitions=2", "int16[2,3] 0..5", "int32[] 1", { 1, 2, 6, 12 } },
    { "strings", "num_partitions=1", "string[2] 'a' 'b'", "int32[2] 0 0", { 2, 1, 1, 0 } },
    { "rows without elements", "num_partitions=2", "int16[2,0]", "int32[2] 1 0", { 2, 2, 0, 0 } },
    { "no rows", "num_partitions=2", "int16[0,4611686018427387904,4]", "int32[0]", { 0, 2, 0, 0 } },
};

TD_TEST_EACH(geometry_counts_rows, geometries)
{
    struct op_call call;
    const struct td_dynamic_partition_geometry want = geometries[_i].geometry;
    call_begin(&call, OP, geometries[_i].attrs, tensor(geometries[_i].data),
               tensor(geometries[_i].partitions));
    call_infer(&call, OP);
    ck_assert_msg(call.status == TD_OK, "%s: %s", geometries[_i].case_name, call.err.message);
    struct td_dynamic_partition_geometry got = td_dynamic_partition_geometry(&call.args);
    ck_assert_int_eq(got.n_rows, want.n_rows);
    ck_assert_int_eq(got.n_partitions, want.n_partitions);
    ck_assert_int_eq(got.row_numel, want.row_numel);
    ck_assert_uint_eq(got.row_bytes, want.row_bytes);
}
