/* inflate.h - expands request bodies with Content-Encoding: gzip or deflate.
 *
 * Bounds     A decompression bomb is PAYLOAD_TOO_LARGE as soon as it passes one of the limits.
 *            Memory grows with the output, not with what the body claims.
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

struct td_inflate_limits {
    size_t bytes; /* of the output */
    size_t ratio; /* of output to input, beyond the first TD_INFLATE_FREE bytes; 0: any */
};
enum { TD_INFLATE_FREE = 1 << 20 };

TD_MUST_CHECK td_status td_inflate(const void *body, size_t bytes,
                                   const struct td_inflate_limits *limits, size_t padding,
                                   struct td_memory *memory, const struct td_stop *stop,
                                   struct td_buffer **out, size_t *out_bytes, struct td_error *err);

#endif
