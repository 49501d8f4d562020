/* best.h - the best scored rows of one query, best first.
 *
 * An entry is a score and a row number in one unsigned integer, in which a larger score is larger
 * and, among equal scores, a lower row number is larger. Entries of one row are equal, so a row
 * that is offered twice is kept once. Up to `room` entries are kept unsorted; then they are sorted,
 * and the best k remain. In random order, an offer of n rows takes O(n), in the worst order
 * O(n log k).
 *
 * Ownership  The caller provides the memory.
 * Threads    Reentrant. */
#ifndef TD_KERNELS_SEARCH_BEST_H
#define TD_KERNELS_SEARCH_BEST_H

#include "kernels/dtype.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TD_SEARCH_NO_ROW (-1)

/* Rows that are not offered to a query. */
struct td_search_excluded {
    int64_t self;        /* or TD_SEARCH_NO_ROW */
    const int64_t *rows; /* in ascending order */
    int64_t n;
};

struct td_search_best {
    void *entries; /* `room` entries */
    int64_t count, room;
    int64_t k;
    /* True if the first k entries are sorted and no row offered so far is better. */
    bool full;
    /* A row whose score is below the threshold is not among the best k. */
    double threshold;
};

/* A block of scored rows: rows first, first + 1, ..., or the given row numbers. */
struct td_search_scored {
    const void *scores;     /* float or double; larger is better; rows with NaN are ignored */
    const int64_t *numbers; /* or NULL */
    int64_t first;
    int n;
};

/* Functions for scores of one type. `spare` has room for as many entries as the largest of the
 * bests that use it. */
struct td_search_best_type {
    size_t entry_size;
    void (*offer)(struct td_search_best *best, const struct td_search_excluded *excluded,
                  const struct td_search_scored *scored, void *spare);
    /* Adds the entries of `other`. */
    void (*absorb)(struct td_search_best *best, const struct td_search_best *other, void *spare);
    /* Writes the best n rows. Fills the places after the last row with TD_SEARCH_NO_ROW and the
     * worst score. With `negative`, the scores are written with the other sign. */
    void (*write)(struct td_search_best *best, int64_t n, bool negative, void *scores,
                  int64_t *rows, void *spare);
};

/* Returns the number of entries for which a selection of the best k has room. */
int64_t td_search_best_room(int64_t k);

/* Empties the selection. `entries` has td_search_best_room(k) entries. */
void td_search_best_begin(struct td_search_best *best, int64_t k, void *entries);

/* Sorts n row numbers in ascending order. `spare` has room for n. Returns the array that contains
 * the result, which is `numbers` or `spare`. */
int64_t *td_search_sort_numbers(int64_t *numbers, int64_t n, int64_t *spare);

/* Returns the functions for float or double (`real`). */
const struct td_search_best_type *td_search_best_type_of(td_dtype real);

#endif
