#include "server/calls/program_task.h"

#include "api/programs/read.h"
#include "server/calls/op_task.h"
#include "server/calls/store_option.h"

static const struct td_output_spec results[] = { { .name = "output" } };

const struct td_op td_posted_program = { .name = "programs/run",
                                         .outputs = results,
                                         .n_outputs = 1 };

static td_status begin(struct td_call *call)
{
    const td_status status = td_op_begin(call);
    if (status != TD_OK || call->body_format == TD_FORMAT_JSON)
        return status;
    return td_error_set(&call->error, TD_UNSUPPORTED_MEDIA_TYPE,
                        "a program is read as application/json; a stored program also takes its "
                        "inputs as application/vnd.safetensors");
}

/* Refuses a program that the client wants to run on the device. */
static td_status refuse_device(struct td_call *call)
{
    td_error_set(&call->error, TD_UNSUPPORTED_DTYPE,
                 "device is gpu, but the device has no kernel for programs; expected auto or cpu");
    return td_error_at_device(&call->error, TD_UNSUPPORTED_DTYPE, "gpu");
}

static td_status decode_body(struct td_call *call)
{
    call->op = &td_posted_program;
    const td_status status = td_program_read_request(TD_PROGRAM_RUN, call->body, call->body_bytes,
                                                     &call->borrowed.resolver, &call->arena,
                                                     &call->request, &call->error);
    if (status == TD_OK)
        call->op = call->request.op;
    return status;
}

static td_status decode(struct td_call *call)
{
    return td_op_decode_with(call, decode_body);
}

/* A fault of the program is reported before the device. */
static td_status admit(struct td_call *call, struct td_admission *admission)
{
    const td_status status = td_op_admit(call, admission);
    return status == TD_OK && call->request.common.device == TD_DEVICE_GPU ? refuse_device(call)
                                                                           : status;
}

const struct td_task td_program_run_task = { .begin = begin,
                                             .argument = td_op_argument,
                                             .decode = decode,
                                             .admit = admit,
                                             .compute = td_op_compute,
                                             .effect = td_store_option_effect,
                                             .change = td_op_change_stage,
                                             .encode = td_op_encode,
                                             .body_limit = TD_BODY_ANY,
                                             .admit_bytes = td_op_admit_bytes };
