/* plugin.c - the vtable of gpu/device.h over the CUDA runtime: devices, memory, streams, copies. */
#include "gpu/cuda/cuda_device.h"
#include "kernels/dtype.h"

#include <sys/prctl.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

_Static_assert(sizeof(struct td_cuda_report) == sizeof(struct td_device_report) &&
                   offsetof(struct td_cuda_report, n_bad) ==
                       offsetof(struct td_device_report, n_bad),
               "the kernels write reports");
_Static_assert(TD_BOUNDS_ERROR == 0 && TD_BOUNDS_ZERO == 1 && TD_BOUNDS_CLIP == 2 &&
                   TD_BOUNDS_WRAP == 3,
               "rows.cu counts the policies");
_Static_assert(TD_CUDA_MAX_DEPTH == TD_MAX_RANK, "a tuple has a component for each dimension");

/* ---- Errors ------------------------------------------------------------------------------ */

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
    return td_cuda_check(device, cudaSetDevice(device->number), "be used by this thread", err);
}

/* ---- Memory ------------------------------------------------------------------------------ */

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

static void give_memory(struct td_device *device, void *address)
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

static td_status device_alloc(struct td_device *device, size_t bytes, void **out,
                              struct td_error *err)
{
    return take_memory(device, bytes, false, out, err);
}

static td_status device_host_alloc(struct td_device *device, size_t bytes, void **out,
                                   struct td_error *err)
{
    return take_memory(device, bytes, true, out, err);
}

/* ---- Streams ----------------------------------------------------------------------------- */

/* What cuBLAS asks for on the devices where it asks for most; it would allocate it by itself, at
 * some call or other. */
#define BLAS_MEMORY ((size_t)32 << 20)

#define STAGING_BYTES ((size_t)64 << 10)

static td_status open_blas(struct td_device_stream *stream, struct td_error *err)
{
    const struct td_cuda_blas *blas = td_cuda_blas();
    struct td_device *device = stream->device;
    if (!blas)
        return TD_OK;
    td_status status =
        td_cuda_check(device, cudaMalloc(&stream->blas_memory, BLAS_MEMORY), "serve cuBLAS", err);
    if (status != TD_OK)
        return status;
    cublasStatus_t result = blas->create(&stream->blas);
    if (result == CUBLAS_STATUS_SUCCESS)
        result = blas->set_stream(stream->blas, stream->stream);
    if (result == CUBLAS_STATUS_SUCCESS) /* behind the stream, which sets it back */
        result = blas->set_workspace(stream->blas, stream->blas_memory, BLAS_MEMORY);
    if (result == CUBLAS_STATUS_SUCCESS)
        result = blas->set_math_mode(
            stream->blas,
            (cublasMath_t)(CUBLAS_DEFAULT_MATH | CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION));
    if (result == CUBLAS_STATUS_SUCCESS)
        return TD_OK;
    /* Without memory it may say as well that it is not initialized. Then the context goes on. */
    bool done;
    status = td_cuda_api.poll(stream, &done, err);
    if (status == TD_OK &&
        (result == CUBLAS_STATUS_ALLOC_FAILED || result == CUBLAS_STATUS_NOT_INITIALIZED))
        return td_error_set(err, TD_MEMORY_EXHAUSTED,
                            "cuBLAS does not start on %s (status %d): it has no memory left, most "
                            "likely",
                            device->info.name, (int)result);
    return status != TD_OK ? status : td_cuda_lose(device, "cuBLAS does not start on it", err);
}

/* Of a stream that is idle, or of a device that is not lost. */
static void free_stream(struct td_device_stream *stream)
{
    if (stream->blas)
        (void)td_cuda_blas()->destroy(stream->blas);
    (void)cudaFree(stream->blas_memory);
    (void)cudaFree(stream->slots);
    (void)cudaFreeHost(stream->staging);
    if (stream->stream)
        (void)cudaStreamDestroy(stream->stream);
}

/* After the stream has ended; of a lost device only what is on the host is freed. */
static void end_stream(struct td_device_stream *stream)
{
    struct td_device *device = stream->device;
    struct td_error ignored;
    td_status status = td_cuda_enter(device, &ignored);
    if (status == TD_OK && stream->stream)
        status = td_cuda_check(device, cudaStreamSynchronize(stream->stream), "finish a stream",
                               &ignored);
    if (status == TD_OK) {
        free_stream(stream);
        (void)cudaGetLastError();
    }
    free(stream);
}

