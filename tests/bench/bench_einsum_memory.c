/* bench_einsum_memory - compares the memory-bound kernels of einsum with memory bandwidth.
 *
 *     bench_einsum_memory [rounds [word]]
 *
 * Each case runs on one thread and on two, and alternates with a plain loop that sets the upper
 * bound: memcpy if the case writes as much as it reads, a reading loop (the sum of 64-bit words)
 * if it only reads, or a writing loop if it only writes. The loop handles the same number of bytes
 * on the same threads. Figures are the best of the rounds, in GB/s of operands read and results
 * written. With a word, the program runs only the cases whose names contain it. */
#include "kernels/einsum/contraction.h"
#include "kernels/einsum/sumprod/sumprod.h"
#include "kernels/workspace.h"
#include "tests/bench/measure.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_LOOPS 8

/* ---- Two threads ------------------------------------------------------------------------- */

/* The caller and one helper thread, which sleeps between loops as the server's threads do. */
struct pair {
    struct td_exec exec; /* first: parallel_for casts back */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool requested, running; /* the mutex guards this field and the fields below */
    td_range_fn *fn;
    void *context;
    int64_t count, grain;
    atomic_int_fast64_t next;
};

static void work(struct pair *pair)
{
    for (;;) {
        int64_t begin = atomic_fetch_add(&pair->next, pair->grain);
        if (begin >= pair->count)
            return;
        int64_t left = pair->count - begin;
        pair->fn(pair->context, begin, begin + (left < pair->grain ? left : pair->grain));
    }
}

static void *help(void *argument)
{
    struct pair *pair = argument;
    pthread_mutex_lock(&pair->mutex);
    for (;;) {
        while (!pair->requested)
            pthread_cond_wait(&pair->changed, &pair->mutex);
        pair->requested = false;
        pair->running = true;
        pthread_mutex_unlock(&pair->mutex);
        work(pair);
        pthread_mutex_lock(&pair->mutex);
        pair->running = false;
        pthread_cond_broadcast(&pair->changed);
    }
    return NULL;
}

static td_status parallel_for(struct td_exec *self, int64_t count, int64_t grain, td_range_fn *fn,
                              void *context, struct td_error *err)
{
    struct pair *pair = (struct pair *)self;
    (void)err;
    if (self->width == 1 || count <= grain) {
        for (int64_t begin = 0; begin < count; begin += grain)
            fn(context, begin, count - begin < grain ? count : begin + grain);
        return TD_OK;
    }
    pthread_mutex_lock(&pair->mutex);
    pair->fn = fn;
    pair->context = context;
    pair->count = count;
    pair->grain = grain;
    atomic_store(&pair->next, 0);
    pair->requested = true;
    pthread_cond_broadcast(&pair->changed);
    pthread_mutex_unlock(&pair->mutex);
    work(pair);
    pthread_mutex_lock(&pair->mutex);
    pair->requested = false; /* the helper did not wake in time */
    while (pair->running)
        pthread_cond_wait(&pair->changed, &pair->mutex);
    pthread_mutex_unlock(&pair->mutex);
    return TD_OK;
}

static struct pair pair = {
    .exec = { .parallel_for = parallel_for, .output_limit = UINT64_MAX, .width = 1 },
    .mutex = PTHREAD_MUTEX_INITIALIZER,
    .changed = PTHREAD_COND_INITIALIZER,
};

/* ---- Plain loops ------------------------------------------------------------------------- */

enum bound { COPY, READ, WRITE };

struct plain {
    enum bound bound;
    char *to;
    const char *from;
    int64_t bytes;
    atomic_uint_fast64_t sum;
};

#define PLAIN_GRAIN (1 << 20)

static void plain_range(void *context, int64_t begin, int64_t end)
{
    struct plain *plain = context;
    const int64_t first = begin * PLAIN_GRAIN;
    const int64_t last = end * PLAIN_GRAIN < plain->bytes ? end * PLAIN_GRAIN : plain->bytes;
    const size_t size = (size_t)(last - first);
    if (plain->bound == COPY) {
        memcpy(plain->to + first, plain->from + first, size);
    } else if (plain->bound == WRITE) {
        memset(plain->to + first, 1, size);
    } else {
        const uint64_t *word = (const void *)(plain->from + first);
        uint64_t sums[32] = { 0 };
        for (size_t i = 0; i + 32 <= size / 8; i += 32)
            for (size_t k = 0; k < 32; k++)
                sums[k] += word[i + k];
        for (size_t k = 1; k < 32; k++)
            sums[0] += sums[k];
        atomic_fetch_add(&plain->sum, sums[0]);
    }
}

