#include "kernels/search/scan.h"

#include "kernels/integers.h"
#include "kernels/rows/rows.h"
#include "kernels/search/scores.h"
#include "kernels/workspace.h"

#include <math.h>
#include <string.h>

/* Minimum and maximum number of queries in a group, unless there are fewer. A group is a multiple
 * of MIN_GROUP, the largest number of queries in a tile. */
#define MIN_GROUP   ((int64_t)TD_SEARCH_PANELS * TD_SEARCH_LANES)
#define GROUP       ((int64_t)64)
/* Maximum size in bytes of the queries of a group and of the rows of a block. Both stay in the L2
 * cache. */
#define GROUP_BYTES ((int64_t)192 * 1024)
#define BLOCK_BYTES ((int64_t)96 * 1024)
/* Maximum size in bytes of the rows of a block that queries read one by one from the L1 cache. */
#define ALONE_BYTES ((int64_t)16 * 1024)
/* Size of a range of parallel_for: bytes read, and bytes of queries read from the cache divided by
 * CACHE_RATIO. A range takes about 50 us. */
#define RANGE_BYTES ((int64_t)1024 * 1024)
#define CACHE_RATIO 8
/* Maximum size in bytes of the selections of one thread. */
#define PASS_BYTES  ((int64_t)32 * 1024 * 1024)
/* The bytes that are prefetched before they are read. */
#define AHEAD_BYTES ((int64_t)16384)
#define MERGE_GRAIN 64

static const struct td_search_loops *loops_of(td_isa isa)
{
#ifdef __x86_64__
    if (isa >= TD_ISA_AVX512)
        return &td_search_loops_avx512;
    if (isa == TD_ISA_AVX2)
        return &td_search_loops_avx2;
#endif
    (void)isa;
    return &td_search_loops_generic;
}

/* ---- Plan -------------------------------------------------------------------------------- */

/* Sizes that depend only on the shapes. Bytes are multiples of 64. */
struct plan {
    size_t real_size;
    int64_t pass;  /* queries in one pass over the table */
    int64_t group; /* queries that are scored against a block together */
    int64_t block; /* rows of a block that panels of queries read, or that is converted */
    int64_t alone; /* rows of a block that queries read one by one */
    uint64_t row, rows, sums, entries, selections; /* bytes */
    uint64_t scratch;                              /* bytes of each thread */
};

static int64_t clamp(int64_t value, int64_t least, int64_t most)
{
    return td_larger(least, td_smaller(value, most));
}

static struct plan plan_of(td_dtype real, td_dtype stored, int64_t columns, int64_t n_queries,
                           int64_t k)
{
    const size_t size = td_dtype_info(real)->size;
    const int64_t row = td_larger(1, columns * (int64_t)size);
    const int64_t entries =
        td_search_best_room(k) * (int64_t)td_search_best_type_of(real)->entry_size;
    struct plan plan = {
        .real_size = size,
        .pass = clamp(PASS_BYTES / entries, 1, td_larger(n_queries, 1)),
        .group = clamp(GROUP_BYTES / row, MIN_GROUP, GROUP) / MIN_GROUP * MIN_GROUP,
        .block = clamp(BLOCK_BYTES / row, TD_SEARCH_TILE_ROWS, TD_SEARCH_BLOCK) /
                 TD_SEARCH_TILE_ROWS * TD_SEARCH_TILE_ROWS,
        .alone = clamp(ALONE_BYTES / row, 1, TD_SEARCH_BLOCK),
        .row = td_workspace_align((uint64_t)row),
        .entries = td_workspace_align((uint64_t)entries),
    };
    plan.sums = (uint64_t)(GROUP + 1) * TD_SEARCH_BLOCK * size;
    plan.selections = td_workspace_align((uint64_t)plan.pass * sizeof(struct td_search_best));
    plan.rows = stored == real ? 0 : (uint64_t)plan.block * plan.row;
    plan.scratch =
        plan.rows + plan.sums + plan.selections + ((uint64_t)plan.pass + 1) * plan.entries;
    return plan;
}

