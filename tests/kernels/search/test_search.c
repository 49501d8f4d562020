#include "kernels/convert/convert.h"
#include "kernels/search/arguments.h"
#include "kernels/search/search.h"
#include "tests/support/op_call.h"
#include "tests/support/random.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"
#include "tests/support/threads.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define OP   "search"
#define NONE ((struct td_tensor){ 0 })

/* The names of the inputs after params, for tables of cases: "queries: float32[2] 1 0; k...". */
static const char *const input_names[TD_SEARCH_INPUTS] = {
    [TD_SEARCH_PARAMS] = "params",
    [TD_SEARCH_QUERIES] = "queries",
    [TD_SEARCH_ROWS] = "rows",
    [TD_SEARCH_CANDIDATES] = "candidates",
    [TD_SEARCH_EXCLUDE] = "exclude",
    [TD_SEARCH_KEYS] = "keys",
    [TD_SEARCH_SCALE] = "scale",
    [TD_SEARCH_OFFSET] = "offset",
    [TD_SEARCH_ZERO_POINT] = "zero_point",
};

static void set_input(struct op_call *call, int input, struct td_tensor value)
{
    struct td_error err;
    struct td_tensor *copy = td_arena_alloc(&test_arena, 1, sizeof(*copy), &err);
    ck_assert_ptr_nonnull(copy);
    *copy = value;
    call->args.inputs[input] = (struct td_operand){ copy, 1 };
}

/* Begins a call with inputs such as "queries=float32[2] 1 0; rows=int32[1] 2". */
static void begin(struct op_call *call, const char *attrs, const char *params, const char *inputs)
{
    char text[512];
    call_begin(call, OP, attrs, tensor(params), NONE);
    call->args.inputs[TD_SEARCH_QUERIES].count = 0;
    ck_assert_uint_lt(strlen(inputs), sizeof(text));
    strcpy(text, inputs);
    for (char *rest = text, *part; (part = strsep(&rest, ";"));) {
        while (*part == ' ')
            part++;
        char *value = strchr(part, '=');
        for (int i = 0; value && i < TD_SEARCH_INPUTS; i++)
            if (strlen(input_names[i]) == (size_t)(value - part) &&
                strncmp(part, input_names[i], (size_t)(value - part)) == 0)
                set_input(call, i, tensor(value + 1));
    }
}

#define TABLE "float32[3,2] 1 0 0.5 1 0 1"

