/* request_log.h - the log lines of requests, one for each at most.
 *
 *     failed   warn    a fault of the server: a status of 5xx, except those that any client can
 *                      cause
 *     slow     warn    longer than --slow-ms from the last byte of the body until the reply is
 *                      made; TD_SLOW_LINES a second, the next line says how many there were besides
 *     access   info    chosen by --access-log, at any level of the log
 *                debug   all others, if the level is debug
 *
 * A line is written when the reply has been sent, or cannot be. The member `why` is the first of
 * these that holds.
 *
 * Cost     Of a request without a line some comparisons; no clock is read.
 * Threads  The I/O thread of the connection. Requests are chosen by the time of their arrival, so
 *          threads share nothing, and clients cannot choose. */
#ifndef TD_SERVER_HTTP_REQUEST_LOG_H
#define TD_SERVER_HTTP_REQUEST_LOG_H

#include "server/calls/call.h"

#include <stdbool.h>

enum { TD_SLOW_LINES = 10 };

/* When the call ends. complete: the whole reply was sent. */
void td_request_log(const struct td_call *call, bool complete);

/* A request that is refused before it has a call. socket: -1 if it is not known. */
void td_request_log_refused(struct td_services *services, const char *request_id, int socket,
                            const struct td_error *err);

/* From time to time: reports slow requests that no later line has reported. */
void td_request_log_tidy(struct td_services *services, int64_t now_ns);

#endif
