#include "server/calls/program_store_tasks.h"

#include "api/codec.h"
#include "api/message/common_members.h"
#include "api/text/suggest.h"
#include "api/text/text.h"
#include "kernels/name.h"
#include "kernels/shown_text.h"
#include "server/calls/audit.h"
#include "server/calls/conditions.h"
#include "server/calls/services.h"
#include "server/calls/stored_programs.h"
#include "server/calls/tensor_call.h"
#include "server/store/table_name.h"

#include <stdio.h>
#include <string.h>

#define CHECK "check"

/* Maximum number of stored programs. */
enum { PROGRAMS = 4096 };

/* State of a call on one program. */
struct state {
    struct td_tensor_call tensor; /* of its text; must be first (tensor_call.h) */
    const char *name;             /* NAME or NAME@VERSION */
    const struct td_stored_program *stored;
    struct td_program_signature signature;
    bool check, check_given; /* PUT: check the program without storing it */
};

/* ---- Common steps ---------------------------------------------------------------------------- */

/* Refuses names that are taken by other paths under /v1/programs. */
static td_status check_reserved(const struct td_call *call, const char *name, struct td_error *err)
{
    const bool is_path = !td_table_version(name);
    if (!td_program_is_reserved(name))
        return TD_OK;
    td_error_set(err, is_path ? TD_METHOD_NOT_ALLOWED : TD_INVALID_ARGUMENT,
                 "%s of '%s' is not allowed, because " TD_PROGRAM_RESERVED, call->method,
                 TD_SHOWN(name, strlen(name)));
    if (is_path)
        snprintf(err->allow, sizeof err->allow, "POST");
    return err->status;
}

/* Checks the name. Names of programs follow the same rules as names of tables. */
static td_status check_name(const struct td_call *call, const char *name, struct td_error *err)
{
    td_status status = check_reserved(call, name, err);
    if (status != TD_OK)
        return status;
    status = td_name_check(name, err);
    if (status == TD_OK || td_name_valid(name))
        return status;
    return td_error_set(err, TD_INVALID_ARGUMENT,
                        "'%s' is not a valid name for a program: expected %s",
                        TD_SHOWN(name, strlen(name)), TD_NAME_EXPECTED);
}

/* Checks the name, and creates call->state. */
static td_status begin(struct td_call *call)
{
    struct state *state = td_arena_alloc(&call->arena, 1, sizeof *state, &call->error);
    char *text = td_arena_alloc(&call->arena, TD_TENSOR_NAME, 1, &call->error);
    if (!state || !text)
        return call->error.status;
    *state = (struct state){ .name = call->arguments[0] };
    td_status status = check_name(call, state->name, &call->error);
    if (status == TD_OK)
        status = td_catalog_may_name_program(&call->catalog, state->name, &call->error);
    if (status != TD_OK)
        return status;
    if (!td_program_name(state->name, text))
        return td_error_set(&call->error, TD_INVALID_ARGUMENT,
                            "'%s' is too long for the name of a program",
                            TD_SHOWN(state->name, strlen(state->name)));
    state->tensor.write = (struct td_store_write){
        .name = text,
        .removes = strcmp(call->method, "DELETE") == 0,
        .access = &call->catalog.access,
        .condition = td_conditions_of(call),
    };
    call->state = state;
    call->reply_format = TD_FORMAT_JSON;
    return TD_OK;
}

static td_status no_argument(struct td_call *call, const char *name, size_t length,
                             const char *const *known, int n)
{
    const char *shown = TD_SHOWN(name, length);
    td_error_set(&call->error, TD_MALFORMED_REQUEST,
                 "%s of a program has no query parameter \"%s\"; expected %s%s%s", call->method,
                 shown, n > 0 ? known[0] : "none", n > 1 ? " or " : "", n > 1 ? known[1] : "");
    td_suggest(&call->error, name, length, known, n);
    return td_error_at_attribute(&call->error, TD_MALFORMED_REQUEST, shown);
}

static td_status accept_no_argument(struct td_call *call, const char *name, size_t length,
                                    const char *value, size_t value_length)
{
    (void)value;
    (void)value_length;
    return no_argument(call, name, length, NULL, 0);
}

