/* request_trace.h - the span of a request, made when the request has ended.
 *
 * The attributes follow the semantic conventions for HTTP servers, with additional `tensord.`
 * attributes. The children of the span are the stages. The time before the first stage is spent
 * receiving the body, and the time after the last stage is spent sending the reply.
 *
 * Cost     Some tens of instructions for a request that is not sampled.
 * Threads  The I/O thread of the connection.
 * Source   OpenTelemetry semantic conventions 1.30, HTTP spans. */
#ifndef TD_SERVER_HTTP_REQUEST_TRACE_H
#define TD_SERVER_HTTP_REQUEST_TRACE_H

#include "server/calls/call.h"

#include <stdbool.h>

/* Passes a span to the exporter if the request is sampled. The exporter must exist. `complete` is
 * true if the whole reply was sent. */
void td_request_trace(const struct td_call *call, bool complete);

#endif
