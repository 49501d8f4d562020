#include "gpu/cuda/runtime/device.h"

#include <stdio.h>

/* Was it only asked the wrong thing? Then the context goes on. */
static bool is_harmless(cudaError_t error)
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
                        device->why);
}

td_status td_cuda_lose(struct td_device *device, const char *why, struct td_error *err)
{
    if (!device->lost)
        snprintf(device->why, sizeof(device->why), "%s", why);
    device->lost = true;
    return refuse_lost(device, err);
}

td_status td_cuda_check(struct td_device *device, cudaError_t error, const char *what,
                        struct td_error *err)
{
    if (error == cudaSuccess)
        return TD_OK;
    (void)cudaGetLastError(); /* else the next launch would report it */
    if (error == cudaErrorMemoryAllocation)
        return td_error_set(err, TD_MEMORY_EXHAUSTED, "%s has no memory left to %s",
                            device->info.name, what);
    if (is_harmless(error))
        return td_error_set(err, TD_INTERNAL, "%s could not %s: %s", device->info.name, what,
                            cudaGetErrorString(error));
    char why[TD_DEVICE_TEXT];
    snprintf(why, sizeof(why), "it could not %s: %s", what, cudaGetErrorString(error));
    return td_cuda_lose(device, why, err);
}

td_status td_cuda_enter(struct td_device *device, struct td_error *err)
{
    if (device->lost)
        return refuse_lost(device, err);
    return td_cuda_check(device, cudaSetDevice(device->ordinal), "be used by this thread", err);
}
