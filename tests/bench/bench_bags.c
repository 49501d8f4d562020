/* bench_bags - runs the op embedding_bag on sums of bags, for bags.py and for profiling.
 *
 *     bench_bags dtype columns rows threads [weighted] [isa]
 *
 * The table is float32, float16, int8 (with scale and offset as inputs) or byte_rowwise.
 * "weighted" adds a weight for each index; isa selects the loops of an instruction set, as
 * `tensord --isa` does. Each line of standard input is the number of rows in a bag. The reply is
 * "ns", followed by the ns per row in the tenth fastest and in the median of 100 calls with 20,000
 * random rows each, and the sum of all output elements of the first call. The elements, scales,
 * offsets and rows are the same as those that bags.py gives to PyTorch. */
#include "kernels/embedding_bag/embedding_bag.h"
#include "kernels/half.h"
#include "kernels/op_check.h"
#include "tests/bench/measure.h"
#include "tests/bench/on_pool.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BATCH   ((int64_t)20000)
#define BATCHES 100

struct bench {
    struct td_exec *exec;
    td_row_layout layout;
    struct td_tensor params, scale, offset, indices[BATCHES], offsets;
    bool quantized; /* has scale and offset */
    bool weighted;
    struct td_tensor weights;
    td_isa isa;
    void *output;
};

static void check(td_status status, const struct td_error *err)
{
    if (status == TD_OK)
        return;
    fprintf(stderr, "bench_bags: %s\n", err->message);
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

static struct td_tensor vector(td_dtype dtype, int64_t n)
{
    return tensor(dtype, (struct td_shape){ .rank = 1, .dim = { n } });
}

/* ---- The same numbers as in bags.py ------------------------------------------------------- */

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
    bool unsure;
    if (t->dtype == TD_DTYPE_FLOAT32)
        ((float *)t->data)[i] = (float)(step - 125) / 64;
    else if (t->dtype == TD_DTYPE_FLOAT16)
        ((uint16_t *)t->data)[i] =
            td_narrow_round((step - 125) / 64.0, TD_NARROW_FLOAT16, 0, &unsure);
    else
        ((int8_t *)t->data)[i] = (int8_t)(t->dtype == TD_DTYPE_INT8 ? step - 125 : step);
}

static void set_trailer(struct td_tensor *t, int64_t row)
{
    const float values[2] = { (float)(row % 7 + 1) / 64, (float)(row % 5) - 2 };
    memcpy((char *)t->data + (row + 1) * t->shape.dim[1] - TD_ROW_TRAILER, values, sizeof(values));
}

static void make_table(struct bench *b, const char *name, int64_t columns, int64_t rows)
{
    td_dtype dtype = TD_DTYPE_UINT8;
    b->layout =
        strcmp(name, "byte_rowwise") == 0 ? TD_ROW_LAYOUT_BYTE_ROWWISE : TD_ROW_LAYOUT_PLAIN;
    if (b->layout == TD_ROW_LAYOUT_PLAIN && !td_dtype_from_name(name, strlen(name), &dtype)) {
        fprintf(stderr, "bench_bags: %s is no dtype\n", name);
        exit(2);
    }
    columns += b->layout == TD_ROW_LAYOUT_BYTE_ROWWISE ? TD_ROW_TRAILER : 0;
    b->params = tensor(dtype, (struct td_shape){ .rank = 2, .dim = { rows, columns } });
    for (int64_t i = 0; i < b->params.numel; i++)
        set(&b->params, i);
    b->quantized = dtype == TD_DTYPE_INT8;
    if (b->quantized) {
        b->scale = vector(TD_DTYPE_FLOAT32, rows);
        b->offset = vector(TD_DTYPE_FLOAT32, rows);
    }
    for (int64_t row = 0; row < rows && b->quantized; row++) {
        ((float *)b->scale.data)[row] = (float)(row % 7 + 1) / 64;
        ((float *)b->offset.data)[row] = (float)(row % 5) - 2;
    }
    for (int64_t row = 0; row < rows && b->layout == TD_ROW_LAYOUT_BYTE_ROWWISE; row++)
        set_trailer(&b->params, row);
    for (int q = 0; q < BATCHES; q++) {
        b->indices[q] = vector(TD_DTYPE_INT64, BATCH);
        for (int64_t i = 0; i < BATCH; i++)
            ((int64_t *)b->indices[q].data)[i] =
                (int64_t)(mix((uint64_t)(q * BATCH + i)) % (uint64_t)rows);
    }
    if (b->weighted)
        b->weights = vector(b->quantized || b->layout ? TD_DTYPE_FLOAT32 : dtype, BATCH);
    for (int64_t i = 0; i < b->weights.numel; i++)
        set(&b->weights, i);
    b->output = huge_pages((size_t)(BATCH * columns) * sizeof(float));
}

