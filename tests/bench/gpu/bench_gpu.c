/* bench_gpu - compares the CUDA plugin with the limits of the device.
 *
 *     bench_gpu PLUGIN
 *
 * All calls go through the vtable, as in the daemon. They are timed from submission to completion,
 * and the best of several counts. The program prints each figure with a baseline measured in the
 * same run:
 *
 *     gather    random rows of 16 B to 4 KB from a large table; baseline: a copy in device memory.
 *               There are two figures: the bytes read, including indices, and written; and the
 *               bytes of the 32-byte sectors that this takes, 1.44 times as many for rows of 16
 *               bytes
 *     einsum    matrix products; baseline: the same product by cuBLAS, called directly
 *     lookups   64 lookups of 32 rows as one launch of 64 items; baseline: 64 launches
 *     search    the nearest of a million rows; baselines: the copy in device memory, and the
 *               float32 product that was measured when the device was opened
 *     overlap   matrix products with copies from and to the host, on two streams as in the daemon;
 *               baseline: the longest of copy to device, product and copy to host
 *
 * On a machine without a GPU, the last line starts with "skipped" and the exit status is 77. If a
 * machine has a GPU that does not open, the program fails. */
#include "gpu/cuda/runtime/cublas.h"
#include "gpu/loader/loader.h"
#include "kernels/einsum/einsum.h"
#include "kernels/op_check.h"
#include "kernels/search/search.h"
#include "tests/bench/measure.h"
#include "tests/gpu/no_device.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REPEATS 10

static const struct td_device_api *api;
static struct td_device *device;
static struct td_device_stream *stream;
static struct td_device_info info;
static struct td_error err;
static struct td_arena arena;

static void must(td_status status, const char *action)
{
    if (status == TD_OK)
        return;
    fprintf(stderr, "bench_gpu: %s: %s\n", action, err.message);
    exit(1);
}

static void must_cuda(cudaError_t error, const char *action)
{
    if (error == cudaSuccess)
        return;
    fprintf(stderr, "bench_gpu: %s: %s\n", action, cudaGetErrorString(error));
    exit(1);
}

static void *device_alloc(size_t bytes)
{
    void *memory;
    must(api->alloc(device, bytes, &memory, &err), "alloc");
    return memory;
}

/* Polls without sleeping, as cudaStreamSynchronize does for the baselines. A sleep in `wait` can
 * end late by the duration of a small product. */
static void synchronize(void)
{
    bool done = false;
    while (!done)
        must(api->poll(stream, &done, &err), "poll");
}

static void copy_to(void *to, const void *from, size_t bytes)
{
    must(api->copy_to_device(stream, to, from, bytes, &err), "copy_to_device");
    synchronize();
}

static struct td_tensor described(td_dtype dtype, struct td_shape shape, void *data)
{
    struct td_tensor tensor;
    must(td_tensor_describe(&tensor, "tensor", dtype, &shape, &err), "describe");
    tensor.data = data;
    return tensor;
}

/* One launch, ready to be submitted. */
struct launch {
    struct td_op_args args;
    struct td_device_work work;
};

static void launch_make(struct launch *launch, const char *op_name, void *out)
{
    const struct td_op *op = td_op_named(op_name, strlen(op_name));
    launch->work = (struct td_device_work){ .op = op, .args = &launch->args, .n_items = 1 };
    must(td_op_infer(op, &launch->args, &arena, &err), "infer");
    launch->args.outputs[0].data = out;
    size_t bytes = api->workspace_bytes(device, &launch->work);
    launch->work.workspace = bytes > 0 ? device_alloc(bytes) : NULL;
}

static double best_launch_ns(const struct launch *launches, int n)
{
    double best = 1e30;
    for (int repeat = 0; repeat <= REPEATS; repeat++) {
        double begin = now_ns();
        for (int i = 0; i < n; i++)
            must(api->run(stream, &launches[i].work, &err), "run");
        synchronize();
        double took = now_ns() - begin;
        if (repeat > 0 && took < best)
            best = took;
    }
    return best;
}

/* ---- gather ------------------------------------------------------------------------------ */

/* Returns the bandwidth of a copy in device memory, read and written, in GB/s. */
static double device_copy_rate(char *memory, size_t bytes)
{
    double best = 1e30;
    for (int repeat = 0; repeat <= REPEATS; repeat++) {
        double begin = now_ns();
        must_cuda(cudaMemcpyAsync(memory + bytes / 2, memory, bytes / 2, cudaMemcpyDeviceToDevice,
                                  cudaStreamPerThread),
                  "copy");
        must_cuda(cudaStreamSynchronize(cudaStreamPerThread), "copy");
        double took = now_ns() - begin;
        if (repeat > 0 && took < best)
            best = took;
    }
    return (double)bytes / best;
}

