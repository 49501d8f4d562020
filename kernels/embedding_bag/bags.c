#include "kernels/embedding_bag/bags.h"

#include "kernels/convert/cast_path.h"
#include "kernels/embedding_bag/arguments.h"
#include "kernels/embedding_bag/loops.h"
#include "kernels/integers.h"
#include "kernels/prefetch.h"
#include "kernels/rows/rows.h"
#include "kernels/workspace.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

/* ---- Plan -------------------------------------------------------------------------------- */

/* Maximum number of rows in a batch. The row numbers, multipliers and biases of a batch stay in the
 * L1 cache. */
#define BATCH      ((int64_t)1024)
/* Maximum number of columns that are summed at a time. The limit keeps the time for a batch of wide
 * rows below a millisecond. */
#define COLUMNS    ((int64_t)2048)
/* If there are more columns than WIDE, a batch has at most BATCH_WIDE rows. */
#define WIDE       ((int64_t)512)
#define BATCH_WIDE ((int64_t)256)
#define SUMS_BYTES (COLUMNS * (int64_t)sizeof(double))

/* A bag with more rows than a batch is summed in parts of half a batch. The last part includes the
 * remaining rows. */
struct plan {
    int64_t columns; /* number of columns per block; the last block can be narrower */
    int64_t n_blocks;
    int64_t batch, part; /* in rows */
    int64_t n_slots;     /* number of slots for the sums of parts of long bags */
    size_t real_size;    /* sizeof(double) for sums of float64, otherwise sizeof(float) */
};

static struct plan plan_of(const struct td_op_args *args,
                           const struct td_embedding_bag_geometry *geometry)
{
    struct plan plan = { .columns = td_smaller(geometry->row_numel, COLUMNS) };
    plan.n_blocks = td_ceil_div(geometry->row_numel, plan.columns);
    plan.batch = plan.columns > WIDE ? BATCH_WIDE : BATCH;
    plan.part = plan.batch / 2;
    if (geometry->n_indices > plan.batch)
        plan.n_slots = geometry->n_indices / plan.part + 1;
    plan.real_size = args->inputs[TD_BAG_PARAMS].tensors->dtype == TD_DTYPE_FLOAT64 ? sizeof(double)
                                                                                    : sizeof(float);
    return plan;
}

/* The divisor of a bag's sum, and a summary of the bag's rows. */
struct tally {
    /* Number of rows, sum of their weights, or sum of the squares of their weights. */
    double divisor;
    int64_t count; /* number of rows, including rows of zeros */
    /* True if the bag has a row of zeros, which replaces an out-of-bounds index and is not read
     * from params. */
    bool zeros;
    bool nan; /* true if the weight of a row of zeros is NaN or infinite, so the sum is NaN */
};

/* Returns an upper bound on the number of bags that are longer than a batch. */
static int64_t most_long_bags(const struct plan *plan, int64_t n_indices)
{
    return plan->n_slots > 0 ? n_indices / plan->batch + 1 : 0;
}

static uint64_t aligned_product(uint64_t a, uint64_t b)
{
    return td_workspace_align(td_capped_product(a, b));
}

uint64_t td_bags_workspace(const struct td_op_args *args)
{
    const struct td_embedding_bag_geometry geometry = td_embedding_bag_geometry(args);
    if (geometry.n_bags == 0)
        return 0;
    const struct plan plan = plan_of(args, &geometry);
    const uint64_t slots = (uint64_t)plan.n_slots;
    return aligned_product(aligned_product(slots, (uint64_t)geometry.row_numel), plan.real_size) +
           aligned_product(slots, sizeof(struct tally)) +
           aligned_product((uint64_t)most_long_bags(&plan, geometry.n_indices), sizeof(int64_t));
}

