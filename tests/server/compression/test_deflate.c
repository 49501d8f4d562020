#include "server/compression/deflate.h"
#include "server/compression/inflate.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <malloc.h>
#include <string.h>

/* ---- Accept-Encoding ------------------------------------------------------------------------- */

static const struct {
    const char *accept; /* NULL: the header is absent */
    td_encoding wanted;
} choices[] = {
    { NULL, TD_ENCODING_NONE },
    { "", TD_ENCODING_NONE },
    { "gzip", TD_ENCODING_GZIP },
    { "deflate", TD_ENCODING_DEFLATE },
    { "GZip", TD_ENCODING_GZIP },
    { "x-gzip", TD_ENCODING_GZIP },
    { "br", TD_ENCODING_NONE },
    { "gzipped", TD_ENCODING_NONE },
    { "identity", TD_ENCODING_NONE },
    { "gzip, deflate, br, zstd", TD_ENCODING_GZIP },
    { "deflate, gzip", TD_ENCODING_GZIP },
    { "gzip;q=0.5, deflate;q=0.8", TD_ENCODING_DEFLATE },
    { "gzip;q=0.5,deflate;q=0.5", TD_ENCODING_GZIP },
    { "gzip ; q=0.5 , deflate ; q=0.8", TD_ENCODING_DEFLATE },
    { "gzip;q=0", TD_ENCODING_NONE },
    { "gzip;q=0.000", TD_ENCODING_NONE },
    { "gzip;q=0.001", TD_ENCODING_GZIP },
    { "gzip;q=0, *", TD_ENCODING_DEFLATE },
    { "*", TD_ENCODING_GZIP },
    { "*;q=0", TD_ENCODING_NONE },
    { "deflate;q=1, *;q=0.5", TD_ENCODING_DEFLATE },
    { "gzip;q=0.5, identity", TD_ENCODING_NONE },
    { "gzip, identity;q=0.5", TD_ENCODING_GZIP },
    { "gzip, identity;q=0", TD_ENCODING_GZIP },
    /* an invalid q-value counts as 1, as in Accept */
    { "gzip;q=2", TD_ENCODING_GZIP },
    { "gzip;q=nan", TD_ENCODING_GZIP },
    { "gzip;q=0x0", TD_ENCODING_GZIP },
    { "gzip;q=", TD_ENCODING_GZIP },
    { "gzip;level=9", TD_ENCODING_GZIP },
    { "gzip;level=9;q=0", TD_ENCODING_NONE },
    { ",,gzip,,", TD_ENCODING_GZIP },
    { " , ;q=1, gzip", TD_ENCODING_GZIP },
};

TD_TEST_EACH(the_preferred_encoding_is_chosen, choices)
{
    ck_assert_msg(td_deflate_choose(choices[_i].accept) == choices[_i].wanted, "%s",
                  choices[_i].accept ? choices[_i].accept : "absent");
}

/* ---- replies --------------------------------------------------------------------------------- */

static td_status at_once(void *context, struct td_error *err)
{
    ++*(int *)context;
    return td_error_set(err, TD_DEADLINE_EXCEEDED, "the deadline passed");
}

/* An allocator that always fails. */
static struct td_error error;

static td_status deflate_it(struct td_reply *reply, td_encoding encoding, struct td_memory *memory)
{
    return td_deflate(reply, encoding, memory, &test_arena, &error);
}

/* Numbers as text, which compress well. */
static char *text_of(size_t size)
{
    char *text = td_arena_alloc(&test_arena, size, 1, TD_IGNORED);
    for (size_t i = 0; i < size; i++)
        text[i] = "[1.5, 2.25], [3, 4], "[i * 7 % 21];
    return text;
}

static const struct {
    const char *description;
    td_encoding encoding;
    size_t sizes[3]; /* of the chunks */
    bool smaller;
} answers[] = {
    { "text as gzip", TD_ENCODING_GZIP, { 5000, 0, 0 }, true },
    { "text as deflate", TD_ENCODING_DEFLATE, { 5000, 0, 0 }, true },
    { "a header and its data", TD_ENCODING_GZIP, { 200, 0, 3 << 20 }, true },
    { "the least size", TD_ENCODING_GZIP, { TD_DEFLATE_LEAST, 0, 0 }, true },
    { "below the least size", TD_ENCODING_GZIP, { TD_DEFLATE_LEAST - 1, 0, 0 }, false },
    { "no compression requested", TD_ENCODING_NONE, { 5000, 0, 0 }, false },
    { "an empty reply", TD_ENCODING_GZIP, { 0, 0, 0 }, false },
};

