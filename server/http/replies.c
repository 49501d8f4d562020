#include "server/http/replies.h"

#include "api/message/problem.h"
#include "server/calls/services.h"
#include "server/http/authorize.h"
#include "server/http/origin.h"

#include <stdio.h>
#include <string.h>

/* A response to which headers are being added. */
struct headed {
    struct MHD_Response *response;
    bool complete; /* false if no memory was available for a header */
};

static void add_header(struct headed *headed, const char *name, const char *value)
{
    if (MHD_add_response_header(headed->response, name, value) != MHD_YES)
        headed->complete = false;
}

static void add_error_headers(const struct td_call *call, struct headed *headed)
{
    char text[16];
    if (call->error.allow[0])
        add_header(headed, "Allow", call->error.allow);
    if (call->error.status == TD_UNAUTHENTICATED)
        add_header(headed, "WWW-Authenticate", td_authorize_challenge(call));
    if (call->error.etag[0])
        add_header(headed, "ETag", call->error.etag);
    if (call->error.status == TD_UNSUPPORTED_MEDIA_TYPE &&
        strcmp(call->error.attribute, "Content-Encoding") == 0)
        add_header(headed, "Accept-Encoding", "gzip, deflate");
    const unsigned retry_after_s = td_problem_retry_after_s(&call->error);
    if (retry_after_s > 0) {
        snprintf(text, sizeof text, "%u", retry_after_s);
        add_header(headed, "Retry-After", text);
    }
}

static void add_timing(const struct td_call *call, struct headed *headed)
{
    char text[160];
    snprintf(text, sizeof text,
             "decode;dur=%.3f, queue;dur=%.3f, compute;dur=%.3f, encode;dur=%.3f",
             (double)call->times.decode / 1e6, (double)call->times.queue / 1e6,
             (double)call->times.compute / 1e6, (double)call->times.encode / 1e6);
    add_header(headed, "Server-Timing", text);
}

/* Allows the page that sent the request to read the reply, and lists the headers that the page can
 * read. */
static void add_origin_headers(const struct td_call *call, struct headed *headed)
{
    if (call->services->config.allow_origin[0])
        add_header(headed, "Vary", "Origin");
    if (!call->http.origin)
        return;
    add_header(headed, "Access-Control-Allow-Origin", call->http.origin);
    if (!call->http.preflight)
        add_header(headed, "Access-Control-Expose-Headers", TD_ORIGIN_EXPOSED);
}

static void add_reply_headers(const struct td_call *call, struct headed *headed)
{
    const struct td_reply *reply = &call->reply;
    if (reply->content_type)
        add_header(headed, "Content-Type", reply->content_type);
    add_header(headed, "X-Request-Id", call->request_id);
    for (int i = 0; i < reply->n_headers; i++)
        add_header(headed, reply->headers[i].name, reply->headers[i].value);
    add_origin_headers(call, headed);
    if (call->error.status != TD_OK)
        add_error_headers(call, headed);
    if (call->request.common.timing)
        add_timing(call, headed);
    /* Relaxed order is sufficient, because a reply made at the start of a drain can have the header
     * or omit it. */
    if (call->http.close_connection ||
        atomic_load_explicit(&call->services->draining, memory_order_relaxed))
        add_header(headed, "Connection", "close");
}

/* Makes a response from the reply's bytes, which remain in the call. The library's completion
 * callback frees the call after the response is sent. */
static struct MHD_Response *make_response(struct td_call *call)
{
    const struct td_reply *reply = &call->reply;
    if (reply->n_chunks == 0)
        return MHD_create_response_empty(MHD_RF_NONE);
    if (reply->n_chunks == 1)
        return MHD_create_response_from_buffer(reply->chunks[0].size,
                                               (void *)(uintptr_t)reply->chunks[0].data,
                                               MHD_RESPMEM_PERSISTENT);
    struct MHD_IoVec *chunks =
        td_arena_alloc(&call->arena, (size_t)reply->n_chunks, sizeof *chunks, TD_IGNORED);
    if (!chunks)
        return NULL;
    for (int i = 0; i < reply->n_chunks; i++)
        chunks[i] = (struct MHD_IoVec){ reply->chunks[i].data, reply->chunks[i].size };
    return MHD_create_response_from_iovec(chunks, (unsigned)reply->n_chunks, NULL, NULL);
}

enum MHD_Result td_reply_send(struct td_call *call)
{
    struct headed headed = { .response = make_response(call), .complete = true };
    if (!headed.response)
        return MHD_NO;
    add_reply_headers(call, &headed);
    /* A reply without one of its headers could have another meaning, so close the connection
     * instead. */
    const enum MHD_Result queued =
        headed.complete ? MHD_queue_response(call->http.connection,
                                             (unsigned)call->reply.http_status, headed.response)
                        : MHD_NO;
    MHD_destroy_response(headed.response);
    td_call_count_unsent(call); /* for a refused request, whose body might never arrive */
    call->http.replied = true;
    return queued;
}
