/* bench_rows - compares gather on one thread with a copying loop written by hand for each case.
 *
 *     bench_rows [rounds]
 *
 * The first part copies random rows of a table of 1 GiB (in huge pages if possible), then of 256
 * KiB, to a warm output. "gather" is the complete run of the op: check, resolve, copy. "hand" is
 * memcpy with a constant row width and prefetches to either cache, at the best of several
 * distances. "plain" is the same without prefetches. "hand" and "plain" do not check indices. The
 * three alternate; figures are medians, in GB of output per second. The ratio is gather / hand,
 * the median of the rounds' ratios, because both meet the same noise in a round.
 *
 * The second part copies small rows in the cache, where the loop around the copy dominates.
 * Figures are in ns per row. "hand" is a typed loop for that case. */
#include "kernels/gather/gather.h"
#include "kernels/op_check.h"
#include "tests/bench/measure.h"
#include "tests/support/random.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TABLE_BYTES  ((size_t)1 << 30)
#define CACHED_BYTES ((size_t)256 << 10)
#define OUTPUT_BYTES ((size_t)64 << 20)
#define MAX_INDICES  ((int64_t)1 << 20)
#define INDEX_SETS   4
#define MAX_ROUNDS   101

/* ---- Hand-written loops ------------------------------------------------------------------ */

struct distance {
    int64_t ahead; /* rows; 0: no prefetch */
    size_t reach;  /* number of bytes of a row to prefetch */
    bool to_l2;    /* to the second-level cache, not the first */
};

static inline __attribute__((always_inline)) void hand_loop(char *restrict out,
                                                            const char *restrict table,
                                                            size_t width, const void *index,
                                                            bool wide, int64_t n, struct distance d)
{
    const int32_t *index32 = index;
    const int64_t *index64 = index;
    for (int64_t i = 0; i < n; i++) {
        if (d.ahead > 0 && i + d.ahead < n) {
            int64_t next = wide ? index64[i + d.ahead] : index32[i + d.ahead];
            const char *place = table + (size_t)next * width;
            for (size_t offset = 0; offset < width && offset < d.reach; offset += 64)
                if (d.to_l2)
                    __builtin_prefetch(place + offset, 0, 2);
                else
                    __builtin_prefetch(place + offset);
        }
        int64_t row = wide ? index64[i] : index32[i];
        memcpy(out + (size_t)i * width, table + (size_t)row * width, width);
    }
}

/* One build for each width and index type: HAND(16) and so on. */
#define HAND(bytes)                                                                                \
    case bytes:                                                                                    \
        if (wide)                                                                                  \
            hand_loop(out, table, bytes, index, true, n, d);                                       \
        else                                                                                       \
            hand_loop(out, table, bytes, index, false, n, d);                                      \
        break;

static void hand(void *out, const void *table, size_t width, const void *index, bool wide,
                 int64_t n, struct distance d)
{
    switch (width) {
        HAND(16)
        HAND(64)
        HAND(256)
        HAND(1024)
        HAND(4096)
    default:
        abort();
    }
}

/* ---- Cases ------------------------------------------------------------------------------- */

static struct td_arena arena;
static struct td_exec exec;

static void check(td_status status, const struct td_error *err)
{
    if (status == TD_OK)
        return;
    fprintf(stderr, "bench_rows: %s\n", err->message);
    exit(1);
}

/* Returns a tensor in existing memory. */
static struct td_tensor over(void *data, td_dtype dtype, struct td_shape shape)
{
    struct td_tensor tensor;
    struct td_error err;
    check(td_tensor_describe(&tensor, "benchmark", dtype, &shape, &err), &err);
    tensor.data = data;
    return tensor;
}

/* An inferred op that can run repeatedly. */
struct call {
    const struct td_op *op;
    struct td_op_args args;
    struct td_tensor params, indices;
};

static void prepare(struct call *call, const char *op, struct td_tensor params,
                    struct td_tensor indices, int64_t axis, void *out)
{
    struct td_error err;
    *call =
        (struct call){ .op = td_op_named(op, strlen(op)), .params = params, .indices = indices };
    call->args.inputs[0] = (struct td_operand){ &call->params, 1 };
    call->args.inputs[1] = (struct td_operand){ &call->indices, 1 };
    td_op_set_defaults(call->op, &call->args);
    if (call->op == &td_op_gather)
        memcpy(call->args.attrs + offsetof(struct td_gather_attrs, axis), &axis, sizeof(axis));
    check(td_op_infer(call->op, &call->args, &arena, &err), &err);
    call->args.outputs[0].data = out;
}

