/* kernels.h - the C interface of the CUDA kernels: for each kernel, a struct of arguments that is
 * passed by value, and a function that launches the kernel on a stream.
 *
 * Both C and CUDA include this file, so it includes nothing from kernels/ at the top of the source
 * tree, except the list kernels/elementwise/elementwise.def. Static assertions in plugin.c and ops/
 * check numbers that must equal the numbers in kernels/, such as bounds policies and compute types.
 *
 * Bounds   A client can write to the memory of indices after the host has checked them. Every
 *          kernel therefore checks an index again before using it to read or write.
 * Errors   A launch function returns errors of the launch, not of the kernel's execution. */
#ifndef TD_GPU_CUDA_KERNELS_KERNELS_H
#define TD_GPU_CUDA_KERNELS_KERNELS_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Maximum size in bytes of kernel parameters that every device and CUDA version supports. plugin.c
 * checks the structs against it. Devices of compute capability 7.0 or higher with CUDA 12.1 or
 * newer accept 32,764 bytes. */
#define TD_CUDA_PARAMETER_BYTES 4096

/* Load the kernels of a file at startup. Without them, CUDA would load each kernel at its first
 * launch, and loading can wait for all work on the device ("Lazy Loading" in the CUDA Programming
 * Guide). */
cudaError_t td_cuda_bags_load(void);
cudaError_t td_cuda_elementwise_load(void);
cudaError_t td_cuda_find_load(void);
cudaError_t td_cuda_gather_load(void);
cudaError_t td_cuda_gemm_load(void);
cudaError_t td_cuda_normalise_load(void);
cudaError_t td_cuda_one_hot_load(void);
cudaError_t td_cuda_partition_load(void); /* except the kernels of the sort */
cudaError_t td_cuda_permute_load(void);
cudaError_t td_cuda_reduce_load(void);
cudaError_t td_cuda_scan_load(void);
cudaError_t td_cuda_search_best_load(void);
cudaError_t td_cuda_search_scores_load(void);
cudaError_t td_cuda_segments_load(void);
cudaError_t td_cuda_stitch_load(void);
cudaError_t td_cuda_sumprod_load(void);
cudaError_t td_cuda_top_k_load(void);

/* ---- Reports of bad indices ------------------------------------------------------------------ */

/* Maximum number of items whose ends are passed by value, which takes 2 KiB of a kernel's
 * parameters. Equals the default maximum number of calls in a batch (--batch-limit). */
#define TD_CUDA_INLINE_ITEMS    256
#define TD_CUDA_STREAM_COUNTERS 4096

/* Counts of the bad indices of one item, in device memory. The counts are zero between launches. */
struct td_cuda_counter {
    /* INT64_MAX - position of the first bad index, or 0 if there is none. */
    unsigned long long first;
    unsigned long long n_bad;
};

/* Has the same layout as struct td_device_report. */
struct td_cuda_report {
    int64_t first_bad, n_bad;
};

/* Where a kernel reports the bad indices of each item. */
struct td_cuda_reporting {
    int n_items;
    /* Ends of the items, used if there are at most TD_CUDA_INLINE_ITEMS items. */
    int64_t inline_end[TD_CUDA_INLINE_ITEMS];
    /* Ends of the items in device memory. NULL if the ends are in inline_end. */
    const int64_t *item_end;
    struct td_cuda_counter *counters; /* n_items counters */
    unsigned int *blocks_done;        /* 0 between launches */
    /* Pinned host memory for the reports, or NULL if the caller wants no reports. */
    struct td_cuda_report *reports;
};

/* ---- Rows -------------------------------------------------------------------------------- */

/* How rows are copied. A group of 1 to 32 neighbouring threads copies a row in vectors of 1, 2, 4,
 * 8 or 16 bytes. Long rows are divided into chunks, and each chunk has its own group. */
struct td_cuda_row_copy {
    int vector_bytes;
    int group_log2;  /* log2 of the number of threads in a group */
    int64_t vectors; /* vectors per row; 0 if nothing is copied */
    int64_t chunks;  /* chunks per row; at least 1 */
    /* Vectors per chunk, at most a few thousand. The last chunk can have fewer. */
    int64_t chunk_vectors;
};

