/* einsum.c - einsum: runs the steps of the plan in order on the stream. */
#include "gpu/cuda/ops/contract.h"
#include "gpu/cuda/ops/ops.h"
#include "kernels/einsum/plan.h"

static bool einsum_supports(const struct td_op_args *args)
{
    return args->inputs[0].tensors[0].dtype != TD_DTYPE_BOOL &&
           args->inputs[0].tensors[0].dtype != TD_DTYPE_STRING;
}

/* Returns the size in bytes of the intermediate results, which are at the start of the workspace,
 * at the offsets in the plan. The workspace of a step follows. */
static size_t intermediate_bytes(const struct td_einsum_plan *plan)
{
    return td_cuda_align_up((size_t)plan->intermediate_bytes);
}

static size_t einsum_workspace_bytes(struct td_device *device, const struct td_device_work *work)
{
    const struct td_einsum_plan *plan = work->args->plan;
    size_t largest = 0;
    (void)device;
    for (int i = 0; i < plan->n_steps; i++) {
        size_t bytes = td_cuda_contract_workspace(&plan->steps[i].contraction);
        largest = bytes > largest ? bytes : largest;
    }
    return td_cuda_add_sizes(intermediate_bytes(plan), largest);
}

/* Returns the data of an operand. Inputs are numbered before the results of steps. -1 means that
 * there is no operand. */
static void *operand_data(const struct td_device_work *work, int number)
{
    const struct td_einsum_plan *plan = work->args->plan;
    const int n_inputs = plan->equation->n_inputs, step = number - n_inputs;
    if (number < 0)
        return NULL;
    if (number < n_inputs)
        return work->args->inputs[0].tensors[number].data;
    return step == plan->n_steps - 1 ? work->args->outputs[0].data
                                     : (char *)work->workspace + plan->steps[step].offset;
}

static td_status einsum_run(struct td_device_stream *stream, const struct td_device_work *work,
                            struct td_error *err)
{
    const struct td_einsum_plan *plan = work->args->plan;
    const struct td_tensor *output = &work->args->outputs[0];
    td_status status = TD_OK;
    td_cuda_report_none(work);
    if (plan->fill_zeros)
        status = td_cuda_check(stream->device,
                               cudaMemsetAsync(output->data, 0, output->bytes, stream->stream),
                               "clear memory", err);
    if (plan->nothing_to_do)
        return status;
    for (int i = 0; i < plan->n_steps && status == TD_OK; i++) {
        const struct td_einsum_step *step = &plan->steps[i];
        status = td_cuda_contract(stream, &step->contraction, operand_data(work, step->a),
                                  operand_data(work, step->b),
                                  operand_data(work, plan->equation->n_inputs + i),
                                  (char *)work->workspace + intermediate_bytes(plan), err);
    }
    return status;
}

const struct td_cuda_op td_cuda_einsum_op = { einsum_supports, einsum_workspace_bytes, einsum_run };
