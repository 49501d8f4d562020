/* embedding_bag.h - the sums, means or greatest elements of bags of rows.
 *
 * Shapes     params       [n, R...]  floats; int8 and uint8 with a scale and an offset for each row
 *            indices      [m]        row numbers, bag after bag
 *            offsets      [b]        where in indices each bag begins; the last ends at m
 *            segment_ids  [m]        instead of offsets: the bag of each index, never decreasing
 *            weights      [m]        dtype of params, or float32 for int8 and uint8
 *            scale, offset  [n]      float32: a value is params * scale + offset
 *            output       [b, R...]  b is num_segments, or the last of segment_ids + 1
 *            With layout byte_rowwise params is uint8 [n, d + 8] and a row ends in its scale and its
 *            offset, two float32; the output is [b, d].
 * Values     sum, mean: divided by the sum of the weights, sqrtn: by the root of the sum of their
 *            squares; a weight that is not given is 1, a divisor of 0 gives 0. max: NaN wins. A bag
 *            without rows is zeros. Float64 is computed in float64, all others in float32, and
 *            rounded once, to dtype.
 * Bounds     0 <= index < n, or the bounds policy; a replaced index counts, as a row of zeros with
 *            zero. An index equal to padding_index, as it is given, does not count.
 *            0 = offsets[0] <= offsets[1] <= ... <= m. 0 <= segment_ids < num_segments.
 * Ownership  Borrows all tensors for the call; writes only the output.
 * Threads    Reentrant. Splits rows, not bags, through exec; a large bag is summed in parts that depend
 *            on nothing else, so the result does not depend on the number of threads.
 * Cost       One random read for each index, one pass over what these rows have.
 * Source     torch.nn.functional.embedding_bag with offsets, tf.nn.embedding_lookup_sparse with
 *            segment_ids; layout byte_rowwise is torch.ops.quantized.embedding_bag_byte. */
#ifndef TD_KERNELS_EMBEDDING_BAG_H
#define TD_KERNELS_EMBEDDING_BAG_H

#include "kernels/op.h"

/* The inputs, in the order of the descriptor. */
enum {
    TD_BAG_PARAMS,
    TD_BAG_INDICES,
    TD_BAG_OFFSETS,
    TD_BAG_SEGMENT_IDS,
    TD_BAG_WEIGHTS,
    TD_BAG_SCALE,
    TD_BAG_OFFSET,
    TD_BAG_INPUTS
};

typedef enum td_bag_mode { TD_BAG_SUM, TD_BAG_MEAN, TD_BAG_SQRTN, TD_BAG_MAX } td_bag_mode;

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
};

extern const struct td_op td_op_embedding_bag;

/* The sizes of a call, after infer. */
struct td_embedding_bag_geometry {
    int64_t n_rows;    /* of params: the bound of the indices */
    int64_t n_indices; /* m */
    int64_t n_bags;    /* b; 0 when the output has no elements */
    int64_t row_numel; /* elements of a row of the output; 0 when it has none */
    size_t row_bytes;  /* from a row of params to the next */
};
struct td_embedding_bag_geometry td_embedding_bag_geometry(const struct td_op_args *args);
struct td_embedding_bag_attrs td_embedding_bag_attrs(const struct td_op_args *args);

#endif
