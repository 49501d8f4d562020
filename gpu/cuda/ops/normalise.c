/* normalise.c - softmax, log_softmax, l2_normalize and layer_norm. */
#include "gpu/cuda/ops/ops.h"
#include "kernels/broadcast.h"
#include "kernels/normalisation/normalisation.h"

#include <string.h>

#define MAX_THREADS 256

enum { X, SCALE, BIAS };

static bool is_layer_norm(const struct td_op_args *args)
{
    return args->op->n_inputs > SCALE;
}

static enum td_cuda_normalisation normalisation_of(const struct td_op_args *args)
{
    if (is_layer_norm(args))
        return TD_CUDA_LAYER_NORM;
    if (strcmp(args->op->name, td_op_l2_normalize.name) == 0)
        return TD_CUDA_L2_NORMALIZE;
    return strcmp(args->op->name, td_op_softmax.name) == 0 ? TD_CUDA_SOFTMAX : TD_CUDA_LOG_SOFTMAX;
}

static bool normalise_supports(const struct td_op_args *args)
{
    (void)args; /* the op accepts only floats */
    return true;
}

/* Sets how scale and bias are repeated to the normalised dimensions. */
static void set_factors(const struct td_op_args *args, int axis,
                        struct td_cuda_normalise_args *kernel_args)
{
    const struct td_shape *x = &args->inputs[X].tensors[0].shape;
    const int n = args->inputs[BIAS].count > 0 ? 2 : 1;
    const struct td_shape *shapes[2];
    struct td_shape shape = { .rank = 0 };
    uint32_t full[2];
    (void)td_shape_append(&shape, x, axis, x->rank);
    for (int i = 0; i < n; i++)
        shapes[i] = &args->inputs[SCALE + i].tensors[0].shape;
    td_broadcast_merge(&shape, shapes, n, full);
    kernel_args->rank = shape.rank;
    memcpy(kernel_args->extent, shape.dim, sizeof(shape.dim));
    for (int i = 0; i < n; i++) {
        struct td_repeat repeat;
        td_repeat_init(&repeat, &shape, full[i]);
        memcpy(kernel_args->stride[i], repeat.stride, sizeof(repeat.stride));
        kernel_args->factors[i] = args->inputs[SCALE + i].tensors[0].data;
    }
}

/* Returns the number of threads per group. Groups of neighbouring columns are read together, so a
 * few threads are enough unless there are few groups. */
static int choose_threads(const struct td_cuda_normalise_args *args)
{
    int threads = 1;
    const int most = args->inner == 1 || args->n_groups < 4096 ? MAX_THREADS : 8;
    while (threads < most && threads * 4 < args->n)
        threads *= 2;
    return threads;
}

static size_t normalise_workspace_bytes(struct td_device *device, const struct td_device_work *work)
{
    (void)device;
    (void)work;
    return 0;
}

static td_status normalise_run(struct td_device_stream *stream, const struct td_device_work *work,
                               struct td_error *err)
{
    const struct td_op_args *args = work->args;
    const struct td_tensor *x = &args->inputs[X].tensors[0];
    struct td_normalisation_attrs attrs;
    struct td_cuda_normalise_args kernel_args;
    int axis = 0;
    td_cuda_report_none(work);
    if (x->numel == 0)
        return TD_OK;
    memcpy(&attrs, args->attrs, sizeof(attrs));
    memset(&kernel_args, 0, sizeof(kernel_args));
    (void)td_axis_normalize(attrs.axis, x->shape.rank, &axis);
    kernel_args.x = x->data;
    kernel_args.out = args->outputs[0].data;
    kernel_args.normalisation = normalisation_of(args);
    kernel_args.element = (int)x->dtype;
    kernel_args.element_bytes = (int)td_cuda_element_bytes(x);
    kernel_args.epsilon = attrs.epsilon;
    kernel_args.inner = 1;
    if (is_layer_norm(args))
        set_factors(args, axis, &kernel_args);
    else /* the product is a factor of the number of elements */
        (void)td_shape_product(&x->shape, axis + 1, x->shape.rank, &kernel_args.inner);
    (void)td_shape_product(&x->shape, 0, axis, &kernel_args.n_groups);
    kernel_args.n = x->numel / kernel_args.n_groups / kernel_args.inner;
    kernel_args.n_groups *= kernel_args.inner;
    kernel_args.threads = choose_threads(&kernel_args);
    return td_cuda_check(stream->device, td_cuda_normalise(&kernel_args, stream->stream),
                         "normalise", err);
}

const struct td_cuda_op td_cuda_normalise_op = { normalise_supports, normalise_workspace_bytes,
                                                 normalise_run };
