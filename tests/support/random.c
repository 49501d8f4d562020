#include "tests/support/random.h"

#include "tests/support/tensors.h"

#include <string.h>

static uint64_t state;

void random_seed(uint64_t seed)
{
    state = seed;
}

uint64_t random_from(uint64_t *from) /* splitmix64 */
{
    uint64_t z = (*from += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

uint64_t random_next(void)
{
    return random_from(&state);
}

int random_below(int n)
{
    return (int)(random_next() % (uint64_t)n);
}

struct td_tensor random_tensor(td_dtype dtype, const struct td_shape *dims)
{
    struct td_tensor t;
    struct td_error err;
    EXPECT(td_tensor_describe(&t, "random", dtype, dims, &err) == TD_OK &&
               td_tensor_alloc(&t, &test_arena, &err) == TD_OK,
           "%s", err.message);
    if (dtype == TD_DTYPE_STRING) {
        for (int64_t i = 0; i < t.numel; i++)
            t.offsets[i + 1] = t.offsets[i] + (uint64_t)(random_below(3) * random_below(9));
        t.bytes = t.offsets[t.numel];
        t.data = td_arena_alloc(&test_arena, t.bytes, 1, &err);
    }
    for (size_t i = 0; i < t.bytes; i += sizeof(uint64_t)) {
        const uint64_t bits = random_next();
        memcpy((char *)t.data + i, &bits, t.bytes - i < sizeof(bits) ? t.bytes - i : sizeof(bits));
    }
    return t;
}

const void *tensor_element(const struct td_tensor *t, int64_t i, size_t *size)
{
    if (t->dtype == TD_DTYPE_STRING) {
        *size = t->offsets[i + 1] - t->offsets[i];
        return (const char *)t->data + t->offsets[i];
    }
    *size = td_dtype_info(t->dtype)->size;
    return (const char *)t->data + (size_t)i * *size;
}
