#include "server/calls/op_limits.h"

#include "api/codec.h"
#include "kernels/integers.h"
#include "server/calls/reply_outputs.h"
#include "server/calls/services.h"

td_status td_op_limits_name(struct td_call *call, td_status status, uint64_t limit,
                            const char *option)
{
    if (status == TD_RESOURCE_LIMIT && call->error.limit == limit)
        td_error_hint(&call->error, "the server's option %s sets this limit", option);
    return status;
}

/* Returns the size of the outputs to send or store. */
static size_t reply_bytes(const struct td_request *request)
{
    size_t bytes = 0;
    for (int i = 0; i < td_request_n_outputs(request); i++)
        bytes = td_saturating_add(bytes, td_tensor_footprint(td_request_output(request, i)));
    return bytes;
}

td_status td_op_limits_check_outputs(struct td_call *call, size_t *bytes)
{
    const struct td_op_args *args = &call->request.args;
    const uint64_t limit = (uint64_t)call->services->config.max_output;
    size_t computed = 0;
    for (int i = 0; i < args->n_outputs; i++)
        computed = td_saturating_add(computed, td_tensor_footprint(&args->outputs[i]));
    *bytes = td_saturating_add(computed, td_reply_outputs_converted(&call->request));
    const size_t sent = reply_bytes(&call->request), larger = computed > sent ? computed : sent;
    if (larger <= limit)
        return TD_OK;
    const td_status status =
        td_error_resource(&call->error, "output_bytes", larger, limit, "the output");
    return td_op_limits_name(call, status, limit, "--max-output");
}

td_status td_op_limits_check_text(struct td_call *call, size_t *bytes)
{
    /* An int8 in a list of its own takes up to 7 characters: [-127], */
    enum { TEXT_PER_BYTE = 8 };
    const uint64_t limit = (uint64_t)call->services->config.max_output;
    const size_t outputs = reply_bytes(&call->request);
    if (!td_codec_encoded_bound(call->reply_format, &call->request, bytes))
        *bytes = SIZE_MAX;
    if (*bytes <= limit || *bytes / TEXT_PER_BYTE <= outputs)
        return TD_OK;
    const td_status status =
        td_error_resource(&call->error, "output_bytes", *bytes, limit, "the text of the reply");
    td_error_hint(&call->error,
                  "the server's option --max-output sets this limit; response=base64 and "
                  "the binary formats are shorter");
    return status;
}

td_status td_op_limits_check_flops(struct td_call *call, uint64_t flops)
{
    const uint64_t limit = (uint64_t)call->services->config.max_flops;
    if (limit == 0 || flops <= limit)
        return TD_OK;
    const td_status status = td_error_resource(&call->error, "flops", flops, limit, call->op->name);
    return td_op_limits_name(call, status, limit, "--max-flops");
}

size_t td_op_limits_memory(const struct td_call *call, const struct td_admission *admission)
{
    const struct td_cost *cost = &admission->cost;
    const uint64_t threads = cost->single_threaded ? 1 : (uint64_t)call->services->config.workers;
    const uint64_t reply = td_saturating_add(admission->output_bytes, admission->encoded_bound),
                   scratch = td_saturating_mul(cost->workspace_per_thread, threads);
    return td_saturating_add(reply, td_saturating_add(cost->workspace, scratch));
}
