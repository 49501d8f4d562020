/* client_limits.h - what the calls of one client may have in progress.
 *
 *     --client-requests   calls that are queued or running; none is counted that runs inline
 *     --client-memory     bytes of bodies, outputs and workspaces, until the reply is sent
 *
 * A call that is its client's only one with memory may exceed the limit on memory, so that no
 * request that the server could serve is refused forever.
 *
 * Threads  The call's owner; the counts of a client are atomic.
 * Errors   CLIENT_LIMIT, in call->error. A call without a client has no limits. */
#ifndef TD_SERVER_CALLS_CLIENT_LIMITS_H
#define TD_SERVER_CALLS_CLIENT_LIMITS_H

#include "server/calls/call.h"

TD_MUST_CHECK td_status td_client_limits_take_request(struct td_call *call);
void td_client_limits_give_request(struct td_call *call); /* if it was taken */

TD_MUST_CHECK td_status td_client_limits_charge(struct td_call *call, size_t bytes);
void td_client_limits_give_back(struct td_call *call, size_t bytes); /* of those charged */
void td_client_limits_discharge(struct td_call *call);               /* all that was charged */

/* Completes a CLIENT_LIMIT error whose message is set, and returns it. */
td_status td_client_limits_exceeded(struct td_error *err, const char *resource, uint64_t needed,
                                    uint64_t limit);

#endif
