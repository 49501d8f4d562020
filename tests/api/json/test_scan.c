#include "api/json/scan.h"
#include "tests/api/peers.h"
#include "tests/api/request.h"
#include "tests/support/random.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <stdlib.h>
#include <string.h>

static struct td_json_scan scan_of(const char *text)
{
    return (struct td_json_scan){ text, text, text + strlen(text) };
}

static const struct {
    const char *text;
    int end; /* -1: not a number */
    bool integer;
} numbers[] = {
    { "0", 1, true },     { "-0", 2, true },        { "10,", 2, true },
    { "-12]", 3, true },  { "0.5", 3, false },      { "1e5", 3, false },
    { "1E+5", 4, false }, { "1.5e-10 ", 7, false }, { "01", -1, false },
    { "-", -1, false },   { "", -1, false },        { ".5", -1, false },
    { "5.", -1, false },  { "5.e1", -1, false },    { "1e", -1, false },
    { "1e+", -1, false }, { "+1", -1, false },      { "-01", -1, false },
    { "0x1", 1, true },   { "1.2.3", 3, false },    { "12345678901234567890123", 23, true },
};

TD_TEST_EACH(numbers_end_where_the_grammar_says, numbers)
{
    bool integer;
    const char *text = numbers[_i].text;
    /* of exact size, so that reads after the end are detected */
    char *copy = malloc(strlen(text) + 1);
    memcpy(copy, text, strlen(text));
    char *exact = realloc(copy, strlen(text) ? strlen(text) : 1);
    const char *end = td_json_number_end(exact, exact + strlen(text), &integer);
    ck_assert_msg((end ? (int)(end - exact) : -1) == numbers[_i].end, "%s", text);
    if (end)
        ck_assert_msg(integer == numbers[_i].integer, "%s", text);
    free(exact);
}

static const struct {
    const char *text;
    bool fits;
    int64_t value;
} integers[] = {
    { "0", true, 0 },
    { "-0", true, 0 },
    { "42", true, 42 },
    { "999999999999999999", true, INT64_C(999999999999999999) },
    { "1000000000000000000", true, INT64_C(1000000000000000000) },
    { "9223372036854775807", true, INT64_MAX },
    { "-9223372036854775808", true, INT64_MIN },
    { "9223372036854775808", false, 0 },
    { "-9223372036854775809", false, 0 },
    { "99999999999999999999999999", false, 0 },
    { "1.0", false, 0 },
    { "1e0", false, 0 },
    { "1E0", false, 0 },
    { "999999999999999999.5", false, 0 },
};

TD_TEST_EACH(integers_that_do_not_fit_int64_are_reported, integers)
{
    struct td_json_scan scan = scan_of(integers[_i].text);
    struct td_error err;
    int64_t value = 0;
    bool fits;
    ck_assert_int_eq(td_json_int64(&scan, &value, &fits, &err), TD_OK);
    ck_assert_msg(fits == integers[_i].fits, "%s", integers[_i].text);
    ck_assert_int_eq(value, integers[_i].value);
    ck_assert(scan.at == (fits ? scan.end : scan.begin));
}

static const struct {
    const char *case_name, *text;
    int size, commas; /* size -1: the text has no end of the value */
} measured[] = {
    { "a number", "12, 3", 2, 0 },
    { "a literal", "true]", 4, 0 },
    { "a number at the end of the text", "12", 2, 0 },
    { "a list", "[1,2,[3,4]],5", 11, 3 },
    { "an object", "{\"a\":1,\"b\":[2,3]}x", 17, 2 },
    { "commas in strings do not count", "[\"a,b\",\",\"],", 11, 1 },
    { "brackets in strings do not count", "[\"]\",\"}\",\"[\"],", 13, 2 },
    { "quotes in strings", "[\"\\\"]\"],", 7, 0 },
    { "a backslash at the end of a string", "[\"\\\\\"],", 6, 0 },
    { "a string", "\"a,]\",", 5, 0 },
    { "an unterminated list", "[1,2", -1, 0 },
    { "an unterminated string", "[\"1,2]", -1, 0 },
    { "a string that ends in a backslash", "\"\\", -1, 0 },
    { "nothing", "", -1, 0 },
};

