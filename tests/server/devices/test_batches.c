#include "kernels/find/find.h"
#include "kernels/key_index/key_index.h"
#include "kernels/op_rows.h"
#include "server/devices/launch.h"
#include "tests/server/devices/batcher_setup.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* ---- batches --------------------------------------------------------------------------------- */

TD_TEST(an_idle_device_starts_at_once)
{
    struct setup setup = { 0 };
    struct batch_call call;
    setup_open(&setup, "");
    batch_call_rows(&call, &setup.table, TD_BOUNDS_ERROR, (const int64_t[]){ 9, 0, 3 }, 3);
    submit(&setup, &call);
    expect_rows(&call);
    ck_assert(!pthread_equal(call.done_on, pthread_self()));
    ck_assert_int_ge(call.item.begun_ns, call.item.submitted_ns);
    ck_assert_int_eq(call.args.replaced, 0);
    batch_call_end(&call);
    const struct td_batcher_counts counts = counts_of(&setup);
    ck_assert(counts.available);
    ck_assert_str_eq(counts.why, "");
    ck_assert_str_eq(counts.device.kind, "reference");
    ck_assert_uint_eq(counts.batches, 1);
    ck_assert_uint_eq(counts.items, 1);
    ck_assert_uint_eq(counts.waiting + counts.in_flight, 0);
    ck_assert_uint_eq(counts.tables, 1);
    ck_assert_uint_gt(counts.staging_bytes, 0);
    ck_assert_uint_gt(counts.batch_ns, 0);
    setup_close(&setup);
}

/* Rows of 16 bytes by indices of 8. */
TD_TEST(small_batches_are_computed_in_staging_memory_without_copies)
{
    enum { N = 20, LARGE = 5000 };
    struct setup setup = { 0 };
    struct batch_call first, large, *calls = calloc(N, sizeof *calls);
    int64_t *indices = malloc(LARGE * sizeof *indices);
    setup_open(&setup, "direct_bytes=65536");
    struct td_tensor table = table_of(1000, 0);
    for (int i = 0; i < LARGE; i++)
        indices[i] = i * 7 % 1000;
    keep_busy(&setup, &first, &table);
    for (int i = 0; i < N; i++) {
        batch_call_rows(&calls[i], &table, TD_BOUNDS_ERROR, indices + i, i);
        submit(&setup, &calls[i]);
    }
    expect_rows(&first);
    batch_call_end(&first);
    for (int i = 0; i < N; i++) {
        expect_rows(&calls[i]);
        batch_call_end(&calls[i]);
    }
    ck_assert_uint_eq(launches(), 2);
    ck_assert_uint_eq(td_device_reference_counts().copies_to_device, 1); /* the table */
    ck_assert_uint_eq(td_device_reference_counts().copies_to_host, 0);
    batch_call_rows(&large, &table, TD_BOUNDS_ERROR, indices, LARGE);
    submit(&setup, &large);
    expect_rows(&large);
    ck_assert_uint_eq(td_device_reference_counts().copies_to_device, 2);
    ck_assert_uint_eq(td_device_reference_counts().copies_to_host, 1);
    setup_close(&setup);
    free(indices);
    free(calls);
}

TD_TEST(waiting_lookups_are_merged_into_one_launch)
{
    enum { N = 64 };
    struct setup setup = { 0 };
    struct batch_call first, *calls = calloc(N, sizeof *calls);
    setup_open(&setup, "");
    struct td_tensor table = table_of(1000, 0);
    keep_busy(&setup, &first, &table);
    for (int i = 0; i < N; i++) {
        int64_t indices[N];
        for (int j = 0; j < i; j++)
            indices[j] = (i * 37 + j * 11) % 1000;
        batch_call_rows(&calls[i], &table, TD_BOUNDS_ERROR, indices, i); /* the first has none */
        submit(&setup, &calls[i]);
    }
    expect_rows(&first);
    ck_assert_ptr_nonnull(first.args.outputs[0].owner); /* a view */
    for (int i = 0; i < N; i++) {
        expect_rows(&calls[i]);
        ck_assert_ptr_null(calls[i].args.outputs[0].owner); /* a copy of a small portion */
    }
    ck_assert_uint_eq(launches(), 2);
    ck_assert_uint_eq(td_device_reference_counts().items, N + 1);
    ck_assert_uint_eq(counts_of(&setup).batches, 2);
    setup_close(&setup);
    free(calls);
}

