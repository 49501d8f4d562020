#include "server/calls/plan_task.h"

#include "api/codec.h"
#include "api/message/message.h"
#include "api/plan.h"
#include "server/calls/conditions.h"
#include "server/calls/device_call.h"
#include "server/calls/op_task.h"
#include "server/calls/services.h"

static td_status begin_plan(struct td_call *call)
{
    td_request_init(&call->request, call->op);
    call->request.has_no_output = true;
    const td_status status =
        td_codec_request_format(call->headers.content_type, &call->body_format, &call->error);
    if (status == TD_OK && call->body_format != TD_FORMAT_JSON)
        return td_error_set(
            &call->error, TD_UNSUPPORTED_MEDIA_TYPE,
            "the body must be application/json; a plan is computed from shapes alone");
    return status == TD_OK ? td_conditions_refuse(call, TD_CHANGES_NOTHING) : status;
}

static td_status plan(struct td_call *call)
{
    const struct td_config *config = &call->services->config;
    const struct td_plan_limits limits = { .threads = (int)config->workers,
                                           .max_flops = (uint64_t)config->max_flops,
                                           .max_output = (uint64_t)config->max_output,
                                           .memory = (uint64_t)config->memory_limit };
    const td_status status = td_device_call_check(call);
    if (status != TD_OK)
        return status;
    return td_plan_reply(call->body, call->body_bytes, &limits, &call->arena, &call->request,
                         &call->reply, &call->error);
}

const struct td_task td_plan_task = {
    .begin = begin_plan, .argument = td_op_argument, .encode = plan, .body_limit = TD_BODY_SMALL
};
