/* What gathering ops have in common: parallel copies, parts of large rows, strings, deadlines. */
#include "kernels/rows/gathering.h"
#include "tests/support/op_call.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"
#include "tests/support/threads.h"

#include <string.h>

static const struct {
    const char *case_name;
    int64_t begin, n, slice_out, slice_rows;
    int64_t rows[6], moved[6];
} slices[] = {
    { "rows of the first slice do not change", 0, 3, 3, 10, { 1, 2, 3 }, { 1, 2, 3 } },
    { "the second slice begins after the rows of the first",
      0,
      4,
      2,
      10,
      { 1, 2, 1, 2 },
      { 1, 2, 11, 12 } },
    { "starting inside a slice", 3, 4, 2, 10, { 1, 2, 3, 4 }, { 11, 22, 23, 34 } },
    { "slices of one row", 2, 3, 1, 10, { 1, 2, 3 }, { 21, 32, 43 } },
    { "TD_ROW_ZERO stays", 2, 3, 2, 10, { -1, 0, -1 }, { -1, 10, -1 } },
    { "no rows", 4, 0, 2, 10, { 0 }, { 0 } },
};

TD_TEST_EACH(row_numbers_get_the_offsets_of_their_slices, slices)
{
    int64_t rows[6];
    memcpy(rows, slices[_i].rows, sizeof(rows));
    td_gathering_add_slice_offsets(rows, slices[_i].n, slices[_i].begin, slices[_i].slice_out,
                                   slices[_i].slice_rows);
    ck_assert_msg(memcmp(rows, slices[_i].moved, sizeof(rows)) == 0, "%s", slices[_i].case_name);
}

/* A table of rows x width bytes with different values. */
static struct td_tensor byte_table(int64_t rows, int64_t width)
{
    struct td_shape dims = { .rank = 2, .dim = { rows, width } };
    struct td_tensor t;
    struct td_error err;
    ck_assert_int_eq(td_tensor_describe(&t, "params", TD_DTYPE_UINT8, &dims, &err), TD_OK);
    ck_assert_int_eq(td_tensor_alloc(&t, &test_arena, &err), TD_OK);
    for (size_t i = 0; i < t.bytes; i++)
        ((unsigned char *)t.data)[i] = (unsigned char)((i * 2654435761u) >> 13);
    return t;
}

TD_TEST(rows_larger_than_a_range_are_split)
{
    static const int64_t widths[] = { 131072, 131073, 300001, 1 << 20 };
    for (int w = 0; w < COUNT_OF(widths); w++) {
        size_t width = (size_t)widths[w];
        struct td_tensor table = byte_table(3, widths[w]);
        struct thread_exec exec;
        struct op_call call;
        thread_exec_init(&exec, 4, 0);
        call_op(&call, "gather", "bounds=zero", table, tensor("int32[4] 2 0 5 1"), &exec.exec);
        ck_assert_int_eq(call.status, TD_OK);
        const char *out = call.args.outputs[0].data, *in = table.data;
        ck_assert_mem_eq(out, in + 2 * width, width);
        ck_assert_mem_eq(out + width, in, width);
        for (size_t i = 0; i < width; i++)
            EXPECT(out[2 * width + i] == 0, "byte %zu of a row of zeros", i);
        ck_assert_mem_eq(out + 3 * width, in + width, width);
        ck_assert_int_eq(atomic_load(&exec.ranges_run), 4 * ((widths[w] + 131071) / 131072));
    }
}

/* The output is the same for one range or many, one thread or eight. */
static void expect_same_at_any_split(const char *op, const char *attrs, struct td_tensor params,
                                     struct td_tensor indices)
{
    static const int64_t grains[] = { 0, 1, 7, 1000, 1024, 1025, 100000 };
    struct op_call serial;
    call_op(&serial, op, attrs, params, indices, NULL);
    ck_assert_int_eq(serial.status, TD_OK);
    for (int g = 0; g < COUNT_OF(grains); g++) {
        for (int threads = 1; threads <= 8; threads *= 2) {
            struct thread_exec exec;
            struct op_call call;
            thread_exec_init(&exec, threads, grains[g]);
            call_op(&call, op, attrs, params, indices, &exec.exec);
            ck_assert_int_eq(call.status, TD_OK);
            ck_assert_int_eq(call.args.replaced, serial.args.replaced);
            expect_same_tensor(&call.args.outputs[0], &serial.args.outputs[0], op);
        }
    }
}

TD_TEST(an_output_does_not_depend_on_how_it_is_split)
{
    enum { N = 5000 };
    int64_t values[N];
    for (int i = 0; i < N; i++)
        values[i] = (i * 7919) % 50 - 5; /* some of them out of bounds */
    struct td_tensor indices = index_vector(TD_DTYPE_INT32, values, N);
    expect_same_at_any_split("gather", "bounds=wrap", byte_table(40, 12), indices);
    expect_same_at_any_split("gather", "axis=1 bounds=zero", byte_table(3, 40), indices);
    indices.shape = shape("[2500,2]");
    expect_same_at_any_split("gather_nd", "bounds=clip", byte_table(40, 40), indices);
    expect_same_at_any_split("batch_gather", "bounds=wrap", byte_table(2500, 3), indices);
}

