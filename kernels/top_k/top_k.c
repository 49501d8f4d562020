#include "kernels/top_k/top_k.h"

#include "kernels/axes.h"
#include "kernels/by_rows.h"
#include "kernels/integers.h"
#include "kernels/isa.h"
#include "kernels/rows/gathering.h"
#include "kernels/top_k/keys.h"
#include "kernels/workspace.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

/* ---- Selection --------------------------------------------------------------------------- */

/* Number of elements that are converted to keys at a time. The keys stay in the L1 cache, and most
 * blocks contain no key that is better than the keys found so far. */
#define BLOCK ((int64_t)256)
/* Number of keys of a block that are looked at one by one if any of them is better. */
#define GROUP ((int64_t)32)
/* Maximum number of entries that are kept by insertion, which is faster than sorting a few
 * entries. */
#define FEW   16

/* Returns the number of candidates for which a selection of k out of n elements has room. */
static int64_t room_for(int64_t n, int64_t k)
{
    return k <= FEW ? k : td_smaller(n, 2 * k + 2 * BLOCK);
}

/* The elements to select from. */
struct source {
    const char *data;
    td_dtype dtype;
    const struct td_top_k_keys *loops;
    uint64_t flip;  /* all ones to select the smallest elements, otherwise 0 */
    int64_t stride; /* distance in elements between two neighbours in a row */
};

#define GATHER(width)                                                                              \
    for (int64_t i = 0; i < n; i++)                                                                \
    memcpy((char *)to + (size_t)i * (width), from + (size_t)(i * x->stride) * (width), width)

/* Returns n <= BLOCK elements of a row, starting at element `begin` of x. `to` has room for
 * them. */
static const void *elements(const struct source *x, int64_t begin, int64_t n, void *to)
{
    const size_t size = td_dtype_info(x->dtype)->size;
    const char *from = x->data + (size_t)begin * size;
    if (x->stride == 1)
        return from;
    switch (size) {
    case 1:
        GATHER(1);
        break;
    case 2:
        GATHER(2);
        break;
    case 4:
        GATHER(4);
        break;
    default:
        GATHER(8);
    }
    return to;
}

/* Selection with keys of one type. An entry is a key and the position of its element. */
struct entries_type {
    size_t size; /* size in bytes of an entry */
    /* Returns the best k of n elements of a row, starting at element `begin` of x, in order. The
     * position of the first element is `position`. Elements whose key is below `lowest` are left
     * out; if fewer than k remain, entries with the key 0 follow. scratch has room for
     * 2 * room_for(n, k) entries and contains the result. */
    void *(*select)(const struct source *x, int64_t begin, int64_t n, int64_t k, int64_t position,
                    uint64_t lowest, void *scratch);
    uint64_t (*key)(const void *entries, int64_t i);
    /* Merges a and b, but writes only the entries [begin, end) of the result, to the same positions
     * of out. Among equal entries, entries of a come first. */
    void (*merge)(void *out, const void *a, int64_t n_a, const void *b, int64_t n_b, int64_t begin,
                  int64_t end);
    void (*positions)(const void *entries, int64_t n, int32_t *to);
};

#define TD_KEY        uint32_t
#define TD_NAME(name) name##_uint32
#include "kernels/top_k/select.inc"

#define TD_KEY        uint64_t
#define TD_NAME(name) name##_uint64
#include "kernels/top_k/select.inc"

static const struct td_top_k_keys *loops_of(td_isa isa)
{
#ifdef __x86_64__
    if (isa >= TD_ISA_AVX512)
        return &td_top_k_keys_avx512;
    if (isa == TD_ISA_AVX2)
        return &td_top_k_keys_avx2;
#endif
    (void)isa;
    return &td_top_k_keys_generic;
}

/* ---- Plan -------------------------------------------------------------------------------- */

/* Rows longer than LONG_ROW are processed one at a time: the best elements of each run are
 * selected, and the results are merged. A row has about RUNS runs, so it keeps every thread busy. A
 * run has between MIN_RUN and MAX_RUN elements: a range of parallel_for then takes little more than
 * a millisecond, and shorter runs would have more elements that are among the best of their run. */
#define LONG_ROW ((int64_t)256 * 1024)
#define RUNS     64
#define MIN_RUN  ((int64_t)32 * 1024)
#define MAX_RUN  ((int64_t)256 * 1024)

