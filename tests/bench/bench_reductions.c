/* bench_reductions - runs reductions as the daemon's workers do, controlled by
 * tests/bench/reductions.py.
 *
 *     bench_reductions threads [isa]
 *
 * Each line of standard input is a case, "OP SHAPE AXES SECONDS": a float32 tensor, with shapes and
 * axes such as 64,256 or 0,2; AXES is "-" for all. The op is "read" for a loop that only reads the
 * tensor. The program computes the case repeatedly for SECONDS and replies "timed", followed by the
 * number of calls, the ns of the fastest and of the median call, and the sum of all output
 * elements. A call does what the daemon does between decoding a request and encoding the reply. isa
 * selects the loops of an instruction set, as `tensord --isa` does. */
#include "kernels/op.h"
#include "kernels/op_check.h"
#include "server/memory/buffer_pool.h"
#include "tests/bench/measure.h"
#include "tests/bench/on_pool.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_SAMPLES = 1 << 16,
    SAMPLE_NS = 20000, /* calls that are shorter are timed in groups */
    READ_BYTES = 1 << 18
};

#define MEMORY_LIMIT ((uint64_t)16 << 30)
#define WARM_LIMIT   ((uint64_t)4 << 30)

struct bench {
    struct td_buffer_pool *buffers;
    struct td_exec *exec;
    td_isa isa;
    const struct td_op *op; /* NULL: reads the tensor */
    struct td_tensor x;
    struct td_ints axes;
    int64_t axis_values[TD_MAX_RANK];
    double result; /* sum of the output elements */
    double samples[MAX_SAMPLES];
};

static void check(td_status status, const struct td_error *err)
{
    if (status == TD_OK)
        return;
    fprintf(stderr, "bench_reductions: %s\n", err->message);
    exit(1);
}

/* ---- Calls -------------------------------------------------------------------------------- */

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

static void read_tensor(struct bench *bench)
{
    struct td_error err;
    struct reading reading = { .data = bench->x.data, .bytes = bench->x.bytes };
    const int64_t count = (int64_t)((reading.bytes + READ_BYTES - 1) / READ_BYTES);
    check(td_exec_for(bench->exec, count, 1, read_range, &reading, &err), &err);
    bench->result = (double)atomic_load(&reading.sum);
}

/* Sets the attribute axis or axes. */
static void set_axes(const struct bench *bench, struct td_op_args *args)
{
    for (int i = 0; i < bench->op->n_attrs && bench->axes.values; i++) {
        const struct td_attr_spec *attr = &bench->op->attrs[i];
        if (strncmp(attr->name, "ax", 2) != 0)
            continue;
        if (attr->kind == TD_ATTR_INTS)
            memcpy(args->attrs + attr->offset, &bench->axes, sizeof(bench->axes));
        else
            memcpy(args->attrs + attr->offset, bench->axes.values, sizeof(int64_t));
        args->attrs_set |= (uint32_t)1 << i;
    }
}

static void add_up(struct bench *bench, const struct td_tensor *output)
{
    bench->result = 0;
    for (int64_t i = 0; i < output->numel; i++)
        bench->result += output->dtype == TD_DTYPE_INT64
                             ? (double)((const int64_t *)output->data)[i]
                             : (double)((const float *)output->data)[i];
}

static void call(struct bench *bench, bool adds_up)
{
    static _Alignas(64) char space[32 << 10];
    struct td_arena arena;
    struct td_op_args args;
    struct td_error err;
    if (!bench->op) {
        read_tensor(bench);
        return;
    }
    memset(&args, 0, sizeof(args));
    td_arena_init(&arena, space, sizeof(space), td_buffer_pool_memory(bench->buffers));
    args.inputs[0] = (struct td_operand){ &bench->x, 1 };
    td_op_set_defaults(bench->op, &args);
    set_axes(bench, &args);
    check(td_op_infer(bench->op, &args, &arena, &err), &err);
    check(td_tensor_alloc(&args.outputs[0], &arena, &err), &err);
    bench->exec->arena = &arena;
    check(bench->op->run(&args, bench->exec, &err), &err);
    if (adds_up)
        add_up(bench, &args.outputs[0]);
    td_arena_reset(&arena);
}

