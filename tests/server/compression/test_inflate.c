#include "server/compression/inflate.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum {
    PADDING = 64,
    /* Beside the limit: the padding, and the byte that detects output above it. */
    SPARE = PADDING + 1
};

/* The accepted values of Content-Encoding. */
static const struct coding {
    const char *name;
    int window_bits; /* zlib's windowBits */
} codings[] = { { "gzip", 15 + 16 }, { "zlib", 15 }, { "raw deflate", -15 } };

struct bytes {
    unsigned char *data;
    size_t size;
};

static struct bytes bytes_of(size_t size)
{
    return (struct bytes){ malloc(size ? size : 1), size };
}

/* Repetitive text, or noise. */
static struct bytes sample(size_t size, bool noise)
{
    struct bytes sample = bytes_of(size);
    uint32_t state = 1;
    for (size_t i = 0; i < size; i++) {
        state = state * 1664525 + 1013904223;
        sample.data[i] =
            noise ? (unsigned char)(state >> 24) : (unsigned char)"[1.5, 2.5], "[i % 12];
    }
    return sample;
}

static struct bytes compress_as(int window_bits, int level, struct bytes plain)
{
    z_stream stream = { .next_in = plain.data, .avail_in = (uInt)plain.size };
    ck_assert_int_eq(deflateInit2(&stream, level, Z_DEFLATED, window_bits, 8, Z_DEFAULT_STRATEGY),
                     Z_OK);
    struct bytes packed = bytes_of(deflateBound(&stream, plain.size) + 32);
    stream.next_out = packed.data;
    stream.avail_out = (uInt)packed.size;
    ck_assert_int_eq(deflate(&stream, Z_FINISH), Z_STREAM_END);
    packed.size = stream.total_out;
    packed.data =
        realloc(packed.data, packed.size); /* exact size, so that an overrun is detected */
    deflateEnd(&stream);
    return packed;
}

/* An allocator of buffers of exact size that counts its calls. */
static struct counting {
    struct td_memory memory;
    size_t largest, limit;
} counting;

static struct td_buffer *counting_take(struct td_memory *self, size_t bytes, struct td_error *err)
{
    (void)self;
    if (bytes > counting.limit) {
        td_error_set(err, TD_MEMORY_EXHAUSTED, "no more than %zu", counting.limit);
        return NULL;
    }
    counting.largest = bytes > counting.largest ? bytes : counting.largest;
    return td_memory_heap()->take(td_memory_heap(), bytes, err);
}

static void counting_begin(void)
{
    counting = (struct counting){ .memory = { counting_take }, .limit = SIZE_MAX };
}

static td_status inflate_to(struct bytes packed, size_t limit, struct td_buffer **out, size_t *size,
                            struct td_error *err)
{
    return td_inflate(packed.data, packed.size, &(struct td_inflate_limits){ .bytes = limit },
                      PADDING, &counting.memory, NULL, out, size, err);
}

static void expect_plain(struct bytes packed, size_t limit, struct bytes plain,
                         const char *description)
{
    struct td_buffer *out = NULL;
    struct td_error err;
    size_t size = SIZE_MAX;
    ck_assert_msg(inflate_to(packed, limit, &out, &size, &err) == TD_OK, "%s: %s", description,
                  err.message);
    ck_assert_uint_eq(size, plain.size);
    ck_assert(size == 0 || memcmp(out->data, plain.data, size) == 0);
    ck_assert_uint_ge(out->size, size + PADDING);
    td_buffer_unref(out);
}

static struct td_error expect_refusal(struct bytes packed, size_t limit, td_status status,
                                      const char *description)
{
    struct td_buffer *out = NULL;
    struct td_error err;
    size_t size;
    const td_status got = inflate_to(packed, limit, &out, &size, &err);
    ck_assert_msg(got == status, "%s: %s, not %s", description, got ? err.message : "OK",
                  td_status_name(status));
    ck_assert_ptr_null(out);
    return err;
}

/* ---- valid bodies -------------------------------------------------------------------------- */

static const struct {
    size_t size;
    bool noise;
    int level; /* 0 stores */
} contents[] = {
    { 0, false, 6 },       { 1, false, 6 },       { 1, false, 0 },      { 100, true, 6 },
    { 1000, false, 9 },    { 65536, true, 0 },    { 100000, false, 1 }, { 100000, true, 6 },
    { 1 << 20, false, 9 }, { 3000000, false, 6 }, { 3000000, true, 0 },
};

