#include "kernels/normalisation/groups.h"

#include "kernels/convert/convert.h"
#include "kernels/integers.h"
#include "kernels/workspace.h"

/* Neighbouring groups form a panel of up to TD_NORM_LANES columns, so that memory is read in order.
 * If inner is 1, a panel is a single group, which is contiguous. A panel is processed in blocks,
 * whose size depends only on the shape: sums are added up in the order of the blocks. */
enum { BLOCK_ELEMENTS = 4096, BLOCK_ROWS = 128 };

/* A range of td_exec_for has about RANGE elements: 2 us of work for float32 with AVX-512, and 50 us
 * for a softmax of float64. Longer ranges would leave a thread without work at the end of small
 * calls (bench_normalisation: 128 groups of 384 elements). Panels with more than LONG elements are
 * processed one at a time, with their blocks in parallel, unless there are enough other panels for
 * all threads. */
#define RANGE     ((int64_t)8 * 1024)
#define LONG      ((int64_t)64 * 1024)
#define VERY_LONG ((int64_t)256 * 1024)

struct geometry {
    int64_t n_panels; /* per outer index */
    int64_t columns;  /* the last panel of an outer index can have fewer */
    int64_t block;    /* number of elements of each column in a block */
    int64_t n_blocks; /* per panel */
    bool native;      /* stored values are computed without conversion */
};

static struct geometry geometry_of(const struct td_norm_groups *groups)
{
    struct geometry geometry = { .n_panels = td_ceil_div(groups->inner, TD_NORM_LANES) };
    geometry.columns = td_ceil_div(groups->inner, geometry.n_panels);
    geometry.n_panels = td_ceil_div(groups->inner, geometry.columns);
    geometry.block = groups->inner == 1 ? BLOCK_ELEMENTS : BLOCK_ROWS;
    geometry.n_blocks = td_ceil_div(groups->n, geometry.block);
    geometry.native = td_compute_is_native(groups->x->dtype);
    return geometry;
}

uint64_t td_norm_groups_scratch(const struct td_norm_groups *groups)
{
    const struct geometry geometry = geometry_of(groups);
    const int64_t n = td_smaller(groups->n, geometry.block) * geometry.columns;
    return geometry.native ? 0 : td_workspace_align((uint64_t)n * sizeof(float));
}

uint64_t td_norm_groups_workspace(const struct td_norm_groups *groups)
{
    const struct geometry geometry = geometry_of(groups);
    const bool is_long = groups->n * geometry.columns > LONG;
    return is_long ? (uint64_t)geometry.n_blocks * sizeof(struct td_norm_sums) : 0;
}

/* ---- Blocks ------------------------------------------------------------------------------ */

struct panel {
    int64_t offset; /* of its first element, in elements of the tensors */
    int columns;
};

struct job {
    struct td_norm_groups groups;
    struct geometry geometry;
    const struct td_norm_loops *loops;
    td_widen_fn *widen;
    td_narrow_fn *narrow;
    size_t size;         /* size in bytes of a stored element */
    size_t compute_size; /* size in bytes of a number */
    struct td_workspace workspace;
    /* For a panel whose blocks are processed in parallel. */
    struct panel panel;
    struct td_norm_facts *facts;
    struct td_norm_sums *sums; /* of each block, for reduction `pass` */
    td_norm_reduction pass;
};

/* Block i of a panel: its place in the tensors, and the numbers to compute with. */
struct place {
    struct td_norm_block block;
    int64_t offset; /* in elements of the tensors */
    int64_t begin;  /* position of its first elements in their groups */
};

static struct panel panel_at(const struct job *job, int64_t i)
{
    const struct geometry *geometry = &job->geometry;
    if (job->groups.inner == 1) /* without divisions, which take longer than a short group */
        return (struct panel){ .offset = i * job->groups.n, .columns = 1 };
    const int64_t outer = i / geometry->n_panels;
    const int64_t column = i % geometry->n_panels * geometry->columns;
    return (struct panel){
        .offset = outer * job->groups.n * job->groups.inner + column,
        .columns = (int)td_smaller(geometry->columns, job->groups.inner - column),
    };
}

