#include "server/devices/batch_queue.h"
#include "tests/server/devices/batcher_setup.h"

#include <string.h>

/* The tests pass the time. */
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

static void add(struct ask *ask)
{
    td_batch_queue_prepare(&ask->item);
    td_batch_item_submitted(&ask->item, &counts, NOW);
    td_item_list_add(&queue.waiting, &ask->item);
}

static void add_row(struct ask *ask, const struct td_tensor *table)
{
    ask_row(ask, table, 1);
    add(ask);
}

/* Picks and takes a batch and checks that it is these n asks, in this order. */
static void expect_picked(int n, struct ask *const *asks)
{
    ck_assert_int_eq(td_batch_queue_pick(&queue, NOW), n);
    for (int i = 0; i < n; i++)
        EXPECT(queue.picked[i] == &asks[i]->item, "item %d differs", i);
    td_batch_queue_take(&queue, n);
    for (int i = 0; i < n; i++)
        td_batch_item_give_back(&asks[i]->item, TD_OK, NULL);
}

START_TEST(a_batch_is_the_oldest_item_and_those_that_merge_with_it_in_order)
{
    struct ask asks[6];
    struct td_tensor tables[3];
    static const char order[] = "abacab";
    open_queue(MIB);
    for (int i = 0; i < 3; i++)
        tables[i] = table_of(10, 0);
    for (int i = 0; i < 6; i++)
        add_row(&asks[i], &tables[order[i] - 'a']);
    ck_assert_int_eq(td_batch_queue_count_mergeable(&queue), 3);
    expect_picked(3, (struct ask *const[]){ &asks[0], &asks[2], &asks[4] });
    expect_picked(2, (struct ask *const[]){ &asks[1], &asks[5] });
    expect_picked(1, (struct ask *const[]){ &asks[3] });
    ck_assert_int_eq(td_batch_queue_pick(&queue, NOW), 0);
    close_queue();
    for (int i = 0; i < 6; i++)
        ask_end(&asks[i]);
    for (int i = 0; i < 3; i++)
        td_buffer_unref(tables[i].owner);
}
END_TEST

START_TEST(picked_items_that_are_not_taken_keep_their_place)
{
    struct ask asks[3];
    struct td_tensor table = table_of(10, 0), other = table_of(10, 0);
    open_queue(MIB);
    add_row(&asks[0], &table);
    add_row(&asks[1], &other);
    add_row(&asks[2], &table);
    ck_assert_int_eq(td_batch_queue_pick(&queue, NOW), 2);
    td_batch_queue_take(&queue, 1); /* fewer than were picked */
    td_batch_item_give_back(&asks[0].item, TD_OK, NULL);
    expect_picked(1, (struct ask *const[]){ &asks[1] });
    expect_picked(1, (struct ask *const[]){ &asks[2] });
    close_queue();
    for (int i = 0; i < 3; i++)
        ask_end(&asks[i]);
    td_buffer_unref(table.owner);
    td_buffer_unref(other.owner);
}
END_TEST

START_TEST(pick_stops_at_the_item_limit)
{
    struct ask asks[LIMIT + 1];
    struct td_tensor table = table_of(10, 0);
    open_queue(MIB);
    for (int i = 0; i <= LIMIT; i++)
        add_row(&asks[i], &table);
    ck_assert_int_eq(td_batch_queue_count_mergeable(&queue), LIMIT);
    expect_picked(LIMIT, (struct ask *const[]){ &asks[0], &asks[1], &asks[2], &asks[3] });
    expect_picked(1, (struct ask *const[]){ &asks[LIMIT] });
    close_queue();
    for (int i = 0; i <= LIMIT; i++)
        ask_end(&asks[i]);
    td_buffer_unref(table.owner);
}
END_TEST

/* A lookup of one row takes 8 bytes for the index and 16 for the row. */
START_TEST(pick_stops_at_the_byte_limit_but_returns_at_least_one_item)
{
    struct ask asks[3];
    struct td_tensor table = table_of(10, 0);
    open_queue(_i == 0 ? 1 : 48);
    for (int i = 0; i < 3; i++)
        add_row(&asks[i], &table);
    if (_i == 0)
        for (int i = 0; i < 3; i++)
            expect_picked(1, (struct ask *const[]){ &asks[i] });
    else {
        expect_picked(2, (struct ask *const[]){ &asks[0], &asks[1] });
        expect_picked(1, (struct ask *const[]){ &asks[2] });
    }
    close_queue();
    for (int i = 0; i < 3; i++)
        ask_end(&asks[i]);
    td_buffer_unref(table.owner);
}
END_TEST

