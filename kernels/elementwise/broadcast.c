#include "kernels/elementwise/broadcast.h"

#include "kernels/integers.h"

#include <string.h>

/* ---- Shapes ------------------------------------------------------------------------------ */

/* Returns the size of dimension `d` from the end, where 1 is the last. A missing dimension has the
 * size 1. */
static int64_t size_from_end(const struct td_shape *shape, int d)
{
    return d <= shape->rank ? shape->dim[shape->rank - d] : 1;
}

bool td_broadcast_shape(struct td_shape *to, const struct td_shape *from, int *dim)
{
    struct td_shape result = { .rank = to->rank > from->rank ? to->rank : from->rank };
    for (int d = 1; d <= result.rank; d++) {
        const int64_t a = size_from_end(to, d), b = size_from_end(from, d);
        *dim = d;
        if (a != b && a != 1 && b != 1)
            return false;
        result.dim[result.rank - d] = a == 1 ? b : a;
    }
    *to = result;
    return true;
}

/* Returns the operands that have the size of dimension d, which is not 1: bit i for operand i. */
static uint32_t having(const struct td_shape *shape, const struct td_shape *const *operands, int n,
                       int d)
{
    uint32_t set = 0;
    for (int i = 0; i < n; i++)
        if (size_from_end(operands[i], shape->rank - d) == shape->dim[d])
            set |= (uint32_t)1 << i;
    return set;
}

void td_broadcast_merge(struct td_shape *shape, const struct td_shape *const *operands, int n,
                        uint32_t *full)
{
    struct td_shape merged = { .rank = 0 };
    uint32_t last = 0;
    memset(full, 0, (size_t)n * sizeof(full[0]));
    for (int d = 0; d < shape->rank; d++) {
        if (shape->dim[d] == 1)
            continue;
        const uint32_t set = having(shape, operands, n, d);
        if (merged.rank > 0 && set == last) {
            merged.dim[merged.rank - 1] *= shape->dim[d];
            continue;
        }
        for (int i = 0; i < n; i++)
            full[i] |= (set >> i & 1) << merged.rank;
        merged.dim[merged.rank++] = shape->dim[d];
        last = set;
    }
    *shape = merged;
}

/* ---- Repeated operands ------------------------------------------------------------------- */

void td_repeat_init(struct td_repeat *repeat, const struct td_shape *shape, uint32_t full)
{
    int64_t stride = 1;
    repeat->shape = shape;
    for (int d = shape->rank - 1; d >= 0; d--) {
        repeat->stride[d] = full >> d & 1 ? stride : 0;
        stride *= full >> d & 1 ? shape->dim[d] : 1;
    }
}

int64_t td_repeat_at(const struct td_repeat *repeat, int64_t i)
{
    int64_t at = 0;
    for (int d = repeat->shape->rank - 1; d >= 0; d--) {
        at += i % repeat->shape->dim[d] * repeat->stride[d];
        i /= repeat->shape->dim[d];
    }
    return at;
}

/* Sets n elements of `width` bytes to the element at `from`. */
static void fill(char *restrict to, const char *restrict from, size_t width, int64_t n)
{
    switch (width) {
#define CASE(bytes)                                                                                \
    case bytes:                                                                                    \
        for (int64_t i = 0; i < n; i++)                                                            \
            memcpy(to + i * (bytes), from, bytes);                                                 \
        break
        CASE(1);
        CASE(2);
        CASE(4);
        CASE(8);
        CASE(16);
#undef CASE
    default:
        break;
    }
}

/* Copies one run along the last dimension. */
static void copy_run(const struct td_repeat *repeat, char *to, const char *from, size_t width,
                     int64_t n)
{
    if (repeat->stride[repeat->shape->rank - 1] == 0)
        fill(to, from, width, n);
    else
        memcpy(to, from, (size_t)n * width);
}

void td_repeat_copy(const struct td_repeat *repeat, void *to, const void *from, size_t width,
                    int64_t begin, int64_t n)
{
    const struct td_shape *shape = repeat->shape;
    const int last = shape->rank - 1;
    int64_t place[TD_MAX_RANK], at = td_repeat_at(repeat, begin);
    if (shape->rank == 0) {
        memcpy(to, from, width);
        return;
    }
    td_shape_unravel(shape, begin, place);
    for (char *out = to; n > 0;) {
        const int64_t run = td_smaller(n, shape->dim[last] - place[last]);
        copy_run(repeat, out, (const char *)from + (size_t)at * width, width, run);
        out += (size_t)run * width;
        n -= run;
        place[last] += run;
        at += run * repeat->stride[last];
        for (int d = last; d > 0 && place[d] == shape->dim[d]; d--) {
            at += repeat->stride[d - 1] - place[d] * repeat->stride[d];
            place[d] = 0;
            place[d - 1]++;
        }
    }
}