static void run_plain(struct plain *plain, struct td_exec *exec)
{
    (void)!td_exec_for(exec, (plain->bytes - 1) / PLAIN_GRAIN + 1, 1, plain_range, plain,
                       TD_IGNORED);
}

/* ---- Cases ------------------------------------------------------------------------------- */

/* An equation of one or two operands, with the extents of its letters. */
struct bench {
    const char *a, *b, *c; /* b NULL: one operand */
    const char *letters;
    int64_t extents[MAX_LOOPS];
    td_dtype dtype;
    enum bound bound;
};

#define F32 TD_DTYPE_FLOAT32
static const struct bench benches[] = {
    { "ij", NULL, "ji", "ij", { 3000, 3000 }, F32, COPY },
    { "ij", NULL, "ji", "ij", { 3001, 3001 }, F32, COPY },
    { "ij", NULL, "ji", "ij", { 4096, 4096 }, F32, COPY },
    { "ij", NULL, "ji", "ij", { 500, 500 }, F32, COPY },
    { "ij", NULL, "ji", "ij", { 4000, 4000 }, TD_DTYPE_UINT8, COPY },
    { "ij", NULL, "ji", "ij", { 4000, 4000 }, TD_DTYPE_FLOAT16, COPY },
    { "ij", NULL, "ji", "ij", { 2000, 2000 }, TD_DTYPE_FLOAT64, COPY },
    { "ij", NULL, "ji", "ij", { 2000, 2000 }, TD_DTYPE_COMPLEX128, COPY },
    { "ijk", NULL, "kji", "ijk", { 160, 160, 160 }, F32, COPY },
    { "ijk", NULL, "jik", "ijk", { 1000, 1000, 3 }, F32, COPY },
    { "ijk", NULL, "jik", "ijk", { 1000, 1000, 2 }, F32, COPY },
    { "ij", NULL, "ji", "ij", { 3000000, 3 }, F32, COPY },
    { "ij", NULL, "ji", "ij", { 3, 3000000 }, F32, COPY },
    { "ijklmn", NULL, "nmlkji", "ijklmn", { 12, 12, 12, 12, 12, 12 }, F32, COPY },
    { "bqhd", NULL, "bhqd", "bqhd", { 4, 128, 12, 64 }, F32, COPY },
    { "bqhd", NULL, "bhqd", "bqhd", { 32, 512, 12, 64 }, F32, COPY },
    { "bqhd", NULL, "bhdq", "bqhd", { 4, 128, 12, 64 }, F32, COPY },
    { "ij", NULL, "", "ij", { 4000, 4000 }, F32, READ },
    { "ij", NULL, "i", "ij", { 4000, 4000 }, F32, READ },
    { "ij", NULL, "j", "ij", { 4000, 4000 }, F32, READ },
    { "ijk", NULL, "ik", "ijk", { 100, 400, 400 }, F32, READ },
    { "ijk", NULL, "j", "ijk", { 400, 400, 100 }, F32, READ },
    { "ijk", NULL, "j", "ijk", { 4000, 1000, 3 }, F32, READ },
    { "ij", NULL, "i", "ij", { 4000000, 4 }, F32, READ },
    { "ij", "j", "i", "ij", { 4000, 4000 }, F32, READ },
    { "ij", "j", "i", "ij", { 1000, 16000 }, F32, READ },
    { "ij", "i", "j", "ij", { 4000, 4000 }, F32, READ },
    { "bij", "bj", "bi", "bij", { 100, 400, 400 }, F32, READ },
    { "bij", "bi", "bj", "bij", { 100, 400, 400 }, F32, READ },
    { "bij", "bj", "bi", "bij", { 100000, 4, 4 }, F32, READ },
    { "ij", "ij", "", "ij", { 4000, 4000 }, F32, READ },
    { "ij", "ji", "", "ij", { 4000, 4000 }, F32, READ },
    { "bi", "bi", "b", "bi", { 4000, 4000 }, F32, READ },
    { "ij", "ij", "ij", "ij", { 3000, 3000 }, F32, COPY },
    { "ij", "ji", "ij", "ij", { 3000, 3000 }, F32, COPY },
    { "ij", "j", "ij", "ij", { 4000, 4000 }, F32, COPY },
    { "i", "j", "ij", "ij", { 4000, 4000 }, F32, WRITE },
    { "ijk", NULL, "j", "ijk", { 200, 300, 200 }, F32, READ },
    { "ijk", NULL, "k", "ijk", { 4000, 1000, 3 }, F32, READ },
    { "ijk", NULL, "ik", "ijk", { 4000, 1000, 3 }, F32, READ },
    { "ijk", NULL, "ij", "ijk", { 4000, 1000, 3 }, F32, READ },
    { "bijk", NULL, "bk", "bijk", { 16, 224, 224, 3 }, F32, READ },
    { "ij", "ij", "ij", "ij", { 4000, 4000 }, F32, COPY },
    { "ij", "ji", "ij", "ij", { 4000, 4000 }, F32, COPY },
    { "ij", NULL, "", "ij", { 500, 500 }, F32, READ },
    { "ij", NULL, "i", "ij", { 500, 500 }, F32, READ },
    { "ij", NULL, "j", "ij", { 500, 500 }, F32, READ },
    { "ij", "j", "i", "ij", { 500, 500 }, F32, READ },
    { "ij", "i", "j", "ij", { 500, 500 }, F32, READ },
    { "ij", "ij", "", "ij", { 500, 500 }, F32, READ },
    { "ij", "ji", "ij", "ij", { 500, 500 }, F32, COPY },
    { "i", "j", "ij", "ij", { 500, 500 }, F32, WRITE },
    { "ij", "j", "i", "ij", { 4000, 4000 }, TD_DTYPE_FLOAT16, READ },
    { "ij", "i", "j", "ij", { 4000, 4000 }, TD_DTYPE_BFLOAT16, READ },
    { "nd", "d", "n", "nd", { 500000, 64 }, F32, READ },
    { "nd", "d", "n", "nd", { 1000000, 64 }, TD_DTYPE_FLOAT16, READ },
    { "nd", "d", "n", "nd", { 1000000, 64 }, TD_DTYPE_BFLOAT16, READ },
    { "nd", NULL, "n", "nd", { 1000000, 64 }, TD_DTYPE_FLOAT16, READ },
    { "nd", NULL, "d", "nd", { 1000000, 64 }, TD_DTYPE_BFLOAT16, READ },
    { "nd", "n", "d", "nd", { 1000000, 64 }, TD_DTYPE_FLOAT16, READ },
    { "ij", "j", "i", "ij", { 2000, 4000 }, TD_DTYPE_FLOAT64, READ },
    { "ij", "j", "i", "ij", { 2000, 4000 }, TD_DTYPE_COMPLEX64, READ },
    { "ij", "i", "j", "ij", { 4000, 4000 }, TD_DTYPE_INT32, READ },
    { "ij", NULL, "", "ij", { 4000, 4000 }, TD_DTYPE_INT8, READ },
};