/* Keys 0, 10, 20, ... that have an index, as those of a table in the store do. */
static struct td_tensor indexed_keys(int64_t n, struct td_key_index *index, struct td_arena *arena)
{
    struct td_error err;
    struct td_exec serial;
    struct td_tensor keys;
    const struct td_shape dims = { .rank = 1, .dim = { n } };
    const size_t bytes = td_key_index_bytes(n);
    ck_assert_int_eq(td_tensor_describe(&keys, "keys", TD_DTYPE_INT64, &dims, &err), TD_OK);
    keys.owner = td_memory_heap()->take(td_memory_heap(), keys.bytes, &err);
    keys.data = keys.owner->data;
    for (int64_t i = 0; i < n; i++)
        ((int64_t *)keys.data)[i] = 10 * i;
    void *image = td_arena_alloc(arena, bytes, 1, &err);
    td_exec_serial(&serial, arena);
    ck_assert_int_eq(td_key_index_build(&keys, "keys", 7, image, &serial, &err), TD_OK);
    ck_assert(td_key_index_open(image, bytes, &keys, index));
    keys.key_index = index;
    return keys;
}

/* The keys and their index are uploaded once. */
TD_TEST(keys_are_found_through_their_index_on_the_device)
{
    enum { N = 5, ROWS = 100 };
    struct setup setup = { 0 };
    struct batch_call first, calls[N];
    struct td_key_index index;
    struct td_arena arena;
    setup_open(&setup, "");
    td_arena_init(&arena, NULL, 0, td_memory_heap());
    struct td_tensor table = table_of(10, 0), keys = indexed_keys(ROWS, &index, &arena);
    keep_busy(&setup, &first, &table);
    for (int i = 0; i < N; i++) {
        batch_call_begin(&calls[i], &td_op_find);
        calls[i].inputs[0] = keys;
        calls[i].inputs[1] = (struct td_tensor){ .dtype = TD_DTYPE_INT64, .numel = 2 };
        calls[i].inputs[1].shape = (struct td_shape){ .rank = 1, .dim = { 2 } };
        calls[i].inputs[1].bytes = 2 * sizeof(int64_t);
        calls[i].inputs[1].data = (int64_t[]){ 10 * i, 10 * i + 1 };
        calls[i].args.inputs[0] = (struct td_operand){ &calls[i].inputs[0], 1 };
        calls[i].args.inputs[1] = (struct td_operand){ &calls[i].inputs[1], 1 };
        ck_assert_int_eq(td_tensor_copy(&calls[i].inputs[1], &calls[i].arena, TD_IGNORED), TD_OK);
        batch_call_infer(&calls[i], &td_op_find, 1);
        submit(&setup, &calls[i]);
    }
    expect_rows(&first);
    for (int i = 0; i < N; i++) {
        expect_status(&calls[i], TD_OK);
        const int64_t *rows = calls[i].args.outputs[0].data;
        ck_assert(rows[0] == i && rows[1] == -1);
    }
    ck_assert_uint_eq(launches(), 2);
    ck_assert_uint_eq(counts_of(&setup).tables, 3);
    ck_assert_uint_eq(counts_of(&setup).table_bytes,
                      table.bytes + keys.bytes + td_key_index_bytes(ROWS));
    setup_close(&setup);
    td_arena_reset(&arena);
    td_buffer_unref(keys.owner);
}

/* Outputs up to 64 KiB are copied, so that a slow client does not hold those of the others. */
TD_TEST(only_a_small_portion_of_a_batch_is_copied)
{
    enum { SMALL = 4096 }; /* rows of 16 bytes */
    struct setup setup = { 0 };
    struct batch_call first, calls[2];
    int64_t *indices = calloc(SMALL + 1, sizeof *indices);
    setup_open(&setup, "");
    struct td_tensor table = table_of(10, 0);
    keep_busy(&setup, &first, &table);
    for (int i = 0; i < 2; i++) {
        batch_call_rows(&calls[i], &table, TD_BOUNDS_ERROR, indices, SMALL + i);
        submit(&setup, &calls[i]);
    }
    expect_rows(&first);
    for (int i = 0; i < 2; i++)
        expect_rows(&calls[i]);
    ck_assert_uint_eq(launches(), 2);
    ck_assert_ptr_null(calls[0].args.outputs[0].owner);
    ck_assert_ptr_nonnull(calls[1].args.outputs[0].owner);
    setup_close(&setup);
    free(indices);
}

TD_TEST(only_the_first_512_inputs_can_be_tables)
{
    struct td_batch_tables tables = { 0 };
    for (int i = 0; i < 2; i++) {
        td_batch_tables_set(&tables, 511 + i, true);
        ck_assert(td_batch_tables_has(&tables, 511 + i) == (i == 0));
        ck_assert(!td_batch_tables_has(&tables, i));
    }
    td_batch_tables_set(&tables, 511, false);
    ck_assert(!td_batch_tables_has(&tables, 511));
}

