#include "kernels/einsum/gemm.h"

#include "kernels/einsum/convert.h"
#include "kernels/einsum/gemm_kernels.h"
#include "kernels/einsum/workspace.h"
#include "kernels/integers.h"

#include <assert.h>
#include <string.h>

/* ---- The nest as a product ------------------------------------------------------------------ */

/* One dimension of the product: the loops that make it up. */
struct dimension {
    int rank;
    int64_t size;
    int64_t extent[TD_MAX_LOOPS];
    int64_t stride[3][TD_MAX_LOOPS]; /* by TD_A, TD_B, TD_C */
    bool affine[3];                  /* are offsets all multiples of one step? */
    int64_t step[3];
};

struct product {
    struct dimension batch, m, n, k;
    int operand[3]; /* which of the nest's operands is A, is B: M and N may change places */
    td_dtype dtype[3];
    bool native[3];    /* stored as it is computed in */
    int64_t size[3];   /* bytes of an element */
    td_gemm_real real; /* what it is computed in, */
    int64_t parts;     /* in reals for each number: 2 for complex ones */
    int64_t real_size;
    int64_t depth;  /* numbers along k in one of a packed panel: 2 for TD_GEMM_BF16 */
    double item_ns; /* estimate of one of the batch on one thread */
};

static void dimension_add(struct dimension *to, const struct td_loop *loop)
{
    to->size *= loop->extent;
    to->extent[to->rank] = loop->extent;
    for (int i = TD_A; i <= TD_C; i++)
        to->stride[i][to->rank] = loop->stride[i];
    to->rank++;
}

static void dimension_finish(struct dimension *dimension)
{
    const int last = dimension->rank - 1;
    for (int i = TD_A; i <= TD_C; i++) {
        dimension->affine[i] = true;
        dimension->step[i] = last < 0 ? 1 : dimension->stride[i][last];
        for (int l = last; l > 0; l--)
            if (dimension->stride[i][l - 1] != dimension->stride[i][l] * dimension->extent[l])
                dimension->affine[i] = false;
    }
}

/* Offsets of positions [begin, begin + n). */
static void fill_offsets(const struct dimension *dimension, int operand, int64_t begin, int64_t n,
                         int64_t *offsets)
{
    if (dimension->affine[operand]) {
        const int64_t step = dimension->step[operand];
        for (int64_t i = 0; i < n; i++)
            offsets[i] = (begin + i) * step;
        return;
    }
    const int last = dimension->rank - 1;
    const int64_t *extent = dimension->extent, *stride = dimension->stride[operand];
    int64_t position[TD_MAX_LOOPS], offset = 0;
    for (int l = last; l >= 0; l--) {
        position[l] = begin % extent[l];
        begin /= extent[l];
        offset += position[l] * stride[l];
    }
    for (int64_t i = 0; i < n;) {
        for (; position[last] < extent[last] && i < n; position[last]++, i++) {
            offsets[i] = offset;
            offset += stride[last];
        }
        for (int l = last; l > 0 && position[l] == extent[l]; l--) {
            offset += stride[l - 1] - extent[l] * stride[l];
            position[l] = 0;
            position[l - 1]++;
        }
    }
}

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* What it costs, in vector operations, to lay vectors along n: the lanes that are wasted, and
 * results that are not contiguous in C and go there one by one. */
static double cost_along(const struct dimension *n, const struct dimension *m, int64_t k,
                         int64_t lanes)
{
    const double vectors = (double)m->size * (double)ceil_div(n->size, lanes);
    const bool contiguous = n->rank == 0 || n->stride[TD_C][n->rank - 1] == 1;
    return vectors * (double)k + (contiguous ? 0 : (double)m->size * (double)n->size);
}

static void exchange(struct product *p)
{
    const struct dimension m = p->m;
    p->m = p->n;
    p->n = m;
    p->operand[TD_A] = TD_B;
    p->operand[TD_B] = TD_A;
    struct dimension *all[] = { &p->batch, &p->m, &p->n, &p->k };
    for (int i = 0; i < 4; i++)
        for (int l = 0; l < all[i]->rank; l++) {
            const int64_t a = all[i]->stride[TD_A][l];
            all[i]->stride[TD_A][l] = all[i]->stride[TD_B][l];
            all[i]->stride[TD_B][l] = a;
        }
}

/* False when the nest is no product of matrices. */
static bool split_loops(struct product *p, const struct td_contraction *contraction)
{
    struct dimension *all[] = { &p->batch, &p->m, &p->n, &p->k };
    for (int i = 0; i < 4; i++) {
        all[i]->rank = 0;
        all[i]->size = 1;
    }
    for (int i = 0; i < contraction->rank; i++) {
        const struct td_loop *loop = &contraction->loops[i];
        const bool a = loop->stride[TD_A] != 0, b = loop->stride[TD_B] != 0,
                   c = loop->stride[TD_C] != 0;
        if (loop->extent == 1)
            continue;
        if (a && b)
            dimension_add(c ? &p->batch : &p->k, loop);
        else if (c && (a || b))
            dimension_add(a ? &p->m : &p->n, loop);
        else
            return false;
    }
    return true;
}

/* Products of reals in a nanosecond on one thread, by td_gemm_real: about what AVX2 and AVX-512
 * reach. They decide what is worth sharing, not what comes out. */
static const double rates[TD_GEMM_REAL_COUNT] = { 45, 22, 20, 6, 90 };

static void pieces_to_batch(struct dimension *batch, struct dimension *side)
{
    const int last = side->rank - 1;
    if (last <= 0)
        return;
    for (int l = 0; l < last; l++) {
        const struct td_loop loop = {
            .extent = side->extent[l],
            .stride = { side->stride[TD_A][l], side->stride[TD_B][l], side->stride[TD_C][l] },
        };
        dimension_add(batch, &loop);
    }
    const struct td_loop rest = {
        .extent = side->extent[last],
        .stride = { side->stride[TD_A][last], side->stride[TD_B][last], side->stride[TD_C][last] },
    };
    side->rank = 0;
    side->size = 1;
    dimension_add(side, &rest);
}

