#include "gpu/cuda/runtime/device.h"

#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

/* ---- the context ----------------------------------------------------------------------------- */

enum { CONTEXTS = 64 }; /* GPUs beyond this number share an entry, so they are reset later */
enum { RESETTING = -1 };

static struct context {
    /* Number of open devices, or RESETTING while no device is open and none may be opened yet. */
    atomic_int devices;
    /* True if one of the devices has been lost since the last reset. */
    atomic_bool lost;
} contexts[CONTEXTS];

void td_cuda_context_enter(int ordinal)
{
    struct context *context = &contexts[ordinal % CONTEXTS];
    const struct timespec moment = { .tv_nsec = 1000000 };
    int devices = atomic_load(&context->devices);
    do {
        for (; devices == RESETTING; devices = atomic_load(&context->devices))
            (void)nanosleep(&moment, NULL);
    } while (!atomic_compare_exchange_weak(&context->devices, &devices, devices + 1));
}

/* Resets the context of a device. Must not run if cudaSetDevice failed, because a reset affects the
 * thread's current device. */
static void reset(int ordinal)
{
    int current = ordinal; /* in case cudaGetDevice fails */
    (void)cudaGetDevice(&current);
    if (current == ordinal)
        (void)cudaDeviceReset();
    (void)cudaGetLastError();
}

void td_cuda_context_leave(int ordinal, bool lost)
{
    struct context *context = &contexts[ordinal % CONTEXTS];
    int devices = atomic_load(&context->devices), left;
    if (lost)
        atomic_store(&context->lost, true);
    do
        left = devices == 1 && atomic_load(&context->lost) ? RESETTING : devices - 1;
    while (!atomic_compare_exchange_weak(&context->devices, &devices, left));
    if (left != RESETTING)
        return;
    reset(ordinal);
    atomic_store(&context->lost, false);
    atomic_store(&context->devices, 0);
}

/* ---- errors ---------------------------------------------------------------------------------- */

/* True if the context remains usable after this error, which only means that an argument was
 * invalid. */
static bool is_recoverable(cudaError_t error)
{
    switch (error) {
    case cudaErrorInvalidValue:
    case cudaErrorInvalidConfiguration:
    case cudaErrorInvalidMemcpyDirection:
    case cudaErrorInvalidResourceHandle:
    case cudaErrorInvalidPitchValue:
    case cudaErrorNotSupported:
        return true;
    default:
        return false;
    }
}

static td_status refuse_lost(const struct td_device *device, struct td_error *err)
{
    return td_error_set(err, TD_DEVICE_UNAVAILABLE, "%s is lost: %s", device->info.name,
                        device->lost_reason);
}

td_status td_cuda_mark_lost(struct td_device *device, const char *reason, struct td_error *err)
{
    if (!device->lost)
        snprintf(device->lost_reason, sizeof(device->lost_reason), "%s", reason);
    device->lost = true;
    return refuse_lost(device, err);
}

td_status td_cuda_check(struct td_device *device, cudaError_t error, const char *action,
                        struct td_error *err)
{
    if (error == cudaSuccess)
        return TD_OK;
    /* Clears the error, which the next launch would otherwise report. */
    (void)cudaGetLastError();
    if (error == cudaErrorMemoryAllocation)
        return td_error_set(err, TD_MEMORY_EXHAUSTED, "%s has no memory left to %s",
                            device->info.name, action);
    if (is_recoverable(error))
        return td_error_set(err, TD_INTERNAL, "%s could not %s: %s", device->info.name, action,
                            cudaGetErrorString(error));
    char reason[TD_DEVICE_TEXT];
    snprintf(reason, sizeof(reason), "it could not %s: %s", action, cudaGetErrorString(error));
    return td_cuda_mark_lost(device, reason, err);
}

td_status td_cuda_set_current(struct td_device *device, struct td_error *err)
{
    if (device->lost)
        return refuse_lost(device, err);
    return td_cuda_check(device, cudaSetDevice(device->ordinal), "become the current device", err);
}
