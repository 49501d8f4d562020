/* query.h - the arguments of a request's query string, decoded and handed to its task.
 *
 * Threads  The I/O thread of the connection.
 * Errors   MALFORMED_REQUEST for a malformed escape; otherwise the task's. */
#ifndef TD_SERVER_HTTP_QUERY_H
#define TD_SERVER_HTTP_QUERY_H

#include "server/calls/call.h"

#include <microhttpd.h>

/* Calls the task's `argument` for each, in order, until one fails. The task has one. */
TD_MUST_CHECK td_status td_query_read(struct td_call *call);

/* libmicrohttpd's decoder of escapes (MHD_OPTION_UNESCAPE_CALLBACK), which decodes nothing: it would
 * decode the path as a whole, so that an encoded slash would separate segments. */
size_t td_query_leave_encoded(void *context, struct MHD_Connection *connection, char *text);

#endif
