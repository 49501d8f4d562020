#include "api/message.h"

void td_reply_set(struct td_reply *reply, int http_status, const char *content_type,
                  const void *data, size_t size)
{
    reply->http_status = http_status;
    reply->content_type = content_type;
    reply->own[0] = (struct td_piece){ .data = data, .size = size };
    reply->pieces = reply->own;
    reply->n_pieces = 1;
}

size_t td_reply_bytes(const struct td_reply *reply)
{
    size_t bytes = 0;
    for (int i = 0; i < reply->n_pieces; i++)
        bytes += reply->pieces[i].size;
    return bytes;
}
