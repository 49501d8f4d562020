/* metrics_document.h - GET /metrics: counters of requests and what the daemon holds, for
 * Prometheus.
 *
 * Answered on the I/O thread and by the daemon at its limits too: what it costs depends on the
 * number of operations, not of requests or tensors. */
#ifndef TD_SERVER_CALLS_METRICS_DOCUMENT_H
#define TD_SERVER_CALLS_METRICS_DOCUMENT_H

#include "server/calls/call.h"

td_handler td_get_metrics;

#endif