static double time_calls(struct bench *bench, int64_t n)
{
    const double begin = now_ns();
    for (int64_t i = 0; i < n; i++)
        call(bench, false);
    return now_ns() - begin;
}

static void time_case(struct bench *bench, double seconds)
{
    int n = 0;
    call(bench, true);
    const double one = time_calls(bench, 1);
    const int64_t each = one < SAMPLE_NS ? (int64_t)(SAMPLE_NS / (one + 1)) + 1 : 1;
    for (const double end = now_ns() + seconds * 1e9;
         n < MAX_SAMPLES && (n == 0 || now_ns() < end);)
        bench->samples[n++] = time_calls(bench, each) / (double)each;
    const double middle = median(bench->samples, n); /* sorts them */
    printf("timed %" PRId64 " %.1f %.1f %.9g\n", n * each, bench->samples[0], middle,
           bench->result);
    fflush(stdout);
}

/* ---- Lines -------------------------------------------------------------------------------- */

/* Reads numbers such as "64,256". Returns their number, or 0 for "-". */
static int read_numbers(const char *text, int64_t *numbers)
{
    int n = 0;
    if (strcmp(text, "-") == 0)
        return 0;
    for (char *end; n < TD_MAX_RANK; text = end + 1) {
        numbers[n++] = strtoll(text, &end, 10);
        if (*end != ',')
            break;
    }
    return n;
}

/* Fills x with the numbers that reductions.py gives to the libraries. */
static void make_tensor(struct bench *bench, const char *text)
{
    struct td_shape shape = { .rank = 0 };
    struct td_tensor x;
    struct td_error err;
    shape.rank = read_numbers(text, shape.dim);
    check(td_tensor_describe(&x, "x", TD_DTYPE_FLOAT32, &shape, &err), &err);
    if (bench->x.data && td_shape_equal(&bench->x.shape, &shape))
        return;
    free(bench->x.data);
    bench->x = x;
    bench->x.data = huge_pages(x.bytes);
    for (int64_t i = 0; i < x.numel; i++)
        ((float *)bench->x.data)[i] = (float)((uint32_t)i * 2654435761u >> 16) / 65536 - 0.4921875f;
}

static void serve(struct bench *bench)
{
    char line[256], op[32], shape[64], axes[64];
    double seconds;
    printf("ready\n");
    fflush(stdout);
    while (fgets(line, sizeof(line), stdin)) {
        if (sscanf(line, "%31s %63s %63s %lf", op, shape, axes, &seconds) != 4)
            return;
        make_tensor(bench, shape);
        bench->op = td_op_named(op, strlen(op));
        bench->axes.count = read_numbers(axes, bench->axis_values);
        bench->axes.values = bench->axes.count > 0 ? bench->axis_values : NULL;
        time_case(bench, seconds);
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

int main(int argc, char **argv)
{
    static struct bench bench;
    const int threads = argc >= 2 ? (int)strtol(argv[1], NULL, 10) : 0;
    for (td_isa isa = TD_ISA_AUTO; argc == 3 && isa < TD_ISA_COUNT; isa++)
        if (strcmp(argv[2], td_isa_name(isa)) == 0 && td_isa_supported(isa))
            bench.isa = isa;
    if (threads < 1 || argc > 3) {
        fprintf(stderr, "usage: bench_reductions threads [isa]\n");
        return 2;
    }
    bench.buffers = td_buffer_pool_new(MEMORY_LIMIT, WARM_LIMIT);
    if (!bench.buffers)
        return 1;
    measure_on_pool(threads, on_pool, &bench);
    td_buffer_pool_free(bench.buffers);
    return 0;
}
