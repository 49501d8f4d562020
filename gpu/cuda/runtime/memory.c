#include "gpu/cuda/runtime/memory.h"

#include "gpu/cuda/runtime/stream.h"

#include <stdlib.h>

struct td_cuda_allocation {
    struct td_cuda_allocation *next;
    void *address;
    size_t bytes;
    bool on_host;
    /* For memory that the caller has freed: an event that completes when the streams have finished
     * all work submitted before the free. NULL if there was no memory for an event. */
    cudaEvent_t unused;
};

/* ---- the pool -------------------------------------------------------------------------------- */

/* Maximum number of bytes by which the pool can exceed the device's limit, for cuBLAS in each
 * stream and for the gaps between allocations. The rest of the memory reserved beyond the limit is
 * left to the runtime. */
#define POOL_EXTRA ((uint64_t)256 << 20)

static cudaError_t open_pool(struct td_device *device)
{
    const struct cudaMemPoolProps properties = {
        .allocType = cudaMemAllocationTypePinned,
        .handleTypes = cudaMemHandleTypeNone,
        .location = { .type = cudaMemLocationTypeDevice, .id = device->ordinal },
#if CUDART_VERSION >= 12020
        .maxSize = (size_t)(device->info.memory + POOL_EXTRA),
#endif
    };
    uint64_t keep = UINT64_MAX; /* freed memory is kept for the next allocation */
    int no = 0;                 /* an allocation does not wait for a free */
    cudaError_t error = cudaMemPoolCreate(&device->pool, &properties);
    if (error == cudaSuccess)
        error = cudaMemPoolSetAttribute(device->pool, cudaMemPoolAttrReleaseThreshold, &keep);
    if (error == cudaSuccess)
        error =
            cudaMemPoolSetAttribute(device->pool, cudaMemPoolReuseAllowInternalDependencies, &no);
    return error;
}

td_status td_cuda_memory_open(struct td_device *device, struct td_error *err)
{
    int has_pools = 0;
    td_status status = td_cuda_set_current(device, err);
    if (status != TD_OK)
        return status;
    cudaError_t error =
        cudaDeviceGetAttribute(&has_pools, cudaDevAttrMemoryPoolsSupported, device->ordinal);
    if (error == cudaSuccess && !has_pools)
        return td_error_set(
            err, TD_DEVICE_UNAVAILABLE,
            "%s has no memory pools, which the plugin needs. The driver is older than "
            "CUDA 11.2, or the device is a virtual GPU without unified memory",
            device->info.name);
    if (error == cudaSuccess)
        error = open_pool(device);
    if (error == cudaSuccess)
        error = cudaStreamCreateWithFlags(&device->allocs, cudaStreamNonBlocking);
    if (error == cudaSuccess)
        error = cudaStreamCreateWithFlags(&device->frees, cudaStreamNonBlocking);
    return td_cuda_check(device, error, "create a memory pool", err);
}

/* ---- what the streams still use -------------------------------------------------------------- */

static bool is_idle(const struct td_device_stream *stream)
{
    if (!stream->stream || cudaStreamQuery(stream->stream) == cudaSuccess)
        return true;
    /* Clears the error, which the next poll of the stream reports. */
    (void)cudaGetLastError();
    return false;
}

static bool all_idle(const struct td_device *device)
{
    const struct td_device_stream *stream = device->streams;
    while (stream && is_idle(stream))
        stream = stream->next;
    return !stream;
}

/* Makes `frees` wait for all work that has been submitted to the streams. */
static cudaError_t order_frees(const struct td_device *device)
{
    cudaError_t error = cudaSuccess;
    for (const struct td_device_stream *stream = device->streams; stream && error == cudaSuccess;
         stream = stream->next) {
        if (!stream->reached || is_idle(stream))
            continue;
        error = cudaEventRecord(stream->reached, stream->stream);
        if (error == cudaSuccess)
            error = cudaStreamWaitEvent(device->frees, stream->reached, 0);
    }
    return error;
}