/* Beside those of tests/conformance/cases. */
static const struct {
    const char *says;
    const char *params, *inputs, *attrs;
    const char *scores, *indices, *keys;
} results[] = {
    { "the best rows first", TABLE, "queries=float32[1,2] 1 2", "k=2", "float32[1,2] 2.5 2",
      "int64[1,2] 1 2", NULL },
    { "a vector is one query", TABLE, "queries=float32[2] 1 2", "k=2", "float32[2] 2.5 2",
      "int64[2] 1 2", NULL },
    { "equal scores in the order of the rows", "float32[3,1] 2 2 2", "queries=float32[1] 1", "k=3",
      "float32[3] 2 2 2", "int64[3] 0 1 2", NULL },
    { "zeros of either sign are equal", "float32[3,1] 0 -0 0", "queries=float32[1] 1", "k=3",
      "float32[3] 0 0 0", "int64[3] 0 1 2", NULL },
    { "NaN is not returned", "float32[3,1] 1 nan -1", "queries=float32[1] 1", "k=3",
      "float32[3] 1 -1 -inf", "int64[3] 0 2 -1", NULL },
    { "infinite scores are", "float32[3,1] 1 -inf inf", "queries=float32[1] 1", "k=3",
      "float32[3] inf 1 -inf", "int64[3] 2 0 1", NULL },
    { "no place of a distance has a row", "float32[1,1] 1",
      "queries=float32[1] 4; exclude=int32[1] 0", "k=1 metric=l2", "float32[1] inf", "int64[1] -1",
      NULL },
    { "the smallest distance first", "float32[3,2] 3 4 0 0 6 8", "queries=float32[2] 0 0",
      "k=3 metric=l2", "float32[3] 0 5 10", "int64[3] 1 0 2", NULL },
    { "the cosine of a row or query of zeros is 0", "float32[3,2] 3 4 0 0 -3 -4",
      "queries=float32[2,2] 3 4 0 0", "k=3 metric=cosine", "float32[2,3] 1 0 -1 0 0 0",
      "int64[2,3] 0 1 2 0 1 2", NULL },
    { "a row does not find itself", TABLE, "rows=int32[] 1", "k=3", "float32[3] 1 0.5 -inf",
      "int64[3] 2 0 -1", NULL },
    { "unless it may", TABLE, "rows=int32[1] 1", "k=1 exclude_self=false", "float32[1,1] 1.25",
      "int64[1,1] 1", NULL },
    { "a vector finds an equal row", TABLE, "queries=float32[2] 0.5 1", "k=1", "float32[1] 1.25",
      "int64[1] 1", NULL },
    { "candidates in any order, once each", TABLE,
      "queries=float32[2] 1 1; candidates=int64[4] 2 0 2 0", "k=3", "float32[3] 1 1 -inf",
      "int64[3] 0 2 -1", NULL },
    { "keys, and those of no row", TABLE,
      "queries=float32[2] 1 1; keys=string[3] 'a' 'bb' ''; exclude=int32[2] 1 1", "k=3",
      "float32[3] 1 1 -inf", "int64[3] 0 2 -1", "string[3] 'a' '' ''" },
    { "narrow keys become wide", TABLE, "queries=float32[2] 0 1; keys=int32[3] 7 8 9", "k=1",
      "float32[1] 1", "int64[1] 1", "int64[1] 8" },
    { "a scale and an offset for each row", "int8[2,2] 1 2 3 4",
      "queries=float32[2] 1 1; scale=float32[2] 1 2; offset=float32[2] 0.5 -1", "k=2",
      "float32[2] 12 4", "int64[2] 1 0", NULL },
    { "a zero point for all rows", "uint8[2,2] 1 2 3 4",
      "queries=float32[2] 1 1; scale=float32[] 2; zero_point=int64[] 3", "k=2", "float32[2] 2 -6",
      "int64[2] 1 0", NULL },
    { "float64 queries", TABLE, "queries=float64[2] 1 2", "k=1", "float64[1] 2.5", "int64[1] 1",
      NULL },
    { "more than there are rows", TABLE, "queries=float32[2] 1 0", "k=9223372036854775807",
      "float32[3] 1 0.5 0", "int64[3] 0 1 2", NULL },
};

TD_TEST_EACH(search_gives, results)
{
    struct op_call call;
    begin(&call, results[_i].attrs, results[_i].params, results[_i].inputs);
    call_run(&call, OP, NULL);
    ck_assert_msg(call.status == TD_OK, "%s: %s", results[_i].says, call.err.message);
    ck_assert_msg(td_op_search.valid(&call.args), "%s: no device may run it", results[_i].says);
    ck_assert_int_eq(call.args.n_outputs, results[_i].keys ? 3 : 2);
    expect_tensor(&call.args.outputs[0], results[_i].scores, results[_i].says);
    expect_tensor(&call.args.outputs[1], results[_i].indices, results[_i].says);
    if (results[_i].keys)
        expect_tensor(&call.args.outputs[2], results[_i].keys, results[_i].says);
}

