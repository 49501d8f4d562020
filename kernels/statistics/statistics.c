#include "kernels/statistics/statistics.h"

#include "kernels/convert/cast_path.h"
#include "kernels/integers.h"
#include "kernels/statistics/loops.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum {
    /* Number of values in one item of the parallel loop. An item takes about 100 us. */
    ITEM = 1 << 18,
    MOST_ITEMS = 1 << 12, /* maximum number of items; items of larger tensors are larger */
    /* Number of values in a tile, which is measured as doubles that stay in the L1 cache. */
    TILE = 768,
    WIDE = 8192 /* with more columns, a block has at least 128 columns */
};

/* If all values of a tile are finite and smaller in magnitude than LARGE, their sums and sums of
 * squares are finite, even over 2^63 values. */
#define LARGE 0x1p450

/* Statistics of some values. The sums are long double, so sums of doubles do not overflow. */
struct part {
    int64_t finite, zeros, nans, positive_infinities, negative_infinities;
    union td_number minimum, maximum; /* extremes of the finite values, if there are any */
    long double sum;
    long double squares; /* sum of the squared differences from the mean */
};

/* Consecutive values that belong to one block of rows. */
struct item {
    int64_t begin, n;
    int row_block;
    struct part part;
};

struct job {
    const struct td_tensor *tensor;
    td_numbers numbers;
    const struct td_statistics_loops *loops;
    struct td_cast_path widen; /* casts values to float64 */
    int64_t columns;
    int column_blocks;
    struct item *items;
    int64_t n_items;
    long double *sums; /* [n_items, column_blocks] */
    int64_t *excluded; /* [n_items, column_blocks]: number of values that are not finite */
};

static td_numbers numbers_of(td_dtype dtype)
{
    const td_dtype_set integers =
        TD_DTYPE_BIT(INT8) | TD_DTYPE_BIT(INT16) | TD_DTYPE_BIT(INT32) | TD_DTYPE_BIT(INT64);
    if (td_dtype_is_float(dtype) || td_dtype_is_complex(dtype))
        return TD_NUMBERS_REAL;
    return integers >> dtype & 1 ? TD_NUMBERS_INTEGER : TD_NUMBERS_NATURAL;
}

static const struct td_statistics_loops *loops_of(td_isa isa)
{
    switch (isa) {
#ifdef __x86_64__
    case TD_ISA_AVX512:
    case TD_ISA_AVX512_BF16:
        return &td_statistics_loops_avx512;
    case TD_ISA_AVX2:
        return &td_statistics_loops_avx2;
#endif
    default:
        return &td_statistics_loops_generic;
    }
}

/* Sets numel and the shape of the matrix. An empty tensor has no blocks. */
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

/* Returns the block of columns that contains this column. */
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
    const uint64_t of_item = sizeof(struct item) + (uint64_t)matrix.column_blocks *
                                                       (sizeof(long double) + sizeof(int64_t));
    const uint64_t of_value = td_dtype_is_complex(tensor->dtype) ? 16 : 2;
    return (struct td_cost){ .bytes_read = td_tensor_footprint(tensor),
                             .bytes_written = td_statistics_bytes(tensor),
                             .flops = (uint64_t)tensor->numel * of_value,
                             .workspace = items * of_item + td_statistics_bytes(tensor) };
}

/* ---- values ---------------------------------------------------------------------------------- */

/* Computes absolute values. Squares of floats do not overflow in double. If one part is infinite,
 * hypot returns infinity, even if the other part is NaN. */
static void absolute(td_dtype dtype, const void *from, int64_t n, double *to)
{
    const float *narrow = from;
    const double *wide = from;
    for (int64_t i = 0; i < n; i++) {
        const bool is_narrow = dtype == TD_DTYPE_COMPLEX64;
        const double re = is_narrow ? (double)narrow[2 * i] : wide[2 * i];
        const double im = is_narrow ? (double)narrow[2 * i + 1] : wide[2 * i + 1];
        const double value = is_narrow ? sqrt(re * re + im * im) : NAN;
        to[i] = isnan(value) ? hypot(re, im) : value;
    }
}

static void lengths(const uint64_t *offsets, int64_t n, double *to)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = (double)(offsets[i + 1] - offsets[i]);
}

/* A tile of values, both as doubles and, except for strings, as stored. */
struct tile {
    const double *values;
    const void *stored;
    int64_t n;
    _Alignas(64) double converted[TILE];
    _Alignas(64) double copy[2 * TILE]; /* aligned copy of stored values */
};

