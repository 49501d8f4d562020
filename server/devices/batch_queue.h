/* batch_queue.h - items that wait for a device, by age, and which of them go into the next batch.
 *
 *     oldest ─► a ─ b ─ a ─ c ─ a ─ ...        pick: the a's; the next one begins with b
 *
 * The oldest leads; those that merge with it (kernels/merge.h) go along, in their order, up to
 * `batch_limit` of them and to `batch_bytes` of staging memory. What does not merge goes alone. What
 * was picked stays in the queue until it is known that it starts.
 *
 * Ownership  Borrows items from add to take. Those that are late, or whose client has left, or that
 *            are refused, are given back (item.h). What is added meanwhile stays.
 * Threads    One at a time; prepare from any. */
#ifndef TD_SERVER_DEVICES_BATCH_QUEUE_H
#define TD_SERVER_DEVICES_BATCH_QUEUE_H

#include "server/devices/item.h"

struct td_batch_queue {
    struct td_item_list waiting;
    struct td_batch_item **picked; /* batch_limit of them; what pick found */
    int batch_limit;
    uint64_t batch_bytes;
};

/* False without memory. */
bool td_batch_queue_init(struct td_batch_queue *queue, int batch_limit, uint64_t batch_bytes);
/* It is empty. What init refused, too. */
void td_batch_queue_destroy(struct td_batch_queue *queue);

/* What an item needs before it is added: sets key, and resident to what it can be. */
void td_batch_queue_prepare(struct td_batch_item *item);

/* Finds the oldest that is wanted and what goes along with it, without taking them off the queue;
 * what is not wanted any more is given back. How many there are: 0, nothing waits. */
int td_batch_queue_pick(struct td_batch_queue *queue, int64_t now_ns);

/* Takes the first n that were picked off the queue. */
void td_batch_queue_take(struct td_batch_queue *queue, int n);

/* How many of those that wait would go into one batch, roughly; no more than the limit. */
int td_batch_queue_count_along(const struct td_batch_queue *queue);

/* The earliest moment after which one of them is late; TD_NEVER. */
int64_t td_batch_queue_late_ns(const struct td_batch_queue *queue);

/* Gives back those that are late. */
void td_batch_queue_drop_late(struct td_batch_queue *queue, int64_t now_ns);

/* Gives back all that wait now. */
void td_batch_queue_refuse(struct td_batch_queue *queue, td_status status,
                           const struct td_error *err);

#endif
