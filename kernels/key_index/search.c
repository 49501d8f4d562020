#include "kernels/key_index/search.h"

#include "kernels/integers.h"
#include "kernels/shown_text.h"
#include "kernels/workspace.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* ---- Keys in order ------------------------------------------------------------------------- */

/* Compares element i of a with element j of b. Returns a negative number, 0 or a positive number.
 * Strings are ordered by their bytes. */
static inline int compare(const struct td_tensor *a, int64_t i, const struct td_tensor *b,
                          int64_t j)
{
    if (a->dtype == TD_DTYPE_INT64) {
        const int64_t x = ((const int64_t *)a->data)[i], y = ((const int64_t *)b->data)[j];
        return (x > y) - (x < y);
    }
    if (a->dtype == TD_DTYPE_UINT64) {
        const uint64_t x = ((const uint64_t *)a->data)[i], y = ((const uint64_t *)b->data)[j];
        return (x > y) - (x < y);
    }
    const uint64_t n = a->offsets[i + 1] - a->offsets[i], m = b->offsets[j + 1] - b->offsets[j];
    const int order = memcmp((const char *)a->data + a->offsets[i],
                             (const char *)b->data + b->offsets[j], n < m ? n : m);
    return order ? order : (n > m) - (n < m);
}

struct order {
    const struct td_tensor *keys;
    /* Relaxed accesses are enough, because nothing else depends on the flag and the end of
     * parallel_for publishes it. */
    atomic_bool broken;
};

/* Number of keys in one range of the check: at least 50 us of work at memory speed. */
#define ORDER_GRAIN 65536

static void check_order(void *context, int64_t begin, int64_t end)
{
    struct order *order = context;
    if (atomic_load_explicit(&order->broken, memory_order_relaxed))
        return;
    for (int64_t i = td_larger(begin, 1); i < end; i++)
        if (compare(order->keys, i - 1, order->keys, i) >= 0) {
            atomic_store_explicit(&order->broken, true, memory_order_relaxed);
            return;
        }
}

static td_status are_ascending(const struct td_tensor *keys, struct td_exec *exec, bool *ascending,
                               struct td_error *err)
{
    struct order order = { .keys = keys, .broken = false };
    td_status status = td_exec_for(exec, keys->numel, ORDER_GRAIN, check_order, &order, err);
    *ascending = !atomic_load_explicit(&order.broken, memory_order_relaxed);
    return status;
}

/* Returns the row of a query among ascending keys, or TD_ROW_NONE. Even if the memory changes
 * during the search, the returned row is below numel and had the key when it was compared. */
static int64_t bisect(const struct td_tensor *keys, const struct td_tensor *queries, int64_t query)
{
    int64_t begin = 0;
    for (int64_t n = keys->numel; n > 0;) {
        const int64_t half = n / 2;
        const int order = compare(keys, begin + half, queries, query);
        if (order == 0)
            return begin + half;
        begin = order < 0 ? begin + half + 1 : begin;
        n = order < 0 ? n - half - 1 : half;
    }
    return TD_ROW_NONE;
}

/* ---- The search ---------------------------------------------------------------------------- */

static int bits_of(int64_t n)
{
    return n > 0 ? 64 - __builtin_clzll((uint64_t)n) : 0;
}

/* True if bisection is cheaper than building an index. A bisection step costs less than adding a
 * key to an index: 6 ns compared with 19 ns within the caches, 28 and 36 ns with 10 million int64
 * keys, and 42 and 44 ns with 100 million (Zen 4, one thread). Bisection also needs no memory. */
static bool few_queries(const struct td_tensor *keys, const struct td_tensor *queries)
{
    return queries->numel <= INT64_MAX / 64 && queries->numel * bits_of(keys->numel) < keys->numel;
}

/* Returns the size in bytes of the index of a call, or 0 if it overflows. */
static uint64_t image_bytes(const struct td_tensor *keys)
{
    return keys->key_index ? 0 : td_workspace_align(td_key_index_bytes(keys->numel));
}

td_status td_key_search_check(const struct td_tensor *keys, const char *input, struct td_error *err)
{
    char text[TD_SHAPE_TEXT];
    if (keys->shape.rank == 1)
        return TD_OK;
    td_error_set(err, TD_SHAPE_MISMATCH, "%s has shape %s; expected a vector", input,
                 td_shape_text(&keys->shape, text, sizeof(text)));
    td_error_add_shape(err, input, &keys->shape);
    return td_error_at_input(err, TD_SHAPE_MISMATCH, "%s", input);
}

void td_key_search_add_cost(const struct td_tensor *keys, const struct td_tensor *queries,
                            struct td_cost *cost)
{
    const uint64_t reads = keys->dtype == TD_DTYPE_STRING ? 3 : 2;
    cost->bytes_read += td_tensor_footprint(queries);
    cost->random_reads += reads * (uint64_t)queries->numel;
    if (keys->key_index)
        return;
    cost->bytes_read += td_tensor_footprint(keys);
    cost->random_reads += (uint64_t)keys->numel;
    cost->workspace += image_bytes(keys);
}

