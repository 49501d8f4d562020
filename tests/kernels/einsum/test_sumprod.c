#include "kernels/einsum/sumprod/sumprod.h"
#include "tests/support/nests.h"
#include "tests/support/random.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"
#include "tests/support/threads.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FOR_EACH_ISA(isa)                                                                          \
    for (td_isa isa = TD_ISA_GENERIC; isa < TD_ISA_COUNT; isa++)                                   \
        if (td_isa_supported(isa))

static td_status run_with(struct nest *nest, td_isa isa, int threads, int64_t grain,
                          int64_t ranges_allowed, const char *case_name)
{
    struct thread_exec exec;
    struct guarded_workspace guarded;
    struct td_error err;
    thread_exec_init(&exec, threads, grain);
    exec.exec.isa = isa;
    exec.ranges_allowed = ranges_allowed;
    guarded_workspace_open(&guarded, td_sumprod_workspace(&nest->contraction), threads);
    td_status status = td_sumprod_run(&nest->contraction, nest->data[TD_A],
                                      nest->contraction.has_b ? nest->data[TD_B] : NULL,
                                      nest->data[TD_C], &guarded.workspace, &exec.exec, &err);
    guarded_workspace_close(&guarded, case_name);
    return status;
}

static void run(struct nest *nest, td_isa isa, const char *case_name)
{
    EXPECT(run_with(nest, isa, 1, 0, -1, case_name) == TD_OK, "%s", case_name);
}

/* ---- Nests against the reference ---------------------------------------------------------- */

static const struct {
    td_dtype in, out;
} dtypes[] = {
    { TD_DTYPE_FLOAT32, TD_DTYPE_FLOAT32 },     { TD_DTYPE_FLOAT64, TD_DTYPE_FLOAT64 },
    { TD_DTYPE_FLOAT16, TD_DTYPE_FLOAT16 },     { TD_DTYPE_BFLOAT16, TD_DTYPE_BFLOAT16 },
    { TD_DTYPE_COMPLEX64, TD_DTYPE_COMPLEX64 }, { TD_DTYPE_COMPLEX128, TD_DTYPE_COMPLEX128 },
    { TD_DTYPE_INT8, TD_DTYPE_INT8 },           { TD_DTYPE_UINT8, TD_DTYPE_UINT8 },
    { TD_DTYPE_INT16, TD_DTYPE_INT16 },         { TD_DTYPE_UINT16, TD_DTYPE_UINT16 },
    { TD_DTYPE_INT32, TD_DTYPE_INT32 },         { TD_DTYPE_UINT32, TD_DTYPE_UINT32 },
    { TD_DTYPE_INT64, TD_DTYPE_INT64 },         { TD_DTYPE_UINT64, TD_DTYPE_UINT64 },
    { TD_DTYPE_FLOAT16, TD_DTYPE_FLOAT32 },     { TD_DTYPE_FLOAT32, TD_DTYPE_BFLOAT16 },
    { TD_DTYPE_INT8, TD_DTYPE_INT32 },
};

TD_TEST_LOOP(random_nests_match_the_reference, 0, TD_NOT_UNDER_TSAN(COUNT_OF(dtypes)))
{
    uint64_t state = (uint64_t)_i;
    for (int round = 0; round < 60 * test_effort(); round++) {
        struct nest nest;
        nest_draw(&nest,
                  &(struct nest_kind){ dtypes[_i].in, dtypes[_i].out, .has_b = round % 3 != 0,
                                       .sums = round % 4 != 1, .steps = 3000 },
                  &state);
        nest_fill(&nest, &state);
        nest_reference(&nest);
        FOR_EACH_ISA(isa)
        {
            run(&nest, isa, td_isa_name(isa));
            nest_expect(&nest, td_isa_name(isa));
        }
        nest_free(&nest);
    }
}

