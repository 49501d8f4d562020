/* search.c - search.
 *
 *     queries   [-- group --|-- group --| ...]
 *     rows      [block|  block  |      block      |      block      | ...]
 *
 * For each group and block, one kernel computes the scores, and another keeps the best rows. The
 * scores of all rows are therefore never stored. A selection takes long only for rows that are
 * better than the k-th best row of all blocks before. The first blocks are short, and a later block
 * is at most as long as all blocks before, so it has about k such rows if the rows are in random
 * order.
 *
 * cuBLAS computes dot products and cosines of many queries if the queries have the dtype of the
 * table, or can be converted to it without rounding. In all other cases, and for distances, which
 * would lose digits if they were computed from products, the plugin's own kernel computes the
 * scores. */
#include "kernels/search/search.h"

#include "gpu/cuda/ops/gemm_cublas.h"
#include "gpu/cuda/ops/ops.h"
#include "kernels/integers.h"
#include "kernels/search/arguments.h"

_Static_assert((int)TD_SEARCH_DOT == TD_CUDA_SEARCH_DOT &&
                   (int)TD_SEARCH_COSINE == TD_CUDA_SEARCH_COSINE &&
                   (int)TD_SEARCH_L2 == TD_CUDA_SEARCH_L2,
               "the kernels have the same numbers");

/* Sizes of blocks, strips and pools are divided by this number. Tests set it, so that a small table
 * has several blocks, strips and pools. */
#ifndef TD_CUDA_SEARCH_DIVISOR
#define TD_CUDA_SEARCH_DIVISOR 1
#endif
#define SIZE(n) ((int64_t)(n) / TD_CUDA_SEARCH_DIVISOR)

/* Maximum number of queries in a group. The table is read once for each group. */
#define GROUP       ((int64_t)256)
/* Maximum size in bytes of the scores of a group and a block. */
#define SCORE_BYTES SIZE(64 << 20)
/* Number of rows in the first block, if the scores of more would fit. */
#define FIRST_ROWS  SIZE(65536)
/* Maximum number of queries of a call that never uses cuBLAS. The plugin's own kernel scores them
 * in one tile, at the speed at which it reads the table. */
#define FEW_QUERIES ((int64_t)4)
/* Minimum number of rows in a strip, and minimum number for each of the k rows that a strip can
 * find. The entries of several strips take at most half as much memory as the scores. */
#define STRIP       SIZE(4096)
#define STRIP_PER_K 16
/* Maximum size in bytes of the pools of a group if they are sorted in device memory, unless one is
 * larger, and the number of entries that make a sort worth its launches. */
#define POOL_BYTES  SIZE(256 << 20)
#define SORTED      SIZE(1 << 20)
/* Maximum number of scores of a call, and maximum number that it sorts in device memory. A score is
 * written and read at least once, and sorting it takes 0.3 to 2.5 KB of reads and writes. More
 * scores could take so many seconds that the device would count as hung. */
#define MAX_SCORES  ((int64_t)1 << 36)
#define MAX_SORTED  ((int64_t)1 << 31)

/* ---- Kernel arguments -------------------------------------------------------------------- */

/* Returns the smallest power of two that is at least n. */
static int64_t power_of_two(int64_t n)
{
    int64_t power = 1;
    while (power < n)
        power *= 2;
    return power;
}

static bool is_sorted_in_device_memory(const struct td_cuda_search_args *args)
{
    return args->k > TD_CUDA_SEARCH_SHARED_K;
}

static int64_t real_bytes(const struct td_cuda_search_args *args)
{
    return args->is_double ? (int64_t)sizeof(double) : (int64_t)sizeof(float);
}

/* Chooses the sizes of groups, blocks and strips. n_queries and n are their maximums. */
static void set_sizes(struct td_cuda_search_args *args)
{
    const int64_t entry = (int64_t)sizeof(struct td_cuda_scored);
    args->n_queries = td_smaller(args->all_queries, GROUP);
    args->best_pitch = args->k;
    args->n = args->n_scored;
    if (is_sorted_in_device_memory(args)) {
        const int64_t needed = power_of_two(td_larger(args->k, TD_CUDA_SEARCH_TILE));
        args->n_queries =
            td_larger(1, td_smaller(args->n_queries, POOL_BYTES / (2 * entry * needed)));
        const int64_t wanted = power_of_two(td_smaller(SORTED / args->n_queries, args->n_scored));
        args->best_pitch = 2 * td_larger(needed, wanted);
        args->n = td_smaller(args->n, args->best_pitch / 2);
    }
    args->n = td_smaller(args->n, SCORE_BYTES / (args->n_queries * real_bytes(args)));
    args->score_pitch = args->n;
    args->strip = td_larger(STRIP, STRIP_PER_K * args->k);
    args->strips = td_ceil_div(args->n, args->strip);
}

