#include "kernels/convert/convert.h"
#include "kernels/einsum/gemm/gemm.h"
#include "kernels/half.h"
#include "kernels/workspace.h"
#include "tests/support/nests.h"
#include "tests/support/random.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"
#include "tests/support/threads.h"

#include <ctype.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Operands hold small integers, so that every sum is exact in every dtype but float16 and bfloat16,
 * whose result is the exact sum rounded once: results are compared bitwise. */

static uint64_t random_state = 1;

static int64_t random_between(int64_t low, int64_t high)
{
    return low + (int64_t)(random_from(&random_state) % (uint64_t)(high - low + 1));
}

/* ---- Elements of any dtype ------------------------------------------------------------------ */

struct number {
    int64_t re, im;
};

static bool is_complex(td_dtype dtype)
{
    return dtype == TD_DTYPE_COMPLEX64 || dtype == TD_DTYPE_COMPLEX128;
}

/* ---- Nests ----------------------------------------------------------------------------------- */

/* gemm requires simplified nests: these have no loops of extent 1. */
static void gemm_nest(struct nest *nest, const char *text, td_dtype a, td_dtype b, td_dtype c)
{
    nest_parse(nest, text, a, b, c);
    nest->contraction.kind = TD_CONTRACT_GEMM;
    int rank = 0;
    for (int i = 0; i < nest->contraction.rank; i++)
        if (nest->loops[i].extent > 1)
            nest->loops[rank++] = nest->loops[i];
    nest->contraction.rank = rank;
}

/* The offsets of the operands at iteration `index` of the loops over C, or of the summed loops. */
static void nest_offsets(const struct nest *nest, int64_t index, bool summed, int64_t offset[3])
{
    memset(offset, 0, 3 * sizeof(offset[0]));
    for (int l = nest->contraction.rank - 1; l >= 0; l--) {
        const struct td_loop *loop = &nest->loops[l];
        if ((loop->stride[TD_C] == 0) != summed)
            continue;
        for (int i = TD_A; i <= TD_C; i++)
            offset[i] += index % loop->extent * loop->stride[i];
        index /= loop->extent;
    }
}

static int64_t nest_size(const struct nest *nest, bool summed)
{
    int64_t size = 1;
    for (int l = 0; l < nest->contraction.rank; l++)
        if ((nest->loops[l].stride[TD_C] == 0) == summed)
            size *= nest->loops[l].extent;
    return size;
}

/* ---- Operands with margins ----------------------------------------------------------------- */

/* Elements before and after an operand. */
#define MARGIN 64

struct operands {
    struct number *value[2]; /* 0 in gaps */
    char *block[3];          /* from malloc */
    char *memory[3];         /* in the block, aligned to the dtype and no more */
    size_t bytes[3];
    char *want;
};

/* Marks the elements that the nest reads; the others are gaps. */
static bool *elements_used(const struct nest *nest, int operand)
{
    bool *used = calloc((size_t)nest->n_elements[operand], 1),
         *seen = calloc((size_t)nest->n_elements[operand], 1);
    const int64_t n_out = nest_size(nest, false), n_sum = nest_size(nest, true);
    int64_t c[3], k[3];
    for (int64_t r = 0; r < n_out; r++) {
        nest_offsets(nest, r, false, c);
        if (seen[c[operand]])
            continue;
        seen[c[operand]] = true;
        for (int64_t s = 0; s < n_sum; s++) {
            nest_offsets(nest, s, true, k);
            used[c[operand] + k[operand]] = true;
        }
    }
    free(seen);
    return used;
}

/* All bits are one: a NaN, or an integer that would change the result. */
static void operands_allocate(struct operands *o, const struct nest *nest)
{
    const td_dtype *dtype = nest->contraction.dtype;
    *o = (struct operands){ .want = NULL };
    for (int i = TD_A; i <= TD_C; i++) {
        const size_t size = td_dtype_info(dtype[i])->size;
        o->bytes[i] = (size_t)(nest->n_elements[i] + 2 * MARGIN) * size;
        const size_t shift = td_dtype_info(dtype[i])->align;
        o->block[i] = malloc(o->bytes[i] + shift); /* on a boundary of 16 */
        o->memory[i] = o->block[i] + shift;
        memset(o->memory[i], 0xff, o->bytes[i]);
    }
}

