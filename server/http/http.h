/* http.h - the libmicrohttpd side: bodies in, replies out, connections that sleep while workers
 * work.
 *
 * Threads  libmicrohttpd's epoll threads (--io-threads) run everything here but td_http_start and
 *          td_http_stop; a connection stays on one of them. A worker wakes a connection through
 *          call->finished.
 * Errors   What libmicrohttpd refuses by itself (request framing) is worded by
 *          transport_errors.c. */
#ifndef TD_SERVER_HTTP_HTTP_H
#define TD_SERVER_HTTP_HTTP_H

#include "server/calls/services.h"

struct td_http;

/* Binds and serves. NULL (logged) when the address cannot be had. */
struct td_http *td_http_start(struct td_services *services);

/* Wakes the connections whose client has gone unnoticed: connections.h. Any thread, now and then. */
void td_http_nudge(struct td_http *http);

/* Stops serving. No connection may be asleep: all calls must have been answered. NULL is fine. */
void td_http_stop(struct td_http *http);

#endif
