#include "kernels/reductions/loops.h"

static const struct td_reduction_loops *loops_of(td_isa isa)
{
#ifdef __x86_64__
    if (isa >= TD_ISA_AVX512)
        return &td_reduction_loops_avx512;
    if (isa == TD_ISA_AVX2)
        return &td_reduction_loops_avx2;
#endif
    (void)isa;
    return &td_reduction_loops_generic;
}

td_dtype td_reduce_result(td_reduce_kind kind, td_dtype dtype)
{
    const bool adds = kind == TD_REDUCE_SUM || kind == TD_REDUCE_PROD;
    if (adds && td_dtype_is_complex(dtype))
        return TD_DTYPE_COMPLEX128;
    return adds && td_dtype_is_float(dtype) ? TD_DTYPE_FLOAT64 : dtype;
}

const struct td_reduce_loops *td_reduce_loops_of(td_reduce_kind kind, td_dtype dtype, td_isa isa)
{
    return &loops_of(isa)->reduce[kind][dtype];
}

const struct td_arg_loops *td_arg_loops_of(td_reduce_kind kind, td_dtype dtype, td_isa isa)
{
    return &loops_of(isa)->arg[kind][dtype];
}

const struct td_scan_loops *td_scan_loops_of(td_dtype dtype, td_isa isa)
{
    return &loops_of(isa)->scan[dtype];
}