struct plan {
    int64_t n, k, n_rows;
    /* Distance in elements of x between two neighbours in a row: the product of the later
     * dimensions. */
    int64_t stride;
    /* Number of elements in a run: a whole row, unless the row is long. */
    int64_t run;
    int64_t n_runs;   /* number of runs per row */
    int64_t run_best; /* number of entries kept from a run; the last run can have fewer */
    const struct entries_type *type;
};

static struct td_top_k_attrs attrs_of(const struct td_op_args *args)
{
    struct td_top_k_attrs attrs;
    memcpy(&attrs, args->attrs, sizeof(attrs));
    return attrs;
}

/* Returns the axis of a call whose arguments have been checked. */
static int axis_of(const struct td_op_args *args)
{
    int axis = 0;
    (void)td_axis_normalize(attrs_of(args).axis, args->inputs[0].tensors[0].shape.rank, &axis);
    return axis;
}

static struct plan plan_of(const struct td_op_args *args)
{
    const struct td_tensor *x = &args->inputs[0].tensors[0];
    const int axis = axis_of(args);
    struct plan plan = { .n = x->shape.dim[axis], .k = attrs_of(args).k, .stride = 1 };
    if (x->numel == 0 || plan.k == 0)
        return plan;
    /* The product divides numel, so it cannot overflow. */
    (void)td_shape_product(&x->shape, axis + 1, x->shape.rank, &plan.stride);
    plan.n_rows = x->numel / plan.n;
    plan.run = plan.n > LONG_ROW
                   ? td_smaller(td_larger(td_ceil_div(plan.n, RUNS), MIN_RUN), MAX_RUN)
                   : plan.n;
    plan.n_runs = td_ceil_div(plan.n, plan.run);
    plan.run_best = td_smaller(plan.run, plan.k);
    plan.type =
        td_dtype_info(x->dtype)->size == sizeof(uint64_t) ? &entries_uint64 : &entries_uint32;
    return plan;
}

/* Returns the index of the first element of a row of x or, with k instead of n, of a row of the
 * outputs. */
static int64_t row_begin(const struct plan *plan, int64_t row, int64_t n)
{
    return row / plan->stride * n * plan->stride + row % plan->stride;
}

/* Returns the size in bytes of two tables of entries for all runs of a row. Each step merges
 * entries from one table into the other. */
static uint64_t shared_bytes(const struct plan *plan)
{
    return plan->n_runs > 1 ? (uint64_t)(2 * plan->n_runs * plan->run_best) * plan->type->size : 0;
}

static uint64_t scratch_bytes(const struct plan *plan)
{
    if (plan->n_rows == 0)
        return 0;
    return (uint64_t)(2 * room_for(plan->run, plan->run_best)) * plan->type->size;
}

static td_status check(const struct td_op_args *args, struct td_error *err)
{
    const struct td_shape *x = &args->inputs[0].tensors[0].shape;
    const int64_t k = attrs_of(args).k;
    char text[TD_SHAPE_TEXT];
    int axis;
    if (x->rank == 0)
        return td_gathering_refuse_scalar("x", err);
    const td_status status = td_axis_find(attrs_of(args).axis, "x", x, &axis, err);
    if (status != TD_OK)
        return status;
    const int64_t n = x->dim[axis];
    if (n > INT32_MAX) {
        td_error_resource(err, "elements", (uint64_t)n, INT32_MAX, "a row of x");
        return td_error_at_input(err, TD_RESOURCE_LIMIT, "x");
    }
    if (k > n) {
        td_error_set(err, TD_INVALID_ARGUMENT,
                     "k is %" PRId64 "; must be from 0 to %" PRId64
                     ", the length of axis %d of x, which has shape %s",
                     k, n, axis, td_shape_text(x, text, sizeof(text)));
        return td_error_at_attribute(err, TD_INVALID_ARGUMENT, "k");
    }
    return TD_OK;
}

enum { VALUES, INDICES, OUTPUTS };

static td_status infer(struct td_op_args *args, struct td_arena *arena, struct td_error *err)
{
    const struct td_tensor *x = &args->inputs[0].tensors[0];
    td_status status = check(args, err);
    if (status != TD_OK)
        return status;
    status = td_op_outputs(args, OUTPUTS, arena, err);
    if (status != TD_OK)
        return status;
    struct td_tensor *outputs = args->outputs;
    struct td_shape shape = x->shape;
    shape.dim[axis_of(args)] = attrs_of(args).k;
    status = td_tensor_describe(&outputs[VALUES], "values", x->dtype, &shape, err);
    if (status == TD_OK)
        status = td_tensor_describe(&outputs[INDICES], "indices", TD_DTYPE_INT32, &shape, err);
    return status;
}

