/* threads.h - a kernel's blocks and threads, one at a time.
 *
 * Threads of a block take turns at its barriers; blocks come one after the other. Both come in an
 * order that changes from launch to launch. A block some threads of which wait while others have
 * ended is an error; so is one whose threads wait at barriers of two sorts.
 *
 * There are no warps: a kernel that relied on its neighbours being in step would be wrong here, as
 * it is on a GPU since Volta. */
#ifndef TD_TESTS_GPU_EMULATION_THREADS_H
#define TD_TESTS_GPU_EMULATION_THREADS_H

#include <cstddef>
#include <cstdint>
#include <functional>

namespace emulation
{

struct place {
    unsigned int x, y, z;
};

/* Of the thread that runs. Functions, since a kernel's reading of a variable would be looked at. */
place thread_index();
place block_index();
place block_size();
place grid_size();

constexpr unsigned int most_threads = 1024; /* in a block */

/* Runs `body` once for each thread. */
void run_kernel(const char *name, unsigned int blocks, unsigned int threads,
                const std::function<void()> &body);

/* __syncthreads, __syncthreads_or. */
void barrier();
int barrier_or(int condition);

/* ---- For those who watch ----------------------------------------------------------------- */

/* nullptr between kernels. */
extern const char *kernel_name;

/* Counts kernels, blocks, and times between two barriers. */
extern uint32_t kernel_number, block_number, period_number;

/* Is this on the stack of a thread? */
bool on_stack(const void *address);

} // namespace emulation

#endif
