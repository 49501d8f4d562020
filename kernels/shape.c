#include "kernels/shape.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

bool td_shape_product(const struct td_shape *shape, int begin, int end, int64_t *out)
{
    for (int i = begin; i < end; i++) {
        if (shape->dim[i] == 0) {
            *out = 0;
            return true;
        }
    }
    int64_t product = 1;
    for (int i = begin; i < end; i++)
        if (__builtin_mul_overflow(product, shape->dim[i], &product))
            return false;
    *out = product;
    return true;
}

bool td_shape_numel(const struct td_shape *shape, int64_t *out)
{
    return td_shape_product(shape, 0, shape->rank, out);
}

bool td_shape_equal(const struct td_shape *a, const struct td_shape *b)
{
    return a->rank == b->rank && memcmp(a->dim, b->dim, (size_t)a->rank * sizeof(a->dim[0])) == 0;
}

bool td_shape_starts_with(const struct td_shape *shape, const struct td_shape *start)
{
    return shape->rank >= start->rank &&
           memcmp(shape->dim, start->dim, (size_t)start->rank * sizeof(start->dim[0])) == 0;
}

bool td_shape_append(struct td_shape *to, const struct td_shape *from, int begin, int end)
{
    if (end <= begin)
        return true;
    if (to->rank + (end - begin) > TD_MAX_RANK)
        return false;
    memcpy(to->dim + to->rank, from->dim + begin, (size_t)(end - begin) * sizeof(to->dim[0]));
    to->rank += end - begin;
    return true;
}

bool td_axis_normalize(int64_t axis, int rank, int *out)
{
    if (axis < -rank || axis >= rank)
        return false;
    *out = (int)(axis < 0 ? axis + rank : axis);
    return true;
}

void td_shape_unravel(const struct td_shape *shape, int64_t linear, int64_t *position)
{
    for (int i = shape->rank - 1; i >= 0; i--) {
        assert(shape->dim[i] > 0);
        position[i] = linear % shape->dim[i];
        linear /= shape->dim[i];
    }
}

const char *td_shape_text(const struct td_shape *shape, char *text, size_t size)
{
    /* snprintf returns the length of the untruncated text. If `used` exceeds size, the loop
     * ends. */
    size_t used = (size_t)snprintf(text, size, "[");
    for (int i = 0; i < shape->rank && used < size; i++)
        used +=
            (size_t)snprintf(text + used, size - used, "%s%" PRId64, i ? "," : "", shape->dim[i]);
    if (used < size)
        snprintf(text + used, size - used, "]");
    return text;
}

bool td_size_mul(size_t a, size_t b, size_t *out)
{
    size_t product;
    if (__builtin_mul_overflow(a, b, &product))
        return false;
    *out = product;
    return true;
}

bool td_size_add(size_t a, size_t b, size_t *out)
{
    size_t sum;
    if (__builtin_add_overflow(a, b, &sum))
        return false;
    *out = sum;
    return true;
}
