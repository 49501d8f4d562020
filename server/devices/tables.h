/* tables.h - a cache of resident tables on a device, with eviction of the least recently used
 * table.
 *
 * A table is one version of a tensor, identified by its owner (kernels/tensor.h). The cache holds a
 * reference to the owner, so no other version can get the same address. A version is stale, and is
 * dropped, when the cache holds its only reference or the store has replaced it.
 *
 * Streams    A table is uploaded on the stream of its first user: a small table by use, a large
 *            table by its caller (upload.h) after add. Streams are not ordered, so other streams
 *            wait while td_device_tables_uploading is true, until finish_uploads is called for the
 *            uploading stream.
 * Eviction   Tables in use are never evicted. Kept tables are evicted last.
 * Threads    The batcher's thread. Any thread can call has and count.
 * Errors     use: MEMORY_EXHAUSTED if evicting all unused tables does not make room; otherwise the
 *            device's error. */
#ifndef TD_SERVER_DEVICES_TABLES_H
#define TD_SERVER_DEVICES_TABLES_H

#include "gpu/device.h"

struct td_device_tables;
struct td_device_table;

/* Returns NULL if allocation fails. */
struct td_device_tables *td_device_tables_new(const struct td_device_api *api,
                                              struct td_device *device);

/* True if the table is being uploaded on another stream. */
bool td_device_tables_uploading(struct td_device_tables *tables, const struct td_tensor *tensor,
                                const struct td_device_stream *stream);

/* True if the table is neither in the cache nor being uploaded. */
bool td_device_tables_lacks(struct td_device_tables *tables, const struct td_tensor *tensor);

/* Allocates device memory for a table that is not in the cache. The caller copies the data on the
 * stream. Otherwise, the function is like td_device_tables_use. */
TD_MUST_CHECK td_status td_device_tables_add(struct td_device_tables *tables,
                                             const struct td_tensor *tensor,
                                             const struct td_device_stream *stream,
                                             struct td_device_table **out, struct td_error *err);

/* Finds the table, or submits its upload to the stream. The table is not evicted until
 * td_device_tables_unuse. Sets *submitted to true if an upload was submitted, and otherwise leaves
 * it unchanged. */
TD_MUST_CHECK td_status td_device_tables_use(struct td_device_tables *tables,
                                             const struct td_tensor *tensor,
                                             struct td_device_stream *stream,
                                             struct td_device_table **out, bool *submitted,
                                             struct td_error *err);
void *td_device_table_data(const struct td_device_table *table);
/* Marks the table to be evicted last. */
void td_device_table_keep(struct td_device_table *table);
void td_device_tables_unuse(struct td_device_tables *tables, struct td_device_table *table);

/* Marks the stream's uploads as complete, for all streams. Called when the stream is idle. */
void td_device_tables_finish_uploads(struct td_device_tables *tables,
                                     const struct td_device_stream *stream);

/* Allocates device memory for other data, and evicts tables to make room. */
TD_MUST_CHECK td_status td_device_tables_alloc(struct td_device_tables *tables, size_t bytes,
                                               void **out, struct td_error *err);

/* Drops all stale versions from the cache. */
void td_device_tables_drop_stale(struct td_device_tables *tables);

/* True if this version is completely uploaded. */
bool td_device_tables_has(struct td_device_tables *tables, const struct td_tensor *tensor);

struct td_device_tables_count {
    uint64_t tables, bytes, evicted;
};
struct td_device_tables_count td_device_tables_count(struct td_device_tables *tables);

/* Frees the memory on the device. Accepts NULL. */
void td_device_tables_free(struct td_device_tables *tables);

/* Frees the cache of a lost device without calling the device, which frees its memory when it is
 * closed. A device that was not closed might still read versions that were being uploaded, so these
 * versions are never released. */
void td_device_tables_abandon(struct td_device_tables *tables, bool closed);

#endif
