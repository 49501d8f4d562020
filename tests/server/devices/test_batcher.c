#include "gpu/reference/reference.h"
#include "kernels/einsum/einsum.h"
#include "kernels/gather/gather.h"
#include "server/devices/batcher.h"
#include "server/memory/buffer_pool.h"
#include "server/observe/clock.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KIB ((uint64_t)1 << 10)
#define MIB ((uint64_t)1 << 20)
#define MS  ((int64_t)1000000)

/* ---- a batcher on the reference device ------------------------------------------------------- */

static const struct td_log quiet = { .level = TD_LOG_ERROR, .fd = -1 };

struct setup {
    struct td_batcher *batcher;
    struct td_buffer_pool *buffers;
    struct td_batcher_options options;
};

/* `device` as in reference.h; what is not set yet in options is set to something sensible. */
static void setup_open(struct setup *setup, const char *device)
{
    struct td_batcher_options *options = &setup->options;
    td_device_reference_reset();
    setup->buffers = td_buffer_pool_new(256 * MIB, 0);
    options->api = options->api ? options->api : td_device_reference();
    options->device.text = device;
    options->buffers = setup->buffers;
    options->log = &quiet;
    options->batch_limit = options->batch_limit ? options->batch_limit : 64;
    options->staging_bytes = options->staging_bytes ? options->staging_bytes : 64 * MIB;
    options->hang_ms = options->hang_ms ? options->hang_ms : 10000;
    options->retry_ms = options->retry_ms ? options->retry_ms : 20;
    setup->batcher = td_batcher_new(options);
    ck_assert_ptr_nonnull(setup->batcher);
}

static void setup_close(struct setup *setup)
{
    td_batcher_free(setup->batcher);
    ck_assert_uint_eq(td_device_reference_counts().leaked, 0);
    ck_assert_uint_eq(td_device_reference_counts().misuses, 0);
    ck_assert_uint_eq(td_buffer_pool_stats(setup->buffers).in_use, 0);
    td_buffer_pool_free(setup->buffers);
}

static struct td_batcher_counts counts_of(struct setup *setup)
{
    struct td_batcher_counts counts;
    td_batcher_counts(setup->batcher, &counts);
    return counts;
}

