#include "kernels/by_rows.h"
#include "kernels/convert/cast_path.h"
#include "kernels/integers.h"
#include "kernels/reductions/axes.h"
#include "kernels/reductions/blocks.h"
#include "kernels/reductions/loops.h"
#include "kernels/reductions/reductions.h"
#include "kernels/workspace.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* How an op reduces. */
struct detail {
    td_reduce_kind kind;
    bool mean;          /* divides by the number of elements */
    bool needs_element; /* refuses to reduce no elements */
};

static const struct detail *detail_of(const struct td_op_args *args)
{
    return args->op->detail;
}

static struct td_reduce_attrs attrs_of(const struct td_op_args *args)
{
    struct td_reduce_attrs attrs;
    memcpy(&attrs, args->attrs, sizeof(attrs));
    return attrs;
}

/* ---- Shapes ------------------------------------------------------------------------------ */

/* Returns the shape of the result. */
static struct td_shape reduced_shape(const struct td_shape *x, uint32_t axes, bool keepdims)
{
    struct td_shape shape = { .rank = 0 };
    for (int d = 0; d < x->rank; d++)
        if (!(axes >> d & 1))
            shape.dim[shape.rank++] = x->dim[d];
        else if (keepdims)
            shape.dim[shape.rank++] = 1;
    return shape;
}

static td_status infer(struct td_op_args *args, struct td_arena *arena, struct td_error *err)
{
    const struct td_tensor *x = &args->inputs[0].tensors[0];
    const struct td_reduce_attrs attrs = attrs_of(args);
    td_status status = td_axes_check(&attrs.axes, &x->shape, err);
    if (status != TD_OK)
        return status;
    const uint32_t axes = td_axes_set(&attrs.axes, x->shape.rank);
    if (detail_of(args)->needs_element)
        status = td_axes_refuse_empty(&x->shape, axes, args->op->name, err);
    if (status != TD_OK)
        return status;
    const struct td_shape shape = reduced_shape(&x->shape, axes, attrs.keepdims);
    return td_op_output(args, x->dtype, &shape, arena, err);
}

/* ---- Passes ------------------------------------------------------------------------------ */

/* A tensor to reduce, with as few dimensions as possible: neighbours that are both reduced, or both
 * kept, are one dimension, and dimensions of 1 are left out. At least one dimension is reduced. The
 * extra dimension is for the parts of complex numbers, or for a reduced dimension of 1. */
struct extents {
    int n;
    int64_t size[TD_MAX_RANK + 1];
    bool reduced[TD_MAX_RANK + 1];
};

/* Appends a dimension. */
static void append(struct extents *extents, int64_t size, bool reduced)
{
    const int last = extents->n - 1;
    if (size == 1)
        return;
    if (last >= 0 && extents->reduced[last] == reduced) {
        extents->size[last] *= size;
        return;
    }
    extents->size[extents->n] = size;
    extents->reduced[extents->n++] = reduced;
}

/* Returns the reduced dimension with the largest size, or the last of several, or -1. */
static int largest_reduced(const struct extents *extents)
{
    int largest = -1;
    for (int d = 0; d < extents->n; d++)
        if (extents->reduced[d] && (largest < 0 || extents->size[d] >= extents->size[largest]))
            largest = d;
    return largest;
}

/* Removes a dimension of the given size, or adds a dimension that is not there, and joins the
 * others. */
static struct extents with_size(const struct extents *extents, int dimension, int64_t size)
{
    struct extents joined = { .n = 0 };
    for (int d = 0; d < extents->n; d++)
        append(&joined, d == dimension ? size : extents->size[d], extents->reduced[d]);
    return joined;
}

static int64_t product(const struct extents *extents, int begin, int end)
{
    int64_t product = 1;
    for (int d = begin; d < end; d++)
        product *= extents->size[d];
    return product;
}

/* What is left to reduce. */
struct rest {
    td_reduce_kind kind;
    td_dtype dtype;
    struct extents extents;
};

/* Describes the whole reduction of a call whose output has elements. Sums of complex numbers are
 * sums of their parts. */
