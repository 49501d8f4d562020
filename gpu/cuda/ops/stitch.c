/* stitch.c - dynamic_stitch and parallel_dynamic_stitch. */
#include "gpu/cuda/ops/ops.h"
#include "gpu/cuda/runtime/copy.h"
#include "kernels/dynamic_stitch/dynamic_stitch.h"

#include <stdlib.h>

enum { INDICES, DATA };

static bool stitch_supports(const struct td_op_args *args)
{
    const struct td_dynamic_stitch_geometry *geometry = td_dynamic_stitch_geometry(args);
    return args->inputs[DATA].tensors[0].dtype != TD_DTYPE_STRING &&
           geometry->first[geometry->n_tensors] <= TD_CUDA_MAX_ROWS;
}

static size_t table_bytes(const struct td_op_args *args)
{
    return (size_t)args->inputs[INDICES].count * sizeof(struct td_cuda_stitch_input);
}

static size_t stitch_workspace_bytes(struct td_device *device, const struct td_device_work *work)
{
    (void)device;
    const struct td_dynamic_stitch_geometry *geometry = td_dynamic_stitch_geometry(work->args);
    size_t source_bytes;
    if (geometry->row_numel == 0)
        return 0;
    if (!td_size_mul((size_t)geometry->n_out, sizeof(uint32_t), &source_bytes))
        return SIZE_MAX;
    return td_cuda_add_sizes(td_cuda_align_up(source_bytes),
                             td_cuda_align_up(table_bytes(work->args)));
}

/* Fills the table of inputs. Returns the bitwise OR of the addresses of their rows. */
static uintptr_t fill_table(const struct td_op_args *args, const int64_t *first_row,
                            struct td_cuda_stitch_input *table)
{
    uintptr_t addresses = 0;
    for (int i = 0; i < args->inputs[INDICES].count; i++) {
        const struct td_tensor *indices = &args->inputs[INDICES].tensors[i];
        const struct td_tensor *data = &args->inputs[DATA].tensors[i];
        table[i] = (struct td_cuda_stitch_input){
            .indices = indices->data,
            .data = data->data,
            .first_row = first_row[i],
            .index_bytes = (int64_t)td_cuda_element_bytes(indices),
        };
        if (indices->numel > 0)
            addresses |= (uintptr_t)data->data;
    }
    return addresses;
}

static td_status stitch_run(struct td_device_stream *stream, const struct td_device_work *work,
                            struct td_error *err)
{
    const struct td_op_args *args = work->args;
    const struct td_dynamic_stitch_geometry *geometry = td_dynamic_stitch_geometry(args);
    char *workspace = work->workspace;
    td_cuda_report_none(work);
    if (geometry->row_numel == 0)
        return TD_OK;
    struct td_cuda_stitch_input *table = malloc(table_bytes(args));
    if (!table)
        return td_error_set(err, TD_MEMORY_EXHAUSTED,
                            "not enough host memory for a table of tensors");
    struct td_cuda_stitch_args kernel_args = {
        .out = args->outputs[0].data,
        .n_in = geometry->first[geometry->n_tensors],
        .n_out = geometry->n_out,
        .n_inputs = geometry->n_tensors,
    };
    kernel_args.copy = td_cuda_row_copy_make(
        geometry->row_bytes, fill_table(args, geometry->first, table) | (uintptr_t)kernel_args.out);
    kernel_args.source =
        td_cuda_take(&workspace, (size_t)kernel_args.n_out * sizeof(kernel_args.source[0]));
    void *device_table = td_cuda_take(&workspace, table_bytes(args));
    td_status status = td_cuda_upload(stream, device_table, table, table_bytes(args), err);
    kernel_args.inputs = device_table;
    if (status == TD_OK)
        status = td_cuda_check(stream->device, td_cuda_stitch(&kernel_args, stream->stream),
                               "stitch rows", err);
    free(table);
    return status;
}

const struct td_cuda_op td_cuda_dynamic_stitch_op = { stitch_supports, stitch_workspace_bytes,
                                                      stitch_run };
const struct td_cuda_op td_cuda_parallel_dynamic_stitch_op = { stitch_supports,
                                                               stitch_workspace_bytes, stitch_run };
