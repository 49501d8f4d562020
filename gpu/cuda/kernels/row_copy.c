#include "gpu/cuda/kernels/kernels.h"

struct td_cuda_row_copy td_cuda_row_copy_make(size_t row_bytes, uintptr_t addresses)
{
    /* Maximum size of a chunk. Rows are split into chunks so that a few long rows occupy many
     * warps. */
    const size_t chunk_bytes = 4096;
    /* Maximum number of vectors of a row that a thread copies. A thread with one load in flight
     * cannot saturate the memory bandwidth, so a thread copies several vectors as long as the loads
     * of neighbouring threads still coalesce to whole cache lines. */
    const int vectors_per_thread = 4, line_bytes = 128;
    struct td_cuda_row_copy copy;
    copy.vector_bytes = 16;
    while (((uintptr_t)row_bytes | addresses) % (uintptr_t)copy.vector_bytes != 0)
        copy.vector_bytes /= 2;
    const size_t vector_bytes = (size_t)copy.vector_bytes;
    copy.vectors = (int64_t)(row_bytes / vector_bytes);
    copy.chunk_vectors = (int64_t)(chunk_bytes / vector_bytes);
    copy.chunks = copy.vectors <= copy.chunk_vectors
                      ? 1
                      : (copy.vectors + copy.chunk_vectors - 1) / copy.chunk_vectors;
    copy.group_log2 = 0;
    while (copy.group_log2 < 5 && (1 << copy.group_log2) < copy.vectors &&
           (copy.vector_bytes << copy.group_log2 < line_bytes ||
            vectors_per_thread << copy.group_log2 < copy.vectors))
        copy.group_log2++;
    return copy;
}
