/* query.h - decodes the arguments of a request's query string and passes them to its task.
 *
 * Threads  The I/O thread of the connection.
 * Errors   MALFORMED_REQUEST for a malformed escape; otherwise the errors of the task. */
#ifndef TD_SERVER_HTTP_QUERY_H
#define TD_SERVER_HTTP_QUERY_H

#include "server/calls/call.h"

#include <microhttpd.h>

/* Calls the task's `argument` for each argument in order, until one fails. If the task has no
 * `argument` function, refuses arguments of paths under /v1/ and ignores the arguments of other
 * paths. A malformed escape is always an error. */
TD_MUST_CHECK td_status td_query_read(struct td_call *call);

/* Value of MHD_OPTION_UNESCAPE_CALLBACK. Decodes nothing, because an encoded slash in a decoded
 * path would become a separator of segments. */
size_t td_query_leave_encoded(void *context, struct MHD_Connection *connection, char *text);

#endif