/* Every path through the kernels, with full and partial blocks. */
static const char *const equations[] = {
    "ij-> i=37 j=141",
    "ij->i i=37 j=141",
    "ij->j i=600 j=37",
    "ijk->j i=11 j=23 k=29",
    "ijk->ik i=11 j=300 k=29",
    "ijk->k i=30 j=30 k=7",
    "ii-> i=101",
    "ii->i i=101",
    "i,i-> i=9001",
    "bi,bi->b b=19 i=333",
    "ij,j->i i=37 j=1041",
    "ij,i->j i=1041 j=37",
    "ji,j->i j=37 i=141",
    "bij,bj->bi b=5 i=17 j=130",
    "bij,bi->bj b=5 i=130 j=17",
    "ij,ij->ij i=37 j=141",
    "ij,ji->ij i=37 j=141",
    "ij,ji-> i=37 j=141",
    "i,j->ij i=37 j=5000",
    "i,j->ji i=37 j=141",
    "ij,j->ij i=37 j=141",
    "ij,->ij i=37 j=141",
    ",->",
    "->",
    "i->i i=5003",
    "ij->ji i=37 j=141",
    "ij,jk->ik i=19 j=23 k=29",
    "ik,jk->ij i=19 k=23 j=300",
    "ijk,ijk->j i=11 j=12 k=13",
    "ij->i i=3000 j=3",
    "ij->j i=3 j=3000",
    "bij,bj->bi b=500 i=4 j=4",
    /* Long rows, of which several are read together, and long runs, which are read as several long
     * rows. */
    "ij->i i=19 j=4099",
    "i-> i=75001",
    "ij->i i=2 j=40961",
    /* Short contiguous rows: each summed, or added to one row; of one operand, of products of rows,
     * of products with the same vector. */
    "ijk->k i=60 j=31 k=3",
    "ijk->ik i=7 j=500 k=3",
    "ijk->ij i=9 j=130 k=3",
    "ijk->j i=11 j=90 k=3",
    "ijk->j i=3 j=600 k=20",
    "ij->i i=1500 j=2",
    "ij,j->i i=2000 j=3",
    "ij,ij->i i=600 j=4",
    "ij,ij->j i=1700 j=5",
    "bij,ij->bj b=3 i=700 j=3",
    "ij->j i=9001 j=2",
    "ij->j i=90 j=65",
    /* Rows that end within a vector, and rows that are longer than a buffer. */
    "ij->i i=20 j=31",
    "ij,j->i i=20 j=63",
    "ij,j->i i=3 j=5003",
    /* Long rows times the same vector, several at a time and the remaining ones. */
    "ij,j->i i=21 j=3337",
    "bij,bj->bi b=2 i=9 j=6149",
    "ij,i->j i=300 j=17",
};

TD_TEST_LOOP(known_equations_match_the_reference, 0, TD_NOT_UNDER_TSAN(COUNT_OF(equations)))
{
    uint64_t state = 1;
    for (int d = 0; d < COUNT_OF(dtypes); d++) {
        struct nest nest;
        nest_make(&nest, equations[_i], dtypes[d].in, dtypes[d].out);
        nest_fill(&nest, &state);
        nest_reference(&nest);
        FOR_EACH_ISA(isa)
        {
            run(&nest, isa, equations[_i]);
            nest_expect(&nest, equations[_i]);
        }
        nest_free(&nest);
    }
}

/* ---- Threads ----------------------------------------------------------------------------- */

/* Large enough that reductions are split. */
static const struct {
    const char *text;
    td_dtype dtype;
} threaded[] = {
    { "ij-> i=1100 j=1100", TD_DTYPE_FLOAT32 },
    { "ij->j i=2000 j=700", TD_DTYPE_FLOAT32 },
    { "ij->i i=3 j=500000", TD_DTYPE_FLOAT32 },
    { "ij,ij-> i=1100 j=1100", TD_DTYPE_FLOAT16 },
    { "ij,i->j i=2000 j=700", TD_DTYPE_FLOAT32 },
    { "ij,j->i i=1200 j=1000", TD_DTYPE_FLOAT64 },
    { "ij,j->i i=91 j=20011", TD_DTYPE_FLOAT32 },
    { "ij,j->i i=1200 j=1000", TD_DTYPE_COMPLEX64 },
    { "ij,ji-> i=1100 j=1100", TD_DTYPE_FLOAT32 },
    { "i,j->ij i=1000 j=1000", TD_DTYPE_FLOAT32 },
    { "ijk->k i=100 j=200 k=70", TD_DTYPE_FLOAT64 },
    { "ijk->k i=500 j=1400 k=3", TD_DTYPE_FLOAT32 },
    { "ijk->j i=50 j=600 k=100", TD_DTYPE_FLOAT32 },
};

