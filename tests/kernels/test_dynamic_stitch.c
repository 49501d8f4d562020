#include "kernels/dynamic_stitch/dynamic_stitch.h"
#include "kernels/op_check.h"
#include "tests/support/op_call.h"
#include "tests/support/random.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"
#include "tests/support/threads.h"

#include <stdio.h>
#include <string.h>

#define MAX_LIST 16

static const char *const names[] = { "dynamic_stitch", "parallel_dynamic_stitch" };

static void begin_text(struct op_call *call, const char *op, const char *indices, const char *data)
{
    struct td_tensor first[MAX_LIST], second[MAX_LIST];
    int n_first = tensor_list(indices, first, MAX_LIST);
    call_begin_lists(call, op, "", n_first, first, tensor_list(data, second, MAX_LIST), second);
}

/* Beside those of tests/conformance/cases. */
static const struct {
    const char *case_name;
    const char *indices, *data;
    const char *output;
} results[] = {
    { "of equal indices in a tensor the last counts", "int32[3] 1 0 1", "int32[3] 1 2 3",
      "int32[2] 2 3" },
    { "of equal indices in two tensors the last counts", "int32[2] 0 1; int32[1] 0",
      "int32[2] 1 2; int32[1] 3", "int32[2] 3 2" },
    { "also when its index is not the last of its tensor", "int32[2] 1 0; int32[2] 0 1; int32[1] 1",
      "int32[2] 1 2; int32[2] 3 4; int32[1] 5", "int32[2] 3 5" },
    { "false", "int32[1] 2", "bool[1] 1", "bool[3] 0 0 1" },
    { "empty strings", "int32[1] 2; int64[1] 0", "string[1,2] 'a' 'bc'; string[1,2] '' 'd'",
      "string[3,2] '' 'd' '' '' 'a' 'bc'" },
    { "strings: the last counts", "int32[2] 0 0; int32[2] 1 1",
      "string[2] 'first' 'second'; string[2] 'third' '\\x00\\xff'",
      "string[2] 'second' '\\x00\\xff'" },
    { "large rows: the last counts, the rest is zeros", "int32[3] 3 1 1; int32[] 3",
      "complex128[3,5] 0..29; complex128[5] 30..39",
      "complex128[4,5] 0 0 0 0 0 0 0 0 0 0 20..29 0 0 0 0 0 0 0 0 0 0 30..39" },
    { "each tensor has indices of its own dtype", "int16[1] 0; int32[1] 1; int64[1] 2",
      "int32[1] 1; int32[1] 2; int32[1] 3", "int32[3] 1 2 3" },
    { "no strings", "int32[0]; int32[2,0]", "string[0]; string[2,0]", "string[0]" },
    { "an output of rank 16", "int32[] 0", "int32[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1] 5",
      "int32[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1] 5" },
    { "INT64_MAX rows without elements", "int64[1] 9223372036854775806", "string[1,0]",
      "string[9223372036854775807,0]" },
};

TD_TEST_EACH(stitch_has_output, results)
{
    for (int i = 0; i < COUNT_OF(names); i++) {
        struct op_call call;
        begin_text(&call, names[i], results[_i].indices, results[_i].data);
        call_run(&call, names[i], NULL);
        ck_assert_msg(call.status == TD_OK, "%s: %s", results[_i].case_name, call.err.message);
        ck_assert_int_eq(call.args.n_outputs, 1);
        expect_tensor(&call.args.outputs[0], results[_i].output, results[_i].case_name);
    }
}

