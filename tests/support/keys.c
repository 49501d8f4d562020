#include "tests/support/keys.h"

#include "tests/support/random.h"
#include "tests/support/tensors.h"

#include <stdlib.h>
#include <string.h>

/* One to one, so different numbers are different keys. */
static uint64_t scatter(uint64_t number)
{
    uint64_t z = number * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Even numbers are keys, odd ones are not. */
static uint64_t key_number(uint64_t salt, int64_t i)
{
    return scatter(2 * (uint64_t)i + (salt << 40));
}

static uint64_t other_number(uint64_t salt)
{
    return scatter(2 * random_next() + 1 + (salt << 40));
}

#define LONGEST 40

/* A string that begins with the eight bytes of the number; of the number 0 the empty string. */
static size_t write_string(uint64_t number, char *to)
{
    const size_t length = number ? sizeof(number) + number % (LONGEST - sizeof(number) + 1) : 0;
    memset(to, (int)(number >> 8), length);
    if (length)
        memcpy(to, &number, sizeof(number));
    return length;
}

/* A tensor of the keys of these numbers. */
static struct td_tensor keys_of(td_dtype dtype, const struct td_shape *dims,
                                const uint64_t *numbers)
{
    struct td_tensor t;
    struct td_error err;
    EXPECT(td_tensor_describe(&t, "keys", dtype, dims, &err) == TD_OK &&
               td_tensor_alloc(&t, &test_arena, &err) == TD_OK,
           "%s", err.message);
    if (dtype != TD_DTYPE_STRING) {
        memcpy(t.data, numbers, t.bytes);
        return t;
    }
    t.data = td_arena_alloc(&test_arena, (size_t)t.numel, LONGEST, &err);
    EXPECT(t.data != NULL, "%s", err.message);
    for (int64_t i = 0; i < t.numel; i++)
        t.offsets[i + 1] = t.offsets[i] + write_string(numbers[i], (char *)t.data + t.offsets[i]);
    t.bytes = t.offsets[t.numel];
    return t;
}

static int compare_unsigned(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static int compare_signed(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static int compare_bytes(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(uint64_t));
}

struct td_tensor distinct_keys(td_dtype dtype, int64_t n, uint64_t salt, bool ascending)
{
    const struct td_shape dims = { .rank = 1, .dim = { n } };
    struct td_error err;
    uint64_t *numbers = td_arena_alloc(&test_arena, (size_t)n, sizeof(numbers[0]), &err);
    EXPECT(numbers != NULL, "%s", err.message);
    for (int64_t i = 0; i < n; i++)
        numbers[i] = dtype == TD_DTYPE_STRING && i == 0 ? 0 : key_number(salt, i);
    if (ascending)
        qsort(numbers, (size_t)n, sizeof(numbers[0]),
              dtype == TD_DTYPE_INT64    ? compare_signed
              : dtype == TD_DTYPE_UINT64 ? compare_unsigned
                                         : compare_bytes);
    return keys_of(dtype, &dims, numbers);
}

struct td_tensor queries_of(const struct td_tensor *keys, uint64_t salt,
                            const struct td_shape *dims, int64_t *rows)
{
    int64_t numel;
    struct td_error err;
    EXPECT(td_shape_product(dims, 0, dims->rank, &numel), "the shape is too large");
    uint64_t *numbers = td_arena_alloc(&test_arena, (size_t)numel, sizeof(numbers[0]), &err);
    EXPECT(numbers != NULL, "%s", err.message);
    for (int64_t i = 0; i < numel; i++) {
        rows[i] = keys->numel > 0 && random_below(5) > 0
                      ? (int64_t)(random_next() % (uint64_t)keys->numel)
                      : -1;
        numbers[i] = 0;
        size_t size = 0;
        const void *key = rows[i] < 0 ? NULL : tensor_element(keys, rows[i], &size);
        if (rows[i] < 0)
            numbers[i] = other_number(salt);
        else if (size > 0)
            memcpy(&numbers[i], key, sizeof(numbers[i]));
    }
    return keys_of(keys->dtype, dims, numbers);
}
