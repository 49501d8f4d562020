#include "api/json/parse_floats.h"

td_parse_floats_fn *td_parse_floats_of(td_dtype dtype, td_isa isa)
{
#ifdef __x86_64__
    if (dtype != TD_DTYPE_FLOAT32 && dtype != TD_DTYPE_FLOAT64)
        return NULL;
    if (td_isa_resolve(isa) < TD_ISA_AVX2)
        return NULL;
    return dtype == TD_DTYPE_FLOAT32 ? td_parse_float32_avx2 : td_parse_float64_avx2;
#else
    (void)dtype;
    (void)isa;
    return NULL;
#endif
}
