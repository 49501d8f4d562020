/* kernel_code.h - CUDA's language extensions for the host compiler. It replaces cuda_runtime.h,
 * which only nvcc compiles; launches.cmake rewrites the kernel launches.
 *
 * A kernel that uses an extension which is missing here does not compile. */
#ifndef TD_TESTS_GPU_EMULATION_KERNEL_CODE_H
#define TD_TESTS_GPU_EMULATION_KERNEL_CODE_H

#include "tests/gpu/emulation/accesses.h"
#include "tests/gpu/emulation/runtime.h"
#include "tests/gpu/emulation/threads.h"

#include <cuda_runtime_api.h>
#include <type_traits>
#include <vector_types.h>

#undef __shared__
#undef __launch_bounds__
#undef __grid_constant__
#undef __forceinline__
#define __shared__ static /* one block runs at a time */
#define __launch_bounds__(...)
#define __grid_constant__
#define __forceinline__ inline

#define threadIdx emulation::thread_index()
#define blockIdx  emulation::block_index()
#define blockDim  emulation::block_size()
#define gridDim   emulation::grid_size()

static inline void __syncthreads()
{
    emulation::barrier();
}

static inline int __syncthreads_or(int condition)
{
    return emulation::barrier_or(condition);
}

/* Threads do not run concurrently: no fence is needed. */
static inline void __threadfence()
{
}

template <typename T> static inline T __ldg(const T *from)
{
    return *from;
}

template <typename T> static inline void __stcs(T *to, T value)
{
    *to = value;
}

/* Built without fused multiply-add. */
static inline float __fmul_rn(float x, float y)
{
    return x * y;
}

static inline float __fadd_rn(float x, float y)
{
    return x + y;
}

static inline double __dmul_rn(double x, double y)
{
    return x * y;
}

static inline float __fmaf_rn(float x, float y, float z)
{
    return __builtin_fmaf(x, y, z);
}

static inline double __fma_rn(double x, double y, double z)
{
    return __builtin_fma(x, y, z);
}

/* Not instrumented by the compiler, but checked as atomic accesses. */
#define EMULATION_ATOMIC(name, T, after)                                                           \
    __attribute__((no_sanitize("thread"))) static inline T name(T *at, T value)                    \
    {                                                                                              \
        emulation::check_atomic(at, sizeof(T));                                                    \
        const T before = *at;                                                                      \
        *at = (after);                                                                             \
        return before;                                                                             \
    }
EMULATION_ATOMIC(atomicMax, unsigned int, before > value ? before : value)
EMULATION_ATOMIC(atomicMax, unsigned long long, before > value ? before : value)
EMULATION_ATOMIC(atomicAdd, unsigned int, before + value)
EMULATION_ATOMIC(atomicAdd, unsigned long long, before + value)
EMULATION_ATOMIC(atomicExch, unsigned long long, value)
EMULATION_ATOMIC(atomicOr, unsigned int, before | value)
EMULATION_ATOMIC(atomicInc, unsigned int, before >= value ? 0 : before + 1)
#undef EMULATION_ATOMIC

/* The emulation of kernel<<<blocks, threads, shared_bytes, stream>>>(*args): the argument is copied
 * at the launch, and again to the stack of each thread. */
#define EMULATION_LAUNCH(kernel, blocks, threads, shared_bytes, stream, argument)                  \
    emulation::launch(                                                                             \
        #kernel, reinterpret_cast<const void *>(kernel), blocks, threads, shared_bytes, stream,    \
        [](const void *copied) __attribute__((no_sanitize("thread"))) {                            \
            kernel(*static_cast<std::add_pointer_t<decltype(argument)>>(copied));                  \
        },                                                                                         \
        &(argument), sizeof(argument))

#endif
