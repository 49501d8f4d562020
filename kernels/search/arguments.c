#include "kernels/search/arguments.h"

#include "kernels/integers.h"
#include "kernels/quantized.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct td_search_attrs td_search_attrs(const struct td_op_args *args)
{
    struct td_search_attrs attrs;
    memcpy(&attrs, args->attrs, sizeof(attrs));
    return attrs;
}

const struct td_tensor *td_search_given(const struct td_op_args *args, int input)
{
    return args->inputs[input].count > 0 ? args->inputs[input].tensors : NULL;
}

/* Returns the number of numbers in a row of params. */
static int64_t columns_of(const struct td_op_args *args)
{
    const bool trailer = td_search_attrs(args).layout == TD_ROW_LAYOUT_BYTE_ROWWISE;
    return td_search_given(args, TD_SEARCH_PARAMS)->shape.dim[1] - (trailer ? TD_ROW_TRAILER : 0);
}

static bool is_float64(const struct td_tensor *tensor)
{
    return tensor && tensor->dtype == TD_DTYPE_FLOAT64;
}

struct td_search_sizes td_search_sizes(const struct td_op_args *args)
{
    const struct td_tensor *params = td_search_given(args, TD_SEARCH_PARAMS),
                           *queries = td_search_given(args, TD_SEARCH_QUERIES),
                           *rows = td_search_given(args, TD_SEARCH_ROWS),
                           *candidates = td_search_given(args, TD_SEARCH_CANDIDATES);
    struct td_search_sizes sizes = {
        .n_rows = params->shape.dim[0],
        .columns = columns_of(args),
        .n_queries = rows                      ? rows->numel
                     : queries->shape.rank > 1 ? queries->shape.dim[0]
                                               : 1,
        .n_scored = candidates ? candidates->numel : params->shape.dim[0],
        .real = is_float64(params) || is_float64(queries) ? TD_DTYPE_FLOAT64 : TD_DTYPE_FLOAT32,
    };
    sizes.n_best = td_smaller(td_search_attrs(args).k, td_smaller(sizes.n_rows, sizes.n_scored));
    return sizes;
}

/* ---- Checks ------------------------------------------------------------------------------ */

static td_status refuse_shape(const char *name, const struct td_tensor *tensor,
                              const char *expected, struct td_error *err)
{
    char text[TD_SHAPE_TEXT];
    td_error_set(err, TD_SHAPE_MISMATCH, "%s has shape %s; expected %s", name,
                 td_shape_text(&tensor->shape, text, sizeof(text)), expected);
    td_error_add_shape(err, name, &tensor->shape);
    return td_error_at_input(err, TD_SHAPE_MISMATCH, "%s", name);
}

/* Refuses an input whose size does not fit the table. */
static td_status refuse_size(const struct td_op_args *args, const char *name,
                             const struct td_tensor *tensor, const char *expected,
                             struct td_error *err)
{
    const struct td_shape *params = &td_search_given(args, TD_SEARCH_PARAMS)->shape;
    char text[TD_SHAPE_TEXT], more[TD_SHAPE_TEXT];
    td_error_set(err, TD_SHAPE_MISMATCH, "%s has shape %s and params %s; expected %s", name,
                 td_shape_text(&tensor->shape, text, sizeof(text)),
                 td_shape_text(params, more, sizeof(more)), expected);
    td_error_add_shape(err, "params", params);
    td_error_add_shape(err, name, &tensor->shape);
    return td_error_at_input(err, TD_SHAPE_MISMATCH, "%s", name);
}

static td_status check_table(const struct td_op_args *args, struct td_error *err)
{
    const struct td_tensor *params = td_search_given(args, TD_SEARCH_PARAMS);
    const struct td_quantized rows = {
        .params = params,
        .scale = td_search_given(args, TD_SEARCH_SCALE),
        .offset = td_search_given(args, TD_SEARCH_OFFSET),
        .zero_point = td_search_given(args, TD_SEARCH_ZERO_POINT),
        .layout = td_search_attrs(args).layout,
    };
    if (params->shape.rank != 2)
        return refuse_shape("params", params, "a matrix with a vector in each row", err);
    if (params->shape.dim[0] > INT32_MAX) {
        td_error_resource(err, "rows", (uint64_t)params->shape.dim[0], INT32_MAX, "params");
        return td_error_at_input(err, TD_RESOURCE_LIMIT, "params");
    }
    return td_quantized_check(&rows, err);
}

static td_status check_queries(const struct td_op_args *args, struct td_error *err)
{
    const struct td_tensor *queries = td_search_given(args, TD_SEARCH_QUERIES);
    const int64_t columns = columns_of(args);
    if (queries->shape.rank != 1 && queries->shape.rank != 2)
        return refuse_shape("queries", queries, "a vector, or a matrix with a query in each row",
                            err);
    if (queries->shape.dim[queries->shape.rank - 1] == columns)
        return TD_OK;
    char expected[64];
    snprintf(expected, sizeof(expected), "queries of %" PRId64 " elements", columns);
    return refuse_size(args, "queries", queries, expected, err);
}

/* Checks that the queries are given in exactly one way. */
static td_status check_given(const struct td_op_args *args, struct td_error *err)
{
    const bool queries = td_search_given(args, TD_SEARCH_QUERIES),
               rows = td_search_given(args, TD_SEARCH_ROWS);
    if (queries != rows)
        return TD_OK;
    if (queries)
        td_error_set(err, TD_INVALID_ARGUMENT,
                     "both queries and rows are given; expected only one of them");
    else
        td_error_set(
            err, TD_INVALID_ARGUMENT,
            "queries and rows are missing; give vectors in queries, or row numbers or keys "
            "in rows");
    return td_error_at_input(err, TD_INVALID_ARGUMENT, queries ? "rows" : "queries");
}

static td_status check_vector(const struct td_op_args *args, int input, const char *name,
                              struct td_error *err)
{
    const struct td_tensor *tensor = td_search_given(args, input);
    return !tensor || tensor->shape.rank == 1 ? TD_OK : refuse_shape(name, tensor, "a vector", err);
}

static td_status check_keys(const struct td_op_args *args, struct td_error *err)
{
    const struct td_tensor *keys = td_search_given(args, TD_SEARCH_KEYS);
    if (!keys || keys->numel == td_search_given(args, TD_SEARCH_PARAMS)->shape.dim[0])
        return TD_OK;
    return refuse_size(args, "keys", keys, "one key per row", err);
}

td_status td_search_check(const struct td_op_args *args, struct td_error *err)
{
    const struct td_tensor *rows = td_search_given(args, TD_SEARCH_ROWS);
    td_status status = check_table(args, err);
    if (status == TD_OK)
        status = check_given(args, err);
    if (status == TD_OK && !rows)
        status = check_queries(args, err);
    if (status == TD_OK && rows && rows->shape.rank > 1)
        status = refuse_shape("rows", rows, "a row number, or a vector of row numbers", err);
    if (status == TD_OK)
        status = check_vector(args, TD_SEARCH_CANDIDATES, "candidates", err);
    if (status == TD_OK)
        status = check_vector(args, TD_SEARCH_EXCLUDE, "exclude", err);
    return status == TD_OK ? check_keys(args, err) : status;
}
