/* batcher.h - calls in front of a device: merged while it is busy, launched when it is free.
 *
 *     td_batcher_submit ──► queue ──► batches: at most two in flight, on a stream each
 *                                        │ stage inputs ─ copy in ─ run ─ copy out
 *                                        ▼
 *                          item->done, once for each item, whatever happens
 *
 * The oldest item that waits decides what comes next: those that merge with it (kernels/merge.h) go
 * along, in the order of their arrival, up to `batch_limit` of them and to what the staging memory
 * and the device hold; what does not merge goes alone. So tables take turns by age, and none
 * starves. An idle device starts at once, or `batch_wait_us` after the oldest came, if that is set.
 * The second batch is begun shortly before the first is thought to end, or when it is full.
 *
 * Tables     An input that is resident is uploaded once and stays on the device until its place is
 *            needed (the least recently used go first) or its version is gone. The cache holds a
 *            reference to the version; one that nobody else holds is dropped. An item can also bring
 *            a table and no more (TD_BATCH_UPLOAD).
 * Failures   Of one item (a bad index) concern that item. Of the device, all items of the batches in
 *            flight and in the queue are given back as DEVICE_UNAVAILABLE, for the CPU or for the
 *            client; it is then closed, once no answer lies in its staging memory any more, and
 *            opened again every `retry_ms` until it works. A batch that has not ended after
 *            `hang_ms` is a lost device.
 * Deadlines  An item whose deadline passes in the queue, or whose client has left, is not launched.
 *            One in flight whose deadline passes is given back at once; what the device still
 *            writes goes to staging memory that nobody uses until then.
 * Ownership  An item belongs to the batcher from submit to done. Outputs lie in staging memory: each
 *            output's `owner` holds a reference that the item's arena has taken over. Small shares of
 *            a merged batch are copied into the arena, so that a client who does not read his
 *            answer holds little of what others need.
 * Threads    One of its own, which alone touches the device. submit, trim, counts and available from
 *            any thread. `done` is called on the batcher's thread and must not wait for anything. */
#ifndef TD_SERVER_DEVICES_BATCHER_H
#define TD_SERVER_DEVICES_BATCHER_H

#include "gpu/device.h"
#include "server/devices/item.h"
#include "server/observe/log.h"

struct td_batcher;
struct td_buffer_pool;

struct td_batcher_options {
    const struct td_device_api *api;
    struct td_device_options device;
    struct td_buffer_pool *buffers; /* whose budget staging memory counts against */
    const struct td_log *log;
    int batch_limit; /* items in a launch, 1 or more */
    int64_t batch_wait_us;
    uint64_t staging_bytes; /* pinned memory for inputs and outputs of all batches */
    int64_t hang_ms, retry_ms;
    int64_t idle_ms;    /* without batches, until memory for them goes back; 0: five seconds */
    bool in_background; /* td_batcher_new does not wait for the first try to open the device */
};

/* NULL (logged) without memory or threads, or when the device does not know an option of its text. One
 * that cannot be opened now is tried again later. Waits for the first try, unless that is to happen
 * in_background. */
struct td_batcher *td_batcher_new(const struct td_batcher_options *options);

/* Memory is short: soon, though not at once, what no batch uses is given back. */
void td_batcher_trim(struct td_batcher *batcher);

/* Gives back what waits, and what comes from now on, as DRAINING. What is in flight goes on for a
 * second at most, whatever hang_ms says; then the device counts as lost. */
void td_batcher_drain(struct td_batcher *batcher);

/* Drains, and closes the device. Answers that still lie in staging memory, and a device that hangs,
 * have another second; then the device is left open, and the answers stay good. NULL is fine. */
void td_batcher_free(struct td_batcher *batcher);

/* Can it be asked now, as far as is known? *why, "" or a sentence, has TD_DEVICE_TEXT bytes. */
bool td_batcher_available(struct td_batcher *batcher, char *why);

/* Has the device a kernel for it, whether it is there or not? UNSUPPORTED_DTYPE names the input at
 * fault and the device; a retry does not help. err may be NULL. */
TD_MUST_CHECK td_status td_batcher_check_kernel(struct td_batcher *batcher, const struct td_op *op,
                                                const struct td_op_args *args,
                                                struct td_error *err);

/* Whatever becomes of it, done is called, later and on the batcher's thread. */
void td_batcher_submit(struct td_batcher *batcher, struct td_batch_item *item);

/* Is this version of a table there already? */
bool td_batcher_has_table(struct td_batcher *batcher, const struct td_tensor *table);

struct td_batcher_counts {
    struct td_device_info device; /* as last seen */
    bool available;
    char why[TD_DEVICE_TEXT];
    uint64_t waiting, in_flight;  /* items, now */
    uint64_t batches, items;      /* launched since the start, uploads not counted */
    uint64_t failed_items, opens; /* given back as DEVICE_UNAVAILABLE; times it was opened */
    uint64_t tables, table_bytes, evicted; /* on the device */
    uint64_t staging_bytes;
    /* Moving averages, for the choice between the device and the CPU. */
    uint64_t wait_ns, batch_ns;
};
void td_batcher_counts(struct td_batcher *batcher, struct td_batcher_counts *out);

#endif
