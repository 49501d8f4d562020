/* headers.h - reads the headers of a request, once and before the body.
 *
 * Sets the call's request ID, headers and deadline. Checks the framing of every request for
 * ambiguities, and its origin (origin.h).
 *
 * Ownership  Strings belong to the connection and live as long as its request.
 * Threads    The I/O thread of the connection.
 * Errors     MALFORMED_REQUEST, with the header's name in err->attribute, and FORBIDDEN. Sets
 *            http.close_connection of the call if the connection must not be reused. */
#ifndef TD_SERVER_HTTP_HEADERS_H
#define TD_SERVER_HTTP_HEADERS_H

#include "server/calls/call.h"
#include "server/http/origin.h"
#include "server/http/target.h"

/* Reads and checks the headers. If `origins` is NULL, Host and the origin are not checked. For
 * `loopback`, see struct td_origin_request. `authority` is the authority of a target in absolute
 * form, which replaces Host; its text is NULL for other forms. */
TD_MUST_CHECK td_status td_headers_read(struct td_call *call, const struct td_origins *origins,
                                        bool loopback, struct td_field authority);

#endif
