#include "server/devices/mailbox.h"
#include "tests/server/devices/batcher_setup.h"

#include <string.h>

static struct td_batch_mailbox mailbox;
static struct td_item_list waiting;

static void begin(void)
{
    td_batch_mailbox_init(&mailbox);
    td_item_list_init(&waiting);
}

static struct td_batcher_counts counts_now(void)
{
    struct td_batcher_counts counts;
    td_batch_mailbox_counts(&mailbox, &counts);
    return counts;
}

static struct td_batch_item *next_waiting(void)
{
    ck_assert_ptr_nonnull(waiting.first);
    return td_item_list_take(&waiting, &waiting.first);
}

TD_TEST(items_are_appended_in_order_to_those_that_wait)
{
    struct td_batch_item items[4] = { 0 };
    begin();
    td_batch_mailbox_submit(&mailbox, &items[0]);
    td_batch_mailbox_submit(&mailbox, &items[1]);
    (void)td_batch_mailbox_take(&mailbox, &waiting);
    td_batch_mailbox_submit(&mailbox, &items[2]);
    td_batch_mailbox_submit(&mailbox, &items[3]);
    ck_assert_uint_eq(counts_now().waiting, 4); /* taken or not */
    (void)td_batch_mailbox_take(&mailbox, &waiting);
    (void)td_batch_mailbox_take(&mailbox, &waiting);
    for (int i = 0; i < 4; i++)
        ck_assert_ptr_eq(next_waiting(), &items[i]);
    ck_assert_ptr_null(waiting.first);
    td_batch_mailbox_destroy(&mailbox);
}

static void record_done(struct td_batch_item *item, td_status status, const struct td_error *err)
{
    (void)item;
    (void)status;
    (void)err;
}

TD_TEST(items_are_counted_from_submit_to_give_back)
{
    struct td_batch_item items[3] = { 0 }, *both[] = { &items[0], &items[1] };
    struct td_error err;
    begin();
    for (int i = 0; i < 3; i++) {
        items[i].done = record_done;
        td_batch_mailbox_submit(&mailbox, &items[i]);
    }
    for (int i = 0; i < 2; i++)
        td_batch_item_begun(&items[i], items[i].submitted_ns + 800);
    td_batch_mailbox_began(&mailbox, both, 2);
    ck_assert_uint_eq(counts_now().waiting, 1);
    ck_assert_uint_eq(counts_now().in_flight, 2);
    ck_assert_uint_eq(counts_now().batches, 1);
    ck_assert_uint_eq(counts_now().items, 2);
    ck_assert_uint_eq(counts_now().wait_ns, 800);
    td_batch_mailbox_ended(&mailbox, 1600);
    ck_assert_uint_eq(counts_now().batch_ns, 1600);
    td_batch_mailbox_ended(&mailbox, 800); /* an eighth of the mean each */
    ck_assert_uint_eq(counts_now().batch_ns, 1500);
    td_error_set(&err, TD_DEVICE_UNAVAILABLE, "the device was lost");
    td_batch_item_give_back(&items[0], TD_OK, NULL);
    td_batch_item_give_back(&items[1], TD_DEVICE_UNAVAILABLE, &err);
    td_batch_item_give_back(&items[2], TD_DEVICE_UNAVAILABLE, &err);
    ck_assert_uint_eq(counts_now().waiting, 0);
    ck_assert_uint_eq(counts_now().in_flight, 0);
    ck_assert_uint_eq(counts_now().failed_items, 2);
    td_batch_mailbox_destroy(&mailbox);
}

TD_TEST(trim_is_received_once_drain_and_stop_always)
{
    begin();
    struct td_batch_orders orders = td_batch_mailbox_take(&mailbox, &waiting);
    ck_assert(!orders.trim && !orders.drain && !orders.stop);
    td_batch_mailbox_want_trim(&mailbox);
    ck_assert(td_batch_mailbox_take(&mailbox, &waiting).trim);
    ck_assert(!td_batch_mailbox_take(&mailbox, &waiting).trim);
    td_batch_mailbox_drain(&mailbox);
    for (int i = 0; i < 2; i++) {
        orders = td_batch_mailbox_take(&mailbox, &waiting);
        ck_assert(orders.drain && !orders.stop);
    }
    td_batch_mailbox_stop(&mailbox);
    orders = td_batch_mailbox_take(&mailbox, &waiting);
    ck_assert(orders.drain && orders.stop);
    td_batch_mailbox_destroy(&mailbox);
}

/* ---- sleeping -------------------------------------------------------------------------------- */

static struct td_batch_item sent;

static void *send_item(void *context)
{
    (void)context;
    td_batch_mailbox_submit(&mailbox, &sent);
    return NULL;
}

