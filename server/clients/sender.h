/* sender.h - the sender of a request, for logs and spans.
 *
 * Three facts describe the sender. Each has its own type, so one cannot be printed as another.
 * Limits and turns apply to struct td_client instead (clients.h), which is an address or the holder
 * of a token.
 *
 * Ownership  struct td_sender borrows the name of the token. */
#ifndef TD_SERVER_CLIENTS_SENDER_H
#define TD_SERVER_CLIENTS_SENDER_H

#include "server/clients/clients.h"

/* The address of the connected peer, which is a client or a proxy. */
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
    /* Name of the token (never the token itself), or NULL if there is no token. */
    const char *token;
};

enum { TD_ADDRESS_TEXT = INET6_ADDRSTRLEN };

/* The addresses as text, or "" for an unknown address. */
struct td_sender_text {
    char peer[TD_ADDRESS_TEXT];
    char forwarded[TD_ADDRESS_TEXT];
};

/* Returns the peer of a socket address, which can be NULL. */
struct td_peer td_peer_of(const struct sockaddr *address);

void td_sender_print(const struct td_sender *sender, struct td_sender_text *text);

#endif