static uint32_t next_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*state >> 32);
}

static int32_t *random_indices(int64_t n, int64_t below)
{
    uint64_t state = 1;
    int32_t *indices = malloc((size_t)n * sizeof(*indices));
    if (!indices)
        exit(1);
    for (int64_t i = 0; i < n; i++)
        indices[i] = (int32_t)(next_random(&state) % (uint64_t)below);
    return indices;
}

static void lookup_make(struct launch *launch, void *table, int64_t rows, int64_t row_floats,
                        void *indices, int64_t n, void *out)
{
    struct td_tensor *inputs = td_arena_alloc(&arena, 2, sizeof(*inputs), &err);
    if (!inputs)
        exit(1);
    inputs[0] = described(TD_DTYPE_FLOAT32, (struct td_shape){ 2, { rows, row_floats } }, table);
    inputs[1] = described(TD_DTYPE_INT32, (struct td_shape){ 1, { n } }, indices);
    memset(launch, 0, sizeof(*launch));
    td_op_set_defaults(td_op_named("gather", strlen("gather")), &launch->args);
    launch->args.inputs[0] = (struct td_operand){ &inputs[0], 1 };
    launch->args.inputs[1] = (struct td_operand){ &inputs[1], 1 };
    launch_make(launch, "gather", out);
}

/* Returns the bytes in the sectors that reading a row fetches. A row whose size is a power of two
 * starts at a multiple of its size. */
static size_t sector_bytes(size_t row_bytes)
{
    enum { SECTOR = 32 };
    return row_bytes < SECTOR ? SECTOR : row_bytes;
}

/* limit: the bandwidth of a copy in GB/s. */
static void bench_gather_rows(char *table, size_t table_bytes, char *out, size_t out_bytes,
                              size_t row_bytes, double limit)
{
    const int64_t rows = (int64_t)(table_bytes / row_bytes);
    const int64_t n = (int64_t)(out_bytes / row_bytes);
    const size_t index_bytes = (size_t)n * sizeof(int32_t);
    int32_t *host = random_indices(n, rows);
    void *indices = device_alloc(index_bytes);
    struct launch launch;
    copy_to(indices, host, index_bytes);
    lookup_make(&launch, table, rows, (int64_t)row_bytes / 4, indices, n, out);
    const double ns = best_launch_ns(&launch, 1);
    const size_t sectors = (size_t)n * sector_bytes(row_bytes) + out_bytes + index_bytes;
    const double rate = (double)(2 * out_bytes + index_bytes) / ns;
    printf(
        "gather rows of %4zu B: %6.0f GB/s, %.2f of the copy; %zu MB of sectors, %.2f of what they "
        "allow\n",
        row_bytes, rate, rate / limit, sectors / 1000000, (double)sectors / ns / limit);
    api->free(device, indices);
    free(host);
}

static void bench_gather(void)
{
    size_t granularity = 0;
    const size_t table_bytes =
        info.memory > (UINT64_C(4) << 30) ? (size_t)1 << 30 : (size_t)(info.memory / 8) & ~4095UL;
    const size_t out_bytes = table_bytes / 4;
    char *table = device_alloc(table_bytes), *out = device_alloc(out_bytes);
    /* Copies as many bytes as a gather, so the launch latency affects both equally. */
    const double limit = device_copy_rate(table, 2 * out_bytes);
    printf("copy in device memory: %.0f GB/s read and written\n", limit);
    for (size_t row_bytes = 16; row_bytes <= 4096; row_bytes *= 4)
        bench_gather_rows(table, table_bytes, out, out_bytes, row_bytes, limit);
    /* Measures whether fetching less on a miss is faster for short rows. The limit is a hint for
     * the whole device. */
    if (cudaDeviceGetLimit(&granularity, cudaLimitMaxL2FetchGranularity) == cudaSuccess &&
        cudaDeviceSetLimit(cudaLimitMaxL2FetchGranularity, 32) == cudaSuccess) {
        printf("with L2 fetching 32 bytes at a time instead of %zu, a copy %.0f GB/s:\n",
               granularity, device_copy_rate(table, 2 * out_bytes));
        for (size_t row_bytes = 16; row_bytes <= 256; row_bytes *= 4)
            bench_gather_rows(table, table_bytes, out, out_bytes, row_bytes, limit);
        must_cuda(cudaDeviceSetLimit(cudaLimitMaxL2FetchGranularity, granularity), "set a limit");
    }
    (void)cudaGetLastError(); /* devices before 8.0 have no such limit */
    api->free(device, table);
    api->free(device, out);
}