/* A product whose C lies in pieces is taken as a batch of the pieces where these are large enough,
 * so that tiles go straight to C. With a long k it is not worth packing so much more. */
static void split_pieces(struct product *p)
{
    enum { LEAST_PIECE = 48, LONG_K = 256 };
    const struct dimension *m = &p->m, *n = &p->n;
    const bool whole = m->rank < 2 && n->rank < 2;
    if (whole || m->rank == 0 || n->rank == 0 || p->k.size >= LONG_K ||
        m->extent[m->rank - 1] < LEAST_PIECE || n->extent[n->rank - 1] < LEAST_PIECE)
        return;
    pieces_to_batch(&p->batch, &p->m);
    pieces_to_batch(&p->batch, &p->n);
}

static void product_make(struct product *p, const struct td_contraction *contraction)
{
    static const struct {
        td_gemm_real real;
        int parts, size;
    } computes[TD_COMPUTE_COUNT] = {
        [TD_COMPUTE_F32] = { TD_GEMM_F32, 1, 4 }, [TD_COMPUTE_F64] = { TD_GEMM_F64, 1, 8 },
        [TD_COMPUTE_U32] = { TD_GEMM_U32, 1, 4 }, [TD_COMPUTE_U64] = { TD_GEMM_U64, 1, 8 },
        [TD_COMPUTE_C64] = { TD_GEMM_F32, 2, 4 }, [TD_COMPUTE_C128] = { TD_GEMM_F64, 2, 8 },
    };
    const bool is_product = split_loops(p, contraction);
    assert(is_product);
    (void)is_product;
    const td_compute compute = td_compute_of(contraction->dtype[TD_A]);
    p->real = computes[compute].real;
    p->parts = computes[compute].parts;
    p->real_size = computes[compute].size;
    p->depth = 1;
    for (int i = TD_A; i <= TD_C; i++)
        p->operand[i] = i;
    const int64_t lanes = TD_GEMM_TILE_BYTES / TD_GEMM_VECTORS / (p->real_size * p->parts);
    if (cost_along(&p->m, &p->n, p->k.size, lanes) < cost_along(&p->n, &p->m, p->k.size, lanes))
        exchange(p);
    split_pieces(p);
    for (int i = TD_A; i <= TD_C; i++) {
        p->dtype[i] = contraction->dtype[p->operand[i]];
        p->native[i] = td_compute_is_native(p->dtype[i]);
        p->size[i] = (int64_t)td_dtype_info(p->dtype[i])->size;
    }
    dimension_finish(&p->batch);
    dimension_finish(&p->m);
    dimension_finish(&p->n);
    dimension_finish(&p->k);
    p->item_ns = (double)p->m.size * (double)p->n.size * (double)p->k.size *
                 (double)(p->parts * p->parts) / rates[p->real];
}

/* Products of bfloat16 as bfloat16: called when the blocks are made, which are those of float32,
 * and so is the workspace. */
static void product_use_pairs(struct product *p)
{
    p->item_ns *= rates[p->real] / rates[TD_GEMM_BF16];
    p->real = TD_GEMM_BF16;
    p->depth = 2;
    p->native[TD_A] = p->native[TD_B] = true;
}

/* Rows of a panel of k rows, packed. */
static int64_t packed_rows(const struct product *p, int64_t k)
{
    return ceil_div(k, p->depth);
}

/* Below 4 rows or columns a tile is mostly empty, and below 2 products there is nothing to sum. */
#define MIN_SIDE 4
#define MIN_K    2

bool td_gemm_suits(const struct td_contraction *contraction)
{
    struct product p;
    return contraction->has_b && contraction->dtype[TD_A] != TD_DTYPE_BOOL &&
           contraction->dtype[TD_A] != TD_DTYPE_STRING && split_loops(&p, contraction) &&
           p.m.size >= MIN_SIDE && p.n.size >= MIN_SIDE && p.k.size >= MIN_K;
}

/* ---- Blocks --------------------------------------------------------------------------------- */

/* Rows of A that are packed together, at most, and their length in reals: what is packed of A stays
 * in the second cache. At 1024^3 on Zen 4, a length of 256, 384, 512 gave 104, 105, 107 GFLOP/s in
 * float32; at 2048^3, 128 and 184 rows gave 199 and 210 on two threads, in float64 96 and 104. */
#define BLOCK_ROWS   184
#define BLOCK_K      512
/* Columns of a result that is not native: they are summed up beside it. */
#define NARROW_WIDTH 256
/* Packed B, shared by all threads, stays below this unless a single column of panels is more. */
#define SHARED_BYTES ((int64_t)16 << 20)
/* Packed B of one of the batch, where each thread packs for itself. */
#define OWN_BYTES    ((int64_t)512 << 10)
/* A panel on its way to be widened or expanded: at the most a block of k of complex128, whose k is
 * half as long. */
#define RAW_BYTES    ((int64_t)TD_GEMM_MAX_ROWS * BLOCK_K * 8)
/* Fewer columns than this, and reading a row of A costs about as much as multiplying it. */
#define FEW_COLUMNS  256
/* A product that takes less than this is not worth waking a thread for, and no range is to be much
 * shorter than RANGE_NS nor longer than LONGEST_NS. */
#define ALONE_NS     100e3
#define RANGE_NS     50e3
#define LONGEST_NS   8e6

