/* fuzz_floats.c - lists of floats, which are parsed in groups.
 *
 * Input    A byte: bit 0 selects float32 or float64, the other bits limit the room; the list
 *          without its '['. */
#include "api/json/parse_floats.h"
#include "api/json/parse_scalars.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

/* Requires a number in JSON without an exponent, as parse_floats.h describes it. */
static void expect_plain(const char *text, size_t length)
{
    const char *at = text + (*text == '-'), *whole = at;
    REQUIRE(text + length - at <= 15, "%.*s is long", (int)length, text);
    at += strspn(at, "0123456789");
    REQUIRE(at > whole && (*whole != '0' || at == whole + 1), "%.*s", (int)length, text);
    if (*at == '.') {
        const size_t digits = strspn(++at, "0123456789");
        REQUIRE(digits > 0, "%.*s has no digits after the point", (int)length, text);
        at += digits;
    }
    REQUIRE(at == text + length, "%.*s is not a number", (int)length, text);
}

/* Requires that element `i` has the bits of the C library's number. */
static void expect_element(const char *elements, size_t i, bool wide, const char *text)
{
    const double exact = strtod(text, NULL);
    const float narrow = strtof(text, NULL);
    const size_t size = wide ? sizeof exact : sizeof narrow;
    REQUIRE(memcmp(elements + i * size, wide ? (const void *)&exact : &narrow, size) == 0,
            "element %zu of %.40s", i, text);
}

/* Requires that the text before `after` has n plain numbers, with at most a space after each comma.
 */
static void expect_list(const char *text, const char *after, const char *elements, size_t n,
                        bool wide)
{
    for (size_t i = 0; i < n; i++) {
        const size_t length = strcspn(text, ",]");
        expect_plain(text, length);
        expect_element(elements, i, wide, text);
        text += length;
        REQUIRE((i == n - 1) == (text == after), "%zu elements of %zu", i + 1, n);
        text += i < n - 1 ? 1 + (text[1] == ' ') : 0;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t choice = fuzz_byte(&data, &size);
    const bool wide = choice & 1;
    td_parse_floats_fn *parse =
        td_parse_floats_of(wide ? TD_DTYPE_FLOAT64 : TD_DTYPE_FLOAT32, TD_ISA_AUTO);
    if (!parse || size == 0)
        return 0;
    const size_t room = TD_FLOAT_GROUP + choice / 2;
    char *text = fuzz_copy(data, size, TD_JSON_SCALARS_SLACK + 1), *end = text + size;
    char *elements = malloc(room * (wide ? sizeof(double) : sizeof(float)));
    size_t n = SIZE_MAX;
    REQUIRE(elements, "no memory");
    end[TD_JSON_SCALARS_SLACK] = '\0';
    const char *after = parse(text, end, elements, room, &n);
    if (after) {
        REQUIRE(after < end && (*after == ',' || *after == ']'), "the position");
        REQUIRE(n > 0 && n <= room, "%zu elements", n);
        expect_list(text, after, elements, n, wide);
    } else {
        REQUIRE(n == SIZE_MAX, "%zu elements without a position", n);
    }
    free(elements);
    free(text);
    return 0;
}
