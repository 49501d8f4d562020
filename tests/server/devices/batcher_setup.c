#include "tests/server/devices/batcher_setup.h"

#include "kernels/op_check.h"

#include <stdlib.h>
#include <string.h>

static const struct td_log quiet = { .level = TD_LOG_ERROR, .fd = -1 };

/* ---- a device whose launch a test can hold --------------------------------------------------- */

static const struct td_device_api *plain;
static struct td_device_api holding;   /* as plain, but one launch does not end while it is held */
static enum { FREE, NEXT, HELD } held; /* NEXT: the next launch will be held */
static struct td_device_stream *held_stream;
static pthread_mutex_t held_mutex = PTHREAD_MUTEX_INITIALIZER; /* guards held and held_stream */
static atomic_int look_count;

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
    atomic_fetch_add(&look_count, 1);
    const td_status status = plain->poll(stream, done, err);
    *done = *done && !is_held(stream);
    return status;
}

/* Returns after a moment: by its own clock the device might wait for ever, if the test has stopped
 * it. */
static td_status hold_wait(struct td_device_stream *stream, int64_t timeout_ns, bool *done,
                           struct td_error *err)
{
    (void)timeout_ns;
    atomic_fetch_add(&look_count, 1);
    const td_status status = plain->wait(stream, 0, done, err);
    *done = *done && !is_held(stream);
    if (status == TD_OK && !*done)
        moment();
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

/* ---- threads --------------------------------------------------------------------------------- */

static atomic_int started, running;

struct counted_thread {
    void *(*run)(void *);
    void *context;
};

static void *run_counted(void *context)
{
    const struct counted_thread thread = *(struct counted_thread *)context;
    free(context);
    void *result = thread.run(thread.context);
    atomic_fetch_sub(&running, 1);
    return result;
}

int __real_pthread_create(pthread_t *out, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *context);
int __wrap_pthread_create(pthread_t *out, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *context);
int __wrap_pthread_create(pthread_t *out, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *context)
{
    struct counted_thread *thread = malloc(sizeof *thread);
    EXPECT(thread, "no memory for a thread");
    *thread = (struct counted_thread){ run, context };
    atomic_fetch_add(&started, 1);
    atomic_fetch_add(&running, 1);
    return __real_pthread_create(out, attributes, run_counted, thread);
}

int threads_started(void)
{
    return atomic_load(&started);
}

int threads_running(void)
{
    return atomic_load(&running);
}

/* ---- what setup_close ends ------------------------------------------------------------------- */

enum { MOST_TABLES = 64 };
static struct td_buffer *tables[MOST_TABLES];
static int n_tables;
static struct batch_call *calls;                               /* those that have not been ended */
static pthread_mutex_t list_mutex = PTHREAD_MUTEX_INITIALIZER; /* guards the list of calls */

static void list_call(struct batch_call *call)
{
    pthread_mutex_lock(&list_mutex);
    for (const struct batch_call *other = calls; other; other = other->next)
        EXPECT(other != call, "the call is used again before it was ended");
    memset(call, 0, sizeof *call);
    call->next = calls;
    calls = call;
    pthread_mutex_unlock(&list_mutex);
}

static void unlist_call(const struct batch_call *call)
{
    struct batch_call **at = &calls;
    pthread_mutex_lock(&list_mutex);
    while (*at != call)
        at = &(*at)->next;
    *at = call->next;
    pthread_mutex_unlock(&list_mutex);
}

/* Ends the calls that have their result, or all. */
static void end_calls(bool all)
{
    for (struct batch_call *call = calls, *next; call; call = next) {
        next = call->next;
        if (all || atomic_load(&call->n_done) > 0)
            batch_call_end(call);
    }
}

void drop_table(const struct td_tensor *table)
{
    for (int i = 0; i < n_tables; i++)
        if (tables[i] == table->owner)
            tables[i] = NULL;
    td_buffer_unref(table->owner);
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
    options->copiers = setup->copiers = td_copiers_new(2);
    ck_assert_ptr_nonnull(setup->copiers);
    options->log = &quiet;
    options->batch_limit = options->batch_limit ? options->batch_limit : 64;
    options->staging_bytes = options->staging_bytes ? options->staging_bytes : 64 * MIB;
    options->hang_ms = options->hang_ms ? options->hang_ms : HOUR_MS;
    options->retry_ms = options->retry_ms ? options->retry_ms : HOUR_MS;
    setup->batcher = td_batcher_new(options);
    ck_assert_ptr_nonnull(setup->batcher);
    setup->table = table_of(10, 0);
}

void setup_close(struct setup *setup)
{
    end_calls(false);
    td_batcher_free(setup->batcher);
    end_calls(true);
    td_copiers_free(setup->copiers);
    ck_assert_uint_eq(td_device_reference_counts().leaked, 0);
    ck_assert_uint_eq(td_device_reference_counts().misuses, 0);
    ck_assert_uint_eq(td_buffer_pool_usage(setup->buffers).in_use, 0);
    td_buffer_pool_free(setup->buffers);
    while (n_tables > 0)
        td_buffer_unref(tables[--n_tables]);
}

struct td_batcher_counts counts_of(struct setup *setup)
{
    struct td_batcher_counts counts;
    td_batcher_counts(setup->batcher, &counts);
    return counts;
}

int looks(void)
{
    return atomic_load(&look_count);
}

void reopen(struct setup *setup)
{
    test_clock_advance(setup->options.retry_ms * MS);
    /* The batcher looks again after some milliseconds. Where the test has stopped the clock they
     * pass here, in steps so small that a thread inside a call of the device, which has a second,
     * gets a processor. */
    EVENTUALLY((test_clock_advance(MS / 100), counts_of(setup).available));
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
    ck_assert_int_lt(n_tables, MOST_TABLES);
    tables[n_tables++] = table.owner;
    for (int64_t i = 0; i < rows; i++) {
        float row[COLS];
        for (int k = 0; k < COLS; k++)
            row[k] = base + (float)(1000 * i + k);
        memcpy((float *)table.data + i * COLS, row, sizeof row);
    }
    return table;
}

static void on_done(struct td_batch_item *item, td_status status, const struct td_error *err)
{
    struct batch_call *call = (struct batch_call *)(void *)item;
    call->status = status;
    if (status != TD_OK)
        call->err = *err;
    call->done_on = pthread_self();
    call->done_ns = td_now_ns();
    if (call->sequence)
        call->order = atomic_fetch_add(call->sequence, 1);
    atomic_fetch_add(&call->n_done, 1);
    if (call->on_end)
        call->on_end(call);
    else
        sem_post(&call->finished);
}

static bool is_disconnected(struct td_batch_item *item)
{
    return ((struct batch_call *)(void *)item)->disconnected;
}

void batch_call_infer(struct batch_call *call, const struct td_op *op, uint32_t resident)
{
    struct td_error err;
    EXPECT_OK(td_op_infer(op, &call->args, &call->arena, &err), &err);
    call->item = (struct td_batch_item){
        .op = op,
        .args = &call->args,
        .resident.bits[0] = resident,
        .arena = &call->arena,
        .deadline_ns = TD_NEVER,
        .start_by_ns = TD_NEVER,
        .gone = is_disconnected,
        .done = on_done,
    };
}

static void batch_call_init(struct batch_call *call)
{
    list_call(call);
    td_arena_init(&call->arena, NULL, 0, td_memory_heap());
    sem_init(&call->finished, 0, 0);
}

void batch_call_begin(struct batch_call *call, const struct td_op *op)
{
    batch_call_init(call);
    td_op_set_defaults(op, &call->args);
}

void batch_call_end(struct batch_call *call)
{
    unlist_call(call);
    td_arena_reset(&call->arena);
    sem_destroy(&call->finished);
}

void batch_call_rows(struct batch_call *call, const struct td_tensor *table, td_bounds bounds,
                     const int64_t *indices, int64_t n)
{
    struct td_error err;
    const struct td_shape dims = { .rank = 1, .dim = { n } };
    batch_call_begin(call, &td_op_gather);
    struct td_gather_attrs attrs = { .axis = TD_ATTR_UNSET, .bounds = bounds };
    memcpy(call->args.attrs, &attrs, sizeof attrs);
    call->inputs[0] = *table;
    ck_assert_int_eq(td_tensor_describe(&call->inputs[1], "indices", TD_DTYPE_INT64, &dims, &err),
                     TD_OK);
    ck_assert_int_eq(td_tensor_alloc(&call->inputs[1], &call->arena, &err), TD_OK);
    if (n > 0)
        memcpy(call->inputs[1].data, indices, (size_t)n * sizeof *indices);
    call->args.inputs[0] = (struct td_operand){ &call->inputs[0], 1 };
    call->args.inputs[1] = (struct td_operand){ &call->inputs[1], 1 };
    batch_call_infer(call, &td_op_gather, 1);
}

void batch_call_row(struct batch_call *call, const struct td_tensor *table, int64_t index)
{
    batch_call_rows(call, table, TD_BOUNDS_ERROR, &index, 1);
}

void batch_call_einsum(struct batch_call *call, const char *equation, struct td_tensor a,
                       struct td_tensor b, uint32_t resident)
{
    batch_call_begin(call, &td_op_einsum);
    const struct td_einsum_attrs attrs = { .equation = equation };
    memcpy(call->args.attrs, &attrs, sizeof attrs);
    call->args.attrs_set = 1;
    call->inputs[0] = a;
    call->inputs[1] = b;
    call->args.inputs[0] = (struct td_operand){ call->inputs, 2 };
    batch_call_infer(call, &td_op_einsum, resident);
}

void batch_call_upload(struct batch_call *call, const struct td_tensor *table)
{
    batch_call_init(call);
    call->inputs[0] = *table;
    call->item = (struct td_batch_item){
        .kind = TD_BATCH_UPLOAD,
        .table = &call->inputs[0],
        .deadline_ns = TD_NEVER,
        .start_by_ns = TD_NEVER,
        .gone = is_disconnected,
        .done = on_done,
    };
}

void submit(struct setup *setup, struct batch_call *call)
{
    td_batcher_submit(setup->batcher, &call->item);
}

void submit_row(struct setup *setup, struct batch_call *call, const struct td_tensor *table,
                int64_t index)
{
    batch_call_row(call, table, index);
    submit(setup, call);
}

void hold_next_launch(void)
{
    hold(true);
}

void hold_launch_after(struct batch_call *call, struct batch_call *next)
{
    call->holds_launch = false;
    next->holds_launch = true;
    hold_next_launch();
}

void release_launch(struct batch_call *call)
{
    if (call->holds_launch)
        hold(false);
    call->holds_launch = false;
}

void pass_time(const struct batch_call *call, int64_t ns)
{
    test_clock_advance(ns);
    const int before = looks();
    EVENTUALLY(looks() > before + LOOKS || atomic_load(&call->n_done) > 0);
}

int64_t pass_time_until_end(const struct batch_call *call, int64_t step_ns)
{
    int64_t passed_ns = 0;
    for (; atomic_load(&call->n_done) == 0; passed_ns += step_ns)
        pass_time(call, step_ns);
    return passed_ns;
}

void expect_status(struct batch_call *call, td_status status)
{
    release_launch(call);
    await(&call->finished);
    EXPECT(call->status == status, "status %s, expected %s: %s", td_status_name(call->status),
           td_status_name(status), call->err.message);
    ck_assert_int_eq(atomic_load(&call->n_done), 1);
}

void expect_rows_now(const struct batch_call *call)
{
    const struct td_tensor *output = &call->args.outputs[0];
    ck_assert_ptr_nonnull(output->data);
    for (int64_t i = 0; i < call->inputs[1].numel; i++) {
        const int64_t row = ((const int64_t *)call->inputs[1].data)[i];
        EXPECT(memcmp((const float *)output->data + i * COLS,
                      (const float *)call->inputs[0].data + row * COLS, COLS * sizeof(float)) == 0,
               "row %lld differs from that of the table", (long long)row);
    }
}

void expect_rows(struct batch_call *call)
{
    expect_status(call, TD_OK);
    expect_rows_now(call);
}

void upload(struct setup *setup, const struct td_tensor *table, td_status status)
{
    struct batch_call call;
    batch_call_upload(&call, table);
    submit(setup, &call);
    expect_status(&call, status);
    batch_call_end(&call);
}

void keep_busy(struct setup *setup, struct batch_call *call, const struct td_tensor *table)
{
    batch_call_row(call, table, 0);
    call->holds_launch = true;
    hold_next_launch();
    submit(setup, call);
    EVENTUALLY(counts_of(setup).in_flight == 1);
}

uint64_t launches(void)
{
    return td_device_reference_counts().launches;
}
