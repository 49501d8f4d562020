/* fuzz_keys.c - the index of keys: built, damaged, searched; compared with plain loops.
 *
 * Input    A byte that selects the dtype of the keys, one for the seed, the number of keys and that
 *          of queries; these, numbers of two bytes or strings after a byte with their length; then
 *          the damage: an offset in two bytes, little-endian, and a byte that is combined with the
 *          one there by exclusive or; and so on.
 *
 * An index without damage finds every key. With damage it finds none, or one that is equal. */

/* Row numbers of more keys are 64 bits wide. */
#define TD_KEY_INDEX_NARROW_KEYS 100
#define td_key_index_bytes       fuzzed_key_index_bytes
#define td_key_index_build       fuzzed_key_index_build
#define td_key_index_open        fuzzed_key_index_open
#define td_key_index_image       fuzzed_key_index_image
#define td_key_index_find        fuzzed_key_index_find

#include "kernels/key_index/key_index.c"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>

enum { MOST_KEYS = 255, LONGEST_KEY = 7 };

/* Its memory is exactly as large as the keys. */
static struct td_tensor read_vector(const uint8_t **data, size_t *size, td_dtype dtype, int n)
{
    uint64_t numbers[MOST_KEYS] = { 0 }, offsets[MOST_KEYS + 1] = { 0 };
    uint8_t bytes[MOST_KEYS * LONGEST_KEY] = { 0 };
    const struct td_shape shape = { .rank = 1, .dim = { n } };
    struct td_tensor vector;
    struct td_error err;
    REQUIRE(td_tensor_describe(&vector, "keys", dtype, &shape, &err) == TD_OK, "%s", err.message);
    for (int i = 0; i < n; i++) {
        const uint8_t first = fuzz_byte(data, size);
        offsets[i + 1] = offsets[i] + first % (LONGEST_KEY + 1);
        for (uint64_t at = offsets[i]; dtype == TD_DTYPE_STRING && at < offsets[i + 1]; at++)
            bytes[at] = fuzz_byte(data, size);
        if (dtype != TD_DTYPE_STRING)
            numbers[i] = (uint64_t)(int8_t)first << 8 | fuzz_byte(data, size);
    }
    if (dtype == TD_DTYPE_STRING) {
        vector.bytes = offsets[n];
        vector.data = fuzz_copy(bytes, vector.bytes, 0);
        vector.offsets =
            (void *)fuzz_copy((const uint8_t *)offsets, ((size_t)n + 1) * sizeof offsets[0], 0);
    } else {
        vector.data = fuzz_copy((const uint8_t *)numbers, vector.bytes, 0);
    }
    return vector;
}

static void free_vector(struct td_tensor *vector)
{
    free(vector->data);
    free(vector->offsets);
}

/* The first row that has the query, or TD_ROW_NONE. */
static int64_t row_of(const struct td_tensor *keys, const struct td_tensor *queries, int64_t query)
{
    for (int64_t row = 0; row < keys->numel; row++)
        if (equal(keys, (uint64_t)row, queries, query, keys->dtype == TD_DTYPE_STRING))
            return row;
    return TD_ROW_NONE;
}

/* The pair of equal keys of which the second comes first; second is -1 if there is none. */
static void equal_keys(const struct td_tensor *keys, int64_t *first, int64_t *second)
{
    for (*second = 0; *second < keys->numel; ++*second) {
        *first = row_of(keys, keys, *second);
        if (*first < *second)
            return;
    }
    *second = -1;
}

static void expect_built(const struct td_tensor *keys, td_status status, const struct td_error *err)
{
    int64_t first = 0, second;
    equal_keys(keys, &first, &second);
    REQUIRE((status == TD_OK) == (second < 0), "%s", td_status_name(status));
    if (status == TD_OK)
        return;
    fuzz_expect_error(err, status, 0);
    REQUIRE(err->has_equal && err->equal[0] == first && err->equal[1] == second,
            "keys %lld and %lld are equal, %lld and %lld in the error", (long long)first,
            (long long)second, (long long)err->equal[0], (long long)err->equal[1]);
}

static bool damage(uint8_t *image, size_t bytes, const uint8_t *data, size_t size)
{
    uint8_t *before = (uint8_t *)fuzz_copy(image, bytes, 0);
    for (; size >= 3; data += 3, size -= 3)
        image[((size_t)data[0] | (size_t)data[1] << 8) % bytes] ^= data[2];
    const bool damaged = memcmp(before, image, bytes) != 0;
    free(before);
    return damaged;
}

static void expect_rows(const struct td_key_index *index, const struct td_tensor *queries,
                        bool damaged)
{
    int64_t rows[MOST_KEYS];
    td_key_index_find(index, queries, 0, queries->numel, rows);
    for (int64_t i = 0; i < queries->numel; i++) {
        const int64_t want = row_of(&index->keys, queries, i);
        REQUIRE(rows[i] == want || (damaged && rows[i] == TD_ROW_NONE),
                "query %lld has row %lld, not %lld", (long long)i, (long long)want,
                (long long)rows[i]);
    }
}

static void search_built(uint8_t *image, size_t bytes, const struct td_tensor *keys,
                         const struct td_tensor *queries, bool damaged)
{
    struct td_key_index index;
    if (!td_key_index_open(image, bytes, keys, &index)) {
        REQUIRE(damaged, "an index without damage does not open");
        return;
    }
    expect_rows(&index, keys, damaged);
    expect_rows(&index, queries, damaged);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const td_dtype dtypes[] = { TD_DTYPE_INT64, TD_DTYPE_UINT64, TD_DTYPE_STRING };
    struct td_exec serial;
    struct td_error err = { 0 };
    const td_dtype dtype = dtypes[fuzz_byte(&data, &size) % 3];
    const uint8_t seed = fuzz_byte(&data, &size);
    const int n_keys = fuzz_byte(&data, &size), n_queries = fuzz_byte(&data, &size);
    struct td_tensor keys = read_vector(&data, &size, dtype, n_keys);
    struct td_tensor queries = read_vector(&data, &size, dtype, n_queries);
    const size_t bytes = td_key_index_bytes(n_keys);
    uint8_t *image = malloc(bytes);
    REQUIRE(image, "no memory");
    td_exec_serial(&serial, NULL);
    const td_status status = td_key_index_build(&keys, "keys", seed, image, &serial, &err);
    expect_built(&keys, status, &err);
    if (status == TD_OK)
        search_built(image, bytes, &keys, &queries, damage(image, bytes, data, size));
    free(image);
    free_vector(&keys);
    free_vector(&queries);
    return 0;
}