/* Chooses how rows are copied. `addresses` is the bitwise OR of the addresses of all rows that are
 * read or written, whose alignment limits the width of the vectors. */
struct td_cuda_row_copy td_cuda_row_copy_make(size_t row_bytes, uintptr_t addresses);

#define TD_CUDA_MAX_DEPTH 16 /* TD_MAX_RANK */

/* Arguments of gather. Output row r belongs to slice r / slice_outputs. The params rows of a slice
 * start at row slice * slice_rows. The index of a row is a tuple of `depth` components (1 for
 * gather). Groups of `repeat` consecutive slices use the same indices. */
struct td_cuda_gather_args {
    char *out;
    const char *params;
    /* Row to copy instead of zeros, or NULL for zeros. */
    const char *default_row;
    /* Distance in bytes between the defaults of consecutive output rows, or 0 if all rows share a
     * default. */
    int64_t default_bytes;
    struct td_cuda_row_copy copy;
    int64_t n_rows; /* number of output rows */
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
    /* Number of the input's first row. Rows are numbered across all inputs. */
    int64_t first_row;
    int64_t index_bytes;
};

struct td_cuda_stitch_args {
    char *out;
    struct td_cuda_row_copy copy;
    int64_t n_in, n_out; /* rows */
    int n_inputs;
    const struct td_cuda_stitch_input *inputs; /* device memory */
    /* For each of n_out output rows, 1 + the number of the input row to copy, or 0 if there is
     * none. */
    uint32_t *source;
};
/* Exclusive upper bound of the numbers of input rows. */
#define TD_CUDA_MAX_ROWS (INT64_C(0x7fffffff))
cudaError_t td_cuda_stitch(const struct td_cuda_stitch_args *args, cudaStream_t stream);

/* An output of a partition. */
struct td_cuda_bucket {
    char *out;
    int64_t begin; /* number of rows in the previous buckets */
};

struct td_cuda_partition_args {
    const char *data;
    struct td_cuda_row_copy copy;
    int64_t n_rows; /* at most TD_CUDA_MAX_ROWS */
    const void *partitions;
    int index_bytes;
    int n_buckets; /* below 65535 */
    /* Device memory for n_buckets entries and an end marker. */
    const struct td_cuda_bucket *buckets;
    /* For each of n_rows rows, its bucket: unsorted in keys[0], sorted in keys[1]. */
    uint16_t *keys[2];
    /* For each of n_rows rows, its number: unsorted in rows[0], sorted in rows[1]. */
    uint32_t *rows[2];
    void *sort_workspace;
    size_t sort_bytes;
};
cudaError_t td_cuda_partition_sort_bytes(int64_t n_rows, int n_buckets, size_t *bytes);
cudaError_t td_cuda_partition(const struct td_cuda_partition_args *args, cudaStream_t stream);

/* ---- Keys ------------------------------------------------------------------------------------ */

/* Arguments of find, which finds the rows of keys of 8 bytes (kernels/key_index/key_index.h). */
struct td_cuda_find_args {
    /* For each of n_queries queries, the row of the key, or -1 if no row has the key. */
    int64_t *rows;
    /* For each of n_queries queries, true if a row has the key. NULL if the caller does not need
     * these values. */
    bool *found;
    const uint64_t *queries, *keys;
    int64_t n_queries, n_keys;
    const unsigned char *blocks; /* blocks of the index, aligned to 16 bytes */
    uint64_t n_blocks, seed, longest;
    bool wide;
    /* A row of row_bytes bytes that the kernel fills with copies of `scalar`, or NULL if there is
     * no row to fill. */
    char *row;
    const char *scalar;
    int64_t row_bytes, scalar_bytes;
    struct td_cuda_reporting reporting; /* reports the queries for which no row was found */
};
cudaError_t td_cuda_find(const struct td_cuda_find_args *args, cudaStream_t stream);

