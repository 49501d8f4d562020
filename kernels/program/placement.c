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

/* True if the result, at its place, overlaps one of the first n results of `order` in time and
 * space. Sets *end to the end of that result. */
static bool is_taken(const struct td_placement *results, const int *order, int n,
                     const struct td_placement *result, size_t *end)
{
    for (int k = 0; k < n; k++) {
        const struct td_placement *other = &results[order[k]];
        if (overlap(result, other) && result->place < end_of(other) &&
            other->place < end_of(result)) {
            *end = end_of(other);
            return true;
        }
    }
    return false;
}

/* Moves the result to the lowest place that is free while it is in use. Every candidate is the end
 * of a result that was placed before, so the search ends after at most n moves. */
static void place(struct td_placement *results, const int *order, int n)
{
    struct td_placement *result = &results[order[n]];
    size_t end;
    result->place = 0;
    while (result->place != SIZE_MAX && is_taken(results, order, n, result, &end))
        result->place = end;
}

size_t td_place(struct td_placement *results, int n, int *order)
{
    size_t total = 0;
    for (int i = 0; i < n; i++)
        insert(results, order, i);
    for (int i = 0; i < n; i++) {
        place(results, order, i);
        const size_t end = end_of(&results[order[i]]);
        total = end > total ? end : total;
    }
    return total;
}
