/* authorize.h - checks the token and the client certificate of a request.
 *
 * With --token-file, each request needs a token in Authorization: Bearer TOKEN, unless its route
 * needs no role. Limits and turns then count the request for the token instead of the client's
 * address.
 *
 * Ownership  The call borrows from the record of its connection, which outlives it.
 * Threads    The I/O thread of the connection.
 * Errors     UNAUTHENTICATED, or FORBIDDEN if the token's role or --read-only does not permit the
 *            route. */
#ifndef TD_SERVER_HTTP_AUTHORIZE_H
#define TD_SERVER_HTTP_AUTHORIZE_H

#include "server/calls/call.h"
#include "server/clients/connections.h"

/* Sets the access and the client of a call whose headers have been read. */
TD_MUST_CHECK td_status td_authorize(struct td_call *call, struct td_connection *record);

/* Returns the value of WWW-Authenticate for a refused call. */
const char *td_authorize_challenge(const struct td_call *call);

#endif
