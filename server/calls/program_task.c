#include "server/calls/program_task.h"

#include "api/codec.h"
#include "api/programs/describe.h"
#include "api/programs/read.h"
#include "kernels/name.h"
#include "kernels/op_check.h"
#include "server/calls/conditions.h"
#include "server/calls/device_call.h"
#include "server/calls/op_task.h"
#include "server/calls/services.h"
#include "server/calls/store_option.h"
#include "server/calls/stored_programs.h"

#include <string.h>

#define PROGRAM "program"

static const struct td_output_spec results[] = { { .name = "output" } };

const struct td_op td_posted_program = { .name = "programs/run",
                                         .outputs = results,
                                         .n_outputs = 1 };

const struct td_op td_posted_plan = { .name = "programs/plan", .outputs = results, .n_outputs = 1 };

static td_status begin(struct td_call *call)
{
    const td_status status = td_op_begin(call);
    if (status != TD_OK || call->body_format == TD_FORMAT_JSON)
        return status;
    return td_error_set(&call->error, TD_UNSUPPORTED_MEDIA_TYPE,
                        "a program is read as application/json; a stored program also takes its "
                        "inputs as application/vnd.safetensors");
}

/* Reads the program in the body, which becomes the op of the call. */
static td_status read_program(struct td_call *call, td_program_form form)
{
    call->op = form == TD_PROGRAM_PLAN ? &td_posted_plan : &td_posted_program;
    const td_status status =
        td_program_read_request(form, call->body, call->body_bytes, &call->borrowed.resolver,
                                &call->arena, &call->request, &call->error);
    if (status == TD_OK)
        call->op = call->request.op;
    return status;
}

static td_status decode_body(struct td_call *call)
{
    return read_program(call, TD_PROGRAM_RUN);
}

static td_status decode(struct td_call *call)
{
    return td_op_decode_with(call, decode_body);
}

const struct td_task td_program_run_task = { .begin = begin,
                                             .argument = td_op_argument,
                                             .decode = decode,
                                             .admit = td_op_admit,
                                             .compute = td_op_compute,
                                             .effect = td_store_option_effect,
                                             .change = td_op_change_stage,
                                             .encode = td_op_encode,
                                             .on_device = true,
                                             .body_limit = TD_BODY_ANY,
                                             .admit_bytes = td_op_admit_bytes };

/* ---- Query parameters ------------------------------------------------------------------------ */

/* A query parameter. It is read once the program, and thus the kind of the argument, is known. */
struct argument {
    struct argument *next;
    const char *name, *value;
    size_t length, value_length;
};

static td_status keep_argument(struct td_call *call, const char *name, size_t length,
                               const char *value, size_t value_length)
{
    struct argument *argument = td_arena_alloc(&call->arena, 1, sizeof *argument, &call->error);
    struct argument **last = (struct argument **)&call->state;
    if (!argument)
        return call->error.status;
    *argument = (struct argument){ NULL, name, value, length, value_length };
    while (*last)
        last = &(*last)->next;
    *last = argument;
    return TD_OK;
}

static td_status set_arguments(struct td_call *call)
{
    td_status status = TD_OK;
    for (const struct argument *at = call->state; at && status == TD_OK; at = at->next)
        status = td_op_argument(call, at->name, at->length, at->value, at->value_length);
    return status;
}

/* ---- Plans ----------------------------------------------------------------------------------- */

static td_status begin_plan(struct td_call *call)
{
    const td_status status = begin(call);
    call->reply_format = TD_FORMAT_JSON;
    call->request.has_no_output = true;
    return status == TD_OK ? td_conditions_refuse(call, TD_CHANGES_NOTHING) : status;
}

