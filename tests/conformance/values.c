#include "tests/conformance/values.h"

#include "tests/support/tensors.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

bool because(struct why *why, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(why->text, sizeof why->text, format, args);
    va_end(args);
    return false;
}

/* ---- dtypes ---------------------------------------------------------------------------------- */

static bool is_float(td_dtype dtype)
{
    return dtype >= TD_DTYPE_FLOAT16 && dtype <= TD_DTYPE_FLOAT64;
}

static bool is_integer(td_dtype dtype)
{
    return dtype >= TD_DTYPE_INT8 && dtype <= TD_DTYPE_UINT64;
}

static bool is_signed(td_dtype dtype)
{
    return dtype >= TD_DTYPE_INT8 && dtype <= TD_DTYPE_INT64;
}

/* ---- floats of 16 bits ----------------------------------------------------------------------- */

/* To a multiple of a power of two, ties to even; the significand has so many bits, and the least
 * number that is not zero is 2^least. */
static double round_to(double x, int bits, int least, double most)
{
    int exponent;
    if (isnan(x) || isinf(x) || x == 0)
        return x;
    frexp(x, &exponent);
    const int unit = exponent - bits > least ? exponent - bits : least;
    const double rounded = ldexp(nearbyint(ldexp(x, -unit)), unit);
    return fabs(rounded) > most ? copysign(INFINITY, x) : rounded;
}

static double round_as(double x, td_dtype dtype)
{
    switch (dtype) {
    case TD_DTYPE_FLOAT16:
        return round_to(x, 11, -24, 65504);
    case TD_DTYPE_BFLOAT16:
        return round_to((double)(float)x, 8, -133, 0x1.fep127);
    case TD_DTYPE_FLOAT32:
    case TD_DTYPE_COMPLEX64:
        return (double)(float)x;
    default:
        return x;
    }
}

static double half_of_bits(uint16_t bits)
{
    const int exponent = bits >> 10 & 31, fraction = bits & 1023;
    const double sign = bits >> 15 ? -1 : 1;
    if (exponent == 31)
        return fraction ? (double)NAN : sign * (double)INFINITY;
    return sign * (exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24));
}

/* Of a number that is one of float16. */
static uint16_t bits_of_half(double x)
{
    int exponent;
    const uint16_t sign = signbit(x) ? 0x8000 : 0;
    if (isnan(x))
        return 0x7e00;
    if (isinf(x))
        return sign | 0x7c00;
    const double fraction = frexp(fabs(x), &exponent); /* in [0.5, 1) */
    if (exponent < -13 || x == 0)
        return (uint16_t)(sign | (uint16_t)ldexp(fabs(x), 24));
    return (uint16_t)(sign | (exponent + 14) << 10 | (int)((fraction * 2 - 1) * 1024));
}

/* ---- reading JSON ---------------------------------------------------------------------------- */

static bool refuse(const struct tree *tree, const char *expected, struct why *why)
{
    const int most = 60;
    return because(why, "%s expected, got %.*s", expected,
                   tree->source.length > (size_t)most ? most : (int)tree->source.length,
                   tree->source.at);
}

static bool read_real(const struct tree *tree, td_dtype dtype, bool bare, double *out,
                      struct why *why)
{
    const struct text name = tree->kind == '"' && !bare ? tree->string : tree->source;
    if (text_is(name, "NaN"))
        *out = NAN;
    else if (text_is(name, "Infinity"))
        *out = INFINITY;
    else if (text_is(name, "-Infinity"))
        *out = -INFINITY;
    else if (tree->kind == '0')
        *out = round_as(strtod(tree->source.at, NULL), dtype);
    else
        return refuse(tree, "a number", why);
    return true;
}

static bool read_integer(const struct tree *tree, struct value *out, struct why *why)
{
    char digits[24] = "", *end;
    if (tree->kind != '0' || tree->source.length >= sizeof digits)
        return refuse(tree, "an integer", why);
    memcpy(digits, tree->source.at, tree->source.length);
    out->negative = digits[0] == '-';
    out->magnitude = strtoull(digits + out->negative, &end, 10);
    out->negative = out->negative && out->magnitude > 0;
    return *end == '\0' || refuse(tree, "an integer", why);
}

