#include "kernels/half.h"
#include "kernels/statistics/statistics.h"
#include "tests/support/random.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"
#include "tests/support/threads.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct td_statistics *statistics_of(const struct td_tensor *tensor, struct td_exec *exec)
{
    struct td_exec serial;
    struct td_error err;
    td_exec_serial(&serial, &test_arena);
    struct td_statistics *out = td_arena_alloc(&test_arena, td_statistics_bytes(tensor), 1, &err);
    EXPECT(out != NULL, "%s", err.message);
    memset(out, 0xA5, td_statistics_bytes(tensor));
    EXPECT(td_statistics_run(tensor, exec ? exec : &serial, out, &err) == TD_OK, "%s", err.message);
    return out;
}

static bool is_near(double got, double want, double tolerance)
{
    return got == want || fabs(got - want) <= tolerance * fabs(want);
}

/* ---- Results of NumPy ---------------------------------------------------------------------- */

/* Made by NumPy 2.4 from the finite values x, as float64: numpy.min, max, mean, std, linalg.norm.
 * Counts are those of finite values, zeros, NaN, infinity and -infinity. */
static const struct {
    const char *says, *tensor;
    int64_t counts[5];
    const char *minimum, *maximum;
    double mean, deviation, norm;
} cases[] = {
    { "a vector", "float32[4] 1 2 3 4", LIST(4, 0, 0, 0, 0), "1", "4", 2.5, 1.1180339887498949,
      5.4772255750516612 },
    { "a scalar", "float64[] 2.5", LIST(1, 0, 0, 0, 0), "2.5", "2.5", 2.5, 0, 2.5 },
    { "one row", "int32[1,5] -3 -1 0 1 7", LIST(5, 1, 0, 0, 0), "-3", "7", 0.80000000000000004,
      3.3704599092705436, 7.745966692414834 },
    { "eight dimensions", "int8[2,1,2,1,2,1,1,2] -8..7", LIST(16, 1, 0, 0, 0), "-8", "7", -0.5,
      4.6097722286464435, 18.547236990991408 },
    { "an empty vector", "float32[0]", LIST(0, 0, 0, 0, 0), "", "", 0, 0, 0 },
    { "an empty tensor of three dimensions", "int64[3,0,2]", LIST(0, 0, 0, 0, 0), "", "", 0, 0, 0 },
    { "not numbers are counted, and left out of the others",
      "float32[2,4] nan 1 inf -inf 0 -0 nan -5", LIST(4, 2, 2, 1, 1), "-5", "1", -1,
      2.3452078799117149, 5.0990195135927845 },
    { "nothing is finite", "float64[3] nan inf -inf", LIST(0, 0, 1, 1, 1), "", "", 0, 0, 0 },
    { "float16: 1, -2, 65504, 6e-8, INFINITYinity, NaN",
      "float16[6] 0x3c00 0xc000 0x7bff 0x0001 0x7c00 0x7e00", LIST(4, 0, 1, 1, 0), "-2", "65504",
      16375.750000014901, 28364.208382872454, 65504.000038165606 },
    { "bfloat16: 1, -2, 3e38, -infinity, zero", "bfloat16[5] 0x3f80 0xc000 0x7f7f 0xff80 0x0000",
      LIST(4, 1, 0, 0, 1), "-2", "3.3895313892515355e+38", 8.4738284731288387e+37,
      1.4677101450082952e+38, 3.3895313892515355e+38 },
    { "int64 beyond 2^53", "int64[4] 9007199254740993 9007199254740995 -9223372036854775808 0",
      LIST(4, 1, 0, 0, 0), "-9223372036854775808", "9007199254740995", -2.3013394095863235e+18,
      3.9964390923999749e+18, 9.2233808329436037e+18 },
    { "uint64 beyond 2^63", "uint64[3] 18446744073709551615 18446744073709551614 1",
      LIST(3, 0, 0, 0, 0), "1", "18446744073709551615", 1.2297829382473034e+19,
      8.6958785502218547e+18, 2.6087635650665566e+19 },
    { "uint8", "uint8[5] 0 255 0 1 2", LIST(5, 2, 0, 0, 0), "0", "255", 51.600000000000001,
      101.70270399551823, 255.0098037331114 },
    { "int16", "int16[3] -32768 32767 0", LIST(3, 1, 0, 0, 0), "-32768", "32767",
      -0.33333333333333331, 26754.55171658751, 46340.242910455272 },
    { "uint16", "uint16[3] 65535 1 0", LIST(3, 1, 0, 0, 0), "0", "65535", 21845.333333333332,
      30893.259570477327, 65535.000007629511 },
    { "uint32", "uint32[3] 4294967295 1 0", LIST(3, 1, 0, 0, 0), "0", "4294967295",
      1431655765.3333333, 2024666999.2769265, 4294967295 },
    { "bool: true is 1", "bool[2,3] 1 0 0 1 1 0", LIST(6, 3, 0, 0, 0), "0", "1", 0.5, 0.5,
      1.7320508075688772 },
    { "absolute values of complex numbers", "complex64[3] 3 4 0 0 -5 12", LIST(3, 1, 0, 0, 0), "0",
      "13", 6, 5.3541261347363367, 13.928388277184119 },
    { "absolute values of complex128", "complex128[2] 3e200 4e200 1 0", LIST(2, 0, 0, 0, 0), "1",
      "4.9999999999999995e+200", 2.4999999999999998e+200,
      2.4999999999999998e+200, /* NumPy: infinite, since the squares are */
      4.9999999999999995e+200 },
    { "a mean that is much larger than the deviation",
      "float64[4] 1000000000000.25 1000000000000.5 1000000000000.75 1000000000001",
      LIST(4, 0, 0, 0, 0), "1000000000000.25", "1000000000001", 1000000000000.625,
      0.27950849718747373, 2000000000001.25 },
    { "subnormal numbers", "float64[2] 5e-324 -5e-324", LIST(2, 0, 0, 0, 0),
      "-4.9406564584124654e-324", "4.9406564584124654e-324", 0, 0,
      4.9406564584124654e-324 /* NumPy: 0, as the squares are */ },
    { "lengths of strings", "string[4] 'abc' '' 'de' 'f'", LIST(4, 1, 0, 0, 0), "0", "3", 1.5,
      1.1180339887498949, 3.7416573867739413 },
    { "no strings", "string[0]", LIST(0, 0, 0, 0, 0), "", "", 0, 0, 0 },
};

