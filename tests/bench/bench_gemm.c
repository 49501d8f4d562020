/* bench_gemm.c - compares matrix products with BLAS: the floating-point operations per second of
 * these kernels, OpenBLAS and BLIS, measured alternately in one process.
 *
 *     bench_gemm [rounds]
 *
 * The program loads OpenBLAS and BLIS if they are installed (Debian: libopenblas0-pthread,
 * libblis4-serial). On two threads, each BLAS uses its fastest method: its own threads (OpenBLAS),
 * half of the rows for each thread, or half of the columns for each thread. Figures are the best
 * of the rounds. A ratio compares with the best BLAS. For bfloat16 and float16, there is no BLAS
 * to compare with. */
#include "kernels/einsum/gemm/gemm.h"
#include "kernels/workspace.h"
#include "tests/bench/measure.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- The caller and a spinning helper thread, like a pool of warm workers -------------------- */

struct pool {
    struct td_exec exec; /* first: parallel_for casts back */
    td_range_fn *fn;
    void *context;
    int64_t count, grain;
    _Atomic int64_t next;
    atomic_int turn, helping;
    atomic_bool open;     /* a loop is running and the helper can join it */
    atomic_bool spinning; /* otherwise the helper sleeps between polls */
};

static void work(struct pool *pool)
{
    for (;;) {
        const int64_t begin = atomic_fetch_add(&pool->next, pool->grain),
                      left = pool->count - begin;
        if (left <= 0)
            return;
        pool->fn(pool->context, begin, begin + (left < pool->grain ? left : pool->grain));
    }
}

static void *help(void *argument)
{
    struct pool *pool = argument;
    for (int seen = 0;;) {
        while (atomic_load(&pool->turn) == seen)
            if (!atomic_load(&pool->spinning))
                nanosleep(&(struct timespec){ .tv_nsec = 100000 }, NULL);
        seen = atomic_load(&pool->turn);
        atomic_store(&pool->helping, 1);
        if (atomic_load(&pool->open))
            work(pool);
        atomic_store(&pool->helping, 0);
    }
    return NULL;
}

static td_status pool_for(struct td_exec *self, int64_t count, int64_t grain, td_range_fn *fn,
                          void *context, struct td_error *err)
{
    struct pool *pool = (struct pool *)self;
    (void)err;
    pool->fn = fn;
    pool->context = context;
    pool->count = count;
    pool->grain = grain < 1 ? 1 : grain;
    atomic_store(&pool->next, 0);
    if (pool->exec.width == 1 || count <= grain) {
        work(pool);
        return TD_OK;
    }
    /* The caller does not wait for a late helper. Such a helper finds the loop closed. */
    atomic_store(&pool->open, true);
    atomic_fetch_add(&pool->turn, 1);
    work(pool);
    atomic_store(&pool->open, false);
    while (atomic_load(&pool->helping))
        ;
    return TD_OK;
}

static struct pool pool = { .exec = { .parallel_for = pool_for } };

/* ---- BLAS ------------------------------------------------------------------------------------ */

typedef void sgemm_fn(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a,
                      int lda, const float *b, int ldb, float beta, float *c, int ldc);
typedef void dgemm_fn(int order, int ta, int tb, int m, int n, int k, double alpha, const double *a,
                      int lda, const double *b, int ldb, double beta, double *c, int ldc);

struct blas {
    const char *name;
    sgemm_fn *sgemm;
    dgemm_fn *dgemm;
    void (*set_threads)(int); /* NULL: single-threaded */
};

static void *symbol(void *library, const char *name, void *to, size_t size)
{
    void *address = dlsym(library, name);
    memcpy(to, &address, size); /* converts a data pointer to a function pointer */
    return address;
}

