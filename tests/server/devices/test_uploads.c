#include "server/devices/table_cache.h"
#include "tests/server/devices/batcher_setup.h"

#include <stdatomic.h>

/* ---- tables ---------------------------------------------------------------------------------- */

TD_TEST(a_table_used_by_two_batches_is_uploaded_once)
{
    struct setup setup = { .options.batch_limit = 1 };
    struct batch_call calls[4];
    setup_open(&setup, "launch_us=10000,copy_mb_per_s=100");
    struct td_tensor table = table_of(62500, 0); /* 1 MB: 10 ms */
    for (int i = 0; i < 4; i++)
        submit_row(&setup, &calls[i], &table, i * 1000);
    for (int i = 0; i < 4; i++)
        expect_rows(&calls[i]);
    ck_assert_uint_lt(td_device_reference_counts().bytes_to_device, table.bytes + 4096);
    ck_assert_uint_eq(counts_of(&setup).table_bytes, table.bytes);
    setup_close(&setup);
}

TD_TEST(a_replaced_version_is_dropped_from_the_device)
{
    struct setup setup = { 0 };
    struct batch_call call;
    setup_open(&setup, "");
    struct td_tensor table = table_of(1000, 0), next = table_of(1000, 1);
    submit_row(&setup, &call, &table, 7);
    expect_rows(&call);
    batch_call_end(&call);
    ck_assert(td_batcher_has_table(setup.batcher, &table));
    drop_table(&table);
    EVENTUALLY(counts_of(&setup).tables == 0);
    submit_row(&setup, &call, &next, 7);
    expect_rows(&call);
    ck_assert_uint_eq(counts_of(&setup).tables, 1);
    setup_close(&setup);
}

TD_TEST(an_upload_is_waited_for_until_the_deadline)
{
    struct setup setup = { 0 };
    struct batch_call hung, waiting, late;
    setup_open(&setup, "hang_at=1");
    test_clock_stop();
    struct td_tensor table = table_of(10, 0), other = table_of(10, 0);
    keep_busy(&setup, &hung, &table);
    batch_call_upload(&waiting, &table); /* already uploading in the batch that hangs */
    batch_call_upload(&late, &other);
    waiting.item.deadline_ns = late.item.deadline_ns = td_now_ns() + 100 * MS;
    submit(&setup, &waiting);
    submit(&setup, &late);
    pass_time(&hung, 100 * MS);
    ck_assert_int_eq(atomic_load(&waiting.n_done) + atomic_load(&late.n_done), 0);
    pass_time(&hung, 1);
    expect_status(&waiting, TD_DEADLINE_EXCEEDED);
    expect_status(&late, TD_DEADLINE_EXCEEDED);
    ck_assert_int_eq(atomic_load(&hung.n_done), 0);
    td_batcher_drain(setup.batcher); /* gives the hung one up after a second */
    (void)pass_time_until_end(&hung, 300 * MS);
    expect_status(&hung, TD_DEVICE_UNAVAILABLE);
    setup_close(&setup);
}

TD_TEST(has_table_reports_an_uploaded_table_at_once)
{
    struct setup setup = { 0 };
    setup_open(&setup, "");
    struct td_tensor table = table_of(1000, 0);
    const uint64_t before = counts_of(&setup).device.memory_used;
    upload(&setup, &table, TD_OK);
    ck_assert_uint_ge(counts_of(&setup).device.memory_used - before, table.bytes);
    setup_close(&setup);
}

