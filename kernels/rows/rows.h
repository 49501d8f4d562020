/* rows.h - settle indices, then copy rows: what every op that moves rows comes down to.
 *
 * A table is n_rows rows of row_bytes bytes, one after the other. To pick rows, indices are settled
 * (checked against a bound, or replaced by policy) into row numbers, a chunk at a time, and the
 * rows are copied by a loop built per row width, which never looks at values. An index may be a
 * tuple of components, one per dimension of the table. To scatter and to deal rows out, indices
 * that were checked are read where they are.
 *
 * Bounds   td_rows_check sees all indices before anything is written; td_rows_settle then trusts
 *          it.
 * Threads  Reentrant.
 * Cost     One pass over the indices, one read per row (a cache miss each in a large table, hidden
 *          by prefetching), one write of the output. */
#ifndef TD_KERNELS_ROWS_H
#define TD_KERNELS_ROWS_H

#include "kernels/exec.h"
#include "kernels/op.h"
#include "kernels/tensor.h"

#define TD_ROW_ZERO   (-1) /* a row number that asks for zeros */
#define TD_ROWS_CHUNK 1024 /* row numbers settled at a time: 8 KiB of stack, inside L1 */

/* Bytes of rows in one range of parallel_for: some 10 us of copying at the least, a few ranges for
 * every thread in outputs where a second thread pays. */
#define TD_ROWS_RANGE_BYTES ((size_t)128 * 1024)

/* Rows in such a range, 1 or more. A row counts as TD_ROWS_NARROW bytes at the least: what a narrow
 * one costs is the way to it. */
#define TD_ROWS_NARROW 16
int64_t td_rows_in_range(size_t row_bytes);

/* Rows larger than a range are copied in parts of that size. from NULL gives zeros. */
int64_t td_rows_parts(size_t row_bytes);
void td_rows_copy_part(void *to, const void *from, size_t row_bytes, int64_t part);

/* How many of index[0..n) are outside [0, bound)? *first is the position of the first, or -1. */
TD_MUST_CHECK td_status td_rows_check(const struct td_tensor *indices, int64_t bound,
                                      struct td_exec *exec, int64_t *n_bad, int64_t *first,
                                      struct td_error *err);

/* rows[k] = indices[begin + k], after the policy, for k in [0, n). bound > 0 unless the policy is
 * error or zero. */
void td_rows_settle(const struct td_tensor *indices, int64_t begin, int64_t n, int64_t bound,
                    td_bounds policy, int64_t *rows);

/* flags[index[begin + k]] = 1 for k in [0, n); the indices are known to be good. */
void td_rows_mark(const struct td_tensor *indices, int64_t begin, int64_t n, uint8_t *flags);

/* Adds 1 to counts[index[begin + k]] for k in [0, n); the indices are known to be in [0, bound). */
void td_rows_count(const struct td_tensor *indices, int64_t begin, int64_t n, int64_t bound,
                   int64_t *counts);

/* One index under the policy: a row number or TD_ROW_ZERO. */
int64_t td_row_settle_one(int64_t index, int64_t bound, td_bounds policy);

/* The dimensions that a tuple of `depth` components indexes. A tuple's row number is the sum of
 * its components times the strides. Depth 0 is allowed: then there is one row, number 0. */
struct td_tuple_space {
    int depth;
    int64_t bound[TD_MAX_RANK];
    int64_t stride[TD_MAX_RANK];
};

/* As td_rows_check, over the components of tuples: *n_bad counts components, *first is the position
 * of one in the flat index tensor. */
TD_MUST_CHECK td_status td_rows_check_tuples(const struct td_tensor *indices,
                                             const struct td_tuple_space *space,
                                             struct td_exec *exec, int64_t *n_bad, int64_t *first,
                                             struct td_error *err);

/* As td_rows_settle, for tuples begin .. begin + n. The zero policy makes a tuple with a bad
 * component TD_ROW_ZERO as a whole. */
void td_rows_settle_tuples(const struct td_tensor *indices, int64_t begin, int64_t n,
                           const struct td_tuple_space *space, td_bounds policy, int64_t *rows);

/* Reports element `first` of the index tensor `name`, as found by a check, as INDEX_OUT_OF_BOUNDS.
 * The sentence, "indices[0,1] = 7 is not in [0, 3)", ends with `more`. */
td_status td_rows_out_of_bounds(struct td_error *err, const char *name,
                                const struct td_tensor *indices, int64_t first, int64_t n_bad,
                                int64_t bound, int axis, const char *more);

/* The same of an index that is negative where only that is wrong: there is no bound. */
td_status td_rows_negative(struct td_error *err, const char *name, const struct td_tensor *indices,
                           int64_t first, int64_t n_bad);

/* Largest of all indices, or -1; *negative: is any below 0? */
int64_t td_rows_largest(const struct td_tensor *indices, bool *negative);

/* out[k] = table[rows[k]] for k in [0, n), rows of row_bytes each; zeros for TD_ROW_ZERO. */
void td_rows_copy(void *out, const void *table, size_t row_bytes, const int64_t *rows, int64_t n,
                  bool may_be_zero);

/* Is a copy of so many bytes, in rows of row_bytes, better written past the cache? */
bool td_rows_stream(size_t bytes, size_t row_bytes);

/* out[index[begin + k]] = from[k] for k in [0, n), in this order; the indices are known to be good.
 * `stream` as td_rows_stream tells; without it `marks`, if there are any, become 1 where a row
 * goes, as by td_rows_mark. */
void td_rows_scatter(void *out, const struct td_tensor *indices, int64_t begin, int64_t n,
                     const void *from, size_t row_bytes, bool stream, uint8_t *marks);

/* out[rows[k]] = from[k] for k = picked[0] .. picked[n - 1]. */
void td_rows_scatter_picked(void *out, const int64_t *rows, const void *from, size_t row_bytes,
                            const uint16_t *picked, int64_t n, bool stream);

/* Zeros for out[rows[k]], k in [0, n). */
void td_rows_zero(void *out, const int64_t *rows, size_t row_bytes, int64_t n, bool stream);

/* Deals rows to piles: *next[pile[begin + k]] = from[k] for k in [0, n), in this order, and next
 * moves on by a row each time. The numbers of the piles are known to be good. */
void td_rows_deal(char **next, const struct td_tensor *piles, int64_t begin, int64_t n,
                  const void *from, size_t row_bytes, bool stream);

#endif