static const struct {
    const char *case_name;
    const char *indices, *data;
    td_status status;
    const char *message, *input;
    const char *shapes; /* names of the shapes in the error */
} refusals[] = {
    { "no tensors", "", "", TD_INVALID_ARGUMENT,
      "indices has no tensors; expected a list of at least one", "indices", "" },
    { "more data than indices", "int32[1] 0", "float32[1] 1; float32[1] 1", TD_INVALID_ARGUMENT,
      "data has length 2 and indices has length 1; the lengths must be equal", "data", "" },
    { "more indices than data", "int32[1] 0; int32[1] 0", "float32[1] 1", TD_INVALID_ARGUMENT,
      "data has length 1 and indices has length 2; the lengths must be equal", "data", "" },
    { "different dtypes", "int32[1] 0; int32[1] 1; int32[1] 1",
      "float32[1] 1; float32[1] 1; int32[1] 2", TD_INVALID_ARGUMENT,
      "data[2] has dtype int32 and data[0] float32; the dtypes must be equal: the op cast with "
      "dtype = float32 rounds data[2], and cast with dtype = float64 converts both",
      "data[2]", "" },
    { "floating-point indices", "int32[1] 0; float32[1] 0", "float32[1] 1; float32[1] 1",
      TD_UNSUPPORTED_DTYPE,
      "indices[1] has dtype float32; expected int16, int32 or int64; pass integers as int64",
      "indices[1]", "" },
    { "fewer rows than indices", "int32[2] 0 -1", "float32[1,2] 0 0", TD_SHAPE_MISMATCH,
      "data[0] [1,2] does not start with the shape of indices[0], [2]", "data[0]",
      "data[0] indices[0]" },
    { "data of lower rank than indices", "int32[1] 0; int32[1,2] 0 1", "float32[1] 0; float32[1] 0",
      TD_SHAPE_MISMATCH, "data[1] [1] does not start with the shape of indices[1], [1,2]",
      "data[1]", "data[1] indices[1]" },
    { "different rows, reported before a bad index", "int32[1] -1; int32[1] 1",
      "float32[1,2] 0 0; float32[1,3] 0 0 0", TD_SHAPE_MISMATCH,
      "the rows of data[1] have shape [3] and the rows of data[0] [2]; the shapes must be equal",
      "data[1]", "data[1] data[0]" },
    { "rows of different rank", "int32[] 0; int32[1] 1", "float32[2] 0 0; float32[1,2,1] 0 0",
      TD_SHAPE_MISMATCH,
      "the rows of data[1] have shape [2,1] and the rows of data[0] [2]; the shapes must be equal",
      "data[1]", "data[1] data[0]" },
    { "an output of rank 17", "int32[] -1", "float32[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1] 0",
      TD_RESOURCE_LIMIT, "output needs 17 dimensions; the limit is 16", "", "" },
    { "index INT64_MAX", "int64[2] 0 9223372036854775807", "int8[2] 0 1", TD_RESOURCE_LIMIT,
      "output needs 9223372036854775808 rows; the limit is 9223372036854775807", "", "" },
    { "rows whose size overflows", "int64[1] 2305843009213693951", "float32[1] 0",
      TD_RESOURCE_LIMIT,
      "output of shape [2305843009213693952] and dtype float32 needs more than "
      "9223372036854775807 bytes",
      "output", "output" },
};

TD_TEST_EACH(infer_refuses, refusals)
{
    for (int i = 0; i < COUNT_OF(names); i++) {
        struct op_call call;
        begin_text(&call, names[i], refusals[_i].indices, refusals[_i].data);
        call_infer(&call, names[i]);
        expect_refusal(&call, refusals[_i].status, refusals[_i].message, refusals[_i].input, "",
                       refusals[_i].case_name);
        expect_shape_names(&call.err, refusals[_i].shapes);
        call.status = td_op_infer(td_op_named(names[i], strlen(names[i])), &call.args, &test_arena,
                                  TD_IGNORED);
        ck_assert_int_eq(call.status, refusals[_i].status);
    }
}

