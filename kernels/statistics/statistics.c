#include "kernels/statistics/statistics.h"

#include "kernels/convert/convert.h"
#include "kernels/integers.h"
#include "kernels/statistics/loops.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* ---- Plan -------------------------------------------------------------------------------- */

enum {
    ITEM = 1 << 18,       /* values of an item of the parallel loop, some 100 us, and */
    MOST_ITEMS = 1 << 14, /* of a tensor; then they are larger */
    /* The values of fewer columns are added to a row of sums, one for each column. Of more columns,
     * those of a block are next to each other, 128 or more of them. */
    WIDE = 8192,
    PERIOD = 2016, /* about so many sums, of several rows if these are short */
    ROWS = 4       /* rows of sums at a time, so that the sums are read and written once for them */
};

/* How the values of a tile are obtained. */
typedef enum {
    VALUES_STORED,
    VALUES_WIDENED,
    VALUES_ABSOLUTE, /* of complex numbers */
    VALUES_LENGTHS   /* of strings */
} source;

/* What is known of some values. */
struct part {
    int64_t finite, zeros, nans, positive_infinities, negative_infinities;
    union td_number least, greatest; /* of the finite ones, if there are any */
    double sum;
    double squares; /* of the differences from their mean */
};

/* Consecutive values of one block of rows. */
struct item {
    int64_t begin, n;
    int row_block;
    struct part part;
};

struct job {
    const struct td_tensor *tensor;
    source source;
    bool aligned;
    td_dtype dtype; /* of the values that loops are given */
    td_numbers numbers;
    const struct td_statistics_loops *loops;
    td_widen_fn *widen;
    int64_t columns, period;
    int64_t tile; /* values that are measured at a time: whole periods if there are columns; if
                     careful, */
    int64_t careful_tile;
    double scale; /* that values are multiplied by */
    int column_blocks;
    struct item *items;
    int64_t n_items;
    double *sums;      /* [n_items, column_blocks] */
    int64_t *excluded; /* values that are not finite; likewise */
};

/* Memory of one range. */
struct space {
    _Alignas(64) double values[WIDE];
    _Alignas(64) double stored[WIDE]; /* a copy that is aligned to the dtype */
    _Alignas(64) double finite[WIDE];
    _Alignas(64) double columns[WIDE];
    double shift; /* near the values of an item: squares of differences from it do not cancel */
    bool careful; /* some values may not be finite */
};

static source source_of(td_dtype dtype)
{
    if (dtype == TD_DTYPE_STRING)
        return VALUES_LENGTHS;
    if (td_dtype_is_complex(dtype))
        return VALUES_ABSOLUTE;
    return dtype == TD_DTYPE_FLOAT16 || dtype == TD_DTYPE_BFLOAT16 ? VALUES_WIDENED : VALUES_STORED;
}

static td_dtype loop_dtype(td_dtype dtype)
{
    switch (source_of(dtype)) {
    case VALUES_WIDENED:
        return TD_DTYPE_FLOAT32;
    case VALUES_ABSOLUTE:
    case VALUES_LENGTHS:
        return TD_DTYPE_FLOAT64;
    case VALUES_STORED:
        break;
    }
    return dtype == TD_DTYPE_BOOL ? TD_DTYPE_UINT8 : dtype;
}

static bool is_float(td_dtype dtype)
{
    return dtype == TD_DTYPE_FLOAT32 || dtype == TD_DTYPE_FLOAT64;
}

static td_numbers numbers_of(td_dtype dtype)
{
    const td_dtype_set integers =
        TD_DTYPE_BIT(INT8) | TD_DTYPE_BIT(INT16) | TD_DTYPE_BIT(INT32) | TD_DTYPE_BIT(INT64);
    if (is_float(dtype))
        return TD_NUMBERS_REAL;
    return integers >> dtype & 1 ? TD_NUMBERS_INTEGER : TD_NUMBERS_NATURAL;
}

static const struct td_statistics_loops *loops_of(td_dtype dtype, td_isa isa)
{
    switch (isa) {
#ifdef __x86_64__
    case TD_ISA_AVX512:
    case TD_ISA_AVX512_BF16:
        return &td_statistics_loops_avx512[dtype];
    case TD_ISA_AVX2:
        return &td_statistics_loops_avx2[dtype];
#endif
    default:
        return &td_statistics_loops_generic[dtype];
    }
}

