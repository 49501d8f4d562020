#include "kernels/convert/convert.h"
#include "kernels/half.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <math.h>
#include <string.h>

/* All instruction sets: loop tests skip those that this machine does not support. */
#define FOR_EACH_ISA(isa)                                                                          \
    for (td_isa isa = TD_ISA_GENERIC; isa < TD_ISA_COUNT; isa++)                                   \
        if (td_isa_supported(isa))

#define ALL_HALVES 65536

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

static uint64_t random_next(uint64_t *state) /* splitmix64 */
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* ---- Which dtype computes as what --------------------------------------------------------- */

static const struct {
    td_dtype dtype;
    td_compute compute;
    size_t size;
    bool native;
} computed[] = {
    { TD_DTYPE_INT8, TD_COMPUTE_U32, 4, false },
    { TD_DTYPE_INT16, TD_COMPUTE_U32, 4, false },
    { TD_DTYPE_INT32, TD_COMPUTE_U32, 4, true },
    { TD_DTYPE_INT64, TD_COMPUTE_U64, 8, true },
    { TD_DTYPE_UINT8, TD_COMPUTE_U32, 4, false },
    { TD_DTYPE_UINT16, TD_COMPUTE_U32, 4, false },
    { TD_DTYPE_UINT32, TD_COMPUTE_U32, 4, true },
    { TD_DTYPE_UINT64, TD_COMPUTE_U64, 8, true },
    { TD_DTYPE_FLOAT16, TD_COMPUTE_F32, 4, false },
    { TD_DTYPE_BFLOAT16, TD_COMPUTE_F32, 4, false },
    { TD_DTYPE_FLOAT32, TD_COMPUTE_F32, 4, true },
    { TD_DTYPE_FLOAT64, TD_COMPUTE_F64, 8, true },
    { TD_DTYPE_COMPLEX64, TD_COMPUTE_C64, 8, true },
    { TD_DTYPE_COMPLEX128, TD_COMPUTE_C128, 16, true },
};

TD_TEST_EACH(every_dtype_has_a_compute_type, computed)
{
    ck_assert_int_eq(td_compute_of(computed[_i].dtype), computed[_i].compute);
    ck_assert_uint_eq(td_compute_size(computed[_i].compute), computed[_i].size);
    ck_assert_int_eq(td_compute_is_native(computed[_i].dtype), computed[_i].native);
}

/* ---- float16 and bfloat16 ---------------------------------------------------------------- */

static uint16_t halves[ALL_HALVES], narrowed[ALL_HALVES + 1];
static float widened[ALL_HALVES];

static void fill_halves(void)
{
    for (int i = 0; i < ALL_HALVES; i++)
        halves[i] = (uint16_t)i;
}

TD_TEST(every_float16_widens_to_its_value)
{
    fill_halves();
    FOR_EACH_ISA(isa)
    {
        td_widen(TD_DTYPE_FLOAT16, isa)(widened, halves, 1, ALL_HALVES);
        for (uint32_t i = 0; i < ALL_HALVES; i++) {
            uint32_t want = bits_of(td_float16_value((uint16_t)i));
            if ((i & 0x7fff) > 0x7c00)
                want |= 0x400000; /* NaN becomes quiet */
            EXPECT(bits_of(widened[i]) == want, "%s: 0x%04x gives 0x%08x, not 0x%08x",
                   td_isa_name(isa), i, bits_of(widened[i]), want);
        }
    }
}

TD_TEST(every_bfloat16_widens_to_its_value)
{
    fill_halves();
    FOR_EACH_ISA(isa)
    {
        td_widen(TD_DTYPE_BFLOAT16, isa)(widened, halves, 1, ALL_HALVES);
        for (uint32_t i = 0; i < ALL_HALVES; i++)
            EXPECT(bits_of(widened[i]) == i << 16, "%s: 0x%04x gives 0x%08x", td_isa_name(isa), i,
                   bits_of(widened[i]));
    }
}

TD_TEST_LOOP(narrowing_undoes_widening, 0, 2)
{
    static const td_dtype dtypes[] = { TD_DTYPE_FLOAT16, TD_DTYPE_BFLOAT16 };
    const uint32_t infinity = _i == 0 ? 0x7c00 : 0x7f80, quiet = _i == 0 ? 0x200 : 0x40;
    fill_halves();
    FOR_EACH_ISA(isa)
    {
        td_widen(dtypes[_i], isa)(widened, halves, 1, ALL_HALVES);
        td_narrow(dtypes[_i], isa)(narrowed, 1, widened, ALL_HALVES);
        for (uint32_t i = 0; i < ALL_HALVES; i++) {
            uint32_t want = (i & 0x7fff) > infinity ? i | quiet : i;
            EXPECT(narrowed[i] == want, "%s: 0x%04x came back as 0x%04x", td_isa_name(isa), i,
                   narrowed[i]);
        }
    }
}

