/* device_code.cuh - what the kernels share: division, indices of three widths, copying a row. */
#ifndef TD_GPU_CUDA_DEVICE_CODE_CUH
#define TD_GPU_CUDA_DEVICE_CODE_CUH

#include "gpu/cuda/kernels/kernels.h"

#include <cuda_runtime.h>

#define THREADS 256

/* More blocks than any device runs at a time: enough for the last ones to fill gaps, few enough
 * that what a block does once costs nothing. Tests set fewer, so that a block has several units. */
#ifndef MAX_BLOCKS
#define MAX_BLOCKS 65536
#endif

static inline unsigned int blocks_for(int64_t units)
{
    return (unsigned int)(units < 1 ? 1 : units < MAX_BLOCKS ? units : MAX_BLOCKS);
}

/* Of numbers that are 0 or more. Dividing 64 bits takes some five times as long as 32. */
static __device__ __forceinline__ int64_t divide(int64_t a, int64_t b, int64_t *rest)
{
    if ((uint64_t)(a | b) >> 32 == 0) {
        const uint32_t quotient = (uint32_t)a / (uint32_t)b;
        *rest = (int64_t)((uint32_t)a - quotient * (uint32_t)b);
        return (int64_t)quotient;
    }
    const int64_t quotient = a / b;
    *rest = a - quotient * b;
    return quotient;
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

/* n vectors, by the threads of a group; from NULL gives zeros. Up to four loads of a thread are
 * under way before it stores the first, at the end of a row as well. */
template <typename V>
static __device__ __forceinline__ void move_vectors(V *to, const V *from, int n, int lane,
                                                    int lanes)
{
    if (from == NULL) {
        const V zero = {};
        for (int i = lane; i < n; i += lanes)
            to[i] = zero;
        return;
    }
    for (int i = lane; i < n; i += 4 * lanes) {
        V v[4];
#pragma unroll
        for (int k = 0; k < 4; k++)
            if (i + k * lanes < n)
                v[k] = __ldg(from + i + k * lanes);
#pragma unroll
        for (int k = 0; k < 4; k++)
            if (i + k * lanes < n)
                to[i + k * lanes] = v[k];
    }
}

/* One part of a row; from NULL gives zeros. */
template <typename V>
static __device__ __forceinline__ void move_part(const struct td_cuda_move &move, char *to,
                                                 const char *from, int64_t part, int lane)
{
    const int64_t begin = part * move.part_vectors;
    const int64_t end = part == move.parts - 1 ? move.vectors : begin + move.part_vectors;
    move_vectors((V *)to + begin, from == NULL ? NULL : (const V *)from + begin, (int)(end - begin),
                 lane, 1 << move.lanes_log2);
}

/* Groups of threads share out `rows` times move.parts: the first of this thread's group, and how
 * many groups there are. */
struct group_walk {
    int lane;
    int64_t at, step, end;
};

static __device__ __forceinline__ struct group_walk walk_groups(const struct td_cuda_move &move,
                                                                int64_t rows)
{
    const int groups = THREADS >> move.lanes_log2;
    struct group_walk walk;
    walk.lane = (int)threadIdx.x & ((1 << move.lanes_log2) - 1);
    walk.at = (int64_t)blockIdx.x * groups + ((int)threadIdx.x >> move.lanes_log2);
    walk.step = (int64_t)gridDim.x * groups;
    walk.end = rows * move.parts;
    return walk;
}

static inline unsigned int group_blocks(const struct td_cuda_move *move, int64_t rows)
{
    const int64_t groups = THREADS >> move->lanes_log2;
    return blocks_for((rows * move->parts + groups - 1) / groups);
}

/* Calls LAUNCH(V) with the type of a vector. */
#define BY_VECTOR(bytes, LAUNCH)                                                                   \
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

#endif
