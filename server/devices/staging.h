/* staging.h - pinned host memory, which a device reads and writes directly, as buffers.
 *
 *     take ──► a batch, then clients' replies ──► last unref ──► free, for the next take
 *
 * Allocating such memory is slow, so buffers are kept by size class, a quarter of a power of two
 * apart, and reused, also for a request of half their size. A free buffer is released to the device
 * only to make room for another class. Replies may hold half of the limit; beyond that they are
 * copied (td_staging_is_scarce), as a client that does not read would hold what others need.
 *
 * Bounds     At most `limit` bytes, in use or free; all of them count against the pool's budget.
 * Ownership  The memory belongs to the device that allocated it and must not outlive it: a device
 *            is closed when td_staging_all_returned.
 * Threads    take, trim, free and abandon: the batcher's. Any thread may release a buffer and call
 *            the rest.
 * Errors     take: MEMORY_EXHAUSTED if the limit, the budget or the device has no room; otherwise
 *            the device's error. */
#ifndef TD_SERVER_DEVICES_STAGING_H
#define TD_SERVER_DEVICES_STAGING_H

#include "gpu/device.h"

struct td_staging;
struct td_buffer_pool;

/* NULL: out of memory. */
struct td_staging *td_staging_new(const struct td_device_api *api, struct td_device *device,
                                  struct td_buffer_pool *pool, uint64_t limit);

/* Would two such buffers fit in empty staging memory? If not, RESOURCE_LIMIT. */
TD_MUST_CHECK td_status td_staging_check(const struct td_staging *staging, size_t a, size_t b,
                                         struct td_error *err);

/* A buffer of at least `bytes`, and at least one byte. NULL with err filled. */
struct td_buffer *td_staging_take(struct td_staging *staging, size_t bytes, struct td_error *err);

/* Of any buffer: is it in staging memory of which more than half is in use? From any thread. */
bool td_staging_is_scarce(const struct td_buffer *buffer);

/* Has every buffer been released? */
bool td_staging_all_returned(struct td_staging *staging);

/* As it was made. */
uint64_t td_staging_limit(const struct td_staging *staging);

/* Bytes in use and free. */
uint64_t td_staging_bytes(struct td_staging *staging);

/* Releases the free buffers to the device; false if there are none. */
bool td_staging_trim(struct td_staging *staging);

/* Releases the memory to the device. NULL is fine. */
void td_staging_free(struct td_staging *staging);

/* Frees the staging memory of a lost device without calling the device: closing it frees its
 * memory. Buffers in use stay valid until the device is closed. */
void td_staging_abandon(struct td_staging *staging);

#endif
