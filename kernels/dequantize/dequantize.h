/* dequantize.h - the numbers that quantised rows stand for.
 *
 * Shapes     params          [n, ...]    int8 or uint8
 *            scale           [n] or []   float32: of each row, or of all
 *            offset          [n] or []   float32, or instead
 *            zero_point      [n] or []   int8, uint8, int32 or int64; without either 0
 *            output          [n, ...]
 * Values     params * scale + offset or (params - zero_point) * scale, computed in float32, or in
 *            float64 for that dtype: each operation is rounded, with every instruction set. float16
 *            and bfloat16 are rounded once more.
 * Ownership  Borrows all tensors for the call; writes only the output.
 * Threads    Reentrant. Splits the elements through exec; the parts never overlap.
 * Cost       One pass; float16 and bfloat16 pass through blocks in the first cache.
 * Source     With zero_point DequantizeLinear of ONNX; with offset what
 *            torch.ops.quantized.embedding_bag_byte_unpack gives, of a table without trailers. */
#ifndef TD_KERNELS_DEQUANTIZE_H
#define TD_KERNELS_DEQUANTIZE_H

#include "kernels/op.h"

struct td_dequantize_attrs {
    td_dtype dtype; /* of the output */
};

extern const struct td_op td_op_dequantize;

#endif
