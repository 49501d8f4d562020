#include "kernels/convert/convert.h"

#include "kernels/convert/convert_isa.h"

#include <assert.h>

td_compute td_compute_of(td_dtype dtype)
{
    switch (dtype) {
    case TD_DTYPE_FLOAT16:
    case TD_DTYPE_BFLOAT16:
    case TD_DTYPE_FLOAT32:
        return TD_COMPUTE_F32;
    case TD_DTYPE_FLOAT64:
        return TD_COMPUTE_F64;
    case TD_DTYPE_INT64:
    case TD_DTYPE_UINT64:
        return TD_COMPUTE_U64;
    case TD_DTYPE_COMPLEX64:
        return TD_COMPUTE_C64;
    case TD_DTYPE_COMPLEX128:
        return TD_COMPUTE_C128;
    default:
        assert(dtype != TD_DTYPE_BOOL && dtype != TD_DTYPE_STRING);
        return TD_COMPUTE_U32;
    }
}

size_t td_compute_size(td_compute compute)
{
    static const size_t sizes[TD_COMPUTE_COUNT] = {
        [TD_COMPUTE_F32] = 4, [TD_COMPUTE_F64] = 8, [TD_COMPUTE_U32] = 4,
        [TD_COMPUTE_U64] = 8, [TD_COMPUTE_C64] = 8, [TD_COMPUTE_C128] = 16,
    };
    return sizes[compute];
}

bool td_compute_is_native(td_dtype dtype)
{
    return dtype != TD_DTYPE_FLOAT16 && dtype != TD_DTYPE_BFLOAT16 &&
           td_dtype_info(dtype)->size == td_compute_size(td_compute_of(dtype));
}

static const struct td_conversions *conversions_of(td_isa isa)
{
#ifdef __x86_64__
    if (isa >= TD_ISA_AVX512)
        return &td_conversions_avx512;
    if (isa == TD_ISA_AVX2)
        return &td_conversions_avx2;
#endif
    (void)isa;
    return &td_conversions_generic;
}

td_widen_fn *td_widen(td_dtype dtype, td_isa isa)
{
    return conversions_of(isa)->widen[dtype];
}

td_narrow_fn *td_narrow(td_dtype dtype, td_isa isa)
{
    return conversions_of(isa)->narrow[dtype];
}
