/* runtime.h - what stands behind the emulated runtime's streams, for the libraries on top of it. */
#ifndef TD_TESTS_GPU_EMULATION_RUNTIME_H
#define TD_TESTS_GPU_EMULATION_RUNTIME_H

#include <cuda_runtime_api.h>
#include <functional>

namespace emulation
{

/* Work that the device does at some time after what was submitted to the stream before; device
 * memory can be touched meanwhile. */
void submit(cudaStream_t stream, std::function<void()> work);

/* A kernel; what is wrong with it cudaGetLastError says. `thread` is called for every thread, with
 * a copy of the argument that is made now. */
void launch(const char *name, unsigned int blocks, unsigned int threads, size_t shared_bytes,
            cudaStream_t stream, void (*thread)(const void *), const void *argument, size_t bytes);

/* Has a test asked for this allocation to fail? */
bool allocation_fails();

/* Is the stream one that was created and not destroyed? */
bool is_stream(cudaStream_t stream);

/* Is the context broken? Then every call says so. */
bool is_lost();

/* Handles of libraries, counted for td_emulation_left. */
void count_handle(int change);

} // namespace emulation

#endif