static const struct {
    const char *says;
    const char *params, *inputs, *attrs;
    td_status status;
    const char *message, *input, *attribute;
} refusals[] = {
    { "no k", TABLE, "queries=float32[2] 1 1", "", TD_INVALID_ARGUMENT,
      "k is missing; search requires it", "", "k" },
    { "k below 1", TABLE, "queries=float32[2] 1 1", "k=0", TD_INVALID_ARGUMENT,
      "k is 0; expected 1 or more", "", "k" },
    { "no queries", TABLE, "", "k=1", TD_INVALID_ARGUMENT,
      "queries and rows are missing; give vectors in queries, or row numbers or keys in rows",
      "queries", "" },
    { "queries in two ways", TABLE, "queries=float32[2] 1 1; rows=int32[] 0", "k=1",
      TD_INVALID_ARGUMENT, "both queries and rows are given; expected only one of them", "rows",
      "" },
    { "a vector instead of a table", "float32[2] 1 1", "queries=float32[2] 1 1", "k=1",
      TD_SHAPE_MISMATCH, "params has shape [2]; expected a matrix with a vector in each row",
      "params", "" },
    { "queries of another width", TABLE, "queries=float32[1,3] 1 1 1", "k=1", TD_SHAPE_MISMATCH,
      "queries has shape [1,3] and params [3,2]; expected queries of 2 elements", "queries", "" },
    { "a scalar query", TABLE, "queries=float32[] 1", "k=1", TD_SHAPE_MISMATCH,
      "queries has shape []; expected a vector, or a matrix with a query in each row", "queries",
      "" },
    { "a matrix of rows", TABLE, "rows=int32[1,1] 1", "k=1", TD_SHAPE_MISMATCH,
      "rows has shape [1,1]; expected a row number, or a vector of row numbers", "rows", "" },
    { "one candidate", TABLE, "rows=int32[] 1; candidates=int32[] 0", "k=1", TD_SHAPE_MISMATCH,
      "candidates has shape []; expected a vector", "candidates", "" },
    { "one excluded row", TABLE, "rows=int32[] 1; exclude=int32[] 0", "k=1", TD_SHAPE_MISMATCH,
      "exclude has shape []; expected a vector", "exclude", "" },
    { "too few keys", TABLE, "rows=int32[] 1; keys=int64[2] 0 1", "k=1", TD_SHAPE_MISMATCH,
      "keys has shape [2] and params [3,2]; expected one key per row", "keys", "" },
    { "rows that int32 cannot count", "float32[2147483648,0]", "queries=float32[0]", "k=1",
      TD_RESOURCE_LIMIT, "params needs 2147483648 rows; the limit is 2147483647", "params", "" },
    { "the end of a row without scale and offset", "uint8[1,7] 1 2 3 4 5 6 7", "queries=float32[0]",
      "k=1 layout=byte_rowwise", TD_SHAPE_MISMATCH,
      "params has shape [1,7]; layout = byte_rowwise expects rows of at least 8 bytes, of which "
      "the last 8 are scale and offset",
      "params", "" },
};

TD_TEST_EACH(search_refuses, refusals)
{
    struct op_call call;
    begin(&call, refusals[_i].attrs, refusals[_i].params, refusals[_i].inputs);
    call_infer(&call, OP);
    expect_refusal(&call, refusals[_i].status, refusals[_i].message, refusals[_i].input,
                   refusals[_i].attribute, refusals[_i].says);
}

static const struct {
    const char *inputs, *input, *message;
    int64_t bad_count;
} outside[] = {
    { "rows=int32[3] 1 3 -1", "rows", "rows[1] = 3 is not in [0, 3)", 2 },
    { "rows=int32[] -1", "rows", "rows = -1 is not in [0, 3)", 1 },
    { "rows=int32[] 0; candidates=int64[2] 0 9", "candidates", "candidates[1] = 9 is not in [0, 3)",
      1 },
    { "queries=float32[2] 0 1; exclude=int16[1] -1", "exclude", "exclude[0] = -1 is not in [0, 3)",
      1 },
    { "queries=float32[0,2]; exclude=int16[1] 3", "exclude", "exclude[0] = 3 is not in [0, 3)", 1 },
};

TD_TEST_EACH(search_refuses_rows_that_do_not_exist, outside)
{
    struct op_call call;
    begin(&call, "k=1", TABLE, outside[_i].inputs);
    call_run(&call, OP, NULL);
    ck_assert_int_eq(call.status, TD_INDEX_OUT_OF_BOUNDS);
    ck_assert_msg(!td_op_search.valid(&call.args), "%s is valid for a device", outside[_i].input);
    expect_index_error(&call.err, outside[_i].input, outside[_i].message, outside[_i].bad_count);
}

/* ---- Against the definition -------------------------------------------------------------- */

static const td_dtype tables[] = { TD_DTYPE_FLOAT16, TD_DTYPE_BFLOAT16, TD_DTYPE_FLOAT32,
                                   TD_DTYPE_FLOAT64, TD_DTYPE_INT8,     TD_DTYPE_UINT8 };

