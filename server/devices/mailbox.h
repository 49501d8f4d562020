/* mailbox.h - what the batcher's thread and all others share: messages, and what is known.
 *
 *     others    submit ──► items ──► the thread ──► item->done
 *               counts, available, has_table ◄── what the thread says of the device and its batches
 *
 * Ownership  Borrows items from submit to take, and the session from opened to not_available.
 * Threads    The upper half is for any thread, the lower half for the batcher's. The mutex is held
 *            for a few instructions, and nobody is called with it but the session's tables and
 *            staging, for their counts. The thread changes counts with the mutex held, and reads
 *            them without. */
#ifndef TD_SERVER_DEVICES_MAILBOX_H
#define TD_SERVER_DEVICES_MAILBOX_H

#include "server/devices/batcher.h"
#include "server/devices/session.h"

#include <pthread.h>

struct td_batch_mailbox {
    pthread_mutex_t mutex; /* guards all below */
    pthread_cond_t come;   /* to the thread: something is there */
    pthread_cond_t first;  /* to others: a device was opened, or not */
    struct td_item_list items;
    bool stopping, draining, trim_wanted;
    bool woken;                              /* once, though nothing has come */
    bool tried;                              /* to open a device */
    bool refused;                            /* what the device was told to be is nonsense */
    const struct td_device_session *session; /* NULL while the device is not available */
    struct td_batcher_counts counts;         /* but for those of items: */

    struct td_batch_item_counts item_counts; /* not guarded */
};

void td_batch_mailbox_init(struct td_batch_mailbox *mailbox);
void td_batch_mailbox_destroy(struct td_batch_mailbox *mailbox);

/* ---- from other threads ---------------------------------------------------------------------- */

void td_batch_mailbox_submit(struct td_batch_mailbox *mailbox, struct td_batch_item *item);

/* Waits until it is known whether there is a device. False when there can be none. */
bool td_batch_mailbox_wait_until_tried(struct td_batch_mailbox *mailbox);

void td_batch_mailbox_want_trim(struct td_batch_mailbox *mailbox);
void td_batch_mailbox_drain(struct td_batch_mailbox *mailbox);
void td_batch_mailbox_stop(struct td_batch_mailbox *mailbox);
bool td_batch_mailbox_has_table(struct td_batch_mailbox *mailbox, const struct td_tensor *table);
void td_batch_mailbox_counts(struct td_batch_mailbox *mailbox, struct td_batcher_counts *out);
/* why has TD_DEVICE_TEXT bytes. */
bool td_batch_mailbox_available(struct td_batch_mailbox *mailbox, char *why);

/* ---- from the batcher's ---------------------------------------------------------------------- */

/* What the thread has been told. */
struct td_batch_orders {
    bool stop;
    bool drain; /* and whenever it is to stop */
    bool trim;  /* since it was asked last */
};

/* Moves what came behind what waits. */
struct td_batch_orders td_batch_mailbox_take(struct td_batch_mailbox *mailbox,
                                             struct td_item_list *waiting);

/* Until something comes, or the thread is to end, or the time; TD_NEVER is no time. */
void td_batch_mailbox_sleep(struct td_batch_mailbox *mailbox, int64_t until_ns);

void td_batch_mailbox_opened(struct td_batch_mailbox *mailbox,
                             const struct td_device_session *session);
/* Before the session goes. refused: it never will be. */
void td_batch_mailbox_not_available(struct td_batch_mailbox *mailbox, bool refused,
                                    const char *why);
void td_batch_mailbox_saw(struct td_batch_mailbox *mailbox, const struct td_device_info *info);

/* A batch of these items is in flight, not an upload; a batch has ended after took_ns. */
void td_batch_mailbox_began(struct td_batch_mailbox *mailbox, struct td_batch_item *const *items,
                            int n);
void td_batch_mailbox_ended(struct td_batch_mailbox *mailbox, int64_t took_ns);

#endif
