/* routes.h - maps method and path to a handler or a task.
 *
 * One table of path patterns: a segment in braces matches any non-empty text. {op} must be the name
 * of an op, {lookup} of one that looks rows of the {table} up; {model} may be any name, and
 * {version} is "1" unless the model is no op; the text matched by any other becomes an argument of
 * the call. The first matching pattern is used. A pattern may have several lines, with different
 * methods; HEAD is routed like GET, and OPTIONS is answered everywhere (204, Allow). The path is
 * matched as sent, and only the segments in braces are percent-decoded: an encoded slash is part of
 * a name, and the fixed segments of a pattern have one spelling.
 *
 * A line has the role that a request needs, and a handler, which replies at once, or a task, which
 * the scheduler runs after a body of at most `body_limit` bytes has arrived.
 *
 * Errors   MALFORMED_REQUEST (a broken escape, a NUL), NOT_FOUND, UNKNOWN_OP (with the nearest
 *          name), METHOD_NOT_ALLOWED (with the allowed ones), in the style of the path: /v2 has its
 *          own. */
#ifndef TD_SERVER_HTTP_ROUTES_H
#define TD_SERVER_HTTP_ROUTES_H

#include "api/openapi/openapi.h"
#include "server/calls/call.h"

/* From call->method and call->path: sets the call's style, arguments, op, body_limit, and its
 * handler or task. On failure call->error is set, and so are style and, if known, op. */
TD_MUST_CHECK td_status td_route_call(struct td_call *call);

/* Of a routed call: does it ask for the server's health? Such requests are always answered. */
bool td_route_is_open(const struct td_call *call);

/* Is it a page of the console, to which links of other sites may lead? */
bool td_route_is_page(const char *method, const char *path);

/* The lines of the table, for the OpenAPI document: one for each method but HEAD. At most
 * TD_ROUTE_LINES are written; returns their number. */
enum { TD_ROUTE_LINES = 128 };
int td_route_lines(struct td_openapi_route lines[TD_ROUTE_LINES]);

/* The style of errors for this path, which a query may follow. */
td_style td_route_style(const char *path);

#endif
