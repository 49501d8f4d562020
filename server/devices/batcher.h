/* batcher.h - batches calls for a device: merges calls while the device is busy, and launches
 * them when it is free.
 *
 *     td_batcher_submit ──► queue ──► batches: at most two in flight, on a stream each
 *                                        │ stage inputs ─ copy in ─ run ─ copy out
 *                                        ▼
 *                          item->done, exactly once for each item
 *
 * A batch is the oldest waiting item and the items that merge with it (kernels/merge.h), in order
 * of arrival. It has at most `batch_limit` items and must fit in staging and device memory. An item
 * that does not merge is a batch of one item. Tables therefore take turns by age, and no table
 * starves. An idle device starts a batch at once or, if `batch_wait_us` is set, at this time after
 * the arrival of the oldest item. The second batch starts shortly before the expected end of the
 * first, or when it is full.
 *
 * Tables     A resident input is uploaded once and remains on the device until it is evicted (least
 *            recently used first) or its version is stale (table_cache.h). An item can also just
 *            upload a table (TD_BATCH_UPLOAD).
 * Failures   An error of one item (a bad index) affects only that item. An error of the device
 *            gives back all items in flight and in the queue with DEVICE_UNAVAILABLE. The CPU then
 *            computes them, or their clients get the error. The device is closed when no reply is
 *            in its staging memory, and opened again, with an attempt every `retry_ms`. The device
 *            counts as failed if a batch has not ended after `hang_ms`, or if a call to the device
 *            has not returned after `hang_ms` or one second, whichever is longer. After such a
 *            call, the device is left open, with its memory, and another device is opened.
 * Deadlines  An item whose deadline passes in the queue, or whose client has disconnected, is not
 *            launched. An item whose deadline passes in flight is given back at once. The device
 *            still writes the outputs to staging memory, which is not reused before the batch ends.
 * Ownership  An item belongs to the batcher from submit to done. Outputs are in staging memory: the
 *            item's arena owns the reference in each output's `owner`. Small portions of a merged
 *            batch are copied into the arena, so a client that does not read its reply holds little
 *            memory that other clients need.
 * Threads    The batcher has its own thread, which alone calls the device, and a thread that takes
 *            over when a call does not return (supervisor.h). Any thread can call submit, trim,
 *            counts and available. `done` is called on one of these two threads and must
 *            not block. */
#ifndef TD_SERVER_DEVICES_BATCHER_H
#define TD_SERVER_DEVICES_BATCHER_H

#include "server/devices/batcher_types.h"
#include "server/devices/item.h"

struct td_batcher;

/* Starts a batcher. Returns NULL (logged) if allocation fails, if no thread can be started, or if
 * the device refuses one of its options. If the device cannot be opened now, tries again later.
 * Waits for the first attempt unless in_background is set. */
struct td_batcher *td_batcher_new(const struct td_batcher_options *options);

/* Frees memory that no batch uses, asynchronously. Called when memory is short. */
void td_batcher_trim(struct td_batcher *batcher);

/* Gives back waiting items, and items submitted later, as DRAINING. Batches in flight have one
 * second, regardless of hang_ms. After that, the device counts as lost. */
void td_batcher_drain(struct td_batcher *batcher);

/* Drains the batcher and closes the device. Waits up to another second for replies in staging
 * memory and for a device that does not respond. After that, the device is left open and the
 * replies remain valid. Returns false if any device was left open, in which case a thread might
 * still be inside its driver. Accepts NULL. */
bool td_batcher_free(struct td_batcher *batcher);

/* True if the device was available when it was last used. `why` points to TD_DEVICE_TEXT bytes and
 * receives the reason, or "" if the device was available. */
bool td_batcher_available(struct td_batcher *batcher, char *why);

/* Checks that the device has a kernel for the op, even if the device is not available now. If it
 * has none, returns UNSUPPORTED_DTYPE, which names the input at fault and the device. A retry does
 * not help. */
TD_MUST_CHECK td_status td_batcher_check_kernel(struct td_batcher *batcher, const struct td_op *op,
                                                const struct td_op_args *args,
                                                struct td_error *err);

/* Submits an item. Its `done` is always called later, on the batcher's thread. */
void td_batcher_submit(struct td_batcher *batcher, struct td_batch_item *item);

/* True if this version of a table is on the device. */
bool td_batcher_has_table(struct td_batcher *batcher, const struct td_tensor *table);

void td_batcher_counts(struct td_batcher *batcher, struct td_batcher_counts *out);

#endif
