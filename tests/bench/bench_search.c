/* bench_search - runs the op search on a table, for search.py and for profiling.
 *
 *     bench_search dtype columns rows threads metric [isa]
 *
 * The table is float32, float16, bfloat16, float64 or int8 (with one scale and one offset for each
 * row). isa selects the loops of an instruction set, as `tensord --isa` does. Each line of standard
 * input is one measurement:
 *
 *     search QUERIES K CANDIDATES   calls with this number of queries; candidates 0: all rows
 *     read                          reads the table, without other work
 *     top_k K                       selects the best of the table's elements, as one row
 *
 * The reply is "ns", followed by the ns of the tenth fastest and of the median call, and the sum of
 * the row numbers that the first call found. The elements are the same as those that search.py
 * gives to other programs. */
#include "kernels/half.h"
#include "kernels/op_check.h"
#include "kernels/search/search.h"
#include "kernels/top_k/top_k.h"
#include "tests/bench/measure.h"
#include "tests/bench/on_pool.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_CALLS = 200, LEAST_CALLS = 7, MOST_QUERIES = 1024 };
#define MEASURED_NS 1.5e9

struct bench {
    struct td_exec *exec;
    struct td_tensor params, scale, offset, queries, candidates;
    int metric;
    td_isa isa;
    char *outputs[2];
};

static void check(td_status status, const struct td_error *err)
{
    if (status == TD_OK)
        return;
    fprintf(stderr, "bench_search: %s\n", err->message);
    exit(1);
}

static struct td_tensor tensor(td_dtype dtype, int rank, int64_t first, int64_t second)
{
    struct td_tensor t;
    struct td_error err;
    const struct td_shape shape = { .rank = rank, .dim = { first, second } };
    check(td_tensor_describe(&t, "benchmark", dtype, &shape, &err), &err);
    t.data = huge_pages(t.bytes);
    return t;
}

/* ---- The same numbers as in search.py ----------------------------------------------------- */

