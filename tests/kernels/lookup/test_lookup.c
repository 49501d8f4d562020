#include "kernels/key_index/key_index.h"
#include "kernels/lookup/lookup.h"
#include "kernels/split/split.h"
#include "tests/support/keys.h"
#include "tests/support/op_call.h"
#include "tests/support/random.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"
#include "tests/support/threads.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define OP "lookup"

enum { OUTPUT, FOUND };

/* `otherwise` is the input default; NULL: not given. */
static void begin(struct op_call *call, const char *attrs, const struct td_tensor *params,
                  const struct td_tensor *keys, const struct td_tensor *queries,
                  const struct td_tensor *otherwise)
{
    struct td_error err;
    struct td_tensor *more = td_arena_alloc(&test_arena, 2, sizeof(more[0]), &err);
    EXPECT(more != NULL, "%s", err.message);
    call_begin(call, OP, attrs, *params, *keys);
    more[0] = *queries;
    call->args.inputs[TD_LOOKUP_QUERIES] = (struct td_operand){ &more[0], 1 };
    if (!otherwise)
        return;
    more[1] = *otherwise;
    call->args.inputs[TD_LOOKUP_DEFAULT] = (struct td_operand){ &more[1], 1 };
}

static void begin_text(struct op_call *call, const char *attrs, const char *params,
                       const char *keys, const char *queries, const char *otherwise)
{
    const struct td_tensor p = tensor(params), k = tensor(keys), q = tensor(queries);
    const struct td_tensor o = tensor(otherwise ? otherwise : "bool[] 0");
    begin(call, attrs, &p, &k, &q, otherwise ? &o : NULL);
}

/* Beside those of tests/conformance/cases. */
static const struct {
    const char *says;
    const char *params, *keys, *queries, *otherwise, *attrs;
    const char *output, *found;
} results[] = {
    { "the row of one key", "int8[2,1,2] 1 2 3 4", "string[2] 'a' 'b'", "string[] 'b'", NULL, "",
      "int8[1,2] 3 4", "bool[] 1" },
    { "zero when nothing is missing", "int32[2,2] 1 2 3 4", "int64[2] 1 2", "int64[1] 2", NULL,
      "missing=zero", "int32[1,2] 3 4", "bool[1] 1" },
    { "a scalar for rows that are scalars", "bool[2] 0 1", "int64[2] 1 2", "int64[3] 1 0 2",
      "bool[] 1", "missing=default", "bool[3] 0 1 1", "bool[3] 1 0 1" },
    { "a string for all elements", "string[2,2] 'a' 'b' 'c' 'd'", "int64[2] 1 2", "int64[2] 0 2",
      "string[] 'none'", "missing=default", "string[2,2] 'none' 'none' 'c' 'd'", "bool[2] 0 1" },
    { "the empty string by default", "string[2] 'a' 'b'", "int64[2] 1 2", "int64[2] 0 2",
      "string[] ''", "missing=default", "string[2] '' 'b'", "bool[2] 0 1" },
    { "a default that is not used", "int32[2,2] 1 2 3 4", "int64[2] 1 2", "int64[2] 0 1",
      "int32[5] 1 2 3 4 5", "missing=zero", "int32[2,2] 0 0 1 2", "bool[2] 0 1" },
    { "no queries, with a default", "int32[2,2] 1 2 3 4", "int64[2] 1 2", "int64[3,0]", "int32[] 1",
      "missing=default", "int32[3,0,2]", "bool[3,0]" },
    { "no keys", "int32[0,2]", "int64[0]", "int64[2] 1 2", "int32[2] 1 2", "missing=default",
      "int32[2,2] 1 2 1 2", "bool[2] 0 0" },
    { "neither", "string[0,2]", "string[0]", "string[0]", NULL, "", "string[0,2]", "bool[0]" },
    { "empty rows", "float32[2,0]", "int64[2] 1 2", "int64[2] 2 3", NULL, "missing=zero",
      "float32[2,0]", "bool[2] 1 0" },
    { "empty rows, with a default", "float32[2,0]", "int64[2] 1 2", "int64[2] 2 3", "float32[0]",
      "missing=default", "float32[2,0]", "bool[2] 1 0" },
};

TD_TEST_EACH(lookup_gives, results)
{
    struct op_call call;
    begin_text(&call, results[_i].attrs, results[_i].params, results[_i].keys, results[_i].queries,
               results[_i].otherwise);
    call_run(&call, OP, NULL);
    ck_assert_msg(call.status == TD_OK, "%s: %s", results[_i].says, call.err.message);
    ck_assert_int_eq(call.args.n_outputs, 2);
    expect_tensor(&call.args.outputs[OUTPUT], results[_i].output, results[_i].says);
    expect_tensor(&call.args.outputs[FOUND], results[_i].found, results[_i].says);
}