uint64_t td_search_scan_scratch(td_dtype real, td_dtype stored, int64_t columns, int64_t n_queries,
                                int64_t k)
{
    return plan_of(real, stored, columns, n_queries, k).scratch;
}

/* ---- Threads ----------------------------------------------------------------------------- */

struct job;
struct area;

/* The rows of a block: their number, and the number of the block's first row or candidate. */
struct span {
    int64_t begin;
    int n;
};

/* Scores a block against a group of queries, and keeps the best rows. */
typedef void scan_block_fn(const struct job *job, struct span span, int64_t query,
                           int64_t n_queries, const struct area *area);

struct job {
    const struct td_search_scan *scan;
    const struct td_search_table *table;
    struct plan plan;
    const struct td_search_loops *loops;
    const struct td_search_real_loops *real_loops;
    const struct td_search_best_type *best_type;
    bool is_double, is_converted; /* rows are converted before they are scored */
    td_search_sum sum;
    double *query_norms; /* squares, then TD_SEARCH_LANES zeros; NULL unless the metric is cosine */
    char *packed; /* the queries of the pass, interleaved or in panels; NULL until there are any */
    struct td_workspace workspace;
    int64_t first_query, n_queries; /* of the pass */
    int64_t chunk, n_groups;
    scan_block_fn *scan_block; /* for the queries of the pass */
    int64_t block;             /* maximum number of rows of a block */
};

/* The scratch memory of a thread. */
struct area {
    char *rows, *sums, *norms;
    struct td_search_best *best; /* for each query of the pass */
    char *spare, *entries;
};

static struct area area_of(const struct job *job, int thread)
{
    const struct plan *plan = &job->plan;
    struct area area = { .rows = td_workspace_scratch(&job->workspace, thread) };
    area.sums = area.rows + plan->rows;
    area.norms = area.sums + (size_t)GROUP * TD_SEARCH_BLOCK * plan->real_size;
    area.best = (struct td_search_best *)(void *)(area.sums + plan->sums);
    area.spare = (char *)area.best + plan->selections;
    area.entries = area.spare + plan->entries;
    return area;
}

static void begin_selections(const struct job *job)
{
    for (int thread = 0; thread < job->workspace.n_threads; thread++) {
        const struct area area = area_of(job, thread);
        for (int64_t q = 0; q < job->n_queries; q++)
            td_search_best_begin(&area.best[q], job->scan->queries[job->first_query + q].k,
                                 area.entries + (size_t)q * job->plan.entries);
    }
}

/* ---- Scores ------------------------------------------------------------------------------ */

static int64_t row_number(const struct td_search_scan *scan, int64_t i)
{
    return scan->candidates ? scan->candidates[i] : i;
}

/* Sets the addresses of n rows, starting with row or candidate `begin`. After the last row, repeats
 * its address. */
static void find_addresses(const struct job *job, int64_t begin, int64_t n, const char **rows)
{
    const struct td_search_scan *scan = job->scan;
    for (int64_t i = 0; i < n; i++)
        rows[i] =
            td_search_row(job->table, row_number(scan, td_smaller(begin + i, scan->n_rows - 1)));
}

/* Sets the addresses of the block's rows and of the rows to prefetch, which can be past the end of
 * a range but not of the table. */
static void find_rows(const struct job *job, struct span span, int ahead,
                      struct td_search_block *block)
{
    block->n_rows = span.n;
    block->ahead = ahead;
    block->columns = job->table->columns;
    block->end = td_search_row(job->table, job->table->n_rows);
    find_addresses(job, span.begin, span.n + ahead, block->rows);
}

static void find_scales(const struct job *job, struct span span, struct td_search_block *block)
{
    block->by_offset = job->table->by_offset;
    for (int i = 0; i < span.n; i++)
        td_search_table_scaling(job->table, row_number(job->scan, span.begin + i), &block->scale[i],
                                &block->offset[i]);
}

