/* health.h - --check-health: asks a running daemon whether it is alive. Containers and service
 * managers on the same machine use it instead of an HTTP client.
 *
 * Threads    Main thread, in a process that does not serve. */
#ifndef TD_SERVER_CHECK_HEALTH_H
#define TD_SERVER_CHECK_HEALTH_H

#include "server/config/config.h"

#include <stdio.h>

/* Sends GET /healthz to the first address of --listen and prints the result on one line. Uses the
 * loopback address if the daemon listens on all addresses. Returns true if the status of the reply
 * is 200. Each step takes at most two seconds. */
bool td_check_health(const struct td_config *config, FILE *out);

#endif