static const struct {
    const char *says;
    const char *params, *keys, *queries, *otherwise, *attrs;
    td_status status;
    const char *message, *input, *shapes;
} refusals[] = {
    { "a scalar table", "int32[] 1", "int64[1] 1", "int64[1] 1", NULL, "", TD_INVALID_ARGUMENT,
      "params is a scalar; expected at least one dimension", "params", "" },
    { "fewer keys than rows", "int32[3,2] 1 2 3 4 5 6", "int64[2] 1 2", "int64[1] 1", NULL, "",
      TD_SHAPE_MISMATCH, "keys has shape [2] and params [3,2]; expected a key for each row", "keys",
      "params keys" },
    { "a matrix of keys", "int32[1] 1", "int64[1,1] 1", "int64[1] 1", NULL, "", TD_SHAPE_MISMATCH,
      "keys has shape [1,1]; expected a vector", "keys", "keys" },
    { "keys and queries of different dtypes", "int32[1] 1", "uint64[1] 1", "int64[1] 1", NULL, "",
      TD_UNSUPPORTED_DTYPE,
      "queries has dtype int64 and keys uint64; the dtypes must be equal: pass it as uint64; a "
      "value that does not fit cannot be one of the keys",
      "queries", "" },
    { "keys that are no keys", "int32[1] 1", "float32[1] 1", "float32[1] 1", NULL, "",
      TD_UNSUPPORTED_DTYPE,
      "keys has dtype float32; expected int32, int64, uint32, uint64 or string", "keys", "" },
    { "no default", "int32[1] 1", "int64[1] 1", "int64[1] 1", NULL, "missing=default",
      TD_INVALID_ARGUMENT, "default is missing; expected a tensor with missing = default",
      "default", "" },
    { "a default of another dtype", "int32[1] 1", "int64[1] 1", "int64[1] 1", "int64[] 1",
      "missing=default", TD_UNSUPPORTED_DTYPE,
      "default has dtype int64 and params int32; the dtypes must be equal: the op cast with dtype "
      "= int64 converts params",
      "default", "" },
    { "a default of another shape", "int32[1,2] 1 2", "int64[1] 1", "int64[1] 1", "int32[1] 1",
      "missing=default", TD_SHAPE_MISMATCH,
      "default has shape [1]; expected a scalar, a row of params, which has shape [2], or one such "
      "row per query",
      "default", "params queries default" },
    { "more rows than queries", "int32[1,2] 1 2", "int64[1] 1", "int64[1] 1", "int32[2,2] 1 2 3 4",
      "missing=default", TD_SHAPE_MISMATCH,
      "default has shape [2,2]; expected a scalar, a row of params, which has shape [2], or one "
      "such row per query",
      "default", "params queries default" },
};

TD_TEST_EACH(lookup_refuses, refusals)
{
    struct op_call call;
    begin_text(&call, refusals[_i].attrs, refusals[_i].params, refusals[_i].keys,
               refusals[_i].queries, refusals[_i].otherwise);
    call_infer(&call, OP);
    expect_refusal(&call, refusals[_i].status, refusals[_i].message, refusals[_i].input, "",
                   refusals[_i].says);
    expect_shape_names(&call.err, refusals[_i].shapes);
}

TD_TEST(more_dimensions_than_a_tensor_has_are_refused)
{
    struct td_tensor params = tensor_without_data("int8[1,1,1,1,1,1,1,1,1]");
    struct td_tensor keys = tensor("int64[1] 1");
    struct td_tensor queries = tensor_without_data("int64[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]");
    struct op_call call;
    queries.shape.rank = TD_MAX_RANK;
    for (int d = 0; d < TD_MAX_RANK; d++)
        queries.shape.dim[d] = 1;
    begin(&call, "", &params, &keys, &queries, NULL);
    call_infer(&call, OP);
    ck_assert_int_eq(call.status, TD_RESOURCE_LIMIT);
    ck_assert_str_eq(call.err.resource, "rank");
    ck_assert_uint_eq(call.err.needed, TD_MAX_RANK + 8);
}

/* ---- Keys that are missing ---------------------------------------------------------------- */