static struct rest begin(const struct td_op_args *args)
{
    const struct td_tensor *x = &args->inputs[0].tensors[0];
    const struct td_reduce_attrs attrs = attrs_of(args);
    const bool parts = detail_of(args)->kind == TD_REDUCE_SUM && td_dtype_is_complex(x->dtype);
    struct rest rest = { .kind = detail_of(args)->kind,
                         .dtype = parts ? td_dtype_part(x->dtype) : x->dtype };
    const uint32_t axes = td_axes_set(&attrs.axes, x->shape.rank);
    struct extents *extents = &rest.extents;
    if (x->numel == 0) { /* each element of the output is the result of no elements */
        append(extents, 0, true);
        append(extents, args->outputs[0].numel, false);
    } else {
        for (int d = 0; d < x->shape.rank; d++)
            append(extents, x->shape.dim[d], axes >> d & 1);
    }
    append(extents, parts ? 2 : 1, false);
    return rest;
}

/* One pass reduces one dimension. If the dimension is long, the pass leaves a shorter dimension in
 * its place, which has a result for each chunk. If rows are short, the pass also keeps the results
 * of neighbouring rows apart: a wide row consists of `apart` rows. */
struct pass {
    td_dtype dtype;          /* of the elements */
    td_dtype result;         /* of the results */
    struct td_blocks blocks; /* of the tensor */
    int64_t apart;
    int64_t n_results;
    bool is_last;
};

enum {
    WIDE = 64,      /* minimum number of columns of a wide row */
    WIDE_ROWS = 64, /* minimum number of wide rows for which they are worth a pass */
};

/* Takes the next pass from what is left to reduce. Returns false if nothing is left. */
static bool next_pass(struct rest *rest, struct pass *pass, bool is_first)
{
    int d = largest_reduced(&rest->extents);
    if (d < 0 && !is_first)
        return false;
    const int n = rest->extents.n;
    /* Without a reduced dimension, reduces rows of one element each. */
    const int64_t size = d < 0 ? 1 : rest->extents.size[d];
    const int64_t outer = d < 0 ? 1 : product(&rest->extents, 0, d);
    const int64_t inner = product(&rest->extents, d + 1, n);
    *pass = (struct pass){ .dtype = rest->dtype,
                           .result = td_reduce_result(rest->kind, rest->dtype),
                           .apart = 1 };
    if (inner > 1 && inner < WIDE && size / WIDE_ROWS >= td_ceil_div(WIDE, inner))
        pass->apart = td_ceil_div(WIDE, inner);
    pass->blocks = td_blocks_divide(
        outer, size, inner,
        inner == 1 ? (int64_t)WIDE * TD_REDUCE_CHAIN : pass->apart * TD_REDUCE_CHAIN, false);
    const int64_t left = pass->blocks.n_chunks * pass->apart;
    pass->n_results = outer * left * inner;
    rest->dtype = pass->result;
    if (d >= 0)
        rest->extents = with_size(&rest->extents, d, left);
    pass->is_last = largest_reduced(&rest->extents) < 0;
    return true;
}

static struct td_cost cost(const struct td_op_args *args)
{
    const struct td_tensor *x = &args->inputs[0].tensors[0], *out = &args->outputs[0];
    struct td_cost cost = { .bytes_read = x->bytes,
                            .bytes_written = out->bytes,
                            .flops = (uint64_t)x->numel };
    if (out->numel == 0)
        return cost;
    struct rest rest = begin(args);
    struct pass pass;
    for (bool is_first = true; next_pass(&rest, &pass, is_first); is_first = false)
        if (!pass.is_last)
            cost.workspace +=
                td_workspace_align((uint64_t)pass.n_results * td_dtype_info(pass.result)->size);
    return cost;
}

/* ---- Execution --------------------------------------------------------------------------- */

struct job {
    struct pass pass;
    const struct td_reduce_loops *loops;
    size_t size, result_size; /* bytes of an element and of a result */
    const char *from;
    char *to; /* results, or output elements if the job converts results */
    /* For the last pass: */
    bool converts;
    struct td_cast_path path;
    size_t to_size; /* bytes of an output element */
    double divisor; /* for a mean; otherwise 1 */
};

/* Maximum number of results that are converted at a time. */
#define RESULTS TD_REDUCE_COLUMNS
union results {
    double numbers[2 * RESULTS]; /* a result has at most two */
    char bytes[sizeof(double) * 2 * RESULTS];
};