static void read_tile(const struct job *job, int64_t begin, int64_t n, struct tile *tile)
{
    const struct td_tensor *tensor = job->tensor;
    const size_t size = td_dtype_info(tensor->dtype)->size;
    tile->n = n;
    tile->values = tile->converted;
    if (tensor->dtype == TD_DTYPE_STRING) {
        lengths(tensor->offsets + begin, n, tile->converted);
        return;
    }
    tile->stored = (const char *)tensor->data + (size_t)begin * size;
    if (!td_tensor_is_aligned(tensor))
        tile->stored = memcpy(tile->copy, tile->stored, (size_t)n * size);
    if (td_dtype_is_complex(tensor->dtype))
        absolute(tensor->dtype, tile->stored, n, tile->converted);
    else if (tensor->dtype == TD_DTYPE_FLOAT64)
        tile->values = tile->stored;
    else
        td_cast_path_run(&job->widen, tile->converted, tile->stored, n);
}

/* ---- parts ----------------------------------------------------------------------------------- */

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
    return a.real < b.real || (a.real == b.real && signbit(a.real) && !signbit(b.real));
}

/* Returns the sum of the squared differences from the common mean (Chan, Golub and LeVeque,
 * (2.1b)). */
static long double merged_squares(const struct part *a, const struct part *b)
{
    const long double n = (long double)a->finite, m = (long double)b->finite;
    const long double apart = b->sum / m - a->sum / n;
    return a->squares + b->squares + apart * apart * (n / (n + m)) * m;
}

static void merge(td_numbers numbers, struct part *to, const struct part *part)
{
    to->nans += part->nans;
    to->positive_infinities += part->positive_infinities;
    to->negative_infinities += part->negative_infinities;
    if (part->finite == 0)
        return;
    if (to->finite == 0 || is_less(numbers, part->minimum, to->minimum))
        to->minimum = part->minimum;
    if (to->finite == 0 || is_less(numbers, to->maximum, part->maximum))
        to->maximum = part->maximum;
    to->squares = to->finite == 0 ? part->squares : merged_squares(to, part);
    to->sum += part->sum;
    to->finite += part->finite;
    to->zeros += part->zeros;
}

/* True if the tile contains a zero with this sign. */
static bool has_zero(const struct tile *tile, bool negative)
{
    for (int64_t i = 0; i < tile->n; i++)
        if (tile->values[i] == 0 && signbit(tile->values[i]) == negative)
            return true;
    return false;
}

/* Sets the extremes of 64-bit integers, which double cannot always represent. */
static void set_wide_extremes(const struct tile *tile, td_numbers numbers, struct part *part)
{
    const int64_t *integers = tile->stored;
    const uint64_t *naturals = tile->stored;
    union td_number *low = &part->minimum, *high = &part->maximum;
    if (numbers == TD_NUMBERS_INTEGER) {
        low->integer = high->integer = integers[0];
        for (int64_t i = 1; i < tile->n; i++) {
            low->integer = td_smaller(low->integer, integers[i]);
            high->integer = td_larger(high->integer, integers[i]);
        }
        return;
    }
    low->natural = high->natural = naturals[0];
    for (int64_t i = 1; i < tile->n; i++) {
        low->natural = naturals[i] < low->natural ? naturals[i] : low->natural;
        high->natural = naturals[i] > high->natural ? naturals[i] : high->natural;
    }
}

/* Sets the extremes of a tile. A minimum of 0 becomes -0.0 if the tile has -0.0, and a maximum of 0
 * becomes 0.0 if the tile has 0.0. */
static void set_extremes(const struct job *job, const struct tile *tile, double minimum,
                         double maximum, struct part *part)
{
    if (job->tensor->dtype == TD_DTYPE_INT64 || job->tensor->dtype == TD_DTYPE_UINT64) {
        set_wide_extremes(tile, job->numbers, part);
    } else if (job->numbers == TD_NUMBERS_REAL) {
        part->minimum.real = minimum == 0 && has_zero(tile, true) ? -0.0 : minimum;
        part->maximum.real = maximum == 0 && has_zero(tile, false) ? 0.0 : maximum;
    } else if (job->numbers == TD_NUMBERS_INTEGER) {
        part->minimum.integer = (int64_t)minimum;
        part->maximum.integer = (int64_t)maximum;
    } else {
        part->minimum.natural = (uint64_t)minimum;
        part->maximum.natural = (uint64_t)maximum;
    }
}

/* Adds one value of a tile that has infinities, NaN or large values. Returns true if the value is
 * finite. */