static const struct {
    const char *case_name;
    const char *indices, *data;
    const char *message, *input;
    int bad_count;
} negatives[] = {
    { "in a vector", "int32[2] 0 -1", "float32[2] 1 2",
      "indices[0][1] = -1 is negative; must be at least 0", "indices[0]", 1 },
    { "in the second tensor, the first of two", "int32[2] 0 3; int64[1,3] 1 -2 -9",
      "int8[2] 1 2; int8[1,3] 1 2 3", "indices[1][0,1] = -2 is negative; must be at least 0",
      "indices[1]", 2 },
    { "a scalar has no position", "int16[] -32768", "int8[] 1",
      "indices[0] = -32768 is negative; must be at least 0", "indices[0]", 1 },
    { "in the first of several tensors with bad indices", "int32[1] -1; int32[2] -1 -1",
      "int8[1] 1; int8[2] 1 1", "indices[0][0] = -1 is negative; must be at least 0", "indices[0]",
      1 },
    { "reported before an index that is too large", "int64[2] 9223372036854775807 -1",
      "int8[2] 1 1", "indices[0][1] = -1 is negative; must be at least 0", "indices[0]", 1 },
    { "for rows without elements", "int32[1] -1", "int8[1,0]",
      "indices[0][0] = -1 is negative; must be at least 0", "indices[0]", 1 },
};

TD_TEST_EACH(infer_refuses_the_first_negative_index, negatives)
{
    struct op_call call;
    begin_text(&call, "dynamic_stitch", negatives[_i].indices, negatives[_i].data);
    call_infer(&call, "dynamic_stitch");
    expect_index_error(&call.err, negatives[_i].input, negatives[_i].message,
                       negatives[_i].bad_count);
    ck_assert(!call.err.has_bound);
}

TD_TEST(an_index_of_2_to_31_describes_an_output_and_allocates_none)
{
    char space[4096];
    struct td_arena arena;
    struct td_error err;
    struct op_call call;
    begin_text(&call, "dynamic_stitch", "int64[1] 2147483648; int32[1] 0",
               "float64[1,2] 1 2; float64[1,2] 3 4");
    td_arena_init(&arena, space, sizeof(space), NULL); /* no memory for data */
    ck_assert_int_eq(td_op_infer(&td_op_dynamic_stitch, &call.args, &arena, &err), TD_OK);
    expect_shape(&call.args.outputs[0].shape, "[2147483649,2]", "2^31");
    ck_assert_uint_eq(call.args.outputs[0].bytes, (size_t)2147483649 * 16);
    ck_assert_ptr_null(call.args.outputs[0].data);
    struct td_cost cost = td_op_dynamic_stitch.cost(&call.args);
    ck_assert_uint_ge(cost.bytes_written, (uint64_t)2147483649 * 16);
    ck_assert_uint_le(cost.workspace, (uint64_t)2147483649 * 8);
    td_arena_reset(&arena);
}

/* Reading all of the repeated tensors would mean 2^36 indices, more than the timeout of a test. */
TD_TEST(large_indices_that_are_repeated_in_the_list_are_read_once)
{
    enum { LIST = 16384, ROWS = 1 << 22 };
    struct td_error err;
    struct td_op_args args = { .n_outputs = 0 };
    struct td_shape shape = { .rank = 1, .dim = { ROWS } };
    for (int i = 0; i < 2; i++) {
        struct td_tensor one;
        ck_assert_int_eq(
            td_tensor_describe(&one, "one", i ? TD_DTYPE_INT8 : TD_DTYPE_INT32, &shape, &err),
            TD_OK);
        ck_assert_int_eq(td_tensor_alloc(&one, &test_arena, &err), TD_OK);
        memset(one.data, 0, one.bytes);
        if (i == 0)
            ((int32_t *)one.data)[ROWS - 1] = 9;
        args.inputs[i].tensors = td_arena_alloc(&test_arena, LIST, sizeof(one), &err);
        ck_assert_ptr_nonnull(args.inputs[i].tensors);
        args.inputs[i].count = LIST;
        for (int m = 0; m < LIST; m++)
            args.inputs[i].tensors[m] = one;
    }
    ck_assert_int_eq(td_op_infer(&td_op_dynamic_stitch, &args, &test_arena, &err), TD_OK);
    expect_shape(&args.outputs[0].shape, "[10]", "named again");

    /* The same address, but more indices: not a repetition. */
    args.inputs[0].tensors[0].numel = args.inputs[0].tensors[0].shape.dim[0] = ROWS - 1;
    args.inputs[1].tensors[0].numel = args.inputs[1].tensors[0].shape.dim[0] = ROWS - 1;
    ck_assert_int_eq(td_op_infer(&td_op_dynamic_stitch, &args, &test_arena, &err), TD_OK);
    expect_shape(&args.outputs[0].shape, "[10]", "a part of it before");
}