static const char *number_text(td_numbers numbers, union td_number number)
{
    static char text[32];
    switch (numbers) {
    case TD_NUMBERS_REAL:
        snprintf(text, sizeof text, "%.17g", number.real);
        break;
    case TD_NUMBERS_INTEGER:
        snprintf(text, sizeof text, "%" PRId64, number.integer);
        break;
    case TD_NUMBERS_NATURAL:
        snprintf(text, sizeof text, "%" PRIu64, number.natural);
        break;
    }
    return text;
}

TD_TEST_EACH(statistics_are_those_of_numpy, cases)
{
    const char *says = cases[_i].says;
    const struct td_tensor x = tensor(cases[_i].tensor);
    const struct td_statistics *got = statistics_of(&x, NULL);
    const int64_t counts[] = { got->finite, got->zeros, got->nans, got->positive_infinities,
                               got->negative_infinities };
    EXPECT(got->numel == x.numel, "%s: numel is %" PRId64, says, got->numel);
    for (int i = 0; i < 5; i++)
        EXPECT(counts[i] == cases[_i].counts[i], "%s: count %d is %" PRId64 ", not %" PRId64, says,
               i, counts[i], cases[_i].counts[i]);
    EXPECT(is_near(got->norm, cases[_i].norm, 1e-15), "%s: norm %.17g", says, got->norm);
    if (got->finite == 0)
        return;
    ck_assert_str_eq(number_text(got->numbers, got->minimum), cases[_i].minimum);
    ck_assert_str_eq(number_text(got->numbers, got->maximum), cases[_i].maximum);
    EXPECT(is_near(got->mean, cases[_i].mean, 1e-15), "%s: mean %.17g", says, got->mean);
    EXPECT(is_near(got->deviation, cases[_i].deviation, 1e-15), "%s: deviation %.17g", says,
           got->deviation);
}