struct job {
    struct plan plan;
    struct td_embedding_bag_geometry geometry;
    struct td_embedding_bag_attrs attrs;
    const struct td_tensor *params, *indices;
    const struct td_tensor *weights; /* NULL if not given */
    const int64_t *starts;
    bool drops;  /* true if some indices select no row of params: padding, or rows of zeros */
    bool direct; /* true if the data of indices can be used as row numbers directly */
    bool checks; /* true if the indices must be checked against the bounds when read */
    bool counts; /* true if results depend on tallies */
    bool narrow; /* true if the loop rounds sums to the dtype of the output itself */
    bool stream;
    const char *scales, *biases;    /* floats; if biases is NULL, zero_points is used instead */
    size_t scale_bytes, bias_bytes; /* distance in bytes between consecutive elements */
    struct td_zero_points zero_points;
    td_bounds bounds;
    int64_t ahead;
    td_bag_fn *loop;
    struct td_cast_path weights_path; /* converts weights to the type of sums */
    struct td_cast_path path;         /* converts sums to the dtype of the output */
    struct td_tensor *out;
    char *partial;         /* sums of parts: [n_slots, row_numel] */
    struct tally *tallies; /* [n_slots] */
    int64_t *long_bags;    /* in no particular order */
    atomic_int_fast64_t n_long_bags;
    /* True if an index is out of bounds. Relaxed accesses are enough, because the end of
     * td_exec_for publishes the value. */
    atomic_bool outside;
};

/* Scratch memory of one call of sum_range, on its stack. */
struct space {
    int64_t limit; /* end of the indices of the range's bags */
    bool fresh;    /* true before the first batch of the range */
    int64_t rows[BATCH + TD_PREFETCH_MOST];
    int64_t kept[BATCH]; /* position in the batch of each row that is kept */
    int64_t ends[BATCH];
    double weights[BATCH], kept_weights[BATCH], factors[BATCH]; /* arrays of the type of sums */
    struct tally tallies[BATCH];
    _Alignas(64) char sums[SUMS_BYTES];
};

static int64_t bag_end(const struct job *job, int64_t bag)
{
    return bag + 1 < job->geometry.n_bags ? job->starts[bag + 1] : job->geometry.n_indices;
}

static int64_t bag_length(const struct job *job, int64_t bag)
{
    return bag_end(job, bag) - job->starts[bag];
}

static bool is_long(const struct job *job, int64_t bag)
{
    return bag_length(job, bag) > job->plan.batch;
}

/* ---- Batches ----------------------------------------------------------------------------- */

static double real_at(const struct job *job, const void *reals, int64_t i)
{
    return job->plan.real_size == sizeof(double) ? ((const double *)reals)[i]
                                                 : (double)((const float *)reals)[i];
}

static void set_real(const struct job *job, void *reals, int64_t i, double value)
{
    if (job->plan.real_size == sizeof(double))
        ((double *)reals)[i] = value;
    else
        ((float *)reals)[i] = (float)value;
}

/* Returns the weights of the indices [begin, begin + n) in the type of sums, or NULL if there are
 * no weights. */
static const void *weights_of(const struct job *job, struct space *space, int64_t begin, int64_t n)
{
    if (!job->weights)
        return NULL;
    const size_t size = td_dtype_info(job->weights->dtype)->size;
    const char *from = (const char *)job->weights->data + (size_t)begin * size;
    if (job->weights_path.n_steps == 0)
        return from;
    td_cast_path_run(&job->weights_path, space->weights, from, n);
    return space->weights;
}

/* Returns the row numbers of n indices and, for prefetching, of up to job->ahead indices after them
 * in the same range, because another thread can run the next range. Sets *n_known to the number of
 * row numbers. If job->checks is true and an index is out of bounds, sets job->outside and returns
 * NULL. */
static const int64_t *rows_of(struct job *job, struct space *space, int64_t begin, int64_t n,
                              int64_t *n_known)
{
    *n_known = td_smaller(td_larger(space->limit - begin, n), n + job->ahead);
    if (job->checks &&
        !td_rows_in_bounds(job->indices, begin, begin + *n_known, job->geometry.n_rows)) {
        atomic_store_explicit(&job->outside, true, memory_order_relaxed);
        return NULL;
    }
    if (job->direct)
        return (const int64_t *)job->indices->data + begin;
    td_rows_resolve_indices(job->indices, begin, *n_known, job->geometry.n_rows, job->bounds,
                            space->rows);
    return space->rows;
}

static void count_row(const struct job *job, struct tally *tally, const void *weights, int64_t i)
{
    const double weight = weights ? real_at(job, weights, i) : 1;
    tally->divisor += job->attrs.mode == TD_BAG_SQRTN ? weight * weight : weight;
    tally->count++;
}