static const struct {
    const char *says;
    const char *keys, *queries;
    const char *message, *key;
    size_t key_length;
    bool is_number;
    const char *position;
    int64_t bad_count;
} missing[] = {
    { "the first in row-major order", "int64[2] 1 2", "int64[2,2] 1 2 -7 9",
      "queries[1,0] = -7 is not one of the keys; the first key is 1", "-7", 2, true, "[1,0]", 2 },
    { "of a scalar", "uint64[2] 1 2", "uint64[] 18446744073709551615",
      "queries = 18446744073709551615 is not one of the keys; the first key is 1",
      "18446744073709551615", 20, true, "[]", 1 },
    { "a string", "string[2] 'a' 'b'", "string[3] 'a' 'no' 'b'",
      "queries[1] = \"no\" is not one of the keys; the first key is \"a\"", "no", 2, false, "[1]",
      1 },
    { "a string with a NUL", "string[2] 'a' 'b'", "string[1] 'a\\x00b'",
      "queries[0] = \"a\\u0000b\" is not one of the keys; the first key is \"a\"", "a\0b", 3, false,
      "[0]", 1 },
    { "the empty string", "string[2] 'a' 'b'", "string[2] 'a' ''",
      "queries[1] = \"\" is not one of the keys; the first key is \"a\"", "", 0, false, "[1]", 1 },
};

TD_TEST_EACH(the_first_missing_key_is_named, missing)
{
    struct op_call call;
    struct td_shape position;
    begin_text(&call, "", "int32[2] 1 2", missing[_i].keys, missing[_i].queries, NULL);
    call_run(&call, OP, NULL);
    ck_assert_msg(call.status == TD_KEY_NOT_FOUND, "%s", missing[_i].says);
    ck_assert_str_eq(call.err.message, missing[_i].message);
    ck_assert_str_eq(call.err.input, "queries");
    ck_assert(call.err.has_key);
    ck_assert_uint_eq(call.err.key_length, missing[_i].key_length);
    ck_assert_mem_eq(call.err.key, missing[_i].key, missing[_i].key_length);
    ck_assert_int_eq(call.err.key_is_number, missing[_i].is_number);
    ck_assert_int_eq(call.err.bad_count, missing[_i].bad_count);
    position.rank = call.err.position_rank;
    memcpy(position.dim, call.err.position, sizeof(position.dim));
    expect_shape(&position, missing[_i].position, missing[_i].says);
}

TD_TEST(a_missing_key_is_an_error_also_where_rows_are_empty)
{
    struct op_call call;
    begin_text(&call, "", "float32[1,0]", "int64[1] 1", "int64[1] 2", NULL);
    call_run(&call, OP, NULL);
    ck_assert_int_eq(call.status, TD_KEY_NOT_FOUND);
}

TD_TEST(equal_keys_are_refused)
{
    struct op_call call;
    begin_text(&call, "missing=zero", "int32[3] 1 2 3", "int64[3] 5 4 5", "int64[1] 2", NULL);
    call_run(&call, OP, NULL);
    ck_assert_int_eq(call.status, TD_INVALID_ARGUMENT);
    ck_assert_str_eq(call.err.message, "keys[2] is equal to keys[0]; expected distinct keys");
    ck_assert_int_eq(call.err.equal[0], 0);
    ck_assert_int_eq(call.err.equal[1], 2);
}

/* ---- Against the definition -------------------------------------------------------------- */

static const td_dtype key_dtypes[] = { TD_DTYPE_INT64, TD_DTYPE_UINT64, TD_DTYPE_STRING };
static const td_dtype row_dtypes[] = { TD_DTYPE_BOOL,    TD_DTYPE_FLOAT16,    TD_DTYPE_FLOAT32,
                                       TD_DTYPE_FLOAT64, TD_DTYPE_COMPLEX128, TD_DTYPE_STRING };

/* Is element i of a equal to element j of b, or to nothing at all if b is NULL? */
static bool same_element(const struct td_tensor *a, int64_t i, const struct td_tensor *b, int64_t j)
{
    static const char zeros[16];
    size_t n, m = 0;
    const void *x = tensor_element(a, i, &n), *y = zeros;
    if (b)
        y = tensor_element(b, j, &m);
    else if (a->dtype != TD_DTYPE_STRING)
        m = n;
    return n == m && memcmp(x, y, n) == 0;
}