TD_TEST(strings_have_a_total_of_bytes)
{
    const struct td_tensor x = tensor("string[3] 'abc' '' 'de'");
    ck_assert_uint_eq(statistics_of(&x, NULL)->bytes, 5);
}

/* Results by hand. */
static const struct {
    const char *tensor;
    double mean, deviation, norm, minimum, maximum;
} large[] = {
    /* 3/4 of 1.7e308; sqrt(3)/4 of it; sqrt(3) of it is too large */
    { "float64[4] 1.7e308 1.7e308 1.7e308 -1", 1.275e308, 7.3612159321677302e307, INFINITY, -1,
      1.7e308 },
    { "float64[2] 1.7e308 1.7e308", 1.7e308, 0, INFINITY, 1.7e308, 1.7e308 },
    { "float64[3] 1.5e308 -1.5e308 0", 0, 1.2247448713915890e308, INFINITY, -1.5e308, 1.5e308 },
    { "float64[1,5] 1.5e308 1.5e308 nan -1.5e308 -1.5e308", 0, 1.5e308, INFINITY, -1.5e308,
      1.5e308 },
    { "float64[3] 1.7976931348623157e308 1.7976931348623157e308 1.7976931348623157e308",
      1.7976931348623157e308, 0, INFINITY, 1.7976931348623157e308, 1.7976931348623157e308 },
    { "float64[2] 3e200 4e200", 3.5e200, 0.5e200, 5e200, 3e200, 4e200 },
    { "float64[1] -1.7976931348623157e308", -1.7976931348623157e308, 0, 1.7976931348623157e308,
      -1.7976931348623157e308, -1.7976931348623157e308 },
};

TD_TEST_EACH(sums_that_are_too_large_for_float64_are_no_reason_for_a_result_that_is_not, large)
{
    const struct td_tensor x = tensor(large[_i].tensor);
    const struct td_statistics *got = statistics_of(&x, NULL);
    EXPECT(is_near(got->mean, large[_i].mean, 1e-15), "%.17g", got->mean);
    EXPECT(is_near(got->deviation, large[_i].deviation, 1e-15), "%.17g", got->deviation);
    EXPECT(is_near(got->norm, large[_i].norm, 1e-15), "%.17g", got->norm);
    EXPECT(got->minimum.real == large[_i].minimum && got->maximum.real == large[_i].maximum,
           "%g %g", got->minimum.real, got->maximum.real);
}

TD_TEST(blocks_of_small_values_stay_exact_beside_those_of_large_ones)
{
    const struct td_tensor x = tensor("float64[3,1] 1.7e308 1.7e308 5e-324");
    const struct td_statistics *got = statistics_of(&x, NULL);
    const double want[] = { 1.7e308, 1.7e308, 5e-324 };
    ck_assert_mem_eq(got->means, want, sizeof want);
    const struct td_shape dims = shape("[6400,2]"); /* 100 rows a block, whose sums overflow */
    struct td_tensor y = random_tensor(TD_DTYPE_FLOAT64, &dims);
    for (int64_t i = 0; i < y.numel; i++)
        ((double *)y.data)[i] = i % 2 ? 1e-300 : i < 6400 ? 1.5e308 : -1.5e308;
    got = statistics_of(&y, NULL);
    for (int block = 0; block < 64; block++) {
        EXPECT(is_near(got->means[2 * block], block < 32 ? 1.5e308 : -1.5e308, 1e-14), "%g",
               got->means[2 * block]);
        EXPECT(is_near(got->means[2 * block + 1], 1e-300, 1e-14), "%g", got->means[2 * block + 1]);
    }
    EXPECT(fabs(got->mean) < 1e294, "%g", got->mean);
    EXPECT(got->minimum_mean < 0 && got->zeros == 0, "%g", got->minimum_mean);
}