/* Gaps and margins keep ones. */
static void operands_make(struct operands *o, const struct nest *nest)
{
    const td_dtype *dtype = nest->contraction.dtype;
    operands_allocate(o, nest);
    for (int i = TD_A; i <= TD_B; i++) {
        bool *used = elements_used(nest, i);
        o->value[i] = calloc((size_t)nest->n_elements[i], sizeof(*o->value[i]));
        for (int64_t e = 0; e < nest->n_elements[i]; e++) {
            if (!used[e])
                continue;
            o->value[i][e].re = random_between(-4, 4);
            o->value[i][e].im = is_complex(dtype[i]) ? random_between(-4, 4) : 0;
            nest_store(o->memory[i], dtype[i], MARGIN + e, o->value[i][e].re, o->value[i][e].im);
        }
        free(used);
    }
}

/* The expected C, gaps and margins included, computed one sum after the other. */
static void operands_expect(struct operands *o, const struct nest *nest)
{
    const int64_t n_out = nest_size(nest, false), n_sum = nest_size(nest, true);
    const bool complex =
        is_complex(nest->contraction.dtype[TD_A]) || is_complex(nest->contraction.dtype[TD_B]);
    int64_t(*k)[3] = malloc((size_t)n_sum * sizeof(*k));
    for (int64_t s = 0; s < n_sum; s++)
        nest_offsets(nest, s, true, k[s]);
    o->want = malloc(o->bytes[TD_C]);
    memset(o->want, 0xff, o->bytes[TD_C]);
    for (int64_t r = 0; r < n_out; r++) {
        int64_t c[3];
        nest_offsets(nest, r, false, c);
        struct number sum = { 0, 0 };
        for (int64_t s = 0; s < n_sum && !complex; s++)
            sum.re +=
                o->value[TD_A][c[TD_A] + k[s][TD_A]].re * o->value[TD_B][c[TD_B] + k[s][TD_B]].re;
        for (int64_t s = 0; s < n_sum && complex; s++) {
            const struct number x = o->value[TD_A][c[TD_A] + k[s][TD_A]];
            const struct number y = o->value[TD_B][c[TD_B] + k[s][TD_B]];
            sum.re += x.re * y.re - x.im * y.im;
            sum.im += x.re * y.im + x.im * y.re;
        }
        nest_store(o->want, nest->contraction.dtype[TD_C], MARGIN + c[TD_C], sum.re, sum.im);
    }
    free(k);
}

static void operands_free(struct operands *o)
{
    for (int i = TD_A; i <= TD_C; i++)
        free(o->block[i]);
    free(o->value[TD_A]);
    free(o->value[TD_B]);
    free(o->want);
}

static void *element(const struct operands *o, const struct nest *nest, int operand)
{
    return o->memory[operand] + MARGIN * td_dtype_info(nest->contraction.dtype[operand])->size;
}

/* Sanitizers slow arithmetic down by a factor of ten and more: they test every third size, every
 * third dtype of a large product, fewer numbers of threads and grains, and each set of kernels
 * once. Otherwise a large product has every second dtype. Large products are as small as the way of
 * splitting the work allows: longer than 100 us in float32 (TD_GEMM_SINGLE_THREAD_NS), and some of
 * them beyond a block of 168 rows or 512 of k. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SIZE_STEP 3
#else
#define SIZE_STEP 1
#endif

/* TD_ISA_AVX512_BF16 has kernels of its own for bfloat16 only. */
static bool tests_isa(const struct nest *nest, td_isa isa)
{
    return td_isa_supported(isa) && (SIZE_STEP == 1 || isa != TD_ISA_AVX512_BF16 ||
                                     nest->contraction.dtype[TD_A] == TD_DTYPE_BFLOAT16 ||
                                     nest->contraction.dtype[TD_C] == TD_DTYPE_BFLOAT16);
}

/* ---- Running -------------------------------------------------------------------------------- */

static td_status run(const struct nest *nest, struct operands *o, struct td_exec *exec,
                     const char *case_name)
{
    struct td_error err;
    struct guarded_workspace guarded;
    guarded_workspace_open(&guarded, td_gemm_workspace(&nest->contraction), exec->width);
    memset(o->memory[TD_C], 0xff, o->bytes[TD_C]);
    const td_status status =
        td_gemm_run(&nest->contraction, element(o, nest, TD_A), element(o, nest, TD_B),
                    element(o, nest, TD_C), &guarded.workspace, exec, &err);
    guarded_workspace_close(&guarded, case_name);
    return status;
}

static void expect_equal(const struct nest *nest, const struct operands *o, const char *case_name,
                         td_isa isa)
{
    if (memcmp(o->memory[TD_C], o->want, o->bytes[TD_C]) == 0)
        return;
    const size_t size = td_dtype_info(nest->contraction.dtype[TD_C])->size;
    size_t i = 0;
    while (memcmp(o->memory[TD_C] + i * size, o->want + i * size, size) == 0)
        i++;
    ck_abort_msg("%s, %s, %s: element %lld of C is wrong", case_name,
                 td_dtype_info(nest->contraction.dtype[TD_C])->name, td_isa_name(isa),
                 (long long)i - MARGIN);
}