/* What a thread needs beside A's block: at the beginning of its slot. */
struct scratch {
    int64_t m_a[BLOCK_ROWS], m_c[BLOCK_ROWS];
    int64_t n[TD_GEMM_MAX_COLUMNS], n_c[NARROW_WIDTH];
    int64_t k[BLOCK_K], k_run[BLOCK_K];
    _Alignas(64) char tile[TD_GEMM_MAX_ROWS * TD_GEMM_TILE_BYTES];
    _Alignas(64) char raw[RAW_BYTES + TD_GEMM_PANEL_SLACK];
};

/* How far a product is taken at a time: by its sizes alone. */
struct blocking {
    int64_t kc;      /* length of a block of k; every element's sum is cut here and nowhere else */
    int64_t n_chunk; /* packed B has so many columns, */
    int64_t k_chunk; /* so many rows (of numbers; a multiple of kc or all), */
    int64_t items;   /* of so many of the batch; 0: B is never shared */
    int64_t own_b;   /* bytes of B that a thread packs for itself; 0: never */
};

static int64_t round_up(int64_t a, int64_t b)
{
    return ceil_div(a, b) * b;
}

/* Bytes of packed B; saturates. Panels are as wide as any instruction set makes them. */
static int64_t packed_bytes(const struct product *p, int64_t k, int64_t n)
{
    int64_t row, bytes;
    if (__builtin_mul_overflow(n, p->parts * p->real_size, &row) ||
        __builtin_add_overflow(row, TD_GEMM_TILE_BYTES, &row) ||
        __builtin_mul_overflow(row / TD_GEMM_TILE_BYTES * TD_GEMM_TILE_BYTES, k, &bytes) ||
        __builtin_mul_overflow(bytes, p->parts, &bytes))
        return INT64_MAX / 4;
    return td_smaller(bytes, INT64_MAX / 4);
}

static void blocking_make(struct blocking *blocking, const struct product *p)
{
    const int64_t k = p->k.size, n = p->n.size;
    const int64_t longest = BLOCK_K / p->parts;
    const int64_t panel = TD_GEMM_TILE_BYTES / p->real_size / p->parts;
    blocking->kc = td_smaller(k, round_up(ceil_div(k, ceil_div(k, longest)), 8));

    const int64_t bytes = packed_bytes(p, k, n);
    blocking->own_b = bytes <= OWN_BYTES ? bytes : 0;
    blocking->items = 0;
    if (blocking->own_b && p->item_ns <= ALONE_NS)
        return;
    blocking->n_chunk = n;
    blocking->k_chunk = k;
    blocking->items = 1;
    if (bytes <= SHARED_BYTES) {
        blocking->items =
            td_larger(1, td_smaller(p->batch.size, SHARED_BYTES / td_larger(1, bytes)));
        return;
    }
    /* Results that are not native are rounded once: all of k, however few columns. */
    const int64_t column = packed_bytes(p, k, panel) / panel;
    if (!p->native[TD_C] || SHARED_BYTES / column >= 2048) {
        blocking->n_chunk = td_larger(panel, SHARED_BYTES / column / panel * panel);
        return;
    }
    blocking->n_chunk = td_smaller(n, 2048);
    const int64_t row = packed_bytes(p, 1, blocking->n_chunk);
    blocking->k_chunk = td_larger(1, SHARED_BYTES / row / blocking->kc) * blocking->kc;
}

static int64_t block_a_bytes(const struct product *p)
{
    return (BLOCK_ROWS + TD_GEMM_MAX_ROWS) * BLOCK_K * p->real_size + TD_GEMM_PANEL_SLACK;
}

struct td_workspace_need td_gemm_workspace(const struct td_contraction *contraction)
{
    struct product p;
    struct blocking blocking;
    product_make(&p, contraction);
    blocking_make(&blocking, &p);
    struct td_workspace_need need = { 0 };
    if (blocking.items > 0)
        need.shared = (uint64_t)packed_bytes(&p, td_smaller(blocking.k_chunk, p.k.size),
                                             td_smaller(blocking.n_chunk, p.n.size)) *
                      (uint64_t)blocking.items;
    need.per_thread = sizeof(struct scratch) + (uint64_t)block_a_bytes(&p) +
                      (p.native[TD_C] ? 0 : BLOCK_ROWS * NARROW_WIDTH * 8) +
                      (uint64_t)round_up(blocking.own_b, 64);
    need.alone = blocking.items == 0 && (double)p.batch.size * p.item_ns <= ALONE_NS;
    return need;
}

/* ---- Packing -------------------------------------------------------------------------------- */

/* A product that is being run. */
struct gemm {
    const struct product *p;
    const struct blocking *blocking;
    const struct td_gemm_isa *isa;
    const struct td_gemm_tiles *tiles;
    td_widen_fn *widen[2];
    td_narrow_fn *narrow;
    const char *a, *b;
    char *c;
    struct td_workspace *workspace;
    int64_t rows;    /* of a tile, at most */
    int64_t panel;   /* columns (numbers) of a panel of B */
    int64_t m_block; /* rows of a block of A */
    bool a_in_place, b_in_place;
    bool c_in_place; /* tiles go straight to C */
    /* The part that is being computed, where B is shared. */
    int64_t first_item, items, n0, n, k0, k, n_range;
};

static struct scratch *slot_scratch(void *slot)
{
    return slot;
}

static char *slot_block(void *slot)
{
    return (char *)slot + sizeof(struct scratch);
}

static char *slot_sums(const struct gemm *g, void *slot)
{
    return slot_block(slot) + block_a_bytes(g->p);
}

static char *slot_b(const struct gemm *g, void *slot)
{
    return slot_sums(g, slot) + (g->p->native[TD_C] ? 0 : BLOCK_ROWS * NARROW_WIDTH * 8);
}

