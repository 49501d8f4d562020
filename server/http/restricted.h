/* restricted.h - refuses requests on restricted connections.
 *
 * The acceptor accepts a restricted connection beyond --client-connections, --connection-limit or
 * the memory limit (acceptor.h). It can make one request, and only for the server's state: health
 * or metrics.
 *
 * Threads  The call's owner.
 * Errors   CLIENT_LIMIT, CONNECTION_LIMIT or MEMORY_EXHAUSTED, in call->error: the limit that the
 *          connection exceeds. */
#ifndef TD_SERVER_HTTP_RESTRICTED_H
#define TD_SERVER_HTTP_RESTRICTED_H

#include "server/calls/call.h"
#include "server/clients/connections.h"

/* Refuses a request on a restricted connection unless it asks for the server's state. */
TD_MUST_CHECK td_status td_restricted_check(struct td_call *call,
                                            const struct td_connection *record);

#endif