TD_TEST(cost_follows_from_shapes)
{
    struct op_call call;
    begin_text(&call, "dynamic_stitch", "int32[4] 0 1 2 3; int64[1] 9",
               "float32[4,2] 0..7; float32[1,2] 8 9");
    call_infer(&call, "dynamic_stitch");
    struct td_cost cost = td_op_dynamic_stitch.cost(&call.args);
    ck_assert_uint_eq(cost.bytes_read, 16 + 32 + 8 + 8);
    ck_assert_uint_eq(cost.bytes_written, 80);
    ck_assert_uint_eq(cost.random_reads, 5);
    ck_assert_uint_eq(cost.workspace, 0);
}

/* ---- Against the definition, row by row -------------------------------------------------- */

struct lists {
    int n;
    struct td_tensor indices[MAX_LIST], data[MAX_LIST];
};

/* Finds the tensor and the row in it that are written to output row `row`; false when none is. */
static bool source_of(const struct lists *lists, int64_t row, int *list, int64_t *from)
{
    for (int m = lists->n - 1; m >= 0; m--) {
        for (int64_t i = lists->indices[m].numel - 1; i >= 0; i--) {
            if (td_tensor_index_at(&lists->indices[m], i) == row) {
                *list = m;
                *from = i;
                return true;
            }
        }
    }
    return false;
}

/* As source_of, for all rows at once and long lists: entry = list << 32 | row + 1, 0 for none. */
static uint64_t *all_sources(const struct lists *lists, int64_t n_rows)
{
    struct td_error err;
    uint64_t *sources = td_arena_alloc(&test_arena, (size_t)n_rows, sizeof(*sources), &err);
    ck_assert_ptr_nonnull(sources);
    memset(sources, 0, (size_t)n_rows * sizeof(*sources));
    for (int m = 0; m < lists->n; m++)
        for (int64_t i = 0; i < lists->indices[m].numel; i++)
            sources[td_tensor_index_at(&lists->indices[m], i)] =
                (uint64_t)m << 32 | (uint64_t)(i + 1);
    return sources;
}

static void expect_stitched(const struct lists *lists, const struct td_tensor *out,
                            const char *what)
{
    static const char zeros[16];
    int64_t n_rows = out->shape.dim[0], largest = -1;
    for (int m = 0; m < lists->n; m++)
        for (int64_t i = 0; i < lists->indices[m].numel; i++)
            if (td_tensor_index_at(&lists->indices[m], i) > largest)
                largest = td_tensor_index_at(&lists->indices[m], i);
    EXPECT(n_rows == largest + 1, "%s: rows", what);
    EXPECT(out->dtype == lists->data[0].dtype, "%s: dtype", what);
    if (out->numel == 0)
        return;
    int64_t width = out->numel / n_rows;
    const uint64_t *sources = all_sources(lists, n_rows);
    for (int64_t row = 0; row < n_rows; row++) {
        int list = (int)(sources[row] >> 32), slow_list;
        int64_t from = (int64_t)(sources[row] & UINT32_MAX) - 1, slow_from;
        if (row < 3 && n_rows < 50) { /* the fast function agrees with the definition */
            bool found = source_of(lists, row, &slow_list, &slow_from);
            EXPECT(found == (from >= 0) && (!found || (slow_list == list && slow_from == from)),
                   "%s: the reference", what);
        }
        const size_t row_bytes = (size_t)width * td_dtype_info(out->dtype)->size;
        if (from >= 0 && out->dtype != TD_DTYPE_STRING &&
            memcmp((const char *)out->data + (size_t)row * row_bytes,
                   (const char *)lists->data[list].data + (size_t)from * row_bytes, row_bytes) == 0)
            continue;
        for (int64_t e = 0; e < width; e++) {
            size_t size, want_size = td_dtype_info(out->dtype)->size;
            const void *got = tensor_element(out, row * width + e, &size), *want = zeros;
            if (from >= 0)
                want = tensor_element(&lists->data[list], from * width + e, &want_size);
            EXPECT(size == want_size && memcmp(got, want, size) == 0, "%s: row %lld element %lld",
                   what, (long long)row, (long long)e);
        }
    }
}

