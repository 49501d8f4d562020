#include "gpu/cuda/runtime/device.h"

#include <stdio.h>

/* Does the context remain usable after this error, because only an argument was invalid? */
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
    (void)cudaGetLastError(); /* clears it: otherwise the next launch would report it */
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
    return td_cuda_check(device, cudaSetDevice(device->ordinal), "become current", err);
}