/* Records the event `unused`. Leaves it NULL if there is no memory for an event. */
static cudaError_t record_unused(const struct td_device *device,
                                 struct td_cuda_allocation *allocation)
{
    cudaError_t error = cudaEventCreateWithFlags(&allocation->unused, cudaEventDisableTiming);
    if (error == cudaErrorMemoryAllocation) {
        (void)cudaGetLastError();
        return cudaSuccess;
    }
    return error == cudaSuccess ? cudaEventRecord(allocation->unused, device->frees) : error;
}

static bool is_unused(const struct td_cuda_allocation *allocation)
{
    if (allocation->unused && cudaEventQuery(allocation->unused) == cudaSuccess)
        return true;
    (void)cudaGetLastError();
    return false;
}

/* Removes an allocation from its list and destroys its event. */
static struct td_cuda_allocation *detach(struct td_cuda_allocation **at)
{
    struct td_cuda_allocation *allocation = *at;
    *at = allocation->next;
    if (allocation->unused)
        (void)cudaEventDestroy(allocation->unused);
    allocation->unused = NULL;
    return allocation;
}

/* ---- device memory --------------------------------------------------------------------------- */

static cudaError_t take(const struct td_device *device, size_t bytes, void **out)
{
    cudaError_t error = cudaMallocFromPoolAsync(out, bytes, device->pool, device->allocs);
    if (error == cudaErrorMemoryAllocation && all_idle(device)) {
        (void)cudaGetLastError();
        /* The frees complete immediately, because all streams are idle. */
        error = cudaStreamSynchronize(device->frees);
        if (error == cudaSuccess)
            error = cudaMemPoolTrimTo(device->pool, 0);
        if (error == cudaSuccess)
            error = cudaMallocFromPoolAsync(out, bytes, device->pool, device->allocs);
    }
    /* Waits only for the allocation, because no other work is on `allocs`. */
    return error == cudaSuccess ? cudaStreamSynchronize(device->allocs) : error;
}

/* Frees the memory of an allocation. The record stays until the streams no longer use the
 * memory. */
static cudaError_t give_back(struct td_device *device, struct td_cuda_allocation *allocation)
{
    cudaError_t error = order_frees(device);
    if (error == cudaSuccess)
        error = cudaFreeAsync(allocation->address, device->frees);
    if (error == cudaSuccess)
        error = record_unused(device, allocation);
    allocation->next = device->freeing;
    device->freeing = allocation;
    return error;
}

/* Returns to the system the memory that an idle device without allocations keeps for later
 * allocations. */
static void trim_pool(struct td_device *device)
{
    if (!device->pool || device->pool_is_trimmed || device->info.memory_used > 0)
        return;
    device->pool_is_trimmed = true;
    (void)cudaMemPoolTrimTo(device->pool, 0);
    (void)cudaGetLastError();
}

uint64_t td_cuda_memory_freeing(struct td_device *device)
{
    /* Queries the streams only if memory is being freed, because a query takes a microsecond and
     * the batcher calls this function for each batch. */
    const bool idle = device->freeing && all_idle(device);
    uint64_t bytes = 0;
    for (struct td_cuda_allocation **at = &device->freeing; *at;) {
        if (idle || is_unused(*at)) {
            free(detach(at));
        } else {
            bytes += (*at)->bytes;
            at = &(*at)->next;
        }
    }
    if (idle)
        trim_pool(device);
    return bytes;
}

/* ---- pinned memory --------------------------------------------------------------------------- */

/* Returns an unused retired block of at least `bytes` and at most `most` bytes, or NULL if there is
 * none. */
static struct td_cuda_allocation *reuse(struct td_device *device, size_t bytes, size_t most)
{
    for (struct td_cuda_allocation **at = &device->retired; *at; at = &(*at)->next) {
        const size_t there = (*at)->bytes;
        if (bytes <= there && there <= most && is_unused(*at)) {
            device->pinned_retired -= there;
            return detach(at);
        }
    }
    return NULL;
}

