#include "api/files/range.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <stdio.h>
#include <string.h>

static struct td_error err;
static struct td_reply reply;
static struct td_chunk many[6];

/* The letters a to z in several chunks, one of them empty. */
static void letters(void)
{
    static const char text[] = "abcdefghijklmnopqrstuvwxyz";
    static const size_t ends[] = { 5, 6, 6, 20, 26 };
    size_t at = 0;
    memset(&reply, 0, sizeof reply);
    reply.http_status = 200;
    reply.content_type = "text/plain";
    reply.chunks = many;
    for (int i = 0; i < COUNT_OF(ends); i++) {
        many[reply.n_chunks++] = (struct td_chunk){ text + at, ends[i] - at };
        at = ends[i];
    }
}

static const char *header(const char *name)
{
    for (int i = 0; i < reply.n_headers; i++)
        if (strcmp(reply.headers[i].name, name) == 0)
            return reply.headers[i].value;
    return NULL;
}

static const char *body(void)
{
    static char text[64];
    size_t size = 0;
    for (int i = 0; i < reply.n_chunks; i++) {
        memcpy(text + size, reply.chunks[i].data, reply.chunks[i].size);
        size += reply.chunks[i].size;
    }
    text[size] = '\0';
    return text;
}

static const struct {
    const char *range, *content_range, *body;
} parts[] = {
    { "bytes=0-0", "bytes 0-0/26", "a" },
    { "bytes=5-9", "bytes 5-9/26", "fghij" },
    { "bytes=4-6", "bytes 4-6/26", "efg" },
    { "bytes=0-25", "bytes 0-25/26", "abcdefghijklmnopqrstuvwxyz" },
    { "bytes=0-", "bytes 0-25/26", "abcdefghijklmnopqrstuvwxyz" },
    { "bytes=20-", "bytes 20-25/26", "uvwxyz" },
    { "bytes=25-", "bytes 25-25/26", "z" },
    { "bytes=25-26", "bytes 25-25/26", "z" },
    { "bytes=24-18446744073709551615", "bytes 24-25/26", "yz" },
    { "bytes=24-18446744073709551616", "bytes 24-25/26", "yz" },
    { "bytes=24-99999999999999999999999999999", "bytes 24-25/26", "yz" },
    { "bytes=-1", "bytes 25-25/26", "z" },
    { "bytes=-3", "bytes 23-25/26", "xyz" },
    { "bytes=-26", "bytes 0-25/26", "abcdefghijklmnopqrstuvwxyz" },
    { "bytes=-27", "bytes 0-25/26", "abcdefghijklmnopqrstuvwxyz" },
    { "bytes=-99999999999999999999999999999", "bytes 0-25/26", "abcdefghijklmnopqrstuvwxyz" },
    { "bytes=0000000000000000000000000000003-4", "bytes 3-4/26", "de" },
    { "Bytes=1-2", "bytes 1-2/26", "bc" },
    { " bytes= 1-2 ", "bytes 1-2/26", "bc" },
    { "bytes=,1-2 ,", "bytes 1-2/26", "bc" },
};

TD_TEST_EACH(one_range_is_extracted, parts)
{
    letters();
    ck_assert_int_eq(td_range_apply(parts[_i].range, &reply, &test_arena, &err), TD_OK);
    ck_assert_int_eq(reply.http_status, 206);
    ck_assert_str_eq(header("Accept-Ranges"), "bytes");
    ck_assert_str_eq(header("Content-Range"), parts[_i].content_range);
    ck_assert_str_eq(body(), parts[_i].body);
    ck_assert_uint_eq(td_reply_bytes(&reply), strlen(parts[_i].body));
    ck_assert_str_eq(reply.content_type, "text/plain");
    for (int i = 0; i < reply.n_chunks; i++)
        ck_assert_uint_gt(reply.chunks[i].size, 0);
}

/* RFC 9110: malformed and unsupported ranges are ignored. */
static const char *const ignored[] = {
    NULL,          "",          "bytes",         "bytes=",          "bytes=-",    "bytes=a-b",
    "bytes=5",     "bytes=5-3", "bytes=0-0,2-3", "bytes=0-0,-1",    "lines=1-2",  "bytes 1-2",
    "bytes=1-2-3", "bytes=1--", "bytes=--1",     "bytes=+1-2",      "bytes=0x1-", "bytes=1 -2",
    "bytes=1-2 3", "bytes=1;2", "bytes=,",       "bytes =1-2",      "bytes=- 5",  "bytes=1.0-2",
    "=1-2",        "-5",        "bytes==1-2",    "bytes=\x80-\xff",
};

