#include "server/devices/session.h"
#include "tests/server/devices/batcher_setup.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* ---- a device that fails --------------------------------------------------------------------- */

TD_TEST(losing_the_device_gives_back_all_items_and_opens_it_again)
{
    enum { N = 20 };
    struct setup setup = { .options.batch_limit = 4 };
    struct batch_call first, calls[N], again;
    char why[TD_DEVICE_TEXT];
    setup_open(&setup, "lose_at=2");
    struct td_tensor table = table_of(10, 0), other = table_of(10, 0);
    keep_busy(&setup, &first, &other);
    for (int i = 0; i < N; i++) { /* the second launch starts when it is full */
        submit_row(&setup, &calls[i], &table, i % 10);
    }
    for (int i = 0; i < N; i++)
        expect_status(&calls[i], TD_DEVICE_UNAVAILABLE);
    expect_status(&first, TD_DEVICE_UNAVAILABLE);
    ck_assert_uint_eq(counts_of(&setup).failed_items, N + 1);
    ck_assert(!td_batcher_available(setup.batcher, why));
    ck_assert_str_ne(why, "");
    batch_call_end(&first);
    reopen(&setup);
    ck_assert(td_batcher_available(setup.batcher, why));
    ck_assert_str_eq(why, "");
    ck_assert_uint_eq(counts_of(&setup).opens, 2);
    submit_row(&setup, &again, &table, 4);
    expect_rows(&again);
    ck_assert_uint_eq(counts_of(&setup).tables, 1);
    for (int i = 0; i < N; i++)
        ck_assert_int_eq(atomic_load(&calls[i].n_done), 1);
    setup_close(&setup);
}

static atomic_int tries_to_close; /* of the batcher, a lost device */

bool __real_td_device_session_close_lost(struct td_device_session *session);
bool __wrap_td_device_session_close_lost(struct td_device_session *session);
bool __wrap_td_device_session_close_lost(struct td_device_session *session)
{
    atomic_fetch_add(&tries_to_close, 1);
    return __real_td_device_session_close_lost(session);
}

TD_TEST(a_lost_device_is_closed_after_its_replies_are_released)
{
    struct setup setup = { 0 };
    struct batch_call answered, lost;
    setup_open(&setup, "lose_at=2");
    submit_row(&setup, &answered, &setup.table, 3);
    expect_rows(&answered);
    submit_row(&setup, &lost, &setup.table, 4);
    expect_status(&lost, TD_DEVICE_UNAVAILABLE);
    test_clock_advance(HOUR_MS * MS);
    const int tries = atomic_load(&tries_to_close);
    EVENTUALLY(atomic_load(&tries_to_close) >= tries + 3);
    ck_assert(!counts_of(&setup).available);
    expect_rows_now(&answered);
    batch_call_end(&answered);
    EVENTUALLY(counts_of(&setup).available);
    setup_close(&setup);
}

TD_TEST(a_batch_that_does_not_end_means_a_lost_device)
{
    struct setup setup = { .options.hang_ms = 60 };
    struct batch_call hung, waiting, late, again;
    setup_open(&setup, "hang_at=1");
    test_clock_stop();
    struct td_tensor table = table_of(10, 0), other = table_of(20, 0);
    submit_row(&setup, &hung, &table, 1);
    EVENTUALLY(counts_of(&setup).in_flight == 1);
    batch_call_row(&late, &table, 1);
    late.item.deadline_ns = td_now_ns() + 20 * MS;
    batch_call_row(&waiting, &other, 2);
    submit(&setup, &late);
    submit(&setup, &waiting);
    pass_time(&hung, 20 * MS);
    ck_assert_int_eq(atomic_load(&late.n_done), 0);
    pass_time(&hung, 1);
    expect_status(&late, TD_DEADLINE_EXCEEDED);
    pass_time(&hung, 40 * MS - 1);
    ck_assert_int_eq(atomic_load(&hung.n_done) + atomic_load(&waiting.n_done), 0);
    pass_time(&hung, 1 * MS); /* some of it is for the bytes */
    expect_status(&hung, TD_DEVICE_UNAVAILABLE);
    expect_status(&waiting, TD_DEVICE_UNAVAILABLE);
    reopen(&setup);
    submit_row(&setup, &again, &table, 9);
    expect_rows(&again);
    setup_close(&setup);
}

/* Copying 10 MB takes 100 ms then, so the time limit of a batch is 50 ms plus twice 100 ms. */
#define SLOW_COPIES "copy_mb_per_s=100"
enum { MANY_ROWS = 625000 };

