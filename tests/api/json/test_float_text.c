#include "api/json/float_text.h"
#include "kernels/half.h"
#include "tests/api/request.h"
#include "tests/support/random.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The text of one value, without the comma. */
#define TEXT_ROOM (TD_FLOAT64_TEXT + 1 + TD_FLOAT_SLACK)
static void text_of(char *(*list)(char *, const void *, int64_t), const void *value, size_t longest,
                    char *text)
{
    char *end = list(text, value, 1);
    EXPECT(end[-1] == ',', "no comma");
    end[-1] = '\0';
    EXPECT(strlen(text) <= longest, "%s is longer than %zu", text, longest);
}

static const struct {
    const char *case_name;
    double value;
    const char *text;
} doubles[] = {
    { "zero is a float", 0.0, "0.0" },
    { "zero keeps its sign", -0.0, "-0.0" },
    { "a whole number is a float", 3, "3.0" },
    { "a fraction", -0.25, "-0.25" },
    { "digits on both sides", 123.456, "123.456" },
    { "one tenth", 0.1, "0.1" },
    { "the sum that is not 0.3", 0.1 + 0.2, "0.30000000000000004" },
    { "the smallest plain decimal", 0.00001, "0.00001" },
    { "the largest number with a negative exponent", 0.000001, "1e-6" },
    { "digits and an exponent", 1.25e-9, "1.25e-9" },
    { "the largest plain number", 1e15, "1000000000000000.0" },
    { "the smallest number with a positive exponent", 1e16, "1e16" },
    { "16 digits before the point", 1234567890123456, "1234567890123456.0" },
    { "17 digits", 1234567890123456.8, "1234567890123456.8" },
    { "the largest", 1.7976931348623157e308, "1.7976931348623157e308" },
    { "the smallest", 5e-324, "5e-324" },
    { "the smallest normal", 2.2250738585072014e-308, "2.2250738585072014e-308" },
    { "three digits of exponent", 1e100, "1e100" },
    { "2^53", 9007199254740992, "9007199254740992.0" },
    { "NaN is a string", (double)NAN, "\"NaN\"" },
    { "infinity is a string", INFINITY, "\"Infinity\"" },
    { "negative infinity is a string", -INFINITY, "\"-Infinity\"" },
};

TD_TEST_EACH(float64_prints_the_shortest_text, doubles)
{
    char text[TEXT_ROOM];
    text_of(td_float64_list, &doubles[_i].value, TD_FLOAT64_TEXT, text);
    EXPECT(strcmp(text, doubles[_i].text) == 0, "%s: %s", doubles[_i].case_name, text);
}

static const struct {
    const char *case_name;
    float value;
    const char *text;
} floats[] = {
    { "zero keeps its sign", -0.0f, "-0.0" },
    { "the digits are those of float32", 0.1f, "0.1" },
    { "a third", 1.0f / 3, "0.33333334" },
    { "the largest plain number", 123456784.0f, "123456780.0" },
    { "the smallest number with a positive exponent", 1e9f, "1e9" },
    { "the largest", 3.4028235e38f, "3.4028235e38" },
    { "the smallest", 1e-45f, "1e-45" },
    { "leading zeros", 0.000012345678f, "0.000012345678" },
    { "2^24", 16777216, "16777216.0" },
    { "NaN is a string", NAN, "\"NaN\"" },
};

TD_TEST_EACH(float32_prints_the_shortest_text, floats)
{
    char text[TEXT_ROOM];
    text_of(td_float32_list, &floats[_i].value, TD_FLOAT32_TEXT, text);
    EXPECT(strcmp(text, floats[_i].text) == 0, "%s: %s", floats[_i].case_name, text);
}

TD_TEST(each_value_is_followed_by_a_comma)
{
    char text[4 * (TD_FLOAT32_TEXT + 1) + TD_FLOAT_SLACK], bytes[1 + 3 * sizeof(float)];
    const float values[] = { 1, -0.5f, 2e20f };
    memcpy(bytes + 1, values, sizeof values); /* unaligned */
    *td_float32_list(text, bytes + 1, 3) = '\0';
    ck_assert_str_eq(text, "1.0,-0.5,2e20,");
    *td_float32_list(text, bytes + 1, 0) = '\0';
    ck_assert_str_eq(text, "");
}

