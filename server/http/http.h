/* http.h - receives bodies and sends replies through libmicrohttpd, and suspends connections while
 * workers run their calls.
 *
 * Threads  libmicrohttpd's epoll threads (--io-threads) run all functions here except td_http_start
 *          and td_http_stop. Only one of these threads serves a connection. A worker resumes a
 *          connection through call->finished.
 * Errors   transport_errors.c writes the replies to libmicrohttpd's own errors, which
 *          concern request framing. */
#ifndef TD_SERVER_HTTP_HTTP_H
#define TD_SERVER_HTTP_HTTP_H

#include "server/calls/services.h"

struct td_http;
struct td_listeners;

/* Serves on the inherited sockets (listener.h) and takes them over. If no sockets are inherited,
 * serves on each address of --listen. Returns NULL, after logging the reason, if an address is not
 * available. */
struct td_http *td_http_start(struct td_services *services, const struct td_listeners *inherited);

/* Stops accepting connections. Serves connections that the kernel has completed, unless the sockets
 * were inherited; those connections then wait for the next process that accepts from the
 * sockets. */
void td_http_stop_accepting(struct td_http *http);

/* Returns the number of open connections. */
int td_http_connections(const struct td_http *http);

/* Sweeps one of `parts` parts of the connections (connections.h). Ends connections that are too
 * slow or whose client has disconnected unnoticed. Tells the workers whether to yield. The main
 * thread calls this function periodically while workers exist. */
void td_http_tidy(struct td_http *http, int64_t now_ns, int parts);

/* Stops serving. All calls must have been answered, because no connection can be suspended at this
 * point. NULL is allowed. */
void td_http_stop(struct td_http *http);

#endif
