/* ops.h - the ops for which the plugin has kernels. The file of each op converts the op's arguments
 * to kernel arguments.
 *
 * td_op_infer has already accepted the arguments, so these files do not validate them. */
#ifndef TD_GPU_CUDA_OPS_OPS_H
#define TD_GPU_CUDA_OPS_OPS_H

#include "gpu/cuda/runtime/stream.h"

/* The functions of the vtable for one op. workspace_bytes returns SIZE_MAX if it cannot compute the
 * size. */
struct td_cuda_op {
    bool (*supports)(const struct td_op_args *args);
    size_t (*workspace_bytes)(struct td_device *device, const struct td_device_work *work);
    td_status (*run)(struct td_device_stream *stream, const struct td_device_work *work,
                     struct td_error *err);
};

/* The variables are named after the ops in kernels/ops.def. A new op also needs a line in the table
 * of plugin.c. */
extern const struct td_cuda_op td_cuda_gather_op, td_cuda_gather_nd_op, td_cuda_dynamic_stitch_op,
    td_cuda_parallel_dynamic_stitch_op, td_cuda_dynamic_partition_op, td_cuda_einsum_op,
    td_cuda_find_op, td_cuda_lookup_op, td_cuda_embedding_bag_op, td_cuda_search_op,
    td_cuda_top_k_op, td_cuda_cumsum_op, td_cuda_one_hot_op,
    td_cuda_elementwise_op, /* all elementwise ops, and cast */
    td_cuda_layout_op,      /* reshape, expand_dims, squeeze, transpose, slice */
    td_cuda_joining_op,     /* concat, stack */
    td_cuda_normalise_op,   /* softmax, log_softmax, l2_normalize, layer_norm */
    td_cuda_segments_op,    /* the reductions of sorted segments */
    td_cuda_reduce_op;      /* all reductions, argmax and argmin */

/* ---- For the ops ------------------------------------------------------------------------- */

/* Writes reports without bad indices, for ops that never replace an index. */
void td_cuda_report_none(const struct td_device_work *work);

/* Allocates `bytes` bytes, rounded up to the alignment, from the front of the remaining
 * workspace. */
static inline void *td_cuda_take(char **workspace, size_t bytes)
{
    void *taken = *workspace;
    *workspace += td_cuda_align_up(bytes);
    return taken;
}

/* Looks up the type of a float, int8 or uint8. Returns false for other dtypes. */
bool td_cuda_number_of(td_dtype dtype, enum td_cuda_number *out);

/* Returns the scales of int8 and uint8 rows. NULL: not given. */
struct td_cuda_scaling td_cuda_scaling_of(const struct td_tensor *scale,
                                          const struct td_tensor *offset,
                                          const struct td_tensor *zero_point);

/* Returns the data of an input, or NULL if the input is not given. */
static inline const void *td_cuda_data_of(const struct td_tensor *tensor)
{
    return tensor ? tensor->data : NULL;
}

static inline size_t td_cuda_element_bytes(const struct td_tensor *tensor)
{
    return td_dtype_info(tensor->dtype)->size;
}

#endif