/* Removes from a batch the indices that select no row of params. */
static void drop(const struct job *job, struct space *space, int64_t begin, const void *weights,
                 struct td_bag_batch *batch)
{
    int64_t kept = 0, i = 0;
    for (int64_t bag = 0; bag < batch->n_bags; bag++) {
        for (; i < space->ends[bag]; i++) {
            if (job->attrs.padding_index != TD_ATTR_UNSET &&
                td_tensor_index_at(job->indices, begin + i) == job->attrs.padding_index)
                continue;
            count_row(job, &space->tallies[bag], weights, i);
            if (space->rows[i] == TD_ROW_ZERO) {
                space->tallies[bag].zeros = true;
                space->tallies[bag].nan |= weights && !isfinite(real_at(job, weights, i));
                continue;
            }
            space->kept[kept] = i;
            space->rows[kept++] = space->rows[i];
        }
        space->ends[bag] = kept;
    }
    batch->n_known = kept;
}

static void count_rows(const struct job *job, struct space *space, const void *weights,
                       int64_t n_bags)
{
    int64_t i = 0;
    for (int64_t bag = 0; bag < n_bags; bag++) {
        struct tally *tally = &space->tallies[bag];
        if (weights)
            for (; i < space->ends[bag]; i++)
                count_row(job, tally, weights, i);
        tally->count = space->ends[bag] - (bag > 0 ? space->ends[bag - 1] : 0);
        if (!weights)
            tally->divisor = (double)tally->count;
    }
}

/* Returns the weights of the first n rows that remain in the batch. */
static const void *kept_weights(const struct job *job, struct space *space, const void *weights,
                                int64_t n)
{
    if (!weights || !job->drops)
        return weights;
    for (int64_t i = 0; i < n; i++)
        set_real(job, space->kept_weights, i, real_at(job, weights, space->kept[i]));
    return space->kept_weights;
}

/* Makes a batch of batch->n_bags bags from the indices starting at `begin`. space->ends contains
 * the end of each bag. If results depend on tallies, fills space->tallies. Returns false if an
 * index is out of bounds. */
static bool make_batch(struct job *job, struct space *space, int64_t begin, int64_t block,
                       struct td_bag_batch *batch)
{
    const int64_t n_indices = space->ends[batch->n_bags - 1];
    const size_t size = td_dtype_info(job->params->dtype)->size;
    const void *weights = weights_of(job, space, begin, n_indices);
    batch->table = (const char *)job->params->data + (size_t)(block * job->plan.columns) * size;
    batch->row_bytes = job->geometry.row_bytes;
    batch->columns =
        td_smaller(job->plan.columns, job->geometry.row_numel - block * job->plan.columns);
    batch->rows = rows_of(job, space, begin, n_indices, &batch->n_known);
    if (!batch->rows)
        return false;
    batch->ahead = job->ahead;
    batch->fresh = space->fresh;
    space->fresh = false;
    batch->ends = space->ends;
    batch->scales = job->scales;
    batch->scale_bytes = job->scale_bytes;
    batch->offsets = job->biases;
    batch->offset_bytes = job->bias_bytes;
    batch->zero_points = job->zero_points;
    if (job->counts || job->drops)
        memset(space->tallies, 0, (size_t)batch->n_bags * sizeof(space->tallies[0]));
    if (job->drops)
        drop(job, space, begin, weights, batch);
    else if (job->counts)
        count_rows(job, space, weights, batch->n_bags);
    batch->weights = kept_weights(job, space, weights, space->ends[batch->n_bags - 1]);
    return true;
}

/* ---- Results ----------------------------------------------------------------------------- */

/* Returns the factor by which to multiply the sum of a bag, which is 0 if the divisor is 0. */
static double factor_of(const struct job *job, const struct tally *tally)
{
    switch (job->attrs.mode) {
    case TD_BAG_MEAN:
        return tally->divisor == 0 ? 0 : 1 / tally->divisor;
    case TD_BAG_SQRTN:
        return tally->divisor == 0 ? 0 : 1 / sqrt(tally->divisor);
    default:
        return 1;
    }
}

static bool has_divisor(const struct job *job)
{
    return job->attrs.mode == TD_BAG_MEAN || job->attrs.mode == TD_BAG_SQRTN;
}

/* Corrects the results of special bags. The result is zeros for a bag that has no rows or whose
 * divisor is 0, whatever its rows contain. The loops do not read rows of zeros, so for max, this
 * function compares the results with 0. A row of zeros whose weight is NaN or infinite makes the
 * results NaN. */
