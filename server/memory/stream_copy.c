#include "server/memory/stream_copy.h"

#include <stdint.h>
#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>

enum { LINE = 64, SHORT = 1024 };

static void stream_line(char *to, const char *from)
{
    for (int i = 0; i < LINE; i += (int)sizeof(__m128i))
        _mm_stream_si128((__m128i *)(void *)(to + i),
                         _mm_loadu_si128((const __m128i *)(const void *)(from + i)));
}

void td_stream_copy(char *to, const char *from, size_t bytes)
{
    const size_t head = (size_t)(-(uintptr_t)to & (LINE - 1));
    if (bytes < SHORT) {
        memcpy(to, from, bytes);
        return;
    }
    memcpy(to, from, head);
    size_t done = head;
    for (; bytes - done >= LINE; done += LINE)
        stream_line(to + done, from + done);
    /* Required because non-temporal stores are not ordered before later stores. */
    _mm_sfence();
    memcpy(to + done, from + done, bytes - done);
}

#else

void td_stream_copy(char *to, const char *from, size_t bytes)
{
    memcpy(to, from, bytes);
}

#endif
