#include "kernels/upsert/upsert.h"

#include "kernels/key_dtype.h"
#include "kernels/key_index/distinct.h"
#include "kernels/key_index/search.h"
#include "kernels/rows/strings.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

/* Name of the table's keys in errors. No member of a request has this name. */
#define ROW_KEYS "table.keys"

static const struct td_tensor *input(const struct td_op_args *args, int i)
{
    return args->inputs[i].tensors;
}

/* ---- Checks ------------------------------------------------------------------------------ */

static td_status check_table(const struct td_op_args *args, struct td_error *err)
{
    const struct td_tensor *params = input(args, TD_UPSERT_PARAMS),
                           *row_keys = input(args, TD_UPSERT_ROW_KEYS);
    if (params->shape.rank > 0 && row_keys->shape.rank == 1 &&
        row_keys->shape.dim[0] == params->shape.dim[0])
        return td_key_search_check(input(args, TD_UPSERT_KEYS), "keys", err);
    td_error_set(err, TD_SHAPE_MISMATCH,
                 "the keys of the table are not a vector with a key for each row");
    return td_error_at_input(err, TD_SHAPE_MISMATCH, ROW_KEYS);
}

/* Checks that `rows` has one row per key, and that these rows have the shape of the rows of
 * params. */
static td_status check_rows(const struct td_op_args *args, struct td_error *err)
{
    char text[TD_SHAPE_TEXT], more[TD_SHAPE_TEXT];
    const struct td_shape *rows = &input(args, TD_UPSERT_ROWS)->shape;
    struct td_shape want = input(args, TD_UPSERT_PARAMS)->shape;
    want.dim[0] = input(args, TD_UPSERT_KEYS)->numel;
    if (td_shape_equal(rows, &want))
        return TD_OK;
    td_error_set(err, TD_SHAPE_MISMATCH,
                 "rows has shape %s; expected one row of params per key, %s",
                 td_shape_text(rows, text, sizeof(text)), td_shape_text(&want, more, sizeof(more)));
    td_error_add_shape(err, "params", &input(args, TD_UPSERT_PARAMS)->shape);
    td_error_add_shape(err, "keys", &input(args, TD_UPSERT_KEYS)->shape);
    td_error_add_shape(err, "rows", rows);
    return td_error_at_input(err, TD_SHAPE_MISMATCH, "rows");
}

static td_status infer_upsert(struct td_op_args *args, struct td_arena *arena, struct td_error *err)
{
    (void)arena;
    const td_status status = check_table(args, err);
    return status == TD_OK ? check_rows(args, err) : status;
}

static td_status infer_remove(struct td_op_args *args, struct td_arena *arena, struct td_error *err)
{
    (void)arena;
    return check_table(args, err);
}

/* Returns the cost of the search and of the written rows. Excludes the caller's copies of the
 * table, which are not known here. */
static struct td_cost cost_of(const struct td_op_args *args, const struct td_tensor *rows)
{
    const struct td_tensor *keys = input(args, TD_UPSERT_KEYS);
    const uint64_t bytes = rows ? td_tensor_footprint(rows) : 0;
    struct td_cost cost = { .bytes_read = bytes,
                            .bytes_written = bytes,
                            .workspace = 3 * (uint64_t)keys->numel * sizeof(int64_t) +
                                         td_distinct_keys_workspace(keys->numel) };
    td_key_search_add_cost(input(args, TD_UPSERT_ROW_KEYS), keys, &cost);
    return cost;
}

static struct td_cost cost_upsert(const struct td_op_args *args)
{
    return cost_of(args, input(args, TD_UPSERT_ROWS));
}

static struct td_cost cost_remove(const struct td_op_args *args)
{
    return cost_of(args, NULL);
}

/* ---- Search ------------------------------------------------------------------------------ */

