/* client_limits.h - limits on one client's calls in progress.
 *
 *     --client-requests   calls that are queued or running; calls that run inline do not count
 *     --client-memory     bytes of bodies, outputs and workspaces, until the reply is sent
 *
 * A call can exceed the memory limit if no other call of its client holds memory. Otherwise, a
 * request that the server could serve might always be refused.
 *
 * Threads  Runs on the thread that owns the call. A client's counts are atomic.
 * Errors   CLIENT_LIMIT, in call->error. A call without a client has no limits. */
#ifndef TD_SERVER_CALLS_CLIENT_LIMITS_H
#define TD_SERVER_CALLS_CLIENT_LIMITS_H

#include "server/calls/call.h"

TD_MUST_CHECK td_status td_client_limits_take_request(struct td_call *call);
/* Stops counting the request. Has no effect if the request was not counted. */
void td_client_limits_give_request(struct td_call *call);

TD_MUST_CHECK td_status td_client_limits_charge(struct td_call *call, size_t bytes);
/* Gives back `bytes`, or all bytes charged if they are fewer. */
void td_client_limits_give_back(struct td_call *call, size_t bytes);
/* Gives back all bytes charged. */
void td_client_limits_discharge(struct td_call *call);

/* Completes a CLIENT_LIMIT error whose message is already set, and returns its status. */
td_status td_client_limits_exceeded(struct td_error *err, const char *resource, uint64_t needed,
                                    uint64_t limit);

#endif
