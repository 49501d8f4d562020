#include "server/devices/session.h"
#include "tests/server/devices/batcher_setup.h"

#include <stdatomic.h>
#include <string.h>

/* The reference device, whose open and close wait at a gate if a test sets it. */
static sem_t gate;
static atomic_bool gated;
static atomic_int closes;

static td_status gated_open(const struct td_device_options *options, struct td_device **out,
                            struct td_error *err)
{
    if (atomic_load(&gated))
        await(&gate);
    return td_device_reference()->open(options, out, err);
}

static void counted_close(struct td_device *device)
{
    if (atomic_load(&gated))
        await(&gate);
    td_device_reference()->close(device);
    atomic_fetch_add(&closes, 1);
}

static struct td_device_api api;
static struct td_batcher_options options;
static struct td_batch_item_counts counts;

enum { COPIERS = 1 }; /* threads */

static void begin(const char *device)
{
    td_device_reference_reset();
    atomic_store(&gated, false);
    atomic_store(&closes, 0);
    sem_init(&gate, 0, 0);
    api = *td_device_reference();
    api.open = gated_open;
    api.close = counted_close;
    memset(&counts, 0, sizeof counts);
    options = (struct td_batcher_options){ .api = &api,
                                           .device.text = device,
                                           .buffers = td_buffer_pool_new(256 * MIB, 0),
                                           .copiers = td_copiers_new(COPIERS),
                                           .batch_limit = 8,
                                           .staging_bytes = 4 * MIB,
                                           .hang_ms = 100 };
}

static void end(void)
{
    ck_assert_uint_eq(td_device_reference_counts().leaked, 0);
    ck_assert_uint_eq(td_device_reference_counts().misuses, 0);
    ck_assert_uint_eq(td_buffer_pool_usage(options.buffers).in_use, 0);
    td_buffer_pool_free(options.buffers);
    td_copiers_free(options.copiers);
    sem_destroy(&gate);
}

static struct td_device_opener *begin_opening(void)
{
    struct td_error err;
    struct td_device_opener *opener = td_device_opener_new(&options, &err);
    ck_assert_ptr_nonnull(opener);
    return opener;
}

static td_status try_open(struct td_device_session **out, struct td_error *err)
{
    struct td_device_opener *opener = begin_opening();
    EVENTUALLY(td_device_opener_is_done(opener));
    return td_device_session_open(opener, &options, options.api, out, err);
}

static struct td_device_session *open_session(void)
{
    struct td_device_session *session;
    struct td_error err;
    EXPECT_OK(try_open(&session, &err), &err);
    return session;
}

static void start(struct td_device_session *session, int i, struct batch_call *call)
{
    struct td_batch_item *item = &call->item;
    struct td_error err;
    bool prepares;
    td_batch_item_submitted(item, &counts, 0);
    EXPECT_OK(td_batch_start(session->batches[i], &item, 1, &prepares, &err), &err);
}

static void end_batch(struct td_device_session *session, int i)
{
    struct td_error err;
    for (bool done = false; !done;)
        ck_assert_int_eq(td_batch_wait(session->batches[i], 0, &done, &err), TD_OK);
    td_batch_end(session->batches[i]);
}

TD_TEST(a_session_begins_with_nothing_in_flight)
{
    begin("");
    struct td_device_session *session = open_session();
    ck_assert_int_eq(td_device_session_in_flight(session), 0);
    ck_assert_int_eq(td_device_session_free_batch(session), 0);
    ck_assert_int_eq(td_device_session_oldest_batch(session), -1);
    ck_assert(!td_device_session_trim(session));
    td_device_session_close(session);
    ck_assert_int_eq(atomic_load(&closes), 1);
    end();
}

