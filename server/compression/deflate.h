/* deflate.h - answers that leave with Content-Encoding: gzip or deflate.
 *
 * Bounds     An answer below TD_DEFLATE_LEAST bytes, and one that would not get smaller, stays as it
 *            is; so does one for which there is no memory. deflate is the zlib format, as RFC 9110
 *            says.
 * Ownership  The compressed bytes are a buffer that the arena keeps.
 * Errors     Those of `stopped`, which is asked between the pieces of a large answer. */
#ifndef TD_SERVER_COMPRESSION_DEFLATE_H
#define TD_SERVER_COMPRESSION_DEFLATE_H

#include "api/message/message.h"

enum { TD_DEFLATE_LEAST = 512 };

typedef enum td_encoding { TD_ENCODING_NONE, TD_ENCODING_GZIP, TD_ENCODING_DEFLATE } td_encoding;

/* What Accept-Encoding likes best, by its q-values; gzip where it likes both, and nothing where it
 * is absent or likes neither. accept_encoding may be NULL. */
td_encoding td_deflate_choose(const char *accept_encoding);

/* Compresses the body and sets Content-Encoding. */
TD_MUST_CHECK td_status td_deflate(struct td_reply *reply, td_encoding encoding,
                                   struct td_memory *memory, struct td_arena *arena,
                                   td_status (*stopped)(void *context, struct td_error *err),
                                   void *context, struct td_error *err);

#endif
