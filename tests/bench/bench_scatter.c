/* bench_scatter - measures the speed of updating rows of a large table in place.
 *
 *     bench_scatter [rounds [threads [row bytes]]]
 *
 * A round writes 64 MB of updates, at most a million, to random rows of a 1 GiB table (in huge
 * pages if possible). The op runs as in the daemon, on a worker pool of `threads` (2), and checks
 * the indices. "set" replaces; "add" adds float32. "loop" is memcpy row by row on one thread,
 * without checks. "memcpy" copies the same number of bytes, one block for each thread. They
 * alternate; figures are medians, in ns per row. Ratios are medians over the rounds, above 1 if
 * "set" is faster. */
#include "kernels/op_check.h"
#include "kernels/scatter/scatter.h"
#include "tests/bench/measure.h"
#include "tests/bench/on_pool.h"
#include "tests/support/random.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TABLE_BYTES  ((size_t)1 << 30)
#define UPDATE_BYTES ((size_t)64 << 20)
#define MAX_UPDATES  ((int64_t)1 << 20)
#define INDEX_SETS   4
#define MAX_ROUNDS   101

static void check(td_status status, const struct td_error *err)
{
    if (status == TD_OK)
        return;
    fprintf(stderr, "bench_scatter: %s\n", err->message);
    exit(1);
}

/* ---- Cases ------------------------------------------------------------------------------- */

static char *table, *updates, *copies;
static int32_t *indices[INDEX_SETS];

struct bench {
    struct td_exec *exec;
    int rounds, threads;
    size_t only; /* row bytes; 0: all */
    size_t row_bytes;
    int64_t n;
    int set; /* of indices */
    td_scatter_mode mode;
};

static struct td_tensor over(void *data, td_dtype dtype, int64_t rows, int64_t columns)
{
    struct td_tensor tensor;
    struct td_error err;
    struct td_shape shape = { .rank = 2, .dim = { rows, columns } };
    check(td_tensor_describe(&tensor, "benchmark", dtype, &shape, &err), &err);
    tensor.data = data;
    return tensor;
}

static void run_op(const struct bench *b)
{
    int64_t columns = (int64_t)(b->row_bytes / sizeof(float));
    struct td_tensor inputs[] = {
        over(table, TD_DTYPE_FLOAT32, (int64_t)(TABLE_BYTES / b->row_bytes), columns),
        over(indices[b->set], TD_DTYPE_INT32, b->n, 1),
        over(updates, TD_DTYPE_FLOAT32, b->n, columns),
    };
    char space[1024];
    struct td_arena arena;
    struct td_op_args args;
    struct td_error err;
    memset(&args, 0, sizeof(args));
    td_arena_init(&arena, space, sizeof(space), td_memory_heap());
    for (int i = 0; i < 3; i++)
        args.inputs[i] = (struct td_operand){ &inputs[i], 1 };
    td_op_set_defaults(&td_op_scatter, &args);
    td_op_set_choice(&td_op_scatter.attrs[0], &args, (int)b->mode);
    check(td_op_infer(&td_op_scatter, &args, &arena, &err), &err);
    args.outputs[0].data = table;
    b->exec->arena = &arena;
    check(td_op_scatter.run(&args, b->exec, &err), &err);
    td_arena_reset(&arena);
}

static void run_loop(const struct bench *b)
{
    for (int64_t k = 0; k < b->n; k++)
        memcpy(table + (size_t)indices[b->set][k] * b->row_bytes,
               updates + (size_t)k * b->row_bytes, b->row_bytes);
}

static void copy_range(void *context, int64_t begin, int64_t end)
{
    (void)context;
    memcpy(copies + begin, updates + begin, (size_t)(end - begin));
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

static double time_of(void (*f)(const struct bench *), struct bench *b)
{
    b->set = (b->set + 1) %
             INDEX_SETS; /* other rows than in the previous round, whose rows are in the cache */
    double begin = now_ns();
    f(b);
    return (now_ns() - begin) / (double)b->n;
}

static void measure(struct bench *b)
{
    double set[MAX_ROUNDS], sum[MAX_ROUNDS], loop[MAX_ROUNDS], copy[MAX_ROUNDS],
        to_loop[MAX_ROUNDS], to_copy[MAX_ROUNDS];
    for (int s = 0; s < INDEX_SETS; s++)
        for (int64_t k = 0; k < b->n; k++)
            indices[s][k] = (int32_t)(random_next() % (TABLE_BYTES / b->row_bytes));
    for (int r = -1; r < b->rounds; r++) { /* the first is a warm-up */
        int at = r < 0 ? 0 : r;
        b->mode = TD_SCATTER_SET;
        set[at] = time_of(run_op, b);
        loop[at] = time_of(run_loop, b);
        copy[at] = time_of(run_memcpy, b);
        b->mode = TD_SCATTER_ADD;
        sum[at] = time_of(run_op, b);
        to_loop[at] = loop[at] / set[at];
        to_copy[at] = copy[at] / set[at];
    }
    printf("%7" PRId64 " rows of %4zu B  set %7.2f  add %7.2f  loop %7.2f  memcpy %7.2f ns"
           "   loop/set %5.2f  memcpy/set %5.2f\n",
           b->n, b->row_bytes, median(set, b->rounds), median(sum, b->rounds),
           median(loop, b->rounds), median(copy, b->rounds), median(to_loop, b->rounds),
           median(to_copy, b->rounds));
    fflush(stdout);
}

static void measure_all(struct bench *b)
{
    static const size_t widths[] = { 16, 64, 256, 1024, 4096 };
    for (size_t w = 0; w < sizeof(widths) / sizeof(widths[0]); w++) {
        b->row_bytes = widths[w];
        if (b->only && b->row_bytes != b->only)
            continue;
        b->n = (int64_t)(UPDATE_BYTES / b->row_bytes);
        b->n = b->n < MAX_UPDATES ? b->n : MAX_UPDATES;
        measure(b);
    }
}

/* ---- On the worker pool ------------------------------------------------------------------ */

static void on_pool(struct td_exec *exec, void *context)
{
    struct bench *bench = context;
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
        fprintf(stderr, "usage: bench_scatter [rounds [threads [row bytes]]], 1 to %d rounds\n",
                MAX_ROUNDS);
        return 2;
    }
    print_cpu("cpu");
    random_seed(1);
    table = huge_pages(TABLE_BYTES);
    updates = huge_pages(UPDATE_BYTES);
    copies = huge_pages(UPDATE_BYTES);
    for (int s = 0; s < INDEX_SETS; s++)
        indices[s] = huge_pages((size_t)MAX_UPDATES * sizeof(indices[s][0]));
    measure_on_pool(bench.threads, on_pool, &bench);
    return 0;
}
