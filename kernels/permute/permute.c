#include "kernels/permute/permute.h"

#include "kernels/integers.h"
#include "kernels/permute/kernels.h"
#include "kernels/rows/rows.h"

#include <assert.h>
#include <string.h>

/* Minimum number of bytes that a range moves. At memory bandwidth, this takes at least 30 us, which
 * is the cost of waking a thread. A permutation of at most RANGE_BYTES runs on the calling
 * thread. */
#define RANGE_BYTES (256 << 10)

/* A tile has about TILE_BYTES, so it stays in the L1 cache between reading and writing. Its rows
 * have TILE_ROW_BYTES in A, so whole cache lines are read. */
#define TILE_BYTES     (16 << 10)
#define TILE_ROW_BYTES 256

/* In both A and C, the rows of a tile are on different pages. Tiles are grouped into blocks of
 * BLOCK_TILES by BLOCK_TILES, whose pages fit in the TLB, so each page is translated once per
 * block, not once per tile. Permutations of at least LARGE_BYTES have larger blocks. */
#define BLOCK_TILES       4
#define LARGE_BLOCK_TILES 8
#define LARGE_BYTES       (16 << 20)

/* Contiguous runs of at most MAX_ELEMENT_BYTES are moved as one wide element. Longer runs are
 * copied as rows. */
#define MAX_ELEMENT_BYTES 64

/* The elements of a run of at least RUN_ELEMENTS are collected one run after another. If the output
 * is streamed, they pass through a buffer of RUN_BYTES. */
#define RUN_ELEMENTS 16
#define RUN_BYTES    (4 << 10)

/* If the stride of the rows is a multiple of CONFLICT_STRIDE, the rows of a tile map to only a few
 * sets of the L1 cache and would evict each other, so the tile is copied to a buffer first. */
#define CONFLICT_STRIDE 1024

struct dim {
    int64_t extent, a, c; /* strides in A and C, in bytes */
};

typedef enum mode {
    TILES, /* p and q are tiled */
    ROWS,  /* p is contiguous in A and in C */
    RUNS,  /* p is contiguous in C, and has the smallest stride in A; it may be reversed */
} mode;

/* A nest as `outer` loops around a tiled plane of p by q. p is the loop with the smallest stride in
 * C. Among the other loops, q is the loop with the smallest stride in A. */
struct permutation {
    const char *a;
    char *c;
    /* Size in bytes of an element, or of a short contiguous run that is moved as one element. */
    int64_t width;
    struct dim outer[TD_PERMUTE_LOOPS];
    int n_outer;
    struct dim p, q;
    mode mode;
    int64_t p_tile, q_tile;     /* extents of a tile, for TILES */
    int64_t p_block, q_block;   /* extents of a block, in whole tiles */
    int64_t p_blocks, q_blocks; /* blocks in a plane */
    /* For TILES; NULL if elements are copied one by one. */
    td_transpose_fn *transpose;
    td_collect_fn *collect; /* for RUNS */
    bool stream;            /* use non-temporal stores */
    /* True if the rows of a tile of A map to only a few cache sets. */
    bool conflicts;
};

/* ---- A tile ------------------------------------------------------------------------------ */

/* Copies `width` bytes in moves of `size` bytes, a power of two. If `width` is not a multiple of
 * `size`, the last moves overlap. `width` must be from size to 4 * size. */
static inline __attribute__((always_inline)) void
move_element(char *restrict to, const char *restrict from, size_t width, size_t size)
{
    if (width == size) {
        memcpy(to, from, size);
    } else {
        memcpy(to, from, size);
        if (width > 2 * size) {
            memcpy(to + size, from + size, size);
            memcpy(to + width - 2 * size, from + width - 2 * size, size);
        }
        memcpy(to + width - size, from + width - size, size);
    }
}

static inline __attribute__((always_inline)) void move_elements(char *restrict c,
                                                                const char *restrict a,
                                                                struct dim p, struct dim q,
                                                                size_t width, size_t size)
{
    for (int64_t j = 0; j < q.extent; j++)
        for (int64_t i = 0; i < p.extent; i++)
            move_element(c + j * q.c + i * p.c, a + j * q.a + i * p.a, width, size);
}

/* Moves a tile with any strides. For a constant width, each move compiles to one or two loads and
 * stores. */
