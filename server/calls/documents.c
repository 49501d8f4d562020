#include "server/calls/documents.h"

#include "api/describe.h"
#include "api/message/problem.h"
#include "api/text/suggest.h"
#include "server/calls/drain.h"
#include "server/calls/services_open.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

td_status td_get_ops(struct td_call *call)
{
    return td_describe_ops(&call->arena, &call->reply, &call->error);
}

td_status td_get_op(struct td_call *call)
{
    return td_describe_op(call->op, &call->arena, &call->reply, &call->error);
}

td_status td_get_devices(struct td_call *call)
{
    struct td_services *services = call->services;
    return td_devices_describe(services->devices, &services->config, &call->arena, &call->reply,
                               &call->error);
}

static td_status no_such_problem(const char *name, struct td_error *err)
{
    const char *names[2 * TD_STATUS_COUNT];
    int count = 0;
    for (int i = 1; i < TD_STATUS_COUNT; i++) {
        names[count++] = td_problem_of((td_status)i)->slug;
        names[count++] = td_status_name((td_status)i);
    }
    return td_unknown_name(err, TD_NOT_FOUND, "problem page", name, strlen(name), names, count,
                           "the enum of codes in GET /openapi.json");
}

td_status td_get_problem(struct td_call *call)
{
    const char *argument = call->arguments[0];
    const td_status status = td_problem_from_slug(argument, strlen(argument));
    return status == TD_OK ? no_such_problem(argument, &call->error)
                           : td_problem_describe(status, &call->arena, &call->reply, &call->error);
}

td_status td_get_health(struct td_call *call)
{
    static const char body[] = "{\"status\":\"alive\"}\n";
    td_reply_set(&call->reply, 200, "application/json", body, sizeof body - 1);
    return TD_OK;
}

td_status td_get_ready(struct td_call *call)
{
    enum { SIZE = 1024 };
    if (td_drain_check_ready(call) != TD_OK)
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