/* ---- lookups ----------------------------------------------------------------------------- */

static void bench_lookups(void)
{
    enum { LOOKUPS = 64, ROWS = 32, FLOATS = 64, TABLE = 1 << 20 };
    const size_t row_bytes = FLOATS * sizeof(float);
    char *table = device_alloc((size_t)TABLE * row_bytes);
    char *out = device_alloc((size_t)LOOKUPS * ROWS * row_bytes);
    int32_t *host = random_indices((int64_t)LOOKUPS * ROWS, TABLE);
    char *indices = device_alloc((size_t)LOOKUPS * ROWS * sizeof(*host));
    static struct launch one, each[LOOKUPS];
    int64_t ends[LOOKUPS];
    void *reports;
    copy_to(indices, host, (size_t)LOOKUPS * ROWS * sizeof(*host));
    must(api->host_alloc(device, LOOKUPS * sizeof(struct td_device_report), &reports, &err),
         "host_alloc");
    for (int i = 0; i < LOOKUPS; i++) {
        ends[i] = (int64_t)(i + 1) * ROWS;
        lookup_make(&each[i], table, TABLE, FLOATS, indices + (size_t)i * ROWS * sizeof(*host),
                    ROWS, out + (size_t)i * ROWS * row_bytes);
        each[i].work.reports = (struct td_device_report *)reports + i;
    }
    lookup_make(&one, table, TABLE, FLOATS, indices, (int64_t)LOOKUPS * ROWS, out);
    one.work.n_items = LOOKUPS;
    one.work.item_end = ends;
    one.work.reports = reports;
    const double merged = best_launch_ns(&one, 1), separate = best_launch_ns(each, LOOKUPS);
    printf("%d lookups of %d rows: one launch %.1f us, %d launches %.1f us: %.1f times\n", LOOKUPS,
           ROWS, merged / 1e3, LOOKUPS, separate / 1e3, separate / merged);
    api->host_free(device, reports);
    api->free(device, table);
    api->free(device, out);
    api->free(device, indices);
    free(host);
}

/* ---- einsum ------------------------------------------------------------------------------ */

static const struct {
    td_dtype dtype;
    cudaDataType type;
    cublasComputeType_t compute;
    int64_t batch, side;
} products[] = {
    { TD_DTYPE_FLOAT32, CUDA_R_32F, CUBLAS_COMPUTE_32F, 1, 1024 },
    { TD_DTYPE_FLOAT32, CUDA_R_32F, CUBLAS_COMPUTE_32F, 1, 4096 },
    { TD_DTYPE_FLOAT32, CUDA_R_32F, CUBLAS_COMPUTE_32F, 64, 256 },
    { TD_DTYPE_FLOAT16, CUDA_R_16F, CUBLAS_COMPUTE_32F, 1, 4096 },
    { TD_DTYPE_BFLOAT16, CUDA_R_16BF, CUBLAS_COMPUTE_32F, 1, 4096 },
    { TD_DTYPE_BFLOAT16, CUDA_R_16BF, CUBLAS_COMPUTE_32F, 64, 512 },
    { TD_DTYPE_FLOAT64, CUDA_R_64F, CUBLAS_COMPUTE_64F, 1, 2048 },
};

/* Calls cuBLAS for the same row-major product: gemm_ex, or gemm_strided_batched_ex for a batch. */
static cublasStatus_t call_blas(int number, cublasHandle_t handle, const void *a, const void *b,
                                void *c)
{
    static const float floats[] = { 0, 1 };
    static const double doubles[] = { 0, 1 };
    const int64_t n = products[number].side, step = n * n, batch = products[number].batch;
    const cudaDataType type = products[number].type;
    const bool wide = products[number].dtype == TD_DTYPE_FLOAT64;
    const void *zero = wide ? (const void *)&doubles[0] : &floats[0];
    const void *one = wide ? (const void *)&doubles[1] : &floats[1];
    if (batch == 1)
        return td_cublas()->gemm_ex(handle, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, one, b, type, n, a,
                                    type, n, zero, c, type, n, products[number].compute,
                                    CUBLAS_GEMM_DEFAULT);
    return td_cublas()->gemm_strided_batched_ex(
        handle, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, one, b, type, n, step, a, type, n, step, zero, c,
        type, n, step, batch, products[number].compute, CUBLAS_GEMM_DEFAULT);
}