/* ---- Rows of numbers ----------------------------------------------------------------------- */

/* Type of a real number in memory. */
enum td_cuda_number {
    TD_CUDA_FLOAT16,
    TD_CUDA_BFLOAT16,
    TD_CUDA_FLOAT32,
    TD_CUDA_FLOAT64,
    TD_CUDA_INT8,
    TD_CUDA_UINT8,
    /* Only zero points can be int32 or int64. */
    TD_CUDA_INT32,
    TD_CUDA_INT64
};

/* Scales of int8 and uint8 rows (kernels/quantized.h). A step is 1 if each row has its own value,
 * and 0 if all rows share one value. */
struct td_cuda_scaling {
    /* NULL if each row has its scale and offset after its columns. */
    const float *scale;
    int scale_step;
    const float *offset; /* NULL if zero_point is used */
    int offset_step;
    const void *zero_point;              /* NULL if zero points are 0 */
    enum td_cuda_number zero_point_type; /* int8, uint8, int32 or int64 */
    int zero_point_step;
};

/* ---- Bags of rows -------------------------------------------------------------------------- */

/* Maximum number of indices of a bag that is summed as a whole. Longer bags are summed in parts of
 * this length. */
#define TD_CUDA_BAG_PART 256

struct td_cuda_bags_args {
    void *out;          /* output rows, [n_bags, columns] */
    const void *params; /* params rows, [n_rows, columns] */
    enum td_cuda_number params_type, out_type, weights_type;
    /* Number of elements in a vector, which has 16 bytes, 4 bytes or one element. `columns` is a
     * multiple of this number. */
    int vector_elements;
    /* log2 of the number of threads in a group. Each thread computes one vector. */
    int group_log2;
    int64_t chunks; /* number of chunks per row, one for each group; at least 1 */
    int64_t n_bags, n_indices, n_rows, columns;
    int64_t row_bytes; /* distance in bytes between consecutive rows of params */
    int64_t n_parts;   /* n_bags + n_indices / TD_CUDA_BAG_PART */
    const void *indices;
    int index_bytes;
    int bounds;      /* td_bounds */
    int mode;        /* sum, mean, sqrtn, max */
    int64_t padding; /* index that is skipped; negative if none */
    /* For each of n_bags bags, the position of its first index. */
    const void *begins;
    int begin_bytes;
    int64_t bag_indices; /* indices per bag if `begins` is NULL */
    /* For each of n_indices indices, its bag, in non-decreasing order. NULL if `begins` is used. */
    const void *segment_ids;
    int segment_bytes;
    /* Device memory for `begins` if they are computed from segment_ids. */
    int64_t *found_begins;
    const void *weights;            /* n_indices weights; NULL if all are 1 */
    struct td_cuda_scaling scaling; /* of int8 and uint8 rows */
    /* Workspace for the sums of parts, which are float64 if params are float64 and otherwise
     * float32. Each run of TD_CUDA_BAG_PART indices has 2 rows, and the last run can be shorter.
     * NULL if there are too few indices for any bag to be split. */
    void *part_sums;
    double *part_weights;
    struct td_cuda_reporting reporting;
};
cudaError_t td_cuda_bags(const struct td_cuda_bags_args *args, cudaStream_t stream);

/* ---- Search -------------------------------------------------------------------------------- */

/* How a row is scored. The numbers are those of td_search_metric. */
enum { TD_CUDA_SEARCH_DOT, TD_CUDA_SEARCH_COSINE, TD_CUDA_SEARCH_L2 };

/* A scored row. The larger `order` is better. Of equal ones, the lower row is better. */
struct td_cuda_scored {
    uint64_t order; /* the score, as an integer in the same order; 0: no row */
    int64_t row;
};

/* Maximum k for which the best rows are selected in shared memory. */
#define TD_CUDA_SEARCH_SHARED_K 1024
/* Number of entries that a block sorts in shared memory. */
#define TD_CUDA_SEARCH_TILE     2048

/* Arguments of the kernels of search. The call's queries are computed in groups, and a group is
 * scored against blocks of rows. A is float, or double if is_double. */
