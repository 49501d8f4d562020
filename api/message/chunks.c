#include "api/message/chunks.h"

#include "api/message/raw.h"

#include <string.h>

bool td_pieces_count(size_t bytes, size_t *copied, int *n_large)
{
    if (bytes < TD_RAW_COPIED)
        return td_size_add(*copied, bytes, copied);
    ++*n_large;
    return true;
}

td_status td_pieces_begin(struct td_pieces *pieces, struct td_reply *reply,
                          const char *content_type, char *text, size_t length, int n_large,
                          struct td_arena *arena, struct td_error *err)
{
    const int most = 1 + 2 * n_large; /* each large one, and what is copied behind it */
    td_reply_set(reply, 200, content_type, text, 0);
    if (most > TD_REPLY_PIECES) {
        reply->pieces = td_arena_alloc(arena, (size_t)most, sizeof *reply->pieces, err);
        if (!reply->pieces)
            return err->status;
    }
    reply->n_pieces = 0;
    *pieces = (struct td_pieces){ .reply = reply, .at = text + length, .begin = text };
    return TD_OK;
}

void td_pieces_add(struct td_pieces *pieces, const void *data, size_t bytes)
{
    if (bytes < TD_RAW_COPIED) {
        memcpy(pieces->at, data, bytes);
        pieces->at += bytes;
        return;
    }
    td_pieces_end(pieces);
    pieces->reply->pieces[pieces->reply->n_pieces++] = (struct td_piece){ data, bytes };
}

void td_pieces_end(struct td_pieces *pieces)
{
    if (pieces->at > pieces->begin)
        pieces->reply->pieces[pieces->reply->n_pieces++] =
            (struct td_piece){ pieces->begin, (size_t)(pieces->at - pieces->begin) };
    pieces->begin = pieces->at;
}