static cudaError_t free_retired(struct td_device *device)
{
    cudaError_t error = cudaSuccess;
    if (!device->retired || !all_idle(device))
        return cudaSuccess;
    while (device->retired && error == cudaSuccess) {
        struct td_cuda_allocation *allocation = detach(&device->retired);
        device->pinned_retired -= allocation->bytes;
        error = cudaFreeHost(allocation->address);
        free(allocation);
    }
    return error;
}

/* The host can always pin more memory while retired blocks total at most MAY_RETIRE bytes. */
#define MAY_RETIRE ((uint64_t)64 << 20)

/* True if the host may pin `bytes` more, counting blocks that are waiting to be freed. Limits the
 * memory that is retired or in use to twice the caller's peak. Without this limit, two batches that
 * always overlap would never leave all streams idle, and batches of varying sizes would pin more
 * and more memory. */
static bool may_pin(const struct td_device *device, size_t bytes)
{
    uint64_t after, all;
    if (device->pinned_retired <= MAY_RETIRE ||
        __builtin_add_overflow(device->pinned, bytes, &after) ||
        __builtin_add_overflow(after, device->pinned_retired, &all))
        return true; /* if the sum overflows, CUDA refuses the allocation */
    const uint64_t most = after > device->pinned_most ? after : device->pinned_most;
    return all / 2 <= most;
}

static cudaError_t retire(struct td_device *device, struct td_cuda_allocation *allocation)
{
    allocation->next = device->retired;
    device->retired = allocation;
    device->pinned_retired += allocation->bytes;
    cudaError_t error = order_frees(device);
    if (error == cudaSuccess)
        error = record_unused(device, allocation);
    return error == cudaSuccess ? free_retired(device) : error;
}

/* ---- functions of the vtable ---------------------------------------------------------------- */

static td_status new_record(struct td_device *device, size_t bytes, bool on_host,
                            struct td_cuda_allocation **out, struct td_error *err)
{
    td_status status = td_cuda_set_current(device, err);
    if (status != TD_OK)
        return status;
    *out = calloc(1, sizeof(**out));
    if (!*out)
        return td_error_set(err, TD_MEMORY_EXHAUSTED,
                            "not enough host memory for the record of an allocation");
    (*out)->bytes = bytes > 0 ? bytes : 1; /* even an empty allocation has its own address */
    (*out)->on_host = on_host;
    return TD_OK;
}

static td_status keep_record(struct td_device *device, struct td_cuda_allocation *allocation,
                             cudaError_t error, void **out, struct td_error *err)
{
    td_status status = td_cuda_check(device, error, "allocate", err);
    if (status != TD_OK) {
        free(allocation);
        return status;
    }
    allocation->next = device->allocations;
    device->allocations = allocation;
    *out = allocation->address;
    return TD_OK;
}

td_status td_cuda_alloc(struct td_device *device, size_t bytes, void **out, struct td_error *err)
{
    struct td_cuda_allocation *allocation;
    td_status status = new_record(device, bytes, false, &allocation, err);
    if (status != TD_OK)
        return status;
    const uint64_t left = device->info.memory - device->info.memory_used;
    if (allocation->bytes > left) {
        free(allocation);
        return td_error_set(err, TD_MEMORY_EXHAUSTED,
                            "%s has %llu of %llu bytes left; %zu are needed", device->info.name,
                            (unsigned long long)left, (unsigned long long)device->info.memory,
                            bytes);
    }
    const size_t taken = allocation->bytes;
    status = keep_record(device, allocation, take(device, taken, &allocation->address), out, err);
    if (status != TD_OK)
        return status;
    device->info.memory_used += taken;
    device->pool_is_trimmed = false;
    return status;
}