enum { EVERY_EXECUTION = -1 };

/* On one thread with the kernel's own grain, on three with a grain of 1, on two with 7, which
 * sanitizers leave out: on all, or on one of these. */
static void check_nest(const struct nest *nest, const char *case_name, int which)
{
    struct operands o;
    operands_make(&o, nest);
    operands_expect(&o, nest);
    for (td_isa isa = TD_ISA_GENERIC; isa < TD_ISA_COUNT; isa++) {
        if (!tests_isa(nest, isa))
            continue;
        static const struct {
            int threads;
            int64_t grain;
        } executions[] = { { 1, 0 }, { 3, 1 }, { 2, 7 } };
        const int n = SIZE_STEP > 1 ? 2 : COUNT_OF(executions);
        for (int i = 0; i < n; i++) {
            if (which != EVERY_EXECUTION && which % n != i)
                continue;
            struct thread_exec exec;
            thread_exec_init(&exec, executions[i].threads, executions[i].grain);
            exec.exec.isa = isa;
            EXPECT(run(nest, &o, &exec.exec, case_name) == TD_OK, "%s: failed", case_name);
            expect_equal(nest, &o, case_name, isa);
        }
    }
    operands_free(&o);
}

static void check_text(const char *text, td_dtype dtype, int which)
{
    struct nest nest;
    gemm_nest(&nest, text, dtype, dtype, dtype);
    check_nest(&nest, text, which);
}

/* ---- Results --------------------------------------------------------------------------------- */

static const td_dtype dtypes[] = {
    TD_DTYPE_FLOAT32, TD_DTYPE_FLOAT64,  TD_DTYPE_INT8,      TD_DTYPE_INT16,      TD_DTYPE_INT32,
    TD_DTYPE_INT64,   TD_DTYPE_UINT8,    TD_DTYPE_UINT16,    TD_DTYPE_UINT32,     TD_DTYPE_UINT64,
    TD_DTYPE_FLOAT16, TD_DTYPE_BFLOAT16, TD_DTYPE_COMPLEX64, TD_DTYPE_COMPLEX128,
};

static const char *const layouts[] = {
    "mk,kn->mn",     "km,kn->mn",     "mk,nk->mn",     "km,nk->mn",      "mk,kn->nm",
    "km,kn->nm",     "mk,nk->nm",     "km,nk->nm",     "zmk,zkn->zmn",   "mzk,nzk->zmn",
    "zkm,kzn->mnz",  "mkz,knz->mnz",  "m2k,kn->mn",    "mk2,kn3->mn",    "mk,k2n->m2n",
    "mk,kn->mn2",    "mik,kni->mn",   "mki,ikn->mn",   "mik,nik->nm",    "imkj,jkn->imn",
    "mjk,kni->mjni", "imk,jnk->ijmn", "mjk,inkj->nmi", "zmik,kniz->nmz",
};

/* Sizes near multiples of the tile sizes, with short additional dimensions. */
TD_TEST_LOOP(products_are_correct_for_every_layout_and_dtype, 0,
             TD_NOT_UNDER_TSAN(COUNT_OF(dtypes)))
{
    static const int near[] = { 1, 2, 4, 5, 6, 7, 8, 13, 14, 15, 16, 17, 28, 29, 31, 32, 33, 47 };
    const td_dtype dtype = dtypes[_i];
    for (int f = 0; f < COUNT_OF(layouts); f++) {
        for (int repeat = 0; repeat < (SIZE_STEP > 1 ? 1 : 3); repeat++) {
            char text[120];
            int64_t side[3];
            for (int i = 0; i < 3; i++)
                side[i] = repeat % 2 ? random_between(1, 70)
                                     : near[random_from(&random_state) % COUNT_OF(near)];
            snprintf(text, sizeof(text), "%s m=%d n=%d k=%d z=%d i=%d j=%d", layouts[f],
                     (int)side[0], (int)side[1], (int)side[2], (int)random_between(1, 4),
                     (int)random_between(1, 5), (int)random_between(1, 5));
            check_text(text, dtype, f + repeat); /* each execution once */
        }
    }
}