static void move_tile(char *c, const char *a, struct dim p, struct dim q, size_t width)
{
    /* Makes the longer loop the inner loop. */
    if (p.extent < q.extent) {
        const struct dim other = p;
        p = q;
        q = other;
    }
    switch (width) {
    case 1:
        move_elements(c, a, p, q, 1, 1);
        return;
    case 2:
        move_elements(c, a, p, q, 2, 2);
        return;
    case 3:
        move_elements(c, a, p, q, 3, 2);
        return;
    case 4:
        move_elements(c, a, p, q, 4, 4);
        return;
    case 8:
        move_elements(c, a, p, q, 8, 8);
        return;
    case 16:
        move_elements(c, a, p, q, 16, 16);
        return;
    default:
        if (width < 8)
            move_elements(c, a, p, q, width, 4);
        else if (width < 16)
            move_elements(c, a, p, q, width, 8);
        else
            move_elements(c, a, p, q, width, 16);
    }
}

static void transpose_tile(const struct permutation *permutation, char *c, const char *a,
                           int64_t rows, int64_t columns)
{
    int64_t a_row = permutation->p.a;
    _Alignas(64) char buffer[TILE_BYTES];
    if (permutation->conflicts) {
        const int64_t row_bytes = columns * permutation->width;
        for (int64_t i = 0; i < rows; i++)
            memcpy(buffer + i * row_bytes, a + i * a_row, (size_t)row_bytes);
        a = buffer;
        a_row = row_bytes;
    }
    permutation->transpose(c, permutation->q.c, a, a_row, rows, columns, permutation->stream);
}

/* Returns the tile or block that starts at `first` along a dimension. The last tile or block can be
 * shorter. */
static struct dim tile_at(struct dim dim, int64_t first, int64_t tile)
{
    dim.extent = td_smaller(dim.extent - first, tile);
    return dim;
}

/* Copies n elements along p. */
static void collect_run(const struct permutation *permutation, char *c, const char *a, int64_t n)
{
    const int64_t step = permutation->p.a, width = permutation->width;
    const int64_t most = RUN_BYTES / width;
    _Alignas(64) char buffer[RUN_BYTES];
    if (!permutation->stream) {
        permutation->collect(c, a, step, n);
        return;
    }
    for (int64_t i = 0; i < n; i += most) {
        const int64_t count = td_smaller(n - i, most);
        permutation->collect(buffer, a + i * step, step, count);
        td_rows_copy_strided(c + i * width, 0, buffer, 0, (size_t)(count * width), 1, true);
    }
}

static void permute_block(const struct permutation *permutation, char *c, const char *a,
                          struct dim p, struct dim q)
{
    if (permutation->mode == ROWS) {
        td_rows_copy_strided(c, q.c, a, q.a, (size_t)(p.extent * permutation->width), q.extent,
                             permutation->stream);
        return;
    }
    if (permutation->mode == RUNS) {
        for (int64_t j = 0; j < q.extent; j++)
            collect_run(permutation, c + j * q.c, a + j * q.a, p.extent);
        return;
    }
    for (int64_t i = 0; i < p.extent; i += permutation->p_tile) {
        for (int64_t j = 0; j < q.extent; j += permutation->q_tile) {
            const struct dim rows = tile_at(p, i, permutation->p_tile);
            const struct dim columns = tile_at(q, j, permutation->q_tile);
            char *to = c + i * p.c + j * q.c;
            const char *from = a + i * p.a + j * q.a;
            if (permutation->transpose)
                transpose_tile(permutation, to, from, rows.extent, columns.extent);
            else
                move_tile(to, from, rows, columns, (size_t)permutation->width);
        }
    }
}

/* ---- All blocks -------------------------------------------------------------------------- */

static void run_range(void *context, int64_t begin, int64_t end)
{
    const struct permutation *permutation = context;
    const struct dim p = permutation->p, q = permutation->q;
    const int64_t p_blocks = permutation->p_blocks, q_blocks = permutation->q_blocks;
    int64_t position[TD_PERMUTE_LOOPS], plane = begin / (p_blocks * q_blocks);
    int64_t i = begin / q_blocks % p_blocks, j = begin % q_blocks;
    const char *a = permutation->a;
    char *c = permutation->c;
    for (int k = permutation->n_outer - 1; k >= 0; k--) {
        const struct dim *loop = &permutation->outer[k];
        position[k] = plane % loop->extent;
        plane /= loop->extent;
        a += position[k] * loop->a;
        c += position[k] * loop->c;
    }
    for (int64_t block = begin; block < end; block++) {
        const int64_t row = i * permutation->p_block, column = j * permutation->q_block;
        permute_block(permutation, c + row * p.c + column * q.c, a + row * p.a + column * q.a,
                      tile_at(p, row, permutation->p_block),
                      tile_at(q, column, permutation->q_block));
        if (++j < q_blocks)
            continue;
        j = 0;
        if (++i < p_blocks)
            continue;
        i = 0;
        for (int k = permutation->n_outer - 1; k >= 0; k--) {
            const struct dim *loop = &permutation->outer[k];
            a += loop->a;
            c += loop->c;
            if (++position[k] < loop->extent)
                break;
            position[k] = 0;
            a -= loop->a * loop->extent;
            c -= loop->c * loop->extent;
        }
    }
}

