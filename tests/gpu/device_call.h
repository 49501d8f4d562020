/* device_call.h - runs a test case on a device and on the CPU, and compares the results.
 *
 * The tensors of a launch are in one range of device memory, mirrored on the host: inputs, outputs,
 * and guard bytes between them. Outputs and guard bytes begin with a fill pattern. After the launch
 * all but the outputs must be unchanged.
 *
 * Needs kernels/, gpu/ and libc only. A failed check is counted and printed; the test continues. */
#ifndef TD_TESTS_GPU_DEVICE_CALL_H
#define TD_TESTS_GPU_DEVICE_CALL_H

#include "gpu/device.h"
#include "tests/gpu/device_cases.h"

#include <stdio.h>

/* Counts of checks; the first failures are printed. */
struct checks {
    long passed, failed;
};
extern struct checks checks;
bool check(bool holds, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define FIXTURE_STREAMS 3
#define MAX_ITEMS       5000 /* in a launch */
#define MAX_IN_FLIGHT   8    /* launches */

/* An open device, with streams and memory for the cases. */
struct fixture {
    const struct td_device_api *api;
    struct td_device *device;
    struct td_device_stream *streams[FIXTURE_STREAMS];
    char *memory, *staging, *results; /* device memory; pinned memory to copy from and to */
    size_t size, used;                /* of each of the three */
    struct td_device_report *reports; /* MAX_IN_FLIGHT times MAX_ITEMS */
    long unsupported[TD_DTYPE_COUNT]; /* cases, by the dtype of the first input */
    /* Makes any access of a kernel to these bytes an error; NULL if the device cannot. */
    void (*poison)(void *memory, size_t bytes, bool poisoned);
};
td_status fixture_open(struct fixture *fixture, const struct td_device_api *api,
                       const struct td_device_options *options, struct td_error *err);
void fixture_close(struct fixture *fixture);

/* A submitted case. What it points to must live until launch_check. */
struct launch {
    struct device_case one;
    struct td_op_args args; /* outputs: the expected results */
    struct td_device_report *reports;
    size_t begin, end; /* of its range of memory */
    size_t outputs;    /* offset of the first output */
    bool submitted;
};

/* False if the fixture's memory is full until other launches complete. number is the launch's index
 * among those in flight. The expected results are in the arena. */
bool launch_submit(struct fixture *fixture, struct td_device_stream *stream, int number,
                   const struct device_case *one, struct td_arena *arena, struct launch *launch);

/* Call it when the stream is idle. */
void launch_check(struct fixture *fixture, const struct launch *launch, struct td_arena *arena);

/* Waits until a stream is idle; an error or a timeout is a failed check, and false. */
bool synchronize(struct fixture *fixture, struct td_device_stream *stream, const char *says);

#endif