/* Waits until `condition`, for ten seconds at most. */
#define EVENTUALLY(condition)                                                                      \
    do {                                                                                           \
        const int64_t until_ns = td_now_ns() + 10000 * MS;                                         \
        while (!(condition)) {                                                                     \
            EXPECT(td_now_ns() < until_ns, "it does not come to that: %s", #condition);            \
            usleep(200);                                                                           \
        }                                                                                          \
    } while (0)

/* ---- calls ----------------------------------------------------------------------------------- */

/* A table of `rows` rows of COLS floats, row r holding base + 1000 * r + 0, 1, 2, ... */
enum { COLS = 4 };

static struct td_tensor table_of(int64_t rows, float base)
{
    struct td_tensor table;
    struct td_error err;
    const struct td_shape dims = { .rank = 2, .dim = { rows, COLS } };
    ck_assert_int_eq(td_tensor_describe(&table, "table", TD_DTYPE_FLOAT32, &dims, &err), TD_OK);
    table.owner = td_memory_heap()->take(td_memory_heap(), table.bytes, &err);
    table.data = table.owner->data;
    for (int64_t i = 0; i < rows * COLS; i++)
        ((float *)table.data)[i] = base + (float)(1000 * (i / COLS) + i % COLS);
    return table;
}

/* An item, what it is made of, and what became of it. */
struct ask {
    struct td_batch_item item; /* first: done and gone cast back */
    struct td_op_args args;
    struct td_tensor inputs[2];
    struct td_arena arena;
    sem_t over;
    atomic_int dones;
    td_status status;
    struct td_error err;
    pthread_t done_on;
    int64_t done_ns;
    bool left;            /* the client has */
    atomic_int *sequence; /* where its turn is drawn; NULL: nobody asks */
    int turn;
    void (*then)(struct ask *ask); /* the last thing done does; NULL: posts `over` */
};

static void on_done(struct td_batch_item *item, td_status status, const struct td_error *err)
{
    struct ask *ask = (struct ask *)(void *)item;
    ask->status = status;
    if (status != TD_OK)
        ask->err = *err;
    ask->done_on = pthread_self();
    ask->done_ns = td_now_ns();
    if (ask->sequence)
        ask->turn = atomic_fetch_add(ask->sequence, 1);
    atomic_fetch_add(&ask->dones, 1);
    if (ask->then)
        ask->then(ask);
    else
        sem_post(&ask->over);
}

static bool has_left(struct td_batch_item *item)
{
    return ((struct ask *)(void *)item)->left;
}

static void ask_infer(struct ask *ask, const struct td_op *op, uint32_t resident)
{
    struct td_error err;
    ck_assert_msg(td_op_infer(op, &ask->args, &ask->arena, &err) == TD_OK, "%s", err.message);
    ask->item = (struct td_batch_item){
        .op = op,
        .args = &ask->args,
        .resident = resident,
        .arena = &ask->arena,
        .deadline_ns = TD_NEVER,
        .gone = has_left,
        .done = on_done,
    };
}

static void ask_init(struct ask *ask)
{
    memset(ask, 0, sizeof *ask);
    td_arena_init(&ask->arena, NULL, 0, td_memory_heap());
    sem_init(&ask->over, 0, 0);
}

static void ask_begin(struct ask *ask, const struct td_op *op)
{
    ask_init(ask);
    td_op_defaults(op, &ask->args);
}

static void ask_end(struct ask *ask)
{
    td_arena_reset(&ask->arena);
    sem_destroy(&ask->over);
}

/* A lookup of n rows: indices, that lie with the call. */
static void ask_rows(struct ask *ask, const struct td_tensor *table, td_bounds bounds,
                     const int64_t *indices, int64_t n)
{
    struct td_error err;
    const struct td_shape dims = { .rank = 1, .dim = { n } };
    ask_begin(ask, &td_op_gather);
    struct td_gather_attrs attrs = { .axis = TD_ATTR_UNSET, .bounds = bounds };
    memcpy(ask->args.attrs, &attrs, sizeof attrs);
    ask->inputs[0] = *table;
    ck_assert_int_eq(td_tensor_describe(&ask->inputs[1], "indices", TD_DTYPE_INT64, &dims, &err),
                     TD_OK);
    ck_assert_int_eq(td_tensor_alloc(&ask->inputs[1], &ask->arena, &err), TD_OK);
    if (n > 0)
        memcpy(ask->inputs[1].data, indices, (size_t)n * sizeof *indices);
    ask->args.inputs[0] = (struct td_operand){ &ask->inputs[0], 1 };
    ask->args.inputs[1] = (struct td_operand){ &ask->inputs[1], 1 };
    ask_infer(ask, &td_op_gather, 1);
}

static void ask_row(struct ask *ask, const struct td_tensor *table, int64_t index)
{
    ask_rows(ask, table, TD_BOUNDS_ERROR, &index, 1);
}

static void ask_einsum(struct ask *ask, const char *equation, struct td_tensor a,
                       struct td_tensor b, uint32_t resident)
{
    ask_begin(ask, &td_op_einsum);
    const struct td_einsum_attrs attrs = { .equation = equation };
    memcpy(ask->args.attrs, &attrs, sizeof attrs);
    ask->args.attrs_set = 1;
    ask->inputs[0] = a;
    ask->inputs[1] = b;
    ask->args.inputs[0] = (struct td_operand){ ask->inputs, 2 };
    ask_infer(ask, &td_op_einsum, resident);
}

/* A table to be brought to the device. */
static void ask_upload(struct ask *ask, const struct td_tensor *table)
{
    ask_init(ask);
    ask->inputs[0] = *table;
    ask->item = (struct td_batch_item){
        .kind = TD_BATCH_UPLOAD,
        .table = &ask->inputs[0],
        .deadline_ns = TD_NEVER,
        .gone = has_left,
        .done = on_done,
    };
}

static void submit(struct setup *setup, struct ask *ask)
{
    td_batcher_submit(setup->batcher, &ask->item);
}

/* Waits for it and says whether it came to what is expected. */
static void expect_status(struct ask *ask, td_status status)
{
    while (sem_wait(&ask->over) != 0)
        ;
    EXPECT(ask->status == status, "%s, should be %s: %s", td_status_name(ask->status),
           td_status_name(status), ask->err.message);
    ck_assert_int_eq(atomic_load(&ask->dones), 1);
}

/* The rows of its table that a lookup's good indices name. */
static void expect_rows_now(const struct ask *ask)
{
    const struct td_tensor *output = &ask->args.outputs[0];
    ck_assert_ptr_nonnull(output->data);
    for (int64_t i = 0; i < ask->inputs[1].numel; i++) {
        const int64_t row = ((const int64_t *)ask->inputs[1].data)[i];
        EXPECT(memcmp((const float *)output->data + i * COLS,
                      (const float *)ask->inputs[0].data + row * COLS, COLS * sizeof(float)) == 0,
               "row %lld is not that of the table", (long long)row);
    }
}

static void expect_rows(struct ask *ask)
{
    expect_status(ask, TD_OK);
    expect_rows_now(ask);
}

/* Brings a table to the device, or is told why not. */
static void upload(struct setup *setup, const struct td_tensor *table, td_status status)
{
    struct ask ask;
    ask_upload(&ask, table);
    submit(setup, &ask);
    expect_status(&ask, status);
    ask_end(&ask);
}

/* Keeps the device busy: one call whose launch goes on for as long as launch_us says. */
static void keep_busy(struct setup *setup, struct ask *ask, const struct td_tensor *table)
{
    ask_row(ask, table, 0);
    submit(setup, ask);
    EVENTUALLY(counts_of(setup).in_flight == 1);
}

static uint64_t launches(void)
{
    return td_device_reference_counts().launches;
}

/* ---- batches --------------------------------------------------------------------------------- */

START_TEST(an_idle_device_starts_at_once)
{
    struct setup setup = { 0 };
    struct ask ask;
    setup_open(&setup, "");
    struct td_tensor table = table_of(10, 0);
    ask_rows(&ask, &table, TD_BOUNDS_ERROR, (const int64_t[]){ 9, 0, 3 }, 3);
    submit(&setup, &ask);
    expect_rows(&ask);
    ck_assert(!pthread_equal(ask.done_on, pthread_self()));
    ck_assert_int_ge(ask.item.begun_ns, ask.item.submitted_ns);
    ck_assert_int_eq(ask.args.replaced, 0);
    ask_end(&ask);
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
    td_buffer_unref(table.owner);
}
END_TEST

START_TEST(lookups_that_wait_become_one_launch)
{
    enum { N = 64 };
    struct setup setup = { 0 };
    struct ask first, *asks = calloc(N, sizeof *asks);
    setup_open(&setup, "launch_us=50000");
    struct td_tensor table = table_of(1000, 0);
    keep_busy(&setup, &first, &table);
    for (int i = 0; i < N; i++) {
        int64_t indices[N];
        for (int j = 0; j < i; j++)
            indices[j] = (i * 37 + j * 11) % 1000;
        ask_rows(&asks[i], &table, TD_BOUNDS_ERROR, indices, i); /* the first has none */
        submit(&setup, &asks[i]);
    }
    expect_rows(&first);
    ck_assert_ptr_nonnull(first.args.outputs[0].owner); /* a view */
    for (int i = 0; i < N; i++) {
        expect_rows(&asks[i]);
        ck_assert_ptr_null(asks[i].args.outputs[0].owner); /* a copy of a small share */
        ask_end(&asks[i]);
    }
    ck_assert_uint_eq(launches(), 2);
    ck_assert_uint_eq(td_device_reference_counts().items, N + 1);
    ck_assert_uint_eq(counts_of(&setup).batches, 2);
    ask_end(&first);
    setup_close(&setup);
    free(asks);
    td_buffer_unref(table.owner);
}
END_TEST

START_TEST(a_batch_has_no_more_items_than_the_limit)
{
    enum { N = 10 };
    struct setup setup = { .options.batch_limit = 4 };
    struct ask first, asks[N];
    setup_open(&setup, "launch_us=30000");
    struct td_tensor table = table_of(10, 0);
    keep_busy(&setup, &first, &table);
    for (int i = 0; i < N; i++) {
        ask_row(&asks[i], &table, i);
        submit(&setup, &asks[i]);
    }
    expect_rows(&first);
    for (int i = 0; i < N; i++) {
        expect_rows(&asks[i]);
        ask_end(&asks[i]);
    }
    ck_assert_uint_eq(launches(), 1 + 3);
    ask_end(&first);
    setup_close(&setup);
    td_buffer_unref(table.owner);
}
END_TEST

START_TEST(tables_take_turns_by_age)
{
    enum { N = 9 };
    static const char order[] = "baacbcaba";    /* of submission: which table */
    static const int begin[] = { 1, 4, 8, 10 }; /* turns of b's three, a's four, c's two */
    struct setup setup = { 0 };
    struct ask first, asks[N];
    struct td_tensor tables[3];
    atomic_int sequence = 1;
    setup_open(&setup, "launch_us=30000");
    for (int i = 0; i < 3; i++)
        tables[i] = table_of(10, (float)i);
    keep_busy(&setup, &first, &tables[0]);
    for (int i = 0; i < N; i++) {
        ask_row(&asks[i], &tables[order[i] - 'a'], i);
        asks[i].sequence = &sequence;
        submit(&setup, &asks[i]);
    }
    expect_rows(&first);
    for (int i = 0; i < N; i++)
        expect_rows(&asks[i]);
    for (int i = 0; i < N; i++) {
        const int group = order[i] == 'b' ? 0 : order[i] == 'a' ? 1 : 2;
        EXPECT(asks[i].turn >= begin[group] && asks[i].turn < begin[group + 1],
               "call %d had turn %d", i, asks[i].turn);
        ask_end(&asks[i]);
    }
    ck_assert_uint_eq(launches(), 4);
    ask_end(&first);
    setup_close(&setup);
    for (int i = 0; i < 3; i++)
        td_buffer_unref(tables[i].owner);
}
END_TEST

START_TEST(einsums_of_one_plan_become_one_launch)
{
    enum { N = 12 };
    struct setup setup = { 0 };
    struct ask first, asks[N];
    struct td_tensor table = table_of(10, 0), weights = table_of(5, 1);
    setup_open(&setup, "launch_us=50000");
    keep_busy(&setup, &first, &table);
    /* x [3,5] times a table [5,4], which is resident for every other call. */
    for (int i = 0; i < N; i++) {
        struct td_tensor x = tensor("float32[3,5] 0..14");
        ((float *)x.data)[0] = (float)i;
        ask_einsum(&asks[i], "ij,jk->ik", x, weights, i % 2 ? 2 : 0);
        submit(&setup, &asks[i]);
    }
    expect_rows(&first);
    for (int i = 0; i < N; i++) {
        expect_status(&asks[i], TD_OK);
        const float *x = asks[i].inputs[0].data, *w = weights.data;
        const float *out = asks[i].args.outputs[0].data;
        for (int row = 0; row < 3; row++)
            for (int k = 0; k < COLS; k++) {
                float sum = 0; /* of whole numbers below 2^24: exact in any order */
                for (int j = 0; j < 5; j++)
                    sum += x[row * 5 + j] * w[j * COLS + k];
                EXPECT(out[row * COLS + k] == sum, "call %d", i);
            }
        ask_end(&asks[i]);
    }
    ck_assert_uint_eq(launches(), 1 + 2); /* with the table, and without */
    ask_end(&first);
    setup_close(&setup);
    td_buffer_unref(table.owner);
    td_buffer_unref(weights.owner);
}
END_TEST

START_TEST(an_idle_device_waits_for_others_if_it_is_told_to)
{
    enum { N = 5 };
    struct setup setup = { .options.batch_wait_us = 100000, .options.batch_limit = N };
    struct ask asks[N], alone;
    setup_open(&setup, "");
    struct td_tensor table = table_of(10, 0);
    for (int i = 0; i < N; i++) {
        ask_row(&asks[i], &table, i);
        submit(&setup, &asks[i]);
    }
    for (int i = 0; i < N; i++) {
        expect_rows(&asks[i]);
        ck_assert_int_lt(asks[i].done_ns - asks[0].item.submitted_ns, 90 * MS); /* it is full */
        ask_end(&asks[i]);
    }
    ck_assert_uint_eq(launches(), 1);
    ask_row(&alone, &table, 3);
    submit(&setup, &alone);
    expect_rows(&alone);
    ck_assert_int_ge(alone.done_ns - alone.item.submitted_ns, 100 * MS);
    ask_end(&alone);
    setup_close(&setup);
    td_buffer_unref(table.owner);
}
END_TEST

START_TEST(what_does_not_merge_goes_alone)
{
    struct setup setup = { 0 };
    struct ask first, asks[3];
    setup_open(&setup, "launch_us=20000");
    struct td_tensor table = table_of(10, 0), other = table;
    other.owner = NULL; /* no version: brought along */
    keep_busy(&setup, &first, &table);
    for (int i = 0; i < 3; i++) {
        ask_row(&asks[i], &other, i);
        submit(&setup, &asks[i]);
    }
    expect_rows(&first);
    for (int i = 0; i < 3; i++) {
        expect_rows(&asks[i]);
        ask_end(&asks[i]);
    }
    ck_assert_uint_eq(launches(), 4);
    ck_assert_uint_eq(counts_of(&setup).tables, 1);
    ask_end(&first);
    setup_close(&setup);
    td_buffer_unref(table.owner);
}
END_TEST

START_TEST(an_op_with_several_outputs_gets_them_all)
{
    struct setup setup = { 0 };
    struct ask ask;
    setup_open(&setup, "");
    const struct td_op *op = td_op_find("dynamic_partition", strlen("dynamic_partition"));
    const int64_t parts = 3;
    ask_begin(&ask, op);
    ask.inputs[0] = tensor("float32[5] 0..4");
    ask.inputs[1] = tensor("int32[5] 2 0 2 0 0");
    for (int i = 0; i < 2; i++)
        ask.args.inputs[i] = (struct td_operand){ &ask.inputs[i], 1 };
    memcpy(ask.args.attrs + op->attrs[0].offset, &parts, sizeof parts);
    ask.args.attrs_set = 1;
    ask_infer(&ask, op, 0);
    submit(&setup, &ask);
    expect_status(&ask, TD_OK);
    expect_tensor(&ask.args.outputs[0], "float32[3] 1 3 4", "part 0");
    expect_tensor(&ask.args.outputs[1], "float32[0]", "part 1");
    expect_tensor(&ask.args.outputs[2], "float32[2] 0 2", "part 2");
    ask_end(&ask);
    setup_close(&setup);
}
END_TEST

START_TEST(a_tensor_may_be_there_twice)
{
    struct setup setup = { 0 };
    struct ask ask;
    setup_open(&setup, "");
    struct td_tensor table = table_of(2, 1);
    ask_einsum(&ask, "ij,kj->ik", table, table, _i == 0 ? 3 : 0);
    submit(&setup, &ask);
    expect_status(&ask, TD_OK);
    /* Rows 1 2 3 4 and 1001 1002 1003 1004. */
    expect_tensor(&ask.args.outputs[0], "float32[2,2] 30 10030 10030 4020030", "x x^T");
    ck_assert_uint_eq(counts_of(&setup).tables, _i == 0 ? 1 : 0);
    ask_end(&ask);
    setup_close(&setup);
    td_buffer_unref(table.owner);
}
END_TEST

/* ---- bad indices ----------------------------------------------------------------------------- */

START_TEST(a_bad_index_is_the_failure_of_its_call_only)
{
    enum { N = 6 };
    struct setup setup = { 0 };
    struct ask first, asks[N];
    setup_open(&setup, "launch_us=30000");
    struct td_tensor table = table_of(10, 0);
    keep_busy(&setup, &first, &table);
    for (int i = 0; i < N; i++) {
        const int64_t indices[] = { 1, i == 2 ? 10 : 2, i == 4 ? -7 : 3 };
        ask_rows(&asks[i], &table, TD_BOUNDS_ERROR, indices, 3);
        submit(&setup, &asks[i]);
    }
    expect_rows(&first);
    for (int i = 0; i < N; i++) {
        expect_status(&asks[i], i == 2 || i == 4 ? TD_INDEX_OUT_OF_BOUNDS : TD_OK);
        if (asks[i].status == TD_OK)
            expect_rows_now(&asks[i]);
    }
    ck_assert_uint_eq(launches(), 2);
    ck_assert_ptr_null(asks[2].args.outputs[0].data);
    ck_assert_ptr_nonnull(strstr(asks[2].err.message, "1 indices of gather"));
    ck_assert_ptr_nonnull(strstr(asks[2].err.message, "element 1"));
    ck_assert_ptr_nonnull(strstr(asks[4].err.message, "element 2"));
    for (int i = 0; i < N; i++)
        ask_end(&asks[i]);
    ask_end(&first);
    setup_close(&setup);
    td_buffer_unref(table.owner);
}
END_TEST

/* gather, but that its kernel on the host counts its calls; and a device that runs the real one. */
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

START_TEST(the_batchers_thread_does_not_look_for_a_bad_index)
{
    struct td_device_api api = *td_device_reference();
    struct td_op op = td_op_gather;
    struct setup setup = { .options.api = &api };
    struct ask ask;
    op.run = count_run;
    api.run = run_gather;
    setup_open(&setup, "");
    struct td_tensor table = table_of(10, 0);
    ask_rows(&ask, &table, TD_BOUNDS_ERROR, (const int64_t[]){ 1, 10, 3 }, 3);
    ask.item.op = &op;
    submit(&setup, &ask);
    expect_status(&ask, TD_INDEX_OUT_OF_BOUNDS);
    ck_assert_int_eq(atomic_load(&host_runs), 0);
    ask_end(&ask);
    setup_close(&setup);
    td_buffer_unref(table.owner);
}
END_TEST

static const struct {
    const char *says;
    td_bounds bounds;
    int64_t rows;
    td_status status;
    int64_t replaced, picked; /* rows that indices 7 and -1 give; -1: zeros */
} policies[] = {
    { "zeros", TD_BOUNDS_ZERO, 5, TD_OK, 2, -1 },
    { "the last row and the first", TD_BOUNDS_CLIP, 5, TD_OK, 2, 4 },
    { "modulo the rows", TD_BOUNDS_WRAP, 5, TD_OK, 2, 2 },
    { "zeros from an empty table", TD_BOUNDS_ZERO, 0, TD_OK, 2, -1 },
    { "there is no nearest row", TD_BOUNDS_CLIP, 0, TD_INDEX_OUT_OF_BOUNDS, 0, 0 },
    { "there is no modulo 0", TD_BOUNDS_WRAP, 0, TD_INDEX_OUT_OF_BOUNDS, 0, 0 },
};

START_TEST(bounds_policies_are_those_of_the_op)
{
    struct setup setup = { 0 };
    struct ask first, asks[2];
    setup_open(&setup, "launch_us=10000");
    struct td_tensor table = table_of(policies[_i].rows, 1), other = table_of(1, 0);
    keep_busy(&setup, &first, &other);
    for (int i = 0; i < 2; i++) { /* two, so that they are merged */
        ask_rows(&asks[i], &table, policies[_i].bounds, (const int64_t[]){ 7, -1 }, 2);
        submit(&setup, &asks[i]);
    }
    expect_rows(&first);
    for (int i = 0; i < 2; i++) {
        expect_status(&asks[i], policies[_i].status);
        if (policies[_i].status == TD_OK) {
            const float want = policies[_i].picked < 0 ? 0 : 1 + 1000 * (float)policies[_i].picked;
            ck_assert_msg(((const float *)asks[i].args.outputs[0].data)[0] == want, "%s",
                          policies[_i].says);
            ck_assert_int_eq(asks[i].args.replaced, policies[_i].replaced);
        }
        ask_end(&asks[i]);
    }
    ck_assert_uint_eq(launches(), 2);
    ask_end(&first);
    setup_close(&setup);
    td_buffer_unref(table.owner);
    td_buffer_unref(other.owner);
}
END_TEST

/* ---- deadlines, clients that leave, the end -------------------------------------------------- */

START_TEST(a_deadline_that_passes_in_the_queue_is_not_launched)
{
    struct setup setup = { 0 };
    struct ask first, late, next;
    setup_open(&setup, "launch_us=100000");
    struct td_tensor table = table_of(10, 0);
    keep_busy(&setup, &first, &table);
    ask_row(&late, &table, 1);
    late.item.deadline_ns = td_now_ns() + 10 * MS;
    ask_row(&next, &table, 2);
    submit(&setup, &late);
    submit(&setup, &next);
    expect_status(&late, TD_DEADLINE_EXCEEDED);
    ck_assert_int_eq(late.item.begun_ns, 0);
    ck_assert_int_eq(atomic_load(&first.dones), 0); /* that was not what it waited for */
    expect_rows(&first);
    expect_rows(&next);
    ck_assert_uint_eq(td_device_reference_counts().items, 2);
    ask_end(&first);
    ask_end(&late);
    ask_end(&next);
    setup_close(&setup);
    td_buffer_unref(table.owner);
}
END_TEST

START_TEST(a_deadline_that_passes_in_flight_is_told_at_once)
{
    struct setup setup = { 0 };
    struct ask first, late, other;
    setup_open(&setup, "launch_us=100000");
    struct td_tensor table = table_of(10, 0);
    keep_busy(&setup, &first, &table);
    ask_row(&late, &table, 1);
    ask_row(&other, &table, 2);
    late.item.deadline_ns = first.item.submitted_ns + 150 * MS; /* half through the second */
    submit(&setup, &late);
    submit(&setup, &other);
    expect_rows(&first);
    expect_status(&late, TD_DEADLINE_EXCEEDED);
    ck_assert_int_gt(late.item.begun_ns, 0);
    ck_assert_int_eq(atomic_load(&other.dones), 0);
    ask_end(&late); /* its memory goes while the batch goes on */
    memset(&late, 0xA5, sizeof late);
    expect_rows(&other);
    ask_end(&first);
    ask_end(&other);
    setup_close(&setup);
    td_buffer_unref(table.owner);
}
END_TEST

START_TEST(a_call_that_is_late_for_its_launch_is_given_back)
{
    struct setup setup = { 0 };
    struct ask first, late, flying;
    setup_open(&setup, "launch_us=100000");
    struct td_tensor table = table_of(10, 0);
    keep_busy(&setup, &first, &table);
    ask_row(&late, &table, 1);
    late.item.start_by_ns = td_now_ns() + 10 * MS;
    ask_row(&flying, &table, 2);
    flying.item.start_by_ns = first.item.submitted_ns + 180 * MS; /* well into the second launch */
    submit(&setup, &late);
    submit(&setup, &flying);
    expect_status(&late, TD_DEADLINE_EXCEEDED);
    ck_assert_int_eq(late.item.begun_ns, 0);
    ck_assert_int_eq(atomic_load(&first.dones), 0); /* it was told at once */
    expect_rows(&first);
    expect_rows(&flying); /* once it is in flight its deadline counts, and it has none */
    ck_assert_int_gt(flying.done_ns, flying.item.start_by_ns);
    ck_assert_uint_eq(td_device_reference_counts().items, 2);
    ask_end(&first);
    ask_end(&late);
    ask_end(&flying);
    setup_close(&setup);
    td_buffer_unref(table.owner);
}
END_TEST

START_TEST(who_has_left_is_not_computed_for)
{
    struct setup setup = { 0 };
    struct ask first, gone[2], there;
    setup_open(&setup, "launch_us=30000");
    struct td_tensor table = table_of(10, 0);
    keep_busy(&setup, &first, &table);
    for (int i = 0; i < 2; i++) {
        ask_row(&gone[i], &table, i);
        gone[i].left = true;
    }
    ask_row(&there, &table, 5);
    submit(&setup, &gone[0]);
    submit(&setup, &there);
    submit(&setup, &gone[1]);
    expect_rows(&first);
    expect_rows(&there);
    for (int i = 0; i < 2; i++) {
        expect_status(&gone[i], TD_DEADLINE_EXCEEDED);
        ask_end(&gone[i]);
    }
    ck_assert_uint_eq(td_device_reference_counts().items, 2);
    ask_end(&first);
    ask_end(&there);
    setup_close(&setup);
    td_buffer_unref(table.owner);
}
END_TEST

START_TEST(draining_gives_back_what_waits_and_what_comes_later)
{
    struct setup setup = { 0 };
    struct ask first, waiting[3], later, idle;
    setup_open(&setup, "launch_us=100000");
    struct td_tensor table = table_of(10, 0);
    keep_busy(&setup, &first, &table);
    for (int i = 0; i < 3; i++) {
        ask_row(&waiting[i], &table, i);
        submit(&setup, &waiting[i]);
    }
    td_batcher_drain(setup.batcher);
    for (int i = 0; i < 3; i++) {
        expect_status(&waiting[i], TD_DRAINING);
        ck_assert_int_eq(waiting[i].item.begun_ns, 0);
        ask_end(&waiting[i]);
    }
    ask_row(&later, &table, 4);
    submit(&setup, &later);
    expect_status(&later, TD_DRAINING);
    ck_assert_int_eq(atomic_load(&first.dones), 0); /* nobody has waited for it */
    expect_rows(&first);
    ask_row(&idle, &table, 5); /* whether the device has anything to do or not */
    submit(&setup, &idle);
    expect_status(&idle, TD_DRAINING);
    upload(&setup, &table, TD_DRAINING);
    ck_assert_uint_eq(launches(), 1);
    ck_assert(counts_of(&setup).available);
    ask_end(&first);
    ask_end(&later);
    ask_end(&idle);
    setup_close(&setup);
    td_buffer_unref(table.owner);
}
END_TEST

START_TEST(free_ends_what_is_in_flight_and_drains_the_rest)
{
    struct setup setup = { 0 };
    struct ask first, waiting[3];
    setup_open(&setup, "launch_us=50000");
    struct td_tensor table = table_of(10, 0);
    ask_row(&first, &table, 0);
    first.then = ask_end; /* the answer is sent; else free would wait for it to be */
    submit(&setup, &first);
    EVENTUALLY(counts_of(&setup).in_flight == 1);
    for (int i = 0; i < 3; i++) {
        ask_row(&waiting[i], &table, i);
        submit(&setup, &waiting[i]);
    }
    td_batcher_free(setup.batcher);
    ck_assert_int_eq(first.status, TD_OK);
    ck_assert_int_eq(atomic_load(&first.dones), 1);
    for (int i = 0; i < 3; i++) {
        expect_status(&waiting[i], TD_DRAINING);
        ask_end(&waiting[i]);
    }
    ck_assert_uint_eq(td_device_reference_counts().leaked, 0);
    ck_assert_uint_eq(td_buffer_pool_stats(setup.buffers).in_use, 0);
    td_buffer_pool_free(setup.buffers);
    td_buffer_unref(table.owner);
}
END_TEST

/* The reference device, but that somebody remembers which device was opened. */
static struct td_device *opened;

static td_status remember(const struct td_device_options *options, struct td_device **out,
                          struct td_error *err)
{
    const td_status status = td_device_reference()->open(options, out, err);
    opened = *out;
    return status;
}

START_TEST(answers_outlive_the_batcher)
{
    struct td_device_api remembering = *td_device_reference();
    struct setup setup = { 0 };
    struct ask ask;
    setup_open(&setup, "");
    td_batcher_free(setup.batcher);
    remembering.open = remember;
    setup.options.api = &remembering;
    setup.batcher = td_batcher_new(&setup.options);
    struct td_tensor table = table_of(10, 0);
    ask_row(&ask, &table, 7);
    submit(&setup, &ask);
    expect_rows(&ask);
    td_batcher_free(setup.batcher); /* has waited in vain, and left the device open */
    expect_rows_now(&ask);
    ask_end(&ask);
    ck_assert_uint_eq(td_buffer_pool_stats(setup.buffers).in_use, 0);
    td_buffer_pool_free(setup.buffers);
    ck_assert_uint_eq(atomic_load(&table.owner->refs), 1);
    td_buffer_unref(table.owner);
    td_device_reference()->close(opened);
}
END_TEST

/* ---- a device that fails --------------------------------------------------------------------- */

START_TEST(a_lost_device_gives_everything_back_and_is_opened_again)
{
    enum { N = 20 };
    struct setup setup = { .options.batch_limit = 4, .options.retry_ms = 50 };
    struct ask first, asks[N], again;
    char why[TD_DEVICE_TEXT];
    setup_open(&setup, "launch_us=20000,lose_at=2");
    struct td_tensor table = table_of(10, 0);
    keep_busy(&setup, &first, &table);
    for (int i = 0; i < N; i++) {
        ask_row(&asks[i], &table, i % 10);
        submit(&setup, &asks[i]);
    }
    /* The second launch comes when the first is about to end: that may be lost with it. */
    while (sem_wait(&first.over) != 0)
        ;
    for (int i = 0; i < N; i++)
        expect_status(&asks[i], TD_DEVICE_UNAVAILABLE);
    ck_assert_uint_ge(counts_of(&setup).failed_items, N);
    EVENTUALLY(td_batcher_available(setup.batcher, why) || why[0]);
    ask_end(&first);
    EVENTUALLY(td_batcher_available(setup.batcher, why));
    ck_assert_str_eq(why, "");
    ck_assert_uint_eq(counts_of(&setup).opens, 2);
    ask_row(&again, &table, 4);
    submit(&setup, &again);
    expect_rows(&again);
    ck_assert_uint_eq(counts_of(&setup).tables, 1);
    for (int i = 0; i < N; i++) {
        ck_assert_int_eq(atomic_load(&asks[i].dones), 1);
        ask_end(&asks[i]);
    }
    ask_end(&again);
    setup_close(&setup);
    td_buffer_unref(table.owner);
}
END_TEST

START_TEST(a_lost_device_is_closed_when_the_answers_have_been_read)
{
    struct setup setup = { .options.retry_ms = 1 };
    struct ask answered, lost;
    setup_open(&setup, "lose_at=2");
    struct td_tensor table = table_of(10, 0);
    ask_row(&answered, &table, 3);
    submit(&setup, &answered);
    expect_rows(&answered);
    ask_row(&lost, &table, 4);
    submit(&setup, &lost);
    expect_status(&lost, TD_DEVICE_UNAVAILABLE);
    usleep(50000);
    ck_assert(!counts_of(&setup).available);
    expect_rows_now(&answered);
    ask_end(&answered);
    EVENTUALLY(counts_of(&setup).available);
    ask_end(&lost);
    setup_close(&setup);
    td_buffer_unref(table.owner);
}
END_TEST

START_TEST(a_batch_that_does_not_end_is_a_lost_device)
{
    struct setup setup = { .options.hang_ms = 60 };
    struct ask hung, waiting, late, again;
    setup_open(&setup, "hang_at=1");
    struct td_tensor table = table_of(10, 0), other = table_of(20, 0);
    ask_row(&hung, &table, 1);
    ask_row(&late, &table, 1);
    late.item.deadline_ns = td_now_ns() + 20 * MS;
    ask_row(&waiting, &other, 2);
    const int64_t begun_ns = td_now_ns();
    submit(&setup, &hung);
    submit(&setup, &late);
    submit(&setup, &waiting);
    expect_status(&late, TD_DEADLINE_EXCEEDED);
    expect_status(&hung, TD_DEVICE_UNAVAILABLE);
    expect_status(&waiting, TD_DEVICE_UNAVAILABLE);
    ck_assert_int_ge(td_now_ns() - begun_ns, 60 * MS);
    EVENTUALLY(counts_of(&setup).available);
    ask_row(&again, &table, 9);
    submit(&setup, &again);
    expect_rows(&again);
    ask_end(&hung);
    ask_end(&late);
    ask_end(&waiting);
    ask_end(&again);
    setup_close(&setup);
    td_buffer_unref(table.owner);
    td_buffer_unref(other.owner);
}
END_TEST

/* 10 MB to the device take 100 ms there, so that 50 ms and twice these are what a batch may take. */
#define SLOW_COPIES "copy_mb_per_s=100"
enum { MANY_ROWS = 625000 };

START_TEST(moving_many_bytes_is_not_hanging)
{
    struct setup setup = { .options.hang_ms = 50 };
    struct ask ask;
    setup_open(&setup, SLOW_COPIES);
    struct td_tensor table = table_of(MANY_ROWS, 0), other = table_of(MANY_ROWS, 1);
    const int64_t begun_ns = td_now_ns();
    upload(&setup, &other, TD_OK);
    ck_assert_int_ge(td_now_ns() - begun_ns, 100 * MS);
    ask_row(&ask, &table, MANY_ROWS - 1);
    submit(&setup, &ask);
    expect_rows(&ask);
    ck_assert_int_ge(ask.done_ns - ask.item.submitted_ns, 100 * MS);
    ck_assert_uint_eq(counts_of(&setup).opens, 1);
    ask_end(&ask);
    setup_close(&setup);
    td_buffer_unref(table.owner);
    td_buffer_unref(other.owner);
}
END_TEST

START_TEST(nor_is_waiting_for_the_bytes_of_another)
{
    struct setup setup = { .options.hang_ms = 50 };
    struct ask first, brought, ask;
    setup_open(&setup, SLOW_COPIES);
    struct td_tensor table = table_of(10, 0), large = table_of(MANY_ROWS, 0);
    ask_row(&first, &table, 1); /* its table is there */
    submit(&setup, &first);
    expect_rows(&first);
    ask_upload(&brought, &large);
    submit(&setup, &brought);
    EVENTUALLY(counts_of(&setup).in_flight == 1);
    ask_row(&ask, &table, 2);
    submit(&setup, &ask);
    expect_rows(&ask);
    expect_status(&brought, TD_OK);
    ck_assert_uint_eq(counts_of(&setup).opens, 1);
    ask_end(&first);
    ask_end(&brought);
    ask_end(&ask);
    setup_close(&setup);
    td_buffer_unref(table.owner);
    td_buffer_unref(large.owner);
}
END_TEST

START_TEST(what_hangs_is_found_later_where_many_bytes_move)
{
    struct setup setup = { .options.hang_ms = 50 };
    struct ask hung;
    setup_open(&setup, SLOW_COPIES ",hang_at=1");
    struct td_tensor table = table_of(MANY_ROWS, 0);
    ask_row(&hung, &table, 1);
    submit(&setup, &hung);
    expect_status(&hung, TD_DEVICE_UNAVAILABLE);
    ck_assert_int_ge(hung.done_ns - hung.item.begun_ns, 250 * MS);
    ask_end(&hung);
    setup_close(&setup);
    td_buffer_unref(table.owner);
}
END_TEST

START_TEST(draining_does_not_wait_for_a_device_that_hangs)
{
    struct setup setup = { 0 }; /* hang_ms is ten seconds */
    struct ask hung;
    setup_open(&setup, "hang_at=1");
    struct td_tensor table = table_of(10, 0);
    ask_row(&hung, &table, 1);
    submit(&setup, &hung);
    EVENTUALLY(counts_of(&setup).in_flight == 1);
    const int64_t begun_ns = td_now_ns();
    td_batcher_drain(setup.batcher);
    expect_status(&hung, TD_DEVICE_UNAVAILABLE);
    ck_assert_ptr_nonnull(strstr(hung.err.message, "when the server stopped"));
    ck_assert_int_ge(hung.done_ns - begun_ns, 900 * MS);
    ck_assert_int_lt(hung.done_ns - begun_ns, 3000 * MS);
    setup_close(&setup);
    ask_end(&hung);
    td_buffer_unref(table.owner);
}
END_TEST

START_TEST(free_does_not_wait_for_a_device_that_hangs)
{
    struct setup setup = { .options.hang_ms = 100 };
    struct ask hung, waiting;
    setup_open(&setup, "hang_at=1");
    struct td_tensor table = table_of(10, 0);
    ask_row(&hung, &table, 1);
    ask_row(&waiting, &table, 1);
    submit(&setup, &hung);
    EVENTUALLY(counts_of(&setup).in_flight == 1);
    submit(&setup, &waiting);
    const int64_t begun_ns = td_now_ns();
    setup_close(&setup);
    ck_assert_int_lt(td_now_ns() - begun_ns, 1000 * MS);
    expect_status(&hung, TD_DEVICE_UNAVAILABLE);
    expect_status(&waiting, TD_DRAINING);
    ask_end(&hung);
    ask_end(&waiting);
    ck_assert_uint_eq(atomic_load(&table.owner->refs), 1);
    td_buffer_unref(table.owner);
}
END_TEST

/* The reference device, but for a close that does not return while `stuck`. */
static atomic_bool stuck;

static void slow_close(struct td_device *device)
{
    while (atomic_load(&stuck))
        usleep(1000);
    td_device_reference()->close(device);
}

START_TEST(free_leaves_a_device_alone_that_cannot_be_closed)
{
    struct td_device_api slow = *td_device_reference();
    struct setup setup = { .options.hang_ms = 50 };
    struct ask hung;
    atomic_store(&stuck, true);
    slow.close = slow_close;
    setup_open(&setup, "hang_at=1");
    td_batcher_free(setup.batcher);
    setup.options.api = &slow;
    setup.options.device.text = "hang_at=2,recover=0";
    setup.batcher = td_batcher_new(&setup.options);
    struct td_tensor table = table_of(10, 0), there = table_of(10, 0);
    ask_row(&hung, &there, 1); /* this table has been uploaded, that one is on its way */
    submit(&setup, &hung);
    expect_rows(&hung);
    ask_end(&hung);
    ask_row(&hung, &table, 1);
    submit(&setup, &hung);
    expect_status(&hung, TD_DEVICE_UNAVAILABLE);
    const int64_t begun_ns = td_now_ns();
    td_batcher_free(setup.batcher);
    ck_assert_int_lt(td_now_ns() - begun_ns, 1500 * MS);
    ck_assert_uint_eq(td_buffer_pool_stats(setup.buffers).in_use, 0);
    td_buffer_pool_free(setup.buffers);
    ck_assert_uint_eq(atomic_load(&there.owner->refs), 1);
    ck_assert_uint_eq(atomic_load(&table.owner->refs), 2);
    atomic_store(&stuck, false);
    usleep(50000); /* lets the one who closes it end, for sanitizers' sake */
    ask_end(&hung);
    td_buffer_unref(table.owner);
    td_buffer_unref(table.owner);
    td_buffer_unref(there.owner);
}
END_TEST

/* The reference device, but for an open that does not return while `stuck`. */
static td_status slow_open(const struct td_device_options *options, struct td_device **out,
                           struct td_error *err)
{
    while (atomic_load(&stuck))
        usleep(1000);
    return td_device_reference()->open(options, out, err);
}

START_TEST(nobody_waits_for_a_device_that_is_opened_in_the_background)
{
    struct td_device_api slow = *td_device_reference();
    struct setup setup = { .options.in_background = true };
    char why[TD_DEVICE_TEXT];
    atomic_store(&stuck, true);
    slow.open = slow_open;
    setup_open(&setup, "");
    td_batcher_free(setup.batcher);
    setup.options.api = &slow;
    setup.batcher = td_batcher_new(&setup.options);
    ck_assert_ptr_nonnull(setup.batcher);
    ck_assert(!td_batcher_available(setup.batcher, why));
    ck_assert_str_eq(why, "it is being opened");
    atomic_store(&stuck, false);
    EVENTUALLY(td_batcher_available(setup.batcher, why));
    setup_close(&setup);
}
END_TEST

START_TEST(free_does_not_wait_for_a_device_that_is_being_opened)
{
    struct td_device_api slow = *td_device_reference();
    struct setup setup = { .options.in_background = true };
    atomic_store(&stuck, true);
    slow.open = slow_open;
    setup_open(&setup, "");
    td_batcher_free(setup.batcher);
    setup.options.api = &slow;
    setup.batcher = td_batcher_new(&setup.options);
    usleep(20000); /* it is at it */
    const int64_t begun_ns = td_now_ns();
    td_batcher_free(setup.batcher);
    ck_assert_int_lt(td_now_ns() - begun_ns, 1000 * MS);
    atomic_store(&stuck, false);
    EVENTUALLY(td_device_reference_counts().leaked == 0); /* what nobody wants is closed */
    usleep(50000); /* by a thread that ends, for sanitizers */
    td_buffer_pool_free(setup.buffers);
}
END_TEST

START_TEST(a_drain_does_not_open_a_device_again)
{
    struct setup setup = { .options.retry_ms = 1 };
    struct ask hung;
    setup_open(&setup, "hang_at=1");
    struct td_tensor table = table_of(10, 0);
    ask_row(&hung, &table, 1);
    submit(&setup, &hung);
    EVENTUALLY(counts_of(&setup).in_flight == 1);
    td_batcher_drain(setup.batcher);
    expect_status(&hung, TD_DEVICE_UNAVAILABLE);
    usleep(100000);
    ck_assert_uint_eq(counts_of(&setup).opens, 1);
    setup_close(&setup);
    ask_end(&hung);
    td_buffer_unref(table.owner);
}
END_TEST

START_TEST(a_device_that_cannot_be_opened_is_tried_again)
{
    struct setup setup = { .options.retry_ms = 100 };
    struct ask early, later;
    char why[TD_DEVICE_TEXT];
    setup_open(&setup, "fail_open=1");
    struct td_tensor table = table_of(10, 0);
    ck_assert(!td_batcher_available(setup.batcher, why));
    ck_assert_ptr_nonnull(strstr(why, "fails at opening 1"));
    ask_row(&early, &table, 1);
    submit(&setup, &early);
    expect_status(&early, TD_DEVICE_UNAVAILABLE);
    ck_assert(!pthread_equal(early.done_on, pthread_self()));
    upload(&setup, &table, TD_DEVICE_UNAVAILABLE);
    ck_assert(!td_batcher_has_table(setup.batcher, &table));
    EVENTUALLY(td_batcher_available(setup.batcher, why));
    ask_row(&later, &table, 1);
    submit(&setup, &later);
    expect_rows(&later);
    ask_end(&early);
    ask_end(&later);
    setup_close(&setup);
    td_buffer_unref(table.owner);
}
END_TEST

START_TEST(what_the_device_has_no_kernel_for_is_refused)
{
    struct setup setup = { 0 };
    struct ask ask, good;
    setup_open(&setup, "");
    struct td_tensor table = table_of(10, 0);
    ask_begin(&ask, &td_op_gather);
    ask.inputs[0] = tensor("string[2] 'a' 'b'");
    ask.inputs[1] = tensor("int32[1] 0");
    for (int i = 0; i < 2; i++)
        ask.args.inputs[i] = (struct td_operand){ &ask.inputs[i], 1 };
    ask_infer(&ask, &td_op_gather, 0);
    ck_assert_int_eq(td_batcher_check_kernel(setup.batcher, &td_op_gather, &ask.args, NULL),
                     TD_UNSUPPORTED_DTYPE);
    submit(&setup, &ask);
    expect_status(&ask, TD_UNSUPPORTED_DTYPE);
    ck_assert_str_eq(ask.err.device, "gpu");
    ck_assert_str_eq(ask.err.input, "params");
    ck_assert_ptr_nonnull(strstr(ask.err.message, "no kernel for gather with params = string[2];"));
    ask_row(&good, &table, 1);
    ck_assert_int_eq(td_batcher_check_kernel(setup.batcher, &td_op_gather, &good.args, NULL),
                     TD_OK);
    submit(&setup, &good);
    expect_rows(&good);
    ask_end(&ask);
    ask_end(&good);
    setup_close(&setup);
    td_buffer_unref(table.owner);
}
END_TEST

/* ---- memory ---------------------------------------------------------------------------------- */

/* Calls of 4096 indices: 32 KiB in, 64 KiB out; N of them and one that is `large` times as long. */
enum { ROWS_EACH = 4096 };

static const struct {
    const char *says;
    uint64_t device, staging; /* 0: plenty */
    int64_t large;            /* 0: none */
    td_status status;         /* of the large one */
    uint64_t least, most;     /* launches, the first one included */
} rooms[] = {
    { "plenty of room", 0, 0, 0, TD_OK, 2, 2 },
    { "the device holds a few at a time", 600 * 1024, 0, 0, TD_OK, 3, 9 },
    { "so does the staging memory", 0, 1 << 20, 0, TD_OK, 3, 9 },
    { "one is too large for the device", 600 * 1024, 0, 16, TD_RESOURCE_LIMIT, 3, 9 },
    { "one is too large for the staging memory", 0, 1 << 20, 16, TD_RESOURCE_LIMIT, 3, 9 },
    { "one is large", 0, 0, 16, TD_OK, 2, 4 },
};

START_TEST(what_does_not_fit_together_goes_in_several_batches)
{
    enum { N = 8 };
    struct setup setup = { .options.staging_bytes = rooms[_i].staging,
                           .options.device.memory = rooms[_i].device };
    struct ask first, asks[N], large;
    int64_t *indices = calloc(ROWS_EACH * 16, sizeof *indices);
    setup_open(&setup, "launch_us=20000");
    struct td_tensor table = table_of(10, 0);
    for (int i = 0; i < ROWS_EACH * 16; i++)
        indices[i] = i % 10;
    keep_busy(&setup, &first, &table);
    for (int i = 0; i < N; i++) {
        ask_rows(&asks[i], &table, TD_BOUNDS_ERROR, indices, ROWS_EACH);
        submit(&setup, &asks[i]);
        if (i == 3 && rooms[_i].large) {
            ask_rows(&large, &table, TD_BOUNDS_ERROR, indices, rooms[_i].large * ROWS_EACH);
            submit(&setup, &large);
        }
    }
    expect_rows(&first);
    ask_end(&first);
    for (int i = 0; i < N; i++) {
        expect_rows(&asks[i]);
        ask_end(&asks[i]);
    }
    if (rooms[_i].large) {
        expect_status(&large, rooms[_i].status);
        if (rooms[_i].status == TD_RESOURCE_LIMIT)
            ck_assert_uint_gt(large.err.needed, large.err.limit);
        ask_end(&large);
    }
    ck_assert_msg(launches() >= rooms[_i].least && launches() <= rooms[_i].most,
                  "%s: %llu launches", rooms[_i].says, (unsigned long long)launches());
    ck_assert_uint_eq(counts_of(&setup).opens, 1);
    setup_close(&setup);
    free(indices);
    td_buffer_unref(table.owner);
}
END_TEST

START_TEST(the_last_bytes_of_the_device_are_for_use)
{
    struct setup setup = { .options.device.memory = 1 << 20 };
    struct ask ask;
    setup_open(&setup, "");
    struct td_tensor table = table_of(62500, 0); /* of 1,000,000 bytes */
    upload(&setup, &table, TD_OK);
    ask_row(&ask, &table, 62499);
    submit(&setup, &ask);
    expect_rows(&ask);
    ask_end(&ask);
    setup_close(&setup);
    td_buffer_unref(table.owner);
}
END_TEST

/* Buffers of staging memory that nobody uses make room for others, whatever their sizes. */
START_TEST(what_fits_alone_fits_after_anything)
{
    static const int64_t counts[] = { 120000, 70000, 120000, 30000, 120000 };
    struct setup setup = { .options.staging_bytes = 4 << 20 };
    struct ask ask;
    int64_t *indices = calloc(120000, sizeof *indices);
    setup_open(&setup, "");
    struct td_tensor table = table_of(10, 0);
    for (int i = 0; i < COUNT_OF(counts); i++) { /* 8 bytes in and 16 out each */
        ask_rows(&ask, &table, TD_BOUNDS_ERROR, indices, counts[i]);
        submit(&setup, &ask);
        expect_rows(&ask);
        ask_end(&ask);
    }
    setup_close(&setup);
    free(indices);
    td_buffer_unref(table.owner);
}
END_TEST

START_TEST(a_device_without_memory_refuses_and_is_not_lost)
{
    struct setup setup = { 0 };
    struct ask ask;
    setup_open(&setup, "fail_alloc=1,recover=0");
    struct td_tensor table = table_of(10, 0);
    for (int i = 0; i < 3; i++) {
        ask_row(&ask, &table, 1);
        submit(&setup, &ask);
        expect_status(&ask, TD_MEMORY_EXHAUSTED);
        ask_end(&ask);
    }
    upload(&setup, &table, TD_MEMORY_EXHAUSTED);
    ck_assert(counts_of(&setup).available);
    setup_close(&setup);
    td_buffer_unref(table.owner);
}
END_TEST

START_TEST(tables_make_room_for_batches)
{
    enum { N = 6 };
    struct setup setup = { .options.device.memory = 400 * 1024 };
    struct td_tensor tables[N];
    setup_open(&setup, "");
    for (int i = 0; i < N; i++) /* 100 KB each, beside some memory for the batches */
        tables[i] = table_of(6250, (float)i);
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < N; i++) {
            struct ask ask;
            ask_row(&ask, &tables[i], 6000 + i);
            submit(&setup, &ask);
            expect_rows(&ask);
            ask_end(&ask);
        }
    ck_assert_uint_gt(counts_of(&setup).evicted, 0);
    setup_close(&setup);
    for (int i = 0; i < N; i++)
        td_buffer_unref(tables[i].owner);
}
END_TEST

