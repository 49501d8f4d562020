#include "server/calls/documents.h"

#include "api/describe.h"
#include "api/message/problem.h"
#include "api/text/suggest.h"
#include "server/calls/services.h"

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
