#include "kernels/elementwise/loops.h"

const struct td_elementwise_loops *td_elementwise_loops(td_isa isa)
{
#ifdef __x86_64__
    if (isa >= TD_ISA_AVX512)
        return &td_elementwise_loops_avx512;
    if (isa == TD_ISA_AVX2)
        return &td_elementwise_loops_avx2;
#endif
    (void)isa;
    return &td_elementwise_loops_generic;
}