TD_TEST_LOOP(a_compressed_body_expands_to_the_original, 0, COUNT_OF(codings) * COUNT_OF(contents))
{
    const struct coding *coding = &codings[(size_t)_i / COUNT_OF(contents)];
    const size_t c = (size_t)_i % COUNT_OF(contents);
    struct bytes plain = sample(contents[c].size, contents[c].noise);
    struct bytes packed = compress_as(coding->window_bits, contents[c].level, plain);
    expect_plain(packed, 1 << 24, plain, coding->name);
    expect_plain(packed, plain.size + 1, plain, coding->name);
    if (plain.size > 0)
        expect_plain(packed, plain.size, plain,
                     coding->name); /* output of exactly the limit is accepted */
    free(plain.data);
    free(packed.data);
}

/* An empty block whose padding looks like the first byte of a zlib stream, and a block of three
 * bytes. Both blocks are stored without compression. */
TD_TEST(raw_deflate_can_begin_with_the_first_byte_of_zlib)
{
    static const unsigned char blocks[] = { 0x08, 0,    0,    0xff, 0xff, 0x01, 3,
                                            0,    0xfc, 0xff, 'a',  'b',  'c' };
    struct bytes packed = { (unsigned char *)(uintptr_t)blocks, sizeof blocks };
    struct bytes plain = { (unsigned char *)(uintptr_t) "abc", 3 };
    expect_plain(packed, 1 << 20, plain, "raw deflate");
}

TD_TEST(memory_grows_with_the_output_and_never_beyond_the_limit)
{
    struct bytes plain = sample(3000000, false);
    struct bytes packed = compress_as(15, 9, plain);
    expect_plain(packed, (size_t)1 << 40, plain,
                 "a generous limit"); /* a large limit allocates nothing */
    ck_assert_uint_le(counting.largest, 2 * plain.size + SPARE);
    counting_begin();
    expect_plain(packed, plain.size + 10, plain, "a tight limit");
    ck_assert_uint_le(counting.largest, plain.size + 10 + SPARE);
    free(plain.data);
    free(packed.data);
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
    struct bytes plain = sample(3000, false);
    struct bytes packed = compress_as(15, 6, plain);
    size_t before = 0;
    for (int i = 0; i < 20; i++) {
        expect_plain(packed, 1 << 20, plain, "a body");
        if (i == 9)
            before = bytes_in_use();
    }
    ck_assert_uint_lt(bytes_in_use(), before + 10000); /* zlib takes more each time */
    free(plain.data);
    free(packed.data);
}

/* ---- invalid bodies-------------------------------------------------------------------------- */

TD_TEST_EACH(a_body_truncated_anywhere_is_malformed, codings)
{
    const struct coding *coding = &codings[_i];
    struct bytes plain = sample(500, true);
    struct bytes packed = compress_as(coding->window_bits, 6, plain);
    for (size_t size = 1; size < packed.size; size++) {
        struct bytes cut = bytes_of(size);
        memcpy(cut.data, packed.data, size);
        expect_refusal(cut, 1 << 20, TD_MALFORMED_REQUEST, coding->name);
        free(cut.data);
    }
    free(plain.data);
    free(packed.data);
}

TD_TEST(an_empty_body_is_malformed)
{
    struct bytes nothing = { (unsigned char *)(uintptr_t) "", 0 };
    expect_refusal(nothing, 1 << 20, TD_MALFORMED_REQUEST, "nothing");
}

TD_TEST_LOOP(a_flipped_bit_fails_the_checksum, 0, 2)
{
    const struct coding *coding = &codings[_i]; /* gzip and zlib have a checksum */
    struct bytes plain = sample(300, true);
    struct bytes packed = compress_as(coding->window_bits, 6, plain);
    for (size_t byte = 12; byte < packed.size; byte++) { /* after the header, which has flags */
        packed.data[byte] ^= 0x10;
        struct td_buffer *out = NULL;
        struct td_error err;
        size_t size;
        ck_assert_msg(inflate_to(packed, 1 << 20, &out, &size, &err) != TD_OK, "%s byte %zu",
                      coding->name, byte);
        packed.data[byte] ^= 0x10;
    }
    free(plain.data);
    free(packed.data);
}

static const struct {
    const char *description;
    const char *data;
    size_t size;
} garbage[] = {
    { "JSON that is not compressed", "{\"params\":[1,2],\"indices\":[0]}", 30 },
    { "a gzip header and no more", "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03", 10 },
    { "gzip with an unknown method", "\x1f\x8b\x07\x00\x00\x00\x00\x00\x00\x03\x03\x00", 12 },
    { "zlib that wants a dictionary", "\x78\xbb\x00\x00\x00\x01\x03\x00", 8 },
    { "an unknown block type", "\x07\x00\x00", 3 },
    { "a distance beyond the beginning", "\x03\x02\x00", 3 },
    { "ones", "\xff\xff\xff\xff\xff\xff\xff\xff", 8 },
};

