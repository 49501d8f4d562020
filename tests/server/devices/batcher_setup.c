#include "tests/server/devices/batcher_setup.h"

#include <stdlib.h>
#include <string.h>

static const struct td_log quiet = { .level = TD_LOG_ERROR, .fd = -1 };

/* ---- a device that is busy for as long as a test likes --------------------------------------- */

static const struct td_device_api *plain;
static struct td_device_api holding; /* plain, but that one launch does not end while it is held */
static enum { FREE, NEXT, HELD } held; /* NEXT: the launch that comes next will be */
static struct td_device_stream *held_stream;
static pthread_mutex_t held_mutex = PTHREAD_MUTEX_INITIALIZER; /* guards held and held_stream */

static void hold(bool next)
{
    pthread_mutex_lock(&held_mutex);
    held = next ? NEXT : FREE;
    pthread_mutex_unlock(&held_mutex);
}

static bool is_held(const struct td_device_stream *stream)
{
    pthread_mutex_lock(&held_mutex);
    const bool yes = held == HELD && stream == held_stream;
    pthread_mutex_unlock(&held_mutex);
    return yes;
}

static td_status hold_run(struct td_device_stream *stream, const struct td_device_work *work,
                          struct td_error *err)
{
    pthread_mutex_lock(&held_mutex);
    if (held == NEXT) {
        held = HELD;
        held_stream = stream;
    }
    pthread_mutex_unlock(&held_mutex);
    return plain->run(stream, work, err);
}

static td_status hold_poll(struct td_device_stream *stream, bool *done, struct td_error *err)
{
    const td_status status = plain->poll(stream, done, err);
    *done = *done && !is_held(stream);
    return status;
}

static td_status hold_wait(struct td_device_stream *stream, int64_t timeout_ns, bool *done,
                           struct td_error *err)
{
    const td_status status = plain->wait(stream, timeout_ns, done, err);
    if (status == TD_OK && *done && is_held(stream)) {
        *done = false;
        usleep(100); /* not to spin */
    }
    return status;
}

static const struct td_device_api *holding_device(const struct td_device_api *api)
{
    plain = api;
    holding = *api;
    holding.run = hold_run;
    holding.poll = hold_poll;
    holding.wait = hold_wait;
    hold(false);
    return &holding;
}

/* ---- a batcher ------------------------------------------------------------------------------- */

void setup_open(struct setup *setup, const char *device)
{
    struct td_batcher_options *options = &setup->options;
    td_device_reference_reset();
    setup->buffers = td_buffer_pool_new(256 * MIB, 0);
    options->api = holding_device(options->api ? options->api : td_device_reference());
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

void setup_close(struct setup *setup)
{
    td_batcher_free(setup->batcher);
    ck_assert_uint_eq(td_device_reference_counts().leaked, 0);
    ck_assert_uint_eq(td_device_reference_counts().misuses, 0);
    ck_assert_uint_eq(td_buffer_pool_stats(setup->buffers).in_use, 0);
    td_buffer_pool_free(setup->buffers);
}

struct td_batcher_counts counts_of(struct setup *setup)
{
    struct td_batcher_counts counts;
    td_batcher_counts(setup->batcher, &counts);
    return counts;
}

/* ---- calls ----------------------------------------------------------------------------------- */

struct td_tensor table_of(int64_t rows, float base)
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

void ask_infer(struct ask *ask, const struct td_op *op, uint32_t resident)
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

void ask_begin(struct ask *ask, const struct td_op *op)
{
    ask_init(ask);
    td_op_defaults(op, &ask->args);
}

void ask_end(struct ask *ask)
{
    td_arena_reset(&ask->arena);
    sem_destroy(&ask->over);
}

void ask_rows(struct ask *ask, const struct td_tensor *table, td_bounds bounds,
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

void ask_row(struct ask *ask, const struct td_tensor *table, int64_t index)
{
    ask_rows(ask, table, TD_BOUNDS_ERROR, &index, 1);
}

void ask_einsum(struct ask *ask, const char *equation, struct td_tensor a, struct td_tensor b,
                uint32_t resident)
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

void ask_upload(struct ask *ask, const struct td_tensor *table)
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

void submit(struct setup *setup, struct ask *ask)
{
    td_batcher_submit(setup->batcher, &ask->item);
}

void let_end(struct ask *ask)
{
    if (ask->holds)
        hold(false);
    ask->holds = false;
}

void expect_status(struct ask *ask, td_status status)
{
    let_end(ask);
    while (sem_wait(&ask->over) != 0)
        ;
    EXPECT(ask->status == status, "status %s, expected %s: %s", td_status_name(ask->status),
           td_status_name(status), ask->err.message);
    ck_assert_int_eq(atomic_load(&ask->dones), 1);
}

void expect_rows_now(const struct ask *ask)
{
    const struct td_tensor *output = &ask->args.outputs[0];
    ck_assert_ptr_nonnull(output->data);
    for (int64_t i = 0; i < ask->inputs[1].numel; i++) {
        const int64_t row = ((const int64_t *)ask->inputs[1].data)[i];
        EXPECT(memcmp((const float *)output->data + i * COLS,
                      (const float *)ask->inputs[0].data + row * COLS, COLS * sizeof(float)) == 0,
               "row %lld differs from that of the table", (long long)row);
    }
}

void expect_rows(struct ask *ask)
{
    expect_status(ask, TD_OK);
    expect_rows_now(ask);
}

void upload(struct setup *setup, const struct td_tensor *table, td_status status)
{
    struct ask ask;
    ask_upload(&ask, table);
    submit(setup, &ask);
    expect_status(&ask, status);
    ask_end(&ask);
}

void keep_busy(struct setup *setup, struct ask *ask, const struct td_tensor *table)
{
    ask_row(ask, table, 0);
    ask->holds = true;
    hold(true);
    submit(setup, ask);
    EVENTUALLY(counts_of(setup).in_flight == 1);
}

uint64_t launches(void)
{
    return td_device_reference_counts().launches;
}