/* Sets numel and the matrix; an empty tensor has no blocks. */
static void set_matrix(const struct td_tensor *tensor, struct td_statistics *out)
{
    const struct td_shape *shape = &tensor->shape;
    *out = (struct td_statistics){ .numel = tensor->numel };
    if (tensor->numel == 0)
        return;
    out->rows = shape->rank > 0 ? shape->dim[0] : 1;
    out->columns = tensor->numel / out->rows;
    out->row_blocks = (int)td_smaller(out->rows, TD_STATISTICS_BLOCKS);
    out->column_blocks = (int)td_smaller(out->columns, TD_STATISTICS_BLOCKS);
}

size_t td_statistics_bytes(const struct td_tensor *tensor)
{
    struct td_statistics matrix;
    set_matrix(tensor, &matrix);
    return sizeof matrix +
           (size_t)(matrix.row_blocks * matrix.column_blocks) * sizeof matrix.means[0];
}

int64_t td_statistics_begin(int64_t n, int blocks, int block)
{
    return blocks == 0 ? 0 : n / blocks * block + td_smaller(n % blocks, block);
}

/* The block of columns that has this column. */
static int block_of(const struct job *job, int64_t column)
{
    const int64_t size = job->columns / job->column_blocks,
                  larger = job->columns % job->column_blocks;
    const int64_t end = larger * (size + 1);
    return (int)(column < end ? column / (size + 1) : larger + (column - end) / size);
}

static int64_t item_size(int64_t numel)
{
    return td_larger(ITEM, td_ceil_div(numel, MOST_ITEMS));
}

struct td_cost td_statistics_cost(const struct td_tensor *tensor)
{
    struct td_statistics matrix;
    set_matrix(tensor, &matrix);
    const uint64_t items = (uint64_t)(tensor->numel / item_size(tensor->numel) + matrix.row_blocks);
    const uint64_t of_item =
        sizeof(struct item) + (uint64_t)matrix.column_blocks * (sizeof(double) + sizeof(int64_t));
    const uint64_t of_value = td_dtype_is_complex(tensor->dtype) ? 16 : 1;
    return (struct td_cost){ .bytes_read = td_tensor_footprint(tensor),
                             .bytes_written = td_statistics_bytes(tensor),
                             .flops = (uint64_t)tensor->numel * of_value,
                             .workspace = items * of_item + td_statistics_bytes(tensor) };
}

/* ---- Values ------------------------------------------------------------------------------ */

/* Of float32: their squares do not overflow. */
static double absolute_of(double re, double im)
{
    const double value = sqrt(re * re + im * im);
    return isnan(value) ? hypot(re, im) : value; /* infinite if one part is and the other is NaN */
}

static void absolute(const struct td_tensor *tensor, int64_t begin, int64_t n, double *to)
{
    const size_t size = td_dtype_info(tensor->dtype)->size;
    const char *from = (const char *)tensor->data + (size_t)begin * size;
    for (int64_t i = 0; i < n; i++, from += size) {
        float narrow[2];
        double parts[2];
        if (tensor->dtype == TD_DTYPE_COMPLEX64) {
            memcpy(narrow, from, sizeof narrow);
            to[i] = absolute_of((double)narrow[0], (double)narrow[1]);
        } else {
            memcpy(parts, from, sizeof parts);
            to[i] = hypot(parts[0], parts[1]);
        }
    }
}

static void lengths(const struct td_tensor *tensor, int64_t begin, int64_t n, double *to)
{
    const uint64_t *offsets = tensor->offsets + begin;
    for (int64_t i = 0; i < n; i++)
        to[i] = (double)(offsets[i + 1] - offsets[i]);
}

/* Doubles at any address, multiplied. */
static void rescale(const void *values, int64_t n, double scale, double *to)
{
    memmove(to, values, (size_t)n * sizeof *to);
    for (int64_t i = 0; i < n; i++)
        to[i] *= scale;
}

/* The values of a tile for the loops before they are scaled, in the tensor or in space. */
static const void *unscaled_values(const struct job *job, struct space *space, int64_t begin,
                                   int64_t n)
{
    const struct td_tensor *tensor = job->tensor;
    const size_t size = td_dtype_info(tensor->dtype)->size;
    const void *stored = (const char *)tensor->data + (size_t)begin * size;
    if (job->source == VALUES_ABSOLUTE) {
        absolute(tensor, begin, n, space->values);
        return space->values;
    }
    if (job->source == VALUES_LENGTHS) {
        lengths(tensor, begin, n, space->values);
        return space->values;
    }
    if (!job->aligned)
        stored = memcpy(space->stored, stored, (size_t)n * size);
    if (job->source == VALUES_STORED)
        return stored;
    job->widen(space->values, stored, 1, n);
    return space->values;
}

