/* metrics_document.h - GET /metrics for Prometheus: counters of requests and the state of the
 * daemon.
 *
 * The I/O thread replies, even when the daemon is at its limits. The cost depends on the number of
 * operations, not on the number of requests or tensors. */
#ifndef TD_SERVER_CALLS_METRICS_DOCUMENT_H
#define TD_SERVER_CALLS_METRICS_DOCUMENT_H

#include "server/calls/call.h"

td_handler td_get_metrics;

#endif
