#include "gpu/cuda/runtime/memory.h"

#include "gpu/cuda/runtime/stream.h"

#include <stdlib.h>

/* One piece of memory that was given out. */
struct td_cuda_memory {
    struct td_cuda_memory *next;
    void *address;
    size_t bytes;
    bool on_host;
};

static td_status take_memory(struct td_device *device, size_t bytes, bool on_host, void **out,
                             struct td_error *err)
{
    td_status status = td_cuda_enter(device, err);
    if (status != TD_OK)
        return status;
    if (bytes == 0)
        bytes = 1; /* an address of its own, all the same */
    if (!on_host && bytes > device->info.memory - device->info.memory_used)
        return td_error_set(err, TD_MEMORY_EXHAUSTED,
                            "%s has %llu of %llu bytes left; %zu are needed", device->info.name,
                            (unsigned long long)(device->info.memory - device->info.memory_used),
                            (unsigned long long)device->info.memory, bytes);
    struct td_cuda_memory *memory = malloc(sizeof(*memory));
    if (!memory)
        return td_error_set(err, TD_MEMORY_EXHAUSTED, "no memory for a note of memory");
    void *address = NULL;
    status = td_cuda_check(device,
                           on_host ? cudaHostAlloc(&address, bytes, cudaHostAllocDefault)
                                   : cudaMalloc(&address, bytes),
                           "allocate", err);
    if (status != TD_OK) {
        free(memory);
        return status;
    }
    *memory = (struct td_cuda_memory){ device->memory, address, bytes, on_host };
    device->memory = memory;
    if (!on_host)
        device->info.memory_used += bytes;
    *out = address;
    return TD_OK;
}

/* Until all is done that may use what is freed: of cudaFree it is only said that it may wait. */
static cudaError_t wait_for_streams(const struct td_device *device)
{
    cudaError_t error = cudaSuccess;
    for (const struct td_device_stream *stream = device->streams; stream && error == cudaSuccess;
         stream = stream->next)
        if (stream->stream)
            error = cudaStreamSynchronize(stream->stream);
    return error;
}

static void release(struct td_device *device, const struct td_cuda_memory *memory)
{
    struct td_error ignored;
    if (!memory->on_host)
        device->info.memory_used -= memory->bytes;
    if (td_cuda_enter(device, &ignored) != TD_OK)
        return;
    cudaError_t error = wait_for_streams(device);
    if (error == cudaSuccess)
        error = memory->on_host ? cudaFreeHost(memory->address) : cudaFree(memory->address);
    td_status status = td_cuda_check(device, error, "free memory", &ignored);
    (void)status; /* a device that this lost says so when it is asked next */
}

void td_cuda_free(struct td_device *device, void *address)
{
    if (!address)
        return;
    for (struct td_cuda_memory **at = &device->memory; *at; at = &(*at)->next) {
        struct td_cuda_memory *memory = *at;
        if (memory->address != address)
            continue;
        *at = memory->next;
        release(device, memory);
        free(memory);
        return;
    }
}

td_status td_cuda_alloc(struct td_device *device, size_t bytes, void **out, struct td_error *err)
{
    return take_memory(device, bytes, false, out, err);
}

td_status td_cuda_host_alloc(struct td_device *device, size_t bytes, void **out,
                             struct td_error *err)
{
    return take_memory(device, bytes, true, out, err);
}

void td_cuda_free_all(struct td_device *device)
{
    while (device->memory) {
        struct td_cuda_memory *memory = device->memory;
        device->memory = memory->next;
        release(device, memory);
        free(memory);
    }
}
