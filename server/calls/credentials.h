/* credentials.h - the files that say who may do what: --token-file, --tls-certificate, --tls-key,
 * --tls-client-ca. Opened before the start, read again on SIGHUP; the log says what was read.
 *
 * Threads  Main thread.
 * Errors   Of the start: the message. Of a reload: logged, and what was read before stays in force,
 *          since a file may be one that is being written. */
#ifndef TD_SERVER_CALLS_CREDENTIALS_H
#define TD_SERVER_CALLS_CREDENTIALS_H

#include "server/calls/services.h"

/* Sets services->tokens and services->tls, each NULL without its option. */
TD_MUST_CHECK bool td_credentials_open(struct td_services *services, char *message, size_t size);

void td_credentials_reload(struct td_services *services);

void td_credentials_close(struct td_services *services);

#endif
