#include "kernels/embedding_bag/arguments.h"

#include <string.h>

struct td_embedding_bag_attrs td_embedding_bag_attrs(const struct td_op_args *args)
{
    struct td_embedding_bag_attrs attrs;
    memcpy(&attrs, args->attrs, sizeof(attrs));
    return attrs;
}

const struct td_tensor *td_embedding_bag_given(const struct td_op_args *args, int input)
{
    return args->inputs[input].count > 0 ? args->inputs[input].tensors : NULL;
}

bool td_embedding_bag_by_rows(const struct td_op_args *args)
{
    return !td_embedding_bag_given(args, TD_BAG_OFFSETS) &&
           !td_embedding_bag_given(args, TD_BAG_SEGMENT_IDS);
}

struct td_embedding_bag_geometry td_embedding_bag_geometry(const struct td_op_args *args)
{
    const struct td_tensor *params = td_embedding_bag_given(args, TD_BAG_PARAMS),
                           *out = &args->outputs[0];
    struct td_embedding_bag_geometry geometry = {
        .n_rows = params->shape.dim[0],
        .n_indices = td_embedding_bag_given(args, TD_BAG_INDICES)->numel,
    };
    if (out->numel == 0)
        return geometry;
    geometry.n_bags = out->shape.dim[0];
    geometry.row_numel = out->numel / geometry.n_bags;
    geometry.row_bytes = (size_t)geometry.row_numel * td_dtype_info(params->dtype)->size;
    if (td_embedding_bag_attrs(args).layout == TD_ROW_LAYOUT_BYTE_ROWWISE)
        geometry.row_bytes += TD_ROW_TRAILER;
    return geometry;
}