TD_TEST(the_time_limit_grows_with_the_bytes_moved)
{
    struct setup setup = { .options.hang_ms = 50 };
    struct batch_call call, brought;
    setup_open(&setup, SLOW_COPIES);
    test_clock_stop();
    struct td_tensor table = table_of(MANY_ROWS, 0), other = table_of(MANY_ROWS, 1);
    batch_call_upload(&brought, &other);
    submit(&setup, &brought);
    ck_assert_int_ge(pass_time_until_end(&brought, MS), 100 * MS);
    expect_status(&brought, TD_OK);
    submit_row(&setup, &call, &table, MANY_ROWS - 1);
    ck_assert_int_ge(pass_time_until_end(&call, MS), 100 * MS);
    expect_rows(&call);
    ck_assert_int_ge(call.done_ns - call.item.submitted_ns, 100 * MS);
    ck_assert_uint_eq(counts_of(&setup).opens, 1);
    setup_close(&setup);
}

TD_TEST(the_time_limit_includes_the_bytes_of_other_batches)
{
    struct setup setup = { .options.hang_ms = 50 };
    struct batch_call first, brought, call;
    setup_open(&setup, SLOW_COPIES);
    test_clock_stop();
    struct td_tensor table = table_of(10, 0), large = table_of(MANY_ROWS, 0);
    batch_call_row(&first, &table, 1); /* its table is on the device */
    submit(&setup, &first);
    (void)pass_time_until_end(&first, MS);
    expect_rows(&first);
    batch_call_upload(&brought, &large);
    submit(&setup, &brought);
    EVENTUALLY(counts_of(&setup).in_flight == 1);
    submit_row(&setup, &call, &table, 2);
    EVENTUALLY(counts_of(&setup).in_flight == 2);
    ck_assert_int_ge(pass_time_until_end(&brought, MS), 100 * MS);
    (void)pass_time_until_end(&call, MS);
    expect_rows(&call);
    expect_status(&brought, TD_OK);
    ck_assert_uint_eq(counts_of(&setup).opens, 1);
    setup_close(&setup);
}

TD_TEST(a_hang_is_detected_later_when_many_bytes_are_moved)
{
    struct setup setup = { .options.hang_ms = 50 };
    struct batch_call hung;
    setup_open(&setup, SLOW_COPIES ",hang_at=1");
    test_clock_stop();
    struct td_tensor table = table_of(MANY_ROWS, 0);
    batch_call_row(&hung, &table, 1);
    hung.item.resident = (struct td_batch_tables){ 0 }; /* it comes with the call */
    submit(&setup, &hung);
    EVENTUALLY(counts_of(&setup).in_flight == 1);
    pass_time(&hung, 250 * MS);
    ck_assert_int_eq(atomic_load(&hung.n_done), 0);
    pass_time(&hung, 1 * MS);
    expect_status(&hung, TD_DEVICE_UNAVAILABLE);
    ck_assert_int_eq(hung.done_ns - hung.item.begun_ns, 251 * MS);
    setup_close(&setup);
}

TD_TEST(draining_does_not_wait_for_a_device_that_hangs)
{
    struct setup setup = { 0 };
    struct batch_call hung;
    setup_open(&setup, "hang_at=1");
    test_clock_stop(); /* a drained device has a second, and so has each call of it */
    struct td_tensor table = table_of(10, 0);
    submit_row(&setup, &hung, &table, 1);
    EVENTUALLY(counts_of(&setup).in_flight == 1);
    td_batcher_drain(setup.batcher);
    (void)pass_time_until_end(&hung, 300 * MS);
    expect_status(&hung, TD_DEVICE_UNAVAILABLE);
    EXPECT_MESSAGE(&hung.err, "when the server stopped");
    setup_close(&setup);
}

static void *free_batcher(void *batcher)
{
    td_batcher_free(batcher);
    return NULL;
}

TD_TEST(free_does_not_wait_for_a_device_that_hangs)
{
    struct setup setup = { 0 };
    struct batch_call hung, waiting;
    pthread_t freeing;
    setup_open(&setup, "hang_at=1");
    test_clock_stop(); /* a drained device has a second, and so has its end */
    struct td_tensor table = table_of(10, 0);
    batch_call_row(&hung, &table, 1);
    batch_call_row(&waiting, &table, 1);
    submit(&setup, &hung);
    EVENTUALLY(counts_of(&setup).in_flight == 1);
    submit(&setup, &waiting);
    ck_assert_int_eq(pthread_create(&freeing, NULL, free_batcher, setup.batcher), 0);
    EVENTUALLY(atomic_load(&waiting.n_done) == 1); /* the second has begun */
    (void)pass_time_until_end(&hung, 300 * MS);
    pthread_join(freeing, NULL);
    setup.batcher = NULL;
    expect_status(&hung, TD_DEVICE_UNAVAILABLE);
    EXPECT_MESSAGE(&hung.err, "when the server stopped");
    expect_status(&waiting, TD_DRAINING);
    ck_assert_uint_eq(atomic_load(&table.owner->refs), 1);
    setup_close(&setup);
}

