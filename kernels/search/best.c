#include "kernels/search/best.h"

#include "kernels/integers.h"

#include <math.h>
#include <string.h>

/* Minimum number of entries between two sorts. */
#define MIN_SPARE 64

int64_t td_search_best_room(int64_t k)
{
    return k + td_larger(k, MIN_SPARE);
}

void td_search_best_begin(struct td_search_best *best, int64_t k, void *entries)
{
    *best = (struct td_search_best){
        .entries = entries, .room = td_search_best_room(k), .k = k, .threshold = -INFINITY
    };
}

#define TD_NAME(name)      name##_numbers
#define TD_ENTRY           int64_t
#define TD_SORT_KEY(entry) (-(entry))
#include "kernels/sort.inc"
#undef TD_NAME

int64_t *td_search_sort_numbers(int64_t *numbers, int64_t n, int64_t *spare)
{
    return sort_numbers(numbers, n, spare);
}

static bool is_excluded(const struct td_search_excluded *excluded, int64_t row)
{
    int64_t low = 0, high = excluded->n;
    if (row == excluded->self)
        return true;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (excluded->rows[middle] < row)
            low = middle + 1;
        else
            high = middle;
    }
    return low < excluded->n && excluded->rows[low] == row;
}

#define TD_REAL  float
#define TD_BITS  uint32_t
#define TD_WHOLE uint64_t
#include "kernels/search/best.inc"

__extension__ typedef unsigned __int128 uint128;
#define TD_REAL  double
#define TD_BITS  uint64_t
#define TD_WHOLE uint128
#include "kernels/search/best.inc"

const struct td_search_best_type *td_search_best_type_of(td_dtype real)
{
    return real == TD_DTYPE_FLOAT64 ? &best_double : &best_float;
}
