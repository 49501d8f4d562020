#include "kernels/reductions/blocks.h"

#include "kernels/integers.h"
#include "kernels/reductions/loops.h"

enum {
    /* Elements of a block. Smaller blocks would not be worth a second thread. A larger block takes
     * more than about 100 us. */
    LEAST_BLOCK = 32 * 1024,
    LARGEST_BLOCK = 256 * 1024,
    BLOCKS = 32, /* of a tensor between these sizes */
    LEAST_TILE = 256
};

static int64_t block_size(int64_t numel)
{
    return td_smaller(td_larger(numel / BLOCKS, LEAST_BLOCK), LARGEST_BLOCK);
}

struct td_blocks td_blocks_of(int64_t outer, int64_t n, int64_t inner, int64_t chunk)
{
    const int64_t tile = td_smaller(inner, TD_REDUCE_COLUMNS);
    return (struct td_blocks){
        .outer = outer,
        .n = n,
        .inner = inner,
        .chunk = chunk,
        .n_chunks = td_larger(1, td_ceil_div(n, td_larger(1, chunk))),
        .tile = tile,
        .n_tiles = td_ceil_div(inner, tile),
    };
}

struct td_blocks td_blocks_divide(int64_t outer, int64_t n, int64_t inner, int64_t row_unit)
{
    struct td_blocks blocks = td_blocks_of(outer, n, inner, n);
    const int64_t size = block_size((int64_t)td_capped_product(
        td_capped_product((uint64_t)outer, (uint64_t)n), (uint64_t)inner));
    const int64_t rows = td_larger(1, size / blocks.tile);
    if (n <= rows)
        return blocks;
    /* Chunks of about the same size. */
    const int64_t chunk = td_round_up(td_ceil_div(n, td_ceil_div(n, rows)), row_unit);
    return td_blocks_of(outer, n, inner, td_smaller(chunk, n));
}

int64_t td_blocks_count(const struct td_blocks *blocks)
{
    return blocks->outer * blocks->n_chunks * blocks->n_tiles;
}

int64_t td_blocks_results(const struct td_blocks *blocks)
{
    return blocks->outer * blocks->n_chunks * blocks->inner;
}

int64_t td_blocks_grain(const struct td_blocks *blocks)
{
    const int64_t numel = blocks->outer * blocks->n * blocks->inner;
    return td_larger(1, block_size(numel) / td_larger(1, blocks->chunk * blocks->tile));
}

struct td_block td_blocks_get(const struct td_blocks *blocks, int64_t i)
{
    const int64_t tile = i % blocks->n_tiles, line = i / blocks->n_tiles;
    const int64_t chunk = line % blocks->n_chunks, outer = line / blocks->n_chunks;
    const int64_t column = tile * blocks->tile, row = chunk * blocks->chunk;
    return (struct td_block){
        .outer = outer,
        .chunk = chunk,
        .column = column,
        .rows = td_smaller(blocks->chunk, blocks->n - row),
        .columns = td_smaller(blocks->tile, blocks->inner - column),
        .begin = (outer * blocks->n + row) * blocks->inner + column,
        .result = (outer * blocks->n_chunks + chunk) * blocks->inner + column,
    };
}
