/* origin.h - refuses requests of web pages of other sites, and hosts that only DNS rebinding uses.
 *
 * A browser sends a page's requests to any address that it can reach, so a page of any site could
 * write to a daemon that listens on loopback only. Two checks, both before the body is read:
 *
 * Site     FORBIDDEN if Sec-Fetch-Site is cross-site or same-site, or if there is an Origin ("null"
 *          included) whose authority is not that of Host, unless --allow-origin names that origin.
 *          Clients other than browsers send neither header. A page of the console holds no data, so
 *          that a link to it works from anywhere.
 * Host     On a connection to a loopback address that the server listens on, FORBIDDEN unless Host
 *          is localhost, a name under it, an address in 127.0.0.0/8, [::1] or a host in
 *          --allow-host, with any port: a page of evil.example whose name then resolves to
 *          127.0.0.1 has the same origin as the server, but its Host is still evil.example. On
 *          other addresses Host is checked only if --allow-host is set. An HTTP/1.0 request may
 *          lack it; the HTTP library requires it of HTTP/1.1.
 *
 * Names are compared ignoring case. IPv4 addresses are four decimal numbers; other forms that
 * resolvers accept (127.1, 0x7f.0.0.1) are refused, as browsers never send them.
 *
 * Ownership  td_origins owns copies of its lists.
 * Threads    Constant after td_origins_new.
 * Cost       30 to 50 ns for a request without Origin, most of it to parse Host. */
#ifndef TD_SERVER_HTTP_ORIGIN_H
#define TD_SERVER_HTTP_ORIGIN_H

#include "kernels/status.h"

#include <stdbool.h>
#include <stddef.h>

struct td_call;
struct td_origins;

/* The value of a header; text is NULL if it is absent. It may hold any byte. */
struct td_field {
    const char *text;
    size_t length;
};

/* The parts of a request that are checked. */
struct td_origin_request {
    struct td_field host;   /* or the authority of an absolute request target */
    struct td_field origin; /* the headers of these names */
    struct td_field sec_fetch_site;
    bool loopback; /* the listening socket of its connection is bound to a loopback address */
    bool page;     /* for a page of the console */
};

/* From the comma-separated lists --allow-origin and --allow-host. NULL if one is invalid, or
 * without memory; message, of `size` bytes, then says which. */
struct td_origins *td_origins_new(const char *allow_origin, const char *allow_host, char *message,
                                  size_t size);

/* NULL is fine. */
void td_origins_free(struct td_origins *origins);

/* Is this host[:port], as in Host? */
bool td_origin_is_authority(struct td_field text);

/* TD_OK or FORBIDDEN. *listed: --allow-origin names the request's Origin, so its page may read the
 * reply, errors included. */
TD_MUST_CHECK td_status td_origin_check(const struct td_origins *origins,
                                        const struct td_origin_request *request, bool *listed,
                                        struct td_error *err);

/* Handler of a preflight request: replies with the methods and headers that are allowed for every
 * path. */
td_status td_origin_preflight(struct td_call *call);

/* Reply headers that a page may read besides those that it always may. */
#define TD_ORIGIN_EXPOSED                                                                          \
    "Accept-Ranges, Allow, Content-Encoding, Content-Range, ETag, "                                \
    "Inference-Header-Content-Length, Location, Retry-After, Server-Timing, WWW-Authenticate, "    \
    "X-Request-Id, X-Tensord-Table"

#endif