/* Returns the row of each key, or TD_ROW_NONE. On failure, returns NULL with the error set. */
static const int64_t *find_keys(const struct td_op_args *args, struct td_exec *exec,
                                struct td_error *err)
{
    const struct td_tensor *keys = input(args, TD_UPSERT_KEYS);
    struct td_key_search search;
    struct td_key_rows found = { .rows = td_arena_alloc(exec->arena, (size_t)keys->numel,
                                                        sizeof(int64_t), err) };
    if (!found.rows || td_key_search_begin(&search, input(args, TD_UPSERT_ROW_KEYS), ROW_KEYS, keys,
                                           exec, err) != TD_OK)
        return NULL;
    return td_key_search_all(&search, &found, exec, err) == TD_OK ? found.rows : NULL;
}

/* Allocates two arrays of n row numbers. */
static td_status alloc_moves(int64_t **to, int64_t **from, int64_t n, struct td_arena *arena,
                             struct td_error *err)
{
    *to = td_arena_alloc(arena, (size_t)n, 2 * sizeof(int64_t), err);
    if (!*to)
        return TD_MEMORY_EXHAUSTED;
    *from = *to + n;
    return TD_OK;
}

/* Finds the distinct keys. If no key repeats, as in most upserts, the search detects this with all
 * threads, and first and last are NULL. */
static td_status find_distinct(const struct td_tensor *keys, struct td_exec *exec,
                               struct td_distinct_keys *out, struct td_error *err)
{
    struct td_key_search search;
    const td_status status = td_key_search_begin(&search, keys, "keys", keys, exec, err);
    *out = (struct td_distinct_keys){ .n = keys->numel };
    return status == TD_INVALID_ARGUMENT ? td_distinct_keys_find(keys, exec, out, err) : status;
}

static td_status upsert_find(const struct td_op_args *args, struct td_exec *exec,
                             struct td_row_change *out, struct td_error *err)
{
    const struct td_tensor *keys = input(args, TD_UPSERT_KEYS);
    const int64_t n_before = input(args, TD_UPSERT_ROW_KEYS)->numel;
    struct td_distinct_keys distinct;
    int64_t *to, *from;
    td_status status = find_distinct(keys, exec, &distinct, err);
    if (status != TD_OK)
        return status;
    const int64_t n = distinct.n;
    const int64_t *rows = find_keys(args, exec, err);
    if (!rows)
        return err->status;
    status = alloc_moves(&to, &from, n, exec->arena, err);
    if (status != TD_OK)
        return status;
    int64_t n_rows = n_before;
    for (int64_t i = 0; i < n; i++) {
        const int64_t row = rows[distinct.first ? distinct.first[i] : i];
        to[i] = row == TD_ROW_NONE ? n_rows++ : row;
        from[i] = n_before + (distinct.last ? distinct.last[i] : i);
    }
    *out = (struct td_row_change){
        .to = to, .from = from, .n = n, .n_rows = n_rows, .n_found = n - (n_rows - n_before)
    };
    return TD_OK;
}

/* Sets a bit for each row to remove, and returns the number of these rows. */
static int64_t mark_removed(uint64_t *removed, const int64_t *rows, int64_t n)
{
    int64_t n_removed = 0;
    for (int64_t i = 0; i < n; i++) {
        if (rows[i] == TD_ROW_NONE)
            continue;
        uint64_t *word = &removed[rows[i] / 64];
        const uint64_t bit = (uint64_t)1 << rows[i] % 64;
        n_removed += !(*word & bit);
        *word |= bit;
    }
    return n_removed;
}

static bool is_removed(const uint64_t *removed, int64_t row)
{
    return removed[row / 64] >> row % 64 & 1;
}