TD_TEST(a_batch_has_no_more_items_than_the_limit)
{
    enum { N = 10 };
    struct setup setup = { .options.batch_limit = 4 };
    struct batch_call first, calls[N];
    setup_open(&setup, "");
    keep_busy(&setup, &first, &setup.table);
    for (int i = 0; i < N; i++)
        submit_row(&setup, &calls[i], &setup.table, i);
    expect_rows(&first);
    for (int i = 0; i < N; i++)
        expect_rows(&calls[i]);
    ck_assert_uint_eq(launches(), 1 + 3);
    setup_close(&setup);
}

TD_TEST(tables_take_turns_by_age)
{
    enum { N = 9 };
    static const char order[] = "baacbcaba";    /* of submission: which table */
    static const int begin[] = { 1, 4, 8, 10 }; /* order of b's three, a's four, c's two */
    struct setup setup = { 0 };
    struct batch_call first, calls[N];
    struct td_tensor tables[3];
    atomic_int sequence = 1;
    setup_open(&setup, "");
    for (int i = 0; i < 3; i++)
        tables[i] = table_of(10, (float)i);
    keep_busy(&setup, &first, &tables[0]);
    for (int i = 0; i < N; i++) {
        batch_call_row(&calls[i], &tables[order[i] - 'a'], i);
        calls[i].sequence = &sequence;
        submit(&setup, &calls[i]);
    }
    expect_rows(&first);
    for (int i = 0; i < N; i++)
        expect_rows(&calls[i]);
    for (int i = 0; i < N; i++) {
        const int group = order[i] == 'b' ? 0 : order[i] == 'a' ? 1 : 2;
        EXPECT(calls[i].order >= begin[group] && calls[i].order < begin[group + 1],
               "call %d ended as number %d", i, calls[i].order);
    }
    ck_assert_uint_eq(launches(), 4);
    setup_close(&setup);
}

TD_TEST(einsums_with_equal_plans_are_merged_into_one_launch)
{
    enum { N = 12 };
    struct setup setup = { 0 };
    struct batch_call first, calls[N];
    struct td_tensor table = table_of(10, 0), weights = table_of(5, 1);
    setup_open(&setup, "");
    keep_busy(&setup, &first, &table);
    /* x [3,5] times a table [5,4], which is resident for every other call. */
    for (int i = 0; i < N; i++) {
        struct td_tensor x = tensor("float32[3,5] 0..14");
        ((float *)x.data)[0] = (float)i;
        batch_call_einsum(&calls[i], "ij,jk->ik", x, weights, i % 2 ? 2 : 0);
        submit(&setup, &calls[i]);
    }
    expect_rows(&first);
    for (int i = 0; i < N; i++) {
        expect_status(&calls[i], TD_OK);
        const float *x = calls[i].inputs[0].data, *w = weights.data;
        const float *out = calls[i].args.outputs[0].data;
        for (int row = 0; row < 3; row++)
            for (int k = 0; k < COLS; k++) {
                float sum = 0; /* of integers below 2^24: exact in any order */
                for (int j = 0; j < 5; j++)
                    sum += x[row * 5 + j] * w[j * COLS + k];
                EXPECT(out[row * COLS + k] == sum, "call %d", i);
            }
    }
    ck_assert_uint_eq(launches(), 1 + 2); /* with the table, and without */
    setup_close(&setup);
}

/* 8 MiB in inputs of 512 KiB. Under load the batcher's thread may have copied all before the others
 * run: then once more. */
TD_TEST(the_inputs_of_merged_calls_are_copied_by_several_threads)
{
    enum { CALLS = 8, ROWS = 32768 };
    struct batch_call first, calls[CALLS];
    struct td_tensor a[CALLS], b[CALLS];
    for (bool helped = false; !helped;) {
        struct setup setup = { 0 };
        setup_open(&setup, "");
        for (int i = 0; i < CALLS; i++) {
            a[i] = table_of(ROWS, (float)i);
            b[i] = table_of(ROWS, (float)-i);
        }
        keep_busy(&setup, &first, &setup.table);
        for (int i = 0; i < CALLS; i++) {
            batch_call_einsum(&calls[i], "ij,ij->j", a[i], b[i], 0);
            submit(&setup, &calls[i]);
        }
        EVENTUALLY(counts_of(&setup).waiting == CALLS);
        expect_rows(&first);
        for (int i = 0; i < CALLS; i++)
            expect_status(&calls[i], TD_OK);
        ck_assert_uint_eq(launches(), 2);
        helped = td_copiers_helped(setup.copiers) > 0;
        setup_close(&setup);
    }
}

