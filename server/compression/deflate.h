/* deflate.h - compresses replies with Content-Encoding: gzip or deflate.
 *
 * Bounds     A reply below TD_DEFLATE_LEAST bytes, one that would not shrink, and one for which
 *            there is no memory is sent as it is. deflate is the zlib format, as RFC 9110 defines
 *            it.
 * Ownership  The arena keeps the buffer of compressed bytes.
 * Errors     Those of arena->stop, which is checked between the chunks of a large reply. */
#ifndef TD_SERVER_COMPRESSION_DEFLATE_H
#define TD_SERVER_COMPRESSION_DEFLATE_H

#include "api/message/message.h"

enum { TD_DEFLATE_LEAST = 512 };

typedef enum td_encoding { TD_ENCODING_NONE, TD_ENCODING_GZIP, TD_ENCODING_DEFLATE } td_encoding;

/* "gzip", "deflate" */
const char *td_encoding_name(td_encoding encoding);

/* The encoding that Accept-Encoding prefers by its q-values; gzip if it ranks both equal, none
 * if it accepts neither or is NULL. */
td_encoding td_deflate_choose(const char *accept_encoding);

/* Compresses the body and sets Content-Encoding. */
TD_MUST_CHECK td_status td_deflate(struct td_reply *reply, td_encoding encoding,
                                   struct td_memory *memory, struct td_arena *arena,
                                   struct td_error *err);

#endif
