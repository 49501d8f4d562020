#include "server/calls/health.h"

#include "server/calls/drain.h"
#include "server/calls/services_open.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

td_status td_health_check(struct td_call *call)
{
    const td_status status = td_drain_check_ready(call);
    return status == TD_OK ? td_store_check_aliases(call->services->store, &call->error) : status;
}

td_status td_health_live(struct td_call *call)
{
    td_call_reply_json(call, "{\"status\":\"alive\"}\n");
    return TD_OK;
}

td_status td_health_ready(struct td_call *call)
{
    enum { SIZE = 1024 };
    if (td_health_check(call) != TD_OK)
        return call->error.status;
    char *body = td_arena_alloc(&call->arena, SIZE, 1, &call->error);
    if (!body)
        return TD_MEMORY_EXHAUSTED;
    const struct td_services_holdings held = td_services_holdings(call->services);
    const struct td_connection_limits *limits = &call->services->connection_limits;
    const struct td_connection_counts *connections = &held.connections;
    const int length = snprintf(
        body, SIZE,
        "{\"status\":\"ready\",\"memory\":{\"limit\":%" PRIu64 ",\"in_use\":%" PRIu64
        ",\"warm\":%" PRIu64 ",\"connections\":%" PRIu64 ",\"calls\":%" PRIu64
        ",\"tables\":%" PRIu64 ",\"resident\":%" PRIu64 ",\"spare\":%" PRIu64
        "},\"open\":{\"requests\":%" PRId64
        ",\"connections\":%d,\"tensors\":%d,\"mappings\":%d,\"regions\":%d},"
        "\"connections\":{\"limit\":%d,\"client_limit\":%d,\"waiting\":%d,\"receiving\":%d,"
        "\"working\":%d,\"sending\":%d,\"restricted\":%d}}\n",
        held.buffers.limit, held.buffers.in_use, held.buffers.warm, connections->memory_bytes,
        held.calls, held.store.mapped, held.store.held, held.store.spare, held.requests,
        connections->open, held.store.tensors, held.mappings, held.regions, limits->open,
        limits->per_client, connections->waiting, connections->receiving, connections->working,
        connections->sending, connections->restricted);
    td_reply_set(&call->reply, 200, "application/json", body, (size_t)length);
    return TD_OK;
}

td_status td_health_oip_live(struct td_call *call)
{
    td_call_reply_json(call, "{\"live\":true}");
    return TD_OK;
}

td_status td_health_oip_ready(struct td_call *call)
{
    const td_status status = td_health_check(call);
    if (status == TD_OK)
        td_call_reply_json(call, "{\"ready\":true,\"live\":true}");
    return status;
}
