/* batch_queue.h - items that wait for a device, by age, and the choice of the next batch.
 *
 *     oldest ─► a ─ b ─ a ─ c ─ a ─ ...        pick: the a's; the next pick begins with b
 *
 * A batch is the oldest item and those that merge with it (kernels/merge.h), in queue order, up to
 * `batch_limit` items and `batch_bytes` of staging memory. An item that does not merge is a batch
 * of one. Picked items stay in the queue until their batch has started.
 *
 * Ownership  Borrows items from add to take. Late and refused items, and those whose client has
 *            disconnected, are given back (item.h). Items added meanwhile stay.
 * Threads    One at a time; prepare from any thread. */
#ifndef TD_SERVER_DEVICES_BATCH_QUEUE_H
#define TD_SERVER_DEVICES_BATCH_QUEUE_H

#include "server/devices/item.h"

struct td_batch_queue {
    struct td_item_list waiting;
    struct td_batch_item **picked; /* [batch_limit], the result of pick */
    int batch_limit;
    uint64_t batch_bytes;
};

/* False: out of memory. */
bool td_batch_queue_init(struct td_batch_queue *queue, int batch_limit, uint64_t batch_bytes);
/* The queue is empty; also after init has failed. */
void td_batch_queue_destroy(struct td_batch_queue *queue);

/* Required before an item is added: sets key, and clears in resident what cannot be a table. */
void td_batch_queue_prepare(struct td_batch_item *item);

/* Picks the oldest item that is still wanted and those that merge with it, without removing them;
 * gives back the others it finds unwanted. Returns how many it picked; 0: the queue is empty. */
int td_batch_queue_pick(struct td_batch_queue *queue, int64_t now_ns);

/* Removes the first n picked items from the queue. */
void td_batch_queue_take(struct td_batch_queue *queue, int n);

/* Estimate of how many waiting items the next batch would have; at most the limit. */
int td_batch_queue_count_mergeable(const struct td_batch_queue *queue);

/* The earliest time after which an item is late; TD_NEVER: none. */
int64_t td_batch_queue_late_ns(const struct td_batch_queue *queue);

/* Gives back the late items. */
void td_batch_queue_drop_late(struct td_batch_queue *queue, int64_t now_ns);

/* Gives back all items that wait now. */
void td_batch_queue_refuse(struct td_batch_queue *queue, td_status status,
                           const struct td_error *err);

#endif
