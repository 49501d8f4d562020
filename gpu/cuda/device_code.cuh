/* device_code.cuh - what the kernels share: division, indices of three widths, copying a row. */
#ifndef TD_GPU_CUDA_DEVICE_CODE_CUH
#define TD_GPU_CUDA_DEVICE_CODE_CUH

#include "gpu/cuda/kernels.h"

#include <cuda_runtime.h>

#define THREADS 256

/* More blocks than any device runs at a time: enough for the last ones to fill gaps, few enough
 * that what a block does once costs nothing. */
#define MAX_BLOCKS 65536

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

/* Vectors begin .. end of a row, by the threads of a group; from NULL gives zeros. Four loads are
 * under way before the first is stored. */
template <typename V>
static __device__ __forceinline__ void move_vectors(V *to, const V *from, int64_t begin,
                                                    int64_t end, int lane, int lanes)
{
    int64_t i = begin + lane;
    if (from == NULL) {
        const V zero = {};
        for (; i < end; i += lanes)
            to[i] = zero;
        return;
    }
    for (; i + 3 * lanes < end; i += 4 * lanes) {
        const V v0 = __ldg(from + i), v1 = __ldg(from + i + lanes),
                v2 = __ldg(from + i + 2 * lanes), v3 = __ldg(from + i + 3 * lanes);
        to[i] = v0;
        to[i + lanes] = v1;
        to[i + 2 * lanes] = v2;
        to[i + 3 * lanes] = v3;
    }
    for (; i < end; i += lanes)
        to[i] = __ldg(from + i);
}

/* One part of a row; from NULL gives zeros. */
template <typename V>
static __device__ __forceinline__ void move_part(const struct td_cuda_move &move, char *to,
                                                 const char *from, int64_t part, int lane)
{
    const int64_t begin = part * move.part_vectors;
    const int64_t end = part == move.parts - 1 ? move.vectors : begin + move.part_vectors;
    move_vectors((V *)to, (const V *)from, begin, end, lane, 1 << move.lanes_log2);
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