TD_TEST_EACH(garbage_is_malformed, garbage)
{
    struct bytes packed = bytes_of(garbage[_i].size);
    memcpy(packed.data, garbage[_i].data, packed.size);
    expect_refusal(packed, 1 << 20, TD_MALFORMED_REQUEST, garbage[_i].description);
    free(packed.data);
}

TD_TEST(concatenated_gzip_members_are_expanded)
{
    struct bytes plain = sample(1000, false), twice = bytes_of(2000);
    struct bytes packed = compress_as(codings[0].window_bits, 6, plain);
    struct bytes members = bytes_of(2 * packed.size);
    for (size_t i = 0; i < 2; i++) {
        memcpy(twice.data + i * plain.size, plain.data, plain.size);
        memcpy(members.data + i * packed.size, packed.data, packed.size);
    }
    expect_plain(members, 1 << 20, twice, "two members");
    expect_plain(members, 2000, twice, "as large as allowed");
    expect_refusal(members, 1999, TD_PAYLOAD_TOO_LARGE, "a limit between the members' ends");
    members.size--;
    expect_refusal(members, 1 << 20, TD_MALFORMED_REQUEST, "the second ends early");
    free(plain.data);
    free(twice.data);
    free(packed.data);
    free(members.data);
}

TD_TEST_EACH(bytes_after_the_end_are_malformed, codings)
{
    const struct coding *coding = &codings[_i];
    struct bytes plain = sample(1000, false);
    struct bytes packed = compress_as(coding->window_bits, 6, plain);
    struct bytes longer = bytes_of(packed.size + 3);
    memcpy(longer.data, packed.data, packed.size);
    memset(longer.data + packed.size, 0, 3);
    const struct td_error err = expect_refusal(longer, 1 << 20, TD_MALFORMED_REQUEST, coding->name);
    ck_assert_ptr_nonnull(strstr(err.message, "3 bytes"));
    free(plain.data);
    free(packed.data);
    free(longer.data);
}

TD_TEST_EACH(a_bomb_stops_at_the_limit, codings)
{
    const struct coding *coding = &codings[_i];
    struct bytes zeros = { calloc(1, 4 << 20), 4 << 20 };
    struct bytes bomb = compress_as(coding->window_bits, 9, zeros); /* a thousandth of it */
    const struct td_error err = expect_refusal(bomb, 100000, TD_PAYLOAD_TOO_LARGE, coding->name);
    ck_assert_uint_eq(err.limit, 100000);
    ck_assert_uint_le(counting.largest, 100000 + SPARE);
    expect_refusal(bomb, zeros.size - 1, TD_PAYLOAD_TOO_LARGE, coding->name);
    free(zeros.data);
    free(bomb.data);
}

TD_TEST(without_memory_expanding_fails)
{
    struct bytes plain = sample(1 << 20, false);
    struct bytes packed = compress_as(15, 9, plain);
    counting.limit = 0; /* not even the first buffer */
    expect_refusal(packed, 1 << 24, TD_MEMORY_EXHAUSTED, "at once");
    counting.limit = 100000; /* not the last */
    expect_refusal(packed, 1 << 24, TD_MEMORY_EXHAUSTED, "later");
    free(plain.data);
    free(packed.data);
}

/* ---- Content-Encoding ------------------------------------------------------------------------ */

static const struct {
    const char *encoding;
    td_status status;
    bool wanted;
} encodings[] = {
    { NULL, TD_OK, false },
    { "", TD_OK, false },
    { "identity", TD_OK, false },
    { "Identity", TD_OK, false },
    { "gzip", TD_OK, true },
    { "GZIP", TD_OK, true },
    { "x-gzip", TD_OK, true },
    { "deflate", TD_OK, true },
    { "br", TD_UNSUPPORTED_MEDIA_TYPE, false },
    { "zstd", TD_UNSUPPORTED_MEDIA_TYPE, false },
    { "gzip, gzip", TD_UNSUPPORTED_MEDIA_TYPE, false },
    { "gzipped", TD_UNSUPPORTED_MEDIA_TYPE, false },
    { "gzi", TD_UNSUPPORTED_MEDIA_TYPE, false },
};

