/* tables.h - resident tables on a device: uploaded once, the least recently used go first.
 *
 * A table is one version of a tensor, named by its owner (kernels/tensor.h). The cache holds a
 * reference to it, so that no other version can come to lie at the same address; a version that
 * nobody else holds, or that the store has replaced, is not served any more and is dropped.
 *
 * Streams    A table is uploaded on the stream of who wants it first. Streams are not ordered among
 *            each other: until that one has been settled, others ask td_device_tables_elsewhere and
 *            wait.
 * Eviction   Never of a table in use. Those that were asked to be kept go last.
 * Threads    The device's; has and count from any thread.
 * Errors     use: MEMORY_EXHAUSTED when there is no room even with every table gone that can go;
 *            otherwise what the device says. */
#ifndef TD_SERVER_DEVICES_TABLES_H
#define TD_SERVER_DEVICES_TABLES_H

#include "gpu/device.h"

struct td_device_tables;
struct td_device_table;

/* NULL without memory. */
struct td_device_tables *td_device_tables_new(const struct td_device_api *api,
                                              struct td_device *device);

/* Is it being uploaded on another stream? */
bool td_device_tables_elsewhere(struct td_device_tables *tables, const struct td_tensor *tensor,
                                const struct td_device_stream *stream);

/* Finds the table or submits its upload to the stream; either way it stays until unuse. *submitted
 * is set to true where something was submitted, else left alone. */
TD_MUST_CHECK td_status td_device_tables_use(struct td_device_tables *tables,
                                             const struct td_tensor *tensor,
                                             struct td_device_stream *stream,
                                             struct td_device_table **out, bool *submitted,
                                             struct td_error *err);
void *td_device_table_data(const struct td_device_table *table);
void td_device_table_keep(struct td_device_table *table); /* evict it last */
void td_device_tables_unuse(struct td_device_tables *tables, struct td_device_table *table);

/* All that was submitted to the stream is done: what it uploaded is there for every stream. */
void td_device_tables_settle(struct td_device_tables *tables,
                             const struct td_device_stream *stream);

/* Memory on the device for something else, tables making room for it. */
TD_MUST_CHECK td_status td_device_tables_alloc(struct td_device_tables *tables, size_t bytes,
                                               void **out, struct td_error *err);

/* Drops the versions that are not served any more. */
void td_device_tables_drop_gone(struct td_device_tables *tables);

/* Is this version there, whole? */
bool td_device_tables_has(struct td_device_tables *tables, const struct td_tensor *tensor);

struct td_device_tables_count {
    uint64_t tables, bytes, evicted;
};
struct td_device_tables_count td_device_tables_count(struct td_device_tables *tables);

/* Frees the memory on the device. NULL is fine. */
void td_device_tables_free(struct td_device_tables *tables);

/* The same for a lost device, whose memory goes with it. Where it could not be closed it may still
 * be reading what was being uploaded: these versions are kept for good. */
void td_device_tables_abandon(struct td_device_tables *tables, bool closed);

#endif
