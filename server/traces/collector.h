/* collector.h - sends bodies to a collector of OpenTelemetry over HTTP or HTTPS.
 *
 * libcurl is loaded only where there is a collector: linked, it would bring 29 more shared
 * libraries, 6 MB of resident memory and 1.5 ms to each start.
 *
 * Threads  One at a time; td_collector_check and td_collector_new on the main thread, before others
 *          start.
 * Bounds   A request takes at most TD_COLLECTOR_TIMEOUT_NS. Of a reply TD_COLLECTOR_REPLY bytes are
 *          read. Redirections are not followed. */
#ifndef TD_SERVER_TRACES_COLLECTOR_H
#define TD_SERVER_TRACES_COLLECTOR_H

#include "server/config/config.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TD_COLLECTOR_REPLY = 16 << 10, TD_COLLECTOR_REASON = 160 };
#define TD_COLLECTOR_TIMEOUT_NS INT64_C(10000000000)

struct td_collector;

/* Are --otlp-endpoint and --otlp-header valid, and can libcurl be loaded? False with a message. */
bool td_collector_check(const struct td_config *config, char message[TD_CONFIG_MESSAGE]);

/* NULL if libcurl cannot be loaded, or without memory. The options were checked. */
struct td_collector *td_collector_new(const struct td_config *config);
void td_collector_free(struct td_collector *collector); /* NULL is fine */

/* Where bodies are sent. */
const char *td_collector_url(const struct td_collector *collector);

typedef enum td_collector_outcome {
    TD_COLLECTOR_ACCEPTED, /* rejected: how many spans it has not accepted */
    TD_COLLECTOR_REFUSED,
    TD_COLLECTOR_BUSY /* or not reached: the same body may be accepted later */
} td_collector_outcome;

struct td_collector_reply {
    td_collector_outcome outcome;
    int64_t rejected;
    int64_t retry_after_ns;           /* as it asks; 0: not said */
    char reason[TD_COLLECTOR_REASON]; /* unless it was accepted without a reject */
};

/* Sends a body; until *stop_by_ns at the latest, which may change meanwhile. */
void td_collector_post(struct td_collector *collector, const char *body, size_t bytes,
                       const atomic_int_fast64_t *stop_by_ns, struct td_collector_reply *reply);

#endif
