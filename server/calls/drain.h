/* drain.h - refuses and stops calls with DRAINING while the server stops.
 *
 * Once services->draining is set, the server is not ready, but it serves requests. Once
 * services->refusing is set, new calls and calls in the queue are refused, and running calls stop
 * at their next check. main.c sets both. The batcher refuses its own items (td_devices_drain).
 *
 * Errors  DRAINING */
#ifndef TD_SERVER_CALLS_DRAIN_H
#define TD_SERVER_CALLS_DRAIN_H

#include "server/calls/call.h"

/* Checks that no drain has begun, for the health paths. */
TD_MUST_CHECK td_status td_drain_check_ready(struct td_call *call);

/* Checks that a request whose headers have arrived is accepted. The call must already be counted in
 * services->in_flight. */
TD_MUST_CHECK td_status td_drain_check_new(struct td_call *call);

/* Checks that a call can be queued. The call must already be counted in services->suspended. */
TD_MUST_CHECK td_status td_drain_check_queueing(struct td_call *call);

/* Sets the error of a call that a drain has dropped from the queue. */
void td_drain_drop_queued(struct td_call *call);

/* True if a running call must stop. */
bool td_drain_stops_running(const struct td_call *call);

/* Returns the error of a running call that stops. `doing` is what the call was doing, such as "the
 * reply was being written". */
td_status td_drain_stop_running(const char *doing, struct td_error *err);

#endif
