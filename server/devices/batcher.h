/* batcher.h - batches calls for a device: merged while it is busy, launched when it is free.
 *
 *     td_batcher_submit ──► queue ──► batches: at most two in flight, on a stream each
 *                                        │ stage inputs ─ copy in ─ run ─ copy out
 *                                        ▼
 *                          item->done, exactly once for each item
 *
 * A batch is the oldest waiting item and those that merge with it (kernels/merge.h), in order of
 * arrival, up to `batch_limit` items and the room in staging and device memory; an item that does
 * not merge is a batch of one. So tables take turns by age and none starves. An idle device starts
 * at once or, if that is set, `batch_wait_us` after the oldest item arrived. The second batch
 * starts shortly before the expected end of the first, or when it is full.
 *
 * Tables     A resident input is uploaded once and stays on the device until it is evicted (least
 *            recently used first) or its version is stale (tables.h). An item can also just upload
 *            a table (TD_BATCH_UPLOAD).
 * Failures   An error of one item (a bad index) affects that item only. An error of the device
 *            gives back all items in flight and in the queue as DEVICE_UNAVAILABLE, for the CPU or
 *            for the client. The device is closed once no reply is in its staging memory, and
 *            opened again, with a try every `retry_ms`. A batch that has not ended after `hang_ms`
 *            is an error of the device, and so is a call to it that has not returned by then, or a
 *            second: this device is left open, with its memory, and another one is opened.
 * Deadlines  An item whose deadline passes in the queue, or whose client has disconnected, is not
 *            launched. One whose deadline passes in flight is given back at once; the device still
 *            writes its outputs to staging memory, which is not reused before the batch ends.
 * Ownership  An item belongs to the batcher from submit to done. Outputs are in staging memory: the
 *            item's arena owns the reference in each output's `owner`. Small portions of a merged
 *            batch are copied into the arena, so that a client that does not read its reply holds
 *            little memory that others need.
 * Threads    One of its own, the only one to call the device, and one that takes over when a call
 *            does not return (supervisor.h). Any thread calls submit, trim, counts and available.
 *            `done` is called on one of these two and must not block. */
#ifndef TD_SERVER_DEVICES_BATCHER_H
#define TD_SERVER_DEVICES_BATCHER_H

#include "server/devices/batcher_types.h"
#include "server/devices/item.h"

struct td_batcher;

/* NULL (logged) without memory or threads, or if the device refuses an option in its text. A device
 * that cannot be opened now is tried again later. Waits for the first try unless in_background. */
struct td_batcher *td_batcher_new(const struct td_batcher_options *options);

/* Memory is short: frees, asynchronously, memory that no batch uses. */
void td_batcher_trim(struct td_batcher *batcher);

/* Gives back waiting items, and those submitted from now on, as DRAINING. Batches in flight have
 * one second, whatever hang_ms is; then the device counts as lost. */
void td_batcher_drain(struct td_batcher *batcher);

/* Drains, and closes the device. Replies still in staging memory, and a device that does not
 * respond, have another second; then the device is left open and the replies stay valid. False if a
 * device is left so, now or before: a thread may be inside its driver. NULL is fine. */
bool td_batcher_free(struct td_batcher *batcher);

/* Was the device available when last used? *why, "" or the reason, has TD_DEVICE_TEXT bytes. */
bool td_batcher_available(struct td_batcher *batcher, char *why);

/* Does the device, available or not, have a kernel for it? UNSUPPORTED_DTYPE names the input at
 * fault and the device; a retry does not help. */
TD_MUST_CHECK td_status td_batcher_check_kernel(struct td_batcher *batcher, const struct td_op *op,
                                                const struct td_op_args *args,
                                                struct td_error *err);

/* done is called in any case, later and on the batcher's thread. */
void td_batcher_submit(struct td_batcher *batcher, struct td_batch_item *item);

/* Is this version of a table on the device? */
bool td_batcher_has_table(struct td_batcher *batcher, const struct td_tensor *table);

void td_batcher_counts(struct td_batcher *batcher, struct td_batcher_counts *out);

#endif