/* Returns where the loops write the results that start at `first`. */
static void *place_of(const struct job *job, int64_t first, union results *space)
{
    return job->converts ? space->bytes : job->to + (size_t)first * job->result_size;
}

/* Divides and converts n results to output elements. */
static void convert(const struct job *job, int64_t first, int64_t n, union results *space)
{
    if (!job->converts)
        return;
    if (job->divisor != 1)
        for (int64_t i = 0; i < n; i++)
            space->numbers[i] /= job->divisor;
    td_cast_path_run(&job->path, job->to + (size_t)first * job->to_size, space->bytes, n);
}

static void reduce_rows(void *context, int64_t first, int64_t end)
{
    const struct job *job = context;
    const int64_t n = job->pass.blocks.n;
    union results space;
    for (int64_t at = first; at < end; at += RESULTS) {
        const int64_t n_rows = td_smaller(RESULTS, end - at);
        job->loops->rows(place_of(job, at, &space), job->from + (size_t)(at * n) * job->size,
                         n_rows, n);
        convert(job, at, n_rows, &space);
    }
}

static void reduce_chunks(void *context, int64_t first, int64_t end)
{
    const struct job *job = context;
    for (int64_t i = first; i < end; i++) {
        const struct td_block block = td_blocks_get(&job->pass.blocks, i);
        job->loops->rows(job->to + (size_t)block.result * job->result_size,
                         job->from + (size_t)block.begin * job->size, 1, block.rows);
    }
}

/* Reduces the wide rows of a block. The last wide row can have fewer columns. */
static void reduce_wide(const struct job *job, const struct td_block *block)
{
    const int64_t inner = job->pass.blocks.inner, width = job->pass.apart * inner;
    const int64_t rows = block->rows / job->pass.apart;
    const int64_t more = block->rows % job->pass.apart * inner;
    const char *from = job->from + (size_t)block->begin * job->size;
    char *to = job->to + (size_t)(block->result * job->pass.apart) * job->result_size;
    job->loops->columns(to, from, rows + 1, width, more);
    job->loops->columns(to + (size_t)more * job->result_size, from + (size_t)more * job->size, rows,
                        width, width - more);
}

/* Reduces blocks that each have all rows and columns for one index of `outer`. There can be many,
 * with a few elements each. */
static void reduce_small_blocks(void *context, int64_t first, int64_t end)
{
    const struct job *job = context;
    const int64_t n = job->pass.blocks.n, inner = job->pass.blocks.inner;
    const int64_t at_once = RESULTS / inner;
    union results space;
    for (int64_t at = first; at < end; at += at_once) {
        const int64_t count = td_smaller(at_once, end - at);
        const char *from = job->from + (size_t)(at * n * inner) * job->size;
        char *to = place_of(job, at * inner, &space);
        for (int64_t i = 0; i < count; i++) {
            job->loops->columns(to, from, n, inner, inner);
            to += (size_t)inner * job->result_size;
            from += (size_t)(n * inner) * job->size;
        }
        convert(job, at * inner, count * inner, &space);
    }
}

static void reduce_blocks(void *context, int64_t first, int64_t end)
{
    const struct job *job = context;
    union results space;
    for (int64_t i = first; i < end; i++) {
        const struct td_block block = td_blocks_get(&job->pass.blocks, i);
        if (job->pass.apart > 1) {
            reduce_wide(job, &block);
            continue;
        }
        job->loops->columns(place_of(job, block.result, &space),
                            job->from + (size_t)block.begin * job->size, block.rows,
                            job->pass.blocks.inner, block.columns);
        convert(job, block.result, block.columns, &space);
    }
}

static td_status run_pass(struct job *job, struct td_exec *exec, struct td_error *err)
{
    const struct td_blocks *blocks = &job->pass.blocks;
    td_range_fn *fn = reduce_blocks;
    if (blocks->inner == 1 && blocks->n > 0)
        fn = blocks->n_chunks > 1 ? reduce_chunks : reduce_rows;
    else if (blocks->n_chunks == 1 && blocks->n_tiles == 1 && job->pass.apart == 1)
        fn = reduce_small_blocks;
    return td_exec_for(exec, td_blocks_count(blocks), td_blocks_grain(blocks), fn, job, err);
}