static const void *values_of(const struct job *job, struct space *space, int64_t begin, int64_t n)
{
    const void *values = unscaled_values(job, space, begin, n);
    if (job->scale == 1)
        return values;
    rescale(values, n, job->scale, space->values);
    return space->values;
}

/* ---- Parts ------------------------------------------------------------------------------- */

static bool is_less_real(double a, double b)
{
    return a < b || (a == b && signbit(a) && !signbit(b));
}

static bool is_less(td_numbers numbers, union td_number a, union td_number b)
{
    switch (numbers) {
    case TD_NUMBERS_INTEGER:
        return a.integer < b.integer;
    case TD_NUMBERS_NATURAL:
        return a.natural < b.natural;
    case TD_NUMBERS_REAL:
        break;
    }
    return is_less_real(a.real, b.real);
}

/* The squares of the differences from the common mean: Chan, Golub and LeVeque, (2.1b). */
static double merged_squares(const struct part *a, const struct part *b)
{
    const double n = (double)a->finite, m = (double)b->finite;
    const double apart = b->sum / m - a->sum / n;
    return a->squares + b->squares + apart * apart * (n / (n + m)) * m;
}

static struct part merge(td_numbers numbers, const struct part *a, const struct part *b)
{
    struct part part = *a;
    if (a->finite == 0) {
        part = *b;
    } else if (b->finite > 0) {
        part.squares = merged_squares(a, b);
        part.sum += b->sum;
        part.finite += b->finite;
        part.zeros += b->zeros;
        part.least = is_less(numbers, b->least, a->least) ? b->least : a->least;
        part.greatest = is_less(numbers, a->greatest, b->greatest) ? b->greatest : a->greatest;
    }
    part.nans = a->nans + b->nans;
    part.positive_infinities = a->positive_infinities + b->positive_infinities;
    part.negative_infinities = a->negative_infinities + b->negative_infinities;
    return part;
}

/* ---- Tiles ------------------------------------------------------------------------------- */

/* How many of the `n` values from `begin` on are next to each other in one block, which is
 * *block. */
static int64_t run_of(const struct job *job, int64_t begin, int64_t n, int *block)
{
    *block = 0;
    if (job->column_blocks == 1)
        return n;
    const int64_t column = begin % job->columns;
    *block = block_of(job, column);
    return td_smaller(n,
                      td_statistics_begin(job->columns, job->column_blocks, *block + 1) - column);
}

static double value_at(const struct job *job, const void *values, int64_t i)
{
    return job->dtype == TD_DTYPE_FLOAT32 ? (double)((const float *)values)[i]
                                          : ((const double *)values)[i];
}

static void count_excluded(struct part *part, double value)
{
    if (isnan(value))
        part->nans++;
    else if (value > 0)
        part->positive_infinities++;
    else
        part->negative_infinities++;
}

/* Has a value exactly these bits, those of float32 or float64? */
static bool has_bits(td_dtype dtype, const void *values, int64_t n, uint64_t wanted)
{
    uint64_t found = 0;
    if (dtype == TD_DTYPE_FLOAT32) {
        uint32_t bits;
        for (int64_t i = 0; i < n; i++) {
            memcpy(&bits, (const float *)values + i, sizeof bits);
            found |= bits == (uint32_t)wanted;
        }
    } else {
        uint64_t bits;
        for (int64_t i = 0; i < n; i++) {
            memcpy(&bits, (const double *)values + i, sizeof bits);
            found |= bits == wanted;
        }
    }
    return found;
}

/* An extreme that is zero: the least is -0.0 if there is one, the greatest 0.0 if there is one. */
static void set_signs(td_dtype dtype, const void *values, int64_t n, struct td_run *run)
{
    if (!is_float(dtype))
        return;
    const uint64_t negative = dtype == TD_DTYPE_FLOAT32 ? UINT32_C(1) << 31 : UINT64_C(1) << 63;
    if (run->least.real == 0)
        run->least.real = has_bits(dtype, values, n, negative) ? -0.0 : 0.0;
    if (run->greatest.real == 0)
        run->greatest.real = has_bits(dtype, values, n, 0) ? 0.0 : -0.0;
}

