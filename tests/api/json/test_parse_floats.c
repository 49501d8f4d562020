#include "api/json/parse_scalars.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"
#include "tests/support/suite.h"

#include <stdio.h>
#include <string.h>

/* Result of a parser: its elements, and where and why it stopped. */
struct parsed {
    double elements[80]; /* or twice as many float32 */
    size_t bytes;
    ptrdiff_t stopped;
    enum td_scalar_fault fault;
};

/* Parses a list without its '[', in groups or one by one, into memory for `room` elements. */
static struct parsed parse(const char *text, size_t size, td_dtype dtype,
                           enum td_scalar_style style, size_t room, bool in_groups)
{
    struct parsed parsed = { .bytes = 0 };
    char *to = (char *)parsed.elements;
    struct td_json_scan scan = { text, text, text + size };
    struct td_error err;
    struct td_scalar_parser parser = {
        .end = scan.end,
        .next = to,
        .limit = to + room * td_dtype_info(dtype)->size,
        .scan = &scan,
        .err = &err,
        .group = in_groups ? td_parse_floats_of(dtype, TD_ISA_AUTO) : NULL,
    };
    parsed.stopped = td_parse_scalars_of(dtype, style)(&parser, text) - text;
    parsed.fault = parser.fault;
    parsed.bytes = (size_t)(parser.next - to);
    return parsed;
}

static void expect_same(const char *text, size_t size, size_t room)
{
    static const struct {
        td_dtype dtype;
        enum td_scalar_style style;
    } parsers[] = { { TD_DTYPE_FLOAT32, TD_SCALARS_INFERRED },
                    { TD_DTYPE_FLOAT32, TD_SCALARS_TYPED },
                    { TD_DTYPE_FLOAT64, TD_SCALARS_TYPED },
                    { TD_DTYPE_FLOAT32, TD_SCALARS_OIP },
                    { TD_DTYPE_FLOAT64, TD_SCALARS_OIP } };
    for (int i = 0; i < COUNT_OF(parsers); i++) {
        const struct parsed single =
                                parse(text, size, parsers[i].dtype, parsers[i].style, room, false),
                            groups =
                                parse(text, size, parsers[i].dtype, parsers[i].style, room, true);
        EXPECT(single.stopped == groups.stopped, "%.*s: parser %d stops at %td, not %td", (int)size,
               text, i, groups.stopped, single.stopped);
        EXPECT(single.fault == groups.fault, "%.*s: parser %d has fault %d, not %d", (int)size,
               text, i, (int)groups.fault, (int)single.fault);
        EXPECT(single.bytes == groups.bytes, "%.*s: parser %d has %zu bytes, not %zu", (int)size,
               text, i, groups.bytes, single.bytes);
        EXPECT(memcmp(single.elements, groups.elements, single.bytes) == 0,
               "%.*s: parser %d has other elements", (int)size, text, i);
    }
}

/* A text with readable bytes after its end, as bodies have. Numbers there must not be read. */
struct text {
    char bytes[2048];
    size_t size;
};

static void expect_same_text(struct text *text, size_t room)
{
    for (size_t i = 0; i < TD_JSON_SCALARS_SLACK; i++)
        text->bytes[text->size + i] = "1,"[i % 2];
    expect_same(text->bytes, text->size, room);
    for (size_t i = 0; i < TD_JSON_SCALARS_SLACK; i++)
        text->bytes[text->size + i] = ",1"[i % 2];
    expect_same(text->bytes, text->size, room);
}

static void add(struct text *text, const char *token)
{
    text->size +=
        (size_t)snprintf(text->bytes + text->size, sizeof text->bytes - text->size, "%s", token);
}

static const char *random_token(uint64_t *seed, char token[64])
{
    const char *sign = random_from(seed) % 3 ? "" : "-";
    const unsigned long long digits = random_from(seed) >> random_from(seed) % 64;
    const int places = (int)(random_from(seed) % 18);
    switch (random_from(seed) % 8) {
    case 0:
        snprintf(token, 64, "%s%llu", sign, digits % 100000);
        break;
    case 1:
        snprintf(token, 64, "%s%llu", sign, digits);
        break;
    case 2:
        snprintf(token, 64, "%s%.*e", sign, places, (double)digits / 1e6);
        break;
    case 3:
        snprintf(token, 64, "%s0.%0*llu", sign, places + 1, digits % 1000);
        break;
    default:
        snprintf(token, 64, "%s%llu.%0*llu", sign, digits % 1000, places % 9 + 1,
                 (unsigned long long)random_from(seed) % 100);
        break;
    }
    return token;
}