static void finish(const struct job *job, const struct tally *tally, void *sums, int64_t n,
                   size_t size)
{
    const bool greatest = job->attrs.mode == TD_BAG_MAX;
    if (tally->count == 0 || (has_divisor(job) && tally->divisor == 0))
        memset(sums, 0, (size_t)n * size);
    for (int64_t c = 0; tally->nan && c < n; c++)
        set_real(job, sums, c, NAN);
    for (int64_t c = 0; greatest && tally->zeros && c < n; c++)
        if (real_at(job, sums, c) < 0)
            set_real(job, sums, c, 0);
}

static char *output_of(const struct job *job, int64_t bag, int64_t block)
{
    const int64_t at = bag * job->geometry.row_numel + block * job->plan.columns;
    return (char *)job->out->data + (size_t)at * td_dtype_info(job->out->dtype)->size;
}

static void sum_bags(struct job *job, struct space *space, int64_t bag, int64_t n_bags,
                     int64_t block)
{
    const bool direct = job->narrow || job->path.n_steps == 0;
    const size_t size = job->narrow ? td_dtype_info(job->out->dtype)->size : job->plan.real_size;
    struct td_bag_batch batch = { .n_bags = n_bags, .narrow = job->narrow, .stream = job->stream };
    const int64_t begin = job->starts[bag], last = bag_end(job, bag + n_bags - 1);
    /* Nonzero if a bag does not have exactly one row. */
    int64_t others = 0;
    for (int64_t k = 0; k < n_bags - 1; k++) {
        space->ends[k] = job->starts[bag + k + 1] - begin;
        others |= space->ends[k] ^ (k + 1);
    }
    space->ends[n_bags - 1] = last - begin;
    others |= (last - begin) ^ n_bags;
    batch.single = others == 0 && !job->drops;
    if (!make_batch(job, space, begin, block, &batch))
        return;
    if (has_divisor(job)) {
        for (int64_t k = 0; k < n_bags; k++)
            set_real(job, space->factors, k, factor_of(job, &space->tallies[k]));
        batch.factors = space->factors;
    }
    batch.sums = direct ? output_of(job, bag, block) : space->sums;
    batch.sums_bytes = (size_t)(direct ? job->geometry.row_numel : batch.columns) * size;
    job->loop(&batch);
    for (int64_t k = 0; job->counts && k < n_bags; k++)
        finish(job, &space->tallies[k], (char *)batch.sums + (size_t)k * batch.sums_bytes,
               batch.columns, size);
    if (!direct && job->plan.n_blocks == 1)
        td_cast_path_run(&job->path, output_of(job, bag, 0), space->sums, n_bags * batch.columns);
    else if (!direct)
        for (int64_t k = 0; k < n_bags; k++)
            td_cast_path_run(&job->path, output_of(job, bag + k, block),
                             space->sums + (size_t)k * batch.sums_bytes, batch.columns);
}

/* ---- Long bags --------------------------------------------------------------------------- */

/* Returns the slot of a part. No two parts share a slot, because the last part of a bag is not
 * shorter than the other parts. */
static int64_t slot_of(const struct job *job, int64_t bag, int64_t part)
{
    return job->starts[bag] / job->plan.part + part;
}

static int64_t n_parts(const struct job *job, int64_t bag)
{
    return bag_length(job, bag) / job->plan.part;
}

static char *partial_of(const struct job *job, int64_t slot, int64_t block)
{
    const int64_t at = slot * job->geometry.row_numel + block * job->plan.columns;
    return job->partial + (size_t)at * job->plan.real_size;
}

static void sum_part(struct job *job, struct space *space, int64_t bag, int64_t part, int64_t block)
{
    const int64_t slot = slot_of(job, bag, part), begin = job->starts[bag] + part * job->plan.part;
    const int64_t end = part + 1 < n_parts(job, bag) ? begin + job->plan.part : bag_end(job, bag);
    struct td_bag_batch batch = { .n_bags = 1, .sums = partial_of(job, slot, block) };
    space->ends[0] = end - begin;
    if (!make_batch(job, space, begin, block, &batch))
        return;
    job->loop(&batch);
    if (job->counts && block == 0)
        job->tallies[slot] = space->tallies[0];
}

