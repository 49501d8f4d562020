#include "kernels/key_index/key_index.h"
#include "tests/support/random.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"
#include "tests/support/threads.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static struct td_error err;

static void *image_of(const struct td_tensor *keys, struct td_exec *exec)
{
    struct td_exec serial;
    td_exec_serial(&serial, &test_arena);
    void *image = td_arena_alloc(&test_arena, td_key_index_bytes(keys->numel), 1, &err);
    ck_assert_ptr_nonnull(image);
    EXPECT_OK(td_key_index_build(keys, "keys", 7, image, exec ? exec : &serial, &err), &err);
    return image;
}

static struct td_key_index index_of(const struct td_tensor *keys, struct td_exec *exec)
{
    struct td_key_index index;
    ck_assert(
        td_key_index_open(image_of(keys, exec), td_key_index_bytes(keys->numel), keys, &index));
    return index;
}

static const struct {
    const char *says;
    const char *keys, *queries, *rows;
} found[] = {
    { "keys give their rows, others none", "int64[3] 7 -1 9", "int64[4] 9 8 7 -1",
      "int64[4] 2 -1 0 1" },
    { "unsigned keys above signed ones", "uint64[2] 18446744073709551615 9223372036854775808",
      "uint64[3] 9223372036854775808 1 18446744073709551615", "int64[3] 1 -1 0" },
    { "strings", "string[3] 'king' 'queen' 'rook'", "string[3] 'queen' 'kin' 'king'",
      "int64[3] 1 -1 0" },
    { "every byte of a string counts", "string[4] 'a\\x00b' 'a\\x00' 'a' ''",
      "string[5] '' 'a' 'a\\x00b' 'a\\x00' '\\x00'", "int64[5] 3 2 0 1 -1" },
    { "a query may be repeated", "int64[2] 5 6", "int64[4] 6 6 5 6", "int64[4] 1 1 0 1" },
    { "no keys", "int64[0]", "int64[2] 0 1", "int64[2] -1 -1" },
    { "no strings", "string[0]", "string[1] ''", "int64[1] -1" },
    { "no queries", "uint64[1] 4", "uint64[0]", "int64[0]" },
};

TD_TEST_EACH(a_search_gives, found)
{
    const struct td_tensor keys = tensor(found[_i].keys), queries = tensor(found[_i].queries);
    const struct td_key_index index = index_of(&keys, NULL);
    struct td_tensor rows = tensor(found[_i].rows);
    int64_t *want = rows.data;
    int64_t *got = td_arena_alloc(&test_arena, (size_t)queries.numel + 1, sizeof(*got), &err);
    ck_assert_ptr_nonnull(got);
    td_key_index_find(&index, &queries, 0, queries.numel, got);
    for (int64_t i = 0; i < queries.numel; i++)
        EXPECT(got[i] == want[i], "%s: query %" PRId64 " gives %" PRId64, found[_i].says, i,
               got[i]);
}

TD_TEST(a_search_may_begin_at_any_query)
{
    const struct td_tensor keys = tensor("int64[3] 1 2 3"), queries = tensor("int64[4] 9 3 1 2");
    const struct td_key_index index = index_of(&keys, NULL);
    int64_t rows[2];
    td_key_index_find(&index, &queries, 1, 2, rows);
    ck_assert(rows[0] == 2 && rows[1] == 0);
}

/* With few blocks a search may come to the first one again. */
TD_TEST(few_keys_are_found_whatever_the_seed)
{
    int64_t values[60], rows[60];
    struct td_tensor keys = { .dtype = TD_DTYPE_INT64, .shape = { .rank = 1 }, .data = values };
    struct td_key_index index;
    struct td_exec serial;
    td_exec_serial(&serial, &test_arena);
    for (int n = 1; n <= 60; n++)
        for (uint64_t seed = 0; seed < 200; seed++) {
            _Alignas(TD_KEY_INDEX_ALIGN) char image[1024];
            keys.shape.dim[0] = keys.numel = n;
            for (int i = 0; i < n; i++)
                values[i] = i;
            ck_assert_int_eq(td_key_index_build(&keys, "keys", seed, image, &serial, &err), TD_OK);
            EXPECT(td_key_index_open(image, td_key_index_bytes(n), &keys, &index),
                   "%d keys, seed %" PRIu64, n, seed);
            td_key_index_find(&index, &keys, 0, n, rows);
            for (int i = 0; i < n; i++)
                EXPECT(rows[i] == i, "%d keys, seed %" PRIu64 ", key %d", n, seed, i);
        }
}

static const struct {
    const char *keys;
    int64_t first, second;
} equal_keys[] = {
    { "int64[4] 5 6 5 6", 0, 2 },
    { "int64[6] 1 2 3 4 5 3", 2, 5 },
    { "string[4] '' 'a' 'b' 'a'", 1, 3 },
    { "uint64[5] 1 1 1 1 1", 0, 1 },
};