/* Values whose sums depend on the order of addition. */
static void fill_fractions(struct nest *nest, uint64_t *state)
{
    nest_fill(nest, state);
    for (int operand = TD_A; operand <= TD_B; operand++) {
        const td_dtype dtype = nest->contraction.dtype[operand];
        const int64_t parts = dtype == TD_DTYPE_COMPLEX64 ? 2 : 1;
        for (int64_t i = 0; i < nest->n_elements[operand] * parts; i++) {
            const double value = (double)(random_from(state) >> 11) * 0x1p-53;
            if (dtype == TD_DTYPE_FLOAT32 || dtype == TD_DTYPE_COMPLEX64)
                ((float *)nest->data[operand])[i] = (float)value;
            else if (dtype == TD_DTYPE_FLOAT64)
                ((double *)nest->data[operand])[i] = value;
        }
    }
}

TD_TEST_EACH(results_have_the_same_bits_at_every_thread_count_and_grain, threaded)
{
    uint64_t state = 2;
    struct nest nest;
    nest_make(&nest, threaded[_i].text, threaded[_i].dtype, threaded[_i].dtype);
    fill_fractions(&nest, &state);
    const size_t bytes = (size_t)nest.n_elements[TD_C] * td_dtype_info(threaded[_i].dtype)->size;
    FOR_EACH_ISA(isa)
    {
        run(&nest, isa, threaded[_i].text);
        memcpy(nest.want, nest.data[TD_C], bytes);
        for (int threads = 1; threads <= MOST_THREADS; threads++) {
            for (int64_t grain = 0; grain <= 5; grain += 1 + 2 * (grain > 0)) {
                memset(nest.data[TD_C], 0xa5, bytes);
                EXPECT(run_with(&nest, isa, threads, grain, -1, "threads") == TD_OK, "%s",
                       threaded[_i].text);
                nest_expect(&nest, threaded[_i].text);
            }
        }
    }
    nest_free(&nest);
}

TD_TEST_EACH(an_expired_deadline_stops_the_reduction, threaded)
{
    uint64_t state = 3;
    struct nest nest;
    nest_make(&nest, threaded[_i].text, threaded[_i].dtype, threaded[_i].dtype);
    nest_fill(&nest, &state);
    /* With a grain of 1 each of these has more than one range. */
    ck_assert_int_eq(run_with(&nest, TD_ISA_AUTO, 2, 1, 1, "deadline"), TD_DEADLINE_EXCEEDED);
    nest_free(&nest);
}

TD_TEST(a_small_reduction_runs_as_one_range)
{
    uint64_t state = 4;
    struct nest nest;
    nest_make(&nest, "ij,j->i i=500 j=500", TD_DTYPE_FLOAT32, TD_DTYPE_FLOAT32);
    nest_fill(&nest, &state);
    ck_assert_int_eq(run_with(&nest, TD_ISA_AUTO, 2, 0, 1, "one range"), TD_OK);
    nest_free(&nest);
}

/* ---- Numerics ---------------------------------------------------------------------------- */

static const char *const long_sums[] = {
    "i-> i=4000000",       "ij->j i=1000000 j=4",   "ij->j i=40000 j=100",   "ij->i i=4 j=1000000",
    "i,i-> i=4000000",     "ij,i->j i=40000 j=100", "ij,j->i i=4 j=1000000", "ij->j i=1300000 j=3",
    "ij->i i=1000000 j=4", "ij,j->i i=16 j=250000",
};

/* 0.1f is 0.100000001490116; added one after the other, 4 million of them give 384524.8. Blocked
 * summation leaves a few rounding errors, at most 2e-6 of the sum. */
