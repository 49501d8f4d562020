/* runtime.cc - the functions of the CUDA runtime that the plugin calls.
 *
 * Submitted work is queued in its stream. It runs when a call synchronizes with a stream or queries
 * it: then work of all streams runs, each time from a random stream. Errors of a kernel are
 * returned by the next call, and by all calls until the device is reset. */
#include "tests/gpu/emulation/runtime.h"

#include "tests/gpu/emulation/accesses.h"
#include "tests/gpu/emulation/emulation.h"
#include "tests/gpu/emulation/memory.h"
#include "tests/gpu/emulation/threads.h"

#include <climits>
#include <cstdio>
#include <cstring>
#include <deque>
#include <memory>
#include <set>
#include <vector>

struct work {
    std::function<void()> perform;
    std::function<bool()> ready = [] { return true; };
};

struct CUstream_st {
    std::deque<work> pending;
};

/* How often it was recorded, and how many of the records have been reached. */
struct CUevent_st {
    uint64_t recorded = 0, reached = 0;
};

struct CUmemPoolHandle_st {
    size_t most;
    long trims;
};

namespace emulation
{
namespace
{

std::set<cudaStream_t> streams;
cudaError_t last_error = cudaSuccess;
std::set<cudaEvent_t> events;
std::vector<std::unique_ptr<CUevent_st>> dead_events;
std::set<cudaMemPool_t> pools;
size_t queries; /* of streams */
std::set<const void *> loaded_kernels;
size_t fetch_bytes = 64;
bool lost;
int handles, open_failure; /* enum td_emulation_open */
long allocations_until_failure, kernels_until_loss,
    kernels_until_hang; /* 0: never; below 0: reached */

/* Every call begins with it. */
cudaError_t begin()
{
    return lost ? cudaErrorIllegalAddress : cudaSuccess;
}

cudaError_t set_error(cudaError_t error)
{
    if (error != cudaSuccess)
        last_error = error;
    return error;
}

void drop_work()
{
    for (cudaStream_t stream : streams)
        stream->pending.clear();
}

/* Runs the next work of a random stream; false if there is none. */
bool run_next()
{
    std::vector<cudaStream_t> busy;
    for (cudaStream_t stream : streams)
        if (!stream->pending.empty() && stream->pending.front().ready())
            busy.push_back(stream);
    if (busy.empty())
        return false;
    cudaStream_t stream = busy[random_below(busy.size())];
    work next = std::move(stream->pending.front());
    stream->pending.pop_front();
    {
        device_access opened;
        next.perform();
    }
    if (lost)
        drop_work();
    return true;
}

void synchronize(cudaStream_t stream)
{
    device_access opened; /* once for all, as mprotect is slow */
    while (!stream->pending.empty() && run_next())
        ;
    if (!stream->pending.empty())
        fail("a call waits for a kernel that never completes");
}

/* What cudaFree and cudaFreeHost may do. */
void synchronize_all()
{
    for (cudaStream_t stream : streams)
        synchronize(stream);
}

void require_stream(cudaStream_t stream)
{
    if (!is_stream(stream))
        fail("stream %p does not exist", static_cast<void *>(stream));
}

void require_device(const void *memory, size_t bytes, const char *what)
{
    if (!is_device_memory(memory, bytes))
        fail("%s: %zu bytes at %p are not in one allocation of the device", what, bytes, memory);
}

} // namespace

void submit(cudaStream_t stream, std::function<void()> perform)
{
    require_stream(stream);
    stream->pending.push_back({ std::move(perform) });
}

/* Whether this kernel is to hang. */
static bool kernel_hangs()
{
    return kernels_until_hang > 0 && --kernels_until_hang == 0 ? (kernels_until_hang = -1) : false;
}

static cudaError_t image_error()
{
    return open_failure == TD_EMULATION_NO_KERNELS       ? cudaErrorNoKernelImageForDevice
           : open_failure == TD_EMULATION_BROKEN_KERNELS ? cudaErrorInvalidKernelImage
                                                         : cudaSuccess;
}

void launch(const char *name, const void *function, unsigned int blocks, unsigned int threads,
            size_t shared_bytes, cudaStream_t stream, void (*thread)(const void *),
            const void *argument, size_t bytes)
{
    if (begin() != cudaSuccess)
        return;
    if (blocks == 0 || blocks > INT_MAX || threads == 0 || threads > max_threads ||
        shared_bytes != 0) { /* dynamic shared memory is not emulated */
        (void)set_error(cudaErrorInvalidConfiguration);
        return;
    }
    if (image_error() != cudaSuccess) {
        (void)set_error(image_error());
        return;
    }
    if (loaded_kernels.count(function) == 0)
        fail("kernel %s was not loaded before its first launch", name);
    const char *first = static_cast<const char *>(argument);
    submit(stream, [=, copied = std::vector<char>(first, first + bytes)] {
        if (kernels_until_loss > 0 && --kernels_until_loss == 0) {
            lost = true;
            return;
        }
        run_kernel(name, blocks, threads, [&] { thread(copied.data()); });
    });
    if (kernel_hangs())
        stream->pending.back().ready = [] { return kernels_until_hang >= 0; };
}

bool allocation_fails()
{
    if (allocations_until_failure > 0 && --allocations_until_failure == 0)
        allocations_until_failure = -1;
    return allocations_until_failure < 0;
}

bool is_stream(cudaStream_t stream)
{
    return streams.count(stream) == 1;
}

bool is_lost()
{
    return lost;
}

void count_handle(int change)
{
    handles += change;
}

} // namespace emulation