static double best_blas_ns(int number, cublasHandle_t handle, const void *a, const void *b, void *c)
{
    double best = 1e30;
    for (int repeat = 0; repeat <= REPEATS; repeat++) {
        double begin = now_ns();
        cublasStatus_t result = call_blas(number, handle, a, b, c);
        if (result != CUBLAS_STATUS_SUCCESS) {
            fprintf(stderr, "bench_gpu: cuBLAS: status %d\n", (int)result);
            exit(1);
        }
        must_cuda(cudaStreamSynchronize(cudaStreamPerThread), "cuBLAS");
        double took = now_ns() - begin;
        if (repeat > 0 && took < best)
            best = took;
    }
    return best;
}

static double einsum_ns(int number, void *a, void *b, void *c)
{
    const int64_t n = products[number].side;
    const struct td_shape shape = { 3, { products[number].batch, n, n } };
    const struct td_einsum_attrs attrs = { "zij,zjk->zik" };
    struct td_tensor inputs[2] = { described(products[number].dtype, shape, a),
                                   described(products[number].dtype, shape, b) };
    struct launch launch;
    memset(&launch, 0, sizeof(launch));
    launch.args.inputs[0] = (struct td_operand){ inputs, 2 };
    launch.args.attrs_set = 1;
    memcpy(launch.args.attrs, &attrs, sizeof(attrs));
    launch_make(&launch, "einsum", c);
    double best = best_launch_ns(&launch, 1);
    api->free(device, launch.work.workspace);
    return best;
}

/* Returns random numbers near 1. Products of zeros run faster on a device whose power limit
 * throttles it. */
static void *matrices(int number, size_t bytes)
{
    char *host = malloc(bytes), *memory = device_alloc(bytes);
    uint64_t state = 1;
    if (!host)
        exit(1);
    const size_t size = td_dtype_info(products[number].dtype)->size;
    memset(host, 0, bytes);
    for (size_t i = 0; i < bytes; i += size) { /* the upper bytes of 1 and nearby numbers */
        host[i + size - 1] = 0x3f;
        host[i + size - 2] = (char)(next_random(&state) & 0x7f);
    }
    copy_to(memory, host, bytes);
    free(host);
    return memory;
}

static void bench_einsum(void)
{
    const struct td_cublas *blas = td_cublas();
    cublasHandle_t handle = NULL;
    if (!blas) {
        printf("einsum: skipped, as cuBLAS cannot be loaded\n");
        return;
    }
    if (blas->create(&handle) != CUBLAS_STATUS_SUCCESS ||
        blas->set_stream(handle, cudaStreamPerThread) != CUBLAS_STATUS_SUCCESS) {
        fprintf(stderr, "bench_gpu: cuBLAS does not start\n");
        exit(1);
    }
    for (int i = 0; i < (int)(sizeof(products) / sizeof(products[0])); i++) {
        const int64_t side = products[i].side;
        const size_t bytes =
            (size_t)(products[i].batch * side * side) * td_dtype_info(products[i].dtype)->size;
        void *a = matrices(i, bytes), *b = matrices(i, bytes), *c = device_alloc(bytes);
        const double flops =
            2 * (double)products[i].batch * (double)side * (double)side * (double)side;
        const double ours = einsum_ns(i, a, b, c), theirs = best_blas_ns(i, handle, a, b, c);
        printf("einsum %s %lld x %lld^3: %.1f TFLOP/s, cuBLAS %.1f: ratio %.2f\n",
               td_dtype_info(products[i].dtype)->name, (long long)products[i].batch,
               (long long)side, flops / ours / 1e3, flops / theirs / 1e3, theirs / ours);
        api->free(device, a);
        api->free(device, b);
        api->free(device, c);
    }
    (void)blas->destroy(handle);
}

/* ---- search ------------------------------------------------------------------------------ */

enum { SEARCHED = 1 << 20, COLUMNS = 128, BEST = 10 };