struct td_cuda_search_args {
    const void *params; /* table, [n_rows, columns] */
    enum td_cuda_number params_type;
    struct td_cuda_scaling scaling; /* of int8 and uint8 params */
    int64_t n_rows, columns;
    int64_t row_bytes; /* distance in bytes between consecutive rows of params */
    const void *given; /* queries, [all_queries, columns]; NULL: rows of params are the queries */
    enum td_cuda_number given_type;
    const void *rows; /* row numbers of all_queries queries; NULL if the queries are given */
    int rows_bytes;
    bool exclude_self;      /* true if a query does not find its own row */
    const void *candidates; /* the only rows to score; NULL: all rows */
    int candidates_bytes;
    int64_t n_scored;    /* number of candidates, or n_rows */
    const void *exclude; /* row numbers that are never found */
    int exclude_bytes;
    int64_t n_exclude;
    int metric;
    bool is_double;
    int64_t all_queries;
    int64_t k; /* number of rows to find for each query; at least 1 */

    /* A bit for each row of the table that is excluded, or is a candidate already. NULL if nothing
     * is excluded and there are no candidates. */
    unsigned int *marked;
    /* For each candidate, its row, or -1 if the candidate is not scored. NULL: all rows. */
    int32_t *numbers;
    void *queries;     /* A: converted queries, [all_queries, columns] */
    void *query_roots; /* A: norms of the queries, for cosine; otherwise NULL */
    /* The queries without conversion, for cuBLAS, in elements of 2 bytes. NULL if not needed. */
    uint16_t *factors;

    int64_t first_query, n_queries; /* the group */
    int64_t first, n;               /* the block: positions among the n_scored rows */
    /* A: scores of the group and the block, [n_queries, score_pitch]. Larger is better. */
    void *scores;
    int64_t score_pitch;
    /* The best rows so far, [n_queries, best_pitch], the best first. If k is at most
     * TD_CUDA_SEARCH_SHARED_K, best_pitch is k. Otherwise, it is a power of two: the second half
     * receives the rows of a block, and then the whole is sorted. */
    struct td_cuda_scored *best;
    int64_t best_pitch;
    /* The rest is for k of at most TD_CUDA_SEARCH_SHARED_K. A block of rows is split into strips,
     * each with its own selection. `found` has the results of all strips, [n_queries, strips * k],
     * and n_found has their number for each query, which is 0 before a selection. */
    int64_t strip, strips;
    struct td_cuda_scored *found;
    unsigned long long *n_found;

    void *out_scores;     /* A: [all_queries, k] */
    int64_t *out_indices; /* [all_queries, k] */

    /* A step of a sort, set by td_cuda_search_sort. */
    int64_t sort_begin, sort_from, sort_size, sort_stride;
};
/* Fills marked, which must be 0, and numbers, queries, query_roots and factors. */
cudaError_t td_cuda_search_prepare(const struct td_cuda_search_args *args, cudaStream_t stream);
/* Computes the scores of a group and a block. */
cudaError_t td_cuda_search_scores(const struct td_cuda_search_args *args, cudaStream_t stream);
/* Turns products of a group and a block into cosines. */
cudaError_t td_cuda_search_cosines(const struct td_cuda_search_args *args, cudaStream_t stream);
/* Adds the scores of a block to the best rows, for k of at most TD_CUDA_SEARCH_SHARED_K. */
cudaError_t td_cuda_search_select(const struct td_cuda_search_args *args, cudaStream_t stream);
/* Adds the scores of a block to the best rows, for any k. */
cudaError_t td_cuda_search_sort(const struct td_cuda_search_args *args, cudaStream_t stream);
/* Writes the outputs of a group. */
cudaError_t td_cuda_search_write(const struct td_cuda_search_args *args, cudaStream_t stream);

/* ---- Elementwise ops ----------------------------------------------------------------------- */