TD_TEST_EACH(equal_keys_are_refused_with_the_positions_of_the_first_two, equal_keys)
{
    const struct td_tensor keys = tensor(equal_keys[_i].keys);
    struct td_exec exec;
    td_exec_serial(&exec, &test_arena);
    void *image = td_arena_alloc(&test_arena, td_key_index_bytes(keys.numel), 1, &err);
    ck_assert_int_eq(td_key_index_build(&keys, "X.keys", 1, image, &exec, &err),
                     TD_INVALID_ARGUMENT);
    ck_assert_str_eq(err.input, "X.keys");
    ck_assert(err.has_equal);
    ck_assert_int_eq(err.equal[0], equal_keys[_i].first);
    ck_assert_int_eq(err.equal[1], equal_keys[_i].second);
}

enum { MANY = 100000 };

/* Distinct keys: even numbers in no order, or their digits. */
static struct td_tensor many_keys(td_dtype dtype, int64_t n, uint64_t add)
{
    const struct td_shape vector = { .rank = 1, .dim = { n } };
    struct td_tensor keys;
    ck_assert_int_eq(td_tensor_describe(&keys, "keys", dtype, &vector, &err), TD_OK);
    if (dtype == TD_DTYPE_STRING)
        keys.bytes = (size_t)n * 20;
    ck_assert_int_eq(td_tensor_alloc(&keys, &test_arena, &err), TD_OK);
    for (int64_t i = 0; i < n; i++) {
        const uint64_t number = ((uint64_t)i * 0x9E3779B97F4A7C15u & ~(uint64_t)1) + add;
        if (dtype != TD_DTYPE_STRING) {
            ((uint64_t *)keys.data)[i] = number;
            continue;
        }
        char text[24];
        const int length = snprintf(text, sizeof(text), "%" PRIx64, number);
        memcpy((char *)keys.data + keys.offsets[i], text, (size_t)length);
        keys.offsets[i + 1] = keys.offsets[i] + (uint64_t)length;
    }
    return keys;
}

static void expect_rows(const struct td_key_index *index, const struct td_tensor *queries,
                        bool are_keys)
{
    int64_t *rows = td_arena_alloc(&test_arena, (size_t)queries->numel, sizeof(*rows), &err);
    ck_assert_ptr_nonnull(rows);
    td_key_index_find(index, queries, 0, queries->numel, rows);
    for (int64_t i = 0; i < queries->numel; i++)
        EXPECT(rows[i] == (are_keys ? i : -1), "query %" PRId64 " gives %" PRId64, i, rows[i]);
}

static const td_dtype dtypes[] = { TD_DTYPE_INT64, TD_DTYPE_UINT64, TD_DTYPE_STRING };

TD_TEST_EACH(all_of_many_keys_are_found_and_no_others, dtypes)
{
    const struct td_tensor keys = many_keys(dtypes[_i], MANY, 0);
    const struct td_tensor others = many_keys(dtypes[_i], MANY, 1);
    for (int threads = 1; threads <= MOST_THREADS; threads++) {
        struct thread_exec exec;
        thread_exec_init(&exec, threads, 500);
        const struct td_key_index index = index_of(&keys, &exec.exec);
        expect_rows(&index, &keys, true);
        expect_rows(&index, &others, false);
        ck_assert_uint_lt(index.longest, 50);
    }
}

TD_TEST(threads_find_the_same_equal_keys)
{
    struct td_tensor keys = many_keys(TD_DTYPE_INT64, MANY, 0);
    int64_t *values = keys.data;
    values[MANY - 7] = values[MANY - 1] = values[60] = values[3000]; /* the first: 60 and 3000 */
    values[50000] = values[20];
    void *image = td_arena_alloc(&test_arena, td_key_index_bytes(MANY), 1, &err);
    for (int i = 0; i < 20; i++) {
        struct thread_exec exec;
        thread_exec_init(&exec, MOST_THREADS, 100);
        ck_assert_int_eq(td_key_index_build(&keys, "keys", 1, image, &exec.exec, &err),
                         TD_INVALID_ARGUMENT);
        ck_assert_int_eq(err.equal[0], 60);
        ck_assert_int_eq(err.equal[1], 3000);
    }
}

/* A few hundred blocks are searched by tag, so some have the tag of a query but not its key. */
TD_TEST(a_seed_decides_on_places_and_not_on_results)
{
    const struct td_tensor keys = many_keys(TD_DTYPE_INT64, 5000, 0);
    const struct td_tensor others = many_keys(TD_DTYPE_INT64, 5000, 1);
    const size_t bytes = td_key_index_bytes(5000);
    void *images[2];
    struct td_exec exec;
    td_exec_serial(&exec, &test_arena);
    for (int i = 0; i < 2; i++) {
        struct td_key_index index;
        images[i] = td_arena_alloc(&test_arena, bytes, 1, &err);
        const uint64_t seed = i ? UINT64_MAX : 0;
        ck_assert_int_eq(td_key_index_build(&keys, "keys", seed, images[i], &exec, &err), TD_OK);
        ck_assert(td_key_index_open(images[i], bytes, &keys, &index));
        expect_rows(&index, &keys, true);
        expect_rows(&index, &others, false);
    }
    ck_assert_mem_ne((char *)images[0] + 64, (char *)images[1] + 64, bytes - 64);
}