TD_TEST(a_full_batch_does_not_wait_for_others)
{
    enum { N = 5 };
    struct setup setup = { .options.batch_wait_us = 3600000000, .options.batch_limit = N };
    struct batch_call calls[N];
    setup_open(&setup, "");
    for (int i = 0; i < N; i++)
        submit_row(&setup, &calls[i], &setup.table, i);
    for (int i = 0; i < N; i++)
        expect_rows(&calls[i]);
    ck_assert_uint_eq(launches(), 1);
    setup_close(&setup);
}

TD_TEST(an_idle_device_waits_for_batch_wait_us)
{
    struct setup setup = { .options.batch_wait_us = 100000 };
    struct batch_call call;
    setup_open(&setup, "");
    submit_row(&setup, &call, &setup.table, 3);
    expect_rows(&call);
    ck_assert_int_ge(call.item.begun_ns - call.item.submitted_ns, 100 * MS); /* and no less */
    setup_close(&setup);
}

TD_TEST(calls_that_do_not_merge_have_a_launch_each)
{
    struct setup setup = { 0 };
    struct batch_call first, calls[3];
    setup_open(&setup, "");
    struct td_tensor table = table_of(10, 0), other = table;
    other.owner = NULL; /* no version: copied with the call */
    keep_busy(&setup, &first, &table);
    for (int i = 0; i < 3; i++)
        submit_row(&setup, &calls[i], &other, i);
    expect_rows(&first);
    for (int i = 0; i < 3; i++)
        expect_rows(&calls[i]);
    ck_assert_uint_eq(launches(), 4);
    ck_assert_uint_eq(counts_of(&setup).tables, 1);
    setup_close(&setup);
}

TD_TEST(an_op_with_several_outputs_sets_all_of_them)
{
    struct setup setup = { 0 };
    struct batch_call call;
    setup_open(&setup, "");
    const struct td_op *op = td_op_named("dynamic_partition", strlen("dynamic_partition"));
    const int64_t parts = 3;
    batch_call_begin(&call, op);
    call.inputs[0] = tensor("float32[5] 0..4");
    call.inputs[1] = tensor("int32[5] 2 0 2 0 0");
    for (int i = 0; i < 2; i++)
        call.args.inputs[i] = (struct td_operand){ &call.inputs[i], 1 };
    memcpy(call.args.attrs + op->attrs[0].offset, &parts, sizeof parts);
    call.args.attrs_set = 1;
    batch_call_infer(&call, op, 0);
    submit(&setup, &call);
    expect_status(&call, TD_OK);
    expect_tensor(&call.args.outputs[0], "float32[3] 1 3 4", "part 0");
    expect_tensor(&call.args.outputs[1], "float32[0]", "part 1");
    expect_tensor(&call.args.outputs[2], "float32[2] 0 2", "part 2");
    setup_close(&setup);
}

/* An op for tests with two outputs of different dtypes: the rows of `indices` of the table, as they
 * are, and whether each is even. */
static td_status infer_pair(struct td_op_args *args, struct td_arena *arena, struct td_error *err)
{
    const struct td_shape *rows = &args->inputs[1].tensors[0].shape;
    const struct td_shape dims = { .rank = 2, .dim = { rows->dim[0], COLS } };
    args->n_outputs = 2;
    args->outputs = td_arena_alloc(arena, 2, sizeof args->outputs[0], err);
    if (!args->outputs)
        return err->status;
    const td_status status =
        td_tensor_describe(&args->outputs[0], "rows", TD_DTYPE_FLOAT32, &dims, err);
    return status != TD_OK
               ? status
               : td_tensor_describe(&args->outputs[1], "even", TD_DTYPE_BOOL, rows, err);
}

static struct td_cost no_cost(const struct td_op_args *args)
{
    (void)args;
    return (struct td_cost){ 0 };
}

static td_status run_pair(struct td_op_args *args, struct td_exec *exec, struct td_error *err)
{
    const struct td_tensor *indices = &args->inputs[1].tensors[0];
    (void)exec;
    (void)err;
    for (int64_t i = 0; i < indices->numel; i++) {
        const int64_t row = ((const int64_t *)indices->data)[i];
        memcpy((float *)args->outputs[0].data + i * COLS,
               (const float *)args->inputs[0].tensors[0].data + row * COLS, COLS * sizeof(float));
        ((bool *)args->outputs[1].data)[i] = row % 2 == 0;
    }
    return TD_OK;
}

static bool always(const struct td_op_args *args)
{
    (void)args;
    return true;
}

