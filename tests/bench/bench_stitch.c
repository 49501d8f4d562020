/* bench_stitch - measures the speed of dynamic_stitch and dynamic_partition.
 *
 *     bench_stitch [rounds [threads [row bytes]]]
 *
 * The ops run as in the daemon: on a worker pool of `threads` (2), with warm buffers and checks of
 * the indices. "loop" is memcpy row by row on one thread, as in TensorFlow's CPU kernels. It does
 * not check indices, and does not clear rows that no index names. "memcpy" copies the same number
 * of bytes, one block for each thread. The three alternate; figures are medians, in ns per row.
 * Ratios are medians over the rounds, above 1 if the op is faster. */
#include "kernels/dynamic_partition/dynamic_partition.h"
#include "kernels/dynamic_stitch/dynamic_stitch.h"
#include "kernels/op_check.h"
#include "server/memory/buffer_pool.h"
#include "tests/bench/measure.h"
#include "tests/bench/on_pool.h"
#include "tests/support/random.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_BYTES  ((size_t)256 << 20)
#define MAX_ROWS   ((int64_t)10000000)
#define MAX_LISTS  16
#define MAX_ROUNDS 101

static void check(td_status status, const struct td_error *err)
{
    if (status == TD_OK)
        return;
    fprintf(stderr, "bench_stitch: %s\n", err->message);
    exit(1);
}

/* ---- Cases ------------------------------------------------------------------------------- */

/* The order of the indices: a permutation; ascending lists, as a partition returns them; or random
 * indices, so some rows are named twice and some never. */
enum order { PERMUTED, ASCENDING, RANDOM, N_ORDERS };
static const char *const order_names[N_ORDERS] = { "permuted", "ascending", "random" };

static char *out, *data;
static int32_t *indices;
static struct td_memory *memory;

struct bench {
    const struct td_op *op;
    size_t row_bytes;
    int64_t n;
    int n_lists; /* of a stitch; outputs of a partition */
    int rounds;
    size_t only; /* row bytes; 0: all */
    enum order order;
    int threads;
    struct td_exec *exec;
};

static struct td_tensor over(void *place, td_dtype dtype, int64_t rows, size_t row_bytes)
{
    struct td_shape shape = { .rank = row_bytes > 0 ? 2 : 1, .dim = { rows, (int64_t)row_bytes } };
    struct td_tensor tensor;
    struct td_error err;
    check(td_tensor_describe(&tensor, "benchmark", dtype, &shape, &err), &err);
    tensor.data = place;
    return tensor;
}