TD_TEST(strings_do_not_depend_on_how_they_are_split)
{
    enum { N = 5000 };
    int64_t values[N];
    for (int i = 0; i < N; i++)
        values[i] = (i * 7919) % 5 - 1;
    struct td_tensor indices = index_vector(TD_DTYPE_INT64, values, N);
    struct td_tensor params = tensor("string[4,2] 'a' '' 'bcd' 'ef' '' '' 'gh' 'a longer string'");
    expect_same_at_any_split("gather", "bounds=zero", params, indices);
    indices.shape = shape("[2500,2]");
    expect_same_at_any_split("gather_nd", "bounds=wrap", params, indices);
}

TD_TEST(strings_may_be_a_view)
{
    struct td_tensor all = tensor("string[4] 'skipped' 'b' 'cc' ''"), view = all;
    view.shape = shape("[3]");
    view.numel = 3;
    view.offsets = all.offsets + 1; /* begins at 7 */
    struct op_call call;
    call_op(&call, "gather", "", view, tensor("int32[4] 1 0 2 1"), NULL);
    ck_assert_int_eq(call.status, TD_OK);
    expect_tensor(&call.args.outputs[0], "string[4] 'cc' 'b' '' 'cc'", "view");
}

TD_TEST(strings_too_long_to_count_are_refused)
{
    /* Claims 2^62 bytes; the call is refused before any is read. */
    uint64_t offsets[] = { 0, (uint64_t)1 << 62 };
    char byte = 'x';
    struct td_tensor params = tensor_without_data("string[1]");
    params.offsets = offsets;
    params.data = &byte;
    params.bytes = offsets[1];
    struct op_call call;
    call_op(&call, "gather", "", params, tensor("int32[2] 0 0"), NULL);
    ck_assert_int_eq(call.status, TD_RESOURCE_LIMIT);
    ck_assert_str_eq(call.err.resource, "output_bytes");
    call_op(&call, "gather", "", params, tensor("int32[5] 0 0 0 0 0"), NULL);
    ck_assert_int_eq(call.status, TD_RESOURCE_LIMIT); /* 5 * 2^62 is 2^62 in 64 bits */
}

TD_TEST(strings_without_memory_for_their_bytes_are_refused)
{
    struct td_arena arena;
    struct td_exec exec;
    struct op_call call;
    td_arena_init(&arena, NULL, 0, &no_memory);
    td_exec_serial(&exec, &arena);
    call_op(&call, "gather", "", tensor("string[1] 'abc'"), tensor("int32[2] 0 0"), &exec);
    ck_assert_int_eq(call.status, TD_MEMORY_EXHAUSTED);
    ck_assert_str_eq(call.err.message, "none");
}

static const struct {
    const char *case_name;
    const char *dtype;
    int64_t width;
    int64_t ranges_allowed;
} deadlines[] = {
    { "rows", "uint8", 64, 3 },
    { "split rows", "uint8", 1 << 18, 3 },
    { "sizes of strings", "string", 1, 3 },
    { "bytes of strings", "string", 1, 12 },
};

TD_TEST_EACH(a_deadline_stops_the_copy, deadlines)
{
    enum { N = 20000 };
    static int64_t zeros[N];
    bool strings = strcmp(deadlines[_i].dtype, "string") == 0;
    int64_t n = deadlines[_i].width > 1000 ? 20 : N;
    struct td_tensor params =
        strings ? tensor("string[1] 'abc'") : byte_table(1, deadlines[_i].width);
    struct thread_exec exec;
    struct op_call call;
    thread_exec_init(&exec, 2, 0);
    exec.ranges_allowed = deadlines[_i].ranges_allowed;
    call_op(&call, "gather", "", params, index_vector(TD_DTYPE_INT32, zeros, n), &exec.exec);
    ck_assert_msg(call.status == TD_DEADLINE_EXCEEDED, "%s", deadlines[_i].case_name);
    ck_assert_int_eq(call.err.status, TD_DEADLINE_EXCEEDED);
    if (strings && deadlines[_i].ranges_allowed == 3)
        ck_assert_uint_eq(call.args.outputs[0].bytes,
                          0); /* none allocated before all sizes are known */
}

TD_TEST(small_outputs_are_one_range)
{
    struct thread_exec exec;
    struct op_call call;
    thread_exec_init(&exec, 4, 0);
    call_op(&call, "gather", "", byte_table(10, 100), tensor("int32[4] 0 9 3 3"), &exec.exec);
    ck_assert_int_eq(call.status, TD_OK);
    ck_assert_int_eq(atomic_load(&exec.ranges_run), 1);
}