static void fill_k(const struct gemm *g, struct scratch *scratch, int operand, int64_t k0,
                   int64_t k)
{
    fill_offsets(&g->p->k, operand, k0, k, scratch->k);
    scratch->k_run[k - 1] = 1;
    for (int64_t i = k - 1; i > 0; i--)
        scratch->k_run[i - 1] = scratch->k[i] - scratch->k[i - 1] == 1 ? scratch->k_run[i] + 1 : 1;
}

/* One panel, whose numbers stand `width` apart per k, at the offsets given; scratch->k is
 * filled. */
static void pack_panel(const struct gemm *g, struct scratch *scratch, int operand, const char *from,
                       const int64_t *offset, int64_t n, int64_t width, int64_t k, char *to)
{
    const struct product *p = g->p;
    const bool converts = !p->native[operand] || p->parts > 1;
    const bool pads = operand == TD_B;
    const int64_t lanes = g->tiles->lanes;
    const struct td_gemm_panel panel = {
        .to = converts ? scratch->raw : to,
        .width = width,
        .n = n,
        .padded = !pads      ? n
                  : converts ? width
                             : round_up(n, lanes),
        .k = k,
        .from = from,
        .offset = offset,
        .k_offset = scratch->k,
        .k_run = scratch->k_run,
    };
    g->isa->pack[__builtin_ctzll((unsigned long long)p->size[operand])](&panel);
    if (p->parts > 1)
        (operand == TD_A ? g->tiles->expand_a : g->tiles->expand_b)(to, scratch->raw, k, width);
    else if (converts)
        g->widen[operand](to, scratch->raw, 1, k * width);
}

/* Where packed B begins, for columns from n0 and rows from k0 on: blocks of kc rows, in each the
 * panels one after the other. */
struct packed_b {
    char *data;
    int64_t k0, n0, panels;
};

static char *packed_panel(const struct gemm *g, const struct packed_b *b, int64_t k, int64_t k_n,
                          int64_t n)
{
    const int64_t row = (int64_t)g->tiles->lanes * TD_GEMM_VECTORS * g->p->real_size * g->p->parts;
    return b->data + row * (packed_rows(g->p, k - b->k0) * b->panels +
                            packed_rows(g->p, k_n) * ((n - b->n0) / g->panel));
}

/* Panels of columns [n, n_end) of one block of k. */
static void pack_b(const struct gemm *g, struct scratch *scratch, const char *from,
                   const struct packed_b *b, int64_t k, int64_t k_n, int64_t n, int64_t n_end)
{
    fill_k(g, scratch, TD_B, k, k_n);
    for (; n < n_end; n += g->panel) {
        const int64_t columns = td_smaller(g->panel, n_end - n);
        fill_offsets(&g->p->n, TD_B, n, columns, scratch->n);
        pack_panel(g, scratch, TD_B, from, scratch->n, columns, g->panel, k_n,
                   packed_panel(g, b, k, k_n, n));
    }
}

/* ---- Computing ------------------------------------------------------------------------------ */

/* Moves between a tile and its places in C; numbers of `size` bytes. */
static void move_row(char *c, const int64_t *offset, char *tile, int64_t n, int64_t size, bool to_c)
{
    if (offset[n - 1] - offset[0] == n - 1 && n > 1 && offset[1] - offset[0] == 1) {
        bool contiguous = true;
        for (int64_t i = 2; i < n; i++)
            contiguous &= offset[i] - offset[i - 1] == 1;
        if (contiguous) {
            if (to_c)
                memcpy(c + offset[0] * size, tile, (size_t)(n * size));
            else
                memcpy(tile, c + offset[0] * size, (size_t)(n * size));
            return;
        }
    }
#define MOVE(bytes)                                                                                \
    for (int64_t i = 0; i < n; i++) {                                                              \
        if (to_c)                                                                                  \
            memcpy(c + offset[i] * (bytes), tile + i * (bytes), bytes);                            \
        else                                                                                       \
            memcpy(tile + i * (bytes), c + offset[i] * (bytes), bytes);                            \
    }
    switch (size) {
    case 1:
        MOVE(1)
        break;
    case 2:
        MOVE(2)
        break;
    case 4:
        MOVE(4)
        break;
    case 8:
        MOVE(8)
        break;
    default:
        MOVE(16)
    }
#undef MOVE
}

/* A part of one product: rows [m0, m0 + m), columns [n0, n0 + n), over k in [k0, k0 + k). */
struct part {
    const char *a, *b;
    char *c;
    int64_t m0, m, n0, n, k0, k;
    const struct packed_b *packed;
    bool a_packed; /* by the part beside it */
};

static void pack_a(const struct gemm *g, void *slot, const struct part *part, int64_t k,
                   int64_t k_n, int64_t rows)
{
    struct scratch *scratch = slot_scratch(slot);
    char *to = slot_block(slot);
    const int64_t row = g->p->parts * g->p->real_size;
    fill_k(g, scratch, TD_A, k, k_n);
    for (int64_t i = 0; i < part->m; i += rows)
        pack_panel(g, scratch, TD_A, part->a, scratch->m_a + i, td_smaller(rows, part->m - i), rows,
                   k_n, to + i * packed_rows(g->p, k_n) * row);
}

/* A tile by way of the slot, for C of any strides. */
static void scatter_tile(const struct gemm *g, struct scratch *scratch, const struct part *part,
                         struct td_gemm_tile *tile, td_gemm_tile_fn *fn, int64_t i, int64_t rows,
                         int64_t columns)
{
    const int64_t size = g->p->size[TD_C];
    tile->c = scratch->tile;
    tile->c_row = TD_GEMM_TILE_BYTES / g->p->real_size;
    for (int64_t r = 0; r < rows && tile->add; r++)
        move_row(part->c + scratch->m_c[i + r] * size, scratch->n_c,
                 scratch->tile + r * TD_GEMM_TILE_BYTES, columns, size, false);
    fn(tile);
    for (int64_t r = 0; r < rows; r++)
        move_row(part->c + scratch->m_c[i + r] * size, scratch->n_c,
                 scratch->tile + r * TD_GEMM_TILE_BYTES, columns, size, true);
}

