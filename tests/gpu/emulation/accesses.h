/* accesses.h - looks at every load and store of a kernel.
 *
 * Kernels are compiled as for ThreadSanitizer, whose functions are here: so each access comes by,
 * with its address. Accesses of device memory must lie in an allocation, those of pinned memory
 * too, and those of shared memory must read what the block has written; any other memory of the
 * host is out of reach. (Alignment is UBSan's to check.)
 *
 * Races    Two threads that access the same byte, one of them writing, not both by an atomic
 *          function: in shared memory without a barrier between them, in device memory in the same
 *          kernel. Found in whichever order they come.
 * Threads  One. */
#ifndef TD_TESTS_GPU_EMULATION_ACCESSES_H
#define TD_TESTS_GPU_EMULATION_ACCESSES_H

#include <cstddef>

namespace emulation
{

/* Where the shared memory of the kernels is. */
void watch_shared_memory(char *begin, char *end);

/* By atomicAdd and its like. */
void note_atomic(const void *address, size_t bytes);

void forbid(void *memory, size_t bytes, bool forbidden);

} // namespace emulation

#endif
