/* fuzz_inflate.c - compressed bodies, and replies that are compressed.
 *
 * Input    A byte: 0 for a body to compress and expand, else the limit of the output in units of 64
 *          bytes; the body. */
#include "server/compression/deflate.h"
#include "server/compression/inflate.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { PADDING = 64, MOST_RATIO = 100 };

static struct td_buffer *expand(const void *body, size_t size, size_t limit, size_t *out_size)
{
    const struct td_inflate_limits limits = { limit, MOST_RATIO };
    struct td_error err = { .offset = -1 };
    struct td_buffer *out = NULL;
    const td_status status =
        td_inflate(body, size, &limits, PADDING, fuzz_memory(), NULL, &out, out_size, &err);
    if (status == TD_OK) {
        REQUIRE(*out_size <= limit && out->size >= *out_size + PADDING, "%zu bytes", *out_size);
        return out;
    }
    REQUIRE(status == TD_MALFORMED_REQUEST || status == TD_PAYLOAD_TOO_LARGE, "%s",
            td_status_name(status));
    fuzz_expect_error(&err, status, size);
    return NULL;
}

/* Requires the bytes that zlib itself expands a stream of one member to. */
static void expect_same_as_zlib(const char *body, size_t size, const struct td_buffer *out,
                                size_t out_size)
{
    enum { ANY_HEADER = 15 + 32, RAW = -15 };
    char *expected = malloc(out_size + 1);
    z_stream stream = { .next_in = (Bytef *)(uintptr_t)body, .avail_in = (uInt)size };
    REQUIRE(expected, "no memory");
    stream.next_out = (Bytef *)expected;
    stream.avail_out = (uInt)out_size + 1;
    REQUIRE(inflateInit2(&stream, ANY_HEADER) == Z_OK, "no memory");
    int code = inflate(&stream, Z_FINISH);
    if (code == Z_DATA_ERROR && stream.total_out == 0) { /* it has no header */
        REQUIRE(inflateReset2(&stream, RAW) == Z_OK, "RAW");
        stream.next_in = (Bytef *)(uintptr_t)body;
        stream.avail_in = (uInt)size;
        stream.next_out = (Bytef *)expected;
        stream.avail_out = (uInt)out_size + 1;
        code = inflate(&stream, Z_FINISH);
    }
    REQUIRE(code == Z_STREAM_END, "zlib refuses what was expanded: %d", code);
    REQUIRE(stream.total_out <= out_size && memcmp(expected, out->data, stream.total_out) == 0,
            "zlib expands it to other bytes");
    REQUIRE(stream.avail_in > 0 || stream.total_out == out_size, "%zu bytes, %lu of zlib", out_size,
            stream.total_out);
    inflateEnd(&stream);
    free(expected);
}

/* Requires that a reply is the same after it was compressed and expanded. */
static void round_trip(const char *body, size_t size, td_encoding encoding)
{
    struct td_arena *arena = fuzz_arena_open();
    struct td_reply reply = { 0 };
    struct td_error err = { 0 };
    size_t compressed_size, expanded_size;
    td_reply_set(&reply, 200, "text/plain", body, size);
    REQUIRE(td_deflate(&reply, encoding, fuzz_memory(), arena, &err) == TD_OK, "%s", err.message);
    char *compressed = fuzz_reply(&reply, size, &compressed_size);
    if (reply.n_headers == 0) {
        REQUIRE(compressed_size == size && memcmp(compressed, body, size) == 0, "it has changed");
    } else {
        REQUIRE(size >= TD_DEFLATE_LEAST && compressed_size < size, "it does not shrink");
        struct td_buffer *expanded =
            expand(compressed, compressed_size, (size_t)1 << 20, &expanded_size);
        REQUIRE(expanded && expanded_size == size && memcmp(expanded->data, body, size) == 0,
                "it is different");
        td_buffer_unref(expanded);
    }
    free(compressed);
    fuzz_arena_close(arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t choice = fuzz_byte(&data, &size);
    const size_t before = fuzz_memory_in_use();
    char *body = fuzz_copy(data, size, 0);
    size_t out_size;
    if (choice == 0) {
        round_trip(body, size, size % 2 ? TD_ENCODING_GZIP : TD_ENCODING_DEFLATE);
    } else {
        struct td_buffer *out = expand(body, size, (size_t)choice * 64, &out_size);
        if (out)
            expect_same_as_zlib(body, size, out, out_size);
        td_buffer_unref(out);
    }
    free(body);
    REQUIRE(fuzz_memory_in_use() == before, "%zu bytes in use", fuzz_memory_in_use());
    return 0;
}
