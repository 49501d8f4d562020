/* credentials.h - the files of tokens and certificates: --token-file, --tls-certificate, --tls-key,
 * --tls-client-ca. The server reads the files before it starts, and again on SIGHUP. The log
 * records what was read.
 *
 * Threads  Main thread.
 * Errors   A startup error is returned in `message`. A reload error is logged and the previous
 *          content remains in effect, because another process might be writing the file at that
 *          moment. */
#ifndef TD_SERVER_CALLS_CREDENTIALS_H
#define TD_SERVER_CALLS_CREDENTIALS_H

#include "server/calls/services.h"

/* Sets services->tokens and services->tls. Each is NULL if its option is not set. */
TD_MUST_CHECK bool td_credentials_open(struct td_services *services, char *message, size_t size);

void td_credentials_reload(struct td_services *services);

void td_credentials_close(struct td_services *services);

#endif
