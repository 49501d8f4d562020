/* bench_statistics - compares the statistics of a tensor with a loop that only reads the tensor.
 *
 *     bench_statistics dtype rows columns threads
 *
 * Prints the GB/s of both, medians of 9 alternating runs, and the ratio. */
#include "kernels/half.h"
#include "kernels/statistics/statistics.h"
#include "tests/bench/measure.h"
#include "tests/bench/on_pool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RUNS = 9, READ_BYTES = 1 << 20 };

struct bench {
    struct td_tensor tensor;
    struct td_exec *exec;
};

static void check(td_status status, const struct td_error *err)
{
    if (status == TD_OK)
        return;
    fprintf(stderr, "bench_statistics: %s\n", err->message);
    exit(1);
}

/* ---- The reading loop --------------------------------------------------------------------- */

struct reading {
    const char *data;
    size_t bytes;
    atomic_uint_fast64_t sum; /* gives the loop a result */
};

static void read_range(void *context, int64_t begin, int64_t end)
{
    struct reading *reading = context;
    const size_t first = (size_t)begin * READ_BYTES;
    const size_t last =
        (size_t)end * READ_BYTES < reading->bytes ? (size_t)end * READ_BYTES : reading->bytes;
    const uint64_t *words = (const void *)(reading->data + first);
    uint64_t sum[32] = { 0 };
    for (size_t i = 0; i + 32 <= (last - first) / sizeof *words; i += 32)
        for (size_t j = 0; j < 32; j++)
            sum[j] ^= words[i + j];
    for (size_t j = 1; j < 32; j++)
        sum[0] += sum[j];
    atomic_fetch_add(&reading->sum, sum[0]);
}

static double read_all(struct bench *bench)
{
    struct td_error err;
    struct reading reading = { .data = bench->tensor.data, .bytes = bench->tensor.bytes };
    const double begin = now_ns();
    check(td_exec_for(bench->exec, (int64_t)((reading.bytes + READ_BYTES - 1) / READ_BYTES), 1,
                      read_range, &reading, &err),
          &err);
    return now_ns() - begin;
}

/* ---- Statistics --------------------------------------------------------------------------- */

static double compute(struct bench *bench)
{
    struct td_arena arena;
    struct td_error err;
    td_arena_init(&arena, NULL, 0, td_memory_heap());
    struct td_statistics *out =
        td_arena_alloc(&arena, td_statistics_bytes(&bench->tensor), 1, &err);
    if (!out)
        check(err.status, &err);
    bench->exec->arena = &arena;
    const double begin = now_ns();
    check(td_statistics_run(&bench->tensor, bench->exec, out, &err), &err);
    const double ns = now_ns() - begin;
    td_arena_reset(&arena);
    return ns;
}

static void fill(struct td_tensor *tensor)
{
    const size_t size = td_dtype_info(tensor->dtype)->size;
    uint64_t state = 1;
    for (int64_t i = 0; i < tensor->numel; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        char *to = (char *)tensor->data + (size_t)i * size;
        const float real = (float)(int32_t)(state >> 32) * 0x1p-31f;
        const double wide = (double)real;
        bool unsure;
        const uint16_t half = td_narrow_round(wide, TD_NARROW_FLOAT16, 0, &unsure);
        memcpy(to,
               tensor->dtype == TD_DTYPE_FLOAT32   ? (const void *)&real
               : tensor->dtype == TD_DTYPE_FLOAT64 ? (const void *)&wide
               : tensor->dtype == TD_DTYPE_FLOAT16 ? (const void *)&half
                                                   : (const void *)&state,
               size);
    }
}

static void measure(struct bench *bench)
{
    double reading[RUNS], computing[RUNS];
    const double bytes = (double)bench->tensor.bytes;
    for (int i = 0; i < RUNS; i++) {
        reading[i] = read_all(bench);
        computing[i] = compute(bench);
    }
    const double read_rate = bytes / median(reading, RUNS), rate = bytes / median(computing, RUNS);
    printf("%.2f GB/s, reading %.2f GB/s, ratio %.2f\n", rate, read_rate, rate / read_rate);
}

/* ---- On the worker pool ------------------------------------------------------------------- */

static void on_pool(struct td_exec *exec, void *context)
{
    struct bench *bench = context;
    bench->exec = exec;
    measure(bench);
}

int main(int argc, char **argv)
{
    static struct bench bench;
    td_dtype dtype;
    struct td_error err;
    struct td_shape shape = { .rank = 2 };
    const int threads = argc == 5 ? (int)strtol(argv[4], NULL, 10) : 0;
    if (threads < 1 || !td_dtype_from_name(argv[1], strlen(argv[1]), &dtype) ||
        dtype == TD_DTYPE_STRING) {
        fprintf(stderr, "usage: bench_statistics dtype rows columns threads\n");
        return 2;
    }
    shape.dim[0] = strtoll(argv[2], NULL, 10);
    shape.dim[1] = strtoll(argv[3], NULL, 10);
    check(td_tensor_describe(&bench.tensor, "benchmark", dtype, &shape, &err), &err);
    bench.tensor.data = huge_pages(bench.tensor.bytes);
    fill(&bench.tensor);
    measure_on_pool(threads, on_pool, &bench);
    free(bench.tensor.data);
    return 0;
}
