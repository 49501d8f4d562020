/* body.h - receives the bytes of a request's body.
 *
 * Small bodies are stored in the call itself. Larger ones get a buffer that grows with the bytes
 * received, not with Content-Length. Another thread populates the pages of a large one in advance
 * (populate.h).
 *
 * Ownership  Bytes are copied into the call.
 * Threads    The call's owner.
 * Errors     BODY_TOO_LARGE, RESOURCE_LIMIT, MEMORY_EXHAUSTED, in call->error. */
#ifndef TD_SERVER_HTTP_BODY_H
#define TD_SERVER_HTTP_BODY_H

#include "server/calls/call.h"

/* Before the first byte: refuses a Content-Length above the limit, and makes room for a small
 * body. */
TD_MUST_CHECK td_status td_body_begin(struct td_call *call);

TD_MUST_CHECK td_status td_body_receive(struct td_call *call, const char *data, size_t bytes);

/* Should the next range of the body's memory be populated before more is received? If so,
 * call->http.populate is set to it, and the range counts as populated. */
bool td_body_must_populate(struct td_call *call);

#endif