/* The reference device with a close that stops at a gate. */
static struct gate closing;

static void slow_close(struct td_device *device)
{
    gate_pass(&closing);
    td_device_reference()->close(device);
}

TD_TEST(free_abandons_a_device_that_cannot_be_closed)
{
    struct td_device_api slow = *td_device_reference();
    struct setup setup = { .options.api = &slow };
    struct batch_call hung;
    gate_init(&closing);
    slow.close = slow_close;
    setup_open(&setup, "hang_at=2,recover=0");
    struct td_tensor table = table_of(10, 0);
    batch_call_row(&hung, &setup.table,
                   1); /* this table is uploaded, the other one is being uploaded */
    submit(&setup, &hung);
    expect_rows(&hung);
    batch_call_end(&hung);
    submit_row(&setup, &hung, &table, 1);
    EVENTUALLY(counts_of(&setup).in_flight == 1);
    pass_time(&hung,
              (HOUR_MS - 1000) * MS); /* in two steps: each call of the device itself is short */
    pass_time(&hung, 2000 * MS);
    expect_status(&hung, TD_DEVICE_UNAVAILABLE);
    td_batcher_free(setup.batcher);
    td_copiers_free(setup.copiers);
    ck_assert_uint_eq(td_buffer_pool_usage(setup.buffers).in_use, 0);
    td_buffer_pool_free(setup.buffers);
    ck_assert_uint_eq(atomic_load(&setup.table.owner->refs), 1);
    ck_assert_uint_eq(atomic_load(&table.owner->refs), 2);
    gate_await(&closing);
    gate_open(&closing);
    EVENTUALLY(threads_running() == 0);
    batch_call_end(&hung);
    td_buffer_unref(table.owner);
    td_buffer_unref(table.owner);
    td_buffer_unref(setup.table.owner);
}

/* The reference device with an open that stops at a gate. */
static struct gate opening;

static td_status slow_open(const struct td_device_options *options, struct td_device **out,
                           struct td_error *err)
{
    gate_pass(&opening);
    return td_device_reference()->open(options, out, err);
}

TD_TEST(opening_in_the_background_does_not_block)
{
    struct td_device_api slow = *td_device_reference();
    struct setup setup = { .options = { .api = &slow, .in_background = true } };
    char why[TD_DEVICE_TEXT];
    gate_init(&opening);
    slow.open = slow_open;
    setup_open(&setup, "");
    gate_await(&opening);
    ck_assert(!td_batcher_available(setup.batcher, why));
    ck_assert_str_eq(why, "it is being opened");
    gate_open(&opening);
    EVENTUALLY(td_batcher_available(setup.batcher, why));
    setup_close(&setup);
}

TD_TEST(free_does_not_wait_for_a_device_that_is_being_opened)
{
    struct td_device_api slow = *td_device_reference();
    struct setup setup = { .options = { .api = &slow, .in_background = true } };
    gate_init(&opening);
    slow.open = slow_open;
    setup_open(&setup, "");
    gate_await(&opening);
    td_batcher_free(setup.batcher);
    td_copiers_free(setup.copiers);
    gate_open(&opening);
    EVENTUALLY(threads_running() == 0);
    ck_assert_uint_eq(td_device_reference_counts().opens, 1);
    ck_assert_uint_eq(td_device_reference_counts().leaked, 0); /* the opened device is closed */
    td_buffer_pool_free(setup.buffers);
    td_buffer_unref(setup.table.owner);
}

static atomic_int closes;

static void counted_close(struct td_device *device)
{
    td_device_reference()->close(device);
    atomic_fetch_add(&closes, 1);
}