static struct td_tensor random_indices(const struct td_shape *shape, int n_rows)
{
    static const td_dtype dtypes[] = { TD_DTYPE_INT16, TD_DTYPE_INT32, TD_DTYPE_INT64 };
    struct td_tensor indices = random_tensor(dtypes[random_below(3)], shape);
    size_t size = td_dtype_info(indices.dtype)->size;
    for (int64_t i = 0; i < indices.numel; i++) {
        int64_t index = random_below(n_rows);
        memcpy((char *)indices.data + (size_t)i * size, &index, size);
    }
    return indices;
}

static struct lists random_lists(void)
{
    struct lists lists = { .n = 1 + random_below(5) };
    td_dtype dtype = (td_dtype)random_below(TD_DTYPE_COUNT);
    int n_rows = 1 + random_below(random_below(4) == 0 ? 3000 : 20);
    struct td_shape constant = { .rank = random_below(3) };
    for (int i = 0; i < constant.rank; i++)
        constant.dim[i] = random_below(15) == 0 ? 0 : 1 + random_below(9);
    for (int m = 0; m < lists.n; m++) {
        struct td_shape shape = { .rank = random_below(4) };
        for (int i = 0; i < shape.rank; i++)
            shape.dim[i] = random_below(10) == 0 ? 0 : 1 + random_below(5);
        if (shape.rank > 0 && random_below(8) == 0)
            shape.dim[0] = 1500;
        lists.indices[m] = random_indices(&shape, n_rows);
        ck_assert(td_shape_append(&shape, &constant, 0, constant.rank));
        lists.data[m] = random_tensor(dtype, &shape);
    }
    return lists;
}

static void run_lists(struct op_call *call, const char *op, const struct lists *lists,
                      struct td_exec *exec)
{
    call_begin_lists(call, op, "", lists->n, lists->indices, lists->n, lists->data);
    call_run(call, op, exec);
}

TD_TEST_LOOP(any_stitch_agrees_with_its_definition, 0, 20)
{
    enum { SAMPLES = 50 };
    for (int n = 0; n < SAMPLES * test_effort(); n++) {
        int seed = _i + n * 20;
        char what[64];
        td_arena_reset(&test_arena);
        random_seed((uint64_t)seed);
        snprintf(what, sizeof(what), "seed %d", seed);
        struct lists lists = random_lists();
        struct thread_exec exec;
        struct op_call call;
        thread_exec_init(&exec, 1 + random_below(3), random_below(2) ? 0 : 1 + random_below(2000));
        run_lists(&call, names[random_below(2)], &lists, &exec.exec);
        EXPECT(call.status == TD_OK, "%s: %s", what, call.err.message);
        expect_stitched(&lists, &call.args.outputs[0], what);
    }
}