static td_status describe(struct td_call *call)
{
    const struct state *state = call->state;
    const struct td_program_listing listing =
        state->check
            ? (struct td_program_listing){ .name = state->name, .bytes = state->stored->bytes }
            : td_stored_program_listing(&state->tensor.listing);
    const td_status status = td_describe_program(&listing, state->stored, &state->signature,
                                                 &call->arena, &call->reply, &call->error);
    if (status == TD_OK && !state->check)
        td_tensor_call_add_etag(call);
    return status;
}

/* ---- GET ------------------------------------------------------------------------------------- */

static td_status decode_get(struct td_call *call)
{
    struct state *state = call->state;
    struct td_tensor_listing *listing = &state->tensor.listing;
    td_status status =
        td_catalog_get_program(&call->catalog, state->name, &call->arena, listing, &call->error);
    if (status == TD_OK)
        status = td_conditions_check_match(call, state->tensor.write.name, listing->etag);
    if (status != TD_OK)
        return status;
    state->stored = td_stored_program_of(call, listing->tensor, &call->error);
    return state->stored
               ? td_stored_program_describe(call, state->name, state->stored, &state->signature)
               : call->error.status;
}

/* Sends the call to a worker, which plans the program. Never replies 304: the description also
 * depends on the tables, but the ETag covers only the text. */
static td_status begin_get(struct td_call *call)
{
    call->schedule.must_queue = true;
    return begin(call);
}

const struct td_task td_program_get_task = {
    .begin = begin_get, .argument = accept_no_argument, .decode = decode_get, .encode = describe
};

/* ---- PUT ------------------------------------------------------------------------------------- */

static td_status begin_write(struct td_call *call)
{
    td_status status = begin(call);
    struct state *state = call->state;
    if (status == TD_OK)
        status = td_catalog_may_write_program(&call->catalog, state->name, &call->error);
    call->schedule.must_queue = true;
    return status == TD_OK && call->headers.expect ? td_tensor_call_check_write(call) : status;
}

static td_status begin_put(struct td_call *call)
{
    const td_status status = begin_write(call);
    if (status != TD_OK)
        return status;
    td_status format =
        td_codec_request_format(call->headers.content_type, &call->body_format, &call->error);
    if (format == TD_OK && call->body_format != TD_FORMAT_JSON)
        format = td_error_set(&call->error, TD_UNSUPPORTED_MEDIA_TYPE,
                              "a program is stored as application/json");
    return format;
}

static td_status set_check(struct td_call *call, const char *value, size_t length)
{
    struct state *state = call->state;
    if (state->check_given) {
        td_error_set(&call->error, TD_MALFORMED_REQUEST, CHECK " is given twice");
        return td_error_at_attribute(&call->error, TD_MALFORMED_REQUEST, CHECK);
    }
    const int truth = td_common_member_choose(CHECK, td_bool_names, value, length, &call->error);
    state->check_given = true;
    state->check = truth % 2 == 1;
    return truth < 0 ? TD_MALFORMED_REQUEST : TD_OK;
}

static td_status put_argument(struct td_call *call, const char *name, size_t length,
                              const char *value, size_t value_length)
{
    static const char *const known[] = { "persist", CHECK };
    if (td_name_is(CHECK, name, length))
        return set_check(call, value, value_length);
    return td_name_is("persist", name, length) ? td_tensor_call_persist(call, value, value_length)
                                               : no_argument(call, name, length, known, 2);
}

/* Refuses a table that the token does not allow, and a name that no table can have, because the
 * client could never run the program. Other missing tables can be stored later. */
static td_status check_tables(struct td_call *call)
{
    const struct state *state = call->state;
    const td_status status = state->signature.problem.status;
    if (state->signature.is_ready || (status != TD_FORBIDDEN && status != TD_INVALID_ARGUMENT))
        return TD_OK;
    call->error = state->signature.problem;
    return status;
}

static td_status decode_put(struct td_call *call)
{
    struct state *state = call->state;
    struct td_stored_program *stored;
    td_status status = td_stored_program_read(
        call->body, call->body_bytes, TD_NAMED(state->tensor.write.name),
        td_buffer_pool_memory(call->services->buffers), &stored, &call->error);
    if (status == TD_OK && !td_arena_keep(&call->arena, &stored->base, &call->error))
        status = call->error.status;
    if (status != TD_OK)
        return status;
    state->stored = stored;
    status = td_stored_program_check(state->stored, state->name, &call->catalog.resolver,
                                     &call->arena, &state->signature, &call->error);
    return status == TD_OK ? check_tables(call) : status;
}

