/* kernels.h - the CUDA kernels as C sees them: a struct of arguments for each, passed to the kernel
 * by value, and a function that launches it on a stream.
 *
 * Included by C and by CUDA, so it includes nothing of kernels/. Numbers that equal those of
 * kernels/ (bounds policies, dtypes to compute in) are asserted in plugin.c and ops/.
 *
 * Bounds   A client may write to memory of indices after the host has checked them. Every kernel
 *          checks an index again before it reads or writes with it.
 * Errors   A launch function returns the error of the launch, not of the kernel's execution. */
#ifndef TD_GPU_CUDA_KERNELS_KERNELS_H
#define TD_GPU_CUDA_KERNELS_KERNELS_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What the parameters of a kernel may take on every device and with every version of CUDA; from 7.0
 * and 12.1 on it is 32,764 bytes. plugin.c compares the structs. */
#define TD_CUDA_PARAMETER_BYTES 4096

/* Each loads the kernels of a file. The first launch of a kernel would do that too, and may wait
 * for all that the device does ("Lazy Loading" in the CUDA Programming Guide). */
cudaError_t td_cuda_bags_load(void);
cudaError_t td_cuda_find_load(void);
cudaError_t td_cuda_gather_load(void);
cudaError_t td_cuda_gemm_load(void);
cudaError_t td_cuda_partition_load(void); /* but for those of the sort */
cudaError_t td_cuda_permute_load(void);
cudaError_t td_cuda_stitch_load(void);
cudaError_t td_cuda_sumprod_load(void);

/* ---- Reports of bad indices ------------------------------------------------------------------ */

/* As many as the batcher merges by default (--batch-limit): 2 KiB of a kernel's parameters. */
#define TD_CUDA_INLINE_ITEMS    256
#define TD_CUDA_STREAM_COUNTERS 4096

/* The bad indices of one item, counted in device memory. Zero between launches. */
struct td_cuda_counter {
    unsigned long long first; /* INT64_MAX - position of the first; 0: none */
    unsigned long long n_bad;
};

/* struct td_device_report */
struct td_cuda_report {
    int64_t first_bad, n_bad;
};

/* Where a kernel reports the bad indices of each item. */
struct td_cuda_reporting {
    int n_items;
    int64_t inline_end[TD_CUDA_INLINE_ITEMS]; /* ends of the items, if there are so few; */
    const int64_t *item_end;                  /* otherwise in device memory */
    struct td_cuda_counter *counters;         /* n_items */
    unsigned int *blocks_done;                /* 0 between launches */
    struct td_cuda_report *reports;           /* pinned host memory; NULL: no reports */
};

/* ---- Rows -------------------------------------------------------------------------------- */

/* How rows are copied: vectorized, in vectors of 1, 2, 4, 8 or 16 bytes, each row by a group of 1
 * to 32 neighbouring threads; long rows in chunks, each by a group of its own. */
struct td_cuda_row_copy {
    int vector_bytes;
    int group_log2;        /* log2 of the threads in a group */
    int64_t vectors;       /* of a row; 0: nothing is copied */
    int64_t chunks;        /* of a row; 1 or more */
    int64_t chunk_vectors; /* in each chunk but the last; at most some thousand */
};

/* addresses: those of all rows that are read or written, ORed; their alignment limits the
 * vectors. */
struct td_cuda_row_copy td_cuda_row_copy_make(size_t row_bytes, uintptr_t addresses);

#define TD_CUDA_MAX_DEPTH 16 /* TD_MAX_RANK */

/* Output row r belongs to slice r / slice_outputs; the params rows of a slice begin at row slice *
 * slice_rows. The index of a row is a tuple of `depth` components (1 for gather); groups of
 * `repeat` consecutive slices use the same indices. */
struct td_cuda_gather_args {
    char *out;
    const char *params;
    const char *default_row; /* in the place of a row of zeros; NULL: zeros */
    int64_t default_bytes;   /* from the default of an output row to the next; 0: one for all */
    struct td_cuda_row_copy copy;
    int64_t n_rows; /* of the output */
    int64_t slice_outputs, repeat, slice_rows;
    const void *indices;
    int index_bytes;
    int bounds; /* td_bounds */
    int depth;
    int64_t bound[TD_CUDA_MAX_DEPTH], stride[TD_CUDA_MAX_DEPTH];
    struct td_cuda_reporting reporting;
};
cudaError_t td_cuda_gather(const struct td_cuda_gather_args *args, cudaStream_t stream);

