/* shape.h - the dimensions of a tensor, and products of sizes with overflow checks.
 *
 * Shapes     0 <= rank <= TD_MAX_RANK, and every dimension is at least 0. Rank 0 is a scalar, which
 *            has one element.
 * Errors     td_shape_product and td_size_mul return false on overflow and leave *out unchanged.
 * Threads    Pure functions. */
#ifndef TD_KERNELS_SHAPE_H
#define TD_KERNELS_SHAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Maximum rank. The limit is 8 for most of these ops in TensorFlow, and 32 or 64 in NumPy. A higher
 * rank is RESOURCE_LIMIT. */
#define TD_MAX_RANK 16

struct td_shape {
    int rank;
    int64_t dim[TD_MAX_RANK];
};

/* Sets *out to the product of dimensions [begin, end), which is 1 for an empty range. Returns false
 * if the product exceeds INT64_MAX. If any of these dimensions is 0, the product is 0, however
 * large the other dimensions are. */
bool td_shape_product(const struct td_shape *shape, int begin, int end, int64_t *out);

/* Sets *out to the number of elements, which is the product of all dimensions. Returns false on
 * overflow. */
bool td_shape_numel(const struct td_shape *shape, int64_t *out);

bool td_shape_equal(const struct td_shape *a, const struct td_shape *b);

/* True if the leading dimensions of `shape` equal `start`. */
bool td_shape_starts_with(const struct td_shape *shape, const struct td_shape *start);

/* Appends dimensions [begin, end) of `from` to `to`. Returns false if the rank would exceed
 * TD_MAX_RANK. */
bool td_shape_append(struct td_shape *to, const struct td_shape *from, int begin, int end);

/* Sets *out to axis, or to axis + rank if axis is negative. Returns false if axis is outside
 * [-rank, rank). */
bool td_axis_normalize(int64_t axis, int rank, int *out);

/* Converts a linear row-major position to one coordinate per dimension. No dimension may be 0. */
void td_shape_unravel(const struct td_shape *shape, int64_t linear, int64_t *position);

/* Writes the shape, such as "[2,3]", or "[]" for a scalar, truncated to `size` bytes. Returns text.
 * A shape of 16 dimensions with 19 digits each needs 337 bytes. */
#define TD_SHAPE_TEXT 352
const char *td_shape_text(const struct td_shape *shape, char *text, size_t size);

/* Set *out to the product or sum of a and b. Return false on overflow. */
bool td_size_mul(size_t a, size_t b, size_t *out);
bool td_size_add(size_t a, size_t b, size_t *out);

#endif
