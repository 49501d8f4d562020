/* find.cu - find and lookup: finds the rows of keys with the index that
 * kernels/key_index/key_index.h describes. Each query has its own thread.
 *
 * As on the host, a search checks that a row number is below the number of keys, and compares the
 * key at that row with the query. A damaged index gives -1 for some queries, but never the row of
 * another key, and no search is longer than the index. */
#include "gpu/cuda/kernels/common.cuh"
#include "gpu/cuda/kernels/indices.cuh"

enum { SLOTS_NARROW = 12, SLOTS_WIDE = 6 };

struct key_block {
    uint32_t tags[SLOTS_NARROW / 4];
    uint32_t passed; /* number of keys that are in a later block */
    union {
        uint32_t narrow[SLOTS_NARROW];
        uint64_t wide[SLOTS_WIDE];
    } rows;
};

/* Computes the same hash as td_hash_integer. */
static __device__ __forceinline__ uint64_t hash_key(uint64_t key, uint64_t seed)
{
    uint64_t hash = key ^ seed;
    hash = (hash ^ hash >> 33) * 0xFF51AFD7ED558CCDu;
    hash = (hash ^ hash >> 33) * 0xC4CEB9FE1A85EC53u;
    return hash ^ hash >> 33;
}

static __device__ __forceinline__ uint64_t block_of_hash(uint64_t hash, uint64_t n_blocks)
{
    return (uint64_t)(((unsigned __int128)hash * n_blocks) >> 64);
}

/* Returns the block that follows `at` in a search. `step` is the number of blocks that the search
 * has read before `at`. */
static __device__ __forceinline__ uint64_t next_block(uint64_t at, uint64_t step, uint64_t hash,
                                                      uint64_t n_blocks)
{
    if (step == 0)
        return block_of_hash((hash << 32 | hash >> 32) * 0x9E3779B97F4A7C15u, n_blocks);
    return at + 1 == n_blocks ? 0 : at + 1;
}

/* Returns a word in which bit 7 is set in each byte where `tags` equals the byte `tag`. Bit 7 can
 * also be wrongly set in a byte above an equal byte, which the comparison of keys detects. */
static __device__ __forceinline__ uint32_t equal_tags(uint32_t tags, uint32_t tag)
{
    const uint32_t x = tags ^ tag * 0x01010101u;
    return (x - 0x01010101u) & ~x & 0x80808080u;
}

/* Returns the row of a key in a block, or -1 if the block does not have the key. */
static __device__ __forceinline__ int64_t find_in_block(const struct td_cuda_find_args &args,
                                                        const struct key_block *block,
                                                        const uint4 &head, uint32_t tag,
                                                        uint64_t key)
{
    const uint32_t tags[SLOTS_NARROW / 4] = { head.x, head.y, head.z };
#pragma unroll
    for (int word = 0; word < SLOTS_NARROW / 4; word++)
        for (uint32_t equal = equal_tags(tags[word], tag); equal != 0; equal &= equal - 1) {
            int slot = word * 4;
            while ((equal >> (slot % 4 * 8) & 0x80) == 0)
                slot++;
            if (args.wide && slot >= SLOTS_WIDE)
                return -1;
            const uint64_t row = args.wide ? block->rows.wide[slot] : block->rows.narrow[slot];
            if (row < (uint64_t)args.n_keys && args.keys[row] == key)
                return (int64_t)row;
        }
    return -1;
}

static __device__ int64_t find_row(const struct td_cuda_find_args &args, uint64_t key)
{
    const uint64_t hash = hash_key(key, args.seed);
    const uint32_t tag = (hash & 0xff) != 0 ? (uint32_t)(hash & 0xff) : 1;
    uint64_t at = block_of_hash(hash, args.n_blocks);
    for (uint64_t step = 0; step < args.longest; step++) {
        const struct key_block *block = (const struct key_block *)args.blocks + at;
        const uint4 head = __ldg((const uint4 *)(const void *)block);
        const int64_t row = find_in_block(args, block, head, tag, key);
        if (row >= 0)
            return row;
        if (head.w == 0)
            break;
        at = next_block(at, step, hash, args.n_blocks);
    }
    return -1;
}

static __global__ void __launch_bounds__(THREADS)
    find_rows(const __grid_constant__ struct td_cuda_find_args args)
{
    const int64_t step = (int64_t)gridDim.x * THREADS;
    bool counted = false;
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < args.n_queries; i += step) {
        const int64_t row = find_row(args, args.queries[i]);
        args.rows[i] = row;
        if (args.found != NULL)
            args.found[i] = row >= 0;
        if (row < 0 && args.reporting.reports != NULL) {
            count_bad_index(args.reporting, i);
            counted = true;
        }
    }
    write_reports(args.reporting, counted);
}

/* Fills a row of the table with its scalar default. */
static __global__ void __launch_bounds__(THREADS)
    repeat(const __grid_constant__ struct td_cuda_find_args args)
{
    const int64_t step = (int64_t)gridDim.x * THREADS;
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < args.row_bytes; i += step)
        args.row[i] = args.scalar[i % args.scalar_bytes];
}

cudaError_t td_cuda_find(const struct td_cuda_find_args *args, cudaStream_t stream)
{
    const unsigned int blocks = grid_blocks(ceil_div(args->n_queries, THREADS));
    find_rows<<<blocks, THREADS, 0, stream>>>(*args);
    const cudaError_t error = cudaGetLastError();
    if (error != cudaSuccess || args->scalar == NULL)
        return error;
    const unsigned int row_blocks = grid_blocks(ceil_div(args->row_bytes, THREADS));
    repeat<<<row_blocks, THREADS, 0, stream>>>(*args);
    return cudaGetLastError();
}

cudaError_t td_cuda_find_load(void)
{
    cudaError_t error = cudaSuccess;
    load_kernel(&error, find_rows);
    load_kernel(&error, repeat);
    return error;
}
