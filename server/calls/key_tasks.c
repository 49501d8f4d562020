#include "server/calls/key_tasks.h"

#include "api/tensor_io.h"
#include "kernels/key_dtype.h"
#include "kernels/name.h"
#include "server/calls/audit.h"
#include "server/calls/services.h"
#include "server/calls/tensor_call.h"

/* ---- PUT ------------------------------------------------------------------------------------- */

static td_status begin_write(struct td_call *call)
{
    const td_status status = td_tensor_call_begin(call);
    call->schedule.must_queue = true;
    return status != TD_OK ? status
                           : td_catalog_may_write(&call->catalog, call->arguments[0], &call->error);
}

static td_status begin_put(struct td_call *call)
{
    const td_status status = begin_write(call);
    return status != TD_OK ? status
                           : td_tensor_io_body_format(call->headers.content_type,
                                                      &call->body_format, &call->error);
}

static td_status argument(struct td_call *call, const char *name, size_t length, const char *value,
                          size_t value_length)
{
    return td_name_is("persist", name, length)
               ? td_tensor_call_persist(call, value, value_length)
               : td_tensor_call_unknown(call, name, length, (const char *[]){ "persist" }, 1);
}

static td_status decode_put(struct td_call *call)
{
    struct td_tensor_call *state = call->state;
    bool in_body;
    td_tensor_call_recognise(call);
    const td_status status =
        td_tensor_read(call->body_format, TD_ROLE_KEY, call->body, call->body_bytes,
                       &call->catalog.resolver, &call->arena, &state->keys, &in_body, &call->error);
    return status == TD_OK
               ? td_key_widen(&state->keys, "keys", TD_DTYPE_INT64, &call->arena, &call->error)
               : td_error_at_input(&call->error, status, "keys");
}

static td_status admit_put(struct td_call *call, struct td_admission *admission)
{
    const struct td_tensor_call *state = call->state;
    (void)admission; /* the call always runs on a worker */
    return td_catalog_hide(
        &call->catalog, state->write.name,
        td_store_admit_keys(call->services->store, &state->write, &state->keys, &call->error),
        &call->error);
}

static td_status change_put(struct td_call *call, struct td_worker *worker)
{
    struct td_tensor_call *state = call->state;
    struct td_pool_exec exec;
    const td_status status = td_call_reserve_reply(call);
    if (status != TD_OK)
        return status;
    td_pool_exec_init(&exec, worker, &call->arena, td_call_stopped, call);
    const td_status put =
        td_store_put_keys(call->services->store, &state->write, &state->keys, &exec.base,
                          &call->arena, &state->listing, &state->created, &call->error);
    if (put == TD_OK)
        td_audit_table(call, "put_keys", &state->listing);
    return td_catalog_hide(&call->catalog, state->write.name, put, &call->error);
}

static td_status encode_put(struct td_call *call)
{
    const td_status status = td_tensor_call_encode_listing(call);
    return status != TD_OK ? status : td_tensor_call_add_location(call, "/keys");
}

/* ---- DELETE ---------------------------------------------------------------------------------- */

static td_status change_delete(struct td_call *call, struct td_worker *worker)
{
    struct td_tensor_call *state = call->state;
    (void)worker;
    const td_status status = td_store_delete_keys(call->services->store, &state->write,
                                                  &call->arena, &state->listing, &call->error);
    if (status == TD_OK)
        td_audit_table(call, "delete_keys", &state->listing);
    return td_catalog_hide(&call->catalog, state->write.name, status, &call->error);
}

static td_status encode_delete(struct td_call *call)
{
    call->reply.http_status = 204;
    td_tensor_call_add_etag(call);
    return TD_OK;
}

const struct td_task td_keys_put_task = { .begin = begin_put,
                                          .argument = argument,
                                          .decode = decode_put,
                                          .admit = admit_put,
                                          .effect = td_tensor_call_effect,
                                          .change = change_put,
                                          .encode = encode_put,
                                          .body_limit = TD_BODY_TENSOR };

static td_status begin_delete(struct td_call *call)
{
    const td_status status = begin_write(call);
    return status == TD_OK ? td_tensor_call_refuse_body(call) : status;
}

const struct td_task td_keys_delete_task = { .begin = begin_delete,
                                             .argument = argument,
                                             .effect = td_tensor_call_effect,
                                             .change = change_delete,
                                             .encode = encode_delete };
