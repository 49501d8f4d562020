/* health.h - --check-health: asks a running daemon whether it is alive, for containers and service
 * managers on the same machine, so that they need no HTTP client.
 *
 * Threads    Main thread, in a process that does not serve. */
#ifndef TD_SERVER_CHECK_HEALTH_H
#define TD_SERVER_CHECK_HEALTH_H

#include "server/config/config.h"

#include <stdio.h>

/* Sends GET /healthz to the first address of --listen, or to this machine if that is any address,
 * and prints a line. True if the status of the reply is 200. No step takes longer than two
 * seconds. */
bool td_check_health(const struct td_config *config, FILE *out);

#endif