TD_TEST_EACH(a_value_is_measured_by_its_brackets, measured)
{
    size_t commas, length = strlen(measured[_i].text);
    char *exact = malloc(length ? length : 1);
    memcpy(exact, measured[_i].text, length);
    const char *end = td_json_measure(exact, exact + length, &commas);
    ck_assert_msg((end ? (int)(end - exact) : -1) == measured[_i].size, "%s",
                  measured[_i].case_name);
    if (end)
        ck_assert_msg((int)commas == measured[_i].commas, "%s", measured[_i].case_name);
    free(exact);
}

/* The result with blocks of 64 bytes is the same as counting byte by byte. */
TD_TEST(measuring_in_blocks_finds_the_same)
{
    uint64_t seed = 3;
    for (int i = 0; i < 20000; i++) {
        char text[512];
        size_t size = 1 + random_from(&seed) % (sizeof text - 1);
        int depth = 1, want_end = -1;
        size_t want_commas = 0;
        bool in_string = false, escaped = false;
        bool few_strings = random_from(&seed) % 2, deep = random_from(&seed) % 2;
        text[0] = '[';
        for (size_t k = 1; k < size; k++) {
            uint64_t draw = random_from(&seed);
            static const char common[] = "1234567890,,..--", brackets[] = "[[]]{}";
            text[k] = common[draw % 16];
            if (draw >> 8 & 7 || deep)
                text[k] = draw >> 8 & 3 ? text[k] : brackets[(draw >> 16) % 6];
            if (!few_strings && (draw >> 24) % 16 == 0)
                text[k] = draw >> 32 & 1 ? '"' : '\\';
        }
        for (size_t k = 1; k < size && want_end < 0; k++) {
            char c = text[k];
            if (in_string) {
                if (escaped)
                    escaped = false;
                else if (c == '\\')
                    escaped = true;
                else if (c == '"')
                    in_string = false;
                continue;
            }
            want_commas += c == ',';
            in_string = c == '"';
            depth += c == '[' || c == '{';
            depth -= c == ']' || c == '}';
            if (depth == 0)
                want_end = (int)k + 1;
        }
        size_t commas;
        char *exact = malloc(size);
        EXPECT(exact, "no memory");
        memcpy(exact, text, size);
        const char *end = td_json_measure(exact, exact + size, &commas);
        EXPECT((end ? (int)(end - exact) : -1) == want_end, "text %d ends elsewhere", i);
        EXPECT(!end || commas == want_commas, "text %d has other commas", i);
        free(exact);
    }
}

TD_TEST(a_path_becomes_a_pointer)
{
    struct td_error err = { 0 };
    struct td_json_path params = { .key = "pa~ra/ms", .key_length = 8 };
    struct td_json_path third = { .up = &params, .index = 3 };
    struct td_json_path data = { .up = &third, .key = "data", .key_length = 4 };
    td_json_set_pointer(&data, &err);
    ck_assert_str_eq(err.pointer, "/pa~0ra~1ms/3/data");
    td_json_set_pointer(NULL, &err);
    ck_assert_str_eq(err.pointer, "");
    ck_assert(err.has_pointer);
}

