/* kept.h - compressed forms of constant documents, each compressed only once.
 *
 * Bounds     At most TD_KEPT_DOCUMENTS documents are kept; others are compressed for each reply.
 * Ownership  The documents are kept until td_kept_free is called, so they outlive the replies that
 *            use them. They do not count against a memory budget, because the program determines
 *            their number.
 * Threads    Any. If two threads need the same missing document, both compress it, and one result
 *            is kept.
 * Errors     The errors of td_deflate. */
#ifndef TD_SERVER_COMPRESSION_KEPT_H
#define TD_SERVER_COMPRESSION_KEPT_H

#include "server/compression/deflate.h"

enum { TD_KEPT_DOCUMENTS = 128, TD_KEPT_TAG = 64 };

struct td_kept;

/* Returns NULL if no memory is available. */
struct td_kept *td_kept_new(void);
void td_kept_free(struct td_kept *kept); /* NULL is allowed */

/* Compresses the reply as td_deflate does, or uses the kept document. `tag` must identify the bytes
 * of the reply. Sets Content-Encoding if the reply is compressed. */
TD_MUST_CHECK td_status td_kept_deflate(struct td_kept *kept, const char *tag,
                                        struct td_reply *reply, td_encoding encoding,
                                        struct td_memory *memory, struct td_arena *arena,
                                        struct td_error *err);

#endif
