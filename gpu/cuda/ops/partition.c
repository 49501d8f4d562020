/* partition.c - dynamic_partition. */
#include "gpu/cuda/ops/ops.h"
#include "gpu/cuda/runtime/copy.h"
#include "kernels/dynamic_partition/dynamic_partition.h"

#include <stdlib.h>

enum { DATA, PARTITIONS };

_Static_assert(TD_MAX_PARTITIONS < UINT16_MAX, "a sort key holds every bucket and one more value");

static bool partition_supports(const struct td_op_args *args)
{
    return args->inputs[DATA].tensors->dtype != TD_DTYPE_STRING &&
           args->inputs[PARTITIONS].tensors->numel <= TD_CUDA_MAX_ROWS;
}

/* Sizes in bytes of the buffers in the workspace. */
struct buffer_sizes {
    size_t keys, rows, sort, buckets;
};

/* Computes the sizes. Returns false with a CUDA error if the size of the sort's workspace cannot be
 * computed. */
static bool compute_sizes(const struct td_op_args *args, struct buffer_sizes *sizes)
{
    const int64_t n = args->inputs[PARTITIONS].tensors->numel;
    sizes->keys = (size_t)n * sizeof(uint16_t);
    sizes->rows = (size_t)n * sizeof(uint32_t);
    sizes->buckets = ((size_t)args->n_outputs + 1) * sizeof(struct td_cuda_bucket);
    return td_cuda_partition_sort_bytes(n, args->n_outputs, &sizes->sort) == cudaSuccess;
}

static size_t partition_workspace_bytes(struct td_device *device, const struct td_device_work *work)
{
    struct buffer_sizes sizes;
    (void)device;
    if (work->args->inputs[DATA].tensors->numel == 0)
        return 0;
    if (!compute_sizes(work->args, &sizes)) {
        (void)cudaGetLastError();
        return SIZE_MAX;
    }
    return 2 * td_cuda_align_up(sizes.keys) + 2 * td_cuda_align_up(sizes.rows) +
           td_cuda_align_up(sizes.sort) + td_cuda_align_up(sizes.buckets);
}

/* Fills the table of outputs with the address and the first row of each output. Returns the bitwise
 * OR of the addresses. */
static uintptr_t fill_buckets(const struct td_op_args *args, struct td_cuda_bucket *buckets)
{
    uintptr_t addresses = 0;
    int64_t begin = 0;
    for (int i = 0; i < args->n_outputs; i++) {
        const struct td_tensor *out = &args->outputs[i];
        buckets[i] = (struct td_cuda_bucket){ .out = out->data, .begin = begin };
        begin += out->shape.dim[0];
        if (out->numel > 0)
            addresses |= (uintptr_t)out->data;
    }
    buckets[args->n_outputs] = (struct td_cuda_bucket){ .begin = begin };
    return addresses;
}

static td_status partition_run(struct td_device_stream *stream, const struct td_device_work *work,
                               struct td_error *err)
{
    const struct td_op_args *args = work->args;
    const struct td_dynamic_partition_geometry geometry = td_dynamic_partition_geometry(args);
    const struct td_tensor *data = args->inputs[DATA].tensors;
    const struct td_tensor *partitions = args->inputs[PARTITIONS].tensors;
    char *workspace = work->workspace;
    struct buffer_sizes sizes;
    td_cuda_report_none(work);
    if (data->numel == 0)
        return TD_OK;
    if (!compute_sizes(args, &sizes))
        return td_cuda_check(stream->device, cudaGetLastError(), "sort", err) == TD_OK
                   ? td_error_set(err, TD_INTERNAL, "the size of the sort's workspace is unknown")
                   : err->status;
    struct td_cuda_bucket *buckets = malloc(sizes.buckets);
    if (!buckets)
        return td_error_set(err, TD_MEMORY_EXHAUSTED,
                            "not enough host memory for a table of outputs");
    struct td_cuda_partition_args kernel_args = {
        .data = data->data,
        .n_rows = geometry.n_rows,
        .partitions = partitions->data,
        .index_bytes = (int)td_cuda_element_bytes(partitions),
        .n_buckets = args->n_outputs,
        .sort_bytes = sizes.sort,
    };
    kernel_args.copy = td_cuda_row_copy_make(geometry.row_bytes,
                                             fill_buckets(args, buckets) | (uintptr_t)data->data);
    for (int i = 0; i < 2; i++) {
        kernel_args.keys[i] = td_cuda_take(&workspace, sizes.keys);
        kernel_args.rows[i] = td_cuda_take(&workspace, sizes.rows);
    }
    kernel_args.sort_workspace = td_cuda_take(&workspace, sizes.sort);
    void *device_buckets = td_cuda_take(&workspace, sizes.buckets);
    kernel_args.buckets = device_buckets;
    td_status status = td_cuda_upload(stream, device_buckets, buckets, sizes.buckets, err);
    if (status == TD_OK)
        status = td_cuda_check(stream->device, td_cuda_partition(&kernel_args, stream->stream),
                               "partition rows", err);
    free(buckets);
    return status;
}

const struct td_cuda_op td_cuda_dynamic_partition_op = { partition_supports,
                                                         partition_workspace_bytes, partition_run };