/* Sets what the last pass does with its results. The parts of complex sums are converted like
 * floats. */
static void set_conversion(struct job *job, const struct td_op_args *args, td_isa isa)
{
    const struct td_tensor *x = &args->inputs[0].tensors[0], *out = &args->outputs[0];
    const bool parts = !td_dtype_is_complex(job->pass.result);
    const td_dtype to = parts ? td_dtype_part(out->dtype) : out->dtype;
    job->to = out->data;
    job->to_size = td_dtype_info(to)->size;
    const int64_t count = x->numel > 0 ? x->numel / out->numel : 0; /* of elements that are added */
    if (detail_of(args)->mean)
        job->divisor = count > 0 ? (double)count : (double)NAN;
    job->converts = to != job->pass.result || job->divisor != 1;
    td_cast_path_find(&job->path, job->pass.result, to, isa);
}

static td_status run(struct td_op_args *args, struct td_exec *exec, struct td_error *err)
{
    const td_isa isa = td_isa_resolve(exec->isa);
    struct rest rest = begin(args);
    struct job job = { .from = args->inputs[0].tensors[0].data, .divisor = 1 };
    td_status status = TD_OK;
    if (args->outputs[0].numel == 0)
        return TD_OK;
    for (bool is_first = true; status == TD_OK && next_pass(&rest, &job.pass, is_first);
         is_first = false) {
        job.loops = td_reduce_loops_of(rest.kind, job.pass.dtype, isa);
        job.size = td_dtype_info(job.pass.dtype)->size;
        job.result_size = td_dtype_info(job.pass.result)->size;
        if (job.pass.is_last)
            set_conversion(&job, args, isa);
        else
            job.to = td_arena_alloc(exec->arena, (size_t)job.pass.n_results, job.result_size, err);
        if (!job.to)
            return err->status;
        status = run_pass(&job, exec, err);
        job.from = job.to;
    }
    return status;
}

/* Implements td_op.by_rows. */
static bool by_rows(const struct td_op_args *args, td_tensor_set rows)
{
    const struct td_reduce_attrs attrs = attrs_of(args);
    return td_rows_is_first(rows) &&
           !(td_axes_set(&attrs.axes, args->inputs[0].tensors[0].shape.rank) & 1);
}

/* ---- Descriptors ------------------------------------------------------------------------- */

#define INTEGERS                                                                                   \
    (TD_DTYPE_BIT(INT8) | TD_DTYPE_BIT(INT16) | TD_DTYPE_BIT(INT32) | TD_DTYPE_BIT(INT64) |        \
     TD_DTYPE_BIT(UINT8) | TD_DTYPE_BIT(UINT16) | TD_DTYPE_BIT(UINT32) | TD_DTYPE_BIT(UINT64))
#define FLOATS                                                                                     \
    (TD_DTYPE_BIT(FLOAT16) | TD_DTYPE_BIT(BFLOAT16) | TD_DTYPE_BIT(FLOAT32) | TD_DTYPE_BIT(FLOAT64))
#define COMPLEX (TD_DTYPE_BIT(COMPLEX64) | TD_DTYPE_BIT(COMPLEX128))

#define INPUT(accepted)                                                                            \
    {                                                                                              \
        {                                                                                          \
            .name = "x",                                                                           \
            .summary = "The tensor to reduce, of any shape.",                                      \
            .dtypes = (accepted),                                                                  \
            .reads_values = true,                                                                  \
        },                                                                                         \
    }
static const struct td_input_spec numbers[] = INPUT(INTEGERS | FLOATS | COMPLEX);
static const struct td_input_spec fractions[] = INPUT(FLOATS | COMPLEX);
static const struct td_input_spec ordered[] = INPUT(INTEGERS | FLOATS);
static const struct td_input_spec truths[] = INPUT(TD_DTYPE_BIT(BOOL));

enum { ATTR_AXES, ATTR_KEEPDIMS, ATTR_COUNT };

static const struct td_attr_spec attrs_specs[] = {
    [ATTR_AXES] = {
        .name = "axes",
        .summary = "The dimensions to reduce, each at most once. Negative numbers count from the "
                   "end. An empty list reduces nothing.",
        .kind = TD_ATTR_INTS,
        .default_text = "all",
        .offset = offsetof(struct td_reduce_attrs, axes),
    },
    [ATTR_KEEPDIMS] = {
        .name = "keepdims",
        .summary = "Whether the reduced dimensions stay in the shape of the output, with size 1.",
        .kind = TD_ATTR_BOOL,
        .offset = offsetof(struct td_reduce_attrs, keepdims),
    },
};

