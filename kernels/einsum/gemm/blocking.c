#include "kernels/einsum/gemm/blocking.h"

#include "kernels/integers.h"

/* Maximum size in bytes of the packed B that all threads share, unless a single column of panels is
 * larger. */
#define SHARED_BYTES   ((int64_t)16 << 20)
/* Maximum size in bytes of the packed B of one product if each thread packs its own B. */
#define THREAD_B_BYTES ((int64_t)512 << 10)

/* A product is split along k if k is at least LONG_K and C has at most SMALL_C elements and at most
 * SMALL_SIDE rows and columns. Dividing such a small C by rows and columns does not give every
 * thread enough work.
 *
 * A range of k takes about K_RANGE_NS, so adding the partial sums costs at most 2 % more. Ranges
 * are longer if the partial sums of one product would exceed SHARED_BYTES. C has one block of rows,
 * and its columns fit in one row of sums.
 *
 * With two threads on Zen 4 (bench_gemm), 16 x 16 x 65536 took 303 us without the split and 155 us
 * with it. 64 x 64 x 262144 took 30.8 ms and 17.0 ms. */
#define SMALL_C    ((int64_t)64 * 64)
#define SMALL_SIDE 128
#define LONG_K     16384
#define K_RANGE_NS 30e3
_Static_assert(SMALL_SIDE <= TD_GEMM_MC && SMALL_SIDE <= TD_GEMM_SUMS_COLUMNS,
               "the rows and columns that the scratch of a thread has room for");

/* Returns the size in bytes of a packed B of k rows and n columns, with the widest panels of any
 * instruction set. Saturates at INT64_MAX / 4. */
static int64_t packed_bytes(const struct td_gemm_product *p, int64_t k, int64_t n)
{
    int64_t row, bytes;
    if (__builtin_mul_overflow(n, p->components * p->real_size, &row) ||
        __builtin_add_overflow(row, TD_GEMM_TILE_ROW_BYTES, &row) ||
        __builtin_mul_overflow(row / TD_GEMM_TILE_ROW_BYTES * TD_GEMM_TILE_ROW_BYTES, k, &bytes) ||
        __builtin_mul_overflow(bytes, p->components, &bytes))
        return INT64_MAX / 4;
    return td_smaller(bytes, INT64_MAX / 4);
}

static bool splits_k(const struct td_gemm_product *p)
{
    return p->m.size <= SMALL_SIDE && p->n.size <= SMALL_SIDE && p->m.size * p->n.size <= SMALL_C &&
           p->k.size >= LONG_K && p->product_ns > TD_GEMM_SINGLE_THREAD_NS;
}

/* Returns the length of a range of k. Ranges have equal lengths, in whole blocks of kc. */
static int64_t choose_k_range(const struct td_gemm_product *p, int64_t kc)
{
    const int64_t most = SHARED_BYTES / td_gemm_partial_bytes(p);
    const int64_t ranges = td_smaller(most, td_larger(1, (int64_t)(p->product_ns / K_RANGE_NS)));
    return td_round_up(td_ceil_div(p->k.size, ranges), kc);
}

int64_t td_gemm_k_ranges(const struct td_gemm_blocking *blocking, const struct td_gemm_product *p)
{
    return td_ceil_div(p->k.size, blocking->k_range);
}

int64_t td_gemm_partial_bytes(const struct td_gemm_product *p)
{
    return p->m.size * p->n.size * p->components * p->real_size;
}

void td_gemm_blocking_make(struct td_gemm_blocking *blocking, const struct td_gemm_product *p)
{
    const int64_t k = p->k.size, n = p->n.size;
    const int64_t longest = TD_GEMM_KC / p->components;
    const int64_t panel = TD_GEMM_TILE_ROW_BYTES / p->real_size / p->components;
    *blocking = (struct td_gemm_blocking){ 0 };
    blocking->kc = td_smaller(k, td_round_up(td_ceil_div(k, td_ceil_div(k, longest)), 8));

    const int64_t bytes = packed_bytes(p, k, n);
    blocking->thread_b_bytes = bytes <= THREAD_B_BYTES ? bytes : 0;
    if (blocking->thread_b_bytes && p->product_ns <= TD_GEMM_SINGLE_THREAD_NS)
        return;
    if (splits_k(p)) {
        blocking->k_range = choose_k_range(p, blocking->kc);
        const int64_t sums = td_gemm_k_ranges(blocking, p) * td_gemm_partial_bytes(p);
        blocking->batch_block = td_larger(1, td_smaller(p->batch.size, SHARED_BYTES / sums));
        blocking->thread_b_bytes = packed_bytes(p, blocking->kc, n);
        return;
    }
    blocking->nc = n;
    blocking->k_packed = k;
    blocking->batch_block = 1;
    if (bytes <= SHARED_BYTES) {
        blocking->batch_block =
            td_larger(1, td_smaller(p->batch.size, SHARED_BYTES / td_larger(1, bytes)));
        return;
    }
    /* A C that is not native is rounded once, after all of k has been summed. B is then packed over
     * all of k, but for fewer columns at a time. */
    const int64_t column = packed_bytes(p, k, panel) / panel;
    if (!p->native[TD_C] || SHARED_BYTES / column >= 2048) {
        blocking->nc = td_larger(panel, SHARED_BYTES / column / panel * panel);
        return;
    }
    blocking->nc = td_smaller(n, 2048);
    const int64_t row = packed_bytes(p, 1, blocking->nc);
    blocking->k_packed = td_larger(1, SHARED_BYTES / row / blocking->kc) * blocking->kc;
}

struct td_workspace_size td_gemm_blocking_workspace(const struct td_gemm_blocking *blocking,
                                                    const struct td_gemm_product *p)
{
    struct td_workspace_size size = { 0 };
    if (blocking->k_range > 0)
        size.shared = (uint64_t)(blocking->batch_block * td_gemm_k_ranges(blocking, p) *
                                 td_gemm_partial_bytes(p));
    else if (blocking->batch_block > 0)
        size.shared = (uint64_t)packed_bytes(p, td_smaller(blocking->k_packed, p->k.size),
                                             td_smaller(blocking->nc, p->n.size)) *
                      (uint64_t)blocking->batch_block;
    size.per_thread = sizeof(struct td_gemm_scratch) + (uint64_t)td_gemm_packed_a_bytes(p) +
                      (uint64_t)td_gemm_sums_bytes(p) +
                      (uint64_t)td_round_up(blocking->thread_b_bytes, 64);
    size.single_threaded = blocking->batch_block == 0 &&
                           (double)p->batch.size * p->product_ns <= TD_GEMM_SINGLE_THREAD_NS;
    return size;
}

int64_t td_gemm_grain(int64_t count, double each_ns)
{
    if ((double)count * each_ns <= TD_GEMM_SINGLE_THREAD_NS)
        return count;
    return each_ns >= TD_GEMM_RANGE_NS ? 1 : (int64_t)(TD_GEMM_RANGE_NS / each_ns + 0.5);
}