using namespace emulation;

/* ---- For tests --------------------------------------------------------------------------- */

void td_emulation_fail_alloc(long nth)
{
    allocations_until_failure = nth;
}

void td_emulation_fail_open(int at)
{
    open_failure = at;
}

void td_emulation_lose(long nth)
{
    kernels_until_loss = nth;
}

void td_emulation_hang(long nth)
{
    kernels_until_hang = nth;
}

void td_emulation_poison(void *memory, size_t bytes, bool poisoned)
{
    poison(memory, bytes, poisoned);
}

size_t td_emulation_pool_limit()
{
    return pools.empty() ? 0 : (*pools.begin())->most;
}

long td_emulation_pool_trims()
{
    return pools.empty() ? 0 : (*pools.begin())->trims;
}

size_t td_emulation_fetch_bytes()
{
    return fetch_bytes;
}

size_t td_emulation_resources()
{
    return allocation_count() + streams.size() + events.size() + pools.size() +
           static_cast<size_t>(handles);
}

size_t td_emulation_queries()
{
    return queries;
}

size_t td_emulation_pending()
{
    size_t n = 0;
    for (cudaStream_t stream : streams)
        n += stream->pending.size();
    return n;
}

/* ---- Devices, errors --------------------------------------------------------------------- */

#define BEGIN()                                                                                    \
    do {                                                                                           \
        const cudaError_t broken = begin();                                                        \
        if (broken != cudaSuccess)                                                                 \
            return broken;                                                                         \
    } while (0)

cudaError_t cudaGetLastError()
{
    BEGIN();
    const cudaError_t error = last_error;
    last_error = cudaSuccess;
    return error;
}

const char *cudaGetErrorString(cudaError_t error)
{
    switch (error) {
    case cudaErrorMemoryAllocation:
        return "out of memory";
    case cudaErrorIllegalAddress:
        return "an illegal memory access was encountered";
    case cudaErrorNotReady:
        return "device not ready";
    case cudaErrorNoKernelImageForDevice:
        return "no kernel image is available for execution on the device";
    case cudaErrorInvalidKernelImage:
        return "device kernel image is invalid";
    default:
        return "an error without a text in the emulation";
    }
}

cudaError_t cudaGetDeviceCount(int *count)
{
    BEGIN();
    *count = 1;
    switch (open_failure) {
    case TD_EMULATION_NO_DRIVER:
    case TD_EMULATION_OLD_DRIVER:
        return set_error(cudaErrorInsufficientDriver);
    case TD_EMULATION_NO_DEVICE:
        return set_error(cudaErrorNoDevice);
    default:
        return cudaSuccess;
    }
}