static uint64_t mix(uint64_t i)
{
    uint64_t z = (i + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Sets elements to multiples of 1/64 from -2 to 2. */
static void fill(struct td_tensor *t, uint64_t from)
{
    for (int64_t i = 0; i < t->numel; i++) {
        const int step = (int)(mix(from + (uint64_t)i) & 255) - 128;
        bool unsure;
        switch (t->dtype) {
        case TD_DTYPE_FLOAT64:
            ((double *)t->data)[i] = step / 64.0;
            break;
        case TD_DTYPE_FLOAT32:
            ((float *)t->data)[i] = (float)step / 64;
            break;
        case TD_DTYPE_FLOAT16:
            ((uint16_t *)t->data)[i] = td_narrow_round(step / 64.0, TD_NARROW_FLOAT16, 0, &unsure);
            break;
        case TD_DTYPE_BFLOAT16:
            ((uint16_t *)t->data)[i] = td_narrow_round(step / 64.0, TD_NARROW_BFLOAT16, 0, &unsure);
            break;
        default:
            ((int8_t *)t->data)[i] = (int8_t)step;
        }
    }
}

static void make_table(struct bench *b, const char *name, int64_t columns, int64_t rows)
{
    td_dtype dtype = TD_DTYPE_FLOAT32;
    if (!td_dtype_from_name(name, strlen(name), &dtype)) {
        fprintf(stderr, "bench_search: %s is no dtype\n", name);
        exit(2);
    }
    b->params = tensor(dtype, 2, rows, columns);
    fill(&b->params, 0);
    if (dtype == TD_DTYPE_INT8) {
        b->scale = tensor(TD_DTYPE_FLOAT32, 1, rows, 1);
        b->offset = tensor(TD_DTYPE_FLOAT32, 1, rows, 1);
        for (int64_t row = 0; row < rows; row++) {
            ((float *)b->scale.data)[row] = 1.0F / 64;
            ((float *)b->offset.data)[row] = 0;
        }
    }
}

/* Distance of the candidates, a prime number: they are all different. */
#define CANDIDATE_STRIDE INT64_C(7368787)

/* ---- Calls -------------------------------------------------------------------------------- */

static void set(struct td_op_args *args, int input, struct td_tensor *tensor)
{
    if (tensor->data)
        args->inputs[input] = (struct td_operand){ tensor, 1 };
}

/* Returns the sum of the row numbers. */
static int64_t search(struct bench *b, int64_t k)
{
    char space[2048];
    struct td_arena arena;
    struct td_op_args args;
    struct td_error err;
    int64_t sum = 0;
    memset(&args, 0, sizeof(args));
    td_arena_init(&arena, space, sizeof(space), td_memory_heap());
    td_op_set_defaults(&td_op_search, &args);
    set(&args, TD_SEARCH_PARAMS, &b->params);
    set(&args, TD_SEARCH_QUERIES, &b->queries);
    set(&args, TD_SEARCH_CANDIDATES, &b->candidates);
    set(&args, TD_SEARCH_SCALE, &b->scale);
    set(&args, TD_SEARCH_OFFSET, &b->offset);
    memcpy(args.attrs + offsetof(struct td_search_attrs, k), &k, sizeof(k));
    memcpy(args.attrs + offsetof(struct td_search_attrs, metric), &b->metric, sizeof(b->metric));
    args.attrs_set = 1;
    check(td_op_infer(&td_op_search, &args, &arena, &err), &err);
    for (int i = 0; i < args.n_outputs; i++)
        args.outputs[i].data = b->outputs[i];
    b->exec->arena = &arena;
    check(td_op_search.run(&args, b->exec, &err), &err);
    for (int64_t i = 0; i < args.outputs[1].numel; i++)
        sum += ((const int64_t *)args.outputs[1].data)[i];
    td_arena_reset(&arena);
    return sum;
}

static int64_t top_k(struct bench *b, int64_t k)
{
    char space[2048];
    struct td_arena arena;
    struct td_op_args args;
    struct td_error err;
    struct td_tensor row = b->params;
    int64_t sum = 0;
    row.shape = (struct td_shape){ .rank = 1, .dim = { row.numel } };
    memset(&args, 0, sizeof(args));
    td_arena_init(&arena, space, sizeof(space), td_memory_heap());
    td_op_set_defaults(&td_op_top_k, &args);
    set(&args, 0, &row);
    memcpy(args.attrs + offsetof(struct td_top_k_attrs, k), &k, sizeof(k));
    args.attrs_set = 1;
    check(td_op_infer(&td_op_top_k, &args, &arena, &err), &err);
    for (int i = 0; i < args.n_outputs; i++)
        args.outputs[i].data = b->outputs[i];
    b->exec->arena = &arena;
    check(td_op_top_k.run(&args, b->exec, &err), &err);
    for (int64_t i = 0; i < args.outputs[1].numel; i++)
        sum += ((const int32_t *)args.outputs[1].data)[i];
    td_arena_reset(&arena);
    return sum;
}

#define CHUNK      ((int64_t)1 << 20)
#define READ_AHEAD 4096 /* bytes */

/* Adds the words of some chunks of the table, with as many loads in flight as the processor has. */
static void read_range(void *context, int64_t begin, int64_t end)
{
    typedef uint64_t words __attribute__((vector_size(32)));
    struct bench *b = context;
    const char *from = (const char *)b->params.data + begin * CHUNK;
    const int64_t bytes =
        (end * CHUNK > (int64_t)b->params.bytes ? (int64_t)b->params.bytes : end * CHUNK) -
        begin * CHUNK;
    words sum[4] = { 0 };
    for (int64_t i = 0; i + 128 <= bytes; i += 128) {
        __builtin_prefetch(from + i + READ_AHEAD, 0, 2);
        __builtin_prefetch(from + i + READ_AHEAD + 64, 0, 2);
        for (int j = 0; j < 4; j++) {
            words word;
            memcpy(&word, from + i + 32 * j, sizeof(word));
            sum[j] += word;
        }
    }
    const words all = sum[0] + sum[1] + sum[2] + sum[3];
    __asm__ volatile("" : : "r"(&all) : "memory");
}

static int64_t read_table(struct bench *b, int64_t k)
{
    struct td_error err;
    (void)k;
    check(td_exec_for(b->exec, ((int64_t)b->params.bytes + CHUNK - 1) / CHUNK, 1, read_range, b,
                      &err),
          &err);
    return 0;
}

static void measure(struct bench *b, int64_t (*call)(struct bench *b, int64_t k), int64_t k)
{
    double ns[MOST_CALLS], all = 0;
    int n = 0;
    const int64_t sum = call(b, k);
    while (n < MOST_CALLS && (n < LEAST_CALLS || all < MEASURED_NS)) {
        const double begin = now_ns();
        call(b, k);
        ns[n] = now_ns() - begin;
        all += ns[n++];
    }
    const double middle = median(ns, n); /* sorts them */
    printf("ns %.0f %.0f %" PRId64 "\n", ns[n / 10], middle, sum);
    fflush(stdout);
}

static void make_queries(struct bench *b, int64_t n_queries, int64_t n_candidates)
{
    b->queries = tensor(TD_DTYPE_FLOAT32, 2, n_queries, b->params.shape.dim[1]);
    fill(&b->queries, UINT64_C(1) << 40);
    b->candidates = (struct td_tensor){ 0 };
    if (n_candidates == 0)
        return;
    b->candidates = tensor(TD_DTYPE_INT64, 1, n_candidates, 1);
    for (int64_t i = 0; i < n_candidates; i++)
        ((int64_t *)b->candidates.data)[i] = i * CANDIDATE_STRIDE % b->params.shape.dim[0];
}

static void serve(struct bench *b)
{
    char line[96];
    printf("ready\n");
    fflush(stdout);
    while (fgets(line, sizeof(line), stdin)) {
        int64_t n_queries, k, n_candidates;
        if (strcmp(line, "read\n") == 0)
            measure(b, read_table, 0);
        else if (sscanf(line, "top_k %" SCNd64, &k) == 1)
            measure(b, top_k, k);
        else if (sscanf(line, "search %" SCNd64 " %" SCNd64 " %" SCNd64, &n_queries, &k,
                        &n_candidates) == 3 &&
                 n_queries >= 1 && n_queries <= MOST_QUERIES) {
            make_queries(b, n_queries, n_candidates);
            measure(b, search, k);
        } else
            return;
    }
}

/* ---- On the worker pool ------------------------------------------------------------------- */

static void on_pool(struct td_exec *exec, void *context)
{
    struct bench *bench = context;
    exec->isa = bench->isa;
    bench->exec = exec;
    serve(bench);
}

static bool set_isa(struct bench *b, const char *word)
{
    for (td_isa isa = TD_ISA_AUTO; isa < TD_ISA_COUNT; isa++)
        if (strcmp(word, td_isa_name(isa)) == 0 && td_isa_supported(isa)) {
            b->isa = isa;
            return true;
        }
    return false;
}

static bool set_metric(struct bench *b, const char *word)
{
    static const char *const names[] = { "dot", "cosine", "l2" };
    for (int i = 0; i < 3; i++)
        if (strcmp(word, names[i]) == 0) {
            b->metric = i;
            return true;
        }
    return false;
}

int main(int argc, char **argv)
{
    static struct bench bench;
    const bool enough = argc == 6 || argc == 7;
    const int64_t columns = enough ? strtoll(argv[2], NULL, 10) : 0;
    const int64_t rows = enough ? strtoll(argv[3], NULL, 10) : 0;
    const int threads = enough ? (int)strtol(argv[4], NULL, 10) : 0;
    if (columns < 1 || rows < 1 || threads < 1 || !set_metric(&bench, argv[5]) ||
        (argc == 7 && !set_isa(&bench, argv[6]))) {
        fprintf(stderr, "usage: bench_search float32|float16|bfloat16|float64|int8 columns rows "
                        "threads dot|cosine|l2 [isa]\n");
        return 2;
    }
    make_table(&bench, argv[1], columns, rows);
    for (int i = 0; i < 2; i++)
        bench.outputs[i] = huge_pages((size_t)64 << 20);
    measure_on_pool(threads, on_pool, &bench);
    return 0;
}
