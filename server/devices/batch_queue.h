/* batch_queue.h - items that wait for a device, ordered by age, and the choice of the next batch.
 *
 *     oldest ─► a ─ b ─ a ─ c ─ a ─ ...        pick: the a's; the next pick starts with b
 *
 * A batch is the oldest item and the items that merge with it (kernels/merge.h), in queue order, up
 * to `batch_limit` items and `batch_bytes` of staging memory. An item that does not merge is a
 * batch of one item. Picked items remain in the queue until their batch has started.
 *
 * Ownership  Borrows items from add to take. Gives back (item.h) late items, refused items, and
 *            items whose client has disconnected. Items that are added in the meantime remain
 *            queued.
 * Threads    One thread at a time. Any thread can call prepare. */
#ifndef TD_SERVER_DEVICES_BATCH_QUEUE_H
#define TD_SERVER_DEVICES_BATCH_QUEUE_H

#include "server/devices/item.h"

struct td_batch_queue {
    struct td_item_list waiting;
    struct td_batch_item **picked; /* [batch_limit], the result of pick */
    int batch_limit;
    uint64_t batch_bytes;
};

/* Returns false if allocation fails. */
bool td_batch_queue_init(struct td_batch_queue *queue, int batch_limit, uint64_t batch_bytes);
/* Destroys an empty queue. Allowed even after a failed init. */
void td_batch_queue_destroy(struct td_batch_queue *queue);

/* Prepares an item. Call this before adding the item. Sets its key and clears the resident bits of
 * tensors that cannot be tables. */
void td_batch_queue_prepare(struct td_batch_item *item);

/* Picks the oldest item that is still wanted and the items that merge with it, without removing
 * them. Gives back unwanted items found on the way. Returns the number of picked items, or 0 if the
 * queue is empty. */
int td_batch_queue_pick(struct td_batch_queue *queue, int64_t now_ns);

/* Removes the first n picked items from the queue. */
void td_batch_queue_take(struct td_batch_queue *queue, int n);

/* Estimates the number of waiting items in the next batch, up to the limit. */
int td_batch_queue_count_mergeable(const struct td_batch_queue *queue);

/* Returns the earliest time after which an item is late, or TD_NEVER if the queue is empty. */
int64_t td_batch_queue_late_ns(const struct td_batch_queue *queue);

/* Gives back the items that are late. */
void td_batch_queue_drop_late(struct td_batch_queue *queue, int64_t now_ns);

/* Gives back all items that are waiting now. */
void td_batch_queue_refuse(struct td_batch_queue *queue, td_status status,
                           const struct td_error *err);

#endif
