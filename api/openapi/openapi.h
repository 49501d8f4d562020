/* openapi.h - builds the server's OpenAPI 3.1 document.
 *
 * The document describes every route. A route with {op} or {row_op} becomes one path per op.
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
    bool open;           /* requests need no token */
    /* Op whose attributes the query string can have. NULL if there is none or the path names the
     * op. */
    const struct td_op *op;
};

/* Builds a reply with status 200 and the document. */
TD_MUST_CHECK td_status td_openapi_reply(const struct td_openapi_route *routes, int n_routes,
                                         const char *version, struct td_arena *arena,
                                         struct td_reply *reply, struct td_error *err);

#endif
