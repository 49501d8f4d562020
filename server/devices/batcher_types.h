/* batcher_types.h - options and counts of the batcher, also used by the session and the mailbox.
 *
 * Ownership  The options borrow everything they point to, for the life of the batcher. */
#ifndef TD_SERVER_DEVICES_BATCHER_TYPES_H
#define TD_SERVER_DEVICES_BATCHER_TYPES_H

#include "gpu/device.h"
#include "server/observe/log.h"

struct td_buffer_pool;
struct td_copiers;

struct td_batcher_options {
    const struct td_device_api *api;
    struct td_device_options device;
    struct td_buffer_pool *buffers; /* budget to which staging memory is charged */
    struct td_copiers *copiers;     /* threads that fill staging memory */
    const struct td_log *log;
    int batch_limit; /* maximum number of items in a launch, at least 1 */
    int64_t batch_wait_us;
    uint64_t staging_bytes; /* pinned memory for the inputs and outputs of all batches */
    int64_t hang_ms, retry_ms;
    int64_t idle_ms; /* idle time after which batch memory is freed; 0: 5 s */
    /* td_batcher_new does not wait for the first attempt to open the device. */
    bool in_background;
};

struct td_batcher_counts {
    struct td_device_info device; /* the device as last reported */
    bool available;
    char why[TD_DEVICE_TEXT];
    uint64_t waiting, in_flight; /* current number of items */
    /* Batches and items launched since the server started, without uploads. */
    uint64_t batches, items;
    uint64_t failed_items; /* items given back as DEVICE_UNAVAILABLE */
    uint64_t opens;        /* number of times the device was opened */
    /* Number and size of the tables on the device, and number of evictions so far. */
    uint64_t tables, table_bytes, evicted;
    uint64_t staging_bytes;
    /* Moving averages that help choose between the device and the CPU. */
    uint64_t wait_ns, batch_ns;
};

#endif
