/* inflate.h - expands request bodies with Content-Encoding: gzip or deflate.
 *
 * Bounds     A decompression bomb fails with PAYLOAD_TOO_LARGE as soon as its output exceeds a
 *            limit. Memory grows with the actual output, not with the size that the body claims.
 * Ownership  *out is a new buffer whose reference passes to the caller. `padding` bytes after the
 *            result are readable.
 * Errors     MALFORMED_REQUEST for corrupt or truncated data. UNSUPPORTED_MEDIA_TYPE for an
 *            encoding other than gzip, deflate or identity. The errors of `stop`, which is checked
 *            between the chunks of a large output. The format (gzip, zlib or raw deflate) is
 *            detected from the data, because clients confuse the formats. err must not be NULL. */
#ifndef TD_SERVER_COMPRESSION_INFLATE_H
#define TD_SERVER_COMPRESSION_INFLATE_H

#include "kernels/buffer.h"
#include "kernels/stop.h"

/* Sets *wanted to true if the body is compressed. An unknown encoding is an error. `encoding` can
 * be NULL. */
TD_MUST_CHECK td_status td_inflate_wanted(const char *encoding, bool *wanted, struct td_error *err);

struct td_inflate_limits {
    size_t bytes; /* maximum bytes of output */
    /* Maximum ratio of output to input, or 0 for no limit. Not applied to the first TD_INFLATE_FREE
     * bytes. */
    size_t ratio;
};
enum { TD_INFLATE_FREE = 1 << 20 };

TD_MUST_CHECK td_status td_inflate(const void *body, size_t bytes,
                                   const struct td_inflate_limits *limits, size_t padding,
                                   struct td_memory *memory, const struct td_stop *stop,
                                   struct td_buffer **out, size_t *out_bytes, struct td_error *err);

#endif
