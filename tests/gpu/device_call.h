/* device_call.h - runs a case on a device and on the processor, and compares.
 *
 * All that a launch needs lies in one piece of memory on the device, mirrored on the host: inputs,
 * outputs full of rubbish, and rubbish between them, which must all come back as it was but for the
 * outputs.
 *
 * Needs kernels/, gpu/ and libc only. Errors are counted and printed, and end nothing. */
#ifndef TD_TESTS_GPU_DEVICE_CALL_H
#define TD_TESTS_GPU_DEVICE_CALL_H

#include "gpu/device.h"
#include "tests/gpu/device_cases.h"

#include <stdio.h>

/* Checks that held, and that did not; the first of those are printed. */
struct tally {
    long passed, failed;
};
extern struct tally tally;
bool check(bool holds, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define RIG_STREAMS 3
#define RIG_REPORTS 5000 /* items in a launch, at the most */
#define RIG_FLIGHTS 8    /* launches in flight, at the most */

/* A device, with memory to run cases in. */
struct rig {
    const struct td_device_api *api;
    struct td_device *device;
    struct td_device_stream *streams[RIG_STREAMS];
    char *memory, *staging,
        *results;      /* on the device; on the host for the way in, for the way out */
    size_t size, used; /* of each of the three */
    struct td_device_report *reports; /* RIG_FLIGHTS times RIG_REPORTS */
    long unsupported[TD_DTYPE_COUNT]; /* cases, by the dtype of the first input */
    /* Of a device that can tell when a kernel touches what lies between tensors; NULL otherwise. */
    void (*forbid)(void *memory, size_t bytes, bool forbidden);
};
td_status rig_open(struct rig *rig, const struct td_device_api *api,
                   const struct td_device_options *options, struct td_error *err);
void rig_close(struct rig *rig);

/* A case on its way. What it points to lives until flight_check. */
struct flight {
    struct device_case one;
    struct td_op_args args; /* with the results that are expected as outputs */
    struct td_device_report *reports;
    size_t begin, end; /* of its piece of memory */
    size_t outputs;    /* where the outputs begin */
    bool submitted;
};

/* False when there is no room left until others are done. number tells those in flight at once from
 * each other. What is expected is kept in the arena. */
bool flight_submit(struct rig *rig, struct td_device_stream *stream, int number,
                   const struct device_case *one, struct td_arena *arena, struct flight *flight);

/* After the stream is done. */
void flight_check(struct rig *rig, const struct flight *flight, struct td_arena *arena);

/* Waits until a stream is done; false, having counted it, when it does not end well. */
bool wait_done(struct rig *rig, struct td_device_stream *stream, const char *says);

#endif
