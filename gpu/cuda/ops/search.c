/* search.c - search.
 *
 *     queries   [-- group --|-- group --| ...]
 *     rows      [block|  block  |      block      |      block      | ...]
 *
 * The scores of a group and a block are computed and then selected from, so the scores of all rows
 * are never stored. The first blocks are short: a selection takes long only for rows that are
 * better than the best k of all blocks before, of which a block that is no longer than all blocks
 * before has about k, if the rows are in random order. */
#include "kernels/search/search.h"

#include "gpu/cuda/ops/ops.h"
#include "kernels/integers.h"
#include "kernels/search/arguments.h"

_Static_assert(TD_SEARCH_DOT == 0 && TD_SEARCH_COSINE == 1 && TD_SEARCH_L2 == 2,
               "search_scores.cu and search_best.cu have the same numbers");

/* Sizes of blocks, strips and pools are divided by this number. Tests set it, so that a small table
 * has several of them. */
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
/* Minimum number of rows in a strip, and minimum number for each of the k rows that a strip can
 * find. The entries of all strips of a block take at most as much memory as its scores. */
#define STRIP       SIZE(4096)
#define STRIP_PER_K 16
/* Maximum size in bytes of the pools of a group if they are sorted in device memory, unless one is
 * larger, and the number of entries that make a sort worth its launches. */
#define POOL_BYTES  SIZE(256 << 20)
#define SORTED      SIZE(1 << 20)

/* ---- Kernel arguments -------------------------------------------------------------------- */

static int64_t power_of_two(int64_t least)
{
    int64_t power = 1;
    while (power < least)
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
        const int64_t least = power_of_two(td_larger(args->k, TD_CUDA_SEARCH_TILE));
        args->n_queries =
            td_larger(1, td_smaller(args->n_queries, POOL_BYTES / (2 * entry * least)));
        const int64_t wanted = power_of_two(td_smaller(SORTED / args->n_queries, args->n_scored));
        args->best_pitch = 2 * td_larger(least, wanted);
        args->n = td_smaller(args->n, args->best_pitch / 2);
    }
    args->n = td_smaller(args->n, SCORE_BYTES / (args->n_queries * real_bytes(args)));
    args->score_pitch = args->n;
    args->strip = td_larger(STRIP, STRIP_PER_K * args->k);
    args->strips = td_ceil_div(args->n, args->strip);
}

static const void *data_of(const struct td_tensor *tensor)
{
    return tensor ? tensor->data : NULL;
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
        .given = data_of(queries),
        .rows = data_of(rows),
        .rows_bytes = index_bytes(rows),
        .exclude_self = rows && attrs.exclude_self,
        .candidates = data_of(candidates),
        .candidates_bytes = index_bytes(candidates),
        .n_scored = sizes.n_scored,
        .exclude = data_of(exclude),
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
    size_t marked, numbers, queries, query_roots, scores, best, found, n_found;
};

static bool compute_sizes(const struct td_cuda_search_args *args, bool has_candidates,
                          struct buffer_sizes *sizes)
{
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
    if (!compute_sizes(&args, td_search_given(work->args, TD_SEARCH_CANDIDATES), &sizes))
        return SIZE_MAX;
    const size_t all[] = { sizes.marked, sizes.numbers, sizes.queries, sizes.query_roots,
                           sizes.scores, sizes.best,    sizes.found,   sizes.n_found };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        bytes = td_cuda_add_sizes(bytes, td_cuda_align_up(all[i]));
    return bytes;
}

static void *take(char **workspace, size_t bytes)
{
    return bytes > 0 ? td_cuda_take(workspace, bytes) : NULL;
}

static void take_buffers(struct td_cuda_search_args *args, const struct buffer_sizes *sizes,
                         char *workspace)
{
    args->marked = take(&workspace, sizes->marked);
    args->numbers = take(&workspace, sizes->numbers);
    args->queries = take(&workspace, sizes->queries);
    args->query_roots = take(&workspace, sizes->query_roots);
    args->scores = take(&workspace, sizes->scores);
    args->best = take(&workspace, sizes->best);
    args->found = take(&workspace, sizes->found);
    args->n_found = take(&workspace, sizes->n_found);
}

/* ---- The op ------------------------------------------------------------------------------ */

static bool search_supports(const struct td_op_args *args)
{
    const struct td_tensor *keys = td_search_given(args, TD_SEARCH_KEYS);
    return !keys || keys->dtype != TD_DTYPE_STRING;
}

/* Searches for the queries of a group. */
static cudaError_t search_group(const struct td_cuda_search_args *group, size_t best_bytes,
                                cudaStream_t stream)
{
    struct td_cuda_search_args args = *group;
    cudaError_t error = cudaMemsetAsync(args.best, 0, best_bytes, stream);
    for (; args.first < args.n_scored && error == cudaSuccess; args.first += args.n) {
        args.n = td_smaller(group->n, args.n_scored - args.first);
        if (!is_sorted_in_device_memory(&args))
            args.n = td_smaller(args.n, td_larger(FIRST_ROWS, args.first));
        error = td_cuda_search_scores(&args, stream);
        if (error == cudaSuccess)
            error = is_sorted_in_device_memory(&args) ? td_cuda_search_sort(&args, stream)
                                                      : td_cuda_search_select(&args, stream);
    }
    return error == cudaSuccess ? td_cuda_search_write(&args, stream) : error;
}

static cudaError_t search_all(const struct td_cuda_search_args *all,
                              const struct buffer_sizes *sizes, cudaStream_t stream)
{
    struct td_cuda_search_args args = *all;
    cudaError_t error = cudaSuccess;
    if (sizes->marked > 0)
        error = cudaMemsetAsync(args.marked, 0, sizes->marked, stream);
    if (error == cudaSuccess)
        error = td_cuda_search_prepare(&args, stream);
    for (; args.first_query < args.all_queries && error == cudaSuccess;
         args.first_query += args.n_queries) {
        args.n_queries = td_smaller(args.n_queries, args.all_queries - args.first_query);
        error = search_group(&args, sizes->best, stream);
    }
    return error;
}

/* Copies the keys of the rows that were found. The row -1 selects a key of zeros. */
static cudaError_t copy_keys(const struct td_op_args *args, cudaStream_t stream)
{
    const struct td_tensor *keys = td_search_given(args, TD_SEARCH_KEYS),
                           *indices = &args->outputs[TD_SEARCH_INDICES];
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
    return td_cuda_gather(&copy, stream);
}

static td_status search_run(struct td_device_stream *stream, const struct td_device_work *work,
                            struct td_error *err)
{
    struct td_cuda_search_args args = search_args(work->args);
    struct buffer_sizes sizes;
    td_cuda_report_none(work);
    if (work->args->outputs[TD_SEARCH_INDICES].numel == 0)
        return TD_OK;
    set_sizes(&args);
    if (!compute_sizes(&args, args.candidates, &sizes)) /* workspace_bytes would have refused it */
        return td_error_set(err, TD_INTERNAL, "the size of the workspace overflows");
    take_buffers(&args, &sizes, work->workspace);
    cudaError_t error = search_all(&args, &sizes, stream->stream);
    if (error == cudaSuccess && work->args->n_outputs > TD_SEARCH_KEYS_FOUND)
        error = copy_keys(work->args, stream->stream);
    return td_cuda_check(stream->device, error, "search for rows", err);
}

const struct td_cuda_op td_cuda_search_op = { search_supports, search_workspace_bytes, search_run };
