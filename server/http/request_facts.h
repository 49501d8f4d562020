/* request_facts.h - what log lines and spans say about a request. */
#ifndef TD_SERVER_HTTP_REQUEST_FACTS_H
#define TD_SERVER_HTTP_REQUEST_FACTS_H

#include "server/calls/call.h"

#include <stddef.h>

/* The address that a connection of the HTTP library comes from. */
struct td_peer td_request_peer(struct MHD_Connection *connection);

/* "params[16,8] indices[4]" */
void td_request_inputs(const struct td_call *call, char *text, size_t size);

/* Where an op was computed, "cpu" or "gpu"; NULL: nowhere. */
const char *td_request_device(const struct td_call *call);

#endif