static bool read_scalar(const struct tree *tree, td_dtype dtype, struct value *out, struct why *why)
{
    *out = (struct value){ 0 };
    if (dtype == TD_DTYPE_STRING) {
        out->string = tree->string;
        return tree->kind == '"' || refuse(tree, "a string", why);
    }
    if (dtype == TD_DTYPE_BOOL) {
        out->magnitude = tree->kind == 't';
        return tree->kind == 't' || tree->kind == 'f' || refuse(tree, "true or false", why);
    }
    if (is_integer(dtype))
        return read_integer(tree, out, why);
    if (!td_dtype_is_complex(dtype))
        return read_real(tree, dtype, false, &out->re, why);
    if (tree->kind != '[' || tree->count != 2)
        return refuse(tree, "[re,im]", why);
    return read_real(tree->first, dtype, false, &out->re, why) &&
           read_real(tree->first->next, dtype, false, &out->im, why);
}

/* Lists of the dimensions from `depth` on. */
static bool read_nested(const struct tree *tree, int depth, struct values *out, struct value **to,
                        struct why *why)
{
    if (depth == out->shape.rank)
        return read_scalar(tree, out->dtype, (*to)++, why);
    if (tree->kind != '[' || tree->count != out->shape.dim[depth])
        return refuse(tree, "lists of the shape", why);
    for (const struct tree *one = tree->first; one; one = one->next)
        if (!read_nested(one, depth + 1, out, to, why))
            return false;
    return true;
}

static bool read_flat(const struct tree *tree, struct values *out, struct why *why)
{
    struct value *to = out->at;
    if (tree->kind != '[' || tree->count != out->count)
        return refuse(tree, "a flat list of all values", why);
    for (const struct tree *one = tree->first; one; one = one->next)
        if (!read_scalar(one, out->dtype, to++, why))
            return false;
    return true;
}

bool values_of_numbers(const struct tree *data, struct td_arena *arena, struct values *out,
                       struct why *why)
{
    struct td_error err;
    const bool complex = td_dtype_is_complex(out->dtype);
    EXPECT(td_shape_numel(&out->shape, &out->count), "the shape is too large");
    out->at = td_arena_alloc(arena, (size_t)out->count, sizeof *out->at, &err);
    EXPECT(out->at, "%s", err.message);
    if (!data || data->kind != '[' || data->count != out->count * (complex ? 2 : 1))
        return because(why, "no flat list of %" PRId64 " values", out->count);
    const struct tree *one = data->first;
    for (int64_t i = 0; i < out->count; i++, one = one->next) {
        struct value *value = &out->at[i];
        *value = (struct value){ 0 };
        if (complex) {
            if (!read_real(one, out->dtype, true, &value->re, why) ||
                !read_real(one->next, out->dtype, true, &value->im, why))
                return false;
            one = one->next;
        } else if (is_float(out->dtype)) {
            if (!read_real(one, out->dtype, true, &value->re, why))
                return false;
        } else if (!read_scalar(one, out->dtype, value, why)) {
            return false;
        }
    }
    return true;
}

bool shape_of_tree(const struct tree *tree, struct td_shape *out, struct why *why)
{
    *out = (struct td_shape){ 0 };
    if (!tree || tree->kind != '[' || tree->count > TD_MAX_RANK)
        return because(why, "there is no shape");
    for (const struct tree *one = tree->first; one; one = one->next) {
        struct value value = { 0 };
        if (!read_integer(one, &value, why) || value.negative || value.magnitude > INT32_MAX)
            return refuse(one, "a size", why);
        out->dim[out->rank++] = (int64_t)value.magnitude;
    }
    return true;
}

static bool read_base64(struct text text, struct td_arena *arena, struct text *bytes)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    struct td_error err;
    char *to = td_arena_alloc(arena, text.length / 4 * 3 + 1, 1, &err);
    EXPECT(to, "%s", err.message);
    *bytes = (struct text){ to, 0 };
    if (text.length % 4 != 0)
        return false;
    for (size_t i = 0; i < text.length; i += 4) {
        uint32_t group = 0;
        int pads = 0;
        for (size_t j = i; j < i + 4; j++) {
            const char *letter = text.at[j] ? strchr(letters, text.at[j]) : NULL;
            pads += text.at[j] == '=';
            if ((!letter && text.at[j] != '=') || (letter && pads > 0))
                return false;
            group = group << 6 | (letter ? (uint32_t)(letter - letters) : 0);
        }
        if (pads > 2 || (pads > 0 && i + 4 < text.length))
            return false;
        for (int j = 0; j < 3 - pads; j++)
            to[bytes->length++] = (char)(group >> (16 - 8 * j));
    }
    return true;
}