/* Counts a conversion to a key and a comparison for each element, plus 4 log2(k) operations for
 * each selected element. */
static struct td_cost cost(const struct td_op_args *args)
{
    const struct td_tensor *x = &args->inputs[0].tensors[0], *values = &args->outputs[VALUES];
    const struct plan plan = plan_of(args);
    const uint64_t doublings = plan.k > 1 ? 64 - (uint64_t)__builtin_clzll((uint64_t)plan.k) : 1;
    return (struct td_cost){
        .bytes_read = x->bytes + values->bytes,
        .bytes_written = values->bytes + args->outputs[INDICES].bytes,
        .flops = 2 * (uint64_t)x->numel + 4 * doublings * (uint64_t)values->numel,
        .workspace = td_workspace_align(shared_bytes(&plan)),
        .workspace_per_thread = td_workspace_align(scratch_bytes(&plan)),
    };
}

/* ---- Execution --------------------------------------------------------------------------- */

struct job {
    struct plan plan;
    struct source x;
    char *values;
    int32_t *indices;
    size_t value_size;
    struct td_workspace workspace;
    int64_t row; /* for a long row: the row to select from */
    /* The highest key that is the worst of the best k of a run. At least k elements of the row are
     * as good, so elements with lower keys are not among its best k. */
    atomic_uint_fast64_t lowest;
    char *from, *to; /* the tables from which and into which entries are merged */
    int64_t runs;    /* number of runs that were merged into each list of `from` */
};

#define COPY_VALUES(width)                                                                         \
    for (int64_t i = 0; i < n; i++)                                                                \
    memcpy(to + (size_t)(i * stride) * (width), from + (size_t)(positions[i] * stride) * (width),  \
           width)

/* Writes the results [begin, begin + n) of a row, where n <= BLOCK, from the given positions of
 * x. */
static void write_block(const struct job *job, int64_t row, int64_t begin, int64_t n,
                        const int32_t *positions)
{
    const int64_t stride = job->plan.stride;
    const int64_t at = row_begin(&job->plan, row, job->plan.k) + begin * stride;
    const char *from =
        job->x.data + (size_t)row_begin(&job->plan, row, job->plan.n) * job->value_size;
    char *to = job->values + (size_t)at * job->value_size;
    for (int64_t i = 0; i < n; i++)
        job->indices[at + i * stride] = positions[i];
    switch (job->value_size) {
    case 1:
        COPY_VALUES(1);
        break;
    case 2:
        COPY_VALUES(2);
        break;
    case 4:
        COPY_VALUES(4);
        break;
    default:
        COPY_VALUES(8);
    }
}

/* Writes the results [begin, begin + n) of a row from its entries. Positions are always in range,
 * even if x has changed. */
static void write_results(const struct job *job, int64_t row, int64_t begin, int64_t n,
                          const void *entries)
{
    int32_t positions[BLOCK];
    for (int64_t at = 0; at < n; at += BLOCK) {
        const int64_t block = td_smaller(BLOCK, n - at);
        job->plan.type->positions((const char *)entries + (size_t)at * job->plan.type->size, block,
                                  positions);
        write_block(job, row, begin + at, block, positions);
    }
}

static void select_rows(void *context, int64_t begin, int64_t end)
{
    struct job *job = context;
    const struct plan *plan = &job->plan;
    const int thread = td_workspace_acquire(&job->workspace);
    void *scratch = td_workspace_scratch(&job->workspace, thread);
    for (int64_t row = begin; row < end; row++) {
        const void *best = plan->type->select(&job->x, row_begin(plan, row, plan->n), plan->n,
                                              plan->k, 0, 0, scratch);
        write_results(job, row, 0, plan->k, best);
    }
    td_workspace_release(&job->workspace, thread);
}

/* Returns the start of a list that was merged from several runs, which is the place of the first
 * run. The list fits there, because it is no longer than the lists merged into it. */
static char *list_of(const struct job *job, char *table, int64_t first_run)
{
    return table + (size_t)(first_run * job->plan.run_best) * job->plan.type->size;
}

static int64_t list_length(const struct job *job, int64_t first_run, int64_t runs)
{
    const struct plan *plan = &job->plan;
    const int64_t begin = td_smaller(first_run, plan->n_runs) * plan->run;
    const int64_t end = td_smaller(first_run + runs, plan->n_runs) * plan->run;
    return td_smaller(td_smaller(end, plan->n) - td_smaller(begin, plan->n), plan->k);
}

