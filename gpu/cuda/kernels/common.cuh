/* common.cuh - device functions that several kernels use: grid size, division, reading an index,
 * copying a row. */
#ifndef TD_GPU_CUDA_KERNELS_COMMON_CUH
#define TD_GPU_CUDA_KERNELS_COMMON_CUH

#include "gpu/cuda/kernels/kernels.h"

#include <cuda_runtime.h>

#define THREADS 256 /* threads of a block */

/* Maximum number of blocks in a grid. With more work, blocks iterate in a grid-stride loop. The
 * maximum exceeds the number of blocks that any device runs at the same time. It is high enough for
 * the last blocks to even out the tail, and low enough for the overhead per block to be negligible.
 * Tests set a lower maximum to give each block several work items. */
#ifndef MAX_BLOCKS
#define MAX_BLOCKS 65536
#endif

static inline unsigned int grid_blocks(int64_t wanted)
{
    return (unsigned int)(wanted < 1 ? 1 : wanted < MAX_BLOCKS ? wanted : MAX_BLOCKS);
}

static __host__ __device__ __forceinline__ int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* Divides two non-negative numbers. A 64-bit division takes about five times as long as a 32-bit
 * division. */
static __device__ __forceinline__ int64_t divide(int64_t a, int64_t b, int64_t *remainder)
{
    if ((uint64_t)(a | b) >> 32 == 0) {
        const uint32_t quotient = (uint32_t)a / (uint32_t)b;
        *remainder = (int64_t)((uint32_t)a - quotient * (uint32_t)b);
        return (int64_t)quotient;
    }
    const int64_t quotient = a / b;
    *remainder = a - quotient * b;
    return quotient;
}

/* Returns the position of element i of a tensor with this shape and these strides. */
static __device__ __forceinline__ int64_t strided_at(const int64_t *extent, const int64_t *stride,
                                                     int rank, int64_t i)
{
    int64_t at = 0;
    for (int d = rank - 1; d >= 0; d--) {
        int64_t place = i;
        if (d > 0)
            i = divide(i, extent[d], &place);
        at += place * stride[d];
    }
    return at;
}

static __device__ __forceinline__ int64_t index_at(const void *indices, int bytes, int64_t i)
{
    switch (bytes) {
    case 2:
        return ((const int16_t *)indices)[i];
    case 4:
        return ((const int32_t *)indices)[i];
    default:
        return ((const int64_t *)indices)[i];
    }
}

/* Copies n vectors with the threads of a group. Writes zeros if `from` is NULL. A thread issues up
 * to four loads before its first store, even in the remainder at the end of a row. Stores are
 * streaming, so written data does not evict from the L2 cache rows that are read again. */
template <typename V>
static __device__ __forceinline__ void copy_vectors(V *to, const V *from, int n, int lane,
                                                    int group)
{
    if (from == NULL) {
        const V zero = {};
        for (int i = lane; i < n; i += group)
            __stcs(to + i, zero);
        return;
    }
    for (int i = lane; i < n; i += 4 * group) {
        V v[4];
#pragma unroll
        for (int k = 0; k < 4; k++)
            if (i + k * group < n)
                v[k] = __ldg(from + i + k * group);
#pragma unroll
        for (int k = 0; k < 4; k++)
            if (i + k * group < n)
                __stcs(to + i + k * group, v[k]);
    }
}

/* Copies one chunk of a row. Writes zeros if `from` is NULL. */
template <typename V>
static __device__ __forceinline__ void copy_chunk(const struct td_cuda_row_copy &copy, char *to,
                                                  const char *from, int64_t chunk, int lane)
{
    const int64_t begin = chunk * copy.chunk_vectors;
    const int64_t end = chunk == copy.chunks - 1 ? copy.vectors : begin + copy.chunk_vectors;
    copy_vectors((V *)to + begin, from == NULL ? NULL : (const V *)from + begin, (int)(end - begin),
                 lane, 1 << copy.group_log2);
}

/* The grid-stride loop in which a thread's group iterates over all chunks of `rows` rows. */
struct chunk_loop {
    int lane; /* number of the thread within its group */
    int64_t i, step, end;
};

static __device__ __forceinline__ struct chunk_loop
chunk_loop_begin(const struct td_cuda_row_copy &copy, int64_t rows)
{
    const int groups = THREADS >> copy.group_log2;
    struct chunk_loop loop;
    loop.lane = (int)threadIdx.x & ((1 << copy.group_log2) - 1);
    loop.i = (int64_t)blockIdx.x * groups + ((int)threadIdx.x >> copy.group_log2);
    loop.step = (int64_t)gridDim.x * groups;
    loop.end = rows * copy.chunks;
    return loop;
}

/* Returns the row of iteration i, and sets *chunk to its chunk. */
static __device__ __forceinline__ int64_t chunk_loop_row(const struct chunk_loop &loop,
                                                         const struct td_cuda_row_copy &copy,
                                                         int64_t *chunk)
{
    *chunk = 0;
    return copy.chunks == 1 ? loop.i : divide(loop.i, copy.chunks, chunk);
}

/* Returns the number of blocks of a kernel that uses a chunk_loop. */
static inline unsigned int chunk_loop_blocks(const struct td_cuda_row_copy *copy, int64_t rows)
{
    return grid_blocks(ceil_div(rows * copy->chunks, THREADS >> copy->group_log2));
}

/* Calls LAUNCH(V) with the vector type of this width. */
#define DISPATCH_VECTOR(bytes, LAUNCH)                                                             \
    switch (bytes) {                                                                               \
    case 16:                                                                                       \
        LAUNCH(uint4);                                                                             \
        break;                                                                                     \
    case 8:                                                                                        \
        LAUNCH(uint2);                                                                             \
        break;                                                                                     \
    case 4:                                                                                        \
        LAUNCH(unsigned int);                                                                      \
        break;                                                                                     \
    case 2:                                                                                        \
        LAUNCH(unsigned short);                                                                    \
        break;                                                                                     \
    default:                                                                                       \
        LAUNCH(unsigned char);                                                                     \
        break;                                                                                     \
    }

/* Calls LAUNCH for each vector type. */
#define EACH_VECTOR(LAUNCH)                                                                        \
    LAUNCH(uint4);                                                                                 \
    LAUNCH(uint2);                                                                                 \
    LAUNCH(unsigned int);                                                                          \
    LAUNCH(unsigned short);                                                                        \
    LAUNCH(unsigned char)

/* Loads a kernel, unless *error already holds an error. */
template <typename A> static inline void load_kernel(cudaError_t *error, void (*kernel)(A))
{
    struct cudaFuncAttributes unused;
    if (*error == cudaSuccess)
        *error = cudaFuncGetAttributes(&unused, (const void *)kernel);
}

#endif
