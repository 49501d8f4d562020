#include "server/http/body.h"

#include "api/json/decode.h"
#include "server/calls/services.h"
#include "server/memory/stream_copy.h"

#include <string.h>

enum {
    IN_CALL = 16 << 10,      /* bodies up to this lie in the call itself */
    FIRST_BUFFER = 16 << 10, /* what the first bytes of a larger one get */
    GROWTH = 8,              /* and then so many times what has come, */
    EARNED = 1 << 20,        /* or all that was announced, after this much */
    STREAMED = 8 << 20,      /* more than stays in a cache until it is read */
    MADE_AHEAD = 4 << 20,    /* pages of such a body: at a time, */
    PIECES = 64 << 10,       /* of a body may be small, */
    PIECE_BYTES = 16,        /* of more than that only few */
    MADE_LEAST = 256 << 10   /* when so little of the last time is left */
};

static td_status too_large(struct td_call *call)
{
    call->close_connection = true;
    return td_error_too_large(&call->error, td_call_body_limit(call), "the body exceeds");
}

static td_status make_room(struct td_call *call, size_t bytes)
{
    struct td_memory *memory = td_buffer_pool_memory(call->services->buffers);
    struct td_buffer *larger = memory->take(memory, bytes + TD_JSON_PADDING, &call->error);
    if (!larger)
        return call->error.status;
    if (call->body_bytes)
        memcpy(larger->data, call->body, call->body_bytes);
    td_buffer_unref(call->body_buffer);
    call->body_buffer = larger;
    call->body = larger->data;
    call->body_capacity = larger->size - TD_JSON_PADDING;
    call->pages.bytes = 0; /* none of it is made */
    return TD_OK;
}

/* Who has sent little holds little, whatever he announced. */
static size_t room_for(const struct td_call *call, size_t bytes)
{
    const int64_t announced = call->headers.content_length;
    const size_t most = announced > 0 ? (size_t)announced : td_call_body_limit(call);
    if (bytes >= EARNED)
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

/* Each piece is a chunk or a packet, and costs the same however small it is. */
static td_status check_pieces(struct td_call *call)
{
    if (++call->body_pieces < PIECES || call->body_bytes / call->body_pieces >= PIECE_BYTES)
        return TD_OK;
    call->close_connection = true;
    return td_error_set(&call->error, TD_MALFORMED_REQUEST,
                        "the body came in %d pieces of less than %d bytes each; fewer, larger ones "
                        "are expected",
                        PIECES, PIECE_BYTES);
}

td_status td_body_receive(struct td_call *call, const char *data, size_t bytes)
{
    if (check_pieces(call) != TD_OK)
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

/* Where the body is known to end, or the room for it. */
static size_t known_end(const struct td_call *call)
{
    const int64_t announced = call->headers.content_length;
    return announced > 0 && (size_t)announced < call->body_capacity ? (size_t)announced
                                                                    : call->body_capacity;
}

bool td_body_wants_pages(struct td_call *call)
{
    if (call->body_capacity < STREAMED)
        return false;
    const size_t end = known_end(call), received = call->body_bytes;
    const size_t made =
        call->pages.bytes > 0 ? (size_t)(call->pages.data - call->body) + call->pages.bytes : 0;
    const size_t from = made > received ? made : received;
    if (from - received > MADE_LEAST || from >= end)
        return false;
    const size_t bytes = end - from < MADE_AHEAD ? end - from : MADE_AHEAD;
    call->pages.data = (char *)(uintptr_t)call->body + from;
    call->pages.bytes = bytes;
    return true;
}