static const char *const large[] = {
    "mk,kn->mn m=96 n=97 k=520",
    "mk,nk->mn m=170 n=70 k=390",
    "km,kn->nm m=40 n=300 k=401",
    "zmk,zkn->zmn z=2 m=150 n=160 k=200",
    "mk,kn->mn m=5 n=700 k=800",
    "mk,kn->mn m=700 n=5 k=800",
    "mk,kn->mn m=16 n=16 k=3000",
    "ijk,klj->lij i=20 j=19 k=30 l=21",
    "mzk,nzk->znm z=9 m=64 n=70 k=64",
    "zmk,zkn->zmn z=50 m=8 n=8 k=8",
    "cadb,cdef->abef a=12 b=12 c=13 d=14 e=12 f=12",
    "abij,jiz->zab a=8 b=9 i=24 j=25 z=60",
    "mk,kn->mn m=200 n=200 k=4",
    "mk,nk->mn m=17 n=18 k=16385",
    "km,kn->m2n3 m=9 n=17 k=16390",
    "zikm,znki->znm z=2 m=8 n=35 i=2 k=8200",
    /* A large operand that few rows use, so the vectors are along m instead of n. */
    "mk,nk->mn m=13 n=330 k=410",
    "zkm,znk->zmn z=2 m=16 n=300 k=401",
    /* Rows that map to few sets of a cache. */
    "mk,kn->mn m=40 n=512 k=300",
    "km,kn->mn m=512 n=512 k=300",
};

TD_TEST_LOOP(products_of_many_blocks_are_correct, 0, TD_NOT_UNDER_TSAN(COUNT_OF(large)))
{
    static const td_dtype some[] = { TD_DTYPE_FLOAT32,   TD_DTYPE_FLOAT64,  TD_DTYPE_INT8,
                                     TD_DTYPE_INT64,     TD_DTYPE_BFLOAT16, TD_DTYPE_COMPLEX64,
                                     TD_DTYPE_COMPLEX128 };
    const int step = SIZE_STEP > 1 ? SIZE_STEP : test_effort() > 1 ? 1 : 2;
    for (int d = _i % step; d < COUNT_OF(some); d += step)
        check_text(large[_i], some[d], _i + d); /* each execution for some dtypes */
}

/* The partial sums of one product take more than half of the shared workspace, so each product of
 * the batch is summed in a pass of its own. */
TD_TEST_LOOP(each_product_of_a_batch_over_a_very_long_k_has_its_own_operands, 0,
             TD_NOT_UNDER_TSAN(1))
{
    enum { BATCH = 2, SIDE = 64, K = 33100 };
    static const char text[] = "zmk,zkn->zmn z=2 m=64 n=64 k=33100";
    const td_dtype dtype = TD_DTYPE_COMPLEX128;
    struct nest nest;
    struct operands o;
    struct thread_exec exec;
    gemm_nest(&nest, text, dtype, dtype, dtype);
    operands_allocate(&o, &nest);
    double(*a)[SIDE * K][2] = element(&o, &nest, TD_A);
    double(*b)[K * SIDE][2] = element(&o, &nest, TD_B);
    for (int z = 0; z < BATCH; z++)
        for (int i = 0; i < SIDE * K; i++) {
            a[z][i][0] = z + 1;
            b[z][i][0] = z + 2;
            a[z][i][1] = b[z][i][1] = 0;
        }
    thread_exec_init(&exec, 2, 0);
    ck_assert(run(&nest, &o, &exec.exec, text) == TD_OK);
    const double(*c)[SIDE * SIDE][2] = element(&o, &nest, TD_C);
    for (int z = 0; z < BATCH; z++)
        for (int i = 0; i < SIDE * SIDE; i++)
            EXPECT(c[z][i][0] == (z + 1.0) * (z + 2) * K && c[z][i][1] == 0, "product %d: %g", z,
                   c[z][i][0]);
    operands_free(&o);
}

static const char *const edges[] = {
    "mk,kn->mn", "mk,nk->mn", "km,kn->mn", "zmk,kzn->mzn", "mk,kn->nm",
};

TD_TEST_LOOP(partial_tiles_of_every_size_are_correct, 0, TD_NOT_UNDER_TSAN(COUNT_OF(edges)))
{
    for (int m = 1; m <= 34; m += (1 + (m > 9)) * SIZE_STEP) {
        for (int n = 1; n <= 34; n += (1 + (n > 9)) * SIZE_STEP) {
            char text[80];
            snprintf(text, sizeof(text), "%s m=%d n=%d k=%d z=2", edges[_i], m, n, 1 + (m + n) % 9);
            check_text(text, TD_DTYPE_FLOAT32, m + n / 2);
            check_text(text, TD_DTYPE_FLOAT64, m + n / 2 + 1);
            check_text(text, TD_DTYPE_BFLOAT16, m + n / 2 + 2);
        }
    }
}

