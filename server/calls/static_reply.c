#include "server/calls/static_reply.h"

#include "server/calls/conditions.h"
#include "server/calls/reply_compression.h"
#include "server/calls/services.h"
#include "server/compression/kept.h"

#include <stdio.h>
#include <string.h>

/* Compresses the document. Sets *tag to a tag for the compressed bytes, allocated in the arena. */
static td_status encode(struct td_call *call, td_encoding encoding, const char **tag)
{
    enum { SUFFIX = 16 };
    struct td_reply *reply = &call->reply;
    const size_t length = strlen(*tag), size = length + SUFFIX;
    char *encoded = td_arena_alloc(&call->arena, size, 1, &call->error);
    if (!encoded)
        return TD_MEMORY_EXHAUSTED;
    const td_status status =
        td_kept_deflate(call->services->kept, *tag, reply, encoding,
                        td_buffer_pool_memory(call->services->buffers), &call->arena, &call->error);
    /* Not compressed, because the result is not smaller or allocation failed. */
    if (status != TD_OK || reply->n_headers == 0)
        return status;
    snprintf(encoded, size, "%.*s-%s\"", (int)length - 1, *tag, td_encoding_name(encoding));
    *tag = encoded;
    return TD_OK;
}

td_status td_static_reply(struct td_call *call, const char *etag)
{
    struct td_reply *reply = &call->reply;
    const bool varies = td_reply_compression_of_document(call);
    const char *tag = etag;
    bool kept;
    td_status status =
        varies ? encode(call, td_deflate_choose(call->headers.accept_encoding), &tag) : TD_OK;
    if (status == TD_OK)
        status = td_conditions_list(call, tag, &kept);
    if (status == TD_OK && !kept) {
        status = td_conditions_list(call, etag, &kept);
        tag = kept ? etag : tag;
    }
    if (status != TD_OK)
        return status;
    if (kept) {
        reply->http_status = 304;
        reply->content_type = NULL;
        reply->n_chunks = reply->n_headers = 0;
    }
    td_reply_header(reply, "ETag", tag);
    /* Lets clients cache the document, but makes them revalidate it before every use. The reply is
     * 304 if the document is unchanged. */
    td_reply_header(reply, "Cache-Control", "no-cache");
    if (varies)
        td_reply_header(reply, "Vary", "Accept-Encoding");
    return TD_OK;
}