static void *send_trim(void *context)
{
    (void)context;
    td_batch_mailbox_want_trim(&mailbox);
    return NULL;
}

static void *send_drain(void *context)
{
    (void)context;
    td_batch_mailbox_drain(&mailbox);
    return NULL;
}

static void *send_stop(void *context)
{
    (void)context;
    td_batch_mailbox_stop(&mailbox);
    return NULL;
}

/* Arriving before the sleep or during it. */
TD_TEST_LOOP(any_item_or_request_ends_the_sleep, 0, 4)
{
    static void *(*const senders[])(void *) = { send_item, send_trim, send_drain, send_stop };
    pthread_t thread;
    begin();
    memset(&sent, 0, sizeof sent);
    ck_assert_int_eq(pthread_create(&thread, NULL, senders[_i], NULL), 0);
    td_batch_mailbox_sleep(&mailbox, TD_NEVER);
    const struct td_batch_orders orders = td_batch_mailbox_take(&mailbox, &waiting);
    ck_assert(_i == 0 ? waiting.first == &sent : orders.trim || orders.drain || orders.stop);
    pthread_join(thread, NULL);
    td_batch_mailbox_destroy(&mailbox);
}

TD_TEST(sleep_ends_at_its_time)
{
    begin();
    td_batch_mailbox_sleep(&mailbox, 1); /* in the past */
    (void)td_batch_mailbox_take(&mailbox, &waiting);
    ck_assert_ptr_null(waiting.first);
    td_batch_mailbox_destroy(&mailbox);
}

/* ---- is there a device? ---------------------------------------------------------------------- */

static void *wait_until_tried(void *context)
{
    *(bool *)context = td_batch_mailbox_wait_until_tried(&mailbox);
    return NULL;
}

TD_TEST_LOOP(wait_until_tried_waits_for_the_first_try, 0, 3)
{
    static const struct td_device_session none; /* its tables are not used here */
    char why[TD_DEVICE_TEXT];
    pthread_t thread;
    bool good = _i == 2;
    begin();
    ck_assert(!td_batch_mailbox_available(&mailbox, why));
    ck_assert_str_eq(why, "it is being opened");
    ck_assert_int_eq(pthread_create(&thread, NULL, wait_until_tried, &good), 0);
    if (_i == 0)
        td_batch_mailbox_opened(&mailbox, &none);
    else
        td_batch_mailbox_not_available(&mailbox, _i == 2, "no driver");
    pthread_join(thread, NULL);
    ck_assert_int_eq(good, _i != 2);
    ck_assert_int_eq(td_batch_mailbox_available(&mailbox, why), _i == 0);
    ck_assert_str_eq(why, _i == 0 ? "" : "no driver");
    td_batch_mailbox_destroy(&mailbox);
}

TD_TEST(a_long_reason_is_truncated)
{
    char reason[2 * TD_DEVICE_TEXT], why[TD_DEVICE_TEXT];
    begin();
    memset(reason, 'x', sizeof reason - 1);
    reason[sizeof reason - 1] = '\0';
    td_batch_mailbox_not_available(&mailbox, false, reason);
    ck_assert(!td_batch_mailbox_available(&mailbox, why));
    ck_assert_uint_eq(strlen(why), TD_DEVICE_TEXT - 1);
    td_batch_mailbox_destroy(&mailbox);
}

/* ---- many threads ---------------------------------------------------------------------------- */

enum { SENDERS = 4, EACH = 1000 };

static struct td_batch_item many[SENDERS][EACH];

static void *send_many(void *context)
{
    struct td_batch_item *items = context;
    for (int i = 0; i < EACH; i++)
        td_batch_mailbox_submit(&mailbox, &items[i]);
    return NULL;
}

TD_TEST(items_of_each_thread_arrive_in_order_and_none_is_lost)
{
    pthread_t threads[SENDERS];
    int seen[SENDERS] = { 0 }, n = 0;
    begin();
    memset(many, 0, sizeof many);
    for (int i = 0; i < SENDERS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, send_many, many[i]), 0);
    while (n < SENDERS * EACH) {
        td_batch_mailbox_sleep(&mailbox, TD_NEVER);
        (void)td_batch_mailbox_take(&mailbox, &waiting);
        for (; waiting.first; n++) {
            const struct td_batch_item *item = next_waiting();
            const int sender = (int)((item - &many[0][0]) / EACH);
            ck_assert_ptr_eq(item, &many[sender][seen[sender]++]);
        }
    }
    for (int i = 0; i < SENDERS; i++)
        pthread_join(threads[i], NULL);
    ck_assert_uint_eq(counts_now().waiting, SENDERS * EACH);
    td_batch_mailbox_destroy(&mailbox);
}
