/* arguments.h - the inputs, attributes and sizes of a call of embedding_bag.
 *
 * Threads  As embedding_bag.h. */
#ifndef TD_KERNELS_EMBEDDING_BAG_ARGUMENTS_H
#define TD_KERNELS_EMBEDDING_BAG_ARGUMENTS_H

#include "kernels/op_rows.h"

/* The inputs, in the order of the descriptor. */
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

typedef enum td_bag_layout {
    TD_BAG_PLAIN,       /* scale and offset are inputs */
    TD_BAG_BYTE_ROWWISE /* they are the last 8 bytes of each row */
} td_bag_layout;

#define TD_BAG_TRAILER 8 /* bytes of a scale and an offset in a row */

struct td_embedding_bag_attrs {
    int64_t padding_index; /* TD_ATTR_UNSET: none */
    int64_t num_segments;  /* TD_ATTR_UNSET: the last of segment_ids + 1 */
    td_bag_mode mode;
    td_bounds bounds;
    td_dtype dtype; /* of the output, if it is given */
    td_bag_layout layout;
    bool include_last_offset;
};

struct td_embedding_bag_attrs td_embedding_bag_attrs(const struct td_op_args *args);

/* True if each row of indices, a matrix, is a bag: neither offsets nor segment_ids are given. */
bool td_embedding_bag_by_rows(const struct td_op_args *args);

/* NULL: the input is not given. */
const struct td_tensor *td_embedding_bag_given(const struct td_op_args *args, int input);

/* The sizes of a call, after infer. */
struct td_embedding_bag_geometry {
    int64_t n_rows;    /* of params: the bound of the indices */
    int64_t n_indices; /* m */
    int64_t n_bags;    /* b; 0 when the output has no elements */
    int64_t row_numel; /* elements of a row of the output; 0 when it has none */
    size_t row_bytes;  /* from a row of params to the next */
};
struct td_embedding_bag_geometry td_embedding_bag_geometry(const struct td_op_args *args);

#endif