/* Number of significant digits: from the first to the last that is not zero. */
static int digits_of(const char *text)
{
    int digits = 0, significant = 0;
    for (; *text && *text != 'e'; text++) {
        if (!isdigit((unsigned char)*text) || (digits == 0 && *text == '0'))
            continue;
        digits++;
        if (*text != '0')
            significant = digits;
    }
    return significant;
}

/* Expects a JSON number that is recognizably a float: it has a point or an exponent. */
static void expect_json_float(const char *text)
{
    const char *at = text + (*text == '-');
    EXPECT(isdigit((unsigned char)*at), "%s", text);
    EXPECT(at[0] != '0' || at[1] == '.', "%s", text);
    EXPECT(strpbrk(text, ".e"), "%s", text);
    const char *point = strchr(text, '.');
    EXPECT(!point || isdigit((unsigned char)point[1]), "%s", text);
    EXPECT(text[strspn(text, "0123456789.e-")] == '\0', "%s", text);
}

static double float16_value(uint16_t bits)
{
    return (double)td_float16_value(bits);
}

static double bfloat16_value(uint16_t bits)
{
    return (double)td_bfloat16_value(bits);
}

static const struct narrow_case {
    const char *case_name;
    struct td_narrow format;
    uint16_t infinity;
    double (*value_of)(uint16_t bits);
    char *(*list)(char *, const void *, int64_t);
    bool (*read)(const char *, const char *, uint16_t *);
} narrows[] = {
    { "float16", { 10, 5 }, 0x7c00, float16_value, td_float16_list, td_float16_read },
    { "bfloat16", { 7, 8 }, 0x7f80, bfloat16_value, td_bfloat16_list, td_bfloat16_read },
};

/* Reads a text that is followed by other text, which must not be read. */
static bool read_text(const struct narrow_case *c, const char *text, uint16_t *bits)
{
    char text_and_more[400];
    snprintf(text_and_more, sizeof text_and_more, "%s,999", text);
    return c->read(text_and_more, text_and_more + strlen(text), bits);
}

/* The 16-bit float nearest to x, by searching all of them: ties to even, infinity if x is too
 * large. */
static uint16_t nearest_by_search(const struct narrow_case *c, double x)
{
    unsigned low = 0, high = c->infinity; /* patterns of positive values are in order */
    while (high - low > 1) {
        unsigned middle = (low + high) / 2;
        if (c->value_of((uint16_t)middle) <= x)
            low = middle;
        else
            high = middle;
    }
    double below = c->value_of((uint16_t)low);
    /* The value after the largest one, if there were one more exponent. */
    double above = high == c->infinity ? below + (below - c->value_of((uint16_t)(low - 1)))
                                       : c->value_of((uint16_t)high);
    double middle = below + (above - below) / 2;
    if (x == middle)
        return (uint16_t)(low % 2 == 0 ? low : high);
    return (uint16_t)(x < middle ? low : high);
}

TD_TEST_EACH(every_16_bit_float_reads_back_from_the_shortest_text, narrows)
{
    const struct narrow_case *c = &narrows[_i];
    for (unsigned bits = 0; bits < 65536; bits++) {
        uint16_t value = (uint16_t)bits, again;
        char text[TEXT_ROOM];
        text_of(c->list, &value, TD_FLOAT16_TEXT, text);
        if ((bits & c->infinity) == c->infinity) {
            ck_assert_str_eq(text, bits & (c->infinity ^ 0x7fffu) ? "\"NaN\""
                                   : bits >> 15                   ? "\"-Infinity\""
                                                                  : "\"Infinity\"");
            continue;
        }
        expect_json_float(text);
        EXPECT(read_text(c, text, &again) && again == bits, "%s %04x prints as %s, reads %04x",
               c->case_name, bits, text, again);
        double parsed = strtod(text, NULL);
        EXPECT(nearest_by_search(c, fabs(parsed)) == (bits & 0x7fff), "%s is not %04x", text, bits);
        /* No text with fewer digits reads back to the same value. */
        for (int precision = 0; precision < digits_of(text) - 1; precision++) {
            char shorter[64];
            snprintf(shorter, sizeof shorter, "%.*e", precision, c->value_of(value));
            EXPECT(nearest_by_search(c, fabs(strtod(shorter, NULL))) != (bits & 0x7fff),
                   "%s %04x prints as %s, but %s would do", c->case_name, bits, text, shorter);
        }
    }
}

