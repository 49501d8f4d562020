/* top_k.c - top_k. */
#include "kernels/top_k/top_k.h"

#include "gpu/cuda/ops/ops.h"
#include "kernels/integers.h"

#include <string.h>

/* Divides the sizes of strips. Tests set it, so that a small row has several strips. */
#ifndef TD_CUDA_SEARCH_DIVISOR
#define TD_CUDA_SEARCH_DIVISOR 1
#endif

/* Minimum number of elements in a strip, and minimum number of elements per result of a strip. */
#define STRIP         ((int64_t)4096 / TD_CUDA_SEARCH_DIVISOR)
#define STRIP_PER_K   16
/* Target number of blocks, which occupies every multiprocessor of any device. */
#define WANTED_BLOCKS 1024

static struct td_top_k_attrs attrs_of(const struct td_op_args *args)
{
    struct td_top_k_attrs attrs;
    memcpy(&attrs, args->attrs, sizeof(attrs));
    return attrs;
}

static bool top_k_supports(const struct td_op_args *args)
{
    return attrs_of(args).k <= TD_CUDA_SEARCH_SHARED_K;
}

/* Returns the kernel arguments of a call whose outputs have elements. */
static struct td_cuda_top_k_args top_k_args(const struct td_op_args *args)
{
    const struct td_tensor *x = &args->inputs[0].tensors[0];
    const struct td_top_k_attrs attrs = attrs_of(args);
    struct td_cuda_top_k_args out = {
        .x = x->data,
        .values = args->outputs[0].data,
        .indices = args->outputs[1].data,
        .element = (int)x->dtype,
        .element_bytes = (int)td_cuda_element_bytes(x),
        .largest = attrs.largest,
        .inner = 1,
        .k = attrs.k,
    };
    int axis = 0;
    (void)td_axis_normalize(attrs.axis, x->shape.rank, &axis);
    out.n = x->shape.dim[axis];
    /* The product is a factor of the number of elements. */
    (void)td_shape_product(&x->shape, axis + 1, x->shape.rank, &out.inner);
    out.n_rows = x->numel / out.n;
    const int64_t strip = td_larger(STRIP, STRIP_PER_K * out.k);
    out.strips = td_smaller(td_ceil_div(out.n, strip), td_ceil_div(WANTED_BLOCKS, out.n_rows));
    out.strip = td_ceil_div(out.n, out.strips);
    out.strips = td_ceil_div(out.n, out.strip); /* no strip is empty */
    return out;
}

static size_t found_bytes(const struct td_cuda_top_k_args *args)
{
    return args->strips > 1
               ? (size_t)(args->n_rows * args->strips * args->k) * sizeof(args->found[0])
               : 0;
}

static size_t top_k_workspace_bytes(struct td_device *device, const struct td_device_work *work)
{
    (void)device;
    if (work->args->outputs[0].numel == 0)
        return 0;
    const struct td_cuda_top_k_args args = top_k_args(work->args);
    return found_bytes(&args);
}

static td_status top_k_run(struct td_device_stream *stream, const struct td_device_work *work,
                           struct td_error *err)
{
    td_cuda_report_none(work);
    if (work->args->outputs[0].numel == 0)
        return TD_OK;
    struct td_cuda_top_k_args args = top_k_args(work->args);
    args.found = work->workspace;
    return td_cuda_check(stream->device, td_cuda_top_k(&args, stream->stream),
                         "select the best elements", err);
}

const struct td_cuda_op td_cuda_top_k_op = { top_k_supports, top_k_workspace_bytes, top_k_run };
