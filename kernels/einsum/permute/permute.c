#include "kernels/einsum/permute/permute.h"

#include "kernels/einsum/permute/permute_isa.h"
#include "kernels/integers.h"

#include <assert.h>
#include <string.h>

/* Bytes that one range moves at least: at memory speed 30 us of work or more, which is what waking
 * a thread costs. Less than that in all stays on the caller. */
#define RANGE_BYTES (256 << 10)

/* A tile is about this many bytes, so that it stays in the first cache from reading to writing, and
 * this many along A, so that whole cache lines are read. */
#define TILE_BYTES (16 << 10)
#define TILE_ROW   256

/* Each row of a tile, of A as of C, has pages of its own. Tiles are done in pieces of so many by so
 * many, whose pages the address cache holds: each is looked up once a piece, not once a tile. */
#define SMALL_TILES 4
#define LARGE_TILES 8
#define LARGE_BYTES (16 << 20)

/* Runs up to this long are elements of an odd width; longer ones are rows to copy. */
#define ELEMENT_BYTES 64

/* Outputs from here on are written past the cache, where the rows allow it: nothing of them would
 * be left in it for a reader, and lines need not be read before they are overwritten. */
#define STREAM_BYTES (32 << 20)

/* Rows this far apart, or a multiple of it, fall into few sets of the first cache, and a tile would
 * drive itself out: it is read into a buffer first. */
#define CROWDED_ROW 1024

struct side {
    int64_t extent, a, c; /* strides in bytes */
};

/* The nest as tiles: `outer` loops around a plane of p by q. p is the loop that moves C least, q of
 * the others the one that moves A least. */
struct permutation {
    const char *a;
    char *c;
    int64_t width; /* of what is moved: elements, or short runs of them */
    struct side outer[TD_MAX_LOOPS];
    int n_outer;
    struct side p, q;
    int64_t p_tile, q_tile;     /* extents of a tile; rows have none */
    int64_t p_piece, q_piece;   /* extents of a piece, in whole tiles */
    int64_t p_pieces, q_pieces; /* pieces in a plane */
    td_transpose_fn *transpose; /* NULL: element by element, or rows */
    bool rows;                  /* p is a run in A and in C */
    bool stream, crowded;
};

/* ---- A tile ------------------------------------------------------------------------------ */

/* width is that of the case below, or between it and the one before; a larger one is moved as
 * overlapping pieces. */
static inline __attribute__((always_inline)) void
move_element(char *restrict to, const char *restrict from, size_t width, size_t piece)
{
    if (width == piece) {
        memcpy(to, from, piece);
    } else {
        memcpy(to, from, piece);
        if (width > 2 * piece) {
            memcpy(to + piece, from + piece, piece);
            memcpy(to + width - 2 * piece, from + width - 2 * piece, piece);
        }
        memcpy(to + width - piece, from + width - piece, piece);
    }
}

static inline __attribute__((always_inline)) void move_elements(char *restrict c,
                                                                const char *restrict a,
                                                                struct side p, struct side q,
                                                                size_t width, size_t piece)
{
    for (int64_t j = 0; j < q.extent; j++)
        for (int64_t i = 0; i < p.extent; i++)
            move_element(c + j * q.c + i * p.c, a + j * q.a + i * p.a, width, piece);
}