static void set_value(struct td_tensor *t, int64_t i, double value)
{
    char *const place = (char *)t->data + (size_t)i * td_dtype_info(t->dtype)->size;
    const float narrow = (float)value;
    if (td_is_quantized(t->dtype))
        *place = (char)(int)value;
    else if (t->dtype == TD_DTYPE_FLOAT64)
        memcpy(place, &value, sizeof(value));
    else
        td_narrow(t->dtype, TD_ISA_GENERIC)(place, 1, &narrow, 1);
}

/* Small multiples of `step`, of which all sums of products are exact; now and then NaN. */
static struct td_tensor exact_numbers(td_dtype dtype, struct td_shape shape, double step, bool nans)
{
    struct td_tensor t = random_tensor(dtype, &shape);
    const int least = dtype == TD_DTYPE_UINT8 ? 0 : -8;
    for (int64_t i = 0; i < t.numel; i++)
        set_value(&t, i,
                  nans && random_below(200) == 0 ? (double)NAN : step * (random_below(17) + least));
    return t;
}

static struct td_tensor row_numbers(int64_t n, int64_t below)
{
    const td_dtype dtypes[] = { TD_DTYPE_INT16, TD_DTYPE_INT32, TD_DTYPE_INT64 };
    int64_t values[64];
    for (int64_t i = 0; i < n; i++)
        values[i] = random_below((int)below);
    return index_vector(dtypes[random_below(3)], values, n);
}

/* A random call. Inputs without data are not given. */
struct example {
    struct td_tensor inputs[TD_SEARCH_INPUTS];
    struct td_search_attrs attrs;
    bool is_double;
    int64_t n, columns, n_queries;
};

static struct td_shape of(int rank, int64_t first, int64_t second)
{
    return (struct td_shape){ .rank = rank, .dim = { first, second } };
}

static void random_scaling(struct example *e)
{
    struct td_tensor *params = &e->inputs[TD_SEARCH_PARAMS];
    const struct td_shape per_row = of(random_below(2), e->n, 0);
    if (params->dtype == TD_DTYPE_UINT8 && random_below(3) == 0) {
        const struct td_tensor plain = *params;
        const int64_t width = e->columns + TD_ROW_TRAILER;
        const struct td_shape shape = of(2, e->n, width);
        *params = random_tensor(TD_DTYPE_UINT8, &shape);
        e->attrs.layout = TD_ROW_LAYOUT_BYTE_ROWWISE;
        for (int64_t row = 0; row < e->n; row++) {
            const float pair[2] = { 0.25F * (float)random_below(5), (float)random_below(3) };
            char *to = (char *)params->data + row * width;
            memcpy(to, (char *)plain.data + row * e->columns, (size_t)e->columns);
            memcpy(to + e->columns, pair, sizeof(pair));
        }
        return;
    }
    e->inputs[TD_SEARCH_SCALE] = exact_numbers(TD_DTYPE_FLOAT32, per_row, 0.25, false);
    if (random_below(3) == 0)
        e->inputs[TD_SEARCH_OFFSET] = exact_numbers(TD_DTYPE_FLOAT32, per_row, 0.5, false);
    else if (random_below(2))
        e->inputs[TD_SEARCH_ZERO_POINT] = exact_numbers(TD_DTYPE_INT8, per_row, 1, false);
}

