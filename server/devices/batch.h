/* batch.h - one batch in flight: a place on the device, used again and again.
 *
 *     start: merge the calls ─► tables, staging, device memory ─► copy in ─► run ─► copy out
 *     wait:  is the stream idle?
 *     end:   each item gets its part of the staging memory, or its own refusal
 *
 * What the items bring is in staging memory when start returns, and what they get lies there: an
 * item can be given back at any time before the end. Where everything lies is told by launch.h, what
 * the items get by results.h. An upload (item.h) is a batch of one item, with a table and nothing to
 * run.
 *
 * Failures   start fails with nothing in flight and all items as they were: MEMORY_EXHAUSTED (there
 *            is no room for them now), RESOURCE_LIMIT (there never is, for all of them together),
 *            UNSUPPORTED_DTYPE (the device has no kernel), or what the kernel refuses.
 *            DEVICE_UNAVAILABLE and INTERNAL: the device is lost, and so says whatever wait fails
 *            with.
 * Hanging    What takes longer than td_batch_time_limit_ns counts as lost.
 * Threads    The device's. */
#ifndef TD_SERVER_DEVICES_BATCH_H
#define TD_SERVER_DEVICES_BATCH_H

#include "server/devices/launch.h"
#include "server/devices/staging.h"
#include "server/devices/tables.h"

struct td_batch;

/* What all batches of a device share. Borrowed, but for what the fields name. */
struct td_batch_device {
    const struct td_device_api *api;
    struct td_device *device;
    struct td_staging *staging;
    struct td_device_tables *tables;
    struct td_memory *memory; /* for what merging takes */
    int batch_limit;
    int64_t hang_ns;
    uint64_t copy_bytes_per_us; /* as the device measured it; 0: unknown */
    uint64_t bytes; /* that all batches in flight move, tables included where they bring them */
};

/* How long what is in flight may take: hang_ns and twice the time for the bytes that are on their way,
 * of all batches, since one may wait for another's. A table may have to be read from a disk first, by
 * the device as it copies. */
int64_t td_batch_time_limit_ns(const struct td_batch_device *on);

/* NULL with err filled. Borrows `on`. */
struct td_batch *td_batch_new(struct td_batch_device *on, struct td_error *err);
/* Nothing is in flight. NULL is fine. */
void td_batch_free(struct td_batch *batch);
/* The same for a lost device: what it made goes with it. */
void td_batch_abandon(struct td_batch *batch);

/* Does what start or wait has said mean that the device is lost? */
bool td_batch_is_lost(td_status status);

/* Is one of its tables being uploaded for another batch? Then it starts when that one has ended. */
bool td_batch_must_wait(const struct td_batch *batch, const struct td_batch_item *item);

/* n calls that merge, or one. They stay the caller's where this fails. */
TD_MUST_CHECK td_status td_batch_start(struct td_batch *batch, struct td_batch_item **items, int n,
                                       struct td_error *err);

bool td_batch_in_flight(const struct td_batch *batch);
/* Of one in flight: does it bring a table and no more? */
bool td_batch_is_upload(const struct td_batch *batch);
int64_t td_batch_begun_ns(const struct td_batch *batch);
/* The earliest of the items that have not been given back; TD_NEVER. */
int64_t td_batch_deadline_ns(const struct td_batch *batch);

/* Looks, for at most timeout_ns, whether it is done. */
TD_MUST_CHECK td_status td_batch_wait(struct td_batch *batch, int64_t timeout_ns, bool *done,
                                      struct td_error *err);

/* Gives back the items whose deadline has passed; the rest goes on. */
void td_batch_expire(struct td_batch *batch, int64_t now_ns);

/* It is done: gives back the items with what came out. The batch can be started again. */
void td_batch_end(struct td_batch *batch);

/* The device is lost: gives back the items. */
void td_batch_fail(struct td_batch *batch, const struct td_error *err);

/* Gives back memory on the device that is held for the next batch; false when there is none. */
bool td_batch_trim(struct td_batch *batch);

#endif