static bool add_value(struct part *part, double value)
{
    if (!isfinite(value)) {
        part->nans += isnan(value);
        part->positive_infinities += value > 0;
        part->negative_infinities += value < 0;
        return false;
    }
    const union td_number number = { .real = value };
    if (part->finite == 0 || is_less(TD_NUMBERS_REAL, number, part->minimum))
        part->minimum = number;
    if (part->finite == 0 || is_less(TD_NUMBERS_REAL, part->maximum, number))
        part->maximum = number;
    part->finite++;
    part->zeros += value == 0;
    part->sum += (long double)value;
    return true;
}

/* ---- tiles ----------------------------------------------------------------------------------- */

/* The sums of one item, for each block of columns. */
struct blocks {
    long double *sums;
    int64_t *excluded;
};

/* Measures a tile with infinities, NaN or large values, and adds its values to the blocks. `begin`
 * is the position of the tile in the tensor. */
static struct part part_of_any(const struct job *job, const struct blocks *blocks,
                               const struct tile *tile, int64_t begin)
{
    struct part part = { 0 };
    for (int64_t i = 0; i < tile->n; i++) {
        const int block = block_of(job, (begin + i) % job->columns);
        if (add_value(&part, tile->values[i]))
            blocks->sums[block] += (long double)tile->values[i];
        else
            blocks->excluded[block]++;
    }
    const long double mean = part.finite ? part.sum / (long double)part.finite : 0;
    for (int64_t i = 0; i < tile->n; i++) {
        const long double apart = (long double)tile->values[i] - mean;
        if (isfinite(tile->values[i]))
            part.squares += apart * apart;
    }
    return part;
}

/* Measures a tile. Adds ordinary values to the columns, and other values to the blocks. */
static struct part part_of_tile(const struct job *job, const struct blocks *blocks,
                                const struct tile *tile, int64_t begin, double *columns)
{
    double sum, minimum, maximum;
    struct part part = { .finite = tile->n };
    job->loops->measure(tile->values, tile->n, &sum, &minimum, &maximum, &part.zeros);
    if (!isfinite(sum) || minimum < -LARGE || maximum > LARGE)
        return part_of_any(job, blocks, tile, begin);
    part.sum = (long double)sum;
    part.squares =
        (long double)job->loops->squares(tile->values, tile->n, sum / (double)tile->n, columns);
    set_extremes(job, tile, minimum, maximum, &part);
    return part;
}

/* Adds n column sums to the sums of their blocks. The first sum belongs to the column of position
 * `begin`. Sums of the same column are added to each other first. */
static void add_columns(const struct job *job, double *columns, int64_t begin, int64_t n,
                        long double *sums)
{
    double sum, minimum, maximum;
    int64_t zeros, length;
    for (int64_t i = job->columns; i < n; i++)
        columns[i % job->columns] += columns[i];
    n = td_smaller(n, job->columns);
    for (int64_t i = 0; i < n; i += length) {
        const int64_t column = (begin + i) % job->columns;
        const int block = block_of(job, column);
        const int64_t end = td_statistics_begin(job->columns, job->column_blocks, block + 1);
        length = td_smaller(n - i, end - column);
        job->loops->measure(columns + i, length, &sum, &minimum, &maximum, &zeros);
        sums[block] += (long double)sum;
    }
}

/* Measures the tiles of an item. Adds up the columns of the tiles, and adds these sums to the
 * blocks at the end. A tile holds several short rows, so each of their columns has several sums. If
 * rows have more than WIDE columns, adds each tile directly to the blocks. */
static void run_item(const struct job *job, struct tile *tile, struct item *item)
{
    double columns[WIDE];
    const int64_t at = (item - job->items) * job->column_blocks, end = item->begin + item->n;
    const struct blocks blocks = { job->sums + at, job->excluded + at };
    const bool is_long = job->columns > WIDE;
    const int64_t row = is_long ? TILE : job->columns * td_larger(1, TILE / job->columns);
    memset(columns, 0, (size_t)row * sizeof *columns);
    for (int64_t begin = item->begin; begin < end; begin += tile->n) {
        const int64_t offset = (begin - item->begin) % row;
        read_tile(job, begin, td_smaller(td_smaller(TILE, row - offset), end - begin), tile);
        const struct part part = part_of_tile(job, &blocks, tile, begin, columns + offset);
        merge(job->numbers, &item->part, &part);
        if (!is_long)
            continue;
        add_columns(job, columns, begin, tile->n, blocks.sums);
        memset(columns, 0, (size_t)row * sizeof *columns);
    }
    if (!is_long)
        add_columns(job, columns, item->begin, td_smaller(row, item->n), blocks.sums);
}

