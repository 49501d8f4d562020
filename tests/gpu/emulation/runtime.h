/* runtime.h - internals of the emulated runtime, for the emulated cuBLAS, CUB and kernel
 * launches. */
#ifndef TD_TESTS_GPU_EMULATION_RUNTIME_H
#define TD_TESTS_GPU_EMULATION_RUNTIME_H

#include <cuda_runtime_api.h>
#include <functional>

namespace emulation
{

/* Submits work, which runs at some time after all earlier work of the stream, with device memory
 * accessible. */
void submit(cudaStream_t stream, std::function<void()> work);

/* Launches a kernel: calls `thread` for every thread, with a copy of the argument that is made now.
 * Its function must have been loaded, by cudaFuncGetAttributes. cudaGetLastError returns errors of
 * the launch. */
void launch(const char *name, const void *function, unsigned int blocks, unsigned int threads,
            size_t shared_bytes, cudaStream_t stream, void (*thread)(const void *),
            const void *argument, size_t bytes);

/* Is this allocation to fail (td_emulation_fail_alloc)? */
bool allocation_fails();

/* Does the stream exist? */
bool is_stream(cudaStream_t stream);

/* Is the context corrupted? Then every call returns an error. */
bool is_lost();

/* Counts handles of libraries for td_emulation_resources. */
void count_handle(int change);

} // namespace emulation

#endif
