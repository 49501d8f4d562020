#include "gpu/cuda/runtime/memory.h"

#include "gpu/cuda/runtime/stream.h"

#include <stdlib.h>

struct td_cuda_allocation {
    struct td_cuda_allocation *next;
    void *address;
    size_t bytes;
    bool on_host;
};

static td_status allocate(struct td_device *device, size_t bytes, bool on_host, void **out,
                          struct td_error *err)
{
    td_status status = td_cuda_set_current(device, err);
    if (status != TD_OK)
        return status;
    if (bytes == 0)
        bytes = 1; /* an empty allocation has an address of its own too */
    if (!on_host && bytes > device->info.memory - device->info.memory_used)
        return td_error_set(err, TD_MEMORY_EXHAUSTED,
                            "%s has %llu of %llu bytes left; %zu are needed", device->info.name,
                            (unsigned long long)(device->info.memory - device->info.memory_used),
                            (unsigned long long)device->info.memory, bytes);
    struct td_cuda_allocation *allocation = malloc(sizeof(*allocation));
    if (!allocation)
        return td_error_set(err, TD_MEMORY_EXHAUSTED,
                            "the host has no memory for the record of an allocation");
    void *address = NULL;
    status = td_cuda_check(device,
                           on_host ? cudaHostAlloc(&address, bytes, cudaHostAllocDefault)
                                   : cudaMalloc(&address, bytes),
                           "allocate", err);
    if (status != TD_OK) {
        free(allocation);
        return status;
    }
    *allocation = (struct td_cuda_allocation){ device->allocations, address, bytes, on_host };
    device->allocations = allocation;
    if (!on_host)
        device->info.memory_used += bytes;
    *out = address;
    return TD_OK;
}

/* Waits for all work that may use the memory: cudaFree is only documented to possibly synchronize. */
static cudaError_t synchronize_streams(const struct td_device *device)
{
    cudaError_t error = cudaSuccess;
    for (const struct td_device_stream *stream = device->streams; stream && error == cudaSuccess;
         stream = stream->next)
        if (stream->stream)
            error = cudaStreamSynchronize(stream->stream);
    return error;
}

static void release(struct td_device *device, const struct td_cuda_allocation *allocation)
{
    struct td_error unused;
    if (!allocation->on_host)
        device->info.memory_used -= allocation->bytes;
    if (td_cuda_set_current(device, &unused) != TD_OK)
        return;
    cudaError_t error = synchronize_streams(device);
    if (error == cudaSuccess)
        error =
            allocation->on_host ? cudaFreeHost(allocation->address) : cudaFree(allocation->address);
    td_status status = td_cuda_check(device, error, "free memory", &unused);
    (void)status; /* if the device is lost now, its next call returns that */
}

void td_cuda_free(struct td_device *device, void *address)
{
    if (!address)
        return;
    for (struct td_cuda_allocation **at = &device->allocations; *at; at = &(*at)->next) {
        struct td_cuda_allocation *allocation = *at;
        if (allocation->address != address)
            continue;
        *at = allocation->next;
        release(device, allocation);
        free(allocation);
        return;
    }
}

td_status td_cuda_alloc(struct td_device *device, size_t bytes, void **out, struct td_error *err)
{
    return allocate(device, bytes, false, out, err);
}

td_status td_cuda_host_alloc(struct td_device *device, size_t bytes, void **out,
                             struct td_error *err)
{
    return allocate(device, bytes, true, out, err);
}

void td_cuda_free_all(struct td_device *device)
{
    while (device->allocations) {
        struct td_cuda_allocation *allocation = device->allocations;
        device->allocations = allocation->next;
        release(device, allocation);
        free(allocation);
    }
}