static struct place place_of(const struct job *job, const struct panel *panel, int64_t i,
                             void *scratch)
{
    const struct td_norm_groups *groups = &job->groups;
    const struct geometry *geometry = &job->geometry;
    const int64_t begin = i * geometry->block, offset = panel->offset + begin * groups->inner;
    struct place place = { .offset = offset, .begin = begin };
    struct td_norm_block *block = &place.block;
    block->n = td_smaller(geometry->block, groups->n - begin);
    block->columns = panel->columns;
    block->contiguous = groups->inner == 1;
    block->from = scratch;
    block->to = scratch;
    block->from_stride = block->to_stride = block->columns;
    if (geometry->native) {
        block->from = (const char *)groups->x->data + (size_t)offset * job->size;
        block->to = (char *)groups->out->data + (size_t)offset * job->size;
        block->from_stride = block->to_stride = groups->inner;
    }
    return place;
}

/* Number of rows of a block in memory, and of elements in each. */
static int64_t rows_of(const struct td_norm_block *block)
{
    return block->contiguous ? 1 : block->n;
}

static int64_t width_of(const struct td_norm_block *block)
{
    return block->contiguous ? block->n : block->columns;
}

/* Converts the elements of a block to numbers, in the scratch memory of the block. */
static void load(const struct job *job, const struct place *place)
{
    const struct td_norm_block *block = &place->block;
    const char *from = (const char *)job->groups.x->data + (size_t)place->offset * job->size;
    char *to = block->to;
    if (job->geometry.native)
        return;
    for (int64_t i = 0; i < rows_of(block); i++) {
        job->widen(to, from, 1, width_of(block));
        to += (size_t)block->to_stride * job->compute_size;
        from += (size_t)job->groups.inner * job->size;
    }
}

static void store(const struct job *job, const struct place *place)
{
    const struct td_norm_block *block = &place->block;
    const char *from = block->to;
    char *to = (char *)job->groups.out->data + (size_t)place->offset * job->size;
    if (job->geometry.native)
        return;
    for (int64_t i = 0; i < rows_of(block); i++) {
        job->narrow(to, 1, from, width_of(block));
        from += (size_t)block->to_stride * job->compute_size;
        to += (size_t)job->groups.inner * job->size;
    }
}

/* Computes the results of a block, whose elements are loaded. */
static void map_block(const struct job *job, struct place *place, const struct td_norm_facts *facts)
{
    const struct td_norm_groups *groups = &job->groups;
    const struct td_norm_method *method = groups->method;
    const size_t begin = (size_t)place->begin * job->compute_size;
    struct td_norm_block *block = &place->block;
    /* The map of exponentials is applied to the exponentials that the second pass stored. Where
     * blocks share scratch memory, the exponentials are lost, and computed again. */
    if (method->second == TD_NORM_EXPONENTIALS) {
        struct td_norm_sums ignored;
        if (!job->geometry.native && job->geometry.n_blocks > 1)
            job->loops->reduce[method->second](block, facts, &ignored);
        block->from = block->to;
    }
    job->loops->map[method->map](block, facts,
                                 groups->scale ? (const char *)groups->scale + begin : NULL,
                                 groups->bias ? (const char *)groups->bias + begin : NULL);
    store(job, place);
}

/* ---- Panels ------------------------------------------------------------------------------ */

/* Combines the result of the first n elements of each column with the result of the next n_more
 * elements. */
static void combine(struct td_norm_sums *sums, int64_t n, const struct td_norm_sums *more,
                    int64_t n_more, int columns, td_norm_reduction reduction)
{
    if (reduction == TD_NORM_MAXIMUM) {
        for (int j = 0; j < columns; j++)
            sums->of[j] = more->of[j] > sums->of[j] ? more->of[j] : sums->of[j];
    } else if (reduction == TD_NORM_MOMENTS) {
        const double total = (double)(n + n_more), difference = more->of[0] - sums->of[0];
        sums->of[0] += difference * ((double)n_more / total);
        sums->squares +=
            more->squares + difference * difference * ((double)n * ((double)n_more / total));
    } else {
        for (int j = 0; j < columns; j++)
            sums->of[j] += more->of[j];
    }
}

