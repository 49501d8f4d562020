#include "kernels/cast/cast.h"
#include "tests/support/op_call.h"
#include "tests/support/random.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"
#include "tests/support/threads.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define OP "cast"

static void call_cast(struct op_call *call, struct td_tensor x, td_dtype to, struct td_exec *exec)
{
    char attrs[64];
    snprintf(attrs, sizeof(attrs), "dtype=%s", td_dtype_info(to)->name);
    call_op(call, OP, attrs, x, (struct td_tensor){ 0 }, exec);
}

/* Beside those of tests/conformance/cases. */
static const struct {
    const char *says;
    const char *x;
    const char *dtype;
    const char *output;
} results[] = {
    { "fractions are cut off, towards zero", "float64[2] -1.9 -0.9", "int8", "int8[2] -1 0" },
    { "floats out of range of an unsigned dtype saturate", "float64[3] -1 256 1e30", "uint8",
      "uint8[3] 0 255 255" },
    { "infinity saturates, NaN is 0", "float16[3] 0x7c00 0xfc00 0x7e00", "int16",
      "int16[3] 32767 -32768 0" },
    { "2^63 is out of the range of int64", "float32[2] 9223372036854775808 -9223372036854775808",
      "int64", "int64[2] 9223372036854775807 -9223372036854775808" },
    { "unsigned integers have no sign to extend", "uint8[2] 255 1", "int64", "int64[2] 255 1" },
    { "what is not 0 is true", "float32[4] 0 -0 1e-40 -2", "bool", "bool[4] 0 0 1 1" },
    { "so is NaN", "bfloat16[2] 0x7fc0 0x8000", "bool", "bool[2] 1 0" },
    { "ties of float16: 2049, 2051", "int16[2] 2049 2051", "float16", "float16[2] 0x6800 0x6802" },
    { "above a tie of float16 by less than float32 shows", "float64[2] 2049.0000000001 -2049",
      "float16", "float16[2] 0x6801 0xe800" },
    { "above a tie of bfloat16 by less than float32 shows", "int64[2] 4629700416936869889 257",
      "bfloat16", "bfloat16[2] 0x5e81 0x4380" },
    { "half of the least float16 is a tie", "float64[2] 2.98023223876953125e-8 2.9802322388e-8",
      "float16", "float16[2] 0 1" },
    { "a scalar", "float32[] -7.5", "int64", "int64[] -7" },
};

TD_TEST_EACH(cast_gives, results)
{
    struct op_call call;
    char attrs[64];
    snprintf(attrs, sizeof(attrs), "dtype=%s", results[_i].dtype);
    call_op(&call, OP, attrs, tensor(results[_i].x), (struct td_tensor){ 0 }, NULL);
    ck_assert_msg(call.status == TD_OK, "%s: %s", results[_i].says, call.err.message);
    ck_assert_int_eq(call.args.n_outputs, 1);
    expect_tensor(&call.args.outputs[0], results[_i].output, results[_i].says);
}

static const struct {
    const char *says;
    const char *x, *attrs;
    td_status status;
    const char *message, *input, *attribute;
} refusals[] = {
    { "strings", "string[1] '1'", "dtype=int32", TD_UNSUPPORTED_DTYPE,
      "x has dtype string; expected bool, int8, int16, int32, int64, uint8, uint16, uint32, "
      "uint64, "
      "float16, bfloat16, float32, float64, complex64 or complex128",
      "x", "" },
    { "to strings", "int32[1] 1", "dtype=string", TD_UNSUPPORTED_DTYPE,
      "dtype is string; expected bool, int8, int16, int32, int64, uint8, uint16, uint32, uint64, "
      "float16, "
      "bfloat16, float32, float64, complex64 or complex128",
      "", "dtype" },
    { "to nothing", "int32[1] 1", "", TD_INVALID_ARGUMENT, "dtype is missing; cast requires it", "",
      "dtype" },
};

TD_TEST_EACH(cast_refuses, refusals)
{
    struct op_call call;
    call_begin(&call, OP, refusals[_i].attrs, tensor(refusals[_i].x), (struct td_tensor){ 0 });
    call_infer(&call, OP);
    expect_refusal(&call, refusals[_i].status, refusals[_i].message, refusals[_i].input,
                   refusals[_i].attribute, refusals[_i].says);
}

TD_TEST(an_output_too_large_is_refused)
{
    struct op_call call;
    call_begin(&call, OP, "dtype=complex128", tensor_without_data("int8[1099511627776,1048576]"),
               (struct td_tensor){ 0 });
    call_infer(&call, OP);
    ck_assert_int_eq(call.status, TD_RESOURCE_LIMIT);
    ck_assert_str_eq(call.err.resource, "tensor_bytes");
}

