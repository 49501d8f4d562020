#include "kernels/find/find.h"
#include "kernels/key_index/key_index.h"
#include "tests/support/keys.h"
#include "tests/support/op_call.h"
#include "tests/support/random.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"
#include "tests/support/threads.h"

#include <stdio.h>
#include <string.h>

#define OP "find"

/* Beside those of tests/conformance/cases. */
static const struct {
    const char *says;
    const char *keys, *queries, *output;
} results[] = {
    { "strings by all of their bytes", "string[5] 'a' '' 'a\\x00' 'ab' '\\xff'",
      "string[7] 'ab' '' 'a\\x00' '\\xff' '\\x00' 'a' 'a\\x00\\x00'", "int64[7] 3 1 2 4 -1 0 -1" },
    { "strings longer than a line",
      "string[2] 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab' "
      "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaac'",
      "string[1] 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaac'",
      "int64[1] 1" },
    { "keys of 32 bits become int64", "int32[3] -1 2147483647 5",
      "uint32[3] 4294967295 5 2147483647", "int64[3] -1 2 1" },
    { "or uint64 beside it", "uint64[2] 5 4294967295", "uint32[2] 4294967295 4", "int64[2] 1 -1" },
    { "no queries", "int64[2] 1 2", "int64[0]", "int64[0]" },
    { "no queries in several dimensions", "string[2] 'a' 'b'", "string[3,0]", "int64[3,0]" },
    { "neither keys nor queries", "uint64[0]", "uint64[0]", "int64[0]" },
    { "few of many keys in ascending order",
      "int64[16] -9223372036854775808 -9 -2 0 1 5 8 9 100 101 102 103 104 105 106 "
      "9223372036854775807",
      "int64[3] 9223372036854775807 -9 2", "int64[3] 15 1 -1" },
    { "unsigned ones", "uint64[8] 0 1 2 3 4 5 9223372036854775808 18446744073709551615",
      "uint64[1] 18446744073709551615", "int64[1] 7" },
    { "strings in the order of their bytes",
      "string[16] '' '\\x00' 'a' 'a\\x00' 'ab' 'b' '\\x7f' '\\x80' '\\x81' '\\x82' '\\x83' "
      "'\\x84' '\\x85' '\\x86' '\\x87' '\\xff'",
      "string[3] 'a\\x00' '\\x80' 'aa'", "int64[3] 3 7 -1" },
};

TD_TEST_EACH(find_gives, results)
{
    struct op_call call;
    call_op(&call, OP, "", tensor(results[_i].keys), tensor(results[_i].queries), NULL);
    ck_assert_msg(call.status == TD_OK, "%s: %s", results[_i].says, call.err.message);
    expect_tensor(&call.args.outputs[0], results[_i].output, results[_i].says);
}

static const struct {
    const char *says;
    const char *keys, *queries;
    td_status status;
    const char *message, *input;
} refusals[] = {
    { "keys and queries of different dtypes", "int64[1] 1", "uint64[1] 1", TD_UNSUPPORTED_DTYPE,
      "queries has dtype uint64 and keys int64; the dtypes must be equal: pass it as int64; a "
      "value that does not fit cannot be one of the keys",
      "queries" },
    { "strings and numbers", "string[1] 'a'", "int64[1] 1", TD_UNSUPPORTED_DTYPE,
      "queries has dtype int64 and keys string; the dtypes must be equal: pass it as string",
      "queries" },
    { "other integers", "int16[1] 1", "int16[1] 1", TD_UNSUPPORTED_DTYPE,
      "keys has dtype int16; expected int32, int64, uint32, uint64 or string; the op cast with "
      "dtype = int32 converts it",
      "keys" },
    { "int32 beside uint64, which has no negative keys", "uint64[1] 1", "int32[1] 1",
      TD_UNSUPPORTED_DTYPE,
      "queries has dtype int32 and keys uint64; the dtypes must be equal: pass it as uint64; a "
      "value that does not fit cannot be one of the keys",
      "queries" },
    { "floats", "float64[1] 1", "float64[1] 1", TD_UNSUPPORTED_DTYPE,
      "keys has dtype float64; expected int32, int64, uint32, uint64 or string", "keys" },
    { "a scalar key", "int64[] 1", "int64[1] 1", TD_SHAPE_MISMATCH,
      "keys has shape []; expected a vector", "keys" },
    { "a matrix of keys", "int64[1,2] 1 2", "int64[1] 1", TD_SHAPE_MISMATCH,
      "keys has shape [1,2]; expected a vector", "keys" },
};