static bool blas_load(struct blas *blas, const char *name, const char *const *files,
                      const char *threads)
{
    void *library = NULL;
    *blas = (struct blas){ .name = name };
    for (; *files && !library; files++)
        library = dlopen(*files, RTLD_NOW | RTLD_LOCAL);
    if (!library || !symbol(library, "cblas_sgemm", &blas->sgemm, sizeof(blas->sgemm)) ||
        !symbol(library, "cblas_dgemm", &blas->dgemm, sizeof(blas->dgemm)))
        return false;
    if (threads)
        symbol(library, threads, &blas->set_threads, sizeof(blas->set_threads));
    return true;
}

/* ---- A product ------------------------------------------------------------------------------- */

enum { MAX_LOOPS = 6 };

struct product {
    int64_t batch, m, n, k;
    bool is_double, b_transposed;
    td_dtype half; /* float16 or bfloat16, which no BLAS supports; 0: float32 or float64 */
    struct td_loop loops[MAX_LOOPS];
    struct td_contraction contraction;
    void *a, *b, *c;
    struct td_workspace workspace;
    const struct blas *blas;
    int halves; /* 0: all; 1: half of the rows; 2: half of the columns */
};

static void run_kernels(struct product *p)
{
    struct td_error err;
    if (td_gemm_run(&p->contraction, p->a, p->b, p->c, &p->workspace, &pool.exec, &err) != TD_OK)
        exit(1);
}

/* Computes rows [m0, m0 + m) and columns [n0, n0 + n) of product i of the batch. */
static void blas_block(const struct product *p, int64_t i, int64_t m0, int64_t m, int64_t n0,
                       int64_t n)
{
    enum { ROW_MAJOR = 101, PLAIN = 111, TRANSPOSED = 112 };
    const int tb = p->b_transposed ? TRANSPOSED : PLAIN;
    const int lda = (int)p->k, ldb = (int)(p->b_transposed ? p->k : p->n), ldc = (int)p->n;
    const int64_t a = i * p->m * p->k + m0 * p->k, c = i * p->m * p->n + m0 * p->n + n0,
                  b = i * p->k * p->n + (p->b_transposed ? n0 * p->k : n0);
    if (p->is_double)
        p->blas->dgemm(ROW_MAJOR, PLAIN, tb, (int)m, (int)n, (int)p->k, 1, (double *)p->a + a, lda,
                       (double *)p->b + b, ldb, 0, (double *)p->c + c, ldc);
    else
        p->blas->sgemm(ROW_MAJOR, PLAIN, tb, (int)m, (int)n, (int)p->k, 1, (float *)p->a + a, lda,
                       (float *)p->b + b, ldb, 0, (float *)p->c + c, ldc);
}

static void blas_products(void *context, int64_t begin, int64_t end)
{
    const struct product *p = context;
    for (int64_t i = begin; i < end; i++)
        blas_block(p, i, 0, p->m, 0, p->n);
}

static void blas_halves(void *context, int64_t begin, int64_t end)
{
    const struct product *p = context;
    for (int64_t i = begin; i < end; i++)
        if (p->halves == 1)
            blas_block(p, 0, i * (p->m / 2), i ? p->m - p->m / 2 : p->m / 2, 0, p->n);
        else
            blas_block(p, 0, 0, p->m, i * (p->n / 2), i ? p->n - p->n / 2 : p->n / 2);
}

static void run_blas(struct product *p)
{
    if (p->batch > 1)
        pool_for(&pool.exec, p->batch, (p->batch + pool.exec.width - 1) / pool.exec.width,
                 blas_products, p, TD_IGNORED);
    else if (p->halves)
        pool_for(&pool.exec, 2, 1, blas_halves, p, TD_IGNORED);
    else
        blas_products(p, 0, 1);
}

/* Returns the nanoseconds of one run, the mean of the runs in 2 ms. */
static double time_of(void (*run)(struct product *), struct product *p)
{
    int64_t times = 0;
    const double begin = now_ns();
    double now;
    do {
        run(p);
        times++;
        now = now_ns();
    } while (now - begin < 2e6);
    return (now - begin) / (double)times;
}

static void keep_best(double *best, double ns)
{
    if (*best == 0 || ns < *best)
        *best = ns;
}

#define MAX_BLAS 2