/* Strings of all lengths, with a character that ends the fast loop at every position. */
TD_TEST(strings_end_at_their_quote)
{
    static const char *const samples[] = { "x", "\\\"", "\\\\", "\xc3\xa9", "\xf0\x9f\x98\x80" };
    for (int length = 0; length < 40; length++)
        for (int sample = 0; sample < COUNT_OF(samples); sample++)
            for (int at = 0; at <= length; at++) {
                char text[64], *to = text;
                *to++ = '"';
                memset(to, 'a', (size_t)at);
                to += at;
                to += strlen(strcpy(to, samples[sample]));
                memset(to, 'b', (size_t)(length - at));
                to += length - at;
                *to++ = '"';
                size_t size = (size_t)(to - text);
                char *exact = malloc(size);
                EXPECT(exact, "no memory");
                memcpy(exact, text, size);
                struct td_json_scan scan = { exact, exact, exact + size };
                struct td_json_raw raw;
                struct td_error err;
                EXPECT(td_json_raw_string(&scan, &raw, &err) == TD_OK, "%s", err.message);
                EXPECT(raw.length == size - 2 && scan.at == scan.end, "%.*s", (int)size, text);
                EXPECT(raw.escaped == (samples[sample][0] == '\\'), "%.*s", (int)size, text);
                scan = (struct td_json_scan){ exact, exact, exact + size - 1 };
                EXPECT(td_json_raw_string(&scan, &raw, &err) == TD_MALFORMED_REQUEST, "cut off");
                free(exact);
            }
}

/* The byte after a backslash is checked at every position in the blocks of the fast loop. */
TD_TEST(no_control_character_and_no_utf8_follows_a_backslash)
{
    static const struct {
        const char *text;
        size_t length;
    } samples[] = { { "\\\0", 2 },   { "\\\n", 2 },       { "\\\x1f", 2 },        { "\\\x80", 2 },
                    { "\\\xff", 2 }, { "\\\xc3\xa9", 3 }, { "\\\xed\xa0\x80", 4 } };
    for (int length = 0; length < 40; length++)
        for (int sample = 0; sample < COUNT_OF(samples); sample++)
            for (int at = 0; at <= length; at++) {
                const size_t size = (size_t)length + samples[sample].length + 2;
                char *text = malloc(size);
                EXPECT(text, "no memory");
                memset(text, 'a', size);
                text[0] = text[size - 1] = '"';
                memcpy(text + 1 + at, samples[sample].text, samples[sample].length);
                struct td_json_scan scan = { text, text, text + size };
                struct td_json_raw raw;
                struct td_error err;
                EXPECT(td_json_raw_string(&scan, &raw, &err) == TD_MALFORMED_REQUEST,
                       "sample %d at %d of %d is accepted", sample, at, length);
                EXPECT(err.offset == 1 + at, "sample %d at %d of %d: %s", sample, at, length,
                       err.message);
                free(text);
            }
}

/* ---- comparison with simdjson ---- */

/* Text that tensord rejects as a syntax error is rejected by simdjson, too, and tensord accepts
 * nothing that simdjson rejects. */
static void expect_agreement(const char *body, size_t size)
{
    struct decoded decoded;
    decode_json(&decoded, td_op_named("gather", 6), body, size, NULL);
    int peer = peer_reads_json(body, size);
    bool syntax = decoded.status == TD_MALFORMED_REQUEST && !decoded.err.has_pointer &&
                  decoded.err.offset >= 0;
    EXPECT(peer != 0 || decoded.status != TD_OK, "accepted, but it is not JSON: %.*s", (int)size,
           body);
    EXPECT(peer != 1 || !syntax, "it is JSON, but: %s: %.*s", decoded.err.message, (int)size, body);
    td_arena_reset(&test_arena);
}

static const char *const documents[] = {
    "{\"params\":[[1.5,-2e3,3],[4,5.25,6E-2]],\"indices\":[1,0,1],\"axis\":1,\"bounds\":\"clip\"}",
    "{ \"params\" : [ [ \"a\\u00e9\" , \"\\ud83d\\ude00\" ] ] , \"indices\" : 0 }",
    "{\"params\":[\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\",\"\\n\\t\\\\\\\"\"],\"indices\":[0]}",
    "{\"params\":{\"data\":[true,false,true],\"dtype\":\"bool\"},\"indices\":[0],\"axis\":-0}",
    "{\"params\":{\"dtype\":\"complex64\",\"data\":[[1,2],[3,\"NaN\"]]},\"indices\":[0]}",
    "[]",
};