/* The part of a run of n values. */
static struct part part_of_run(const struct td_run *run, int64_t n, double shift)
{
    const double count = (double)n, squares = run->squares - run->sum * (run->sum / count);
    return (struct part){ .finite = n,
                          .zeros = run->zeros,
                          .least = run->least,
                          .greatest = run->greatest,
                          .sum = run->sum + shift * count,
                          .squares = squares < 0 ? 0 : squares };
}

static struct part part_of_kept(const double *values, int64_t n)
{
    const struct td_statistics_loops *loops = loops_of(TD_DTYPE_FLOAT64, TD_ISA_GENERIC);
    struct td_run run;
    if (n == 0)
        return (struct part){ 0 };
    const double sum = loops->sum(values, n), shift = isfinite(sum) ? sum / (double)n : 0;
    loops->measure(values, n, 1, shift, NULL, &run);
    set_signs(TD_DTYPE_FLOAT64, values, n, &run);
    return part_of_run(&run, n, shift);
}

/* A tile of floats whose sum is not finite: the finite ones are moved next to each other. */
static struct part part_of_finite(const struct job *job, struct space *space,
                                  const struct item *item, const void *values, int64_t begin,
                                  int64_t n)
{
    double *sums = job->sums + (item - job->items) * job->column_blocks;
    int64_t *excluded = job->excluded + (item - job->items) * job->column_blocks;
    struct part counts = { 0 };
    int64_t kept = 0;
    int block;
    for (int64_t i = 0, end; i < n; i = end) {
        end = i + run_of(job, begin + i, n - i, &block);
        for (int64_t j = i; j < end; j++) {
            const double value = value_at(job, values, j);
            if (isfinite(value)) {
                space->finite[kept++] = value;
                sums[block] += value;
            } else {
                excluded[block]++;
                count_excluded(&counts, value);
            }
        }
    }
    struct part part = part_of_kept(space->finite, kept);
    part.nans = counts.nans;
    part.positive_infinities = counts.positive_infinities;
    part.negative_infinities = counts.negative_infinities;
    return part;
}

/* Of runs with one shift. */
static void add_run(td_numbers numbers, struct td_run *to, const struct td_run *run)
{
    to->zeros += run->zeros;
    to->sum += run->sum;
    to->squares += run->squares;
    to->least = is_less(numbers, run->least, to->least) ? run->least : to->least;
    to->greatest = is_less(numbers, to->greatest, run->greatest) ? run->greatest : to->greatest;
}

/* Runs of columns of one block, each of which is added to the sum of the block. Short ones are
 * summed on their own, since less is done at the end of a sum. */
static void measure_blocks(const struct job *job, double *sums, const char *values, int64_t begin,
                           int64_t n, double shift, struct td_run *total)
{
    enum { LONG = 512 };
    const size_t size = td_dtype_info(job->dtype)->size;
    const bool is_short = job->columns / job->column_blocks < LONG;
    int block;
    *total = (struct td_run){ 0 };
    if (is_short)
        job->loops->measure(values, n, 1, shift, NULL, total);
    for (int64_t i = 0, length; i < n; i += length) {
        const char *from = values + (size_t)i * size;
        struct td_run run;
        length = run_of(job, begin + i, n - i, &block);
        if (is_short) {
            sums[block] += job->loops->sum(from, length);
            continue;
        }
        job->loops->measure(from, length, 1, shift, NULL, &run);
        sums[block] += run.sum + shift * (double)length;
        if (i == 0)
            *total = run;
        else
            add_run(job->numbers, total, &run);
    }
}

/* Whole rows of sums of columns at once, and the rest of one. */
static void measure_columns(const struct job *job, double *columns, const char *values, int64_t n,
                            double shift, struct td_run *total)
{
    const size_t size = td_dtype_info(job->dtype)->size;
    const int64_t rows = n / job->period, rest = n % job->period;
    struct td_run run;
    if (rows == 0) {
        job->loops->measure(values, n, 1, shift, columns, total);
        return;
    }
    job->loops->measure(values, job->period, rows, shift, columns, total);
    if (rest == 0)
        return;
    job->loops->measure(values + (size_t)(n - rest) * size, rest, 1, shift, columns, &run);
    add_run(job->numbers, total, &run);
}