/* Measures the best times of the kernels and of each BLAS on `threads` threads. */
static void compare(struct product *p, const struct blas *blas, int n_blas, int threads, int rounds,
                    double *kernels_ns, double *blas_ns)
{
    *kernels_ns = 0;
    memset(blas_ns, 0, MAX_BLAS * sizeof(blas_ns[0]));
    pool.exec.width = threads;
    atomic_store(&pool.spinning, threads > 1);
    for (int round = 0; round < rounds; round++) {
        keep_best(kernels_ns, time_of(run_kernels, p));
        for (int i = 0; i < n_blas; i++) {
            p->blas = &blas[i];
            const int methods = threads > 1 && p->batch == 1 ? 2 : 0;
            for (p->halves = methods ? 1 : 0; p->halves <= methods; p->halves++)
                keep_best(&blas_ns[i], time_of(run_blas, p));
            if (methods && blas[i].set_threads) {
                p->halves = 0;
                atomic_store(&pool.spinning, false);
                blas[i].set_threads(threads);
                keep_best(&blas_ns[i], time_of(run_blas, p));
                blas[i].set_threads(1);
                atomic_store(&pool.spinning, true);
            }
        }
    }
    atomic_store(&pool.spinning, false);
}

static void fill(struct product *p)
{
    if (p->half) /* zeros have the same speed */
        return;
    const int64_t n[2] = { p->batch * p->m * p->k, p->batch * p->k * p->n };
    for (int i = 0; i < 2; i++)
        for (int64_t e = 0; e < n[i]; e++)
            if (p->is_double)
                ((double *)(i ? p->b : p->a))[e] = (double)(e % 17) - 8;
            else
                ((float *)(i ? p->b : p->a))[e] = (float)(e % 17) - 8;
}

static void measure(struct product p, const char *name, const struct blas *blas, int n_blas,
                    int rounds)
{
    const td_dtype dtype = p.half ? p.half : p.is_double ? TD_DTYPE_FLOAT64 : TD_DTYPE_FLOAT32;
    const size_t size = td_dtype_info(dtype)->size;
    p.contraction = (struct td_contraction){ .dtype = { dtype, dtype, dtype },
                                             .has_b = true,
                                             .loops = p.loops };
    const struct td_loop loops[] = {
        { p.batch, { p.m * p.k, p.k * p.n, p.m * p.n } },
        { p.m, { p.k, 0, p.n } },
        { p.n, { 0, p.b_transposed ? p.k : 1, 1 } },
        { p.k, { 1, p.b_transposed ? 1 : p.n, 0 } },
    };
    for (int i = p.batch == 1; i < 4; i++)
        p.loops[p.contraction.rank++] = loops[i];
    p.a = zeroed_memory((size_t)(p.batch * p.m * p.k) * size);
    p.b = zeroed_memory((size_t)(p.batch * p.k * p.n) * size);
    p.c = zeroed_memory((size_t)(p.batch * p.m * p.n) * size);
    fill(&p);
    const struct td_workspace_size workspace_size = td_gemm_workspace(&p.contraction);
    p.workspace.n_threads = 2;
    p.workspace.scratch_bytes = (size_t)(workspace_size.per_thread + 63) / 64 * 64;
    p.workspace.scratch = zeroed_memory(2 * p.workspace.scratch_bytes);
    p.workspace.shared = zeroed_memory((size_t)workspace_size.shared);

    const double flops = 2 * (double)p.batch * (double)p.m * (double)p.n * (double)p.k;
    printf("%-26s", name);
    for (int threads = 1; threads <= 2; threads++) {
        double kernels_ns, blas_ns[MAX_BLAS], best = 0;
        compare(&p, blas, n_blas, threads, rounds, &kernels_ns, blas_ns);
        printf("  %dt %6.1f us %5.1f GF", threads, kernels_ns / 1e3, flops / kernels_ns);
        for (int i = 0; i < n_blas; i++) {
            printf("  %s %5.1f", blas[i].name, flops / blas_ns[i]);
            keep_best(&best, blas_ns[i]);
        }
        if (n_blas > 0)
            printf("  ratio %.2f", best / kernels_ns);
    }
    putchar('\n');
    fflush(stdout);
    free(p.a);
    free(p.b);
    free(p.c);
    free(p.workspace.scratch);
    free(p.workspace.shared);
}

