/* geometry.h - the sizes of a dynamic_stitch call, shared with the devices. */
#ifndef TD_KERNELS_DYNAMIC_STITCH_GEOMETRY_H
#define TD_KERNELS_DYNAMIC_STITCH_GEOMETRY_H

#include "kernels/op.h"

/* The sizes of a call of either op, after infer. Input rows are numbered consecutively over all
 * data tensors. */
struct td_dynamic_stitch_geometry {
    int n_tensors; /* length of the lists */
    /* [n_tensors + 1]: number of the first row of each tensor, followed by the total number of
     * rows. */
    int64_t *first;
    int64_t n_out;     /* number of rows in the output */
    int64_t row_numel; /* elements per row; 0 if the output has no elements */
    size_t row_bytes;  /* 0 for strings */
};
static inline const struct td_dynamic_stitch_geometry *
td_dynamic_stitch_geometry(const struct td_op_args *args)
{
    return args->plan;
}

#endif
