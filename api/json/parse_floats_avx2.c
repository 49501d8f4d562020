#include "api/json/parse_floats.h"

#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define ALWAYS_INLINE inline __attribute__((always_inline))
#define UNLIKELY(x)   __builtin_expect(!!(x), 0)

/* Maximum number of characters of a number, without its sign. 15 digits are exact in double. */
enum { LONGEST = 15 };

/* The numbers of a group. Missing numbers repeat the first one. */
struct group {
    const char *begin[TD_FLOAT_GROUP]; /* first character after the sign */
    size_t length[TD_FLOAT_GROUP];
    unsigned negative; /* bit i is set if number i has a sign */
    size_t n;
    const char *after; /* ',' or ']' after the last number */
};

/* Returns a mask of the first 64 bytes that are not digits, '-', '.' or '/', which have adjacent
 * codes. Bytes after `end` have a 0. */
static ALWAYS_INLINE uint64_t ends_of_numbers(const char *p, const char *end)
{
    uint64_t inside = 0;
    for (int i = 0; i < 2; i++) {
        const __m256i text = _mm256_loadu_si256((const __m256i *)(const void *)(p + i * 32));
        const __m256i code = _mm256_sub_epi8(text, _mm256_set1_epi8('-'));
        const __m256i match =
            _mm256_cmpeq_epi8(_mm256_min_epu8(code, _mm256_set1_epi8('9' - '-')), code);
        inside |= (uint64_t)(uint32_t)_mm256_movemask_epi8(match) << i * 32;
    }
    const size_t left = (size_t)(end - p);
    return ~inside & (left < 64 ? (UINT64_C(1) << left) - 1 : UINT64_MAX);
}

/* Finds the numbers of the next group. Returns false if there is none. */
static ALWAYS_INLINE bool find_group(const char *p, const char *end, struct group *group)
{
    uint64_t ends = ends_of_numbers(p, end);
    const char *begin = p;
    group->n = 0;
    group->negative = 0;
    group->after = NULL;
    for (int i = 0; i < TD_FLOAT_GROUP && ends; i++) {
        const char *after = p + __builtin_ctzll(ends);
        const bool negative = *begin == '-';
        begin += negative;
        const size_t length = (size_t)(after - begin);
        if (UNLIKELY(length - 1 >= LONGEST || (*after != ',' && *after != ']')))
            break;
        group->begin[i] = begin;
        group->length[i] = length;
        group->negative |= (unsigned)negative << i;
        group->n = (size_t)i + 1;
        group->after = after;
        if (*after == ']')
            break;
        ends &= ends - 1;
        begin = after + 1;
        if (*begin == ' ') {
            ends &= ends - 1;
            begin++;
        }
    }
    if (group->n == 0)
        return false;
    for (size_t i = group->n; i < TD_FLOAT_GROUP; i++) {
        group->begin[i] = group->begin[0];
        group->length[i] = group->length[0];
    }
    return true;
}

static ALWAYS_INLINE __m256i load_two(const void *low, const void *high)
{
    return _mm256_loadu2_m128i(high, low);
}

/* True if a number does not begin with a digit, or begins with a 0 before another digit. `text` has
 * two numbers, each at the start of a half. */
static ALWAYS_INLINE bool begins_badly(__m256i text)
{
    enum { FIRST = 0x00010001 }; /* first byte of each half */
    const __m256i code = _mm256_sub_epi8(text, _mm256_set1_epi8('0'));
    const __m256i digit = _mm256_cmpeq_epi8(_mm256_min_epu8(code, _mm256_set1_epi8(9)), code);
    const __m256i zero = _mm256_cmpeq_epi8(code, _mm256_setzero_si256());
    const unsigned digits = (unsigned)_mm256_movemask_epi8(digit);
    const unsigned zeros = (unsigned)_mm256_movemask_epi8(zero);
    return ((~digits | (zeros & digits >> 1)) & FIRST) != 0;
}

/* slide + n: the bytes n - 16, ..., n - 1. */
static const int8_t slide[] = { -16, -15, -14, -13, -12, -11, -10, -9, -8, -7, -6,
                                -5,  -4,  -3,  -2,  -1,  0,   1,   2,  3,  4,  5,
                                6,   7,   8,   9,   10,  11,  12,  13, 14, 15 };