TD_TEST(a_drain_does_not_open_a_device_again)
{
    struct td_device_api api = *td_device_reference();
    struct setup setup = { .options.api = &api };
    struct batch_call hung, call;
    api.close = counted_close;
    setup_open(&setup, "hang_at=1");
    test_clock_stop(); /* a drained device has a second, and so has each call of it */
    struct td_tensor table = table_of(10, 0);
    submit_row(&setup, &hung, &table, 1);
    EVENTUALLY(counts_of(&setup).in_flight == 1);
    td_batcher_drain(setup.batcher);
    (void)pass_time_until_end(&hung, 300 * MS);
    expect_status(&hung, TD_DEVICE_UNAVAILABLE);
    EVENTUALLY(atomic_load(&closes) == 1);
    EVENTUALLY(threads_running() == THREADS);
    const int started = threads_started();
    test_clock_advance(HOUR_MS * MS);
    for (int i = 0; i < 3; i++) { /* in rounds of their own, in which it might be opened */
        submit_row(&setup, &call, &table, 1);
        expect_status(&call, TD_DRAINING);
        batch_call_end(&call);
    }
    ck_assert_int_eq(threads_started(), started); /* none that opens it */
    ck_assert_uint_eq(counts_of(&setup).opens, 1);
    setup_close(&setup);
}

TD_TEST(opening_a_device_is_retried)
{
    struct setup setup = { 0 };
    struct batch_call early, later;
    char why[TD_DEVICE_TEXT];
    setup_open(&setup, "fail_open=1");
    ck_assert(!td_batcher_available(setup.batcher, why));
    ck_assert_ptr_nonnull(strstr(why, "attempt 1 to open the reference device fails"));
    submit_row(&setup, &early, &setup.table, 1);
    expect_status(&early, TD_DEVICE_UNAVAILABLE);
    ck_assert(!pthread_equal(early.done_on, pthread_self()));
    upload(&setup, &setup.table, TD_DEVICE_UNAVAILABLE);
    ck_assert(!td_batcher_has_table(setup.batcher, &setup.table));
    reopen(&setup);
    submit_row(&setup, &later, &setup.table, 1);
    expect_rows(&later);
    setup_close(&setup);
}

TD_TEST(a_call_without_a_kernel_on_the_device_is_refused)
{
    struct setup setup = { 0 };
    struct batch_call call, good;
    setup_open(&setup, "");
    batch_call_begin(&call, &td_op_gather);
    call.inputs[0] = tensor("string[2] 'a' 'b'");
    call.inputs[1] = tensor("int32[1] 0");
    for (int i = 0; i < 2; i++)
        call.args.inputs[i] = (struct td_operand){ &call.inputs[i], 1 };
    batch_call_infer(&call, &td_op_gather, 0);
    ck_assert_int_eq(td_batcher_check_kernel(setup.batcher, &td_op_gather, &call.args, TD_IGNORED),
                     TD_UNSUPPORTED_DTYPE);
    submit(&setup, &call);
    expect_status(&call, TD_UNSUPPORTED_DTYPE);
    ck_assert_str_eq(call.err.device, "gpu");
    ck_assert_str_eq(call.err.input, "params");
    EXPECT_MESSAGE(&call.err, "no kernel for gather with params = string[2];");
    batch_call_row(&good, &setup.table, 1);
    ck_assert_int_eq(td_batcher_check_kernel(setup.batcher, &td_op_gather, &good.args, TD_IGNORED),
                     TD_OK);
    submit(&setup, &good);
    expect_rows(&good);
    setup_close(&setup);
}

static td_status run_nothing(struct td_device_stream *stream, const struct td_device_work *work,
                             struct td_error *err)
{
    (void)stream;
    return td_error_set(err, TD_NOT_SUPPORTED, "there is no kernel for this %s", work->op->name);
}

TD_TEST(a_call_whose_kernel_is_missing_at_the_launch_is_refused)
{
    struct td_device_api without = *td_device_reference();
    struct setup setup = { 0 };
    struct batch_call call;
    without.run = run_nothing;
    setup_open(&setup, "");
    td_batcher_free(setup.batcher);
    setup.options.api = &without;
    setup.batcher = td_batcher_new(&setup.options);
    submit_row(&setup, &call, &setup.table, 1);
    expect_status(&call, TD_UNSUPPORTED_DTYPE);
    ck_assert_str_eq(call.err.device, "gpu");
    ck_assert_int_eq(call.err.status, TD_UNSUPPORTED_DTYPE);
    setup_close(&setup);
}

/* ---- calls of the device that fail ----------------------------------------------------------- */

static atomic_int device_calls, failing_call; /* number of the call that fails; 0: none */

/* Whether this call fails, as one for which there is no memory. */
static bool fails(td_status *status, struct td_error *err)
{
    if (atomic_fetch_add(&device_calls, 1) + 1 != atomic_load(&failing_call))
        return false;
    *status = td_error_set(err, TD_MEMORY_EXHAUSTED, "a call of the device fails");
    return true;
}

