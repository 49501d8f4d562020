/* origin.h - refuses what a web page of another site sends, and hosts that only DNS rebinding uses.
 *
 * A browser sends a page's requests to any address that it reaches, so a page from anywhere could
 * write to a daemon that listens on this machine only. Two checks, both before the body is read:
 *
 * Site     FORBIDDEN where Sec-Fetch-Site is cross-site or same-site, or where there is an Origin
 *          ("null" included) whose authority is not that of Host, unless --allow-origin names that
 *          origin. A GET that navigates to "/" or "/docs" passes: such pages hold no data. Clients
 *          other than browsers send neither header.
 * Host     On a loopback address FORBIDDEN unless Host is localhost, a name under it, an address in
 *          127.0.0.0/8, [::1] or what --allow-host names, with any port: a page of evil.example
 *          whose name is resolved anew, to 127.0.0.1, is of the same origin as the server, but its
 *          Host still is evil.example. On other addresses Host is only checked where there is an
 *          --allow-host. A request of HTTP/1.0 may have none; the HTTP library requires one of
 *          HTTP/1.1.
 *
 * Names are compared without regard to case. IPv4 addresses are four decimal numbers; what else a
 * resolver takes for one (127.1, 0x7f.0.0.1) is refused, as browsers never send it.
 *
 * Ownership  td_origins owns what it was made from; td_origins_free.
 * Threads    Constant after td_origins_new.
 * Cost       30 to 50 ns for a request without Origin, most of it for reading Host. */
#ifndef TD_SERVER_HTTP_ORIGIN_H
#define TD_SERVER_HTTP_ORIGIN_H

#include "kernels/status.h"

#include <stdbool.h>
#include <stddef.h>

struct td_call;
struct td_origins;

/* The value of a header; text is NULL where it is absent. It may hold any byte. */
struct td_field {
    const char *text;
    size_t length;
};

/* What is checked of a request. */
struct td_origin_request {
    const char *method;
    const char *path;
    struct td_field host;   /* or the authority of an absolute request target */
    struct td_field origin; /* the headers of these names */
    struct td_field sec_fetch_site;
    struct td_field sec_fetch_mode;
};

/* From the values of --allow-origin and --allow-host, which are lists with commas. NULL where one
 * is wrong, or without memory; message, of `size` bytes, then says so. */
struct td_origins *td_origins_new(const char *allow_origin, const char *allow_host, bool loopback,
                                  char *message, size_t size);

/* NULL is fine. */
void td_origins_free(struct td_origins *origins);

/* Is this a host, perhaps with a port, as Host has it? */
bool td_origin_is_authority(struct td_field text);

/* TD_OK or FORBIDDEN. *listed: --allow-origin names the request's Origin, so that its page may read
 * the answer, also that of a refusal. */
TD_MUST_CHECK td_status td_origin_check(const struct td_origins *origins,
                                        const struct td_origin_request *request, bool *listed,
                                        struct td_error *err);

/* The handler of a preflight: what a page of an origin that is listed may send to any path. */
td_status td_origin_preflight(struct td_call *call);

/* Headers of answers that a page may read beside those that it always may. */
#define TD_ORIGIN_EXPOSED                                                                          \
    "Accept-Ranges, Allow, Content-Encoding, Content-Range, ETag, "                                \
    "Inference-Header-Content-Length, Location, Retry-After, Server-Timing, X-Request-Id"

#endif
