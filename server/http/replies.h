/* replies.h - sends a call's reply as an HTTP response, the body from the call's memory.
 *
 * Ownership  The response borrows the reply's bytes; the call must live until the HTTP library
 *            reports that the request has ended.
 * Threads    The I/O thread of the connection.
 * Errors     MHD_NO: out of memory, the connection closes. */
#ifndef TD_SERVER_HTTP_REPLIES_H
#define TD_SERVER_HTTP_REPLIES_H

#include "server/calls/call.h"

#include <microhttpd.h>

/* Queues call->reply. */
enum MHD_Result td_reply_send(struct td_call *call);

#endif
