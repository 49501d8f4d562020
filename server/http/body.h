/* body.h - receives the bytes of a request's body, or drops them.
 *
 * Small bodies are stored in the call itself. Larger bodies get a buffer that grows with the bytes
 * received, not with Content-Length. Another thread populates the pages of large bodies in advance
 * (populate.h).
 *
 * Ownership  Bytes are copied into the call.
 * Threads    The call's owner.
 * Errors     BODY_TOO_LARGE, RESOURCE_LIMIT or MEMORY_EXHAUSTED, in call->error. */
#ifndef TD_SERVER_HTTP_BODY_H
#define TD_SERVER_HTTP_BODY_H

#include "server/calls/call.h"

/* Prepares for the body before its first byte arrives: refuses a Content-Length above the limit,
 * and makes room for a small body. */
TD_MUST_CHECK td_status td_body_begin(struct td_call *call);

TD_MUST_CHECK td_status td_body_receive(struct td_call *call, const char *data, size_t bytes);

/* True if the next range of the body's memory must be populated before more bytes are received.
 * Stores the range in call->http.populate, and then treats it as populated. */
bool td_body_must_populate(struct td_call *call);

/* True if the error of a refused request must be sent before its body is read, and the connection
 * closed. This applies if the body is large, if its length is unknown, or if the client waits for
 * 100 Continue. Otherwise, the small body is read and dropped, so the connection can be reused. */
bool td_body_is_refused_early(const struct td_call *call);

/* Drops bytes of the body of a refused request, or of a request that uses no body. Returns false if
 * the body is too long to be dropped; the connection must then be closed. */
TD_MUST_CHECK bool td_body_discard(struct td_call *call, size_t bytes);

#endif