static int index_bytes(const struct td_tensor *tensor)
{
    return tensor ? (int)td_cuda_element_bytes(tensor) : 0;
}

/* Returns the arguments, without the buffers in the workspace. */
static struct td_cuda_search_args search_args(const struct td_op_args *args)
{
    const struct td_search_attrs attrs = td_search_attrs(args);
    const struct td_search_sizes sizes = td_search_sizes(args);
    const struct td_tensor *params = td_search_given(args, TD_SEARCH_PARAMS),
                           *queries = td_search_given(args, TD_SEARCH_QUERIES),
                           *rows = td_search_given(args, TD_SEARCH_ROWS),
                           *candidates = td_search_given(args, TD_SEARCH_CANDIDATES),
                           *exclude = td_search_given(args, TD_SEARCH_EXCLUDE);
    struct td_cuda_search_args out = {
        .params = params->data,
        .scaling = td_cuda_scaling_of(td_search_given(args, TD_SEARCH_SCALE),
                                      td_search_given(args, TD_SEARCH_OFFSET),
                                      td_search_given(args, TD_SEARCH_ZERO_POINT)),
        .n_rows = sizes.n_rows,
        .columns = sizes.columns,
        .row_bytes = params->shape.dim[1] * (int64_t)td_cuda_element_bytes(params),
        .given = td_cuda_data_of(queries),
        .rows = td_cuda_data_of(rows),
        .rows_bytes = index_bytes(rows),
        .exclude_self = rows && attrs.exclude_self,
        .candidates = td_cuda_data_of(candidates),
        .candidates_bytes = index_bytes(candidates),
        .n_scored = sizes.n_scored,
        .exclude = td_cuda_data_of(exclude),
        .exclude_bytes = index_bytes(exclude),
        .n_exclude = exclude ? exclude->numel : 0,
        .metric = (int)attrs.metric,
        .is_double = sizes.real == TD_DTYPE_FLOAT64,
        .all_queries = sizes.n_queries,
        .k = sizes.n_best,
        .out_scores = args->outputs[TD_SEARCH_SCORES].data,
        .out_indices = args->outputs[TD_SEARCH_INDICES].data,
    };
    (void)td_cuda_number_of(params->dtype, &out.params_type);
    if (queries)
        (void)td_cuda_number_of(queries->dtype, &out.given_type);
    return out;
}

/* ---- Workspace --------------------------------------------------------------------------- */

/* Sizes in bytes of the buffers in the workspace. A buffer that is not needed has size 0. */
struct buffer_sizes {
    size_t marked, numbers, queries, query_roots, factors, scores, best, found, n_found;
};

/* True if the dtypes and shapes suit a matrix product. */
static bool is_product(const struct td_op_args *args)
{
    const struct td_search_sizes sizes = td_search_sizes(args);
    const struct td_tensor *queries = td_search_given(args, TD_SEARCH_QUERIES);
    const td_dtype dtype = td_search_given(args, TD_SEARCH_PARAMS)->dtype;
    return td_search_attrs(args).metric != TD_SEARCH_L2 && sizes.n_queries > FEW_QUERIES &&
           sizes.columns > 0 && !td_search_given(args, TD_SEARCH_CANDIDATES) &&
           !td_is_quantized(dtype) && (dtype == sizes.real || !queries || queries->dtype == dtype);
}

static bool compute_sizes(const struct td_cuda_search_args *args, const struct td_op_args *op_args,
                          struct buffer_sizes *sizes)
{
    const bool has_candidates = td_search_given(op_args, TD_SEARCH_CANDIDATES);
    const size_t real = (size_t)real_bytes(args), entry = sizeof(struct td_cuda_scored);
    const size_t group = (size_t)args->n_queries, all = (size_t)args->all_queries;
    *sizes = (struct buffer_sizes){
        .scores = group * (size_t)args->score_pitch * real,
        .best = group * (size_t)args->best_pitch * entry,
    };
    if (has_candidates || args->n_exclude > 0)
        sizes->marked = (size_t)td_ceil_div(args->n_rows, 32) * sizeof(args->marked[0]);
    if (!is_sorted_in_device_memory(args)) {
        sizes->found = group * (size_t)args->strips * (size_t)args->k * entry;
        sizes->n_found = group * sizeof(args->n_found[0]);
    }
    if (args->metric == TD_SEARCH_COSINE && !td_size_mul(all, real, &sizes->query_roots))
        return false;
    if (has_candidates &&
        !td_size_mul((size_t)args->n_scored, sizeof(args->numbers[0]), &sizes->numbers))
        return false;
    /* Small inputs can be in host memory, from which cuBLAS does not read. */
    if (is_product(op_args) && args->row_bytes < args->columns * (int64_t)real &&
        !td_size_mul(all, (size_t)args->row_bytes, &sizes->factors))
        return false;
    return td_size_mul(all, real, &sizes->queries) &&
           td_size_mul(sizes->queries, (size_t)args->columns, &sizes->queries);
}