/* ---- tables ---------------------------------------------------------------------------------- */

START_TEST(a_table_that_two_batches_want_is_uploaded_once)
{
    struct setup setup = { .options.batch_limit = 1 };
    struct ask asks[4];
    setup_open(&setup, "launch_us=10000,copy_mb_per_s=100");
    struct td_tensor table = table_of(62500, 0); /* 1 MB: 10 ms */
    for (int i = 0; i < 4; i++) {
        ask_row(&asks[i], &table, i * 1000);
        submit(&setup, &asks[i]);
    }
    for (int i = 0; i < 4; i++) {
        expect_rows(&asks[i]);
        ask_end(&asks[i]);
    }
    ck_assert_uint_lt(td_device_reference_counts().bytes_to_device, table.bytes + 4096);
    ck_assert_uint_eq(counts_of(&setup).table_bytes, table.bytes);
    setup_close(&setup);
    td_buffer_unref(table.owner);
}
END_TEST

START_TEST(a_version_that_was_replaced_is_dropped_from_the_device)
{
    struct setup setup = { 0 };
    struct ask ask;
    setup_open(&setup, "");
    struct td_tensor table = table_of(1000, 0), next = table_of(1000, 1);
    ask_row(&ask, &table, 7);
    submit(&setup, &ask);
    expect_rows(&ask);
    ask_end(&ask);
    ck_assert(td_batcher_has_table(setup.batcher, &table));
    td_buffer_unref(table.owner);
    EVENTUALLY(counts_of(&setup).tables == 0);
    ask_row(&ask, &next, 7);
    submit(&setup, &ask);
    expect_rows(&ask);
    ask_end(&ask);
    ck_assert_uint_eq(counts_of(&setup).tables, 1);
    setup_close(&setup);
    td_buffer_unref(next.owner);
}
END_TEST