TD_TEST(the_least_zero_is_negative_and_the_greatest_positive)
{
    static const struct {
        const char *shape;
        int64_t zero; /* the element whose sign differs from all others'; -1: none */
    } of[] = { { "[1]", -1 },         { "[2]", 0 },          { "[2]", 1 },
               { "[70,8191]", -1 },   { "[70,8191]", 7 },    { "[70,8191]", 573369 },
               { "[5,8192]", 40000 }, { "[1,300000]", 123 }, { "[65,65]", 4224 } };
    static const td_dtype dtypes[] = { TD_DTYPE_FLOAT32, TD_DTYPE_FLOAT64, TD_DTYPE_FLOAT16 };
    for (int i = 0; i < COUNT_OF(of) * 3 * 2; i++) {
        const struct td_shape dims = shape(of[i / 6].shape);
        const td_dtype dtype = dtypes[i / 2 % 3];
        const size_t size = td_dtype_info(dtype)->size;
        const bool negative = i % 2;
        struct td_tensor x = random_tensor(dtype, &dims);
        memset((void *)(uintptr_t)x.data, 0, x.bytes);
        for (int64_t j = 0; j < x.numel; j++) /* little-endian: the sign is in the last byte */
            if ((j == of[i / 6].zero) != negative)
                ((unsigned char *)(uintptr_t)x.data)[(size_t)(j + 1) * size - 1] = 0x80;
        const struct td_statistics *got = statistics_of(&x, NULL);
        const bool both = of[i / 6].zero >= 0 && x.numel > 1;
        EXPECT(got->minimum.real == 0 && !signbit(got->minimum.real) == !(both || negative),
               "%s %s: minimum %g", of[i / 6].shape, td_dtype_info(dtype)->name, got->minimum.real);
        EXPECT(got->maximum.real == 0 && !signbit(got->maximum.real) == (both || !negative),
               "%s %s: maximum %g", of[i / 6].shape, td_dtype_info(dtype)->name, got->maximum.real);
        ck_assert_int_eq(got->zeros, x.numel);
    }
}

/* ---- Blocks ---------------------------------------------------------------------------------- */

static const struct {
    const char *says, *tensor;
    int rows, columns;
    double means[6];
} blocks[] = {
    { "each element of a small matrix is a block",
      "float32[2,3] 1 2 3 4 5 6",
      2,
      3,
      { 1, 2, 3, 4, 5, 6 } },
    { "a vector is a column", "int16[3] 5 6 7", 3, 1, { 5, 6, 7 } },
    { "a scalar is one block", "float64[] 9", 1, 1, { 9 } },
    { "further dimensions are columns", "uint8[1,2,2] 1 2 3 4", 1, 4, { 1, 2, 3, 4 } },
    { "a block without finite values has none", "float32[3] 1 nan inf", 3, 1, { 1, NAN, NAN } },
    { "an empty tensor has no blocks", "float32[0,5]", 0, 0, { 0 } },
};

TD_TEST_EACH(small_tensors_have_blocks, blocks)
{
    const struct td_tensor x = tensor(blocks[_i].tensor);
    const struct td_statistics *got = statistics_of(&x, NULL);
    EXPECT(got->row_blocks == blocks[_i].rows && got->column_blocks == blocks[_i].columns,
           "%s: %d x %d", blocks[_i].says, got->row_blocks, got->column_blocks);
    for (int i = 0; i < blocks[_i].rows * blocks[_i].columns; i++)
        EXPECT(got->means[i] == blocks[_i].means[i] ||
                   (isnan(got->means[i]) && isnan(blocks[_i].means[i])),
               "%s: mean %d is %g", blocks[_i].says, i, got->means[i]);
}

