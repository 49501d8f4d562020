/* bench_normalisation - runs softmax, log_softmax, layer_norm or l2_normalize, for normalisation.py
 * and for profiling.
 *
 *     bench_normalisation op dtype outer n inner threads [isa]
 *
 * x has the shape [outer, n, inner], and is normalised along n. For layer_norm, inner must be 1,
 * and scale and bias have n elements. dtype is float32 or float64. Each line of standard input is a
 * number of seconds. The reply is "ns", followed by the ns of the fastest call and of the median
 * call in this time, and the sum of all output elements. The elements are the same as those that
 * normalisation.py gives to PyTorch. */
#include "kernels/normalisation/normalisation.h"
#include "kernels/op_check.h"
#include "tests/bench/measure.h"
#include "tests/bench/on_pool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_CALLS = 1 << 16 };

struct bench {
    struct td_exec *exec;
    const struct td_op *op;
    struct td_tensor x, scale, bias;
    void *output;
    int64_t axis;
    td_isa isa;
};

static void check(td_status status, const struct td_error *err)
{
    if (status == TD_OK)
        return;
    fprintf(stderr, "bench_normalisation: %s\n", err->message);
    exit(1);
}

/* Element i is (i * 2654435761 mod 2^32) / 2^29 - 4. */
static struct td_tensor tensor(td_dtype dtype, struct td_shape shape)
{
    struct td_tensor t;
    struct td_error err;
    check(td_tensor_describe(&t, "benchmark", dtype, &shape, &err), &err);
    t.data = huge_pages(t.bytes);
    for (int64_t i = 0; i < t.numel; i++) {
        const double value = (double)((uint32_t)i * 2654435761u) * 0x1p-29 - 4;
        if (dtype == TD_DTYPE_FLOAT32)
            ((float *)t.data)[i] = (float)value;
        else
            ((double *)t.data)[i] = value;
    }
    return t;
}

static double call(struct bench *b)
{
    char space[4096];
    struct td_arena arena;
    struct td_op_args args;
    struct td_error err;
    memset(&args, 0, sizeof(args));
    const double begin = now_ns();
    td_arena_init(&arena, space, sizeof(space), td_memory_heap());
    struct td_tensor *const inputs[] = { &b->x, &b->scale, &b->bias };
    for (int i = 0; i < b->op->n_inputs; i++)
        args.inputs[i] = (struct td_operand){ inputs[i], 1 };
    td_op_set_defaults(b->op, &args);
    memcpy(args.attrs + offsetof(struct td_normalisation_attrs, axis), &b->axis, sizeof(b->axis));
    check(td_op_infer(b->op, &args, &arena, &err), &err);
    args.outputs[0].data = b->output;
    b->exec->arena = &arena;
    check(b->op->run(&args, b->exec, &err), &err);
    td_arena_reset(&arena);
    return now_ns() - begin;
}

static double sum_of(const struct bench *b)
{
    double sum = 0;
    for (int64_t i = 0; i < b->x.numel; i++)
        sum += b->x.dtype == TD_DTYPE_FLOAT32 ? (double)((const float *)b->output)[i]
                                              : ((const double *)b->output)[i];
    return sum;
}

static void serve(struct td_exec *exec, void *context)
{
    static double ns[MAX_CALLS];
    struct bench *b = context;
    char line[32];
    exec->isa = b->isa;
    b->exec = exec;
    printf("ready\n");
    fflush(stdout);
    while (fgets(line, sizeof(line), stdin)) {
        const double end = now_ns() + 1e9 * strtod(line, NULL);
        int n = 0;
        while (n < MAX_CALLS && (n == 0 || now_ns() < end))
            ns[n++] = call(b);
        const double middle = median(ns, n); /* sorts them */
        printf("ns %.0f %.0f %.9g\n", ns[0], middle, sum_of(b));
        fflush(stdout);
    }
}

int main(int argc, char **argv)
{
    static struct bench b;
    td_dtype dtype = TD_DTYPE_FLOAT32;
    struct td_shape shape = { .rank = 3 };
    const int threads = argc >= 7 ? (int)strtol(argv[6], NULL, 10) : 0;
    b.op = argc >= 7 ? td_op_named(argv[1], strlen(argv[1])) : NULL;
    if (threads < 1 || !b.op || !td_dtype_from_name(argv[2], strlen(argv[2]), &dtype) ||
        (dtype != TD_DTYPE_FLOAT32 && dtype != TD_DTYPE_FLOAT64)) {
        fprintf(stderr, "usage: bench_normalisation op dtype outer n inner threads [isa]\n");
        return 2;
    }
    for (int d = 0; d < shape.rank; d++)
        shape.dim[d] = strtoll(argv[3 + d], NULL, 10);
    for (td_isa isa = TD_ISA_AUTO; argc >= 8 && isa < TD_ISA_COUNT; isa++)
        if (strcmp(argv[7], td_isa_name(isa)) == 0)
            b.isa = isa;
    b.axis = 1;
    b.x = tensor(dtype, shape);
    b.scale = tensor(dtype, (struct td_shape){ .rank = 2, .dim = { shape.dim[1], shape.dim[2] } });
    b.bias = tensor(dtype, (struct td_shape){ .rank = 2, .dim = { shape.dim[1], shape.dim[2] } });
    b.output = huge_pages(b.x.bytes);
    measure_on_pool(threads, serve, &b);
    return 0;
}
