/* emulation.h - functions of the emulation of CUDA for tests, besides CUDA's own.
 *
 *     tensord-gpu-emulated.so   gpu/cuda/ unchanged: its C, and its .cu files by the host compiler
 *        │     └─► libcublas    cublas.cc: checks its arguments, and multiplies
 *        └─► libtd_cuda_emulation
 *              runtime.cc       CUDA's runtime: streams, whose work runs when a call waits; errors
 *              threads.cc       blocks and their threads, one after the other, in a random order
 *              accesses.cc      checks every load and store of a kernel for bounds and races
 *              memory.cc        device memory, which the host cannot access
 *
 * An error ends the process, with a message that names the error and the kernel.
 *
 * Environment  TD_EMULATION_SEED=N: seed of the order of blocks, threads and streams.
 *              TD_EMULATION_PRODUCTS=refuse: cuBLAS refuses all products but those of matrices of
 *              equal elements (of which opening a device computes one).
 *              TD_EMULATION_GIB=N: device memory, of which only what is used is touched; 1 by
 *              default.
 * Threads      One host thread. */
#ifndef TD_TESTS_GPU_EMULATION_EMULATION_H
#define TD_TESTS_GPU_EMULATION_EMULATION_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The nth allocation from now, of device or pinned memory or inside cuBLAS, fails, and every later
 * one; 0: none. */
void td_emulation_fail_alloc(long nth);

/* What opening a device fails at, as CUDA does; 0: nothing. */
enum td_emulation_open {
    TD_EMULATION_NO_DRIVER = 1,
    TD_EMULATION_OLD_DRIVER, /* for CUDA 12.4 */
    TD_EMULATION_NO_DEVICE,
    TD_EMULATION_NO_CONTEXT, /* the device's memory is full */
    TD_EMULATION_NO_KERNELS, /* none for the device's compute capability, 7.0 */
    TD_EMULATION_BROKEN_KERNELS
};
void td_emulation_fail_open(int at);

/* The nth kernel from now corrupts the context; 0: none. */
void td_emulation_lose(long nth);

/* The nth kernel from now never completes, nor does what its stream has after it: a call that waits
 * for it ends the process. 0: none, and the one that hangs goes on. */
void td_emulation_hang(long nth);

/* Makes accesses of kernels to these allocated bytes of device memory an error; or allows them
 * again. */
void td_emulation_poison(void *memory, size_t bytes, bool forbidden);

/* The limit of what the L2 cache fetches at a miss. */
size_t td_emulation_fetch_bytes(void);

/* The most that the pool of memory may hold, and how often what it kept was given back. */
size_t td_emulation_pool_limit(void);
long td_emulation_pool_trims(void);

/* Allocations, streams and handles that exist. */
size_t td_emulation_resources(void);

/* Calls so far that ask whether a stream has work. */
size_t td_emulation_queries(void);

/* Submitted work that has not begun, in all streams. */
size_t td_emulation_pending(void);

#ifdef __cplusplus
}
#endif

#endif