static void run(struct call *call)
{
    struct td_error err;
    check(call->op->run(&call->args, &exec, &err), &err);
}

static void fill_indices(void *index, bool wide, int64_t n, int64_t n_rows)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t row = (int64_t)(random_next() % (uint64_t)n_rows);
        if (wide)
            ((int64_t *)index)[i] = row;
        else
            ((int32_t *)index)[i] = (int32_t)row;
    }
}

static void random_rows(void *table, size_t table_bytes, void *out, size_t width, bool wide,
                        int rounds)
{
    int64_t n_rows = (int64_t)(table_bytes / width);
    int64_t n = (int64_t)(OUTPUT_BYTES / width);
    if (n > MAX_INDICES)
        n = MAX_INDICES;
    void *index[INDEX_SETS];
    struct call call[INDEX_SETS];
    for (int s = 0; s < INDEX_SETS; s++) {
        index[s] = malloc((size_t)n * (wide ? 8 : 4));
        if (!index[s])
            exit(1);
        fill_indices(index[s], wide, n, n_rows);
        prepare(&call[s], "gather",
                over(table, TD_DTYPE_UINT8,
                     (struct td_shape){ .rank = 2, .dim = { n_rows, (int64_t)width } }),
                over(index[s], wide ? TD_DTYPE_INT64 : TD_DTYPE_INT32,
                     (struct td_shape){ .rank = 1, .dim = { n } }),
                0, out);
    }

    static const struct distance distances[] = {
        { 0, 0, false },    { 4, 64, false },   { 8, 64, false },   { 16, 64, false },
        { 24, 64, false },  { 32, 64, false },  { 2, 512, false },  { 8, 512, false },
        { 16, 512, false }, { 2, 4096, false }, { 4, 4096, false }, { 8, 4096, false },
        { 8, 4096, true },  { 16, 4096, true }, { 24, 4096, true }, { 32, 4096, true },
        { 48, 4096, true },
    };
    struct distance best = { 0, 0, false };
    double best_ns = 1e300;
    for (size_t d = 0; d < sizeof(distances) / sizeof(distances[0]); d++) {
        double tries[5];
        for (int t = 0; t < 5; t++) {
            double begin = now_ns();
            hand(out, table, width, index[t % INDEX_SETS], wide, n, distances[d]);
            tries[t] = now_ns() - begin;
        }
        double ns = median(tries, 5);
        if (ns < best_ns) {
            best_ns = ns;
            best = distances[d];
        }
    }

    double gather_ns[MAX_ROUNDS], hand_ns[MAX_ROUNDS], plain_ns[MAX_ROUNDS], ratios[MAX_ROUNDS];
    for (int r = 0; r < rounds; r++) {
        double t0 = now_ns();
        run(&call[r % INDEX_SETS]);
        double t1 = now_ns();
        hand(out, table, width, index[(r + 1) % INDEX_SETS], wide, n, best);
        double t2 = now_ns();
        hand(out, table, width, index[(r + 2) % INDEX_SETS], wide, n,
             (struct distance){ 0, 0, false });
        double t3 = now_ns();
        gather_ns[r] = t1 - t0;
        hand_ns[r] = t2 - t1;
        plain_ns[r] = t3 - t2;
        ratios[r] = hand_ns[r] / gather_ns[r];
    }
    double bytes = (double)n * (double)width;
    double gather = bytes / median(gather_ns, rounds), by_hand = bytes / median(hand_ns, rounds);
    printf("table %7zu KiB, rows %4zu B, %s  gather %5.2f GB/s  hand %5.2f  ratio %.2f  plain %5.2f"
           "  (hand: %" PRId64 " rows ahead, %zu B%s)\n",
           table_bytes >> 10, width, wide ? "int64" : "int32", gather, by_hand,
           median(ratios, rounds), bytes / median(plain_ns, rounds), best.ahead,
           best.reach < width ? best.reach : width, best.to_l2 ? ", to L2" : "");
    fflush(stdout);
    for (int s = 0; s < INDEX_SETS; s++)
        free(index[s]);
}

