/* chunks.h - a reply of one text and the data of tensors behind it: what is small is copied behind
 * the text, what is large (TD_RAW_COPIED) becomes a piece of its own. */
#ifndef TD_API_MESSAGE_CHUNKS_H
#define TD_API_MESSAGE_CHUNKS_H

#include "api/message/message.h"

struct td_chunk_writer {
    struct td_reply *reply;
    char *at;          /* where copies go on */
    const char *begin; /* of the piece that ends there */
};

/* Counts the data to come: room for copies, and large ones. False on overflow. */
bool td_chunk_count(size_t bytes, size_t *copied, int *n_large);

/* Begins a reply at `text`, `length` of whose bytes are written; room for all copies follows. */
TD_MUST_CHECK td_status td_chunk_writer_begin(struct td_chunk_writer *writer,
                                              struct td_reply *reply, const char *content_type,
                                              char *text, size_t length, int n_large,
                                              struct td_arena *arena, struct td_error *err);
void td_chunk_writer_add(struct td_chunk_writer *writer, const void *data, size_t bytes);
void td_chunk_writer_end(struct td_chunk_writer *writer);

#endif
