/* shape.h - dimensions of a tensor, and products of sizes with overflow checks.
 *
 * Shapes   0 <= rank <= TD_MAX_RANK; every dimension >= 0; rank 0 is a scalar of one element.
 * Errors   td_shape_product and td_size_mul return false on overflow and leave *out unchanged.
 * Threads  Plain values. */
#ifndef TD_KERNELS_SHAPE_H
#define TD_KERNELS_SHAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The limit is 8 for most of these ops in TensorFlow, 32 or 64 in NumPy. A higher rank is
 * RESOURCE_LIMIT. */
#define TD_MAX_RANK 16

struct td_shape {
    int rank;
    int64_t dim[TD_MAX_RANK];
};

/* Product of dims [begin, end) of shape; 1 when the range is empty. False when it exceeds
 * INT64_MAX. With a dimension of 0 in the range the product is 0, however large the others are. */
bool td_shape_product(const struct td_shape *shape, int begin, int end, int64_t *out);

/* Number of elements: the product of all dimensions. False on overflow. */
bool td_shape_numel(const struct td_shape *shape, int64_t *out);

bool td_shape_equal(const struct td_shape *a, const struct td_shape *b);

/* Are the leading dimensions of shape equal to those of start? */
bool td_shape_starts_with(const struct td_shape *shape, const struct td_shape *start);

/* Appends dims [begin, end) of `from` to `to`. False when the rank would exceed TD_MAX_RANK. */
bool td_shape_append(struct td_shape *to, const struct td_shape *from, int begin, int end);

/* *out = axis, or axis + rank when axis is negative. False when axis is outside [-rank, rank). */
bool td_axis_normalize(int64_t axis, int rank, int *out);

/* Row-major linear position -> one coordinate per dimension. No dimension may be 0. */
void td_shape_unravel(const struct td_shape *shape, int64_t linear, int64_t *position);

/* Writes "[2,3]" ("[]" for a scalar), truncated to size; returns text. 16 dimensions of 19 digits
 * need 337 bytes. */
#define TD_SHAPE_TEXT 352
const char *td_shape_text(const struct td_shape *shape, char *text, size_t size);

/* *out = a * b; false on overflow. */
bool td_size_mul(size_t a, size_t b, size_t *out);
bool td_size_add(size_t a, size_t b, size_t *out);

#endif