TD_TEST(a_table_can_be_uploaded_before_its_first_use)
{
    struct setup setup = { .options.device.memory = 512 * 1024 };
    struct batch_call first, call;
    setup_open(&setup, "");
    struct td_tensor table = table_of(1000, 0), other = table_of(10, 0), large = table_of(40000, 0);
    keep_busy(&setup, &first, &other);
    upload(&setup, &table, TD_OK);
    ck_assert(td_batcher_has_table(setup.batcher, &table));
    expect_rows(&first);
    const uint64_t bytes = td_device_reference_counts().bytes_to_device;
    submit_row(&setup, &call, &table, 999);
    expect_rows(&call);
    ck_assert_uint_lt(td_device_reference_counts().bytes_to_device - bytes, 4096);
    upload(&setup, &table, TD_OK); /* a second upload has no effect */
    upload(&setup, &large, TD_RESOURCE_LIMIT);
    const struct td_batcher_counts counts = counts_of(&setup);
    ck_assert_uint_eq(counts.batches, 2); /* uploads do not count */
    ck_assert_uint_eq(counts.items, 2);
    ck_assert_uint_eq(counts.tables, 2);
    ck_assert_uint_eq(counts.waiting + counts.in_flight, 0);
    setup_close(&setup);
}

/* ---- large tables, in pieces ----------------------------------------------------------------- */

/* 40 MiB: ten pieces of 4 MiB, a sixteenth of the staging memory of a setup. */
enum { LARGE_ROWS = 2621440, N_PIECES = 10 };

TD_TEST(a_large_table_is_copied_in_pieces)
{
    struct setup setup = { 0 };
    struct batch_call calls[3];
    const int64_t rows[] = { 0, LARGE_ROWS / 2 - 1, LARGE_ROWS - 1 };
    setup_open(&setup, "");
    struct td_tensor table = table_of(LARGE_ROWS, 0);
    upload(&setup, &table, TD_OK);
    ck_assert_uint_eq(td_device_reference_counts().copies_to_device, N_PIECES);
    ck_assert_uint_eq(td_device_reference_counts().bytes_to_device, table.bytes);
    for (int i = 0; i < 3; i++) {
        submit_row(&setup, &calls[i], &table, rows[i]);
        expect_rows(&calls[i]);
    }
    setup_close(&setup);
}

static atomic_int pieces_in_flight, most_pieces_in_flight;

static td_status counted_copy(struct td_device_stream *stream, void *to, const void *from,
                              size_t bytes, struct td_error *err)
{
    const int n = atomic_fetch_add(&pieces_in_flight, 1) + 1;
    if (n > atomic_load(&most_pieces_in_flight))
        atomic_store(&most_pieces_in_flight, n);
    return td_device_reference()->copy_to_device(stream, to, from, bytes, err);
}

/* The first piece has not arrived before a second one is submitted. */
static td_status poll_until_two(struct td_device_stream *stream, bool *done, struct td_error *err)
{
    const td_status status = td_device_reference()->poll(stream, done, err);
    *done = *done && atomic_load(&most_pieces_in_flight) != 1;
    if (*done)
        atomic_store(&pieces_in_flight, 0);
    return status;
}

static td_status wait_until_two(struct td_device_stream *stream, int64_t timeout_ns, bool *done,
                                struct td_error *err)
{
    (void)timeout_ns;
    return poll_until_two(stream, done, err);
}

TD_TEST(two_pieces_are_in_flight_and_never_more)
{
    struct td_device_api api = *td_device_reference();
    struct setup setup = { .options.api = &api };
    struct batch_call call;
    api.copy_to_device = counted_copy;
    api.poll = poll_until_two;
    api.wait = wait_until_two;
    setup_open(&setup, "");
    struct td_tensor table = table_of(LARGE_ROWS, 0);
    atomic_store(&pieces_in_flight, 0);
    atomic_store(&most_pieces_in_flight, 0);
    upload(&setup, &table, TD_OK);
    ck_assert_int_eq(atomic_load(&most_pieces_in_flight), 2);
    ck_assert_uint_eq(td_device_reference_counts().bytes_to_device, table.bytes);
    submit_row(&setup, &call, &table, LARGE_ROWS / 2);
    expect_rows(&call);
    setup_close(&setup);
}