TD_TEST_EACH(a_compressed_reply_expands_to_the_original, answers)
{
    struct td_reply reply = { 0 };
    struct td_chunk chunks[3];
    size_t total = 0;
    char *text = text_of(4 << 20);
    td_reply_set(&reply, 200, "application/json", "", 0);
    for (int i = 0; i < 3; i++) {
        chunks[i] = (struct td_chunk){ text + total, answers[_i].sizes[i] };
        total += answers[_i].sizes[i];
    }
    reply.chunks = chunks;
    reply.n_chunks = 3;
    ck_assert_int_eq(deflate_it(&reply, answers[_i].encoding, td_memory_heap()), TD_OK);
    ck_assert_int_eq(reply.http_status, 200);
    ck_assert_str_eq(reply.content_type, "application/json");
    if (!answers[_i].smaller) {
        ck_assert_uint_eq(td_reply_bytes(&reply), total);
        ck_assert_int_eq(reply.n_headers, 0);
        return;
    }
    ck_assert_uint_lt(td_reply_bytes(&reply), total);
    ck_assert_int_eq(reply.n_headers, 1);
    ck_assert_str_eq(reply.headers[0].name, "Content-Encoding");
    ck_assert_str_eq(reply.headers[0].value,
                     answers[_i].encoding == TD_ENCODING_GZIP ? "gzip" : "deflate");
    /* deflate is the zlib format, not raw */
    const unsigned char *first = reply.chunks[0].data;
    ck_assert_int_eq(first[0], answers[_i].encoding == TD_ENCODING_GZIP ? 0x1f : 0x78);
    struct td_buffer *plain;
    size_t bytes;
    ck_assert_int_eq(td_inflate(reply.chunks[0].data, reply.chunks[0].size,
                                &(struct td_inflate_limits){ .bytes = total }, 0, td_memory_heap(),
                                NULL, &plain, &bytes, &error),
                     TD_OK);
    ck_assert_uint_eq(bytes, total);
    ck_assert(memcmp(plain->data, text, total) == 0);
    td_buffer_unref(plain);
}

TD_TEST(an_incompressible_reply_is_sent_as_it_is)
{
    struct td_reply reply = { 0 };
    unsigned char noise[5000];
    uint32_t state = 1;
    for (size_t i = 0; i < sizeof noise; i++) {
        state = state * 1664525 + 1013904223;
        noise[i] = (unsigned char)(state >> 24);
    }
    td_reply_set(&reply, 200, "application/octet-stream", noise, sizeof noise);
    ck_assert_int_eq(deflate_it(&reply, TD_ENCODING_GZIP, td_memory_heap()), TD_OK);
    ck_assert_int_eq(reply.n_headers, 0);
    ck_assert_ptr_eq(reply.chunks[0].data, noise);
}

/* Bytes that the C library has handed out; 0 where a sanitizer replaces it, which finds leaks
 * too. */
static size_t bytes_in_use(void)
{
    const struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

TD_TEST(no_memory_remains_in_use)
{
    char *text = text_of(5000);
    size_t before = 0;
    for (int i = 0; i < 20; i++) {
        struct td_reply reply = { 0 };
        struct td_arena arena;
        td_arena_init(&arena, NULL, 0, td_memory_heap());
        td_reply_set(&reply, 200, "application/json", text, 5000);
        if (i % 2) { /* nothing that would become smaller */
            static unsigned char noise[5000];
            for (size_t j = 0; j < sizeof noise; j++)
                noise[j] = (unsigned char)(j * j * 2654435761u >> 13);
            td_reply_set(&reply, 200, "application/octet-stream", noise, sizeof noise);
        }
        ck_assert_int_eq(td_deflate(&reply, TD_ENCODING_GZIP, td_memory_heap(), &arena, &error),
                         TD_OK);
        ck_assert_int_eq(reply.n_headers, i % 2 ? 0 : 1);
        td_arena_reset(&arena);
        if (i == 9)
            before = bytes_in_use();
    }
    ck_assert_uint_lt(bytes_in_use(), before + 10000); /* the buffers of five replies take more */
}

TD_TEST(without_memory_the_reply_is_sent_as_it_is)
{
    struct td_reply reply = { 0 };
    td_reply_set(&reply, 200, "application/json", text_of(5000), 5000);
    ck_assert_int_eq(deflate_it(&reply, TD_ENCODING_GZIP, &no_memory), TD_OK);
    ck_assert_int_eq(reply.n_headers, 0);
    ck_assert_uint_eq(td_reply_bytes(&reply), 5000);
}

TD_TEST(a_deadline_stops_compressing_a_large_reply)
{
    struct td_reply reply = { 0 };
    int asked = 0;
    td_reply_set(&reply, 200, "application/json", text_of(4 << 20), 4 << 20);
    test_arena.stop = (struct td_stop){ at_once, &asked };
    ck_assert_int_eq(deflate_it(&reply, TD_ENCODING_GZIP, td_memory_heap()), TD_DEADLINE_EXCEEDED);
    ck_assert_int_eq(asked, 1);
}