/* limit: the bandwidth of a copy in GB/s. */
static void bench_search_for(void *table, int64_t n_queries, td_search_metric metric, double limit)
{
    const struct td_search_attrs attrs = { .k = BEST, .metric = metric };
    const size_t out_bytes = (size_t)n_queries * BEST * sizeof(int64_t);
    void *scores = device_alloc(out_bytes), *indices = device_alloc(out_bytes);
    struct td_tensor params =
        described(TD_DTYPE_FLOAT32, (struct td_shape){ 2, { SEARCHED, COLUMNS } }, table);
    struct td_tensor queries =
        described(TD_DTYPE_FLOAT32, (struct td_shape){ 2, { n_queries, COLUMNS } }, table);
    struct launch launch;
    memset(&launch, 0, sizeof(launch));
    td_op_set_defaults(&td_op_search, &launch.args);
    launch.args.inputs[TD_SEARCH_PARAMS] = (struct td_operand){ &params, 1 };
    launch.args.inputs[TD_SEARCH_QUERIES] = (struct td_operand){ &queries, 1 };
    memcpy(launch.args.attrs, &attrs, sizeof(attrs));
    launch_make(&launch, "search", scores);
    launch.args.outputs[TD_SEARCH_INDICES].data = indices;
    const double took = best_launch_ns(&launch, 1);
    const double rate = (double)params.bytes / took;
    const double flops = 2.0 * (double)n_queries * SEARCHED * COLUMNS;
    printf("search float32 [%d,%d] for %lld queries by %s: %.0f us, table %.0f GB/s, %.2f of the "
           "copy; %.1f TFLOP/s, %.2f of a product\n",
           SEARCHED, COLUMNS, (long long)n_queries, metric == TD_SEARCH_L2 ? "l2" : "dot",
           took / 1e3, rate, rate / limit, flops / took / 1e3,
           flops / took / 1e3 / ((double)info.float32_flops_per_us / 1e6));
    api->free(device, launch.work.workspace);
    api->free(device, scores);
    api->free(device, indices);
}

static void bench_search(void)
{
    static const int64_t n_queries[] = { 1, 4, 16, 256 };
    const size_t numel = (size_t)SEARCHED * COLUMNS, bytes = numel * sizeof(float);
    float *host = malloc(bytes);
    char *table = device_alloc(bytes);
    uint64_t state = 1;
    if (!host)
        exit(1);
    for (size_t i = 0; i < numel; i++)
        host[i] = (float)next_random(&state) * 0x1p-31F - 1;
    copy_to(table, host, bytes);
    free(host);
    char *copied = device_alloc(bytes);
    const double limit = device_copy_rate(copied, bytes);
    for (size_t i = 0; i < sizeof(n_queries) / sizeof(n_queries[0]); i++) {
        bench_search_for(table, n_queries[i], TD_SEARCH_DOT, limit);
        bench_search_for(table, n_queries[i], TD_SEARCH_L2, limit);
    }
    api->free(device, copied);
    api->free(device, table);
}

/* ---- overlap ----------------------------------------------------------------------------- */

/* A stream with pinned and device memory for one product in flight. */
struct lane {
    struct td_device_stream *stream;
    struct launch launch;
    char *host, *memory; /* both inputs, then the output */
};

enum { LANES = 2 };
enum { TO_DEVICE, RUN, TO_HOST, STAGES };

static void *pinned_alloc(size_t bytes)
{
    void *memory;
    must(api->host_alloc(device, bytes, &memory, &err), "host_alloc");
    memset(memory, 0, bytes);
    return memory;
}

static void lane_open(struct lane *lane, int64_t side)
{
    static const struct td_einsum_attrs attrs = { "ij,jk->ik" };
    const size_t bytes = (size_t)(side * side) * sizeof(float);
    const struct td_shape shape = { 2, { side, side } };
    struct td_tensor *inputs = td_arena_alloc(&arena, 2, sizeof(*inputs), &err);
    if (!inputs)
        exit(1);
    memset(lane, 0, sizeof(*lane));
    must(api->stream_open(device, &lane->stream, &err), "stream_open");
    lane->host = pinned_alloc(3 * bytes);
    lane->memory = device_alloc(3 * bytes);
    inputs[0] = described(TD_DTYPE_FLOAT32, shape, lane->memory);
    inputs[1] = described(TD_DTYPE_FLOAT32, shape, lane->memory + bytes);
    lane->launch.args.inputs[0] = (struct td_operand){ inputs, 2 };
    lane->launch.args.attrs_set = 1;
    memcpy(lane->launch.args.attrs, &attrs, sizeof(attrs));
    launch_make(&lane->launch, "einsum", lane->memory + 2 * bytes);
}

static void lane_close(struct lane *lane)
{
    api->free(device, lane->launch.work.workspace);
    api->free(device, lane->memory);
    api->host_free(device, lane->host);
    api->stream_close(lane->stream);
}

