/* openapi.h - GET /openapi.json: the document that describes all routes.
 *
 * Made for each request, on the I/O thread; its ETag is a digest of its text, so that a client that
 * has it gets 304. */
#ifndef TD_SERVER_HTTP_OPENAPI_H
#define TD_SERVER_HTTP_OPENAPI_H

#include "server/calls/call.h"

td_handler td_get_openapi;

#endif