/* The strides of those operands that tiles use where they lie. */
static void tile_strides_in_place(const struct gemm *g, struct td_gemm_tile *tile)
{
    const struct product *p = g->p;
    tile->a_row = p->m.step[TD_A] * p->parts;
    tile->a_k = p->parts > 1 ? 1 : p->k.step[TD_A];
    tile->b_k = p->k.step[TD_B];
    tile->c_row = p->m.step[TD_C] * p->parts;
}

/* All rows of the part against one panel of B. */
static void multiply_panel(const struct gemm *g, void *slot, const struct part *part, int64_t k,
                           int64_t k_n, int64_t rows, int64_t n)
{
    const struct product *p = g->p;
    struct scratch *scratch = slot_scratch(slot);
    const int64_t columns = td_smaller(g->panel, part->n0 + part->n - n);
    const int64_t reals = columns * p->parts, real = p->real_size;
    const bool wide = reals > g->tiles->lanes;
    struct td_gemm_tile tile = {
        .k = packed_rows(p, k_n) * p->parts,
        .columns = (int)reals,
        .add = k > 0,
    };
    tile_strides_in_place(g, &tile);
    if (g->b_in_place) {
        tile.b = part->b + (k * p->k.step[TD_B] + n) * real;
    } else {
        tile.b = packed_panel(g, part->packed, k, k_n, n);
        tile.b_k = (int64_t)g->tiles->lanes * TD_GEMM_VECTORS;
    }
    /* In place, B is in the second cache or not worth a fetch. */
    const int64_t next = g->b_in_place ? 0 : tile.k * tile.b_k * real;
    if (!g->c_in_place && p->native[TD_C])
        fill_offsets(&p->n, TD_C, n, columns, scratch->n_c);
    for (int64_t i = 0; i < part->m; i += rows) {
        const int64_t rows_here = td_smaller(rows, part->m - i);
        td_gemm_tile_fn *fn = g->tiles->tile[rows_here - 1][wide];
        const int64_t share = i / rows % TD_GEMM_NEXT_SHARES;
        tile.next = (const char *)tile.b + next + next / TD_GEMM_NEXT_SHARES * share;
        if (g->a_in_place) {
            tile.a =
                part->a + ((part->m0 + i) * p->m.step[TD_A] + k * p->k.step[TD_A]) * p->size[TD_A];
        } else {
            tile.a = slot_block(slot) + i * packed_rows(p, k_n) * p->parts * real;
            tile.a_row = 1;
            tile.a_k = rows;
        }
        if (!p->native[TD_C]) {
            tile.c_row = NARROW_WIDTH;
            tile.c = slot_sums(g, slot) + (i * NARROW_WIDTH + n - part->n0) * real;
            fn(&tile);
        } else if (g->c_in_place) {
            tile.c = part->c + ((part->m0 + i) * p->m.step[TD_C] + n) * p->size[TD_C];
            fn(&tile);
        } else {
            scatter_tile(g, scratch, part, &tile, fn, i, rows_here, columns);
        }
    }
}

/* Sums beside C, rounded or cut to its dtype. */
static void narrow_part(const struct gemm *g, void *slot, const struct part *part)
{
    struct scratch *scratch = slot_scratch(slot);
    const struct dimension *n = &g->p->n;
    const int64_t size = g->p->size[TD_C];
    const char *sums = slot_sums(g, slot);
    for (int64_t i = 0; i < part->m; i++, sums += NARROW_WIDTH * g->p->real_size) {
        char *c = part->c + scratch->m_c[i] * size;
        if (n->affine[TD_C]) {
            g->narrow(c + part->n0 * n->step[TD_C] * size, n->step[TD_C], sums, part->n);
        } else {
            fill_offsets(n, TD_C, part->n0, part->n, scratch->n_c);
            g->narrow(scratch->raw, 1, sums, part->n);
            move_row(c, scratch->n_c, scratch->raw, part->n, size, true);
        }
    }
}

static void multiply(const struct gemm *g, void *slot, const struct part *part)
{
    const struct product *p = g->p;
    struct scratch *scratch = slot_scratch(slot);
    const int64_t rows = ceil_div(part->m, ceil_div(part->m, g->rows));
    if (!g->a_in_place)
        fill_offsets(&p->m, TD_A, part->m0, part->m, scratch->m_a);
    if (!g->c_in_place)
        fill_offsets(&p->m, TD_C, part->m0, part->m, scratch->m_c);
    for (int64_t k = part->k0; k < part->k0 + part->k; k += g->blocking->kc) {
        const int64_t k_n = td_smaller(g->blocking->kc, part->k0 + part->k - k);
        if (!g->a_in_place && !part->a_packed)
            pack_a(g, slot, part, k, k_n, rows);
        for (int64_t n = part->n0; n < part->n0 + part->n; n += g->panel)
            multiply_panel(g, slot, part, k, k_n, rows, n);
    }
    if (!p->native[TD_C])
        narrow_part(g, slot, part);
}

/* The same, in parts as wide as sums beside C may be. */
static void multiply_wide(const struct gemm *g, void *slot, const struct part *part)
{
    if (g->p->native[TD_C]) {
        multiply(g, slot, part);
        return;
    }
    struct part some = *part;
    for (; some.n0 < part->n0 + part->n; some.n0 += NARROW_WIDTH) {
        some.n = td_smaller(NARROW_WIDTH, part->n0 + part->n - some.n0);
        multiply(g, slot, &some);
        some.a_packed = part->k <= g->blocking->kc;
    }
}