static td_status failing_alloc(struct td_device *device, size_t bytes, void **out,
                               struct td_error *err)
{
    td_status status;
    return fails(&status, err) ? status : td_device_reference()->alloc(device, bytes, out, err);
}

static td_status failing_host_alloc(struct td_device *device, size_t bytes, void **out,
                                    struct td_error *err)
{
    td_status status;
    return fails(&status, err) ? status
                               : td_device_reference()->host_alloc(device, bytes, out, err);
}

static td_status failing_copy_in(struct td_device_stream *stream, void *to, const void *from,
                                 size_t bytes, struct td_error *err)
{
    td_status status;
    return fails(&status, err)
               ? status
               : td_device_reference()->copy_to_device(stream, to, from, bytes, err);
}

static td_status failing_copy_out(struct td_device_stream *stream, void *to, const void *from,
                                  size_t bytes, struct td_error *err)
{
    td_status status;
    return fails(&status, err) ? status
                               : td_device_reference()->copy_to_host(stream, to, from, bytes, err);
}

static td_status failing_run(struct td_device_stream *stream, const struct td_device_work *work,
                             struct td_error *err)
{
    td_status status;
    return fails(&status, err) ? status : td_device_reference()->run(stream, work, err);
}

/* Asks for all memory back. True if the device uses no more than when it was idle. A batch keeps
 * its memory until it ends, which may be after its calls have finished: repeat this until it is
 * true. */
static bool all_given_back(struct setup *setup, const struct td_device_info *idle)
{
    td_batcher_trim(setup->batcher);
    test_clock_advance(10 * MS); /* to the next housekeeping, and not soon to hang_ms */
    const struct td_batcher_counts counts = counts_of(setup);
    return counts.tables == 0 && counts.staging_bytes == 0 &&
           counts.device.memory_used == idle->memory_used;
}

/* Two lookups in a table, the second after the first, while call `at` of the device fails. The
 * number of its calls. setup_close finds what is not given back. */
static int look_up_with_failure(int at)
{
    struct td_device_api api = *td_device_reference();
    struct setup setup = { .options = { .api = &api } };
    struct td_tensor table = table_of(5000, 0);
    api.alloc = failing_alloc;
    api.host_alloc = failing_host_alloc;
    api.copy_to_device = failing_copy_in;
    api.copy_to_host = failing_copy_out;
    api.run = failing_run;
    atomic_store(&failing_call, 0);
    setup_open(&setup, "");
    test_clock_stop(); /* between the lookups no scratch memory is freed, which a retry needs */
    const struct td_device_info idle = counts_of(&setup).device;
    atomic_store(&device_calls, 0);
    atomic_store(&failing_call, at);
    for (int i = 0; i < 2; i++) {
        struct batch_call call;
        submit_row(&setup, &call, &table, 7);
        await(&call.finished);
        EXPECT(call.status == TD_OK || (i == 0 && call.status == TD_MEMORY_EXHAUSTED),
               "call %d of the device fails: lookup %d: %s", at, i, call.err.message);
        if (call.status == TD_OK)
            expect_rows_now(&call);
        batch_call_end(&call);
    }
    const int calls = atomic_load(&device_calls);
    drop_table(&table);
    EVENTUALLY(all_given_back(&setup, &idle));
    ck_assert_uint_eq(td_buffer_pool_usage(setup.buffers).in_use, 0);
    setup_close(&setup);
    test_clock_go_on(); /* opening a device takes some time */
    return calls;
}

TD_TEST(whatever_call_of_the_device_fails_all_memory_is_given_back)
{
    const int calls = look_up_with_failure(0);
    ck_assert_int_ge(calls, 10);
    for (int at = 1; at <= calls; at++)
        (void)look_up_with_failure(at);
}

static atomic_int waits; /* of the device's streams */

static td_status failing_last_copy(struct td_device_stream *stream, void *to, const void *from,
                                   size_t bytes, struct td_error *err)
{
    (void)stream, (void)to, (void)from, (void)bytes;
    return td_error_set(err, TD_MEMORY_EXHAUSTED, "the copy cannot be submitted");
}

static td_status counting_wait(struct td_device_stream *stream, int64_t timeout_ns, bool *done,
                               struct td_error *err)
{
    atomic_fetch_add(&waits, 1);
    return td_device_reference()->wait(stream, timeout_ns, done, err);
}

