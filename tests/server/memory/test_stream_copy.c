#include "server/memory/stream_copy.h"
#include "tests/support/suite.h"

#include <stdlib.h>
#include <string.h>

/* Buffers of the exact size, so that AddressSanitizer detects an overrun. */
TD_TEST(copies_every_byte_at_any_alignment_and_nothing_else)
{
    static const size_t sizes[] = { 0, 1, 63, 64, 1023, 1024, 1025, 1087, 4096, 16384, 16391 };
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (size_t shift = 0; shift < 64; shift += 7) {
            const size_t size = sizes[s];
            char *from = malloc(size + shift + 1), *to = calloc(1, size + 2 * shift + 2);
            for (size_t i = 0; i < size + shift + 1; i++)
                from[i] = (char)(i * 31 + 1);
            td_stream_copy(to + shift, from + shift / 2, size);
            ck_assert_int_eq(memcmp(to + shift, from + shift / 2, size), 0);
            for (size_t i = 0; i < shift; i++)
                ck_assert_int_eq(to[i], 0);
            for (size_t i = size + shift; i < size + 2 * shift + 2; i++)
                ck_assert_int_eq(to[i], 0);
            free(from);
            free(to);
        }
}
