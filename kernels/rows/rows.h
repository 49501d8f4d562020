/* rows.h - checks and resolves indices and copies rows, for all ops that move rows.
 *
 * A table is n_rows contiguous rows of row_bytes bytes. A gather checks the indices and then
 * resolves them, a chunk at a time, to row numbers (bounds.h replaces indices out of range). The
 * loop that copies the rows is built for each row width and does not interpret their values. An
 * index can be a tuple with one component for each of several dimensions of the table. Scattering
 * and distributing use checked indices without resolving them first.
 *
 * Bounds     td_rows_check reads all indices before anything is written. With policy error, the
 *            resolve functions then assume that all indices are in range.
 * Threads    Reentrant.
 * Cost       One pass over the indices, one read of each row and one write of the output. In a
 *            large table, each read is a cache miss, which prefetching hides. */
#ifndef TD_KERNELS_ROWS_H
#define TD_KERNELS_ROWS_H

#include "kernels/exec.h"
#include "kernels/op_rows.h"
#include "kernels/rows/bounds.h"
#include "kernels/tensor.h"

/* Number of row numbers resolved at a time. They take 8 KiB of stack, which fits in the L1
 * cache. */
#define TD_ROWS_CHUNK 1024

/* Number of bytes of rows in one range of parallel_for. Copying a range takes at least about 10 us.
 * If the output is large enough for a second thread to be worthwhile, every thread gets a few
 * ranges. */
#define TD_ROWS_RANGE_BYTES ((size_t)128 * 1024)

/* Returns the number of rows in such a range, at least 1. A row counts as at least TD_ROWS_NARROW
 * bytes, because the cost of a narrow row is the access, not the copy. */
#define TD_ROWS_NARROW 16
int64_t td_rows_in_range(size_t row_bytes);

/* Copies part `part` of a row that is larger than a range, or sets it to zero if `from` is NULL.
 * Each part has TD_ROWS_RANGE_BYTES bytes, except that the last can be shorter. td_rows_parts
 * returns the number of parts. */
int64_t td_rows_parts(size_t row_bytes);
void td_rows_copy_part(void *to, const void *from, size_t row_bytes, int64_t part);

/* Sets *n_bad to the number of indices outside [0, bound). Sets *first to the position of the first
 * such index, or to -1. */
TD_MUST_CHECK td_status td_rows_check(const struct td_tensor *indices, int64_t bound,
                                      struct td_exec *exec, int64_t *n_bad, int64_t *first,
                                      struct td_error *err);

/* Like td_rows_check, but accepts negative indices: checks that all indices are below bound. */
TD_MUST_CHECK td_status td_rows_check_below(const struct td_tensor *indices, int64_t bound,
                                            struct td_exec *exec, int64_t *n_bad, int64_t *first,
                                            struct td_error *err);

/* True if the indices [begin, end) are below bound. Sets *negative to true if any is negative, and
 * otherwise to false. */
bool td_rows_all_below(const struct td_tensor *indices, int64_t begin, int64_t end, int64_t bound,
                       bool *negative);

/* True if the indices [begin, end) are in [0, bound). */
bool td_rows_in_bounds(const struct td_tensor *indices, int64_t begin, int64_t end, int64_t bound);

/* Sets rows[k] = td_row_resolve_index(indices[begin + k]) for k in [0, n). With policy error, only
 * widens the indices, which must be in range. bound must be above 0 unless the policy is error or
 * zero. */
void td_rows_resolve_indices(const struct td_tensor *indices, int64_t begin, int64_t n,
                             int64_t bound, td_bounds policy, int64_t *rows);

/* Sets flags[indices[begin + k]] = 1 for k in [0, n). The indices must be in range. */
void td_rows_mark(const struct td_tensor *indices, int64_t begin, int64_t n, uint8_t *flags);

/* Adds 1 to counts[indices[begin + k]] for k in [0, n). The indices must be in [0, bound). */
void td_rows_count(const struct td_tensor *indices, int64_t begin, int64_t n, int64_t bound,
                   int64_t *counts);

/* Checks the components of tuples like td_rows_check. *n_bad counts components, and *first is a
 * position in the flattened index tensor. */