/* The launch before the failed copy still reads and writes the memory of the batch. */
TD_TEST(a_call_that_fails_after_its_launch_is_given_back_when_the_launch_has_ended)
{
    struct td_device_api api = *td_device_reference();
    struct setup setup = { .options = { .api = &api } };
    struct batch_call call;
    api.copy_to_host = failing_last_copy;
    api.wait = counting_wait;
    setup_open(&setup, "");
    atomic_store(&waits, 0);
    batch_call_row(&call, &setup.table, 7);
    call.holds_launch = true;
    hold_next_launch();
    submit(&setup, &call);
    EVENTUALLY(atomic_load(&waits) >= 3);
    ck_assert_int_eq(atomic_load(&call.n_done), 0);
    expect_status(&call, TD_MEMORY_EXHAUSTED);
    ck_assert(counts_of(&setup).available);
    setup_close(&setup);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void *_Atomic large_block; /* memory of the device: the last one of 60 MiB or more */

static td_status watched_alloc(struct td_device *device, size_t bytes, void **out,
                               struct td_error *err)
{
    const td_status status = td_device_reference()->alloc(device, bytes, out, err);
    if (status == TD_OK && bytes >= 60 * MIB)
        atomic_store(&large_block, *out);
    return status;
}

static void watched_free(struct td_device *device, void *block)
{
    if (block == atomic_load(&large_block))
        atomic_store(&large_block, NULL);
    td_device_reference()->free(device, block);
}

/* Two batches in flight at a time: each may get scratch memory of its own, once. */
TD_TEST(scratch_memory_is_kept_while_batches_need_it_and_freed_when_they_do_not)
{
    const int64_t n = 2797567; /* 24 bytes of the device for each index: 64 MiB */
    struct td_device_api api = *td_device_reference();
    struct setup setup = { .options = { .api = &api, .staging_bytes = 256 * MIB } };
    struct batch_call call;
    int64_t *indices = calloc((size_t)n, sizeof *indices);
    api.alloc = watched_alloc;
    api.free = watched_free;
    setup_open(&setup, "");
    struct td_tensor table = table_of(10, 0);
    void *first = NULL;
    test_clock_stop(); /* before the next housekeeping */
    for (int i = 0; i < 4; i++) {
        batch_call_rows(&call, &table, TD_BOUNDS_ERROR, indices, n);
        submit(&setup, &call);
        expect_status(&call, TD_OK);
        batch_call_end(&call);
        batch_call_row(&call, &table, 1); /* a small one in between frees nothing */
        submit(&setup, &call);
        expect_rows(&call);
        batch_call_end(&call);
        void *const block = atomic_load(&large_block);
        ck_assert(block && (!first || block == first));
        first = block;
    }
    test_clock_go_on();
    while (atomic_load(&large_block)) {
        test_clock_advance(500 * MS); /* to the next housekeeping */
        submit_row(&setup, &call, &table, 1);
        expect_rows(&call);
        batch_call_end(&call);
    }
    setup_close(&setup);
    free(indices);
}

static atomic_int host_frees;

static void counted_host_free(struct td_device *device, void *block)
{
    atomic_fetch_add(&host_frees, 1);
    td_device_reference()->host_free(device, block);
}

/* Pinned memory is of the host: to free it helps nothing, and to pin it again takes long. */
TD_TEST(a_shortage_of_device_memory_frees_scratch_memory_and_no_pinned_memory)
{
    enum { N = 110000 }; /* 24 bytes of the device for each index, more than half of it in all */
    struct td_device_api api = *td_device_reference();
    struct setup setup = { .options = { .api = &api, .device.memory = 4 * MIB } };
    struct batch_call first, other, large;
    int64_t *indices = calloc(N, sizeof *indices);
    api.host_free = counted_host_free;
    setup_open(&setup, "");
    struct td_tensor table = table_of(10, 0);
    batch_call_row(&first, &table, 1); /* so that a second batch does not wait for its end */
    submit(&setup, &first);
    expect_rows(&first);
    batch_call_end(&first);
    keep_busy(&setup, &first, &table);
    batch_call_rows(&other, &table, TD_BOUNDS_ERROR, indices, N);
    submit(&setup, &other); /* as the second batch in flight, which keeps its scratch memory */
    expect_rows(&other);
    expect_rows(&first);
    atomic_store(&host_frees, 0);
    batch_call_rows(&large, &table, TD_BOUNDS_ERROR, indices, N);
    submit(&setup, &large);
    expect_rows(&large);
    ck_assert_int_eq(atomic_load(&host_frees), 0);
    setup_close(&setup);
    free(indices);
}

TD_TEST(a_table_may_fill_the_device)
{
    struct setup setup = { .options.device.memory = MIB };
    setup_open(&setup, "");
    struct td_tensor table = table_of(65536, 0), larger = table_of(65537, 0);
    upload(&setup, &table, TD_OK);
    upload(&setup, &larger, TD_RESOURCE_LIMIT);
    setup_close(&setup);
}

/* Calls of 4096 indices: 32 KiB in, 64 KiB out; N of them and one that is `large` times as long. */
enum { ROWS_EACH = 4096 };

static const struct {
    const char *description;
    uint64_t device, staging; /* 0: unlimited */
    int64_t large;            /* 0: none */
    td_status status;         /* of the large call */
    uint64_t least, most;     /* launches, the first one included */
} rooms[] = {
    { "unlimited memory", 0, 0, 0, TD_OK, 2, 2 },
    { "the device holds a few at a time", 600 * 1024, 0, 0, TD_OK, 3, 9 },
    { "the staging memory holds a few at a time", 0, 1 << 20, 0, TD_OK, 3, 9 },
    { "one is too large for the device", 600 * 1024, 0, 16, TD_RESOURCE_LIMIT, 3, 9 },
    { "one is too large for the staging memory", 0, 1 << 20, 16, TD_RESOURCE_LIMIT, 3, 9 },
    { "one is large", 0, 0, 16, TD_OK, 2, 4 },
};

TD_TEST_EACH(calls_that_do_not_fit_in_one_batch_are_split, rooms)
{
    enum { N = 8 };
    struct setup setup = { .options.staging_bytes = rooms[_i].staging,
                           .options.device.memory = rooms[_i].device };
    struct batch_call first, calls[N], large;
    int64_t *indices = calloc(ROWS_EACH * 16, sizeof *indices);
    setup_open(&setup, "");
    struct td_tensor table = table_of(10, 0);
    for (int i = 0; i < ROWS_EACH * 16; i++)
        indices[i] = i % 10;
    keep_busy(&setup, &first, &table);
    for (int i = 0; i < N; i++) {
        batch_call_rows(&calls[i], &table, TD_BOUNDS_ERROR, indices, ROWS_EACH);
        submit(&setup, &calls[i]);
        if (i == 3 && rooms[_i].large) {
            batch_call_rows(&large, &table, TD_BOUNDS_ERROR, indices, rooms[_i].large * ROWS_EACH);
            submit(&setup, &large);
        }
    }
    expect_rows(&first);
    for (int i = 0; i < N; i++)
        expect_rows(&calls[i]);
    if (rooms[_i].large) {
        expect_status(&large, rooms[_i].status);
        if (rooms[_i].status == TD_RESOURCE_LIMIT)
            ck_assert_uint_gt(large.err.needed, large.err.limit);
        batch_call_end(&large);
    }
    ck_assert_msg(launches() >= rooms[_i].least && launches() <= rooms[_i].most,
                  "%s: %llu launches", rooms[_i].description, (unsigned long long)launches());
    ck_assert_uint_eq(counts_of(&setup).opens, 1);
    setup_close(&setup);
    free(indices);
}

TD_TEST(all_memory_of_the_device_can_be_used)
{
    struct setup setup = { .options.device.memory = 1 << 20 };
    struct batch_call call;
    setup_open(&setup, "");
    struct td_tensor table = table_of(62500, 0); /* of 1,000,000 bytes */
    upload(&setup, &table, TD_OK);
    submit_row(&setup, &call, &table, 62499);
    expect_rows(&call);
    setup_close(&setup);
}

/* Free staging buffers are released to make room for others of any size. */
TD_TEST(a_call_that_fits_singly_fits_after_any_other)
{
    static const int64_t counts[] = { 120000, 70000, 120000, 30000, 120000 };
    struct setup setup = { .options.staging_bytes = 4 << 20 };
    struct batch_call call;
    int64_t *indices = calloc(120000, sizeof *indices);
    setup_open(&setup, "");
    struct td_tensor table = table_of(10, 0);
    for (int i = 0; i < COUNT_OF(counts); i++) { /* 8 bytes in and 16 out each */
        batch_call_rows(&call, &table, TD_BOUNDS_ERROR, indices, counts[i]);
        submit(&setup, &call);
        expect_rows(&call);
        batch_call_end(&call);
    }
    setup_close(&setup);
    free(indices);
}

TD_TEST(a_device_without_memory_refuses_and_is_not_lost)
{
    struct setup setup = { 0 };
    struct batch_call call;
    setup_open(&setup, "fail_alloc=1,recover=0");
    for (int i = 0; i < 3; i++) {
        submit_row(&setup, &call, &setup.table, 1);
        expect_status(&call, TD_MEMORY_EXHAUSTED);
        batch_call_end(&call);
    }
    upload(&setup, &setup.table, TD_MEMORY_EXHAUSTED);
    ck_assert(counts_of(&setup).available);
    setup_close(&setup);
}

TD_TEST(tables_are_evicted_to_make_room_for_batches)
{
    enum { N = 6 };
    struct setup setup = { .options.device.memory = 400 * 1024 };
    struct td_tensor tables[N];
    setup_open(&setup, "");
    for (int i = 0; i < N; i++) /* 100 KB each, beside some memory for the batches */
        tables[i] = table_of(6250, (float)i);
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < N; i++) {
            struct batch_call call;
            submit_row(&setup, &call, &tables[i], 6000 + i);
            expect_rows(&call);
            batch_call_end(&call);
        }
    ck_assert_uint_gt(counts_of(&setup).evicted, 0);
    setup_close(&setup);
}

