/* blocks.h - divides a tensor [outer, n, inner] into blocks, the units of work of a reduction along
 * n.
 *
 * A row has `inner` elements. A block has the elements of a chunk of rows and a tile of columns,
 * for one index of `outer`. The division depends only on the three sizes, so results do not depend
 * on the number of threads.
 *
 * Threads    Pure functions. */
#ifndef TD_KERNELS_REDUCTIONS_BLOCKS_H
#define TD_KERNELS_REDUCTIONS_BLOCKS_H

#include <stdbool.h>
#include <stdint.h>

struct td_blocks {
    int64_t outer, n, inner;
    int64_t chunk, n_chunks; /* rows of a chunk; the last chunk can have fewer */
    int64_t tile, n_tiles;   /* columns of a tile; the last tile can have fewer */
};

struct td_block {
    int64_t outer, chunk, column; /* `column` is the first column */
    int64_t rows, columns;
    int64_t begin;  /* first element in the tensor [outer, n, inner] */
    int64_t result; /* first element in the tensor [outer, n_chunks, inner] */
};

/* Divides along n only where blocks would otherwise be too few or too large. A chunk has a multiple
 * of `row_unit` rows. If prefer_tiles is true, uses narrower tiles to avoid chunks. outer and
 * inner are at least 1. */
struct td_blocks td_blocks_divide(int64_t outer, int64_t n, int64_t inner, int64_t row_unit,
                                  bool prefer_tiles);

/* Divides along n into chunks of `chunk` rows. */
struct td_blocks td_blocks_of(int64_t outer, int64_t n, int64_t inner, int64_t chunk);

int64_t td_blocks_count(const struct td_blocks *blocks);

/* Returns a number of blocks for one range of a parallel loop. */
int64_t td_blocks_grain(const struct td_blocks *blocks);

/* Returns block i. Tiles vary fastest, then chunks. */
struct td_block td_blocks_get(const struct td_blocks *blocks, int64_t i);

/* Returns the number of elements of [outer, n_chunks, inner]. */
int64_t td_blocks_results(const struct td_blocks *blocks);

#endif
