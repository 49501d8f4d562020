/* zero_point.h - the integers that represent 0 in quantised rows.
 *
 * Threads    Pure functions. */
#ifndef TD_KERNELS_ZERO_POINT_H
#define TD_KERNELS_ZERO_POINT_H

#include "kernels/tensor.h"

/* Dtypes of zero points: the dtypes of quantised rows, and the integer dtypes of PyTorch and
 * JSON. */
#define TD_DTYPES_ZERO_POINT                                                                       \
    (TD_DTYPE_BIT(INT8) | TD_DTYPE_BIT(UINT8) | TD_DTYPE_BIT(INT32) | TD_DTYPE_BIT(INT64))

struct td_zero_points {
    const void *data; /* NULL if all zero points are 0 */
    td_dtype dtype;
    int64_t step; /* 1 for one zero point per row, 0 for one shared by all rows */
};

/* Returns the zero points in a vector or scalar, whose data is borrowed. If `tensor` is NULL, all
 * zero points are 0. */
static inline struct td_zero_points td_zero_points_of(const struct td_tensor *tensor)
{
    if (!tensor)
        return (struct td_zero_points){ .data = NULL };
    return (struct td_zero_points){ tensor->data, tensor->dtype, tensor->shape.rank };
}

static inline int64_t td_zero_point(const struct td_zero_points *zero_points, int64_t row)
{
    const int64_t i = row * zero_points->step;
    if (!zero_points->data)
        return 0;
    switch (zero_points->dtype) {
    case TD_DTYPE_INT8:
        return ((const int8_t *)zero_points->data)[i];
    case TD_DTYPE_UINT8:
        return ((const uint8_t *)zero_points->data)[i];
    case TD_DTYPE_INT32:
        return ((const int32_t *)zero_points->data)[i];
    default:
        return ((const int64_t *)zero_points->data)[i];
    }
}

#endif