/* One tensor of indices of a stitch, with its data. */
struct td_cuda_stitch_input {
    const void *indices;
    const char *data;
    int64_t first_row; /* number of its first row; rows are numbered across all inputs */
    int64_t index_bytes;
};

struct td_cuda_stitch_args {
    char *out;
    struct td_cuda_row_copy copy;
    int64_t n_in, n_out; /* rows */
    int n_inputs;
    const struct td_cuda_stitch_input *inputs; /* device memory */
    uint32_t
        *source; /* n_out: 1 + number of the input row that is copied to the output row; 0: none */
};
/* Input rows are numbered below this. */
#define TD_CUDA_MAX_ROWS (INT64_C(0x7fffffff))
cudaError_t td_cuda_stitch(const struct td_cuda_stitch_args *args, cudaStream_t stream);

/* One output of a partition. */
struct td_cuda_bucket {
    char *out;
    int64_t begin; /* rows in the buckets before it */
};

struct td_cuda_partition_args {
    const char *data;
    struct td_cuda_row_copy copy;
    int64_t n_rows; /* at most TD_CUDA_MAX_ROWS */
    const void *partitions;
    int index_bytes;
    int n_buckets;                        /* below 65535 */
    const struct td_cuda_bucket *buckets; /* device memory; n_buckets and an end marker */
    uint16_t *keys[2];                    /* n_rows: bucket of each row; unsorted, sorted */
    uint32_t *rows[2];                    /* n_rows: row numbers; unsorted, sorted */
    void *sort_workspace;
    size_t sort_bytes;
};
cudaError_t td_cuda_partition_sort_bytes(int64_t n_rows, int n_buckets, size_t *bytes);
cudaError_t td_cuda_partition(const struct td_cuda_partition_args *args, cudaStream_t stream);

/* ---- Keys ------------------------------------------------------------------------------------ */

/* Rows of keys of 8 bytes; kernels/key_index/key_index.h. */
struct td_cuda_find_args {
    int64_t *rows; /* n_queries: the row of each, or -1 */
    bool *found;   /* n_queries; NULL: not wanted */
    const uint64_t *queries, *keys;
    int64_t n_queries, n_keys;
    const unsigned char *blocks; /* of the index, aligned to 16 */
    uint64_t n_blocks, seed, longest;
    bool wide;
    /* Fills a row of row_bytes with copies of a scalar; NULL: does not. */
    char *row;
    const char *scalar;
    int64_t row_bytes, scalar_bytes;
    struct td_cuda_reporting reporting; /* of queries without a row */
};
cudaError_t td_cuda_find(const struct td_cuda_find_args *args, cudaStream_t stream);

/* ---- Bags of rows -------------------------------------------------------------------------- */

/* The type of a real number in memory. */
enum td_cuda_number {
    TD_CUDA_FLOAT16,
    TD_CUDA_BFLOAT16,
    TD_CUDA_FLOAT32,
    TD_CUDA_FLOAT64,
    TD_CUDA_INT8,
    TD_CUDA_UINT8,
    TD_CUDA_INT32, /* this and the next: zero points alone */
    TD_CUDA_INT64
};

/* A bag is a range of indices; one of more than this is summed in parts of so many. */
#define TD_CUDA_BAG_PART 256

struct td_cuda_bags_args {
    void *out;          /* [n_bags, columns] */
    const void *params; /* [n_rows, columns] */
    enum td_cuda_number params_type, out_type, weights_type;
    int vector_elements; /* 16 bytes, 4 bytes or one element; columns is a multiple */
    int group_log2;      /* log2 of the threads of a group; a thread has a vector */
    int64_t chunks;      /* of a row, each for a group: 1 or more */
    int64_t n_bags, n_indices, n_rows, columns;
    int64_t row_bytes; /* from a row of params to the next */
    int64_t n_parts;   /* n_bags + n_indices / TD_CUDA_BAG_PART */
    const void *indices;
    int index_bytes;
    int bounds;         /* td_bounds */
    int mode;           /* sum, mean, sqrtn, max */
    int64_t padding;    /* the index that is skipped; negative: none */
    const void *begins; /* n_bags: the first index of each */
    int begin_bytes;
    int64_t bag_indices;     /* in each bag, if begins is NULL */
    const void *segment_ids; /* n_indices, which never decrease: the bag of each; NULL: begins */
    int segment_bytes;
    int64_t *found_begins; /* begins, where there are segment_ids; device memory */
    const void *weights;   /* n_indices; NULL: 1 */
    /* Of int8 and uint8. Steps from one row to the next are 1, or 0 if all rows have the same. */
    const float *scale; /* NULL: scale and offset are in each row, after its columns */
    int scale_step;
    const float *offset; /* NULL: zero_point */
    int offset_step;
    const void *zero_point;              /* NULL: 0 */
    enum td_cuda_number zero_point_type; /* int8, uint8, int32 or int64 */
    int zero_point_step;
    /* Workspace for the sums of parts, in float64 for float64, else float32: 2 rows for each run of
     * TD_CUDA_BAG_PART indices, the last one may be shorter; NULL: no bag can be that long. */
    void *part_sums;
    double *part_weights;
    struct td_cuda_reporting reporting;
};
cudaError_t td_cuda_bags(const struct td_cuda_bags_args *args, cudaStream_t stream);