/* ---- Calls -------------------------------------------------------------------------------- */

/* Returns the number of elements of the output. */
static int64_t call(struct bench *b, int q)
{
    char space[2048];
    struct td_arena arena;
    struct td_op_args args;
    struct td_error err;
    memset(&args, 0, sizeof(args));
    td_arena_init(&arena, space, sizeof(space), td_memory_heap());
    args.inputs[TD_BAG_PARAMS] = (struct td_operand){ &b->params, 1 };
    args.inputs[TD_BAG_INDICES] = (struct td_operand){ &b->indices[q], 1 };
    args.inputs[TD_BAG_OFFSETS] = (struct td_operand){ &b->offsets, 1 };
    if (b->quantized) {
        args.inputs[TD_BAG_SCALE] = (struct td_operand){ &b->scale, 1 };
        args.inputs[TD_BAG_OFFSET] = (struct td_operand){ &b->offset, 1 };
    }
    if (b->weighted)
        args.inputs[TD_BAG_WEIGHTS] = (struct td_operand){ &b->weights, 1 };
    td_op_set_defaults(&td_op_embedding_bag, &args);
    memcpy(args.attrs + offsetof(struct td_embedding_bag_attrs, layout), &b->layout,
           sizeof(b->layout));
    check(td_op_infer(&td_op_embedding_bag, &args, &arena, &err), &err);
    args.outputs[0].data = b->output;
    b->exec->arena = &arena;
    check(td_op_embedding_bag.run(&args, b->exec, &err), &err);
    td_arena_reset(&arena);
    return args.outputs[0].numel;
}

static double sum(const struct bench *b, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += b->params.dtype == TD_DTYPE_FLOAT16
                   ? (double)td_float16_value(((const uint16_t *)b->output)[i])
                   : (double)((const float *)b->output)[i];
    return sum;
}

static void make_offsets(struct bench *b, int64_t bag)
{
    const int64_t n = BATCH / bag;
    if (b->offsets.data && b->offsets.numel == n)
        return;
    free(b->offsets.data);
    b->offsets = vector(TD_DTYPE_INT64, n);
    for (int64_t i = 0; i < n; i++)
        ((int64_t *)b->offsets.data)[i] = i * bag;
}

static void serve(struct bench *b)
{
    char line[32];
    printf("ready\n");
    fflush(stdout);
    while (fgets(line, sizeof(line), stdin)) {
        const int64_t bag = strtoll(line, NULL, 10);
        if (bag < 1 || BATCH % bag != 0)
            return;
        make_offsets(b, bag);
        double ns[BATCHES];
        for (int q = 0; q < BATCHES; q++) {
            const double begin = now_ns();
            call(b, q);
            ns[q] = (now_ns() - begin) / (double)BATCH;
        }
        const double middle = median(ns, BATCHES); /* sorts them */
        printf("ns %.3f %.3f %.9g\n", ns[BATCHES / 10], middle, sum(b, call(b, 0)));
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
static bool set_option(struct bench *b, const char *word)
{
    if (strcmp(word, "weighted") == 0)
        return b->weighted = true;
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
    const int64_t columns = argc >= 5 ? strtoll(argv[2], NULL, 10) : 0;
    const int64_t rows = argc >= 5 ? strtoll(argv[3], NULL, 10) : 0;
    const int threads = argc >= 5 ? (int)strtol(argv[4], NULL, 10) : 0;
    bool understood = columns >= 1 && rows >= 1 && threads >= 1;
    for (int i = 5; i < argc; i++)
        understood = set_option(&bench, argv[i]) && understood;
    if (!understood) {
        fprintf(stderr, "usage: bench_bags float32|float16|int8|byte_rowwise columns rows threads "
                        "[weighted] [isa]\n");
        return 2;
    }
    make_table(&bench, argv[1], columns, rows);
    measure_on_pool(threads, on_pool, &bench);
    return 0;
}