TD_TEST_EACH(gzip_deflate_and_identity_are_supported, encodings)
{
    struct td_error err;
    bool wanted = true;
    ck_assert_int_eq(td_inflate_wanted(encodings[_i].encoding, &wanted, &err),
                     encodings[_i].status);
    ck_assert_int_eq(wanted, encodings[_i].wanted);
    if (encodings[_i].status != TD_OK) {
        ck_assert_str_eq(err.attribute, "Content-Encoding");
        ck_assert_ptr_nonnull(strstr(err.message, encodings[_i].encoding));
        ck_assert_ptr_nonnull(strstr(err.message, "expected gzip, deflate or identity"));
        ck_assert_int_eq(td_inflate_wanted(encodings[_i].encoding, &wanted, TD_IGNORED),
                         encodings[_i].status);
    }
}

static td_status inflate_by_ratio(struct bytes packed, size_t ratio, struct td_error *err)
{
    struct td_buffer *out = NULL;
    size_t size;
    const struct td_inflate_limits limits = { .bytes = 1 << 30, .ratio = ratio };
    const td_status status = td_inflate(packed.data, packed.size, &limits, PADDING,
                                        &counting.memory, NULL, &out, &size, err);
    if (status == TD_OK)
        td_buffer_unref(out);
    return status;
}

TD_TEST(a_body_may_expand_by_the_ratio_and_no_more)
{
    struct td_error err;
    struct bytes plain = sample(8 << 20, false), packed = compress_as(15 + 16, 9, plain);
    const size_t ratio = plain.size / packed.size; /* rounded down */
    ck_assert_uint_gt(plain.size % packed.size, 0);
    ck_assert_int_eq(inflate_by_ratio(packed, ratio + 1, &err), TD_OK);
    ck_assert_int_eq(inflate_by_ratio(packed, 0, &err), TD_OK);
    ck_assert_int_eq(inflate_by_ratio(packed, SIZE_MAX, &err), TD_OK); /* the product overflows */
    counting_begin();
    ck_assert_int_eq(inflate_by_ratio(packed, ratio, &err), TD_PAYLOAD_TOO_LARGE);
    ck_assert_uint_eq(err.limit, ratio * packed.size);
    ck_assert_ptr_nonnull(strstr(err.message, "--max-expansion"));
    ck_assert_uint_le(counting.largest, ratio * packed.size + SPARE);
    free(plain.data);
    free(packed.data);
}

TD_TEST(a_mebibyte_is_free_of_the_ratio)
{
    struct td_error err;
    struct bytes plain = sample(TD_INFLATE_FREE, false), packed = compress_as(15, 9, plain);
    struct bytes more = sample(TD_INFLATE_FREE + 1, false), more_packed = compress_as(15, 9, more);
    ck_assert_int_eq(inflate_by_ratio(packed, 1, &err), TD_OK);
    ck_assert_int_eq(inflate_by_ratio(more_packed, 1, &err), TD_PAYLOAD_TOO_LARGE);
    ck_assert_uint_eq(err.limit, TD_INFLATE_FREE);
    free(plain.data);
    free(packed.data);
    free(more.data);
    free(more_packed.data);
}

/* Stops at the check that *context counts down to. */
static td_status stop_at(void *context, struct td_error *err)
{
    return --*(int *)context == 0 ? td_error_set(err, TD_DRAINING, "stopped") : TD_OK;
}

/* Noise has its buffer at once. The buffer of text grows, and a copy of more than 8 MiB is stopped
 * too. */
TD_TEST_LOOP(a_large_output_is_stopped_between_any_two_steps, 0, 2)
{
    const bool noise = _i == 1;
    enum { BYTES = (16 << 20) + 1, DENSE = 300000 };
    struct td_error err;
    struct bytes plain = sample(BYTES, noise), dense = sample(DENSE, true);
    memcpy(plain.data, dense.data, DENSE); /* so that the first buffer has 1 MiB */
    const struct bytes packed = compress_as(15, 1, plain);
    td_status status = TD_DRAINING;
    int check = 0;
    while (status == TD_DRAINING) {
        struct td_buffer *out = NULL;
        size_t size;
        int left = ++check;
        const struct td_stop stop = { stop_at, &left };
        status = td_inflate(packed.data, packed.size,
                            &(struct td_inflate_limits){ .bytes = SIZE_MAX / 4 }, PADDING,
                            &counting.memory, &stop, &out, &size, &err);
        ck_assert_int_eq(left, status == TD_DRAINING ? 0 : 1);
        td_buffer_unref(out);
    }
    ck_assert_int_eq(status, TD_OK);
    /* Noise: after 8 and 16 MiB. Text: with 1, 2, 4 and 8 MiB, and in the copy of the last. */
    ck_assert_int_eq(check - 1, noise ? 2 : 5);
    free(plain.data);
    free(dense.data);
    free(packed.data);
}

TD_FIXTURE(counting_begin, NULL);