/* Of values that are finite; if some are not, neither is the sum of the part. */
static struct part part_of_values(const struct job *job, struct space *space,
                                  const struct item *item, const void *values, int64_t begin,
                                  int64_t n, double shift)
{
    struct td_run run;
    if (job->columns < WIDE)
        measure_columns(job, space->columns, values, n, shift, &run);
    else
        measure_blocks(job, job->sums + (item - job->items) * job->column_blocks, values, begin, n,
                       shift, &run);
    set_signs(job->dtype, values, n, &run);
    return part_of_run(&run, n, shift);
}

static struct part part_of_tile(const struct job *job, struct space *space, const struct item *item,
                                int64_t begin, int64_t n)
{
    const void *values = values_of(job, space, begin, n);
    if (!space->careful)
        return part_of_values(job, space, item, values, begin, n, space->shift);
    const double sum = job->loops->sum(values, n);
    return isfinite(sum) ? part_of_values(job, space, item, values, begin, n, sum / (double)n)
                         : part_of_finite(job, space, item, values, begin, n);
}

/* ---- Items ------------------------------------------------------------------------------- */

/* Of an item, by halves: fewer than 64 of them. */
static struct part part_of_range(const struct job *job, struct space *space,
                                 const struct item *item, int64_t begin, int64_t n)
{
    const int64_t tile = space->careful ? job->careful_tile : job->tile;
    if (n <= tile)
        return part_of_tile(job, space, item, begin, n);
    const int64_t half = td_ceil_div(n, 2 * tile) * tile;
    const struct part first = part_of_range(job, space, item, begin, half),
                      second = part_of_range(job, space, item, begin + half, n - half);
    return merge(job->numbers, &first, &second);
}

static struct part part_of_items(const struct job *job, int64_t begin, int64_t n)
{
    if (n == 1)
        return job->items[begin].part;
    const struct part first = part_of_items(job, begin, n / 2),
                      second = part_of_items(job, begin + n / 2, n - n / 2);
    return merge(job->numbers, &first, &second);
}

/* The sums of columns, from that of the value at `begin` on, to those of their blocks. */
static void add_columns(const struct job *job, const double *columns, int64_t begin, int64_t n,
                        double *sums)
{
    int block = 0;
    if (job->columns == job->column_blocks) { /* a block is a column */
        int64_t column = begin % job->columns;
        for (int64_t i = 0; i < n; i++, column = column + 1 < job->columns ? column + 1 : 0)
            sums[column] += columns[i];
        return;
    }
    for (int64_t i = 0, end; i < n; i = end) {
        end = i + run_of(job, begin + i, n - i, &block);
        for (int64_t j = i; j < end; j++)
            sums[block] += columns[j];
    }
}

/* From the first values of an item. If they are not nearly equal, zero will do, with which the
 * loops are faster: the squares of the differences are then not much smaller than those of the
 * values. Should the others be nearly equal, these still differ from the first ones, and so the
 * item as a whole is not. */
static double shift_of(const struct job *job, const void *values, int64_t n)
{
    enum { MOST_LOST = 16 }; /* of the squares of the values, for one of the differences */
    const double mean = job->loops->sum(values, n) / (double)n;
    struct td_run run;
    job->loops->measure(values, n, 1, mean, NULL, &run);
    return mean * mean * (double)n <= MOST_LOST * run.squares ? 0 : mean;
}

/* Sets item->part and the sums of its blocks; the sum is not finite if not careful and a value is
 * not. */
static void try_item(const struct job *job, struct space *space, struct item *item, bool careful)
{
    const int64_t first = td_smaller(item->n, job->careful_tile);
    const int64_t used = job->columns < WIDE ? td_smaller(job->period, item->n) : 0;
    double *sums = job->sums + (item - job->items) * job->column_blocks;
    memset(sums, 0, (size_t)job->column_blocks * sizeof *sums);
    memset(space->columns, 0, (size_t)used * sizeof space->columns[0]);
    space->careful = careful;
    if (!careful)
        space->shift = shift_of(job, values_of(job, space, item->begin, first), first);
    item->part = part_of_range(job, space, item, item->begin, item->n);
    add_columns(job, space->columns, item->begin, used, sums);
}

static void run_item(const struct job *job, struct space *space, struct item *item)
{
    try_item(job, space, item, false);
    if (!isfinite(item->part.sum))
        try_item(job, space, item, true);
}