TD_TEST(a_call_waits_for_the_pieces_of_its_table)
{
    struct setup setup = { .options.staging_bytes = 1 * MIB };
    struct batch_call calls[4];
    setup_open(&setup, "");
    struct td_tensor table = table_of(LARGE_ROWS, 0);
    for (int i = 0; i < 4; i++)
        submit_row(&setup, &calls[i], &table, LARGE_ROWS - 1 - i);
    for (int i = 0; i < 4; i++) {
        expect_rows(&calls[i]);
        batch_call_end(&calls[i]);
    }
    ck_assert_uint_lt(td_device_reference_counts().bytes_to_device, table.bytes + 4096);
    ck_assert_uint_eq(counts_of(&setup).table_bytes, table.bytes);
    ck_assert_uint_le(counts_of(&setup).staging_bytes, 1 * MIB);
    setup_close(&setup);
}

TD_TEST(calls_on_other_tables_run_between_the_pieces)
{
    struct setup setup = { .options.staging_bytes = 8 * MIB };
    struct batch_call large, calls[2];
    atomic_int sequence = 0;
    setup_open(&setup, "copy_mb_per_s=40"); /* 1 s for the table, 25 ms for two pieces */
    struct td_tensor table = table_of(LARGE_ROWS, 0), small = table_of(10, 0);
    upload(&setup, &small, TD_OK);
    test_clock_stop();
    batch_call_upload(&large, &table);
    large.sequence = &sequence;
    submit(&setup, &large);
    EVENTUALLY(counts_of(&setup).in_flight == 1);
    for (int i = 0; i < 2; i++) {
        batch_call_row(&calls[i], &small, i);
        calls[i].sequence = &sequence;
        submit(&setup, &calls[i]);
        (void)pass_time_until_end(&calls[i], MS);
        expect_rows(&calls[i]);
    }
    (void)pass_time_until_end(&large, MS);
    expect_status(&large, TD_OK);
    ck_assert_int_eq(large.order, 2);
    setup_close(&setup);
}

TD_TEST(an_upload_goes_on_without_the_call_that_needed_it)
{
    struct setup setup = { 0 };
    struct batch_call late, next;
    setup_open(&setup, "copy_mb_per_s=200");
    struct td_tensor table = table_of(LARGE_ROWS, 0);
    test_clock_stop();
    batch_call_row(&late, &table, 1);
    late.item.deadline_ns = td_now_ns() + 50 * MS;
    submit(&setup, &late);
    EVENTUALLY(looks() > 0); /* at the first pieces of the table */
    ck_assert_int_eq(pass_time_until_end(&late, MS), 51 * MS);
    expect_status(&late, TD_DEADLINE_EXCEEDED);
    submit_row(&setup, &next, &table, 2);
    (void)pass_time_until_end(&next, MS);
    expect_rows(&next);
    ck_assert_uint_lt(td_device_reference_counts().bytes_to_device, table.bytes + 4096);
    setup_close(&setup);
}

TD_TEST(the_version_of_an_upload_stays_until_its_end)
{
    struct setup setup = { 0 };
    struct batch_call late;
    setup_open(&setup, "copy_mb_per_s=40"); /* 1 s for the table, which the deadline is within */
    struct td_tensor table = table_of(LARGE_ROWS, 0);
    test_clock_stop();
    batch_call_row(&late, &table, 1);
    late.item.deadline_ns = td_now_ns() + 500 * MS;
    submit(&setup, &late);
    EVENTUALLY(looks() > 0); /* at the first pieces of the table */
    (void)pass_time_until_end(&late, MS);
    expect_status(&late, TD_DEADLINE_EXCEEDED);
    batch_call_end(&late);
    drop_table(&table); /* AddressSanitizer sees if it is read after that */
    ck_assert_uint_lt(td_device_reference_counts().bytes_to_device, table.bytes);
    test_clock_go_on();
    EVENTUALLY(td_device_reference_counts().bytes_to_device == table.bytes);
    EVENTUALLY(counts_of(&setup).tables == 0);
    setup_close(&setup);
}