/* ---- One of the batch after the other ------------------------------------------------------- */

struct item {
    const char *a, *b;
    char *c;
};

/* A walk along the batch. */
struct walk {
    const struct dimension *batch;
    int64_t position[TD_MAX_LOOPS], offset[3];
};

static void walk_begin(struct walk *walk, const struct dimension *batch, int64_t i)
{
    walk->batch = batch;
    for (int operand = TD_A; operand <= TD_C; operand++)
        walk->offset[operand] = 0;
    for (int l = batch->rank - 1; l >= 0; l--) {
        walk->position[l] = i % batch->extent[l];
        i /= batch->extent[l];
        for (int operand = TD_A; operand <= TD_C; operand++)
            walk->offset[operand] += walk->position[l] * batch->stride[operand][l];
    }
}

static void walk_on(struct walk *walk)
{
    const struct dimension *batch = walk->batch;
    for (int l = batch->rank - 1; l >= 0; l--) {
        const bool ends = ++walk->position[l] == batch->extent[l];
        const int64_t back = ends ? batch->extent[l] : 0;
        for (int operand = TD_A; operand <= TD_C; operand++)
            walk->offset[operand] += (1 - back) * batch->stride[operand][l];
        if (!ends)
            return;
        walk->position[l] = 0;
    }
}

static struct item walk_item(const struct gemm *g, const struct walk *walk)
{
    const struct product *p = g->p;
    return (struct item){ g->a + walk->offset[TD_A] * p->size[TD_A],
                          g->b + walk->offset[TD_B] * p->size[TD_B],
                          g->c + walk->offset[TD_C] * p->size[TD_C] };
}

static struct item item_at(const struct gemm *g, int64_t i)
{
    struct walk walk;
    walk_begin(&walk, &g->p->batch, i);
    return walk_item(g, &walk);
}

static void multiply_item(const struct gemm *g, void *slot, const struct item *item)
{
    const struct product *p = g->p;
    const struct packed_b packed = { slot_b(g, slot), 0, 0, ceil_div(p->n.size, g->panel) };
    if (!g->b_in_place)
        for (int64_t k = 0; k < p->k.size; k += g->blocking->kc)
            pack_b(g, slot_scratch(slot), item->b, &packed, k,
                   td_smaller(g->blocking->kc, p->k.size - k), 0, p->n.size);
    struct part part = {
        .a = item->a, .b = item->b, .c = item->c, .n = p->n.size, .k = p->k.size, .packed = &packed
    };
    for (; part.m0 < p->m.size; part.m0 += g->m_block) {
        part.m = td_smaller(g->m_block, p->m.size - part.m0);
        multiply_wide(g, slot, &part);
    }
}

/* Where nothing is packed or scattered, an item is nothing but its tiles: 4 x 4 x 4 takes about 15
 * ns, and the same through multiply_item twice that. */
static void item_in_place_range(void *context, int64_t begin, int64_t end)
{
    const struct gemm *g = context;
    const struct product *p = g->p;
    const int64_t m = p->m.size, n = p->n.size, rows = ceil_div(m, ceil_div(m, g->rows));
    const int64_t a_step = rows * p->m.step[TD_A] * p->size[TD_A],
                  c_step = rows * p->m.step[TD_C] * p->size[TD_C];
    struct td_gemm_tile tile = { .k = p->k.size * p->parts };
    tile_strides_in_place(g, &tile);
    struct walk walk;
    walk_begin(&walk, &p->batch, begin);
    for (int64_t i = begin; i < end; i++, walk_on(&walk)) {
        const struct item item = walk_item(g, &walk);
        for (int64_t column = 0; column < n; column += g->panel) {
            const int64_t reals = td_smaller(g->panel, n - column) * p->parts;
            tile.columns = (int)reals;
            tile.a = item.a;
            tile.b = item.b + column * p->size[TD_B];
            tile.next = tile.b;
            tile.c = item.c + column * p->size[TD_C];
            for (int64_t left = m; left > 0; left -= rows) {
                g->tiles->tile[td_smaller(rows, left) - 1][reals > g->tiles->lanes](&tile);
                tile.a = (const char *)tile.a + a_step;
                tile.c = (char *)tile.c + c_step;
            }
        }
    }
}

static void item_range(void *context, int64_t begin, int64_t end)
{
    const struct gemm *g = context;
    const int number = td_workspace_claim(g->workspace);
    void *slot = td_workspace_slot(g->workspace, number);
    struct walk walk;
    walk_begin(&walk, &g->p->batch, begin);
    for (int64_t i = begin; i < end; i++, walk_on(&walk)) {
        const struct item item = walk_item(g, &walk);
        multiply_item(g, slot, &item);
    }
    td_workspace_release(g->workspace, number);
}

/* Items, or parts of one, in a range. */
static int64_t grain_of(int64_t count, double each_ns)
{
    if ((double)count * each_ns <= ALONE_NS)
        return count;
    return each_ns >= RANGE_NS ? 1 : (int64_t)(RANGE_NS / each_ns + 0.5);
}

static td_status run_items(struct gemm *g, struct td_exec *exec, struct td_error *err)
{
    const struct product *p = g->p;
    g->m_block = td_smaller(p->m.size, round_up(BLOCK_ROWS - 16, g->rows));
    const bool in_place =
        g->a_in_place && g->b_in_place && g->c_in_place && p->k.size <= g->blocking->kc;
    return td_exec_for(exec, p->batch.size, grain_of(p->batch.size, p->item_ns),
                       in_place ? item_in_place_range : item_range, g, err);
}

/* ---- All threads on a few of the batch ------------------------------------------------------ */

