/* staging.h - buffers of pinned host memory, which a device reads and writes directly.
 *
 *     take ──► a batch, then clients' replies ──► last unref ──► free, for the next take
 *
 * Allocating pinned memory is slow, so buffers are kept by size class and reused, even for requests
 * of half their size. There are four size classes per power of two. A free buffer is released to
 * the device only to make room for another class. Replies can hold half of the limit. Beyond that,
 * replies are copied (td_staging_is_scarce), because a client that does not read its reply would
 * hold memory that others need.
 *
 * Bounds     At most `limit` bytes, in use or free. All of them count against the pool's budget.
 * Ownership  The memory belongs to the device that allocated it and must not outlive the device, so
 *            a device is closed only if td_staging_all_returned.
 * Threads    The batcher's thread calls take, trim, free and abandon. Any thread can release a
 *            buffer and call the other functions.
 * Errors     take: MEMORY_EXHAUSTED if the limit, the budget or the device has no room; otherwise
 *            the device's error. */
#ifndef TD_SERVER_DEVICES_STAGING_H
#define TD_SERVER_DEVICES_STAGING_H

#include "gpu/device.h"

struct td_staging;
struct td_buffer_pool;

/* Returns NULL if allocation fails. */
struct td_staging *td_staging_new(const struct td_device_api *api, struct td_device *device,
                                  struct td_buffer_pool *pool, uint64_t limit);

/* Returns RESOURCE_LIMIT if two buffers of `a` and `b` bytes cannot fit into staging memory
 * together, even if it is empty. */
TD_MUST_CHECK td_status td_staging_check(const struct td_staging *staging, size_t a, size_t b,
                                         struct td_error *err);

/* Returns a buffer of at least `bytes` bytes and at least one byte, or NULL with err set. */
struct td_buffer *td_staging_take(struct td_staging *staging, size_t bytes, struct td_error *err);

/* True if the buffer is staging memory and more than half of the staging limit is in use. Accepts
 * any buffer. Any thread can call it. */
bool td_staging_is_scarce(const struct td_buffer *buffer);

/* True if every buffer has been released. */
bool td_staging_all_returned(struct td_staging *staging);

/* Returns the limit given to td_staging_new. */
uint64_t td_staging_limit(const struct td_staging *staging);

/* Returns the size in bytes of all buffers, in use and free. */
uint64_t td_staging_bytes(struct td_staging *staging);

/* Releases the free buffers to the device. Returns false if there are none. */
bool td_staging_trim(struct td_staging *staging);

/* Releases the memory to the device. Accepts NULL. */
void td_staging_free(struct td_staging *staging);

/* Frees the staging memory of a lost device without calling the device, which frees its memory when
 * it is closed. Buffers in use remain valid until then. */
void td_staging_abandon(struct td_staging *staging);

#endif