START_TEST(who_waits_for_an_upload_does_so_until_its_deadline)
{
    struct setup setup = { 0 };
    struct ask hung, waiting, left;
    setup_open(&setup, "hang_at=1");
    struct td_tensor table = table_of(10, 0), other = table_of(10, 0);
    keep_busy(&setup, &hung, &table);
    ask_upload(&waiting, &table); /* on its way in what hangs */
    ask_upload(&left, &other);
    waiting.item.deadline_ns = left.item.deadline_ns = td_now_ns() + 100 * MS;
    submit(&setup, &waiting);
    submit(&setup, &left);
    expect_status(&waiting, TD_DEADLINE_EXCEEDED);
    expect_status(&left, TD_DEADLINE_EXCEEDED);
    ck_assert_int_lt(left.done_ns - left.item.submitted_ns, 5000 * MS);
    ck_assert_int_eq(atomic_load(&hung.dones), 0);
    setup_close(&setup);
    expect_status(&hung, TD_DEVICE_UNAVAILABLE);
    ask_end(&hung);
    ask_end(&waiting);
    ask_end(&left);
    td_buffer_unref(table.owner);
    td_buffer_unref(other.owner);
}
END_TEST

START_TEST(what_the_device_holds_is_told_at_once)
{
    struct setup setup = { 0 };
    setup_open(&setup, "");
    struct td_tensor table = table_of(1000, 0);
    const uint64_t before = counts_of(&setup).device.memory_used;
    upload(&setup, &table, TD_OK);
    ck_assert_uint_ge(counts_of(&setup).device.memory_used - before, table.bytes);
    setup_close(&setup);
    td_buffer_unref(table.owner);
}
END_TEST

