#include "gpu/cuda/ops/ops.h"

void td_cuda_report_none(const struct td_device_work *work)
{
    for (int i = 0; work->reports && i < work->n_items; i++)
        work->reports[i] = (struct td_device_report){ .first_bad = INT64_MAX };
}

bool td_cuda_number_of(td_dtype dtype, enum td_cuda_number *out)
{
    switch (dtype) {
    case TD_DTYPE_FLOAT16:
        *out = TD_CUDA_FLOAT16;
        return true;
    case TD_DTYPE_BFLOAT16:
        *out = TD_CUDA_BFLOAT16;
        return true;
    case TD_DTYPE_FLOAT32:
        *out = TD_CUDA_FLOAT32;
        return true;
    case TD_DTYPE_FLOAT64:
        *out = TD_CUDA_FLOAT64;
        return true;
    case TD_DTYPE_INT8:
        *out = TD_CUDA_INT8;
        return true;
    case TD_DTYPE_UINT8:
        *out = TD_CUDA_UINT8;
        return true;
    default:
        return false;
    }
}

/* Returns the step between consecutive rows: 1, or 0 if all rows share one value. */
static int row_step(const struct td_tensor *tensor)
{
    return tensor && tensor->shape.rank > 0;
}

struct td_cuda_scaling td_cuda_scaling_of(const struct td_tensor *scale,
                                          const struct td_tensor *offset,
                                          const struct td_tensor *zero_point)
{
    struct td_cuda_scaling scaling = {
        .scale = td_cuda_data_of(scale),
        .scale_step = row_step(scale),
        .offset = td_cuda_data_of(offset),
        .offset_step = row_step(offset),
        .zero_point = td_cuda_data_of(zero_point),
        .zero_point_step = row_step(zero_point),
    };
    if (zero_point && !td_cuda_number_of(zero_point->dtype, &scaling.zero_point_type))
        scaling.zero_point_type =
            zero_point->dtype == TD_DTYPE_INT32 ? TD_CUDA_INT32 : TD_CUDA_INT64;
    return scaling;
}
