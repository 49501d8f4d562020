/* dynamic_partition.h - distributes the rows of a tensor among several tensors by number.
 *
 * Shapes     data        [I..., C...]   any dtype, including string
 *            partitions  [I...]         int16, int32 or int64; a scalar makes all of data one row
 *            outputs     num_partitions tensors [count, C...]
 *            outputs[p] has the rows data[i...] with partitions[i...] = p, in their order.
 *            Partitions without rows are empty.
 * Bounds     0 <= partition < num_partitions. infer reports other numbers as INDEX_OUT_OF_BOUNDS,
 *            because the numbers determine the shapes. 1 <= num_partitions <= TD_MAX_PARTITIONS.
 * Ownership  Borrows both tensors for the call; writes only the outputs. Scratch memory is
 *            allocated in exec->arena.
 * Threads    Reentrant. The result does not depend on the number of threads.
 * Cost       The bytes of data read and written. Scratch memory is at most a sixteenth of these
 *            bytes, plus 8 bytes per row if rows are strings or are larger than
 *            TD_ROWS_RANGE_BYTES.
 * Source     tf.dynamic_partition in the TensorFlow API reference. */
#ifndef TD_KERNELS_DYNAMIC_PARTITION_H
#define TD_KERNELS_DYNAMIC_PARTITION_H

#include "kernels/op.h"

/* Each output, even an empty one, costs memory in the server and in the reply, whatever the size of
 * the request. Lists of tensors in a request have the same limit. */
#define TD_MAX_PARTITIONS 16384

struct td_dynamic_partition_attrs {
    int64_t num_partitions;
};

extern const struct td_op td_op_dynamic_partition;

/* The sizes of a call, after infer. The first dimension of an output is its number of rows. */
struct td_dynamic_partition_geometry {
    int64_t n_rows; /* number of rows of data, even if the rows have no elements */
    int64_t n_partitions;
    int64_t row_numel; /* elements per row; 0 if data is empty */
    size_t row_bytes;  /* 0 for strings */
};
struct td_dynamic_partition_geometry td_dynamic_partition_geometry(const struct td_op_args *args);

#endif