TD_TEST_EACH(mutated_documents_are_judged_as_by_simdjson, documents)
{
    uint64_t seed = 1000 + (uint64_t)_i;
    size_t size = strlen(documents[_i]);
    for (int i = 0; i < 50000; i++) {
        char body[512];
        memcpy(body, documents[_i], size);
        size_t mutated = mutate(body, size, sizeof body, &seed);
        expect_agreement(body, mutated);
    }
}

/* Every byte at every position at which the grammar may change. */
TD_TEST_EACH(every_byte_at_every_position_is_judged_as_by_simdjson, documents)
{
    for (size_t at = 0; at < strlen(documents[_i]); at++)
        for (int byte = 0; byte < 256; byte++) {
            char body[256];
            size_t size = strlen(documents[_i]);
            memcpy(body, documents[_i], size);
            body[at] = (char)byte;
            expect_agreement(body, size);
        }
}

/* An ignored value is JSON if simdjson reads it. */
TD_TEST_EACH(an_ignored_value_is_judged_as_by_simdjson, documents)
{
    uint64_t seed = 2000 + (uint64_t)_i;
    const size_t size = strlen(documents[_i]);
    for (int i = 0; i < 20000; i++) {
        char body[512];
        struct td_error err;
        memcpy(body, documents[_i], size);
        const size_t mutated = i > 0 ? mutate(body, size, sizeof body, &seed) : size;
        struct td_json_scan scan = { body, body, body + mutated };
        td_status status = td_json_ignore(&scan, &test_arena, &err);
        if (status == TD_OK)
            (void)td_json_peek(&scan);
        const bool accepted = status == TD_OK && scan.at == scan.end;
        const int peer = peer_reads_json(body, mutated);
        EXPECT(peer < 0 || accepted == (peer == 1), "simdjson says %d: %.*s", peer, (int)mutated,
               body);
        td_arena_reset(&test_arena);
    }
}

TD_TEST(an_ignored_value_has_at_most_64_levels)
{
    for (int levels = 64; levels <= 65; levels++) {
        char text[512] = "";
        struct td_error err;
        for (int i = 0; i < levels; i++)
            strcat(text, i % 2 ? "{\"a\":" : "[");
        strcat(text, "1");
        for (int i = levels; i-- > 0;)
            strcat(text, i % 2 ? "}" : "]");
        struct td_json_scan scan = { text, text, text + strlen(text) };
        const td_status status = td_json_ignore(&scan, &test_arena, &err);
        ck_assert_int_eq(status, levels == 64 ? TD_OK : TD_MALFORMED_REQUEST);
        if (status == TD_OK)
            ck_assert_ptr_eq(scan.at, scan.end);
        else
            EXPECT_MESSAGE(&err, "expected at most 64 levels");
    }
}

static const struct {
    const char *case_name, *text;
    td_status status;
    bool more;
    int at; /* scan.at afterwards, or the offset of the error */
} opened[] = {
    { "an element follows", " [ 1]", TD_OK, true, 3 },
    { "an empty list", "[ ] ,", TD_OK, false, 3 },
    { "the text ends after the bracket", "[", TD_OK, true, 1 },
    { "another bracket", " {}", TD_MALFORMED_REQUEST, false, 1 },
    { "the text is empty", "", TD_MALFORMED_REQUEST, false, 0 },
};

TD_TEST_EACH(opening_reports_whether_a_value_is_empty, opened)
{
    const char *text = opened[_i].text;
    struct td_json_scan scan = { text, text, text + strlen(text) };
    struct td_error opening;
    bool more;
    ck_assert_msg(td_json_open(&scan, '[', ']', &more, &opening) == opened[_i].status, "%s",
                  opened[_i].case_name);
    ck_assert_msg(more == opened[_i].more, "%s", opened[_i].case_name);
    ck_assert_msg((opened[_i].status == TD_OK ? scan.at - text : opening.offset) == opened[_i].at,
                  "%s", opened[_i].case_name);
}