static void learn(const struct job *job, struct td_norm_facts *facts,
                  const struct td_norm_sums *sums, int columns, bool is_first)
{
    const struct td_norm_method *method = job->groups.method;
    (is_first ? method->learn_first : method->learn_second)(facts, sums, columns, job->groups.n,
                                                            job->groups.epsilon);
}

/* Makes one pass over a panel. The block of a panel with a single block is loaded only by the first
 * pass. */
static void reduce_panel(const struct job *job, const struct panel *panel,
                         td_norm_reduction reduction, bool is_first, struct td_norm_facts *facts,
                         void *scratch)
{
    struct td_norm_sums sums, more;
    for (int64_t i = 0; i < job->geometry.n_blocks; i++) {
        const struct place place = place_of(job, panel, i, scratch);
        if (is_first || job->geometry.n_blocks > 1)
            load(job, &place);
        job->loops->reduce[reduction](&place.block, facts, i == 0 ? &sums : &more);
        if (i > 0)
            combine(&sums, place.begin, &more, place.block.n, panel->columns, reduction);
    }
    learn(job, facts, &sums, panel->columns, is_first);
}

static void forget(struct td_norm_facts *facts, int columns)
{
    for (int j = 0; j < columns; j++)
        facts->of[TD_NORM_SHIFT][j] = facts->of[TD_NORM_FACTOR][j] = 0;
}

static void run_panel(const struct job *job, const struct panel *panel, void *scratch)
{
    const struct td_norm_method *method = job->groups.method;
    struct td_norm_facts facts;
    forget(&facts, panel->columns);
    reduce_panel(job, panel, method->first, true, &facts, scratch);
    if (method->second != TD_NORM_REDUCTIONS)
        reduce_panel(job, panel, method->second, false, &facts, scratch);
    for (int64_t i = 0; i < job->geometry.n_blocks; i++) {
        struct place place = place_of(job, panel, i, scratch);
        if (job->geometry.n_blocks > 1)
            load(job, &place);
        map_block(job, &place, &facts);
    }
}

/* Returns the scratch memory for one range, which is NULL if there is nothing to convert. */
static void *acquire(struct job *job, int *area)
{
    if (job->geometry.native)
        return NULL;
    *area = td_workspace_acquire(&job->workspace);
    return td_workspace_scratch(&job->workspace, *area);
}

static void release(struct job *job, int area)
{
    if (!job->geometry.native)
        td_workspace_release(&job->workspace, area);
}

static void run_panels(void *context, int64_t begin, int64_t end)
{
    struct job *job = context;
    int area = 0;
    void *scratch = acquire(job, &area);
    for (int64_t i = begin; i < end; i++) {
        const struct panel panel = panel_at(job, i);
        run_panel(job, &panel, scratch);
    }
    release(job, area);
}

/* ---- Long panels ------------------------------------------------------------------------- */

static void reduce_blocks(void *context, int64_t begin, int64_t end)
{
    struct job *job = context;
    int area = 0;
    void *scratch = acquire(job, &area);
    for (int64_t i = begin; i < end; i++) {
        const struct place place = place_of(job, &job->panel, i, scratch);
        load(job, &place);
        job->loops->reduce[job->pass](&place.block, job->facts, &job->sums[i]);
    }
    release(job, area);
}

static void map_blocks(void *context, int64_t begin, int64_t end)
{
    struct job *job = context;
    int area = 0;
    void *scratch = acquire(job, &area);
    for (int64_t i = begin; i < end; i++) {
        struct place place = place_of(job, &job->panel, i, scratch);
        load(job, &place);
        map_block(job, &place, job->facts);
    }
    release(job, area);
}

