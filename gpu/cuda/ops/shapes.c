/* shapes.c - the arguments of the ops that move rows, as the numbers that their kernels take.
 *
 * td_op_infer has accepted them, so nothing is refused here, and products of dimensions are factors
 * of an element count wherever the output is not empty. */
#include "gpu/cuda/ops/ops.h"
#include "kernels/dynamic_partition/dynamic_partition.h"
#include "kernels/dynamic_stitch/dynamic_stitch.h"
#include "kernels/gather/gather.h"
#include "kernels/gather_nd/gather_nd.h"
#include "kernels/rows/gathering.h"

#include <stdlib.h>
#include <string.h>

static size_t element_bytes(const struct td_tensor *tensor)
{
    return td_dtype_info(tensor->dtype)->size;
}

/* Of a place in a workspace that is shared out from the front. */
static void *take(char **workspace, size_t bytes)
{
    void *place = *workspace;
    *workspace += td_cuda_aligned(bytes);
    return place;
}

static size_t times(int64_t n, size_t bytes)
{
    size_t product;
    return td_size_mul((size_t)n, bytes, &product) ? product : SIZE_MAX;
}

/* ---- gather, batch_gather, gather_nd ----------------------------------------------------- */

static bool gathering_supports(const struct td_op_args *args)
{
    return args->inputs[TD_GATHERING_PARAMS].tensors[0].dtype != TD_DTYPE_STRING;
}

/* What the three have in common; the shapes are those of an output without elements, of which only
 * the indices are looked at. */
static void gathering_job(const struct td_op_args *args, td_bounds bounds, int depth,
                          struct td_cuda_rows *job)
{
    const struct td_tensor *params = args->inputs[TD_GATHERING_PARAMS].tensors;
    const struct td_tensor *indices = args->inputs[TD_GATHERING_INDICES].tensors;
    *job = (struct td_cuda_rows){
        .out = args->outputs[0].data,
        .table = params->data,
        .move = td_cuda_move_make(0, 0),
        .n_rows = depth > 0 ? indices->numel / depth : 0,
        .slices = 1,
        .indices = indices->data,
        .index_bytes = (int)element_bytes(indices),
        .policy = (int)bounds,
        .depth = depth,
    };
    job->per_slice = job->n_rows;
}

static void gathering_rows(int64_t n_rows, size_t row_bytes, struct td_cuda_rows *job)
{
    job->n_rows = n_rows;
    job->move = td_cuda_move_make(row_bytes, (uintptr_t)job->out | (uintptr_t)job->table);
}

static void gather_job(const struct td_op_args *args, const struct td_gather_geometry *of,
                       struct td_cuda_rows *job)
{
    gathering_job(args, of->bounds, 1, job);
    job->bound[0] = of->slice_rows;
    job->stride[0] = 1;
    if (of->n_rows == 0)
        return;
    job->slices = of->slices;
    job->per_slice = of->slice_indices;
    job->slice_rows = of->slice_rows;
    gathering_rows(of->n_rows, of->row_bytes, job);
}

static void gather_shapes(const struct td_op_args *args, struct td_cuda_rows *job)
{
    struct td_gather_geometry of = td_gather_geometry(args);
    gather_job(args, &of, job);
}

static void batch_gather_shapes(const struct td_op_args *args, struct td_cuda_rows *job)
{
    struct td_gather_geometry of = td_batch_gather_geometry(args);
    gather_job(args, &of, job);
}

static void gather_nd_shapes(const struct td_op_args *args, struct td_cuda_rows *job)
{
    struct td_gather_nd_geometry of = td_gather_nd_geometry(args);
    gathering_job(args, of.bounds, of.space.depth, job);
    memcpy(job->bound, of.space.bound, sizeof(of.space.bound));
    if (of.n_rows == 0)
        return;
    if (of.block_rows > 0) /* else the strides tell nothing, and no row of the table is read */
        memcpy(job->stride, of.space.stride, sizeof(of.space.stride));
    job->per_slice = of.block_tuples;
    job->slice_rows = of.block_rows;
    gathering_rows(of.n_rows, of.row_bytes, job);
}