#define ADD_PARTIAL(real)                                                                          \
    for (int64_t c = 0; c < n; c++) {                                                              \
        const real x = ((const real *)from)[c], most = ((real *)to)[c];                            \
        ((real *)to)[c] = !greatest ? most + x : x > most || x != x ? x : most;                    \
    }

static void add_partial(const struct job *job, void *to, const void *from, int64_t n)
{
    const bool greatest = job->attrs.mode == TD_BAG_MAX;
    if (job->plan.real_size == sizeof(double))
        ADD_PARTIAL(double)
    else
        ADD_PARTIAL(float)
}

static void add_tally(struct tally *tally, const struct tally *more)
{
    tally->divisor += more->divisor;
    tally->count += more->count;
    tally->zeros |= more->zeros;
    tally->nan |= more->nan;
}

/* Adds up the parts of long bags. Item i is block i % n_blocks of long bag i / n_blocks. */
static void add_parts(void *context, int64_t begin, int64_t end)
{
    const struct job *job = context;
    for (int64_t item = begin; item < end; item++) {
        const int64_t bag = job->long_bags[item / job->plan.n_blocks];
        const int64_t block = item % job->plan.n_blocks, slot = slot_of(job, bag, 0);
        const int64_t n =
            td_smaller(job->plan.columns, job->geometry.row_numel - block * job->plan.columns);
        char *sums = partial_of(job, slot, block);
        struct tally tally = { 0 };
        for (int64_t part = 0; part < n_parts(job, bag); part++) {
            if (job->counts)
                add_tally(&tally, &job->tallies[slot + part]);
            if (part > 0)
                add_partial(job, sums, partial_of(job, slot + part, block), n);
        }
        const double factor = factor_of(job, &tally);
        for (int64_t c = 0; factor != 1 && c < n; c++)
            set_real(job, sums, c, real_at(job, sums, c) * factor);
        if (job->counts)
            finish(job, &tally, sums, n, job->plan.real_size);
        td_cast_path_run(&job->path, output_of(job, bag, block), sums, n);
    }
}

/* ---- Ranges ------------------------------------------------------------------------------ */

/* Returns the first work unit of a bag. A bag has one unit for itself, followed by one for each of
 * its indices. */
static int64_t unit_of(const struct job *job, int64_t bag)
{
    return job->starts[bag] + bag;
}

