/* sender.h - the sender of a request, for logs and spans.
 *
 * Three facts describe the sender. Each has its own type, so one cannot be printed as another.
 * Limits and turns apply to struct td_client instead (clients.h), which is an address, a user or
 * the holder of a token.
 *
 * Ownership  struct td_sender borrows the name of the token. */
#ifndef TD_SERVER_CLIENTS_SENDER_H
#define TD_SERVER_CLIENTS_SENDER_H

#include "server/clients/clients.h"

enum td_peer_kind { TD_PEER_UNKNOWN, TD_PEER_ADDRESS, TD_PEER_USER };

/* The connected peer, which is a client or a proxy. */
struct td_peer {
    enum td_peer_kind kind;
    struct td_address address; /* of TD_PEER_ADDRESS */
    /* Effective user of the process when it connected to a Unix socket, for TD_PEER_USER. */
    uid_t user;
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

/* The addresses as text, or "" for an unknown address. A user is "uid:1000". */
struct td_sender_text {
    char peer[TD_ADDRESS_TEXT];
    char forwarded[TD_ADDRESS_TEXT];
};

/* Returns the peer of a connected socket. `address` is the peer's socket address. For a Unix
 * socket, asks the kernel for the user. */
struct td_peer td_peer_of(int socket, const struct sockaddr *address);

/* Stores the client key of the peer. Returns false if the peer is unknown. */
bool td_peer_key(const struct td_peer *peer, struct td_client_key *key);

void td_sender_print(const struct td_sender *sender, struct td_sender_text *text);

#endif