/* Enough rows for several threads, in each of the strategies. */
static const struct {
    const char *case_name;
    const char *row; /* dtype and shape of a row */
    int n;           /* rows of the input */
    int n_rows;      /* of the output, about; 0: as many as input rows, each once */
} large[] = {
    { "narrow rows", "int32[]", 40000, 50000 },
    { "narrow rows that exceed the cache", "float64[4]", 300000, 0 },
    { "rows of whole cache lines, each once", "float32[1024]", 2200, 0 },
    { "rows of whole cache lines, some twice, some never", "float32[1024]", 2200, 2200 },
    { "many rows of few indices", "float32[1024]", 2200, 7 },
    { "rows that cross cache lines, each once", "uint8[4099]", 2200, 0 },
    { "rows that cross cache lines, some twice, some never", "uint8[4099]", 2200, 2200 },
    { "rows too short for streaming stores", "uint8[101]", 90000, 60000 },
    { "few rows of a large output", "uint8[100]", 50, 90000 },
    { "rows that fit the cache", "uint8[100]", 3000, 3000 },
    { "rows that fit the cache, in parallel, each once", "uint8[200]", 8000, 0 },
    { "rows that fit the cache, in parallel, some twice", "uint8[200]", 8000, 8000 },
    { "short rows that fit the cache, of an output that does not", "float64[8]", 30000, 200000 },
    { "rows larger than a range, some twice, some never", "uint8[140001]", 40, 40 },
    { "strings", "string[3]", 30000, 25000 },
};

static struct lists large_lists(int which)
{
    struct lists lists = { .n = 3 };
    struct td_tensor row = tensor_without_data(large[which].row);
    int n = large[which].n, sizes[] = { n / 2, n / 8, n - n / 2 - n / 8 };
    int64_t first = 0;
    for (int m = 0; m < lists.n; m++) {
        struct td_shape shape = { .rank = 1, .dim = { sizes[m] } };
        lists.indices[m] = random_indices(&shape, large[which].n_rows + 1);
        if (lists.indices[m].dtype == TD_DTYPE_INT16) {
            /* the row is too narrow for them */
            lists.indices[m] = random_tensor(TD_DTYPE_INT32, &shape);
            for (int64_t i = 0; i < sizes[m]; i++)
                ((int32_t *)lists.indices[m].data)[i] = random_below(large[which].n_rows + 1);
        }
        size_t size = td_dtype_info(lists.indices[m].dtype)->size;
        for (int64_t i = 0; large[which].n_rows == 0 && i < sizes[m]; i++, first++) {
            int64_t index = first * 7919 % n; /* 7919 is prime and divides none of the counts */
            memcpy((char *)lists.indices[m].data + (size_t)i * size, &index, size);
        }
        ck_assert(td_shape_append(&shape, &row.shape, 0, row.shape.rank));
        lists.data[m] = random_tensor(row.dtype, &shape);
    }
    return lists;
}

TD_TEST_EACH(a_large_stitch_does_not_depend_on_how_it_is_split, large)
{
    static const int64_t grains[] = { 0, 100, 1031 };
    random_seed(1);
    struct lists lists = large_lists(_i);
    struct op_call serial;
    run_lists(&serial, "dynamic_stitch", &lists, NULL);
    ck_assert_int_eq(serial.status, TD_OK);
    expect_stitched(&lists, &serial.args.outputs[0], large[_i].case_name);
    for (int g = 0; g < COUNT_OF(grains); g++) {
        for (int threads = 2; threads <= MOST_THREADS; threads *= 2) {
            struct thread_exec exec;
            struct op_call call;
            thread_exec_init(&exec, threads, grains[g]);
            run_lists(&call, names[g % 2], &lists, &exec.exec);
            ck_assert_int_eq(call.status, TD_OK);
            expect_same_tensor(&call.args.outputs[0], &serial.args.outputs[0], large[_i].case_name);
        }
    }
}

TD_TEST_EACH(a_deadline_stops_a_large_stitch, large)
{
    random_seed(1);
    struct lists lists = large_lists(_i);
    struct thread_exec exec;
    struct op_call call;
    thread_exec_init(&exec, 2, 0);
    run_lists(&call, "dynamic_stitch", &lists, &exec.exec);
    ck_assert_int_eq(call.status, TD_OK);
    int64_t needed = atomic_load(&exec.ranges_run);
    for (int64_t allowed = 0; allowed < needed; allowed += 1 + needed / TRIED_DEADLINES) {
        /* ranges after the deadline are not counted */
        thread_exec_init(&exec, 1, 0);
        exec.ranges_allowed = allowed;
        run_lists(&call, "dynamic_stitch", &lists, &exec.exec);
        ck_assert_msg(call.status == TD_DEADLINE_EXCEEDED, "%s: %d of %d", large[_i].case_name,
                      (int)allowed, (int)needed);
        ck_assert_int_eq(call.err.status, TD_DEADLINE_EXCEEDED);
    }
}