static void fill_indices(const struct bench *b)
{
    int64_t n = b->n;
    if (b->op == &td_op_dynamic_partition) {
        for (int64_t i = 0; i < n; i++)
            indices[i] = (int32_t)(random_next() % (uint64_t)b->n_lists);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        indices[i] = (int32_t)(b->order == RANDOM ? random_next() % (uint64_t)n : (uint64_t)i);
    if (b->order == PERMUTED) {
        for (int64_t i = n - 1; i > 0; i--) {
            int64_t j = (int64_t)(random_next() % (uint64_t)(i + 1));
            int32_t other = indices[i];
            indices[i] = indices[j];
            indices[j] = other;
        }
    } else if (b->order == ASCENDING) {
        for (int64_t i = 0, m = 0; m < b->n_lists; m++)
            for (int64_t row = m; row < n; row += b->n_lists)
                indices[i++] = (int32_t)row;
    }
}

/* The arguments of a decoded request. */
static struct td_tensor tensors[2][MAX_LISTS];
static struct td_op_args args;

static void fill_args(const struct bench *b)
{
    td_op_set_defaults(b->op, &args);
    int lists = b->op == &td_op_dynamic_partition ? 1 : b->n_lists;
    for (int m = 0; m < lists; m++) {
        int64_t begin = b->n * m / lists, end = b->n * (m + 1) / lists;
        tensors[0][m] = over(indices + begin, TD_DTYPE_INT32, end - begin, 0);
        tensors[1][m] =
            over(data + (size_t)begin * b->row_bytes, TD_DTYPE_UINT8, end - begin, b->row_bytes);
    }
    args.plan = NULL;
    bool stitch = b->op != &td_op_dynamic_partition;
    args.inputs[0] = (struct td_operand){ tensors[stitch ? 0 : 1], lists };
    args.inputs[1] = (struct td_operand){ tensors[stitch ? 1 : 0], lists };
    int64_t partitions = b->n_lists;
    if (!stitch)
        memcpy(args.attrs, &partitions, sizeof(partitions));
    args.attrs_set = 1;
}

/* Infers and runs. */
static void run_op(const struct bench *b)
{
    static char first_block[16384];
    struct td_arena arena;
    struct td_error err;
    td_arena_init(&arena, first_block, sizeof(first_block), memory);
    check(td_op_infer(b->op, &args, &arena, &err), &err);
    char *place = out;
    for (int p = 0; p < args.n_outputs; p++) {
        args.outputs[p].data = place;
        place += (args.outputs[p].bytes + 63) / 64 * 64;
    }
    b->exec->arena = &arena;
    check(b->op->run(&args, b->exec, &err), &err);
    td_arena_reset(&arena);
}

static __attribute__((noinline)) void run_loop(const struct bench *b)
{
    size_t row_bytes = b->row_bytes;
    if (b->op != &td_op_dynamic_partition) {
        for (int64_t i = 0; i < b->n; i++)
            memcpy(out + (size_t)indices[i] * row_bytes, data + (size_t)i * row_bytes, row_bytes);
        return;
    }
    char *next[MAX_LISTS] = { out };
    int64_t count[MAX_LISTS] = { 0 };
    for (int64_t i = 0; i < b->n; i++)
        count[indices[i]]++;
    for (int p = 1; p < b->n_lists; p++)
        next[p] = next[p - 1] + (size_t)count[p - 1] * row_bytes;
    for (int64_t i = 0; i < b->n; i++) {
        memcpy(next[indices[i]], data + (size_t)i * row_bytes, row_bytes);
        next[indices[i]] += row_bytes;
    }
}

static void copy_range(void *context, int64_t begin, int64_t end)
{
    (void)context;
    memcpy(out + begin, data + begin, (size_t)(end - begin));
}

static void run_memcpy(const struct bench *b)
{
    struct td_error err;
    int64_t bytes = b->n * (int64_t)b->row_bytes;
    bool parallel = bytes > 256 * 1024; /* for fewer bytes, waking a thread costs more */
    check(td_exec_for(b->exec, bytes, parallel ? (bytes - 1) / b->threads + 1 : bytes, copy_range,
                      NULL, &err),
          &err);
}

static double time_of(void (*f)(const struct bench *), const struct bench *b)
{
    int64_t repeats = 20000 / b->n + 1;
    double begin = now_ns();
    for (int64_t i = 0; i < repeats; i++)
        f(b);
    return (now_ns() - begin) / (double)(repeats * b->n);
}

static void measure(const struct bench *b)
{
    double op[MAX_ROUNDS], loop[MAX_ROUNDS], copy[MAX_ROUNDS], to_loop[MAX_ROUNDS],
        to_copy[MAX_ROUNDS];
    fill_indices(b);
    fill_args(b);
    for (int r = -1; r < b->rounds; r++) { /* the first is a warm-up */
        int at = r < 0 ? 0 : r;
        op[at] = time_of(run_op, b);
        loop[at] = time_of(run_loop, b);
        copy[at] = time_of(run_memcpy, b);
        to_loop[at] = loop[at] / op[at];
        to_copy[at] = copy[at] / op[at];
    }
    bool stitch = b->op != &td_op_dynamic_partition;
    printf("%-17s %-9s %8" PRId64 " rows of %6zu B, %2d %s  op %9.2f  loop %9.2f  memcpy %9.2f ns"
           "   loop/op %5.2f  memcpy/op %5.2f\n",
           b->op->name, stitch ? order_names[b->order] : "random", b->n, b->row_bytes, b->n_lists,
           stitch ? "lists" : "parts", median(op, b->rounds), median(loop, b->rounds),
           median(copy, b->rounds), median(to_loop, b->rounds), median(to_copy, b->rounds));
    fflush(stdout);
}

static void measure_all(struct bench *b)
{
    static const size_t widths[] = { 4, 16, 32, 64, 100, 256, 1024, 4096, 262144 };
    static const int64_t counts[] = { 10, 250, 1000, 4000, 30000, 100000, 1000000, 10000000 };
    for (size_t w = 0; w < sizeof(widths) / sizeof(widths[0]); w++) {
        for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
            b->row_bytes = widths[w];
            b->n = counts[c];
            if ((b->only && b->row_bytes != b->only) || (size_t)b->n * b->row_bytes > MAX_BYTES)
                continue;
            b->op = td_op_named("dynamic_stitch", 14);
            b->n_lists = 4;
            for (enum order order = PERMUTED; order < N_ORDERS; order++) {
                b->order = order;
                measure(b);
            }
            b->op = &td_op_dynamic_partition;
            b->n_lists = 8;
            measure(b);
        }
    }
}

/* ---- On the worker pool ------------------------------------------------------------------ */

static void on_pool(struct td_exec *exec, void *context)
{
    struct bench *bench = context;
    exec->output_limit = UINT64_MAX;
    bench->exec = exec;
    measure_all(bench);
}

int main(int argc, char **argv)
{
    static struct bench bench;
    bench.rounds = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 7;
    bench.threads = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 2;
    bench.only = argc > 3 ? (size_t)strtoul(argv[3], NULL, 10) : 0;
    if (bench.rounds < 1 || bench.rounds > MAX_ROUNDS || bench.threads < 1) {
        fprintf(stderr, "usage: bench_stitch [rounds [threads [row bytes]]], 1 to %d rounds\n",
                MAX_ROUNDS);
        return 2;
    }
    struct td_buffer_pool *buffers = td_buffer_pool_new((uint64_t)4 << 30, (uint64_t)1 << 30);
    if (!buffers)
        return 1;
    memory = td_buffer_pool_memory(buffers);
    random_seed(1);
    out = huge_pages(MAX_BYTES + MAX_LISTS * 64);
    data = huge_pages(MAX_BYTES);
    indices = huge_pages((size_t)MAX_ROWS * sizeof(indices[0]));
    measure_on_pool(bench.threads, on_pool, &bench);
    td_buffer_pool_free(buffers);
    free(out);
    free(data);
    free(indices);
    return 0;
}
