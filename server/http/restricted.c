#include "server/http/restricted.h"

#include "server/calls/client_limits.h"
#include "server/calls/services.h"
#include "server/http/routes.h"

td_status td_restricted_check(struct td_call *call, const struct td_connection *record)
{
    const struct td_connection_limits *limits = &call->services->connection_limits;
    struct td_error *err = &call->error;
    if (record->restriction == TD_UNRESTRICTED || td_route_is_open(call))
        return TD_OK;
    switch (record->restriction) {
    case TD_CLIENT_REACHED:
        td_error_set(
            err, TD_CLIENT_LIMIT,
            "this client has %d open connections, the maximum that --client-connections allows",
            limits->per_client);
        return td_client_limits_exceeded(err, "connections", (uint64_t)limits->per_client + 1,
                                         (uint64_t)limits->per_client);
    case TD_MEMORY_REACHED:
        td_error_set(err, TD_MEMORY_EXHAUSTED,
                     "the memory limit leaves no room for another connection");
        break;
    default:
        td_error_set(err, TD_CONNECTION_LIMIT,
                     "%d connections are open, the maximum that --connection-limit and the limit "
                     "on open files allow",
                     limits->open);
        err->limit = (uint64_t)limits->open;
    }
    return err->status;
}