/* bfloat16 is summed in pairs along k: even and odd k, near multiples of the blocks of pairs. */
TD_TEST_LOOP(bfloat16_products_are_correct_for_even_and_odd_k, 0,
             TD_NOT_UNDER_TSAN(COUNT_OF(edges)))
{
    for (int k = 2; k <= 1060; k += (k < 70 ? 1 : 33) * SIZE_STEP) {
        char text[80];
        struct nest nest;
        snprintf(text, sizeof(text), "%s m=15 n=35 k=%d z=2", edges[_i], k);
        check_text(text, TD_DTYPE_BFLOAT16, k + _i);
        gemm_nest(&nest, text, TD_DTYPE_BFLOAT16, TD_DTYPE_BFLOAT16, TD_DTYPE_FLOAT32);
        check_nest(&nest, text, k + _i + 1);
    }
}

TD_TEST_LOOP(operands_of_one_compute_type_may_differ_in_dtype, 0, TD_NOT_UNDER_TSAN(1))
{
    static const td_dtype mixed[][3] = {
        { TD_DTYPE_FLOAT16, TD_DTYPE_FLOAT16, TD_DTYPE_FLOAT32 },
        { TD_DTYPE_FLOAT32, TD_DTYPE_FLOAT16, TD_DTYPE_FLOAT16 },
        { TD_DTYPE_BFLOAT16, TD_DTYPE_FLOAT32, TD_DTYPE_FLOAT32 },
        { TD_DTYPE_FLOAT32, TD_DTYPE_BFLOAT16, TD_DTYPE_BFLOAT16 },
        { TD_DTYPE_BFLOAT16, TD_DTYPE_BFLOAT16, TD_DTYPE_FLOAT32 },
        { TD_DTYPE_FLOAT32, TD_DTYPE_FLOAT32, TD_DTYPE_BFLOAT16 },
    };
    for (int i = 0; i < COUNT_OF(mixed); i++) {
        for (int f = 0; f < COUNT_OF(layouts); f++) {
            char text[120];
            struct nest nest;
            snprintf(text, sizeof(text), "%s m=41 n=37 k=43 z=2 i=2 j=3", layouts[f]);
            gemm_nest(&nest, text, mixed[i][0], mixed[i][1], mixed[i][2]);
            check_nest(&nest, text, EVERY_EXECUTION);
        }
    }
}

/* ---- Special values of bfloat16 ------------------------------------------------------------- */

#define BF16_ONE      0x3f80
#define BF16_INF      0x7f80
#define BF16_MINUS    0x8000 /* the sign */
#define BF16_NAN      0x7fc0
#define BF16_DENORMAL 0x0040 /* 2^-127 */
#define BF16_LARGE    0x7e80 /* 2^126 */
#define BF16_TINY     0x1f80 /* 2^-64 */

/* C is float32. Row 3 of A holds `first` and then `a`, column 2 of B holds `b`, all else is 1. k is
 * odd, so that the last pair has one element. */
static const struct {
    const char *case_name;
    uint16_t first, a, b;
    float want[2];    /* C[3, 2], C[3, 1]: k is 7 */
    float flushed[2]; /* with avx512_bf16, which treats denormals as 0 */
} specials[] = {
    { "Inf", BF16_INF, BF16_ONE, BF16_ONE, LIST(INFINITY, INFINITY), LIST(INFINITY, INFINITY) },
    { "Inf times 0", BF16_INF, BF16_ONE, 0, LIST(NAN, INFINITY), LIST(NAN, INFINITY) },
    { "Inf - Inf", BF16_INF | BF16_MINUS, BF16_INF, BF16_ONE, LIST(NAN, NAN), LIST(NAN, NAN) },
    { "NaN", BF16_NAN, BF16_ONE, BF16_ONE, LIST(NAN, NAN), LIST(NAN, NAN) },
    { "NaN times 0", BF16_NAN, BF16_ONE, 0, LIST(NAN, NAN), LIST(NAN, NAN) },
    { "a sum that overflows float32", BF16_LARGE, BF16_LARGE, BF16_ONE, LIST(INFINITY, INFINITY),
      LIST(INFINITY, INFINITY) },
    { "denormal operands", BF16_DENORMAL, BF16_DENORMAL, BF16_LARGE, LIST(3.5f, 0x7p-127f),
      LIST(0, 0) },
    { "denormal products", BF16_TINY, BF16_TINY, BF16_TINY, LIST(0x7p-128f, 0x7p-64f),
      LIST(0, 0x7p-64f) },
};

static bool same(float got, float want)
{
    return isnan(want) ? isnan(got) : got == want;
}