/* The result of half.h, which rounds a double with integer arithmetic. */
static uint16_t round_slowly(float value, struct td_narrow format)
{
    bool unsure;
    const uint32_t infinity = ((1u << format.exponent_bits) - 1) << format.fraction_bits;
    if (isnan(value)) {
        const uint32_t bits = bits_of(value);
        const uint32_t fraction = (1u << format.fraction_bits) - 1;
        return (uint16_t)((bits >> 16 & 0x8000) | infinity | (fraction + 1) >> 1 |
                          (bits >> (23 - format.fraction_bits) & fraction));
    }
    if (isinf(value))
        return (uint16_t)((bits_of(value) >> 16 & 0x8000) | infinity);
    return td_narrow_round((double)value, format, 0, &unsure);
}

static void expect_rounded(td_dtype dtype, struct td_narrow format, const float *values, int64_t n)
{
    FOR_EACH_ISA(isa)
    {
        td_narrow(dtype, isa)(narrowed, 1, values, n);
        for (int64_t i = 0; i < n; i++)
            EXPECT(narrowed[i] == round_slowly(values[i], format),
                   "%s: 0x%08x (%g) became 0x%04x, not 0x%04x", td_isa_name(isa),
                   bits_of(values[i]), (double)values[i], narrowed[i],
                   round_slowly(values[i], format));
    }
}

static const struct {
    td_dtype dtype;
    struct td_narrow format;
} narrow_floats[] = {
    { TD_DTYPE_FLOAT16, TD_NARROW_FLOAT16 },
    { TD_DTYPE_BFLOAT16, TD_NARROW_BFLOAT16 },
};

/* The floats just below and above each midpoint round to the nearer value. */
TD_TEST_EACH(every_midpoint_between_neighbours_rounds_to_even, narrow_floats)
{
    const td_dtype dtype = narrow_floats[_i].dtype;
    const struct td_narrow format = narrow_floats[_i].format;
    fill_halves();
    td_widen(dtype, TD_ISA_GENERIC)(widened, halves, 1, ALL_HALVES);
    for (int step = -1; step <= 1; step++) {
        float middles[0x7fff];
        int64_t n = 0;
        for (int i = 0; i + 1 < 0x7fff && isfinite(widened[i + 1]); i++) {
            double middle = ((double)widened[i] + (double)widened[i + 1]) / 2;
            middles[n] = float_of(bits_of((float)middle) + (uint32_t)step);
            if (n % 2)
                middles[n] = -middles[n];
            n++;
        }
        expect_rounded(dtype, format, middles, n);
    }
}

TD_TEST_EACH(random_floats_of_all_sizes_round_as_in_integers, narrow_floats)
{
    uint64_t state = 7;
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < ALL_HALVES; i++) {
            uint32_t bits = (uint32_t)random_next(&state);
            /* Half of the values are in the range of float16. */
            if (i % 2)
                bits = (bits & 0x80ffffff) | (0x33u + (bits >> 24 & 0x1f) % 0x16) << 24;
            widened[i] = float_of(bits);
        }
        expect_rounded(narrow_floats[_i].dtype, narrow_floats[_i].format, widened, ALL_HALVES);
    }
}

/* From IEEE 754-2008: largest finite float16 65504 = 0x7bff; half a place above is 65520. Smallest
 * subnormal 2^-24. bfloat16: bits of float32 0x3f80xxxx are 1.0 and a bit. */
