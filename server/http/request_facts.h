/* request_facts.h - what log lines and spans say about a request. */
#ifndef TD_SERVER_HTTP_REQUEST_FACTS_H
#define TD_SERVER_HTTP_REQUEST_FACTS_H

#include "server/calls/call.h"

#include <netinet/in.h>

#include <stddef.h>

enum { TD_ADDRESS_TEXT = INET6_ADDRSTRLEN + 4 };

/* Where a request comes from; "" if that is not known. */
struct td_request_origin {
    char peer[TD_ADDRESS_TEXT];      /* that is connected */
    char forwarded[TD_ADDRESS_TEXT]; /* for which a trusted proxy sends it */
};

void td_request_origin(const struct td_call *call, struct td_request_origin *text);
void td_request_peer(const struct sockaddr *peer, char text[TD_ADDRESS_TEXT]);

/* "params[16,8] indices[4]" */
void td_request_inputs(const struct td_call *call, char *text, size_t size);

/* Where an op was computed, "cpu" or "gpu"; NULL: nowhere. */
const char *td_request_device(const struct td_call *call);

#endif