/* Ends of items and what is found out about them are inside the kernel's arguments and the stream
 * where they are few. */
static size_t gathering_workspace(struct td_device *device, const struct td_device_work *work)
{
    (void)device;
    size_t bytes = 0;
    if (!work->reports)
        return 0;
    if (work->n_items > TD_CUDA_INLINE_ITEMS)
        bytes = td_cuda_aligned((size_t)work->n_items * sizeof(int64_t));
    if (work->n_items > TD_CUDA_SLOTS)
        bytes += td_cuda_aligned((size_t)work->n_items * sizeof(struct td_cuda_slot));
    return bytes;
}

static td_status prepare_reports(struct td_device_stream *stream, const struct td_device_work *work,
                                 struct td_cuda_rows *job, struct td_error *err)
{
    char *workspace = work->workspace;
    const size_t n_items = (size_t)work->n_items;
    job->n_items = work->n_items;
    job->reports = (struct td_cuda_report *)(void *)work->reports;
    job->slots = stream->slots;
    job->ticket = stream->ticket;
    if (n_items > TD_CUDA_INLINE_ITEMS) {
        void *ends = take(&workspace, n_items * sizeof(int64_t));
        td_status status =
            td_cuda_upload(stream, ends, work->item_end, n_items * sizeof(int64_t), err);
        if (status != TD_OK)
            return status;
        job->item_end = ends;
    } else if (n_items > 1) {
        memcpy(job->inline_end, work->item_end, n_items * sizeof(int64_t));
    }
    if (n_items <= TD_CUDA_SLOTS)
        return TD_OK;
    const size_t bytes = n_items * sizeof(struct td_cuda_slot);
    job->slots = take(&workspace, bytes);
    return td_cuda_check(stream->device, cudaMemsetAsync(job->slots, 0, bytes, stream->stream),
                         "clear memory", err);
}

static td_status gathering_run(struct td_device_stream *stream, const struct td_device_work *work,
                               struct td_cuda_rows *job, struct td_error *err)
{
    if (!work->reports && (job->move.vectors == 0 || job->n_rows == 0))
        return TD_OK;
    if (work->reports) {
        td_status status = prepare_reports(stream, work, job, err);
        if (status != TD_OK)
            return status;
    }
    return td_cuda_check(stream->device, td_cuda_gather(job, stream->stream), "gather rows", err);
}

#define GATHERING(op, op_name, shapes)                                                             \
    static td_status op##_run(struct td_device_stream *stream, const struct td_device_work *work,  \
                              struct td_error *err)                                                \
    {                                                                                              \
        struct td_cuda_rows job;                                                                   \
        shapes(work->args, &job);                                                                  \
        return gathering_run(stream, work, &job, err);                                             \
    }                                                                                              \
    const struct td_cuda_op td_cuda_##op##_op = { op_name, gathering_supports,                     \
                                                  gathering_workspace, op##_run };
GATHERING(gather, "gather", gather_shapes)
GATHERING(batch_gather, "batch_gather", batch_gather_shapes)
GATHERING(gather_nd, "gather_nd", gather_nd_shapes)

/* Work without a report to make has none bad. */
static void report_none(const struct td_device_work *work)
{
    for (int i = 0; work->reports && i < work->n_items; i++)
        work->reports[i] = (struct td_device_report){ .first_bad = INT64_MAX };
}

/* ---- dynamic_stitch, parallel_dynamic_stitch --------------------------------------------- */

enum { STITCH_INDICES, STITCH_DATA };

static bool stitch_supports(const struct td_op_args *args)
{
    const struct td_dynamic_stitch_geometry *of = td_dynamic_stitch_geometry(args);
    return args->inputs[STITCH_DATA].tensors[0].dtype != TD_DTYPE_STRING &&
           of->first[of->n_tensors] <= TD_CUDA_MAX_ROWS;
}

