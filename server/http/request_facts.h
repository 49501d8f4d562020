/* request_facts.h - facts about a request for log lines and spans. */
#ifndef TD_SERVER_HTTP_REQUEST_FACTS_H
#define TD_SERVER_HTTP_REQUEST_FACTS_H

#include "server/calls/call.h"

#include <stddef.h>

/* Returns the peer of a TCP connection of the HTTP library. */
struct td_peer td_request_peer(struct MHD_Connection *connection);

/* Writes the shapes of the inputs, such as "params[16,8] indices[4]". */
void td_request_inputs(const struct td_call *call, char *text, size_t size);

/* Returns the place where the op ran, "cpu" or "gpu", or NULL if no op ran. */
const char *td_request_device(const struct td_call *call);

#endif
