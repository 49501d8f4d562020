/* shapes.c - ops that move elements: reshape, expand_dims, squeeze, transpose, slice; concat and
 * stack; one_hot. */
#include "kernels/shapes/shapes.h"

#include "gpu/cuda/ops/ops.h"
#include "gpu/cuda/ops/permute.h"
#include "kernels/convert/cast_path.h"
#include "kernels/isa.h"
#include "kernels/permute/joining.h"
#include "kernels/shapes/layout.h"

static bool shapes_supports(const struct td_op_args *args)
{
    return args->outputs[0].dtype != TD_DTYPE_STRING;
}

static size_t shapes_workspace_bytes(struct td_device *device, const struct td_device_work *work)
{
    (void)device;
    (void)work;
    return 0;
}

/* Copies the elements of a nest, which has at least one loop. */
static td_status copy(struct td_device_stream *stream, const struct td_tensor *out,
                      const struct td_permute_loop *from, int n_loops, const char *a, char *c,
                      struct td_error *err)
{
    struct td_loop loops[TD_MAX_RANK];
    const struct td_contraction contraction = { .dtype = { out->dtype, out->dtype, out->dtype },
                                                .rank = n_loops,
                                                .loops = loops };
    for (int i = 0; i < n_loops; i++)
        loops[i] = (struct td_loop){ .extent = from[i].extent,
                                     .stride = { [TD_A] = from[i].a, [TD_C] = from[i].c } };
    return td_cuda_contract_permute(stream, &contraction, a, c, err);
}

static td_status layout_run(struct td_device_stream *stream, const struct td_device_work *work,
                            struct td_error *err)
{
    static const struct td_permute_loop single = { .extent = 1, .a = 1, .c = 1 };
    const struct td_tensor *x = &work->args->inputs[0].tensors[0], *out = &work->args->outputs[0];
    int n_loops;
    int64_t first;
    const struct td_permute_loop *loops = td_layout_loops(work->args, &n_loops, &first);
    td_cuda_report_none(work);
    if (out->numel == 0)
        return TD_OK;
    return copy(stream, out, n_loops > 0 ? loops : &single, n_loops > 0 ? n_loops : 1,
                (const char *)x->data + first * (int64_t)td_cuda_element_bytes(x), out->data, err);
}

static td_status joining_run(struct td_device_stream *stream, const struct td_device_work *work,
                             struct td_error *err)
{
    const struct td_operand *inputs = &work->args->inputs[0];
    const struct td_tensor *out = &work->args->outputs[0];
    td_status status = TD_OK;
    td_cuda_report_none(work);
    for (int i = 0; i < inputs->count && status == TD_OK; i++) {
        int64_t chunk, begin, row;
        if (inputs->tensors[i].numel == 0)
            continue;
        const int64_t n_rows = td_joining_rows(work->args, i, &chunk, &begin, &row);
        const struct td_permute_loop loops[] = { { n_rows, chunk, row }, { chunk, 1, 1 } };
        status = copy(stream, out, loops, 2, inputs->tensors[i].data,
                      (char *)out->data + begin * (int64_t)td_cuda_element_bytes(out), err);
    }
    return status;
}

static td_status one_hot_run(struct td_device_stream *stream, const struct td_device_work *work,
                             struct td_error *err)
{
    const struct td_tensor *indices = &work->args->inputs[0].tensors[0],
                           *out = &work->args->outputs[0];
    struct td_cuda_one_hot_args args = {
        .out = out->data,
        .indices = indices->data,
        .index_bytes = (int)td_cuda_element_bytes(indices),
        .element_bytes = (int)td_cuda_element_bytes(out),
        .n = out->numel,
        .depth = out->shape.dim[out->shape.rank - 1],
    };
    struct td_cast_path path;
    td_cuda_report_none(work);
    if (out->numel == 0)
        return TD_OK;
    td_cast_path_find(&path, TD_DTYPE_BOOL, out->dtype, td_isa_resolve(TD_ISA_GENERIC));
    td_cast_path_run(&path, args.one, &(const bool){ true }, 1);
    return td_cuda_check(stream->device, td_cuda_one_hot(&args, stream->stream), "write rows", err);
}

const struct td_cuda_op td_cuda_layout_op = { shapes_supports, shapes_workspace_bytes, layout_run };
const struct td_cuda_op td_cuda_joining_op = { shapes_supports, shapes_workspace_bytes,
                                               joining_run };
const struct td_cuda_op td_cuda_one_hot_op = { shapes_supports, shapes_workspace_bytes,
                                               one_hot_run };
