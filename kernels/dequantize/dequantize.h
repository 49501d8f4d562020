/* dequantize.h - the numbers that quantised rows stand for.
 *
 * Shapes     params          [n, ...]    int8 or uint8
 *            scale, offset   [n] or []   float32: of each row, or of all
 *            output          [n, ...]
 * Values     params * scale + offset, computed in float32, or in float64 for that dtype, and rounded
 *            once to float16 and bfloat16.
 * Ownership  Borrows all tensors for the call; writes only the output.
 * Threads    Reentrant. Splits the elements through exec; the parts never overlap.
 * Cost       One pass; float16 and bfloat16 pass through blocks in the first cache.
 * Source     What torch.ops.quantized.embedding_bag_byte_unpack gives, of a table without trailers. */
#ifndef TD_KERNELS_DEQUANTIZE_H
#define TD_KERNELS_DEQUANTIZE_H

#include "kernels/op.h"

struct td_dequantize_attrs {
    td_dtype dtype; /* of the output */
};

extern const struct td_op td_op_dequantize;

#endif