/* "program" in the query names a stored program, and the body is the body of its call. */
static td_status plan_argument(struct td_call *call, const char *name, size_t length,
                               const char *value, size_t value_length)
{
    if (!td_name_is(PROGRAM, name, length))
        return keep_argument(call, name, length, value, value_length);
    if (call->program || memchr(value, '\0', value_length)) {
        td_error_set(&call->error, TD_MALFORMED_REQUEST,
                     PROGRAM " %s; expected the name of one stored program",
                     call->program ? "is given twice" : "contains a NUL");
        return td_error_at_attribute(&call->error, TD_MALFORMED_REQUEST, PROGRAM);
    }
    call->program = td_arena_text(&call->arena, value, value_length, &call->error);
    return call->program ? td_catalog_may_name_program(&call->catalog, call->program, &call->error)
                         : call->error.status;
}

/* Makes the stored program the op of the call. */
static td_status use_program(struct td_call *call)
{
    const td_status status = td_stored_program_use(call);
    call->table.place = 0; /* a plan does not count as a call of the program */
    call->request.has_no_output = call->request.is_plan = true;
    return status;
}

static td_status decode_plan(struct td_call *call)
{
    td_borrowed_begin(&call->borrowed, &call->catalog.resolver, NULL);
    td_status status = call->program ? use_program(call) : TD_OK;
    if (status == TD_OK)
        status = set_arguments(call);
    if (status != TD_OK || !call->program)
        return status == TD_OK ? read_program(call, TD_PROGRAM_PLAN) : status;
    return td_codec_decode(call->body_format, call->body, call->body_bytes,
                           &call->borrowed.resolver, &call->arena, &call->request, &call->error);
}

static td_status encode_plan(struct td_call *call)
{
    const struct td_config *config = &call->services->config;
    const struct td_plan_limits limits = { .threads = (int)config->workers,
                                           .max_flops = (uint64_t)config->max_flops,
                                           .max_output = (uint64_t)config->max_output,
                                           .memory = (uint64_t)config->memory_limit };
    td_status status = td_device_call_check(call);
    if (status == TD_OK)
        status = td_op_check(call->op, &call->request.args, &call->error);
    if (status == TD_OK)
        status = td_borrowed_copy_indices(&call->request, &call->arena, &call->error);
    if (status == TD_OK)
        status = call->op->infer(&call->request.args, &call->arena, &call->error);
    return status == TD_OK ? td_describe_program_plan(&call->request.args, &limits, &call->arena,
                                                      &call->reply, &call->error)
                           : status;
}

const struct td_task td_program_plan_task = { .begin = begin_plan,
                                              .argument = plan_argument,
                                              .decode = decode_plan,
                                              .encode = encode_plan,
                                              .body_limit = TD_BODY_ANY,
                                              .admit_bytes = td_op_admit_bytes };

/* ---- Stored programs ------------------------------------------------------------------------- */

static td_status begin_stored(struct td_call *call)
{
    call->program = call->arguments[0];
    const td_status status =
        td_catalog_may_name_program(&call->catalog, call->program, &call->error);
    return status == TD_OK ? td_op_begin(call) : status;
}

static td_status decode_inputs(struct td_call *call)
{
    td_status status = td_stored_program_use(call);
    if (status == TD_OK)
        status = set_arguments(call);
    return status == TD_OK ? td_codec_decode(call->body_format, call->body, call->body_bytes,
                                             &call->borrowed.resolver, &call->arena, &call->request,
                                             &call->error)
                           : status;
}

static td_status decode_stored(struct td_call *call)
{
    return td_op_decode_with(call, decode_inputs);
}

const struct td_task td_stored_program_task = { .begin = begin_stored,
                                                .argument = keep_argument,
                                                .decode = decode_stored,
                                                .admit = td_op_admit,
                                                .compute = td_op_compute,
                                                .effect = td_store_option_effect,
                                                .change = td_op_change_stage,
                                                .encode = td_op_encode,
                                                .on_device = true,
                                                .body_limit = TD_BODY_ANY,
                                                .admit_bytes = td_op_admit_bytes };
