/* arguments.h - the inputs, attributes and sizes of an embedding_bag call.
 *
 * Threads    See embedding_bag.h. */
#ifndef TD_KERNELS_EMBEDDING_BAG_ARGUMENTS_H
#define TD_KERNELS_EMBEDDING_BAG_ARGUMENTS_H

#include "kernels/op_rows.h"
#include "kernels/quantized.h"

/* Positions of the inputs in the descriptor. */
enum {
    TD_BAG_PARAMS,
    TD_BAG_INDICES,
    TD_BAG_OFFSETS,
    TD_BAG_SEGMENT_IDS,
    TD_BAG_WEIGHTS,
    TD_BAG_SCALE,
    TD_BAG_OFFSET,
    TD_BAG_ZERO_POINT,
    TD_BAG_INPUTS
};

struct td_embedding_bag_attrs {
    int64_t padding_index; /* TD_ATTR_UNSET: none */
    int64_t num_segments;  /* TD_ATTR_UNSET: the last segment id plus 1 */
    td_bag_mode mode;
    td_bounds bounds;
    td_dtype dtype; /* dtype of the output, if the request sets it */
    td_row_layout layout;
    bool include_last_offset;
};

struct td_embedding_bag_attrs td_embedding_bag_attrs(const struct td_op_args *args);

/* True if each row of the matrix `indices` is a bag, because the request gives neither offsets nor
 * segment_ids. */
bool td_embedding_bag_by_rows(const struct td_op_args *args);

/* Returns an input's tensor, or NULL if the request does not give it. */
const struct td_tensor *td_embedding_bag_given(const struct td_op_args *args, int input);

/* Sizes of a call; valid after infer. */
struct td_embedding_bag_geometry {
    int64_t n_rows;    /* number of rows of params: the bound of the indices */
    int64_t n_indices; /* number of indices, m in embedding_bag.h */
    int64_t n_bags;    /* number of bags, b in embedding_bag.h; 0 if the output is empty */
    int64_t row_numel; /* elements per output row; 0 if the output is empty */
    size_t row_bytes;  /* distance in bytes between consecutive rows of params */
};
struct td_embedding_bag_geometry td_embedding_bag_geometry(const struct td_op_args *args);

#endif
