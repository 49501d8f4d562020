/* reference.h - a device that is the host itself, behind the vtable of device.h: computes with the
 * kernels of kernels/, counts what is asked of it, and fails when it is told to.
 *
 * Work is computed when it is submitted, and is done when a real device would have finished:
 * `launch_us` and the bytes' time after what was submitted before it. Streams take turns, as they
 * do on a device that one launch fills.
 *
 * Options    In td_device_options.text, also the daemon's --gpu reference:OPTIONS:
 *            launch_us=N      a launch takes so long (0)
 *            copy_mb_per_s=N  copies take so long (0: no time)
 *            fail_alloc=N     the Nth allocation on the device fails, and every one after it
 *            lose_at=N        the device is lost at the Nth launch
 *            hang_at=N        the Nth launch never ends
 *            fail_open=N      the Nth opening fails, counted over the life of the process
 *            recover=N        the Nth that opens has no more faults, nor have those after it (2): so
 *                             a device that was lost comes back; 0: all have them
 *            0, where nothing else is said, is without. Allocations and launches are counted for
 *            each device that is opened. Anything else is INVALID_ARGUMENT.
 * Faults     The launch at which the device is lost, or that never ends, is accepted: what became of
 *            it is told by poll, wait and whatever else is asked. It writes nothing, nor does
 *            anything behind one that never ends.
 * Errors     INTERNAL where an address is not where the contract says: work on memory of the host,
 *            outputs that are not aligned, items that do not fill the indices. A pointer that is
 *            freed and was not allocated makes every later call say so.
 * Threads    As device.h; the counters may be read from any thread.
 *
 * Its memory is the host's, so addresses of the device can be read by whoever likes to look. */
#ifndef TD_GPU_REFERENCE_H
#define TD_GPU_REFERENCE_H

#include "gpu/device.h"

const struct td_device_api *td_device_reference(void);

/* Since the start of the process, or the last reset, from which openings count as well. */
struct td_device_reference_counts {
    uint64_t opens, launches, items, copies_in, copies_out, bytes_in, bytes_out;
    uint64_t left;    /* allocations and streams that were still there when a device was closed that
                         was neither lost nor hung */
    uint64_t misuses; /* what was answered with INTERNAL, and wrong pointers freed */
};
struct td_device_reference_counts td_device_reference_counts(void);
void td_device_reference_reset(void);

#endif