static const struct {
    td_dtype dtype;
    uint32_t from;
    uint16_t to;
    const char *case_name;
} roundings[] = {
    { TD_DTYPE_FLOAT16, 0x477fe000, 0x7bff, "65504 is the largest" },
    { TD_DTYPE_FLOAT16, 0x477fefff, 0x7bff, "just below 65520 goes down" },
    { TD_DTYPE_FLOAT16, 0x477ff000, 0x7c00, "65520 overflows" },
    { TD_DTYPE_FLOAT16, 0xc77ff000, 0xfc00, "-65520 overflows" },
    { TD_DTYPE_FLOAT16, 0x7f7fffff, 0x7c00, "the largest float overflows" },
    { TD_DTYPE_FLOAT16, 0x7f800000, 0x7c00, "infinity stays" },
    { TD_DTYPE_FLOAT16, 0xff800000, 0xfc00, "minus infinity stays" },
    { TD_DTYPE_FLOAT16, 0x7fc00000, 0x7e00, "NaN stays" },
    { TD_DTYPE_FLOAT16, 0x7f800001, 0x7e00, "a NaN whose payload is cut off stays NaN" },
    { TD_DTYPE_FLOAT16, 0xffffffff, 0xffff, "NaN with all bits set stays NaN" },
    { TD_DTYPE_FLOAT16, 0x33800000, 0x0001, "2^-24 is the smallest subnormal" },
    { TD_DTYPE_FLOAT16, 0x33000000, 0x0000, "half of it goes to even, 0" },
    { TD_DTYPE_FLOAT16, 0x33000001, 0x0001, "a bit more goes up" },
    { TD_DTYPE_FLOAT16, 0xb3000000, 0x8000, "minus half of it is minus 0" },
    { TD_DTYPE_FLOAT16, 0x387fc000, 0x03ff, "the largest subnormal" },
    { TD_DTYPE_FLOAT16, 0x387fe000, 0x0400, "rounds up to the smallest normal" },
    { TD_DTYPE_FLOAT16, 0x00000001, 0x0000, "a float subnormal is 0" },
    { TD_DTYPE_FLOAT16, 0x80000000, 0x8000, "minus 0 stays" },
    { TD_DTYPE_FLOAT16, 0x3f801000, 0x3c00, "1 + 2^-11 goes to even" },
    { TD_DTYPE_FLOAT16, 0x3f803000, 0x3c02, "1 + 3 * 2^-11 goes to even" },
    { TD_DTYPE_BFLOAT16, 0x3f808000, 0x3f80, "1 + 2^-8 goes to even" },
    { TD_DTYPE_BFLOAT16, 0x3f808001, 0x3f81, "a bit more goes up" },
    { TD_DTYPE_BFLOAT16, 0x3f818000, 0x3f82, "1 + 3 * 2^-8 goes to even" },
    { TD_DTYPE_BFLOAT16, 0x7f7fffff, 0x7f80, "the largest float overflows" },
    { TD_DTYPE_BFLOAT16, 0xff7f8000, 0xff80, "half a place above the largest overflows" },
    { TD_DTYPE_BFLOAT16, 0x7f7f7fff, 0x7f7f, "just below that does not" },
    { TD_DTYPE_BFLOAT16, 0x7f800000, 0x7f80, "infinity stays" },
    { TD_DTYPE_BFLOAT16, 0x7f800001, 0x7fc0, "a NaN whose payload is cut off stays NaN" },
    { TD_DTYPE_BFLOAT16, 0xffffffff, 0xffff, "NaN with all bits set does not wrap around" },
    { TD_DTYPE_BFLOAT16, 0x00018000, 0x0002, "subnormals round to even" },
    { TD_DTYPE_BFLOAT16, 0x80000000, 0x8000, "minus 0 stays" },
};

TD_TEST_EACH(floats_round_to_nearest_even, roundings)
{
    FOR_EACH_ISA(isa)
    {
        /* Enough elements for the vector loop. */
        float from[37];
        uint16_t to[37];
        for (int i = 0; i < COUNT_OF(from); i++)
            from[i] = float_of(roundings[_i].from);
        td_narrow(roundings[_i].dtype, isa)(to, 1, from, COUNT_OF(from));
        for (int i = 0; i < COUNT_OF(to); i++)
            EXPECT(to[i] == roundings[_i].to, "%s, %s: 0x%04x", roundings[_i].case_name,
                   td_isa_name(isa), to[i]);
    }
}

/* ---- Integers ---------------------------------------------------------------------------- */

static const struct {
    const char *stored; /* a tensor */
    uint32_t wide[4];
} integer_cases[] = {
    { "int8[4] -128 -1 0 127", { 0xffffff80, 0xffffffff, 0, 127 } },
    { "uint8[4] 0 1 128 255", { 0, 1, 128, 255 } },
    { "int16[4] -32768 -1 0 32767", { 0xffff8000, 0xffffffff, 0, 32767 } },
    { "uint16[4] 0 1 32768 65535", { 0, 1, 32768, 65535 } },
    { "int32[4] -2147483648 -1 0 2147483647", { 0x80000000, 0xffffffff, 0, 0x7fffffff } },
    { "uint32[4] 0 1 2147483648 4294967295", { 0, 1, 0x80000000, 0xffffffff } },
};

TD_TEST_EACH(integers_are_sign_extended_and_narrowed_back, integer_cases)
{
    struct td_tensor stored = tensor(integer_cases[_i].stored);
    FOR_EACH_ISA(isa)
    {
        uint32_t wide[4];
        char back[16];
        td_widen(stored.dtype, isa)(wide, stored.data, 1, 4);
        ck_assert_mem_eq(wide, integer_cases[_i].wide, sizeof(wide));
        td_narrow(stored.dtype, isa)(back, 1, wide, 4);
        ck_assert_mem_eq(back, stored.data, 4 * td_dtype_info(stored.dtype)->size);
    }
}

