/* find.c - find and lookup for keys whose index is on the device. */
#include "kernels/find/find.h"

#include "gpu/cuda/ops/reporting.h"
#include "kernels/key_index/key_index.h"
#include "kernels/lookup/lookup.h"

#include <string.h>

static bool has_index(const struct td_tensor *keys)
{
    return keys->dtype != TD_DTYPE_STRING && keys->key_index;
}

static struct td_cuda_find_args find_args(const struct td_tensor *keys,
                                          const struct td_tensor *queries)
{
    const struct td_key_index *index = keys->key_index;
    return (struct td_cuda_find_args){
        .queries = queries->data,
        .keys = keys->data,
        .n_queries = queries->numel,
        .n_keys = keys->numel,
        .blocks = index->blocks,
        .n_blocks = index->n_blocks,
        .seed = index->seed,
        .longest = index->longest,
        .wide = index->wide,
    };
}

/* ---- find ---------------------------------------------------------------------------------- */

enum { FIND_KEYS, FIND_QUERIES };

static bool find_supports(const struct td_op_args *args)
{
    return has_index(args->inputs[FIND_KEYS].tensors);
}

static size_t find_workspace_bytes(struct td_device *device, const struct td_device_work *work)
{
    (void)device;
    (void)work;
    return 0;
}

static td_status find_run(struct td_device_stream *stream, const struct td_device_work *work,
                          struct td_error *err)
{
    struct td_cuda_find_args args =
        find_args(work->args->inputs[FIND_KEYS].tensors, work->args->inputs[FIND_QUERIES].tensors);
    td_cuda_report_none(work);
    if (args.n_queries == 0)
        return TD_OK;
    args.rows = work->args->outputs[0].data;
    return td_cuda_check(stream->device, td_cuda_find(&args, stream->stream), "find keys", err);
}

const struct td_cuda_op td_cuda_find_op = { find_supports, find_workspace_bytes, find_run };

/* ---- lookup -------------------------------------------------------------------------------- */

enum { PARAMS, KEYS, QUERIES, DEFAULT };
enum { OUTPUT, FOUND };

static bool lookup_supports(const struct td_op_args *args)
{
    return args->inputs[PARAMS].tensors->dtype != TD_DTYPE_STRING &&
           has_index(args->inputs[KEYS].tensors);
}

static td_missing missing_of(const struct td_op_args *args)
{
    struct td_lookup_attrs attrs;
    memcpy(&attrs, args->attrs, sizeof(attrs));
    return attrs.missing;
}

/* Returns the size in bytes of a row, or 0 if the output has no elements. */
static size_t row_bytes(const struct td_op_args *args)
{
    const struct td_tensor *out = &args->outputs[OUTPUT];
    return out->bytes > 0 ? out->bytes / (size_t)args->inputs[QUERIES].tensors->numel : 0;
}

/* Returns the default, or NULL if it is absent or unused. */
static const struct td_tensor *default_of(const struct td_op_args *args)
{
    const struct td_operand *given = &args->inputs[DEFAULT];
    return given->count > 0 && missing_of(args) == TD_MISSING_DEFAULT ? given->tensors : NULL;
}

/* Returns the default if it is a scalar that fills a row, otherwise NULL. */
static const struct td_tensor *scalar_of(const struct td_op_args *args)
{
    const struct td_tensor *given = default_of(args);
    return given && given->shape.rank == 0 && row_bytes(args) > 0 ? given : NULL;
}

/* True if the default has one row per query. */
static bool has_default_rows(const struct td_op_args *args)
{
    const struct td_tensor *given = default_of(args);
    return given && given->shape.rank > 0 &&
           td_shape_equal(&given->shape, &args->outputs[OUTPUT].shape);
}

/* Returns the work whose missing keys are reported, which excludes missing keys that a default
 * replaces. */
static struct td_device_work reported_work(const struct td_device_work *work)
{
    struct td_device_work reported = *work;
    if (missing_of(work->args) != TD_MISSING_ERROR)
        reported.reports = NULL;
    return reported;
}

static size_t lookup_workspace_bytes(struct td_device *device, const struct td_device_work *work)
{
    const struct td_device_work reported = reported_work(work);
    const size_t n = (size_t)work->args->inputs[QUERIES].tensors->numel;
    size_t bytes;
    if (!td_size_mul(n, sizeof(int64_t), &bytes))
        return SIZE_MAX;
    bytes = td_cuda_add_sizes(td_cuda_align_up(bytes), td_cuda_reporting_bytes(device, &reported));
    return scalar_of(work->args) ? td_cuda_add_sizes(bytes, td_cuda_align_up(row_bytes(work->args)))
                                 : bytes;
}

/* Copies the found rows with a gather in which index -1 selects the default. */
static td_status copy_rows(struct td_device_stream *stream, const struct td_op_args *args,
                           const struct td_cuda_find_args *found, struct td_error *err)
{
    const struct td_tensor *params = args->inputs[PARAMS].tensors;
    struct td_cuda_gather_args copy = {
        .out = args->outputs[OUTPUT].data,
        .params = params->data,
        .n_rows = found->n_queries,
        .slice_outputs = found->n_queries,
        .repeat = 1,
        .indices = found->rows,
        .index_bytes = sizeof(found->rows[0]),
        .bounds = TD_BOUNDS_ZERO,
        .depth = 1,
        .bound = { found->n_keys },
        .stride = { 1 },
    };
    if (has_default_rows(args))
        copy.default_bytes = (int64_t)row_bytes(args);
    if (default_of(args))
        copy.default_row = found->scalar ? found->row : default_of(args)->data;
    copy.copy =
        td_cuda_row_copy_make(row_bytes(args), (uintptr_t)copy.out | (uintptr_t)copy.params |
                                                   (uintptr_t)copy.default_row);
    return td_cuda_check(stream->device, td_cuda_gather(&copy, stream->stream), "copy rows", err);
}

static td_status lookup_run(struct td_device_stream *stream, const struct td_device_work *work,
                            struct td_error *err)
{
    const struct td_op_args *args = work->args;
    const struct td_device_work reported = reported_work(work);
    const struct td_tensor *scalar = scalar_of(args);
    char *workspace = work->workspace;
    struct td_cuda_find_args find =
        find_args(args->inputs[KEYS].tensors, args->inputs[QUERIES].tensors);
    td_cuda_report_none(work);
    if (find.n_queries == 0)
        return TD_OK;
    find.rows = td_cuda_take(&workspace, (size_t)find.n_queries * sizeof(find.rows[0]));
    find.found = args->outputs[FOUND].data;
    if (scalar) {
        find.row_bytes = (int64_t)row_bytes(args);
        find.row = td_cuda_take(&workspace, row_bytes(args));
        find.scalar = scalar->data;
        find.scalar_bytes = (int64_t)scalar->bytes;
    }
    td_status status = td_cuda_reporting_begin(stream, &reported, &workspace, &find.reporting, err);
    if (status == TD_OK)
        status =
            td_cuda_check(stream->device, td_cuda_find(&find, stream->stream), "find keys", err);
    return status == TD_OK && row_bytes(args) > 0 ? copy_rows(stream, args, &find, err) : status;
}

const struct td_cuda_op td_cuda_lookup_op = { lookup_supports, lookup_workspace_bytes, lookup_run };