TD_TEST_EACH(find_refuses, refusals)
{
    struct op_call call;
    call_begin(&call, OP, "", tensor(refusals[_i].keys), tensor(refusals[_i].queries));
    call_infer(&call, OP);
    expect_refusal(&call, refusals[_i].status, refusals[_i].message, refusals[_i].input, "",
                   refusals[_i].says);
}

static const struct {
    const char *says;
    const char *keys, *queries;
    int64_t first, second;
} duplicates[] = {
    { "two equal keys", "int64[3] 7 8 7", "int64[1] 8", 0, 2 },
    { "of several the pair that is complete first", "uint64[7] 9 0 5 12 1 5 0", "uint64[1] 9", 2,
      5 },
    { "of three the first two", "int64[4] 4 3 3 3", "int64[1] 4", 1, 2 },
    { "also in ascending order", "int64[6] 1 2 3 3 4 5", "int64[1] 1", 2, 3 },
    { "and few queries", "int64[16] 1 2 3 4 5 6 7 8 9 9 10 11 12 13 14 15", "int64[1] 1", 8, 9 },
    { "also without queries", "int64[2] 1 1", "int64[0]", 0, 1 },
    { "empty strings", "string[3] '' 'a' ''", "string[1] 'a'", 0, 2 },
    { "strings with NULs", "string[4] 'a' 'a\\x00b' 'a\\x00' 'a\\x00b'", "string[1] 'a'", 1, 3 },
};

TD_TEST_EACH(equal_keys_are_refused, duplicates)
{
    for (int64_t grain = 0; grain < 4; grain++) {
        struct thread_exec exec;
        struct op_call call;
        thread_exec_init(&exec, 1 + (int)grain % 2, grain);
        call_op(&call, OP, "", tensor(duplicates[_i].keys), tensor(duplicates[_i].queries),
                &exec.exec);
        ck_assert_msg(call.status == TD_INVALID_ARGUMENT, "%s", duplicates[_i].says);
        ck_assert_str_eq(call.err.input, "keys");
        ck_assert(call.err.has_equal);
        ck_assert_int_eq(call.err.equal[0], duplicates[_i].first);
        ck_assert_int_eq(call.err.equal[1], duplicates[_i].second);
    }
}

/* ---- Against the definition -------------------------------------------------------------- */

static const td_dtype dtypes[] = { TD_DTYPE_INT64, TD_DTYPE_UINT64, TD_DTYPE_STRING };

/* Gives the keys an index, as resident keys have. */
static void give_index(struct td_tensor *keys, struct td_key_index *index)
{
    struct td_exec exec;
    struct td_error err;
    const size_t bytes = td_key_index_bytes(keys->numel);
    void *image = td_arena_alloc(&test_arena, bytes, 1, &err);
    td_exec_serial(&exec, &test_arena);
    EXPECT(image && td_key_index_build(keys, "keys", 1, image, &exec, &err) == TD_OK, "%s",
           err.message);
    EXPECT(td_key_index_open(image, bytes, keys, index), "the index is not valid");
    keys->key_index = index;
}

static void expect_rows(const struct td_tensor *keys, const struct td_tensor *queries,
                        const int64_t *rows, const char *what)
{
    static const int64_t grains[] = { 0, 1, 7, 1000 };
    struct thread_exec exec;
    struct op_call call;
    const int64_t grain = grains[random_below(queries->numel + keys->numel < 2000 ? 4 : 1)];
    thread_exec_init(&exec, 1 + random_below(MOST_THREADS), grain);
    exec.exec.hash_seed = random_next();
    call_op(&call, OP, "", *keys, *queries, &exec.exec);
    EXPECT(call.status == TD_OK, "%s: %s", what, call.err.message);
    const int64_t *output = call.args.outputs[0].data;
    for (int64_t i = 0; i < queries->numel; i++)
        EXPECT(output[i] == rows[i], "%s: query %lld has row %lld, not %lld", what, (long long)i,
               (long long)output[i], (long long)rows[i]);
}

