/* metrics_listener.h - an address that serves only /metrics and the health paths
 * (--metrics-listen).
 *
 * The address has its own thread and connection limit, so scrapes never wait for clients of the
 * other addresses. A connection beyond TD_METRICS_OPEN ends the oldest connection, so no client can
 * hold all places.
 *
 * Threads    The main thread starts and stops the listener. */
#ifndef TD_SERVER_HTTP_METRICS_LISTENER_H
#define TD_SERVER_HTTP_METRICS_LISTENER_H

#include "server/calls/services.h"
#include "server/http/listener.h"

enum {
    TD_METRICS_OPEN = 48,
    /* Maximum number of open connections, including ended connections that are not closed yet.
     * Additional connections wait. */
    TD_METRICS_CONNECTIONS = 64
};

struct td_metrics_listener;

/* Serves on --metrics-listen, and counts the requests in the metrics shard `shard`. On failure,
 * sets *why and returns NULL. */
struct td_metrics_listener *td_metrics_listener_start(struct td_services *services,
                                                      const struct td_listeners *others, int shard,
                                                      const char **why);
void td_metrics_listener_stop(struct td_metrics_listener *listener); /* NULL is allowed */

#endif