TD_TEST_LOOP(bfloat16_propagates_nan_and_inf_and_avx512_bf16_flushes_denormals, 0,
             TD_NOT_UNDER_TSAN(COUNT_OF(specials)))
{
    struct nest nest;
    struct operands o;
    gemm_nest(&nest, "mk,kn->mn m=16 n=33 k=7", TD_DTYPE_BFLOAT16, TD_DTYPE_BFLOAT16,
              TD_DTYPE_FLOAT32);
    operands_make(&o, &nest);
    uint16_t *a = element(&o, &nest, TD_A), *b = element(&o, &nest, TD_B);
    for (int i = 0; i < 16 * 7; i++)
        a[i] = i / 7 != 3 ? BF16_ONE : i % 7 == 0 ? specials[_i].first : specials[_i].a;
    for (int i = 0; i < 7 * 33; i++)
        b[i] = i % 33 == 2 ? specials[_i].b : BF16_ONE;
    for (td_isa isa = TD_ISA_GENERIC; isa < TD_ISA_COUNT; isa++) {
        if (!td_isa_supported(isa))
            continue;
        struct td_exec serial;
        td_exec_serial(&serial, &test_arena);
        serial.isa = isa;
        ck_assert(run(&nest, &o, &serial, specials[_i].case_name) == TD_OK);
        const float *c = element(&o, &nest, TD_C);
        const float *want = isa == TD_ISA_AVX512_BF16 ? specials[_i].flushed : specials[_i].want;
        for (int i = 0; i < 2; i++)
            EXPECT(same(c[3 * 33 + 2 - i], want[i]), "%s, %s: %g, not %g", specials[_i].case_name,
                   td_isa_name(isa), (double)c[3 * 33 + 2 - i], (double)want[i]);
        EXPECT(c[4 * 33 + 1] == 7, "%s, %s: the element in the next row is %g",
               specials[_i].case_name, td_isa_name(isa), (double)c[4 * 33 + 1]);
    }
    operands_free(&o);
}

/* ---- Threads and deadlines ------------------------------------------------------------------- */

static const char *const threaded[] = {
    "mk,kn->mn m=170 n=100 k=520",       "mk,nk->nm m=65 n=66 k=700",
    "zmk,zkn->zmn z=200 m=17 n=19 k=23", "zmk,znk->mzn z=7 m=120 n=64 k=120",
    "mk,nk->mn m=16 n=18 k=16500",       "zmk,zkn->znm z=2 m=17 n=18 k=16500",
    "mk,kn->mn m=33 n=16 k=16500",       "mk,kn->mn m=4 n=128 k=16500",
};

/* Values whose sums round, so that the result depends on the order of addition. */
static void fill_floats(struct operands *o, const struct nest *nest)
{
    for (int i = TD_A; i <= TD_B; i++) {
        const td_dtype dtype = nest->contraction.dtype[i];
        bool unsure;
        void *to = element(o, nest, i);
        for (int64_t e = 0; e < nest->n_elements[i]; e++) {
            const double x = (double)(random_from(&random_state) >> 11) * 0x1p-53 - 0.25;
            if (dtype == TD_DTYPE_FLOAT32)
                ((float *)to)[e] = (float)x;
            else if (dtype == TD_DTYPE_BFLOAT16)
                ((uint16_t *)to)[e] = td_narrow_round(x, TD_NARROW_BFLOAT16, 0, &unsure);
            else
                ((double *)to)[e] = x;
        }
    }
}

TD_TEST_EACH(results_have_the_same_bits_at_every_thread_count_and_grain, threaded)
{
    static const td_dtype floats[][2] = {
        { TD_DTYPE_FLOAT32, TD_DTYPE_FLOAT32 },
        { TD_DTYPE_FLOAT64, TD_DTYPE_FLOAT64 },
        { TD_DTYPE_BFLOAT16, TD_DTYPE_FLOAT32 },
    };
    for (int d = 0; d < COUNT_OF(floats); d++) {
        struct nest nest;
        struct operands o;
        gemm_nest(&nest, threaded[_i], floats[d][0], floats[d][0], floats[d][1]);
        operands_allocate(&o, &nest);
        fill_floats(&o, &nest);
        o.want = malloc(o.bytes[TD_C]);
        for (td_isa isa = TD_ISA_GENERIC; isa < TD_ISA_COUNT; isa++) {
            if (!tests_isa(&nest, isa))
                continue;
            struct td_exec serial;
            td_exec_serial(&serial, &test_arena);
            serial.isa = isa;
            ck_assert(run(&nest, &o, &serial, threaded[_i]) == TD_OK);
            memcpy(o.want, o.memory[TD_C], o.bytes[TD_C]);
            for (int threads = SIZE_STEP > 1 ? 4 : 1; threads <= (SIZE_STEP > 1 ? 4 : 8);
                 threads += threads) {
                for (int64_t grain = 0; grain <= 5; grain += SIZE_STEP * (1 + (grain > 1))) {
                    struct thread_exec exec;
                    thread_exec_init(&exec, threads, grain);
                    exec.exec.isa = isa;
                    ck_assert(run(&nest, &o, &exec.exec, threaded[_i]) == TD_OK);
                    expect_equal(&nest, &o, threaded[_i], isa);
                }
            }
        }
        operands_free(&o);
    }
}

