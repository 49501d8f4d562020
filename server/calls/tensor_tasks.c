#include "server/calls/tensor_tasks.h"

#include "api/codec.h"
#include "api/describe.h"
#include "api/files/range.h"
#include "api/media_type.h"
#include "api/message/common_members.h"
#include "api/tensor_io.h"
#include "kernels/key_dtype.h"
#include "kernels/name.h"
#include "server/calls/audit.h"
#include "server/calls/away.h"
#include "server/calls/conditions.h"
#include "server/calls/device_call.h"
#include "server/calls/key_tasks.h"
#include "server/calls/services.h"
#include "server/calls/tensor_call.h"
#include "server/store/aliases/aliases.h"
#include "server/store/keys.h"
#include "server/store/table_name.h"

#include <string.h>

/* ---- GET ------------------------------------------------------------------------------------- */

static td_status begin_get(struct td_call *call)
{
    const td_status status = td_tensor_call_begin(call);
    return status != TD_OK
               ? status
               : td_tensor_io_reply_format(call->headers.accept, &call->reply_format, &call->error);
}

static td_status get_argument(struct td_call *call, const char *name, size_t length,
                              const char *value, size_t value_length)
{
    struct td_tensor_call *state = call->state;
    if (!td_name_is("response", name, length)) {
        const td_status status =
            td_tensor_call_unknown(call, name, length, (const char *[]){ "response" }, 1);
        td_error_hint(&call->error, TD_BINARY_HINT);
        return status;
    }
    const int layout =
        td_tensor_call_choose(call, TD_TENSOR_RESPONSE, td_layout_names, value, value_length);
    if (layout < 0)
        return TD_MALFORMED_REQUEST;
    state->whole = true;
    state->layout = (td_layout)layout;
    return TD_OK;
}

static td_status decode_get(struct td_call *call)
{
    struct td_tensor_call *state = call->state;
    const td_status status = td_tensor_call_find(call);
    state->whole = state->whole || call->reply_format != TD_FORMAT_JSON;
    return status;
}

/* True if the reply is text that contains strings, so its length depends on every byte. */
static bool is_measured(const struct td_call *call)
{
    const struct td_tensor_call *state = call->state;
    return !state->unmodified && state->whole && call->reply_format == TD_FORMAT_JSON &&
           state->listing.tensor->dtype == TD_DTYPE_STRING;
}

static uint64_t get_bytes(const struct td_call *call)
{
    const struct td_tensor_call *state = call->state;
    return is_measured(call) ? state->listing.tensor->bytes : 0;
}

/* Copies mapped strings. Strings are measured before they are printed. If the file were truncated
 * in between, the resulting zeros would need longer escapes than were measured. */
static td_status copy_mapped_strings(struct td_call *call)
{
    struct td_tensor_call *state = call->state;
    const struct td_tensor *tensor = state->listing.tensor;
    if (!is_measured(call) || !td_store_is_mapped(tensor))
        return TD_OK;
    const td_status status = td_call_admit_memory(call, tensor->bytes);
    if (status != TD_OK)
        return status;
    state->tensor = *tensor;
    state->tensor.data = td_arena_alloc(&call->arena, tensor->bytes, 1, &call->error);
    if (!state->tensor.data)
        return call->error.status;
    if (td_stop_copy(&call->arena.stop, state->tensor.data, tensor->data, tensor->bytes,
                     &call->error) != TD_OK)
        return call->error.status;
    state->listing.tensor = &state->tensor;
    return TD_OK;
}

static td_status admit_get(struct td_call *call, struct td_admission *admission)
{
    const struct td_tensor_call *state = call->state;
    const uint64_t limit = (uint64_t)call->services->config.max_output;
    if (state->unmodified || !state->whole)
        return TD_OK;
    const struct td_tensor *tensor = state->listing.tensor;
    if (call->reply_format == TD_FORMAT_JSON && td_tensor_footprint(tensor) > limit) {
        const td_status large = td_error_resource(
            &call->error, "output_bytes", td_tensor_footprint(tensor), limit, "the tensor as text");
        td_error_hint(&call->error,
                      "the server's option --max-output sets this limit; Accept: "
                      "application/x-npy or application/vnd.safetensors has no limit");
        return large;
    }
    const td_status status = copy_mapped_strings(call);
    if (status != TD_OK)
        return status;
    tensor = state->listing.tensor;
    if (!td_tensor_write_bound(call->reply_format, state->layout, tensor,
                               &admission->encoded_bound))
        admission->encoded_bound = SIZE_MAX;
    return td_call_admit_memory(call, admission->encoded_bound);
}

