#include "server/http/body.h"

#include "api/json/decode.h"
#include "server/calls/client_limits.h"
#include "server/calls/services.h"
#include "server/memory/stream_copy.h"

#include <string.h>

enum {
    /* A refused body of up to this size is read and dropped, so the connection can be reused. */
    DISCARDED = 64 << 10,
    /* Bodies up to this size are stored in the call itself. */
    IN_CALL = 16 << 10,
    FIRST_BUFFER = 16 << 10, /* size of the first buffer of a larger body */
    /* Factor from the bytes received to the size of the next buffer. */
    GROWTH = 8,
    /* After this many bytes, the buffer gets the size in Content-Length. */
    TRUSTED = 1 << 20,
    /* Bodies larger than this are copied without going through the cache. */
    STREAMED = 8 << 20,
    /* Bytes of a body above STREAMED to populate at a time. */
    POPULATED = 4 << 20,
    /* Populate more when at most this many populated bytes are left. */
    POPULATED_LEFT = 256 << 10,
    /* Bodies with more chunks than this must have an average chunk size of at least CHUNK_BYTES. */
    CHUNKS = 64 << 10,
    CHUNK_BYTES = 16
};

/* Returns the option that sets the limit of the body, or NULL if no option does. */
static const char *limit_option(const struct td_call *call, int64_t limit)
{
    const struct td_config *config = &call->services->config;
    if (call->body_limit == TD_BODY_TENSOR && limit == config->tensor_quota)
        return "--tensor-quota";
    return limit == config->max_body       ? "--max-body"
           : limit == config->memory_limit ? "--memory-limit"
                                           : NULL;
}

static td_status too_large(struct td_call *call)
{
    const size_t limit = td_call_body_limit(call);
    const char *option = limit_option(call, (int64_t)limit);
    call->http.close_connection = true;
    const td_status status = td_error_too_large(&call->error, limit, "the body exceeds");
    if (option)
        td_error_hint(&call->error, "the server's option %s sets this limit", option);
    return status;
}

static td_status make_room(struct td_call *call, size_t bytes)
{
    struct td_memory *memory = td_buffer_pool_memory(call->services->buffers);
    const size_t held = call->body_buffer ? call->body_buffer->size : 0;
    if (td_client_limits_charge(call, bytes > held ? bytes - held : 0) != TD_OK)
        return call->error.status;
    struct td_buffer *larger = memory->take(memory, bytes + TD_JSON_PADDING, &call->error);
    if (!larger)
        return call->error.status;
    if (call->body_bytes)
        memcpy(larger->data, call->body, call->body_bytes);
    td_buffer_unref(call->body_buffer);
    call->body_buffer = larger;
    call->body = larger->data;
    call->body_capacity = larger->size - TD_JSON_PADDING;
    call->http.populate.bytes = 0; /* nothing is populated yet */
    return TD_OK;
}

/* Returns the size of the next buffer. The buffer grows with the bytes received, so a client cannot
 * reserve memory by announcing a large body. */
static size_t room_for(const struct td_call *call, size_t bytes)
{
    const int64_t announced = call->headers.content_length;
    const size_t most = announced > 0 ? (size_t)announced : td_call_body_limit(call);
    if (bytes >= TRUSTED)
        return announced > 0 || bytes > most / 2 ? most : 2 * bytes;
    const size_t room = bytes * GROWTH;
    return room > most ? most : room < FIRST_BUFFER ? FIRST_BUFFER : room;
}

td_status td_body_begin(struct td_call *call)
{
    static const char nothing[TD_JSON_PADDING] = "";
    const int64_t length = call->headers.content_length;
    if (length > 0 && (size_t)length > td_call_body_limit(call))
        return too_large(call);
    call->body = nothing;
    if (length > IN_CALL || call->headers.chunked)
        return TD_OK;
    const size_t bytes = length > 0 ? (size_t)length : 0;
    call->body = td_arena_alloc(&call->arena, bytes + TD_JSON_PADDING, 1, &call->error);
    call->body_capacity = bytes;
    return call->body ? TD_OK : call->error.status;
}

/* Refuses bodies that arrive in too many small chunks, because each chunk, even a packet of a body
 * of known length, has a fixed cost. `bytes` is the size of the chunk that has just arrived. */
static td_status check_chunks(struct td_call *call, size_t bytes)
{
    if (++call->http.body_chunks < CHUNKS ||
        (call->body_bytes + bytes) / call->http.body_chunks >= CHUNK_BYTES)
        return TD_OK;
    call->http.close_connection = true;
    return td_error_set(&call->error, TD_MALFORMED_REQUEST,
                        "the body arrived in %d chunks of less than %d bytes on average; "
                        "expected fewer and larger chunks",
                        CHUNKS, CHUNK_BYTES);
}

static td_status receive(struct td_call *call, const char *data, size_t bytes)
{
    if (check_chunks(call, bytes) != TD_OK)
        return call->error.status;
    const size_t limit = td_call_body_limit(call);
    if (bytes > limit - call->body_bytes)
        return too_large(call);
    if (bytes > call->body_capacity - call->body_bytes) {
        const td_status status = make_room(call, room_for(call, call->body_bytes + bytes));
        if (status != TD_OK)
            return status;
    }
    char *to = (char *)(uintptr_t)call->body + call->body_bytes;
    if (call->body_capacity >= STREAMED)
        td_stream_copy(to, data, bytes);
    else
        memcpy(to, data, bytes);
    call->body_bytes += bytes;
    return TD_OK;
}

td_status td_body_receive(struct td_call *call, const char *data, size_t bytes)
{
    const td_status status = receive(call, data, bytes);
    if (status == TD_OK)
        return TD_OK;
    /* Free the memory now, because the client might take long to send the rest. */
    td_buffer_unref(call->body_buffer);
    call->body_buffer = NULL;
    call->body = NULL;
    call->body_bytes = call->body_capacity = 0;
    td_client_limits_discharge(call);
    return status;
}

/* Returns the end of the body if it is known; otherwise returns the end of its buffer. */
static size_t known_end(const struct td_call *call)
{
    const int64_t announced = call->headers.content_length;
    return announced > 0 && (size_t)announced < call->body_capacity ? (size_t)announced
                                                                    : call->body_capacity;
}

bool td_body_must_populate(struct td_call *call)
{
    if (call->body_capacity < STREAMED)
        return false;
    const size_t end = known_end(call), received = call->body_bytes;
    const size_t populated =
        call->http.populate.bytes > 0
            ? (size_t)(call->http.populate.data - call->body) + call->http.populate.bytes
            : 0;
    const size_t from = populated > received ? populated : received;
    if (from - received > POPULATED_LEFT || from >= end)
        return false;
    const size_t bytes = end - from < POPULATED ? end - from : POPULATED;
    call->http.populate.data = (char *)(uintptr_t)call->body + from;
    call->http.populate.bytes = bytes;
    return true;
}

bool td_body_is_refused_early(const struct td_call *call)
{
    return call->http.close_connection || call->headers.chunked ||
           call->headers.content_length > DISCARDED ||
           (call->headers.expect && call->headers.content_length > 0);
}

bool td_body_discard(struct td_call *call, size_t bytes)
{
    const size_t limit = td_call_body_limit(call);
    call->http.discarded += bytes;
    return call->http.discarded <= (limit > DISCARDED ? limit : DISCARDED);
}