TD_TEST(an_image_is_opened_only_beside_such_keys)
{
    const struct td_tensor keys = many_keys(TD_DTYPE_INT64, 1000, 0);
    const struct td_tensor fewer = many_keys(TD_DTYPE_INT64, 999, 0);
    const struct td_tensor others = many_keys(TD_DTYPE_UINT64, 1000, 0);
    const struct td_tensor matrix = tensor("int64[1,1] 0");
    const size_t bytes = td_key_index_bytes(1000);
    char *image = image_of(&keys, NULL);
    struct td_key_index index;
    ck_assert(td_key_index_open(image, bytes, &keys, &index));
    ck_assert(!td_key_index_open(image, bytes - 64, &keys, &index));
    ck_assert(!td_key_index_open(image, bytes, &fewer, &index));
    ck_assert(!td_key_index_open(image, bytes, &others, &index));
    ck_assert(!td_key_index_open(image, td_key_index_bytes(1), &matrix, &index));
    ck_assert(!td_key_index_open(image + 1, bytes, &keys, &index));
    for (int i = 0; i < 32; i++) {
        image[i] ^= 1;
        ck_assert_msg(!td_key_index_open(image, bytes, &keys, &index), "byte %d", i);
        image[i] ^= 1;
    }
}

/* Each bit of the image may be wrong: then keys may be missing, but none has another's row, and
 * nothing outside the keys is read (AddressSanitizer would say so). */
TD_TEST_EACH(a_damaged_image_gives_no_wrong_row, dtypes)
{
    const struct td_tensor keys = many_keys(dtypes[_i], 300, 0);
    const size_t bytes = td_key_index_bytes(300);
    unsigned char *image = image_of(&keys, NULL);
    unsigned char *damaged = td_arena_alloc(&test_arena, bytes, 1, &err);
    int64_t rows[300];
    for (int round = 0; round < 300; round++) {
        memcpy(damaged, image, bytes);
        for (int i = 0; i < round; i++)
            damaged[64 + random_below((int)bytes - 64)] = (unsigned char)random_next();
        struct td_key_index index;
        ck_assert(td_key_index_open(damaged, bytes, &keys, &index));
        td_key_index_find(&index, &keys, 0, 300, rows);
        for (int i = 0; i < 300; i++)
            EXPECT(rows[i] == i || rows[i] == -1, "row %" PRId64 " for key %d", rows[i], i);
    }
}

/* What follows the keys in memory is no key of theirs, even if it is equal to the query. */
TD_TEST(a_damaged_image_of_no_keys_gives_no_row)
{
    const struct td_tensor query = tensor("int64[1] 5");
    struct td_tensor keys = query;
    keys.numel = keys.shape.dim[0] = 0;
    keys.bytes = 0;
    const size_t bytes = td_key_index_bytes(0);
    unsigned char *image = image_of(&keys, NULL);
    for (int tag = 1; tag < 256; tag++) {
        struct td_key_index index;
        int64_t row;
        memset(image + 64, tag, 12);
        ck_assert(td_key_index_open(image, bytes, &keys, &index));
        td_key_index_find(&index, &query, 0, 1, &row);
        ck_assert_int_eq(row, TD_ROW_NONE);
    }
}

#ifdef TD_KEY_INDEX_NARROW_KEYS
#define TENTHS_OF_BYTES 130
#else
#define TENTHS_OF_BYTES 65
#endif

TD_TEST(an_index_takes_at_most_6_5_bytes_a_key)
{
    for (uint64_t n = 10000; n < UINT32_MAX / 2; n *= 3)
        ck_assert_uint_le(10 * td_key_index_bytes((int64_t)n), TENTHS_OF_BYTES * n);
    ck_assert_uint_eq(td_key_index_bytes(0), 128);
    ck_assert_uint_eq(td_key_index_bytes(INT64_MAX), 0);
}

TD_TEST(a_build_ends_at_its_deadline)
{
    const struct td_tensor keys = many_keys(TD_DTYPE_INT64, MANY, 0);
    void *image = td_arena_alloc(&test_arena, td_key_index_bytes(MANY), 1, &err);
    struct thread_exec exec;
    thread_exec_init(&exec, 1, 0);
    exec.ranges_allowed = 3;
    ck_assert_int_eq(td_key_index_build(&keys, "keys", 1, image, &exec.exec, &err),
                     TD_DEADLINE_EXCEEDED);
}