static void run_items(void *context, int64_t begin, int64_t end)
{
    const struct job *job = context;
    struct space space;
    for (int64_t i = begin; i < end; i++)
        run_item(job, &space, &job->items[i]);
}

/* ---- Results ----------------------------------------------------------------------------- */

/* Divides each block of rows into items of about the same size. */
static void set_items(struct job *job, const struct td_statistics *matrix)
{
    const int64_t most = item_size(matrix->numel);
    for (int block = 0; block < matrix->row_blocks; block++) {
        const int64_t first =
            td_statistics_begin(matrix->rows, matrix->row_blocks, block) * matrix->columns;
        const int64_t end =
            td_statistics_begin(matrix->rows, matrix->row_blocks, block + 1) * matrix->columns;
        for (int64_t at = first; at < end; at += most)
            job->items[job->n_items++] =
                (struct item){ .begin = at, .n = td_smaller(most, end - at), .row_block = block };
    }
}

static td_status alloc_items(struct job *job, const struct td_statistics *matrix,
                             struct td_arena *arena, struct td_error *err)
{
    const size_t most =
        (size_t)(matrix->numel / item_size(matrix->numel)) + (size_t)matrix->row_blocks;
    const size_t n_sums = most * (size_t)matrix->column_blocks;
    job->items = td_arena_alloc(arena, most, sizeof *job->items, err);
    job->sums = td_arena_alloc(arena, n_sums, sizeof *job->sums, err);
    job->excluded = td_arena_alloc(arena, n_sums, sizeof *job->excluded, err);
    if (!job->items || !job->sums || !job->excluded)
        return err->status;
    return TD_OK;
}

static int64_t block_size(int64_t n, int blocks, int block)
{
    return td_statistics_begin(n, blocks, block + 1) - td_statistics_begin(n, blocks, block);
}

/* The mean of scaled values, which are of float64: not outside the values, as rounding could make
 * it. */
static double unscaled_mean(const struct td_statistics *of, double mean, double scale)
{
    return scale == 1 ? mean : fmin(fmax(mean / scale, of->least.real), of->greatest.real);
}

/* Sums of items to means of blocks: to all of them, or, of scaled values, to those that are not
 * known. */
static void set_means(const struct job *job, struct td_statistics *out)
{
    int64_t excluded[TD_STATISTICS_BLOCKS];
    double sums[TD_STATISTICS_BLOCKS];
    const struct item *item = job->items, *end = job->items + job->n_items;
    for (int row = 0; row < out->row_blocks; row++) {
        double *means = out->means + (int64_t)row * out->column_blocks;
        memset(excluded, 0, sizeof excluded);
        memset(sums, 0, sizeof sums);
        for (; item < end && item->row_block == row; item++)
            for (int i = 0; i < out->column_blocks; i++) {
                sums[i] += job->sums[(item - job->items) * out->column_blocks + i];
                excluded[i] += job->excluded[(item - job->items) * out->column_blocks + i];
            }
        for (int i = 0; i < out->column_blocks; i++) {
            const int64_t finite = block_size(out->rows, out->row_blocks, row) *
                                       block_size(out->columns, out->column_blocks, i) -
                                   excluded[i];
            if (job->scale == 1 || !isfinite(means[i]))
                means[i] =
                    finite > 0 ? unscaled_mean(out, sums[i] / (double)finite, job->scale) : NAN;
        }
    }
}

static void set_extreme_means(struct td_statistics *out)
{
    out->least_mean = out->greatest_mean = NAN;
    for (int i = 0; i < out->row_blocks * out->column_blocks; i++) {
        out->least_mean = fmin(out->least_mean, out->means[i]);
        out->greatest_mean = fmax(out->greatest_mean, out->means[i]);
    }
}

/* Infinite if the squares are too large, in which case differences of infinite sums may be NaN. */
static double root(double squares)
{
    return isnan(squares) ? INFINITY : sqrt(squares);
}

static void set_values(const struct part *part, struct td_statistics *out)
{
    const double n = (double)part->finite;
    out->zeros = part->zeros;
    out->nans = part->nans;
    out->positive_infinities = part->positive_infinities;
    out->negative_infinities = part->negative_infinities;
    out->finite = part->finite;
    if (part->finite == 0)
        return;
    out->least = part->least;
    out->greatest = part->greatest;
    out->mean = part->sum / n;
    out->deviation = root(part->squares / n);
    out->norm = root(part->squares + part->sum * out->mean);
}

