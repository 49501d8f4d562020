/* reference.h - the reference device: the interface of gpu/device.h implemented on the host, with
 * the kernels of kernels/, for tests and for trying tensord without a GPU. It counts what is
 * submitted and injects the faults that its options request.
 *
 * Work is computed when it is submitted and reported done when a GPU would have completed it:
 * `launch_us`, or the time of the copied bytes, after all work submitted before it. Streams do not
 * overlap, as on a GPU that one launch fills.
 *
 * Options    In td_device_options.text, and in the daemon's --gpu reference:OPTIONS:
 *            launch_us=N      duration of a launch (0)
 *            copy_mb_per_s=N  bandwidth of copies (0: copies take no time)
 *            back_mb_per_s=N  of copies to the host (0: as copy_mb_per_s)
 *            fill_mb_per_s=N  of a host thread that copies into pinned memory, as the info says;
 *                             no call takes longer for it (0: that takes no time)
 *            fail_alloc=N     the Nth and every later allocation of device memory fails
 *            lose_at=N        the device is lost at the Nth launch
 *            lose_copy=N      the device is lost at the Nth copy to it
 *            hang_at=N        the Nth launch never completes
 *            direct_bytes=N   td_device_info.direct_bytes (0)
 *            hang_free=N      the Nth free of device or pinned memory never returns
 *            hang_exit=1      exit of the process does not return either while a free does not, as
 *                             a driver's own handlers may not
 *            fail_open=N      the Nth open fails, counted over the life of the process
 *            recover=N        the Nth device opened and all later ones have no faults (2), so that
 *                             a lost device works again; 0: all devices have them
 *            0 means "never" unless stated otherwise. Allocations, launches, copies and frees are
 *            counted per open device. Anything else is INVALID_ARGUMENT.
 * Faults     Submitting the launch or the copy that loses the device, or never completes, returns
 *            TD_OK; poll, wait and all other calls report the fault. Such a launch writes nothing,
 *            nor does work submitted after one that never completes.
 * Errors     INTERNAL for addresses that violate the contract: work on host memory, misaligned
 *            outputs, items that do not cover the indices. After free of a pointer that was not
 *            allocated, or was freed before, every later call returns INTERNAL.
 * Threads    As gpu/device.h; the counters may be read from any thread.
 *
 * Device memory is host memory, so tests can read device addresses. */
#ifndef TD_GPU_REFERENCE_REFERENCE_H
#define TD_GPU_REFERENCE_REFERENCE_H

#include "gpu/device.h"

const struct td_device_api *td_device_reference(void);

/* Since the start of the process or the last reset, which also resets the count of fail_open. */
struct td_device_reference_counts {
    uint64_t opens, launches, items;
    uint64_t copies_to_device, copies_to_host, bytes_to_device, bytes_to_host;
    uint64_t leaked;  /* allocations and streams still open at close, unless the device was lost or
                         hung */
    uint64_t misuses; /* calls answered with INTERNAL, and invalid pointers freed */
};
struct td_device_reference_counts td_device_reference_counts(void);
void td_device_reference_reset(void);

#endif
