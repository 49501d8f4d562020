/* threads.h - runs a kernel's blocks and threads, one at a time.
 *
 * Threads of a block run from barrier to barrier, blocks one after the other, both in an order that
 * changes from launch to launch. It is an error if some threads of a block wait at a barrier and
 * others have returned, or if they wait at different kinds of barrier.
 *
 * There are no warps: a kernel that assumes warp-synchronous execution fails here, as it does on
 * GPUs since Volta. */
#ifndef TD_TESTS_GPU_EMULATION_THREADS_H
#define TD_TESTS_GPU_EMULATION_THREADS_H

#include <cstddef>
#include <cstdint>
#include <functional>

namespace emulation
{

struct index3 {
    unsigned int x, y, z;
};

/* Of the running thread. Functions, because a kernel's read of a variable would be checked as an
 * access. */
index3 thread_index();
index3 block_index();
index3 block_size();
index3 grid_size();

constexpr unsigned int max_threads = 1024; /* in a block */

/* Calls `body` once for each thread. */
void run_kernel(const char *name, unsigned int blocks, unsigned int threads,
                const std::function<void()> &body);

/* __syncthreads, __syncthreads_or. */
void barrier();
int barrier_or(int condition);

/* ---- For accesses.cc --------------------------------------------------------------------- */

/* nullptr between kernels. */
extern const char *kernel_name;

/* Numbers of the current kernel, block, and interval between two barriers; never repeated. */
extern uint32_t kernel_number, block_number, interval_number;

/* Is this on the stack of a thread? */
bool on_stack(const void *address);

} // namespace emulation

#endif
