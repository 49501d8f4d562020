/* reduce.c - reduce_sum and the other reductions, argmax and argmin; segment_sum and
 * the other reductions of sorted segments; cumsum. */
#include "gpu/cuda/ops/ops.h"
#include "kernels/integers.h"
#include "kernels/reductions/axes.h"
#include "kernels/reductions/reductions.h"
#include "kernels/segments/segments.h"

#include <string.h>

#define THREADS       256
/* Target number of blocks, which occupies every multiprocessor of any device. It is a constant
 * because sums must be split in the same way on all devices. */
#define WANTED_BLOCKS 1024
/* Minimum number of elements per thread that justifies another split. */
#define MIN_THREAD_N  64

/* ---- Ops ------------------------------------------------------------------------------------- */

static enum td_cuda_reduction reduction_of(const struct td_op *op)
{
    static const struct {
        const struct td_op *op;
        enum td_cuda_reduction reduction;
    } ops[] = {
        { &td_op_reduce_sum, TD_CUDA_REDUCE_SUM },    { &td_op_reduce_mean, TD_CUDA_REDUCE_MEAN },
        { &td_op_reduce_prod, TD_CUDA_REDUCE_PROD },  { &td_op_reduce_max, TD_CUDA_REDUCE_MAX },
        { &td_op_reduce_min, TD_CUDA_REDUCE_MIN },    { &td_op_reduce_any, TD_CUDA_REDUCE_MAX },
        { &td_op_reduce_all, TD_CUDA_REDUCE_MIN },    { &td_op_argmax, TD_CUDA_REDUCE_ARGMAX },
        { &td_op_argmin, TD_CUDA_REDUCE_ARGMIN },     { &td_op_segment_sum, TD_CUDA_REDUCE_SUM },
        { &td_op_segment_mean, TD_CUDA_REDUCE_MEAN }, { &td_op_segment_prod, TD_CUDA_REDUCE_PROD },
        { &td_op_segment_max, TD_CUDA_REDUCE_MAX },   { &td_op_segment_min, TD_CUDA_REDUCE_MIN },
    };
    int i = 0;
    while (strcmp(ops[i].op->name, op->name) != 0)
        i++;
    return ops[i].reduction;
}

/* Returns the set of dimensions that are reduced. */
static uint32_t reduced_axes(const struct td_op_args *args)
{
    const int rank = args->inputs[0].tensors[0].shape.rank;
    if (reduction_of(args->op) < TD_CUDA_REDUCE_ARGMAX) {
        struct td_reduce_attrs attrs;
        memcpy(&attrs, args->attrs, sizeof(attrs));
        return td_axes_set(&attrs.axes, rank);
    }
    struct td_arg_attrs attrs;
    int axis = 0;
    memcpy(&attrs, args->attrs, sizeof(attrs));
    (void)td_axis_normalize(attrs.axis, rank, &axis);
    return (uint32_t)1 << axis;
}

static bool reduce_supports(const struct td_op_args *args)
{
    return (int)args->inputs[0].tensors[0].dtype < (int)TD_CUDA_ELEMENTS;
}

static struct td_cuda_reduced numbers_of(const struct td_op_args *args)
{
    const struct td_tensor *x = &args->inputs[0].tensors[0], *out = &args->outputs[0];
    return (struct td_cuda_reduced){
        .reduction = reduction_of(args->op),
        .element = (int)x->dtype,
        .element_bytes = (int)td_cuda_element_bytes(x),
        .result = (int)out->dtype,
        .result_bytes = (int)td_cuda_element_bytes(out),
    };
}

/* ---- Loops ----------------------------------------------------------------------------------- */

/* Appends a loop, or joins it with the previous loop if they are contiguous. `n` is the number of
 * loops of the same kind. */
static void append(struct td_cuda_loop *loops, int *n, int64_t extent, int64_t stride)
{
    struct td_cuda_loop *last = loops + *n - 1;
    if (extent == 1)
        return;
    if (*n > 0 && last->stride[TD_CUDA_A] == extent * stride) {
        last->extent *= extent;
        last->stride[TD_CUDA_A] = stride;
        return;
    }
    loops[(*n)++] = (struct td_cuda_loop){ .extent = extent, .stride = { stride } };
}

/* Adds a loop for each dimension of x that is in `axes`. Returns the product of the sizes of these
 * dimensions. */
static int64_t add_loops(const struct td_shape *x, uint32_t axes, struct td_cuda_loop *loops,
                         int *n_loops)
{
    int64_t strides[TD_MAX_RANK], step = 1, n = 1;
    for (int d = x->rank - 1; d >= 0; d--) {
        strides[d] = step;
        step *= x->dim[d];
    }
    *n_loops = 0;
    for (int d = 0; d < x->rank; d++) {
        if (!(axes >> d & 1))
            continue;
        append(loops, n_loops, x->dim[d], strides[d]);
        n *= x->dim[d];
    }
    return n;
}

/* ---- Threads --------------------------------------------------------------------------------- */

/* Chooses how many threads share an output, and whether neighbouring threads read along the
 * elements of an output or along the outputs. */
static void choose_threads(struct td_cuda_reduce_args *args)
{
    const struct td_cuda_loop *out = args->loops + args->n_out_loops - 1;
    const struct td_cuda_loop *last = args->loops + args->n_out_loops + args->n_loops - 1;
    const bool out_is_contiguous = args->n_out_loops > 0 && out->stride[TD_CUDA_A] == 1;
    args->threads = 1;
    if (args->n < 32)
        return;
    args->lanes_along_n = last->stride[TD_CUDA_A] == 1 || !out_is_contiguous;
    if (args->lanes_along_n)
        args->threads = args->n_out >= 16384 || args->n < 1024 ? 32 : THREADS;
    else
        args->threads = args->n_out >= 65536 ? 1 : 8;
}