static void stream_close(struct td_device_stream *stream)
{
    if (!stream)
        return;
    struct td_device_stream **at = &stream->device->streams;
    while (*at && *at != stream)
        at = &(*at)->next;
    if (*at)
        *at = stream->next;
    end_stream(stream);
}

static td_status fill_stream(struct td_device_stream *stream, struct td_error *err)
{
    const size_t slot_bytes = TD_CUDA_SLOTS * sizeof(struct td_cuda_slot);
    struct td_device *device = stream->device;
    void *slots = NULL, *staging = NULL;
    td_status status =
        td_cuda_check(device, cudaStreamCreateWithFlags(&stream->stream, cudaStreamNonBlocking),
                      "open a stream", err);
    if (status == TD_OK)
        status = td_cuda_check(device, cudaMalloc(&slots, slot_bytes + sizeof(*stream->ticket)),
                               "open a stream", err);
    if (status != TD_OK)
        return status;
    stream->slots = slots;
    stream->ticket = (unsigned int *)(void *)((char *)slots + slot_bytes);
    status = td_cuda_check(
        device, cudaMemsetAsync(slots, 0, slot_bytes + sizeof(*stream->ticket), stream->stream),
        "open a stream", err);
    if (status == TD_OK)
        status = td_cuda_check(device, cudaHostAlloc(&staging, STAGING_BYTES, cudaHostAllocDefault),
                               "open a stream", err);
    if (status != TD_OK)
        return status;
    stream->staging = staging;
    stream->staging_bytes = STAGING_BYTES;
    return open_blas(stream, err);
}

static td_status stream_open(struct td_device *device, struct td_device_stream **out,
                             struct td_error *err)
{
    td_status status = td_cuda_enter(device, err);
    if (status != TD_OK)
        return status;
    struct td_device_stream *stream = calloc(1, sizeof(*stream));
    if (!stream)
        return td_error_set(err, TD_MEMORY_EXHAUSTED, "no memory for a stream");
    stream->device = device;
    stream->next = device->streams;
    device->streams = stream;
    status = fill_stream(stream, err);
    if (status != TD_OK) {
        stream_close(stream);
        return status;
    }
    *out = stream;
    return TD_OK;
}

/* ---- Copies ------------------------------------------------------------------------------ */

static td_status copy(struct td_device_stream *stream, void *to, const void *from, size_t bytes,
                      enum cudaMemcpyKind kind, struct td_error *err)
{
    td_status status = td_cuda_enter(stream->device, err);
    if (status != TD_OK || bytes == 0)
        return status;
    return td_cuda_check(stream->device, cudaMemcpyAsync(to, from, bytes, kind, stream->stream),
                         "copy", err);
}

static td_status copy_in(struct td_device_stream *stream, void *to, const void *from, size_t bytes,
                         struct td_error *err)
{
    return copy(stream, to, from, bytes, cudaMemcpyHostToDevice, err);
}

static td_status copy_out(struct td_device_stream *stream, void *to, const void *from, size_t bytes,
                          struct td_error *err)
{
    return copy(stream, to, from, bytes, cudaMemcpyDeviceToHost, err);
}

/* Makes room for so many bytes: waits until what is there has been copied. */
static td_status empty_staging(struct td_device_stream *stream, size_t bytes, struct td_error *err)
{
    struct td_device *device = stream->device;
    td_status status =
        td_cuda_check(device, cudaStreamSynchronize(stream->stream), "finish a stream", err);
    if (status != TD_OK)
        return status;
    stream->staging_used = 0;
    if (bytes <= stream->staging_bytes)
        return TD_OK;
    void *larger = NULL;
    status = td_cuda_check(device, cudaHostAlloc(&larger, bytes, cudaHostAllocDefault),
                           "pass on a table", err);
    if (status != TD_OK)
        return status;
    status = td_cuda_check(device, cudaFreeHost(stream->staging), "free memory", err);
    stream->staging = larger;
    stream->staging_bytes = bytes;
    return status;
}

td_status td_cuda_upload(struct td_device_stream *stream, void *to, const void *from, size_t bytes,
                         struct td_error *err)
{
    const size_t room = td_cuda_aligned(bytes);
    if (room > stream->staging_bytes - stream->staging_used) {
        td_status status = empty_staging(stream, room, err);
        if (status != TD_OK)
            return status;
    }
    char *staged = stream->staging + stream->staging_used;
    stream->staging_used += room;
    memcpy(staged, from, bytes);
    return copy_in(stream, to, staged, bytes, err);
}