static void run_items(void *context, int64_t begin, int64_t end)
{
    const struct job *job = context;
    struct tile tile;
    for (int64_t i = begin; i < end; i++)
        run_item(job, &tile, &job->items[i]);
}

/* ---- results --------------------------------------------------------------------------------- */

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
    memset(job->sums, 0, n_sums * sizeof *job->sums);
    memset(job->excluded, 0, n_sums * sizeof *job->excluded);
    return TD_OK;
}

static int64_t block_size(int64_t n, int blocks, int block)
{
    return td_statistics_begin(n, blocks, block + 1) - td_statistics_begin(n, blocks, block);
}

static double as_double(td_numbers numbers, union td_number number)
{
    return numbers == TD_NUMBERS_REAL      ? number.real
           : numbers == TD_NUMBERS_INTEGER ? (double)number.integer
                                           : (double)number.natural;
}

/* Returns a mean, clamped to the range of the values, because rounding could move it outside. */
static double mean_of(const struct td_statistics *of, long double sum, int64_t n)
{
    return fmin(fmax((double)(sum / (long double)n), as_double(of->numbers, of->minimum)),
                as_double(of->numbers, of->maximum));
}

static void set_means(const struct job *job, struct td_statistics *out)
{
    const struct item *item = job->items, *end = job->items + job->n_items;
    out->minimum_mean = out->maximum_mean = NAN;
    for (int row = 0; row < out->row_blocks; row++) {
        int64_t excluded[TD_STATISTICS_BLOCKS] = { 0 };
        long double sums[TD_STATISTICS_BLOCKS] = { 0 };
        for (; item < end && item->row_block == row; item++)
            for (int i = 0; i < out->column_blocks; i++) {
                sums[i] += job->sums[(item - job->items) * out->column_blocks + i];
                excluded[i] += job->excluded[(item - job->items) * out->column_blocks + i];
            }
        for (int i = 0; i < out->column_blocks; i++) {
            const int64_t finite = block_size(out->rows, out->row_blocks, row) *
                                       block_size(out->columns, out->column_blocks, i) -
                                   excluded[i];
            const double mean = finite > 0 ? mean_of(out, sums[i], finite) : NAN;
            out->means[(int64_t)row * out->column_blocks + i] = mean;
            out->minimum_mean = fmin(out->minimum_mean, mean);
            out->maximum_mean = fmax(out->maximum_mean, mean);
        }
    }
}

static void set_values(const struct job *job, struct td_statistics *out)
{
    struct part part = { 0 };
    for (int64_t i = 0; i < job->n_items; i++)
        merge(job->numbers, &part, &job->items[i].part);
    out->zeros = part.zeros;
    out->nans = part.nans;
    out->positive_infinities = part.positive_infinities;
    out->negative_infinities = part.negative_infinities;
    out->finite = part.finite;
    if (part.finite == 0)
        return;
    out->minimum = part.minimum;
    out->maximum = part.maximum;
    const long double n = (long double)part.finite;
    const double half =
        as_double(job->numbers, part.maximum) / 2 - as_double(job->numbers, part.minimum) / 2;
    out->mean = mean_of(out, part.sum, part.finite);
    out->deviation = fmin((double)sqrtl(part.squares / n), half);
    out->norm = (double)sqrtl(part.squares + part.sum * (part.sum / n));
}

td_status td_statistics_run(const struct td_tensor *tensor, struct td_exec *exec,
                            struct td_statistics *out, struct td_error *err)
{
    const td_isa isa = td_isa_resolve(exec->isa);
    set_matrix(tensor, out);
    out->numbers = numbers_of(tensor->dtype);
    if (tensor->dtype == TD_DTYPE_STRING)
        out->bytes = tensor->offsets[tensor->numel] - tensor->offsets[0];
    struct job job = { .tensor = tensor,
                       .numbers = out->numbers,
                       .loops = loops_of(isa),
                       .columns = out->columns,
                       .column_blocks = out->column_blocks };
    if (tensor->dtype != TD_DTYPE_STRING)
        td_cast_path_find(&job.widen, tensor->dtype, TD_DTYPE_FLOAT64, isa);
    td_status status = tensor->numel > 0 ? alloc_items(&job, out, exec->arena, err) : TD_OK;
    if (status != TD_OK)
        return status;
    if (tensor->numel > 0)
        set_items(&job, out);
    status = td_exec_for(exec, job.n_items, 1, run_items, &job, err);
    if (status != TD_OK)
        return status;
    set_values(&job, out);
    set_means(&job, out);
    return TD_OK;
}