TD_MUST_CHECK td_status td_rows_check_tuples(const struct td_tensor *indices,
                                             const struct td_tuple_space *space,
                                             struct td_exec *exec, int64_t *n_bad, int64_t *first,
                                             struct td_error *err);

/* Resolves the tuples [begin, begin + n) like td_rows_resolve_indices. With policy zero, a tuple
 * with a component out of range gives TD_ROW_ZERO. */
void td_rows_resolve_tuples(const struct td_tensor *indices, int64_t begin, int64_t n,
                            const struct td_tuple_space *space, td_bounds policy, int64_t *rows);

/* Returns the largest index, or -1 if there are no indices. Sets *negative to true if any index is
 * below 0. */
int64_t td_rows_largest(const struct td_tensor *indices, bool *negative);

/* Copies rows of row_bytes each: out[k] = table[rows[k]] for k in [0, n), or zeros for
 * TD_ROW_ZERO. */
void td_rows_copy(void *out, const struct td_tensor *table, size_t row_bytes, const int64_t *rows,
                  int64_t n, bool may_be_zero);

/* True if an output of `bytes` bytes, in rows of row_bytes bytes, should be written with streaming
 * (non-temporal) stores. */
bool td_rows_should_stream(size_t bytes, size_t row_bytes);

/* Sets out[indices[begin + k]] = from[k] for k in [0, n), in this order. The indices must be in
 * range. `stream` is a result of td_rows_should_stream. If `stream` is false and marks is not NULL,
 * also sets marks[indices[begin + k]] to 1, like td_rows_mark. */
void td_rows_scatter(void *out, const struct td_tensor *indices, int64_t begin, int64_t n,
                     const void *from, size_t row_bytes, bool stream, uint8_t *marks);

/* Sets out[rows[k]] = from[k] for each k in picked[0], ..., picked[n - 1]. */
void td_rows_scatter_picked(void *out, const int64_t *rows, const void *from, size_t row_bytes,
                            const uint16_t *picked, int64_t n, bool stream);

/* Copies n rows between two layouts: row k is at to + k * to_stride and from + k * from_stride. The
 * strides are in bytes and can be negative. */
void td_rows_copy_strided(void *to, int64_t to_stride, const void *from, int64_t from_stride,
                          size_t row_bytes, int64_t n, bool stream);

/* Copies bytes like memcpy, with streaming stores. After the last copy, td_rows_end_stream orders
 * these stores before later ones. It waits until they have left the processor, so it is called once
 * for many copies. */
void td_rows_stream(void *to, const void *from, size_t bytes);
void td_rows_end_stream(void);

/* Sets out[rows[k]] to zero for k in [0, n). */
void td_rows_zero(void *out, const int64_t *rows, size_t row_bytes, int64_t n, bool stream);

/* Parts into which the rows of an output are divided, so that only one thread writes each row, in
 * any order of row numbers. A part consists of blocks of consecutive rows. Multiplication by the
 * golden ratio spreads consecutive blocks evenly over the parts, and frequently used blocks
 * pseudo-randomly. */
struct td_row_parts {
    int64_t first, count; /* only the rows [first, first + count) belong to a part */
    int64_t n_parts;
    int shift; /* a block has 2^shift rows */
};

/* Initialises parts. Blocks have at least block_bytes bytes, which should be at least a cache
 * line. */
void td_row_parts_init(struct td_row_parts *parts, int64_t first, int64_t count, size_t row_bytes,
                       size_t block_bytes, int64_t n_parts);

/* Finds the rows in rows[0 .. n) that belong to part `part`, where n <= TD_ROWS_CHUNK. Writes their
 * positions to `picked`, which has room for n, and returns their number. */
int64_t td_rows_pick(const int64_t *rows, int64_t n, const struct td_row_parts *parts, int64_t part,
                     uint16_t *picked);

/* Distributes rows to buckets. For k in [0, n), in this order, copies from[k] to next[number],
 * where number is buckets[begin + k], and advances next[number] by a row. The numbers must be in
 * range. */
void td_rows_distribute(char **next, const struct td_tensor *buckets, int64_t begin, int64_t n,
                        const void *from, size_t row_bytes, bool stream);

#endif
