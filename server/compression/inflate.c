#include "server/compression/inflate.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <zlib.h>

enum {
    FIRST_GUESS = 4,      /* size of the first buffer, as a multiple of the compressed size */
    FIRST_MOST = 1 << 20, /* maximum size of the first buffer */
    ANY_HEADER = 32 + 15, /* window of 32 KiB; zlib detects gzip or zlib */
    RAW = -15             /* some clients send raw data as "deflate", against the RFC */
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
                 "Content-Encoding '%.64s' is not supported; expected gzip, deflate or identity",
                 encoding);
    strcpy(err->attribute, "Content-Encoding");
    return TD_UNSUPPORTED_MEDIA_TYPE;
}

/* Replaces `buffer` with a buffer of at least `bytes` bytes, and copies the first `used` bytes.
 * Returns NULL, and leaves `buffer` unchanged, if no memory is available or the call is stopped. */
static struct td_buffer *enlarge(struct td_buffer *buffer, size_t used, size_t bytes,
                                 struct td_memory *memory, const struct td_stop *stop,
                                 struct td_error *err)
{
    struct td_buffer *larger = memory->take(memory, bytes, err);
    if (!larger)
        return NULL;
    if (used > 0 && td_stop_copy(stop, larger->data, buffer->data, used, err) != TD_OK) {
        td_buffer_unref(larger);
        return NULL;
    }
    td_buffer_unref(buffer);
    return larger;
}

static size_t min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Starts the next gzip member, if the data contains one. Members can be concatenated (RFC 1952,
 * section 2.2). */
static bool begin_member(z_stream *stream)
{
    const Bytef *in = stream->next_in;
    return stream->avail_in >= 2 && in[0] == 0x1f && in[1] == 0x8b && inflateReset(stream) == Z_OK;
}

/* Returns the maximum size in bytes to which a body of `bytes` bytes can expand. */
static size_t most_output(const struct td_inflate_limits *limits, size_t bytes)
{
    size_t by_ratio;
    if (limits->ratio == 0 || __builtin_mul_overflow(bytes, limits->ratio, &by_ratio))
        return limits->bytes;
    return min_size(limits->bytes, by_ratio > TD_INFLATE_FREE ? by_ratio : TD_INFLATE_FREE);
}

static td_status refuse_output(const struct td_inflate_limits *limits, size_t limit,
                               struct td_error *err)
{
    char text[128];
    if (limit == limits->bytes)
        return td_error_too_large(err, limit, "the body expands beyond");
    snprintf(
        text, sizeof text,
        "the body expands to more than %zu times its compressed size (--max-expansion), beyond",
        limits->ratio);
    return td_error_too_large(err, limit, text);
}

/* Runs the stream to its end and writes the output to *buffer. */
static td_status expand(z_stream *stream, bool gzip, const struct td_inflate_limits *limits,
                        size_t limit, size_t padding, struct td_memory *memory,
                        const struct td_stop *stop, struct td_buffer **buffer, size_t *used,
                        struct td_error *err)
{
    const size_t most = limit + 1; /* the additional byte detects output above the limit */
    for (;;) {
        const size_t room = (*buffer)->size - padding;
        stream->next_out = (Bytef *)(*buffer)->data + *used;
        stream->avail_out = (uInt)min_size(min_size(room, most) - *used, TD_STOP_STEP);
        const uInt offered = stream->avail_out;
        const int code = inflate(stream, Z_NO_FLUSH);
        *used += offered - stream->avail_out;
        if (*used > limit)
            return refuse_output(limits, limit, err);
        if (code == Z_STREAM_END) {
            if (gzip && begin_member(stream))
                continue;
            return TD_OK;
        }
        if (code == Z_MEM_ERROR)
            return td_error_set(err, TD_MEMORY_EXHAUSTED, "no memory to expand the body");
        if (code != Z_OK && code != Z_BUF_ERROR)
            return td_error_set(err, TD_MALFORMED_REQUEST, "the compressed body is corrupt: %s",
                                stream->msg ? stream->msg : "unknown data");
        if (stream->avail_out > 0)
            return td_error_set(err, TD_MALFORMED_REQUEST,
                                "the compressed body ends early, after %zu expanded bytes", *used);
        const td_status status = td_stop_check(stop, err);
        if (status != TD_OK)
            return status;
        if (*used < room)
            /* The output of this step was full, but the buffer is not. */
            continue;
        const size_t larger = room > most / 2 ? most : 2 * room;
        struct td_buffer *grown = enlarge(*buffer, *used, larger + padding, memory, stop, err);
        if (!grown)
            return err->status;
        *buffer = grown;
    }
}

