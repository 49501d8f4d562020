/* deflate.h - compresses replies with Content-Encoding: gzip or deflate.
 *
 * Bounds     A reply is sent uncompressed if it has fewer than TD_DEFLATE_LEAST bytes, if it would
 *            not shrink, or if no memory is available. The encoding "deflate" is the zlib format,
 *            as RFC 9110 specifies.
 * Ownership  The arena owns the buffer of compressed bytes.
 * Errors     The errors of arena->stop, which is checked between the chunks of a large reply. */
#ifndef TD_SERVER_COMPRESSION_DEFLATE_H
#define TD_SERVER_COMPRESSION_DEFLATE_H

#include "api/message/message.h"

enum { TD_DEFLATE_LEAST = 512 };

typedef enum td_encoding { TD_ENCODING_NONE, TD_ENCODING_GZIP, TD_ENCODING_DEFLATE } td_encoding;

/* Returns the name of the encoding: "gzip" or "deflate". */
const char *td_encoding_name(td_encoding encoding);

/* Returns the encoding that accept_encoding prefers according to its q-values, or gzip if it rates
 * both encodings equally. Returns TD_ENCODING_NONE if accept_encoding accepts neither encoding or
 * is NULL. */
td_encoding td_deflate_choose(const char *accept_encoding);

/* Compresses the body and sets Content-Encoding. */
TD_MUST_CHECK td_status td_deflate(struct td_reply *reply, td_encoding encoding,
                                   struct td_memory *memory, struct td_arena *arena,
                                   struct td_error *err);

#endif