/* Panels of B that one range packs. */
#define PACK_PANELS 4

static struct packed_b shared_b(const struct gemm *g, int64_t i)
{
    const int64_t panels = ceil_div(g->n, g->panel);
    const int64_t row = (int64_t)g->tiles->lanes * TD_GEMM_VECTORS * g->p->real_size * g->p->parts;
    return (struct packed_b){ g->workspace->shared + i * row * packed_rows(g->p, g->k) * panels,
                              g->k0, g->n0, panels };
}

static void pack_range(void *context, int64_t begin, int64_t end)
{
    const struct gemm *g = context;
    const int64_t width = g->panel * PACK_PANELS;
    const int64_t groups = ceil_div(g->n, width), blocks = ceil_div(g->k, g->blocking->kc);
    const int number = td_workspace_claim(g->workspace);
    struct scratch *scratch = slot_scratch(td_workspace_slot(g->workspace, number));
    for (int64_t i = begin; i < end; i++) {
        const int64_t n = g->n0 + i % groups * width;
        const int64_t k = g->k0 + i / groups % blocks * g->blocking->kc;
        const int64_t which = i / groups / blocks;
        const struct packed_b packed = shared_b(g, which);
        pack_b(g, scratch, item_at(g, g->first_item + which).b, &packed, k,
               td_smaller(g->blocking->kc, g->k0 + g->k - k), n,
               td_smaller(n + width, g->n0 + g->n));
    }
    td_workspace_release(g->workspace, number);
}

static void multiply_range(void *context, int64_t begin, int64_t end)
{
    const struct gemm *g = context;
    const int64_t strips = ceil_div(g->p->m.size, g->m_block), chunks = ceil_div(g->n, g->n_range);
    const int number = td_workspace_claim(g->workspace);
    void *slot = td_workspace_slot(g->workspace, number);
    for (int64_t i = begin; i < end; i++) {
        const int64_t which = i / chunks / strips;
        const struct item item = item_at(g, g->first_item + which);
        const struct packed_b packed = shared_b(g, which);
        struct part part = {
            .a = item.a,
            .b = item.b,
            .c = item.c,
            .m0 = i / chunks % strips * g->m_block,
            .n0 = g->n0 + i % chunks * g->n_range,
            .k0 = g->k0,
            .k = g->k,
            .packed = &packed,
        };
        part.m = td_smaller(g->m_block, g->p->m.size - part.m0);
        part.n = td_smaller(g->n_range, g->n0 + g->n - part.n0);
        multiply_wide(g, slot, &part);
    }
    td_workspace_release(g->workspace, number);
}

/* Rows and columns that one task takes: B is packed once for all, but A by every task for itself,
 * so tasks are as wide as the number of them, and the longest that one may take, allow. */
static void cut_tasks(struct gemm *g, int width)
{
    const struct product *p = g->p;
    const int64_t m = p->m.size, most = round_up(BLOCK_ROWS - 16, g->rows);
    int64_t strips = ceil_div(m, most);
    /* Tiles of fewer rows are slower, but every chunk of columns packs A again: a few columns do not
     * pay for that. */
    const int64_t least_rows = (g->n < FEW_COLUMNS ? 2LL : 4LL) * g->rows;
    if (g->items * strips < 8LL * width && m / round_up(strips, width) >= least_rows)
        strips = round_up(strips, width);
    /* The rates are those of long vectors: SSE2 takes about ten times as long. */
    const double longest_ns =
        LONGEST_NS * (double)(g->tiles->lanes * p->real_size) / (TD_GEMM_TILE_BYTES / 2.0);
    /* Where k is so long that not even one panel is done in time. */
    const double column_ns = p->item_ns / (double)p->n.size / (double)p->k.size * (double)g->k;
    const double panel_ns = column_ns * (double)td_smaller(g->n, g->panel);
    if (panel_ns > longest_ns * (double)strips)
        strips = td_smaller(m, (int64_t)(panel_ns / longest_ns) + 1);
    g->m_block = ceil_div(m, strips);
    const double row_ns = column_ns / (double)strips;
    int64_t chunks = ceil_div(4LL * width, g->items * strips);
    if (g->items * strips >= 2LL * width)
        chunks = 1;
    int64_t columns = td_larger(ceil_div(g->n, chunks), (int64_t)(RANGE_NS / row_ns));
    columns = td_smaller(columns, td_larger(1, (int64_t)(longest_ns / row_ns)));
    g->n_range = td_smaller(g->n, round_up(columns, g->panel));
}

static td_status run_chunk(struct gemm *g, struct td_exec *exec, struct td_error *err)
{
    const struct product *p = g->p;
    if (!g->b_in_place) {
        const int64_t count =
            g->items * ceil_div(g->n, g->panel * PACK_PANELS) * ceil_div(g->k, g->blocking->kc);
        /* A number in about a nanosecond. */
        const double each_ns = (double)g->items * (double)g->n * (double)g->k / (double)count;
        td_status status = td_exec_for(exec, count, grain_of(count, each_ns), pack_range, g, err);
        if (status != TD_OK)
            return status;
    }
    cut_tasks(g, exec->width);
    const int64_t count = g->items * ceil_div(p->m.size, g->m_block) * ceil_div(g->n, g->n_range);
    const double each_ns = p->item_ns * (double)g->items / (double)count * (double)g->n /
                           (double)p->n.size * (double)g->k / (double)p->k.size;
    return td_exec_for(exec, count, grain_of(count, each_ns), multiply_range, g, err);
}