static int64_t extent_of(const struct bench *bench, char letter)
{
    return bench->extents[strchr(bench->letters, letter) - bench->letters];
}

static int64_t stride_of(const struct bench *bench, const char *labels, char letter)
{
    int64_t stride = 0, step = 1;
    for (size_t i = labels ? strlen(labels) : 0; i-- > 0;) {
        if (labels[i] == letter)
            stride += step;
        step *= extent_of(bench, labels[i]);
    }
    return stride;
}

static int64_t numel_of(const struct bench *bench, const char *labels)
{
    int64_t numel = 1;
    for (; labels && *labels; labels++)
        numel *= extent_of(bench, *labels);
    return numel;
}

struct prepared {
    struct td_contraction contraction;
    struct td_loop loops[MAX_LOOPS];
    struct td_workspace workspace;
    char *a, *b, *c;
    int64_t bytes;
};

static void run_case(struct prepared *prepared, struct td_exec *exec)
{
    if (td_contraction_run(&prepared->contraction, prepared->a, prepared->b, prepared->c,
                           &prepared->workspace, exec, TD_IGNORED) != TD_OK)
        abort();
}

/* Returns values in [0, 1), or bytes that are valid in every dtype. */
static char *filled(int64_t numel, td_dtype dtype)
{
    const size_t size = td_dtype_info(dtype)->size;
    char *data = huge_pages((size_t)numel * size);
    if (dtype == TD_DTYPE_FLOAT32)
        for (int64_t i = 0; i < numel; i++)
            ((float *)(void *)data)[i] = (float)(i * 37 % 1009) / 1009;
    else
        memset(data, 0x3b, (size_t)numel * size);
    return data;
}