TD_TEST(cost_follows_from_both_dtypes)
{
    struct op_call call;
    call_begin(&call, OP, "dtype=float64", tensor("int16[2,3] 0..5"), (struct td_tensor){ 0 });
    call_infer(&call, OP);
    const struct td_cost cost = td_op_cast.cost(&call.args);
    ck_assert_uint_eq(cost.bytes_read, 12);
    ck_assert_uint_eq(cost.bytes_written, 48);
    ck_assert_uint_eq(cost.flops, 6);
    ck_assert_uint_eq(cost.workspace + cost.workspace_per_thread, 0);
}

/* ---- Against the definition, element by element ------------------------------------------ */

/* A binary floating-point format, or an integer dtype. */
struct format {
    int digits;       /* of the significand; 0: an integer */
    int min_exponent; /* of the least normal number */
    int bits;         /* of an integer */
    bool is_signed;
};

static const struct format formats[TD_DTYPE_COUNT] = {
    [TD_DTYPE_INT8] = { .bits = 8, .is_signed = true },
    [TD_DTYPE_INT16] = { .bits = 16, .is_signed = true },
    [TD_DTYPE_INT32] = { .bits = 32, .is_signed = true },
    [TD_DTYPE_INT64] = { .bits = 64, .is_signed = true },
    [TD_DTYPE_UINT8] = { .bits = 8 },
    [TD_DTYPE_UINT16] = { .bits = 16 },
    [TD_DTYPE_UINT32] = { .bits = 32 },
    [TD_DTYPE_UINT64] = { .bits = 64 },
    [TD_DTYPE_FLOAT16] = { .digits = 11, .min_exponent = -14 },
    [TD_DTYPE_BFLOAT16] = { .digits = 8, .min_exponent = -126 },
    [TD_DTYPE_FLOAT32] = { .digits = 24, .min_exponent = -126 },
    [TD_DTYPE_FLOAT64] = { .digits = 53, .min_exponent = -1022 },
    [TD_DTYPE_COMPLEX64] = { .digits = 24, .min_exponent = -126 },
    [TD_DTYPE_COMPLEX128] = { .digits = 53, .min_exponent = -1022 },
};

static bool is_complex(td_dtype dtype)
{
    return dtype == TD_DTYPE_COMPLEX64 || dtype == TD_DTYPE_COMPLEX128;
}

/* To nearest, ties to even: the processor's rounding to a whole number, in units of the last
 * place. */
static long double rounded(long double value, struct format format)
{
    if (value == 0 || !isfinite(value))
        return value;
    int exponent = ilogbl(value);
    if (exponent < format.min_exponent)
        exponent = format.min_exponent;
    const int place = exponent - (format.digits - 1);
    const long double nearest = ldexpl(rintl(ldexpl(value, -place)), place);
    const bool too_large = fabsl(nearest) >= ldexpl(1, 2 - format.min_exponent);
    return too_large ? copysignl((long double)INFINITY, value) : nearest;
}

static long double to_integer(long double value, struct format format, bool wraps)
{
    const long double span = ldexpl(1, format.bits);
    const long double least = format.is_signed ? -span / 2 : 0, greatest = least + (span - 1);
    if (isnan(value))
        return 0;
    if (!wraps)
        return fminl(fmaxl(truncl(value), least), greatest);
    value = fmodl(value, span);
    if (value > greatest)
        value -= span;
    return value < least ? value + span : value;
}

static void expect_cast(const struct td_tensor *x, const struct td_tensor *out, const char *what)
{
    const struct format format = formats[out->dtype];
    const bool from_integer = formats[x->dtype].digits == 0;
    EXPECT(td_shape_equal(&out->shape, &x->shape), "%s: shape", what);
    for (int64_t i = 0; i < x->numel; i++) {
        const long double re = tensor_value(x, i, 0),
                          im = is_complex(x->dtype) ? tensor_value(x, i, 1) : 0;
        for (int part = 0; part <= is_complex(out->dtype); part++) {
            const long double value = part ? im : re, got = tensor_value(out, i, part);
            long double want;
            if (out->dtype == TD_DTYPE_BOOL)
                want = re != 0 || im != 0;
            else if (format.digits == 0)
                want = to_integer(value, format, from_integer);
            else
                want = rounded(value, format);
            const bool same = got == want && !signbit(got) == !signbit(want);
            /* NaN of any sign; integers have one zero */
            EXPECT(same || (isnan(got) && isnan(want)) ||
                       (format.digits == 0 && got == 0 && want == 0),
                   "%s: element %" PRId64 " is %La of %La, expected %La", what, i, got, value,
                   want);
        }
    }
}

/* A double, or the same magnitude as an integer, at a place where something changes: the bounds of
 * the integer dtypes, ties of the narrower floats. */