/* Two numbers, one in each half of the registers. */
struct pair {
    /* The upper eight and the lower eight of 16 digits, as two 32-bit integers in the first eight
     * bytes of each half. */
    __m256i digits;
    /* The position of the point in the first eight bytes of each half: POINT plus the number of
     * digits after it, 0 without a point. At least 2 * POINT with several points. */
    __m256i point;
    bool malformed;
};
enum { POINT = 64 };

/* Reads numbers a and b of a group. */
static ALWAYS_INLINE struct pair read_pair(const struct group *group, int a, int b)
{
    const __m256i zero = _mm256_setzero_si256();
    const __m256i from_end = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0));
    /* Moves the text to the end of each half, and zeros before it. */
    const __m256i begin = load_two(group->begin[a], group->begin[b]);
    const __m256i order = load_two(slide + group->length[a], slide + group->length[b]);
    const __m256i text = _mm256_shuffle_epi8(begin, order);
    /* Finds '-' and '/', whose codes differ in one bit. */
    const __m256i other =
        _mm256_cmpeq_epi8(_mm256_or_si256(text, _mm256_set1_epi8(2)), _mm256_set1_epi8('/'));
    const __m256i is_point = _mm256_cmpeq_epi8(text, _mm256_set1_epi8('.'));
    const __m256i sums = _mm256_sad_epu8(
        _mm256_and_si256(is_point, _mm256_add_epi8(from_end, _mm256_set1_epi8(POINT))), zero);
    const __m256i point = _mm256_add_epi64(sums, _mm256_bsrli_epi128(sums, 8));
    /* Removes the point: digits before it move to the next place. Without a point, no digit
     * moves. */
    const __m256i fraction =
        _mm256_xor_si256(_mm256_shuffle_epi8(point, zero), _mm256_set1_epi8(POINT));
    __m256i x = _mm256_subs_epu8(text, _mm256_set1_epi8('0'));
    x = _mm256_blendv_epi8(_mm256_bslli_epi128(x, 1), x, _mm256_cmpgt_epi8(fraction, from_end));
    /* Combines two digits, then four, then eight. */
    x = _mm256_maddubs_epi16(x, _mm256_set1_epi16(0x010a));  /* 10, 1 */
    x = _mm256_madd_epi16(x, _mm256_set1_epi32(0x00010064)); /* 100, 1 */
    x = _mm256_packus_epi32(x, x);
    x = _mm256_madd_epi16(x, _mm256_set1_epi32(0x00012710)); /* 10000, 1 */
    return (struct pair){ x, point, begins_badly(begin) | (_mm256_movemask_epi8(other) != 0) };
}

/* Powers of ten that are exact in double, indexed by the position of a point modulo 2 * POINT. */
static const double power_of_ten[2 * POINT] = {
    [0] = 1, [POINT + 1] = 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13,
    1e14,
};

/* Computes the magnitudes of the numbers of a group. Returns false if a number is not plain. */
static ALWAYS_INLINE bool magnitudes(const struct group *group, __m256d *values)
{
    const struct pair even = read_pair(group, 0, 2), odd = read_pair(group, 1, 3);
    const __m256i x = _mm256_unpacklo_epi64(even.digits, odd.digits);
    const __m256i point = _mm256_unpacklo_epi64(even.point, odd.point);
    /* From high0, low0, high1, low1, high2, ... to high0, high1, high2, high3, low0, ... */
    const __m256i split = _mm256_permutevar8x32_epi32(x, _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7));
    const __m256d high = _mm256_cvtepi32_pd(_mm256_castsi256_si128(split)),
                  low = _mm256_cvtepi32_pd(_mm256_extracti128_si256(split, 1));
    const __m256d digits = _mm256_add_pd(_mm256_mul_pd(high, _mm256_set1_pd(1e8)), low);
    const __m128i first = _mm256_castsi256_si128(point), last = _mm256_extracti128_si256(point, 1);
    const __m256d powers = _mm256_setr_pd(power_of_ten[_mm_extract_epi8(first, 0) % (2 * POINT)],
                                          power_of_ten[_mm_extract_epi8(first, 8) % (2 * POINT)],
                                          power_of_ten[_mm_extract_epi8(last, 0) % (2 * POINT)],
                                          power_of_ten[_mm_extract_epi8(last, 8) % (2 * POINT)]);
    /* A point at the end has the power 0, several points are at least 2 * POINT. Large integers
     * might not be exact in float32, which the caller has to check. */
    const __m256i no_power =
        _mm256_castpd_si256(_mm256_cmp_pd(powers, _mm256_setzero_pd(), _CMP_EQ_OQ));
    const __m256i several = _mm256_cmpgt_epi64(point, _mm256_set1_epi64x(2 * POINT - 1));
    const __m256i large = _mm256_and_si256(
        _mm256_cmpeq_epi64(point, _mm256_setzero_si256()),
        _mm256_castpd_si256(_mm256_cmp_pd(digits, _mm256_set1_pd(1 << 24), _CMP_GT_OQ)));
    const __m256i malformed = _mm256_or_si256(_mm256_or_si256(no_power, several), large);
    *values = _mm256_div_pd(digits, powers);
    return !(even.malformed | odd.malformed | (_mm256_movemask_epi8(malformed) != 0));
}

