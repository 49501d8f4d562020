#include "api/text/base64.h"
#include "tests/api/request.h"
#include "tests/support/random.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* RFC 4648, section 10, and bytes that are encoded with the last characters of the alphabet. */
static const struct {
    const char *bytes, *text;
} vectors[] = {
    { "", "" },
    { "f", "Zg==" },
    { "fo", "Zm8=" },
    { "foo", "Zm9v" },
    { "foob", "Zm9vYg==" },
    { "fooba", "Zm9vYmE=" },
    { "foobar", "Zm9vYmFy" },
    { "\xfb\xff\xbf", "+/+/" },
};

TD_TEST_EACH(the_vectors_of_the_rfc, vectors)
{
    char text[16], bytes[16];
    size_t size, length = strlen(vectors[_i].bytes);
    ck_assert(td_base64_encoded_size(length, &size));
    ck_assert_uint_eq(size, strlen(vectors[_i].text));
    ck_assert_ptr_eq(td_base64_encode(text, vectors[_i].bytes, length), text + size);
    ck_assert_mem_eq(text, vectors[_i].text, size);
    ck_assert(td_base64_decoded_size(text, size, &length));
    ck_assert_uint_eq(length, strlen(vectors[_i].bytes));
    ck_assert_uint_eq(td_base64_decode(bytes, text, size), size);
    ck_assert_mem_eq(bytes, vectors[_i].bytes, length);
}

static const struct {
    const char *case_name, *text;
    size_t wrong;
} malformed[] = {
    { "a character of the URL alphabet", "Zm9-Zm9v", 3 },
    { "a space", "Zm 9", 2 },
    { "a newline", "Zm9v\nm9v", 4 },
    { "padding in the middle", "Zg==Zg==", 2 },
    { "only padding", "====", 0 },
    { "three padding characters", "Z===", 1 },
    { "padding before a character", "Zg=v", 2 },
    { "a byte above 127", "Zm9\xe9", 3 },
    { "nonzero unused bits, one byte", "Zh==", 1 },
    { "the highest unused bit", "ZI==", 1 },
    { "nonzero unused bits, two bytes", "Zm9=", 2 },
    { "an invalid character before padding", "Z.==", 1 },
    { "an invalid character before padding, two bytes", "Zm.=", 2 },
};

TD_TEST_EACH(invalid_characters_are_reported_by_position, malformed)
{
    char bytes[16];
    size_t length = strlen(malformed[_i].text), size;
    ck_assert(td_base64_decoded_size(malformed[_i].text, length, &size));
    size_t done = td_base64_decode(bytes, malformed[_i].text, length);
    ck_assert_msg(done == malformed[_i].wrong, "%s: %zu", malformed[_i].case_name, done);
}

TD_TEST(lengths_that_are_not_multiples_of_four_are_refused)
{
    size_t size;
    ck_assert(!td_base64_decoded_size("Zm9", 3, &size));
    ck_assert(!td_base64_decoded_size("Zm9vZ", 5, &size));
    ck_assert(!td_base64_encoded_size(SIZE_MAX, &size));
}

TD_TEST(all_lengths_and_bytes_round_trip)
{
    uint64_t seed = 64;
    for (size_t length = 0; length < 600; length++) {
        size_t size, again;
        ck_assert(td_base64_encoded_size(length, &size));
        unsigned char *bytes = malloc(length + 1), *back = malloc(length + 1);
        char *text = malloc(size + 1);
        for (size_t i = 0; i < length; i++)
            bytes[i] = (unsigned char)random_from(&seed);
        text = realloc(text, size ? size : 1);
        back = realloc(back, length ? length : 1);
        EXPECT(td_base64_encode(text, bytes, length) == text + size, "%zu", length);
        EXPECT(td_base64_decoded_size(text, size, &again) && again == length, "%zu", length);
        EXPECT(td_base64_decode(back, text, size) == size, "%zu", length);
        EXPECT(memcmp(bytes, back, length) == 0, "%zu", length);
        free(bytes);
        free(back);
        free(text);
    }
}