START_TEST(a_table_can_be_there_before_anybody_asks)
{
    struct setup setup = { .options.device.memory = 512 * 1024 };
    struct ask first, ask;
    setup_open(&setup, "launch_us=30000");
    struct td_tensor table = table_of(1000, 0), other = table_of(10, 0), large = table_of(40000, 0);
    keep_busy(&setup, &first, &other);
    upload(&setup, &table, TD_OK);
    ck_assert(td_batcher_has_table(setup.batcher, &table));
    expect_rows(&first);
    const uint64_t bytes = td_device_reference_counts().bytes_to_device;
    ask_row(&ask, &table, 999);
    submit(&setup, &ask);
    expect_rows(&ask);
    ck_assert_uint_lt(td_device_reference_counts().bytes_to_device - bytes, 4096);
    upload(&setup, &table, TD_OK); /* again: no harm */
    upload(&setup, &large, TD_RESOURCE_LIMIT);
    const struct td_batcher_counts counts = counts_of(&setup);
    ck_assert_uint_eq(counts.batches, 2); /* uploads are none */
    ck_assert_uint_eq(counts.items, 2);
    ck_assert_uint_eq(counts.tables, 2);
    ck_assert_uint_eq(counts.waiting + counts.in_flight, 0);
    ask_end(&first);
    ask_end(&ask);
    setup_close(&setup);
    td_buffer_unref(table.owner);
    td_buffer_unref(other.owner);
    td_buffer_unref(large.owner);
}
END_TEST