static void lane_submit(struct lane *lane, int stage, int64_t side)
{
    const size_t bytes = (size_t)(side * side) * sizeof(float);
    if (stage == TO_DEVICE)
        must(api->copy_to_device(lane->stream, lane->memory, lane->host, 2 * bytes, &err),
             "copy_to_device");
    else if (stage == RUN)
        must(api->run(lane->stream, &lane->launch.work, &err), "run");
    else
        must(api->copy_to_host(lane->stream, lane->host + 2 * bytes, lane->memory + 2 * bytes,
                               bytes, &err),
             "copy_to_host");
}

static void lane_synchronize(struct lane *lane)
{
    bool done = false;
    while (!done)
        must(api->poll(lane->stream, &done, &err), "poll");
}

static double best_stage_ns(struct lane *lane, int stage, int64_t side)
{
    double best = 1e30;
    for (int repeat = 0; repeat <= REPEATS; repeat++) {
        const double begin = now_ns();
        lane_submit(lane, stage, side);
        lane_synchronize(lane);
        const double took = now_ns() - begin;
        if (repeat > 0 && took < best)
            best = took;
    }
    return best;
}

/* Returns the time for each of many products, while one lane submits and the other runs. */
static double product_ns(struct lane *lanes, int64_t side)
{
    enum { PRODUCTS = 20 };
    const double begin = now_ns();
    for (int i = 0; i < PRODUCTS; i++) {
        lane_synchronize(&lanes[i % LANES]);
        for (int stage = TO_DEVICE; stage < STAGES; stage++)
            lane_submit(&lanes[i % LANES], stage, side);
    }
    for (int i = 0; i < LANES; i++)
        lane_synchronize(&lanes[i]);
    return (now_ns() - begin) / PRODUCTS;
}

static void bench_overlap(void)
{
    const int64_t side = info.memory > (UINT64_C(2) << 30) ? 4096 : 512;
    struct lane lanes[LANES];
    double stages[STAGES], sum = 0, longest = 0;
    for (int i = 0; i < LANES; i++)
        lane_open(&lanes[i], side);
    for (int stage = TO_DEVICE; stage < STAGES; stage++) {
        stages[stage] = best_stage_ns(&lanes[0], stage, side);
        sum += stages[stage];
        longest = stages[stage] > longest ? stages[stage] : longest;
    }
    const double took = product_ns(lanes, side);
    printf("einsum float32 %lld^3 from and to the host: copy to device %.0f us, product %.0f us, "
           "copy to host %.0f us; on %d streams %.0f us each: %.2f of the possible overlap\n",
           (long long)side, stages[TO_DEVICE] / 1e3, stages[RUN] / 1e3, stages[TO_HOST] / 1e3,
           LANES, took / 1e3, (sum - took) / (sum - longest));
    for (int i = 0; i < LANES; i++)
        lane_close(&lanes[i]);
}

int main(int argc, char **argv)
{
    struct td_device_library library;
    const struct td_device_options options = { .text = "fetch_bytes=0" };
    if (argc != 2) {
        fprintf(stderr, "usage: bench_gpu PLUGIN\n");
        return 2;
    }
    if (td_device_load(argv[1], &library, &err) != TD_OK) {
        fprintf(stderr, "bench_gpu: %s\n", err.message);
        return 1;
    }
    api = library.api;
    const td_status status = api->open(&options, &device, &err);
    if (status != TD_OK)
        return not_opened(api, status, err.message);
    must(api->stream_open(device, &stream, &err), "stream_open");
    api->info(device, &info);
    td_arena_init(&arena, NULL, 0, td_memory_heap());
    printf(
        "%s: a launch %.1f us, copies %.1f GB/s, back %.1f, into pinned memory %.1f by a thread, "
        "memory %.0f GB/s, float32 %.1f TFLOP/s\n",
        info.name, (double)info.launch_ns / 1e3, (double)info.copy_bytes_per_us / 1e3,
        (double)info.back_bytes_per_us / 1e3, (double)info.fill_bytes_per_us / 1e3,
        (double)info.device_bytes_per_us / 1e3, (double)info.float32_flops_per_us / 1e6);
    bench_gather();
    bench_lookups();
    bench_einsum();
    bench_search();
    bench_overlap();
    td_arena_reset(&arena);
    api->stream_close(stream);
    api->close(device);
    td_device_unload(&library);
    return 0;
}
