#include "server/devices/mailbox.h"

#include "server/observe/clock.h"

#include <stdio.h>
#include <string.h>

void td_batch_mailbox_init(struct td_batch_mailbox *mailbox)
{
    *mailbox = (struct td_batch_mailbox){ .counts.why = "it is being opened" };
    td_item_list_init(&mailbox->items);
    pthread_mutex_init(&mailbox->mutex, NULL);
    td_clock_cond_init(&mailbox->arrived);
    td_clock_cond_init(&mailbox->open_tried);
}

void td_batch_mailbox_destroy(struct td_batch_mailbox *mailbox)
{
    pthread_cond_destroy(&mailbox->open_tried);
    pthread_cond_destroy(&mailbox->arrived);
    pthread_mutex_destroy(&mailbox->mutex);
}

/* ---- from other threads ---------------------------------------------------------------------- */

void td_batch_mailbox_submit(struct td_batch_mailbox *mailbox, struct td_batch_item *item)
{
    pthread_mutex_lock(&mailbox->mutex);
    td_batch_item_submitted(item, &mailbox->item_counts, td_now_ns());
    const bool first = !mailbox->items.first;
    td_item_list_add(&mailbox->items, item);
    if (first)
        pthread_cond_signal(&mailbox->arrived);
    pthread_mutex_unlock(&mailbox->mutex);
}

bool td_batch_mailbox_wait_until_tried(struct td_batch_mailbox *mailbox)
{
    pthread_mutex_lock(&mailbox->mutex);
    while (!mailbox->tried)
        pthread_cond_wait(&mailbox->open_tried, &mailbox->mutex);
    const bool refused = mailbox->refused;
    pthread_mutex_unlock(&mailbox->mutex);
    return !refused;
}

void td_batch_mailbox_want_trim(struct td_batch_mailbox *mailbox)
{
    pthread_mutex_lock(&mailbox->mutex);
    mailbox->trim_wanted = mailbox->woken = true;
    pthread_cond_signal(&mailbox->arrived);
    pthread_mutex_unlock(&mailbox->mutex);
}

void td_batch_mailbox_drain(struct td_batch_mailbox *mailbox)
{
    pthread_mutex_lock(&mailbox->mutex);
    mailbox->draining = mailbox->woken = true;
    pthread_cond_signal(&mailbox->arrived);
    pthread_mutex_unlock(&mailbox->mutex);
}

void td_batch_mailbox_stop(struct td_batch_mailbox *mailbox)
{
    pthread_mutex_lock(&mailbox->mutex);
    mailbox->stopping = true;
    pthread_cond_signal(&mailbox->arrived);
    pthread_mutex_unlock(&mailbox->mutex);
}

bool td_batch_mailbox_has_table(struct td_batch_mailbox *mailbox, const struct td_tensor *table)
{
    pthread_mutex_lock(&mailbox->mutex);
    const bool there = mailbox->session && td_table_cache_has(mailbox->session->table_cache, table);
    pthread_mutex_unlock(&mailbox->mutex);
    return there;
}

void td_batch_mailbox_counts(struct td_batch_mailbox *mailbox, struct td_batcher_counts *out)
{
    const struct td_batch_item_counts *items = &mailbox->item_counts;
    pthread_mutex_lock(&mailbox->mutex);
    *out = mailbox->counts;
    out->waiting = atomic_load_explicit(&items->waiting, memory_order_relaxed);
    out->in_flight = atomic_load_explicit(&items->in_flight, memory_order_relaxed);
    out->failed_items = atomic_load_explicit(&items->failed, memory_order_relaxed);
    if (mailbox->session) {
        const struct td_table_cache_count count =
            td_table_cache_count(mailbox->session->table_cache);
        out->tables = count.tables;
        out->table_bytes = count.bytes;
        out->evicted = count.evicted;
        out->staging_bytes = td_staging_bytes(mailbox->session->staging);
    }
    pthread_mutex_unlock(&mailbox->mutex);
}