void base64_write(FILE *file, struct text bytes)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < bytes.length; i += 3) {
        const size_t left = bytes.length - i;
        uint32_t group = 0;
        for (size_t j = 0; j < 3; j++)
            group = group << 8 | (j < left ? (unsigned char)bytes.at[i + j] : 0);
        for (size_t j = 0; j < 4; j++)
            fputc(j <= left ? letters[group >> (18 - 6 * j) & 63] : '=', file);
    }
}

bool values_of_tree(const struct tree *tree, enum layout layout, struct td_arena *arena,
                    struct values *out, struct why *why)
{
    struct td_error err;
    const struct tree *dtype = tree_member(tree, "dtype"), *data = tree_member(tree, "data"),
                      *base64 = tree_member(tree, "base64");
    if (!dtype || !td_dtype_from_name(dtype->string.at, dtype->string.length, &out->dtype))
        return because(why, "there is no dtype");
    if (!shape_of_tree(tree_member(tree, "shape"), &out->shape, why))
        return false;
    if (base64) {
        struct text bytes;
        if (data || (layout < LAYOUT_BASE64 && out->dtype != TD_DTYPE_STRING))
            return because(why, "base64 was not asked for");
        if (base64->kind != '"' || !read_base64(base64->string, arena, &bytes))
            return refuse(base64, "base64", why);
        return values_of_bytes(bytes, arena, out, why);
    }
    EXPECT(td_shape_numel(&out->shape, &out->count), "the shape is too large");
    out->at = td_arena_alloc(arena, (size_t)out->count, sizeof *out->at, &err);
    EXPECT(out->at, "%s", err.message);
    if (!data || layout == LAYOUT_BASE64)
        return because(why, "there is no %s", data ? "base64" : "data");
    struct value *to = out->at;
    return layout == LAYOUT_NESTED ? read_nested(data, 0, out, &to, why)
                                   : read_flat(data, out, why);
}

/* ---- bytes ----------------------------------------------------------------------------------- */

static bool strings_of_bytes(struct text bytes, struct values *out, struct why *why)
{
    size_t at = 0;
    for (int64_t i = 0; i < out->count; i++) {
        uint32_t length;
        if (bytes.length - at < sizeof length)
            return because(why, "the bytes of strings end early");
        memcpy(&length, bytes.at + at, sizeof length);
        at += sizeof length;
        if (bytes.length - at < length)
            return because(why, "the bytes of strings end early");
        out->at[i].string = (struct text){ bytes.at + at, length };
        at += length;
    }
    return at == bytes.length || because(why, "%zu bytes after the last string", bytes.length - at);
}

static double real_of_bytes(const char *bytes, td_dtype part)
{
    double wide;
    float single;
    uint32_t bits;
    uint16_t half;
    switch (part) {
    case TD_DTYPE_FLOAT64:
        memcpy(&wide, bytes, sizeof wide);
        return wide;
    case TD_DTYPE_FLOAT16:
        memcpy(&half, bytes, sizeof half);
        return half_of_bits(half);
    case TD_DTYPE_BFLOAT16:
        memcpy(&half, bytes, sizeof half);
        bits = (uint32_t)half << 16;
        memcpy(&single, &bits, sizeof single);
        return (double)single;
    default:
        memcpy(&single, bytes, sizeof single);
        return (double)single;
    }
}

static void scalar_of_bytes(const char *bytes, td_dtype dtype, struct value *out)
{
    const size_t size = td_dtype_info(dtype)->size;
    if (is_float(dtype)) {
        out->re = real_of_bytes(bytes, dtype);
    } else if (td_dtype_is_complex(dtype)) {
        out->re = real_of_bytes(bytes, td_dtype_part(dtype));
        out->im = real_of_bytes(bytes + size / 2, td_dtype_part(dtype));
    } else {
        memcpy(&out->magnitude, bytes, size);
        const unsigned unused = 64 - 8 * (unsigned)size;
        out->negative = is_signed(dtype) && out->magnitude << unused >> 63;
        if (out->negative)
            out->magnitude = (0 - (out->magnitude << unused)) >> unused;
    }
}