/* Nobody has asked for idle_ms: scratch memory of the device and staging memory go back, tables
 * stay. One who asks more often than that finds both where they were. */
START_TEST(memory_for_passing_through_goes_back_when_nobody_asks)
{
    struct setup setup = { .options.idle_ms = 700 };
    struct ask ask;
    setup_open(&setup, "");
    struct td_tensor table = table_of(1000, 0);
    const int64_t busy_ns = td_now_ns() + 1500 * MS; /* some looks at the clock, by the batcher */
    while (td_now_ns() < busy_ns) {
        const int64_t begun_ns = td_now_ns();
        ask_row(&ask, &table, 7);
        submit(&setup, &ask);
        expect_rows(&ask);
        ask_end(&ask);
        usleep(10000);
        const uint64_t staging_bytes = counts_of(&setup).staging_bytes;
        ck_assert(staging_bytes > 0 || td_now_ns() - begun_ns > 500 * MS);
    }
    ck_assert_uint_gt(counts_of(&setup).device.memory_used, 2 * table.bytes);
    const int64_t last_ns = td_now_ns();
    EVENTUALLY(counts_of(&setup).staging_bytes == 0);
    ck_assert_int_ge(td_now_ns() - last_ns, 600 * MS);
    EVENTUALLY(counts_of(&setup).device.memory_used < 2 * table.bytes); /* the table itself */
    ck_assert_uint_eq(td_buffer_pool_stats(setup.buffers).in_use, 0);
    ck_assert(td_batcher_has_table(setup.batcher, &table));
    ask_row(&ask, &table, 9); /* and it takes them again */
    submit(&setup, &ask);
    expect_rows(&ask);
    ask_end(&ask);
    setup_close(&setup);
    td_buffer_unref(table.owner);
}
END_TEST

