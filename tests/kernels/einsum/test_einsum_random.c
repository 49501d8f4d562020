/* Compares einsum with the loop nest over all labels, for random equations, shapes and dtypes.
 * Seeds are fixed: a failure names its seed. */
#include "kernels/half.h"
#include "kernels/op.h"
#include "tests/support/equations.h"
#include "tests/support/op_call.h"
#include "tests/support/random.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"
#include "tests/support/threads.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* The numeric dtypes and their arithmetic: integers modulo 2^bits, or floats rounded to a relative
 * error of 2^-bits in every operation and of 2^-stored when the result is stored. */
static const struct {
    td_dtype dtype;
    bool is_integer;
    int components; /* 2: complex */
    int bits, stored;
} dtypes[] = {
    { TD_DTYPE_INT8, true, 1, 8, 0 },         { TD_DTYPE_INT16, true, 1, 16, 0 },
    { TD_DTYPE_INT32, true, 1, 32, 0 },       { TD_DTYPE_INT64, true, 1, 64, 0 },
    { TD_DTYPE_UINT8, true, 1, 8, 0 },        { TD_DTYPE_UINT16, true, 1, 16, 0 },
    { TD_DTYPE_UINT32, true, 1, 32, 0 },      { TD_DTYPE_UINT64, true, 1, 64, 0 },
    { TD_DTYPE_FLOAT16, false, 1, 24, 11 },   { TD_DTYPE_BFLOAT16, false, 1, 24, 8 },
    { TD_DTYPE_FLOAT32, false, 1, 24, 24 },   { TD_DTYPE_FLOAT64, false, 1, 53, 53 },
    { TD_DTYPE_COMPLEX64, false, 2, 24, 24 }, { TD_DTYPE_COMPLEX128, false, 2, 53, 53 },
};

/* ---- Elements ---------------------------------------------------------------------------- */

static double get_real(const struct td_tensor *t, int64_t i)
{
    switch (t->dtype) {
    case TD_DTYPE_FLOAT16:
        return td_float16_value(((const uint16_t *)t->data)[i]);
    case TD_DTYPE_BFLOAT16:
        return td_bfloat16_value(((const uint16_t *)t->data)[i]);
    case TD_DTYPE_FLOAT32:
    case TD_DTYPE_COMPLEX64:
        return ((const float *)t->data)[i];
    default:
        return ((const double *)t->data)[i];
    }
}

/* Rounds the value to the dtype. */
static void put_real(struct td_tensor *t, int64_t i, double value)
{
    bool unsure;
    switch (t->dtype) {
    case TD_DTYPE_FLOAT16:
        ((uint16_t *)t->data)[i] = td_narrow_round(value, TD_NARROW_FLOAT16, 0, &unsure);
        return;
    case TD_DTYPE_BFLOAT16:
        ((uint16_t *)t->data)[i] = td_narrow_round(value, TD_NARROW_BFLOAT16, 0, &unsure);
        return;
    case TD_DTYPE_FLOAT32:
    case TD_DTYPE_COMPLEX64:
        ((float *)t->data)[i] = (float)value;
        return;
    default:
        ((double *)t->data)[i] = value;
    }
}

static uint64_t get_integer(const struct td_tensor *t, int64_t i)
{
    size_t size = td_dtype_info(t->dtype)->size;
    uint64_t value = 0; /* zero-extended: only the low bits of products and sums are compared */
    memcpy(&value, (const char *)t->data + (size_t)i * size, size);
    return value;
}

/* ---- The reference ----------------------------------------------------------------------- */

struct reference {
    int n_inputs, components;
    bool is_integer;
    const struct td_tensor *input;
    uint64_t *integer;   /* [output element] */
    double (*sum)[2];    /* [output element][component] */
    double (*weight)[2]; /* sum of absolute products */
    int64_t *count;      /* number of products */
};

