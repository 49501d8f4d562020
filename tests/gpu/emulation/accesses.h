/* accesses.h - checks every load and store of a kernel.
 *
 * Kernels are compiled with -fsanitize=thread; this file defines the functions that the compiler
 * calls at each access, with its address. An access to device or pinned memory must be inside an
 * allocation, a load from shared memory must read what the block has written, and any other host
 * memory is an error. (UBSan checks alignment.)
 *
 * Races    Two threads access the same byte, at least one of them writes, and not both are atomic:
 *          in shared memory without a barrier between them, in device memory in the same kernel.
 *          Detected in either order.
 * Threads  One host thread. */
#ifndef TD_TESTS_GPU_EMULATION_ACCESSES_H
#define TD_TESTS_GPU_EMULATION_ACCESSES_H

#include <cstddef>

namespace emulation
{

/* Sets the address range of the kernels' shared memory. */
void set_shared_memory(char *begin, char *end);

/* Checks an access of an atomic function. */
void check_atomic(const void *address, size_t bytes);

void poison(void *memory, size_t bytes, bool poisoned);

} // namespace emulation

#endif