/* Converts the rows, and replaces their addresses. */
static void convert_rows(const struct job *job, struct span span, char *to,
                         struct td_search_block *block)
{
    for (int i = 0; i < span.n; i++) {
        block->rows[i] = to + (size_t)i * job->plan.row;
        td_search_table_read(job->table, row_number(job->scan, span.begin + i),
                             to + (size_t)i * job->plan.row);
    }
    block->ahead = 0;
}

static const char *query_values(const struct job *job, int64_t query)
{
    return (const char *)job->scan->values +
           (size_t)(query * job->table->columns) * job->plan.real_size;
}

static td_dtype real_of(const struct job *job)
{
    return job->is_double ? TD_DTYPE_FLOAT64 : TD_DTYPE_FLOAT32;
}

static int ahead_of(const struct job *job)
{
    return (int)clamp(AHEAD_BYTES / td_larger(1, (int64_t)job->table->row_bytes) + 1, 1,
                      TD_SEARCH_AHEAD);
}

/* Turns the sums of one query into scores and keeps the best rows. */
static void select_rows(const struct job *job, struct span span, int64_t query, char *scores,
                        const struct area *area)
{
    const struct td_search_scan *scan = job->scan;
    struct td_search_best *best = &area->best[query - job->first_query];
    if (scan->metric == TD_SEARCH_L2)
        job->real_loops->distances(scores, span.n);
    if (job->query_norms)
        job->real_loops->cosines(scores, area->norms, job->query_norms[query], span.n);
    if (!job->real_loops->any_at_least(scores, span.n, best->threshold))
        return;
    const struct td_search_scored scored = {
        .scores = scores,
        .numbers = scan->candidates ? scan->candidates + span.begin : NULL,
        .first = span.begin,
        .n = span.n,
    };
    job->best_type->offer(best, &scan->queries[query].excluded, &scored, area->spare);
}

/* Reads or converts the rows of a block, for loops that read stored rows. Returns their dtype. */
static td_dtype begin_block(const struct job *job, struct span span, const struct area *area,
                            struct td_search_block *block)
{
    find_rows(job, span, ahead_of(job), block);
    if (job->is_converted) {
        convert_rows(job, span, area->rows, block);
        return real_of(job);
    }
    if (job->table->dequantize)
        find_scales(job, span, block);
    return job->table->dtype;
}

/* Scores a block against queries one by one, and keeps the best rows. */
static void scan_alone(const struct job *job, struct span span, int64_t query, int64_t n_queries,
                       const struct area *area)
{
    struct td_search_block block;
    const td_dtype stored = begin_block(job, span, area, &block);
    for (int64_t q = query; q < query + n_queries; q++) {
        job->loops->one[job->sum][stored](area->sums, job->query_norms ? area->norms : NULL, &block,
                                          query_values(job, q));
        select_rows(job, span, q, area->sums, area);
    }
}

/* Scores a block against interleaved queries, and keeps the best rows. */
static void scan_interleaved(const struct job *job, struct span span, int64_t query,
                             int64_t n_queries, const struct area *area)
{
    struct td_search_block block;
    const td_dtype stored = begin_block(job, span, area, &block);
    const size_t sums_bytes = TD_SEARCH_BLOCK * job->plan.real_size;
    job->loops->few[job->sum][stored](area->sums, job->query_norms ? area->norms : NULL, &block,
                                      job->packed);
    for (int64_t q = 0; q < n_queries; q++)
        select_rows(job, span, query + q, area->sums + (size_t)q * sums_bytes, area);
}

/* ---- Panels of queries ------------------------------------------------------------------- */

static size_t panel_bytes(const struct job *job)
{
    return (size_t)job->real_loops->lanes * (size_t)job->table->columns * job->plan.real_size;
}

static size_t panel_sums_bytes(const struct job *job)
{
    return (size_t)job->real_loops->lanes * TD_SEARCH_BLOCK * job->plan.real_size;
}

/* The size of the packed queries of a pass. Later passes have no more queries than the first. */
static size_t packed_bytes(const struct job *job)
{
    const struct td_search_real_loops *loops = job->real_loops;
    const size_t columns = (size_t)job->table->columns * job->plan.real_size;
    const size_t interleaved = (size_t)loops->few * (columns + TD_SEARCH_SUM_BYTES);
    const size_t panels = (size_t)td_ceil_div(job->n_queries, loops->lanes) * panel_bytes(job);
    return interleaved > panels ? interleaved : panels;
}

