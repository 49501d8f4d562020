#include "server/compression/kept.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct document {
    char tag[TD_KEPT_TAG];
    td_encoding encoding;
    void *data;
    size_t size;
};

struct td_kept {
    pthread_mutex_t mutex; /* guards the following members */
    int n_documents;
    /* A document does not change after n_documents includes it. */
    struct document documents[TD_KEPT_DOCUMENTS];
};

struct td_kept *td_kept_new(void)
{
    struct td_kept *kept = malloc(sizeof *kept);
    if (!kept)
        return NULL;
    kept->n_documents = 0;
    pthread_mutex_init(&kept->mutex, NULL);
    return kept;
}

void td_kept_free(struct td_kept *kept)
{
    if (!kept)
        return;
    for (int i = 0; i < kept->n_documents; i++)
        free(kept->documents[i].data);
    pthread_mutex_destroy(&kept->mutex);
    free(kept);
}

/* Returns the document, or NULL if it is not kept. The caller holds the mutex. */
static const struct document *find(const struct td_kept *kept, const char *tag,
                                   td_encoding encoding)
{
    for (int i = 0; i < kept->n_documents; i++)
        if (kept->documents[i].encoding == encoding && strcmp(kept->documents[i].tag, tag) == 0)
            return &kept->documents[i];
    return NULL;
}

static const struct document *find_locked(struct td_kept *kept, const char *tag,
                                          td_encoding encoding)
{
    pthread_mutex_lock(&kept->mutex);
    const struct document *document = find(kept, tag, encoding);
    pthread_mutex_unlock(&kept->mutex);
    return document;
}

/* Keeps a copy of the bytes, unless no memory is available. */
static void keep(struct td_kept *kept, const char *tag, td_encoding encoding,
                 const struct td_chunk *bytes)
{
    void *data = malloc(bytes->size);
    if (!data)
        return;
    memcpy(data, bytes->data, bytes->size);
    pthread_mutex_lock(&kept->mutex);
    if (kept->n_documents < TD_KEPT_DOCUMENTS && !find(kept, tag, encoding)) {
        struct document *document = &kept->documents[kept->n_documents++];
        snprintf(document->tag, sizeof document->tag, "%s", tag);
        document->encoding = encoding;
        document->size = bytes->size;
        document->data = data;
        data = NULL;
    }
    pthread_mutex_unlock(&kept->mutex);
    free(data);
}

static bool is_encoded(const struct td_reply *reply)
{
    return reply->n_headers > 0 &&
           strcmp(reply->headers[reply->n_headers - 1].name, "Content-Encoding") == 0;
}

td_status td_kept_deflate(struct td_kept *kept, const char *tag, struct td_reply *reply,
                          td_encoding encoding, struct td_memory *memory, struct td_arena *arena,
                          struct td_error *err)
{
    if (encoding == TD_ENCODING_NONE || strlen(tag) >= TD_KEPT_TAG)
        return td_deflate(reply, encoding, memory, arena, err);
    const struct document *document = find_locked(kept, tag, encoding);
    if (document) {
        td_reply_set(reply, reply->http_status, reply->content_type, document->data,
                     document->size);
        td_reply_header(reply, "Content-Encoding", td_encoding_name(encoding));
        return TD_OK;
    }
    const td_status status = td_deflate(reply, encoding, memory, arena, err);
    if (status == TD_OK && is_encoded(reply))
        keep(kept, tag, encoding, &reply->chunks[0]);
    return status;
}