TD_TEST_EACH(several_and_malformed_ranges_are_ignored, ignored)
{
    letters();
    ck_assert_int_eq(td_range_apply(ignored[_i], &reply, &test_arena, &err), TD_OK);
    ck_assert_int_eq(reply.http_status, 200);
    ck_assert_str_eq(header("Accept-Ranges"), "bytes");
    ck_assert_ptr_null(header("Content-Range"));
    ck_assert_uint_eq(td_reply_bytes(&reply), 26);
}

static const char *const after_the_end[] = {
    "bytes=26-",
    "bytes=26-30",
    "bytes=18446744073709551615-",
    "bytes=18446744073709551616-",
    "bytes=99999999999999999999999-99999999999999999999999",
    "bytes=-0"
};

TD_TEST_EACH(a_range_after_the_end_is_not_satisfiable, after_the_end)
{
    letters();
    ck_assert_int_eq(td_range_apply(after_the_end[_i], &reply, &test_arena, &err),
                     TD_RANGE_NOT_SATISFIABLE);
    ck_assert_str_eq(header("Content-Range"), "bytes */26");
    ck_assert_str_eq(header("Accept-Ranges"), "bytes");
    ck_assert_str_eq(err.attribute, "Range");
    EXPECT_MESSAGE(&err, "26 bytes");
}

TD_TEST(no_range_of_an_empty_reply_is_satisfiable)
{
    static const char *const ranges[] = { "bytes=0-", "bytes=0-0", "bytes=-1", "bytes=-0" };
    for (int i = 0; i < COUNT_OF(ranges); i++) {
        memset(&reply, 0, sizeof reply);
        td_reply_set(&reply, 200, "text/plain", "", 0);
        ck_assert_int_eq(td_range_apply(ranges[i], &reply, &test_arena, &err),
                         TD_RANGE_NOT_SATISFIABLE);
        ck_assert_str_eq(header("Content-Range"), "bytes */0");
    }
    memset(&reply, 0, sizeof reply);
    td_reply_set(&reply, 200, "text/plain", "", 0);
    ck_assert_int_eq(td_range_apply(NULL, &reply, &test_arena, &err), TD_OK);
    ck_assert_int_eq(reply.http_status, 200);
}

TD_TEST(only_replies_with_status_200_have_ranges)
{
    letters();
    reply.http_status = 404;
    ck_assert_int_eq(td_range_apply("bytes=1-2", &reply, &test_arena, &err), TD_OK);
    ck_assert_int_eq(reply.http_status, 404);
    ck_assert_uint_eq(td_reply_bytes(&reply), 26);
}

TD_TEST(chunks_are_cut_without_copying)
{
    letters();
    const char *begin = many[0].data;
    ck_assert_int_eq(td_range_apply("bytes=3-21", &reply, &test_arena, &err), TD_OK);
    ck_assert_int_eq(reply.n_chunks, 4);
    ck_assert_ptr_eq(reply.chunks[0].data, begin + 3);
    ck_assert_ptr_eq(reply.chunks[3].data, begin + 20);
    ck_assert_uint_eq(reply.chunks[3].size, 2);
}

/* Every pair of positions, compared with counting. */
TD_TEST(all_ranges_of_a_short_reply_are_correct)
{
    for (int first = 0; first < 30; first++) {
        for (int last = first; last < 30; last++) {
            char range[32];
            snprintf(range, sizeof range, "bytes=%d-%d", first, last);
            letters();
            td_status status = td_range_apply(range, &reply, &test_arena, &err);
            int end = last < 25 ? last : 25;
            EXPECT((status == TD_OK) == (first < 26), "%s", range);
            if (status != TD_OK)
                continue;
            EXPECT((int)td_reply_bytes(&reply) == end - first + 1, "%s", range);
            EXPECT(body()[0] == 'a' + first && body()[end - first] == 'a' + end, "%s", range);
        }
    }
}