/* The same from scaled values. What is small enough to be lost by the scale makes no difference to
 * them. */
static void set_scaled(const struct part *part, double scale, struct td_statistics *out)
{
    const double n = (double)part->finite, mean = part->sum / n;
    const double half = out->greatest.real / 2 - out->least.real / 2;
    out->mean = unscaled_mean(out, mean, scale);
    out->deviation = fmin(sqrt(part->squares / n) / scale, half);
    out->norm = sqrt(part->squares + part->sum * mean) / scale;
}

/* Was a sum too large? A block without finite values has no mean in any case. */
static bool has_overflowed(const struct td_statistics *of)
{
    if (of->finite == 0)
        return false;
    if (!isfinite(of->mean) || !isfinite(of->deviation) || !isfinite(of->norm))
        return true;
    for (int i = 0; i < of->row_blocks * of->column_blocks; i++)
        if (isinf(of->means[i]))
            return true;
    return false;
}

/* Lengths are computed as float64, which holds them exactly. */
static void set_lengths(const struct td_tensor *tensor, struct td_statistics *out)
{
    out->bytes = tensor->offsets[tensor->numel] - tensor->offsets[0];
    out->numbers = TD_NUMBERS_NATURAL;
    if (out->finite == 0)
        return;
    out->least.natural = (uint64_t)out->least.real;
    out->greatest.natural = (uint64_t)out->greatest.real;
}

static td_status measure(const struct job *job, struct td_exec *exec, struct part *part,
                         struct td_error *err)
{
    memset(job->excluded, 0, (size_t)(job->n_items * job->column_blocks) * sizeof *job->excluded);
    const td_status status =
        td_exec_for(exec, job->n_items, 1, run_items, (void *)(uintptr_t)job, err);
    if (status == TD_OK)
        *part = part_of_items(job, 0, job->n_items);
    return status;
}

/* Of values multiplied by so little that the sum of 2^63 of their squares is finite. */
static td_status measure_scaled(struct job *job, struct td_exec *exec, struct td_statistics *out,
                                struct td_error *err)
{
    struct part part;
    assert(job->dtype == TD_DTYPE_FLOAT64);
    job->scale = 0x1p-600;
    job->tile = job->careful_tile; /* they are copied */
    const td_status status = measure(job, exec, &part, err);
    if (status != TD_OK)
        return status;
    set_scaled(&part, job->scale, out);
    set_means(job, out);
    return TD_OK;
}

static td_status run(struct job *job, struct td_exec *exec, struct td_statistics *out,
                     struct td_error *err)
{
    struct part part;
    td_status status = alloc_items(job, out, exec->arena, err);
    if (status != TD_OK)
        return status;
    set_items(job, out);
    status = measure(job, exec, &part, err);
    if (status != TD_OK)
        return status;
    set_values(&part, out);
    set_means(job, out);
    return has_overflowed(out) ? measure_scaled(job, exec, out, err) : TD_OK;
}

td_status td_statistics_run(const struct td_tensor *tensor, struct td_exec *exec,
                            struct td_statistics *out, struct td_error *err)
{
    set_matrix(tensor, out);
    const td_isa isa = td_isa_resolve(exec->isa);
    struct job job = { .tensor = tensor,
                       .source = source_of(tensor->dtype),
                       .aligned = td_tensor_is_aligned(tensor),
                       .dtype = loop_dtype(tensor->dtype),
                       .columns = out->columns,
                       .scale = 1,
                       .column_blocks = out->column_blocks };
    job.numbers = out->numbers = numbers_of(job.dtype);
    job.loops = loops_of(job.dtype, isa);
    job.widen = job.source == VALUES_WIDENED ? td_widen(tensor->dtype, isa) : NULL;
    if (out->numel > 0) {
        job.period = job.columns * td_larger(1, PERIOD / job.columns);
        job.careful_tile = job.columns < WIDE ? job.period : PERIOD;
        job.tile = job.columns < WIDE && job.source == VALUES_STORED && job.aligned
                       ? job.period * ROWS
                       : job.careful_tile;
        const td_status status = run(&job, exec, out, err);
        if (status != TD_OK)
            return status;
    }
    set_extreme_means(out);
    if (tensor->dtype == TD_DTYPE_STRING)
        set_lengths(tensor, out);
    return TD_OK;
}
