/* headers.h - the headers of a request, read once and before its body.
 *
 * Sets the call's request id, headers and deadline, and checks every request for ambiguous framing
 * and for its origin (origin.h).
 *
 * Ownership  Texts are the connection's, and live as long as its request.
 * Threads    The I/O thread of the connection.
 * Errors     MALFORMED_REQUEST (the header in err->attribute), FORBIDDEN. http.close_connection of
 *            the call is set if the connection must not be reused. */
#ifndef TD_SERVER_HTTP_HEADERS_H
#define TD_SERVER_HTTP_HEADERS_H

#include "server/calls/call.h"
#include "server/http/origin.h"
#include "server/http/target.h"

/* loopback: as in struct td_origin_request. authority: that of a target in absolute form, which
 * replaces Host; without text for other forms. */
TD_MUST_CHECK td_status td_headers_read(struct td_call *call, const struct td_origins *origins,
                                        bool loopback, struct td_field authority);

#endif