static const struct td_input_spec pair_inputs[] = {
    { .name = "table", .dtypes = TD_DTYPES_ALL, .part = TD_ROW_PART_TABLE },
    { .name = "indices",
      .role = TD_ROLE_INDEX,
      .dtypes = TD_DTYPES_INDEX,
      .part = TD_ROW_PART_QUERY },
};
static const struct td_output_spec pair_outputs[] = {
    { .name = "rows", .dtype_of = "table" },
    { .name = "even", .dtypes = TD_DTYPE_BIT(BOOL) },
};
static const struct td_op_rows picks_rows = { .is_plain = always,
                                              .axis_attr = TD_ROWS_NONE,
                                              .batch_attr = TD_ROWS_NONE,
                                              .count_attr = TD_ROWS_NONE,
                                              .policy_attr = TD_ROWS_NONE,
                                              .found_output = TD_ROWS_NONE };
static const struct td_op pair_op = { .name = "pair",
                                      .inputs = pair_inputs,
                                      .n_inputs = 2,
                                      .outputs = pair_outputs,
                                      .n_outputs = 2,
                                      .infer = infer_pair,
                                      .cost = no_cost,
                                      .run = run_pair };

/* One call of it, with the rows i, i + 1 and i + 2. */
static void batch_call_pair(struct batch_call *call, const struct td_op *op,
                            const struct td_tensor *table, int i)
{
    struct td_error err;
    batch_call_rows(call, table, TD_BOUNDS_ERROR, (const int64_t[]){ i, i + 1, i + 2 }, 3);
    ck_assert_int_eq(op->infer(&call->args, &call->arena, &err), TD_OK);
    call->item.op = op;
}

/* All that makes calls of an op one launch is in its descriptor. */
TD_TEST_LOOP(calls_of_an_op_that_picks_rows_are_merged_with_all_their_outputs, 0, 2)
{
    enum { N = 4 };
    struct setup setup = { 0 };
    struct td_op op = pair_op;
    struct batch_call first, calls[N];
    op.rows = _i == 0 ? NULL : &picks_rows;
    setup_open(&setup, "");
    keep_busy(&setup, &first, &setup.table);
    for (int i = 0; i < N; i++) {
        batch_call_pair(&calls[i], &op, &setup.table, i);
        submit(&setup, &calls[i]);
    }
    expect_rows(&first);
    for (int i = 0; i < N; i++) {
        expect_rows(&calls[i]);
        const bool *even = calls[i].args.outputs[1].data;
        for (int j = 0; j < 3; j++)
            EXPECT(even[j] == ((i + j) % 2 == 0), "call %d, row %d", i, j);
    }
    ck_assert_uint_eq(launches(), op.rows ? 2 : 1 + N);
    ck_assert_uint_eq(counts_of(&setup).tables, 1); /* uploaded once */
    setup_close(&setup);
}

/* Infers an output of dtype string. */
static td_status infer_text(struct td_op_args *args, struct td_arena *arena, struct td_error *err)
{
    args->n_outputs = 1;
    args->outputs = td_arena_alloc(arena, 1, sizeof args->outputs[0], err);
    return args->outputs ? td_tensor_describe(&args->outputs[0], "text", TD_DTYPE_STRING,
                                              &args->inputs[1].tensors[0].shape, err)
                         : err->status;
}

TD_TEST(an_op_that_returns_strings_is_refused)
{
    struct setup setup = { 0 };
    struct td_op op = pair_op;
    struct batch_call call;
    op.name = "spell";
    op.infer = infer_text;
    setup_open(&setup, "");
    batch_call_pair(&call, &op, &setup.table, 0);
    ck_assert_int_eq(td_batcher_check_kernel(setup.batcher, &op, &call.args, TD_IGNORED),
                     TD_UNSUPPORTED_DTYPE);
    submit(&setup, &call);
    expect_status(&call, TD_UNSUPPORTED_DTYPE);
    ck_assert_str_eq(call.err.device, "gpu");
    EXPECT_MESSAGE(&call.err, "spell returns strings");
    ck_assert_uint_eq(launches(), 0);
    setup_close(&setup);
}

TD_TEST_LOOP(a_tensor_may_be_used_as_two_inputs, 0, 2)
{
    struct setup setup = { 0 };
    struct batch_call call;
    setup_open(&setup, "");
    struct td_tensor table = table_of(2, 1);
    batch_call_einsum(&call, "ij,kj->ik", table, table, _i == 0 ? 3 : 0);
    submit(&setup, &call);
    expect_status(&call, TD_OK);
    /* Rows 1 2 3 4 and 1001 1002 1003 1004. */
    expect_tensor(&call.args.outputs[0], "float32[2,2] 30 10030 10030 4020030", "x x^T");
    ck_assert_uint_eq(counts_of(&setup).tables, _i == 0 ? 1 : 0);
    setup_close(&setup);
}

