/* gather.c - gather and batch_gather, gather_nd. */
#include "kernels/gather/gather.h"

#include "gpu/cuda/ops/reporting.h"
#include "kernels/gather_nd/gather_nd.h"
#include "kernels/rows/gathering.h"

#include <string.h>

static bool gather_supports(const struct td_op_args *args)
{
    const td_dtype dtype = args->inputs[TD_GATHERING_PARAMS].tensors[0].dtype;
    return dtype != TD_DTYPE_STRING && args->outputs[0].dtype == dtype;
}

/* ---- Kernel arguments -------------------------------------------------------------------- */

/* Returns kernel arguments for an output without elements, for which no rows are copied but all
 * indices are checked. */
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

/* Returns the kernel arguments of gather and batch_gather. Each product of dimensions is a factor
 * of the output's number of elements. It can therefore overflow only if the output is empty, and is
 * then not used. */
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
    /* If there are no rows, the strides are undefined and no row of params is read. */
    if (geometry->block_rows > 0)
        memcpy(kernel_args.stride, geometry->space.stride, sizeof(geometry->space.stride));
    kernel_args.slice_outputs = geometry->block_tuples;
    kernel_args.slice_rows = geometry->block_rows;
    set_rows(&kernel_args, geometry->n_rows, geometry->row_bytes);
    return kernel_args;
}

/* ---- The ops ----------------------------------------------------------------------------- */

static td_status launch(struct td_device_stream *stream, const struct td_device_work *work,
                        struct td_cuda_gather_args *kernel_args, struct td_error *err)
{
    if (!work->reports && (kernel_args->copy.vectors == 0 || kernel_args->n_rows == 0))
        return TD_OK;
    char *workspace = work->workspace;
    td_status status =
        td_cuda_reporting_begin(stream, work, &workspace, &kernel_args->reporting, err);
    if (status != TD_OK)
        return status;
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

static td_status gather_nd_run(struct td_device_stream *stream, const struct td_device_work *work,
                               struct td_error *err)
{
    const struct td_gather_nd_geometry geometry = td_gather_nd_geometry(work->args);
    struct td_cuda_gather_args kernel_args = tuples_args(work->args, &geometry);
    return launch(stream, work, &kernel_args, err);
}

const struct td_cuda_op td_cuda_gather_op = { gather_supports, td_cuda_reporting_bytes,
                                              gather_run };
const struct td_cuda_op td_cuda_gather_nd_op = { gather_supports, td_cuda_reporting_bytes,
                                                 gather_nd_run };
