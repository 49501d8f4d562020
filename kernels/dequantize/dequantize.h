/* dequantize.h - computes the numbers that quantised rows represent.
 *
 * Shapes     params          [n, ...]    int8 or uint8
 *            scale           [n] or []   float32: one per row, or one for all rows
 *            offset          [n] or []   float32; not with zero_point
 *            zero_point      [n] or []   int8, uint8, int32 or int64; defaults to 0
 *            output          [n, ...]
 * Values     params * scale + offset or (params - zero_point) * scale, computed in float32, or in
 *            float64 if dtype is float64. Every instruction set rounds each operation. float16 and
 *            bfloat16 are rounded once more.
 * Ownership  Borrows all tensors for the call; writes only the output.
 * Threads    Reentrant. Splits the elements through exec; the parts never overlap.
 * Cost       One pass. float16 and bfloat16 pass through blocks that stay in the L1 cache.
 * Source     With zero_point, DequantizeLinear of ONNX. With offset,
 *            torch.ops.quantized.embedding_bag_byte_unpack applied to a table without trailers. */
#ifndef TD_KERNELS_DEQUANTIZE_H
#define TD_KERNELS_DEQUANTIZE_H

#include "kernels/op.h"

struct td_dequantize_attrs {
    td_dtype dtype; /* dtype of the output */
};

extern const struct td_op td_op_dequantize;

#endif
