/* rows.cu - gather, batch_gather, gather_nd: rows of a table, by index.
 *
 * A launch is one kernel: it checks, copies and reports. Reports are collected in device memory,
 * since atomics on the host's would cross the bus for every bad index; the block that finishes last
 * writes them out and clears what it read, so nothing has to be cleared before. */
#include "gpu/cuda/kernels/common.cuh"

struct td_cuda_move td_cuda_move_make(size_t row_bytes, uintptr_t addresses)
{
    /* Rows are cut where a warp has copied this much: so that few long rows still are work for many
     * warps. */
    const size_t part_bytes = 4096;
    /* A thread that waits for an index and then for one vector has too little under way to keep a
     * fast memory busy; so it takes up to this many of a row, as long as neighbours still read whole
     * lines. */
    const int vectors_each = 4, line_bytes = 128;
    struct td_cuda_move move;
    move.vector_bytes = 16;
    while (((uintptr_t)row_bytes | addresses) % (uintptr_t)move.vector_bytes != 0)
        move.vector_bytes /= 2;
    const size_t vector_bytes = (size_t)move.vector_bytes;
    move.vectors = (int64_t)(row_bytes / vector_bytes);
    move.part_vectors = (int64_t)(part_bytes / vector_bytes);
    move.parts = move.vectors <= move.part_vectors
                     ? 1
                     : (move.vectors + move.part_vectors - 1) / move.part_vectors;
    move.lanes_log2 = 0;
    while (move.lanes_log2 < 5 && (1 << move.lanes_log2) < move.vectors &&
           (move.vector_bytes << move.lanes_log2 < line_bytes ||
            vectors_each << move.lanes_log2 < move.vectors))
        move.lanes_log2++;
    return move;
}

/* ---- Reports ----------------------------------------------------------------------------- */

/* Element `element` of indices is out of range. */
static __device__ void note_bad(const struct td_cuda_rows &job, int64_t element)
{
    if (job.reports == NULL)
        return;
    const int64_t *end = job.item_end != NULL ? job.item_end : job.inline_end;
    int low = 0, high = job.n_items - 1; /* the first item that ends behind element */
    while (low < high) {
        const int middle = low + (high - low) / 2;
        if (end[middle] > element)
            high = middle;
        else
            low = middle + 1;
    }
    const int64_t begin = low == 0 ? 0 : end[low - 1];
    atomicMax(&job.slots[low].first, (unsigned long long)(INT64_MAX - (element - begin)));
    atomicAdd(&job.slots[low].n_bad, 1ULL);
}

/* Every thread of every block comes here once. Only a block that noted something fences: a fence
 * waits for the rows that were stored as well, and nobody takes the block's place meanwhile. */
static __device__ void finish_reports(const struct td_cuda_rows &job, bool noted)
{
    __shared__ bool is_last;
    if (job.reports == NULL)
        return;
    const int any_noted = __syncthreads_or(noted);
    if (threadIdx.x == 0) {
        if (any_noted)
            __threadfence(); /* the notes are there before the block is counted */
        /* counts to the number of blocks, then is 0 again */
        is_last = atomicInc(job.ticket, gridDim.x - 1) == gridDim.x - 1;
        if (is_last)
            __threadfence();
    }
    __syncthreads();
    if (!is_last)
        return;
    for (int i = (int)threadIdx.x; i < job.n_items; i += THREADS) {
        const unsigned long long first = atomicExch(&job.slots[i].first, 0ULL);
        const unsigned long long n_bad = atomicExch(&job.slots[i].n_bad, 0ULL);
        job.reports[i].first_bad = INT64_MAX - (int64_t)first;
        job.reports[i].n_bad = (int64_t)n_bad;
    }
}

/* ---- Rows -------------------------------------------------------------------------------- */

enum { BOUNDS_ERROR, BOUNDS_ZERO, BOUNDS_CLIP, BOUNDS_WRAP };

/* A place in [0, bound), or -1 for a row of zeros. */
static __device__ __forceinline__ int64_t settle(int64_t index, int64_t bound, int policy)
{
    if (bound <= 0 || policy == BOUNDS_ERROR || policy == BOUNDS_ZERO)
        return -1;
    if (policy == BOUNDS_CLIP)
        return index < 0 ? 0 : bound - 1;
    const int64_t rest = index % bound;
    return rest < 0 ? rest + bound : rest;
}

/* The table's row for an output row, -1 for zeros. Of the threads that ask, one reports, and sets
 * *noted when it does. */
static __device__ __forceinline__ int64_t table_row(const struct td_cuda_rows &job, int64_t row,
                                                    bool reports, bool *noted)
{
    int64_t slice = 0, tuple = row;
    if (job.per_slice != job.n_rows) {
        int64_t i;
        slice = divide(row, job.per_slice, &i);
        if (job.slices != 1) {
            int64_t among;
            tuple = divide(slice, job.slices, &among) * job.per_slice + i;
            reports = reports && among == 0; /* an index counts once */
        }
    }
    int64_t place = slice * job.slice_rows;
    bool zero = false;
    for (int c = 0; c < job.depth; c++) {
        const int64_t element = tuple * job.depth + c;
        int64_t index = index_at(job.indices, job.index_bytes, element);
        if ((uint64_t)index >= (uint64_t)job.bound[c]) {
            if (reports) {
                note_bad(job, element);
                *noted = true;
            }
            index = settle(index, job.bound[c], job.policy);
            zero = zero || index < 0;
        }
        place += index * job.stride[c];
    }
    return zero ? -1 : place;
}

template <typename V>
static __global__ void __launch_bounds__(THREADS)
    gather(const __grid_constant__ struct td_cuda_rows job)
{
    const int64_t row_bytes = job.move.vectors * (int64_t)sizeof(V);
    struct group_walk walk = walk_groups(job.move, job.n_rows);
    bool noted = false;
    for (; walk.at < walk.end; walk.at += walk.step) {
        int64_t row = walk.at, part = 0;
        if (job.move.parts != 1)
            row = divide(walk.at, job.move.parts, &part);
        const int64_t place = table_row(job, row, walk.lane == 0 && part == 0, &noted);
        if (job.move.vectors != 0)
            move_part<V>(job.move, job.out + row * row_bytes,
                         place < 0 ? NULL : job.table + place * row_bytes, part, walk.lane);
    }
    finish_reports(job, noted);
}

cudaError_t td_cuda_gather(const struct td_cuda_rows *job, cudaStream_t stream)
{
    const unsigned int blocks = group_blocks(&job->move, job->n_rows);
#define LAUNCH(V) gather<V><<<blocks, THREADS, 0, stream>>>(*job)
    BY_VECTOR(job->move.vector_bytes, LAUNCH)
#undef LAUNCH
    return cudaGetLastError();
}