static void choose_splits(struct td_cuda_reduce_args *args)
{
    const int64_t blocks = td_ceil_div(args->n_out, THREADS / args->threads);
    int64_t splits = blocks < WANTED_BLOCKS ? WANTED_BLOCKS / blocks : 1;
    splits = td_smaller(splits, args->n / (args->threads * (int64_t)MIN_THREAD_N));
    args->splits = td_larger(splits, 1);
    args->split_n = td_larger(td_ceil_div(args->n, args->splits), 1);
    args->splits = td_larger(td_ceil_div(args->n, args->split_n), 1); /* no split is empty */
}

/* Returns the kernel arguments for an output with elements. */
static struct td_cuda_reduce_args reduce_args(const struct td_op_args *args)
{
    const struct td_tensor *x = &args->inputs[0].tensors[0], *out = &args->outputs[0];
    const uint32_t axes = reduced_axes(args);
    struct td_cuda_reduce_args kernel_args;
    memset(&kernel_args, 0, sizeof(kernel_args));
    kernel_args.from = x->data;
    kernel_args.to = out->data;
    kernel_args.numbers = numbers_of(args);
    kernel_args.n_out = add_loops(&x->shape, ~axes, kernel_args.loops, &kernel_args.n_out_loops);
    kernel_args.n = add_loops(&x->shape, axes, kernel_args.loops + kernel_args.n_out_loops,
                              &kernel_args.n_loops);
    choose_threads(&kernel_args);
    choose_splits(&kernel_args);
    return kernel_args;
}

/* ---- The op ---------------------------------------------------------------------------------- */

static size_t reduce_workspace_bytes(struct td_device *device, const struct td_device_work *work)
{
    (void)device;
    if (work->args->outputs[0].numel == 0)
        return 0;
    const struct td_cuda_reduce_args args = reduce_args(work->args);
    return args.splits > 1 ? (size_t)(args.splits * args.n_out) * TD_CUDA_PARTIAL_BYTES : 0;
}

static td_status reduce_run(struct td_device_stream *stream, const struct td_device_work *work,
                            struct td_error *err)
{
    td_cuda_report_none(work);
    if (work->args->outputs[0].numel == 0)
        return TD_OK;
    struct td_cuda_reduce_args args = reduce_args(work->args);
    args.partial = work->workspace;
    return td_cuda_check(stream->device, td_cuda_reduce(&args, stream->stream), "reduce elements",
                         err);
}

const struct td_cuda_op td_cuda_reduce_op = { reduce_supports, reduce_workspace_bytes, reduce_run };

/* ---- Segments -------------------------------------------------------------------------------- */

static size_t no_workspace(struct td_device *device, const struct td_device_work *work)
{
    (void)device;
    (void)work;
    return 0;
}

/* Chooses how many threads share an output, from the mean number of rows in a segment. */
static int segment_threads(const struct td_cuda_segments_args *args)
{
    const int most = args->columns == 1 ? THREADS : 8;
    int threads = 1;
    while (threads < most && threads * 8 < args->n / args->n_segments)
        threads *= 2;
    return threads;
}

static td_status segments_run(struct td_device_stream *stream, const struct td_device_work *work,
                              struct td_error *err)
{
    const struct td_tensor *ids = &work->args->inputs[1].tensors[0], *out = &work->args->outputs[0];
    td_cuda_report_none(work);
    if (out->numel == 0)
        return TD_OK;
    struct td_cuda_segments_args args = {
        .data = work->args->inputs[0].tensors[0].data,
        .out = out->data,
        .ids = ids->data,
        .id_bytes = (int)td_cuda_element_bytes(ids),
        .numbers = numbers_of(work->args),
        .n = ids->numel,
        .columns = out->numel / out->shape.dim[0],
        .n_segments = out->shape.dim[0],
    };
    args.threads = segment_threads(&args);
    return td_cuda_check(stream->device, td_cuda_segments(&args, stream->stream), "reduce segments",
                         err);
}

const struct td_cuda_op td_cuda_segments_op = { reduce_supports, no_workspace, segments_run };

/* ---- cumsum ---------------------------------------------------------------------------------- */

/* Minimum length of a row that a whole block computes. A thread computes a shorter row, and also a
 * longer row if neighbouring rows can be read together and are numerous enough. */
#define LONG_ROW  64
#define MANY_ROWS 16384

static td_status cumsum_run(struct td_device_stream *stream, const struct td_device_work *work,
                            struct td_error *err)
{
    const struct td_tensor *x = &work->args->inputs[0].tensors[0];
    struct td_cumsum_attrs attrs;
    int axis = 0;
    td_cuda_report_none(work);
    if (x->numel == 0)
        return TD_OK;
    memcpy(&attrs, work->args->attrs, sizeof(attrs));
    (void)td_axis_normalize(attrs.axis, x->shape.rank, &axis);
    struct td_cuda_scan_args args = {
        .x = x->data,
        .out = work->args->outputs[0].data,
        .element = (int)x->dtype,
        .element_bytes = (int)td_cuda_element_bytes(x),
        .exclusive = attrs.exclusive,
        .reverse = attrs.reverse,
        .n = x->shape.dim[axis],
        .inner = 1,
    };
    /* The product is a factor of the number of elements. */
    (void)td_shape_product(&x->shape, axis + 1, x->shape.rank, &args.inner);
    args.n_rows = x->numel / args.n;
    args.by_block = args.n >= LONG_ROW && (args.inner == 1 || args.n_rows < MANY_ROWS);
    return td_cuda_check(stream->device, td_cuda_scan(&args, stream->stream), "add elements", err);
}

const struct td_cuda_op td_cuda_cumsum_op = { reduce_supports, no_workspace, cumsum_run };
