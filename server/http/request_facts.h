/* request_facts.h - facts about a request for log lines and spans. */
#ifndef TD_SERVER_HTTP_REQUEST_FACTS_H
#define TD_SERVER_HTTP_REQUEST_FACTS_H

#include "server/calls/call.h"

#include <stddef.h>

/* Returns the address that a connection of the HTTP library comes from. */
struct td_peer td_request_peer(struct MHD_Connection *connection);

/* Writes the shapes of the inputs: "params[16,8] indices[4]". */
void td_request_inputs(const struct td_call *call, char *text, size_t size);

/* Returns where an op was computed, "cpu" or "gpu", or NULL if no op was computed. */
const char *td_request_device(const struct td_call *call);

#endif
