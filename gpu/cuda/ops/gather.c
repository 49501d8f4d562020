/* gather.c - gather, batch_gather, gather_nd. */
#include "kernels/gather/gather.h"

#include "gpu/cuda/ops/ops.h"
#include "gpu/cuda/runtime/copy.h"
#include "kernels/gather_nd/gather_nd.h"
#include "kernels/rows/gathering.h"

#include <string.h>

static bool gather_supports(const struct td_op_args *args)
{
    return args->inputs[TD_GATHERING_PARAMS].tensors[0].dtype != TD_DTYPE_STRING;
}

/* ---- Kernel arguments -------------------------------------------------------------------- */

/* Kernel arguments for an output without elements: no rows, but all indices are checked. */
static struct td_cuda_gather_args gather_args(const struct td_op_args *args, td_bounds bounds,
                                              int depth)
{
    const struct td_tensor *params = args->inputs[TD_GATHERING_PARAMS].tensors;
    const struct td_tensor *indices = args->inputs[TD_GATHERING_INDICES].tensors;
    const int64_t n_tuples = depth > 0 ? indices->numel / depth : 0;
    return (struct td_cuda_gather_args){
        .out = args->outputs[0].data,
        .params = params->data,
        .copy = td_cuda_row_copy_make(0, 0),
        .n_rows = n_tuples,
        .slice_outputs = n_tuples,
        .repeat = 1,
        .indices = indices->data,
        .index_bytes = (int)td_cuda_element_bytes(indices),
        .bounds = (int)bounds,
        .depth = depth,
    };
}

static void set_rows(struct td_cuda_gather_args *kernel_args, int64_t n_rows, size_t row_bytes)
{
    kernel_args->n_rows = n_rows;
    kernel_args->copy = td_cuda_row_copy_make(row_bytes, (uintptr_t)kernel_args->out |
                                                             (uintptr_t)kernel_args->params);
}

/* Products of dimensions are factors of the output's element count, so they do not overflow unless
 * the output is empty; then they are not used. */
static struct td_cuda_gather_args slices_args(const struct td_op_args *args,
                                              const struct td_gather_geometry *geometry)
{
    struct td_cuda_gather_args kernel_args = gather_args(args, geometry->bounds, 1);
    kernel_args.bound[0] = geometry->slice_rows;
    kernel_args.stride[0] = 1;
    if (geometry->n_rows == 0)
        return kernel_args;
    kernel_args.repeat = geometry->slices;
    kernel_args.slice_outputs = geometry->slice_indices;
    kernel_args.slice_rows = geometry->slice_rows;
    set_rows(&kernel_args, geometry->n_rows, geometry->row_bytes);
    return kernel_args;
}

static struct td_cuda_gather_args tuples_args(const struct td_op_args *args,
                                              const struct td_gather_nd_geometry *geometry)
{
    struct td_cuda_gather_args kernel_args =
        gather_args(args, geometry->bounds, geometry->space.depth);
    memcpy(kernel_args.bound, geometry->space.bound, sizeof(geometry->space.bound));
    if (geometry->n_rows == 0)
        return kernel_args;
    if (geometry->block_rows > 0) /* else strides are undefined, and no row of params is read */
        memcpy(kernel_args.stride, geometry->space.stride, sizeof(geometry->space.stride));
    kernel_args.slice_outputs = geometry->block_tuples;
    kernel_args.slice_rows = geometry->block_rows;
    set_rows(&kernel_args, geometry->n_rows, geometry->row_bytes);
    return kernel_args;
}

/* ---- Reports ----------------------------------------------------------------------------- */

/* Few item ends are passed by value in the kernel arguments, and few counters are in the stream. */
static size_t gather_workspace_bytes(struct td_device *device, const struct td_device_work *work)
{
    (void)device;
    size_t bytes = 0;
    if (!work->reports)
        return 0;
    if (work->n_items > TD_CUDA_INLINE_ITEMS)
        bytes = td_cuda_align_up((size_t)work->n_items * sizeof(int64_t));
    if (work->n_items > TD_CUDA_STREAM_COUNTERS)
        bytes += td_cuda_align_up((size_t)work->n_items * sizeof(struct td_cuda_counter));
    return bytes;
}

static td_status prepare_reports(struct td_device_stream *stream, const struct td_device_work *work,
                                 struct td_cuda_gather_args *kernel_args, struct td_error *err)
{
    char *workspace = work->workspace;
    const size_t n_items = (size_t)work->n_items;
    kernel_args->n_items = work->n_items;
    kernel_args->reports = (struct td_cuda_report *)(void *)work->reports;
    kernel_args->counters = stream->counters;
    kernel_args->blocks_done = stream->blocks_done;
    if (n_items > TD_CUDA_INLINE_ITEMS) {
        void *ends = td_cuda_take(&workspace, n_items * sizeof(int64_t));
        td_status status =
            td_cuda_upload(stream, ends, work->item_end, n_items * sizeof(int64_t), err);
        if (status != TD_OK)
            return status;
        kernel_args->item_end = ends;
    } else if (n_items > 1) {
        memcpy(kernel_args->inline_end, work->item_end, n_items * sizeof(int64_t));
    }
    if (n_items <= TD_CUDA_STREAM_COUNTERS)
        return TD_OK;
    const size_t bytes = n_items * sizeof(struct td_cuda_counter);
    kernel_args->counters = td_cuda_take(&workspace, bytes);
    return td_cuda_check(stream->device,
                         cudaMemsetAsync(kernel_args->counters, 0, bytes, stream->stream),
                         "clear memory", err);
}

/* ---- The ops ----------------------------------------------------------------------------- */

static td_status launch(struct td_device_stream *stream, const struct td_device_work *work,
                        struct td_cuda_gather_args *kernel_args, struct td_error *err)
{
    if (!work->reports && (kernel_args->copy.vectors == 0 || kernel_args->n_rows == 0))
        return TD_OK;
    if (work->reports) {
        td_status status = prepare_reports(stream, work, kernel_args, err);
        if (status != TD_OK)
            return status;
    }
    return td_cuda_check(stream->device, td_cuda_gather(kernel_args, stream->stream), "gather rows",
                         err);
}

static td_status gather_run(struct td_device_stream *stream, const struct td_device_work *work,
                            struct td_error *err)
{
    const struct td_gather_geometry geometry = td_gather_geometry(work->args);
    struct td_cuda_gather_args kernel_args = slices_args(work->args, &geometry);
    return launch(stream, work, &kernel_args, err);
}

static td_status batch_gather_run(struct td_device_stream *stream,
                                  const struct td_device_work *work, struct td_error *err)
{
    const struct td_gather_geometry geometry = td_batch_gather_geometry(work->args);
    struct td_cuda_gather_args kernel_args = slices_args(work->args, &geometry);
    return launch(stream, work, &kernel_args, err);
}

static td_status gather_nd_run(struct td_device_stream *stream, const struct td_device_work *work,
                               struct td_error *err)
{
    const struct td_gather_nd_geometry geometry = td_gather_nd_geometry(work->args);
    struct td_cuda_gather_args kernel_args = tuples_args(work->args, &geometry);
    return launch(stream, work, &kernel_args, err);
}

const struct td_cuda_op td_cuda_gather_op = { gather_supports, gather_workspace_bytes, gather_run };
const struct td_cuda_op td_cuda_batch_gather_op = { gather_supports, gather_workspace_bytes,
                                                    batch_gather_run };
const struct td_cuda_op td_cuda_gather_nd_op = { gather_supports, gather_workspace_bytes,
                                                 gather_nd_run };
