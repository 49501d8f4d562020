/* authorize.h - the token of a request.
 *
 * With --token-file each request needs one, in Authorization: Bearer TOKEN, except those whose
 * route needs no role. Limits and turns then count the request for the token, not for its address.
 *
 * Ownership  The call borrows from the record of its connection, which outlives it.
 * Threads    The I/O thread of the connection.
 * Errors     UNAUTHENTICATED; FORBIDDEN if the token's role, or --read-only, does not allow what
 *            the route needs. */
#ifndef TD_SERVER_HTTP_AUTHORIZE_H
#define TD_SERVER_HTTP_AUTHORIZE_H

#include "server/calls/call.h"
#include "server/clients/connections.h"

/* Sets the access and the client of a call whose headers were read. */
TD_MUST_CHECK td_status td_authorize(struct td_call *call, struct td_connection *record);

/* WWW-Authenticate of a refused call. */
const char *td_authorize_challenge(const struct td_call *call);

#endif
