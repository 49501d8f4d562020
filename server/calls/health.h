/* health.h - the health of the server: GET /healthz, /readyz, /v2/health/live and /v2/health/ready.
 *
 * GET /readyz also reports the memory and the objects that the server holds. The handlers reply on
 * the I/O thread, from data in memory. */
#ifndef TD_SERVER_CALLS_HEALTH_H
#define TD_SERVER_CALLS_HEALTH_H

#include "server/calls/call.h"

td_handler td_health_live, td_health_ready;         /* /healthz, /readyz */
td_handler td_health_oip_live, td_health_oip_ready; /* /v2 */

/* Checks that the server is ready. Fails with DRAINING, and with the errors of
 * td_store_check_aliases. */
TD_MUST_CHECK td_status td_health_check(struct td_call *call);

#endif