/* Element types, with the numbers of td_dtype. */
enum td_cuda_element {
    TD_CUDA_ELEMENT_BOOL,
    TD_CUDA_ELEMENT_INT8,
    TD_CUDA_ELEMENT_INT16,
    TD_CUDA_ELEMENT_INT32,
    TD_CUDA_ELEMENT_INT64,
    TD_CUDA_ELEMENT_UINT8,
    TD_CUDA_ELEMENT_UINT16,
    TD_CUDA_ELEMENT_UINT32,
    TD_CUDA_ELEMENT_UINT64,
    TD_CUDA_ELEMENT_FLOAT16,
    TD_CUDA_ELEMENT_BFLOAT16,
    TD_CUDA_ELEMENT_FLOAT32,
    TD_CUDA_ELEMENT_FLOAT64,
    TD_CUDA_ELEMENTS
};

enum td_cuda_elementwise_name {
#define TD_ELEMENTWISE(name, ...) TD_CUDA_ELEMENTWISE_##name,
#include "kernels/elementwise/elementwise.def"
#undef TD_ELEMENTWISE
    TD_CUDA_ELEMENTWISE_gelu_tanh,
    TD_CUDA_ELEMENTWISE_cast,
    TD_CUDA_ELEMENTWISE_COUNT
};

#define TD_CUDA_ELEMENTWISE_INPUTS 16
#define TD_CUDA_ELEMENTWISE_STEPS  48
#define TD_CUDA_ELEMENTWISE_RANK   16

enum td_cuda_repeat {
    TD_CUDA_REPEAT_NEVER,  /* the input has an element for each result */
    TD_CUDA_REPEAT_SCALAR, /* the input has one element */
    TD_CUDA_REPEAT_STRIDED
};

/* Arguments of elementwise, which computes steps one after another for each element. The result of
 * a step is kept in a slot for later steps, and also stored in memory if `to` is not NULL. */
struct td_cuda_elementwise_args {
    struct {
        const void *data;
        unsigned char bytes; /* of an element */
        unsigned char repeat;
    } inputs[TD_CUDA_ELEMENTWISE_INPUTS];
    struct {
        void *to;
        unsigned char name;   /* td_cuda_elementwise_name */
        unsigned char from;   /* element type of the operands; for `where`, of x and y */
        unsigned char result; /* element type */
        unsigned char bytes;  /* of a result */
        unsigned char slot;   /* of the result */
        /* Each is an input, or TD_CUDA_ELEMENTWISE_INPUTS + slot. A missing operand repeats the
         * first operand. */
        unsigned char operands[3];
    } steps[TD_CUDA_ELEMENTWISE_STEPS];
    int n_steps, n_slots;
    int64_t n; /* number of elements */
    int rank;  /* of the shape to which inputs are repeated */
    int64_t extent[TD_CUDA_ELEMENTWISE_RANK];
    /* For each input, its strides in elements, which are 0 where it is repeated. */
    int64_t stride[TD_CUDA_ELEMENTWISE_INPUTS][TD_CUDA_ELEMENTWISE_RANK];
};
cudaError_t td_cuda_elementwise(const struct td_cuda_elementwise_args *args, cudaStream_t stream);

/* ---- Loop nests -------------------------------------------------------------------------- */

#define TD_CUDA_MAX_LOOPS 62 /* TD_MAX_LOOPS */

enum { TD_CUDA_A, TD_CUDA_B, TD_CUDA_C };

struct td_cuda_loop {
    int64_t extent;
    int64_t stride[3]; /* in elements */
};

/* Types in which einsum computes, as in td_compute. */
enum td_cuda_compute {
    TD_CUDA_F32,
    TD_CUDA_F64,
    TD_CUDA_U32,
    TD_CUDA_U64,
    TD_CUDA_C64,
    TD_CUDA_C128,
    TD_CUDA_COMPUTES
};

/* Type of an element in memory. */
enum td_cuda_storage {
    TD_CUDA_AS_COMPUTED,
    TD_CUDA_F16,
    TD_CUDA_BF16,
    TD_CUDA_I8,
    TD_CUDA_U8,
    TD_CUDA_I16,
    TD_CUDA_U16
};