/* Implements td_range_fn: packs panels of the pass. */
static void pack_range(void *context, int64_t begin, int64_t end)
{
    const struct job *job = context;
    const int64_t lanes = job->real_loops->lanes;
    for (int64_t panel = begin; panel < end; panel++)
        job->real_loops->pack(job->packed + (size_t)panel * panel_bytes(job),
                              query_values(job, job->first_query + panel * lanes),
                              (int)td_smaller(lanes, job->n_queries - panel * lanes),
                              job->table->columns);
}

/* Computes the sums of a block and the panels [panel, panel + n_panels). */
static void score_panels(const struct job *job, struct span span, int64_t panel, int64_t n_panels,
                         const struct area *area)
{
    struct td_search_block block;
    const char *later[TD_SEARCH_BLOCK];
    find_rows(job, span, 0, &block);
    find_addresses(job, span.begin + span.n, TD_SEARCH_BLOCK, later);
    if (job->table->dtype != real_of(job))
        convert_rows(job, span, area->rows, &block);
    if (job->query_norms)
        job->loops->one[TD_SEARCH_PRODUCTS][real_of(job)](area->sums, area->norms, &block,
                                                          query_values(job, job->first_query));
    int n_rows = span.n;
    for (; n_rows % TD_SEARCH_TILE_ROWS != 0; n_rows++) /* the last tile repeats the last row */
        block.rows[n_rows] = block.rows[span.n - 1];
    for (int64_t p = 0; p < n_panels; p += TD_SEARCH_PANELS)
        job->real_loops->tile[job->sum](
            area->sums + (size_t)p * panel_sums_bytes(job), block.rows, p == 0 ? later : block.rows,
            n_rows, job->packed + (size_t)(panel + p) * panel_bytes(job),
            (int)td_smaller(TD_SEARCH_PANELS, n_panels - p), block.columns);
}

/* Turns the sums of a panel, whose first query is `query`, into scores and keeps the best rows of
 * its n queries. */
static void select_panel(const struct job *job, struct span span, int64_t query, int n,
                         char *scores, const struct area *area)
{
    const struct td_search_scan *scan = job->scan;
    const struct td_search_real_loops *loops = job->real_loops;
    struct td_search_best *best = &area->best[query - job->first_query];
    double thresholds[TD_SEARCH_LANES];
    uint16_t reached[TD_SEARCH_BLOCK];
    if (scan->metric == TD_SEARCH_L2)
        loops->distances(scores, span.n * loops->lanes);
    if (job->query_norms)
        loops->panel_cosines(scores, area->norms, job->query_norms + query, span.n);
    for (int q = 0; q < loops->lanes; q++)
        thresholds[q] = q < n ? best[q].threshold : INFINITY;
    if (!loops->reach(scores, thresholds, span.n, reached))
        return;
    for (int r = 0; r < span.n; r++)
        for (unsigned lanes = reached[r] & ((1U << n) - 1); lanes; lanes &= lanes - 1) {
            const int q = __builtin_ctz(lanes);
            const struct td_search_scored scored = {
                .scores = scores + (size_t)(r * loops->lanes + q) * job->plan.real_size,
                .first = row_number(scan, span.begin + r),
                .n = 1,
            };
            job->best_type->offer(&best[q], &scan->queries[query + q].excluded, &scored,
                                  area->spare);
        }
}

/* Scores a block against panels of queries, and keeps the best rows. */
static void scan_panels(const struct job *job, struct span span, int64_t query, int64_t n_queries,
                        const struct area *area)
{
    const int64_t lanes = job->real_loops->lanes;
    const int64_t n_panels = td_ceil_div(n_queries, lanes);
    score_panels(job, span, (query - job->first_query) / lanes, n_panels, area);
    for (int64_t p = 0; p < n_panels; p++)
        select_panel(job, span, query + p * lanes, (int)td_smaller(lanes, n_queries - p * lanes),
                     area->sums + (size_t)p * panel_sums_bytes(job), area);
}

