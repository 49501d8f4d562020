/* batch.h - one batch in flight, with its stream and device memory, which are reused.
 *
 *     start: merge the calls ─► tables, staging, device memory ─► copy in ─► run ─► copy out
 *     wait:  reports whether the stream is idle
 *     end:   each item gets its portion of the staging memory, or its own error
 *
 * When start returns, the inputs are in staging memory, and the outputs will be written there.
 * Therefore, an item can be given back at any time before the end. launch.h defines the layout,
 * results.h the results.
 *
 * An item (item.h) is a call or an upload. An upload is a batch of one item, with a table and
 * nothing to run. If calls need a large table that is not on the device, start uploads the table in
 * a batch without items, and the calls must be started again.
 *
 * Errors      A failed start leaves nothing in flight and the items unchanged: MEMORY_EXHAUSTED (no
 *             room for them now), RESOURCE_LIMIT (never room for all of them), UNSUPPORTED_DTYPE
 *             (the device has no kernel), or the kernel's error. DEVICE_UNAVAILABLE and INTERNAL
 *             mean that the device is lost, and so does any error of wait.
 * Time limit  If a batch takes longer than td_batch_time_limit_ns, the device counts as lost.
 * Threads     The batcher's thread. */
#ifndef TD_SERVER_DEVICES_BATCH_H
#define TD_SERVER_DEVICES_BATCH_H

#include "server/devices/launch.h"
#include "server/devices/staging.h"
#include "server/devices/table_cache.h"

struct td_batch;

/* Data shared by all batches of a device. Borrows everything that it points to. */
struct td_batch_device {
    const struct td_device_api *api;
    struct td_device *device;
    struct td_staging *staging;
    struct td_table_cache *table_cache;
    struct td_copiers *copiers; /* threads that fill staging memory */
    struct td_memory *memory;   /* memory for merged arguments */
    int batch_limit;
    int64_t hang_ns;
    uint64_t copy_bytes_per_us; /* measured copy rate of the device; 0: unknown */
    uint64_t direct_bytes;      /* td_device_info.direct_bytes */
    /* bytes moved by all batches in flight, including table uploads */
    uint64_t bytes;
};

/* Returns the time limit of a batch, which is hang_ns plus twice the time to copy the bytes of all
 * batches in flight. All of them count, because a batch can wait for another batch. The limit also
 * leaves time to read a table from a disk. */
int64_t td_batch_time_limit_ns(const struct td_batch_device *shared);

/* Creates a batch. Returns NULL with err set on failure. Borrows `shared`. */
struct td_batch *td_batch_new(struct td_batch_device *shared, struct td_error *err);
/* Frees a batch that is not in flight. Accepts NULL. */
void td_batch_free(struct td_batch *batch);
/* Frees the batch of a lost device without calling the device. Closing the device frees the batch's
 * device memory. */
void td_batch_abandon(struct td_batch *batch);

/* True if this status of start or wait means that the device is lost. */
bool td_batch_is_lost(td_status status);

/* True if another batch is uploading one of the item's tables. The item must start after that
 * batch. */
bool td_batch_must_wait(const struct td_batch *batch, const struct td_batch_item *item);

/* Starts one call, or n calls that can be merged. After a failure, the items still belong to the
 * caller. If *prepares is set, they also still belong to the caller, and an upload that they need
 * was started instead. */
TD_MUST_CHECK td_status td_batch_start(struct td_batch *batch, struct td_batch_item **items, int n,
                                       bool *prepares, struct td_error *err);

bool td_batch_in_flight(const struct td_batch *batch);
/* True if the batch is in flight and only uploads a table. */
bool td_batch_is_upload(const struct td_batch *batch);
int64_t td_batch_begun_ns(const struct td_batch *batch);
/* Returns the earliest deadline of the items not yet given back, or TD_NEVER if there are none. */
int64_t td_batch_deadline_ns(const struct td_batch *batch);

/* Waits for at most timeout_ns until the batch is done. */
TD_MUST_CHECK td_status td_batch_wait(struct td_batch *batch, int64_t timeout_ns, bool *done,
                                      struct td_error *err);

/* Gives back the items whose deadline has passed. The batch continues. */
void td_batch_expire(struct td_batch *batch, int64_t now_ns);

/* Ends a batch that is done, and gives back the items with their results. The batch can be started
 * again. */
void td_batch_end(struct td_batch *batch);

/* Gives back the items with this error, after the device was lost. */
void td_batch_fail(struct td_batch *batch, const struct td_error *err);

/* Gives back the items in flight with this error because a call to the device does not return.
 * Afterwards, the batch is neither used nor freed. */
void td_batch_leave(struct td_batch *batch, const struct td_error *err);

/* Frees the device memory kept for the next batch if, since the last call, no batch needed more
 * than a quarter of it. For a batch in flight, this happens when the batch ends. */
void td_batch_settle(struct td_batch *batch);

/* Frees the device memory kept for the next batch. Returns false if there is none. */
bool td_batch_trim(struct td_batch *batch);

#endif
