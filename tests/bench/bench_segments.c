/* bench_segments - runs the segment ops, for segments.py and for profiling.
 *
 *     bench_segments rows columns segments sorted|unsorted threads [dtype] [isa]
 *
 * The data is float32 unless another dtype is given, and the segment ids are int64. isa selects the
 * loops of an instruction set, as `tensord --isa` does. Each line of standard input names an op.
 * The reply is "ns", followed by the ns per call of the third fastest and of the median of 20
 * calls, and the sum of all output elements if the dtype is float32. The elements and the ids are
 * the same as those that segments.py gives to the libraries. */
#include "kernels/half.h"
#include "kernels/op_check.h"
#include "kernels/segments/segments.h"
#include "tests/bench/measure.h"
#include "tests/bench/on_pool.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CALLS 20

struct bench {
    struct td_exec *exec;
    struct td_tensor data, ids;
    int64_t n_segments;
    bool sorted;
    td_isa isa;
    void *output;
};

static void check(td_status status, const struct td_error *err)
{
    if (status == TD_OK)
        return;
    fprintf(stderr, "bench_segments: %s\n", err->message);
    exit(1);
}

static struct td_tensor tensor(td_dtype dtype, struct td_shape shape)
{
    struct td_tensor t;
    struct td_error err;
    check(td_tensor_describe(&t, "benchmark", dtype, &shape, &err), &err);
    t.data = huge_pages(t.bytes);
    return t;
}

/* ---- The same numbers as in segments.py --------------------------------------------------- */

static uint64_t mix(uint64_t i)
{
    uint64_t z = (i + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static void set(struct td_tensor *t, int64_t i)
{
    const int step = (int)(i % 251);
    const float real = (float)(step - 125) / 64;
    const double wide = (double)real;
    bool unsure;
    const uint16_t half = td_narrow_round(wide, TD_NARROW_FLOAT16, 0, &unsure);
    const int64_t integer = step - 125;
    const size_t size = td_dtype_info(t->dtype)->size;
    memcpy((char *)t->data + (size_t)i * size,
           t->dtype == TD_DTYPE_FLOAT32   ? (const void *)&real
           : t->dtype == TD_DTYPE_FLOAT64 ? (const void *)&wide
           : t->dtype == TD_DTYPE_FLOAT16 ? (const void *)&half
                                          : (const void *)&integer,
           size);
}

static int compare(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void make_tensors(struct bench *b, td_dtype dtype, int64_t rows, int64_t columns)
{
    const struct td_shape shape = { .rank = columns > 1 ? 2 : 1, .dim = { rows, columns } };
    b->data = tensor(dtype, shape);
    b->ids = tensor(TD_DTYPE_INT64, (struct td_shape){ .rank = 1, .dim = { rows } });
    for (int64_t i = 0; i < b->data.numel; i++)
        set(&b->data, i);
    int64_t *ids = b->ids.data;
    for (int64_t i = 0; i < rows; i++)
        ids[i] = (int64_t)(mix((uint64_t)i) % (uint64_t)b->n_segments);
    if (b->sorted)
        qsort(ids, (size_t)rows, sizeof(ids[0]), compare);
    b->output = huge_pages((size_t)(b->n_segments * columns) * td_dtype_info(dtype)->size);
}

/* ---- Calls -------------------------------------------------------------------------------- */

/* Returns the number of elements of the output. */
static int64_t call(struct bench *b, const struct td_op *op)
{
    static char space[64 * 1024];
    struct td_arena arena;
    struct td_op_args args;
    struct td_error err;
    memset(&args, 0, sizeof(args));
    td_arena_init(&arena, space, sizeof(space), td_memory_heap());
    args.inputs[0] = (struct td_operand){ &b->data, 1 };
    args.inputs[1] = (struct td_operand){ &b->ids, 1 };
    td_op_set_defaults(op, &args);
    args.attrs_set = 1;
    memcpy(args.attrs + offsetof(struct td_segments_attrs, num_segments), &b->n_segments,
           sizeof(b->n_segments));
    check(td_op_infer(op, &args, &arena, &err), &err);
    args.outputs[0].data = b->output;
    b->exec->arena = &arena;
    check(op->run(&args, b->exec, &err), &err);
    td_arena_reset(&arena);
    return args.outputs[0].numel;
}

static double sum(const struct bench *b, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; b->data.dtype == TD_DTYPE_FLOAT32 && i < n; i++)
        sum += (double)((const float *)b->output)[i];
    return sum;
}

static void serve(struct bench *b)
{
    char line[64];
    printf("ready\n");
    fflush(stdout);
    while (fgets(line, sizeof(line), stdin)) {
        const struct td_op *op = td_op_named(line, strcspn(line, " \n"));
        double ns[CALLS];
        if (!op)
            return;
        for (int i = 0; i < CALLS; i++) {
            const double begin = now_ns();
            call(b, op);
            ns[i] = now_ns() - begin;
        }
        const double middle = median(ns, CALLS); /* sorts them */
        printf("ns %.0f %.0f %.9g\n", ns[2], middle, sum(b, call(b, op)));
        fflush(stdout);
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

/* Returns false for an unknown word. */
static bool set_option(struct bench *b, td_dtype *dtype, const char *word)
{
    if (td_dtype_from_name(word, strlen(word), dtype))
        return *dtype != TD_DTYPE_STRING;
    for (td_isa isa = TD_ISA_AUTO; isa < TD_ISA_COUNT; isa++)
        if (strcmp(word, td_isa_name(isa)) == 0 && td_isa_supported(isa)) {
            b->isa = isa;
            return true;
        }
    return false;
}

int main(int argc, char **argv)
{
    static struct bench bench;
    const int64_t rows = argc >= 6 ? strtoll(argv[1], NULL, 10) : 0;
    const int64_t columns = argc >= 6 ? strtoll(argv[2], NULL, 10) : 0;
    const int threads = argc >= 6 ? (int)strtol(argv[5], NULL, 10) : 0;
    td_dtype dtype = TD_DTYPE_FLOAT32;
    bench.n_segments = argc >= 6 ? strtoll(argv[3], NULL, 10) : 0;
    bool understood = columns >= 1 && rows >= 1 && threads >= 1 && bench.n_segments >= 1;
    for (int i = 6; i < argc; i++)
        understood = set_option(&bench, &dtype, argv[i]) && understood;
    bench.sorted = understood && strcmp(argv[4], "sorted") == 0;
    if (!understood || (!bench.sorted && strcmp(argv[4], "unsorted") != 0)) {
        fprintf(stderr, "usage: bench_segments rows columns segments sorted|unsorted threads "
                        "[dtype] [isa]\n");
        return 2;
    }
    make_tensors(&bench, dtype, rows, columns);
    measure_on_pool(threads, on_pool, &bench);
    return 0;
}
