/* proxies.h - finds the client of a request that a trusted proxy forwards.
 *
 * A proxy connects for many clients. If --trusted-proxy names its address, the client of a request
 * is the last address in X-Forwarded-For that is not itself a trusted proxy. Each proxy appends the
 * address that connected to it, so only addresses appended by trusted proxies are used. If the
 * header has no such address, the client is the proxy. X-Forwarded-For from other peers is ignored.
 * A proxy that connects to a Unix socket is named by its user, as uid:33.
 *
 * Ownership  td_proxies owns its list.
 * Threads    Constant after td_proxies_new. */
#ifndef TD_SERVER_HTTP_PROXIES_H
#define TD_SERVER_HTTP_PROXIES_H

#include "server/clients/sender.h"

#include <stdbool.h>
#include <stddef.h>

struct td_proxies;

/* Parses --trusted-proxy, a comma-separated list of addresses, prefixes such as 10.0.0.0/8, and
 * users such as uid:33. Returns NULL if a value is invalid or no memory is available, with the
 * reason in `message`, a buffer of `size` bytes. */
struct td_proxies *td_proxies_new(const char *trusted, char *message, size_t size);
void td_proxies_free(struct td_proxies *proxies); /* NULL is allowed */

/* True if the peer is a trusted proxy. */
bool td_proxies_trust(const struct td_proxies *proxies, const struct td_peer *peer);

/* Finds the client in the value of X-Forwarded-For, whose lines are joined by commas. Returns false
 * if the header names no client. */
bool td_proxies_client(const struct td_proxies *proxies, const char *forwarded_for,
                       struct td_forwarded *client);

#endif