/* Adds to the last digit of an exact decimal expansion. */
TD_TEST_EACH(sixteen_bit_floats_round_once_from_the_text, narrows)
{
    const struct narrow_case *c = &narrows[_i];
    for (unsigned bits = 0; bits + 1 < c->infinity; bits++) {
        double below = c->value_of((uint16_t)bits), above = c->value_of((uint16_t)(bits + 1));
        double middle = below + (above - below) / 2; /* exact */
        char exact[300], more[320], less[320];
        uint16_t got;
        snprintf(exact, sizeof exact, "%.170f", middle);
        EXPECT(strtod(exact, NULL) == middle, "%s is no exact middle", exact);
        EXPECT(read_text(c, exact, &got) && got == (bits % 2 ? bits + 1 : bits),
               "%s: tie above %04x goes to %04x", c->case_name, bits, got);
        /* Differences that are much smaller than the precision of a double. */
        snprintf(more, sizeof more, "%s1", exact);
        EXPECT(read_text(c, more, &got) && got == bits + 1, "%s: above the tie above %04x: %04x",
               c->case_name, bits, got);
        strcpy(less, exact);
        char *last = less + strlen(less) - 1;
        while (*last == '0' || *last == '.') /* borrow */
            *last = *last == '.' ? '.' : '9', last--;
        --*last;
        EXPECT(read_text(c, less, &got) && got == bits, "%s: below the tie above %04x: %04x",
               c->case_name, bits, got);
    }
}

static const struct {
    const char *case_name;
    const char *text;
    int float16, bfloat16; /* bit pattern; -1: does not fit */
} edges[] = {
    { "the largest float16", "65504", 0x7bff, 0x4780 },
    { "the largest text that rounds to the largest float16", "65519.99", 0x7bff, 0x4780 },
    { "the tie with infinity is too large", "65520", -1, 0x4780 },
    { "the largest bfloat16", "3.3895314e38", -1, 0x7f7f },
    { "beyond bfloat16", "3.4e38", -1, -1 },
    { "beyond double", "1e400", -1, -1 },
    { "beyond double, without exponent", NULL, -1, -1 },
    { "a number below the smallest subnormal", "1e-400", 0, 0 },
    { "a negative number below the smallest subnormal", "-1e-400", 0x8000, 0x8000 },
    { "zero with an exponent", "0e99999999999999999999", 0, 0 },
    { "a huge exponent", "1e99999999999999999999", -1, -1 },
    { "a tiny exponent", "1e-99999999999999999999", 0, 0 },
    { "many digits and a large negative exponent", "100000000000000000000000000e-26", 0x3c00,
      0x3f80 },
    { "E and plus", "1.5E+1", 0x4b80, 0x4170 },
};

TD_TEST_EACH(the_edges_of_the_16_bit_floats, edges)
{
    char digits[420];
    const char *text = edges[_i].text;
    if (!text) {
        memset(digits, '9', sizeof digits - 1);
        digits[400] = '\0';
        text = digits;
    }
    const int want[] = { edges[_i].float16, edges[_i].bfloat16 };
    for (int i = 0; i < 2; i++) {
        char text_and_more[500];
        uint16_t got = 0xdead;
        snprintf(text_and_more, sizeof text_and_more, "%s,999", text);
        bool fits = narrows[i].read(text_and_more, text_and_more + strlen(text), &got);
        EXPECT(fits == (want[i] >= 0), "%s: %s", edges[_i].case_name, narrows[i].case_name);
        if (fits)
            EXPECT(got == want[i], "%s: %s %04x", edges[_i].case_name, narrows[i].case_name, got);
    }
}