/* ---- Ranges ------------------------------------------------------------------------------ */

/* Scores the rows [begin, end) against a group of queries. */
static void scan_rows(const struct job *job, int64_t begin, int64_t end, int64_t query,
                      int64_t n_queries, const struct area *area)
{
    for (int64_t at = begin; at < end; at += job->block) {
        const struct span span = { at, (int)td_smaller(job->block, end - at) };
        job->scan_block(job, span, query, n_queries, area);
    }
}

/* Implements td_range_fn: item i is group i % n_groups of chunk i / n_groups. */
static void scan_range(void *context, int64_t begin, int64_t end)
{
    struct job *job = context;
    const int thread = td_workspace_acquire(&job->workspace);
    const struct area area = area_of(job, thread);
    for (int64_t item = begin; item < end; item++) {
        const int64_t row = item / job->n_groups * job->chunk;
        const int64_t query = item % job->n_groups * job->plan.group;
        scan_rows(job, row, td_smaller(row + job->chunk, job->scan->n_rows),
                  job->first_query + query, td_smaller(job->plan.group, job->n_queries - query),
                  &area);
    }
    td_workspace_release(&job->workspace, thread);
}

/* Implements td_range_fn: merges the selections of all threads, and writes the outputs. */
static void merge_range(void *context, int64_t begin, int64_t end)
{
    struct job *job = context;
    const struct td_search_scan *scan = job->scan;
    const struct td_search_best_type *type = job->best_type;
    const int own = td_workspace_acquire(&job->workspace);
    void *const spare = area_of(job, own).spare;
    for (int64_t q = begin; q < end; q++) {
        struct td_search_best *best = &area_of(job, 0).best[q];
        for (int thread = 1; thread < job->workspace.n_threads; thread++)
            type->absorb(best, &area_of(job, thread).best[q], spare);
        const struct td_search_query *query = &scan->queries[job->first_query + q];
        type->write(best, query->k, scan->metric == TD_SEARCH_L2, query->scores, query->indices,
                    spare);
    }
    td_workspace_release(&job->workspace, own);
}

/* ---- Run --------------------------------------------------------------------------------- */

/* Chooses how the queries of the pass are scored. */
static void choose_scan(struct job *job)
{
    const int64_t rows = job->is_converted ? job->plan.block : TD_SEARCH_BLOCK;
    if (job->n_queries <= job->real_loops->alone) {
        job->scan_block = scan_alone;
        job->block = job->n_queries == 1 ? rows : td_smaller(rows, job->plan.alone);
    } else if (job->n_queries <= job->real_loops->few) {
        job->scan_block = scan_interleaved;
        job->block = rows;
    } else {
        job->scan_block = scan_panels;
        job->block = job->plan.block;
    }
}

/* Interleaves the queries of the pass, or packs them into panels. */
static td_status pack_queries(struct job *job, struct td_exec *exec, struct td_error *err)
{
    const struct td_search_real_loops *loops = job->real_loops;
    const int64_t n_panels = td_ceil_div(job->n_queries, loops->lanes);
    if (job->scan_block == scan_alone)
        return TD_OK;
    if (!job->packed)
        job->packed = td_arena_alloc(exec->arena, 1, packed_bytes(job), err);
    if (!job->packed)
        return err->status;
    if (job->scan_block == scan_panels)
        return td_exec_for(exec, n_panels, td_rows_in_range(panel_bytes(job)), pack_range, job,
                           err);
    loops->interleave(job->packed, query_values(job, job->first_query), (int)job->n_queries,
                      job->table->columns);
    return TD_OK;
}

