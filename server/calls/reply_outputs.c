#include "server/calls/reply_outputs.h"

#include "api/message/outputs.h"
#include "kernels/program/program.h"
#include "server/calls/store_option.h"

size_t td_reply_outputs_converted(const struct td_request *request)
{
    size_t bytes = 0;
    for (int i = 0; i < td_request_n_outputs(request); i++)
        if (td_output_is_converted(request, i) &&
            !td_size_add(bytes, td_request_output(request, i)->bytes, &bytes))
            return SIZE_MAX;
    return bytes;
}

/* Frees the op's outputs if all outputs to send or store are converted. Keeps a list of outputs,
 * because finding a buffer takes time proportional to the number of buffers. */
static void free_originals(struct td_call *call)
{
    const struct td_request *request = &call->request;
    if (td_op_output_form(request->op) == TD_OUTPUT_LIST)
        return;
    for (int i = 0; i < td_request_n_outputs(request); i++)
        if (!td_output_is_converted(request, i))
            return;
    for (int i = 0; i < request->args.n_outputs; i++) {
        struct td_tensor *output = &request->args.outputs[i];
        struct td_buffer *owner =
            output->owner ? output->owner : td_arena_owner(&call->arena, output->data);
        if (owner)
            td_arena_drop(&call->arena, owner);
    }
}

td_status td_reply_outputs_finish(struct td_call *call, struct td_exec *exec)
{
    struct td_request *request = &call->request;
    if (!request->outputs)
        return TD_OK;
    /* The program has described the outputs whose shapes its inputs do not determine. */
    td_status status = td_program_of(request->op)
                           ? td_outputs_describe(request, &call->arena, &call->error)
                           : TD_OK;
    for (int i = 0; i < request->n_outputs && status == TD_OK; i++) {
        struct td_tensor *output = &request->outputs[i].tensor;
        if (td_output_is_converted(request, i))
            status = request->common.store ? td_store_option_alloc(call, output)
                                           : td_tensor_alloc(output, &call->arena, &call->error);
    }
    if (status == TD_OK)
        status = td_outputs_convert(request, exec, &call->error);
    if (status == TD_OK)
        free_originals(call);
    return status;
}