/* ---- Waiting ----------------------------------------------------------------------------- */

static td_status poll(struct td_device_stream *stream, bool *done, struct td_error *err)
{
    *done = false;
    td_status status = td_cuda_enter(stream->device, err);
    if (status != TD_OK)
        return status;
    cudaError_t error = cudaStreamQuery(stream->stream);
    if (error == cudaErrorNotReady) {
        (void)cudaGetLastError(); /* else the next launch would report it */
        return TD_OK;
    }
    status = td_cuda_check(stream->device, error, "finish a stream", err);
    if (status == TD_OK) {
        *done = true;
        stream->staging_used = 0;
    }
    return status;
}

static int64_t now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

#define SPIN_NS 20000

/* The kernel wakes a thread up to 50 us late unless it is told not to; most work is done sooner. */
static void sleep_ns(int64_t ns)
{
    const int slack_ns = prctl(PR_GET_TIMERSLACK);
    (void)prctl(PR_SET_TIMERSLACK, 1UL);
    (void)nanosleep(&(struct timespec){ .tv_nsec = ns }, NULL);
    if (slack_ns > 0)
        (void)prctl(PR_SET_TIMERSLACK, (unsigned long)slack_ns);
}

/* The runtime cannot wait for a limited time; so this sleeps, an eighth of what it has waited. */
static td_status wait(struct td_device_stream *stream, int64_t timeout_ns, bool *done,
                      struct td_error *err)
{
    enum { LONGEST_NS = 1000000 };
    const int64_t begun = now_ns();
    for (;;) {
        td_status status = poll(stream, done, err);
        const int64_t waited = now_ns() - begun;
        if (status != TD_OK || *done || waited >= timeout_ns)
            return status;
        if (waited < SPIN_NS)
            continue;
        int64_t pause = waited / 8 < LONGEST_NS ? waited / 8 : LONGEST_NS;
        if (pause > timeout_ns - waited)
            pause = timeout_ns - waited;
        sleep_ns(pause);
    }
}

/* ---- Work -------------------------------------------------------------------------------- */

const struct td_cuda_op *td_cuda_op_find(const char *name)
{
    static const struct td_cuda_op *const ops[] = {
        &td_cuda_gather_op, &td_cuda_batch_gather_op,    &td_cuda_gather_nd_op,
        &td_cuda_stitch_op, &td_cuda_parallel_stitch_op, &td_cuda_partition_op,
        &td_cuda_einsum_op,
    };
    for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
        if (strcmp(ops[i]->name, name) == 0)
            return ops[i];
    return NULL;
}

static bool supports(const struct td_op *op, const struct td_op_args *args)
{
    const struct td_cuda_op *kernels = td_cuda_op_find(op->name);
    return kernels && kernels->supports(args);
}

static size_t workspace_bytes(struct td_device *device, const struct td_device_work *work)
{
    struct td_error ignored;
    const struct td_cuda_op *kernels = td_cuda_op_find(work->op->name);
    if (!kernels || td_cuda_enter(device, &ignored) != TD_OK)
        return 0; /* run says why */
    return kernels->workspace(device, work);
}

static td_status run(struct td_device_stream *stream, const struct td_device_work *work,
                     struct td_error *err)
{
    struct td_device *device = stream->device;
    td_status status = td_cuda_enter(device, err);
    if (status != TD_OK)
        return status;
    const struct td_cuda_op *kernels = td_cuda_op_find(work->op->name);
    if (!kernels || !kernels->supports(work->args))
        return td_error_set(err, TD_NOT_SUPPORTED, "%s has no kernel for this %s",
                            device->info.name, work->op->name);
    status = kernels->run(stream, work, err);
    /* Some of it may have been submitted: whoever hears that nothing was may use the memory. */
    if (status == TD_MEMORY_EXHAUSTED || status == TD_INTERNAL) {
        struct td_error later;
        td_status end =
            td_cuda_check(device, cudaStreamSynchronize(stream->stream), "finish a stream", &later);
        if (end != TD_OK) {
            if (err)
                *err = later;
            return end;
        }
    }
    return status;
}