TD_TEST_LOOP(any_query_has_the_row_of_its_key, 0, 2 * COUNT_OF(dtypes))
{
    static const int64_t numbers[] = { 0, 1, 2, 3, 9, 10, 11, 12, 13, 100, 1000, 4097, 30000 };
    const td_dtype dtype = dtypes[_i % COUNT_OF(dtypes)];
    random_seed((uint64_t)_i);
    for (int n = 0; n < COUNT_OF(numbers); n++)
        for (int kind = 0; kind < 3; kind++) {
            const struct td_shape dims = { .rank = 2, .dim = { 3, 1 << random_below(12) } };
            const uint64_t salt = random_next();
            int64_t rows[3 * 2048];
            struct td_key_index index;
            char what[80];
            struct td_tensor keys = distinct_keys(dtype, numbers[n], salt, kind == 1);
            struct td_tensor queries = queries_of(&keys, salt, &dims, rows);
            if (kind == 2)
                give_index(&keys, &index);
            snprintf(what, sizeof(what), "%s, %lld keys, kind %d", td_dtype_info(dtype)->name,
                     (long long)keys.numel, kind);
            expect_rows(&keys, &queries, rows, what);
        }
}

TD_TEST(an_open_index_is_used)
{
    struct td_tensor keys = tensor("int64[3] 5 6 7");
    struct td_key_index index;
    struct op_call call;
    give_index(&keys, &index);
    call_begin(&call, OP, "", keys, tensor("int64[2] 7 4"));
    call_infer(&call, OP);
    ck_assert_uint_eq(td_op_find.cost(&call.args).workspace, 0);
    ck_assert_uint_eq(td_op_find.cost(&call.args).random_reads, 4);
    ((int64_t *)keys.data)[1] = 7; /* equal to another: noticed only when an index is built */
    call_run(&call, OP, NULL);
    ck_assert_int_eq(call.status, TD_OK);
    expect_tensor(&call.args.outputs[0], "int64[2] 2 -1", "an open index");
}

/* ---- Cost and deadlines ------------------------------------------------------------------- */

TD_TEST(keys_without_an_index_cost_one)
{
    struct op_call call;
    call_begin(&call, OP, "", tensor_without_data("int64[1000]"), tensor("int64[2] 7 4"));
    call_infer(&call, OP);
    const struct td_cost cost = td_op_find.cost(&call.args);
    ck_assert_uint_eq(cost.bytes_read, 8016);
    ck_assert_uint_eq(cost.bytes_written, 16);
    ck_assert_uint_eq(cost.random_reads, 1004);
    ck_assert_uint_eq(cost.workspace, td_key_index_bytes(1000));
}

TD_TEST_LOOP(a_deadline_ends_find, 0, 4 * COUNT_OF(dtypes))
{
    const struct td_shape dims = { .rank = 1, .dim = { _i % 2 ? 20000 : 50 } };
    const td_dtype dtype = dtypes[_i / 2 % COUNT_OF(dtypes)];
    int64_t rows[20000];
    struct td_tensor keys = distinct_keys(dtype, 300000, 1, _i / 2 % 2 == 0);
    struct td_tensor queries = queries_of(&keys, 1, &dims, rows);
    struct op_call call;
    call_begin(&call, OP, "", keys, queries);
    expect_deadlines(&call, OP, 3, td_dtype_info(dtype)->name);
}

TD_TEST(without_memory_find_is_refused)
{
    expect_memory_needed(OP, "", tensor("int64[3] 3 1 2"), tensor("int64[4] 1 2 3 4"));
}

TD_TEST(few_queries_of_ascending_keys_need_no_memory)
{
    struct td_arena arena;
    struct td_exec exec;
    struct op_call call;
    td_arena_init(&arena, NULL, 0, &no_memory);
    td_exec_serial(&exec, &arena);
    call_op(&call, OP, "", tensor("int64[100] 0..99"), tensor("int64[3] 99 5 100"), &exec);
    ck_assert_int_eq(call.status, TD_OK);
    expect_tensor(&call.args.outputs[0], "int64[3] 99 5 -1", "bisection");
}