static td_status run_shared(struct gemm *g, struct td_exec *exec, struct td_error *err)
{
    const struct product *p = g->p;
    const struct blocking *blocking = g->blocking;
    for (int64_t i = 0; i < p->batch.size; i += blocking->items) {
        g->first_item = i;
        g->items = td_smaller(blocking->items, p->batch.size - i);
        for (int64_t n = 0; n < p->n.size; n += blocking->n_chunk) {
            g->n0 = n;
            g->n = td_smaller(blocking->n_chunk, p->n.size - n);
            for (int64_t k = 0; k < p->k.size; k += blocking->k_chunk) {
                g->k0 = k;
                g->k = td_smaller(blocking->k_chunk, p->k.size - k);
                td_status status = run_chunk(g, exec, err);
                if (status != TD_OK)
                    return status;
            }
        }
    }
    return TD_OK;
}

static const struct td_gemm_isa *kernels_of(td_isa isa)
{
#ifdef __x86_64__
    if (isa >= TD_ISA_AVX512)
        return &td_gemm_avx512;
    if (isa == TD_ISA_AVX2)
        return &td_gemm_avx2;
#else
    (void)isa;
#endif
    return &td_gemm_generic;
}

/* A and B are used where they lie when that costs less than to pack them: while they stay in the
 * second cache, and their lines do not all fall on the same few places of the first one, as at
 * strides that are multiples of 4096 bytes (float32 on Zen 4, GFLOP/s packed and in place: 192^3,
 * 98 and 106; 384^3, 96 and 105; 512^3, 99 and 91); and when they are used so few times that
 * packing would cost as much as the product. */
#define IN_PLACE_BYTES ((int64_t)1300 << 10)
#define CACHE_STRIDE   4096
#define CACHE_WAYS     8
#define FEW_USES       32

/* `side` is the operand's dimension beside k; each number is used `uses` times, and `rows` of them
 * are read in turn. */
static bool stays_in_place(const struct dimension *side, const struct dimension *k, int operand,
                           const struct product *p, int64_t uses, int64_t rows)
{
    if (!p->native[operand] || p->depth > 1 || !side->affine[operand] || !k->affine[operand])
        return false;
    const int64_t stride = td_larger(side->step[operand], k->step[operand]) * p->size[operand];
    const int64_t used = side->size * k->size * p->size[operand];
    return (used <= IN_PLACE_BYTES || uses <= FEW_USES) &&
           (stride % CACHE_STRIDE != 0 || rows <= CACHE_WAYS);
}

static bool a_stays_in_place(const struct product *p, int64_t most_rows)
{
    const int64_t rows = ceil_div(p->m.size, ceil_div(p->m.size, most_rows));
    return (p->parts == 1 || p->k.step[TD_A] == 1) &&
           stays_in_place(&p->m, &p->k, TD_A, p, p->n.size, rows);
}

/* Where few columns use A, tiles of fewer rows cost less than packing it does: 1024 x 16 x 1024 in
 * float32 takes 297 us so, and 455 us packed. */
static void choose_rows(struct gemm *g)
{
    const struct product *p = g->p;
    g->rows = g->tiles->rows;
    g->a_in_place = a_stays_in_place(p, g->rows);
    if (!g->a_in_place && p->n.size <= FEW_USES && a_stays_in_place(p, CACHE_WAYS)) {
        g->rows = td_smaller(g->rows, CACHE_WAYS);
        g->a_in_place = true;
    }
}

td_status td_gemm_run(const struct td_contraction *contraction, const void *a, const void *b,
                      void *c, struct td_workspace *workspace, struct td_exec *exec,
                      struct td_error *err)
{
    struct product p;
    struct blocking blocking;
    product_make(&p, contraction);
    blocking_make(&blocking, &p);
    const td_isa isa = td_isa_resolve(exec->isa);
    if (isa >= TD_ISA_AVX512_BF16 && p.dtype[TD_A] == TD_DTYPE_BFLOAT16 &&
        p.dtype[TD_B] == TD_DTYPE_BFLOAT16)
        product_use_pairs(&p);
    struct gemm g = {
        .p = &p,
        .blocking = &blocking,
        .isa = kernels_of(isa),
        .a = p.operand[TD_A] == TD_A ? a : b,
        .b = p.operand[TD_B] == TD_B ? b : a,
        .c = c,
        .workspace = workspace,
    };
#ifdef __x86_64__
    /* Otherwise the same sums by vectors of half the length, of which twice as many go through at a
     * time. */
    if (p.real == TD_GEMM_BF16)
        g.isa = &td_gemm_avx512_bf16;
    else if (isa >= TD_ISA_AVX512 &&
             p.n.size * p.parts <= td_gemm_avx512_short.tiles[p.real]->lanes)
        g.isa = &td_gemm_avx512_short;
#endif
    g.tiles = g.isa->tiles[p.real];
    g.panel = (int64_t)g.tiles->lanes * TD_GEMM_VECTORS / p.parts;
    for (int i = TD_A; i <= TD_B; i++)
        g.widen[i] = p.native[i] ? NULL : td_widen(p.dtype[i], isa);
    g.narrow = p.native[TD_C] ? NULL : td_narrow(p.dtype[TD_C], isa);
    choose_rows(&g);
    /* Rows of B that only a few tiles use need not stay in any cache. */
    g.b_in_place =
        stays_in_place(&p.n, &p.k, TD_B, &p, p.m.size, p.m.size <= FEW_USES ? 1 : p.k.size) &&
        p.parts == 1 && p.n.step[TD_B] == 1 && (g.isa->masks || p.n.size % g.tiles->lanes == 0);
    g.c_in_place = p.native[TD_C] && p.m.affine[TD_C] && p.n.affine[TD_C] && p.n.step[TD_C] == 1;

    if (blocking.items == 0 ||
        (blocking.own_b && p.item_ns <= LONGEST_NS / 2 && p.batch.size >= 4LL * exec->width))
        return run_items(&g, exec, err);
    return run_shared(&g, exec, err);
}