static td_status encode_whole(struct td_call *call)
{
    const struct td_tensor_call *state = call->state;
    td_status status = td_tensor_write(call->reply_format, state->layout, state->listing.tensor,
                                       &call->arena, &call->reply, &call->error);
    /* Only for copied or printed replies. Chunks are read while they are sent. */
    if (status == TD_OK)
        status = td_store_check(&state->listing, &call->error);
    if (status != TD_OK)
        return status;
    td_tensor_call_add_etag(call);
    return td_range_apply(td_conditions_range(call, state->etag), &call->reply, &call->arena,
                          &call->error);
}

static td_status encode_get(struct td_call *call)
{
    const struct td_tensor_call *state = call->state;
    const td_status status = state->unmodified ? td_tensor_call_unmodified(call)
                             : state->whole    ? encode_whole(call)
                                               : td_tensor_call_encode_listing(call);
    if (status == TD_OK)
        td_reply_header(&call->reply, "Vary", "Accept");
    return status;
}

const struct td_task td_tensor_get_task = { .begin = begin_get,
                                            .argument = get_argument,
                                            .decode = decode_get,
                                            .admit = admit_get,
                                            .encode = encode_get,
                                            .admit_bytes = get_bytes };

/* Starts a GET of keys. Because a table's keys have their own name, a GET of keys is a GET of a
 * tensor. */
static td_status begin_get_keys(struct td_call *call)
{
    char name[TD_KEYS_NAME];
    const td_status status = td_name_check(call->arguments[0], &call->error);
    if (status != TD_OK)
        return status;
    td_table_keys_name(call->arguments[0], name);
    call->arguments[0] = td_arena_text(&call->arena, name, strlen(name), &call->error);
    return call->arguments[0] ? begin_get(call) : call->error.status;
}

const struct td_task td_keys_get_task = { .begin = begin_get_keys,
                                          .argument = get_argument,
                                          .decode = decode_get,
                                          .admit = admit_get,
                                          .encode = encode_get,
                                          .admit_bytes = get_bytes };

/* ---- PUT ------------------------------------------------------------------------------------- */

static td_status begin_put(struct td_call *call)
{
    const td_status status = td_tensor_call_begin_write(call);
    return status != TD_OK ? status
                           : td_tensor_io_body_format(call->headers.content_type,
                                                      &call->body_format, &call->error);
}

static td_status read_device(struct td_call *call, const char *value, size_t length)
{
    const int device =
        td_tensor_call_choose(call, TD_TENSOR_DEVICE, td_device_names, value, length);
    ((struct td_tensor_call *)call->state)->upload = device == TD_DEVICE_GPU;
    return device < 0 ? TD_MALFORMED_REQUEST : TD_OK;
}

static td_status put_argument(struct td_call *call, const char *name, size_t length,
                              const char *value, size_t value_length)
{
    static const char *const known[] = { "persist", "device" };
    if (td_name_is("persist", name, length))
        return td_tensor_call_persist(call, value, value_length);
    if (td_name_is("device", name, length))
        return read_device(call, value, value_length);
    return td_tensor_call_unknown(call, name, length, known, 2);
}

static td_status decode_put(struct td_call *call)
{
    struct td_tensor_call *state = call->state;
    struct td_table_document document = { 0 };
    td_tensor_call_recognise(call);
    const td_status status =
        td_table_read(call->body_format, call->body, call->body_bytes, &call->catalog.resolver,
                      &call->arena, &document, &call->error);
    if (status != TD_OK)
        return status;
    state->tensor = document.rows;
    state->keys = document.keys;
    state->has_keys = document.has_keys;
    /* The body names a resident table that has keys. */
    if (!document.has_keys && document.rows.keys) {
        state->keys = *document.rows.keys;
        state->has_keys = true;
    }
    td_tensor_call_own(call, &state->tensor, document.in_body);
    return document.has_keys
               ? td_key_widen(&state->keys, "keys", TD_DTYPE_INT64, &call->arena, &call->error)
               : TD_OK;
}

