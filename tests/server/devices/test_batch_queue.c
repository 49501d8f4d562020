#include "server/devices/batch_queue.h"
#include "tests/server/devices/batcher_setup.h"

#include <string.h>

/* The time is a parameter. */
enum { NOW = 1000 };

enum { LIMIT = 4 };

static struct td_batch_queue queue;
static struct td_batch_item_counts counts;

static void open_queue(uint64_t batch_bytes)
{
    memset(&counts, 0, sizeof counts);
    ck_assert(td_batch_queue_init(&queue, LIMIT, batch_bytes));
}

static void close_queue(void)
{
    ck_assert_ptr_null(queue.waiting.first);
    ck_assert_uint_eq(atomic_load(&counts.waiting), 0);
    td_batch_queue_destroy(&queue);
}

static void add(struct batch_call *call)
{
    td_batch_queue_prepare(&call->item);
    td_batch_item_submitted(&call->item, &counts, NOW);
    td_item_list_add(&queue.waiting, &call->item);
}

static void add_row(struct batch_call *call, const struct td_tensor *table)
{
    batch_call_row(call, table, 1);
    add(call);
}

/* Picks and takes a batch and checks that it is these n calls, in this order. */
static void expect_picked(int n, struct batch_call *const *calls)
{
    ck_assert_int_eq(td_batch_queue_pick(&queue, NOW), n);
    for (int i = 0; i < n; i++)
        EXPECT(queue.picked[i] == &calls[i]->item, "item %d differs", i);
    td_batch_queue_take(&queue, n);
    for (int i = 0; i < n; i++)
        td_batch_item_give_back(&calls[i]->item, TD_OK, NULL);
}

TD_TEST(a_batch_is_the_oldest_item_and_those_that_merge_with_it_in_order)
{
    struct batch_call calls[6];
    struct td_tensor tables[3];
    static const char order[] = "abacab";
    open_queue(MIB);
    for (int i = 0; i < 3; i++)
        tables[i] = table_of(10, 0);
    for (int i = 0; i < 6; i++)
        add_row(&calls[i], &tables[order[i] - 'a']);
    ck_assert_int_eq(td_batch_queue_count_mergeable(&queue), 3);
    expect_picked(3, (struct batch_call *const[]){ &calls[0], &calls[2], &calls[4] });
    expect_picked(2, (struct batch_call *const[]){ &calls[1], &calls[5] });
    expect_picked(1, (struct batch_call *const[]){ &calls[3] });
    ck_assert_int_eq(td_batch_queue_pick(&queue, NOW), 0);
    close_queue();
    for (int i = 0; i < 6; i++)
        batch_call_end(&calls[i]);
    for (int i = 0; i < 3; i++)
        td_buffer_unref(tables[i].owner);
}

TD_TEST(picked_items_that_are_not_taken_keep_their_place)
{
    struct batch_call calls[3];
    struct td_tensor table = table_of(10, 0), other = table_of(10, 0);
    open_queue(MIB);
    add_row(&calls[0], &table);
    add_row(&calls[1], &other);
    add_row(&calls[2], &table);
    ck_assert_int_eq(td_batch_queue_pick(&queue, NOW), 2);
    td_batch_queue_take(&queue, 1); /* fewer than were picked */
    td_batch_item_give_back(&calls[0].item, TD_OK, NULL);
    expect_picked(1, (struct batch_call *const[]){ &calls[1] });
    expect_picked(1, (struct batch_call *const[]){ &calls[2] });
    close_queue();
    for (int i = 0; i < 3; i++)
        batch_call_end(&calls[i]);
    td_buffer_unref(table.owner);
    td_buffer_unref(other.owner);
}

TD_TEST(pick_stops_at_the_item_limit)
{
    struct batch_call calls[LIMIT + 1];
    struct td_tensor table = table_of(10, 0);
    open_queue(MIB);
    for (int i = 0; i <= LIMIT; i++)
        add_row(&calls[i], &table);
    ck_assert_int_eq(td_batch_queue_count_mergeable(&queue), LIMIT);
    expect_picked(LIMIT,
                  (struct batch_call *const[]){ &calls[0], &calls[1], &calls[2], &calls[3] });
    expect_picked(1, (struct batch_call *const[]){ &calls[LIMIT] });
    close_queue();
    for (int i = 0; i <= LIMIT; i++)
        batch_call_end(&calls[i]);
    td_buffer_unref(table.owner);
}

/* A lookup of one row takes 8 bytes for the index and 16 for the row. */
TD_TEST_LOOP(pick_stops_at_the_byte_limit_but_returns_at_least_one_item, 0, 2)
{
    struct batch_call calls[3];
    struct td_tensor table = table_of(10, 0);
    open_queue(_i == 0 ? 1 : 48);
    for (int i = 0; i < 3; i++)
        add_row(&calls[i], &table);
    if (_i == 0)
        for (int i = 0; i < 3; i++)
            expect_picked(1, (struct batch_call *const[]){ &calls[i] });
    else {
        expect_picked(2, (struct batch_call *const[]){ &calls[0], &calls[1] });
        expect_picked(1, (struct batch_call *const[]){ &calls[2] });
    }
    close_queue();
    for (int i = 0; i < 3; i++)
        batch_call_end(&calls[i]);
    td_buffer_unref(table.owner);
}

