/* body.h - receives the bytes of a request's body.
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

#endif