int main(int argc, char **argv)
{
    const int rounds = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 5;
    if (rounds < 1) {
        fprintf(stderr, "usage: bench_gemm [rounds]\n");
        return 2;
    }
    static const char *const openblas[] = { "libopenblas.so.0", "libopenblas.so", NULL };
    static const char *const blis[] = { "libblis.so.4", "libblis.so", NULL };
    struct blas blas[MAX_BLAS];
    int n_blas = 0;
    n_blas += blas_load(&blas[n_blas], "OpenBLAS", openblas, "openblas_set_num_threads");
    n_blas += blas_load(&blas[n_blas], "BLIS", blis, NULL);
    for (int i = 0; i < n_blas; i++)
        if (blas[i].set_threads)
            blas[i].set_threads(1);
    print_cpu("model name\t");
    printf("kernels: %s\n", td_isa_name(td_isa_resolve(TD_ISA_AUTO)));
    if (n_blas == 0)
        puts("skipped: no BLAS");
    pthread_t helper;
    if (pthread_create(&helper, NULL, help, &pool) != 0)
        return 1;

    static const int64_t sizes[] = { 64, 96, 128, 192, 256, 384, 512, 1024, 2048 };
    for (int is_double = 0; is_double < 2; is_double++)
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            const int64_t n = sizes[i];
            char name[40];
            snprintf(name, sizeof(name), "float%d %d", is_double ? 64 : 32, (int)n);
            measure((struct product){ .batch = 1, .m = n, .n = n, .k = n, .is_double = is_double },
                    name, blas, n_blas, n > 1024 ? (rounds + 1) / 2 : rounds);
        }
    static const td_dtype halves[] = { TD_DTYPE_BFLOAT16, TD_DTYPE_FLOAT16 };
    for (size_t d = 0; d < sizeof(halves) / sizeof(halves[0]); d++)
        for (int64_t n = 128; n <= 1024; n *= 2) {
            char name[40];
            snprintf(name, sizeof(name), "%s %d", td_dtype_info(halves[d])->name, (int)n);
            measure((struct product){ .batch = 1, .m = n, .n = n, .k = n, .half = halves[d] }, name,
                    NULL, 0, rounds);
        }
    static const struct {
        int64_t batch, m, n, k;
        bool b_transposed;
    } batches[] = {
        { 4000, 4, 4, 4, false },     { 2000, 8, 8, 8, false },
        { 2000, 12, 12, 12, false },  { 2000, 16, 16, 16, false },
        { 800, 24, 24, 24, false },   { 512, 32, 32, 32, false },
        { 64, 64, 64, 64, false },    { 16, 128, 128, 128, false },
        { 48, 128, 128, 64, true },  /* attention: queries times keys */
        { 48, 128, 64, 128, false }, /* attention: weights times values */
        { 1, 16, 1024, 1024, false }, { 1, 1024, 16, 1024, false },
        { 1, 1024, 1024, 16, false }, { 1, 16, 16, 65536, false },
        { 1, 64, 64, 262144, false }, { 1, 64, 64, 262144, true }, /* Gram matrices */
    };
    for (size_t i = 0; i < sizeof(batches) / sizeof(batches[0]); i++) {
        char name[40];
        snprintf(name, sizeof(name), "%d x (%d,%d,%d)%s", (int)batches[i].batch, (int)batches[i].m,
                 (int)batches[i].n, (int)batches[i].k, batches[i].b_transposed ? " B^T" : "");
        measure((struct product){ .batch = batches[i].batch,
                                  .m = batches[i].m,
                                  .n = batches[i].n,
                                  .k = batches[i].k,
                                  .b_transposed = batches[i].b_transposed },
                name, blas, n_blas, rounds);
    }
    return 0;
}
