#include "server/calls/conditions.h"

#include <string.h>

struct td_condition td_conditions_of(const struct td_call *call)
{
    return (struct td_condition){ .if_match = call->headers.if_match,
                                  .if_none_match = call->headers.if_none_match };
}

td_status td_conditions_check_match(struct td_call *call, const char *name, const char *etag)
{
    const struct td_condition wanted = { .if_match = call->headers.if_match };
    return td_condition_check(&wanted, name, etag, &call->error);
}

td_status td_conditions_list(struct td_call *call, const char *etag, bool *listed)
{
    const char *list = call->headers.if_none_match;
    *listed = false;
    return list ? td_etag_listed("If-None-Match", list, etag, true, listed, &call->error) : TD_OK;
}

const char *td_conditions_range(const struct td_call *call, const char *etag)
{
    const char *if_range = call->headers.if_range;
    if (strcmp(call->method, "GET") != 0 || (if_range && strcmp(if_range, etag) != 0))
        return NULL;
    return call->headers.range;
}

td_status td_conditions_refuse(struct td_call *call, const char *why)
{
    const char *header = call->headers.if_match        ? "If-Match"
                         : call->headers.if_none_match ? "If-None-Match"
                                                       : NULL;
    if (!header)
        return TD_OK;
    td_error_set(&call->error, TD_MALFORMED_REQUEST, "%s %s", header, why);
    return td_error_at_attribute(&call->error, TD_MALFORMED_REQUEST, header);
}
