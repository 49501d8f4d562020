/* emulation.h - what a test may ask of the emulation of CUDA beside CUDA's own functions.
 *
 *     tensord-gpu-emulated.so   gpu/cuda/ as it is: its C, and its .cu by the compiler of the host
 *        │     └─► libcublas    cublas.cc: checks what it is asked, and multiplies
 *        └─► libtd_cuda_emulation
 *              runtime.cc       CUDA's runtime: streams that are done when somebody waits, errors
 *              threads.cc       blocks of threads, one after the other, in an order that changes
 *              accesses.cc      every load and store of a kernel: in bounds? a race?
 *              memory.cc        memory of the device, which the host cannot touch
 *
 * What is wrong ends the process, with a line that says what, and which kernel did it.
 *
 * Environment  TD_EMULATION_SEED=N: another order of blocks, threads and streams.
 *              TD_EMULATION_PRODUCTS=refuse: cuBLAS has no products, but of matrices that are the
 *              same everywhere (opening a device takes one).
 * Threads      One. */
#ifndef TD_TESTS_GPU_EMULATION_EMULATION_H
#define TD_TESTS_GPU_EMULATION_EMULATION_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The nth allocation from now fails, on the device, of pinned memory or inside cuBLAS, and every one
 * after it; 0: none. */
void td_emulation_fail_alloc(long nth);

/* The nth kernel from now breaks the context; 0: none. */
void td_emulation_lose(long nth);

/* Kernels must not touch these bytes of device memory, though they are allocated; or may again. */
void td_emulation_forbid(void *memory, size_t bytes, bool forbidden);

/* What was allocated, opened and created, and is not freed, closed and destroyed. */
size_t td_emulation_left(void);

/* Work that was submitted and has not begun, in all streams. */
size_t td_emulation_pending(void);

#ifdef __cplusplus
}
#endif

#endif
