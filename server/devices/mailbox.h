/* mailbox.h - state shared between the batcher's thread and all others: messages and counts.
 *
 *     others    submit ──► items ──► the thread ──► item->done
 *               counts, available, has_table ◄── state of the device and its batches
 *
 * Ownership  Borrows items from submit to take, and the session from opened to not_available.
 * Threads    Any thread calls the upper half, the batcher's thread the lower half. The mutex is
 *            held for a few instructions; the only calls made under it read the counts of the
 *            session's tables and staging. The batcher's thread writes counts with the mutex held
 *            and reads them without. */
#ifndef TD_SERVER_DEVICES_MAILBOX_H
#define TD_SERVER_DEVICES_MAILBOX_H

#include "server/devices/batcher_types.h"
#include "server/devices/session.h"

#include <pthread.h>

struct td_batch_mailbox {
    pthread_mutex_t mutex;     /* guards all below */
    pthread_cond_t arrived;    /* wakes the batcher's thread: an item or a request arrived */
    pthread_cond_t open_tried; /* wakes the others: opening a device succeeded or failed */
    struct td_item_list items;
    bool stopping, draining, trim_wanted;
    bool woken;                              /* wake up once, without an item */
    bool tried;                              /* opening a device has been tried */
    bool refused;                            /* the options of the device are invalid */
    const struct td_device_session *session; /* NULL while the device is not available */
    struct td_batcher_counts counts;         /* except those of items: */

    struct td_batch_item_counts item_counts; /* not guarded */
};

void td_batch_mailbox_init(struct td_batch_mailbox *mailbox);
void td_batch_mailbox_destroy(struct td_batch_mailbox *mailbox);

/* ---- from other threads ---------------------------------------------------------------------- */

void td_batch_mailbox_submit(struct td_batch_mailbox *mailbox, struct td_batch_item *item);

/* Waits until opening a device has been tried. False: the options are invalid, no retry helps. */
bool td_batch_mailbox_wait_until_tried(struct td_batch_mailbox *mailbox);

void td_batch_mailbox_want_trim(struct td_batch_mailbox *mailbox);
void td_batch_mailbox_drain(struct td_batch_mailbox *mailbox);
void td_batch_mailbox_stop(struct td_batch_mailbox *mailbox);
bool td_batch_mailbox_has_table(struct td_batch_mailbox *mailbox, const struct td_tensor *table);
void td_batch_mailbox_counts(struct td_batch_mailbox *mailbox, struct td_batcher_counts *out);
/* why has TD_DEVICE_TEXT bytes. */
bool td_batch_mailbox_available(struct td_batch_mailbox *mailbox, char *why);

/* ---- from the batcher's thread --------------------------------------------------------------- */

/* Requests to the batcher's thread. */
struct td_batch_orders {
    bool stop;
    bool drain; /* also true with stop */
    bool trim;  /* requested since the last take */
};

/* Appends the submitted items to `waiting`. */
struct td_batch_orders td_batch_mailbox_take(struct td_batch_mailbox *mailbox,
                                             struct td_item_list *waiting);

/* Sleeps until an item or a request arrives, or until until_ns; TD_NEVER: no time limit. */
void td_batch_mailbox_sleep(struct td_batch_mailbox *mailbox, int64_t until_ns);

void td_batch_mailbox_opened(struct td_batch_mailbox *mailbox,
                             const struct td_device_session *session);
/* Called before the session is freed. refused: the options are invalid, no retry helps. */
void td_batch_mailbox_not_available(struct td_batch_mailbox *mailbox, bool refused,
                                    const char *why);
void td_batch_mailbox_set_info(struct td_batch_mailbox *mailbox, const struct td_device_info *info);

/* A batch of these items (not an upload) is in flight; a batch has ended after took_ns. */
void td_batch_mailbox_began(struct td_batch_mailbox *mailbox, struct td_batch_item *const *items,
                            int n);
void td_batch_mailbox_ended(struct td_batch_mailbox *mailbox, int64_t took_ns);

#endif
