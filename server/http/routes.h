/* routes.h - method and path become something to do.
 *
 * One table of path patterns: a segment in braces takes any text that is not empty. {op} has to be
 * an op's name and {version} "1"; what stands in the place of any other becomes an argument of the
 * call. The first pattern that matches decides. A pattern may have several lines, with different
 * methods; HEAD goes where GET goes, and OPTIONS is answered everywhere (204, Allow). The path is
 * matched as it was sent, and percent-encoding undone in the segments that braces take: an encoded
 * slash is part of a name, and the fixed segments of a pattern have no other spelling.
 *
 * A line has a handler, which answers at once, or a task, which the scheduler runs when a body of at
 * most `body_limit` bytes is there.
 *
 * Errors   MALFORMED_REQUEST (a broken escape, a NUL), NOT_FOUND, UNKNOWN_OP (with the nearest name),
 *          METHOD_NOT_ALLOWED (with what is), in the style of the path: /v2 has its own. */
#ifndef TD_SERVER_HTTP_ROUTES_H
#define TD_SERVER_HTTP_ROUTES_H

#include "server/calls/call.h"

/* From call->method and call->path: sets the call's style, arguments, op, body_limit, and its
 * handler or task. On failure call->error says why; style and, where it is known, op are set. */
TD_MUST_CHECK td_status td_route_call(struct td_call *call);

/* How errors about this path are written; a query may follow it. */
td_style td_route_style(const char *path);

#endif