TD_TEST(a_session_finds_a_free_batch_and_the_oldest_one)
{
    struct batch_call calls[3];
    begin("");
    struct td_tensor table = table_of(10, 0);
    struct td_device_session *session = open_session();
    for (int i = 0; i < 3; i++)
        batch_call_row(&calls[i], &table, i);
    start(session, 0, &calls[0]);
    ck_assert_int_eq(td_device_session_free_batch(session), 1);
    ck_assert_int_eq(td_device_session_oldest_batch(session), 0);
    end_batch(session, 0);
    start(session, 1, &calls[1]);
    ck_assert_int_eq(td_device_session_oldest_batch(session), 1);
    start(session, 0, &calls[2]);
    ck_assert_int_eq(td_device_session_in_flight(session), 2);
    ck_assert_int_eq(td_device_session_free_batch(session), -1);
    ck_assert_uint_eq(atomic_load(&counts.in_flight), 2);
    end_batch(session, 1);
    ck_assert_int_eq(td_device_session_oldest_batch(session), 0);
    end_batch(session, 0);
    ck_assert_uint_eq(atomic_load(&counts.in_flight), 0);
    for (int i = 0; i < 3; i++) {
        expect_rows(&calls[i]);
        batch_call_end(&calls[i]);
    }
    td_device_session_close(session);
    td_buffer_unref(table.owner);
    end();
}

TD_TEST(trim_frees_memory_that_no_batch_uses)
{
    struct batch_call call;
    struct td_device_info before, after;
    begin("");
    struct td_tensor table = table_of(10, 0);
    struct td_device_session *session = open_session();
    batch_call_row(&call, &table, 1);
    start(session, 0, &call);
    end_batch(session, 0);
    expect_rows(&call);
    batch_call_end(&call);
    api.info(session->device, &before);
    ck_assert_uint_gt(td_staging_bytes(session->staging), 0);
    ck_assert(td_device_session_trim(session));
    api.info(session->device, &after);
    ck_assert_uint_lt(after.memory_used, before.memory_used);
    ck_assert_uint_eq(td_staging_bytes(session->staging), 0);
    ck_assert(!td_device_session_trim(session));
    td_device_session_close(session);
    td_buffer_unref(table.owner);
    end();
}

TD_TEST(the_error_of_opening_a_device_is_passed_on)
{
    struct td_device_session *session = NULL;
    struct td_error err;
    begin("fail_open=1");
    ck_assert_int_eq(try_open(&session, &err), TD_DEVICE_UNAVAILABLE);
    EXPECT_MESSAGE(&err, "fail_open");
    ck_assert_ptr_null(session);
    session = open_session();
    td_device_session_close(session);
    end();
}

TD_TEST(a_device_of_an_abandoned_opener_is_closed)
{
    begin("");
    atomic_store(&gated, true);
    struct td_device_opener *opener = begin_opening();
    ck_assert(!td_device_opener_is_done(opener));
    td_device_opener_abandon(opener);
    sem_post(&gate); /* open continues, */
    sem_post(&gate); /* then close */
    EVENTUALLY(threads_running() == COPIERS);
    ck_assert_int_eq(atomic_load(&closes), 1);
    end();
}

/* Loses a device that does not respond, with an item in flight. */
static struct td_device_session *lose(struct batch_call *answered, struct batch_call *lost,
                                      const struct td_tensor *table)
{
    struct td_error err;
    struct td_device_session *session = open_session();
    batch_call_row(answered, table, 3);
    start(session, 0, answered);
    end_batch(session, 0);
    expect_rows(answered);
    batch_call_row(lost, table, 4);
    start(session, 1, lost);
    td_error_set(&err, TD_DEVICE_UNAVAILABLE, "the device was lost");
    td_batch_fail(session->batches[1], &err);
    expect_status(lost, TD_DEVICE_UNAVAILABLE);
    batch_call_end(lost);
    ck_assert_uint_eq(session->shared.bytes, 0);
    return session;
}