/* Both fit beside nothing else: neither makes room for the other. */
TD_TEST(a_call_of_two_large_tables_uploads_each_once)
{
    struct setup setup = { .options.device.memory = 20 * MIB };
    struct batch_call call;
    setup_open(&setup, "");
    enum { ROWS = 524288 }; /* 8 MiB */
    struct td_tensor a = table_of(ROWS, 0), b = table_of(ROWS, 0), other = table_of(ROWS, 0);
    upload(&setup, &other, TD_OK);
    batch_call_einsum(&call, "ij,ij->j", a, b, 3);
    submit(&setup, &call);
    expect_status(&call, TD_OK);
    ck_assert_uint_lt(td_device_reference_counts().bytes_to_device, 3 * a.bytes + 4096);
    ck_assert(td_batcher_has_table(setup.batcher, &a) && td_batcher_has_table(setup.batcher, &b));
    setup_close(&setup);
}

TD_TEST(a_device_lost_between_two_pieces_is_opened_again)
{
    struct setup setup = { 0 };
    struct batch_call call;
    setup_open(&setup, "lose_copy=3");
    struct td_tensor table = table_of(LARGE_ROWS, 0);
    upload(&setup, &table, TD_DEVICE_UNAVAILABLE);
    reopen(&setup);
    submit_row(&setup, &call, &table, LARGE_ROWS - 1);
    expect_rows(&call);
    ck_assert_uint_eq(counts_of(&setup).opens, 2);
    setup_close(&setup);
}

TD_TEST(the_end_does_not_wait_for_an_upload_that_hangs)
{
    struct setup setup = { 0 };
    struct batch_call hung, call;
    setup_open(&setup, "hang_at=1");
    test_clock_stop(); /* a drained device has a second, and so has each call of it */
    struct td_tensor table = table_of(LARGE_ROWS, 0), small = table_of(10, 0);
    keep_busy(&setup, &hung, &small);
    batch_call_upload(&call, &table);
    submit(&setup, &call);
    EVENTUALLY(counts_of(&setup).in_flight == 2);
    td_batcher_drain(setup.batcher);
    (void)pass_time_until_end(&hung, 300 * MS);
    expect_status(&hung, TD_DEVICE_UNAVAILABLE);
    expect_status(&call, TD_DEVICE_UNAVAILABLE);
    setup_close(&setup);
}

/* ---- idle memory ----------------------------------------------------------------------------- */

static atomic_int housekeepings; /* of the batcher, each of which begins so */

void __real_td_table_cache_drop_stale(struct td_table_cache *cache);
void __wrap_td_table_cache_drop_stale(struct td_table_cache *cache);
void __wrap_td_table_cache_drop_stale(struct td_table_cache *cache)
{
    __real_td_table_cache_drop_stale(cache);
    atomic_fetch_add(&housekeepings, 1);
}

/* After idle_ms without calls scratch memory of the device and staging memory are freed; tables
 * stay. More frequent calls keep both. */
TD_TEST(scratch_and_staging_memory_is_freed_after_idle_ms)
{
    enum { IDLE_MS = 700, HOUSEKEEPING_MS = 500 };
    struct setup setup = { .options.idle_ms = IDLE_MS };
    struct batch_call call;
    setup_open(&setup, "");
    struct td_tensor table = table_of(1000, 0);
    test_clock_stop();
    for (int i = 0; i < 6; i++) {
        submit_row(&setup, &call, &table, 7);
        expect_rows(&call);
        batch_call_end(&call);
        const int before = atomic_load(&housekeepings);
        test_clock_advance(HOUSEKEEPING_MS * MS);
        EVENTUALLY(atomic_load(&housekeepings) > before);
        ck_assert_uint_gt(counts_of(&setup).staging_bytes, 0);
        ck_assert_uint_gt(counts_of(&setup).device.memory_used, 2 * table.bytes);
    }
    test_clock_advance(HOUSEKEEPING_MS *
                       MS); /* in which there were no calls, nor in the one before */
    EVENTUALLY(counts_of(&setup).staging_bytes == 0);
    EVENTUALLY(counts_of(&setup).device.memory_used < 2 * table.bytes); /* the table itself */
    ck_assert_uint_eq(td_buffer_pool_usage(setup.buffers).in_use, 0);
    ck_assert(td_batcher_has_table(setup.batcher, &table));
    batch_call_row(&call, &table, 9); /* allocated again */
    submit(&setup, &call);
    expect_rows(&call);
    setup_close(&setup);
}
