/* inflate.h - request bodies that came with Content-Encoding: gzip or deflate.
 *
 * Bounds     Expands to at most `limit` bytes, whatever the body claims: a bomb is
 *            PAYLOAD_TOO_LARGE when it passes the limit, not when memory is gone.
 * Ownership  *out is a new buffer; the caller unrefs it. `padding` bytes behind the result are
 *            readable.
 * Errors     MALFORMED_REQUEST for data that is corrupt or ends early (gzip, zlib and raw deflate
 *            are told apart by themselves, since clients mix them up); UNSUPPORTED_MEDIA_TYPE for
 *            an encoding that is not gzip, deflate or identity. err is not NULL here. */
#ifndef TD_SERVER_COMPRESSION_INFLATE_H
#define TD_SERVER_COMPRESSION_INFLATE_H

#include "kernels/buffer.h"
#include "kernels/status.h"

/* Is there anything to do? An unknown encoding is an error. encoding may be NULL. */
TD_MUST_CHECK td_status td_inflate_wanted(const char *encoding, bool *wanted, struct td_error *err);

TD_MUST_CHECK td_status td_inflate(const void *body, size_t bytes, size_t limit, size_t padding,
                                   struct td_memory *memory, struct td_buffer **out,
                                   size_t *out_bytes, struct td_error *err);

#endif