static size_t search_workspace_bytes(struct td_device *device, const struct td_device_work *work)
{
    struct td_cuda_search_args args = search_args(work->args);
    struct buffer_sizes sizes;
    size_t bytes = 0;
    (void)device;
    if (work->args->outputs[TD_SEARCH_INDICES].numel == 0)
        return 0;
    set_sizes(&args);
    if (!compute_sizes(&args, work->args, &sizes))
        return SIZE_MAX;
    const size_t all[] = { sizes.marked,      sizes.numbers, sizes.queries,
                           sizes.query_roots, sizes.factors, sizes.scores,
                           sizes.best,        sizes.found,   sizes.n_found };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        bytes = td_cuda_add_sizes(bytes, td_cuda_align_up(all[i]));
    return bytes;
}

static void *take(char **workspace, size_t bytes)
{
    return bytes > 0 ? td_cuda_take(workspace, bytes) : NULL;
}

/* ---- Products ---------------------------------------------------------------------------- */

/* A call in progress. */
struct search {
    struct td_device_stream *stream;
    const struct td_op_args *op_args;
    struct td_cuda_search_args args;
    struct buffer_sizes sizes;
    /* The queries that cuBLAS multiplies, in the dtype of params, [all_queries, columns]. NULL if
     * it is not used. */
    const char *factors;
};

static void take_buffers(struct search *search, char *workspace)
{
    const struct buffer_sizes *sizes = &search->sizes;
    struct td_cuda_search_args *args = &search->args;
    args->marked = take(&workspace, sizes->marked);
    args->numbers = take(&workspace, sizes->numbers);
    args->queries = take(&workspace, sizes->queries);
    args->query_roots = take(&workspace, sizes->query_roots);
    args->factors = take(&workspace, sizes->factors);
    args->scores = take(&workspace, sizes->scores);
    args->best = take(&workspace, sizes->best);
    args->found = take(&workspace, sizes->found);
    args->n_found = take(&workspace, sizes->n_found);
}

/* True if cuBLAS multiplies. It does not read small tables, which can be in host memory. With tf32,
 * it would round float32. */
static bool uses_cublas(const struct search *search)
{
    const struct td_device *device = search->stream->device;
    const struct td_tensor *params = td_search_given(search->op_args, TD_SEARCH_PARAMS);
    return search->stream->cublas && is_product(search->op_args) &&
           params->bytes > device->info.direct_bytes &&
           !(device->tf32 && params->dtype == TD_DTYPE_FLOAT32);
}

static td_status check(const struct search *search, cudaError_t error, struct td_error *err)
{
    return td_cuda_check(search->stream->device, error, "search for rows", err);
}

/* Multiplies the queries of a group and the rows of a block. Sets *done to false if cuBLAS cannot
 * multiply them. */
static td_status multiply(const struct search *search, const struct td_cuda_search_args *args,
                          bool *done, struct td_error *err)
{
    const td_dtype dtype = td_search_given(search->op_args, TD_SEARCH_PARAMS)->dtype;
    struct td_loop loops[] = {
        { args->n_queries, { args->columns, 0, args->score_pitch } },
        { args->n, { 0, args->columns, 1 } },
        { args->columns, { 1, 1, 0 } },
    };
    const struct td_contraction product = {
        .dtype = { dtype, dtype, td_search_sizes(search->op_args).real },
        .has_b = true,
        .kind = TD_CONTRACT_GEMM,
        .rank = 3,
        .loops = loops,
    };
    const char *const base[3] = { search->factors + args->first_query * args->row_bytes,
                                  (const char *)args->params + args->first * args->row_bytes,
                                  args->scores };
    struct td_cuda_gemm_plan plan;
    *done = false;
    return td_cuda_gemm_plan_make(&plan, &product)
               ? td_cuda_gemm_cublas(search->stream, &plan, base, done, err)
               : TD_OK;
}

/* ---- The op ------------------------------------------------------------------------------ */