/* Whatever the strides; with constant widths a move is an instruction or two each way. */
static void move_tile(char *c, const char *a, struct side p, struct side q, size_t width)
{
    /* The longer loop inside. */
    if (p.extent < q.extent) {
        const struct side other = p;
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
    if (permutation->crowded) {
        const int64_t row_bytes = columns * permutation->width;
        for (int64_t i = 0; i < rows; i++)
            memcpy(buffer + i * row_bytes, a + i * a_row, (size_t)row_bytes);
        a = buffer;
        a_row = row_bytes;
    }
    permutation->transpose(c, permutation->q.c, a, a_row, rows, columns, permutation->stream);
}

/* The part of a side that begins at a tile's first element and ends with the tile, or the side. */
static struct side part_of(struct side side, int64_t first, int64_t tile)
{
    side.extent = td_smaller(side.extent - first, tile);
    return side;
}

static void run_piece(const struct permutation *permutation, char *c, const char *a, struct side p,
                      struct side q)
{
    if (permutation->rows) {
        for (int64_t j = 0; j < q.extent; j++)
            memcpy(c + j * q.c, a + j * q.a, (size_t)(p.extent * permutation->width));
        return;
    }
    for (int64_t i = 0; i < p.extent; i += permutation->p_tile) {
        for (int64_t j = 0; j < q.extent; j += permutation->q_tile) {
            const struct side rows = part_of(p, i, permutation->p_tile);
            const struct side columns = part_of(q, j, permutation->q_tile);
            char *to = c + i * p.c + j * q.c;
            const char *from = a + i * p.a + j * q.a;
            if (permutation->transpose)
                transpose_tile(permutation, to, from, rows.extent, columns.extent);
            else
                move_tile(to, from, rows, columns, (size_t)permutation->width);
        }
    }
}

/* ---- All pieces -------------------------------------------------------------------------- */

static void run_range(void *context, int64_t begin, int64_t end)
{
    const struct permutation *permutation = context;
    const struct side p = permutation->p, q = permutation->q;
    const int64_t p_pieces = permutation->p_pieces, q_pieces = permutation->q_pieces;
    int64_t position[TD_MAX_LOOPS], plane = begin / (p_pieces * q_pieces);
    int64_t i = begin / q_pieces % p_pieces, j = begin % q_pieces;
    const char *a = permutation->a;
    char *c = permutation->c;
    for (int k = permutation->n_outer - 1; k >= 0; k--) {
        const struct side *loop = &permutation->outer[k];
        position[k] = plane % loop->extent;
        plane /= loop->extent;
        a += position[k] * loop->a;
        c += position[k] * loop->c;
    }
    for (int64_t piece = begin; piece < end; piece++) {
        const int64_t row = i * permutation->p_piece, column = j * permutation->q_piece;
        run_piece(permutation, c + row * p.c + column * q.c, a + row * p.a + column * q.a,
                  part_of(p, row, permutation->p_piece), part_of(q, column, permutation->q_piece));
        if (++j < q_pieces)
            continue;
        j = 0;
        if (++i < p_pieces)
            continue;
        i = 0;
        for (int k = permutation->n_outer - 1; k >= 0; k--) {
            const struct side *loop = &permutation->outer[k];
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

/* ---- The plan ---------------------------------------------------------------------------- */

static struct side take(struct permutation *permutation, int which)
{
    const struct side taken = permutation->outer[which];
    permutation->n_outer--;
    for (int i = which; i < permutation->n_outer; i++)
        permutation->outer[i] = permutation->outer[i + 1];
    return taken;
}

/* The loop, of those left, that moves C (or A) least; the inner one of equals. One of extent 1 when
 * none is left. */
static struct side take_least(struct permutation *permutation, bool by_c)
{
    if (permutation->n_outer == 0)
        return (struct side){ .extent = 1 };
    int least = 0;
    for (int i = 1; i < permutation->n_outer; i++) {
        const struct side *loop = &permutation->outer[i], *best = &permutation->outer[least];
        if (by_c ? td_magnitude(loop->c) <= td_magnitude(best->c)
                 : td_magnitude(loop->a) <= td_magnitude(best->a))
            least = i;
    }
    return take(permutation, least);
}

/* Makes short runs the elements: a transposition of elements of 12 bytes, and of 8 or 16, which are
 * done in registers. */
static void absorb_runs(struct permutation *permutation)
{
    for (int i = permutation->n_outer - 1; i >= 0; i--) {
        const struct side *loop = &permutation->outer[i];
        if (loop->a == permutation->width && loop->c == permutation->width &&
            loop->extent <= ELEMENT_BYTES / permutation->width) {
            permutation->width *= take(permutation, i).extent;
            i = permutation->n_outer; /* another may go on where it ended */
        }
    }
}

const struct td_transpositions *td_transpositions(td_isa isa)
{
#ifdef __x86_64__
    if (isa >= TD_ISA_AVX512)
        return &td_transpositions_avx512;
    if (isa == TD_ISA_AVX2)
        return &td_transpositions_avx2;
#endif
    (void)isa;
    return &td_transpositions_generic;
}

/* Is the output large, and every store of a tile aligned? */
static bool may_stream(const struct permutation *permutation, int64_t total, int64_t store)
{
    bool aligned = (uintptr_t)permutation->c % (uintptr_t)store == 0 &&
                   permutation->q.c % store == 0 &&
                   permutation->p.extent * permutation->width % store == 0 &&
                   permutation->p_tile * permutation->width % store == 0;
    for (int i = 0; i < permutation->n_outer; i++)
        aligned = aligned && permutation->outer[i].c % store == 0;
    return aligned && total >= STREAM_BYTES;
}

static void choose_transposition(struct permutation *permutation, int64_t total, td_isa isa)
{
    const int64_t width = permutation->width;
    if (permutation->p.c != width || permutation->q.a != width || width > 16 ||
        (width & (width - 1)) != 0)
        return;
    const struct td_transpositions *kernels = td_transpositions(isa);
    permutation->transpose = kernels->by_log2_width[__builtin_ctzll((unsigned long long)width)];
    permutation->crowded = permutation->p.a % CROWDED_ROW == 0;
    permutation->stream = may_stream(permutation, total, kernels->store_bytes);
}

static void cut_rows(struct permutation *permutation)
{
    const int64_t width = permutation->width; /* of an element: 1 or more */
    /* NOLINTNEXTLINE(clang-analyzer-core.DivideZero) */
    const int64_t rows = td_smaller(permutation->p.extent, RANGE_BYTES / width);
    permutation->p_piece = rows > 0 ? rows : 1;
    permutation->q_piece =
        td_smaller(permutation->q.extent, RANGE_BYTES / width / permutation->p_piece);
}

static void cut_plane(struct permutation *permutation, int64_t total)
{
    const int64_t width = permutation->width;
    const int64_t p = permutation->p.extent, q = permutation->q.extent;
    permutation->q_tile = td_smaller(q, width < TILE_ROW ? TILE_ROW / width : 1);
    permutation->p_tile = td_smaller(p, TILE_BYTES / width / permutation->q_tile);
    /* Where p is short. */
    permutation->q_tile = td_smaller(q, TILE_BYTES / width / permutation->p_tile);
    const int64_t tiles = total >= LARGE_BYTES ? LARGE_TILES : SMALL_TILES;
    permutation->p_piece = td_smaller(p, permutation->p_tile * tiles);
    permutation->q_piece = td_smaller(q, permutation->q_tile * tiles);
}

td_status td_permute_run(const struct td_contraction *contraction, const void *a, void *c,
                         struct td_exec *exec, struct td_error *err)
{
    assert(contraction->dtype[TD_A] == contraction->dtype[TD_C] && !contraction->has_b);
    struct permutation permutation = {
        .a = a,
        .c = c,
        .width = (int64_t)td_dtype_info(contraction->dtype[TD_A])->size,
    };
    int64_t total = permutation.width;
    for (int i = 0; i < contraction->rank; i++) {
        const struct td_loop *loop = &contraction->loops[i];
        if (loop->extent == 1)
            continue;
        permutation.outer[permutation.n_outer++] =
            (struct side){ .extent = loop->extent,
                           .a = loop->stride[TD_A] * permutation.width,
                           .c = loop->stride[TD_C] * permutation.width };
        total *= loop->extent;
    }
    absorb_runs(&permutation);
    permutation.p = take_least(&permutation, true);
    permutation.rows = permutation.p.c == permutation.width && permutation.p.a == permutation.width;
    permutation.q = take_least(&permutation, permutation.rows);
    if (permutation.rows)
        cut_rows(&permutation);
    else
        cut_plane(&permutation, total);
    permutation.p_pieces = (permutation.p.extent - 1) / permutation.p_piece + 1;
    permutation.q_pieces = (permutation.q.extent - 1) / permutation.q_piece + 1;
    choose_transposition(&permutation, total, td_isa_resolve(exec->isa));

    int64_t pieces = permutation.p_pieces * permutation.q_pieces;
    for (int i = 0; i < permutation.n_outer; i++)
        pieces *= permutation.outer[i].extent;
    const int64_t piece_bytes = permutation.p_piece * permutation.q_piece * permutation.width;
    return td_exec_for(exec, pieces,
                       total <= RANGE_BYTES ? pieces : (RANGE_BYTES - 1) / piece_bytes + 1,
                       run_range, &permutation, err);
}