/* Of CUDA; 0 without a driver. */
cudaError_t cudaDriverGetVersion(int *version)
{
    *version = open_failure == TD_EMULATION_NO_DRIVER    ? 0
               : open_failure == TD_EMULATION_OLD_DRIVER ? 12040
                                                         : CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device)
{
    BEGIN();
    if (open_failure == TD_EMULATION_NO_CONTEXT)
        return set_error(cudaErrorMemoryAllocation);
    return set_error(device == 0 ? cudaSuccess : cudaErrorInvalidDevice);
}

cudaError_t cudaGetDevice(int *device)
{
    *device = 0;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int device)
{
    BEGIN();
    if (device != 0)
        return set_error(cudaErrorInvalidDevice);
    *properties = {};
    properties->major = 7;
    (void)std::snprintf(properties->name, sizeof(properties->name), "Emulated GPU");
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *available, size_t *all)
{
    BEGIN();
    *all = device_bytes();
    *available = device_bytes() - device_used();
    return cudaSuccess;
}

cudaError_t cudaDeviceReset()
{
    for (cudaStream_t stream : streams)
        delete stream;
    streams.clear();
    for (cudaEvent_t event : events)
        delete event;
    events.clear();
    for (cudaMemPool_t pool : pools)
        delete pool;
    pools.clear();
    free_all();
    loaded_kernels.clear();
    handles = 0;
    last_error = cudaSuccess;
    lost = false;
    return cudaSuccess;
}

cudaError_t cudaDeviceSetLimit(cudaLimit limit, size_t value)
{
    BEGIN();
    if (limit != cudaLimitMaxL2FetchGranularity)
        fail("cudaDeviceSetLimit: limit %d is not emulated", static_cast<int>(limit));
    fetch_bytes = value;
    return cudaSuccess;
}

/* ---- Kernels ----------------------------------------------------------------------------- */

/* As the first launch would, it loads the kernel; without waiting for other work, so before there
 * is any. */
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *attributes, const void *function)
{
    BEGIN();
    *attributes = {};
    if (image_error() == cudaSuccess)
        loaded_kernels.insert(function);
    return set_error(image_error());
}

/* ---- Memory ------------------------------------------------------------------------------ */

static cudaError_t allocate(void **memory, size_t bytes, void *(*from)(size_t))
{
    BEGIN();
    *memory = bytes == 0 || allocation_fails() ? nullptr : from(bytes);
    return set_error(*memory || bytes == 0 ? cudaSuccess : cudaErrorMemoryAllocation);
}

static cudaError_t release(void *memory, bool (*to)(void *))
{
    BEGIN();
    return set_error(!memory || to(memory) ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaMalloc(void **memory, size_t bytes)
{
    return allocate(memory, bytes, device_allocate);
}

cudaError_t cudaFree(void *memory)
{
    synchronize_all();
    return release(memory, device_free);
}

cudaError_t cudaHostAlloc(void **memory, size_t bytes, unsigned int)
{
    return allocate(memory, bytes, host_allocate);
}

cudaError_t cudaFreeHost(void *memory)
{
    synchronize_all();
    return release(memory, host_free);
}

/* ---- Pools of memory --------------------------------------------------------------------- */

cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int)
{
    BEGIN();
    if (attribute != cudaDevAttrMemoryPoolsSupported)
        fail("cudaDeviceGetAttribute: attribute %d is not emulated", static_cast<int>(attribute));
    *value = 1;
    return cudaSuccess;
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t *pool, const cudaMemPoolProps *properties)
{
    BEGIN();
    *pool = new CUmemPoolHandle_st{ properties->maxSize, 0 };
    pools.insert(*pool);
    return cudaSuccess;
}

cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool)
{
    BEGIN();
    if (pools.erase(pool) == 0)
        fail("pool %p does not exist", static_cast<void *>(pool));
    delete pool;
    return cudaSuccess;
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void *)
{
    BEGIN();
    return cudaSuccess;
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t)
{
    BEGIN();
    pool->trims++;
    return cudaSuccess;
}