TD_TEST_LOOP(long_float32_sums_are_accurate_to_two_millionths, 0,
             TD_NOT_UNDER_TSAN(COUNT_OF(long_sums)))
{
    struct nest nest;
    nest_make(&nest, long_sums[_i], TD_DTYPE_FLOAT32, TD_DTYPE_FLOAT32);
    const int64_t n = nest.n_elements[TD_A];
    for (int64_t i = 0; i < n; i++)
        ((float *)nest.data[TD_A])[i] = 0.1f;
    for (int64_t i = 0; i < nest.n_elements[TD_B]; i++)
        ((float *)nest.data[TD_B])[i] = 1;
    const double want = 0.1f * ((double)n / (double)nest.n_elements[TD_C]);
    FOR_EACH_ISA(isa)
    {
        run(&nest, isa, long_sums[_i]);
        for (int64_t i = 0; i < nest.n_elements[TD_C]; i++) {
            const double got = (double)((float *)nest.data[TD_C])[i];
            EXPECT(fabs(got - want) < 2e-6 * want, "%s, %s: %.9g, not %.9g", long_sums[_i],
                   td_isa_name(isa), got, want);
        }
    }
    nest_free(&nest);
}

/* In float16 4096 + 1 is 4096, in bfloat16 256 + 1 is 256: a sum rounded at every term would stop
 * there. 5000 ones are 5000 in float16; 4992 in bfloat16, whose neighbours are 4992 and 5024. */
TD_TEST_LOOP(float16_and_bfloat16_sums_are_rounded_once, 0, TD_NOT_UNDER_TSAN(2))
{
    static const struct {
        td_dtype dtype;
        uint16_t one, sum;
    } narrow[] = { { TD_DTYPE_FLOAT16, 0x3c00, 0x6ce2 }, { TD_DTYPE_BFLOAT16, 0x3f80, 0x459c } };
    static const char *const texts[] = { "i-> i=5000", "ij->j i=5000 j=3", "i,i-> i=5000",
                                         "ij,i->j i=5000 j=3" };
    for (int t = 0; t < COUNT_OF(texts); t++) {
        struct nest nest;
        nest_make(&nest, texts[t], narrow[_i].dtype, narrow[_i].dtype);
        for (int operand = TD_A; operand <= TD_B; operand++)
            for (int64_t i = 0; i < nest.n_elements[operand]; i++)
                ((uint16_t *)nest.data[operand])[i] = narrow[_i].one;
        FOR_EACH_ISA(isa)
        {
            run(&nest, isa, texts[t]);
            for (int64_t i = 0; i < nest.n_elements[TD_C]; i++)
                EXPECT(((uint16_t *)nest.data[TD_C])[i] == narrow[_i].sum, "%s, %s: 0x%04x",
                       texts[t], td_isa_name(isa), ((uint16_t *)nest.data[TD_C])[i]);
        }
        nest_free(&nest);
    }
}

static const struct {
    const char *case_name;
    float a, b, sum; /* one element of A is a, the others are 0; all of B is b */
} specials[] = {
    { "NaN propagates", NAN, 1, NAN },
    { "infinity propagates", INFINITY, 1, INFINITY },
    { "minus infinity propagates", -INFINITY, 1, -INFINITY },
    { "infinity times zero is NaN", INFINITY, 0, NAN },
    { "zero times infinity is NaN", 0, INFINITY, NAN },
    { "zero times NaN is NaN", 0, NAN, NAN },
};