static td_status run_pass(struct job *job, struct td_exec *exec, struct td_error *err)
{
    const int64_t group = td_smaller(job->plan.group, job->n_queries);
    const int64_t row_bytes = td_larger(1, (int64_t)job->table->row_bytes);
    const int64_t work = row_bytes + group * (int64_t)(job->plan.row / CACHE_RATIO);
    job->chunk = td_ceil_div(td_larger(1, RANGE_BYTES / work), TD_SEARCH_BLOCK) * TD_SEARCH_BLOCK;
    job->n_groups = td_ceil_div(job->n_queries, job->plan.group);
    choose_scan(job);
    begin_selections(job);
    const int64_t n_chunks = td_ceil_div(job->scan->n_rows, job->chunk);
    td_status status = pack_queries(job, exec, err);
    if (status == TD_OK)
        status = td_exec_for(exec, n_chunks * job->n_groups, 1, scan_range, job, err);
    return status != TD_OK ? status
                           : td_exec_for(exec, job->n_queries, MERGE_GRAIN, merge_range, job, err);
}

static td_status alloc_workspace(struct job *job, struct td_exec *exec, struct td_error *err)
{
    struct td_workspace *workspace = &job->workspace;
    workspace->n_threads = (int)td_smaller(exec->width, TD_WORKSPACE_MAX_THREADS);
    workspace->scratch_bytes = (size_t)job->plan.scratch;
    workspace->scratch =
        td_arena_alloc(exec->arena, (size_t)workspace->n_threads, workspace->scratch_bytes, err);
    return workspace->scratch ? TD_OK : err->status;
}

/* Computes the sums of the squares of the queries. */
static td_status measure_queries(struct job *job, struct td_exec *exec, struct td_error *err)
{
    const struct td_search_scan *scan = job->scan;
    job->query_norms = td_arena_alloc(exec->arena, (size_t)scan->n_queries + TD_SEARCH_LANES,
                                      sizeof(job->query_norms[0]), err);
    if (!job->query_norms)
        return err->status;
    memset(job->query_norms + scan->n_queries, 0, TD_SEARCH_LANES * sizeof(job->query_norms[0]));
    for (int64_t q = 0; q < scan->n_queries; q++) {
        struct td_search_block block = { .n_rows = 1, .columns = job->table->columns };
        char sum[sizeof(double)], norm[sizeof(double)];
        float narrow;
        block.rows[0] = query_values(job, q);
        job->loops->one[TD_SEARCH_PRODUCTS][real_of(job)](sum, norm, &block, block.rows[0]);
        memcpy(&narrow, norm, sizeof(narrow));
        job->query_norms[q] = (double)narrow;
        if (job->is_double)
            memcpy(&job->query_norms[q], norm, sizeof(double));
    }
    return TD_OK;
}

static int64_t largest_k(const struct td_search_scan *scan)
{
    int64_t k = 1;
    for (int64_t q = 0; q < scan->n_queries; q++)
        k = td_larger(k, scan->queries[q].k);
    return k;
}

td_status td_search_scan_run(const struct td_search_scan *scan, struct td_exec *exec,
                             struct td_error *err)
{
    const struct td_search_table *table = scan->table;
    const struct td_search_loops *loops = loops_of(td_isa_resolve(exec->isa));
    const bool is_double = table->real == TD_DTYPE_FLOAT64;
    struct job job = {
        .scan = scan,
        .table = table,
        .plan =
            plan_of(table->real, table->dtype, table->columns, scan->n_queries, largest_k(scan)),
        .loops = loops,
        .real_loops = is_double ? loops->of_double : loops->of_float,
        .best_type = td_search_best_type_of(table->real),
        .is_double = is_double,
        .is_converted = is_double != (table->dtype == TD_DTYPE_FLOAT64),
        .sum = scan->metric == TD_SEARCH_L2 ? TD_SEARCH_DIFFERENCES : TD_SEARCH_PRODUCTS,
    };
    td_status status = alloc_workspace(&job, exec, err);
    if (status == TD_OK && scan->metric == TD_SEARCH_COSINE)
        status = measure_queries(&job, exec, err);
    for (; status == TD_OK && job.first_query < scan->n_queries; job.first_query += job.plan.pass) {
        job.n_queries = td_smaller(job.plan.pass, scan->n_queries - job.first_query);
        status = run_pass(&job, exec, err);
    }
    return status;
}