static void expect_lookup(const struct td_op_args *args, const int64_t *rows, const char *what)
{
    const struct td_tensor *params = args->inputs[TD_LOOKUP_PARAMS].tensors;
    const struct td_tensor *output = &args->outputs[OUTPUT];
    const bool *found = args->outputs[FOUND].data;
    const struct td_tensor *otherwise =
        args->inputs[TD_LOOKUP_DEFAULT].count > 0 ? args->inputs[TD_LOOKUP_DEFAULT].tensors : NULL;
    const int64_t n = args->inputs[TD_LOOKUP_QUERIES].tensors->numel;
    const int64_t width = n > 0 ? output->numel / n : 0;
    for (int64_t i = 0; i < n; i++) {
        EXPECT(found[i] == (rows[i] >= 0), "%s: found[%" PRId64 "]", what, i);
        for (int64_t e = 0; e < width; e++) {
            const int64_t at = rows[i] >= 0                             ? rows[i] * width + e
                               : otherwise && otherwise->shape.rank > 0 ? e
                                                                        : 0;
            EXPECT(same_element(output, i * width + e, rows[i] >= 0 ? params : otherwise, at),
                   "%s: element %" PRId64 " of row %" PRId64, what, e, i);
        }
    }
}

/* One lookup of random shapes; the queries have keys and others. */
static void try_lookup(td_dtype dtype, td_dtype key_dtype, int64_t n, int64_t width,
                       const struct td_shape *queried, const char *what)
{
    static const int64_t grains[] = { 0, 1, 7, 1000 };
    static const char *const attrs[] = { "missing=zero", "missing=default", "missing=default" };
    const struct td_shape dims = { .rank = 2, .dim = { n, width } };
    const struct td_shape row = { .rank = 1, .dim = { width } }, scalar = { .rank = 0 };
    const uint64_t salt = random_next();
    const int kind = random_below(COUNT_OF(attrs));
    int64_t *rows, numel;
    struct td_error err;
    struct thread_exec exec;
    struct op_call call;
    (void)td_shape_product(queried, 0, queried->rank, &numel);
    rows = td_arena_alloc(&test_arena, (size_t)numel, sizeof(rows[0]), &err);
    EXPECT(rows != NULL, "%s", err.message);
    struct td_tensor params = random_tensor(dtype, &dims);
    struct td_tensor keys = distinct_keys(key_dtype, n, salt, random_below(2) == 0);
    struct td_tensor queries = queries_of(&keys, salt, queried, rows);
    struct td_tensor otherwise = random_tensor(dtype, kind == 1 ? &row : &scalar);
    thread_exec_init(&exec, 1 + random_below(MOST_THREADS),
                     grains[random_below(n + numel < 2000 ? COUNT_OF(grains) : 1)]);
    begin(&call, attrs[kind], &params, &keys, &queries, kind > 0 ? &otherwise : NULL);
    call_run(&call, OP, &exec.exec);
    EXPECT(call.status == TD_OK, "%s: %s", what, call.err.message);
    expect_lookup(&call.args, rows, what);
}

TD_TEST_EACH(any_lookup_has_the_rows_of_its_keys, row_dtypes)
{
    static const int64_t numbers[] = { 0, 1, 2, 10, 100, 3000 };
    static const int64_t widths[] = { 0, 1, 2, 3, 4, 16, 33 };
    random_seed((uint64_t)_i);
    for (int n = 0; n < COUNT_OF(numbers); n++)
        for (int w = 0; w < COUNT_OF(widths); w++)
            for (int k = 0; k < COUNT_OF(key_dtypes); k++) {
                const struct td_shape queried = {
                    .rank = 2, .dim = { 2, random_below(2) << random_below(9) }
                };
                char what[80];
                snprintf(what, sizeof(what), "%s[%" PRId64 ",%" PRId64 "], keys %s",
                         td_dtype_info(row_dtypes[_i])->name, numbers[n], widths[w],
                         td_dtype_info(key_dtypes[k])->name);
                try_lookup(row_dtypes[_i], key_dtypes[k], numbers[n], widths[w], &queried, what);
            }
}

TD_TEST(rows_larger_than_a_range_are_split)
{
    const struct td_shape queried = { .rank = 1, .dim = { 5 } };
    for (int i = 0; i < 6; i++) {
        random_seed((uint64_t)i);
        try_lookup(TD_DTYPE_UINT8, TD_DTYPE_INT64, 3, 300001, &queried, "large rows");
    }
}

/* ---- A table in parts ---------------------------------------------------------------------- */

static int part_of_query(const void *context, const struct td_tensor *queries, int64_t query)
{
    (void)context;
    (void)queries;
    return (int)query;
}

