/* check.h - the report of --check-config, with one line for each address, file or other resource
 * that the daemon would use.
 *
 *     ok       listen 127.0.0.1:8080: can be bound
 *     warning  table.npy: skipped: it is empty or not a regular file
 *     error    metrics-listen 127.0.0.1:9100: Address already in use
 *
 * The check changes nothing. After an error, the daemon would not start. After a warning, the
 * daemon would start without the resource that the line names.
 *
 * Threads    Main thread, in a process that does not serve. */
#ifndef TD_SERVER_CHECK_CHECK_H
#define TD_SERVER_CHECK_CHECK_H

#include "server/auth/tokens.h"
#include "server/config/config.h"
#include "server/observe/log.h"

#include <stdio.h>

/* Prints the report. Returns true if no line reports an error. The configuration must have passed
 * td_config_check_system. `tokens` are the tokens from --token-file, or NULL. */
bool td_check_start(const struct td_config *config, const struct td_tokens *tokens,
                    const struct td_log *log, FILE *out);

#endif