static void raise_lowest(struct job *job, uint64_t key)
{
    uint_fast64_t lowest = atomic_load_explicit(&job->lowest, memory_order_relaxed);
    while (lowest < key &&
           !atomic_compare_exchange_weak_explicit(&job->lowest, &lowest, key, memory_order_relaxed,
                                                  memory_order_relaxed))
        ;
}

static void select_runs(void *context, int64_t begin, int64_t end)
{
    struct job *job = context;
    const struct plan *plan = &job->plan;
    const int thread = td_workspace_acquire(&job->workspace);
    void *scratch = td_workspace_scratch(&job->workspace, thread);
    for (int64_t run = begin; run < end; run++) {
        const int64_t at = run * plan->run, n = td_smaller(plan->run, plan->n - at);
        const int64_t best = list_length(job, run, 1);
        const int64_t first = row_begin(plan, job->row, plan->n) + at * plan->stride;
        const uint64_t lowest = atomic_load_explicit(&job->lowest, memory_order_relaxed);
        const void *entries = plan->type->select(&job->x, first, n, best, at, lowest, scratch);
        if (best == plan->k)
            raise_lowest(job, plan->type->key(entries, best - 1));
        memcpy(list_of(job, job->from, run), entries, (size_t)best * plan->type->size);
    }
    td_workspace_release(&job->workspace, thread);
}

/* Number of entries in one part of a merge. Item i of merge_lists is part i % parts of merge i /
 * parts. */
#define PART ((int64_t)16 * 1024)

static int64_t merge_parts(const struct job *job)
{
    return td_larger(1, td_ceil_div(list_length(job, 0, 2 * job->runs), PART));
}

static void merge_lists(void *context, int64_t begin, int64_t end)
{
    const struct job *job = context;
    const int64_t parts = merge_parts(job), runs = job->runs;
    for (int64_t item = begin; item < end; item++) {
        const int64_t first = item / parts * 2 * runs, at = item % parts * PART;
        const int64_t length = list_length(job, first, 2 * runs);
        if (at >= length)
            continue;
        job->plan.type->merge(list_of(job, job->to, first), list_of(job, job->from, first),
                              list_length(job, first, runs), list_of(job, job->from, first + runs),
                              list_length(job, first + runs, runs), at,
                              td_smaller(at + PART, length));
    }
}

static void write_range(void *context, int64_t begin, int64_t end)
{
    const struct job *job = context;
    write_results(job, job->row, begin, end - begin,
                  job->from + (size_t)begin * job->plan.type->size);
}

static td_status select_long_row(struct job *job, struct td_exec *exec, struct td_error *err)
{
    const struct plan *plan = &job->plan;
    atomic_store_explicit(&job->lowest, 0, memory_order_relaxed);
    job->from = job->workspace.shared;
    job->to = job->from + shared_bytes(plan) / 2;
    td_status status = td_exec_for(exec, plan->n_runs, 1, select_runs, job, err);
    for (job->runs = 1; status == TD_OK && job->runs < plan->n_runs; job->runs *= 2) {
        const int64_t merges = td_ceil_div(plan->n_runs, 2 * job->runs);
        status = td_exec_for(exec, merges * merge_parts(job), 1, merge_lists, job, err);
        char *merged = job->to;
        job->to = job->from;
        job->from = merged;
    }
    return status == TD_OK ? td_exec_for(exec, plan->k, PART, write_range, job, err) : status;
}

static td_status alloc_workspace(struct job *job, struct td_exec *exec, struct td_error *err)
{
    struct td_workspace *workspace = &job->workspace;
    const uint64_t shared = td_workspace_align(shared_bytes(&job->plan));
    const uint64_t scratch = td_workspace_align(scratch_bytes(&job->plan));
    workspace->n_threads = (int)td_smaller(exec->width, TD_WORKSPACE_MAX_THREADS);
    workspace->scratch_bytes = (size_t)scratch;
    workspace->shared = td_arena_alloc(
        exec->arena, (size_t)(shared + (uint64_t)workspace->n_threads * scratch), 1, err);
    if (!workspace->shared)
        return err->status;
    workspace->scratch = workspace->shared + shared;
    return TD_OK;
}