/* Arguments of sumprod, which sums products over any loop nest. Output loops come first, then
 * summed loops. sum_threads threads of a block share one sum, and the other threads compute other
 * outputs. If splits > 1, each sum is split into `splits` partial sums (split-K), which a second
 * kernel adds. */
struct td_cuda_sumprod_args {
    const void *a, *b; /* NULL to sum A alone */
    void *c;
    enum td_cuda_compute compute;
    enum td_cuda_storage storage[3];
    int64_t n_out, n_sum;
    /* Extent of the last summed loop, and the distance in bytes between two consecutive terms of a
     * thread in A and in B. */
    int64_t last_extent, term_stride[2];
    int n_out_loops, n_sum_loops;
    int sum_threads, sum_threads_log2;
    /* True if neighbouring threads read neighbouring terms of a sum, false if they compute
     * neighbouring outputs. */
    bool lanes_along_sum;
    int64_t splits, split_terms;
    /* splits x n_out partial sums in the accumulator type, which is float64 for float32. */
    void *partial_sums;
    struct td_cuda_loop loops[TD_CUDA_MAX_LOOPS];
};
size_t td_cuda_accumulator_bytes(enum td_cuda_compute compute);
cudaError_t td_cuda_sumprod(const struct td_cuda_sumprod_args *args, cudaStream_t stream);

/* Arguments of permute, which copies elements between two layouts. Every loop has a nonzero stride
 * in C. If `tiled` is true, the last two loops are a matrix to transpose: loop n - 2 has stride 1
 * in A, and loop n - 1 has stride 1 in C. */
struct td_cuda_permute_args {
    const void *a;
    void *c;
    int element_bytes; /* 1, 2, 4, 8 or 16 */
    bool tiled;
    int64_t n; /* number of elements */
    int n_loops;
    struct td_cuda_loop loops[TD_CUDA_MAX_LOOPS];
};
cudaError_t td_cuda_permute(const struct td_cuda_permute_args *args, cudaStream_t stream);

/* Arguments of gemm: C[z, i, j] = sum over k of A[z, i, k] * B[z, k, j], where z stands for n_loops
 * loops. */
struct td_cuda_gemm_args {
    const void *a, *b;
    void *c;
    enum td_cuda_compute compute;
    enum td_cuda_storage storage[3];
    int64_t m, n, k;
    int64_t a_m, a_k, b_k, b_n, c_m, c_n; /* strides */
    int64_t batch;                        /* product of the extents of the loops */
    int n_loops;
    struct td_cuda_loop loops[TD_CUDA_MAX_LOOPS];
};
cudaError_t td_cuda_gemm(const struct td_cuda_gemm_args *args, cudaStream_t stream);

/* ---- Reductions ------------------------------------------------------------------------------ */

enum td_cuda_reduction {
    TD_CUDA_REDUCE_SUM,
    TD_CUDA_REDUCE_MEAN, /* of floats */
    TD_CUDA_REDUCE_PROD,
    TD_CUDA_REDUCE_MAX, /* also any */
    TD_CUDA_REDUCE_MIN, /* also all */
    TD_CUDA_REDUCE_ARGMAX,
    TD_CUDA_REDUCE_ARGMIN
};

/* The elements to reduce, and the result. */
struct td_cuda_reduced {
    enum td_cuda_reduction reduction;
    int element, element_bytes; /* td_cuda_element of the input */
    int result, result_bytes;   /* td_cuda_element of the output */
};

/* Size in bytes of the largest type of partial results. */
#define TD_CUDA_PARTIAL_BYTES 16

/* Arguments of reduce. The outputs are numbered through the first n_out_loops loops, and the n
 * elements of each output through the remaining loops. Only strides in A are used. Each output is
 * computed by `threads` threads of a block. If splits > 1, the elements of each output are split
 * into parts, and a second kernel joins the results of the parts. */