/* ---- bad indices ----------------------------------------------------------------------------- */

TD_TEST(a_bad_index_fails_its_own_call_only)
{
    enum { N = 6 };
    struct setup setup = { 0 };
    struct batch_call first, calls[N];
    setup_open(&setup, "");
    keep_busy(&setup, &first, &setup.table);
    for (int i = 0; i < N; i++) {
        const int64_t indices[] = { 1, i == 2 ? 10 : 2, i == 4 ? -7 : 3 };
        batch_call_rows(&calls[i], &setup.table, TD_BOUNDS_ERROR, indices, 3);
        submit(&setup, &calls[i]);
    }
    expect_rows(&first);
    for (int i = 0; i < N; i++) {
        expect_status(&calls[i], i == 2 || i == 4 ? TD_INDEX_OUT_OF_BOUNDS : TD_OK);
        if (calls[i].status == TD_OK)
            expect_rows_now(&calls[i]);
    }
    ck_assert_uint_eq(launches(), 2);
    ck_assert_ptr_null(calls[2].args.outputs[0].data);
    EXPECT_MESSAGE(&calls[2].err, "1 indices of gather");
    EXPECT_MESSAGE(&calls[2].err, "element 1");
    EXPECT_MESSAGE(&calls[4].err, "element 2");
    setup_close(&setup);
}

/* gather with a host kernel that counts its calls, and a device that runs the original one. */
static atomic_int host_runs;

static td_status count_run(struct td_op_args *args, struct td_exec *exec, struct td_error *err)
{
    atomic_fetch_add(&host_runs, 1);
    return td_op_gather.run(args, exec, err);
}

static td_status run_gather(struct td_device_stream *stream, const struct td_device_work *work,
                            struct td_error *err)
{
    struct td_device_work real = *work;
    real.op = &td_op_gather;
    return td_device_reference()->run(stream, &real, err);
}

TD_TEST(the_batchers_thread_does_not_search_for_a_bad_index)
{
    struct td_device_api api = *td_device_reference();
    struct td_op op = td_op_gather;
    struct setup setup = { .options.api = &api };
    struct batch_call call;
    op.run = count_run;
    api.run = run_gather;
    setup_open(&setup, "");
    batch_call_rows(&call, &setup.table, TD_BOUNDS_ERROR, (const int64_t[]){ 1, 10, 3 }, 3);
    call.item.op = &op;
    submit(&setup, &call);
    expect_status(&call, TD_INDEX_OUT_OF_BOUNDS);
    ck_assert_int_eq(atomic_load(&host_runs), 0);
    setup_close(&setup);
}

static const struct {
    const char *description;
    td_bounds bounds;
    int64_t rows;
    td_status status;
    int64_t replaced, picked; /* rows selected by indices 7 and -1; -1: zeros */
} policies[] = {
    { "zeros", TD_BOUNDS_ZERO, 5, TD_OK, 2, -1 },
    { "clipped to the last row and the first", TD_BOUNDS_CLIP, 5, TD_OK, 2, 4 },
    { "modulo the rows", TD_BOUNDS_WRAP, 5, TD_OK, 2, 2 },
    { "zeros from an empty table", TD_BOUNDS_ZERO, 0, TD_OK, 2, -1 },
    { "an empty table has no nearest row", TD_BOUNDS_CLIP, 0, TD_INDEX_OUT_OF_BOUNDS, 0, 0 },
    { "an empty table has no modulo", TD_BOUNDS_WRAP, 0, TD_INDEX_OUT_OF_BOUNDS, 0, 0 },
};

TD_TEST_EACH(bounds_policies_match_those_of_the_op_on_the_host, policies)
{
    struct setup setup = { 0 };
    struct batch_call first, calls[2];
    setup_open(&setup, "");
    struct td_tensor table = table_of(policies[_i].rows, 1), other = table_of(1, 0);
    keep_busy(&setup, &first, &other);
    for (int i = 0; i < 2; i++) { /* two, so that they are merged */
        batch_call_rows(&calls[i], &table, policies[_i].bounds, (const int64_t[]){ 7, -1 }, 2);
        submit(&setup, &calls[i]);
    }
    expect_rows(&first);
    for (int i = 0; i < 2; i++) {
        expect_status(&calls[i], policies[_i].status);
        if (policies[_i].status == TD_OK) {
            const float want = policies[_i].picked < 0 ? 0 : 1 + 1000 * (float)policies[_i].picked;
            ck_assert_msg(((const float *)calls[i].args.outputs[0].data)[0] == want, "%s",
                          policies[_i].description);
            ck_assert_int_eq(calls[i].args.replaced, policies[_i].replaced);
        }
    }
    ck_assert_uint_eq(launches(), 2);
    setup_close(&setup);
}

