/* static_reply.h - the end of handlers whose document does not change while the daemon runs: the
 * files of the console, the OpenAPI document.
 *
 * With --compress the document is compressed in the encoding that the client prefers, once, and has
 * a tag of its own in each: "T", "T-gzip", "T-deflate". A client that has the one that it would be
 * sent, or the one without an encoding, gets 304.
 *
 * Threads  Any; on the I/O thread.
 * Errors   MALFORMED_REQUEST: If-None-Match is no list of tags. */
#ifndef TD_SERVER_CALLS_STATIC_REPLY_H
#define TD_SERVER_CALLS_STATIC_REPLY_H

#include "server/calls/call.h"

/* call->reply has the document, and no headers. etag, with its quotes, tells its bytes from those
 * of all others, and lives as long as the reply. */
TD_MUST_CHECK td_status td_static_reply(struct td_call *call, const char *etag);

#endif
