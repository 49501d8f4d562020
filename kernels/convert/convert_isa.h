/* convert_isa.h - the conversion loops for each instruction set; convert.c selects one. */
#ifndef TD_KERNELS_CONVERT_ISA_H
#define TD_KERNELS_CONVERT_ISA_H

#include "kernels/convert/convert.h"

/* NULL for bool and string. */
struct td_conversions {
    td_widen_fn *widen[TD_DTYPE_COUNT];
    td_narrow_fn *narrow[TD_DTYPE_COUNT];
};

extern const struct td_conversions td_conversions_generic;
#ifdef __x86_64__
extern const struct td_conversions td_conversions_avx2;
extern const struct td_conversions td_conversions_avx512;
#endif

#endif
