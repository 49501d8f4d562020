/* routes.h - maps a method and a path to a handler or a task.
 *
 * The routes are a table of path patterns. The first matching pattern is used. A pattern can have
 * several lines, with different methods. HEAD is routed like GET, and OPTIONS is answered for every
 * path (204, Allow).
 *
 * A segment in braces matches any non-empty text. {op} must be the name of an op, and {row_op} the
 * name of an op that looks up rows of the {table}. {model} and {version} can be any text, which
 * models.h looks up. The text of any other segment in braces becomes an argument of the call.
 *
 * The path is matched as it was sent, and only the segments in braces are percent-decoded. An
 * encoded slash is therefore part of a name, and the fixed segments of a pattern have only one
 * spelling.
 *
 * Each line states the role that a request needs. It also has either a handler, which replies at
 * once, or a task, which the scheduler runs after the body has arrived. The task states the limit
 * of its body.
 *
 * Errors   MALFORMED_REQUEST (a malformed escape, or a NUL), NOT_FOUND, UNKNOWN_OP (with the
 *          nearest name) and METHOD_NOT_ALLOWED (with the allowed methods), in the style of the
 *          path; /v2 has a separate style. */
#ifndef TD_SERVER_HTTP_ROUTES_H
#define TD_SERVER_HTTP_ROUTES_H

#include "api/openapi/openapi.h"
#include "server/calls/call.h"

/* Sets the call's style, arguments, op, body_limit, and handler or task from call->method and
 * call->path. On failure, sets call->error and the style, and the op if it is known. */
TD_MUST_CHECK td_status td_route_call(struct td_call *call);

/* True if a routed call asks only for the server's state. These requests are always answered. */
bool td_route_is_open(const struct td_call *call);

/* Stores the lines of the table for the OpenAPI document: one for each method except HEAD, and at
 * most TD_ROUTE_LINES. Returns their number. */
enum { TD_ROUTE_LINES = 128 };
int td_route_lines(struct td_openapi_route lines[TD_ROUTE_LINES]);

/* Returns the style of errors for this path, which can be followed by a query. */
td_style td_route_style(const char *path);

#endif