/* Rejects a body that is neither gzip nor zlib and cannot be read as raw deflate. The body is
 * probably not compressed. */
static td_status refuse_unknown(const unsigned char *in, size_t bytes, struct td_error *err)
{
    enum { SHOWN = 4 };
    char start[3 * SHOWN + 1] = "", why[sizeof err->message];
    for (size_t i = 0; i < bytes && i < SHOWN; i++)
        snprintf(start + 3 * i, 4, " %02x", in[i]);
    snprintf(why, sizeof why, "%s", err->message);
    return td_error_set(
        err, TD_MALFORMED_REQUEST,
        "the body is neither gzip, which starts with 1f 8b, nor zlib: it starts with%s. If it is "
        "not compressed, leave out Content-Encoding. Read as raw deflate: %.200s",
        start, why);
}

td_status td_inflate(const void *body, size_t bytes, const struct td_inflate_limits *limits,
                     size_t padding, struct td_memory *memory, const struct td_stop *stop,
                     struct td_buffer **out, size_t *out_bytes, struct td_error *err)
{
    const size_t limit = most_output(limits, bytes);
    const unsigned char *in = body;
    /* In a zlib stream, the low four bits of the first byte are 8, and the first two bytes, as a
     * number, are divisible by 31. */
    const bool zlib = bytes >= 2 && (in[0] & 15) == 8 && ((in[0] << 8) + in[1]) % 31 == 0;
    const bool gzip = bytes >= 2 && in[0] == 0x1f && in[1] == 0x8b;
    struct td_buffer *buffer;
    size_t used = 0;
    z_stream stream = { .next_in = (Bytef *)(uintptr_t)in, .avail_in = (uInt)bytes };
    if (bytes > UINT32_MAX)
        return td_error_set(err, TD_PAYLOAD_TOO_LARGE,
                            "the compressed body is too large; expected at most 4 GiB");
    size_t guess = min_size(bytes > limit / FIRST_GUESS ? limit : bytes * FIRST_GUESS, FIRST_MOST);
    guess = guess < bytes ? min_size(bytes, limit) : guess;
    buffer = enlarge(NULL, 0, guess + 1 + padding, memory, stop, err);
    if (!buffer)
        return err->status;
    td_status status = TD_OK;
    if (inflateInit2(&stream, zlib || gzip ? ANY_HEADER : RAW) != Z_OK) {
        status = td_error_set(err, TD_MEMORY_EXHAUSTED, "no memory to expand the body");
        goto done;
    }
    status = expand(&stream, gzip, limits, limit, padding, memory, stop, &buffer, &used, err);
    if (status == TD_OK && stream.avail_in > 0)
        status = td_error_set(err, TD_MALFORMED_REQUEST,
                              "%u bytes follow the end of the compressed body", stream.avail_in);
    inflateEnd(&stream);
    if (status == TD_MALFORMED_REQUEST && bytes > 0 && !zlib && !gzip)
        status = refuse_unknown(in, bytes, err);
done:
    if (status == TD_OK) {
        *out = buffer;
        *out_bytes = used;
    } else {
        td_buffer_unref(buffer);
    }
    return status;
}
