/* collector.h - sends bodies to an OpenTelemetry collector over HTTP or HTTPS.
 *
 * libcurl is loaded only if there is a collector. Linking it would add 29 shared libraries, 6 MB of
 * resident memory and 1.5 ms to each startup.
 *
 * Threads  One thread at a time. Call td_collector_check and td_collector_new on the main thread,
 *          before other threads start.
 * Bounds   A request takes at most TD_COLLECTOR_TIMEOUT_NS. At most TD_COLLECTOR_REPLY bytes of a
 *          reply are read. Redirections are not followed. */
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

/* Checks that --otlp-endpoint and --otlp-header are valid, and that libcurl can be loaded. On
 * failure, returns false with the message set. */
bool td_collector_check(const struct td_config *config, char message[TD_CONFIG_MESSAGE]);

/* Makes a collector from checked options. Returns NULL if libcurl cannot be loaded or allocation
 * fails. */
struct td_collector *td_collector_new(const struct td_config *config);
void td_collector_free(struct td_collector *collector); /* NULL is allowed */

/* Returns the URL to which bodies are sent. */
const char *td_collector_url(const struct td_collector *collector);

typedef enum td_collector_outcome {
    /* `rejected` is the number of spans that the collector did not accept. */
    TD_COLLECTOR_ACCEPTED,
    TD_COLLECTOR_REFUSED,
    /* The collector is busy or was not reached. It might accept the same body later. */
    TD_COLLECTOR_BUSY
} td_collector_outcome;

struct td_collector_reply {
    td_collector_outcome outcome;
    int64_t rejected;
    int64_t retry_after_ns; /* delay that the collector requests, or 0 */
    /* Reason for a failure or a partial rejection. */
    char reason[TD_COLLECTOR_REASON];
};

/* Sends a body. Stops at *stop_by_ns at the latest. This time can change during the call. */
void td_collector_post(struct td_collector *collector, const char *body, size_t bytes,
                       const atomic_int_fast64_t *stop_by_ns, struct td_collector_reply *reply);

#endif
