/* origin.h - refuses requests from web pages of other sites, and Host headers that only DNS
 * rebinding produces.
 *
 * A browser sends a page's requests to any address that it can reach, so a page of any site could
 * write to a daemon that listens only on loopback. Two checks prevent this, both before the body is
 * read:
 *
 * Site     FORBIDDEN if Sec-Fetch-Site is cross-site or same-site, or if Origin is present ("null"
 *          included) and its authority differs from Host, unless --allow-origin names the origin.
 *          Clients other than browsers send neither header. Pages of the console are exempt,
 *          because they hold no data; links to them work from any site.
 * Host     On a connection to a loopback address that the server listens on, FORBIDDEN unless Host
 *          is localhost, a name under it, an address in 127.0.0.0/8, [::1] or a host in
 *          --allow-host, with any port. If the name of evil.example is changed to resolve to
 *          127.0.0.1, its page has the same origin as the server, but its Host is still
 *          evil.example. On other addresses, Host is checked only if --allow-host is set. HTTP/1.0
 *          requests can omit Host; the HTTP library requires it for HTTP/1.1.
 *
 * Requests on Unix sockets are not checked, unless a trusted proxy forwards them, because browsers
 * cannot connect to Unix sockets.
 *
 * Names are compared ignoring case. IPv4 addresses are four decimal numbers. Other forms that
 * resolvers accept (127.1, 0x7f.0.0.1) are refused, because browsers never send them.
 *
 * Ownership  td_origins owns copies of its lists.
 * Threads    Constant after td_origins_new.
 * Cost       30 to 50 ns for a request without Origin, mostly for parsing Host. */
#ifndef TD_SERVER_HTTP_ORIGIN_H
#define TD_SERVER_HTTP_ORIGIN_H

#include "kernels/status.h"

#include <stdbool.h>
#include <stddef.h>

struct td_call;
struct td_origins;

/* Value of a header, which can contain any bytes. `text` is NULL if the header is absent. */
struct td_field {
    const char *text;
    size_t length;
};

/* Parts of a request that are checked. */
struct td_origin_request {
    /* Host header, or the authority of an absolute request target. */
    struct td_field host;
    /* Headers Origin and Sec-Fetch-Site. */
    struct td_field origin;
    struct td_field sec_fetch_site;
    /* True if the listening socket of the connection is bound to a loopback address. */
    bool loopback;
    bool page; /* td_origin_is_page */
};

/* Parses the comma-separated lists --allow-origin and --allow-host. Returns NULL if a value is
 * invalid or no memory is available, with the reason in `message`, a buffer of `size` bytes. */
struct td_origins *td_origins_new(const char *allow_origin, const char *allow_host, char *message,
                                  size_t size);

/* Frees the lists. NULL is allowed. */
void td_origins_free(struct td_origins *origins);

/* True if the text is a host[:port], as in Host. */
bool td_origin_is_authority(struct td_field text);

/* True if the path is a page of the console, to which other sites can link: / or /docs. */
bool td_origin_is_page(const char *method, const char *path);

/* Returns TD_OK or FORBIDDEN. Sets *listed if --allow-origin names the request's Origin, so the
 * origin's page can read the reply, even if it is an error. */
TD_MUST_CHECK td_status td_origin_check(const struct td_origins *origins,
                                        const struct td_origin_request *request, bool *listed,
                                        struct td_error *err);

/* Handles a preflight request. Replies with the methods and headers that are allowed for every
 * path. */
td_status td_origin_preflight(struct td_call *call);

/* Reply headers that a page can read, in addition to the headers that pages can always read. */
#define TD_ORIGIN_EXPOSED                                                                          \
    "Accept-Ranges, Allow, Content-Encoding, Content-Range, ETag, "                                \
    "Inference-Header-Content-Length, Location, Retry-After, Server-Timing, WWW-Authenticate, "    \
    "X-Request-Id, X-Tensord-Table"

#endif
