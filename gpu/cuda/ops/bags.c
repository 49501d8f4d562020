/* bags.c - embedding_bag. */
#include "gpu/cuda/ops/reporting.h"
#include "kernels/embedding_bag/embedding_bag.h"
#include "kernels/integers.h"

_Static_assert(TD_BAG_SUM == 0 && TD_BAG_MEAN == 1 && TD_BAG_SQRTN == 2 && TD_BAG_MAX == 3,
               "bags.cu has the same numbers");

/* ---- Kernel arguments ---------------------------------------------------------------------- */

/* Returns the number of elements in the vectors that a thread loads: 16 bytes, 4 bytes, or a single
 * element. */
static int vector_elements(size_t element_bytes, uintptr_t alignment)
{
    for (size_t bytes = 16; bytes > element_bytes; bytes /= 4)
        if (alignment % bytes == 0)
            return (int)(bytes / element_bytes);
    return 1;
}

/* Assigns threads to columns. Each thread of a group has one vector, and wider rows are split into
 * chunks. */
static void set_columns(struct td_cuda_bags_args *args, size_t element_bytes)
{
    enum { MAX_GROUP_LOG2 = 5 };
    args->vector_elements =
        vector_elements(element_bytes, (uintptr_t)args->params | (uintptr_t)args->row_bytes |
                                           (uintptr_t)((size_t)args->columns * element_bytes));
    const int64_t vectors = args->columns / args->vector_elements;
    while (args->group_log2 < MAX_GROUP_LOG2 && (int64_t)1 << args->group_log2 < vectors)
        args->group_log2++;
    const int64_t group = (int64_t)1 << args->group_log2;
    args->chunks = vectors > 0 ? td_ceil_div(vectors, group) : 1;
}

static const struct td_tensor *given(const struct td_op_args *args, int input)
{
    return args->inputs[input].count > 0 ? args->inputs[input].tensors : NULL;
}

/* Returns the kernel arguments. If the output has no elements, all indices are checked as one
 * bag. */
static struct td_cuda_bags_args bags_args(const struct td_op_args *args)
{
    const struct td_embedding_bag_geometry geometry = td_embedding_bag_geometry(args);
    const struct td_embedding_bag_attrs attrs = td_embedding_bag_attrs(args);
    const struct td_tensor *params = given(args, TD_BAG_PARAMS);
    const struct td_tensor *indices = given(args, TD_BAG_INDICES);
    const struct td_tensor *offsets = given(args, TD_BAG_OFFSETS);
    const struct td_tensor *segment_ids = given(args, TD_BAG_SEGMENT_IDS);
    const struct td_tensor *weights = given(args, TD_BAG_WEIGHTS);
    struct td_cuda_bags_args out = {
        .out = args->outputs[0].data,
        .params = params->data,
        .n_bags = 1,
        .n_indices = geometry.n_indices,
        .n_rows = geometry.n_rows,
        .row_bytes = (int64_t)geometry.row_bytes,
        .indices = indices->data,
        .index_bytes = (int)td_cuda_element_bytes(indices),
        .bounds = (int)attrs.bounds,
        .mode = (int)attrs.mode,
        .padding = attrs.padding_index,
        .weights = td_cuda_data_of(weights),
        .scaling = td_cuda_scaling_of(given(args, TD_BAG_SCALE), given(args, TD_BAG_OFFSET),
                                      given(args, TD_BAG_ZERO_POINT)),
    };
    (void)td_cuda_number_of(params->dtype, &out.params_type);
    (void)td_cuda_number_of(args->outputs[0].dtype, &out.out_type);
    if (weights)
        (void)td_cuda_number_of(weights->dtype, &out.weights_type);
    if (geometry.n_bags > 0) {
        out.n_bags = geometry.n_bags;
        out.columns = geometry.row_numel;
        out.begins = td_cuda_data_of(offsets);
        out.begin_bytes = (int)sizeof(int64_t);
        if (offsets)
            out.begin_bytes = (int)td_cuda_element_bytes(offsets);
        if (td_embedding_bag_by_rows(args))
            out.bag_indices = indices->shape.dim[1];
        out.segment_ids = td_cuda_data_of(segment_ids);
        if (segment_ids)
            out.segment_bytes = (int)td_cuda_element_bytes(segment_ids);
    }
    set_columns(&out, td_cuda_element_bytes(params));
    out.n_parts = out.n_bags + out.n_indices / TD_CUDA_BAG_PART;
    return out;
}

/* ---- Workspace ----------------------------------------------------------------------------- */

/* Sizes in bytes of the buffers in the workspace. A buffer that is not needed has size 0. */
struct buffer_sizes {
    size_t begins, part_sums, part_weights;
};

static bool compute_sizes(const struct td_cuda_bags_args *args, struct buffer_sizes *sizes)
{
    const size_t sum_bytes = args->params_type == TD_CUDA_FLOAT64 ? sizeof(double) : sizeof(float);
    const size_t rows = 2 * ((size_t)args->n_indices / TD_CUDA_BAG_PART + 1);
    *sizes = (struct buffer_sizes){ .begins = 0 };
    if (args->segment_ids && !td_size_mul((size_t)args->n_bags, sizeof(int64_t), &sizes->begins))
        return false;
    if (args->columns == 0 || args->n_indices <= TD_CUDA_BAG_PART)
        return true;
    sizes->part_weights = rows * sizeof(double);
    return td_size_mul(rows * sum_bytes, (size_t)args->columns, &sizes->part_sums);
}

static size_t bags_workspace_bytes(struct td_device *device, const struct td_device_work *work)
{
    const struct td_cuda_bags_args args = bags_args(work->args);
    struct buffer_sizes sizes;
    if (!compute_sizes(&args, &sizes))
        return SIZE_MAX;
    const size_t parts =
        td_cuda_add_sizes(td_cuda_align_up(sizes.part_sums), td_cuda_align_up(sizes.part_weights));
    return td_cuda_add_sizes(td_cuda_add_sizes(parts, td_cuda_align_up(sizes.begins)),
                             td_cuda_reporting_bytes(device, work));
}

/* ---- The op -------------------------------------------------------------------------------- */

static bool bags_supports(const struct td_op_args *args)
{
    enum td_cuda_number unused;
    return td_cuda_number_of(given(args, TD_BAG_PARAMS)->dtype, &unused);
}

static td_status bags_run(struct td_device_stream *stream, const struct td_device_work *work,
                          struct td_error *err)
{
    struct td_cuda_bags_args args = bags_args(work->args);
    struct buffer_sizes sizes;
    char *workspace = work->workspace;
    if (!compute_sizes(&args, &sizes)) /* workspace_bytes would have refused this work */
        return td_error_set(err, TD_INTERNAL, "the size of the workspace overflows");
    if (sizes.begins > 0) {
        args.found_begins = td_cuda_take(&workspace, sizes.begins);
        args.begins = args.found_begins;
    }
    if (sizes.part_sums > 0) {
        args.part_sums = td_cuda_take(&workspace, sizes.part_sums);
        args.part_weights = td_cuda_take(&workspace, sizes.part_weights);
    }
    td_status status = td_cuda_reporting_begin(stream, work, &workspace, &args.reporting, err);
    if (status != TD_OK)
        return status;
    return td_cuda_check(stream->device, td_cuda_bags(&args, stream->stream), "sum bags of rows",
                         err);
}

const struct td_cuda_op td_cuda_embedding_bag_op = { bags_supports, bags_workspace_bytes,
                                                     bags_run };