TD_TEST(an_expired_deadline_stops_the_product)
{
    struct nest nest;
    struct operands o;
    gemm_nest(&nest, "zmk,zkn->zmn z=2 m=170 n=100 k=520", TD_DTYPE_FLOAT32, TD_DTYPE_FLOAT32,
              TD_DTYPE_FLOAT32);
    operands_make(&o, &nest);
    operands_expect(&o, &nest);
    for (int64_t allowed = 0;; allowed++) {
        struct thread_exec exec;
        thread_exec_init(&exec, 2, 0);
        exec.ranges_allowed = allowed;
        if (run(&nest, &o, &exec.exec, "deadline") == TD_OK)
            break;
        ck_assert_int_lt(allowed, 1000);
    }
    expect_equal(&nest, &o, "the first run without a deadline error", TD_ISA_AUTO);
    operands_free(&o);
}

/* The deadline is checked between ranges, so no range may take long. For a sanitizer, it
 * passes once there were enough. */
TD_TEST(large_products_are_split_into_many_ranges)
{
    static const struct {
        const char *text;
        td_dtype dtype;
        int64_t min_ranges; /* each below 10 ms on one thread with AVX2 */
    } cases[] = {
        { "mk,kn->mn m=1000 n=1000 k=1000", TD_DTYPE_FLOAT32, 4 },
        { "zmk,zkn->zmn z=300 m=64 n=64 k=64", TD_DTYPE_FLOAT32, 10 },
        { "mk,kn->mn m=16 n=5000 k=2000", TD_DTYPE_FLOAT32, 4 },
        { "mk,kn->mn m=16 n=16 k=65536", TD_DTYPE_FLOAT32, 6 },
        { "mk,kn->mn m=64 n=64 k=50000", TD_DTYPE_COMPLEX128, 60 },
    };
    for (int i = 0; i < COUNT_OF(cases); i++) {
        struct nest nest;
        struct operands o;
        struct thread_exec exec;
        const td_dtype dtype = cases[i].dtype;
        gemm_nest(&nest, cases[i].text, dtype, dtype, dtype);
        operands_allocate(&o, &nest);
        thread_exec_init(&exec, 2, 0);
        if (SIZE_STEP > 1)
            exec.ranges_allowed = cases[i].min_ranges;
        const td_status status = run(&nest, &o, &exec.exec, cases[i].text);
        ck_assert(status == TD_OK || (SIZE_STEP > 1 && status == TD_DEADLINE_EXCEEDED));
        ck_assert_msg(exec.ranges_run >= cases[i].min_ranges, "%s: %lld ranges", cases[i].text,
                      (long long)exec.ranges_run);
        operands_free(&o);
    }
}

TD_TEST(small_products_run_as_one_range)
{
    static const char *const texts[] = { "mk,kn->mn m=4 n=4 k=4", "mk,nk->mn m=64 n=64 k=64",
                                         "zmk,zkn->zmn z=100 m=8 n=8 k=8" };
    for (int i = 0; i < COUNT_OF(texts); i++) {
        struct nest nest;
        struct operands o;
        struct thread_exec exec;
        gemm_nest(&nest, texts[i], TD_DTYPE_FLOAT32, TD_DTYPE_FLOAT32, TD_DTYPE_FLOAT32);
        operands_allocate(&o, &nest);
        thread_exec_init(&exec, 2, 0);
        ck_assert(run(&nest, &o, &exec.exec, texts[i]) == TD_OK);
        ck_assert_int_eq(exec.ranges_run, 1);
        operands_free(&o);
    }
}

/* ---- Concurrent callers --------------------------------------------------------------------- */

struct caller {
    const struct nest *nest;
    const struct operands *operands;
    int wrong;
};

