/* body.h - where the bytes of a request's body go as they arrive.
 *
 * Small bodies lie in the call itself. Larger ones get a buffer that grows with what has come: who
 * has sent little holds little, whatever he announced. The pages of a large one are made ahead of
 * what arrives, by another thread (populate.h).
 *
 * Ownership  Bytes are copied into the call.
 * Threads    The call's owner.
 * Errors     BODY_TOO_LARGE, RESOURCE_LIMIT, MEMORY_EXHAUSTED, in call->error. */
#ifndef TD_SERVER_HTTP_BODY_H
#define TD_SERVER_HTTP_BODY_H

#include "server/calls/call.h"

/* Before the first byte: refuses what is announced as too large, and makes room for a small body. */
TD_MUST_CHECK td_status td_body_begin(struct td_call *call);

TD_MUST_CHECK td_status td_body_receive(struct td_call *call, const char *data, size_t bytes);

/* Should the next part of the body's memory be made before more is received? Then call->pages says
 * which, and counts as made. */
bool td_body_wants_pages(struct td_call *call);

#endif
