/* inflate.h - expands request bodies with Content-Encoding: gzip or deflate.
 *
 * Bounds     Expands to at most `limit` bytes: a decompression bomb is PAYLOAD_TOO_LARGE as soon as
 *            it passes the limit. Memory grows with the output, not with what the body claims.
 * Ownership  *out is a new buffer; the caller unrefs it. `padding` bytes after the result are
 *            readable.
 * Errors     MALFORMED_REQUEST for corrupt or truncated data (gzip, zlib and raw deflate are
 *            detected from the data, since clients confuse them); UNSUPPORTED_MEDIA_TYPE for an
 *            encoding other than gzip, deflate or identity. Those of `stop`, which is checked
 *            between the chunks of a large output. err must not be NULL. */
#ifndef TD_SERVER_COMPRESSION_INFLATE_H
#define TD_SERVER_COMPRESSION_INFLATE_H

#include "kernels/buffer.h"
#include "kernels/stop.h"

/* Whether the body is compressed. An unknown encoding is an error. encoding may be NULL. */
TD_MUST_CHECK td_status td_inflate_wanted(const char *encoding, bool *wanted, struct td_error *err);

TD_MUST_CHECK td_status td_inflate(const void *body, size_t bytes, size_t limit, size_t padding,
                                   struct td_memory *memory, const struct td_stop *stop,
                                   struct td_buffer **out, size_t *out_bytes, struct td_error *err);

#endif