TD_TEST(random_float32_reads_back_from_the_shortest_text)
{
    uint64_t seed = 32;
    for (int i = 0; i < 200000 * test_effort(); i++) {
        uint32_t bits = (uint32_t)random_from(&seed);
        float value, again;
        memcpy(&value, &bits, sizeof value);
        if (!isfinite(value))
            continue;
        char text[TEXT_ROOM];
        text_of(td_float32_list, &value, TD_FLOAT32_TEXT, text);
        again = strtof(text, NULL);
        EXPECT(memcmp(&again, &value, sizeof value) == 0, "%a prints as %s", (double)value, text);
        if (i % 20)
            continue;
        expect_json_float(text);
        int precision = 0;
        char shorter[64];
        do
            snprintf(shorter, sizeof shorter, "%.*e", precision++, (double)value);
        while (strtof(shorter, NULL) != value);
        EXPECT(digits_of(text) <= precision, "%s, but %s would do", text, shorter);
    }
}

TD_TEST(random_float64_reads_back_from_the_shortest_text)
{
    uint64_t seed = 64;
    for (int i = 0; i < 100000 * test_effort(); i++) {
        uint64_t bits = random_from(&seed);
        double value, again;
        if (i % 2) /* common exponents */
            bits = (bits & 0x800fffffffffffffu) | ((bits >> 12 & 63) + 991) << 52;
        memcpy(&value, &bits, sizeof value);
        if (!isfinite(value))
            continue;
        char text[TEXT_ROOM];
        text_of(td_float64_list, &value, TD_FLOAT64_TEXT, text);
        again = strtod(text, NULL);
        EXPECT(memcmp(&again, &value, sizeof value) == 0, "%a prints as %s", value, text);
        if (i % 20)
            continue;
        expect_json_float(text);
        int precision = 0;
        char shorter[64];
        do
            snprintf(shorter, sizeof shorter, "%.*e", precision++, value);
        while (strtod(shorter, NULL) != value);
        EXPECT(digits_of(text) <= precision, "%s, but %s would do", text, shorter);
    }
}

/* The lower neighbour of a power of two is nearer than the upper one, which printing must take into
 * account. */
TD_TEST(powers_of_two_and_their_neighbours_read_back)
{
    for (int exponent = -149; exponent < 128; exponent++) {
        float power = ldexpf(1, exponent);
        float values[] = { nextafterf(power, 0), power, nextafterf(power, INFINITY) };
        for (int i = 0; i < 3; i++) {
            char text[TEXT_ROOM];
            text_of(td_float32_list, &values[i], TD_FLOAT32_TEXT, text);
            EXPECT(strtof(text, NULL) == values[i], "%a prints as %s", (double)values[i], text);
        }
    }
    for (int exponent = -1074; exponent < 1024; exponent++) {
        double power = ldexp(1, exponent);
        double values[] = { nextafter(power, 0), power, nextafter(power, INFINITY) };
        for (int i = 0; i < 3; i++) {
            char text[TEXT_ROOM];
            text_of(td_float64_list, &values[i], TD_FLOAT64_TEXT, text);
            EXPECT(strtod(text, NULL) == values[i], "%a prints as %s", values[i], text);
        }
    }
}

TD_TEST(powers_of_ten_print_as_one_digit)
{
    for (int exponent = -45; exponent <= 38; exponent++) {
        char text[TEXT_ROOM], power[16];
        snprintf(power, sizeof power, "1e%d", exponent);
        float value = strtof(power, NULL);
        text_of(td_float32_list, &value, TD_FLOAT32_TEXT, text);
        EXPECT(digits_of(text) == 1, "%s prints as %s", power, text);
        ck_assert(strtof(text, NULL) == value);
    }
}
