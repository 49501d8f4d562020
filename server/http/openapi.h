/* openapi.h - GET /openapi.json: the document that describes all routes.
 *
 * The document is made for each request, on the I/O thread. Its ETag is a digest of its text, so
 * clients that already have the document get 304. */
#ifndef TD_SERVER_HTTP_OPENAPI_H
#define TD_SERVER_HTTP_OPENAPI_H

#include "server/calls/call.h"

td_handler td_get_openapi;

#endif