TD_TEST(ranges_of_blocks_are_those_of_array_split)
{
    /* [len(part) for part in numpy.array_split(numpy.arange(130), 64)]: 3, 3, then 2 */
    ck_assert_int_eq(td_statistics_begin(130, 64, 0), 0);
    ck_assert_int_eq(td_statistics_begin(130, 64, 1), 3);
    ck_assert_int_eq(td_statistics_begin(130, 64, 2), 6);
    ck_assert_int_eq(td_statistics_begin(130, 64, 3), 8);
    ck_assert_int_eq(td_statistics_begin(130, 64, 64), 130);
    ck_assert_int_eq(td_statistics_begin(0, 0, 0), 0);
    ck_assert_int_eq(td_statistics_begin(INT64_MAX, 64, 64), INT64_MAX);
}

/* ---- Random tensors against sums in long double
 * ------------------------------------------------ */

static double value_of(const struct td_tensor *x, int64_t i)
{
    size_t size;
    const void *at = tensor_element(x, i, &size);
    float f[2];
    double d[2];
    uint16_t h;
    switch (x->dtype) {
#define INTEGER(dtype, type)                                                                       \
    case TD_DTYPE_##dtype: {                                                                       \
        type value;                                                                                \
        memcpy(&value, at, sizeof value);                                                          \
        return (double)value;                                                                      \
    }
        INTEGER(INT8, int8_t)
        INTEGER(INT16, int16_t)
        INTEGER(INT32, int32_t)
        INTEGER(INT64, int64_t)
        INTEGER(UINT8, uint8_t)
        INTEGER(UINT16, uint16_t)
        INTEGER(UINT32, uint32_t)
        INTEGER(UINT64, uint64_t)
    case TD_DTYPE_FLOAT32:
        memcpy(f, at, sizeof f[0]);
        return (double)f[0];
    case TD_DTYPE_FLOAT64:
        memcpy(d, at, sizeof d[0]);
        return d[0];
    case TD_DTYPE_COMPLEX64:
        memcpy(f, at, sizeof f);
        return hypot((double)f[0], (double)f[1]);
    case TD_DTYPE_COMPLEX128:
        memcpy(d, at, sizeof d);
        return hypot(d[0], d[1]);
    case TD_DTYPE_FLOAT16:
        memcpy(&h, at, sizeof h);
        return (double)td_float16_value(h);
    case TD_DTYPE_BFLOAT16:
        memcpy(&h, at, sizeof h);
        return (double)td_bfloat16_value(h);
    default:
        return (double)size;
    }
}

/* Numbers of moderate size in place of the random bits of floats; some are not finite if
 * `special`. */
static void moderate(struct td_tensor *x, bool special, double middle)
{
    const td_dtype part = td_dtype_part(x->dtype);
    const int64_t n = td_dtype_is_complex(x->dtype) ? 2 * x->numel : x->numel;
    for (int64_t i = 0; i < n; i++) {
        const bool chosen = special && random_below(500) == 0;
        const double value = chosen ? (random_below(2) ? (double)NAN : -INFINITY)
                                    : middle - 128 + (double)random_below(1 << 20) / 4096;
        if (part == TD_DTYPE_FLOAT32)
            ((float *)x->data)[i] = (float)value;
        if (part == TD_DTYPE_FLOAT64)
            ((double *)x->data)[i] = value;
        if (part == TD_DTYPE_FLOAT16)
            ((uint16_t *)x->data)[i] = chosen ? 0xfc00 : (uint16_t)(0x3c00 + random_below(2048));
        if (part == TD_DTYPE_BFLOAT16)
            ((uint16_t *)x->data)[i] = chosen ? 0x7fc0 : (uint16_t)(0x3f80 + random_below(512));
    }
}

