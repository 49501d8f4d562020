#include "kernels/isa.h"

/* True if the processor has F16C. Every processor with AVX2 has it, but a hypervisor can mask it.
 * F16C is assumed with Clang before 15, which does not know __builtin_cpu_supports("f16c"). The
 * cpuid instruction would take microseconds in a virtual machine, whereas __builtin_cpu_supports
 * reads a variable that is set at program start. */
#ifdef __clang__
#define HAS_F16C true
#else
#define HAS_F16C __builtin_cpu_supports("f16c")
#endif

bool td_isa_supported(td_isa isa)
{
    switch (isa) {
    case TD_ISA_AUTO:
    case TD_ISA_GENERIC:
        return true;
#ifdef __x86_64__
    case TD_ISA_AVX2:
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && HAS_F16C;
    case TD_ISA_AVX512:
        return td_isa_supported(TD_ISA_AVX2) && __builtin_cpu_supports("avx512f") &&
               __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512vl");
    case TD_ISA_AVX512_BF16:
        return td_isa_supported(TD_ISA_AVX512) && __builtin_cpu_supports("avx512bf16");
#endif
    default:
        return false;
    }
}

td_isa td_isa_resolve(td_isa wanted)
{
    if (wanted != TD_ISA_AUTO && td_isa_supported(wanted))
        return wanted;
    for (int isa = TD_ISA_COUNT - 1; isa > TD_ISA_GENERIC; isa--)
        if (td_isa_supported((td_isa)isa))
            return (td_isa)isa;
    return TD_ISA_GENERIC;
}

const char *td_isa_name(td_isa isa)
{
    static const char *const names[TD_ISA_COUNT] = {
        [TD_ISA_AUTO] = "auto",     [TD_ISA_GENERIC] = "generic",         [TD_ISA_AVX2] = "avx2",
        [TD_ISA_AVX512] = "avx512", [TD_ISA_AVX512_BF16] = "avx512_bf16",
    };
    return names[isa];
}
