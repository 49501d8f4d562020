/* reply_compression.h - decides which replies are compressed.
 *
 * A reply is compressed if the client accepts an encoding, the reply has at least TD_DEFLATE_LEAST
 * bytes, and it is one of
 *   - the result of an op or another task under /v1, with --compress
 *   - the reply of any task under /v2, even without --compress
 *   - a document that does not change (static_reply.h), with --compress
 *
 * Exceptions  Replies of tasks with an ETag are not compressed, because clients request byte ranges
 *             of them. Replies to calls that store their outputs are not compressed, because
 *             compression can fail after the outputs are stored. Errors are not compressed. */
#ifndef TD_SERVER_CALLS_REPLY_COMPRESSION_H
#define TD_SERVER_CALLS_REPLY_COMPRESSION_H

#include "server/calls/call.h"

/* Chooses the encoding of a task's reply from Accept-Encoding. Called before the task begins. */
void td_reply_compression_negotiate(struct td_call *call);

/* Compresses the reply of a task with the negotiated encoding. Adds Vary even if the reply does not
 * shrink. Fails with the errors of td_deflate. */
TD_MUST_CHECK td_status td_reply_compression_apply(struct td_call *call);

/* True if the encoding of the reply, a document that does not change, depends on
 * Accept-Encoding. */
bool td_reply_compression_of_document(const struct td_call *call);

#endif
