#include "server/http/query.h"

#include "kernels/shown_text.h"
#include "server/http/target.h"

#include <string.h>

size_t td_query_leave_encoded(void *context, struct MHD_Connection *connection, char *text)
{
    (void)context;
    (void)connection;
    return strlen(text);
}

/* Refuses an argument of a path under /v1. Probes and clients of other paths can send any
 * arguments. */
static td_status refuse(struct td_call *call, const char *name, size_t length)
{
    const char *shown = TD_SHOWN(name, length);
    td_error_set(&call->error, TD_MALFORMED_REQUEST,
                 "%s %.128s takes no query parameters; \"%s\" was given", call->method, call->path,
                 shown);
    return td_error_at_attribute(&call->error, TD_MALFORMED_REQUEST, shown);
}

static enum MHD_Result visit_argument(void *context, enum MHD_ValueKind kind, const char *name,
                                      size_t length, const char *value, size_t value_length)
{
    struct td_call *call = context;
    (void)kind;
    if (!value) {
        value = "";
        value_length = 0;
    }
    td_status status = td_target_decode(&name, &length, "the query", &call->arena, &call->error);
    if (status == TD_OK)
        status = td_target_decode(&value, &value_length, "the query", &call->arena, &call->error);
    if (status == TD_OK && call->task && call->task->argument)
        status = call->task->argument(call, name, length, value, value_length);
    else if (status == TD_OK && strncmp(call->path, "/v1/", 4) == 0)
        status = refuse(call, name, length);
    return status == TD_OK ? MHD_YES : MHD_NO;
}

td_status td_query_read(struct td_call *call)
{
    MHD_get_connection_values_n(call->http.connection, MHD_GET_ARGUMENT_KIND, visit_argument, call);
    return call->error.status;
}