struct td_cuda_reduce_args {
    const void *from;
    void *to;
    struct td_cuda_reduced numbers;
    int64_t n_out, n;
    int n_out_loops, n_loops;
    int threads; /* a power of two */
    /* True if neighbouring threads read neighbouring elements of an output, false if they compute
     * neighbouring outputs. */
    bool lanes_along_n;
    int64_t splits, split_n;
    void *partial; /* [splits, n_out] */
    struct td_cuda_loop loops[2 * TD_CUDA_ELEMENTWISE_RANK];
};
cudaError_t td_cuda_reduce(const struct td_cuda_reduce_args *args, cudaStream_t stream);

/* Arguments of segments, which reduces the rows of each segment. Ids are sorted, and segment s has
 * the rows with id s. Each output is computed by `threads` threads of a block. */
struct td_cuda_segments_args {
    const void *data; /* [n, columns] */
    void *out;        /* [n_segments, columns] */
    const void *ids;  /* n ids, in non-decreasing order */
    int id_bytes;
    struct td_cuda_reduced numbers;
    int64_t n, columns, n_segments;
    int threads; /* a power of two */
};
cudaError_t td_cuda_segments(const struct td_cuda_segments_args *args, cudaStream_t stream);

/* ---- Cumulative sums ------------------------------------------------------------------------- */

/* Arguments of scan. x is [n_rows / inner, n, inner], and a row consists of the n elements along
 * the middle dimension. */
struct td_cuda_scan_args {
    const void *x;
    void *out;
    int element, element_bytes; /* td_cuda_element */
    bool exclusive, reverse;
    int64_t n_rows, n, inner;
    bool by_block; /* a block computes a row; otherwise, a thread does */
};
cudaError_t td_cuda_scan(const struct td_cuda_scan_args *args, cudaStream_t stream);

/* ---- One hot --------------------------------------------------------------------------------- */

/* Arguments of one_hot. `one` has the bits of 1 in the dtype of the output. */
struct td_cuda_one_hot_args {
    void *out; /* [n / depth, depth] */
    const void *indices;
    int index_bytes, element_bytes;
    uint64_t one[2];
    int64_t n, depth;
};
cudaError_t td_cuda_one_hot(const struct td_cuda_one_hot_args *args, cudaStream_t stream);

/* ---- top_k ----------------------------------------------------------------------------------- */

/* Arguments of top_k. x is [n_rows / inner, n, inner], and a row consists of the n elements along
 * the middle dimension. Rows are split into strips, and a second launch joins the best k elements
 * of each strip. */
struct td_cuda_top_k_args {
    const void *x;
    void *values;
    int32_t *indices;
    int element, element_bytes; /* td_cuda_element */
    bool largest;
    int64_t n_rows, n, inner;
    int64_t k; /* 1 to TD_CUDA_SEARCH_SHARED_K */
    int64_t strips, strip;
    struct td_cuda_scored *found; /* [n_rows, strips, k]; NULL if strips is 1 */
};
cudaError_t td_cuda_top_k(const struct td_cuda_top_k_args *args, cudaStream_t stream);

/* ---- Normalisation --------------------------------------------------------------------------- */

enum td_cuda_normalisation {
    TD_CUDA_SOFTMAX,
    TD_CUDA_LOG_SOFTMAX,
    TD_CUDA_L2_NORMALIZE,
    TD_CUDA_LAYER_NORM
};

/* Arguments of normalise. x is [n_groups / inner, n, inner], and a group consists of the n elements
 * along the middle dimension. Each group is computed by `threads` threads of a block. */
struct td_cuda_normalise_args {
    const void *x;
    void *out;
    enum td_cuda_normalisation normalisation;
    int element, element_bytes; /* td_cuda_element */
    double epsilon;
    int64_t n_groups, n, inner;
    int threads; /* a power of two */
    /* Scale and bias of layer_norm, repeated to the n elements of a group. Either can be NULL. */
    const void *factors[2];
    int rank; /* of the shape to which they are repeated */
    int64_t extent[TD_CUDA_ELEMENTWISE_RANK];
    int64_t stride[2][TD_CUDA_ELEMENTWISE_RANK];
};
cudaError_t td_cuda_normalise(const struct td_cuda_normalise_args *args, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