/* ---- Planning ---------------------------------------------------------------------------- */

static struct dim remove_loop(struct permutation *permutation, int which)
{
    const struct dim removed = permutation->outer[which];
    permutation->n_outer--;
    for (int i = which; i < permutation->n_outer; i++)
        permutation->outer[i] = permutation->outer[i + 1];
    return removed;
}

/* Removes and returns the outer loop with the smallest stride in C if `by_c`, otherwise in A. Among
 * equal strides, takes the innermost loop. Returns a loop of extent 1 if there are no outer
 * loops. */
static struct dim remove_least_stride(struct permutation *permutation, bool by_c)
{
    if (permutation->n_outer == 0)
        return (struct dim){ .extent = 1 };
    int least = 0;
    for (int i = 1; i < permutation->n_outer; i++) {
        const struct dim *loop = &permutation->outer[i], *best = &permutation->outer[least];
        if (by_c ? td_magnitude(loop->c) <= td_magnitude(best->c)
                 : td_magnitude(loop->a) <= td_magnitude(best->a))
            least = i;
    }
    return remove_loop(permutation, least);
}

/* Turns short contiguous runs into elements of 8 or 16 bytes, for which transposition kernels
 * exist, or of another width such as 12 bytes. */
static void widen_elements(struct permutation *permutation)
{
    for (int i = permutation->n_outer - 1; i >= 0; i--) {
        const struct dim *loop = &permutation->outer[i];
        if (loop->a == permutation->width && loop->c == permutation->width &&
            loop->extent <= MAX_ELEMENT_BYTES / permutation->width) {
            permutation->width *= remove_loop(permutation, i).extent;
            i = permutation->n_outer; /* start over, because another loop can now be contiguous */
        }
    }
}

const struct td_transpose_kernels *td_transpose_kernels(td_isa isa)
{
#ifdef __x86_64__
    if (isa >= TD_ISA_AVX512)
        return &td_transpose_avx512;
    if (isa == TD_ISA_AVX2)
        return &td_transpose_avx2;
#endif
    (void)isa;
    return &td_transpose_generic;
}

bool td_permute_should_stream(size_t bytes, size_t row_bytes)
{
    return bytes >= TD_PERMUTE_STREAM_BYTES && td_rows_should_stream(bytes, row_bytes);
}

/* True if the output is large and every store of a tile is aligned. */
static bool may_stream_tiles(const struct permutation *permutation, int64_t total, int64_t store)
{
    bool aligned = (uintptr_t)permutation->c % (uintptr_t)store == 0 &&
                   permutation->q.c % store == 0 &&
                   permutation->p.extent * permutation->width % store == 0 &&
                   permutation->p_tile * permutation->width % store == 0;
    for (int i = 0; i < permutation->n_outer; i++)
        aligned = aligned && permutation->outer[i].c % store == 0;
    return aligned && total >= TD_PERMUTE_STREAM_BYTES;
}

static bool has_kernels(int64_t width)
{
    return width <= 16 && (width & (width - 1)) == 0;
}

static int log2_width(const struct permutation *permutation)
{
    return __builtin_ctzll((unsigned long long)permutation->width);
}

static void choose_tile_kernel(struct permutation *permutation, int64_t total, td_isa isa)
{
    const int64_t width = permutation->width;
    if (permutation->p.c != width || permutation->q.a != width || !has_kernels(width))
        return;
    const struct td_transpose_kernels *kernels = td_transpose_kernels(isa);
    permutation->transpose = kernels->by_log2_width[log2_width(permutation)];
    permutation->conflicts = permutation->p.a % CONFLICT_STRIDE == 0;
    permutation->stream = may_stream_tiles(permutation, total, kernels->store_bytes);
}

static void choose_row_blocks(struct permutation *permutation)
{
    const int64_t width = permutation->width; /* at least 1 */
    /* NOLINTNEXTLINE(clang-analyzer-core.DivideZero) */
    const int64_t rows = td_smaller(permutation->p.extent, RANGE_BYTES / width);
    permutation->p_block = rows > 0 ? rows : 1;
    permutation->q_block =
        td_smaller(permutation->q.extent, RANGE_BYTES / width / permutation->p_block);
}