/* ---- many threads ---------------------------------------------------------------------------- */

enum { CLIENTS = 6, CALLS = 150, TABLES = 3 };

static atomic_int clients_left; /* that have calls to submit */

struct client {
    struct setup *setup;
    struct td_tensor *tables;
    unsigned seed;
    int counts[TD_STATUS_COUNT];
};

/* One call after another, some with a bad index, some with a short deadline. Check's assertions
 * work on its own thread only, so a failure aborts. */
static void *run_client(void *context)
{
    struct client *client = context;
    for (int i = 0; i < CALLS; i++) {
        struct batch_call call;
        client->seed = client->seed * 1664525 + 1013904223;
        const unsigned r = client->seed >> 8;
        const bool bad = r % 16 == 3;
        const int64_t indices[] = { r % 100, (r >> 3) % 100, bad ? 100 : 5 };
        batch_call_rows(&call, &client->tables[r % TABLES], TD_BOUNDS_ERROR, indices, 3);
        if (r % 32 == 7)
            call.item.deadline_ns = td_now_ns() + r % 1000000;
        submit(client->setup, &call);
        await(&call.finished);
        if (atomic_load(&call.n_done) != 1 || (call.status == TD_OK && bad))
            abort();
        if (call.status == TD_OK)
            for (int k = 0; k < 3; k++)
                if (memcmp((const float *)call.args.outputs[0].data + k * COLS,
                           (const float *)call.inputs[0].data + indices[k] * COLS,
                           COLS * sizeof(float)) != 0)
                    abort();
        client->counts[call.status]++;
        if (call.status == TD_DEVICE_UNAVAILABLE)
            moment();
        batch_call_end(&call);
    }
    atomic_fetch_sub(&clients_left, 1);
    return NULL;
}

