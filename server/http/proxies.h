/* proxies.h - whose requests a trusted proxy forwards.
 *
 * A proxy connects for many clients. If --trusted-proxy names its address, the client of a request
 * is the last address in X-Forwarded-For that is not a trusted proxy's itself: each proxy appends
 * the address that it was connected from, so only what trusted proxies have appended is believed.
 * Without such an address the client is the proxy. Other peers' X-Forwarded-For is ignored.
 *
 * Ownership  td_proxies owns its list.
 * Threads    Constant after td_proxies_new. */
#ifndef TD_SERVER_HTTP_PROXIES_H
#define TD_SERVER_HTTP_PROXIES_H

#include "server/clients/sender.h"

#include <stdbool.h>
#include <stddef.h>

struct td_proxies;

/* From the comma-separated list --trusted-proxy: addresses, and prefixes like 10.0.0.0/8. NULL if
 * one is invalid, or without memory; message, of `size` bytes, then says which. */
struct td_proxies *td_proxies_new(const char *trusted, char *message, size_t size);
void td_proxies_free(struct td_proxies *proxies); /* NULL is fine */

/* Is the peer a trusted proxy? */
bool td_proxies_trust(const struct td_proxies *proxies, const struct sockaddr *peer);

/* The client in X-Forwarded-For, of several lines joined by commas. False if it names none. */
bool td_proxies_client(const struct td_proxies *proxies, const char *forwarded_for,
                       struct td_forwarded *client);

#endif