/* Returns the sign bits of the numbers of a group, for 32-bit elements. */
static ALWAYS_INLINE __m128i signs(const struct group *group)
{
    const __m128i bit = _mm_setr_epi32(1, 2, 4, 8);
    const __m128i set = _mm_and_si128(_mm_set1_epi32((int)group->negative), bit);
    return _mm_slli_epi32(_mm_cmpeq_epi32(set, bit), 31);
}

static ALWAYS_INLINE void store_wide(char *to, const struct group *group, __m256d values)
{
    const __m256i sign = _mm256_slli_epi64(_mm256_cvtepi32_epi64(signs(group)), 32);
    values = _mm256_or_pd(values, _mm256_castsi256_pd(sign));
    memcpy(to, &values, sizeof values);
}

/* Rounds twice, to double and to float32, which gives the same result as rounding once. They can
 * differ only if the quotient d = n / 10^f becomes a midpoint m = k / 2^e between two float32, with
 * k odd and below 2^25, although d is not m. The error of a double is at most 2^(-29 - e).
 *
 * If e < f, m * 10^f is an integer, and n differs from it by at most 10^f * 2^(-29 - e), which is
 * at most 10^14 / 2^53 and thus below 1. So d is m.
 *
 * Otherwise, the distance is j / (5^f * 2^e) for the integer j = n * 2^(e - f) - k * 5^f, so |j| is
 * at most 5^f / 2^29. At most 13 digits follow a point, and only f = 13 allows a j other than 0,
 * with |j| <= 2. Such a number is below 10, hence e > 20, so j is odd and thus 1 or -1. Modulo 4 it
 * follows that k = -j. The even neighbour of m is then on the side of d. */
static ALWAYS_INLINE void store_narrow(char *to, const struct group *group, __m256d values)
{
    const __m128 narrow = _mm_or_ps(_mm256_cvtpd_ps(values), _mm_castsi128_ps(signs(group)));
    memcpy(to, &narrow, sizeof narrow);
}

static ALWAYS_INLINE const char *parse(const char *p, const char *end, char *to, size_t room,
                                       bool wide, size_t *n)
{
    const char *after = NULL;
    size_t count = 0;
    while (p < end && room - count >= TD_FLOAT_GROUP) {
        struct group group;
        __m256d values;
        if (!find_group(p, end, &group) || !magnitudes(&group, &values))
            break;
        if (wide)
            store_wide(to + count * sizeof(double), &group, values);
        else
            store_narrow(to + count * sizeof(float), &group, values);
        count += group.n;
        after = group.after;
        if (*after != ',')
            break;
        p = after + 1;
        p += *p == ' ';
    }
    if (after)
        *n = count;
    return after;
}

const char *td_parse_float64_avx2(const char *p, const char *end, char *to, size_t room, size_t *n)
{
    return parse(p, end, to, room, true, n);
}

const char *td_parse_float32_avx2(const char *p, const char *end, char *to, size_t room, size_t *n)
{
    return parse(p, end, to, room, false, n);
}