/* ---- many threads ---------------------------------------------------------------------------- */

enum { CLIENTS = 6, CALLS = 150, TABLES = 3 };

struct client {
    struct setup *setup;
    struct td_tensor *tables;
    unsigned seed;
    int counts[TD_STATUS_COUNT];
};

/* One call after another, some with a bad index, some with hardly any time. Check's assertions are
 * for its own thread: whatever is wrong aborts. */
static void *run_client(void *context)
{
    struct client *client = context;
    for (int i = 0; i < CALLS; i++) {
        struct ask ask;
        client->seed = client->seed * 1664525 + 1013904223;
        const unsigned r = client->seed >> 8;
        const bool bad = r % 16 == 3;
        const int64_t indices[] = { r % 100, (r >> 3) % 100, bad ? 100 : 5 };
        ask_rows(&ask, &client->tables[r % TABLES], TD_BOUNDS_ERROR, indices, 3);
        if (r % 32 == 7)
            ask.item.deadline_ns = td_now_ns() + r % 1000000;
        submit(client->setup, &ask);
        while (sem_wait(&ask.over) != 0)
            ;
        if (atomic_load(&ask.dones) != 1 || (ask.status == TD_OK && bad))
            abort();
        if (ask.status == TD_OK)
            for (int k = 0; k < 3; k++)
                if (memcmp((const float *)ask.args.outputs[0].data + k * COLS,
                           (const float *)ask.inputs[0].data + indices[k] * COLS,
                           COLS * sizeof(float)) != 0)
                    abort();
        client->counts[ask.status]++;
        if (ask.status == TD_DEVICE_UNAVAILABLE)
            usleep(1000);
        ask_end(&ask);
    }
    return NULL;
}