static void choose_tiles(struct permutation *permutation, int64_t total)
{
    const int64_t width = permutation->width;
    const int64_t p = permutation->p.extent, q = permutation->q.extent;
    permutation->q_tile = td_smaller(q, width < TILE_ROW_BYTES ? TILE_ROW_BYTES / width : 1);
    permutation->p_tile = td_smaller(p, TILE_BYTES / width / permutation->q_tile);
    /* If p is short, rows can be longer. */
    permutation->q_tile = td_smaller(q, TILE_BYTES / width / permutation->p_tile);
    const int64_t tiles = total >= LARGE_BYTES ? LARGE_BLOCK_TILES : BLOCK_TILES;
    permutation->p_block = td_smaller(p, permutation->p_tile * tiles);
    permutation->q_block = td_smaller(q, permutation->q_tile * tiles);
}

int td_permute_add_loop(struct td_permute_loop *loops, int n_loops, struct td_permute_loop loop)
{
    if (loop.extent == 1)
        return n_loops;
    struct td_permute_loop *last = n_loops > 0 ? &loops[n_loops - 1] : NULL;
    if (last && last->a == loop.a * loop.extent && last->c == loop.c * loop.extent) {
        loop.extent *= last->extent;
        *last = loop;
        return n_loops;
    }
    loops[n_loops] = loop;
    return n_loops + 1;
}

/* Chooses the mode by the loop p. */
static mode choose_mode(const struct permutation *permutation)
{
    const struct dim p = permutation->p;
    if (p.c != permutation->width)
        return TILES;
    if (p.a == permutation->width)
        return ROWS;
    if (p.extent < RUN_ELEMENTS || !has_kernels(permutation->width))
        return TILES;
    for (int i = 0; i < permutation->n_outer; i++)
        if (td_magnitude(permutation->outer[i].a) < td_magnitude(p.a))
            return TILES;
    return RUNS;
}

/* Plans copies along p. Streamed rows are read in the order of A: reads that follow each other are
 * prefetched, and a non-temporal store costs the same anywhere. For float32 [64,128,64,64] with
 * the dimensions 1 and 2 exchanged, this takes half the time (bench_shapes). */
static void plan_rows(struct permutation *permutation, int64_t total, td_isa isa)
{
    const int64_t row_bytes = permutation->p.extent * permutation->width;
    permutation->stream = td_permute_should_stream((size_t)total, (size_t)row_bytes);
    permutation->q = remove_least_stride(permutation, !permutation->stream);
    if (permutation->mode == RUNS)
        permutation->collect = td_transpose_kernels(isa)->collect[log2_width(permutation)];
    choose_row_blocks(permutation);
}

static void plan_tiles(struct permutation *permutation, int64_t total, td_isa isa)
{
    permutation->q = remove_least_stride(permutation, false);
    choose_tiles(permutation, total);
    choose_tile_kernel(permutation, total, isa);
}

td_status td_permute_run(const struct td_permute_loop *loops, int n_loops, size_t width,
                         const void *a, void *c, struct td_exec *exec, struct td_error *err)
{
    assert(n_loops <= TD_PERMUTE_LOOPS);
    struct permutation permutation = { .a = a, .c = c, .width = (int64_t)width };
    int64_t total = permutation.width;
    for (int i = 0; i < n_loops; i++) {
        if (loops[i].extent == 1)
            continue;
        permutation.outer[permutation.n_outer++] = (struct dim){
            .extent = loops[i].extent,
            .a = loops[i].a * permutation.width,
            .c = loops[i].c * permutation.width,
        };
        total *= loops[i].extent;
    }
    widen_elements(&permutation);
    permutation.p = remove_least_stride(&permutation, true);
    permutation.mode = choose_mode(&permutation);
    if (permutation.mode == TILES)
        plan_tiles(&permutation, total, td_isa_resolve(exec->isa));
    else
        plan_rows(&permutation, total, td_isa_resolve(exec->isa));
    permutation.p_blocks = (permutation.p.extent - 1) / permutation.p_block + 1;
    permutation.q_blocks = (permutation.q.extent - 1) / permutation.q_block + 1;

    int64_t blocks = permutation.p_blocks * permutation.q_blocks;
    for (int i = 0; i < permutation.n_outer; i++)
        blocks *= permutation.outer[i].extent;
    const int64_t block_bytes = permutation.p_block * permutation.q_block * permutation.width;
    return td_exec_for(exec, blocks,
                       total <= RANGE_BYTES ? blocks : (RANGE_BYTES - 1) / block_bytes + 1,
                       run_range, &permutation, err);
}