static td_status check_upload(struct td_call *call)
{
    const struct td_tensor_call *state = call->state;
    return state->upload ? td_device_call_check_upload(call, &state->tensor) : TD_OK;
}

static td_status admit_put(struct td_call *call, struct td_admission *admission)
{
    const struct td_tensor_call *state = call->state;
    const uint64_t keys = state->has_keys ? td_keys_footprint(&state->keys) : 0;
    uint64_t bytes;
    if (__builtin_add_overflow(td_tensor_footprint(&state->tensor), keys, &bytes))
        bytes = UINT64_MAX;
    const td_status status = check_upload(call);
    (void)admission; /* the call always runs on a worker */
    return status != TD_OK
               ? status
               : td_store_admit(call->services->store, &state->write, bytes, &call->error);
}

static td_status change_put(struct td_call *call, struct td_worker *worker)
{
    struct td_tensor_call *state = call->state;
    struct td_pool_exec exec;
    const td_status status = td_call_reserve_reply(call);
    if (status != TD_OK)
        return status;
    td_pool_exec_init(&exec, worker, &call->arena, td_call_stopped, call);
    const td_status put = td_store_put_table(
        call->services->store, &state->write, &state->tensor, state->has_keys ? &state->keys : NULL,
        &exec.base, &call->arena, &state->listing, &state->created, &call->error);
    if (put == TD_OK)
        td_audit_table(call, "put_tensor", &state->listing);
    return put;
}

static const struct td_tensor *upload_put(const struct td_call *call)
{
    const struct td_tensor_call *state = call->state;
    return state->upload ? state->listing.tensor : NULL;
}

/* Replies to a PUT. The request succeeds even if the upload failed, because the tensor is stored.
 * The reply states whether the tensor is on the device. */
static td_status encode_put(struct td_call *call)
{
    struct td_tensor_call *state = call->state;
    if (state->upload)
        state->listing.device = td_away_is(call, TD_AWAY_DONE) ? "gpu" : "cpu";
    const td_status status = td_tensor_call_encode_listing(call);
    return status != TD_OK ? status : td_tensor_call_add_location(call, "");
}

const struct td_task td_tensor_put_task = { .begin = begin_put,
                                            .argument = put_argument,
                                            .decode = decode_put,
                                            .admit = admit_put,
                                            .effect = td_tensor_call_effect,
                                            .change = change_put,
                                            .upload = upload_put,
                                            .encode = encode_put,
                                            .body_limit = TD_BODY_TENSOR };

/* ---- DELETE ---------------------------------------------------------------------------------- */

static td_status delete_argument(struct td_call *call, const char *name, size_t length,
                                 const char *value, size_t value_length)
{
    (void)value;
    (void)value_length;
    return td_tensor_call_unknown(call, name, length, NULL, 0);
}

static td_status change_delete(struct td_call *call, struct td_worker *worker)
{
    const struct td_tensor_call *state = call->state;
    struct td_store *store = call->services->store;
    const char *name = state->write.name;
    char target[TD_TENSOR_NAME];
    bool persisted;
    (void)worker;
    const bool is_alias = td_store_alias_target(store, name, strlen(name), target);
    const td_status status = td_store_delete(store, &state->write, &persisted, &call->error);
    if (status == TD_OK && is_alias)
        td_audit_alias(call, name, NULL, persisted);
    else if (status == TD_OK)
        td_audit_deleted(call, "delete_tensor", name, persisted);
    return td_catalog_hide(&call->catalog, name, status, &call->error);
}

static td_status encode_delete(struct td_call *call)
{
    call->reply.http_status = 204;
    return TD_OK;
}

static td_status begin_delete(struct td_call *call)
{
    const td_status status = td_tensor_call_begin_write(call);
    return status == TD_OK ? td_tensor_call_refuse_body(call) : status;
}

const struct td_task td_tensor_delete_task = { .begin = begin_delete,
                                               .argument = delete_argument,
                                               .decode = td_tensor_call_check_write,
                                               .effect = td_tensor_call_effect,
                                               .change = change_delete,
                                               .encode = encode_delete };
