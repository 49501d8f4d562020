#include "kernels/program/placement.h"

#include "kernels/shape.h"

#include <stdbool.h>
#include <stdint.h>

#define ALIGNMENT ((size_t)64)

static bool overlap(const struct td_placement *a, const struct td_placement *b)
{
    return a->first <= b->last && b->first <= a->last;
}

/* Inserts element i into `order`, which has i elements, by descending size. */
static void insert(const struct td_placement *results, int *order, int i)
{
    int at = i;
    for (; at > 0 && results[order[at - 1]].bytes < results[i].bytes; at--)
        order[at] = order[at - 1];
    order[at] = i;
}

/* Returns the end of a result, rounded up, or SIZE_MAX. */
static size_t end_of(const struct td_placement *result)
{
    size_t end;
    if (!td_size_add(result->place, result->bytes, &end) || end > SIZE_MAX - ALIGNMENT)
        return SIZE_MAX;
    return (end + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* Gives element i of `order` the lowest place that is free while the element is in use. The
 * elements before it already have places and are sorted by place; inserts element i into this
 * order. */
static void place(struct td_placement *results, int *order, int i)
{
    const int its = order[i];
    struct td_placement *result = &results[its];
    int at = i;
    result->place = 0;
    for (int k = 0; k < i; k++) {
        const struct td_placement *other = &results[order[k]];
        if (!overlap(result, other))
            continue;
        if (other->place >= end_of(result))
            break;
        const size_t end = end_of(other);
        result->place = end > result->place ? end : result->place;
    }
    for (; at > 0 && results[order[at - 1]].place > result->place; at--)
        order[at] = order[at - 1];
    order[at] = its;
}

size_t td_place(struct td_placement *results, int n, int *order)
{
    size_t total = 0;
    for (int i = 0; i < n; i++)
        insert(results, order, i);
    for (int i = 0; i < n; i++) {
        const struct td_placement *result = &results[order[i]];
        place(results, order, i);
        const size_t end = end_of(result);
        total = end > total ? end : total;
    }
    return total;
}
