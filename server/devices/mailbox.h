/* mailbox.h - state shared between the batcher's thread and all other threads: messages and counts.
 *
 *     others    submit ──► items ──► the thread ──► item->done
 *               counts, available, has_table ◄── state of the device and its batches
 *
 * Ownership  Borrows items from submit to take, and the session from opened to not_available.
 * Threads    Any thread can call the functions in the upper half. Only the batcher's thread calls
 *            the functions in the lower half. The mutex is held for a few instructions. While
 *            holding it, a thread calls other modules only to read the counts of the session's
 *            tables and staging memory. The batcher's thread writes counts with the mutex held and
 *            reads them without it. */
#ifndef TD_SERVER_DEVICES_MAILBOX_H
#define TD_SERVER_DEVICES_MAILBOX_H

#include "server/devices/batcher_types.h"
#include "server/devices/session.h"

#include <pthread.h>

struct td_batch_mailbox {
    pthread_mutex_t mutex;     /* guards the members up to item_counts */
    pthread_cond_t arrived;    /* wakes the batcher's thread when an item or a request arrives */
    pthread_cond_t open_tried; /* wakes other threads when opening a device succeeds or fails */
    struct td_item_list items;
    bool stopping, draining, trim_wanted;
    /* True if the batcher's thread must wake up once even though no item has arrived. */
    bool woken;
    bool tried;                              /* an attempt to open a device has ended */
    bool refused;                            /* the device's options are invalid */
    const struct td_device_session *session; /* NULL while the device is not available */
    struct td_batcher_counts counts;         /* all counts except item counts */

    struct td_batch_item_counts item_counts; /* not guarded */
};

void td_batch_mailbox_init(struct td_batch_mailbox *mailbox);
void td_batch_mailbox_destroy(struct td_batch_mailbox *mailbox);

/* ---- from other threads ---------------------------------------------------------------------- */

void td_batch_mailbox_submit(struct td_batch_mailbox *mailbox, struct td_batch_item *item);

/* Waits until the first attempt to open a device has ended. Returns false if the options are
 * invalid, in which case a retry does not help. */
bool td_batch_mailbox_wait_until_tried(struct td_batch_mailbox *mailbox);

void td_batch_mailbox_want_trim(struct td_batch_mailbox *mailbox);
void td_batch_mailbox_drain(struct td_batch_mailbox *mailbox);
void td_batch_mailbox_stop(struct td_batch_mailbox *mailbox);
bool td_batch_mailbox_has_table(struct td_batch_mailbox *mailbox, const struct td_tensor *table);
void td_batch_mailbox_counts(struct td_batch_mailbox *mailbox, struct td_batcher_counts *out);
/* Returns true if the device is available. `why` has TD_DEVICE_TEXT bytes. */
bool td_batch_mailbox_available(struct td_batch_mailbox *mailbox, char *why);

/* ---- from the batcher's thread --------------------------------------------------------------- */

/* Requests from other threads to the batcher's thread. */
struct td_batch_orders {
    bool stop;
    bool drain; /* also set with stop */
    bool trim;  /* set if a trim was requested since the last take */
};

/* Appends the submitted items to `waiting` and returns the requests. */
struct td_batch_orders td_batch_mailbox_take(struct td_batch_mailbox *mailbox,
                                             struct td_item_list *waiting);

/* Sleeps until an item or a request arrives, or until time until_ns. TD_NEVER means no time
 * limit. */
void td_batch_mailbox_sleep(struct td_batch_mailbox *mailbox, int64_t until_ns);

void td_batch_mailbox_opened(struct td_batch_mailbox *mailbox,
                             const struct td_device_session *session);
/* Publishes that the device is not available, before the session is freed. If `refused` is set, the
 * options are invalid, so a retry does not help. */
void td_batch_mailbox_not_available(struct td_batch_mailbox *mailbox, bool refused,
                                    const char *why);
void td_batch_mailbox_set_info(struct td_batch_mailbox *mailbox, const struct td_device_info *info);

/* td_batch_mailbox_began records that a batch of these items (not an upload) is in flight.
 * td_batch_mailbox_ended records that a batch has ended after took_ns. */
void td_batch_mailbox_began(struct td_batch_mailbox *mailbox, struct td_batch_item *const *items,
                            int n);
void td_batch_mailbox_ended(struct td_batch_mailbox *mailbox, int64_t took_ns);

#endif
