#include "server/calls/tensor_call.h"

#include "api/media_type.h"
#include "api/message/common_members.h"
#include "api/tensor_io.h"
#include "api/text/suggest.h"
#include "api/text/text.h"
#include "kernels/op_change.h"
#include "kernels/shown_text.h"
#include "server/calls/conditions.h"
#include "server/calls/services.h"
#include "server/store/etag.h"
#include "server/store/table_name.h"

#include <string.h>

td_status td_tensor_call_begin(struct td_call *call)
{
    struct td_tensor_call *state = td_arena_alloc(&call->arena, 1, sizeof *state, &call->error);
    if (!state)
        return call->error.status;
    *state = (struct td_tensor_call){ .write = { .name = call->arguments[0],
                                                 .removes = strcmp(call->method, "DELETE") == 0,
                                                 .access = &call->catalog.access,
                                                 .condition = td_conditions_of(call) } };
    call->state = state;
    call->reply_format = TD_FORMAT_JSON;
    return td_catalog_may_name(&call->catalog, state->write.name, &call->error);
}

static td_status set_etag(struct td_call *call)
{
    struct td_tensor_call *state = call->state;
    char *text = td_arena_alloc(&call->arena, TD_ETAG_SIZE, 1, &call->error);
    if (!text)
        return call->error.status;
    td_etag_of_format(state->listing.etag, call->reply_format, text);
    state->etag = text;
    return TD_OK;
}

td_status td_tensor_call_find(struct td_call *call)
{
    struct td_tensor_call *state = call->state;
    const char *name = call->arguments[0];
    td_status status =
        td_catalog_get(&call->catalog, name, &call->arena, &state->listing, &call->error);
    if (status == TD_OK)
        status = set_etag(call);
    if (status == TD_OK)
        status = td_conditions_check_match(call, name, state->listing.etag);
    return status == TD_OK ? td_conditions_list(call, state->etag, &state->unmodified) : status;
}

td_status td_tensor_call_unmodified(struct td_call *call)
{
    call->reply.http_status = 304;
    td_tensor_call_add_etag(call);
    return TD_OK;
}

td_status td_tensor_call_check_write(struct td_call *call)
{
    const struct td_tensor_call *state = call->state;
    return td_store_check_change(call->services->store, &state->write, &call->error);
}

/* Starts a change. A client that waits for 100 Continue gets errors immediately. Other clients get
 * errors after the body, because many clients read nothing before they have sent the body. */
td_status td_tensor_call_begin_write(struct td_call *call)
{
    td_status status = td_tensor_call_begin(call);
    if (status == TD_OK)
        status = td_catalog_may_write(&call->catalog, call->arguments[0], &call->error);
    call->schedule.must_queue = true;
    return status == TD_OK && call->headers.expect ? td_tensor_call_check_write(call) : status;
}

td_status td_tensor_call_refuse_body(struct td_call *call)
{
    /* A chunked body can be empty, for example from libcurl. */
    if (call->headers.content_length <= 0)
        return TD_OK;
    return td_error_set(
        &call->error, TD_MALFORMED_REQUEST,
        "DELETE has a body, but deletes everything that its path names; send it without "
        "a body, or remove rows by key with POST /v1/tensors/%s/%s",
        call->arguments[0], td_row_remover->name);
}

td_effect td_tensor_call_effect(struct td_call *call, struct td_writer *writer)
{
    struct td_tensor_call *state = call->state;
    state->write.writer = writer;
    return td_store_plan_write(call->services->store, &state->write, writer) ? TD_EFFECT_DISK
                                                                             : TD_EFFECT_MEMORY;
}

td_status td_tensor_call_unknown(struct td_call *call, const char *name, size_t length,
                                 const char *const *known, int n)
{
    const char *shown = TD_SHOWN(name, length);
    td_error_set(&call->error, TD_MALFORMED_REQUEST,
                 "%s of a tensor has no query parameter \"%s\"; expected %s%s%s%s", call->method,
                 shown,
                 n == 0   ? "none"
                 : n == 1 ? "only "
                          : "",
                 n > 0 ? known[0] : "", n > 1 ? " or " : "", n > 1 ? known[1] : "");
    td_suggest(&call->error, name, length, known, n);
    return td_error_at_attribute(&call->error, TD_MALFORMED_REQUEST, shown);
}

int td_tensor_call_choose(struct td_call *call, enum td_tensor_argument argument,
                          const char *const *choices, const char *value, size_t length)
{
    static const char *const names[] = { "persist", "device", "response" };
    struct td_tensor_call *state = call->state;
    if (state->given >> argument & 1) {
        td_error_set(&call->error, TD_MALFORMED_REQUEST, "%s is given twice", names[argument]);
        (void)td_error_at_attribute(&call->error, TD_MALFORMED_REQUEST, names[argument]);
        return -1;
    }
    state->given |= 1U << argument;
    return td_common_member_choose(names[argument], choices, value, length, &call->error);
}

td_status td_tensor_call_persist(struct td_call *call, const char *value, size_t length)
{
    const int truth = td_tensor_call_choose(call, TD_TENSOR_PERSIST, td_bool_names, value, length);
    ((struct td_tensor_call *)call->state)->write.persist = truth % 2 == 1;
    return truth < 0 ? TD_MALFORMED_REQUEST : TD_OK;
}

void td_tensor_call_add_etag(struct td_call *call)
{
    const struct td_tensor_call *state = call->state;
    td_reply_header(&call->reply, "ETag", state->etag ? state->etag : state->listing.etag);
}

td_status td_tensor_call_encode_listing(struct td_call *call)
{
    const struct td_tensor_call *state = call->state;
    const td_status status =
        td_describe_tensor(&state->listing, &call->arena, &call->reply, &call->error);
    if (status == TD_OK)
        td_tensor_call_add_etag(call);
    return status;
}

td_status td_tensor_call_add_location(struct td_call *call, const char *suffix)
{
    enum { LOCATION_SIZE = 3 * TD_TENSOR_NAME + 32 }; /* large enough for the longest tensor name */
    const struct td_tensor_call *state = call->state;
    if (!state->created)
        return TD_OK;
    char *location = td_arena_alloc(&call->arena, LOCATION_SIZE, 1, &call->error);
    if (!location)
        return call->error.status;
    struct td_text text = { .at = location, .end = location + LOCATION_SIZE - 1 };
    td_text_string(&text, "/v1/tensors/");
    td_text_segment(&text, state->listing.name, strlen(state->listing.name));
    td_text_string(&text, suffix);
    *text.at = '\0';
    call->reply.http_status = 201;
    td_reply_header(&call->reply, "Location", location);
    return TD_OK;
}

void td_tensor_call_recognise(struct td_call *call)
{
    if (!td_media_is_stated(call->headers.content_type))
        call->body_format = td_tensor_io_recognise(call->body, call->body_bytes);
}

void td_tensor_call_own(struct td_call *call, struct td_tensor *tensor, bool in_body)
{
    if (in_body)
        tensor->owner = call->body_buffer; /* NULL: the body is in the call's memory */
    else if (!tensor->owner && tensor->numel > 0)
        /* The tensor was decoded from text, or converted. */
        tensor->owner = td_arena_owner(&call->arena, tensor->data);
}
