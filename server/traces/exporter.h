/* exporter.h - sends the spans of sampled requests to a collector, from a thread of its own.
 *
 *     I/O threads ──► queue, TD_EXPORTER_QUEUE requests ──► batches ──► collector
 *
 * A batch is sent when TD_EXPORTER_BATCH requests are queued, or after a second. A collector that
 * cannot be reached or says "later" (429, 502, 503, 504) is asked again, up to TD_EXPORTER_ATTEMPTS
 * times, after the time that it asks for or a growing one.
 *
 * Threads   td_exporter_give and the counts from any. It waits for nothing: a span that finds the
 *           queue full is dropped. The others from the main thread.
 * Bounds    Queued spans have at most 8 MiB, which are not part of the memory limit. */
#ifndef TD_SERVER_TRACES_EXPORTER_H
#define TD_SERVER_TRACES_EXPORTER_H

#include "server/observe/log.h"
#include "server/traces/collector.h"
#include "server/traces/span.h"

enum { TD_EXPORTER_QUEUE = 2048, TD_EXPORTER_BATCH = 256, TD_EXPORTER_ATTEMPTS = 5 };

struct td_exporter;

/* NULL (logged) if it cannot start. The log must outlive it. */
struct td_exporter *td_exporter_start(const struct td_config *config, const struct td_log *log);

/* Sends what is queued, within for_ns, logs what is lost, and ends. No span may be given any more.
 * NULL is fine. */
void td_exporter_stop(struct td_exporter *exporter, int64_t for_ns);

const struct td_sampler *td_exporter_sampler(const struct td_exporter *exporter);

/* Queues the span, which the exporter owns then, or drops it. NULL is counted as dropped: there was
 * no memory for it. */
void td_exporter_give(struct td_exporter *exporter, struct td_span *span);

/* Of requests and their stages, since the start. */
struct td_exporter_counts {
    uint64_t exported; /* accepted by the collector */
    uint64_t dropped;  /* before they were sent: the queue was full */
    uint64_t failed;   /* refused or not reached */
};
struct td_exporter_counts td_exporter_counts(struct td_exporter *exporter);

#endif