/* Fills the gaps below n_rows with the last remaining rows, and returns the number of gaps. */
static int64_t fill_gaps(const uint64_t *removed, int64_t n_before, int64_t n_rows, int64_t *to,
                         int64_t *from)
{
    int64_t n = 0, last = n_before;
    for (int64_t gap = 0; gap < n_rows; gap++) {
        if (removed[gap / 64] == 0) {
            gap |= 63;
            continue;
        }
        if (!is_removed(removed, gap))
            continue;
        do
            last--;
        while (is_removed(removed, last));
        to[n] = gap;
        from[n++] = last;
    }
    return n;
}

static td_status remove_find(const struct td_op_args *args, struct td_exec *exec,
                             struct td_row_change *out, struct td_error *err)
{
    const int64_t n_before = input(args, TD_UPSERT_ROW_KEYS)->numel;
    const size_t words = (size_t)n_before / 64 + 1;
    int64_t *to, *from;
    const int64_t *rows = find_keys(args, exec, err);
    if (!rows)
        return err->status;
    uint64_t *removed = td_arena_alloc(exec->arena, words, sizeof *removed, err);
    if (!removed)
        return TD_MEMORY_EXHAUSTED;
    memset(removed, 0, words * sizeof *removed);
    const int64_t n_removed = mark_removed(removed, rows, input(args, TD_UPSERT_KEYS)->numel);
    const td_status status = alloc_moves(&to, &from, n_removed, exec->arena, err);
    if (status != TD_OK)
        return status;
    *out =
        (struct td_row_change){ .to = to,
                                .from = from,
                                .n = fill_gaps(removed, n_before, n_before - n_removed, to, from),
                                .n_rows = n_before - n_removed,
                                .n_found = n_removed };
    return TD_OK;
}

/* ---- The descriptors ----------------------------------------------------------------------- */

static const struct td_input_spec inputs[] = {
    [TD_UPSERT_PARAMS] = {
        .name = "params",
        .summary = "The table, of rank 1 or more.",
        .dtypes = TD_DTYPES_ALL,
        .one_dtype = true,
        .part = TD_ROW_PART_TABLE,
    },
    [TD_UPSERT_ROW_KEYS] = {
        .name = ROW_KEYS,
        .summary = "The keys of the table's rows.",
        .role = TD_ROLE_KEY,
        .dtypes = TD_DTYPES_KEY_GIVEN,
        .one_dtype = true,
        .part = TD_ROW_PART_PER_ROW,
    },
    [TD_UPSERT_KEYS] = {
        .name = "keys",
        .summary = "The keys of the rows to change, as a vector.",
        .role = TD_ROLE_KEY,
        .dtypes = TD_DTYPES_KEY_GIVEN,
        .one_dtype = true,
        .part = TD_ROW_PART_QUERY,
    },
    [TD_UPSERT_ROWS] = {
        .name = "rows",
        .summary = "A row for each key, keys.shape + params.shape[1:].",
        .dtypes = TD_DTYPES_ALL,
        .one_dtype = true,
        .part = TD_ROW_PART_PER_QUERY,
    },
};

static const td_status errors[] = { TD_SHAPE_MISMATCH, TD_UNSUPPORTED_DTYPE, TD_INVALID_ARGUMENT,
                                    TD_RESOURCE_LIMIT, TD_OK };

static const struct td_op_change upsert_change = { .find = upsert_find,
                                                   .found = "replaced",
                                                   .added = "appended" };

const struct td_op td_op_upsert = {
    .name = "upsert",
    .summary = "Replaces the rows whose keys the table already has, and appends the other rows.",
    .inputs = inputs,
    .n_inputs = 4,
    .errors = errors,
    .infer = infer_upsert,
    .cost = cost_upsert,
    .change = &upsert_change,
};

static const struct td_op_change remove_change = { .find = remove_find, .found = "removed" };

const struct td_op td_op_remove = {
    .name = "remove",
    .summary = "Removes the rows of the given keys. The last rows fill the gaps.",
    .inputs = inputs,
    .n_inputs = 3,
    .errors = errors,
    .infer = infer_remove,
    .cost = cost_remove,
    .change = &remove_change,
};