TD_TEST_LOOP(nan_and_infinity_propagate_to_their_own_output_only, 0,
             TD_NOT_UNDER_TSAN(COUNT_OF(specials)))
{
    static const char *const texts[] = { "ij,ij-> i=67 j=67", "ij,j->i i=67 j=67",
                                         "ij,i->j i=67 j=67", "ij,ij->ij i=67 j=67" };
    for (int t = 0; t < COUNT_OF(texts); t++) {
        struct nest nest;
        nest_make(&nest, texts[t], TD_DTYPE_FLOAT32, TD_DTYPE_FLOAT32);
        for (int64_t place = 0; place < 67 * 67; place += 331) {
            float *a = nest.data[TD_A], *b = nest.data[TD_B], *c = nest.data[TD_C];
            for (int64_t i = 0; i < nest.n_elements[TD_A]; i++)
                a[i] = 0;
            for (int64_t i = 0; i < nest.n_elements[TD_B]; i++)
                b[i] = specials[_i].b;
            a[place] = specials[_i].a;
            const int64_t n = nest.n_elements[TD_C];
            const int64_t hit = n == 1 ? 0 : n == 67 ? (t == 1 ? place / 67 : place % 67) : place;
            FOR_EACH_ISA(isa)
            {
                run(&nest, isa, texts[t]);
                EXPECT(isnan(specials[_i].sum) ? isnan(c[hit]) : c[hit] == specials[_i].sum,
                       "%s, %s, %s: %g", specials[_i].case_name, texts[t], td_isa_name(isa),
                       (double)c[hit]);
                for (int64_t i = 0; i < n && isfinite(specials[_i].b); i++)
                    EXPECT(i == hit || c[i] == 0, "%s, %s: output %ld is affected",
                           specials[_i].case_name, texts[t], (long)i);
            }
        }
        nest_free(&nest);
    }
}

/* Rows that are summed several at a time, and end within a vector. */
TD_TEST_LOOP(nan_affects_only_its_own_long_row, 0, TD_NOT_UNDER_TSAN(2))
{
    enum { rows = 17, n = 9001 };
    static const char *const texts[] = { "ij,j->i i=17 j=9001", "ij->i i=17 j=9001" };
    struct nest nest;
    nest_make(&nest, texts[_i], TD_DTYPE_FLOAT32, TD_DTYPE_FLOAT32);
    float *a = nest.data[TD_A], *b = nest.data[TD_B], *c = nest.data[TD_C];
    memset(a, 0, sizeof(float) * rows * n);
    for (int64_t i = 0; i < nest.n_elements[TD_B]; i++)
        b[i] = 1;
    for (int64_t place = 0; place < rows * n; place += n - 1) { /* includes both ends of rows */
        a[place] = NAN;
        FOR_EACH_ISA(isa)
        {
            run(&nest, isa, "NaN in a long row");
            for (int i = 0; i < rows; i++)
                EXPECT(i == place / n ? isnan(c[i]) : c[i] == 0, "%s: %ld, row %d is %g",
                       td_isa_name(isa), (long)place, i, (double)c[i]);
        }
        a[place] = 0;
    }
    nest_free(&nest);
}

/* (1 + 2i)(3 + 4i) = -5 + 10i, added three times. */
TD_TEST_LOOP(complex_dot_products_use_complex_multiplication, 0, TD_NOT_UNDER_TSAN(1))
{
    static const float a[] = { 1, 2, 1, 2, 1, 2 }, b[] = { 3, 4, 3, 4, 3, 4 };
    struct nest nest;
    nest_make(&nest, "i,i-> i=3", TD_DTYPE_COMPLEX64, TD_DTYPE_COMPLEX64);
    memcpy(nest.data[TD_A], a, sizeof(a));
    memcpy(nest.data[TD_B], b, sizeof(b));
    FOR_EACH_ISA(isa)
    {
        run(&nest, isa, "complex");
        ck_assert(((float *)nest.data[TD_C])[0] == -15 && ((float *)nest.data[TD_C])[1] == 30);
    }
    nest_free(&nest);
}

TD_TEST_LOOP(products_that_are_not_summed_keep_minus_zero, 0, TD_NOT_UNDER_TSAN(1))
{
    struct nest nest;
    nest_make(&nest, "i,i->i i=100", TD_DTYPE_FLOAT32, TD_DTYPE_FLOAT32);
    for (int i = 0; i < 100; i++) {
        ((float *)nest.data[TD_A])[i] = -0.0f;
        ((float *)nest.data[TD_B])[i] = 2;
    }
    FOR_EACH_ISA(isa)
    {
        run(&nest, isa, "minus zero");
        for (int i = 0; i < 100; i++)
            EXPECT(signbit(((float *)nest.data[TD_C])[i]), "%s: %d", td_isa_name(isa), i);
    }
    nest_free(&nest);
}
