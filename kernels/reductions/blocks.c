#include "kernels/reductions/blocks.h"

#include "kernels/integers.h"
#include "kernels/reductions/loops.h"

enum {
    /* Elements of a block: smaller blocks are not worth a second thread. */
    LEAST_BLOCK = 32 * 1024,
    USUAL_BLOCK = 256 * 1024, /* takes about 50 us */
    LARGEST_BLOCK = 1024 * 1024,
    BLOCKS = 32,    /* of a tensor whose blocks are larger than LEAST_BLOCK */
    FEW_BLOCKS = 8, /* of about the same size, which keep all threads busy */
    LEAST_TILE = 256
};

/* Returns the number of elements in a block of a tensor with enough columns or chunks. */
static int64_t usual_size(int64_t numel)
{
    return td_smaller(td_larger(numel / BLOCKS, LEAST_BLOCK), USUAL_BLOCK);
}

static struct td_blocks blocks_with(int64_t outer, int64_t n, int64_t inner, int64_t chunk,
                                    int64_t tile)
{
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

struct td_blocks td_blocks_of(int64_t outer, int64_t n, int64_t inner, int64_t chunk)
{
    return blocks_with(outer, n, inner, chunk, td_smaller(inner, TD_REDUCE_COLUMNS));
}

/* Returns the number of columns of a tile, so that there are 2 * FEW_BLOCKS if possible. */
static int64_t narrow_tile(int64_t outer, int64_t inner)
{
    const int64_t tile =
        td_round_up(td_ceil_div(inner, td_ceil_div((int64_t)2 * FEW_BLOCKS, outer)), 64);
    return td_smaller(td_smaller(inner, TD_REDUCE_COLUMNS), td_larger(tile, LEAST_TILE));
}

struct td_blocks td_blocks_divide(int64_t outer, int64_t n, int64_t inner, int64_t row_unit,
                                  bool prefer_tiles)
{
    const int64_t numel = (int64_t)td_capped_product(
        td_capped_product((uint64_t)outer, (uint64_t)n), (uint64_t)inner);
    const int64_t tile = prefer_tiles && numel > (int64_t)2 * LEAST_BLOCK
                             ? narrow_tile(outer, inner)
                             : td_smaller(inner, TD_REDUCE_COLUMNS);
    const bool enough =
        outer * td_ceil_div(inner, tile) >= (prefer_tiles ? FEW_BLOCKS / 2 : FEW_BLOCKS);
    const int64_t rows = td_larger(1, (enough ? LARGEST_BLOCK : usual_size(numel)) / tile);
    /* Chunks of about the same size. */
    const int64_t chunk =
        n <= rows ? n : td_round_up(td_ceil_div(n, td_ceil_div(n, rows)), row_unit);
    return blocks_with(outer, n, inner, td_smaller(chunk, n), tile);
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
    return td_larger(1, usual_size(numel) / td_larger(1, blocks->chunk * blocks->tile));
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
