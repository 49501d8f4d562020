#include "server/http/openapi.h"

#include "server/calls/static_reply.h"
#include "server/http/routes.h"

#include <inttypes.h>
#include <stdio.h>

/* Returns the 64-bit FNV-1a hash. Collisions are harmless, because an attacker gains nothing from
 * two documents of this server with the same ETag.
 * Source  Fowler, Noll, Vo, The FNV Non-Cryptographic Hash Algorithm, IETF draft. */
static uint64_t digest(const unsigned char *bytes, size_t size)
{
    uint64_t value = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < size; i++)
        value = (value ^ bytes[i]) * UINT64_C(1099511628211);
    return value;
}

static td_status add_etag(struct td_call *call)
{
    enum { SIZE = 24 };
    const struct td_chunk *document = &call->reply.chunks[0];
    char *etag = td_arena_alloc(&call->arena, SIZE, 1, &call->error);
    if (!etag)
        return TD_MEMORY_EXHAUSTED;
    snprintf(etag, SIZE, "\"%016" PRIx64 "\"", digest(document->data, document->size));
    return td_static_reply(call, etag);
}

td_status td_get_openapi(struct td_call *call)
{
    struct td_openapi_route lines[TD_ROUTE_LINES];
    const td_status status = td_openapi_reply(lines, td_route_lines(lines), TD_VERSION,
                                              &call->arena, &call->reply, &call->error);
    return status == TD_OK ? add_etag(call) : status;
}