static void prepare(struct prepared *prepared, const struct bench *bench)
{
    const td_dtype dtype = bench->dtype;
    *prepared = (struct prepared){
        .contraction = { .dtype = { dtype, dtype, dtype },
                         .has_b = bench->b != NULL,
                         .kind = !bench->b && strlen(bench->a) == strlen(bench->c)
                                     ? TD_CONTRACT_PERMUTE
                                     : TD_CONTRACT_SUMPROD,
                         .loops = prepared->loops },
    };
    /* The loops in the order of C, followed by the summed loops in the order of A. */
    char order[2 * MAX_LOOPS + 1];
    snprintf(order, sizeof(order), "%s%s", bench->c, bench->letters);
    for (const char *letter = order; *letter; letter++) {
        if (strchr(order, *letter) != letter)
            continue;
        prepared->loops[prepared->contraction.rank++] =
            (struct td_loop){ .extent = extent_of(bench, *letter),
                              .stride = { stride_of(bench, bench->a, *letter),
                                          stride_of(bench, bench->b, *letter),
                                          stride_of(bench, bench->c, *letter) } };
    }
    const td_contraction_kind kind = prepared->contraction.kind;
    td_contraction_simplify(&prepared->contraction);
    prepared->contraction.kind = kind; /* the kind to measure */
    const int64_t n_a = numel_of(bench, bench->a), n_c = numel_of(bench, bench->c);
    const int64_t n_b = bench->b ? numel_of(bench, bench->b) : 0;
    prepared->a = filled(n_a, dtype);
    prepared->b = filled(n_b, dtype);
    prepared->c = filled(n_c, dtype);
    prepared->bytes = (n_a + n_b + n_c) * (int64_t)td_dtype_info(dtype)->size;
    if (prepared->contraction.kind == TD_CONTRACT_SUMPROD) {
        const struct td_workspace_size size = td_sumprod_workspace(&prepared->contraction);
        prepared->workspace.n_threads = 2;
        prepared->workspace.scratch_bytes = (size_t)(size.per_thread + 63) / 64 * 64;
        prepared->workspace.shared = zeroed_memory((size_t)size.shared);
        prepared->workspace.scratch = zeroed_memory(2 * prepared->workspace.scratch_bytes);
    }
}

static void release(struct prepared *prepared)
{
    free(prepared->a);
    free(prepared->b);
    free(prepared->c);
    free(prepared->workspace.shared);
    free(prepared->workspace.scratch);
}

static void measure(const struct bench *bench, int rounds, char *other, char *other_to)
{
    static const char *const bound_names[] = { "copy", "read", "write" };
    struct prepared prepared;
    prepare(&prepared, bench);
    struct plain plain = {
        .bound = bench->bound,
        .to = other_to,
        .from = other,
        .bytes = bench->bound == COPY ? prepared.bytes / 2 : prepared.bytes,
    };
    const int repeats = (int)(8e6 / (double)prepared.bytes) + 1;
    printf("%s%s%s->%s", bench->a, bench->b ? "," : "", bench->b ? bench->b : "", bench->c);
    for (size_t i = 0; i < strlen(bench->letters); i++)
        printf("%s%ld", i ? "x" : " ", (long)bench->extents[i]);
    printf(" %s:", td_dtype_info(bench->dtype)->name);
    for (int width = 1; width <= 2; width++) {
        pair.exec.width = width;
        double best = 1e300, best_plain = 1e300;
        for (int round = 0; round <= rounds; round++) {
            const double begin = now_ns();
            for (int i = 0; i < repeats; i++)
                run_case(&prepared, &pair.exec);
            const double middle = now_ns();
            for (int i = 0; i < repeats; i++)
                run_plain(&plain, &pair.exec);
            const double end = now_ns();
            if (round == 0)
                continue;
            best = middle - begin < best ? middle - begin : best;
            best_plain = end - middle < best_plain ? end - middle : best_plain;
        }
        const double bytes = (double)prepared.bytes * repeats;
        printf("  %dt %8.1f us %6.1f GB/s (%s %6.1f)", width, best / repeats / 1e3, bytes / best,
               bound_names[bench->bound], bytes / best_plain);
    }
    printf("\n");
    fflush(stdout);
    release(&prepared);
}

int main(int argc, char **argv)
{
    const int rounds = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 5;
    const char *word = argc > 2 ? argv[2] : "";
    if (rounds < 1 || rounds > 1000) {
        fprintf(stderr, "usage: bench_einsum_memory [rounds [word]], 1 to 1000\n");
        return 2;
    }
    pthread_t helper;
    if (pthread_create(&helper, NULL, help, &pair) != 0)
        return 1;
    print_cpu("cpu");
    char *from = filled(40 << 20, TD_DTYPE_FLOAT32), *to = filled(40 << 20, TD_DTYPE_FLOAT32);
    for (size_t i = 0; i < sizeof(benches) / sizeof(benches[0]); i++) {
        char name[64];
        snprintf(name, sizeof(name), "%s,%s->%s", benches[i].a, benches[i].b ? benches[i].b : "",
                 benches[i].c);
        if (strstr(name, word))
            measure(&benches[i], rounds, from, to);
    }
    return 0;
}