TD_TEST(items_that_cannot_merge_are_picked_singly)
{
    struct batch_call calls[4];
    struct td_tensor table = table_of(10, 0), brought = table;
    brought.owner = NULL; /* no version */
    open_queue(MIB);
    for (int i = 0; i < 2; i++) {
        add_row(&calls[i], &brought);
        ck_assert_uint_eq(calls[i].item.key, 0);
        ck_assert(!td_batch_tables_has(&calls[i].item.resident, 0));
        batch_call_upload(&calls[2 + i], &table);
        add(&calls[2 + i]);
        ck_assert_uint_eq(calls[2 + i].item.key, 0);
    }
    for (int i = 0; i < 4; i++) {
        struct batch_call *next = &calls[i % 2 * 2 + i / 2];
        expect_picked(1, (struct batch_call *const[]){ next });
    }
    close_queue();
    for (int i = 0; i < 4; i++)
        batch_call_end(&calls[i]);
    td_buffer_unref(table.owner);
}

TD_TEST(pick_gives_back_late_items_and_those_of_disconnected_clients)
{
    struct batch_call calls[5];
    struct td_tensor table = table_of(10, 0);
    open_queue(MIB);
    for (int i = 0; i < 5; i++)
        add_row(&calls[i], &table);
    calls[0].item.deadline_ns = NOW - 1;
    calls[1].disconnected = true;
    calls[2].item.start_by_ns = NOW - 1;
    calls[3].item.start_by_ns = calls[3].item.deadline_ns = NOW; /* just in time */
    expect_picked(2, (struct batch_call *const[]){ &calls[3], &calls[4] });
    for (int i = 0; i < 3; i++)
        expect_status(&calls[i], TD_DEADLINE_EXCEEDED);
    ck_assert_str_eq(calls[0].err.message, "the deadline passed while gather was waiting");
    ck_assert_str_eq(calls[1].err.message, "the client disconnected while gather was waiting");
    close_queue();
    for (int i = 0; i < 5; i++)
        batch_call_end(&calls[i]);
    td_buffer_unref(table.owner);
}

TD_TEST(late_ns_is_the_earliest_start_time_limit)
{
    struct batch_call calls[3];
    struct td_tensor table = table_of(10, 0);
    open_queue(MIB);
    ck_assert_int_eq(td_batch_queue_late_ns(&queue), TD_NEVER);
    for (int i = 0; i < 3; i++)
        add_row(&calls[i], &table);
    ck_assert_int_eq(td_batch_queue_late_ns(&queue), TD_NEVER);
    calls[1].item.deadline_ns = 70;
    calls[2].item.deadline_ns = 90;
    calls[2].item.start_by_ns = 50;
    ck_assert_int_eq(td_batch_queue_late_ns(&queue), 50);
    td_batch_queue_drop_late(&queue, 50); /* not late yet */
    ck_assert_uint_eq(atomic_load(&counts.waiting), 3);
    td_batch_queue_drop_late(&queue, 51);
    expect_status(&calls[2], TD_DEADLINE_EXCEEDED);
    ck_assert_int_eq(td_batch_queue_late_ns(&queue), 70);
    td_batch_queue_drop_late(&queue, 71);
    expect_status(&calls[1], TD_DEADLINE_EXCEEDED);
    expect_picked(1, (struct batch_call *const[]){ &calls[0] });
    close_queue();
    for (int i = 0; i < 3; i++)
        batch_call_end(&calls[i]);
    td_buffer_unref(table.owner);
}

/* A call that is added while others are refused. */
static struct batch_call latecomer;

static void add_latecomer(struct batch_call *call)
{
    add(&latecomer);
    sem_post(&call->finished);
}

TD_TEST(refuse_gives_back_all_items_that_wait_now)
{
    struct batch_call calls[2];
    struct td_error err;
    struct td_tensor table = table_of(10, 0);
    open_queue(MIB);
    batch_call_row(&latecomer, &table, 2);
    for (int i = 0; i < 2; i++)
        add_row(&calls[i], &table);
    calls[0].on_end = add_latecomer;
    td_error_set(&err, TD_DEVICE_UNAVAILABLE, "the device was lost");
    td_batch_queue_refuse(&queue, TD_DEVICE_UNAVAILABLE, &err);
    for (int i = 0; i < 2; i++) {
        expect_status(&calls[i], TD_DEVICE_UNAVAILABLE);
        ck_assert_str_eq(calls[i].err.message, "the device was lost");
        batch_call_end(&calls[i]);
    }
    ck_assert_uint_eq(atomic_load(&counts.failed), 2);
    expect_picked(1, (struct batch_call *const[]){ &latecomer });
    close_queue();
    batch_call_end(&latecomer);
    td_buffer_unref(table.owner);
}