/* The address is valid at once, in all streams. */
cudaError_t cudaMallocFromPoolAsync(void **memory, size_t bytes, cudaMemPool_t, cudaStream_t stream)
{
    BEGIN();
    require_stream(stream);
    return allocate(memory, bytes, device_allocate);
}

cudaError_t cudaFreeAsync(void *memory, cudaStream_t stream)
{
    BEGIN();
    submit(stream, [=] {
        if (!device_free(memory))
            fail("cudaFreeAsync: %p is not an allocation of the device", memory);
    });
    return cudaSuccess;
}

/* ---- Streams ----------------------------------------------------------------------------- */

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned int)
{
    BEGIN();
    *stream = new CUstream_st;
    streams.insert(*stream);
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    BEGIN();
    require_stream(stream);
    synchronize(stream);
    streams.erase(stream);
    delete stream;
    return begin();
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    BEGIN();
    require_stream(stream);
    synchronize(stream);
    return begin();
}

/* Every query runs some of the work, so that polling ends. */
cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    queries++;
    BEGIN();
    require_stream(stream);
    for (uint64_t n = random_below(4); n > 0 && run_next(); n--)
        ;
    if (lost)
        return begin();
    return set_error(stream->pending.empty() ? cudaSuccess : cudaErrorNotReady);
}

/* ---- Events ------------------------------------------------------------------------------ */

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int)
{
    BEGIN();
    if (allocation_fails())
        return set_error(cudaErrorMemoryAllocation);
    *event = new CUevent_st;
    events.insert(*event);
    return cudaSuccess;
}

/* One that a stream still waits for lives on, as in CUDA. */
cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    BEGIN();
    if (events.erase(event) == 0)
        fail("event %p does not exist", static_cast<void *>(event));
    dead_events.emplace_back(event);
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    BEGIN();
    const uint64_t number = ++event->recorded;
    submit(stream, [=] { event->reached = number; });
    return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    BEGIN();
    for (uint64_t n = random_below(4); n > 0 && run_next(); n--)
        ;
    if (lost)
        return begin();
    return set_error(event->reached == event->recorded ? cudaSuccess : cudaErrorNotReady);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int)
{
    BEGIN();
    const uint64_t number = event->recorded;
    submit(stream, [] {});
    stream->pending.back().ready = [=] { return event->reached >= number; };
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *memory, int value, size_t bytes, cudaStream_t stream)
{
    BEGIN();
    submit(stream, [=] {
        require_device(memory, bytes, "cudaMemsetAsync");
        std::memset(memory, value, bytes);
    });
    return cudaSuccess;
}

/* Pageable memory is read before this returns, and a copy to it is complete then; other copies are
 * asynchronous ("API synchronization behavior" in the reference of the runtime). */
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    BEGIN();
    const bool from_host = kind == cudaMemcpyHostToDevice, to_host = kind == cudaMemcpyDeviceToHost;
    if (kind == cudaMemcpyHostToHost || kind == cudaMemcpyDefault)
        fail("cudaMemcpyAsync: kind %d is not emulated", static_cast<int>(kind));
    if ((from_host && on_device(from)) || (to_host && on_device(to)))
        fail("cudaMemcpyAsync: device memory where host memory is expected, %p or %p", to, from);
    std::shared_ptr<char[]> pageable;
    if (from_host && !is_pinned_memory(from, bytes)) {
        pageable = std::shared_ptr<char[]>(new char[bytes]);
        std::memcpy(pageable.get(), from, bytes);
    }
    const bool synchronous = to_host && !is_pinned_memory(to, bytes);
    submit(stream, [=] {
        if (!from_host)
            require_device(from, bytes, "cudaMemcpyAsync from the device");
        else if (!pageable && !is_pinned_memory(from, bytes))
            fail("cudaMemcpyAsync: the source was freed before the copy");
        if (!to_host)
            require_device(to, bytes, "cudaMemcpyAsync to the device");
        else if (!synchronous && !is_pinned_memory(to, bytes))
            fail("cudaMemcpyAsync: the destination was freed before the copy");
        std::memmove(to, pageable ? pageable.get() : from, bytes);
    });
    if (synchronous)
        synchronize(stream);
    return begin();
}
