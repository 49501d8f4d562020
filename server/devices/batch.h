/* batch.h - one batch in flight, with its stream and memory on the device, which are reused.
 *
 *     start: merge the calls ─► tables, staging, device memory ─► copy in ─► run ─► copy out
 *     wait:  is the stream idle?
 *     end:   each item gets its portion of the staging memory, or its own error
 *
 * Inputs are in staging memory when start returns, and outputs are written there, so an item can be
 * given back at any time before the end. launch.h defines the layout, results.h the results. An
 * upload (item.h) is a batch of one item, with a table and nothing to run. If calls need a large
 * table that the device lacks, start uploads that, in a batch without items, and they are to be
 * started again.
 *
 * Errors     A failed start leaves nothing in flight and the items unchanged: MEMORY_EXHAUSTED (no
 *            room for them now), RESOURCE_LIMIT (never room for all of them), UNSUPPORTED_DTYPE
 *            (the device has no kernel), or the kernel's error. DEVICE_UNAVAILABLE and INTERNAL
 *            mean that the device is lost, as does any error of wait.
 * Time limit A batch that takes longer than td_batch_time_limit_ns means that the device is lost.
 * Threads    The batcher's. */
#ifndef TD_SERVER_DEVICES_BATCH_H
#define TD_SERVER_DEVICES_BATCH_H

#include "server/devices/launch.h"
#include "server/devices/staging.h"
#include "server/devices/tables.h"

struct td_batch;

/* Shared by all batches of a device. Borrows all that it points to. */
struct td_batch_device {
    const struct td_device_api *api;
    struct td_device *device;
    struct td_staging *staging;
    struct td_device_tables *tables;
    struct td_copiers *copiers; /* fill staging memory */
    struct td_memory *memory;   /* for merged arguments */
    int batch_limit;
    int64_t hang_ns;
    uint64_t copy_bytes_per_us; /* as the device measured it; 0: unknown */
    uint64_t direct_bytes;      /* td_device_info.direct_bytes */
    uint64_t bytes;             /* moved by all batches in flight, uploads of tables included */
};

/* Time limit of a batch: hang_ns and twice the time to copy the bytes of all batches in flight,
 * since one may wait for another. The copy of a table may also have to read it from a disk. */
int64_t td_batch_time_limit_ns(const struct td_batch_device *shared);

/* NULL with err filled. Borrows `shared`. */
struct td_batch *td_batch_new(struct td_batch_device *shared, struct td_error *err);
/* Called with nothing in flight. NULL is fine. */
void td_batch_free(struct td_batch *batch);
/* Frees the batch of a lost device without calling the device: closing it frees its memory. */
void td_batch_abandon(struct td_batch *batch);

/* Does this status of start or wait mean that the device is lost? */
bool td_batch_is_lost(td_status status);

/* Is one of the item's tables being uploaded by another batch? Then it starts after that one. */
bool td_batch_must_wait(const struct td_batch *batch, const struct td_batch_item *item);

/* Starts n calls that merge, or one. On failure they stay the caller's, and if *prepares: an upload
 * has begun that they need first. */
TD_MUST_CHECK td_status td_batch_start(struct td_batch *batch, struct td_batch_item **items, int n,
                                       bool *prepares, struct td_error *err);

bool td_batch_in_flight(const struct td_batch *batch);
/* Of a batch in flight: does it only upload a table? */
bool td_batch_is_upload(const struct td_batch *batch);
int64_t td_batch_begun_ns(const struct td_batch *batch);
/* The earliest deadline of the items not yet given back; TD_NEVER: none. */
int64_t td_batch_deadline_ns(const struct td_batch *batch);

/* Waits for at most timeout_ns until it is done. */
TD_MUST_CHECK td_status td_batch_wait(struct td_batch *batch, int64_t timeout_ns, bool *done,
                                      struct td_error *err);

/* Gives back the items whose deadline has passed; the batch continues. */
void td_batch_expire(struct td_batch *batch, int64_t now_ns);

/* Of a batch that is done: gives back the items with their results. It can be started again. */
void td_batch_end(struct td_batch *batch);

/* Of a lost device: gives back the items with this error. */
void td_batch_fail(struct td_batch *batch, const struct td_error *err);

/* Of a device that does not return from a call: gives back the items in flight with this error. The
 * batch is not used any more, nor freed. NULL is fine. */
void td_batch_leave(struct td_batch *batch, const struct td_error *err);

/* Frees memory on the device that is kept for the next batch if those since the last call needed
 * less than a quarter of it; of a batch in flight when it has ended. */
void td_batch_settle(struct td_batch *batch);

/* Frees memory on the device that is kept for the next batch; false if there is none. */
bool td_batch_trim(struct td_batch *batch);

#endif
