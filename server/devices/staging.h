/* staging.h - host memory that a device reads and writes by itself, handed out as buffers.
 *
 *     take ──► a batch, then clients' answers ──► last unref ──► free, for the next take
 *
 * Such memory is slow to make, so buffers are kept by size class, a quarter of a power of two apart,
 * and used again; one that is up to twice too large will do. What is free is given back to the
 * device only to make room for another class. Answers may keep half of it all; beyond that, who holds
 * one is asked to copy it, as a client who does not read would hold what others need.
 *
 * Bounds     Never more than `limit` bytes, in use or free; all of them count against the budget of
 *            the pool.
 * Ownership  The memory belongs to the device that made it and must not outlive it: a device is
 *            closed when td_staging_is_back.
 * Threads    take, trim, free and abandon: the device's. A buffer may come back, and the rest may be
 *            asked, on any thread.
 * Errors     take: MEMORY_EXHAUSTED where the limit, the budget or the device has no room;
 *            otherwise what the device says. */
#ifndef TD_SERVER_DEVICES_STAGING_H
#define TD_SERVER_DEVICES_STAGING_H

#include "gpu/device.h"

struct td_staging;
struct td_buffer_pool;

/* NULL without memory. */
struct td_staging *td_staging_new(const struct td_device_api *api, struct td_device *device,
                                  struct td_buffer_pool *pool, uint64_t limit);

/* Is there room for two such buffers once all that is out has come back? RESOURCE_LIMIT. */
TD_MUST_CHECK td_status td_staging_check(const struct td_staging *staging, size_t a, size_t b,
                                         struct td_error *err);

/* At least `bytes`, and at least one. NULL with err filled. */
struct td_buffer *td_staging_take(struct td_staging *staging, size_t bytes, struct td_error *err);

/* Of any buffer: does it lie in staging memory more than half of which is in use? From any thread. */
bool td_staging_wants_back(const struct td_buffer *buffer);

/* Has every buffer come back? */
bool td_staging_is_back(struct td_staging *staging);

/* In use and free. */
uint64_t td_staging_bytes(struct td_staging *staging);

/* Gives back to the device what nobody uses now; false when there is nothing. */
bool td_staging_trim(struct td_staging *staging);

/* Gives the memory back to the device. NULL is fine. */
void td_staging_free(struct td_staging *staging);

/* The same for a device that is lost, whose memory goes with it: nothing is asked of the device.
 * Buffers that are still out stay valid as long as the device is not closed. */
void td_staging_abandon(struct td_staging *staging);

#endif
