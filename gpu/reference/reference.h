/* reference.h - the reference device: gpu/device.h implemented on the host with the kernels of
 * kernels/, for tests and for trying tensord without a GPU.
 *
 * The device counts what is submitted and injects the faults that its options request. It computes
 * work on submission, and reports it as done when a GPU would have completed it: after all earlier
 * work, plus `launch_us` for a launch or the time to copy the bytes. Streams do not overlap, as on
 * a GPU that a single launch fills.
 *
 * Options    In td_device_options.text, and in the daemon's --gpu reference:OPTIONS:
 *            launch_us=N      duration of a launch (0)
 *            copy_mb_per_s=N  bandwidth of copies (0: copies take no time)
 *            back_mb_per_s=N  bandwidth of copies to the host (0: same as copy_mb_per_s)
 *            fill_mb_per_s=N  reported bandwidth of a host thread that copies into pinned memory
 *                             (0: a copy takes no time); does not slow down any call
 *            fail_alloc=N     the Nth and every later allocation of device memory fails
 *            lose_at=N        the device is lost at the Nth launch
 *            lose_copy=N      the device is lost at the Nth copy to it
 *            hang_at=N        the Nth launch never completes
 *            direct_bytes=N   td_device_info.direct_bytes (0)
 *            hang_free=N      the Nth free of device or pinned memory never returns
 *            hang_exit=1      while a free does not return, the process's exit does not return
 *                             either, as can happen with a driver's exit handlers
 *            fail_open=N      the Nth open fails, counted over the life of the process
 *            recover=N        the Nth device opened and all later devices have no faults (2), so a
 *                             lost device works again; 0: all devices have faults
 *            0 means "never" unless stated otherwise. Allocations, launches, copies and frees are
 *            counted per open device. Any other option or value returns INVALID_ARGUMENT.
 * Faults     A launch or copy that loses the device, or a launch that never completes, writes
 *            nothing and returns TD_OK when it is submitted. poll, wait and all other calls report
 *            the fault. Work submitted after a launch that never completes writes nothing either.
 * Errors     INTERNAL for addresses that violate the contract: work on host memory, misaligned
 *            outputs, items that do not cover the indices. After free of a pointer that was not
 *            allocated, or was freed before, every later call returns INTERNAL.
 * Threads    See gpu/device.h; any thread can read the counters.
 *
 * Device memory is host memory, so tests can read device addresses. */
#ifndef TD_GPU_REFERENCE_REFERENCE_H
#define TD_GPU_REFERENCE_REFERENCE_H

#include "gpu/device.h"

const struct td_device_api *td_device_reference(void);

/* Counts since the process started or since the last reset, which also restarts the count for
 * fail_open. */
struct td_device_reference_counts {
    uint64_t opens, launches, items;
    uint64_t copies_to_device, copies_to_host, bytes_to_device, bytes_to_host;
    /* Allocations and streams that were still open when their device was closed, unless the device
     * was lost or hung. */
    uint64_t leaked;
    /* Calls that returned INTERNAL, and invalid pointers freed. */
    uint64_t misuses;
};
struct td_device_reference_counts td_device_reference_counts(void);
void td_device_reference_reset(void);

#endif