/* ---- Devices ----------------------------------------------------------------------------- */

static td_status unavailable(const char *what, cudaError_t error, struct td_error *err)
{
    (void)cudaGetLastError();
    return td_error_set(err, TD_DEVICE_UNAVAILABLE, "CUDA could not %s: %s", what,
                        cudaGetErrorString(error));
}

/* Kept free of what may be allocated: cuBLAS and the runtime take memory of their own. */
#define RESERVE ((uint64_t)512 << 20)

static td_status describe(struct td_device *device, const struct td_device_options *options,
                          struct td_error *err)
{
    struct cudaDeviceProp properties;
    size_t available = 0, all = 0;
    cudaError_t error = cudaSetDevice(device->number);
    if (error == cudaSuccess)
        error = cudaGetDeviceProperties(&properties, device->number);
    if (error == cudaSuccess)
        error = cudaMemGetInfo(&available, &all);
    if (error != cudaSuccess)
        return unavailable("open the device", error, err);
    snprintf(device->info.name, sizeof(device->info.name), "%.*s", TD_DEVICE_TEXT - 1,
             properties.name);
    snprintf(device->info.kind, sizeof(device->info.kind), "%s", td_cuda_api.kind);
    device->info.memory = options->memory;
    if (device->info.memory == 0)
        device->info.memory =
            available > 2 * RESERVE ? (uint64_t)available - RESERVE : (uint64_t)available / 2;
    return TD_OK;
}

static void device_close(struct td_device *device)
{
    if (!device)
        return;
    (void)cudaSetDevice(device->number);
    while (device->streams) {
        struct td_device_stream *stream = device->streams;
        device->streams = stream->next;
        end_stream(stream);
    }
    while (device->memory) {
        struct td_cuda_memory *memory = device->memory;
        device->memory = memory->next;
        release(device, memory);
        free(memory);
    }
    /* Nothing else helps against an error that stays: everything in the context goes with it. It
     * resets the device of this thread, which is another one's where that could not be set. */
    int current = device->number; /* unless it is known to be another */
    (void)cudaGetDevice(&current);
    if (device->lost && current == device->number)
        (void)cudaDeviceReset();
    (void)cudaGetLastError();
    free(device);
}

static td_status device_open(const struct td_device_options *options, struct td_device **out,
                             struct td_error *err)
{
    if (options->text && options->text[0] != '\0')
        return td_error_set(err, TD_INVALID_ARGUMENT,
                            "the CUDA plugin has no options, and \"%s\" was given", options->text);
    int n_devices = 0;
    cudaError_t error = cudaGetDeviceCount(&n_devices);
    if (error != cudaSuccess)
        return unavailable("find a device", error, err);
    if (options->number < 0 || options->number >= n_devices)
        return td_error_set(err, TD_DEVICE_UNAVAILABLE, "there is no CUDA device %d; there are %d",
                            options->number, n_devices);
    struct td_device *device = calloc(1, sizeof(*device));
    if (!device)
        return td_error_set(err, TD_DEVICE_UNAVAILABLE, "no memory for a device");
    device->number = options->number;
    device->tf32 = options->tf32;
    td_status status = describe(device, options, err);
    if (status == TD_OK)
        status = td_cuda_measure(device, err);
    if (status != TD_OK) {
        device_close(device);
        if (err)
            err->status = TD_DEVICE_UNAVAILABLE;
        return TD_DEVICE_UNAVAILABLE;
    }
    *out = device;
    return TD_OK;
}

static void device_info(struct td_device *device, struct td_device_info *out)
{
    *out = device->info;
}

const struct td_device_api td_cuda_api = {
    .abi = TD_DEVICE_ABI,
    .args_size = sizeof(struct td_op_args),
    .kind = "cuda",
    .open = device_open,
    .close = device_close,
    .info = device_info,
    .alloc = device_alloc,
    .free = give_memory,
    .host_alloc = device_host_alloc,
    .host_free = give_memory,
    .stream_open = stream_open,
    .stream_close = stream_close,
    .copy_in = copy_in,
    .copy_out = copy_out,
    .supports = supports,
    .workspace_bytes = workspace_bytes,
    .run = run,
    .poll = poll,
    .wait = wait,
};

__attribute__((visibility("default"))) const struct td_device_api *td_device_plugin(void);

const struct td_device_api *td_device_plugin(void)
{
    return &td_cuda_api;
}