/* ---- deadlines, disconnected clients, draining ----------------------------------------------- */

TD_TEST(a_call_whose_deadline_passes_in_the_queue_is_not_launched)
{
    struct setup setup = { 0 };
    struct batch_call first, late, next;
    setup_open(&setup, "");
    test_clock_stop();
    keep_busy(&setup, &first, &setup.table);
    batch_call_row(&late, &setup.table, 1);
    late.item.deadline_ns = td_now_ns() + 10 * MS;
    batch_call_row(&next, &setup.table, 2);
    submit(&setup, &late);
    submit(&setup, &next);
    pass_time(&first, 10 * MS);
    ck_assert_int_eq(atomic_load(&late.n_done), 0);
    test_clock_advance(1);
    expect_status(&late, TD_DEADLINE_EXCEEDED);
    ck_assert_int_eq(late.item.begun_ns, 0);
    ck_assert_int_eq(atomic_load(&first.n_done), 0); /* given back before the launch ended */
    expect_rows(&first);
    expect_rows(&next);
    ck_assert_uint_eq(td_device_reference_counts().items, 2);
    setup_close(&setup);
}

TD_TEST(a_call_whose_deadline_passes_in_flight_is_given_back_at_once)
{
    struct setup setup = { 0 };
    struct batch_call first, late, other;
    setup_open(&setup, "");
    test_clock_stop();
    keep_busy(&setup, &first, &setup.table);
    batch_call_row(&late, &setup.table, 1);
    batch_call_row(&other, &setup.table, 2);
    late.item.deadline_ns = td_now_ns() + 1000 * MS;
    submit(&setup, &late);
    submit(&setup, &other);
    hold_launch_after(&first, &other);
    expect_rows(&first);
    EVENTUALLY(counts_of(&setup).in_flight == 2);
    ck_assert_int_eq(atomic_load(&late.n_done), 0);
    test_clock_advance(1000 * MS + 1);
    expect_status(&late, TD_DEADLINE_EXCEEDED);
    ck_assert_int_gt(late.item.begun_ns, 0);
    ck_assert_int_eq(atomic_load(&other.n_done), 0);
    batch_call_end(&late); /* freed while the batch is in flight */
    memset(&late, 0xA5, sizeof late);
    expect_rows(&other);
    setup_close(&setup);
}

TD_TEST(a_call_not_launched_by_its_start_time_limit_is_given_back)
{
    struct setup setup = { 0 };
    struct batch_call first, late, flying;
    setup_open(&setup, "");
    test_clock_stop();
    keep_busy(&setup, &first, &setup.table);
    batch_call_row(&late, &setup.table, 1);
    late.item.start_by_ns = td_now_ns() + 10 * MS;
    batch_call_row(&flying, &setup.table, 2);
    flying.item.start_by_ns = td_now_ns() + 1000 * MS;
    submit(&setup, &late);
    submit(&setup, &flying);
    pass_time(&first, 10 * MS + 1);
    expect_status(&late, TD_DEADLINE_EXCEEDED);
    ck_assert_int_eq(late.item.begun_ns, 0);
    ck_assert_int_eq(atomic_load(&first.n_done), 0); /* given back at once */
    hold_launch_after(&first, &flying);
    expect_rows(&first);
    EVENTUALLY(counts_of(&setup).in_flight == 1);
    pass_time(&flying, 1000 * MS);
    ck_assert_int_eq(atomic_load(&flying.n_done), 0);
    expect_rows(&flying); /* in flight only its deadline counts, and it has none */
    ck_assert_int_gt(flying.done_ns, flying.item.start_by_ns);
    ck_assert_uint_eq(td_device_reference_counts().items, 2);
    setup_close(&setup);
}

TD_TEST(calls_of_disconnected_clients_are_not_launched)
{
    struct setup setup = { 0 };
    struct batch_call first, gone[2], there;
    setup_open(&setup, "");
    keep_busy(&setup, &first, &setup.table);
    for (int i = 0; i < 2; i++) {
        batch_call_row(&gone[i], &setup.table, i);
        gone[i].disconnected = true;
    }
    batch_call_row(&there, &setup.table, 5);
    submit(&setup, &gone[0]);
    submit(&setup, &there);
    submit(&setup, &gone[1]);
    expect_rows(&first);
    expect_rows(&there);
    for (int i = 0; i < 2; i++)
        expect_status(&gone[i], TD_DEADLINE_EXCEEDED);
    ck_assert_uint_eq(td_device_reference_counts().items, 2);
    setup_close(&setup);
}

