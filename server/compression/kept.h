/* kept.h - compressed documents that do not change, each compressed once.
 *
 * Bounds     TD_KEPT_DOCUMENTS of them; further ones are compressed for each reply.
 * Ownership  The documents are kept until td_kept_free, so no reply outlives them that is sent
 *            before. They are not charged to any budget: how many there are is decided by the
 *            program.
 * Threads    Any. Two that find a document missing both compress it, and one result is kept.
 * Errors     Those of td_deflate. */
#ifndef TD_SERVER_COMPRESSION_KEPT_H
#define TD_SERVER_COMPRESSION_KEPT_H

#include "server/compression/deflate.h"

enum { TD_KEPT_DOCUMENTS = 128, TD_KEPT_TAG = 64 };

struct td_kept;

/* NULL without memory. */
struct td_kept *td_kept_new(void);
void td_kept_free(struct td_kept *kept); /* NULL is fine */

/* As td_deflate, which has the memory and the arena; `tag` tells the bytes of the reply from those
 * of all others. A reply that has Content-Encoding after that is compressed. */
TD_MUST_CHECK td_status td_kept_deflate(struct td_kept *kept, const char *tag,
                                        struct td_reply *reply, td_encoding encoding,
                                        struct td_memory *memory, struct td_arena *arena,
                                        struct td_error *err);

#endif
