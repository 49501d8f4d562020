#include "kernels/functions/functions.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"
#include "tests/support/suite.h"

/* Functions of double, which are the correct results for float. */
static double sigmoid(double x)
{
    return td_sigmoid_double(x);
}

static double gelu(double x)
{
    return td_gelu_double(x);
}

static double gelu_tanh(double x)
{
    return td_gelu_tanh_double(x);
}

static double rsqrt(double x)
{
    return 1 / sqrt(x);
}

#define CALL(name)                                                                                 \
    static float call_##name(float x)                                                              \
    {                                                                                              \
        return td_##name##_float(x);                                                               \
    }
CALL(exp)
CALL(log)
CALL(tanh)
CALL(sigmoid)
CALL(erf)
CALL(gelu)
CALL(gelu_tanh)
CALL(rsqrt)

/* The largest errors that functions.h promises. */
static const struct {
    const char *name;
    float (*get)(float x);
    double (*want)(double x);
    double units; /* in units in the last place of the result */
    double of_x;  /* in addition, in units of 2^-24 x */
} functions[] = {
    { "exp", call_exp, exp, 0.90, 0 },    { "log", call_log, log, 0.94, 0 },
    { "tanh", call_tanh, tanh, 1.86, 0 }, { "sigmoid", call_sigmoid, sigmoid, 2.41, 0 },
    { "erf", call_erf, erf, 1.26, 0 },    { "rsqrt", call_rsqrt, rsqrt, 1.50, 0 },
    { "gelu", call_gelu, gelu, 2, 2 },    { "gelu_tanh", call_gelu_tanh, gelu_tanh, 2, 2 },
};

/* Returns the unit in the last place of a float. */
static double unit_of(float x)
{
    int exponent;
    if (fabsf(x) < 0x1p-126f)
        return 0x1p-149;
    (void)frexpf(x, &exponent);
    return ldexp(1, exponent - 24);
}

/* Expects a result within the given error, and exactly the result if that is NaN or infinite. The
 * correct result can be so close to the limit of float that both sides of the limit are correct. */
static void expect_float(float got, double want, double error, const char *name, float x, float y)
{
    const float rounded = (float)want;
    if (isnan(want) || isinf(want) || isinf(rounded) || isinf(got))
        EXPECT((isnan(got) && isnan(want)) || got == rounded ||
                   (fabs(want) >= (double)0x1.fffffcp127f && fabs(want) < 0x1.000002p128),
               "%s(%a, %a) is %a, expected %a", name, (double)x, (double)y, (double)got, want);
    else
        EXPECT(fabs((double)got - want) <= error && signbit(got) == signbit(rounded),
               "%s(%a, %a) is %a, expected %a: the error is %g units", name, (double)x, (double)y,
               (double)got, want, fabs((double)got - want) / unit_of(rounded));
}

static void expect_function(int i, uint32_t bits)
{
    const float x = td_float_of_bits(bits);
    const double want = functions[i].want((double)x);
    double error = functions[i].units * unit_of((float)want);
    if (functions[i].of_x > 0)
        error += functions[i].of_x * 0x1p-24 * fabs((double)x);
    expect_float(functions[i].get(x), want, error, functions[i].name, x, 0);
}

/* Arguments of every exponent, among them the first and the last: zeros, subnormal numbers,
 * infinities and NaN. */
TD_TEST_EACH(errors_are_small_for_every_exponent, functions)
{
    const int per_exponent = 200 * test_effort();
    random_seed((uint64_t)_i);
    for (uint32_t exponent = 0; exponent < 512; exponent++) {
        expect_function(_i, exponent << 23);
        expect_function(_i, exponent << 23 | 0x007fffff);
        for (int k = 0; k < per_exponent; k++)
            expect_function(_i, exponent << 23 | (uint32_t)(random_next() & 0x007fffff));
    }
}

/* The intervals in which results are neither 0 nor constant. */
TD_TEST_EACH(errors_are_small_for_moderate_numbers, functions)
{
    random_seed((uint64_t)_i);
    for (int k = 0; k < 20000 * test_effort(); k++) {
        const float x = (float)(random_next() % 2000000) * 1e-4f - 100;
        expect_function(_i, td_bits_of_float(x));
        expect_function(_i, td_bits_of_float(x * 0.02f));
    }
}

/* Every pair is a special case of pow in C99's annex F, or next to one. */
TD_TEST(power_has_the_special_values_of_c)
{
    static const float values[] = {
        0,       1,        2,      3,       7,         0.5f,          0.75f,     1.5f,
        100,     127,      128,    149,     150,       0x1p-149f,     0x1p-126f, 0x1.fffffep127f,
        0x1p22f, 0x1p23f,  1e30f,  0x1p24f, 0x1p64f,   0x1.8p22f,     1e-30f,    0x1.000002p23f,
        0x1p65f, NAN,      0x1p-1, 0x1p31f, INFINITY,  0x1.fffffep-1, 0x1p32f,   0x1.000002p0f,
        1e-8f,   33554432, 5,      -0.0f,   0x1.8p23f, 16777215,
    };
    for (int i = 0; i < 2 * COUNT_OF(values); i++)
        for (int k = 0; k < 2 * COUNT_OF(values); k++) {
            const float x = i % 2 ? -values[i / 2] : values[i / 2];
            const float y = k % 2 ? -values[k / 2] : values[k / 2];
            const double want = pow((double)x, (double)y);
            expect_float(td_power_float(x, y), want, unit_of((float)want), "power", x, y);
        }
}

TD_TEST(power_has_small_errors)
{
    random_seed(1);
    for (int k = 0; k < 200000 * test_effort(); k++) {
        const float x = td_float_of_bits((uint32_t)(random_next() & 0x7fffffff));
        float y = td_float_of_bits((uint32_t)random_next());
        if (k % 8 && isfinite(x) && x > 0 && x != 1) /* a result between 2^-151 and 2^129 */
            y = (float)(((double)(random_next() % 280000) * 1e-3 - 151) / log2((double)x));
        const double want = pow((double)x, (double)y);
        expect_float(td_power_float(x, y), want, unit_of((float)want), "power", x, y);
    }
}

/* Numbers of any magnitude, whose sums of products often lie next to the middle of two floats. */
static float extreme(void)
{
    const uint32_t mantissas[] = { 0, 1, 0x007fffff, (uint32_t)random_next() & 0x007fffff };
    uint32_t exponent = (uint32_t)random_next() & 255;
    if (random_below(8))
        exponent = (uint32_t)(127 + (random_below(3) - 1) * 24 - random_below(2));
    return td_float_of_bits((uint32_t)random_below(2) << 31 | exponent << 23 |
                            mantissas[random_below(4)]);
}

TD_TEST(a_fused_multiply_add_is_rounded_once)
{
    random_seed(2);
    for (int k = 0; k < 500000 * test_effort(); k++) {
        const float x = extreme(), y = extreme(), z = extreme();
        const float got = td_fused(x, y, z), want = fmaf(x, y, z);
        EXPECT((isnan(got) && isnan(want)) || memcmp(&got, &want, sizeof(got)) == 0,
               "%a * %a + %a is %a, expected %a", (double)x, (double)y, (double)z, (double)got,
               (double)want);
    }
}
