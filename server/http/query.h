/* query.h - decodes the arguments of a request's query string and passes them to its task.
 *
 * Threads  The I/O thread of the connection.
 * Errors   MALFORMED_REQUEST for a malformed escape; otherwise the task's. */
#ifndef TD_SERVER_HTTP_QUERY_H
#define TD_SERVER_HTTP_QUERY_H

#include "server/calls/call.h"

#include <microhttpd.h>

/* Calls the task's `argument` for each in order until one fails. A task without it, and a handler,
 * ignore them; a malformed escape is an error there too. */
TD_MUST_CHECK td_status td_query_read(struct td_call *call);

/* For MHD_OPTION_UNESCAPE_CALLBACK: decodes nothing. Decoding the whole path at once would turn an
 * encoded slash into a separator of segments. */
size_t td_query_leave_encoded(void *context, struct MHD_Connection *connection, char *text);

#endif
