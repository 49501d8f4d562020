#include "server/http/request_facts.h"

#include "server/calls/away.h"

#include <microhttpd.h>
#include <stdio.h>

struct td_peer td_request_peer(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    return info && info->client_addr ? td_peer_of(-1, info->client_addr)
                                     : (struct td_peer){ .kind = TD_PEER_UNKNOWN };
}

void td_request_inputs(const struct td_call *call, char *text, size_t size)
{
    const struct td_request *request = &call->request;
    size_t length = 0;
    char shape[TD_SHAPE_TEXT];
    text[0] = '\0';
    for (int i = 0; request->decoded && i < request->op->n_inputs; i++) {
        const struct td_operand *operand = &request->args.inputs[i];
        for (int j = 0; j < operand->count && length < size; j++)
            length +=
                (size_t)snprintf(text + length, size - length, "%s%s%s", length ? " " : "",
                                 request->op->inputs[i].name,
                                 td_shape_text(&operand->tensors[j].shape, shape, sizeof shape));
    }
}

const char *td_request_device(const struct td_call *call)
{
    if (!call->op || !call->request.decoded)
        return NULL;
    return td_away_is(call, TD_AWAY_DONE) ? "gpu" : "cpu";
}