TD_TEST(a_lost_device_is_closed_once_its_replies_are_released)
{
    struct batch_call answered, lost;
    begin("hang_at=2");
    struct td_tensor table = table_of(10, 0);
    struct td_device_session *session = lose(&answered, &lost, &table);
    for (int i = 0; i < 100; i++)
        ck_assert(!td_device_session_close_lost(session));
    ck_assert_int_eq(atomic_load(&closes), 0);
    expect_rows_now(&answered);
    batch_call_end(&answered);
    EVENTUALLY(td_device_session_close_lost(session));
    ck_assert_int_eq(atomic_load(&closes), 1);
    ck_assert_uint_eq(atomic_load(&table.owner->refs), 1);
    td_buffer_unref(table.owner);
    end();
}

TD_TEST(a_close_that_does_not_return_can_be_abandoned)
{
    struct batch_call answered, lost;
    begin("hang_at=2");
    struct td_tensor table = table_of(10, 0);
    struct td_device_session *session = lose(&answered, &lost, &table);
    batch_call_end(&answered);
    atomic_store(&gated, true);
    ck_assert(!td_device_session_close_lost(session)); /* begins */
    ck_assert(!td_device_session_close_lost(session));
    td_device_session_abandon(session);
    sem_post(&gate);
    EVENTUALLY(threads_running() == COPIERS);
    ck_assert_int_eq(atomic_load(&closes), 1);
    td_buffer_unref(table.owner);
    end();
}

TD_TEST(replies_stay_valid_when_the_device_is_left_open)
{
    struct batch_call call;
    begin("");
    struct td_tensor table = table_of(10, 0);
    struct td_device_session *session = open_session();
    struct td_device *device = session->device;
    batch_call_row(&call, &table, 7);
    start(session, 0, &call);
    end_batch(session, 0);
    td_device_session_abandon(session);
    expect_rows(&call);
    batch_call_end(&call);
    ck_assert_uint_eq(atomic_load(&table.owner->refs), 1);
    ck_assert_uint_eq(td_buffer_pool_usage(options.buffers).in_use, 0);
    td_buffer_pool_free(options.buffers);
    td_copiers_free(options.copiers);
    td_buffer_unref(table.owner);
    td_device_reference()->close(device);
}

static const struct {
    const char *description;
    uint64_t bytes, copy_bytes_per_us;
    int64_t limit_ms;
} limits[] = {
    { "no bytes are moved", 0, 5000, 100 },
    { "as from the slowest disk, twice", 10000000, 5000, 100 + 200 },
    { "as from the slowest disk, twice: unknown rate", 10000000, 0, 100 + 200 },
    { "a device that copies more slowly than that", 10000000, 50, 100 + 400 },
};

TD_TEST_EACH(bytes_being_moved_extend_the_time_limit, limits)
{
    const struct td_batch_device on = { .hang_ns = 100 * MS,
                                        .bytes = limits[_i].bytes,
                                        .copy_bytes_per_us = limits[_i].copy_bytes_per_us };
    ck_assert_msg(td_batch_time_limit_ns(&on) == limits[_i].limit_ms * MS, "%s",
                  limits[_i].description);
}

TD_TEST(the_bytes_of_all_batches_are_counted_until_they_end)
{
    struct batch_call calls[2];
    begin("");
    struct td_tensor table = table_of(1000, 0);
    struct td_device_session *session = open_session();
    for (int i = 0; i < 2; i++) {
        batch_call_row(&calls[i], &table, i);
        start(session, i, &calls[i]);
    }
    const uint64_t both = session->shared.bytes;
    ck_assert_uint_ge(both, table.bytes);
    end_batch(session, 0); /* the upload of the table */
    ck_assert_uint_lt(session->shared.bytes, table.bytes);
    ck_assert_uint_gt(session->shared.bytes, 0);
    end_batch(session, 1);
    ck_assert_uint_eq(session->shared.bytes, 0);
    for (int i = 0; i < 2; i++) {
        expect_rows(&calls[i]);
        batch_call_end(&calls[i]);
    }
    td_device_session_close(session);
    td_buffer_unref(table.owner);
    end();
}
