#include "kernels/rows/rows.h"

#include "kernels/prefetch.h"

#include <stdatomic.h>
#include <string.h>

/* Maximum number of elements of the pattern that repeats the bounds of a tuple. Tuple checks
 * compare components with this pattern, which is long enough for a vectorised inner loop. */
#define BOUND_PATTERN 64

/* Maximum bound for which indices are counted in four tables, which need 2 KiB of stack. */
#define SMALL_BOUND 64

#define TD_INDEX     int16_t
#define TD_UINDEX    uint16_t
#define TD_INDEX_MAX INT16_MAX
#define TD_NAME(f)   f##_int16
#include "kernels/rows/rows.inc"

#define TD_INDEX     int32_t
#define TD_UINDEX    uint32_t
#define TD_INDEX_MAX INT32_MAX
#define TD_NAME(f)   f##_int32
#include "kernels/rows/rows.inc"

#define TD_INDEX     int64_t
#define TD_UINDEX    uint64_t
#define TD_INDEX_MAX INT64_MAX
#define TD_NAME(f)   f##_int64
#include "kernels/rows/rows.inc"

/* Calls f_int16, f_int32 or f_int64. td_op_check has refused all other dtypes. */
#define BY_INDEX_TYPE(dtype, f, ...)                                                               \
    ((dtype) == TD_DTYPE_INT16   ? f##_int16(__VA_ARGS__)                                          \
     : (dtype) == TD_DTYPE_INT32 ? f##_int32(__VA_ARGS__)                                          \
                                 : f##_int64(__VA_ARGS__))

/* ---- Checking ---------------------------------------------------------------------------- */

struct check {
    const struct td_tensor *indices;
    const struct td_tuple_space *space;
    bool below; /* negative indices are valid */
    /* Number of bad indices, and the position of the first. The sum and the minimum do not depend
     * on the order of the ranges. Relaxed accesses are enough, because the end of parallel_for
     * publishes the values. */
    atomic_int_fast64_t n_bad;
    atomic_int_fast64_t first;
};

static bool range_in_bounds(const struct td_tensor *indices, const struct td_tuple_space *space,
                            int64_t begin, int64_t end)
{
    return BY_INDEX_TYPE(indices->dtype, range_in_bounds, indices, space, begin, end);
}

bool td_rows_in_bounds(const struct td_tensor *indices, int64_t begin, int64_t end, int64_t bound)
{
    const struct td_tuple_space space = { .depth = 1, .bound = { bound }, .stride = { 1 } };
    return range_in_bounds(indices, &space, begin, end);
}

bool td_rows_all_below(const struct td_tensor *indices, int64_t begin, int64_t end, int64_t bound,
                       bool *negative)
{
    return BY_INDEX_TYPE(indices->dtype, all_below, indices, begin, end, bound, negative);
}

static bool is_valid(const struct check *check, int64_t begin, int64_t end)
{
    bool negative;
    if (check->below)
        return td_rows_all_below(check->indices, begin, end, check->space->bound[0], &negative);
    return range_in_bounds(check->indices, check->space, begin, end);
}

static void check_range(void *context, int64_t begin, int64_t end)
{
    struct check *check = context;
    const struct td_tuple_space *space = check->space;
    if (is_valid(check, begin, end))
        return;
    int64_t n_bad = 0, first = INT64_MAX;
    for (int64_t t = begin; t < end; t++) {
        for (int c = 0; c < space->depth; c++) {
            int64_t place = t * space->depth + c;
            int64_t index = td_tensor_index_at(check->indices, place);
            if ((index >= 0 || check->below) && index < space->bound[c])
                continue;
            if (n_bad++ == 0)
                first = place;
        }
    }
    atomic_fetch_add_explicit(&check->n_bad, n_bad, memory_order_relaxed);
    int_fast64_t seen = atomic_load_explicit(&check->first, memory_order_relaxed);
    while (first < seen &&
           !atomic_compare_exchange_weak_explicit(&check->first, &seen, first, memory_order_relaxed,
                                                  memory_order_relaxed))
        ;
}

/* Number of indices in one range of a check. At memory speed, a range takes 40 us for int32 and 80
 * us for int64, whereas waking a thread takes 30 us. */
#define CHECK_GRAIN 262144

static td_status run_check(struct check *check, struct td_exec *exec, int64_t *n_bad,
                           int64_t *first, struct td_error *err)
{
    const int64_t numel = check->indices->numel;
    *n_bad = 0;
    *first = -1;
    atomic_init(&check->n_bad, 0);
    atomic_init(&check->first, INT64_MAX);
    if (numel == 0)
        return TD_OK; /* the depth is 0, or there are no tuples */
    int64_t n_tuples = numel / check->space->depth;
    if (numel <= CHECK_GRAIN) {
        check_range(check, 0, n_tuples);
    } else {
        td_status status =
            td_exec_for(exec, n_tuples, CHECK_GRAIN / check->space->depth, check_range, check, err);
        if (status != TD_OK)
            return status;
    }
    *n_bad = atomic_load_explicit(&check->n_bad, memory_order_relaxed);
    if (*n_bad > 0)
        *first = atomic_load_explicit(&check->first, memory_order_relaxed);
    return TD_OK;
}

td_status td_rows_check_tuples(const struct td_tensor *indices, const struct td_tuple_space *space,
                               struct td_exec *exec, int64_t *n_bad, int64_t *first,
                               struct td_error *err)
{
    struct check check = { .indices = indices, .space = space };
    return run_check(&check, exec, n_bad, first, err);
}

td_status td_rows_check(const struct td_tensor *indices, int64_t bound, struct td_exec *exec,
                        int64_t *n_bad, int64_t *first, struct td_error *err)
{
    struct td_tuple_space space = { .depth = 1, .bound = { bound }, .stride = { 1 } };
    return td_rows_check_tuples(indices, &space, exec, n_bad, first, err);
}

td_status td_rows_check_below(const struct td_tensor *indices, int64_t bound, struct td_exec *exec,
                              int64_t *n_bad, int64_t *first, struct td_error *err)
{
    struct td_tuple_space space = { .depth = 1, .bound = { bound }, .stride = { 1 } };
    struct check check = { .indices = indices, .space = &space, .below = true };
    return run_check(&check, exec, n_bad, first, err);
}

int64_t td_rows_largest(const struct td_tensor *indices, bool *negative)
{
    return BY_INDEX_TYPE(indices->dtype, largest, indices->data, indices->numel, negative);
}

/* ---- Resolving --------------------------------------------------------------------------- */

static const void *index_place(const struct td_tensor *indices, int64_t position)
{
    return (const char *)indices->data + (size_t)position * td_dtype_info(indices->dtype)->size;
}

void td_rows_resolve_indices(const struct td_tensor *indices, int64_t begin, int64_t n,
                             int64_t bound, td_bounds policy, int64_t *rows)
{
    BY_INDEX_TYPE(indices->dtype, resolve_indices, index_place(indices, begin), n, bound, policy,
                  rows);
}

void td_rows_mark(const struct td_tensor *indices, int64_t begin, int64_t n, uint8_t *flags)
{
    BY_INDEX_TYPE(indices->dtype, mark, index_place(indices, begin), n, flags);
}

void td_rows_count(const struct td_tensor *indices, int64_t begin, int64_t n, int64_t bound,
                   int64_t *counts)
{
    BY_INDEX_TYPE(indices->dtype, count, index_place(indices, begin), n, bound, counts);
}

void td_rows_resolve_tuples(const struct td_tensor *indices, int64_t begin, int64_t n,
                            const struct td_tuple_space *space, td_bounds policy, int64_t *rows)
{
    BY_INDEX_TYPE(indices->dtype, resolve_tuples, index_place(indices, begin * space->depth), n,
                  space, policy, rows);
}

/* ---- Copying ----------------------------------------------------------------------------- */

/* Rows from MIDDLE_ROW to LARGE_ROW bytes are copied faster by the instruction rep movsq than by
 * glibc's memcpy, which uses rep movsq only from about 4 KiB on. For rows of 1, 2, 3 and 4 KiB,
 * memcpy copies 6.0, 5.1, 9.5 and 11.5 GB/s, and rep movsq 8.5, 8.7, 9.4 and 11.3. For smaller
 * rows, and if all data is in the L1 cache, rep movsq is slower. */
#define MIDDLE_ROW 1024
#define LARGE_ROW  4096

/* Calls the loop for the row width. With a constant width, each copy is only a few moves. */
#define BY_WIDTH(row_bytes, CALL)                                                                  \
    switch (row_bytes) {                                                                           \
    case 1:                                                                                        \
        CALL(1);                                                                                   \
        break;                                                                                     \
    case 2:                                                                                        \
        CALL(2);                                                                                   \
        break;                                                                                     \
    case 4:                                                                                        \
        CALL(4);                                                                                   \
        break;                                                                                     \
    case 8:                                                                                        \
        CALL(8);                                                                                   \
        break;                                                                                     \
    case 12:                                                                                       \
        CALL(12);                                                                                  \
        break;                                                                                     \
    case 16:                                                                                       \
        CALL(16);                                                                                  \
        break;                                                                                     \
    case 24:                                                                                       \
        CALL(24);                                                                                  \
        break;                                                                                     \
    case 32:                                                                                       \
        CALL(32);                                                                                  \
        break;                                                                                     \
    case 64:                                                                                       \
        CALL(64);                                                                                  \
        break;                                                                                     \
    default:                                                                                       \
        CALL(row_bytes);                                                                           \
    }

/* Minimum size of an output that is written with streaming stores, because it would not stay in the
 * cache. */
#define STREAM_BYTES ((size_t)8 * 1024 * 1024)
#define LINE         64
/* Minimum size of rows that are streamed even if they are not whole cache lines. Their ends are not
 * streamed. */
#define STREAM_ROW   512

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED /* sanitizers do not see memory accesses in assembly */
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED
#endif
#endif
#if defined(__x86_64__) && !defined(SANITIZED)
#define STRING_MOVES
#define STREAMING_STORES
#include <emmintrin.h>
#endif

static inline __attribute__((always_inline)) void
copy_row(char *restrict to, const char *restrict from, size_t row_bytes)
{
#ifdef STRING_MOVES
    if (row_bytes >= MIDDLE_ROW && row_bytes < LARGE_ROW && row_bytes % 8 == 0) {
        size_t words = row_bytes / 8;
        __asm__ volatile("rep movsq" : "+D"(to), "+S"(from), "+c"(words) : : "memory");
        return;
    }
#endif
    memcpy(to, from, row_bytes);
}

int64_t td_rows_in_range(size_t row_bytes)
{
    size_t cost = row_bytes > TD_ROWS_NARROW ? row_bytes : TD_ROWS_NARROW;
    return cost < TD_ROWS_RANGE_BYTES ? (int64_t)(TD_ROWS_RANGE_BYTES / cost) : 1;
}

int64_t td_rows_parts(size_t row_bytes)
{
    return (int64_t)((row_bytes - 1) / TD_ROWS_RANGE_BYTES + 1);
}

void td_rows_copy_part(void *to, const void *from, size_t row_bytes, int64_t part)
{
    size_t offset = (size_t)part * TD_ROWS_RANGE_BYTES, left = row_bytes - offset;
    size_t size = left < TD_ROWS_RANGE_BYTES ? left : TD_ROWS_RANGE_BYTES;
    if (from)
        memcpy((char *)to + offset, (const char *)from + offset, size);
    else
        memset((char *)to + offset, 0, size);
}

/* Copies rows, for all gathers. The loop is built for each width below. With a constant row_bytes,
 * a copy is one or two moves. */
static inline __attribute__((always_inline)) void
copy_rows(char *restrict out, const char *restrict table, size_t row_bytes, const int64_t *rows,
          int64_t n, bool may_be_zero, int64_t ahead)
{
    const int64_t last = ahead > 0 ? n - ahead : 0;
    const uintptr_t first = (uintptr_t)table;
    for (int64_t k = 0; k < n && k < ahead; k++)
        td_prefetch_row(first + (size_t)rows[k] * row_bytes, row_bytes);
    for (int64_t k = 0; k < n; k++, out += row_bytes) {
        if (k < last)
            td_prefetch_row(first + (size_t)rows[k + ahead] * row_bytes, row_bytes);
        if (may_be_zero && rows[k] == TD_ROW_ZERO)
            memset(out, 0, row_bytes);
        else
            copy_row(out, table + (size_t)rows[k] * row_bytes, row_bytes);
    }
}

void td_rows_copy(void *out, const struct td_tensor *table, size_t row_bytes, const int64_t *rows,
                  int64_t n, bool may_be_zero)
{
    const int64_t ahead = td_prefetch_ahead(table->bytes, row_bytes);
    if (may_be_zero) {
        copy_rows(out, table->data, row_bytes, rows, n, true, ahead);
        return;
    }
#define COPY(width) copy_rows(out, table->data, width, rows, n, false, ahead)
    BY_WIDTH(row_bytes, COPY);
#undef COPY
}

/* ---- Scattering -------------------------------------------------------------------------- */

bool td_rows_should_stream(size_t bytes, size_t row_bytes)
{
    return bytes >= STREAM_BYTES && row_bytes >= LINE &&
           (row_bytes % LINE == 0 || row_bytes >= STREAM_ROW);
}

/* Copies a row like memcpy, with streaming stores for all whole cache lines of `to`. */
static inline __attribute__((always_inline)) void
stream_row(char *restrict to, const char *restrict from, size_t row_bytes)
{
#ifdef STREAMING_STORES
    size_t head = -(uintptr_t)to % LINE;
    if (head > row_bytes)
        head = row_bytes;
    if (head > 0)
        memcpy(to, from, head);
    size_t at = head;
    for (; at + LINE <= row_bytes; at += LINE) {
        const __m128i *line = (const __m128i *)(const void *)(from + at);
        __m128i *place = (__m128i *)(void *)(to + at);
        __m128i a = _mm_loadu_si128(line), b = _mm_loadu_si128(line + 1);
        __m128i c = _mm_loadu_si128(line + 2), d = _mm_loadu_si128(line + 3);
        _mm_stream_si128(place, a);
        _mm_stream_si128(place + 1, b);
        _mm_stream_si128(place + 2, c);
        _mm_stream_si128(place + 3, d);
    }
    if (at < row_bytes)
        memcpy(to + at, from + at, row_bytes - at);
#else
    memcpy(to, from, row_bytes);
#endif
}

void td_rows_stream(void *to, const void *from, size_t bytes)
{
    stream_row(to, from, bytes);
}

void td_rows_end_stream(void)
{
#ifdef STREAMING_STORES
    _mm_sfence();
#endif
}

#define TD_INDEX   int16_t
#define TD_NAME(f) f##_int16
#include "kernels/rows/scatter.inc"

#define TD_INDEX   int32_t
#define TD_NAME(f) f##_int32
#include "kernels/rows/scatter.inc"

#define TD_INDEX   int64_t
#define TD_NAME(f) f##_int64
#include "kernels/rows/scatter.inc"

void td_rows_scatter(void *out, const struct td_tensor *indices, int64_t begin, int64_t n,
                     const void *from, size_t row_bytes, bool stream, uint8_t *marks)
{
    const void *index = index_place(indices, begin);
    if (!stream)
        BY_INDEX_TYPE(indices->dtype, scatter, out, index, n, from, row_bytes, marks);
    else
        BY_INDEX_TYPE(indices->dtype, scatter_stream, out, index, n, from, row_bytes);
}

void td_rows_distribute(char **next, const struct td_tensor *buckets, int64_t begin, int64_t n,
                        const void *from, size_t row_bytes, bool stream)
{
    const void *bucket = index_place(buckets, begin);
    if (!stream)
        BY_INDEX_TYPE(buckets->dtype, distribute, next, bucket, n, from, row_bytes);
    else
        BY_INDEX_TYPE(buckets->dtype, distribute_stream, next, bucket, n, from, row_bytes);
}

int64_t td_rows_pick(const int64_t *rows, int64_t n, const struct td_row_parts *parts, int64_t part,
                     uint16_t *picked)
{
    const int64_t first = parts->first, n_parts = parts->n_parts;
    const uint64_t count = (uint64_t)parts->count;
    const int shift = parts->shift;
    int64_t n_picked = 0;
    for (int64_t k = 0; k < n; k++) {
        const uint32_t hash = (uint32_t)(rows[k] >> shift) * UINT32_C(0x9e3779b9);
        const bool is_in = (uint64_t)rows[k] - (uint64_t)first < count;
        picked[n_picked] = (uint16_t)k;
        n_picked += is_in & ((int64_t)((uint64_t)hash * (uint64_t)n_parts >> 32) == part);
    }
    return n_picked;
}

void td_row_parts_init(struct td_row_parts *parts, int64_t first, int64_t count, size_t row_bytes,
                       size_t block_bytes, int64_t n_parts)
{
    *parts = (struct td_row_parts){ .first = first, .count = count, .n_parts = n_parts };
    while (row_bytes > 0 && row_bytes << parts->shift < block_bytes)
        parts->shift++;
}

static inline __attribute__((always_inline)) void
scatter_picked(char *restrict out, const int64_t *rows, const char *restrict from, size_t row_bytes,
               const uint16_t *picked, int64_t n)
{
    for (int64_t j = 0; j < n; j++)
        memcpy(out + (size_t)rows[picked[j]] * row_bytes, from + picked[j] * row_bytes, row_bytes);
}

void td_rows_scatter_picked(void *out, const int64_t *rows, const void *from, size_t row_bytes,
                            const uint16_t *picked, int64_t n, bool stream)
{
    if (stream) {
        for (int64_t j = 0; j < n; j++)
            stream_row((char *)out + (size_t)rows[picked[j]] * row_bytes,
                       (const char *)from + picked[j] * row_bytes, row_bytes);
        td_rows_end_stream();
        return;
    }
#define SCATTER(width) scatter_picked(out, rows, from, width, picked, n)
    BY_WIDTH(row_bytes, SCATTER);
#undef SCATTER
}

static inline __attribute__((always_inline)) void copy_strided(char *restrict to, int64_t to_stride,
                                                               const char *restrict from,
                                                               int64_t from_stride,
                                                               size_t row_bytes, int64_t n)
{
    for (int64_t k = 0; k < n; k++)
        memcpy(to + k * to_stride, from + k * from_stride, row_bytes);
}

void td_rows_copy_strided(void *to, int64_t to_stride, const void *from, int64_t from_stride,
                          size_t row_bytes, int64_t n, bool stream)
{
    if (stream) {
        for (int64_t k = 0; k < n; k++)
            stream_row((char *)to + k * to_stride, (const char *)from + k * from_stride, row_bytes);
        td_rows_end_stream();
        return;
    }
#define COPY(width) copy_strided(to, to_stride, from, from_stride, width, n)
    BY_WIDTH(row_bytes, COPY);
#undef COPY
}

/* Sets a row to zero like memset, with streaming stores as in stream_row. */
static inline __attribute__((always_inline)) void stream_zeros(char *to, size_t row_bytes)
{
#ifdef STREAMING_STORES
    size_t head = -(uintptr_t)to % LINE;
    if (head > row_bytes)
        head = row_bytes;
    if (head > 0)
        memset(to, 0, head);
    size_t at = head;
    for (; at + LINE <= row_bytes; at += LINE)
        for (int i = 0; i < LINE; i += 16)
            _mm_stream_si128((__m128i *)(void *)(to + at + i), _mm_setzero_si128());
    if (at < row_bytes)
        memset(to + at, 0, row_bytes - at);
#else
    memset(to, 0, row_bytes);
#endif
}

static inline __attribute__((always_inline)) void zero_rows(char *out, const int64_t *rows,
                                                            size_t row_bytes, int64_t n)
{
    for (int64_t k = 0; k < n; k++)
        memset(out + (size_t)rows[k] * row_bytes, 0, row_bytes);
}

void td_rows_zero(void *out, const int64_t *rows, size_t row_bytes, int64_t n, bool stream)
{
    if (stream) {
        for (int64_t k = 0; k < n; k++)
            stream_zeros((char *)out + (size_t)rows[k] * row_bytes, row_bytes);
        td_rows_end_stream();
        return;
    }
#define ZERO(width) zero_rows(out, rows, width, n)
    BY_WIDTH(row_bytes, ZERO);
#undef ZERO
}
