/* chunks.h - writes a reply that consists of text followed by tensor data. Small data is copied
 * after the text. Data of TD_RAW_COPIED bytes or more becomes a separate chunk and is not
 * copied. */
#ifndef TD_API_MESSAGE_CHUNKS_H
#define TD_API_MESSAGE_CHUNKS_H

#include "api/message/message.h"

struct td_chunk_writer {
    struct td_reply *reply;
    char *at;          /* position for the next copied byte */
    const char *begin; /* start of the chunk that ends at `at` */
};

/* Counts `bytes` bytes of data for td_chunk_writer_begin: adds them to *copied if they are few,
 * otherwise counts one more large chunk. Returns false on overflow. */
bool td_chunk_count(size_t bytes, size_t *copied, int *n_large);

/* Starts a reply with the `length` bytes at `text`. The memory after these bytes must have space
 * for all copied data. `n_large` is the number of large chunks. */
TD_MUST_CHECK td_status td_chunk_writer_begin(struct td_chunk_writer *writer,
                                              struct td_reply *reply, const char *content_type,
                                              char *text, size_t length, int n_large,
                                              struct td_arena *arena, struct td_error *err);
void td_chunk_writer_add(struct td_chunk_writer *writer, const void *data, size_t bytes);
void td_chunk_writer_end(struct td_chunk_writer *writer);

#endif
