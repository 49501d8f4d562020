/* ops.h - the ops that the plugin has kernels for. */
#ifndef TD_GPU_CUDA_OPS_H
#define TD_GPU_CUDA_OPS_H

#include "gpu/cuda/runtime/stream.h"

/* An op's kernels. workspace is SIZE_MAX where that cannot be had. */
struct td_cuda_op {
    const char *name;
    bool (*supports)(const struct td_op_args *args);
    size_t (*workspace)(struct td_device *device, const struct td_device_work *work);
    td_status (*run)(struct td_device_stream *stream, const struct td_device_work *work,
                     struct td_error *err);
};

extern const struct td_cuda_op td_cuda_gather_op, td_cuda_batch_gather_op, td_cuda_gather_nd_op,
    td_cuda_stitch_op, td_cuda_parallel_stitch_op, td_cuda_partition_op, td_cuda_einsum_op;

#endif
