/* bench_shapes - runs ops that move elements, for shapes.py and for profiling.
 *
 *     bench_shapes threads [isa]
 *
 * Each line of standard input is a case: the op, the number of inputs, their dtype, their shape and
 * the attributes, such as
 *
 *     transpose 1 float32 64,128,64,64 perm=0,2,1,3
 *
 * The reply is "ns", followed by the ns of the fastest and of the median of the calls that fit into
 * 0.3 s, the ns of the fastest copy of the output in ranges of 128 KiB on the same threads, and a
 * checksum of the output. The elements are those that shapes.py gives to NumPy and PyTorch. With an
 * isa, the op uses the loops of this instruction set, as with `tensord --isa`. */
#include "api/message/attr_values.h"
#include "kernels/op_check.h"
#include "tests/bench/measure.h"
#include "tests/bench/on_pool.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INPUTS     64
#define MOST_CALLS 1000
#define COPY_BYTES ((int64_t)128 << 10)

struct bench {
    struct td_exec *exec;
    td_isa isa;
    const struct td_op *op;
    struct td_op_args args; /* before infer */
    struct td_tensor inputs[INPUTS];
    struct td_arena arena; /* attributes */
    char space[4096];
    char *output;
    size_t output_bytes;
};

static void check(td_status status, const struct td_error *err)
{
    if (status == TD_OK)
        return;
    fprintf(stderr, "bench_shapes: %s\n", err->message);
    exit(1);
}

/* ---- A case, with the same numbers as in shapes.py ----------------------------------------- */

static uint64_t mix(uint64_t i)
{
    uint64_t z = (i + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Indices are int32 below 1000. Other elements have any bits. */
static void fill(struct td_tensor *t, uint64_t seed, td_role role)
{
    for (int64_t i = 0; role == TD_ROLE_INDEX && i < t->numel; i++)
        ((int32_t *)t->data)[i] = (int32_t)(mix((uint64_t)i) % 1000);
    for (size_t i = 0; role != TD_ROLE_INDEX && i < t->bytes / 8; i++)
        ((uint64_t *)t->data)[i] = mix(i + seed);
}

static struct td_shape shape_of(const char *text)
{
    struct td_shape shape = { .rank = 0 };
    for (char *end; *text && shape.rank < TD_MAX_RANK; text = *end ? end + 1 : end)
        shape.dim[shape.rank++] = strtoll(text, &end, 10);
    return shape;
}

static void set_attr(struct bench *b, const char *text)
{
    struct td_error err;
    struct td_attr_value value;
    const size_t length = strcspn(text, "=");
    for (int i = 0; text[length] && i < b->op->n_attrs; i++) {
        const struct td_attr_spec *spec = &b->op->attrs[i];
        if (strlen(spec->name) != length || memcmp(spec->name, text, length) != 0)
            continue;
        const char *begin = text + length + 1;
        check(td_attr_of_text(spec, begin, strlen(begin), &b->arena, &value, &err), &err);
        check(td_attr_store(spec, &value, &b->args, &b->arena, &err), &err);
        b->args.attrs_set |= (uint32_t)1 << i;
        return;
    }
    fprintf(stderr, "bench_shapes: no attribute %s\n", text);
    exit(2);
}

/* Returns false if the line is not a case. */
static bool read_case(struct bench *b, char *line)
{
    struct td_error err;
    td_dtype dtype;
    char *rest, *op = strtok_r(line, " \n", &rest), *count = strtok_r(NULL, " \n", &rest);
    char *name = strtok_r(NULL, " \n", &rest), *dims = strtok_r(NULL, " \n", &rest);
    const int n = count ? (int)strtol(count, NULL, 10) : 0;
    b->op = op ? td_op_named(op, strlen(op)) : NULL;
    if (!b->op || n < 1 || n > INPUTS || !dims || !td_dtype_from_name(name, strlen(name), &dtype))
        return false;
    memset(&b->args, 0, sizeof(b->args));
    td_op_set_defaults(b->op, &b->args);
    for (char *attr = strtok_r(NULL, " \n", &rest); attr; attr = strtok_r(NULL, " \n", &rest))
        set_attr(b, attr);
    const struct td_shape shape = shape_of(dims);
    for (int i = 0; i < n; i++) {
        check(td_tensor_describe(&b->inputs[i], "benchmark", dtype, &shape, &err), &err);
        b->inputs[i].data = huge_pages(b->inputs[i].bytes);
        fill(&b->inputs[i], (uint64_t)i, b->op->inputs[0].role);
    }
    b->args.inputs[0] = (struct td_operand){ b->inputs, n };
    return true;
}

/* ---- Calls -------------------------------------------------------------------------------- */

static double call(struct bench *b)
{
    char space[4096];
    struct td_arena arena;
    struct td_op_args args = b->args;
    struct td_error err;
    td_arena_init(&arena, space, sizeof(space), td_memory_heap());
    b->exec->arena = &arena;
    const double begin = now_ns();
    check(td_op_infer(b->op, &args, &arena, &err), &err);
    b->output_bytes = args.outputs[0].bytes;
    if (!b->output)
        b->output = huge_pages(b->output_bytes);
    args.outputs[0].data = b->output;
    check(b->op->run(&args, b->exec, &err), &err);
    const double ns = now_ns() - begin;
    td_arena_reset(&arena);
    return ns;
}

static void copy_range(void *context, int64_t begin, int64_t end)
{
    struct bench *b = context;
    const int64_t size = (int64_t)b->output_bytes;
    const char *from = b->inputs[0].data;
    for (int64_t at = begin * COPY_BYTES; at < end * COPY_BYTES && at < size; at += COPY_BYTES) {
        const int64_t left = size - at, from_bytes = (int64_t)b->inputs[0].bytes;
        const int64_t n = left < COPY_BYTES ? left : COPY_BYTES;
        memcpy(b->output + at, from + (n <= from_bytes ? at % (from_bytes - n + 1) : 0),
               (size_t)(n <= from_bytes ? n : from_bytes));
    }
}

static double copy(struct bench *b)
{
    struct td_error err;
    const double begin = now_ns();
    check(td_exec_for(b->exec, ((int64_t)b->output_bytes - 1) / COPY_BYTES + 1, 1, copy_range, b,
                      &err),
          &err);
    return now_ns() - begin;
}

static uint64_t checksum(const struct bench *b)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < b->output_bytes / 8; i++)
        sum += ((const uint64_t *)(const void *)b->output)[i] * (2 * i + 1);
    return sum;
}

