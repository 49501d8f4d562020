/* table_cache.h - a cache of resident tables on a device, with eviction of the least recently used
 * table.
 *
 * A table is one version of a tensor, identified by its owner (kernels/tensor.h). The cache holds a
 * reference to the owner, so no other version can get the same address. A version is stale, and is
 * dropped, when the cache holds its only reference or the store has replaced it.
 *
 * Streams    A table is uploaded on the stream of its first user: a small table by
 *            td_table_cache_use, a large table by the caller of td_table_cache_add (upload.h).
 *            Streams are not ordered, so other streams wait while td_table_cache_uploading is true,
 *            until td_table_cache_finish_uploads is called for the uploading stream.
 * Eviction   Tables in use are never evicted. Kept tables are evicted last.
 * Threads    The batcher's thread. Any thread can call td_table_cache_has and td_table_cache_count.
 * Errors     td_table_cache_use: MEMORY_EXHAUSTED if evicting all unused tables does not make room;
 *            otherwise the device's error. */
#ifndef TD_SERVER_DEVICES_TABLE_CACHE_H
#define TD_SERVER_DEVICES_TABLE_CACHE_H

#include "gpu/device.h"

struct td_table_cache;
struct td_device_table;

/* Returns NULL if allocation fails. */
struct td_table_cache *td_table_cache_new(const struct td_device_api *api,
                                          struct td_device *device);

/* True if the table is being uploaded on another stream. */
bool td_table_cache_uploading(struct td_table_cache *cache, const struct td_tensor *tensor,
                              const struct td_device_stream *stream);

/* True if the table is neither in the cache nor being uploaded. */
bool td_table_cache_lacks(struct td_table_cache *cache, const struct td_tensor *tensor);

/* Allocates device memory for a table that is not in the cache. The caller copies the data on the
 * stream. Otherwise, the function is like td_table_cache_use. */
TD_MUST_CHECK td_status td_table_cache_add(struct td_table_cache *cache,
                                           const struct td_tensor *tensor,
                                           const struct td_device_stream *stream,
                                           struct td_device_table **out, struct td_error *err);

/* Finds the table, or submits its upload to the stream. The table is not evicted until
 * td_table_cache_unuse. Sets *submitted to true if an upload was submitted, and otherwise leaves
 * it unchanged. */
TD_MUST_CHECK td_status td_table_cache_use(struct td_table_cache *cache,
                                           const struct td_tensor *tensor,
                                           struct td_device_stream *stream,
                                           struct td_device_table **out, bool *submitted,
                                           struct td_error *err);
void *td_device_table_data(const struct td_device_table *table);
/* Marks the table to be evicted last. */
void td_device_table_keep(struct td_device_table *table);
void td_table_cache_unuse(struct td_table_cache *cache, struct td_device_table *table);

/* Marks the stream's uploads as complete, for all streams. Called when the stream is idle. */
void td_table_cache_finish_uploads(struct td_table_cache *cache,
                                   const struct td_device_stream *stream);

/* Allocates device memory for other data, and evicts tables to make room. */
TD_MUST_CHECK td_status td_table_cache_alloc(struct td_table_cache *cache, size_t bytes, void **out,
                                             struct td_error *err);

/* Drops all stale versions from the cache. */
void td_table_cache_drop_stale(struct td_table_cache *cache);

/* True if this version is completely uploaded. */
bool td_table_cache_has(struct td_table_cache *cache, const struct td_tensor *tensor);

struct td_table_cache_count {
    uint64_t tables, bytes, evicted;
};
struct td_table_cache_count td_table_cache_count(struct td_table_cache *cache);

/* Frees the memory on the device. Accepts NULL. */
void td_table_cache_free(struct td_table_cache *cache);

/* Frees the cache of a lost device without calling the device, which frees its memory when it is
 * closed. A device that was not closed might still read versions that were being uploaded, so these
 * versions are never released. */
void td_table_cache_abandon(struct td_table_cache *cache, bool closed);

#endif
