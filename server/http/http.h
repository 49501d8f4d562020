/* http.h - the libmicrohttpd side: receives bodies, sends replies, suspends connections while
 * workers run their calls.
 *
 * Threads  libmicrohttpd's epoll threads (--io-threads) run everything here except td_http_start
 *          and td_http_stop; a connection stays on one of them. A worker resumes a connection
 *          through call->finished.
 * Errors   transport_errors.c words libmicrohttpd's own errors (request framing). */
#ifndef TD_SERVER_HTTP_HTTP_H
#define TD_SERVER_HTTP_HTTP_H

#include "server/calls/services.h"

struct td_http;
struct td_listeners;

/* Serves on the inherited sockets (listener.h), which it takes over, or if there are none on each
 * address of --listen. NULL (logged) if one of them is not available. */
struct td_http *td_http_start(struct td_services *services, const struct td_listeners *inherited);

/* Accepts no further connections; those that the kernel has completed are served, unless the
 * sockets were inherited: then they wait for the next process that accepts from them. */
void td_http_stop_accepting(struct td_http *http);

/* The number of open connections. */
int td_http_connections(const struct td_http *http);

/* Looks at one part of `parts` of the connections and ends those that are too slow or whose client
 * has disconnected unnoticed (connections.h); tells the workers whether to yield. Main thread,
 * called periodically, while there are workers. */
void td_http_tidy(struct td_http *http, int64_t now_ns, int parts);

/* Stops serving. No connection may be suspended: all calls must have been answered. NULL is
 * fine. */
void td_http_stop(struct td_http *http);

#endif