static struct example random_example(void)
{
    const td_dtype queries[] = { TD_DTYPE_FLOAT32, TD_DTYPE_FLOAT32, TD_DTYPE_FLOAT16,
                                 TD_DTYPE_BFLOAT16, TD_DTYPE_FLOAT64 };
    const td_dtype table = tables[random_below(COUNT_OF(tables))];
    const bool quantized = td_is_quantized(table);
    struct example e = {
        .attrs = { .k = 1 + random_below(random_below(3) ? 8 : 200),
                   .metric = (td_search_metric)random_below(3),
                   .exclude_self = random_below(2) },
        .n = 1 + random_below(random_below(3) ? 40 : 400),
        .columns = random_below(random_below(2) ? 9 : 70),
        .n_queries = random_below(random_below(3) ? 5 : 140),
    };
    e.inputs[TD_SEARCH_PARAMS] = exact_numbers(table, of(2, e.n, e.columns), quantized ? 1 : 0.125,
                                               !quantized && random_below(3) == 0);
    if (quantized)
        random_scaling(&e);
    if (random_below(3)) {
        const td_dtype dtype = queries[random_below(COUNT_OF(queries))];
        e.inputs[TD_SEARCH_QUERIES] =
            exact_numbers(dtype, of(2, e.n_queries, e.columns), 0.125, random_below(10) == 0);
        e.is_double = dtype == TD_DTYPE_FLOAT64;
    } else {
        e.n_queries = random_below(6);
        e.inputs[TD_SEARCH_ROWS] = row_numbers(e.n_queries, e.n);
    }
    e.is_double |= table == TD_DTYPE_FLOAT64;
    if (random_below(3) == 0)
        e.inputs[TD_SEARCH_CANDIDATES] = row_numbers(random_below(64), e.n);
    if (random_below(3) == 0)
        e.inputs[TD_SEARCH_EXCLUDE] = row_numbers(random_below(20), e.n);
    return e;
}

static double scalar_or_row(const struct td_tensor *t, int64_t row, double otherwise)
{
    return t->data ? (double)tensor_value(t, t->shape.rank ? row : 0, 0) : otherwise;
}

/* Returns the number that an element of the table represents. */
static double table_value(const struct example *e, int64_t row, int64_t column)
{
    const struct td_tensor *params = &e->inputs[TD_SEARCH_PARAMS];
    const int64_t width = params->shape.dim[1];
    const double x = (double)tensor_value(params, row * width + column, 0);
    if (e->attrs.layout == TD_ROW_LAYOUT_BYTE_ROWWISE) {
        float pair[2];
        memcpy(pair, (const char *)params->data + row * width + e->columns, sizeof(pair));
        return x * (double)pair[0] + (double)pair[1];
    }
    const double offset = scalar_or_row(&e->inputs[TD_SEARCH_OFFSET], row, 0);
    const double zero_point = scalar_or_row(&e->inputs[TD_SEARCH_ZERO_POINT], row, 0);
    return (x - zero_point) * scalar_or_row(&e->inputs[TD_SEARCH_SCALE], row, 1) + offset;
}

static double query_value(const struct example *e, int64_t query, int64_t column)
{
    if (e->inputs[TD_SEARCH_ROWS].data)
        return table_value(e, td_tensor_index_at(&e->inputs[TD_SEARCH_ROWS], query), column);
    return (double)tensor_value(&e->inputs[TD_SEARCH_QUERIES], query * e->columns + column, 0);
}

static double real(const struct example *e, double value)
{
    return e->is_double ? value : (double)(float)value;
}

/* Returns the score as the op defines it. All sums are exact. */
static double score(const struct example *e, int64_t query, int64_t row)
{
    double products = 0, squares = 0, query_squares = 0, differences = 0;
    for (int64_t c = 0; c < e->columns; c++) {
        const double x = table_value(e, row, c), y = query_value(e, query, c);
        products += x * y;
        squares += x * x;
        query_squares += y * y;
        differences += (x - y) * (x - y);
    }
    if (e->attrs.metric == TD_SEARCH_DOT)
        return products;
    if (e->attrs.metric == TD_SEARCH_L2)
        return real(e, sqrt(differences));
    if (squares == 0 || query_squares == 0)
        return 0;
    return real(e, real(e, products / real(e, sqrt(query_squares))) / real(e, sqrt(squares)));
}

static bool contains(const struct td_tensor *rows, int64_t row)
{
    for (int64_t i = 0; rows->data && i < rows->numel; i++)
        if (td_tensor_index_at(rows, i) == row)
            return true;
    return false;
}

static bool may_return(const struct example *e, int64_t query, int64_t row)
{
    const struct td_tensor *rows = &e->inputs[TD_SEARCH_ROWS];
    const struct td_tensor *candidates = &e->inputs[TD_SEARCH_CANDIDATES];
    if (contains(&e->inputs[TD_SEARCH_EXCLUDE], row) ||
        (candidates->data && !contains(candidates, row)))
        return false;
    return !(rows->data && e->attrs.exclude_self && td_tensor_index_at(rows, query) == row);
}