TD_TEST(draining_gives_back_waiting_items_and_those_submitted_later)
{
    struct setup setup = { 0 };
    struct batch_call first, waiting[3], later, idle;
    setup_open(&setup, "");
    test_clock_stop(); /* a drained device has a second */
    keep_busy(&setup, &first, &setup.table);
    for (int i = 0; i < 3; i++)
        submit_row(&setup, &waiting[i], &setup.table, i);
    td_batcher_drain(setup.batcher);
    for (int i = 0; i < 3; i++) {
        expect_status(&waiting[i], TD_DRAINING);
        ck_assert_int_eq(waiting[i].item.begun_ns, 0);
        batch_call_end(&waiting[i]);
    }
    submit_row(&setup, &later, &setup.table, 4);
    expect_status(&later, TD_DRAINING);
    ck_assert_int_eq(atomic_load(&first.n_done), 0); /* still in flight */
    expect_rows(&first);
    batch_call_row(&idle, &setup.table, 5); /* also while the device is idle */
    submit(&setup, &idle);
    expect_status(&idle, TD_DRAINING);
    upload(&setup, &setup.table, TD_DRAINING);
    ck_assert_uint_eq(launches(), 1);
    ck_assert(counts_of(&setup).available);
    setup_close(&setup);
}

static atomic_int refused; /* calls that were given back because the server stops */

static void count_refused(struct batch_call *call)
{
    atomic_fetch_add(&refused, call->status == TD_DRAINING);
    sem_post(&call->finished);
}

static void *release_when_draining(void *context)
{
    while (atomic_load(&refused) < 3)
        moment();
    release_launch(context);
    return NULL;
}

TD_TEST(free_finishes_batches_in_flight_and_drains_the_queue)
{
    struct setup setup = { 0 };
    struct batch_call first, waiting[3];
    pthread_t releasing;
    setup_open(&setup, "");
    test_clock_stop(); /* a drained device has a second */
    batch_call_row(&first, &setup.table, 0);
    first.on_end = batch_call_end; /* the reply is released; otherwise free would wait for it */
    first.holds_launch = true;
    hold_next_launch();
    submit(&setup, &first);
    EVENTUALLY(counts_of(&setup).in_flight == 1);
    for (int i = 0; i < 3; i++) {
        batch_call_row(&waiting[i], &setup.table, i);
        waiting[i].on_end = count_refused;
        submit(&setup, &waiting[i]);
    }
    ck_assert_int_eq(pthread_create(&releasing, NULL, release_when_draining, &first), 0);
    td_batcher_free(setup.batcher);
    pthread_join(releasing, NULL);
    ck_assert_int_eq(first.status, TD_OK);
    ck_assert_int_eq(atomic_load(&first.n_done), 1);
    for (int i = 0; i < 3; i++) {
        expect_status(&waiting[i], TD_DRAINING);
        batch_call_end(&waiting[i]);
    }
    ck_assert_uint_eq(td_device_reference_counts().leaked, 0);
    td_copiers_free(setup.copiers);
    ck_assert_uint_eq(td_buffer_pool_usage(setup.buffers).in_use, 0);
    td_buffer_pool_free(setup.buffers);
    td_buffer_unref(setup.table.owner);
}

/* The reference device, which records the opened device. */
static struct td_device *opened;

static td_status open_recorded(const struct td_device_options *options, struct td_device **out,
                               struct td_error *err)
{
    const td_status status = td_device_reference()->open(options, out, err);
    opened = *out;
    return status;
}

TD_TEST(replies_outlive_the_batcher)
{
    struct td_device_api remembering = *td_device_reference();
    struct setup setup = { 0 };
    struct batch_call call;
    setup_open(&setup, "");
    td_batcher_free(setup.batcher);
    remembering.open = open_recorded;
    setup.options.api = &remembering;
    setup.batcher = td_batcher_new(&setup.options);
    submit_row(&setup, &call, &setup.table, 7);
    expect_rows(&call);
    td_batcher_free(setup.batcher); /* times out and leaves the device open */
    expect_rows_now(&call);
    batch_call_end(&call);
    ck_assert_uint_eq(td_buffer_pool_usage(setup.buffers).in_use, 0);
    td_buffer_pool_free(setup.buffers);
    ck_assert_uint_eq(atomic_load(&setup.table.owner->refs), 1);
    td_buffer_unref(setup.table.owner);
    td_device_reference()->close(opened);
}