bool td_batch_mailbox_available(struct td_batch_mailbox *mailbox, char *why)
{
    pthread_mutex_lock(&mailbox->mutex);
    const bool available = mailbox->counts.available;
    memcpy(why, mailbox->counts.why, TD_DEVICE_TEXT);
    pthread_mutex_unlock(&mailbox->mutex);
    return available;
}

/* ---- batcher's thread: receive --------------------------------------------------------------- */

struct td_batch_orders td_batch_mailbox_take(struct td_batch_mailbox *mailbox,
                                             struct td_item_list *waiting)
{
    pthread_mutex_lock(&mailbox->mutex);
    td_item_list_move(waiting, &mailbox->items);
    const struct td_batch_orders orders = { .stop = mailbox->stopping,
                                            .drain = mailbox->stopping || mailbox->draining,
                                            .trim = mailbox->trim_wanted };
    mailbox->trim_wanted = false;
    pthread_mutex_unlock(&mailbox->mutex);
    return orders;
}

void td_batch_mailbox_sleep(struct td_batch_mailbox *mailbox, int64_t until_ns)
{
    pthread_mutex_lock(&mailbox->mutex);
    while (!mailbox->items.first && !mailbox->stopping && !mailbox->woken &&
           td_clock_wait(&mailbox->arrived, &mailbox->mutex, until_ns))
        ;
    mailbox->woken = false;
    pthread_mutex_unlock(&mailbox->mutex);
}

/* ---- batcher's thread: publish --------------------------------------------------------------- */

/* Publishes the device's state. `session` is NULL if the device is not available. */
static void publish(struct td_batch_mailbox *mailbox, const struct td_device_session *session,
                    bool refused, const char *why)
{
    struct td_batcher_counts *counts = &mailbox->counts;
    pthread_mutex_lock(&mailbox->mutex);
    mailbox->session = session;
    counts->available = session != NULL;
    counts->opens += session != NULL;
    snprintf(counts->why, sizeof counts->why, "%.*s", TD_DEVICE_TEXT - 1, why);
    mailbox->refused = refused;
    mailbox->tried = true;
    pthread_cond_broadcast(&mailbox->open_tried);
    pthread_mutex_unlock(&mailbox->mutex);
}

void td_batch_mailbox_opened(struct td_batch_mailbox *mailbox,
                             const struct td_device_session *session)
{
    publish(mailbox, session, false, "");
}

void td_batch_mailbox_not_available(struct td_batch_mailbox *mailbox, bool refused, const char *why)
{
    publish(mailbox, NULL, refused, why);
}

void td_batch_mailbox_set_info(struct td_batch_mailbox *mailbox, const struct td_device_info *info)
{
    pthread_mutex_lock(&mailbox->mutex);
    mailbox->counts.device = *info;
    pthread_mutex_unlock(&mailbox->mutex);
}

/* Updates an exponential moving average with weight 1/8. */
static void average(uint64_t *mean, int64_t value)
{
    const uint64_t now = value > 0 ? (uint64_t)value : 0;
    *mean = *mean == 0 ? now : *mean - *mean / 8 + now / 8;
}

void td_batch_mailbox_began(struct td_batch_mailbox *mailbox, struct td_batch_item *const *items,
                            int n)
{
    struct td_batcher_counts *counts = &mailbox->counts;
    pthread_mutex_lock(&mailbox->mutex);
    counts->batches++;
    counts->items += (uint64_t)n;
    for (int i = 0; i < n; i++)
        average(&counts->wait_ns, items[i]->begun_ns - items[i]->submitted_ns);
    pthread_mutex_unlock(&mailbox->mutex);
}

void td_batch_mailbox_ended(struct td_batch_mailbox *mailbox, int64_t took_ns)
{
    pthread_mutex_lock(&mailbox->mutex);
    average(&mailbox->counts.batch_ns, took_ns);
    pthread_mutex_unlock(&mailbox->mutex);
}