static td_status build(struct td_key_search *search, const char *input, struct td_exec *exec,
                       struct td_error *err)
{
    const size_t bytes = td_key_index_bytes(search->keys->numel);
    void *image = td_arena_alloc(exec->arena, bytes, 1, err);
    if (!image)
        return err->status;
    td_status status = td_key_index_build(search->keys, input, exec->hash_seed, image, exec, err);
    if (status != TD_OK)
        return status;
    if (!td_key_index_open(image, bytes, search->keys, &search->built))
        return td_error_set(err, TD_INTERNAL, "the index of %s is not valid", input);
    search->index = &search->built;
    return TD_OK;
}

td_status td_key_search_begin(struct td_key_search *search, const struct td_tensor *keys,
                              const char *input, const struct td_tensor *queries,
                              struct td_exec *exec, struct td_error *err)
{
    *search = (struct td_key_search){ .keys = keys, .queries = queries, .index = keys->key_index };
    if (search->index)
        return TD_OK;
    if (few_queries(keys, queries)) {
        bool ascending;
        td_status status = are_ascending(keys, exec, &ascending, err);
        if (status != TD_OK || ascending)
            return status;
    }
    return build(search, input, exec, err);
}

void td_key_search_rows(const struct td_key_search *search, int64_t begin, int64_t n, int64_t *rows)
{
    if (search->index) {
        td_key_index_find(search->index, search->queries, begin, n, rows);
        return;
    }
    for (int64_t k = 0; k < n; k++)
        rows[k] = bisect(search->keys, search->queries, begin + k);
}

struct search_all {
    const struct td_key_search *search;
    struct td_key_rows *out;
};

static void note_missing(struct td_key_rows *out, int64_t n, int64_t first)
{
    if (n == 0)
        return;
    atomic_fetch_add_explicit(&out->n_missing, n, memory_order_relaxed);
    int_fast64_t seen = atomic_load_explicit(&out->first_missing, memory_order_relaxed);
    while (first < seen &&
           !atomic_compare_exchange_weak_explicit(&out->first_missing, &seen, first,
                                                  memory_order_relaxed, memory_order_relaxed))
        ;
}

static void search_range(void *context, int64_t begin, int64_t end)
{
    const struct search_all *job = context;
    struct td_key_rows *out = job->out;
    int64_t n = 0, first = INT64_MAX;
    td_key_search_rows(job->search, begin, end - begin, out->rows + begin);
    for (int64_t k = begin; k < end; k++) {
        const bool found = out->rows[k] != TD_ROW_NONE;
        if (out->found)
            out->found[k] = found;
        if (!found && n++ == 0)
            first = k;
    }
    note_missing(out, n, first);
}

td_status td_key_search_all(const struct td_key_search *search, struct td_key_rows *out,
                            struct td_exec *exec, struct td_error *err)
{
    struct search_all job = { search, out };
    atomic_init(&out->n_missing, 0);
    atomic_init(&out->first_missing, INT64_MAX);
    return td_exec_for(exec, search->queries->numel, TD_KEY_SEARCH_GRAIN, search_range, &job, err);
}

/* ---- The error ----------------------------------------------------------------------------- */

/* A key as text: the bytes of a string, or the digits of an integer. */
struct key_text {
    const char *text, *quote;
    size_t length;
    char digits[24];
};

static void write_key(const struct td_tensor *keys, int64_t at, struct key_text *out)
{
    out->text = out->digits;
    out->quote = "";
    if (keys->dtype == TD_DTYPE_STRING) {
        out->text = (const char *)keys->data + keys->offsets[at];
        out->length = keys->offsets[at + 1] - keys->offsets[at];
        out->quote = "\"";
    } else if (keys->dtype == TD_DTYPE_INT64) {
        out->length = (size_t)snprintf(out->digits, sizeof(out->digits), "%" PRId64,
                                       ((const int64_t *)keys->data)[at]);
    } else {
        out->length = (size_t)snprintf(out->digits, sizeof(out->digits), "%" PRIu64,
                                       ((const uint64_t *)keys->data)[at]);
    }
}

td_status td_key_not_found(struct td_error *err, const char *input, const struct td_tensor *keys,
                           const struct td_tensor *queries, int64_t first, int64_t n_bad)
{
    struct td_shape position = { .rank = queries->shape.rank };
    char place[TD_SHAPE_TEXT] = ""; /* a scalar has no coordinates */
    struct key_text key, example;
    write_key(queries, first, &key);
    td_shape_unravel(&queries->shape, first, position.dim);
    if (position.rank > 0)
        td_shape_text(&position, place, sizeof(place));
    td_error_set(err, TD_KEY_NOT_FOUND, "%s%s = %s%s%s is not one of the keys", input, place,
                 key.quote, TD_SHOWN(key.text, key.length), key.quote);
    if (keys && keys->numel == 0)
        td_error_hint(err, "there are no keys");
    if (keys && keys->numel > 0) {
        write_key(keys, 0, &example);
        td_error_hint(err, "the first key is %s%s%s", example.quote,
                      TD_SHOWN(example.text, example.length), example.quote);
    }
    err->position_rank = position.rank;
    memcpy(err->position, position.dim, sizeof(err->position));
    err->bad_count = n_bad;
    td_error_at_key(err, TD_KEY_NOT_FOUND, key.text, key.length, queries->dtype != TD_DTYPE_STRING);
    return td_error_at_input(err, TD_KEY_NOT_FOUND, "%s", input);
}