static void add_product(void *context, const int64_t *input, int64_t output)
{
    struct reference *r = context;
    r->count[output]++;
    if (r->is_integer) {
        uint64_t product = 1;
        for (int k = 0; k < r->n_inputs; k++)
            product *= get_integer(&r->input[k], input[k]);
        r->integer[output] += product;
        return;
    }
    double re = 1, im = 0, weight = 1;
    for (int k = 0; k < r->n_inputs; k++) {
        double a = get_real(&r->input[k], input[k] * r->components);
        double b = r->components == 2 ? get_real(&r->input[k], input[k] * 2 + 1) : 0;
        double old = re;
        re = re * a - im * b;
        im = old * b + im * a;
        weight *= fabs(a) + fabs(b);
    }
    r->sum[output][0] += re;
    r->sum[output][1] += im;
    r->weight[output][0] += weight;
    r->weight[output][1] += weight;
}

static void *cleared(int64_t n, size_t size)
{
    void *place = td_arena_alloc(&test_arena, (size_t)n, size, TD_IGNORED);
    memset(place, 0, (size_t)n * size);
    return place;
}

/* ---- Samples ----------------------------------------------------------------------------- */

struct sample {
    struct random_equation equation;
    int d;      /* in dtypes */
    bool exact; /* small integers: no sum is rounded before it is stored */
    struct td_tensor inputs[MAX_EQUATION_INPUTS];
    char attrs[600];
    char case_name[700];
};

static struct td_tensor numbers(const struct sample *s, const struct td_shape *shape)
{
    struct td_tensor t;
    struct td_error err;
    EXPECT(td_tensor_describe(&t, "random", dtypes[s->d].dtype, shape, &err) == TD_OK &&
               td_tensor_alloc(&t, &test_arena, &err) == TD_OK,
           "%s", err.message);
    for (size_t i = 0; dtypes[s->d].is_integer && i < t.bytes; i++)
        ((unsigned char *)t.data)[i] = (unsigned char)random_next();
    for (int64_t i = 0; !dtypes[s->d].is_integer && i < t.numel * dtypes[s->d].components; i++) {
        double whole = (double)(random_next() % 5) - 2;
        put_real(&t, i, s->exact ? whole : (double)(int64_t)random_next() * 0x1p-63);
    }
    return t;
}

/* A batch of matrix products if max_products is 0. */
static void random_sample(struct sample *s, uint64_t seed, int64_t max_products)
{
    if (max_products > 0)
        random_equation(seed * 1000003 + 17, max_products, &s->equation);
    else
        random_product(seed * 1000003 + 17, &s->equation);
    random_seed(seed);
    s->d = (int)(random_next() % (uint64_t)COUNT_OF(dtypes));
    s->exact = random_next() % 2;
    for (int k = 0; k < s->equation.n_inputs; k++)
        s->inputs[k] = numbers(s, &s->equation.shapes[k]);
    snprintf(s->attrs, sizeof(s->attrs), "equation='%s'", s->equation.text);
    snprintf(s->case_name, sizeof(s->case_name), "seed %" PRIu64 ", %s, %s", seed,
             td_dtype_info(dtypes[s->d].dtype)->name, s->equation.text);
}

static struct td_tensor run_sample(const struct sample *s, struct td_exec *exec)
{
    struct op_call call;
    call_begin_lists(&call, "einsum", s->attrs, s->equation.n_inputs, s->inputs, 0, NULL);
    call_run(&call, "einsum", exec);
    EXPECT(call.status == TD_OK, "%s: %s", s->case_name, call.err.message);
    return call.args.outputs[0];
}

/* The error bound of an element: every operation on its terms is rounded, in any order, and then
 * the sum when it is stored. */
static double error_bound(const struct sample *s, double want, double weight, int64_t count)
{
    double ulp = ldexp(1, -dtypes[s->d].bits);
    if (s->exact && weight * ulp <= 1)
        return 0;
    double smallest = dtypes[s->d].dtype == TD_DTYPE_FLOAT16 ? 0x1p-24 : 0x1p-126;
    double computed = (double)(count + 4 * s->equation.n_inputs) * weight * ulp;
    return computed + (fabs(want) + computed) * ldexp(1, -dtypes[s->d].stored) + smallest;
}

/* An exact sum rounded to the dtype. */
static double stored_value(const struct sample *s, double exact)
{
    double place[1];
    struct td_tensor one = { .dtype = dtypes[s->d].dtype, .data = place };
    put_real(&one, 0, exact);
    return get_real(&one, 0);
}