/* The index of all keys has the row numbers of the whole table. */
TD_TEST(a_part_of_a_table_does_not_have_the_index_of_its_keys)
{
    static const int64_t parts[] = { 0, 1, 2 };
    const struct td_tensor params = tensor("int32[2] 5 6"), queries = tensor("int64[2] 1 2");
    struct td_tensor keys = tensor("int64[2] 1 2");
    struct td_key_index index;
    struct td_error err;
    struct td_exec exec;
    struct td_split split;
    struct op_call call;
    const size_t bytes = td_key_index_bytes(keys.numel);
    void *image = td_arena_alloc(&test_arena, bytes, 1, &err);
    td_exec_serial(&exec, &test_arena);
    ck_assert_int_eq(td_key_index_build(&keys, "keys", 1, image, &exec, &err), TD_OK);
    ck_assert(td_key_index_open(image, bytes, &keys, &index));
    keys.key_index = &index;
    begin(&call, "missing=zero", &params, &keys, &queries, NULL);
    call_infer(&call, OP);
    ck_assert_int_eq(td_split_call(&td_op_lookup, &call.args, parts, 2, part_of_query, NULL, &exec,
                                   &split, &err),
                     TD_OK);
    for (int p = 0; p < split.n_parts; p++)
        ck_assert_ptr_null(split.parts[p].args.inputs[TD_LOOKUP_KEYS].tensors->key_index);
}

/* ---- Cost, memory and deadlines ----------------------------------------------------------- */

TD_TEST(cost_is_that_of_find_and_of_the_copy)
{
    struct op_call call;
    begin_text(&call, "missing=default", "int32[3,2] 1 2 3 4 5 6", "int64[3] 1 2 3",
               "int64[4] 1 2 3 4", "int32[] 0");
    call_infer(&call, OP);
    const struct td_cost cost = td_op_lookup.cost(&call.args);
    ck_assert_uint_eq(cost.bytes_read, 4 * 8 + 3 * 8 + 4 * 8);
    ck_assert_uint_eq(cost.bytes_written, 4 * 8 + 4);
    ck_assert_uint_eq(cost.random_reads, 4 + 2 * 4 + 3);
    ck_assert_uint_eq(cost.workspace, 64 + 64 + td_key_index_bytes(3));
}

TD_TEST(a_default_of_more_bytes_than_the_output_may_have_is_refused)
{
    struct op_call call;
    struct td_exec exec;
    const struct td_shape dims = { .rank = 2, .dim = { 1, 1000 } };
    struct td_tensor params = random_tensor(TD_DTYPE_STRING, &dims);
    struct td_tensor keys = tensor("int64[1] 1"), queries = tensor("int64[1] 2");
    struct td_tensor otherwise = tensor("string[] 'aaaaaaaaaa'");
    td_exec_serial(&exec, &test_arena);
    exec.output_limit = 9999;
    begin(&call, "missing=default", &params, &keys, &queries, &otherwise);
    call_run(&call, OP, &exec);
    ck_assert_int_eq(call.status, TD_RESOURCE_LIMIT);
    ck_assert_str_eq(call.err.message, "the output needs 10000 bytes; the limit is 9999");
    exec.output_limit = 10000;
    begin(&call, "missing=default", &params, &keys, &queries, &otherwise);
    call_run(&call, OP, &exec);
    ck_assert_int_eq(call.status, TD_OK);
    ck_assert_uint_eq(call.args.outputs[OUTPUT].bytes, 10000);
}

TD_TEST_LOOP(a_deadline_ends_lookup, 0, 2)
{
    const struct td_shape dims = { .rank = 2, .dim = { 100000, 2 } };
    const struct td_shape queried = { .rank = 1, .dim = { 20000 } };
    const td_dtype dtype = _i ? TD_DTYPE_STRING : TD_DTYPE_FLOAT32;
    int64_t rows[20000];
    struct td_tensor params = random_tensor(dtype, &dims);
    struct td_tensor keys = distinct_keys(TD_DTYPE_INT64, 100000, 1, false);
    struct td_tensor queries = queries_of(&keys, 1, &queried, rows);
    struct op_call call;
    begin(&call, "missing=zero", &params, &keys, &queries, NULL);
    expect_deadlines(&call, OP, 6, td_dtype_info(dtype)->name);
}

TD_TEST(without_memory_lookup_is_refused)
{
    struct td_arena arena;
    struct td_exec exec;
    struct op_call call;
    char space[4096];
    for (size_t size = 0; size < sizeof(space); size += 16) {
        begin_text(&call, "missing=default", "string[3] 'a' 'b' 'c'", "int64[3] 3 1 2",
                   "int64[4] 1 2 3 4", "string[] 'none'");
        td_arena_init(&arena, space, size, &no_memory);
        td_exec_serial(&exec, &arena);
        call_run(&call, OP, &exec);
        ck_assert(call.status == TD_OK || call.status == TD_MEMORY_EXHAUSTED);
        ck_assert(size > 0 || call.status == TD_MEMORY_EXHAUSTED);
        td_arena_reset(&arena);
    }
    ck_assert_int_eq(call.status, TD_OK);
}