/* 0x12345681 modulo 2^8 is 0x81, as int8 -127; modulo 2^16 0x5681. */
static const char *const cut[] = {
    "int8[3] -127 -1 0",
    "uint8[3] 129 255 0",
    "int16[3] 22145 -1 0",
    "uint16[3] 22145 65535 0",
    "int32[3] 305419905 -1 16777216",
    "uint32[3] 305419905 4294967295 16777216",
};

TD_TEST_EACH(integers_are_truncated_to_their_width, cut)
{
    static const uint32_t wide[] = { 0x12345681, 0xffffffff, 0x01000000 };
    struct td_tensor want = tensor(cut[_i]);
    FOR_EACH_ISA(isa)
    {
        char got[12];
        td_narrow(want.dtype, isa)(got, 1, wide, 3);
        ck_assert_mem_eq(got, want.data, 3 * td_dtype_info(want.dtype)->size);
    }
}

/* ---- Runs, strides, instruction sets ------------------------------------------------------ */

#define RUN   70
#define REACH 3 /* the largest stride tried */

/* Bytes for the elements of a loop with margins on both sides, aligned for every dtype. */
struct bytes {
    _Alignas(64) unsigned char at[(2 * RUN + 1) * REACH * 16];
};

/* Element 0 is in the middle, so that strides of both signs stay inside. */
static void *middle(struct bytes *bytes, size_t size)
{
    return bytes->at + RUN * REACH * size;
}

static void fill(struct bytes *bytes, uint64_t seed)
{
    for (size_t i = 0; i < sizeof(bytes->at); i++)
        bytes->at[i] = (unsigned char)random_next(&seed);
}

/* The reference: one element at a time with stride 1, as the tests above check it. */
static void expect_widened(td_dtype dtype, td_isa isa, int64_t stride, int64_t n)
{
    static struct bytes from, got, want;
    const size_t size = td_dtype_info(dtype)->size, wide = td_compute_size(td_compute_of(dtype));
    fill(&from, (uint64_t)n);
    memset(&got, 0xaa, sizeof(got));
    memset(&want, 0xaa, sizeof(want));
    td_widen(dtype, isa)(middle(&got, wide), middle(&from, size), stride, n);
    for (int64_t i = 0; i < n; i++)
        td_widen(dtype, TD_ISA_GENERIC)((char *)middle(&want, wide) + i * (int64_t)wide,
                                        (char *)middle(&from, size) + i * stride * (int64_t)size, 1,
                                        1);
    EXPECT(memcmp(&got, &want, sizeof(got)) == 0, "%s, %s, stride %d, run of %d",
           td_dtype_info(dtype)->name, td_isa_name(isa), (int)stride, (int)n);
}

static void expect_narrowed(td_dtype dtype, td_isa isa, int64_t stride, int64_t n)
{
    static struct bytes from, got, want;
    const size_t size = td_dtype_info(dtype)->size, wide = td_compute_size(td_compute_of(dtype));
    fill(&from, (uint64_t)n);
    memset(&got, 0xaa, sizeof(got));
    memset(&want, 0xaa, sizeof(want));
    td_narrow(dtype, isa)(middle(&got, size), stride, middle(&from, wide), n);
    for (int64_t i = 0; i < n; i++)
        td_narrow(dtype, TD_ISA_GENERIC)((char *)middle(&want, size) + i * stride * (int64_t)size,
                                         1, (char *)middle(&from, wide) + i * (int64_t)wide, 1);
    EXPECT(memcmp(&got, &want, sizeof(got)) == 0, "%s, %s, stride %d, run of %d",
           td_dtype_info(dtype)->name, td_isa_name(isa), (int)stride, (int)n);
}

TD_TEST_EACH(loops_of_any_length_and_stride_access_their_elements_only, computed)
{
    FOR_EACH_ISA(isa)
    {
        for (int64_t n = 0; n <= RUN; n++) {
            for (int64_t stride = -REACH; stride <= REACH; stride++) {
                expect_widened(computed[_i].dtype, isa, stride, n);
                if (stride != 0)
                    expect_narrowed(computed[_i].dtype, isa, stride, n);
            }
        }
    }
}

TD_TEST(bool_and_string_have_no_conversion)
{
    FOR_EACH_ISA(isa)
    {
        ck_assert(!td_widen(TD_DTYPE_BOOL, isa) && !td_narrow(TD_DTYPE_BOOL, isa));
        ck_assert(!td_widen(TD_DTYPE_STRING, isa) && !td_narrow(TD_DTYPE_STRING, isa));
    }
}