static bool search_supports(const struct td_op_args *args)
{
    const struct td_tensor *keys = td_search_given(args, TD_SEARCH_KEYS);
    const struct td_search_sizes sizes = td_search_sizes(args);
    if (keys && keys->dtype == TD_DTYPE_STRING)
        return false;
    const int64_t most = sizes.n_best <= TD_CUDA_SEARCH_SHARED_K ? MAX_SCORES : MAX_SORTED;
    return sizes.n_scored == 0 || sizes.n_queries <= most / sizes.n_scored;
}

/* Computes the scores of a group and a block. */
static td_status score(const struct search *search, const struct td_cuda_search_args *args,
                       struct td_error *err)
{
    bool done = false;
    const td_status status = search->factors ? multiply(search, args, &done, err) : TD_OK;
    if (status != TD_OK || (done && args->metric == TD_SEARCH_DOT))
        return status;
    return check(search,
                 done ? td_cuda_search_cosines(args, search->stream->stream)
                      : td_cuda_search_scores(args, search->stream->stream),
                 err);
}

/* Searches for the queries of a group. */
static td_status search_group(const struct search *search, const struct td_cuda_search_args *group,
                              struct td_error *err)
{
    struct td_cuda_search_args args = *group;
    const cudaStream_t stream = search->stream->stream;
    const bool sorts = is_sorted_in_device_memory(&args);
    td_status status =
        check(search, cudaMemsetAsync(args.best, 0, search->sizes.best, stream), err);
    for (; args.first < args.n_scored && status == TD_OK; args.first += args.n) {
        args.n = td_smaller(group->n, args.n_scored - args.first);
        if (!sorts)
            args.n = td_smaller(args.n, td_larger(FIRST_ROWS, args.first));
        status = score(search, &args, err);
        if (status == TD_OK)
            status = check(search,
                           sorts ? td_cuda_search_sort(&args, stream)
                                 : td_cuda_search_select(&args, stream),
                           err);
    }
    return status == TD_OK ? check(search, td_cuda_search_write(&args, stream), err) : status;
}

static td_status search_all(const struct search *search, struct td_error *err)
{
    struct td_cuda_search_args args = search->args;
    td_status status = TD_OK;
    for (; args.first_query < args.all_queries && status == TD_OK;
         args.first_query += args.n_queries) {
        args.n_queries = td_smaller(args.n_queries, args.all_queries - args.first_query);
        status = search_group(search, &args, err);
    }
    return status;
}

/* Copies the keys of the rows that were found. The row -1 has a key of zeros. */
static td_status copy_keys(const struct search *search, struct td_error *err)
{
    const struct td_op_args *args = search->op_args;
    const struct td_tensor *keys = td_search_given(args, TD_SEARCH_KEYS),
                           *indices = &args->outputs[TD_SEARCH_INDICES];
    if (args->n_outputs <= TD_SEARCH_KEYS_FOUND)
        return TD_OK;
    struct td_cuda_gather_args copy = {
        .out = args->outputs[TD_SEARCH_KEYS_FOUND].data,
        .params = keys->data,
        .n_rows = indices->numel,
        .slice_outputs = indices->numel,
        .repeat = 1,
        .indices = indices->data,
        .index_bytes = sizeof(int64_t),
        .bounds = TD_BOUNDS_ZERO,
        .depth = 1,
        .bound = { keys->numel },
        .stride = { 1 },
    };
    copy.copy = td_cuda_row_copy_make(td_cuda_element_bytes(keys),
                                      (uintptr_t)copy.out | (uintptr_t)copy.params);
    return check(search, td_cuda_gather(&copy, search->stream->stream), err);
}

static td_status search_run(struct td_device_stream *stream, const struct td_device_work *work,
                            struct td_error *err)
{
    struct search search = { .stream = stream, .op_args = work->args };
    td_cuda_report_none(work);
    if (work->args->outputs[TD_SEARCH_INDICES].numel == 0)
        return TD_OK;
    search.args = search_args(work->args);
    set_sizes(&search.args);
    if (!compute_sizes(&search.args, work->args, &search.sizes)) /* as workspace_bytes */
        return td_error_set(err, TD_INTERNAL, "the size of the workspace overflows");
    take_buffers(&search, work->workspace);
    if (uses_cublas(&search))
        search.factors =
            search.args.factors ? (const char *)search.args.factors : search.args.queries;
    td_status status = TD_OK;
    if (search.sizes.marked > 0)
        status =
            check(&search,
                  cudaMemsetAsync(search.args.marked, 0, search.sizes.marked, stream->stream), err);
    if (status == TD_OK)
        status = check(&search, td_cuda_search_prepare(&search.args, stream->stream), err);
    if (status == TD_OK)
        status = search_all(&search, err);
    return status == TD_OK ? copy_keys(&search, err) : status;
}

const struct td_cuda_op td_cuda_search_op = { search_supports, search_workspace_bytes, search_run };
