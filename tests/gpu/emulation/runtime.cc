/* runtime.cc - the functions of CUDA's runtime that the plugin calls.
 *
 * Work waits in its stream until somebody waits for a stream, or asks; then that of all streams is
 * done, one piece after the other, from whichever stream comes. Errors of a kernel appear at the
 * next call, and stay until the device is reset. */
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
    bool on_host; /* a host function, which must not call CUDA */
};

struct CUstream_st {
    std::deque<work> pending;
};

namespace emulation
{
namespace
{

std::set<cudaStream_t> streams;
cudaError_t last_error = cudaSuccess;
bool lost, in_host_function;
int handles;
long allocations_until_failure, kernels_until_loss; /* 0: never; below 0: it has come */

/* What every call begins with. */
cudaError_t begin()
{
    if (in_host_function)
        fail("a host function calls CUDA");
    return lost ? cudaErrorIllegalAddress : cudaSuccess;
}

cudaError_t answer(cudaError_t error)
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

/* One piece of some stream's work; false when there is none. */
bool go_on()
{
    std::vector<cudaStream_t> busy;
    for (cudaStream_t stream : streams)
        if (!stream->pending.empty())
            busy.push_back(stream);
    if (busy.empty())
        return false;
    cudaStream_t stream = busy[random_below(busy.size())];
    work next = std::move(stream->pending.front());
    stream->pending.pop_front();
    if (next.on_host) {
        in_host_function = true;
        next.perform();
        in_host_function = false;
    } else {
        device_access opened;
        next.perform();
    }
    if (lost)
        drop_work();
    return true;
}

void finish(cudaStream_t stream)
{
    device_access opened; /* once, which is quicker */
    while (!stream->pending.empty() && go_on())
        ;
}

void require_stream(cudaStream_t stream)
{
    if (!is_stream(stream))
        fail("there is no stream %p", static_cast<void *>(stream));
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
    stream->pending.push_back({ std::move(perform), false });
}

void launch(const char *name, unsigned int blocks, unsigned int threads, size_t shared_bytes,
            cudaStream_t stream, void (*thread)(const void *), const void *argument, size_t bytes)
{
    if (begin() != cudaSuccess)
        return;
    if (blocks == 0 || blocks > INT_MAX || threads == 0 || threads > most_threads ||
        shared_bytes != 0) { /* of a size that is known at the launch only: not emulated */
        (void)answer(cudaErrorInvalidConfiguration);
        return;
    }
    const char *first = static_cast<const char *>(argument);
    submit(stream, [=, given = std::vector<char>(first, first + bytes)] {
        if (kernels_until_loss > 0 && --kernels_until_loss == 0) {
            lost = true;
            return;
        }
        run_kernel(name, blocks, threads, [&] { thread(given.data()); });
    });
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

void td_emulation_lose(long nth)
{
    kernels_until_loss = nth;
}

void td_emulation_forbid(void *memory, size_t bytes, bool forbidden)
{
    forbid(memory, bytes, forbidden);
}

size_t td_emulation_left()
{
    return memory_left() + streams.size() + static_cast<size_t>(handles);
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
    default:
        return "an error that the emulation has no text for";
    }
}

cudaError_t cudaGetDeviceCount(int *count)
{
    BEGIN();
    *count = 1;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device)
{
    BEGIN();
    return answer(device == 0 ? cudaSuccess : cudaErrorInvalidDevice);
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
        return answer(cudaErrorInvalidDevice);
    *properties = {};
    (void)std::snprintf(properties->name, sizeof(properties->name), "Emulated GPU");
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *available, size_t *all)
{
    BEGIN();
    *all = device_bytes;
    *available = device_bytes - device_used();
    return cudaSuccess;
}

cudaError_t cudaDeviceReset()
{
    for (cudaStream_t stream : streams)
        delete stream;
    streams.clear();
    memory_forget();
    handles = 0;
    last_error = cudaSuccess;
    lost = false;
    return cudaSuccess;
}

/* ---- Memory ------------------------------------------------------------------------------ */

static cudaError_t allocate(void **memory, size_t bytes, void *(*from)(size_t))
{
    BEGIN();
    *memory = bytes == 0 || allocation_fails() ? nullptr : from(bytes);
    return answer(*memory || bytes == 0 ? cudaSuccess : cudaErrorMemoryAllocation);
}

static cudaError_t release(void *memory, bool (*to)(void *))
{
    BEGIN();
    return answer(!memory || to(memory) ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaMalloc(void **memory, size_t bytes)
{
    return allocate(memory, bytes, device_allocate);
}

cudaError_t cudaFree(void *memory)
{
    return release(memory, device_free);
}

cudaError_t cudaHostAlloc(void **memory, size_t bytes, unsigned int)
{
    return allocate(memory, bytes, host_allocate);
}

cudaError_t cudaFreeHost(void *memory)
{
    return release(memory, host_free);
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes *attributes, const void *memory)
{
    BEGIN();
    *attributes = {};
    attributes->type = device_block(memory) ? cudaMemoryTypeDevice
                       : host_block(memory) ? cudaMemoryTypeHost
                                            : cudaMemoryTypeUnregistered;
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
    finish(stream);
    streams.erase(stream);
    delete stream;
    return begin();
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    BEGIN();
    require_stream(stream);
    finish(stream);
    return begin();
}

/* Some of the work is done whenever somebody asks, so that asking comes to an end. */
cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    BEGIN();
    require_stream(stream);
    for (uint64_t n = random_below(4); n > 0 && go_on(); n--)
        ;
    if (lost)
        return begin();
    return answer(stream->pending.empty() ? cudaSuccess : cudaErrorNotReady);
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

/* From memory that is not pinned the copy has been taken when this returns, and into such memory it
 * has been made; otherwise both is done at its time ("API synchronization behavior" in the
 * reference of the runtime). */
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    BEGIN();
    const bool from_host = kind == cudaMemcpyHostToDevice, to_host = kind == cudaMemcpyDeviceToHost;
    if (kind == cudaMemcpyHostToHost || kind == cudaMemcpyDefault)
        fail("cudaMemcpyAsync: kind %d is not emulated", static_cast<int>(kind));
    if ((from_host && on_device(from)) || (to_host && on_device(to)))
        fail("cudaMemcpyAsync: of the host's memory, %p and %p, one is the device's", to, from);
    std::shared_ptr<char[]> taken;
    if (from_host && !is_pinned_memory(from, bytes)) {
        taken = std::shared_ptr<char[]>(new char[bytes]);
        std::memcpy(taken.get(), from, bytes);
    }
    const bool waits = to_host && !is_pinned_memory(to, bytes);
    submit(stream, [=] {
        if (!from_host)
            require_device(from, bytes, "cudaMemcpyAsync from the device");
        else if (!taken && !is_pinned_memory(from, bytes))
            fail("cudaMemcpyAsync: what is copied has been freed meanwhile");
        if (!to_host)
            require_device(to, bytes, "cudaMemcpyAsync to the device");
        else if (!waits && !is_pinned_memory(to, bytes))
            fail("cudaMemcpyAsync: what is copied into has been freed meanwhile");
        std::memmove(to, taken ? taken.get() : from, bytes);
    });
    if (waits)
        finish(stream);
    return begin();
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *argument)
{
    BEGIN();
    require_stream(stream);
    stream->pending.push_back({ [=] { function(argument); }, true });
    return cudaSuccess;
}
