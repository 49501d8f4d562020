/* request_log.h - log lines of requests, at most one for each request.
 *
 *     failed   warn   a fault of the server: a status of 5xx, unless any client could cause it
 *     slow     warn   more than --slow-ms between the last byte of the body and the finished reply;
 *                     at most TD_SLOW_LINES lines a second; the next line counts the omitted lines
 *     access   info   chosen by --access-log, regardless of the log level
 *              debug  all other requests, if the log level is debug
 *
 * A line is written when the reply has been sent or cannot be sent. Its member `why` names the
 * first of these reasons that applies.
 *
 * Cost     A few comparisons for a request without a line; the clock is not read.
 * Threads  The I/O thread of the connection. The arrival time of a request decides whether it is
 *          chosen, so threads share nothing, and clients cannot influence the choice. */
#ifndef TD_SERVER_HTTP_REQUEST_LOG_H
#define TD_SERVER_HTTP_REQUEST_LOG_H

#include "server/calls/call.h"

#include <stdbool.h>

enum { TD_SLOW_LINES = 10 };

/* Logs a request when its call ends. `complete` is true if the whole reply was sent. */
void td_request_log(const struct td_call *call, bool complete);

/* Logs a request that was refused before it had a call. `socket` is -1 if unknown. */
void td_request_log_refused(struct td_services *services, const char *request_id, int socket,
                            const struct td_error *err);

/* Reports slow requests that no later line has counted. Call this function periodically. */
void td_request_log_tidy(struct td_services *services, int64_t now_ns);

#endif