static td_status run(struct td_op_args *args, struct td_exec *exec, struct td_error *err)
{
    const struct td_tensor *x = &args->inputs[0].tensors[0];
    struct job job = {
        .plan = plan_of(args),
        .x = { .data = x->data,
               .dtype = x->dtype,
               .loops = loops_of(td_isa_resolve(exec->isa)),
               .flip = attrs_of(args).largest ? 0 : UINT64_MAX },
        .values = args->outputs[VALUES].data,
        .indices = args->outputs[INDICES].data,
        .value_size = td_dtype_info(x->dtype)->size,
    };
    if (job.plan.n_rows == 0)
        return TD_OK;
    job.x.stride = job.plan.stride;
    td_status status = alloc_workspace(&job, exec, err);
    if (status != TD_OK)
        return status;
    if (job.plan.n_runs == 1)
        return td_exec_for(exec, job.plan.n_rows, td_larger(MIN_RUN / job.plan.n, 1), select_rows,
                           &job, err);
    for (; status == TD_OK && job.row < job.plan.n_rows; job.row++)
        status = select_long_row(&job, exec, err);
    return status;
}

/* Implements td_op.by_rows. */
static bool by_rows(const struct td_op_args *args, td_tensor_set rows)
{
    return td_rows_is_first(rows) &&
           td_axis_is_in_rows(attrs_of(args).axis, &args->inputs[0].tensors[0].shape);
}

/* ---- Descriptor -------------------------------------------------------------------------- */

static const struct td_input_spec inputs_specs[] = {
    {
        .name = "x",
        .summary = "The tensor to select from, of rank 1 or more.",
        .dtypes = TD_DTYPES_ALL & ~(TD_DTYPE_BIT(BOOL) | TD_DTYPE_BIT(COMPLEX64) |
                                    TD_DTYPE_BIT(COMPLEX128) | TD_DTYPE_BIT(STRING)),
        .reads_values = true,
    },
};

enum { ATTR_K, ATTR_LARGEST, ATTR_AXIS, ATTR_COUNT };

static const struct td_int_range count_range = { 0, INT64_MAX };

static const struct td_attr_spec attrs_specs[] = {
    [ATTR_K] = {
        .name = "k",
        .summary = "The number of elements to select from each row, at most x.shape[axis].",
        .kind = TD_ATTR_INT,
        .required = true,
        .range = &count_range,
        .offset = offsetof(struct td_top_k_attrs, k),
    },
    [ATTR_LARGEST] = {
        .name = "largest",
        .summary = "True selects the largest elements, false the smallest.",
        .kind = TD_ATTR_BOOL,
        .default_int = true,
        .offset = offsetof(struct td_top_k_attrs, largest),
    },
    [ATTR_AXIS] = {
        .name = "axis",
        .summary = "The dimension along which to select elements. A negative number counts from "
                   "the end.",
        .kind = TD_ATTR_INT,
        .default_int = -1,
        .offset = offsetof(struct td_top_k_attrs, axis),
    },
};

static const td_status errors[] = {
    TD_INVALID_AXIS, TD_UNSUPPORTED_DTYPE, TD_INVALID_ARGUMENT, TD_RESOURCE_LIMIT, TD_OK,
};

static const struct td_output_spec outputs_specs[] = {
    [VALUES] = {
        .name = "values",
        .summary = "The selected elements of each row, in order.",
        .shape_rule = "x.shape, with k in place of x.shape[axis]",
        .dtype_of = "x",
    },
    [INDICES] = {
        .name = "indices",
        .summary = "The position of each selected element in dimension `axis` of x.",
        .shape_rule = "x.shape, with k in place of x.shape[axis]",
        .dtypes = TD_DTYPE_BIT(INT32),
    },
};

static const struct td_op_example examples[] = {
    { "the two largest elements of each row", "{\"x\":[[1,5,3],[9,7,8]],\"k\":2}" },
    { "the smallest element of each row", "{\"x\":[[1,5,3],[9,7,8]],\"k\":1,\"largest\":false}" },
    { NULL, NULL },
};

const struct td_op td_op_top_k = {
    .name = "top_k",
    .summary = "Selects the k largest or smallest elements along a dimension, in order.",
    .source = "tf.math.top_k (TensorFlow 2 API reference), with largest and axis as in ONNX and "
              "PyTorch, and NaN as the largest value",
    .inputs = inputs_specs,
    .n_inputs = 1,
    .attrs = attrs_specs,
    .n_attrs = ATTR_COUNT,
    .outputs = outputs_specs,
    .n_outputs = OUTPUTS,
    .errors = errors,
    .examples = examples,
    .infer = infer,
    .cost = cost,
    .run = run,
    .by_rows = by_rows,
};
