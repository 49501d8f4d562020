#include "kernels/convert/dequantize_loops.h"

static const struct td_dequantize_loops *loops_of(td_isa isa)
{
#ifdef __x86_64__
    if (isa >= TD_ISA_AVX512)
        return &td_dequantize_loops_avx512;
    if (isa == TD_ISA_AVX2)
        return &td_dequantize_loops_avx2;
#endif
    (void)isa;
    return &td_dequantize_loops_generic;
}

td_dequantize_fn *td_dequantize_loop(td_dtype stored, td_dtype real, bool by_offset, td_isa isa)
{
    const struct td_dequantize_loops *loops = loops_of(isa);
    const struct td_dequantize_loop *loop = by_offset ? &loops->by_offset : &loops->by_zero_point;
    if (real == TD_DTYPE_FLOAT64)
        return stored == TD_DTYPE_INT8 ? loop->int8_to_double : loop->uint8_to_double;
    return stored == TD_DTYPE_INT8 ? loop->int8_to_float : loop->uint8_to_float;
}
