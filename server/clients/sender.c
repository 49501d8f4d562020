#include "server/clients/sender.h"

struct td_peer td_peer_of(const struct sockaddr *address)
{
    struct td_peer peer = { .known = false };
    peer.known = address && td_address_of(address, &peer.address);
    return peer;
}

void td_sender_print(const struct td_sender *sender, struct td_sender_text *text)
{
    *text = (struct td_sender_text){ .peer = "" };
    if (sender->peer.known)
        td_address_print(&sender->peer.address, text->peer, sizeof text->peer);
    if (sender->forwarded.known)
        td_address_print(&sender->forwarded.address, text->forwarded, sizeof text->forwarded);
}
