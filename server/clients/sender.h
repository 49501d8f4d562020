/* sender.h - who sends a request, for logs and spans: three facts, each of its own type, so that
 * none is printed as another. Limits and turns count by struct td_client instead (clients.h), which
 * may be an address or the holder of a token.
 *
 * Ownership  Borrows the name of the token. */
#ifndef TD_SERVER_CLIENTS_SENDER_H
#define TD_SERVER_CLIENTS_SENDER_H

#include "server/clients/clients.h"

/* The address that is connected: a client's, or a proxy's. */
struct td_peer {
    bool known;
    struct td_address address;
};

/* The client for which a trusted proxy forwards the request. */
struct td_forwarded {
    bool known;
    struct td_address address;
};

struct td_sender {
    struct td_peer peer;
    struct td_forwarded forwarded;
    const char *token; /* the name of the token, never the token itself; NULL: none */
};

enum { TD_ADDRESS_TEXT = INET6_ADDRSTRLEN };

/* The addresses as text; "" for one that is not known. */
struct td_sender_text {
    char peer[TD_ADDRESS_TEXT];
    char forwarded[TD_ADDRESS_TEXT];
};

/* The peer of a socket address, which may be NULL. */
struct td_peer td_peer_of(const struct sockaddr *address);

void td_sender_print(const struct td_sender *sender, struct td_sender_text *text);

#endif