static void *call_repeatedly(void *argument)
{
    struct caller *caller = argument;
    const struct td_workspace_size size = td_gemm_workspace(&caller->nest->contraction);
    struct td_workspace workspace = { .n_threads = 1 };
    workspace.scratch_bytes = (size_t)(size.per_thread + 63) / 64 * 64;
    workspace.scratch = aligned_alloc(64, workspace.scratch_bytes);
    workspace.shared = aligned_alloc(64, (size_t)(size.shared + 127) / 64 * 64);
    char *c = malloc(caller->operands->bytes[TD_C]);
    const size_t margin = MARGIN * sizeof(float);
    struct td_exec serial;
    td_exec_serial(&serial, NULL);
    for (int i = 0; i < 2000 / SIZE_STEP / SIZE_STEP; i++) {
        struct td_error err;
        memset(c, 0xff, caller->operands->bytes[TD_C]);
        if (td_gemm_run(&caller->nest->contraction, element(caller->operands, caller->nest, TD_A),
                        element(caller->operands, caller->nest, TD_B), c + margin, &workspace,
                        &serial, &err) != TD_OK ||
            memcmp(c, caller->operands->want, caller->operands->bytes[TD_C]) != 0)
            caller->wrong++;
    }
    free(c);
    free(workspace.scratch);
    free(workspace.shared);
    return NULL;
}

static const int caller_sizes[] = { 16, 17, 24, 32, 48, 64 };

TD_TEST_EACH(concurrent_callers_get_the_same_result, caller_sizes)
{
    char text[80];
    struct nest nest;
    struct operands o;
    struct caller callers[4];
    pthread_t threads[4];
    snprintf(text, sizeof(text), "mk,kn->mn m=%d n=%d k=%d", caller_sizes[_i], caller_sizes[_i],
             caller_sizes[_i]);
    gemm_nest(&nest, text, TD_DTYPE_FLOAT32, TD_DTYPE_FLOAT32, TD_DTYPE_FLOAT32);
    operands_make(&o, &nest);
    operands_expect(&o, &nest);
    for (int i = 0; i < COUNT_OF(callers); i++) {
        callers[i] = (struct caller){ &nest, &o, 0 };
        ck_assert_int_eq(pthread_create(&threads[i], NULL, call_repeatedly, &callers[i]), 0);
    }
    for (int i = 0; i < COUNT_OF(callers); i++) {
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
        ck_assert_int_eq(callers[i].wrong, 0);
    }
    operands_free(&o);
}

/* ---- Selection and workspace ---------------------------------------------------------------- */

static const struct {
    const char *case_name, *text;
    bool suits;
} choices[] = {
    { "a matrix product", "mk,kn->mn m=8 n=8 k=8", true },
    { "a batch of matrix products", "zmk,zkn->zmn z=2 m=8 n=8 k=8", true },
    { "an outer product", "m,n->mn m=8 n=8", false },
    { "matrix times vector", "mk,k->m m=8 k=8", false },
    { "a dot product", "k,k-> k=8", false },
    { "an elementwise product", "mn,mn->mn m=8 n=8", false },
    { "a loop summed over one operand", "mkj,kn->mn m=8 n=8 k=8 j=3", false },
    { "three columns are too thin", "mk,kn->mn m=8 n=3 k=8", false },
    { "three rows are too thin", "mk,kn->mn m=3 n=8 k=8", false },
};

TD_TEST_EACH(only_matrix_products_of_sufficient_size_suit_gemm, choices)
{
    struct nest nest;
    gemm_nest(&nest, choices[_i].text, TD_DTYPE_FLOAT32, TD_DTYPE_FLOAT32, TD_DTYPE_FLOAT32);
    ck_assert_msg(td_gemm_suits(&nest.contraction) == choices[_i].suits, "%s",
                  choices[_i].case_name);
}

TD_TEST(the_workspace_of_a_huge_product_is_bounded)
{
    struct nest nest;
    gemm_nest(&nest, "mk,kn->mn m=100000 n=100000 k=100000", TD_DTYPE_FLOAT64, TD_DTYPE_FLOAT64,
              TD_DTYPE_FLOAT64);
    const struct td_workspace_size size = td_gemm_workspace(&nest.contraction);
    ck_assert_uint_le(size.shared, (uint64_t)33 << 20);
    ck_assert_uint_le(size.per_thread, (uint64_t)2 << 20);
}

/* float64, and bfloat16, whose results are rounded once after all of k. */
TD_TEST(the_workspace_of_a_very_long_k_is_bounded)
{
    static const td_dtype some[] = { TD_DTYPE_FLOAT64, TD_DTYPE_BFLOAT16 };
    for (int d = 0; d < COUNT_OF(some); d++) {
        struct nest nest;
        gemm_nest(&nest, "mk,kn->mn m=64 n=64 k=1000000000", some[d], some[d], some[d]);
        const struct td_workspace_size size = td_gemm_workspace(&nest.contraction);
        ck_assert_uint_le(size.shared, (uint64_t)16 << 20);
        ck_assert_uint_le(size.per_thread, (uint64_t)2 << 20);
    }
}