/* ---- Loop nests -------------------------------------------------------------------------- */

#define TD_CUDA_MAX_LOOPS 62 /* TD_MAX_LOOPS */

enum { TD_CUDA_A, TD_CUDA_B, TD_CUDA_C };

struct td_cuda_loop {
    int64_t extent;
    int64_t stride[3]; /* in elements */
};

/* The type that is computed in; td_compute. */
enum td_cuda_compute {
    TD_CUDA_F32,
    TD_CUDA_F64,
    TD_CUDA_U32,
    TD_CUDA_U64,
    TD_CUDA_C64,
    TD_CUDA_C128,
    TD_CUDA_COMPUTES
};

/* The type of an element in memory. */
enum td_cuda_storage {
    TD_CUDA_AS_COMPUTED,
    TD_CUDA_F16,
    TD_CUDA_BF16,
    TD_CUDA_I8,
    TD_CUDA_U8,
    TD_CUDA_I16,
    TD_CUDA_U16
};

/* Sums of products over any loop nest: output loops first, then summed loops. Of a block's threads
 * sum_threads share one sum, the others differ in the output. With splits > 1 each sum is split
 * into as many partial sums (as in split-K), which a second kernel adds. */
struct td_cuda_sumprod_args {
    const void *a, *b; /* b NULL: sums of A alone */
    void *c;
    enum td_cuda_compute compute;
    enum td_cuda_storage storage[3];
    int64_t n_out, n_sum;
    /* Of the last sum loop: its extent, and the bytes of A and B from a thread's term to its next
     * one. */
    int64_t last_extent, term_stride[2];
    int n_out_loops, n_sum_loops;
    int sum_threads, sum_threads_log2;
    bool lanes_along_sum; /* neighbouring threads are neighbours in the sum, not in the output */
    int64_t splits, split_terms;
    void *partial_sums; /* splits x n_out, in the accumulator type (float64 for float32) */
    struct td_cuda_loop loops[TD_CUDA_MAX_LOOPS];
};
size_t td_cuda_accumulator_bytes(enum td_cuda_compute compute);
cudaError_t td_cuda_sumprod(const struct td_cuda_sumprod_args *args, cudaStream_t stream);

/* Copies elements between two layouts; every loop has a stride in C. If `tiled`, the last two loops
 * are a matrix to transpose: loop n - 2 has stride 1 in A, loop n - 1 stride 1 in C. */
struct td_cuda_permute_args {
    const void *a;
    void *c;
    int element_bytes; /* 1, 2, 4, 8, 16 */
    bool tiled;
    int64_t n; /* elements */
    int n_loops;
    struct td_cuda_loop loops[TD_CUDA_MAX_LOOPS];
};
cudaError_t td_cuda_permute(const struct td_cuda_permute_args *args, cudaStream_t stream);

/* C[z, i, j] = sum over k of A[z, i, k] * B[z, k, j]; z is the product of n_loops loops. */
struct td_cuda_gemm_args {
    const void *a, *b;
    void *c;
    enum td_cuda_compute compute;
    enum td_cuda_storage storage[3];
    int64_t m, n, k;
    int64_t a_m, a_k, b_k, b_n, c_m, c_n; /* strides */
    int64_t batch;                        /* product of the loops' extents */
    int n_loops;
    struct td_cuda_loop loops[TD_CUDA_MAX_LOOPS];
};
cudaError_t td_cuda_gemm(const struct td_cuda_gemm_args *args, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
