/* dynamic_partition.h - share the rows of a tensor out to several, by number.
 *
 * Shapes     data        [I..., C...]   any dtype, strings included
 *            partitions  [I...]         int16, int32 or int64; a scalar makes all of data one row
 *            outputs     num_partitions tensors [count, C...]
 *            outputs[p] has the rows data[i...] with partitions[i...] = p, in their order;
 *            partitions that no row goes to are empty.
 * Bounds     0 <= partition < num_partitions, else INDEX_OUT_OF_BOUNDS, found by infer, since the
 *            numbers decide the shapes. 1 <= num_partitions <= TD_MAX_PARTITIONS.
 * Ownership  Borrows both tensors for the call; writes only the outputs. Scratch is from
 *            exec->arena.
 * Threads    Reentrant. The same bytes at every number of threads.
 * Cost       numel(data) bytes read and written; for scratch a sixteenth of that, and 8 bytes a row
 *            where a row is strings or larger than 128 KiB.
 * Source     tf.dynamic_partition in the TensorFlow API reference. */
#ifndef TD_KERNELS_DYNAMIC_PARTITION_H
#define TD_KERNELS_DYNAMIC_PARTITION_H

#include "kernels/op.h"

/* Every output, empty ones too, costs memory here and in the answer, whatever the size of the
 * request; as many tensors as a request may have in a list. */
#define TD_MAX_PARTITIONS 16384

struct td_dynamic_partition_attrs {
    int64_t num_partitions;
};

extern const struct td_op td_op_dynamic_partition;

/* A call in numbers. How many rows go to each output, infer has made the first of its dimensions. */
struct td_dynamic_partition_geometry {
    int64_t n_rows; /* of data, also where they have no elements */
    int64_t n_partitions;
    int64_t row_numel; /* elements in a row; 0 where data has none */
    size_t row_bytes;  /* 0 for strings */
};
struct td_dynamic_partition_geometry td_dynamic_partition_geometry(const struct td_op_args *args);

#endif
