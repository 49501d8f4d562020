/* rows.h - checks and resolves indices and copies rows, for all ops that move rows.
 *
 * A table is n_rows contiguous rows of row_bytes bytes. To gather, indices are checked, then
 * resolved a chunk at a time to row numbers (bounds.h replaces an index out of range), and the rows
 * are copied by a loop that is built for each row width and never reads values. An index may be a
 * tuple with a component for each of several dimensions of the table. To scatter and to distribute
 * rows, checked indices are used without resolving them first.
 *
 * Bounds   td_rows_check reads all indices before anything is written. Afterwards, with policy
 *          error, the resolve functions assume that all indices are in range.
 * Threads  Reentrant.
 * Cost     One pass over the indices, one read of each row (in a large table a cache miss, hidden
 *          by prefetching), one write of the output. */
#ifndef TD_KERNELS_ROWS_H
#define TD_KERNELS_ROWS_H

#include "kernels/exec.h"
#include "kernels/op_rows.h"
#include "kernels/rows/bounds.h"
#include "kernels/tensor.h"

#define TD_ROWS_CHUNK 1024 /* row numbers resolved at a time: 8 KiB of stack, within L1 */

/* Bytes of rows in one range of parallel_for: about 10 us of copying or more, and a few ranges for
 * every thread when the output is large enough for a second thread to pay. */
#define TD_ROWS_RANGE_BYTES ((size_t)128 * 1024)

/* Rows in such a range, 1 or more. A row counts as at least TD_ROWS_NARROW bytes: the cost of a
 * narrow row is the access, not the copy. */
#define TD_ROWS_NARROW 16
int64_t td_rows_in_range(size_t row_bytes);

/* Rows larger than a range are copied in parts of TD_ROWS_RANGE_BYTES, the last part shorter:
 * td_rows_parts is their number. With from NULL the part is set to zero. */
int64_t td_rows_parts(size_t row_bytes);
void td_rows_copy_part(void *to, const void *from, size_t row_bytes, int64_t part);

/* *n_bad = the number of indices outside [0, bound); *first = the position of the first, or -1. */
TD_MUST_CHECK td_status td_rows_check(const struct td_tensor *indices, int64_t bound,
                                      struct td_exec *exec, int64_t *n_bad, int64_t *first,
                                      struct td_error *err);

/* Are the indices [begin, end) in [0, bound)? */
bool td_rows_in_bounds(const struct td_tensor *indices, int64_t begin, int64_t end, int64_t bound);

/* rows[k] = td_row_resolve_index(indices[begin + k]) for k in [0, n); with policy error the indices
 * are in range and are only widened. bound > 0 unless the policy is error or zero. */
void td_rows_resolve_indices(const struct td_tensor *indices, int64_t begin, int64_t n,
                             int64_t bound, td_bounds policy, int64_t *rows);

/* flags[indices[begin + k]] = 1 for k in [0, n); the indices are in range. */
void td_rows_mark(const struct td_tensor *indices, int64_t begin, int64_t n, uint8_t *flags);

/* Adds 1 to counts[indices[begin + k]] for k in [0, n); the indices are in [0, bound). */
void td_rows_count(const struct td_tensor *indices, int64_t begin, int64_t n, int64_t bound,
                   int64_t *counts);

/* As td_rows_check, for the components of tuples: *n_bad counts components, *first is a position in
 * the flattened index tensor. */
TD_MUST_CHECK td_status td_rows_check_tuples(const struct td_tensor *indices,
                                             const struct td_tuple_space *space,
                                             struct td_exec *exec, int64_t *n_bad, int64_t *first,
                                             struct td_error *err);

/* As td_rows_resolve_indices, for the tuples [begin, begin + n). Under the policy zero a tuple with
 * a component out of range gives TD_ROW_ZERO. */
void td_rows_resolve_tuples(const struct td_tensor *indices, int64_t begin, int64_t n,
                            const struct td_tuple_space *space, td_bounds policy, int64_t *rows);

/* The largest index, or -1 when there is none; *negative: is any index below 0? */
int64_t td_rows_largest(const struct td_tensor *indices, bool *negative);

/* out[k] = table[rows[k]] for k in [0, n), rows of row_bytes each; zeros for TD_ROW_ZERO. */
void td_rows_copy(void *out, const struct td_tensor *table, size_t row_bytes, const int64_t *rows,
                  int64_t n, bool may_be_zero);

/* Should `bytes` of output, in rows of row_bytes, be written with streaming (non-temporal)
 * stores? */
bool td_rows_should_stream(size_t bytes, size_t row_bytes);

/* out[indices[begin + k]] = from[k] for k in [0, n), in this order; the indices are in range.
 * stream: a result of td_rows_should_stream. When it is false and marks is not NULL, also sets
 * marks[indices[begin + k]] to 1, as td_rows_mark. */
void td_rows_scatter(void *out, const struct td_tensor *indices, int64_t begin, int64_t n,
                     const void *from, size_t row_bytes, bool stream, uint8_t *marks);

/* out[rows[k]] = from[k] for each k in picked[0], ..., picked[n - 1]. */
void td_rows_scatter_picked(void *out, const int64_t *rows, const void *from, size_t row_bytes,
                            const uint16_t *picked, int64_t n, bool stream);

/* Sets out[rows[k]] to zero for k in [0, n). */
void td_rows_zero(void *out, const int64_t *rows, size_t row_bytes, int64_t n, bool stream);

/* Distributes rows to buckets: for k in [0, n), in this order, appends from[k] to the bucket with
 * the number buckets[begin + k]: copies it to next[number] and advances that pointer by a row. The
 * numbers are in range. */
void td_rows_distribute(char **next, const struct td_tensor *buckets, int64_t begin, int64_t n,
                        const void *from, size_t row_bytes, bool stream);

#endif