static void compare(const struct sample *s, const struct td_tensor *got)
{
    EXPECT(got->dtype == dtypes[s->d].dtype && td_shape_equal(&got->shape, &s->equation.output),
           "%s: dtype or shape", s->case_name);
    int64_t n = got->numel;
    struct reference r = {
        .n_inputs = s->equation.n_inputs,
        .components = dtypes[s->d].components,
        .is_integer = dtypes[s->d].is_integer,
        .input = s->inputs,
        .integer = cleared(n, sizeof(*r.integer)),
        .sum = cleared(n, sizeof(*r.sum)),
        .weight = cleared(n, sizeof(*r.weight)),
        .count = cleared(n, sizeof(*r.count)),
    };
    each_product(&s->equation, add_product, &r);
    for (int64_t i = 0; i < n; i++) {
        if (r.is_integer) {
            uint64_t mask = UINT64_MAX >> (64 - dtypes[s->d].bits);
            EXPECT(get_integer(got, i) == (r.integer[i] & mask),
                   "%s: element %" PRId64 " is %" PRIu64 ", should be %" PRIu64, s->case_name, i,
                   get_integer(got, i), r.integer[i] & mask);
            continue;
        }
        for (int component = 0; component < r.components; component++) {
            double is = get_real(got, i * r.components + component), sum = r.sum[i][component];
            double want = s->exact ? stored_value(s, sum) : sum;
            double bound = error_bound(s, sum, r.weight[i][component], r.count[i]);
            /* ==: the difference of two infinities, in float16, is NaN */
            EXPECT(is == want || fabs(is - want) <= bound,
                   "%s: element %" PRId64 " is %.17g, should be %.17g, within %g", s->case_name, i,
                   is, want, bound);
        }
    }
}

static void run_and_compare(uint64_t seed, int64_t max_products)
{
    struct sample s;
    random_sample(&s, seed, max_products);
    struct td_tensor got = run_sample(&s, NULL);
    compare(&s, &got);
    td_arena_reset(&test_arena);
}

TD_TEST_LOOP(small_random_equations_match_the_reference, 0, TD_NOT_UNDER_TSAN(1))
{
    for (uint64_t seed = 0; seed < 2000; seed++)
        run_and_compare(seed, 5000);
}

TD_TEST_LOOP(larger_random_equations_match_the_reference, 0, TD_NOT_UNDER_TSAN(1))
{
    for (int seed = 5000; seed < 5000 + 400 * test_effort(); seed++)
        run_and_compare((uint64_t)seed, 300000);
}

TD_TEST_LOOP(random_matrix_products_match_the_reference, 0, TD_NOT_UNDER_TSAN(1))
{
    for (int seed = 20000; seed < 20000 + 300 * test_effort(); seed++)
        run_and_compare((uint64_t)seed, 0);
}

TD_TEST(results_have_the_same_bits_at_every_thread_count)
{
    for (uint64_t seed = 9000; seed < 9200; seed++) {
        struct sample s;
        random_sample(&s, seed, seed % 4 ? 100000 : 0);
        struct td_tensor serial = run_sample(&s, NULL);
        struct thread_exec threads;
        thread_exec_init(&threads, 3, 0);
        struct td_tensor parallel = run_sample(&s, &threads.exec);
        expect_same_tensor(&parallel, &serial, s.case_name);
        thread_exec_init(&threads, 2, 1);
        parallel = run_sample(&s, &threads.exec);
        expect_same_tensor(&parallel, &serial, s.case_name);
        td_arena_reset(&test_arena);
    }
}

TD_TEST_LOOP(every_instruction_set_matches_the_reference, 0, TD_NOT_UNDER_TSAN(1))
{
    for (td_isa isa = TD_ISA_GENERIC; isa < TD_ISA_COUNT; isa++) {
        for (uint64_t seed = 7000; td_isa_supported(isa) && seed < 7400; seed++) {
            struct sample s;
            random_sample(&s, seed, seed % 4 ? 20000 : 0);
            struct td_exec exec;
            td_exec_serial(&exec, &test_arena);
            exec.isa = isa;
            struct td_tensor got = run_sample(&s, &exec);
            compare(&s, &got);
            td_arena_reset(&test_arena);
        }
    }
}