static td_status reduce_long(struct job *job, td_norm_reduction reduction, bool is_first,
                             int64_t grain, struct td_exec *exec, struct td_error *err)
{
    const struct geometry *geometry = &job->geometry;
    struct td_norm_sums *sums = job->sums;
    job->pass = reduction;
    td_status status = td_exec_for(exec, geometry->n_blocks, grain, reduce_blocks, job, err);
    if (status != TD_OK)
        return status;
    for (int64_t i = 1; i < geometry->n_blocks; i++) {
        const int64_t begin = i * geometry->block;
        combine(&sums[0], begin, &sums[i], td_smaller(geometry->block, job->groups.n - begin),
                job->panel.columns, reduction);
    }
    learn(job, job->facts, &sums[0], job->panel.columns, is_first);
    return TD_OK;
}

static td_status run_long_panel(struct job *job, struct td_exec *exec, struct td_error *err)
{
    const struct td_norm_method *method = job->groups.method;
    const int64_t grain = td_larger(RANGE / (job->geometry.block * job->geometry.columns), 1);
    struct td_norm_facts facts;
    forget(&facts, job->panel.columns);
    job->facts = &facts;
    td_status status = reduce_long(job, method->first, true, grain, exec, err);
    if (status == TD_OK && method->second != TD_NORM_REDUCTIONS)
        status = reduce_long(job, method->second, false, grain, exec, err);
    if (status != TD_OK)
        return status;
    return td_exec_for(exec, job->geometry.n_blocks, grain, map_blocks, job, err);
}

/* ---- Run --------------------------------------------------------------------------------- */

static const struct td_norm_loops *loops_of(td_isa isa)
{
#ifdef __x86_64__
    if (isa >= TD_ISA_AVX512)
        return td_norm_loops_avx512;
    if (isa == TD_ISA_AVX2)
        return td_norm_loops_avx2;
#endif
    (void)isa;
    return td_norm_loops_generic;
}

static td_status alloc_workspace(struct job *job, struct td_exec *exec, struct td_error *err)
{
    struct td_workspace *workspace = &job->workspace;
    const uint64_t shared = td_workspace_align(td_norm_groups_workspace(&job->groups));
    const uint64_t scratch = td_norm_groups_scratch(&job->groups);
    workspace->n_threads = (int)td_smaller(exec->width, TD_WORKSPACE_MAX_THREADS);
    workspace->scratch_bytes = (size_t)scratch;
    const uint64_t bytes = shared + (uint64_t)workspace->n_threads * scratch;
    workspace->shared = bytes > 0 ? td_arena_alloc(exec->arena, (size_t)bytes, 1, err) : NULL;
    if (bytes > 0 && !workspace->shared)
        return err->status;
    workspace->scratch = bytes > 0 ? workspace->shared + shared : NULL;
    job->sums = (void *)workspace->shared;
    return TD_OK;
}

td_status td_norm_groups_run(const struct td_norm_groups *groups, struct td_exec *exec,
                             struct td_error *err)
{
    const td_isa isa = td_isa_resolve(exec->isa);
    const td_compute compute = td_compute_of(groups->x->dtype);
    struct job job = {
        .groups = *groups,
        .geometry = geometry_of(groups),
        .loops = &loops_of(isa)[compute == TD_COMPUTE_F64],
        .widen = td_widen(groups->x->dtype, isa),
        .narrow = td_narrow(groups->x->dtype, isa),
        .size = td_dtype_info(groups->x->dtype)->size,
        .compute_size = td_compute_size(compute),
    };
    const int64_t n_panels = groups->n_outer * job.geometry.n_panels;
    const int64_t elements = groups->n * job.geometry.columns;
    td_status status = alloc_workspace(&job, exec, err);
    if (status != TD_OK)
        return status;
    if (elements <= LONG || (elements <= VERY_LONG && n_panels >= 4 * (int64_t)exec->width))
        return td_exec_for(exec, n_panels, td_larger(RANGE / elements, 1), run_panels, &job, err);
    for (int64_t i = 0; status == TD_OK && i < n_panels; i++) {
        job.panel = panel_at(&job, i);
        status = run_long_panel(&job, exec, err);
    }
    return status;
}
