#include "server/inflate.h"

#include <string.h>
#include <strings.h>
#include <zlib.h>

enum {
    FIRST_GUESS = 4,      /* times the compressed size */
    ANY_HEADER = 32 + 15, /* zlib finds out by itself whether it is gzip or zlib; 32 KiB window */
    RAW = -15             /* what some clients send as "deflate" in spite of the RFC */
};

td_status td_inflate_wanted(const char *encoding, bool *wanted, struct td_error *err)
{
    *wanted = false;
    if (!encoding || !encoding[0] || strcasecmp(encoding, "identity") == 0)
        return TD_OK;
    *wanted = strcasecmp(encoding, "gzip") == 0 || strcasecmp(encoding, "x-gzip") == 0 ||
              strcasecmp(encoding, "deflate") == 0;
    if (*wanted)
        return TD_OK;
    td_error_set(err, TD_UNSUPPORTED_MEDIA_TYPE,
                 "Content-Encoding '%.64s' is not supported; gzip, deflate or identity is expected",
                 encoding);
    if (err)
        strcpy(err->attribute, "Content-Encoding");
    return TD_UNSUPPORTED_MEDIA_TYPE;
}

/* Replaces *buffer by one of at least `bytes` that begins with the same `used` bytes. */
static td_status enlarge(struct td_buffer **buffer, size_t used, size_t bytes,
                         struct td_memory *memory, struct td_error *err)
{
    struct td_buffer *larger = memory->take(memory, bytes, err);
    if (!larger)
        return err ? err->status : TD_MEMORY_EXHAUSTED;
    if (*buffer)
        memcpy(larger->data, (*buffer)->data, used);
    td_buffer_unref(*buffer);
    *buffer = larger;
    return TD_OK;
}

static size_t min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Runs the stream to its end into *buffer. */
static td_status expand(z_stream *stream, size_t limit, size_t padding, struct td_memory *memory,
                        struct td_buffer **buffer, size_t *used, struct td_error *err)
{
    for (;;) {
        const size_t room = (*buffer)->size - padding;
        stream->next_out = (Bytef *)(*buffer)->data + *used;
        stream->avail_out = (uInt)min_size(min_size(room, limit) - *used, 1u << 30);
        const uInt offered = stream->avail_out;
        const int code = inflate(stream, Z_NO_FLUSH);
        *used += offered - stream->avail_out;
        if (code == Z_STREAM_END)
            return TD_OK;
        if (code != Z_OK && code != Z_BUF_ERROR)
            return td_error_set(err, TD_MALFORMED_REQUEST, "the compressed body is corrupt: %s",
                                stream->msg ? stream->msg : "unknown data");
        if (stream->avail_out > 0)
            return td_error_set(err, TD_MALFORMED_REQUEST,
                                "the compressed body ends early, after %zu expanded bytes", *used);
        if (*used == limit) {
            td_error_set(err, TD_PAYLOAD_TOO_LARGE,
                         "the body expands to more than the limit of %zu bytes", limit);
            if (err)
                err->limit = limit;
            return TD_PAYLOAD_TOO_LARGE;
        }
        if (*used < room)
            continue; /* more than zlib takes at a time */
        const size_t larger = min_size(room > limit / 2 ? limit : 2 * room, limit);
        const td_status status = enlarge(buffer, *used, larger + padding, memory, err);
        if (status != TD_OK)
            return status;
    }
}

td_status td_inflate(const void *body, size_t bytes, size_t limit, size_t padding,
                     struct td_memory *memory, struct td_buffer **out, size_t *out_bytes,
                     struct td_error *err)
{
    const unsigned char *in = body;
    /* The low four bits of a zlib stream's first byte are 8, and its first two bytes divide by 31.
     */
    const bool zlib = bytes >= 2 && (in[0] & 15) == 8 && ((in[0] << 8) + in[1]) % 31 == 0;
    const bool gzip = bytes >= 2 && in[0] == 0x1f && in[1] == 0x8b;
    struct td_buffer *buffer = NULL;
    size_t used = 0;
    z_stream stream = { .next_in = (Bytef *)(uintptr_t)in, .avail_in = (uInt)bytes };
    if (bytes > UINT32_MAX)
        return td_error_set(err, TD_PAYLOAD_TOO_LARGE, "a compressed body may have at most 4 GiB");
    const size_t guess = bytes > limit / FIRST_GUESS ? limit : bytes * FIRST_GUESS;
    td_status status = enlarge(&buffer, 0, guess + padding, memory, err);
    if (status != TD_OK)
        return status;
    if (inflateInit2(&stream, zlib || gzip ? ANY_HEADER : RAW) != Z_OK) {
        status = td_error_set(err, TD_MEMORY_EXHAUSTED, "no memory to expand the body");
        goto done;
    }
    status = expand(&stream, limit, padding, memory, &buffer, &used, err);
    if (status == TD_OK && stream.avail_in > 0)
        status = td_error_set(err, TD_MALFORMED_REQUEST,
                              "%u bytes follow the end of the compressed body", stream.avail_in);
    inflateEnd(&stream);
done:
    if (status == TD_OK) {
        *out = buffer;
        *out_bytes = used;
    } else {
        td_buffer_unref(buffer);
    }
    return status;
}
