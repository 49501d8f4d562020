/* openapi.h - the OpenAPI 3.1 document of the server.
 *
 * Of every route, with a path for each op where the route has {op} or {lookup}.
 *
 * Ownership  The reply is in the arena.
 * Threads    Reentrant.
 * Errors     MEMORY_EXHAUSTED.
 * Source     OpenAPI Specification 3.1.0; JSON Schema 2020-12. */
#ifndef TD_API_OPENAPI_OPENAPI_H
#define TD_API_OPENAPI_OPENAPI_H

#include "api/message/message.h"

struct td_openapi_route {
    const char *method;  /* "get" */
    const char *pattern; /* "/v1/tensors/{name}" */
    bool open;           /* a request needs no token */
    const struct td_op
        *op; /* whose attributes the query string may have; NULL: none, or the path names it */
};

/* Makes the reply, 200 with the document. */
TD_MUST_CHECK td_status td_openapi_reply(const struct td_openapi_route *routes, int n_routes,
                                         const char *version, struct td_arena *arena,
                                         struct td_reply *reply, struct td_error *err);

#endif