/* float32 elements, int32 indices: params [slices, rows, 1], indices [n], along axis 1; for
 * gather_nd params [slices, rows], indices [n, 2]. The hand-written loops are below. */
struct cached {
    const char *name;
    int64_t slices, rows, n;
};

static void hand_cached(float *restrict out, const float *restrict table,
                        const int32_t *restrict index, const struct cached *c)
{
    if (strcmp(c->name, "gather_nd") == 0) {
        for (int64_t i = 0; i < c->n; i++)
            out[i] = table[index[2 * i] * c->rows + index[2 * i + 1]];
        return;
    }
    for (int64_t p = 0; p < c->slices; p++)
        for (int64_t i = 0; i < c->n; i++)
            out[p * c->n + i] = table[p * c->rows + index[i]];
}

static void cached_table(float *table, float *out, const struct cached *c, int rounds)
{
    bool nd = strcmp(c->name, "gather_nd") == 0;
    int64_t n_out = nd ? c->n : c->n * c->slices;
    int32_t *index = malloc((size_t)(nd ? 2 * c->n : c->n) * sizeof(index[0]));
    if (!index)
        exit(1);
    struct call call;
    struct td_shape params = { .rank = 2, .dim = { c->slices, c->rows } };
    if (nd) {
        for (int64_t i = 0; i < c->n; i++) {
            fill_indices(index + 2 * i, false, 1, c->slices);
            fill_indices(index + 2 * i + 1, false, 1, c->rows);
        }
        prepare(&call, "gather_nd", over(table, TD_DTYPE_FLOAT32, params),
                over(index, TD_DTYPE_INT32, (struct td_shape){ .rank = 2, .dim = { c->n, 2 } }), 0,
                out);
    } else {
        fill_indices(index, false, c->n, c->rows);
        prepare(&call, "gather", over(table, TD_DTYPE_FLOAT32, params),
                over(index, TD_DTYPE_INT32, (struct td_shape){ .rank = 1, .dim = { c->n } }), 1,
                out);
    }
    double gather_ns[MAX_ROUNDS], hand_ns[MAX_ROUNDS];
    int64_t repeats = 200000 / n_out + 1;
    for (int r = 0; r < rounds; r++) {
        double t0 = now_ns();
        for (int64_t i = 0; i < repeats; i++)
            run(&call);
        double t1 = now_ns();
        for (int64_t i = 0; i < repeats; i++)
            hand_cached(out, table, index, c);
        double t2 = now_ns();
        gather_ns[r] = (t1 - t0) / (double)(repeats * n_out);
        hand_ns[r] = (t2 - t1) / (double)(repeats * n_out);
    }
    printf("%-9s float32 [%" PRId64 ",%" PRId64 "], %" PRId64
           " indices  gather %6.2f ns/row  hand %6.2f\n",
           c->name, c->slices, c->rows, c->n, median(gather_ns, rounds), median(hand_ns, rounds));
    free(index);
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 15;
    if (rounds < 1 || rounds > MAX_ROUNDS) {
        fprintf(stderr, "usage: bench_rows [rounds], 1 to %d\n", MAX_ROUNDS);
        return 2;
    }
    td_arena_init(&arena, NULL, 0, td_memory_heap());
    td_exec_serial(&exec, &arena);
    random_seed(1);
    print_cpu("cpu");
    char *table = huge_pages(TABLE_BYTES), *out = huge_pages(OUTPUT_BYTES);

    static const size_t widths[] = { 16, 64, 256, 1024, 4096 };
    static const size_t sizes[] = { TABLE_BYTES, CACHED_BYTES };
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++)
        for (size_t i = 0; i < sizeof(widths) / sizeof(widths[0]); i++)
            for (int wide = 0; wide < 2; wide++)
                random_rows(table, sizes[s], out, widths[i], wide, rounds);

    static const struct cached cached[] = {
        { "gather", 1, 1000, 100000 }, { "gather", 1, 1000, 10 },
        { "gather", 100, 1000, 4096 }, { "gather", 100000, 10, 1 },
        { "gather", 10000, 100, 7 },   { "gather_nd", 100, 100, 100000 },
    };
    for (size_t i = 0; i < sizeof(cached) / sizeof(cached[0]); i++)
        cached_table((float *)(void *)table, (float *)(void *)out, &cached[i], rounds);
    free(table);
    free(out);
    td_arena_reset(&arena);
    return 0;
}