static const struct td_output_spec outputs_specs[] = {
    {
        .name = "output",
        .summary = "The results, one for each position in the other dimensions.",
        .shape_rule = "x.shape without the dimensions axes, or with 1 in their place",
        .dtype_of = "x",
    },
};

static const td_status errors[] = {
    TD_INVALID_AXIS, TD_UNSUPPORTED_DTYPE, TD_INVALID_ARGUMENT, TD_RESOURCE_LIMIT, TD_OK,
};

/* The initialisers that all ops have in common. `numbers_2x2` is a matrix as JSON. */
#define REDUCTION(op, accepted, ...)                                                               \
    const struct td_op td_op_##op = { .name = #op,                                                 \
                                      .inputs = (accepted),                                        \
                                      .n_inputs = 1,                                               \
                                      .attrs = attrs_specs,                                        \
                                      .n_attrs = ATTR_COUNT,                                       \
                                      .outputs = outputs_specs,                                    \
                                      .n_outputs = 1,                                              \
                                      .errors = errors,                                            \
                                      .infer = infer,                                              \
                                      .cost = cost,                                                \
                                      .run = run,                                                  \
                                      .by_rows = by_rows,                                          \
                                      __VA_ARGS__ }

static const struct td_op_example numbers_examples[] = {
    { "a result for each row", "{\"x\":[[1,2],[3,4.5]],\"axes\":[1]}" },
    { "a result for the whole tensor, of the same rank",
      "{\"x\":[[1,2],[3,4.5]],\"keepdims\":true}" },
    { NULL, NULL },
};

static const struct td_op_example truths_examples[] = {
    { "a result for each row", "{\"x\":[[true,false],[true,true]],\"axes\":[1]}" },
    { "a result for the whole tensor, of the same rank",
      "{\"x\":[[true,false],[true,true]],\"keepdims\":true}" },
    { NULL, NULL },
};

REDUCTION(reduce_sum, numbers, .summary = "Adds the elements along some dimensions.",
          .source = "tf.math.reduce_sum (TensorFlow 2 API reference)", .examples = numbers_examples,
          .detail = &(const struct detail){ .kind = TD_REDUCE_SUM });
REDUCTION(reduce_mean, fractions,
          .summary = "Computes the mean of the elements along some dimensions.",
          .source = "tf.math.reduce_mean (TensorFlow 2 API reference)",
          .examples = numbers_examples,
          .detail = &(const struct detail){ .kind = TD_REDUCE_SUM, .mean = true });
REDUCTION(reduce_max, ordered, .summary = "Returns the largest element along some dimensions.",
          .source = "tf.math.reduce_max (TensorFlow 2 API reference)", .examples = numbers_examples,
          .detail = &(const struct detail){ .kind = TD_REDUCE_MAX, .needs_element = true });
REDUCTION(reduce_min, ordered, .summary = "Returns the smallest element along some dimensions.",
          .source = "tf.math.reduce_min (TensorFlow 2 API reference)", .examples = numbers_examples,
          .detail = &(const struct detail){ .kind = TD_REDUCE_MIN, .needs_element = true });
REDUCTION(reduce_prod, numbers, .summary = "Multiplies the elements along some dimensions.",
          .source = "tf.math.reduce_prod (TensorFlow 2 API reference)",
          .examples = numbers_examples, .detail = &(const struct detail){ .kind = TD_REDUCE_PROD });
REDUCTION(reduce_any, truths,
          .summary = "Returns whether any element along some dimensions is true.",
          .source = "tf.math.reduce_any (TensorFlow 2 API reference)", .examples = truths_examples,
          .detail = &(const struct detail){ .kind = TD_REDUCE_MAX });
REDUCTION(reduce_all, truths,
          .summary = "Returns whether all elements along some dimensions are true.",
          .source = "tf.math.reduce_all (TensorFlow 2 API reference)", .examples = truths_examples,
          .detail = &(const struct detail){ .kind = TD_REDUCE_MIN });