static void random_list(uint64_t *seed, struct text *text)
{
    static const char *const commas[] = { ",", ",", ",", ", ", ",  ", " ,", ",\n" };
    char token[64];
    const size_t n_commas = sizeof commas / sizeof *commas, uniform = random_from(seed) % 4;
    text->size = 0;
    for (size_t n = random_from(seed) % 20 + 1; n > 0; n--) {
        add(text, random_token(seed, token));
        const size_t which = uniform ? uniform - 1 : random_from(seed) % n_commas;
        add(text, n > 1 ? commas[which] : random_from(seed) % 4 ? "]" : " ],[1.5]");
    }
}

TD_TEST_LOOP(groups_give_the_same_elements_as_single_numbers, 0, 20)
{
    uint64_t seed = 1000 + (uint64_t)_i;
    struct text text;
    for (int i = 0; i < 2000; i++) {
        random_list(&seed, &text);
        expect_same_text(&text, 40);
        expect_same_text(&text, random_from(&seed) % 12 + 1);
    }
}

TD_TEST_LOOP(groups_refuse_what_single_numbers_refuse, 0, 20)
{
    static const char bytes[] = "0123456789-+./eE,] \t\n[\"xN";
    uint64_t seed = 7 + (uint64_t)_i;
    struct text text;
    for (int i = 0; i < 2000; i++) {
        random_list(&seed, &text);
        for (size_t changes = random_from(&seed) % 3 + 1; changes > 0; changes--)
            text.bytes[random_from(&seed) % text.size] =
                bytes[random_from(&seed) % (sizeof bytes - 1)];
        if (random_from(&seed) % 4 == 0)
            text.size = random_from(&seed) % text.size + 1;
        expect_same_text(&text, 40);
    }
}

/* Each text in each place of a group, and in the group after it. */
static const struct {
    const char *case_name, *token;
} tokens[] = {
    { "a leading zero", "01.5" },
    { "zeros", "00" },
    { "no digit before the point", ".5" },
    { "no digit after the point", "5." },
    { "a point alone", "." },
    { "two points", "1.2.3" },
    { "two signs", "--1.5" },
    { "a sign alone", "-" },
    { "a sign inside", "1-2.5" },
    { "a plus sign", "+1.5" },
    { "a slash", "1/2" },
    { "an exponent", "1.5e3" },
    { "a negative zero", "-0.0" },
    { "an integer that is negative zero", "-0" },
    { "the largest integer that is exact in float32", "16777216" },
    { "an integer that is not exact in float32", "16777217" },
    { "an integer that is not exact in float32, with a point", "16777217.0" },
    { "15 characters", "1.2345678901234" },
    { "16 characters", "1.23456789012345" },
    { "15 digits", "123456789012345" },
    { "16 digits", "1234567890123456" },
    { "a sign and 15 characters", "-1.2345678901234" },
    { "halfway between two float32", "16777217.5" },
    { "close to halfway between two float32", "1.00000005960464" },
    { "the double is halfway, the number slightly above", "0.1250004991889" },
    { "the double is halfway, the number slightly below", "0.1251215711236" },
    { "a zero with many digits", "0.0000000000000" },
    { "the smallest fraction", "0.0000000000001" },
    { "nothing", "" },
    { "a space before the comma", "1.5 " },
    { "two spaces before the number", "  1.5" },
    { "a list", "[1.5]" },
    { "a string", "\"NaN\"" },
};

TD_TEST_EACH(every_place_in_a_group_reads_the_same, tokens)
{
    for (int place = 0; place < 8; place++)
        for (int n = place + 1; n <= 9; n++) {
            struct text text = { .size = 0 };
            for (int i = 0; i < n; i++) {
                add(&text, i == place ? tokens[_i].token : "-2.25");
                add(&text, i + 1 < n ? "," : "]");
            }
            expect_same_text(&text, 40);
            text.size--; /* without the end of the list */
            expect_same_text(&text, 40);
        }
}