bool values_of_bytes(struct text bytes, struct td_arena *arena, struct values *out, struct why *why)
{
    struct td_error err;
    const size_t size = td_dtype_info(out->dtype)->size;
    EXPECT(td_shape_numel(&out->shape, &out->count), "the shape is too large");
    out->at = td_arena_alloc(arena, (size_t)out->count, sizeof *out->at, &err);
    EXPECT(out->at, "%s", err.message);
    memset(out->at, 0, (size_t)out->count * sizeof *out->at);
    if (out->dtype == TD_DTYPE_STRING)
        return strings_of_bytes(bytes, out, why);
    if (bytes.length != (size_t)out->count * size)
        return because(why, "%zu bytes for %" PRId64 " values of %s", bytes.length, out->count,
                       td_dtype_info(out->dtype)->name);
    for (int64_t i = 0; i < out->count; i++)
        scalar_of_bytes(bytes.at + (size_t)i * size, out->dtype, &out->at[i]);
    return true;
}

static void write_real(FILE *file, double x, td_dtype part)
{
    const float single = (float)x;
    uint32_t bits;
    uint16_t half = bits_of_half(x);
    switch (part) {
    case TD_DTYPE_FLOAT64:
        fwrite(&x, sizeof x, 1, file);
        break;
    case TD_DTYPE_BFLOAT16:
        memcpy(&bits, &single, sizeof bits);
        half = (uint16_t)(bits >> 16);
        fwrite(&half, sizeof half, 1, file);
        break;
    case TD_DTYPE_FLOAT16:
        fwrite(&half, sizeof half, 1, file);
        break;
    default:
        fwrite(&single, sizeof single, 1, file);
        break;
    }
}

void values_write(FILE *file, const struct values *values)
{
    const td_dtype dtype = values->dtype;
    for (int64_t i = 0; i < values->count; i++) {
        const struct value *value = &values->at[i];
        const uint32_t length = (uint32_t)value->string.length;
        const uint64_t integer = value->negative ? 0 - value->magnitude : value->magnitude;
        if (dtype == TD_DTYPE_STRING) {
            fwrite(&length, sizeof length, 1, file);
            fwrite(value->string.at, 1, length, file);
        } else if (is_float(dtype)) {
            write_real(file, value->re, dtype);
        } else if (td_dtype_is_complex(dtype)) {
            write_real(file, value->re, td_dtype_part(dtype));
            write_real(file, value->im, td_dtype_part(dtype));
        } else {
            fwrite(&integer, td_dtype_info(dtype)->size, 1, file);
        }
    }
}

/* ---- comparing ------------------------------------------------------------------------------- */

static bool close_to(double got, double want, struct tolerance tolerance)
{
    const bool exact = tolerance.rtol == 0 && tolerance.atol == 0;
    if (isnan(got) && isnan(want))
        return true;
    if (got == want) /* zeros have signs */
        return !exact || !signbit(got) == !signbit(want);
    if (!isfinite(got) || !isfinite(want))
        return false;
    return fabs(got - want) <= tolerance.atol + tolerance.rtol * fabs(want);
}

static bool same_value(const struct value *got, const struct value *want,
                       struct tolerance tolerance)
{
    return close_to(got->re, want->re, tolerance) && close_to(got->im, want->im, tolerance) &&
           got->negative == want->negative && got->magnitude == want->magnitude &&
           same_text(got->string, want->string);
}

/* For messages. */
static const char *value_text(const struct value *value, td_dtype dtype, char *text, size_t size)
{
    if (dtype == TD_DTYPE_STRING)
        snprintf(text, size, "\"%.*s\"", (int)value->string.length, value->string.at);
    else if (is_float(dtype))
        snprintf(text, size, "%.17g", value->re);
    else if (td_dtype_is_complex(dtype))
        snprintf(text, size, "[%.17g,%.17g]", value->re, value->im);
    else
        snprintf(text, size, "%s%" PRIu64, value->negative ? "-" : "", value->magnitude);
    return text;
}

bool values_equal(const struct values *got, const struct values *want, struct tolerance tolerance,
                  struct why *why)
{
    char text[TD_SHAPE_TEXT], other[TD_SHAPE_TEXT];
    if (got->dtype != want->dtype)
        return because(why, "dtype %s, expected %s", td_dtype_info(got->dtype)->name,
                       td_dtype_info(want->dtype)->name);
    if (!td_shape_equal(&got->shape, &want->shape))
        return because(why, "shape %s, expected %s", td_shape_text(&got->shape, text, sizeof text),
                       td_shape_text(&want->shape, other, sizeof other));
    for (int64_t i = 0; i < want->count; i++)
        if (!same_value(&got->at[i], &want->at[i], tolerance))
            return because(why, "value %" PRId64 " is %.120s, expected %.120s", i,
                           value_text(&got->at[i], want->dtype, text, sizeof text),
                           value_text(&want->at[i], want->dtype, other, sizeof other));
    return true;
}
