#include "kernels/einsum/gemm/blocking.h"

#include "kernels/integers.h"

/* Packed B, shared by all threads, stays below this unless a single column of panels is more. */
#define SHARED_BYTES ((int64_t)16 << 20)
/* Packed B of one of the batch, where each thread packs for itself. */
#define OWN_BYTES    ((int64_t)512 << 10)

/* A product of no more numbers than SMALL_C, in which few ranges of rows and columns find place, is
 * cut along k where this is LONG_K or more: into pieces of about PIECE_NS, to which adding their
 * sums is a fiftieth more at most, or longer ones, so that the sums of one fit SHARED_BYTES. Its rows are
 * one block, its columns one row of sums. Two threads, bench_gemm on Zen 4: 16 x 16 x 65536 took 303
 * us uncut and 155 cut, 64 x 64 x 262144 took 30.8 and 17.0 ms. */
#define SMALL_C    ((int64_t)64 * 64)
#define SMALL_SIDE 128
#define LONG_K     16384
#define PIECE_NS   30e3
_Static_assert(SMALL_SIDE <= TD_GEMM_BLOCK_ROWS && SMALL_SIDE <= TD_GEMM_NARROW_WIDTH,
               "what one thread holds of rows and columns");

/* Bytes of packed B; saturates. Panels are as wide as any instruction set makes them. */
static int64_t packed_bytes(const struct td_gemm_product *p, int64_t k, int64_t n)
{
    int64_t row, bytes;
    if (__builtin_mul_overflow(n, p->parts * p->real_size, &row) ||
        __builtin_add_overflow(row, TD_GEMM_TILE_BYTES, &row) ||
        __builtin_mul_overflow(row / TD_GEMM_TILE_BYTES * TD_GEMM_TILE_BYTES, k, &bytes) ||
        __builtin_mul_overflow(bytes, p->parts, &bytes))
        return INT64_MAX / 4;
    return td_smaller(bytes, INT64_MAX / 4);
}

static bool k_is_cut(const struct td_gemm_product *p)
{
    return p->m.size <= SMALL_SIDE && p->n.size <= SMALL_SIDE && p->m.size * p->n.size <= SMALL_C &&
           p->k.size >= LONG_K && p->item_ns > TD_GEMM_ALONE_NS;
}

/* Of equal length, as far as whole blocks allow. */
static int64_t piece_of(const struct td_gemm_product *p, int64_t kc)
{
    const int64_t most = SHARED_BYTES / td_gemm_sum_bytes(p);
    const int64_t pieces = td_smaller(most, td_larger(1, (int64_t)(p->item_ns / PIECE_NS)));
    return td_round_up(td_ceil_div(p->k.size, pieces), kc);
}

int64_t td_gemm_pieces(const struct td_gemm_blocking *blocking, const struct td_gemm_product *p)
{
    return td_ceil_div(p->k.size, blocking->k_piece);
}

int64_t td_gemm_sum_bytes(const struct td_gemm_product *p)
{
    return p->m.size * p->n.size * p->parts * p->real_size;
}

void td_gemm_blocking_make(struct td_gemm_blocking *blocking, const struct td_gemm_product *p)
{
    const int64_t k = p->k.size, n = p->n.size;
    const int64_t longest = TD_GEMM_BLOCK_K / p->parts;
    const int64_t panel = TD_GEMM_TILE_BYTES / p->real_size / p->parts;
    *blocking = (struct td_gemm_blocking){ 0 };
    blocking->kc = td_smaller(k, td_round_up(td_ceil_div(k, td_ceil_div(k, longest)), 8));

    const int64_t bytes = packed_bytes(p, k, n);
    blocking->own_b = bytes <= OWN_BYTES ? bytes : 0;
    if (blocking->own_b && p->item_ns <= TD_GEMM_ALONE_NS)
        return;
    if (k_is_cut(p)) {
        blocking->k_piece = piece_of(p, blocking->kc);
        const int64_t sums = td_gemm_pieces(blocking, p) * td_gemm_sum_bytes(p);
        blocking->items = td_larger(1, td_smaller(p->batch.size, SHARED_BYTES / sums));
        blocking->own_b = packed_bytes(p, blocking->kc, n);
        return;
    }
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

struct td_workspace_size td_gemm_blocking_need(const struct td_gemm_blocking *blocking,
                                               const struct td_gemm_product *p)
{
    struct td_workspace_size size = { 0 };
    if (blocking->k_piece > 0)
        size.shared =
            (uint64_t)(blocking->items * td_gemm_pieces(blocking, p) * td_gemm_sum_bytes(p));
    else if (blocking->items > 0)
        size.shared = (uint64_t)packed_bytes(p, td_smaller(blocking->k_chunk, p->k.size),
                                             td_smaller(blocking->n_chunk, p->n.size)) *
                      (uint64_t)blocking->items;
    size.per_thread = sizeof(struct td_gemm_scratch) + (uint64_t)td_gemm_block_a_bytes(p) +
                      (uint64_t)td_gemm_sums_bytes(p) + (uint64_t)td_round_up(blocking->own_b, 64);
    size.single_threaded =
        blocking->items == 0 && (double)p->batch.size * p->item_ns <= TD_GEMM_ALONE_NS;
    return size;
}

int64_t td_gemm_grain(int64_t count, double each_ns)
{
    if ((double)count * each_ns <= TD_GEMM_ALONE_NS)
        return count;
    return each_ns >= TD_GEMM_RANGE_NS ? 1 : (int64_t)(TD_GEMM_RANGE_NS / each_ns + 0.5);
}
