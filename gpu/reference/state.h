/* state.h - the structs of the reference device, its counters and its fault state. */
#ifndef TD_GPU_REFERENCE_STATE_H
#define TD_GPU_REFERENCE_STATE_H

#include "gpu/device.h"
#include "gpu/reference/options.h"

#define TD_REFERENCE_ALIGN        256       /* alignment of device memory in bytes */
#define TD_REFERENCE_OUTPUT_ALIGN 64        /* minimum alignment of the outputs of a launch */
#define TD_REFERENCE_NEVER        INT64_MAX /* a time that never comes */

struct td_device {
    struct td_reference_options options; /* options; without faults if `recover` removes them */
    uint64_t limit, used;                /* bytes of device memory */
    struct td_reference_block *blocks, *host_blocks;
    struct td_device_stream *streams;
    int64_t idle_ns;                         /* time at which all submitted work is complete */
    int64_t allocs, launches, copies, frees; /* `copies` counts copies to the device */
    bool lost;
    /* Message about an invalid free, or "". All later calls return this error, because free cannot
     * return an error. */
    char misuse[256];
};

struct td_device_stream {
    struct td_device_stream *next;
    struct td_device *device;
    int64_t idle_ns; /* time at which this stream's work is complete */
};

/* Process-wide counters, updated with relaxed atomics because they do not order any other memory
 * access. */
enum td_reference_counter {
    TD_REFERENCE_OPEN_ATTEMPTS,
    TD_REFERENCE_OPENS,
    TD_REFERENCE_LAUNCHES,
    TD_REFERENCE_ITEMS,
    TD_REFERENCE_COPIES_TO_DEVICE,
    TD_REFERENCE_COPIES_TO_HOST,
    TD_REFERENCE_BYTES_TO_DEVICE,
    TD_REFERENCE_BYTES_TO_HOST,
    TD_REFERENCE_LEAKED,
    TD_REFERENCE_MISUSES,
    TD_REFERENCE_COUNTERS
};

/* Adds `n` and returns the new value. */
uint64_t td_reference_count(enum td_reference_counter counter, uint64_t n);
uint64_t td_reference_counter_value(enum td_reference_counter counter);
void td_reference_counters_reset(void);

/* Returns TD_OK, or the error of a lost or misused device. Every call starts with this check. */
TD_MUST_CHECK td_status td_reference_check(const struct td_device *device, struct td_error *err);

/* Counts a violation of the contract and returns INTERNAL. */
td_status td_reference_misuse(struct td_error *err, const char *message);

/* True if a launch that never completes has been submitted. */
static inline bool td_reference_is_hung(const struct td_device *device)
{
    return device->idle_ns == TD_REFERENCE_NEVER;
}

#endif