/* Returns the first bag whose first unit is at least `unit`. */
static int64_t bag_at(const struct job *job, int64_t unit)
{
    int64_t low = 0, high = job->geometry.n_bags;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (unit_of(job, middle) < unit)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Sums the parts of a long bag that start in the units [begin, end). */
static void sum_parts(struct job *job, struct space *space, int64_t bag, int64_t begin, int64_t end,
                      int64_t block)
{
    const int64_t first = unit_of(job, bag), size = job->plan.part;
    int64_t part = begin > first ? td_ceil_div(begin - first, size) : 0;
    for (; part < n_parts(job, bag) && first + part * size < end; part++)
        sum_part(job, space, bag, part, block);
}

/* Returns the number of consecutive bags, from `bag` onwards, that form one batch. All of them
 * start before unit `end`. */
static int64_t bags_of_batch(const struct job *job, int64_t bag, int64_t end)
{
    int64_t least = 0, most = td_smaller(BATCH, job->geometry.n_bags - bag);
    if (job->path.n_steps > 0 && !job->narrow)
        most = td_smaller(most, SUMS_BYTES / (job->plan.columns * (int64_t)job->plan.real_size));
    while (least < most) {
        const int64_t n = most - (most - least) / 2;
        if (unit_of(job, bag + n - 1) < end &&
            bag_end(job, bag + n - 1) - job->starts[bag] <= job->plan.batch)
            least = n;
        else
            most = n - 1;
    }
    return least;
}

static void sum_units(struct job *job, struct space *space, int64_t begin, int64_t end,
                      int64_t block)
{
    int64_t bag = bag_at(job, begin);
    const int64_t next = bag_at(job, end);
    space->limit = next < job->geometry.n_bags ? job->starts[next] : job->geometry.n_indices;
    space->fresh = true;
    if (bag > 0 && is_long(job, bag - 1))
        sum_parts(job, space, bag - 1, begin, end, block);
    while (bag < job->geometry.n_bags && unit_of(job, bag) < end) {
        const int64_t n = bags_of_batch(job, bag, end);
        if (n > 0) {
            sum_bags(job, space, bag, n, block);
        } else {
            if (block == 0)
                job->long_bags[atomic_fetch_add_explicit(&job->n_long_bags, 1,
                                                         memory_order_relaxed)] = bag;
            sum_parts(job, space, bag, begin, end, block);
        }
        bag += n > 0 ? n : 1;
    }
}

/* Sums the work units of a range. Item i is unit i % units of column block i / units. */
static void sum_range(void *context, int64_t begin, int64_t end)
{
    struct job *job = context;
    const int64_t units = job->geometry.n_indices + job->geometry.n_bags;
    struct space space;
    while (begin < end) {
        const int64_t block = begin / units, first = begin % units;
        const int64_t n = td_smaller(units - first, end - begin);
        sum_units(job, &space, first, first + n, block);
        begin += n;
    }
}

/* ---- Run --------------------------------------------------------------------------------- */

static const struct td_bag_loops *loops_of(td_isa isa)
{
#ifdef __x86_64__
    if (isa >= TD_ISA_AVX512)
        return &td_bag_loops_avx512;
    if (isa == TD_ISA_AVX2)
        return &td_bag_loops_avx2;
#endif
    (void)isa;
    return &td_bag_loops_generic;
}

/* Size in bytes of the widest vector of any instruction set. */
#define WIDEST_VECTOR 64

static size_t row_stride(const struct td_tensor *floats)
{
    return floats->shape.rank > 0 ? sizeof(float) : 0;
}

static void find_scales(struct job *job, const struct td_op_args *args)
{
    const struct td_tensor *scale = td_embedding_bag_given(args, TD_BAG_SCALE),
                           *offset = td_embedding_bag_given(args, TD_BAG_OFFSET);
    if (!scale) {
        job->scales = (const char *)job->params->data + job->geometry.row_bytes - TD_ROW_TRAILER;
        job->biases = job->scales + sizeof(float);
        job->scale_bytes = job->bias_bytes = job->geometry.row_bytes;
        return;
    }
    job->scales = scale->data;
    job->scale_bytes = row_stride(scale);
    job->biases = offset ? offset->data : NULL;
    job->bias_bytes = offset ? row_stride(offset) : 0;
    job->zero_points = td_zero_points_of(td_embedding_bag_given(args, TD_BAG_ZERO_POINT));
}

/* On many servers, a table and an output that together have fewer bytes than this fit in the
 * last-level cache that a core uses. Streaming stores, which bypass the cache, would then take up
 * to twice as long: 37 ns per row instead of 18 (20 MB of bags of one row, Zen 4). */
#define LAST_CACHE ((size_t)32 * 1024 * 1024)

/* True if the output should be written with streaming stores. This requires that
 * td_rows_should_stream returns true, that table and output together do not fit in the cache, and
 * that each row consists of whole, aligned vectors of any instruction set. */
static bool should_stream(const struct td_tensor *params, const struct td_tensor *out,
                          int64_t row_numel)
{
    const size_t row_bytes = (size_t)row_numel * td_dtype_info(out->dtype)->size;
    return (params->bytes >= LAST_CACHE || params->bytes + out->bytes >= LAST_CACHE) &&
           td_rows_should_stream(out->bytes, row_bytes) && row_bytes % WIDEST_VECTOR == 0 &&
           (uintptr_t)out->data % WIDEST_VECTOR == 0;
}

static void init(struct job *job, struct td_op_args *args, td_isa isa)
{
    const struct td_bag_loops *loops = loops_of(isa);
    const td_dtype dtype = job->params->dtype;
    const td_dtype real = dtype == TD_DTYPE_FLOAT64 ? TD_DTYPE_FLOAT64 : TD_DTYPE_FLOAT32;
    const bool quantized = dtype == TD_DTYPE_INT8 || dtype == TD_DTYPE_UINT8;
    job->ahead = td_prefetch_ahead(job->params->bytes,
                                   (size_t)job->plan.columns * td_dtype_info(dtype)->size);
    job->out = &args->outputs[0];
    const bool weighted_zeros = job->weights && job->bounds == TD_BOUNDS_ZERO;
    job->counts = job->attrs.mode != TD_BAG_SUM || weighted_zeros;
    if (job->attrs.mode == TD_BAG_MAX)
        job->loop = loops->greatest[dtype];
    else if (quantized || job->weights)
        job->loop = loops->weighted_sum[dtype];
    else
        job->loop = loops->sum[dtype];
    if (quantized)
        find_scales(job, args);
    if (job->weights)
        td_cast_path_find(&job->weights_path, job->weights->dtype, real, isa);
    td_cast_path_find(&job->path, real, job->out->dtype, isa);
    const bool zeros = job->attrs.mode == TD_BAG_MAX && job->bounds == TD_BOUNDS_ZERO;
    job->narrow = loops->narrows && job->path.n_steps > 0 && job->out->dtype == dtype && !zeros &&
                  !weighted_zeros;
    job->stream =
        job->path.n_steps == 0 && should_stream(job->params, job->out, job->geometry.row_numel);
}

static td_status alloc(struct job *job, struct td_arena *arena, struct td_error *err)
{
    const struct plan *plan = &job->plan;
    if (plan->n_slots == 0)
        return TD_OK;
    job->partial = td_arena_alloc(arena, (size_t)(plan->n_slots * job->geometry.row_numel),
                                  plan->real_size, err);
    job->tallies = job->partial
                       ? td_arena_alloc(arena, (size_t)plan->n_slots, sizeof(job->tallies[0]), err)
                       : NULL;
    job->long_bags =
        job->tallies ? td_arena_alloc(arena, (size_t)most_long_bags(plan, job->geometry.n_indices),
                                      sizeof(job->long_bags[0]), err)
                     : NULL;
    return job->long_bags ? TD_OK : err->status;
}

/* Returns the number of work units in a range. Each thread gets at least RANGES ranges, so no
 * thread waits long for the last range of another, but a range has at least LEAST_UNITS. With two
 * threads, 20,000 rows of 16 bytes would otherwise be three ranges. */
#define RANGES      4
#define LEAST_UNITS ((int64_t)1024)
static int64_t units_in_range(int64_t n, size_t row_bytes, int width)
{
    const int64_t even = td_ceil_div(n, RANGES * (int64_t)width);
    return td_smaller(td_rows_in_range(row_bytes), td_larger(even, LEAST_UNITS));
}

td_status td_bags_run(struct td_op_args *args, const int64_t *starts, td_bag_indices known,
                      bool *outside, struct td_exec *exec, struct td_error *err)
{
    struct job job = {
        .geometry = td_embedding_bag_geometry(args),
        .attrs = td_embedding_bag_attrs(args),
        .params = args->inputs[TD_BAG_PARAMS].tensors,
        .indices = args->inputs[TD_BAG_INDICES].tensors,
        .weights = td_embedding_bag_given(args, TD_BAG_WEIGHTS),
        .starts = starts,
        .checks = known == TD_BAG_INDICES_UNKNOWN,
        .n_long_bags = 0,
        .outside = false,
    };
    const bool replaced = known == TD_BAG_INDICES_OUT_OF_BOUNDS;
    job.plan = plan_of(args, &job.geometry);
    job.bounds = replaced ? job.attrs.bounds : TD_BOUNDS_ERROR;
    job.drops = job.attrs.padding_index != TD_ATTR_UNSET || job.bounds == TD_BOUNDS_ZERO;
    job.direct = !job.drops && !replaced && job.indices->dtype == TD_DTYPE_INT64;
    init(&job, args, td_isa_resolve(exec->isa));
    td_status status = alloc(&job, exec->arena, err);
    if (status != TD_OK)
        return status;
    const int64_t units = job.geometry.n_indices + job.geometry.n_bags;
    const size_t bytes = (size_t)job.plan.columns * td_dtype_info(job.params->dtype)->size;
    const int64_t n = units * job.plan.n_blocks;
    status = td_exec_for(exec, n, units_in_range(n, bytes, exec->width), sum_range, &job, err);
    *outside = atomic_load_explicit(&job.outside, memory_order_relaxed);
    const int64_t n_long = atomic_load_explicit(&job.n_long_bags, memory_order_relaxed);
    if (status == TD_OK && n_long > 0 && !*outside)
        status = td_exec_for(exec, n_long * job.plan.n_blocks, 1, add_parts, &job, err);
    return status;
}