/* Refuses a new program if there are too many. Counts them only if there are many tensors. */
static td_status check_count(struct td_call *call)
{
    const struct state *state = call->state;
    const int tensors = td_store_usage(call->services->store).tensors;
    int count = 0;
    if (tensors < PROGRAMS || td_catalog_know(&call->catalog, state->tensor.write.name))
        return TD_OK;
    const td_status status =
        td_catalog_count_programs(&call->catalog, &call->arena, &count, &call->error);
    if (status != TD_OK || count < PROGRAMS)
        return status;
    return td_error_resource(&call->error, "programs", (uint64_t)count + 1, PROGRAMS, "the store");
}

static td_status admit_put(struct td_call *call, struct td_admission *admission)
{
    const struct state *state = call->state;
    (void)admission; /* the call always runs on a worker */
    const td_status status = check_count(call);
    return status != TD_OK ? status
                           : td_store_admit(call->services->store, &state->tensor.write,
                                            state->stored->bytes, &call->error);
}

static td_effect effect_put(struct td_call *call, struct td_writer *writer)
{
    const struct state *state = call->state;
    return state->check ? TD_EFFECT_NONE : td_tensor_call_effect(call, writer);
}

static td_status change_put(struct td_call *call, struct td_worker *worker)
{
    struct state *state = call->state;
    struct td_tensor_call *of = &state->tensor;
    const struct td_shape shape = { .rank = 1, .dim = { (int64_t)state->stored->bytes } };
    (void)worker;
    td_status status = td_call_reserve_reply(call);
    if (status == TD_OK)
        status = td_tensor_describe(&of->tensor, "program", TD_DTYPE_UINT8, &shape, &call->error);
    if (status != TD_OK)
        return status;
    of->tensor.data = (void *)(uintptr_t)state->stored->text;
    status = td_store_put(call->services->store, &of->write, &of->tensor, &call->arena,
                          &of->listing, &of->created, &call->error);
    if (status != TD_OK)
        return status;
    td_stored_program_keep(call, of->listing.tensor, state->stored);
    of->listing.name = state->name;
    td_audit_table(call, "put_program", &of->listing);
    return TD_OK;
}

static td_status add_location(struct td_call *call)
{
    enum { SIZE = 3 * TD_TENSOR_NAME + 32 };
    const struct state *state = call->state;
    char *location = td_arena_alloc(&call->arena, SIZE, 1, &call->error);
    if (!location)
        return call->error.status;
    struct td_text text = { .at = location, .end = location + SIZE - 1 };
    td_text_string(&text, "/v1/programs/");
    td_text_segment(&text, state->name, strlen(state->name));
    *text.at = '\0';
    call->reply.http_status = 201;
    td_reply_header(&call->reply, "Location", location);
    return TD_OK;
}

static td_status encode_put(struct td_call *call)
{
    const struct state *state = call->state;
    const td_status status = describe(call);
    return status == TD_OK && state->tensor.created ? add_location(call) : status;
}

const struct td_task td_program_put_task = { .begin = begin_put,
                                             .argument = put_argument,
                                             .decode = decode_put,
                                             .admit = admit_put,
                                             .effect = effect_put,
                                             .change = change_put,
                                             .encode = encode_put,
                                             .body_limit = TD_PROGRAM_BYTES };

/* ---- DELETE ---------------------------------------------------------------------------------- */

static td_status begin_delete(struct td_call *call)
{
    const td_status status = begin_write(call);
    if (status != TD_OK || call->headers.content_length <= 0)
        return status;
    return td_error_set(&call->error, TD_MALFORMED_REQUEST,
                        "DELETE of a program has a body; send it without one");
}

static td_status change_delete(struct td_call *call, struct td_worker *worker)
{
    const struct state *state = call->state;
    const char *name = state->tensor.write.name;
    bool persisted;
    (void)worker;
    const td_status status =
        td_store_delete(call->services->store, &state->tensor.write, &persisted, &call->error);
    if (status == TD_OK)
        td_audit_deleted(call, "delete_program", state->name, persisted);
    return td_catalog_hide(&call->catalog, name, status, &call->error);
}

static td_status encode_delete(struct td_call *call)
{
    call->reply.http_status = 204;
    return TD_OK;
}

const struct td_task td_program_delete_task = { .begin = begin_delete,
                                                .argument = accept_no_argument,
                                                .decode = td_tensor_call_check_write,
                                                .effect = td_tensor_call_effect,
                                                .change = change_delete,
                                                .encode = encode_delete };
