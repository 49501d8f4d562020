/* request_trace.h - the span of a request, made when the request has ended.
 *
 * Its attributes are those that the semantic conventions have for HTTP servers, and `tensord.`
 * ones. Its children are the stages; the time before is that of receiving the body, the time after
 * that of sending the reply.
 *
 * Cost     Of a request that is not sampled some tens of instructions.
 * Threads  The I/O thread of the connection.
 * Source   OpenTelemetry semantic conventions 1.30, HTTP spans. */
#ifndef TD_SERVER_HTTP_REQUEST_TRACE_H
#define TD_SERVER_HTTP_REQUEST_TRACE_H

#include "server/calls/call.h"

#include <stdbool.h>

/* Passes a span to the exporter, which must be there, if the request is sampled. complete: the
 * whole reply was sent. */
void td_request_trace(const struct td_call *call, bool complete);

#endif