static const char *const stresses[] = {
    "",
    "launch_us=300",
    "launch_us=100,lose_at=20,recover=6",
    "launch_us=100,hang_at=15,recover=4",
    "launch_us=100,fail_alloc=30",
};

START_TEST(every_call_of_many_threads_is_answered_once)
{
    struct setup setup = { .options.batch_limit = 4, .options.hang_ms = 30, .options.retry_ms = 2 };
    struct client clients[CLIENTS];
    pthread_t threads[CLIENTS];
    struct td_tensor tables[TABLES];
    int counts[TD_STATUS_COUNT] = { 0 };
    setup_open(&setup, stresses[_i]);
    for (int i = 0; i < TABLES; i++)
        tables[i] = table_of(100, (float)i);
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] =
            (struct client){ .setup = &setup, .tables = tables, .seed = (unsigned)(i + 1) };
        ck_assert_int_eq(pthread_create(&threads[i], NULL, run_client, &clients[i]), 0);
    }
    while (counts_of(&setup).items == 0) /* other threads may ask all the time */
        usleep(100);
    for (int i = 0; i < CLIENTS; i++) {
        char why[TD_DEVICE_TEXT];
        (void)td_batcher_available(setup.batcher, why);
        (void)td_batcher_has_table(setup.batcher, &tables[0]);
        pthread_join(threads[i], NULL);
        for (int j = 0; j < TD_STATUS_COUNT; j++)
            counts[j] += clients[i].counts[j];
    }
    ck_assert_int_eq(counts[TD_OK] + counts[TD_INDEX_OUT_OF_BOUNDS] + counts[TD_DEADLINE_EXCEEDED] +
                         counts[TD_DEVICE_UNAVAILABLE] + counts[TD_MEMORY_EXHAUSTED],
                     CLIENTS * CALLS);
    ck_assert_int_gt(counts[TD_OK], 0);
    const struct td_batcher_counts end = counts_of(&setup);
    ck_assert_uint_eq(end.waiting + end.in_flight, 0);
    ck_assert_uint_eq(end.failed_items, (uint64_t)counts[TD_DEVICE_UNAVAILABLE]);
    setup_close(&setup);
    for (int i = 0; i < TABLES; i++)
        td_buffer_unref(tables[i].owner);
}
END_TEST

static void add(TCase *tcase)
{
    tcase_add_test(tcase, an_idle_device_starts_at_once);
    tcase_add_test(tcase, lookups_that_wait_become_one_launch);
    tcase_add_test(tcase, a_batch_has_no_more_items_than_the_limit);
    tcase_add_test(tcase, tables_take_turns_by_age);
    tcase_add_test(tcase, einsums_of_one_plan_become_one_launch);
    tcase_add_test(tcase, an_idle_device_waits_for_others_if_it_is_told_to);
    tcase_add_test(tcase, what_does_not_merge_goes_alone);
    tcase_add_test(tcase, an_op_with_several_outputs_gets_them_all);
    tcase_add_loop_test(tcase, a_tensor_may_be_there_twice, 0, 2);
    tcase_add_test(tcase, a_bad_index_is_the_failure_of_its_call_only);
    tcase_add_test(tcase, the_batchers_thread_does_not_look_for_a_bad_index);
    tcase_add_loop_test(tcase, bounds_policies_are_those_of_the_op, 0, COUNT_OF(policies));
    tcase_add_test(tcase, a_deadline_that_passes_in_the_queue_is_not_launched);
    tcase_add_test(tcase, a_deadline_that_passes_in_flight_is_told_at_once);
    tcase_add_test(tcase, a_call_that_is_late_for_its_launch_is_given_back);
    tcase_add_test(tcase, who_has_left_is_not_computed_for);
    tcase_add_test(tcase, draining_gives_back_what_waits_and_what_comes_later);
    tcase_add_test(tcase, free_ends_what_is_in_flight_and_drains_the_rest);
    tcase_add_test(tcase, answers_outlive_the_batcher);
    tcase_add_test(tcase, a_lost_device_gives_everything_back_and_is_opened_again);
    tcase_add_test(tcase, a_lost_device_is_closed_when_the_answers_have_been_read);
    tcase_add_test(tcase, a_batch_that_does_not_end_is_a_lost_device);
    tcase_add_test(tcase, moving_many_bytes_is_not_hanging);
    tcase_add_test(tcase, nor_is_waiting_for_the_bytes_of_another);
    tcase_add_test(tcase, what_hangs_is_found_later_where_many_bytes_move);
    tcase_add_test(tcase, draining_does_not_wait_for_a_device_that_hangs);
    tcase_add_test(tcase, free_does_not_wait_for_a_device_that_hangs);
    tcase_add_test(tcase, free_leaves_a_device_alone_that_cannot_be_closed);
    tcase_add_test(tcase, nobody_waits_for_a_device_that_is_opened_in_the_background);
    tcase_add_test(tcase, a_drain_does_not_open_a_device_again);
    tcase_add_test(tcase, free_does_not_wait_for_a_device_that_is_being_opened);
    tcase_add_test(tcase, a_device_that_cannot_be_opened_is_tried_again);
    tcase_add_test(tcase, what_the_device_has_no_kernel_for_is_refused);
    tcase_add_loop_test(tcase, what_does_not_fit_together_goes_in_several_batches, 0,
                        COUNT_OF(rooms));
    tcase_add_test(tcase, a_device_without_memory_refuses_and_is_not_lost);
    tcase_add_test(tcase, what_fits_alone_fits_after_anything);
    tcase_add_test(tcase, the_last_bytes_of_the_device_are_for_use);
    tcase_add_test(tcase, tables_make_room_for_batches);
    tcase_add_test(tcase, a_table_that_two_batches_want_is_uploaded_once);
    tcase_add_test(tcase, a_version_that_was_replaced_is_dropped_from_the_device);
    tcase_add_test(tcase, a_table_can_be_there_before_anybody_asks);
    tcase_add_test(tcase, memory_for_passing_through_goes_back_when_nobody_asks);
    tcase_add_test(tcase, who_waits_for_an_upload_does_so_until_its_deadline);
    tcase_add_test(tcase, what_the_device_holds_is_told_at_once);
    tcase_add_loop_test(tcase, every_call_of_many_threads_is_answered_once, 0, COUNT_OF(stresses));
}

int main(void)
{
    return run_suite("batcher", add);
}