/* Returns new pinned memory, or a retired block of any size if no more memory may be pinned. */
static td_status pin(struct td_device *device, size_t bytes, struct td_cuda_allocation **out,
                     struct td_error *err)
{
    td_status status = may_pin(device, bytes)
                           ? TD_OK
                           : td_cuda_check(device, free_retired(device), "free memory", err);
    if (status != TD_OK)
        return status;
    if (!may_pin(device, bytes))
        return (*out = reuse(device, bytes, SIZE_MAX))
                   ? TD_OK
                   : td_error_set(err, TD_MEMORY_EXHAUSTED,
                                  "%llu bytes of pinned memory are being freed, so %zu more bytes "
                                  "cannot be pinned until the work of %s ends",
                                  (unsigned long long)device->pinned_retired, bytes,
                                  device->info.name);
    status = new_record(device, bytes, true, out, err);
    if (status != TD_OK)
        return status;
    status =
        td_cuda_check(device, cudaHostAlloc(&(*out)->address, (*out)->bytes, cudaHostAllocDefault),
                      "allocate", err);
    if (status != TD_OK)
        free(*out);
    return status;
}

td_status td_cuda_host_alloc(struct td_device *device, size_t bytes, void **out,
                             struct td_error *err)
{
    const size_t least = bytes > 0 ? bytes : 1;
    td_status status = td_cuda_set_current(device, err);
    if (status != TD_OK)
        return status;
    struct td_cuda_allocation *allocation =
        reuse(device, least, least > SIZE_MAX / 2 ? SIZE_MAX : 2 * least + 1);
    if (!allocation)
        status = pin(device, bytes, &allocation, err);
    if (status != TD_OK)
        return status;
    device->pinned += allocation->bytes;
    if (device->pinned > device->pinned_most)
        device->pinned_most = device->pinned;
    return keep_record(device, allocation, cudaSuccess, out, err);
}

static void release(struct td_device *device, struct td_cuda_allocation *allocation)
{
    struct td_error unused;
    cudaError_t error = cudaSuccess;
    if (td_cuda_set_current(device, &unused) != TD_OK) {
        free(allocation); /* the reset of a lost device frees its memory */
    } else if (allocation->on_host) {
        error = retire(device, allocation);
    } else {
        error = give_back(device, allocation);
    }
    td_status status = td_cuda_check(device, error, "free memory", &unused);
    (void)status; /* if the device is lost, its next call returns the error */
}

void td_cuda_free(struct td_device *device, void *address)
{
    struct td_cuda_allocation **at = &device->allocations;
    while (*at && (*at)->address != address)
        at = &(*at)->next;
    if (!address || !*at)
        return;
    struct td_cuda_allocation *allocation = *at;
    *at = allocation->next;
    if (allocation->on_host)
        device->pinned -= allocation->bytes;
    else
        device->info.memory_used -= allocation->bytes;
    release(device, allocation);
}

static void free_records(struct td_cuda_allocation *allocation)
{
    for (struct td_cuda_allocation *next; allocation; allocation = next) {
        next = allocation->next;
        free(allocation);
    }
}

void td_cuda_memory_close(struct td_device *device)
{
    struct td_error unused;
    while (!device->lost && device->allocations)
        td_cuda_free(device, device->allocations->address);
    if (!device->lost && td_cuda_set_current(device, &unused) == TD_OK)
        (void)free_retired(device);
    if (!device->lost)
        (void)td_cuda_memory_freeing(device);
    free_records(device->allocations);
    free_records(device->retired);
    free_records(device->freeing);
    device->allocations = device->retired = device->freeing = NULL;
    if (device->lost)
        return;
    if (device->frees) {
        (void)cudaStreamSynchronize(device->frees);
        (void)cudaStreamDestroy(device->frees);
    }
    if (device->allocs)
        (void)cudaStreamDestroy(device->allocs);
    if (device->pool)
        (void)cudaMemPoolDestroy(device->pool);
    (void)cudaGetLastError();
}
