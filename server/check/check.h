/* check.h - the report of --check-config: a line for each thing that a start would use.
 *
 *     ok       listen 127.0.0.1:8080: can be bound
 *     warning  table.npy: skipped: it is empty or not a regular file
 *     error    metrics-listen 127.0.0.1:9100: Address already in use
 *
 * Changes nothing. With an error the daemon would not start; with a warning it would, without what
 * the line names.
 *
 * Threads    Main thread, in a process that does not serve. */
#ifndef TD_SERVER_CHECK_CHECK_H
#define TD_SERVER_CHECK_CHECK_H

#include "server/auth/tokens.h"
#include "server/config/config.h"
#include "server/observe/log.h"

#include <stdio.h>

/* The configuration is valid (td_config_check_system). The tokens are those of --token-file, or
 * NULL. True if no line is an error. */
bool td_check_start(const struct td_config *config, const struct td_tokens *tokens,
                    const struct td_log *log, FILE *out);

#endif