static size_t lists_bytes(const struct td_op_args *args)
{
    return (size_t)args->inputs[STITCH_INDICES].count * sizeof(struct td_cuda_stitch_list);
}

static size_t stitch_workspace(struct td_device *device, const struct td_device_work *work)
{
    (void)device;
    const struct td_dynamic_stitch_geometry *of = td_dynamic_stitch_geometry(work->args);
    if (of->row_numel == 0)
        return 0;
    return td_cuda_sum(td_cuda_aligned(times(of->n_out, sizeof(uint32_t))),
                       td_cuda_aligned(lists_bytes(work->args)));
}

/* Fills the table of tensors; returns their addresses, ORed. */
static uintptr_t fill_lists(const struct td_op_args *args, const int64_t *first,
                            struct td_cuda_stitch_list *lists)
{
    uintptr_t addresses = 0;
    for (int m = 0; m < args->inputs[STITCH_INDICES].count; m++) {
        const struct td_tensor *indices = &args->inputs[STITCH_INDICES].tensors[m];
        const struct td_tensor *data = &args->inputs[STITCH_DATA].tensors[m];
        lists[m] = (struct td_cuda_stitch_list){
            .indices = indices->data,
            .data = data->data,
            .first = first[m],
            .index_bytes = (int64_t)element_bytes(indices),
        };
        if (indices->numel > 0)
            addresses |= (uintptr_t)data->data;
    }
    return addresses;
}

static td_status stitch_run(struct td_device_stream *stream, const struct td_device_work *work,
                            struct td_error *err)
{
    const struct td_op_args *args = work->args;
    const struct td_dynamic_stitch_geometry *of = td_dynamic_stitch_geometry(args);
    char *workspace = work->workspace;
    report_none(work);
    if (of->row_numel == 0)
        return TD_OK;
    struct td_cuda_stitch_list *lists = malloc(lists_bytes(args));
    if (!lists)
        return td_error_set(err, TD_MEMORY_EXHAUSTED, "no memory for a table of tensors");
    struct td_cuda_stitch job = {
        .out = args->outputs[0].data,
        .n_in = of->first[of->n_tensors],
        .n_out = of->n_out,
        .n_lists = of->n_tensors,
    };
    job.move =
        td_cuda_move_make(of->row_bytes, fill_lists(args, of->first, lists) | (uintptr_t)job.out);
    job.last = take(&workspace, (size_t)job.n_out * sizeof(job.last[0]));
    void *table = take(&workspace, lists_bytes(args));
    td_status status = td_cuda_upload(stream, table, lists, lists_bytes(args), err);
    job.lists = table;
    if (status == TD_OK)
        status =
            td_cuda_check(stream->device, td_cuda_stitch(&job, stream->stream), "stitch rows", err);
    free(lists);
    return status;
}

const struct td_cuda_op td_cuda_stitch_op = { "dynamic_stitch", stitch_supports, stitch_workspace,
                                              stitch_run };
const struct td_cuda_op td_cuda_parallel_stitch_op = { "parallel_dynamic_stitch", stitch_supports,
                                                       stitch_workspace, stitch_run };

/* ---- dynamic_partition ------------------------------------------------------------------- */

enum { PARTITION_DATA, PARTITION_NUMBERS };

_Static_assert(TD_MAX_PARTITIONS < UINT16_MAX, "the number of a pile, and one more, fit the key");

static bool partition_supports(const struct td_op_args *args)
{
    return args->inputs[PARTITION_DATA].tensors->dtype != TD_DTYPE_STRING &&
           args->inputs[PARTITION_NUMBERS].tensors->numel <= TD_CUDA_MAX_ROWS;
}

/* What a run takes, each from a place of its own. */
struct partition_sizes {
    size_t keys, rows, sort, piles;
};