static const struct {
    const char *device;
    bool hangs;
} stresses[] = {
    { "", false },
    { "launch_us=300", false },
    { "launch_us=100,lose_at=20,recover=6", false },
    { "launch_us=100,hang_at=15,recover=4", true },
    { "launch_us=100,fail_alloc=30", false },
};

/* In two steps, between which batches end that do not hang. */
static void pass_hang_limit(struct setup *setup)
{
    static const int64_t steps_ms[] = { HOUR_MS - 1000, 2000 };
    for (int i = 0; i < COUNT_OF(steps_ms); i++) {
        test_clock_advance(steps_ms[i] * MS);
        const int before = looks();
        EVENTUALLY(looks() > before + LOOKS || atomic_load(&clients_left) == 0 ||
                   !counts_of(setup).available);
    }
}

TD_TEST_EACH(each_call_of_many_threads_is_given_back_once, stresses)
{
    struct setup setup = { .options.batch_limit = 4, .options.retry_ms = 2 };
    struct client clients[CLIENTS];
    pthread_t threads[CLIENTS];
    struct td_tensor tables[TABLES];
    int counts[TD_STATUS_COUNT] = { 0 };
    setup_open(&setup, stresses[_i].device);
    for (int i = 0; i < TABLES; i++)
        tables[i] = table_of(100, (float)i);
    atomic_store(&clients_left, CLIENTS);
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] =
            (struct client){ .setup = &setup, .tables = tables, .seed = (unsigned)(i + 1) };
        ck_assert_int_eq(pthread_create(&threads[i], NULL, run_client, &clients[i]), 0);
    }
    EVENTUALLY(counts_of(&setup).items > 0); /* while other threads submit */
    while (stresses[_i].hangs && atomic_load(&clients_left) > 0) {
        /* The clock does not move by hours while a device is opened: that would end the opening. */
        EVENTUALLY(counts_of(&setup).available || atomic_load(&clients_left) == 0);
        pass_hang_limit(&setup);
    }
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
}
