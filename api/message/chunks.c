#include "api/message/chunks.h"

#include "api/message/raw.h"

#include <string.h>

bool td_chunk_count(size_t bytes, size_t *copied, int *n_large)
{
    if (bytes < TD_RAW_COPIED)
        return td_size_add(*copied, bytes, copied);
    ++*n_large;
    return true;
}

td_status td_chunk_writer_begin(struct td_chunk_writer *writer, struct td_reply *reply,
                                const char *content_type, char *text, size_t length, int n_large,
                                struct td_arena *arena, struct td_error *err)
{
    /* Each large chunk can be followed by a chunk of copied data. */
    const int most = 1 + 2 * n_large;
    td_reply_set(reply, 200, content_type, text, 0);
    if (most > TD_REPLY_CHUNKS) {
        reply->chunks = td_arena_alloc(arena, (size_t)most, sizeof *reply->chunks, err);
        if (!reply->chunks)
            return err->status;
    }
    reply->n_chunks = 0;
    *writer = (struct td_chunk_writer){ .reply = reply, .at = text + length, .begin = text };
    return TD_OK;
}

void td_chunk_writer_add(struct td_chunk_writer *writer, const void *data, size_t bytes)
{
    if (bytes < TD_RAW_COPIED) {
        memcpy(writer->at, data, bytes);
        writer->at += bytes;
        return;
    }
    td_chunk_writer_end(writer);
    writer->reply->chunks[writer->reply->n_chunks++] = (struct td_chunk){ data, bytes };
}

void td_chunk_writer_end(struct td_chunk_writer *writer)
{
    if (writer->at > writer->begin)
        writer->reply->chunks[writer->reply->n_chunks++] =
            (struct td_chunk){ writer->begin, (size_t)(writer->at - writer->begin) };
    writer->begin = writer->at;
}
