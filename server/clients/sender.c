#include "server/clients/sender.h"

#include <stdio.h>

static bool find_user(int socket, uid_t *user)
{
    struct ucred credentials;
    socklen_t size = sizeof credentials;
    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0)
        return false;
    *user = credentials.uid;
    return true;
}

struct td_peer td_peer_of(int socket, const struct sockaddr *address)
{
    struct td_peer peer = { .kind = TD_PEER_UNKNOWN };
    if (td_address_of(address, &peer.address))
        peer.kind = TD_PEER_ADDRESS;
    else if (address->sa_family == AF_UNIX && find_user(socket, &peer.user))
        peer.kind = TD_PEER_USER;
    return peer;
}

bool td_peer_key(const struct td_peer *peer, struct td_client_key *key)
{
    if (peer->kind == TD_PEER_ADDRESS)
        *key = td_client_key_of_address(&peer->address);
    else if (peer->kind == TD_PEER_USER)
        *key = td_client_key_of_user(peer->user);
    return peer->kind != TD_PEER_UNKNOWN;
}

void td_sender_print(const struct td_sender *sender, struct td_sender_text *text)
{
    *text = (struct td_sender_text){ .peer = "" };
    if (sender->peer.kind == TD_PEER_ADDRESS)
        td_address_print(&sender->peer.address, text->peer, sizeof text->peer);
    else if (sender->peer.kind == TD_PEER_USER)
        snprintf(text->peer, sizeof text->peer, "uid:%u", sender->peer.user);
    if (sender->forwarded.known)
        td_address_print(&sender->forwarded.address, text->forwarded, sizeof text->forwarded);
}
