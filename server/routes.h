/* routes.h - method and path become something to do.
 *
 * Routes of ops follow from the op table; the rest is one list. Whatever is not an op is answered
 * here, on the I/O thread, from memory.
 *
 * Errors   NOT_FOUND, UNKNOWN_OP (with the nearest name), METHOD_NOT_ALLOWED (with what is). */
#ifndef TD_SERVER_ROUTES_H
#define TD_SERVER_ROUTES_H

#include "server/call.h"

/* Answers a request that runs no op into call->reply. */
typedef td_status td_handler(struct td_call *call, const char *argument);

struct td_route {
    const struct td_op *op; /* POST /v1/{op}; NULL for the rest */
    td_handler *handler;
    const char *argument; /* what stood in the place of {name}, inside the path */
};

TD_MUST_CHECK td_status td_route_find(const char *method, const char *path, struct td_route *out,
                                      struct td_error *err);

#endif
