/* kernels.h - what the plugin's C asks of its kernels: plain structs of numbers and device
 * addresses, passed to a kernel by value, and one function that launches each.
 *
 * C and CUDA both include this, so it includes nothing of kernels/. Dtypes are the numbers of
 * td_dtype, bounds those of td_bounds; plugin.c asserts at compile time what is written here about
 * them.
 *
 * Bounds   An index that host code has looked at may have changed since, where a client can write to
 *          it. Every kernel checks again what it would otherwise write or read outside of.
 * Errors   A launch returns what the runtime says about it, not about the work.
 * Threads  None of its own. */
#ifndef TD_GPU_CUDA_KERNELS_H
#define TD_GPU_CUDA_KERNELS_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Rows -------------------------------------------------------------------------------- */

/* How rows are copied: in vectors of 1, 2, 4, 8 or 16 bytes, by groups of 1 to 32 neighbouring
 * threads; long rows in parts, each by a group of its own. */
struct td_cuda_move {
    int vector_bytes;
    int lanes_log2;       /* threads in a group */
    int64_t vectors;      /* in a row; 0: nothing is copied */
    int64_t parts;        /* 1 or more */
    int64_t part_vectors; /* in each part but the last; some thousand at the most */
};

/* addresses: those of everything that is read or written, ORed. */
struct td_cuda_move td_cuda_move_make(size_t row_bytes, uintptr_t addresses);

#define TD_CUDA_MAX_DEPTH    16 /* TD_MAX_RANK */
#define TD_CUDA_INLINE_ITEMS 64
#define TD_CUDA_SLOTS        4096

/* Of one item, in device memory; all zero between launches. */
struct td_cuda_slot {
    unsigned long long first; /* INT64_MAX - position of the first bad index; 0: none */
    unsigned long long n_bad;
};

/* struct td_device_report */
struct td_cuda_report {
    int64_t first_bad, n_bad;
};

/* Output row r is in slice r / per_slice; the table's rows of that slice begin at slice *
 * slice_rows. Its index is a tuple of `depth` components (1 for gather), of which `slices`
 * consecutive slices use the same ones. */
struct td_cuda_rows {
    char *out;
    const char *table;
    struct td_cuda_move move;
    int64_t n_rows;
    int64_t per_slice, slices, slice_rows;
    const void *indices;
    int index_bytes;
    int policy; /* td_bounds */
    int depth;
    int64_t bound[TD_CUDA_MAX_DEPTH], stride[TD_CUDA_MAX_DEPTH];
    /* Who gets told what about bad indices; reports NULL: nobody. */
    int n_items;
    int64_t inline_end[TD_CUDA_INLINE_ITEMS]; /* ends of items where these are few, */
    const int64_t *item_end;                  /* otherwise on the device */
    struct td_cuda_slot *slots;               /* n_items */
    unsigned int *ticket;                     /* 0 between launches */
    struct td_cuda_report *reports;           /* host memory */
};
cudaError_t td_cuda_gather(const struct td_cuda_rows *job, cudaStream_t stream);

/* One tensor of a stitch. */
struct td_cuda_stitch_list {
    const void *indices;
    const char *data;
    int64_t first; /* number of its first row among those of all */
    int64_t index_bytes;
};

struct td_cuda_stitch {
    char *out;
    struct td_cuda_move move;
    int64_t n_in, n_out;
    int n_lists;
    const struct td_cuda_stitch_list *lists; /* on the device */
    uint32_t *last; /* n_out: number of the input row that an output row is, and 1; 0: none */
};
/* Input rows are numbered below this. */
#define TD_CUDA_MAX_ROWS (INT64_C(0x7fffffff))
cudaError_t td_cuda_stitch(const struct td_cuda_stitch *job, cudaStream_t stream);

/* An output of a partition. */
struct td_cuda_pile {
    char *out;
    int64_t begin; /* rows in the piles before */
};

