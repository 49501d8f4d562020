/* exporter.h - sends the spans of sampled requests to a collector, on a separate thread.
 *
 *     I/O threads ──► queue, TD_EXPORTER_QUEUE requests ──► batches ──► collector
 *
 * A batch is sent when TD_EXPORTER_BATCH requests are queued, or after a second. If the collector
 * cannot be reached or replies "later" (429, 502, 503, 504), the batch is sent again, up to
 * TD_EXPORTER_ATTEMPTS times in total. The delay is either the delay that the collector requests or
 * an increasing delay.
 *
 * Threads   Any thread can call td_exporter_give, which never waits, and read the counts. The main
 *           thread calls the other functions.
 * Bounds    A span is dropped if the queue is full. Queued spans take at most 8 MiB, which do
 *           not count toward the memory limit. */
#ifndef TD_SERVER_TRACES_EXPORTER_H
#define TD_SERVER_TRACES_EXPORTER_H

#include "server/observe/log.h"
#include "server/traces/collector.h"
#include "server/traces/span.h"

enum { TD_EXPORTER_QUEUE = 2048, TD_EXPORTER_BATCH = 256, TD_EXPORTER_ATTEMPTS = 5 };

struct td_exporter;

/* Starts the exporter. Returns NULL, after logging the reason, if it cannot start. The log must
 * outlive the exporter. */
struct td_exporter *td_exporter_start(const struct td_config *config, const struct td_log *log);

/* Sends the queued spans within for_ns, logs how many are lost, and ends the exporter. No spans can
 * be given after this call. Accepts NULL. */
void td_exporter_stop(struct td_exporter *exporter, int64_t for_ns);

const struct td_sampler *td_exporter_sampler(const struct td_exporter *exporter);

/* Queues the span, which the exporter then owns, or drops it. NULL means that the span could not be
 * allocated, which counts as dropped. */
void td_exporter_give(struct td_exporter *exporter, struct td_span *span);

/* Counts of spans since the server started. A request and each of its stages are spans. */
struct td_exporter_counts {
    uint64_t exported; /* accepted by the collector */
    uint64_t dropped;  /* dropped before sending, because the queue was full */
    uint64_t failed;   /* refused by the collector, or the collector was not reached */
};
struct td_exporter_counts td_exporter_counts(struct td_exporter *exporter);

#endif