static bool is_better(const struct example *e, double a, double b)
{
    return e->attrs.metric == TD_SEARCH_L2 ? a < b : a > b;
}

/* Compares the places of one query with the definition: each place has the best row that no
 * earlier place has. */
static void expect_places(const struct example *e, const struct op_call *call, int64_t query,
                          const char *what)
{
    const struct td_tensor *scores = &call->args.outputs[0], *indices = &call->args.outputs[1];
    const int64_t n_places = scores->shape.dim[1];
    bool taken[400] = { false };
    double of_row[400];
    for (int64_t row = 0; row < e->n; row++)
        of_row[row] = may_return(e, query, row) ? score(e, query, row) : (double)NAN;
    for (int64_t place = 0; place < n_places; place++) {
        int64_t best = -1;
        for (int64_t row = 0; row < e->n; row++)
            if (!isnan(of_row[row]) && !taken[row] &&
                (best < 0 || is_better(e, of_row[row], of_row[best])))
                best = row;
        const double want = best >= 0                         ? of_row[best]
                            : e->attrs.metric == TD_SEARCH_L2 ? (double)INFINITY
                                                              : -(double)INFINITY;
        const int64_t at = query * n_places + place;
        EXPECT(((const int64_t *)indices->data)[at] == best,
               "%s: query %" PRId64 ", place %" PRId64 ": row %" PRId64 " instead of %" PRId64,
               what, query, place, ((const int64_t *)indices->data)[at], best);
        EXPECT((double)tensor_value(scores, at, 0) == want,
               "%s: query %" PRId64 ", place %" PRId64 ": score %.9g instead of %.9g", what, query,
               place, (double)tensor_value(scores, at, 0), want);
        if (best >= 0)
            taken[best] = true;
    }
}

static void run_example(const struct example *e, struct op_call *call, struct td_exec *exec)
{
    static const char *const metrics[] = { "dot", "cosine", "l2" };
    char attrs[128];
    snprintf(attrs, sizeof(attrs), "k=%" PRId64 " metric=%s exclude_self=%s layout=%s", e->attrs.k,
             metrics[e->attrs.metric], e->attrs.exclude_self ? "true" : "false",
             td_row_layout_names[e->attrs.layout]);
    call_begin(call, OP, attrs, e->inputs[TD_SEARCH_PARAMS], NONE);
    call->args.inputs[TD_SEARCH_QUERIES].count = 0;
    for (int i = 1; i < TD_SEARCH_INPUTS; i++)
        if (e->inputs[i].data)
            set_input(call, i, e->inputs[i]);
    call_run(call, OP, exec);
}

/* ---- Rounding ---------------------------------------------------------------------------- */

/* Numbers whose products and sums must be rounded. */
static struct td_tensor rounded_numbers(td_dtype dtype, int64_t rows, int64_t columns)
{
    const struct td_shape shape = of(2, rows, columns);
    struct td_tensor t = random_tensor(dtype, &shape);
    for (int64_t i = 0; i < t.numel; i++) {
        const int number = random_below(2001) - 1000;
        set_value(&t, i, td_is_quantized(dtype) ? (number & 127) : (double)number / 997);
    }
    return t;
}

/* Expects the places of query q of `all` in `one`, which has only this query. */
static void expect_same_bits(const struct op_call *all, const struct op_call *one, int64_t q,
                             const char *what)
{
    for (int i = 0; i < 2; i++) {
        const struct td_tensor *of_all = &all->args.outputs[i], *of_one = &one->args.outputs[i];
        const size_t bytes = of_one->bytes;
        EXPECT(memcmp((const char *)of_all->data + (size_t)q * bytes, of_one->data, bytes) == 0,
               "%s: output %d of query %d differs", what, i, (int)q);
    }
}

