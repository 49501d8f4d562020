#include "server/http/openapi.h"

#include "server/http/routes.h"
#include "server/store/precondition.h"

#include <inttypes.h>
#include <stdio.h>

/* FNV-1a, 64 bits: nobody gains from two documents of this server with one tag.
 * Source  Fowler, Noll, Vo, The FNV Non-Cryptographic Hash Algorithm, IETF draft. */
static uint64_t digest(const unsigned char *bytes, size_t size)
{
    uint64_t value = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < size; i++)
        value = (value ^ bytes[i]) * UINT64_C(1099511628211);
    return value;
}

/* Adds the ETag, and leaves the document out if the client has it. */
static td_status add_etag(struct td_call *call)
{
    enum { SIZE = 24 };
    struct td_reply *reply = &call->reply;
    bool kept = false;
    char *etag = td_arena_alloc(&call->arena, SIZE, 1, &call->error);
    if (!etag)
        return TD_MEMORY_EXHAUSTED;
    snprintf(etag, SIZE, "\"%016" PRIx64 "\"",
             digest(reply->chunks[0].data, reply->chunks[0].size));
    if (call->headers.if_none_match) {
        const td_status status = td_etag_listed("If-None-Match", call->headers.if_none_match, etag,
                                                true, &kept, &call->error);
        if (status != TD_OK)
            return status;
    }
    if (kept) {
        reply->http_status = 304;
        reply->content_type = NULL;
        reply->n_chunks = 0;
    }
    td_reply_header(reply, "ETag", etag);
    td_reply_header(reply, "Cache-Control", "no-cache"); /* kept, and asked for again: a 304 */
    return TD_OK;
}

td_status td_get_openapi(struct td_call *call)
{
    struct td_openapi_route lines[TD_ROUTE_LINES];
    const td_status status = td_openapi_reply(lines, td_route_lines(lines), TD_VERSION,
                                              &call->arena, &call->reply, &call->error);
    return status == TD_OK ? add_etag(call) : status;
}