static bool partition_sizes(const struct td_op_args *args, struct partition_sizes *sizes)
{
    const int64_t n = args->inputs[PARTITION_NUMBERS].tensors->numel;
    sizes->keys = (size_t)n * sizeof(uint16_t);
    sizes->rows = (size_t)n * sizeof(uint32_t);
    sizes->piles = ((size_t)args->n_outputs + 1) * sizeof(struct td_cuda_pile);
    return td_cuda_partition_sort_bytes(n, args->n_outputs, &sizes->sort) == cudaSuccess;
}

static size_t partition_workspace(struct td_device *device, const struct td_device_work *work)
{
    struct partition_sizes sizes;
    (void)device;
    if (work->args->inputs[PARTITION_DATA].tensors->numel == 0)
        return 0;
    if (!partition_sizes(work->args, &sizes)) {
        (void)cudaGetLastError();
        return SIZE_MAX;
    }
    return 2 * td_cuda_aligned(sizes.keys) + 2 * td_cuda_aligned(sizes.rows) +
           td_cuda_aligned(sizes.sort) + td_cuda_aligned(sizes.piles);
}

/* Where each output's rows begin among all; returns their addresses, ORed. */
static uintptr_t fill_piles(const struct td_op_args *args, struct td_cuda_pile *piles)
{
    uintptr_t addresses = 0;
    int64_t begin = 0;
    for (int p = 0; p < args->n_outputs; p++) {
        const struct td_tensor *out = &args->outputs[p];
        piles[p] = (struct td_cuda_pile){ .out = out->data, .begin = begin };
        begin += out->shape.dim[0];
        if (out->numel > 0)
            addresses |= (uintptr_t)out->data;
    }
    piles[args->n_outputs] = (struct td_cuda_pile){ .begin = begin };
    return addresses;
}

static td_status partition_run(struct td_device_stream *stream, const struct td_device_work *work,
                               struct td_error *err)
{
    const struct td_op_args *args = work->args;
    const struct td_dynamic_partition_geometry of = td_dynamic_partition_geometry(args);
    const struct td_tensor *data = args->inputs[PARTITION_DATA].tensors;
    const struct td_tensor *numbers = args->inputs[PARTITION_NUMBERS].tensors;
    char *workspace = work->workspace;
    struct partition_sizes sizes;
    report_none(work);
    if (data->numel == 0)
        return TD_OK;
    if (!partition_sizes(args, &sizes))
        return td_cuda_check(stream->device, cudaGetLastError(), "sort", err) == TD_OK
                   ? td_error_set(err, TD_INTERNAL, "the device does not say how it sorts")
                   : (err ? err->status : TD_INTERNAL);
    struct td_cuda_pile *piles = malloc(sizes.piles);
    if (!piles)
        return td_error_set(err, TD_MEMORY_EXHAUSTED, "no memory for a table of outputs");
    struct td_cuda_partition job = {
        .data = data->data,
        .n_rows = of.n_rows,
        .numbers = numbers->data,
        .number_bytes = (int)element_bytes(numbers),
        .n_piles = args->n_outputs,
        .sort_bytes = sizes.sort,
    };
    job.move = td_cuda_move_make(of.row_bytes, fill_piles(args, piles) | (uintptr_t)data->data);
    for (int i = 0; i < 2; i++) {
        job.key[i] = take(&workspace, sizes.keys);
        job.row[i] = take(&workspace, sizes.rows);
    }
    job.sort = take(&workspace, sizes.sort);
    void *table = take(&workspace, sizes.piles);
    job.piles = table;
    td_status status = td_cuda_upload(stream, table, piles, sizes.piles, err);
    if (status == TD_OK)
        status = td_cuda_check(stream->device, td_cuda_partition(&job, stream->stream),
                               "share out rows", err);
    free(piles);
    return status;
}

const struct td_cuda_op td_cuda_partition_op = { "dynamic_partition", partition_supports,
                                                 partition_workspace, partition_run };