static void expect_same_bits_alone(const struct example *e, td_isa together, td_isa alone,
                                   const char *what)
{
    struct thread_exec exec;
    struct op_call all, one;
    thread_exec_init(&exec, 2, 0);
    exec.exec.isa = together;
    run_example(e, &all, &exec.exec);
    EXPECT(all.status == TD_OK, "%s: %s", what, all.err.message);
    exec.exec.isa = alone;
    for (int64_t q = 0; q < e->n_queries; q++) {
        struct example single = *e;
        struct td_tensor *query = &single.inputs[TD_SEARCH_QUERIES];
        query->data = (char *)query->data + (size_t)q * query->bytes / (size_t)e->n_queries;
        query->shape.dim[0] = 1;
        query->numel = e->columns;
        query->bytes /= (size_t)e->n_queries;
        run_example(&single, &one, &exec.exec);
        EXPECT(one.status == TD_OK, "%s: %s", what, one.err.message);
        expect_same_bits(&all, &one, q, what);
    }
}

static void expect_same_bits_everywhere(td_dtype table, int64_t columns, td_search_metric metric,
                                        int64_t n_queries)
{
    char what[96];
    struct example e = {
        .attrs = { .k = 40, .metric = metric }, .n = 40, .columns = columns, .n_queries = n_queries
    };
    td_arena_reset(&test_arena);
    random_seed((uint64_t)columns);
    e.inputs[TD_SEARCH_PARAMS] = rounded_numbers(table, e.n, columns);
    e.inputs[TD_SEARCH_QUERIES] = rounded_numbers(
        table == TD_DTYPE_FLOAT64 ? TD_DTYPE_FLOAT64 : TD_DTYPE_FLOAT32, e.n_queries, columns);
    if (td_is_quantized(table))
        random_scaling(&e);
    snprintf(what, sizeof(what), "%s [40,%d], %d queries, metric %d", td_dtype_info(table)->name,
             (int)columns, (int)n_queries, metric);
    expect_same_bits_alone(&e, TD_ISA_GENERIC, TD_ISA_GENERIC, what);
    if (td_isa_supported(TD_ISA_AVX2))
        expect_same_bits_alone(&e, TD_ISA_AVX2, TD_ISA_AUTO, what);
    expect_same_bits_alone(&e, TD_ISA_AUTO, TD_ISA_AUTO, what);
}

TD_TEST_LOOP(a_score_has_the_same_bits_alone_and_beside_other_queries, 0, COUNT_OF(tables))
{
    static const int64_t widths[] = { 1, 7, 9, 24, 100, 520, 4100 };
    /* Numbers of queries that are scored one by one, interleaved, and in panels. */
    static const int64_t numbers[] = { 2, 3, 7, 19 };
    const size_t n = MOST_THREADS > 2 ? COUNT_OF(widths) : COUNT_OF(widths) - 1; /* threads.h */
    for (size_t i = 0; i < n; i++)
        for (int metric = 0; metric < 3; metric++)
            for (size_t q = 0; q < COUNT_OF(numbers); q++)
                expect_same_bits_everywhere(tables[_i], widths[i], (td_search_metric)metric,
                                            numbers[q]);
}

/* ---- Random calls ------------------------------------------------------------------------ */

/* A tenth of what the long run takes. */
enum { SEARCHES = 2000, PARTS = 40 };

TD_TEST_LOOP(any_search_gives_the_best_rows_of_its_definition, 0, PARTS)
{
    for (int s = 0; s < SEARCHES / PARTS * test_effort(); s++) {
        const int seed = _i + s * PARTS;
        struct thread_exec exec;
        struct op_call call;
        char what[160];
        td_arena_reset(&test_arena);
        random_seed((uint64_t)seed);
        const struct example e = random_example();
        const td_isa isa = (td_isa)(TD_ISA_GENERIC + random_below(3));
        snprintf(what, sizeof(what), "seed %d: %s [%d,%d], %d queries, metric %d, %s", seed,
                 td_dtype_info(e.inputs[0].dtype)->name, (int)e.n, (int)e.columns, (int)e.n_queries,
                 e.attrs.metric, td_isa_name(td_isa_resolve(isa)));
        thread_exec_init(&exec, 1 + random_below(3), 0);
        exec.exec.isa = isa;
        run_example(&e, &call, &exec.exec);
        EXPECT(call.status == TD_OK, "%s: %s", what, call.err.message);
        for (int64_t q = 0; q < e.n_queries; q++)
            expect_places(&e, &call, q, what);
    }
}
