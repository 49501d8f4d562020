#include "server/calls/reply_compression.h"

#include "server/calls/services.h"

#include <string.h>

void td_reply_compression_negotiate(struct td_call *call)
{
    call->negotiated = call->style == TD_STYLE_OIP || call->services->config.compress;
    if (call->negotiated)
        call->encoding = td_deflate_choose(call->headers.accept_encoding);
}

td_status td_reply_compression_apply(struct td_call *call)
{
    struct td_reply *reply = &call->reply;
    if (!call->negotiated || call->request.common.store || reply->http_status != 200 ||
        td_reply_bytes(reply) < TD_DEFLATE_LEAST)
        return TD_OK;
    for (int i = 0; i < reply->n_headers; i++)
        if (strcmp(reply->headers[i].name, "ETag") == 0)
            return TD_OK;
    td_reply_header(reply, "Vary", "Accept-Encoding");
    return td_deflate(reply, call->encoding, td_buffer_pool_memory(call->services->buffers),
                      &call->arena, &call->error);
}

bool td_reply_compression_of_document(const struct td_call *call)
{
    return call->services->config.compress && td_reply_bytes(&call->reply) >= TD_DEFLATE_LEAST;
}
