#include "api/json/float_text.h"

#include "kernels/half.h"

#include <dragonbox/dragonbox.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <type_traits>

namespace
{

/* ---- printing ---- */

constexpr int max_digits = 17; /* of float64 */

/* Maximum number of digits before the decimal point in numbers printed without an exponent. For
 * larger numbers, the exponent is shorter, and padding zeros would look like digits of the
 * value. */
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

/* Returns the number of decimal digits of x > 0. */
inline int count_digits(uint64_t x)
{
    int guess = ((64 - __builtin_clzll(x)) * 1233) >> 12; /* log10 of 2 is close to 1233 / 4096 */
    return guess + (x >= power_of_ten[guess]);
}

/* Returns the number of decimal digits of x, 0 < x < 10^9. A number of b bits has d digits, or d +
 * 1 digits if it is at least a certain power of ten. The table entry is 2^32 * (d + 1) minus that
 * power, so adding x carries into the upper half exactly if x is at least that power. */
inline int count_digits(uint32_t x)
{
    static constexpr auto table = [] {
        std::array<uint64_t, 32> entries{};
        for (unsigned bits = 0; bits < 32; bits++) {
            unsigned digits = 1;
            while (digits < 10 && power_of_ten[digits] <= uint64_t{ 1 } << bits)
                digits++;
            uint64_t next = power_of_ten[digits];
            bool crosses = next < uint64_t{ 2 } << bits;
            entries[bits] =
                crosses ? ((uint64_t{ digits } + 1) << 32) - next : uint64_t{ digits } << 32;
        }
        return entries;
    }();
    return static_cast<int>((x + table[31u ^ static_cast<unsigned>(__builtin_clz(x))]) >> 32);
}

/* Returns the eight digits of x < 10^8 as bytes 0 to 9, with the first digit in the lowest byte.
 * Splits x into halves, pairs and single digits, in all lanes at once. In these ranges,
 * multiplication can replace division by 100 and 10 exactly. */
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
constexpr uint64_t zero_and_point = 0x3030303030302e30; /* 0.000000 */

/* Returns the number of digits up to and including the last nonzero digit. */
inline int significant(uint64_t digits)
{
    return digits ? static_cast<int>(8 - (static_cast<unsigned>(__builtin_clzll(digits)) >> 3)) : 0;
}

/* The digits of a number as bytes 0 to 9: the first digit, and the other digits as little-endian
 * bytes of `rest`, followed by zeros. `significant` is the number of digits. The digits stay in
 * registers, because loading text just written with narrower stores would have to wait for those
 * stores. */
template <bool wide> struct spread_digits {
    using rest_type = std::conditional_t<wide, unsigned __int128, uint64_t>;
    static constexpr int count = wide ? max_digits : 9;
    unsigned first;
    int significant;
    rest_type rest;
};

template <bool wide, typename Digits> inline spread_digits<wide> spread(Digits x, int n)
{
    spread_digits<wide> digits;
    constexpr Digits first_weight = power_of_ten[digits.count - 1];
    x *= static_cast<Digits>(power_of_ten[digits.count - n]);
    digits.first = static_cast<unsigned>(x / first_weight);
    x %= first_weight;
    if constexpr (wide) {
        uint64_t high = eight_digits(static_cast<uint32_t>(x / power_of_ten[8]));
        uint64_t low = eight_digits(static_cast<uint32_t>(x % power_of_ten[8]));
        digits.rest = high | static_cast<unsigned __int128>(low) << 64;
        digits.significant = low ? 9 + significant(low) : 1 + significant(high);
    } else {
        digits.rest = eight_digits(x);
        digits.significant = 1 + significant(digits.rest);
    }
    return digits;
}

inline void put_rest(char *at, uint64_t rest)
{
    put(at, rest | eight_zeros);
}

inline void put_rest(char *at, unsigned __int128 rest)
{
    put(at, static_cast<uint64_t>(rest) | eight_zeros);
    put(at + 8, static_cast<uint64_t>(rest >> 64) | eight_zeros);
}

/* Writes digits * 10^exponent. `digits` is positive, and below 10^9 unless `wide` is true. All
 * stores have constant sizes, so bytes after the text are also overwritten. */
template <bool wide, typename Digits>
inline char *write_decimal(char *at, Digits digits, int exponent, int plain_below)
{
    int n = count_digits(digits);
    int point = n + exponent; /* number of digits before the decimal point */
    auto spread_out = spread<wide>(digits, n);
    int used = spread_out.significant;
    char first = static_cast<char>('0' + spread_out.first);
    if (point <= 0 && point > -5) {
        put(at, zero_and_point);
        at += 2 - point;
        *at = first;
        put_rest(at + 1, spread_out.rest);
        return at + used;
    }
    if (point > 0 && point <= plain_below) {
        *at = first;
        put_rest(at + 1, spread_out.rest);
        at += point;
        *at = '.';
        /* Writes the digits after the point. The shift takes two steps, because it can be as wide
         * as the type. */
        put_rest(at + 1, spread_out.rest >> 4 * (point - 1) >> 4 * (point - 1));
        return at + 1 + std::max(used - point, 1);
    }
    at[0] = first;
    at[1] = '.';
    put_rest(at + 2, spread_out.rest);
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

char *write_name(char *at, bool nan, bool negative)
{
    const char *name = nan ? "\"NaN\"" : negative ? "\"-Infinity\"" : "\"Infinity\"";
    return static_cast<char *>(mempcpy(at, name, std::strlen(name)));
}

template <bool wide, typename Float>
inline char *write_float(char *at, Float value, int plain_below)
{
    if (__builtin_expect(!std::isfinite(value), 0))
        return write_name(at, std::isnan(value), value < 0);
    *at = '-';
    at += std::signbit(value);
    if (value == 0) {
        put(at, zero_and_point);
        return at + 3; /* 0.0 */
    }
    namespace policy = jkj::dragonbox::policy;
    auto decimal =
        jkj::dragonbox::to_decimal(value, policy::sign::ignore, policy::trailing_zero::ignore);
    return write_decimal<wide>(at, decimal.significand, decimal.exponent, plain_below);
}

/* Returns 2^exponent, for exponents of normal doubles. */
inline double power_of_two(int exponent)
{
    uint64_t bits = static_cast<uint64_t>(exponent + 1023) << 52;
    double value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

/* Powers of ten that scale any bfloat16 to five digits. */
constexpr auto scale_by_ten = [] {
    std::array<double, 48> powers{};
    powers[0] = 1;
    for (size_t i = 1; i < powers.size(); i++)
        powers[i] = powers[i - 1] * 10;
    return powers;
}();

/* Writes the shortest decimal that reads back as the same 16-bit float. Five digits always suffice,
 * and float16 can need all five. The candidates are therefore the five-digit integers between the
 * midpoints to both neighbours. The last digit is dropped as long as shorter candidates exist. */
char *write_narrow(char *at, uint16_t bits, double value, td_narrow format)
{
    if (!std::isfinite(value))
        return write_name(at, std::isnan(value), value < 0);
    *at = '-';
    at += bits >> 15;
    unsigned magnitude = bits & 0x7fffu;
    if (magnitude == 0) {
        put(at, zero_and_point);
        return at + 3; /* 0.0 */
    }
    value = std::abs(value);
    int fraction_bits = format.fraction_bits;
    unsigned fraction = magnitude & ((1u << fraction_bits) - 1);
    int stored = static_cast<int>(magnitude >> fraction_bits);
    int bias = (1 << (format.exponent_bits - 1)) - 1;
    double spacing = power_of_two(std::max(stored, 1) - bias - fraction_bits);
    bool narrower_below = fraction == 0 && stored > 1;
    double low = value - spacing / (narrower_below ? 4 : 2), high = value + spacing / 2;
    bool inclusive = fraction % 2 == 0; /* a midpoint rounds to the even neighbour */

    /* Scales the value to five digits before the point. */
    auto decimal = jkj::dragonbox::to_decimal(static_cast<float>(value));
    int exponent = count_digits(decimal.significand) + decimal.exponent - 5;
    double scale = scale_by_ten[static_cast<size_t>(std::abs(exponent))];
    auto scaled = [&](double x) { return exponent > 0 ? x / scale : x * scale; };
    double least = scaled(low), most = scaled(high), twice = scaled(value) * 2, divisor = 1;
    auto first = static_cast<uint32_t>(least), last = static_cast<uint32_t>(most);
    first += first < least || (first == least && !inclusive);
    last -= last == most && !inclusive;
    for (; (first + 9) / 10 <= last / 10; exponent++) {
        first = (first + 9) / 10;
        last /= 10;
        divisor *= 10;
    }
    uint32_t nearest = (static_cast<uint32_t>(twice / divisor) + 1) / 2;
    uint32_t digits = std::clamp(nearest, first, last);
    return write_decimal<false>(at, digits, exponent, plain_float32);
}

char *write_narrow_list(char *at, const void *values, int64_t n, float (*value_of)(uint16_t),
                        td_narrow format)
{
    for (int64_t i = 0; i < n; i++) {
        uint16_t bits;
        std::memcpy(&bits, static_cast<const char *>(values) + i * 2, sizeof bits);
        at = write_narrow(at, bits, value_of(bits), format);
        *at++ = ',';
    }
    return at;
}

template <bool wide, typename Float>
char *write_list(char *at, const void *values, int64_t n, int plain_below)
{
    const char *from = static_cast<const char *>(values),
               *end = from + n * static_cast<int64_t>(sizeof(Float));
    for (; from < end; from += sizeof(Float)) {
        Float value;
        std::memcpy(&value, from, sizeof value);
        at = write_float<wide>(at, value, plain_below);
        *at++ = ',';
    }
    return at;
}

/* ---- reading ---- */

/* The significant digits of a number token, and the decimal exponent of the first digit. */
struct significand {
    const char *first, *end; /* equal if the number is zero */
    int64_t exponent;
};

significand significand_of(const char *token, const char *end)
{
    constexpr int64_t exponent_limit =
        1000000000000; /* more than the number of digits in any body */
    auto is_exponent = [](char c) { return c == 'e' || c == 'E'; };
    auto counts = [](char c) { return c >= '1' && c <= '9'; };
    const char *mantissa_end = std::find_if(token, end, is_exponent);
    const char *point = std::find(token, mantissa_end, '.');
    const char *first = std::find_if(token, mantissa_end, counts);
    int64_t exponent = 0;
    if (mantissa_end < end) {
        const char *at = mantissa_end + 1;
        bool negative = *at == '-';
        for (at += *at == '-' || *at == '+'; at < end; at++)
            exponent = exponent < exponent_limit ? exponent * 10 + (*at - '0') : exponent;
        exponent = negative ? -exponent : exponent;
    }
    exponent += first < point ? point - first - 1 : point - first;
    return { first, mantissa_end, exponent };
}

/* Returns the sign of |token| - |value|, computed exactly. `value` is finite and not zero. Its
 * decimal expansion has at most 160 digits, which is enough for a midpoint between two 16-bit
 * floats. */
int compare_magnitude(const char *token, const char *end, double value)
{
    char digits[192]; /* d.ddd...e+xx */
    std::snprintf(digits, sizeof digits, "%.160e", std::abs(value));
    char *exponent_mark = std::strchr(digits, 'e');
    int64_t value_exponent = std::strtol(exponent_mark + 1, nullptr, 10);
    *exponent_mark = '\0';

    significand number = significand_of(token, end);
    if (number.exponent != value_exponent)
        return number.exponent < value_exponent ? -1 : 1;
    const char *expected = digits;
    for (const char *at = number.first; at < number.end; at++) {
        if (*at == '.')
            continue;
        char c = *expected ? *expected : '0';
        if (*at != c)
            return *at < c ? -1 : 1;
        if (*expected)
            expected += expected[1] == '.' ? 2 : 1;
    }
    return std::strspn(expected, "0") == std::strlen(expected) ? 0 : -1;
}

template <typename Float> bool read_float(const char *begin, const char *end, Float *out)
{
    auto result = std::from_chars(begin, end, *out);
    if (result.ec == std::errc::result_out_of_range) {
        if (significand_of(begin, end).exponent > 0)
            return false; /* too large; otherwise too small */
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
        /* `value` as a double is a midpoint, and the exact decimal value can be above or below
         * it. */
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

char *td_float64_list(char *at, const void *values, int64_t n)
{
    return write_list<true, double>(at, values, n, plain_float64);
}

char *td_float32_list(char *at, const void *values, int64_t n)
{
    return write_list<false, float>(at, values, n, plain_float32);
}

char *td_float16_list(char *at, const void *values, int64_t n)
{
    return write_narrow_list(at, values, n, td_float16_value, TD_NARROW_FLOAT16);
}

char *td_bfloat16_list(char *at, const void *values, int64_t n)
{
    return write_narrow_list(at, values, n, td_bfloat16_value, TD_NARROW_BFLOAT16);
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
