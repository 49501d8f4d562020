/* routes.h - method and path become something to do.
 *
 * Routes of ops follow from the op table; the rest is one list. Whatever does not run an op is
 * answered here, on the I/O thread, from memory or from a small body.
 *
 * Errors   NOT_FOUND, UNKNOWN_OP (with the nearest name), METHOD_NOT_ALLOWED (with what is). */
#ifndef TD_SERVER_ROUTES_H
#define TD_SERVER_ROUTES_H

#include "server/call.h"

struct td_route {
    const struct td_op *op; /* POST /v1/{op}, and handlers that tell about one; NULL for the rest */
    td_handler *handler;    /* NULL: the op is run */
    const char *argument;   /* what stood in the place of {name}, inside the path */
    size_t body_limit; /* 0: the handler answers GET and HEAD at once; else POST, when a body of at
                          most so many bytes is there */
};

TD_MUST_CHECK td_status td_route_find(const char *method, const char *path, struct td_route *out,
                                      struct td_error *err);

#endif