struct reference {
    int64_t finite;
    long double sum, squares, norm;
    long double sums[64 * 64];
    int64_t counts[64 * 64];
};

static int block_of(int64_t n, int n_blocks, int64_t i)
{
    int block = 0;
    while (td_statistics_begin(n, n_blocks, block + 1) <= i)
        block++;
    return block;
}

static void refer(const struct td_tensor *x, const struct td_statistics *of, struct reference *out)
{
    double *values = calloc((size_t)x->numel, sizeof *values);
    *out = (struct reference){ 0 };
    for (int64_t row = 0, i = 0; row < of->rows; row++) {
        const int above = block_of(of->rows, of->row_blocks, row) * of->column_blocks;
        int block = 0;
        for (int64_t column = 0; column < of->columns; column++, i++) {
            const double value = values[i] = value_of(x, i);
            while (td_statistics_begin(of->columns, of->column_blocks, block + 1) <= column)
                block++;
            if (!isfinite(value))
                continue;
            out->finite++;
            out->sum += (long double)value;
            out->norm += (long double)value * (long double)value;
            out->sums[above + block] += (long double)value;
            out->counts[above + block]++;
        }
    }
    const long double mean = out->finite ? out->sum / (long double)out->finite : 0;
    for (int64_t i = 0; i < x->numel; i++) {
        const double value = values[i];
        if (isfinite(value))
            out->squares += ((long double)value - mean) * ((long double)value - mean);
    }
    free(values);
}

static void compare(const struct td_statistics *got, const struct reference *want, const char *what)
{
    const long double n = (long double)want->finite;
    EXPECT(got->finite == want->finite, "%s: %" PRId64 " finite", what, got->finite);
    if (want->finite == 0)
        return;
    const double size = sqrt((double)(want->norm / n)); /* what the mean is small or large beside */
    EXPECT(fabs(got->mean - (double)(want->sum / n)) <= 1e-14 * size, "%s: mean %.17g, not %.17g",
           what, got->mean, (double)(want->sum / n));
    EXPECT(is_near(got->deviation, (double)sqrtl(want->squares / n), 1e-12),
           "%s: deviation %.17g, not %.17g", what, got->deviation,
           (double)sqrtl(want->squares / n));
    EXPECT(is_near(got->norm, (double)sqrtl(want->norm), 1e-14), "%s: norm %.17g, not %.17g", what,
           got->norm, (double)sqrtl(want->norm));
    for (int i = 0; i < got->row_blocks * got->column_blocks; i++) {
        const double mean = (double)(want->sums[i] / (long double)want->counts[i]);
        EXPECT(want->counts[i] == 0 ? isnan(got->means[i])
                                    : fabs(got->means[i] - mean) <= 1e-13 * size * 100,
               "%s: mean of block %d is %.17g, not %.17g", what, i, got->means[i], mean);
    }
}

static const char *const shapes[] = { "[1]",        "[5,7]",     "[100000]", "[3,100000]",
                                      "[333,1001]", "[70,8191]", "[5,8192]", "[9,20011]",
                                      "[1,300000]", "[20000,3]", "[65,65]",  "[2,3,5,7,11,13]" };

