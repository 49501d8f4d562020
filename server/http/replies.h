/* replies.h - sends a call's reply as an HTTP response whose body is in the call's memory.
 *
 * Ownership  The response borrows the reply's bytes. The call must live until the HTTP library
 *            reports that the request has ended.
 * Threads    The I/O thread of the connection.
 * Errors     MHD_NO if no memory is available; the connection is then closed. */
#ifndef TD_SERVER_HTTP_REPLIES_H
#define TD_SERVER_HTTP_REPLIES_H

#include "server/calls/call.h"

#include <microhttpd.h>

/* Queues call->reply. */
enum MHD_Result td_reply_send(struct td_call *call);

#endif
