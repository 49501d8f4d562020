/* plugin.c - implements the vtable of gpu/device.h with the CUDA runtime: opens and closes devices,
 * and finds the kernels of an op. */
#include "gpu/cuda/measure.h"
#include "gpu/cuda/ops/ops.h"
#include "gpu/cuda/runtime/copy.h"
#include "gpu/cuda/runtime/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(struct td_cuda_report) == sizeof(struct td_device_report) &&
                   offsetof(struct td_cuda_report, n_bad) ==
                       offsetof(struct td_device_report, n_bad),
               "kernels write td_device_reports");
_Static_assert(TD_BOUNDS_ERROR == 0 && TD_BOUNDS_ZERO == 1 && TD_BOUNDS_CLIP == 2 &&
                   TD_BOUNDS_WRAP == 3,
               "indices.cuh has the same numbers");
#define ASSERT_PARAMETERS_FIT(kernel)                                                              \
    _Static_assert(sizeof(struct td_cuda_##kernel##_args) <= TD_CUDA_PARAMETER_BYTES,              \
                   "parameters of " #kernel)
ASSERT_PARAMETERS_FIT(bags);
ASSERT_PARAMETERS_FIT(elementwise);
ASSERT_PARAMETERS_FIT(find);
ASSERT_PARAMETERS_FIT(gather);
ASSERT_PARAMETERS_FIT(gemm);
ASSERT_PARAMETERS_FIT(normalise);
ASSERT_PARAMETERS_FIT(one_hot);
ASSERT_PARAMETERS_FIT(partition);
ASSERT_PARAMETERS_FIT(permute);
ASSERT_PARAMETERS_FIT(reduce);
ASSERT_PARAMETERS_FIT(scan);
ASSERT_PARAMETERS_FIT(search);
ASSERT_PARAMETERS_FIT(segments);
ASSERT_PARAMETERS_FIT(stitch);
ASSERT_PARAMETERS_FIT(sumprod);
ASSERT_PARAMETERS_FIT(top_k);
_Static_assert(TD_CUDA_MAX_DEPTH == TD_MAX_RANK, "a tuple has at most one component per dimension");

#define KIND "cuda"

/* ---- Work -------------------------------------------------------------------------------- */

/* Returns the kernels for the op, or NULL if the plugin has none. */
static const struct td_cuda_op *find_op(const char *name)
{
    /* The table is indexed by the number of the op, so a name that is not in kernels/ops.def does
     * not compile. */
#define KERNELS_OF(op) [TD_OP_NUMBER_##op] = &td_cuda_##op##_op
    static const struct td_cuda_op *const kernels[TD_OP_COUNT] = {
        KERNELS_OF(gather),
        [TD_OP_NUMBER_batch_gather] = &td_cuda_gather_op,
        KERNELS_OF(gather_nd),
        KERNELS_OF(dynamic_stitch),
        KERNELS_OF(parallel_dynamic_stitch),
        KERNELS_OF(dynamic_partition),
        KERNELS_OF(einsum),
        KERNELS_OF(embedding_bag),
        KERNELS_OF(find),
        KERNELS_OF(lookup),
        KERNELS_OF(search),
        KERNELS_OF(top_k),
        KERNELS_OF(cumsum),
        KERNELS_OF(one_hot),
        [TD_OP_NUMBER_reshape] = &td_cuda_layout_op,
        [TD_OP_NUMBER_expand_dims] = &td_cuda_layout_op,
        [TD_OP_NUMBER_squeeze] = &td_cuda_layout_op,
        [TD_OP_NUMBER_transpose] = &td_cuda_layout_op,
        [TD_OP_NUMBER_slice] = &td_cuda_layout_op,
        [TD_OP_NUMBER_concat] = &td_cuda_joining_op,
        [TD_OP_NUMBER_stack] = &td_cuda_joining_op,
        [TD_OP_NUMBER_softmax] = &td_cuda_normalise_op,
        [TD_OP_NUMBER_log_softmax] = &td_cuda_normalise_op,
        [TD_OP_NUMBER_l2_normalize] = &td_cuda_normalise_op,
        [TD_OP_NUMBER_layer_norm] = &td_cuda_normalise_op,
        [TD_OP_NUMBER_segment_sum] = &td_cuda_segments_op,
        [TD_OP_NUMBER_segment_mean] = &td_cuda_segments_op,
        [TD_OP_NUMBER_segment_max] = &td_cuda_segments_op,
        [TD_OP_NUMBER_segment_min] = &td_cuda_segments_op,
        [TD_OP_NUMBER_segment_prod] = &td_cuda_segments_op,
        [TD_OP_NUMBER_reduce_sum] = &td_cuda_reduce_op,
        [TD_OP_NUMBER_reduce_mean] = &td_cuda_reduce_op,
        [TD_OP_NUMBER_reduce_max] = &td_cuda_reduce_op,
        [TD_OP_NUMBER_reduce_min] = &td_cuda_reduce_op,
        [TD_OP_NUMBER_reduce_prod] = &td_cuda_reduce_op,
        [TD_OP_NUMBER_reduce_any] = &td_cuda_reduce_op,
        [TD_OP_NUMBER_reduce_all] = &td_cuda_reduce_op,
        [TD_OP_NUMBER_argmax] = &td_cuda_reduce_op,
        [TD_OP_NUMBER_argmin] = &td_cuda_reduce_op,
        [TD_OP_NUMBER_cast] = &td_cuda_elementwise_op,
#define TD_ELEMENTWISE(op, ...) [TD_OP_NUMBER_##op] = &td_cuda_elementwise_op,
#include "kernels/elementwise/elementwise.def"
#undef TD_ELEMENTWISE
    };
    static const char *const names[TD_OP_COUNT] = {
#define TD_OP(folder, op) #op,
#include "kernels/ops.def"
#undef TD_OP
    };
    for (int i = 0; i < TD_OP_COUNT; i++)
        if (strcmp(names[i], name) == 0)
            return kernels[i];
    return NULL;
}

static bool supports(const struct td_op *op, const struct td_op_args *args)
{
    const struct td_cuda_op *cuda_op = find_op(op->name);
    return cuda_op && cuda_op->supports(args);
}

static bool supports_work(const struct td_device_work *work)
{
    bool supported = supports(work->op, work->args);
    for (int c = 0; c < work->n_chain; c++)
        supported = supported && supports(work->chain[c].args->op, work->chain[c].args);
    return supported;
}

static size_t workspace_bytes(struct td_device *device, const struct td_device_work *work)
{
    struct td_error unused;
    const struct td_cuda_op *cuda_op = find_op(work->op->name);
    if (!cuda_op || td_cuda_set_current(device, &unused) != TD_OK)
        return 0; /* run returns the reason */
    return cuda_op->workspace_bytes(device, work);
}

static td_status run(struct td_device_stream *stream, const struct td_device_work *work,
                     struct td_error *err)
{
    struct td_device *device = stream->device;
    td_status status = td_cuda_set_current(device, err);
    if (status != TD_OK)
        return status;
    const struct td_cuda_op *cuda_op = find_op(work->op->name);
    if (!cuda_op || !supports_work(work))
        return td_error_set(err, TD_NOT_SUPPORTED, "%s has no kernel for this %s",
                            device->info.name, work->op->name);
    stream->awaited_ns = 0;
    status = cuda_op->run(stream, work, err);
    /* These errors promise that no work was submitted and that the caller can reuse the memory.
     * Waits for the work that might have been submitted. */
    if (status == TD_MEMORY_EXHAUSTED || status == TD_INTERNAL) {
        struct td_error sync_err;
        td_status sync_status = td_cuda_check(device, cudaStreamSynchronize(stream->stream),
                                              "complete the work of a stream", &sync_err);
        if (sync_status != TD_OK) {
            *err = sync_err;
            return sync_status;
        }
    }
    return status;
}

/* ---- Devices ----------------------------------------------------------------------------- */

static td_status unavailable(const char *action, cudaError_t error, struct td_error *err)
{
    (void)cudaGetLastError();
    return td_error_set(err, TD_DEVICE_UNAVAILABLE, "CUDA could not %s: %s", action,
                        cudaGetErrorString(error));
}

/* Oldest driver that supports all CUDA versions with this major number ("CUDA Toolkit, Driver, and
 * Architecture Matrix" in NVIDIA's data center documentation). */
#if CUDART_VERSION >= 14000
#define NEEDED_DRIVER "a driver for that version"
#elif CUDART_VERSION >= 13000
#define NEEDED_DRIVER "driver 580 or newer"
#else
#define NEEDED_DRIVER "driver 525 or newer"
#endif

/* CUDA encodes its version as a number, such as 13000 for 13.0. */
#define MAJOR(version) ((version) / 1000)
#define MINOR(version) ((version) % 1000 / 10)

/* Explains why cudaGetDeviceCount failed. */
static td_status no_device(cudaError_t error, struct td_error *err)
{
    int driver = 0; /* 0 if there is no driver */
    (void)cudaGetLastError();
    (void)cudaDriverGetVersion(&driver);
    if (error == cudaErrorNoDevice)
        return td_error_set(err, TD_DEVICE_UNAVAILABLE,
                            "CUDA finds no GPU: the NVIDIA driver for CUDA %d.%d reports none. Run "
                            "nvidia-smi to list GPUs, and check that CUDA_VISIBLE_DEVICES does not "
                            "hide them",
                            MAJOR(driver), MINOR(driver));
    if (error == cudaErrorInsufficientDriver && driver == 0)
        return td_error_set(err, TD_DEVICE_UNAVAILABLE,
                            "CUDA finds no NVIDIA driver (libcuda.so.1). The plugin was built with "
                            "CUDA %d.%d, which needs " NEEDED_DRIVER,
                            MAJOR(CUDART_VERSION), MINOR(CUDART_VERSION));
    if (error == cudaErrorInsufficientDriver)
        return td_error_set(err, TD_DEVICE_UNAVAILABLE,
                            "the NVIDIA driver is too old: it supports CUDA %d.%d. The plugin was "
                            "built with CUDA %d.%d, which needs " NEEDED_DRIVER,
                            MAJOR(driver), MINOR(driver), MAJOR(CUDART_VERSION),
                            MINOR(CUDART_VERSION));
    return unavailable("find a device", error, err);
}

static cudaError_t load_kernels(void)
{
    static cudaError_t (*const load[])(void) = {
        td_cuda_bags_load,          td_cuda_elementwise_load, td_cuda_find_load,
        td_cuda_gather_load,        td_cuda_gemm_load,        td_cuda_normalise_load,
        td_cuda_one_hot_load,       td_cuda_partition_load,   td_cuda_scan_load,
        td_cuda_permute_load,       td_cuda_reduce_load,      td_cuda_search_best_load,
        td_cuda_search_scores_load, td_cuda_segments_load,    td_cuda_stitch_load,
        td_cuda_sumprod_load,       td_cuda_top_k_load,
    };
    cudaError_t error = cudaSuccess;
    for (size_t i = 0; i < sizeof(load) / sizeof(load[0]) && error == cudaSuccess; i++)
        error = load[i]();
    return error;
}

/* Loads all kernels, and launches one kernel that copies nothing to check that the plugin has code
 * for this device. */
static td_status check_kernels(struct td_device *device, struct td_error *err)
{
    const struct td_cuda_gather_args nothing = { .copy = td_cuda_row_copy_make(0, 0),
                                                 .slice_outputs = 1,
                                                 .repeat = 1 };
    cudaError_t error = load_kernels();
    if (error == cudaSuccess)
        error = td_cuda_gather(&nothing, device->allocs);
    switch (error) {
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorInvalidKernelImage:
    case cudaErrorInvalidPtx:
    case cudaErrorUnsupportedPtxVersion:
    case cudaErrorJitCompilerNotFound:
    case cudaErrorInvalidDeviceFunction:
        (void)cudaGetLastError();
        return td_error_set(err, TD_DEVICE_UNAVAILABLE,
                            "the CUDA plugin has no kernels that %s (compute capability %d.%d) can "
                            "run: %s. Build the plugin with TD_CUDA_ARCHITECTURES=%d",
                            device->info.name, device->capability / 10, device->capability % 10,
                            cudaGetErrorString(error), device->capability);
    default:
        return td_cuda_check(device, error, "load its kernels", err);
    }
}

/* Maximum size of inputs and outputs that kernels access in pinned memory, at the speed of the bus:
 * DIRECT_BYTES take 3 us at 25 GB/s, plus a round trip of 1 to 2 us. Direct access replaces two
 * copies with a latency of about 5 us each. */
#define DIRECT_BYTES ((uint64_t)64 << 10)

/* Device memory reserved for cuBLAS and the runtime. */
#define RESERVED ((uint64_t)512 << 20)

/* Sets the maximum number of bytes that the L2 cache fetches on a miss. A row of 16 or 32 bytes
 * lies in one sector of 32 bytes, so the default of 64 would fetch twice as many bytes as are used.
 * Longer rows and copies use all the sectors that are fetched. The limit is a hint, which devices
 * before compute capability 8.0 do not have. */
static void set_fetch_bytes(int bytes)
{
    if (bytes > 0)
        (void)cudaDeviceSetLimit(cudaLimitMaxL2FetchGranularity, (size_t)bytes);
    (void)cudaGetLastError();
}

/* Parses fetch_bytes, the only option of the plugin. */
static td_status parse_fetch_bytes(const char *text, int *out, struct td_error *err)
{
    static const struct {
        const char *text;
        int bytes;
    } values[] = {
        { "", 32 },
        { "fetch_bytes=0", 0 }, /* keep the device's default */
        { "fetch_bytes=32", 32 },
        { "fetch_bytes=64", 64 },
        { "fetch_bytes=128", 128 },
    };
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
        if (strcmp(text ? text : "", values[i].text) == 0) {
            *out = values[i].bytes;
            return TD_OK;
        }
    return td_error_set(
        err, TD_INVALID_ARGUMENT,
        "invalid option \"%s\" of the CUDA plugin; expected fetch_bytes=0, 32, 64 or 128", text);
}

static td_status describe(struct td_device *device, const struct td_device_options *options,
                          struct td_error *err)
{
    struct cudaDeviceProp properties;
    size_t available = 0, all = 0;
    /* Gets the properties first, because this needs no context and later messages name the
     * device. */
    cudaError_t error = cudaGetDeviceProperties(&properties, device->ordinal);
    if (error != cudaSuccess)
        return unavailable("open the device", error, err);
    snprintf(device->info.name, sizeof(device->info.name), "%.*s", TD_DEVICE_TEXT - 1,
             properties.name);
    device->capability = 10 * properties.major + properties.minor;
    error = cudaSetDevice(device->ordinal); /* creates the context */
    if (error == cudaSuccess)
        error = cudaMemGetInfo(&available, &all);
    if (error != cudaSuccess)
        return td_cuda_check(device, error, "open it", err);
    snprintf(device->info.kind, sizeof(device->info.kind), "%s", KIND);
    device->info.direct_bytes = DIRECT_BYTES;
    device->info.memory = options->memory;
    if (device->info.memory == 0)
        device->info.memory =
            available > 2 * RESERVED ? (uint64_t)available - RESERVED : (uint64_t)available / 2;
    return TD_OK;
}

static void device_close(struct td_device *device)
{
    if (!device)
        return;
    (void)cudaSetDevice(device->ordinal);
    while (device->streams)
        td_cuda_stream_close(device->streams);
    td_cuda_memory_close(device);
    (void)cudaGetLastError();
    td_cuda_context_leave(device->ordinal, device->lost);
    free(device);
}

static td_status device_open(const struct td_device_options *options, struct td_device **out,
                             struct td_error *err)
{
    int n_devices = 0, fetch_bytes = 0;
    td_status status = parse_fetch_bytes(options->text, &fetch_bytes, err);
    if (status != TD_OK)
        return status;
    cudaError_t error = cudaGetDeviceCount(&n_devices);
    if (error != cudaSuccess)
        return no_device(error, err);
    if (options->ordinal < 0 || options->ordinal >= n_devices)
        return td_error_set(err, TD_DEVICE_UNAVAILABLE,
                            "there is no CUDA device %d; the number of CUDA devices is %d",
                            options->ordinal, n_devices);
    struct td_device *device = calloc(1, sizeof(*device));
    if (!device)
        return td_error_set(err, TD_DEVICE_UNAVAILABLE, "not enough host memory to open a device");
    device->ordinal = options->ordinal;
    td_cuda_context_enter(device->ordinal);
    device->tf32 = options->tf32;
    status = describe(device, options, err);
    if (status == TD_OK)
        set_fetch_bytes(fetch_bytes);
    if (status == TD_OK)
        status = td_cuda_memory_open(device, err);
    if (status == TD_OK)
        status = check_kernels(device, err);
    if (status == TD_OK)
        status = td_cuda_measure(device, err);
    if (status != TD_OK) {
        device_close(device);
        err->status = TD_DEVICE_UNAVAILABLE;
        return TD_DEVICE_UNAVAILABLE;
    }
    *out = device;
    return TD_OK;
}

static void device_info(struct td_device *device, struct td_device_info *out)
{
    *out = device->info;
    out->memory_freeing = device->lost ? 0 : td_cuda_memory_freeing(device);
}

static const struct td_device_api api = {
    .abi = TD_DEVICE_ABI,
    .args_size = sizeof(struct td_op_args),
    .kind = KIND,
    .open = device_open,
    .close = device_close,
    .info = device_info,
    .alloc = td_cuda_alloc,
    .free = td_cuda_free,
    .host_alloc = td_cuda_host_alloc,
    .host_free = td_cuda_free,
    .stream_open = td_cuda_stream_open,
    .stream_close = td_cuda_stream_close,
    .copy_to_device = td_cuda_copy_to_device,
    .copy_to_host = td_cuda_copy_to_host,
    .supports = supports,
    .workspace_bytes = workspace_bytes,
    .run = run,
    .poll = td_cuda_poll,
    .wait = td_cuda_wait,
};

__attribute__((visibility("default"))) const struct td_device_api *td_device_plugin(void);

const struct td_device_api *td_device_plugin(void)
{
    return &api;
}