TD_TEST_EACH(a_stitch_without_memory_for_its_scratch_is_refused, large)
{
    struct td_arena arena;
    struct td_exec exec;
    struct op_call call;
    random_seed(1);
    struct lists lists = large_lists(_i);
    td_arena_init(&arena, NULL, 0, &no_memory);
    td_exec_serial(&exec, &arena);
    run_lists(&call, "dynamic_stitch", &lists, &exec);
    uint64_t workspace = td_op_dynamic_stitch.cost(&call.args).workspace;
    ck_assert_int_eq(call.status, workspace > 0 ? TD_MEMORY_EXHAUSTED : TD_OK);
    ck_assert_uint_le(workspace, td_tensor_footprint(&call.args.outputs[0]));
}

TD_TEST(strings_beyond_the_output_limit_are_refused)
{
    struct td_exec exec;
    struct op_call call;
    td_exec_serial(&exec, &test_arena);
    exec.output_limit = 3;
    begin_text(&call, "dynamic_stitch", "int32[2] 0 1", "string[2] 'ab' 'cd'");
    call_run(&call, "dynamic_stitch", &exec);
    ck_assert_int_eq(call.status, TD_RESOURCE_LIMIT);
    ck_assert_str_eq(call.err.resource, "output_bytes");
    ck_assert_uint_eq(call.err.needed, 4);
    begin_text(&call, "dynamic_stitch", "int32[2] 0 0", "string[2] 'ab' 'cde'");
    call_run(&call, "dynamic_stitch", &exec);
    ck_assert_int_eq(call.status, TD_OK); /* only 'cde' is written */
}

static const struct {
    const char *case_name, *indices, *data;
    int64_t first[4]; /* one more than there are tensors */
    int64_t n_out, row_numel;
    size_t row_bytes;
} geometries[] = {
    { "rows are numbered over all tensors", "int32[2] 6 0; int32[] 1; int32[2,2] 0 1 2 3",
      "float32[2,3] 0..5; float32[3] 1 2 3; float32[2,2,3] 0..11", LIST(0, 2, 3, 7), 7, 3, 12 },
    { "one tensor without rows", "int32[0]; int32[1] 1", "int8[0]; int8[1] 1", LIST(0, 0, 1), 2, 1,
      1 },
    { "strings", "int32[1] 1", "string[1,2] 'a' 'b'", LIST(0, 1), 2, 2, 0 },
    { "no rows at all", "int32[0]", "int16[0,3]", LIST(0, 0), 0, 0, 0 },
    { "rows without elements", "int32[1] 4", "int16[1,0]", LIST(0, 1), 5, 0, 0 },
};

TD_TEST_EACH(geometry_counts_rows, geometries)
{
    for (int op = 0; op < COUNT_OF(names); op++) {
        struct op_call call;
        begin_text(&call, names[op], geometries[_i].indices, geometries[_i].data);
        call_infer(&call, names[op]);
        ck_assert_msg(call.status == TD_OK, "%s: %s", geometries[_i].case_name, call.err.message);
        const struct td_dynamic_stitch_geometry *got = td_dynamic_stitch_geometry(&call.args);
        ck_assert_int_eq(got->n_tensors, call.args.inputs[0].count);
        for (int m = 0; m <= got->n_tensors; m++)
            ck_assert_int_eq(got->first[m], geometries[_i].first[m]);
        ck_assert_int_eq(got->n_out, geometries[_i].n_out);
        ck_assert_int_eq(got->row_numel, geometries[_i].row_numel);
        ck_assert_uint_eq(got->row_bytes, geometries[_i].row_bytes);
    }
}