static double drawn(void)
{
    static const int digits[] = { 8, 11, 24, 53 };
    const double sign = random_below(2) ? -1 : 1;
    switch (random_below(4)) {
    case 0: /* any exponent, digits of any number */
        return sign *
               ldexp((double)(random_next() >> (11 + random_below(53))), random_below(320) - 200);
    case 1: /* about a bound */
        return sign * (ldexp(1, random_below(66)) + (random_below(9) - 4) / 2.0);
    case 2: /* a tie: one digit more than there is room for, subnormal at times */
        return sign * ldexp((double)(random_next() >> (63 - digits[random_below(3)]) | 1),
                            random_below(3) ? random_below(60) - 10 : -25 - random_below(125));
    default: /* about the greatest number of a format */
        return sign * ldexp((double)(random_next() >> (64 - digits[random_below(4)])),
                            random_below(2) ? 5 : 120);
    }
}

/* Every bit pattern of dtypes up to 16 bits; of the others, random bits and drawn values, some with
 * a change in the last places. */
static struct td_tensor source(td_dtype dtype)
{
    const size_t size = td_dtype_info(dtype)->size;
    struct td_shape shape = { .rank = 1, .dim = { size == 1 ? 256 : size == 2 ? 65536 : 20011 } };
    struct td_tensor x = random_tensor(dtype, &shape);
    const bool wide = dtype == TD_DTYPE_FLOAT64 || dtype == TD_DTYPE_COMPLEX128;
    const bool real = wide || dtype == TD_DTYPE_FLOAT32 || dtype == TD_DTYPE_COMPLEX64;
    const size_t part = is_complex(dtype) ? size / 2 : size;
    EXPECT(part > 0, "%s has no size", td_dtype_info(dtype)->name);
    for (size_t i = 0; i < x.bytes / part; i++) {
        uint64_t bits = i;
        const double value = drawn();
        const float narrow = (float)value;
        if (size > 2 && random_below(4) == 0)
            continue; /* random bits */
        if (real && wide)
            memcpy(&bits, &value, sizeof(value));
        else if (real)
            memcpy(&bits, &narrow, sizeof(narrow));
        else if (size > 2)
            bits = fabs(value) < 0x1p63 ? (uint64_t)(int64_t)value : UINT64_MAX;
        if (size > 2 && random_below(2))
            bits += (uint64_t)random_below(5) - 2;
        memcpy((char *)x.data + i * part, &bits, part);
    }
    return x;
}

TD_TEST_LOOP(any_cast_is_what_its_definition_says, 0, TD_DTYPE_STRING)
{
    const td_dtype from = (td_dtype)_i;
    random_seed((uint64_t)_i);
    struct td_tensor x = source(from);
    for (int to = 0; to < TD_DTYPE_STRING; to++) {
        for (int isa = TD_ISA_GENERIC; isa <= TD_ISA_AVX512; isa++) {
            char what[96];
            struct thread_exec exec;
            struct op_call call;
            if (!td_isa_supported((td_isa)isa))
                continue;
            snprintf(what, sizeof(what), "%s to %s, %s", td_dtype_info(from)->name,
                     td_dtype_info((td_dtype)to)->name, td_isa_name((td_isa)isa));
            thread_exec_init(&exec, 1 + random_below(3), random_below(2) ? 0 : 701);
            exec.exec.isa = (td_isa)isa;
            call_cast(&call, x, (td_dtype)to, &exec.exec);
            EXPECT(call.status == TD_OK, "%s: %s", what, call.err.message);
            expect_cast(&x, &call.args.outputs[0], what);
        }
    }
}

TD_TEST_LOOP(a_deadline_ends_a_large_cast, 0, 3)
{
    static const char *const pairs[][2] = { { "float64[300000]", "dtype=float16" },
                                            { "complex64[300000]", "dtype=complex128" },
                                            { "int8[3000000]", "dtype=int8" } };
    struct td_tensor like = tensor_without_data(pairs[_i][0]);
    struct td_tensor x = random_tensor(like.dtype, &like.shape);
    struct op_call call;
    call_begin(&call, OP, pairs[_i][1], x, (struct td_tensor){ 0 });
    expect_deadlines(&call, OP, 3, pairs[_i][0]);
}

TD_TEST(data_that_are_not_aligned_are_read_from_a_copy)
{
    static const char bytes[] = "-\1\0\2\0";
    struct td_tensor x = tensor_without_data("int16[2]");
    struct op_call call;
    x.data = (char *)bytes + 1;
    call_cast(&call, x, TD_DTYPE_FLOAT32, NULL);
    ck_assert_int_eq(call.status, TD_OK);
    expect_tensor(&call.args.outputs[0], "float32[2] 1 2", "not aligned");
}
