/* metrics_listener.h - an address for /metrics and the health paths alone (--metrics-listen).
 *
 * It has one thread of its own, so a scrape waits neither for clients of the other address nor for
 * places among their connections. A connection above TD_METRICS_OPEN ends the oldest one, so nobody
 * can hold all places.
 *
 * Threads    Start and stop: the main thread. */
#ifndef TD_SERVER_HTTP_METRICS_LISTENER_H
#define TD_SERVER_HTTP_METRICS_LISTENER_H

#include "server/calls/services.h"
#include "server/http/listener.h"

enum {
    TD_METRICS_OPEN = 48,
    TD_METRICS_CONNECTIONS =
        64 /* with those that were ended and are not closed yet; further ones wait */
};

struct td_metrics_listener;

/* Serves on --metrics-listen, beside the other addresses, and counts its requests in `shard` of the
 * metrics. NULL with *why set if it cannot. */
struct td_metrics_listener *td_metrics_listener_start(struct td_services *services,
                                                      const struct td_listeners *others, int shard,
                                                      const char **why);
void td_metrics_listener_stop(struct td_metrics_listener *listener); /* NULL is fine */

#endif