TD_TEST_LOOP(every_dtype_shape_and_instruction_set_agrees_with_the_definition, 0,
             2 * TD_DTYPE_COUNT)
{
    const td_dtype dtype = (td_dtype)(_i % TD_DTYPE_COUNT);
    const td_dtype_set integers = TD_DTYPE_BIT(INT8) | TD_DTYPE_BIT(INT16) | TD_DTYPE_BIT(INT32) |
                                  TD_DTYPE_BIT(INT64) | TD_DTYPE_BIT(UINT8) | TD_DTYPE_BIT(UINT16) |
                                  TD_DTYPE_BIT(UINT32) | TD_DTYPE_BIT(UINT64);
    const bool special = _i >= TD_DTYPE_COUNT;
    static struct reference want;
    if (dtype == TD_DTYPE_BOOL || dtype == TD_DTYPE_STRING || (special && (integers >> dtype & 1)))
        return;
    for (int s = 0; s < COUNT_OF(shapes); s++) {
        const struct td_shape dims = shape(shapes[s]);
        random_seed((uint64_t)(_i * 100 + s));
        struct td_tensor x = random_tensor(dtype, &dims);
        moderate(&x, special, s % 2 ? 0 : 1000);
        refer(&x, statistics_of(&x, NULL), &want);
        for (int isa = TD_ISA_GENERIC; isa <= TD_ISA_AVX512; isa++) {
            struct td_exec exec;
            char what[100];
            if (!td_isa_supported((td_isa)isa))
                continue;
            snprintf(what, sizeof what, "%s%s %s", td_dtype_info(dtype)->name, shapes[s],
                     td_isa_name((td_isa)isa));
            td_exec_serial(&exec, &test_arena);
            exec.isa = (td_isa)isa;
            compare(statistics_of(&x, &exec), &want, what);
        }
    }
}

static bool is_same(const struct td_statistics *a, const struct td_statistics *b, size_t bytes)
{
    return memcmp(a, b, bytes) == 0;
}

TD_TEST_LOOP(results_do_not_depend_on_the_number_of_threads, 0, 2)
{
    const struct td_shape dims = shape("[999,1001]");
    random_seed(7);
    struct td_tensor x = random_tensor(TD_DTYPE_FLOAT32, &dims);
    moderate(&x, _i == 1, 1000);
    const size_t bytes = td_statistics_bytes(&x);
    const struct td_statistics *want = statistics_of(&x, NULL);
    for (int threads = 1; threads <= MOST_THREADS; threads++)
        for (int64_t grain = 0; grain < 9; grain += 4) {
            struct thread_exec exec;
            thread_exec_init(&exec, threads, grain);
            EXPECT(is_same(statistics_of(&x, &exec.exec), want, bytes), "%d threads", threads);
        }
}

TD_TEST_LOOP(data_need_not_be_aligned, 0, 4)
{
    const char *const text[] = { "float64[3] 1 2 6", "int16[4] -1 2 3 0",
                                 "float16[2] 0x3c00 0x4000", "complex64[2] 3 4 6 8" };
    const struct td_tensor x = tensor(text[_i]);
    _Alignas(16) char bytes[64] = { 0 };
    struct td_tensor moved = x;
    memcpy(bytes + 1, x.data, x.bytes);
    moved.data = bytes + 1;
    EXPECT(is_same(statistics_of(&moved, NULL), statistics_of(&x, NULL), td_statistics_bytes(&x)),
           "%s", text[_i]);
}

TD_TEST(deadlines_end_the_call)
{
    const struct td_shape dims = shape("[999,1001]");
    struct td_tensor x = random_tensor(TD_DTYPE_FLOAT32, &dims);
    struct thread_exec exec;
    struct td_error err;
    struct td_statistics *out = td_arena_alloc(&test_arena, td_statistics_bytes(&x), 1, &err);
    thread_exec_init(&exec, 2, 0);
    exec.ranges_allowed = 3;
    ck_assert_int_eq(td_statistics_run(&x, &exec.exec, out, &err), TD_DEADLINE_EXCEEDED);
}

TD_TEST_LOOP(the_cost_has_the_workspace, 0, 6)
{
    const char *const text[] = { "float32[0]",
                                 "float32[]",
                                 "int8[1000000]",
                                 "float32[1000,1000]",
                                 "float32[1000000,1000000]",
                                 "string[5]" };
    const struct td_tensor x = tensor_without_data(text[_i]);
    const struct td_cost cost = td_statistics_cost(&x);
    EXPECT(cost.bytes_read >= x.bytes && cost.workspace < (64 << 20), "%s: %" PRIu64, text[_i],
           cost.workspace);
    EXPECT(td_statistics_bytes(&x) <= 33 << 10, "%s", text[_i]);
}