struct td_cuda_partition {
    const char *data;
    struct td_cuda_move move;
    int64_t n_rows; /* at most TD_CUDA_MAX_ROWS */
    const void *numbers;
    int number_bytes;
    int n_piles;                      /* below 65535 */
    const struct td_cuda_pile *piles; /* on the device, n_piles and one behind them */
    uint16_t *key[2];                 /* n_rows: pile of each row; before and after sorting */
    uint32_t *row[2];                 /* n_rows: its number */
    void *sort;                       /* sort_bytes */
    size_t sort_bytes;
};
cudaError_t td_cuda_partition_sort_bytes(int64_t n_rows, int n_piles, size_t *bytes);
cudaError_t td_cuda_partition(const struct td_cuda_partition *job, cudaStream_t stream);

/* ---- Loops ------------------------------------------------------------------------------- */

#define TD_CUDA_MAX_LOOPS 62 /* TD_MAX_LOOPS */

enum { TD_CUDA_A, TD_CUDA_B, TD_CUDA_C };

struct td_cuda_loop {
    int64_t extent;
    int64_t stride[3]; /* in elements */
};

/* What is computed in; td_compute. */
enum td_cuda_compute {
    TD_CUDA_F32,
    TD_CUDA_F64,
    TD_CUDA_U32,
    TD_CUDA_U64,
    TD_CUDA_C64,
    TD_CUDA_C128,
    TD_CUDA_COMPUTES
};

/* How an element is stored. */
enum td_cuda_stored {
    TD_CUDA_AS_COMPUTED,
    TD_CUDA_F16,
    TD_CUDA_BF16,
    TD_CUDA_I8,
    TD_CUDA_U8,
    TD_CUDA_I16,
    TD_CUDA_U16
};

/* Sums of products over any nest: loops of the output first, then those that are summed. A block's
 * threads are y_threads along the sum times the rest along the output. With parts > 1 the sum is
 * cut into that many, which are added up afterwards. */
struct td_cuda_nest {
    const void *a, *b; /* b NULL: sums of A alone */
    void *c;
    enum td_cuda_compute compute;
    enum td_cuda_stored stored[3];
    int64_t n_out, n_sum;
    int n_out_loops, n_sum_loops;
    int y_threads;  /* a power of two */
    bool lanes_sum; /* neighbouring threads are neighbours along the sum */
    int64_t parts, part_terms;
    void *totals; /* parts x n_out, of twice the precision of float32 */
    struct td_cuda_loop loops[TD_CUDA_MAX_LOOPS];
};
size_t td_cuda_total_bytes(enum td_cuda_compute compute);
cudaError_t td_cuda_nest(const struct td_cuda_nest *job, cudaStream_t stream);

/* Moves elements of a width; every loop moves C. With `tiled` the last two loops are a matrix that
 * is transposed: loop n - 2 moves A by 1, loop n - 1 moves C by 1. */
struct td_cuda_permute {
    const void *a;
    void *c;
    int bytes; /* of an element: 1, 2, 4, 8, 16 */
    bool tiled;
    int64_t n; /* elements */
    int n_loops;
    struct td_cuda_loop loops[TD_CUDA_MAX_LOOPS];
};
cudaError_t td_cuda_permute(const struct td_cuda_permute *job, cudaStream_t stream);

/* C[z, i, j] = sum over k of A[z, i, k] * B[z, k, j], where z stands for n_loops loops. */
struct td_cuda_product {
    const void *a, *b;
    void *c;
    enum td_cuda_compute compute;
    enum td_cuda_stored stored[3];
    int64_t m, n, k;
    int64_t a_m, a_k, b_k, b_n, c_m, c_n; /* strides */
    int64_t batch;                        /* product of the loops */
    int n_loops;
    struct td_cuda_loop loops[TD_CUDA_MAX_LOOPS];
};
cudaError_t td_cuda_product(const struct td_cuda_product *job, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
