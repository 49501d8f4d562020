/* static_reply.h - completes replies with documents that do not change while the daemon runs: the
 * files of the console and the OpenAPI document.
 *
 * With --compress the document is compressed once in each encoding that clients prefer. Each
 * encoding has its own tag: "T", "T-gzip", "T-deflate". A client gets 304 if it already has the
 * encoding that it would be sent, or the unencoded document.
 *
 * Threads  Any I/O thread.
 * Errors   MALFORMED_REQUEST: If-None-Match is not a list of tags. */
#ifndef TD_SERVER_CALLS_STATIC_REPLY_H
#define TD_SERVER_CALLS_STATIC_REPLY_H

#include "server/calls/call.h"

/* Completes the reply. call->reply contains the document and no headers. `etag`, with its quotes,
 * identifies the bytes of the document and lives as long as the reply. */
TD_MUST_CHECK td_status td_static_reply(struct td_call *call, const char *etag);

#endif