START_TEST(items_that_cannot_merge_are_picked_singly)
{
    struct ask asks[4];
    struct td_tensor table = table_of(10, 0), brought = table;
    brought.owner = NULL; /* no version */
    open_queue(MIB);
    for (int i = 0; i < 2; i++) {
        add_row(&asks[i], &brought);
        ck_assert_uint_eq(asks[i].item.key, 0);
        ck_assert_uint_eq(asks[i].item.resident, 0);
        ask_upload(&asks[2 + i], &table);
        add(&asks[2 + i]);
        ck_assert_uint_eq(asks[2 + i].item.key, 0);
    }
    for (int i = 0; i < 4; i++) {
        struct ask *next = &asks[i % 2 * 2 + i / 2];
        expect_picked(1, (struct ask *const[]){ next });
    }
    close_queue();
    for (int i = 0; i < 4; i++)
        ask_end(&asks[i]);
    td_buffer_unref(table.owner);
}
END_TEST

START_TEST(pick_gives_back_late_items_and_those_of_disconnected_clients)
{
    struct ask asks[5];
    struct td_tensor table = table_of(10, 0);
    open_queue(MIB);
    for (int i = 0; i < 5; i++)
        add_row(&asks[i], &table);
    asks[0].item.deadline_ns = NOW - 1;
    asks[1].left = true;
    asks[2].item.start_by_ns = NOW - 1;
    asks[3].item.start_by_ns = asks[3].item.deadline_ns = NOW; /* just in time */
    expect_picked(2, (struct ask *const[]){ &asks[3], &asks[4] });
    for (int i = 0; i < 3; i++)
        expect_status(&asks[i], TD_DEADLINE_EXCEEDED);
    ck_assert_str_eq(asks[0].err.message, "the deadline passed while gather was waiting");
    ck_assert_str_eq(asks[1].err.message, "the client disconnected while gather was waiting");
    close_queue();
    for (int i = 0; i < 5; i++)
        ask_end(&asks[i]);
    td_buffer_unref(table.owner);
}
END_TEST

START_TEST(late_ns_is_the_earliest_start_time_limit)
{
    struct ask asks[3];
    struct td_tensor table = table_of(10, 0);
    open_queue(MIB);
    ck_assert_int_eq(td_batch_queue_late_ns(&queue), TD_NEVER);
    for (int i = 0; i < 3; i++)
        add_row(&asks[i], &table);
    ck_assert_int_eq(td_batch_queue_late_ns(&queue), TD_NEVER);
    asks[1].item.deadline_ns = 70;
    asks[2].item.deadline_ns = 90;
    asks[2].item.start_by_ns = 50;
    ck_assert_int_eq(td_batch_queue_late_ns(&queue), 50);
    td_batch_queue_drop_late(&queue, 50); /* not late yet */
    ck_assert_uint_eq(atomic_load(&counts.waiting), 3);
    td_batch_queue_drop_late(&queue, 51);
    expect_status(&asks[2], TD_DEADLINE_EXCEEDED);
    ck_assert_int_eq(td_batch_queue_late_ns(&queue), 70);
    td_batch_queue_drop_late(&queue, 71);
    expect_status(&asks[1], TD_DEADLINE_EXCEEDED);
    expect_picked(1, (struct ask *const[]){ &asks[0] });
    close_queue();
    for (int i = 0; i < 3; i++)
        ask_end(&asks[i]);
    td_buffer_unref(table.owner);
}
END_TEST

/* Is added while others are refused. */
static struct ask latecomer;

static void add_another(struct ask *ask)
{
    add(&latecomer);
    sem_post(&ask->over);
}

START_TEST(refuse_gives_back_all_items_that_wait_now)
{
    struct ask asks[2];
    struct td_error err;
    struct td_tensor table = table_of(10, 0);
    open_queue(MIB);
    ask_row(&latecomer, &table, 2);
    for (int i = 0; i < 2; i++)
        add_row(&asks[i], &table);
    asks[0].then = add_another;
    td_error_set(&err, TD_DEVICE_UNAVAILABLE, "the device was lost");
    td_batch_queue_refuse(&queue, TD_DEVICE_UNAVAILABLE, &err);
    for (int i = 0; i < 2; i++) {
        expect_status(&asks[i], TD_DEVICE_UNAVAILABLE);
        ck_assert_str_eq(asks[i].err.message, "the device was lost");
        ask_end(&asks[i]);
    }
    ck_assert_uint_eq(atomic_load(&counts.failed), 2);
    expect_picked(1, (struct ask *const[]){ &latecomer });
    close_queue();
    ask_end(&latecomer);
    td_buffer_unref(table.owner);
}
END_TEST

static void add_tests(TCase *tcase)
{
    tcase_add_test(tcase, a_batch_is_the_oldest_item_and_those_that_merge_with_it_in_order);
    tcase_add_test(tcase, picked_items_that_are_not_taken_keep_their_place);
    tcase_add_test(tcase, pick_stops_at_the_item_limit);
    tcase_add_loop_test(tcase, pick_stops_at_the_byte_limit_but_returns_at_least_one_item, 0, 2);
    tcase_add_test(tcase, items_that_cannot_merge_are_picked_singly);
    tcase_add_test(tcase, pick_gives_back_late_items_and_those_of_disconnected_clients);
    tcase_add_test(tcase, late_ns_is_the_earliest_start_time_limit);
    tcase_add_test(tcase, refuse_gives_back_all_items_that_wait_now);
}

int main(void)
{
    return run_suite("batch_queue", add_tests);
}
