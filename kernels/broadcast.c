#include "kernels/broadcast.h"

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

/* Bytes that repeat_each writes at once. */
#define SPREAD 64

/* Writes `run` copies of each element in turn, as long as SPREAD bytes fit before `end`. An element
 * is also written to the places of the next elements, which are written afterwards. Returns the
 * number of elements of `from` that were written. */
static int64_t repeat_each(char *restrict to, const char *end, const char *restrict from,
                           size_t width, int64_t run, int64_t n)
{
    const size_t step = (size_t)run * width;
    const int64_t fit = end - to < SPREAD ? 0 : (end - to - SPREAD) / (int64_t)step + 1;
    const int64_t count = td_smaller(n, fit);
    switch (width) {
#define CASE(bytes)                                                                                \
    case bytes:                                                                                    \
        for (int64_t i = 0; i < count; i++)                                                        \
            for (size_t k = 0; k < SPREAD / (bytes); k++)                                          \
                memcpy(to + (size_t)i * step + k * (bytes), from + i * (bytes), bytes);            \
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
    return count;
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

/* A place in the repeated operand. */
struct cursor {
    int64_t place[TD_MAX_RANK]; /* coordinates in the merged shape */
    int64_t at;                 /* position in the operand */
};

/* Moves the cursor by `steps` along dimension d, at most to its end, and then to the next dimension
 * before it. */
static void advance(const struct td_repeat *repeat, struct cursor *cursor, int d, int64_t steps)
{
    const int64_t *size = repeat->shape->dim;
    cursor->place[d] += steps;
    cursor->at += steps * repeat->stride[d];
    for (; d > 0 && cursor->place[d] == size[d]; d--) {
        cursor->at += repeat->stride[d - 1] - cursor->place[d] * repeat->stride[d];
        cursor->place[d] = 0;
        cursor->place[d - 1]++;
    }
}

void td_repeat_copy(const struct td_repeat *repeat, void *to, const void *from, size_t width,
                    int64_t begin, int64_t n)
{
    const struct td_shape *shape = repeat->shape;
    const int last = shape->rank - 1;
    const int64_t row = last >= 0 ? shape->dim[last] : 1;
    /* The last dimension is repeated and the one before it is not, so each element becomes a short
     * row of equal elements. */
    const bool is_short = last > 0 && repeat->stride[last] == 0 && repeat->stride[last - 1] == 1 &&
                          row <= (int64_t)(SPREAD / width);
    struct cursor cursor = { .at = td_repeat_at(repeat, begin) };
    const char *const end = (char *)to + (size_t)n * width;
    if (last < 0) {
        memcpy(to, from, width);
        return;
    }
    td_shape_unravel(shape, begin, cursor.place);
    for (char *out = to; n > 0;) {
        const char *element = (const char *)from + (size_t)cursor.at * width;
        int64_t rows = 0, run = td_smaller(n, row - cursor.place[last]);
        if (is_short && cursor.place[last] == 0)
            rows = repeat_each(out, end, element, width, row,
                               td_smaller(n / row, shape->dim[last - 1] - cursor.place[last - 1]));
        if (rows > 0) {
            run = rows * row;
            advance(repeat, &cursor, last - 1, rows);
        } else {
            copy_run(repeat, out, element, width, run);
            advance(repeat, &cursor, last, run);
        }
        out += (size_t)run * width;
        n -= run;
    }
}