static void measure(struct bench *b)
{
    double ns[MOST_CALLS], copies[MOST_CALLS];
    int n = 0, n_copies = 0;
    call(b); /* allocates the output */
    const uint64_t sum = checksum(b);
    for (const double end = now_ns() + 3e8; n < MOST_CALLS && (n < 3 || now_ns() < end);)
        ns[n++] = call(b);
    for (const double end = now_ns() + 1e8; n_copies < MOST_CALLS && now_ns() < end;)
        copies[n_copies++] = copy(b);
    const double middle = median(ns, n); /* sorts them */
    (void)median(copies, n_copies);
    printf("ns %.0f %.0f %.0f %" PRIu64 "\n", ns[0], middle, copies[0], sum);
    fflush(stdout);
}

static void on_pool(struct td_exec *exec, void *context)
{
    struct bench *b = context;
    char line[512];
    exec->isa = b->isa;
    b->exec = exec;
    printf("ready\n");
    fflush(stdout);
    while (fgets(line, sizeof(line), stdin)) {
        td_arena_init(&b->arena, b->space, sizeof(b->space), td_memory_heap());
        if (!read_case(b, line))
            return;
        measure(b);
        for (int i = 0; i < b->args.inputs[0].count; i++)
            free(b->inputs[i].data);
        free(b->output);
        b->output = NULL;
        td_arena_reset(&b->arena);
    }
}

int main(int argc, char **argv)
{
    static struct bench bench;
    const int threads = argc >= 2 ? (int)strtol(argv[1], NULL, 10) : 0;
    bool understood = threads >= 1 && argc <= 3;
    for (td_isa isa = TD_ISA_AUTO; argc == 3 && isa < TD_ISA_COUNT; isa++)
        if (strcmp(argv[2], td_isa_name(isa)) == 0)
            bench.isa = isa;
    if (!understood) {
        fprintf(stderr, "usage: bench_shapes threads [isa]\n");
        return 2;
    }
    measure_on_pool(threads, on_pool, &bench);
    return 0;
}
