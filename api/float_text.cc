#include "api/float_text.h"

#include "api/half.h"

#include <dragonbox/dragonbox.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace
{

/* ---- printing ---- */

constexpr int max_digits = 17; /* float64 never needs more */

/* Digits before the decimal point that are still written out; above it the exponent is shorter, and
 * what the digits say and what only fills up stays apart. */
constexpr int plain_float64 = 16, plain_float32 = 9;

constexpr uint64_t power_of_ten[] = { 1,
                                      10,
                                      100,
                                      1000,
                                      10000,
                                      100000,
                                      1000000,
                                      10000000,
                                      100000000,
                                      1000000000,
                                      10000000000,
                                      100000000000,
                                      1000000000000,
                                      10000000000000,
                                      100000000000000,
                                      1000000000000000,
                                      10000000000000000,
                                      100000000000000000 };

/* Decimal digits of x > 0. */
inline int count_digits(uint64_t x)
{
    int guess = ((64 - __builtin_clzll(x)) * 1233) >> 12; /* log10 of 2 is close to 1233 / 4096 */
    return guess + (x >= power_of_ten[guess]);
}

/* Eight digits of x < 10^8 as bytes 0 to 9, the first in the lowest byte: halves, then pairs, then
 * single digits, all lanes at once. Division by 100 and 10 as multiplication is exact that far. */
inline uint64_t eight_digits(uint32_t x)
{
    uint64_t fours = x / 10000 | static_cast<uint64_t>(x % 10000) << 32;
    uint64_t hundreds = fours * 10486 >> 20 & 0x0000007f0000007f;
    uint64_t pairs = hundreds | (fours - 100 * hundreds) << 16;
    uint64_t tens = pairs * 103 >> 10 & 0x000f000f000f000f;
    return tens | (pairs - 10 * tens) << 8;
}

inline void put(char *at, uint64_t bytes)
{
    std::memcpy(at, &bytes, sizeof bytes);
}

constexpr uint64_t eight_zeros = 0x3030303030303030;

/* Significant ones among the eight digits: up to the last that is not zero. */
inline int significant(uint64_t digits)
{
    return digits ? 8 - __builtin_clzll(digits) / 8 : 0;
}

/* Writes the digits of x with n of them, left-aligned and filled up with zeros to `filled` at least;
 * returns how many are significant. */
template <bool wide> inline int spread(char *digits, uint64_t x, int n)
{
    if constexpr (wide) {
        x *= power_of_ten[max_digits - n];
        uint64_t rest = x % power_of_ten[16];
        digits[0] = static_cast<char>('0' + x / power_of_ten[16]);
        uint64_t high = eight_digits(static_cast<uint32_t>(rest / power_of_ten[8]));
        uint64_t low = eight_digits(static_cast<uint32_t>(rest % power_of_ten[8]));
        put(digits + 1, high | eight_zeros);
        put(digits + 9, low | eight_zeros);
        put(digits + 17, eight_zeros);
        return low ? 9 + significant(low) : 1 + significant(high);
    } else {
        x *= power_of_ten[9 - n];
        uint64_t low = eight_digits(static_cast<uint32_t>(x % power_of_ten[8]));
        digits[0] = static_cast<char>('0' + x / power_of_ten[8]);
        put(digits + 1, low | eight_zeros);
        put(digits + 9, eight_zeros);
        return 1 + significant(low);
    }
}

/* Writes digits * 10^exponent, digits > 0: not wide, below 10^9. Copies have constant sizes, so more
 * is written than counts. */
template <bool wide>
inline char *write_decimal(char *at, uint64_t digits, int exponent, int plain_below)
{
    constexpr int copied = wide ? 24 : 16;
    char text[copied + 8];
    int n = count_digits(digits);
    int point = n + exponent; /* digits before the decimal point */
    int used = spread<wide>(text, digits, n);
    if (point <= 0 && point > -5) {
        std::memcpy(at, "0.000000", 8);
        at += 2 - point;
        std::memcpy(at, text, copied);
        return at + used;
    }
    if (point > 0 && point <= plain_below) {
        std::memcpy(at, text, copied);
        at += point;
        std::memmove(at + 1, text + point, 16);
        *at = '.';
        return at + 1 + std::max(used - point, 1);
    }
    at[0] = text[0];
    at[1] = '.';
    std::memcpy(at + 2, text + 1, copied - 8);
    at += used > 1 ? 1 + used : 1;
    *at++ = 'e';
    int scientific = point - 1;
    *at = '-';
    at += scientific < 0;
    unsigned magnitude = static_cast<unsigned>(scientific < 0 ? -scientific : scientific);
    if (magnitude >= 100)
        *at++ = static_cast<char>('0' + magnitude / 100);
    if (magnitude >= 10)
        *at++ = static_cast<char>('0' + magnitude / 10 % 10);
    *at++ = static_cast<char>('0' + magnitude % 10);
    return at;
}

template <bool wide, typename Float> inline char *write_float(char *at, Float value, int plain_below)
{
    *at = '-';
    at += std::signbit(value);
    if (value == 0) {
        std::memcpy(at, "0.0", 3);
        return at + 3;
    }
    namespace policy = jkj::dragonbox::policy;
    auto decimal = jkj::dragonbox::to_decimal(value, policy::sign::ignore,
                                              policy::trailing_zero::ignore);
    return write_decimal<wide>(at, decimal.significand, decimal.exponent, plain_below);
}

/* The shortest decimal that reads back to a 16-bit float. Five digits always do (float16 may need
 * all of them), so the search is among integers below 10^6: those between the middles to either
 * neighbour, with the most zeros at the end. */
char *write_narrow(char *at, uint16_t bits, double value, td_narrow format)
{
    *at = '-';
    at += bits >> 15;
    unsigned magnitude = bits & 0x7fffu;
    if (magnitude == 0) {
        std::memcpy(at, "0.0", 3);
        return at + 3;
    }
    value = std::abs(value);
    int fraction_bits = format.fraction_bits;
    unsigned fraction = magnitude & ((1u << fraction_bits) - 1);
    int stored = static_cast<int>(magnitude >> fraction_bits);
    int bias = (1 << (format.exponent_bits - 1)) - 1;
    double spacing = std::ldexp(1.0, std::max(stored, 1) - bias - fraction_bits);
    bool narrower_below = fraction == 0 && stored > 1;
    double low = value - spacing / (narrower_below ? 4 : 2), high = value + spacing / 2;
    bool inclusive = fraction % 2 == 0; /* a middle goes to the even neighbour */

    /* Scaled so that value has five digits before the point. */
    auto decimal = jkj::dragonbox::to_decimal(static_cast<float>(value));
    int exponent = count_digits(decimal.significand) + decimal.exponent - 5;
    double scale = std::pow(10.0, std::abs(exponent));
    auto scaled = [&](double x) { return exponent > 0 ? x / scale : x * scale; };
    double first = std::ceil(scaled(low)), last = std::floor(scaled(high));
    if (!inclusive) {
        first += first == scaled(low);
        last -= last == scaled(high);
    }
    double best = scaled(value);
    for (uint64_t step = 100000; step >= 1; step /= 10) {
        double unit = static_cast<double>(step);
        double from = std::ceil(first / unit) * unit, to = std::floor(last / unit) * unit;
        if (from <= to) {
            best = std::clamp(std::nearbyint(best / unit) * unit, from, to);
            break;
        }
    }
    return write_decimal<false>(at, static_cast<uint64_t>(best), exponent, plain_float32);
}

/* ---- reading ---- */

/* Sign of |token| - |value|, exactly. value is finite and not zero, and its decimal expansion ends
 * within 150 digits, as that of a middle between two 16-bit floats does. */
int compare_magnitude(const char *token, const char *end, double value)
{
    char digits[200]; /* d.ddd...e+xx */
    std::snprintf(digits, sizeof digits, "%.160e", std::abs(value));
    long value_exponent = std::strtol(std::strchr(digits, 'e') + 1, nullptr, 10);
    std::memmove(digits + 1, digits + 2, 160);
    digits[161] = '\0';

    if (*token == '-')
        token++;
    const char *mantissa_end = std::find_if(token, end, [](char c) { return c == 'e' || c == 'E'; });
    const char *point = std::find(token, mantissa_end, '.');
    const char *first = std::find_if(token, mantissa_end, [](char c) { return c >= '1' && c <= '9'; });
    if (first == mantissa_end)
        return -1;
    /* No overflow to fear: the number was close to value, so an exponent that is out of range was
     * refused before. */
    long exponent = mantissa_end < end ? std::strtol(mantissa_end + 1, nullptr, 10) : 0;
    exponent += first < point ? point - first - 1 : point - first;
    if (exponent != value_exponent)
        return exponent < value_exponent ? -1 : 1;

    const char *other = digits;
    for (const char *at = first; at < mantissa_end; at++) {
        if (*at == '.')
            continue;
        char expected = *other ? *other++ : '0';
        if (*at != expected)
            return *at < expected ? -1 : 1;
    }
    return std::strspn(other, "0") == std::strlen(other) ? 0 : -1;
}

/* Is a number that from_chars calls out of range too large, rather than too small? */
bool is_large(const char *token, const char *end)
{
    const char *exponent = std::find_if(token, end, [](char c) { return c == 'e' || c == 'E'; });
    return exponent == end || exponent[1] != '-';
}

template <typename Float> bool read_float(const char *begin, const char *end, Float *out)
{
    auto result = std::from_chars(begin, end, *out);
    if (result.ec == std::errc::result_out_of_range) {
        if (is_large(begin, end))
            return false;
        *out = *begin == '-' ? -static_cast<Float>(0) : static_cast<Float>(0);
    }
    return std::isfinite(*out);
}

bool read_narrow(const char *begin, const char *end, td_narrow format, uint16_t *out)
{
    double value;
    if (!read_float(begin, end, &value))
        return false;
    bool middle;
    *out = td_narrow_round(value, format, 0, &middle);
    if (middle) {
        /* As a double it lies exactly between two; as text perhaps not. */
        int side = compare_magnitude(begin, end, value);
        if (side != 0) {
            double toward = side < 0 ? 0 : value * 2;
            *out = td_narrow_round(std::nextafter(value, toward), format, 0, &middle);
        }
    }
    uint32_t infinity = ((1u << format.exponent_bits) - 1) << format.fraction_bits;
    return (*out & 0x7fffu) != infinity;
}

} // namespace

char *td_float64_text(char *at, double value)
{
    return write_float<true>(at, value, plain_float64);
}

char *td_float32_text(char *at, float value)
{
    return write_float<false>(at, value, plain_float32);
}

char *td_float16_text(char *at, uint16_t bits)
{
    return write_narrow(at, bits, td_float16_value(bits), TD_NARROW_FLOAT16);
}

char *td_bfloat16_text(char *at, uint16_t bits)
{
    return write_narrow(at, bits, td_bfloat16_value(bits), TD_NARROW_BFLOAT16);
}

bool td_float64_read(const char *begin, const char *end, double *out)
{
    return read_float(begin, end, out);
}

bool td_float32_read(const char *begin, const char *end, float *out)
{
    return read_float(begin, end, out);
}

bool td_float16_read(const char *begin, const char *end, uint16_t *out)
{
    return read_narrow(begin, end, TD_NARROW_FLOAT16, out);
}

bool td_bfloat16_read(const char *begin, const char *end, uint16_t *out)
{
    return read_narrow(begin, end, TD_NARROW_BFLOAT16, out);
}
