/* Products of bfloat16 with AVX512_BF16 instructions. Each instruction multiplies pairs along k, so
 * it computes twice as many products as an instruction on float32. Panels hold the pairs as 32-bit
 * words. */
#include "kernels/einsum/gemm/kernels.h"

#include <immintrin.h>
#include <string.h>

#define TD_INLINE      static inline __attribute__((always_inline))
#define TD_JOIN2(a, b) a##b
#define TD_JOIN(a, b)  TD_JOIN2(a, b)

#define TD_VECTOR_BYTES                 64
#define TD_MASKS                        1
#define TD_MASK(bits, n)                ((__mmask16)((1u << (n)) - 1))
#define TD_MASK_LOAD(bits, p, m)        _mm512_maskz_loadu_epi32(m, p)
#define TD_MASK_STORE(bits, p, m, n, v) _mm512_mask_storeu_epi32(p, m, (__m512i)(v))

#define TD_REAL float
#define TD_BITS 32
#define TD_MR   14
#define TD_NAME bf16
#define TD_PAIRS(sum, element, columns)                                                            \
    ((vector_bf16)_mm512_dpbf16_ps((__m512)(sum), (__m512bh)_mm512_set1_epi32((int)(element)),     \
                                   (__m512bh)(columns)))
#include "kernels/einsum/gemm/microkernel.inc"

/* ---- Packing -------------------------------------------------------------------------------- */

#define LANES 16
typedef uint32_t pack_vector __attribute__((vector_size(64), aligned(2), may_alias));

#define TD_ELEMENT uint32_t
#define VECTOR     pack_vector
#define TD_F(f)    TD_JOIN(pack, f)
#include "kernels/einsum/gemm/transpose.inc"

static uint32_t pair(uint16_t first, uint16_t second)
{
    return first | (uint32_t)second << 16;
}

/* Packs columns [i, i + n), which are contiguous in memory. Two rows become one row of pairs. */
static void pack_run(const struct td_gemm_panel *panel, int64_t i, int64_t n)
{
    typedef uint16_t halves __attribute__((vector_size(64)));
    halves low, high;
    for (int lane = 0; lane < 32; lane++) {
        low[lane] = (uint16_t)(lane / 2 + lane % 2 * 32);
        high[lane] = (uint16_t)(lane / 2 + lane % 2 * 32 + 16);
    }
    const __mmask32 columns = n < 32 ? (1u << n) - 1 : UINT32_MAX;
    const __mmask16 low_columns = (__mmask16)columns, high_columns = (__mmask16)(columns >> 16);
    const uint16_t *from = (const uint16_t *)panel->from + panel->offset[i];
    uint32_t *to = (uint32_t *)panel->to + i;
    for (int64_t k = 0; k < panel->k; k += 2, to += panel->width) {
        const __m512i first = _mm512_maskz_loadu_epi16(columns, from + panel->k_offset[k]);
        const __m512i second =
            k + 1 < panel->k ? _mm512_maskz_loadu_epi16(columns, from + panel->k_offset[k + 1])
                             : _mm512_setzero_si512();
        _mm512_mask_storeu_epi32(to, low_columns,
                                 _mm512_permutex2var_epi16(first, (__m512i)low, second));
        if (high_columns)
            _mm512_mask_storeu_epi32(to + LANES, high_columns,
                                     _mm512_permutex2var_epi16(first, (__m512i)high, second));
    }
}

/* Packs rows [k, k + 2), or the last row, element by element. */
static void pack_gather(const struct td_gemm_panel *panel, int64_t k)
{
    const uint16_t *from = (const uint16_t *)panel->from;
    const int64_t first = panel->k_offset[k];
    uint32_t *to = (uint32_t *)panel->to + k / 2 * panel->width;
    if (k + 1 == panel->k) {
        for (int64_t i = 0; i < panel->n; i++)
            to[i] = from[panel->offset[i] + first];
        return;
    }
    const int64_t second = panel->k_offset[k + 1];
    for (int64_t i = 0; i < panel->n; i++)
        to[i] = pair(from[panel->offset[i] + first], from[panel->offset[i] + second]);
}

/* Packs rows [k, k + 2 LANES) of all columns, which are contiguous along k. Packs the last columns
 * first, for the reason given in pack.inc. */
static void pack_block(const struct td_gemm_panel *panel, int64_t k)
{
    const uint16_t *from = (const uint16_t *)panel->from + panel->k_offset[k];
    const int64_t n = panel->n, width = panel->width;
    for (int64_t i = (n - 1) / LANES * LANES; i >= 0; i -= LANES) {
        pack_vector row[LANES];
#pragma GCC unroll 16
        for (int j = 0; j < LANES; j++)
            row[j] = i + j < n ? *(const pack_vector *)(from + panel->offset[i + j])
                               : (pack_vector){ 0 };
        pack_transpose(row);
        uint32_t *to = (uint32_t *)panel->to + k / 2 * width + i;
#pragma GCC unroll 16
        for (int j = 0; j < LANES; j++, to += width)
            *(pack_vector *)(void *)to = row[j];
    }
}

static void pack_pairs(const struct td_gemm_panel *panel)
{
    int64_t run[TD_GEMM_MAX_NR + 1];
    int n_runs = 0;
    for (int64_t i = 0; i < panel->n; i++)
        if (i == 0 || panel->offset[i] - panel->offset[i - 1] != 1)
            run[n_runs++] = i;
    run[n_runs] = panel->n;

    if (n_runs == 1 || (panel->k_run[0] == 1 && n_runs * 4 <= panel->n)) {
        for (int i = 0; i < n_runs; i++)
            pack_run(panel, run[i], run[i + 1] - run[i]);
    } else {
        for (int64_t k = 0; k < panel->k;) {
            const bool block = panel->k_run[k] >= 2 * LANES && panel->k - k >= 2 * LANES;
            if (block)
                pack_block(panel, k);
            else
                pack_gather(panel, k);
            k += block ? 2 * LANES : 2;
        }
    }

    for (int64_t k = 0; panel->padded > panel->n && k < panel->k; k += 2)
        memset((uint32_t *)panel->to + k / 2 * panel->width + panel->n, 0,
               (size_t)(panel->padded - panel->n) * sizeof(uint32_t));
}

const struct td_gemm_kernels td_gemm_avx512_bf16 = {
    .masks = true,
    .microkernels = { [TD_GEMM_BF16] = &microkernels_bf16 },
    .pack = { [1] = pack_pairs },
};
